"""From the tables that people hold, long or wide, to the fields of ``CrowdLabels``."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.build import Known, Options, assemble, known_by_item, known_by_row
from bayescrowd.data.columns import OPTIONAL, REQUIRED, as_mapping, candidates, find, looks_like_id, recognised
from bayescrowd.data.declared import list_declared
from bayescrowd.data.encode import Encoded, declare, encode
from bayescrowd.data.validate import Report, as_list, locate_in
from bayescrowd.errors import LabelError, count_of, shorten

__all__ = ["as_frame", "id_series", "long_fields", "role_columns", "stack", "suspect_workers", "wide_fields"]

_CONFIDENCE = frozenset({"confidence", "certainty"})


def long_fields(
    *,
    table: object,
    item: Hashable,
    worker: Hashable,
    label: Hashable,
    weight: Hashable,
    gold: Any,
    truth: Any,
    classes: object,
    labels: object,
    missing: object,
    duplicates: str,
    items: object,
    workers: object,
    locate: Callable[[int], str] | None = None,
    notes: tuple[str, ...] = (),
    quiet: bool = False,
) -> dict[str, Any]:
    """Fields of a table with one row per annotation; arguments as ``CrowdLabels.from_long``.

    For readers of files: ``locate`` names rows in messages, ``notes`` come before the others, and ``quiet`` makes notes
    of warnings.
    """
    frame = as_frame(table, list(REQUIRED))
    if not frame.shape[1] and not len(frame):
        raise LabelError("the table is empty: it has no rows and no columns; there is nothing to learn from.")
    report = Report(locate or locate_in(frame.index), quiet, notes=list(notes))
    options = Options(classes, labels, missing, duplicates)
    names = {"item": item, "worker": worker, "label": label, "weight": weight}
    known: dict[str, Any] = {"gold": gold, "truth": truth}
    for role, given in known.items():
        if not isinstance(given, (Mapping, pd.Series)):
            names[role] = given
    columns = role_columns(frame, names, report)
    if not notes:
        _notice(frame, columns, report)
    if report.problems:
        options.declared(report)
    report.raise_problems()

    coded = {}
    for role, declared in (("item", items), ("worker", workers)):
        coded[role] = encode(columns[role], columns[role].name, report)
        listed = list_declared(declared, role + "s", report)
        if listed is not None:
            coded[role] = declare(coded[role], listed, columns[role].name, role + "s", report)
    coded["label"] = encode(columns["label"], columns["label"].name, report, missing=as_list(missing), many_labels=True)
    facts: dict[str, Known | None] = {}
    for role, given in known.items():
        if isinstance(given, (Mapping, pd.Series)):
            facts[role] = known_by_item(given, coded["item"].values, role, missing, report)
        else:
            column = columns.get(role)
            facts[role] = (
                None if column is None else known_by_row(column, coded["item"].codes, column.name, missing, report)
            )
    return assemble(
        coded["item"],
        coded["worker"],
        coded["label"],
        options=options,
        report=report,
        label_name=columns["label"].name,
        weight=columns.get("weight"),
        gold=facts["gold"],
        truth=facts["truth"],
    )


def as_frame(table: object, names: list[str]) -> pd.DataFrame:
    """Make a DataFrame of what the caller holds, without copying one."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, pd.Series):
        return table.rename(names[-1]).to_frame() if table.name is None else table.to_frame()
    for method in ("to_pandas", "to_dataframe"):  # polars, arrow, xarray
        convert = getattr(table, method, None)
        if callable(convert):
            return as_frame(convert(), names)
    if isinstance(table, (list, tuple)):
        _check_rows(table)
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


def _check_rows(rows: Sequence[Any]) -> None:
    """Refuse a list of rows that differ in kind or length, naming the first."""
    kinds = set(map(type, rows))
    for family, what in (((list, tuple), "list of values"), ((Mapping,), "mapping")):
        of_it = {kind for kind in kinds if issubclass(kind, family)}
        if of_it and of_it != kinds:
            odd = next(number for number, row in enumerate(rows) if type(row) not in of_it)
            raise LabelError(
                f"row {odd} of the table is of type {type(rows[odd]).__name__}, where others are each a {what}."
            )
    if kinds and all(issubclass(kind, (list, tuple)) for kind in kinds) and len(set(map(len, rows))) > 1:
        odd = next(number for number, row in enumerate(rows) if len(row) != len(rows[0]))
        raise LabelError(
            f"row {odd} of the table has {count_of(len(rows[odd]), 'value')}, but row 0 has {len(rows[0])}; rows are "
            "(item, worker, label) each."
        )


def role_columns(frame: pd.DataFrame, names: Mapping[str, Any], report: Report) -> dict[str, pd.Series]:
    """Find the column of each role: by name, as an index level, or by a usual name; report where there is none."""
    found: dict[str, pd.Series] = {}
    levels = [name for name in frame.index.names if name is not None]
    taken: dict[Hashable, str] = {name: role for role, name in names.items() if isinstance(name, str)}
    for role, name in names.items():
        if name is None and role not in REQUIRED:
            continue
        if name is None:
            every = [*frame.columns, *(level for level in levels if level not in frame.columns)]
            name = find(role, every, report.problems, required=True, taken=taken)
            if name is None:
                continue
            taken[name] = role
            if name != role:
                report.notes.append(f"column {name!r} is taken as the {role}.")
        try:
            if name in frame.columns:
                column: Any = frame[name]
            elif name in levels:
                column = pd.Series(frame.index.get_level_values(name), index=frame.index)
            else:
                shown = shorten([*frame.columns, *levels], 20)
                report.problems.append(
                    f"there is no column {name!r} for the {role}; the columns are {shown}. Pass {role}=..."
                )
                continue
        except TypeError:
            report.problems.append(_no_name(role, name))
            continue
        if isinstance(column, pd.DataFrame):
            report.problems.append(
                f"column {name!r} ({role}) occurs {column.shape[1]} times; give columns distinct names."
            )
            continue
        other = next((by for by, column_of in found.items() if column_of.name == name), None)
        # what is known may serve fits and scores at once
        if other is not None and (other, role) != ("gold", "truth"):
            report.problems.append(f"column {name!r} is taken twice: as the {other} and as the {role}; name another.")
        found[role] = column.rename(name)
    return found


def _no_name(role: str, given: object) -> str:
    """Say that this names no column; a table of known classes can be made a Series."""
    if isinstance(given, pd.DataFrame) and role in ("gold", "truth"):
        return f"{role} is a DataFrame, not a Series item -> class: pass {as_mapping(role, given.columns)}."
    return f"{role}={given!r:.80} is no column name."


def _notice(frame: pd.DataFrame, columns: Mapping[str, pd.Series], report: Report) -> None:
    used = {column.name for column in columns.values()}
    unused = [name for name in frame.columns if name not in used]
    noticed = {role: recognised(role, unused) for role in OPTIONAL}
    noticed["weight"] += [name for name in unused if str(name).lower() in _CONFIDENCE]
    noticed = {role: names for role, names in noticed.items() if names}
    if noticed:
        every = [name for name in unused if any(name in names for names in noticed.values())]
        listed, several = shorten(every), len(every) > 1
        how = ", ".join(f"{role}={names[0]!r}" for role, names in noticed.items())
        report.notes.append(
            f"{'columns' if several else 'column'} {listed} {'are' if several else 'is'} not used; to use what is in "
            f"{'them' if several else 'it'} pass {how}."
        )


def suspect_workers(names: pd.Index, report: Report) -> None:
    """Warn of columns that are taken as workers but are named like something else."""
    for role, remedy in (
        ("gold", "pass gold={!r} if it holds known classes"),
        ("truth", "pass truth={!r} if it holds known classes"),
        ("weight", "leave it out of the table if it holds weights or counts ({!r})"),
    ):
        hits = [name for name in recognised(role, names) if role != "weight" or name not in ("n", "N")]
        report.warnings += [f"{name!r} is taken as a worker; {remedy.format(name)}." for name in hits]


def wide_fields(
    *,
    table: object,
    items: object,
    gold: Any,
    truth: Any,
    classes: object,
    labels: object,
    missing: object,
    duplicates: str,
    locate: Callable[[int, int], str] | None = None,
    notes: tuple[str, ...] = (),
    sided: Mapping[str, pd.Series] | None = None,
) -> dict[str, Any]:
    """Fields of an items-by-workers table; arguments as ``CrowdLabels.from_wide``.

    For readers of files: ``locate`` names a cell by the positions of its item and its worker, ``notes`` come before the
    others, and ``sided`` holds gold and truth by row.
    """
    if items not in ("rows", "columns"):
        raise LabelError(
            f"items={items!r}: say where the items are, items='rows' or items='columns'; it is not guessed."
        )
    frame = _wide_frame(table)
    if items == "columns":
        frame = frame.T
    report = Report(notes=list(notes))
    sides: dict[str, pd.Series] = dict(sided or {})
    for role, given in (("gold", gold), ("truth", truth)):
        if given is not None and not isinstance(given, (Mapping, pd.Series)):
            if isinstance(given, pd.DataFrame):
                report.problems.append(_no_name(role, given))
                continue
            if (
                not pd.api.types.is_hashable(given)
                or given not in frame.columns
                or isinstance(frame[given], pd.DataFrame)
            ):
                report.problems.append(
                    f"{role}={given!r:.80} names no single column; the columns are {shorten(frame.columns)}."
                )
                continue
            sides[role] = frame[given].reset_index(drop=True)
    frame = frame.drop(
        columns=[given for given in (gold, truth) if pd.api.types.is_hashable(given) and given in frame.columns]
    )
    ids = candidates("item", frame.columns) or [name for name in frame.columns if looks_like_id(name)]
    if ids and isinstance(frame.index, pd.RangeIndex) and frame.shape[1] > 1:
        report.problems.append(
            f"column {ids[0]!r} looks like item ids, not like a worker's labels; make it the index: "
            f"table.set_index({ids[0]!r})."
        )
    n_items, n_workers = frame.shape
    if not n_workers:
        report.problems.append("the table has no columns of workers.")
    report.raise_problems()
    suspect_workers(frame.columns, report)

    def where(position: int) -> str:
        row, column = divmod(position, n_workers)
        if locate is not None:
            return locate(row, column)
        return f"item {shorten([frame.index[row]])} by worker {shorten([frame.columns[column]])}"

    report.locate = where
    item = encode(id_series(frame.index), "item ids", report)
    worker = encode(id_series(frame.columns), "worker ids", report)
    label = encode(stack(frame), "labels", report, missing=as_list(missing), many_labels=True)
    facts: dict[str, Known | None] = {}
    for role, given in (("gold", gold), ("truth", truth)):
        if isinstance(given, (Mapping, pd.Series)):
            facts[role] = known_by_item(given, item.values, role, missing, report)
        else:
            side = sides.get(role)
            facts[role] = None if side is None else known_by_row(side, item.codes, side.name, missing, report)
    return assemble(
        Encoded(np.repeat(item.codes, n_workers), item.values),
        Encoded(np.tile(worker.codes, n_items), worker.values),
        label,
        options=Options(classes, labels, missing, duplicates),
        report=report,
        label_name="labels",
        gold=facts["gold"],
        truth=facts["truth"],
    )


def _wide_frame(table: object) -> pd.DataFrame:
    if isinstance(table, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(table)
        table = np.asarray(table.data).astype(object)
        table[hidden] = None
    if isinstance(table, np.ndarray):
        if table.ndim != 2:
            raise LabelError(f"a wide table has two dimensions, items and workers; this array has {table.ndim}.")
        return pd.DataFrame(table)
    if isinstance(table, (list, tuple)) and len({len(row) for row in table if hasattr(row, "__len__")}) > 1:
        raise LabelError("the rows of a wide table must be equally long; write None where a worker did not say.")
    return as_frame(table, [])


def id_series(ids: pd.Index) -> pd.Series:
    """Turn an index into a column; the ids of several levels are tuples."""
    return ids.to_flat_index().to_series(index=pd.RangeIndex(len(ids)))


def stack(frame: pd.DataFrame) -> pd.Series:
    """All cells, item by item, in the one dtype that holds them."""
    n_items, n_workers = frame.shape
    if not n_items:
        return pd.Series([], dtype=object)
    stacked = pd.concat([frame.iloc[:, column] for column in range(n_workers)], ignore_index=True)
    by_item = np.arange(n_items * n_workers).reshape(n_workers, n_items).T.ravel()
    return stacked.take(by_item).reset_index(drop=True)
