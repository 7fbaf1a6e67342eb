"""Docstrings as Markdown: numpydoc sections, and the little reStructuredText that our docstrings use."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from bayescrowd.model import Diagonal

__all__ = ["Field", "fields", "inline", "markdown", "options", "sections", "shown", "table"]

_INLINE = re.compile(r"``(?P<code>.+?)``|:math:`(?P<math>.+?)`|`(?P<name>[^`]+)`", re.DOTALL)
_OPERATOR = re.compile(r"\\operatorname\{([^}]*)\}(?!\s*[_^])")


class Field(NamedTuple):
    """An entry of a numpydoc section: names, type and meaning.

    Parameters
    ----------
    names, kind, meaning : str
        As the docstring has them.
    """

    names: str
    kind: str
    meaning: str


def sections(text: str) -> dict[str, str]:
    """Cut a docstring at its underlined headings.

    Parameters
    ----------
    text : str
        A docstring without indentation.

    Returns
    -------
    dict
        Heading -> text; what stands before the first heading under ``""``.
    """
    found: dict[str, list[str]] = {"": []}
    lines = text.splitlines()
    current = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", line) and current and not found[current]:
            continue
        if line and re.fullmatch(r"-{3,}", following) and len(line) == len(following):
            current = line
            found[current] = []
        else:
            found[current].append(line)
    return {name: "\n".join(body).strip("\n") for name, body in found.items()}


def fields(text: str) -> list[Field]:
    """Read the entries of a numpydoc section such as Parameters.

    Parameters
    ----------
    text : str
        The section.

    Returns
    -------
    list of Field
        In order.
    """
    found: list[Field] = []
    for line in text.splitlines():
        if line.startswith(" ") and found:
            found[-1] = found[-1]._replace(meaning=f"{found[-1].meaning} {line.strip()}".strip())
        elif line:
            names, _, kind = line.partition(" : ")
            found.append(Field(names, kind, ""))
    return found


def inline(text: str) -> str:
    """Turn the marks within a paragraph into Markdown: literals, formulas, names.

    Parameters
    ----------
    text : str
        Docstring text.

    Returns
    -------
    str
        Markdown; formulas as GitHub reads them.
    """

    def mark(match: re.Match[str]) -> str:
        if match["math"]:
            return f"$`{_formula(match['math'])}`$"
        return f"`{' '.join((match['code'] or match['name']).split())}`"

    return _INLINE.sub(mark, text)


def _formula(text: str) -> str:
    """Put a formula on one line, in the macros that GitHub allows.

    Parameters
    ----------
    text : str
        LaTeX.

    Returns
    -------
    str
        LaTeX.
    """
    named = _OPERATOR.sub(r"\\mathrm{\1}\\,", text).replace(r"\operatorname", r"\mathrm")
    return " ".join(named.split())


def markdown(text: str) -> str:
    """Turn the body of a docstring into Markdown: paragraphs, lists, formulas, tables, examples.

    Parameters
    ----------
    text : str
        Docstring text.

    Returns
    -------
    str
        Markdown.
    """
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    done: list[str] = []
    while blocks:
        block = blocks.pop(0)
        lines = block.splitlines()
        if block.startswith(".. math::"):
            first = block.removeprefix(".. math::").strip("\n")
            body = first if first.strip() else blocks.pop(0)
            done.append(f"```math\n{_formula(body)}\n```")
        elif re.fullmatch(r"=+( +=+)+ *", lines[0]):
            done.append(_simple_table(lines))
        elif block.lstrip().startswith(">>>"):
            done.append(f"```pycon\n{block}\n```")
        else:
            done.append(inline(block))
    return "\n\n".join(done)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Lay out a Markdown table.

    Parameters
    ----------
    headings : list of str
        Of the columns.
    rows : list of list of str
        Cells, which may hold Markdown.

    Returns
    -------
    str
        Markdown.
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


def _simple_table(lines: list[str]) -> str:
    """Turn a reStructuredText simple table into Markdown."""
    edges = [(match.start(), match.end()) for match in re.finditer("=+", lines[0])]
    edges[-1] = (edges[-1][0], len(max(lines, key=len)))
    rows = [[inline(line[start:end].strip()) for start, end in edges] for line in lines if not line.startswith("=")]
    return table(rows[0], rows[1:])


def shown(value: Any) -> str:
    """Write a default value as a user would.

    Parameters
    ----------
    value : object
        The default.

    Returns
    -------
    str
        Code in backticks; nothing where there is no default.
    """
    if value is inspect.Parameter.empty or value is dataclasses.MISSING:
        return ""
    return f"`bc.diagonal({value.on:g}, {value.off:g})`" if isinstance(value, Diagonal) else f"`{value!r}`"


def options(heading: str, text: str, defaults: Mapping[str, Any]) -> str:
    """Lay out a Parameters section with the defaults that the code has.

    Parameters
    ----------
    heading : str
        Of the first column.
    text : str
        The section.
    defaults : dict
        Name -> default; all of them must be described.

    Returns
    -------
    str
        A Markdown table.
    """
    rows = []
    described: list[str] = []
    for field in fields(text):
        names = [name.strip() for name in field.names.split(",")]
        described += names
        default = ", ".join(filter(None, (shown(defaults[name]) for name in names)))
        kind = inline(field.kind.removesuffix(", optional"))
        rows.append([", ".join(f"`{name}`" for name in names), kind, default, inline(field.meaning)])
    if sorted(described) != sorted(defaults):
        raise ValueError(f"described are {described}, there are {list(defaults)}: mend the docstring")
    return table([heading, "type", "default", "meaning"], rows)
