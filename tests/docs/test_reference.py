"""The pages of models, engines and baselines are up to date, and docstrings become the Markdown that is meant."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import bayescrowd as bc
from bayescrowd import inference, models
from docs import pages


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(pages.DOCS))
    return importlib.import_module("reference")


@pytest.fixture
def docstrings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(pages.DOCS))
    return importlib.import_module("docstrings")


def test_pages_are_up_to_date(reference: ModuleType) -> None:
    with pytest.raises(SystemExit) as ended:
        reference.main(["--check"])
    assert ended.value.code == 0, f"run python docs/reference.py ({ended.value.code})"


def test_every_model_engine_and_baseline_has_its_place() -> None:
    for name in models.names():
        text = (pages.DOCS / "models" / f"{name}.md").read_text(encoding="utf-8")
        for heading in ("the-story", "what-identifies-it", "priors", "engines", "program", "references"):
            assert heading in pages.parts(text), f"{name}: no {heading}"
    for name in inference.names():
        text = (pages.DOCS / "engines" / f"{name}.md").read_text(encoding="utf-8")
        assert {"options", "models", "references"} <= set(pages.parts(text))
        assert "Take it: " in text
    baselines = pages.parts((pages.DOCS / "baselines.md").read_text(encoding="utf-8"))
    assert set(bc.baselines.__all__) <= set(baselines)
    assert all("**References**" in baselines[name] for name in bc.baselines.__all__ if "vote" not in name)


def test_no_restructured_text_is_left_over() -> None:
    # What of reStructuredText is left over would be shown as it stands.
    for page in pages.PAGES:
        if pages.is_generated(page):
            text = "\n".join(pages.prose(page.read_text(encoding="utf-8")))
            for mark in (":math:", "``", "\n.. ", ":meth:", ":class:", "Parameters\n---"):
                assert mark not in text, f"{pages.name_of(page)}: {mark}"
            # Such a line would end a paragraph: it is read as a heading or a list.
            assert not [line for line in text.splitlines() if line.startswith(("=", "+ "))]


class TestStale:
    def test_changed_missing_and_left_over_pages_are_named(
        self, reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reference, "ROOT", tmp_path)
        monkeypatch.setattr(reference, "DOCS", tmp_path)
        (tmp_path / "models").mkdir()
        (tmp_path / "engines").mkdir()
        same, changed, gone, new = (tmp_path / "models" / f"{name}.md" for name in ("a", "b", "c", "d"))
        for page in (same, changed, gone):
            page.write_text("old")
        wanted = {same: "old", changed: "new", new: "new"}
        assert reference.stale(wanted) == ["models/b.md", "models/c.md", "models/d.md"]
        monkeypatch.setattr(reference, "pages", lambda: wanted)
        with pytest.raises(SystemExit, match="out of date .*: models/b.md, models/c.md, models/d.md"):
            reference.main(["--check"])
        reference.main([])
        assert reference.stale(wanted) == []
        assert not gone.exists()

    def test_an_engine_that_the_readme_does_not_know(self, reference: ModuleType) -> None:
        with pytest.raises(ValueError, match=r"README.md has no row of 'abacus'"):
            reference._when("abacus")

    def test_an_option_without_a_word_on_it(self, docstrings: ModuleType) -> None:
        with pytest.raises(ValueError, match=r"described are \['a'\], there are \['a', 'b'\]: mend the docstring"):
            docstrings.options("option", "a : int\n    What.", {"a": 1, "b": 2})


class TestDocstrings:
    def test_are_cut_at_headings(self, docstrings: ModuleType) -> None:
        found = docstrings.sections("First.\n\nMore.\n\nNotes\n-----\nA - b\n---\n\nReferences\n----------\nBook.")
        assert found == {"": "First.\n\nMore.", "Notes": "A - b\n---", "References": "Book."}

    def test_fields_have_names_kind_and_meaning(self, docstrings: ModuleType) -> None:
        text = "chains, draws : int\n    How many,\n    and more.\n**options\n    The rest."
        assert docstrings.fields(text) == [
            ("chains, draws", "int", "How many, and more."),
            ("**options", "", "The rest."),
        ]

    def test_marks_within_lines(self, docstrings: ModuleType) -> None:
        text = r"As ``a=1`` and `Fit.save` with :math:`x_{i}" + "\n" + r"\in X`."
        assert docstrings.inline(text) == r"As `a=1` and `Fit.save` with $`x_{i} \in X`$."

    def test_formulas_stand_alone_in_macros_that_github_allows(self, docstrings: ModuleType) -> None:
        text = "Is\n\n.. math:: a +\n          b\n\nand\n\n.. math::\n\n"
        assert docstrings.markdown(text + "    \\operatorname{sign} u\n    = \\operatorname{mean}_F v") == (
            "Is\n\n```math\na + b\n```\n\nand\n\n```math\n\\mathrm{sign}\\, u = \\mathrm{mean}_F v\n```"
        )

    def test_tables(self, docstrings: ModuleType) -> None:
        text = "======== =====\nsymbol   dims\n======== =====\n:math:`a` class | level\n======== ====="
        text = text.replace("======== =====", "========= =============").replace("symbol   ", "symbol    ")
        assert docstrings.markdown(text) == ("| symbol | dims |\n| --- | --- |\n| $`a`$ | class \\| level |")

    def test_examples_keep_their_prompts(self, docstrings: ModuleType) -> None:
        assert docstrings.markdown("So:\n\n>>> 1 +\\\n...  1\n2") == "So:\n\n```pycon\n>>> 1 +\\\n...  1\n2\n```"

    def test_defaults_are_what_a_user_would_type(self, docstrings: ModuleType) -> None:
        assert docstrings.shown(bc.diagonal(3, 0.5)) == "`bc.diagonal(3, 0.5)`"
        assert docstrings.shown(None) == "`None`"
        assert docstrings.options("option", "a, b : int, optional\n    What.", {"a": 1, "b": None}).splitlines()[
            -1
        ] == ("| `a`, `b` | int | `1`, `None` | What. |")
