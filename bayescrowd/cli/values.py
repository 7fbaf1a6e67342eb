"""Text from the command line as Python values."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from typing import Any

import click

_WORDS: dict[str, object] = {"true": True, "false": False, "none": None, "null": None}
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_DIAGONAL = re.compile(r"diagonal\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)")


def parse(text: str) -> Any:
    """Return a value written on the command line: a number, a word, a list, `diagonal(on, off)`, or text.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    object
        `int`, `float`, `bool`, `None`, `list`, a diagonal prior, or the text itself.

    Examples
    --------
    >>> parse("3"), parse("1e-3"), parse("none"), parse("[[3, 1], [1, 3]]"), parse("vectorized")
    (3, 0.001, None, [[3, 1], [1, 3]], 'vectorized')
    """
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    found = _DIAGONAL.fullmatch(stripped)
    if found:
        try:
            on, off = float(found[1]), float(found[2])
        except ValueError:
            raise click.UsageError(f"{text!r}: diagonal takes two numbers, for example diagonal(3, 1)") from None
        from bayescrowd.model import diagonal

        return diagonal(on, off)
    try:
        return json.loads(stripped)
    except ValueError:
        return stripped


def pairs(option: str, entries: Iterable[str]) -> dict[str, Any]:
    """Return `key=value` entries of one option as a dict; every malformed or repeated one is named at once."""
    result: dict[str, Any] = {}
    problems = []
    for entry in entries:
        key, equals, value = entry.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            problems.append(f"{entry!r} is not of the form key=value")
        elif key in result:
            problems.append(f"{key} is given twice")
        else:
            result[key] = parse(value)
    if problems:
        raise click.UsageError(f"{option}: " + "; ".join(problems))
    return result


def names(text: str | None) -> list[str] | None:
    """Return a comma-separated list; a name that holds a comma is put in double quotes.

    Examples
    --------
    >>> names('yes,"no, never",unsure')
    ['yes', 'no, never', 'unsure']
    """
    if text is None:
        return None
    return next(csv.reader([text], skipinitialspace=True), [])


def whole(texts: list[str]) -> list[Any]:
    """Return the values as integers if each is written as an integer is, as reading a column does; else as they are.

    Examples
    --------
    >>> whole(["1", "2"]), whole(["01", "2"]), whole(["1", "unsure"])
    ([1, 2], ['01', '2'], ['1', 'unsure'])
    """
    return [int(text) for text in texts] if all(_INTEGER.fullmatch(text) for text in texts) else list(texts)
