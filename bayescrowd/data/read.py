"""Read labels from a file, whatever its columns are called."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from bayescrowd.data.answers import answer_reader
from bayescrowd.data.columns import OPTIONAL, REQUIRED, find
from bayescrowd.data.files import numbers_of_text, read_table
from bayescrowd.data.frames import long_fields
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.layouts import counts_file, wide_file
from bayescrowd.errors import LabelError, problems_message, shorten

__all__ = ["read_labels"]

_LAYOUTS = {
    "long": "a row per annotation",
    "wide": "items by workers",
    "counts": "response patterns with a count",
}


def read_labels(
    path: object,
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
        one recognised as such; without it rows are numbered. Gold and truth are columns (rows if items are the
        columns) of their usual names; other columns that cannot be workers are left out with a note, and weights,
        which have no meaning per annotation here, are refused unless ``weight=False``.
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
    given = {"item": item, "worker": worker, "label": label, "weight": weight, "gold": gold, "truth": truth}
    _check_apply(layout, items, given | {"items": items, "count": count})
    frame, is_text, locate = read_table(path, encoding)
    said = {"classes": classes, "labels": labels, "missing": missing, "duplicates": duplicates}
    if layout == "wide":
        return CrowdLabels(**wide_file(frame, is_text, locate, str(path), str(items), given, said))
    if layout == "counts":
        return CrowdLabels(**counts_file(frame, is_text, locate, str(path), count, given, said))
    names, notes = _roles(frame, given, path)
    if is_text:
        frame = _typed(frame, names, said)
    fields = long_fields(table=frame, **names, **said, items=None, workers=None, locate=locate, notes=notes)  # type: ignore[arg-type]
    return CrowdLabels(**fields)


def _check_apply(layout: str, items: object, given: Mapping[str, Any]) -> None:
    """Refuse arguments that mean nothing in the layout."""
    if layout == "wide":
        if items not in ("rows", "columns"):
            raise LabelError("layout='wide' needs items='rows' or items='columns': where the items are is not guessed.")
        idle = ["label", "count", "worker" if items == "rows" else "item"]
    else:
        idle = ["items", "count"] if layout == "long" else ["items", "worker", "label"]
    # weight=False leaves a column of that name out, whatever the layout
    named = [name for name in idle if given[name] is not None]
    if layout != "long" and given["weight"] is not None and given["weight"] is not False:
        named.append("weight")
    if named:
        listed = ", ".join(f"{name}={given[name]!r:.60}" for name in named)
        raise LabelError(
            f"{listed}: not for layout={layout!r}, which is {_LAYOUTS[layout]}. Leave it out, or pass another layout."
        )


def _roles(frame: pd.DataFrame, given: Mapping[str, Any], path: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Column of each role, and notes on those that were recognised or left aside."""
    columns = list(frame.columns)
    problems: list[str] = []
    names: dict[str, Any] = {}
    for role, name in given.items():
        if name is None:
            taken: dict[Hashable, str] = {
                used: by for by, used in [*given.items(), *names.items()] if isinstance(used, str)
            }
            names[role] = find(role, columns, problems, required=role in REQUIRED, taken=taken)
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
    # a spreadsheet writes columns without name for cells that were touched
    unused = [column for column in columns if column not in used and column != ""]
    if unused:
        notes.append(f"columns not used: {shorten(unused)}.")
    return names, tuple(notes)


def _typed(frame: pd.DataFrame, names: Mapping[str, Any], said: Mapping[str, Any]) -> pd.DataFrame:
    """Read the text columns in use, as integers or declared values where the text says so."""
    used = {role: name for role, name in names.items() if isinstance(name, str)}
    if any((frame.columns == name).sum() > 1 for name in used.values()):
        return frame  # the constructor reports the repeated name
    columns = {name: frame[name] for name in used.values()}
    for role in ("item", "worker"):
        columns[used[role]] = numbers_of_text(columns[used[role]])
    answers = [used[role] for role in ("label", "gold", "truth") if role in used]
    reader = answer_reader([columns[name] for name in answers[: 1 + ("gold" in used)]], said)
    for name in answers:
        columns[name] = reader(columns[name])
    return pd.DataFrame(columns)
