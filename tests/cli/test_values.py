"""Text from the command line as values."""

from __future__ import annotations

import click
import pytest

from bayescrowd.cli import values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("1e-3", 1e-3),
        ("True", True),
        ("none", None),
        ("[1, 2]", [1, 2]),
        ('"3"', "3"),
        ("vectorized", "vectorized"),
        ("01", "01"),
        ("", ""),
    ],
)
def test_parse(text: str, value: object) -> None:
    parsed = values.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_parse_diagonal() -> None:
    prior = values.parse("diagonal(3, 1)")
    assert (prior.on, prior.off) == (3.0, 1.0)


def test_parse_bad_diagonal() -> None:
    with pytest.raises(click.UsageError, match="two numbers"):
        values.parse("diagonal(three, 1)")


def test_pairs_take_hyphens() -> None:
    assert values.pairs("--option", ["max-iterations=10", "tolerance = 1e-6"]) == {
        "max_iterations": 10,
        "tolerance": 1e-6,
    }


def test_pairs_name_every_problem() -> None:
    with pytest.raises(click.UsageError) as error:
        values.pairs("--option", ["draws", "a=1", "a=2", "1x=3"])
    for part in ("--option", "'draws'", "a is given twice", "'1x=3'"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [(None, None), ("a,b", ["a", "b"]), ("a, b", ["a", "b"]), ('"a,b",c', ["a,b", "c"]), ("", [])],
)
def test_names(text: str | None, names: list[str] | None) -> None:
    assert values.names(text) == names
