"""From grouped response patterns to the fields of ``CrowdLabels``."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.build import Known, Options, assemble
from bayescrowd.data.encode import Encoded, as_index, encode
from bayescrowd.data.frames import as_frame, id_series, role_columns, stack, suspect_workers
from bayescrowd.data.validate import Report, as_list, locate_in
from bayescrowd.errors import count_of, shorten

__all__ = ["counts_fields"]

# Labels once every pattern is spelled out; a table of more would not fit the memory of most machines.
_MOST = 100_000_000


def counts_fields(
    *,
    table: object,
    count: Hashable,
    workers: object,
    gold: Hashable,
    truth: Hashable,
    classes: object,
    labels: object,
    missing: object,
    duplicates: str,
    locate: Callable[[int], str] | None = None,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Fields of a table of response patterns with counts; arguments as ``CrowdLabels.from_counts``.

    For readers of files: ``locate`` names rows in messages, and ``notes`` come before the others.
    """
    frame = as_frame(table, [])
    names = _pattern_names(frame.index)
    row = locate or locate_in(frame.index)
    report = Report(row, notes=list(notes))
    sides = role_columns(frame, {"count": count, "gold": gold, "truth": truth} if count is not None else {}, report)
    if count is None:
        report.problems.append("count=None: name the column that says how many items show each pattern.")
    named = [] if workers is None else as_list(workers)
    absent = [name for name in named if name not in frame.columns]
    if absent:
        report.problems.append(
            f"workers names {shorten(absent)}, no column; the columns are {shorten(frame.columns, 20)}."
        )
    report.raise_problems()
    counted = sides.pop("count")
    numbers = _read_counts(counted, report)
    report.raise_problems()

    if workers is None:
        pattern_columns = frame.loc[:, ~frame.columns.isin([count, *(side.name for side in sides.values())])]
    else:
        pattern_columns = frame[named]
    n_patterns, n_workers = pattern_columns.shape
    if not n_workers:
        report.problems.append("there are no columns of workers beside the counts.")
        report.raise_problems()
    if workers is None:
        suspect_workers(pattern_columns.columns, report)
    _check_size(numbers, counted, n_workers, report)
    worker_names = pattern_columns.columns

    def cell(position: int) -> str:
        pattern, column = divmod(position, n_workers)
        place = row(pattern) if locate is not None else f"pattern {names[pattern]!r}"
        return f"{place}, column {shorten([worker_names[column]])}"

    report.locate = cell
    worker = encode(id_series(pattern_columns.columns), "worker ids", report)
    label = encode(stack(pattern_columns), "labels", report, missing=as_list(missing), many_labels=True)
    empty = int((numbers == 0).sum())
    if empty:
        report.notes.append(f"patterns of count 0 left out: {empty:,}.")
    pattern = np.repeat(np.arange(n_patterns), numbers)
    n_items = len(pattern)
    facts = {}
    for role, column in sides.items():
        coded = encode(column, column.name, report, missing=as_list(missing), many_labels=True)
        rows = Encoded(coded.codes[pattern], coded.values, coded.fixed, coded.ordered)
        facts[role] = Known(np.arange(n_items), rows, column.name)
    codes = label.codes.reshape(n_patterns, n_workers)[pattern].ravel()
    # rows of the spelled-out table lie in the pattern they came from
    report.locate = lambda position: cell(int(pattern[position // n_workers]) * n_workers + position % n_workers)
    fields = assemble(
        Encoded(np.repeat(np.arange(n_items, dtype=np.int32), n_workers), _item_names(names, numbers)),
        Encoded(np.tile(worker.codes, n_items), worker.values),
        Encoded(codes, label.values, label.fixed, label.ordered, label.n_marked),
        options=Options(classes, labels, missing, duplicates),
        report=report,
        label_name="labels",
        gold=facts.get("gold"),
        truth=facts.get("truth"),
    )
    shown = pd.Categorical.from_codes(pattern, categories=pd.Index(names, tupleize_cols=False))
    return {**fields, "patterns": pd.Series(shown, index=fields["items"], name="pattern")}


def _read_counts(column: pd.Series, report: Report) -> np.ndarray:
    """Read counts as integers; fractions, negatives and gaps are problems."""
    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers))))
    if len(bad):
        report.problems.append(
            f"column {column.name!r} must count items, but holds {shorten([column.iloc[bad[0]]])} in "
            f"{report.where(bad)}; a count is a whole number >= 0."
        )
    # what is cut off here is far more than can be spelled out
    return np.minimum(np.where(np.isfinite(numbers), numbers, 0), 2.0**62).astype(np.int64)


def _check_size(numbers: np.ndarray, column: pd.Series, n_workers: int, report: Report) -> None:
    """Refuse counts that cannot be spelled out, before memory runs out."""
    # whole numbers of any size as floats, since their sum may not fit an integer
    total = float(numbers.astype(np.float64).sum()) * n_workers
    if total > _MOST:
        largest = int(np.argmax(numbers))
        report.problems.append(
            f"column {column.name!r} counts {total / n_workers:.4g} items, that is {total:.4g} labels by "
            f"{count_of(n_workers, 'worker')}; at most {_MOST:,} labels can be spelled out. The largest count is "
            f"{shorten([column.iloc[largest]])} in {report.locate(largest)}. Divide the counts by a common factor, or "
            "give the patterns as weighted rows: CrowdLabels.from_long(..., weight=...)."
        )
        report.raise_problems()


def _pattern_names(index: pd.Index) -> list[str]:
    names = [str(name) for name in index]
    if isinstance(index, pd.RangeIndex) or len(set(names)) < len(names):
        width = len(str(len(index)))
        return [f"p{number:0{width}d}" for number in range(1, len(index) + 1)]
    return names


def _item_names(names: list[str], numbers: np.ndarray) -> pd.Index:
    if numbers.sum() >= 1_000_000:
        return pd.RangeIndex(int(numbers.sum()))
    return as_index(
        [f"{name}_{number}" for name, many in zip(names, numbers, strict=True) for number in range(1, many + 1)]
    )
