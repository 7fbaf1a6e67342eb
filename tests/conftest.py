"""Fixtures for all tests. Runs before anything imports bayescrowd, so that its annotations can be checked."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
_NO_DATA = "set BAYESCROWD_DATA"

if os.environ.get("BAYESCROWD_TYPECHECK", "1") != "0":
    # Every annotation, shapes included, is checked on every call; BAYESCROWD_TYPECHECK=0 turns it off.
    if any(name.split(".")[0] == "bayescrowd" for name in sys.modules):
        raise RuntimeError("bayescrowd was imported before tests/conftest.py: its annotations would go unchecked")
    import typecheck

    typecheck.install()


# Traces and compiled programs are many objects that live long: looking through them often finds nothing.
gc.set_threshold(20_000, 20, 50)


def pytest_collection_finish() -> None:
    """Leave out of all collections what the imports have made."""
    gc.collect()
    gc.freeze()


_LONGEST = (
    "test_real_defaults",
    "test_notebooks",
    "test_leave_one_out",
    "test_engines",
    "test_real_data",
    "test_density",
    "test_house",
    "test_svi",
    "test_sbc",
    "test_golden",
    "test_collapsed_vi",
    "test_vb",
    "test_checks",
    "test_invariance",
    "test_commands",
    "test_user_pains_numbers",
)
"""Modules that take minutes, the longest first."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest modules where several processes share the work: none is left with one at the end."""
    if hasattr(config, "workerinput"):
        place = {name: number for number, name in enumerate(_LONGEST)}
        items.sort(key=lambda item: place.get(item.path.stem, len(place)))


_MAPS = Path("/proc/self/maps")
_MOST_MAPS = 20_000
_ran = [0]


@pytest.fixture(autouse=True)
def _room_for_compiled_code() -> Any:
    """Forget compiled code before the process has more memory maps than Linux allows by default (65530)."""
    yield
    _ran[0] += 1
    if _ran[0] % 20 or not _MAPS.is_file() or "jax" not in sys.modules:
        return
    with _MAPS.open("rb") as lines:
        n_maps = sum(1 for _ in lines)
    if n_maps > _MOST_MAPS:
        sys.modules["jax"].clear_caches()
        gc.collect()


_COMPILED_MOST = {
    "test_annotations",
    "test_bcc",
    "test_collapsed_vi",
    "test_comparison",
    "test_conventions",
    "test_density",
    "test_dependence",
    "test_em",
    "test_engines",
    "test_entries",
    "test_estimators",
    "test_glad",
    "test_house",
    "test_identifiability",
    "test_identities",
    "test_invariance",
    "test_kfold",
    "test_likelihood",
    "test_loo",
    "test_mace",
    "test_minimax_entropy",
    "test_new_model",
    "test_paper_moments",
    "test_precision",
    "test_prior_predictive",
    "test_refit",
    "test_sensitivity",
    "test_spectral_dawid_skene",
    "test_states",
    "test_tensor_admm",
    "test_vb",
}
"""Modules whose time is the compiler's: many small programs, each run for a moment on a tiny table."""


@pytest.fixture(autouse=True, scope="module")
def _compiled_in_a_hurry(request: pytest.FixtureRequest) -> Any:
    """Leave out the compiler's optimisations where they cost more than they save; other modules test what they make."""
    if request.module.__name__.rpartition(".")[2] not in _COMPILED_MOST:
        yield
        return
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def data_folder() -> Path | None:
    """The folder of real data sets (NAME/labels.csv), or None."""
    named = os.environ.get("BAYESCROWD_DATA")
    if named:
        folder = Path(named)
        if not folder.is_dir():
            raise RuntimeError(f"BAYESCROWD_DATA={named!r} is no folder")
        return folder
    beside = ROOT.parent / "shared" / "data"
    return beside if beside.is_dir() else None


@pytest.fixture(scope="session")
def real_data(data_folder: Path | None) -> Callable[[str], Any]:
    """`real_data(name)`: the labels of a real data set; the test is skipped where the set is not to be had."""
    loaded: dict[str, Any] = {}

    def load(name: str) -> Any:
        if name not in loaded:
            if data_folder is None or not (data_folder / name / "labels.csv").is_file():
                pytest.skip(f"real data set {name!r} is not here: {_NO_DATA}")
            import bayescrowd as bc

            loaded[name] = bc.datasets.load(name, folder=data_folder)
        return loaded[name]

    return load


@pytest.fixture
def unrepeated(real_data: Callable[[str], Any]) -> Callable[[str], Any]:
    """`unrepeated(name)`: a data set in which a worker says the same thing of an item but once."""

    def load(name: str) -> Any:
        import bayescrowd as bc

        labels = real_data(name)
        frame = labels.to_frame()[["item", "worker", "label"]]
        truth = labels.truth.dropna()
        truth = truth[truth.isin(labels.classes)]
        return bc.CrowdLabels.from_long(
            frame.assign(truth=frame["item"].map(truth)),
            item="item",
            worker="worker",
            label="label",
            truth="truth",
            classes=labels.classes,
            duplicates="drop-identical",
        )

    return load


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line how many tests had no data."""
    # Read from the reports: with several processes, only they reach the one that prints.
    count = sum(_NO_DATA in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if count:
        terminalreporter.write_line(f"{count} real-data test{'s' * (count > 1)} skipped: {_NO_DATA}")
