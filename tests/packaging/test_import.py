"""`import bayescrowd` is light and changes nothing for others (P91, P92)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "jax",
    "numpyro",
    "funsor",
    "arviz",
    "arviz_base",
    "arviz_stats",
    "arviz_plots",
    "matplotlib",
    "xarray",
    "scipy",
)


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _loaded_by(code: str) -> list[str]:
    return json.loads(
        _python(f"{code}\nimport json, sys; print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))")
    )


def test_import_is_light() -> None:
    assert _loaded_by("import bayescrowd") == []


def test_listing_the_public_names_is_light() -> None:
    assert _loaded_by("import bayescrowd; dir(bayescrowd); bayescrowd.__all__") == []


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["fit", "--help"]])
def test_command_line_starts_light(arguments: list[str]) -> None:
    code = f"""
from bayescrowd.cli import main
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    main({arguments!r}, standalone_mode=False)
"""
    assert _loaded_by(code + "\nimport sys; assert 'pandas' not in sys.modules") == []


def test_every_public_name_resolves() -> None:
    _python(
        "import bayescrowd as bc; [getattr(bc, name) for name in bc.__all__]; assert set(bc.__all__) <= set(dir(bc))"
    )


def test_unknown_name_is_an_attribute_error() -> None:
    assert _python("import bayescrowd as bc; print(hasattr(bc, 'no_such_name'))").strip() == "False"


_STATE = """
import json, random, warnings
import numpy as np, jax
def state():
    return {
        "jax": {key: str(value) for key, value in sorted(jax.config.values.items())},
        "numpy": str(np.random.get_state()),
        "random": str(random.getstate()),
        "warnings": [str(entry) for entry in warnings.filters],
        "errors": np.geterr(),
    }
"""
_EVERYTHING = "import bayescrowd as bc; [getattr(bc, name) for name in bc.__all__]; bc.models.get('dawid-skene')\n"


def test_p92_import_after_jax_changes_no_global_setting() -> None:
    # What NumPyro and JAX do when they are imported themselves is not ours.
    code = f"{_STATE}import numpyro, pandas, scipy, xarray, arviz_base, arviz_stats, numpyro.infer, pooch\n"
    code += f"before = state()\n{_EVERYTHING}after = state()\n"
    code += "print(json.dumps([key for key in before if before[key] != after[key]]))"
    assert json.loads(_python(code)) == []


def test_p92_import_before_jax_leaves_double_precision_alone() -> None:
    code = f"{_EVERYTHING}import jax, jax.numpy as jnp\nprint(jax.config.jax_enable_x64, jnp.zeros(1).dtype)"
    assert _python(code).split() == ["False", "float32"]


def test_p92_double_precision_switched_on_by_others_stays_on() -> None:
    code = f"import jax\njax.config.update('jax_enable_x64', True)\n{_EVERYTHING}print(jax.config.jax_enable_x64)"
    assert _python(code).strip() == "True"
