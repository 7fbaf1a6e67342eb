"""From the tables that people hold (long, wide, grouped counts, plain codes) to the fields of ``CrowdLabels``."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.build import Known, Options, assemble, check_index, known_by_item, known_by_row
from bayescrowd.data.columns import REQUIRED, candidates, find
from bayescrowd.data.encode import Encoded, as_index, declare, encode
from bayescrowd.data.validate import Report, _count, as_list, locate_in
from bayescrowd.errors import LabelError, problems_message, shorten

__all__ = ["code_fields", "counts_fields", "long_fields", "wide_fields"]

_NOTICED = frozenset({"weight", "weights", "count", "counts", "n", "freq", "frequency", "confidence", "certainty"})


def long_fields(
    *,
    table: object,
    item: Hashable,
    worker: Hashable,
    label: Hashable,
    weight: Hashable,
    gold: object,
    truth: object,
    classes: object,
    labels: object,
    missing: object,
    duplicates: str,
    items: object,
    workers: object,
    locate: Callable[[int], str] | None = None,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Fields of a table with one row per annotation; arguments as ``CrowdLabels.from_long``.

    ``locate`` names rows in messages and ``notes`` come before the others: both for readers of files.
    """
    frame = _as_frame(table, list(REQUIRED))
    report = Report(locate or locate_in(frame.index), notes=list(notes))
    options = Options(classes, labels, missing, duplicates)
    names = {"item": item, "worker": worker, "label": label, "weight": weight}
    known = {"gold": gold, "truth": truth}
    for role, given in known.items():
        if not isinstance(given, (Mapping, pd.Series)):
            names[role] = given  # type: ignore[assignment]
    columns = _columns(frame, names, report)
    if not notes:
        _notice(frame, columns, report)
    report.raise_problems()

    coded = {}
    for role, declared in (("item", items), ("worker", workers)):
        coded[role] = encode(columns[role], columns[role].name, report)
        listed = check_index(declared, role + "s", report)
        if listed is not None:
            coded[role] = declare(coded[role], listed, columns[role].name, role + "s", report)
    coded["label"] = encode(columns["label"], columns["label"].name, report, missing=as_list(missing), many_labels=True)
    facts: dict[str, Known | None] = {}
    for role, given in known.items():
        if isinstance(given, (Mapping, pd.Series)):
            facts[role] = known_by_item(given, coded["item"].values, role, missing, report)
        else:
            column = columns.get(role)
            facts[role] = None if column is None else known_by_row(column, coded["item"].codes, column.name, missing, report)
    return assemble(
        **coded,
        options=options,
        report=report,
        label_name=columns["label"].name,
        weight=columns.get("weight"),
        **facts,
    )


def _as_frame(table: object, names: list[str]) -> pd.DataFrame:
    """A DataFrame of what the caller holds, without copying one."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, pd.Series):
        return table.rename(names[-1]).to_frame() if table.name is None else table.to_frame()
    for method in ("to_pandas", "to_dataframe"):  # polars, arrow, xarray
        convert = getattr(table, method, None)
        if callable(convert):
            return _as_frame(convert(), names)
    try:
        if isinstance(table, Mapping):
            return pd.DataFrame(dict(table))
        if isinstance(table, np.ndarray) and table.dtype.names:
            return pd.DataFrame(table)
        if isinstance(table, (np.ndarray, list, tuple)):
            frame = pd.DataFrame(table if isinstance(table, np.ndarray) else list(table))
            unnamed = isinstance(frame.columns, pd.RangeIndex)
            return frame.set_axis(names, axis=1) if unnamed and frame.shape[1] == len(names) else frame
    except (TypeError, ValueError) as error:
        raise LabelError(f"cannot make a table of this {type(table).__name__}: {error}.") from error
    raise LabelError(f"a {type(table).__name__} is no table of labels; pass a DataFrame, or a mapping of columns.")


def _columns(frame: pd.DataFrame, names: Mapping[str, Hashable], report: Report) -> dict[str, pd.Series]:
    """The column of each role: by name, as an index level, or by a usual name; problems where there is none."""
    found: dict[str, pd.Series] = {}
    levels = [name for name in frame.index.names if name is not None]
    for role, name in names.items():
        if name is None and role not in REQUIRED:
            continue
        if name is None:
            every = [*frame.columns, *(level for level in levels if level not in frame.columns)]
            name = find(role, every, report.problems, required=True)
            if name is None:
                continue
            if name != role:
                report.notes.append(f"column {name!r} is taken as the {role}.")
        try:
            if name in frame.columns:
                column = frame[name]
            elif name in levels:
                column = pd.Series(frame.index.get_level_values(name), index=frame.index)
            else:
                shown = shorten([*frame.columns, *levels], 20)
                report.problems.append(f"there is no column {name!r} for the {role}; the columns are {shown}. Pass {role}=...")
                continue
        except TypeError:
            report.problems.append(f"{role}={name!r:.80} is no column name.")
            continue
        if isinstance(column, pd.DataFrame):
            report.problems.append(f"column {name!r} ({role}) occurs {column.shape[1]} times; give columns distinct names.")
            continue
        found[role] = column.rename(name)  # type: ignore[call-overload]
    return found


def _notice(frame: pd.DataFrame, columns: Mapping[str, pd.Series], report: Report) -> None:
    used = {column.name for column in columns.values()}
    unused = [name for name in frame.columns if isinstance(name, str) and name not in used and name.lower() in _NOTICED]
    if unused:
        report.notes.append(f"column {shorten(unused)} is not used; to weight the rows by it pass weight=.")


def wide_fields(
    *,
    table: object,
    items: object,
    gold: object,
    truth: object,
    classes: object,
    labels: object,
    missing: object,
    duplicates: str,
) -> dict[str, Any]:
    """Fields of an items-by-workers table; arguments as ``CrowdLabels.from_wide``."""
    if items not in ("rows", "columns"):
        raise LabelError(f"items={items!r}: say where the items are, items='rows' or items='columns'; it is not guessed.")
    frame = _wide_frame(table)
    if items == "columns":
        frame = frame.T
    report = Report()
    sides: dict[str, pd.Series] = {}
    for role, given in (("gold", gold), ("truth", truth)):
        if given is not None and not isinstance(given, (Mapping, pd.Series)):
            if not isinstance(given, Hashable) or given not in frame.columns or isinstance(frame[given], pd.DataFrame):
                report.problems.append(f"{role}={given!r:.80} names no single column; the columns are {shorten(frame.columns)}.")
                continue
            sides[role] = frame[given].reset_index(drop=True)  # type: ignore[index]
    frame = frame.drop(columns=[given for given in (gold, truth) if isinstance(given, Hashable) and given in frame.columns])
    ids = candidates("item", frame.columns)
    if ids and isinstance(frame.index, pd.RangeIndex) and frame.shape[1] > 1:
        report.problems.append(
            f"column {ids[0]!r} looks like item ids, not like a worker's labels; make it the index: "
            f"table.set_index({ids[0]!r})."
        )
    n_items, n_workers = frame.shape
    if not n_workers:
        report.problems.append("the table has no columns of workers.")
    report.raise_problems()

    def locate(position: int) -> str:
        row, column = divmod(position, n_workers)
        return f"item {shorten([frame.index[row]])} by worker {shorten([frame.columns[column]])}"

    report.locate = locate
    item = encode(_id_series(frame.index), "item ids", report)
    worker = encode(_id_series(frame.columns), "worker ids", report)
    label = encode(_stack(frame), "labels", report, missing=as_list(missing), many_labels=True)
    facts: dict[str, Known | None] = {}
    for role, given in (("gold", gold), ("truth", truth)):
        if isinstance(given, (Mapping, pd.Series)):
            facts[role] = known_by_item(given, item.values, role, missing, report)
        else:
            facts[role] = known_by_row(sides[role], item.codes, given, missing, report) if role in sides else None  # type: ignore[arg-type]
    return assemble(
        Encoded(np.repeat(item.codes, n_workers), item.values),
        Encoded(np.tile(worker.codes, n_items), worker.values),
        label,
        options=Options(classes, labels, missing, duplicates),
        report=report,
        label_name="labels",
        **facts,
    )


def _wide_frame(table: object) -> pd.DataFrame:
    if isinstance(table, np.ma.MaskedArray):
        table = np.where(np.ma.getmaskarray(table), None, table.astype(object).filled(None))
    if isinstance(table, np.ndarray):
        if table.ndim != 2:
            raise LabelError(f"a wide table has two dimensions, items and workers; this array has {table.ndim}.")
        return pd.DataFrame(table)
    if isinstance(table, (list, tuple)) and len({len(row) for row in table if hasattr(row, "__len__")}) > 1:
        raise LabelError("the rows of a wide table must be equally long; write None where a worker did not say.")
    return _as_frame(table, [])


def _id_series(ids: pd.Index) -> pd.Series:
    return ids.to_flat_index().to_series(index=range(len(ids)))


def _stack(frame: pd.DataFrame) -> pd.Series:
    """All cells, item by item, in the one dtype that holds them."""
    n_items, n_workers = frame.shape
    if not n_items:
        return pd.Series([], dtype=object)
    stacked = pd.concat([frame.iloc[:, column] for column in range(n_workers)], ignore_index=True)
    by_item = np.arange(n_items * n_workers).reshape(n_workers, n_items).T.ravel()
    return stacked.take(by_item).reset_index(drop=True)


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
    frame = _as_frame(table, [])
    report = Report(locate_in(frame.index))
    sides = _columns(frame, {"count": count, "gold": gold, "truth": truth} if count is not None else {}, report)
    if count is None:
        report.problems.append("count=None: name the column that says how many items show each pattern.")
    named = [] if workers is None else as_list(workers)
    absent = [name for name in named if name not in frame.columns]
    if absent:
        report.problems.append(f"workers names {shorten(absent)}, no column; the columns are {shorten(frame.columns, 20)}.")
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
    worker = encode(_id_series(pattern_columns.columns), "worker ids", report)
    label = encode(_stack(pattern_columns), "labels", report, missing=as_list(missing), many_labels=True)
    empty = int((numbers == 0).sum())
    if empty:
        report.notes.append(f"{_count(empty, 'pattern')} of count 0 left out.")
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
        **facts,
    )
    shown = pd.Categorical.from_codes(pattern, categories=pd.Index(names, tupleize_cols=False))
    return {**fields, "patterns": pd.Series(shown, index=fields["items"], name="pattern")}


def _read_counts(column: pd.Series, report: Report) -> np.ndarray:
    """Counts as integers; fractions, negatives and gaps are problems."""
    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers))))
    if len(bad):
        report.problems.append(
            f"column {column.name!r} must count items, but holds {shorten([column.iloc[bad[0]]])} in {report.where(bad)}; "
            "a count is a whole number >= 0."
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
    return as_index([f"{name}_{number}" for name, many in zip(names, numbers, strict=True) for number in range(1, many + 1)])


def code_fields(
    *,
    item_code: Any,
    worker_code: Any,
    label_code: Any,
    items: Any,
    workers: Any,
    classes: Any,
    label_values: Any,
    weight: Any,
    gold_code: Any,
    truth: Any,
    patterns: Any,
    ordered: bool,
    notes: Any,
) -> dict[str, Any]:
    """Fields from arrays of codes; arguments as ``CrowdLabels.from_codes``."""
    problems: list[str] = []
    codes = {"item_code": item_code, "worker_code": worker_code, "label_code": label_code}
    arrays = {name: _int_codes(name, code, problems) for name, code in codes.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        problems.append(f"the codes differ in length: {shorten([len(array) for array in arrays.values()])}.")
    indexes = {
        "items": _ids(items, "item", arrays["item_code"]),
        "workers": _ids(workers, "worker", arrays["worker_code"]),
        "classes": _ids(classes, "class", None),
    }
    indexes["label_values"] = indexes["classes"].rename("label") if label_values is None else _ids(label_values, "label", None)
    n_classes = len(indexes["classes"])
    if indexes["label_values"][:n_classes].tolist() != indexes["classes"].tolist():
        problems.append("label_values must begin with the classes.")
    for (name, array), ids in zip(arrays.items(), ("items", "workers", "label_values"), strict=True):
        _check_range(name, array, 0, len(indexes[ids]), problems)
    for name, ids in indexes.items():
        if not ids.is_unique:
            problems.append(f"{name} holds {shorten(ids[ids.duplicated()])} more than once.")
    n_items = len(indexes["items"])
    gold = np.full(n_items, -1, np.int32) if gold_code is None else _int_codes("gold_code", gold_code, problems)
    if len(gold) != n_items:
        problems.append(f"gold_code has {len(gold)} values for {n_items} items.")
    _check_range("gold_code", gold, -1, n_classes, problems)
    weights = None if weight is None else np.array(weight, dtype=np.float64)
    if weights is not None and (weights.shape != arrays["item_code"].shape or not bool(((weights > 0) & np.isfinite(weights)).all())):
        problems.append("weight must hold one positive finite number for each annotation.")
    if problems:
        raise LabelError(problems_message("cannot use these codes", problems))
    if truth is not None:
        truth = pd.Series(truth, name="truth").rename_axis("item")
    return {
        **indexes,
        **arrays,
        "weight": None if weights is None or bool((weights == 1).all()) else weights,
        "gold_code": gold,
        "truth": truth,
        "patterns": patterns,
        "ordered": bool(ordered),
        "notes": tuple(notes),
    }


def _int_codes(name: str, code: Any, problems: list[str]) -> np.ndarray:
    array = np.asarray(code)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        problems.append(f"{name} must be a list of integers, not {array.dtype} with {array.ndim} dimensions.")
        return np.zeros(0, dtype=np.int32)
    return array.astype(np.int32)


def _check_range(name: str, array: np.ndarray, low: int, high: int, problems: list[str]) -> None:
    bad = np.flatnonzero((array < low) | (array >= high))
    if len(bad):
        problems.append(f"{name} holds {array[bad[0]]} in position {bad[0]}, outside {low}..{high - 1}.")


def _ids(given: Any, name: str, codes: np.ndarray | None) -> pd.Index:
    if given is None:
        given = 0 if codes is None or not len(codes) else int(codes.max()) + 1
    if isinstance(given, (int, np.integer)):
        return pd.RangeIndex(int(given), name=name)
    if isinstance(given, pd.Index):
        return given.rename(name)
    return as_index([value.item() if isinstance(value, np.generic) else value for value in as_list(given)], name)
