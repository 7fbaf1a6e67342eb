"""HTML made of escaped pieces: nothing that a stranger wrote becomes markup."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

from bayescrowd.errors import count_of

__all__ = [
    "Markup",
    "Number",
    "bullet_list",
    "cards",
    "counted",
    "document",
    "element",
    "join",
    "number",
    "percent",
    "picture",
    "table",
]

STYLE = """
:root { --ink: #1c2733; --soft: #5b6875; --line: #d9dfe5; --back: #f6f8fa; --good: #1a7f4b; --care: #9a6700;
  --bad: #b3261e; --accent: #2a5d9f; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; }
.verdict { border-left: .4rem solid var(--soft); background: var(--back); padding: .75rem 1rem; margin: 1.25rem 0; }
.verdict strong { font-size: 1.15rem; }
.verdict.good { border-color: var(--good); } .verdict.good strong { color: var(--good); }
.verdict.care { border-color: var(--care); } .verdict.care strong { color: var(--care); }
.verdict.bad { border-color: var(--bad); } .verdict.bad strong { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.card { border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; }
.card b { display: block; font-size: 1.4rem; line-height: 1.2; } .card span { color: var(--soft); font-size: .85rem; }
.findings { list-style: none; padding: 0; } .findings li { margin: 0 0 .8rem; padding-left: .8rem; border-left: .25rem
  solid var(--line); }
.findings li.problem { border-color: var(--bad); } .findings li.caution { border-color: var(--care); }
.findings em { display: block; color: var(--soft); font-style: normal; }
.tag { font-size: .75rem; font-weight: 600; text-transform: uppercase; letter-spacing: .04em; margin-right: .4rem; }
.problem .tag { color: var(--bad); } .caution .tag { color: var(--care); } .note .tag { color: var(--soft); }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.text { max-width: 22rem; overflow: hidden; text-overflow: ellipsis; }
td.number, th.number { text-align: right; } thead th { color: var(--soft); font-weight: 600; }
tr.bad td { background: #fdf0ef; } tr.care td { background: #fdf7e8; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; display: block; }
details { margin: .75rem 0; } summary { cursor: pointer; color: var(--accent); }
@media print { .scroll { overflow: visible; } main { max-width: none; } h2 { break-after: avoid; } figure, tr {
  break-inside: avoid; } }
"""


class Markup(str):
    """Text that is HTML already; everything else is escaped when it is put into an element."""

    __slots__ = ()


def _escaped(part: object) -> str:
    return str(part) if isinstance(part, Markup) else html.escape(str(part))


def join(parts: Iterable[object]) -> Markup:
    """Put pieces one after the other.

    Parameters
    ----------
    parts : iterable
        Markup, or anything else, which is escaped.

    Returns
    -------
    Markup
        All of them.
    """
    return Markup("".join(_escaped(part) for part in parts))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Build an element.

    Parameters
    ----------
    tag : str
        Its name.
    *content
        Markup, or anything else, which is escaped.
    **attributes
        Escaped; ``class_`` stands for ``class``; None leaves one out.

    Returns
    -------
    Markup
        The element.
    """
    written = "".join(
        f' {name.rstrip("_")}="{html.escape(str(value))}"' for name, value in attributes.items() if value is not None
    )
    return Markup(f"<{tag}{written}>{join(content)}</{tag}>")


def table(
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    marks: Sequence[str | None] | None = None,
) -> Markup:
    """Build a table that scrolls sideways where it is too wide.

    Parameters
    ----------
    headings : sequence
        One per column.
    rows : iterable of sequences
        Cells; numbers (written as text that starts with a digit or a sign) stand to the right.
    marks : sequence of str or None, optional
        ``"bad"`` or ``"care"`` for a row that is to stand out.

    Returns
    -------
    Markup
        The table.
    """
    rows = [list(row) for row in rows]
    numeric = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(headings))]
    kinds = ["number" if number else "text" for number in numeric]
    head = join(
        element("th", text, class_=kind if kind == "number" else None, scope="col")
        for text, kind in zip(headings, kinds, strict=True)
    )
    body = []
    for position, row in enumerate(rows):
        cells = [
            element("td", cell, class_=kind, title=cell if kind == "text" and len(str(cell)) > _LONG else None)
            for cell, kind in zip(row, kinds, strict=True)
        ]
        body.append(element("tr", *cells, class_=marks[position] if marks else None))
    inner = element("table", element("thead", element("tr", head)), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0")


_LONG = 40


def _is_number(cell: object) -> bool:
    return isinstance(cell, Number)


class Number(str):
    """A number as it is shown; stands to the right in tables."""

    __slots__ = ()


def number(value: float, digits: int = 2) -> Number:
    """Write a number for a table.

    Parameters
    ----------
    value : float
        NaN becomes a dash.
    digits : int
        After the point.

    Returns
    -------
    Number
        Text.
    """
    return Number("–" if value != value else f"{value:,.{digits}f}")


def percent(value: float, digits: int = 0) -> Number:
    """Write a share as a percentage.

    Parameters
    ----------
    value : float
        Between 0 and 1; NaN becomes a dash.
    digits : int
        After the point.

    Returns
    -------
    Number
        Text.
    """
    return Number("–" if value != value else f"{100 * value:.{digits}f} %")


def bullet_list(lines: Iterable[object]) -> Markup:
    """Build a list.

    Parameters
    ----------
    lines : iterable
        Escaped unless Markup.

    Returns
    -------
    Markup
        The list.
    """
    return element("ul", *(element("li", line) for line in lines))


def cards(values: Iterable[tuple[object, str]]) -> Markup:
    """Show a few figures large.

    Parameters
    ----------
    values : iterable of (figure, caption)
        What to show.

    Returns
    -------
    Markup
        A row of cards that wraps.
    """
    shown = (
        element("div", element("b", figure), element("span", caption), class_="card") for figure, caption in values
    )
    return element("div", *shown, class_="cards")


def counted(count: int, noun: str, more: str = "") -> tuple[str, str]:
    """Write a number of things for a card.

    Parameters
    ----------
    count : int
        How many.
    noun : str
        In the singular.
    more : str
        What follows it.

    Returns
    -------
    tuple of str
        Figure and caption.
    """
    figure, words = count_of(count, noun).split(" ", 1)
    return figure, f"{words} {more}".strip()


def picture(figure: Any, text: str) -> Markup:
    """Embed a matplotlib figure.

    Parameters
    ----------
    figure : matplotlib Figure
        The picture.
    text : str
        What it shows, for those who do not see it; the picture has a title of its own.

    Returns
    -------
    Markup
        An image inside the page; nothing is fetched.
    """
    buffer = io.BytesIO()
    # Pictures are laid out to fit; a tight box would draw each a second time to find the same.
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    image = Markup(f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}">')
    return element("figure", image)


def document(title: str, body: Markup) -> str:
    """Build the page.

    Parameters
    ----------
    title : str
        Of the window.
    body : Markup
        Everything on it.

    Returns
    -------
    str
        One HTML document that loads nothing and runs nothing: its security policy forbids both.
    """
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )
