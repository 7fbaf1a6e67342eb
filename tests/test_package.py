"""The package itself: light to import, everything public reachable, functions not shadowed by modules."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import bayescrowd as bc


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_is_light() -> None:
    heavy = ("numpyro", "arviz", "arviz_base", "arviz_stats", "matplotlib", "jax", "pandas", "numpy", "xarray")
    assert _run(f"import bayescrowd, sys; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_every_public_name_is_there() -> None:
    for name in bc.__all__:
        assert getattr(bc, name) is not None
        assert name in dir(bc)
    assert bc.__version__ == __import__("importlib.metadata").metadata.version("bayescrowd")
    assert "__version__" in dir(bc)


def test_models_are_found_in_the_reading_room() -> None:
    import bayescrowd.models

    for name in bayescrowd.models.names():
        model = bayescrowd.models.get(name)
        assert getattr(bc, model.__name__) is model


def test_functions_are_not_shadowed_by_modules() -> None:
    # `bayescrowd.fit` and `bayescrowd.simulate` are modules and functions; a user always gets the function.
    program = (
        "import bayescrowd.fit, bayescrowd.simulate\n"
        "import bayescrowd as bc\n"
        "from bayescrowd.fit import Fit\n"
        "from bayescrowd import fit\n"
        "print(type(bc.fit).__name__, type(bc.simulate).__name__, fit is bc.fit, Fit is bc.Fit)"
    )
    assert _run(program) == "function function True True"
    assert not isinstance(bc.fit, types.ModuleType)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuchModel'"):
        bc.NoSuchModel  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bc.nothing  # noqa: B018
