"""What is printed is what the user's ids say, whatever they hold."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from bayescrowd.cli import console


def _printed(frame: pd.DataFrame, **options: object) -> str:
    stream = io.StringIO()
    console.show_frame(Console(file=stream, width=140, markup=True), frame, **options)
    return stream.getvalue()


@pytest.mark.parametrize("text", ["[red]", "[/]", ":smile:", "[link=x]y[/link]", "a\\[b", "日本", "1/2"])
def test_ids_are_shown_as_they_are(text: str) -> None:
    frame = pd.DataFrame({text: [text]}, index=pd.Index([text], name="item"))
    assert _printed(frame).count(text) == 3


def test_control_characters_do_not_reach_the_terminal() -> None:
    printed = _printed(pd.DataFrame({"class": ["\x1b]0;title\x07", "a\nb"]}, index=["\x1b[2J", "tab\t"]))
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed
    assert "a\\nb" in printed


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (np.array([0.5, np.nan]), ["0.500", "-"]),
        (np.array([0.99996, 1.0, 0.0001]), [">.999", "1.000", "0.000"]),
        (np.array([1.0, 2.0]), ["1", "2"]),
        (np.array([0.0, 1.0]), ["0.000", "1.000"]),
        (np.array([123456.5, np.inf]), ["1.235e+05", "inf"]),
        (np.array([True, False]), ["yes", "no"]),
        (np.array([3, -1]), ["3", "-1"]),
        (np.array(["a", None], dtype=object), ["a", "-"]),
        (pd.array(["a", pd.NA], dtype="string"), ["a", "-"]),
        (pd.array([1, pd.NA], dtype="Int64"), ["1", "-"]),
    ],
)
def test_format_column(values: object, cells: list[str]) -> None:
    assert console.format_column(pd.Series(values)) == cells


def test_a_file_gets_no_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    console.heading(console.output(), "Labels")
    console.paragraph(console.messages(), "one\ntwo [red]")
    captured = capsys.readouterr()
    assert captured.out == "\nLabels\n"
    assert captured.err == "one\ntwo [red]\n"
