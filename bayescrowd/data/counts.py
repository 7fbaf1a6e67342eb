"""From grouped response patterns to the fields of ``CrowdLabels``."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.build import Known, Options, assemble
from bayescrowd.data.encode import Encoded, as_index, encode
from bayescrowd.data.frames import as_frame, id_series, role_columns, stack
from bayescrowd.data.validate import Report, as_list, locate_in
from bayescrowd.errors import shorten

__all__ = ["counts_fields"]


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
) -> dict[str, Any]:
    """Fields of a table of response patterns with counts; arguments as ``CrowdLabels.from_counts``."""
    frame = as_frame(table, [])
    report = Report(locate_in(frame.index))
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
    numbers = _read_counts(sides.pop("count"), report)
    report.raise_problems()

    if workers is None:
        pattern_columns = frame.loc[:, ~frame.columns.isin([count, *(side.name for side in sides.values())])]
    else:
        pattern_columns = frame[named]
    n_patterns, n_workers = pattern_columns.shape
    if not n_workers:
        report.problems.append("there are no columns of workers beside the counts.")
        report.raise_problems()
    report.locate = lambda position: f"pattern {position // max(n_workers, 1)}"
    worker = encode(id_series(pattern_columns.columns), "worker ids", report)
    label = encode(stack(pattern_columns), "labels", report, missing=as_list(missing), many_labels=True)
    empty = int((numbers == 0).sum())
    if empty:
        report.notes.append(f"patterns of count 0 left out: {empty:,}.")
    pattern = np.repeat(np.arange(n_patterns), numbers)
    n_items = len(pattern)
    names = _pattern_names(frame.index)
    facts = {}
    for role, column in sides.items():
        coded = encode(column, column.name, report, missing=as_list(missing), many_labels=True)
        rows = Encoded(coded.codes[pattern], coded.values, coded.fixed, coded.ordered)
        facts[role] = Known(np.arange(n_items), rows, column.name)
    codes = label.codes.reshape(n_patterns, n_workers)[pattern].ravel()
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
    return np.where(np.isfinite(numbers), numbers, 0).astype(np.int64)


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
