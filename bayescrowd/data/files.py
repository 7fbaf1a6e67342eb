"""From files to tables: csv, tsv, parquet, json and jsonl, plain or compressed."""

import bz2
import difflib
import gzip
import io
import json
import lzma
import os
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from bayescrowd.data.lines import locate_lines, records
from bayescrowd.errors import LabelError, count_of, problems_message, shorten

__all__ = ["is_integer", "numbers_of_text", "read_table"]

_OPENERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_DELIMITERS = (",", "\t", ";", "|")
_LEADING_BLANK = re.compile(r"\A(?:[ ]*\n)+")
_FORMATS = "csv, tsv, txt, parquet, json, jsonl or ndjson, also with .gz, .bz2 or .xz"


def read_table(path: object, encoding: str | None) -> tuple[pd.DataFrame, bool, Callable[[int], str]]:
    """Read a file as a table.

    Parameters
    ----------
    path : path
        What to read; the ending says how.
    encoding : str or None
        Encoding of a text file; by default UTF-8, or what a byte order mark says.

    Returns
    -------
    frame : DataFrame
        Its columns: text in a csv or tsv file, else as stored.
    is_text : bool
        Whether everything is text.
    locate : callable
        Names a row position for messages.

    Raises
    ------
    LabelError
        If the file is absent, empty, broken or of an unknown kind.
    """
    if not isinstance(path, (str, os.PathLike)):
        hint = " CrowdLabels.from_long and from_wide take tables that are in memory." if hasattr(path, "shape") else ""
        raise LabelError(f"path must be the name of a file, as text or a Path, not a {type(path).__name__}.{hint}")
    file = Path(path).expanduser()
    _check_there(file)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    opener = _OPENERS.get(suffixes[-1]) if suffixes else None
    kind = (suffixes[-2] if len(suffixes) > 1 else "") if opener else (suffixes[-1] if suffixes else "")
    try:
        content = file.read_bytes()
        if opener is not None:
            content = opener(content)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise LabelError(f"cannot read {str(file)!r}: {error}.") from error
    if not content.strip():
        raise LabelError(f"{str(file)!r} is empty; a label table needs a line of column names and rows.")
    if kind in (".parquet", ".pq"):
        return _parquet(content, file), False, lambda position: f"row {position} (counted from 0)"
    if kind in (".csv", ".tsv", ".txt", ".tab", ".dat", ""):
        frame, locate = _delimited(_decode(content, encoding, file), "\t" if kind in (".tsv", ".tab") else None, file)
        return frame, True, locate
    if kind == ".json":
        return _json(_decode(content, encoding, file), file), False, lambda position: f"record {position + 1}"
    if kind in (".jsonl", ".ndjson"):
        frame, lines = _json_lines(_decode(content, encoding, file), file)
        return frame, False, lambda position: f"line {lines[position]}"
    raise LabelError(f"{str(file)!r} is of an unknown kind; labels can be read from {_FORMATS}.")


def _check_there(file: Path) -> None:
    if file.is_dir():
        inside = sorted(entry.name for entry in file.iterdir() if entry.is_file())
        raise LabelError(f"{str(file)!r} is a folder; name the file in it. It holds {shorten(inside)}.")
    if not file.exists():
        beside = [entry.name for entry in file.parent.iterdir()] if file.parent.is_dir() else []
        close = difflib.get_close_matches(file.name, beside, 3, 0.6)
        hint = f" Close to it: {shorten(close)}." if close else ""
        raise LabelError(f"there is no file {str(file)!r} (looked from {str(Path.cwd())!r}).{hint}")


def _decode(content: bytes, encoding: str | None, file: Path) -> str:
    if encoding is None:
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LabelError(
            f"{str(file)!r} is not {encoding} text: byte {content[error.start]:#x} in line {line}. Pass its encoding, "
            "such as encoding='latin-1' or encoding='cp1252'."
        ) from error
    except LookupError as error:
        raise LabelError(f"encoding={encoding!r} is unknown.") from error


def _delimited(text: str, delimiter: str | None, file: Path) -> tuple[pd.DataFrame, Callable[[int], str]]:
    """Read a text table; every row must have as many fields as there are column names."""
    body = _LEADING_BLANK.sub("", text)
    if delimiter is None:
        first = body.split("\n", 1)[0]
        delimiter = max(_DELIMITERS, key=first.count)
    _, header = next(records(text, delimiter, str(file)))
    if '"' in text or _may_be_ragged(body, delimiter, len(header)):
        _check_ragged(text, delimiter, len(header), file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(body),
                sep=delimiter,
                header=0,
                names=list(range(len(header))),
                dtype=str,
                na_filter=False,
                index_col=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        # rows too long and rows too short, as many delimiters as whole rows have
        _check_ragged(text, delimiter, len(header), file)
        raise LabelError(f"cannot read {str(file)!r} as a table: {' '.join(str(error).split())}.") from error
    frame.columns = pd.Index([name.strip() for name in header], dtype=object)
    return frame, locate_lines(text, delimiter, str(file), len(frame))


def _may_be_ragged(text: str, delimiter: str, n_columns: int) -> bool:
    # as many delimiters as whole rows have: a short row needs a long one, which pandas complains about
    lines = text.count("\n") + (not text.endswith("\n")) - text.count("\n\n")
    return text.count(delimiter) != lines * (n_columns - 1)


def _check_ragged(text: str, delimiter: str, n_columns: int, file: Path) -> None:
    """Name the lines with too many or too few fields, if there are any."""
    bad = [
        f"line {line} has {len(fields)}"
        for line, fields in records(text, delimiter, str(file))
        if len(fields) != n_columns
    ]
    if bad:
        more = f" and {count_of(len(bad) - 3, 'more line')}" if len(bad) > 3 else ""
        raise LabelError(
            f"{str(file)!r}: the first line names {count_of(n_columns, 'column')}, but {', '.join(bad[:3])}"
            f"{f'{more} differ' if len(bad) > 4 else f'{more} differs' if more else ''}. Quote fields that contain "
            f"{delimiter!r}."
        )


def _parquet(content: bytes, file: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except ImportError as error:
        raise LabelError("reading parquet needs pyarrow: pip install pyarrow.") from error
    except (OSError, ValueError) as error:
        raise LabelError(f"{str(file)!r} is no readable parquet file: {error}.") from error
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _json(text: str, file: Path) -> pd.DataFrame:
    """Read records, or a mapping of columns; values keep the types that JSON gives them."""
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        hint = " For one record per line name the file .jsonl." if "Extra data" in error.msg else ""
        where = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise LabelError(f"{str(file)!r} is no valid JSON: {where}.{hint}") from None
    except RecursionError as error:
        raise LabelError(f"{str(file)!r} is nested too deeply for a table.") from error
    if not isinstance(found, dict):
        return _frame_of_records(found, file, lambda position: f"record {position + 1}")
    if not found or not all(isinstance(column, (list, dict)) for column in found.values()):
        raise LabelError(f"{_must_hold(file)}, not one record; keys: {shorten(found)}.")
    try:
        return pd.DataFrame(found).reset_index(drop=True)
    except ValueError as error:
        raise LabelError(problems_message(_must_hold(file), [f"{error}."])) from error


def _json_lines(text: str, file: Path) -> tuple[pd.DataFrame, list[int]]:
    """Read one record per line; also returns the line of each."""
    found: list[object] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise LabelError(
                f"{str(file)!r} has no valid JSON in line {number}: {error.msg} in column {error.colno}."
            ) from None
        except RecursionError as error:
            raise LabelError(f"{str(file)!r} is nested too deeply for a table, in line {number}.") from error
        lines.append(number)
    return _frame_of_records(found, file, lambda position: f"line {lines[position]}"), lines


def _must_hold(file: Path) -> str:
    return f"{str(file)!r} must hold a list of records or a mapping of columns"


def _frame_of_records(found: object, file: Path, locate: Callable[[int], str]) -> pd.DataFrame:
    if not isinstance(found, list):
        raise LabelError(f"{_must_hold(file)}.")
    rows: list[dict[str, object]] = []
    for position, record in enumerate(found):
        if not isinstance(record, dict):
            raise LabelError(f"{_must_hold(file)}, but {locate(position)} is a {type(record).__name__}.")
        rows.append(record)
    names = list(dict.fromkeys(name for record in rows for name in record))
    # object columns: pandas would turn integers with gaps into floats
    return pd.DataFrame({name: pd.Series([record.get(name) for record in rows], dtype=object) for name in names})


def numbers_of_text(column: pd.Series) -> pd.Series:
    """Turn a text column into integers if every value that is not blank is written as Python writes that integer.

    Parameters
    ----------
    column : Series of text
        What a file holds.

    Returns
    -------
    Series
        Integers, or the column as it was.

    Examples
    --------
    >>> numbers_of_text(pd.Series(["1", "12"])).tolist(), numbers_of_text(pd.Series(["01", "12"])).tolist()
    ([1, 12], ['01', '12'])
    """
    codes, found = pd.factorize(column)
    texts = [str(text) for text in found]
    blank = np.array([not text.strip() for text in texts], dtype=bool)
    if blank.all() or not all(is_integer(text) for text, gap in zip(texts, blank, strict=True) if not gap):
        return column
    numbers = np.array([0 if gap else int(text) for text, gap in zip(texts, blank, strict=True)], dtype=np.int64)
    if blank.any():
        array = pd.array(numbers[codes], dtype="Int64")
        array[blank[codes]] = pd.NA
        return pd.Series(array, index=column.index, name=column.name)
    return pd.Series(numbers[codes], index=column.index, name=column.name)


def is_integer(text: str) -> bool:
    """Whether a text is an integer that would be written back as the same text, and fits 64 bits."""
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return False
    return str(int(text)) == text
