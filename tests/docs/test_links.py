"""Links of the pages lead somewhere, every page can be reached, and quoted figures are on the page that is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import pages

MEASURED = {"benchmarks.md", "calibration.md", "models.md", "moments.md", "paper-tables.md"}


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _local(page: Path) -> list[tuple[pages.Link, Path, str]]:
    found = []
    for link in pages.links(_text(page)):
        if not re.match(r"[a-z]+:", link.target):
            path, _, anchor = link.target.partition("#")
            found.append((link, (page.parent / path).resolve() if path else page, anchor))
    return found


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link, target, anchor in _local(page):
        assert target.exists(), f"{pages.name_of(page)}, line {link.line}: {link.target}"
        if anchor:
            assert anchor in pages.parts(_text(target)), f"{pages.name_of(page)}, line {link.line}: {link.target}"


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_text_has_no_link_without_target(page: Path) -> None:
    # `[text]` with a target on the next line, or with a blank between, is shown as it stands.
    assert not re.search(r"\]\s+\(\S+\.md", "\n".join(pages.prose(_text(page))))


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, waiting = set(), [pages.DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            waiting += [target for _, target, _ in _local(page)]
    assert [pages.name_of(page) for page in pages.PAGES if page not in seen] == []


def test_no_page_names_a_place_on_a_machine() -> None:
    for page in pages.PAGES:
        assert not re.search(r"(?<![\w.])/(home|tmp|work|root|Users)/", _text(page)), pages.name_of(page)


def _figures() -> list[tuple[int, str, str]]:
    return [
        (link.line, link.text, link.target)
        for link in pages.links(_text(pages.DOCS / "which-engine.md"))
        if re.fullmatch(r"-?[\d.,]+", link.text)
    ]


def test_quoted_figures_are_where_they_are_said_to_be() -> None:
    figures = _figures()
    assert len(figures) > 60
    gone = []
    for line, figure, target in figures:
        name, _, anchor = target.partition("#")
        assert name in MEASURED
        there = pages.parts(_text(pages.DOCS / name))[anchor]
        if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", there):
            gone.append(f"line {line}: {figure} is no longer in {target}")
    assert gone == []


def test_every_figure_of_the_guide_names_its_page() -> None:
    # Numbers with a unit of measurement must be links; sizes, shares and settings need none.
    text = "\n".join(pages.prose(_text(pages.DOCS / "which-engine.md")))
    bare = re.sub(r"\[[^\]]*\]\([^)]*\)", "", text)
    # "20 s" is the limit of a page that is linked beside it.
    assert re.findall(r"[\d.]+ (?:s|ms|MB|GB|draws/s)\b", bare) == ["20 s"]


class TestParts:
    def test_anchors_are_those_of_github(self) -> None:
        assert pages.slug("Error, %") == "error-"
        assert pages.slug(" `kos`") == "kos"
        assert pages.slug("Smallest effective sample size per second") == "smallest-effective-sample-size-per-second"

    def test_a_part_holds_its_subheadings(self) -> None:
        found = pages.parts("# A\n\none\n\n## B\n\ntwo\n\n# C\n\n## B\n")
        assert list(found) == ["a", "b", "c", "b-1"]
        assert "two" in found["a"]
        assert "one" not in found["b"]

    def test_code_has_no_headings_and_no_links(self) -> None:
        text = "# A\n\n```python\n# B\n[x](y.md)\n```\n\n[z](w.md) and ![p](q.png)\n"
        assert list(pages.parts(text)) == ["a"]
        assert [link.target for link in pages.links(text)] == ["w.md", "q.png"]
