"""Every code block of the README and the pages is run, in the order of the page, or says why not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from bayescrowd.cli import main
from docs import pages

SHELL = {"", "sh", "bash", "shell", "console"}
OTHER = {"math"}
"""Languages of blocks that are no code."""

OF_OTHER_TOOLS = {"make", "cp", "pip", "pytest"}
"""Commands that the pages show and that no test can run here; targets of make are looked up."""

MOST_NOT_RUN = 2
"""Blocks of hand-written pages that say why they are not run; those that quote a model's source are not counted."""


def _with(kind: str) -> list[Path]:
    return [page for page in pages.PAGES if any(_kind(block) == kind for block in pages.blocks(_text(page)))]


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _kind(block: pages.Block) -> str:
    if block.not_run is not None:
        return "not run"
    return "shell" if block.language in SHELL else block.language


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the table that the pages read: six workers, most of them right, on sixty items."""
    random = np.random.default_rng(2)
    truth = random.integers(0, 2, 60)
    rows = [
        (f"t{item}", f"w{worker}", ("no", "yes")[truth[item] ^ (random.random() < 0.1 + 0.03 * worker)])
        for item in range(60)
        for worker in sorted(random.choice(6, 4, replace=False))
    ]
    pd.DataFrame(rows, columns=["item", "worker", "label"]).to_csv(tmp_path / "labels.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


SLOW = {"README.md", "docs/which-engine.md"}
"""Pages whose blocks take more than a few seconds, most of it compiling."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if pages.name_of(page) in SLOW else (), id=pages.name_of(page))
        for page in _with("python")
    ],
)
def test_python(page: Path, folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in pages.blocks(_text(page)):
        if _kind(block) == "python":
            # Blank lines before, so that an error names the line of the page.
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
            exec(code, namespace)


def _commands(block: pages.Block) -> list[list[str]]:
    lines = [line.removeprefix("$ ") for line in block.code.splitlines()]
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ ")]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.slow
@pytest.mark.parametrize("page", _with("shell"), ids=pages.name_of)
def test_commands(page: Path, folder: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", _text(pages.ROOT / "Makefile"), flags=re.MULTILINE))
    for block in pages.blocks(_text(page)):
        for command, *arguments in _commands(block) if _kind(block) == "shell" else []:
            if command == "bayescrowd":
                result = CliRunner().invoke(main, arguments, prog_name="bayescrowd")
                assert result.exit_code == 0, f"line {block.line}: {result.output}"
            else:
                assert command in OF_OTHER_TOOLS, f"{pages.name_of(page)}, line {block.line}: {command} is not known"
                assert command != "make" or arguments[0] in targets, f"make {arguments[0]}: the Makefile has none"


def test_targets_that_the_text_names_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", _text(pages.ROOT / "Makefile"), flags=re.MULTILINE))
    named = {target for page in pages.PAGES for target in re.findall(r"`make ([a-z][\w-]*)", _text(page))}
    assert named <= targets


def test_languages_are_known() -> None:
    found = {block.language for page in pages.PAGES for block in pages.blocks(_text(page))}
    assert found <= {"python", "pycon"} | SHELL | OTHER


def test_few_blocks_are_not_run_and_all_say_why() -> None:
    marked = {
        page: [block.not_run for block in pages.blocks(_text(page)) if block.not_run is not None]
        for page in pages.PAGES
    }
    for page, reasons in marked.items():
        if pages.is_generated(page):
            # The source of the model, which the page test compares and the model's own tests run.
            assert all(re.fullmatch(r"quoted from models/\w+\.py", reason) for reason in reasons)
            assert len(reasons) == (page.parent.name == "models")
    by_hand = [reason for page, reasons in marked.items() if not pages.is_generated(page) for reason in reasons]
    assert len(by_hand) <= MOST_NOT_RUN
    # A marker that stands before no block would say something that is not true.
    for page, reasons in marked.items():
        assert _text(page).count("<!-- not run:") == len(reasons)


def test_examples_with_prompts_come_from_docstrings() -> None:
    # Those are run as docstrings; a page written by hand has blocks of plain Python instead.
    for page in pages.PAGES:
        if not pages.is_generated(page):
            assert all(block.language != "pycon" for block in pages.blocks(_text(page))), pages.name_of(page)


class TestBlocks:
    def test_are_cut_out_with_language_line_and_reason(self) -> None:
        text = (
            "# A\n\n```python\nx = 1\n```\n\n<!-- not run: no data -->\n\n```python\ny\n```\n\n  ```sh\n  ls\n  ```\n"
        )
        first, second, third = pages.blocks(text)
        assert first == pages.Block("python", "x = 1\n", 4, None)
        assert (second.code, second.not_run) == ("y\n", "no data")
        assert third == pages.Block("sh", "ls\n", 14, None)

    def test_a_marker_holds_for_the_next_block_alone(self) -> None:
        text = "<!-- not run: why -->\nwords\n\n```python\nx\n```\n"
        assert pages.blocks(text)[0].not_run is None

    def test_an_open_block_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="line 3 never ends"):
            pages.blocks("a\n\n```python\nx = 1\n")

    def test_commands_lose_prompts_and_comments(self) -> None:
        block = pages.Block("", "make test  # all\n$ bayescrowd fit 'a b.csv'\n", 1, None)
        assert _commands(block) == [["make", "test"], ["bayescrowd", "fit", "a b.csv"]]
        answered = pages.Block("console", "$ bayescrowd --version\nbayescrowd 0.1\n", 1, None)
        assert _commands(answered) == [["bayescrowd", "--version"]]
