"""Where the rows of a text table stand in its file, and what is wrong with its quotes."""

import csv
import io
from collections.abc import Callable, Iterator

from bayescrowd.errors import LabelError

__all__ = ["locate_lines", "records"]


def records(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    r"""Fields of each record that is not blank, with the line, from 1, in which the record begins.

    Parameters
    ----------
    text : str
        The whole file.
    delimiter : str
        One character.
    name : str
        The file, for messages.

    Yields
    ------
    line : int
    fields : list of str

    Raises
    ------
    LabelError
        If a quote is not closed, or text follows a closing quote.

    Examples
    --------
    >>> list(records('\nitem,label\n"a\nb",1\n\nc,2', ",", "x.csv"))
    [(2, ['item', 'label']), (3, ['a\nb', '1']), (6, ['c', '2'])]
    """
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for fields in reader:
            if len(fields) > 1 or (fields and fields[0].strip()):
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        reason = _broken_quote(text, delimiter, begin) or f"line {begin}: {error}"
        raise LabelError(f"cannot read {name!r} as a table: {reason}.") from None


def _broken_quote(text: str, delimiter: str, line: int) -> str | None:
    """Say what is wrong with the quotes from a line on, if anything is."""
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    position = start
    while (opened := text.find('"', position)) >= 0:
        if opened > start and text[opened - 1] not in (delimiter, "\n"):
            position = opened + 1  # a quote inside a field that is not quoted
            continue
        where = f"line {line + text.count(chr(10), start, opened)}"
        closed = text.find('"', opened + 1)
        while closed >= 0 and text[closed + 1 : closed + 2] == '"':
            closed = text.find('"', closed + 2)
        if closed < 0:
            return f"a quote opens in {where} and is never closed"
        if text[closed + 1 : closed + 2] not in ("", delimiter, "\n"):
            return (
                f"a quote opens in {where}, and text follows directly after the quote that closes it; is one quote "
                "missing? A quote inside a quoted field is written twice"
            )
        position = closed + 1
    return None


def locate_lines(text: str, delimiter: str, name: str, n_rows: int) -> Callable[[int], str]:
    """Name rows, counted from 0, by the lines of the file in which they begin."""
    if text.count("\n") + (not text.endswith("\n")) == n_rows + 1:
        return lambda position: f"line {position + 2}"  # one line, one row
    begins: list[int] = []

    def locate(position: int) -> str:
        if not begins:
            begins.extend(line for line, _ in records(text, delimiter, name))
        return f"line {begins[position + 1]}"

    return locate
