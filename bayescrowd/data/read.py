"""Read labels from a file, whatever its columns are called."""

import os
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pandas as pd

from bayescrowd.data.columns import OPTIONAL, REQUIRED, candidates, find
from bayescrowd.data.files import is_integer, numbers_of_text, read_table
from bayescrowd.data.frames import long_fields
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.validate import as_list
from bayescrowd.errors import LabelError, problems_message, shorten

__all__ = ["read_labels"]

_LAYOUTS = ("long", "wide", "counts")


def read_labels(
    path: str | os.PathLike[str],
    *,
    item: Hashable = None,
    worker: Hashable = None,
    label: Hashable = None,
    weight: Hashable = None,
    gold: Hashable | Mapping[Any, Any] | pd.Series = None,
    truth: Hashable | Mapping[Any, Any] | pd.Series = None,
    classes: object = None,
    labels: object = None,
    missing: object = None,
    duplicates: str = "warn",
    layout: str = "long",
    items: str | None = None,
    count: Hashable = None,
    encoding: str | None = None,
) -> CrowdLabels:
    r"""Read labels from a csv, tsv, parquet, json or jsonl file, plain or compressed (.gz, .bz2, .xz).

    Columns are recognised by their usual names whatever the case: item (task, question, example, ...), worker
    (annotator, rater, judge, ...), label (answer, rating, response, ...), and where there are any weight (count),
    gold and truth (ground_truth). Which were used is in ``notes``. Text files are read without guessing: "NA" and
    "None" stay text, and a column becomes integers only if every value is written as that integer is ("01" stays
    text). Blank fields are missing.

    Parameters
    ----------
    path : path
        The file.
    item, worker, label, weight, gold, truth : str, optional
        Column names, where they are not the usual ones. ``False`` for weight, gold or truth leaves a recognised column
        unused. Gold and truth may also be a mapping or Series item -> class.
    classes, labels, missing, duplicates
        As in :meth:`CrowdLabels.from_long`. A text that is ``str`` of a declared class is that class.
    layout : {"long", "wide", "counts"}
        One row per annotation; items by workers (then say where the ``items`` are); or response patterns with a
        ``count``.
    items : {"rows", "columns"}, optional
        For the wide layout. Ids of the rows are in the column ``item`` (``worker`` if items are the columns), or the
        one recognised as such; without it rows are numbered.
    count : str, optional
        For the counts layout: the column of counts; by default the one recognised as such.
    encoding : str, optional
        Encoding of a text file; UTF-8 by default.

    Returns
    -------
    CrowdLabels

    Raises
    ------
    LabelError
        If the file cannot be read or used; lists all problems and the columns that are there.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = file.write_text("Task,rater,answer\nt1,x,yes\nt1,y,no\n")
    >>> read_labels(file).classes.tolist()
    ['no', 'yes']
    """
    if layout not in _LAYOUTS:
        raise LabelError(f"layout={layout!r} is unknown; it is one of {', '.join(_LAYOUTS)}.")
    frame, is_text, locate = read_table(path, encoding)
    said = {"classes": classes, "labels": labels, "missing": missing, "duplicates": duplicates}
    given = {"item": item, "worker": worker, "label": label, "weight": weight, "gold": gold, "truth": truth}
    if layout == "wide":
        return _wide(frame, is_text, items, given, said)
    if layout == "counts":
        return _counts(frame, is_text, count, given, said)
    names, notes = _roles(frame, given, path)
    if is_text:
        frame = _typed(frame, names, said)
    fields = long_fields(table=frame, **names, **said, items=None, workers=None, locate=locate, notes=notes)  # type: ignore[arg-type]
    return CrowdLabels(**fields)


def _roles(frame: pd.DataFrame, given: Mapping[str, Any], path: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Column of each role, and notes on those that were recognised or left aside."""
    columns = list(frame.columns)
    problems: list[str] = []
    names: dict[str, Any] = {}
    for role, name in given.items():
        if name is None:
            taken = {used for used in [*given.values(), *names.values()] if isinstance(used, str)}
            free = [column for column in columns if column not in taken]
            names[role] = find(role, free, problems, required=role in REQUIRED)
        elif name is False and role in OPTIONAL:
            names[role] = None
        else:
            names[role] = name
            if isinstance(name, Hashable) and not isinstance(name, (Mapping, pd.Series)) and name not in columns:
                problems.append(f"there is no column {name!r} for the {role}; the columns are {shorten(columns, 20)}.")
    if problems:
        raise LabelError(problems_message(f"cannot use {str(path)!r}", problems))
    notes = [
        f"column {name!r} is used as the {role}."
        for role, name in names.items()
        if name is not None and given[role] is None and (role in OPTIONAL or name != role)
    ]
    used = {name for name in names.values() if isinstance(name, str)}
    unused = [column for column in columns if column not in used]
    if unused:
        notes.append(f"columns not used: {shorten(unused)}.")
    return names, tuple(notes)


def _typed(frame: pd.DataFrame, names: Mapping[str, Any], said: Mapping[str, Any]) -> pd.DataFrame:
    """Read the text columns in use, as integers or declared values where the text says so."""
    if not frame.columns.is_unique:
        return frame  # the constructor reports a repeated name if it is in use
    used = {role: name for role, name in names.items() if isinstance(name, str)}
    columns = {name: frame[name] for name in used.values()}
    for role in ("item", "worker"):
        columns[used[role]] = numbers_of_text(columns[used[role]])
    answers = [used[role] for role in ("label", "gold", "truth") if role in used]
    reader = answer_reader([columns[name] for name in answers[: 1 + ("gold" in used)]], said)
    for name in answers:
        columns[name] = reader(columns[name])
    return pd.DataFrame(columns)


def answer_reader(columns: list[pd.Series], said: Mapping[str, Any]) -> Callable[[pd.Series], pd.Series]:
    """How to read the answers (labels, gold, truth) of a text file.

    ``columns`` (labels and gold) decide together whether answers are integers. A text that ``str`` of a declared
    value or missing marker gives is that value, so that classes False and True, or .5, are found in the text.
    """
    named: dict[str, object] = {str(marker): marker for marker in as_list(said.get("missing"))}
    declared = [*_declared(said.get("labels")), *_declared(said.get("classes"))]
    texts = {str(text) for column in columns for text in column.unique()} - set(named)
    named |= {str(value): value for value in declared}
    if declared:
        integers = all(type(value) is int for value in declared)
    else:
        integers = all(is_integer(text) for text in texts if text.strip())

    def read(column: pd.Series) -> pd.Series:
        if integers and not named:
            whole = numbers_of_text(column)
            if whole is not column:
                return whole
        codes, found = pd.factorize(column)
        texts = [str(text) for text in found]
        values: list[object] = []
        for text in texts:
            if text in named:
                values.append(named[text])
            else:
                values.append(int(text) if integers and is_integer(text) else text)
        if all(isinstance(value, str) for value in values):
            return column
        box = pd.Series(values, dtype=object).array
        return pd.Series(box.take(codes), index=column.index, name=column.name)

    return read


def _declared(values: object) -> list[object]:
    if isinstance(values, pd.CategoricalDtype):
        values = values.categories
    return as_list(values)


def _wide(
    frame: pd.DataFrame,
    is_text: bool,
    items: str | None,
    given: Mapping[str, Any],
    said: Mapping[str, Any],
) -> CrowdLabels:
    if items not in ("rows", "columns"):
        raise LabelError("layout='wide' needs items='rows' or items='columns': where the items are is not guessed.")
    role = "item" if items == "rows" else "worker"
    ids = given[role]
    if ids is None:
        usual = candidates(role, frame.columns)
        ids = usual[0] if usual else next((name for name in frame.columns[:1] if name == ""), None)
    if ids is not None and ids not in frame.columns:
        raise LabelError(f"there is no column {ids!r} of {role} ids; the columns are {shorten(frame.columns, 20)}.")
    index = None if ids is None else (numbers_of_text(frame[ids]) if is_text else frame[ids])
    body = frame if ids is None else frame.drop(columns=[ids])
    known = {name: given[name] for name in ("gold", "truth") if given[name] is not None and given[name] is not False}
    if is_text:
        body = _typed_cells(body, said)
    if index is not None:
        body = body.set_index(pd.Index(index.array, name=None))
    return CrowdLabels.from_wide(body, items=items, **known, **said)


def _counts(
    frame: pd.DataFrame, is_text: bool, count: Hashable, given: Mapping[str, Any], said: Mapping[str, Any]
) -> CrowdLabels:
    if count is None:
        problems: list[str] = []
        count = find("weight", list(frame.columns), problems, required=True)
        if problems:
            raise LabelError(problems[0].replace("the weight", "the count").replace("weight=", "count="))
    known = {name: given[name] for name in ("gold", "truth") if given[name] is not None and given[name] is not False}
    ids = given["item"] if given["item"] is not None else next(iter(candidates("item", frame.columns)), None)
    if ids is not None:
        frame = frame.set_index(ids)
    if is_text and count in frame.columns:
        counts = frame[[count]]
        frame = pd.concat([_typed_cells(frame.drop(columns=[count]), said), counts], axis=1)
    return CrowdLabels.from_counts(frame, count, **known, **said)


def _typed_cells(body: pd.DataFrame, said: Mapping[str, Any]) -> pd.DataFrame:
    """Read all cells of a text table alike."""
    columns = [body.iloc[:, position] for position in range(body.shape[1])]
    reader = answer_reader(columns, said)
    typed = pd.concat([reader(column) for column in columns], axis=1) if columns else body
    typed.columns = body.columns
    return typed
