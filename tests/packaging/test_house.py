"""House rules that no linter knows, and every example in a docstring."""

from __future__ import annotations

import ast
import doctest
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "bayescrowd").rglob("*.py"), *(ROOT / "models").glob("*.py")])
_ids = [str(path.relative_to(ROOT)) for path in FILES]


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "models":
        parts = ("bayescrowd", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", FILES, ids=_ids)
def test_no_assert_and_no_print_in_the_package(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # Asserts are gone under `python -O`; only the command line speaks.
    asserts = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    prints = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert (asserts, prints) == ([], [])


@pytest.mark.parametrize("path", FILES, ids=_ids)
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize(
    "path",
    [
        # A model's example samples from its program, most of which is compiling.
        pytest.param(path, id=_module(path), marks=pytest.mark.slow if path.parent.name == "models" else ())
        for path in FILES
        if path.name != "__main__.py"
    ],
)
def test_examples_in_docstrings(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(_module(path))
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for test in finder.find(module, module.__name__):
        runner.run(test, out=report.append)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    assert runner.failures == 0, "".join(report)


def test_every_model_has_its_parts() -> None:
    for path in sorted((ROOT / "models").glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        assert "Reference" in (ast.get_docstring(ast.parse(text)) or ""), (
            f"{path.name}: the docstring cites no reference"
        )
