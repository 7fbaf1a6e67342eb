"""Fixtures for all tests. Runs before anything imports bayescrowd, so that its annotations can be checked."""

from __future__ import annotations

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
    from jaxtyping import install_import_hook

    install_import_hook("bayescrowd", "typecheck.checked")


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line how many tests had no data."""
    # Read from the reports: with several processes, only they reach the one that prints.
    count = sum(_NO_DATA in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if count:
        terminalreporter.write_line(f"{count} real-data test{'s' * (count > 1)} skipped: {_NO_DATA}")
