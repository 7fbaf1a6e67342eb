"""What the commands print, and how: tables, notes, and the user's own text shown as it is."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

# A pipe or a file has no width of its own; 80 columns would cut numbers off.
_WIDTH_OF_A_FILE = 140


def output() -> Console:
    """Return the console of standard output."""
    return _console(stderr=False)


def messages() -> Console:
    """Return the console of standard error: notes, warnings, progress."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        # An id in any script must not end the run on a terminal that cannot show it.
        stream.reconfigure(errors="backslashreplace")
    width = None if stream.isatty() else _WIDTH_OF_A_FILE
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def literal(value: object) -> Text:
    r"""Return a user's value as text that the terminal shows as it is: no markup, no control characters.

    Parameters
    ----------
    value : object
        An id or a label.

    Returns
    -------
    rich.text.Text
        The value, unprintable characters escaped.

    Examples
    --------
    >>> literal("[red]\x1b[31m").plain
    '[red]\\x1b[31m'
    """
    text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return Text(text, overflow="fold")


def heading(console: Console, text: str) -> None:
    """Print the heading of a section."""
    console.print()
    console.print(Text(text, style="bold"))


def paragraph(console: Console, text: object) -> None:
    """Print text of ours, line by line as it is."""
    for line in str(text).splitlines():
        console.print(literal(line), soft_wrap=True)


def show_frame(console: Console, frame: pd.DataFrame, *, index: str | None = None) -> None:
    """Print a frame as a table, its index as the first column.

    Parameters
    ----------
    console : rich.console.Console
        Where to.
    frame : pandas.DataFrame
        Rows to print, all of them.
    index : str, optional
        Heading of the index; by default its own name.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    name = "" if frame.index.name is None else frame.index.name
    table.add_column(literal(name if index is None else index))
    for column in frame.columns:
        numeric = frame[column].dtype.kind in "iuf"
        table.add_column(literal(column), justify="right" if numeric else "left")
    columns = [format_column(frame[column]) for column in frame.columns]
    for position, key in enumerate(frame.index):
        table.add_row(literal(key), *(literal(cells[position]) for cells in columns))
    console.print(table)


def format_column(values: pd.Series) -> list[str]:
    """Return a column's cells as short text: three decimals for fractions, a dash for what is not there."""
    if values.dtype.kind == "f":
        finite = [float(value) for value in values if math.isfinite(value)]
        # Sums of weights may be whole; shares and probabilities keep their decimals even if all are 0 or 1.
        whole = all(value.is_integer() for value in finite) and any(abs(value) > 1 for value in finite)
        return [_number(float(value), whole) for value in values]
    if values.dtype.kind == "b":
        return ["yes" if value else "no" for value in values]
    return ["-" if _absent(value) else str(value) for value in values]


def _number(value: float, whole: bool) -> str:
    if math.isnan(value):
        return "-"
    if whole or not math.isfinite(value):
        return f"{value:.0f}"
    # .9996 shown as 1.000 would claim certainty.
    if 0.9995 <= value < 1:
        return ">.999"
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.4g}"


def _absent(value: object) -> bool:
    # pandas' own missing values are the only ones that differ from themselves or refuse comparison.
    return (
        value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and value != value)
    )
