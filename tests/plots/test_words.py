"""Ids of strangers and shares as text: no mathematics, nothing hidden, nothing missing, nothing twice."""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from bayescrowd.plots import _text
from bayescrowd.plots._text import families, people, percent, quoted, readable, say


def _drawn(text: str, family: Any = None) -> str:
    """What matplotlib makes of a text: draws it, warnings being errors, and gives what it drew."""
    figure = Figure()
    artist = figure.text(0, 0, text, fontfamily=family or families([text]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    shown, math = artist._preprocess_math(text)
    assert math is False
    return str(shown)


@given(st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_is_drawn_as_it_stands(text: str) -> None:
    shown = _drawn(say(text))
    if text.isascii() and text.isprintable() and text.strip():
        assert shown == text
    assert shown.strip()
    assert "\n" not in shown


@given(st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=8), st.integers(8, 30))
@settings(max_examples=60, deadline=None)
def test_different_ids_stay_different_and_short(ids: list[str], width: int) -> None:
    texts = readable(ids, width)
    assert len(set(texts)) == len(ids)
    assert all(_text._columns(text.replace("\\$", "$")) <= width + 4 for text in texts)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("$x_1$", r"\$x_1\$"),
        ("a\\$b$", r"a\\$b\$"),
        ("", "''"),
        ("  ", "'  '"),
        ("two\nlines", r"two\nlines"),
        ("\u202eabc\x00", r"\u202eabc\x00"),
        ("\ud800", r"\ud800"),
        (3, "3"),
        (2.5, "2.5"),
        (None, "None"),
        (("a", 1), "('a', 1)"),
        ("<script>", "<script>"),
    ],
)
def test_what_has_no_picture_is_spelled_out(value: Any, expected: str) -> None:
    assert say(value) == expected
    _drawn(say(value))


def test_long_ids_lose_their_middle_and_repeats_are_no_others() -> None:
    ids = ["an-id-of-many-characters-0017", "an-id-of-mxxy-characters-0017", "w", "an-id-of-many-characters-0017"]
    assert readable(ids, 16) == ["an-id…many…-0017", "an-id…mxxy…-0017", "w", "an-id…many…-0017"]
    assert readable(ids[:1], None) == ids[:1]
    assert readable([1, "1", "a\nb", "a\\nb", 1]) == ["1 #1", "1 #2", "a\\nb #1", "a\\nb #2", "1 #1"]


def test_people_and_quotes() -> None:
    assert people(["w1", 5, ("a", 2)]) == ["w1", "worker 5", "worker ('a', 2)"]
    assert (quoted("yes"), quoted(3), quoted("$")) == ("“yes”", "3", r"“\$”")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "0"), (1e-5, "<1"), (0.0049, "<1"), (0.006, "1"), (0.5, "50"), (0.994, "99"), (0.999, ">99"), (1.0, "100")],
)
def test_percent_never_says_all_or_nothing_of_nearly(share: float, expected: str) -> None:
    assert percent(share) == f"{expected}\u00a0%"
    assert percent(float("nan")) == "unknown"


def test_characters_that_the_usual_font_lacks_are_taken_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    letter = "\u05d0"  # of matplotlib's own fonts DejaVu Sans has it, DejaVu Serif has not
    assert families(["plain"]) is None
    # One font beside the usual one: the letter is drawn from it, and a Chinese one is spelled out.
    monkeypatch.setattr(_text, "_fonts", lambda: ["DejaVu Sans"])
    _text._search.cache_clear()
    try:
        with mpl.rc_context({"font.family": ["DejaVu Serif"]}):
            assert families(["plain"]) is None
            assert families([letter]) == ["DejaVu Serif", "DejaVu Sans"]
            assert say(letter).strip("\u2068\u2069") == letter
            assert _drawn(letter) == letter
            assert say("工") == r"\u5de5"
    finally:
        _text._search.cache_clear()


def test_fonts_of_formulas_pictures_and_last_resort_draw_no_text() -> None:
    names = _text._fonts()
    assert "DejaVu Serif" in names
    assert not [name for name in names if "Emoji" in name or name.startswith(("cm", "STIXSize", "LastResort"))]


def test_a_broken_font_file_is_passed_over(tmp_path: Any) -> None:
    path = tmp_path / "broken.ttf"
    path.write_bytes(b"no font")
    assert _text._characters_of(str(path)) is None


def test_every_text_of_a_figure_gets_the_fonts_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from bayescrowd.plots import _heading

    figure = Figure()
    axes = figure.subplots()
    axes.set_yticks([0, 1], ["ä", "b"])
    figure.text(0, 0, "title")
    seen: list[str] = []
    monkeypatch.setattr(_heading, "families", lambda texts: seen.extend(texts) or ["sans-serif", "DejaVu Serif"])
    _heading.mend_fonts(figure)
    assert {"title", "ä", "b"} <= set(seen)
    assert {tuple(text.get_fontfamily()) for text in figure.findobj(Text)} == {("sans-serif", "DejaVu Serif")}


def test_names_that_would_look_alike_keep_what_differs() -> None:
    models = ("ChatGPT-0301", "ChatGPT", "Falcon", "GPT-4")
    prompts = ("CoT", "Metrics", "Metrics_Reference", "Reference", "Swap", "Swap_CoT", "Vanilla", "Vanilla_NoRules")
    ids = [f"{model}/{prompt}/o{run}" for model in models for prompt in prompts for run in (1, 2)]
    for width in (10, 16, 18, 26):
        texts = readable(ids, width)
        assert len(set(texts)) == len(ids)
        assert not any("#" in text for text in texts), width
        assert max(map(len, texts)) <= width
    pages = [f"https://example.org/{number}/this-or-that" for number in (1234, 5678)]
    assert readable(pages, 14) == ["htt…/1234/…hat", "htt…/5678/…hat"]


def test_ids_from_right_to_left_are_isolated_where_matplotlib_turns_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    hebrew = "\u05e9\u05dc\u05d5\u05dd"
    monkeypatch.setattr(_text, "_TURNS_LINES", True)
    assert readable([hebrew, "w"]) == [f"\u2068{hebrew}\u2069", "w"]
    monkeypatch.setattr(_text, "_TURNS_LINES", False)
    assert readable([hebrew]) == [hebrew]


def test_preferred_fonts_come_first_and_need_no_usual_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    entries = [("A Sans", 400), ("WenQuanYi Zen Hei", 500), ("B Sans", 700)]
    fonts = [SimpleNamespace(name=name, weight=weight, style="normal") for name, weight in entries]
    monkeypatch.setattr(_text.font_manager, "fontManager", SimpleNamespace(ttflist=fonts))
    assert _text._fonts() == ["WenQuanYi Zen Hei", "A Sans"]
