"""Checks of label tables, each made once, and the report that gathers what they find.

A constructor hands one :class:`Report` to every check and closes it at the end: all problems are raised together
as one :class:`~bayescrowd.errors.LabelError`, all suspicions are issued as one warning.
"""

import os
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bayescrowd.errors import BayescrowdWarning, LabelError, count_of, problems_message, shorten

__all__ = [
    "DUPLICATES",
    "Report",
    "as_list",
    "check_weights",
    "count_of",
    "find_repeats",
    "locate_in",
    "repeating_rows",
    "settle_repeats",
]

DUPLICATES = ("warn", "keep", "first", "last", "drop-identical", "error")

# Warnings should point at the caller's line, however many of our own frames lie between.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _plain_row(position: int) -> str:
    return f"row {position}"


@dataclass
class Report:
    """What the checks of one table found.

    Parameters
    ----------
    locate : callable
        Turns a row position into words; rows count from 0, as ``DataFrame.iloc`` does.
    quiet : bool
        Keep suspicions as notes, without a warning.
    """

    locate: Callable[[int], str] = _plain_row
    quiet: bool = False
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def where(self, positions: np.ndarray, limit: int = 3) -> str:
        """Name the first few rows of ``positions`` and count the others."""
        named = ", ".join(dict.fromkeys(self.locate(int(position)) for position in positions[:limit]))
        hidden = len(positions) - min(limit, len(positions))
        return f"{named} and {hidden} more" if hidden else named

    def raise_problems(self, headline: str = "cannot use this label table") -> None:
        """Raise all problems as one error, if there are any."""
        if self.problems:
            raise LabelError(problems_message(headline, self.problems))

    def close(self) -> tuple[str, ...]:
        """Raise the problems, or issue one warning for all suspicions; return the notes."""
        self.raise_problems()
        if self.warnings and not self.quiet:
            message = problems_message("these labels can be used, but look suspicious", self.warnings, "remark")
            warnings.warn(message, BayescrowdWarning, skip_file_prefixes=(_PACKAGE,))
        return (*self.notes, *self.warnings)


def locate_in(index: pd.Index) -> Callable[[int], str]:
    """Name rows by position, and by index label where that says more.

    Examples
    --------
    >>> locate_in(pd.RangeIndex(3))(1), locate_in(pd.Index(["x", "y"]))(1)
    ('row 1', "row 1 (index 'y')")
    """
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return _plain_row

    def locate(position: int) -> str:
        return f"row {position} (index {shorten([index[position]])})"

    return locate


def check_weights(column: pd.Series, used: np.ndarray, name: Hashable, report: Report) -> np.ndarray:
    """Read a weight column.

    Parameters
    ----------
    column : Series [N]
        Weights as the caller holds them; numbers written as text are read too.
    used : bool array [N]
        Rows that carry a label. The weight of another row is never looked at.
    name : hashable
        The column's name, for messages.
    report : Report
        Takes the problems.

    Returns
    -------
    float64 array [N]
        Weights; where a problem was reported, whatever could be read.
    """
    try:
        if not (pd.api.types.is_numeric_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype)):
            column = column.astype(object)
        numbers = pd.to_numeric(column.astype(object) if column.dtype == "category" else column, errors="coerce")
        weight = np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError, OverflowError):
        report.problems.append(f"column {name!r} does not hold weights: its type is {column.dtype}; pass numbers >= 0.")
        return np.ones(len(column))
    for bad, what in (
        (np.isnan(weight), "not a number"),
        (np.isinf(weight), "infinite"),
        (weight < 0, "negative"),
    ):
        rows = np.flatnonzero(bad & used)
        if len(rows):
            report.problems.append(
                f"column {name!r} (weight) is {what} in {count_of(len(rows), 'row')}, first "
                f"{shorten([column.iloc[rows[0]]])} in {report.locate(int(rows[0]))}; a weight is a finite number >= 0."
            )
    return weight


def repeating_rows(item_code: np.ndarray, worker_code: np.ndarray, n_workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows whose item-worker pair occurs more than once: their positions, and a code of their pair."""
    key = item_code.astype(np.int64) * n_workers + worker_code
    if bool((key[1:] > key[:-1]).all()):
        return np.zeros(0, dtype=np.int64), key[:0]
    ordered = np.sort(key)
    again = ordered[1:] == ordered[:-1]
    if not bool(again.any()):
        return np.zeros(0, dtype=np.int64), key[:0]
    rows = np.flatnonzero(pd.Series(key).isin(pd.unique(ordered[1:][again])))
    return rows, key[rows]


def find_repeats(
    item_code: np.ndarray, worker_code: np.ndarray, n_workers: int, keep: str = "first"
) -> np.ndarray | None:
    """Mark the rows that repeat an item-worker pair, or return None if no pair repeats."""
    rows, key = repeating_rows(item_code, worker_code, n_workers)
    if not len(rows):
        return None
    marked = np.zeros(len(item_code), dtype=bool)
    marked[rows] = pd.Series(key).duplicated(keep="last" if keep == "last" else "first")
    return marked


def settle_repeats(
    policy: str,
    item_code: np.ndarray,
    worker_code: np.ndarray,
    label_code: np.ndarray,
    weight: np.ndarray | None,
    rows: np.ndarray,
    names: tuple[pd.Index, pd.Index],
    report: Report,
) -> np.ndarray | None:
    """Apply the ``duplicates`` policy.

    Parameters
    ----------
    policy : str
        One of ``DUPLICATES``.
    item_code, worker_code, label_code : int arrays [M]
        The rows that carry a label.
    weight : float array [M] or None
        Their weights; rows that differ in weight are not identical.
    rows : int array [M]
        Their positions in the caller's table.
    names : (items, workers)
        Ids, for messages.
    report : Report
        Takes problems, warnings and notes.

    Returns
    -------
    bool array [M] or None
        Rows to keep; None keeps all.
    """
    items, workers = names
    repeat = find_repeats(item_code, worker_code, len(workers), keep="last" if policy == "last" else "first")
    if repeat is None:
        return None
    n_repeats = int(repeat.sum())
    first = int(np.flatnonzero(repeat)[0])
    times = int(((item_code == item_code[first]) & (worker_code == worker_code[first])).sum())
    said = (
        f"rows that repeat the item and worker of another row: {n_repeats:,}, such as worker "
        f"{shorten([workers[worker_code[first]]])} on item {shorten([items[item_code[first]]])} ({times} times)"
    )
    if policy == "error":
        report.problems.append(
            f"{said}; first repeats in {report.where(rows[repeat])}. Pass duplicates='keep', 'first', 'last' or "
            "'drop-identical' to say what they are."
        )
        return None
    if policy == "warn":
        report.warnings.append(
            f"{said}. They are kept as independent repeats. Pass duplicates='keep' if that is meant, or 'first', "
            "'last', 'drop-identical' or 'error'."
        )
        return None
    if policy == "keep":
        report.notes.append(f"{said}; kept as independent repeats.")
        return None
    if policy == "drop-identical":
        columns: dict[str, np.ndarray] = {"item": item_code, "worker": worker_code, "label": label_code}
        if weight is not None:
            columns["weight"] = weight
        repeat = np.asarray(pd.DataFrame(columns).duplicated())
        dropped, left = int(repeat.sum()), n_repeats - int(repeat.sum())
        report.notes.append(
            f"{said}; {dropped:,} identical left out, {left:,} kept because the label or weight differs."
        )
        return ~repeat
    report.notes.append(f"{said}; {n_repeats:,} left out (duplicates={policy!r}).")
    return ~repeat


def as_list(values: object) -> list[object]:
    """Turn a scalar or a collection of scalars into a list; None is empty, text and bytes are scalars."""
    if values is None:
        return []
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__") or getattr(values, "shape", None) == ():
        return [values]
    tolist = getattr(values, "tolist", None)
    listed: Sequence[object] = tolist() if callable(tolist) else list(values)
    return list(listed)
