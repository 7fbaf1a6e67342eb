"""From coded columns to the fields of a ``CrowdLabels``: declared values, gold, truth, weights, repeats, suspicions."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.declared import is_nothing, list_declared
from bayescrowd.data.encode import Encoded, as_index, declare, encode, near_duplicates, order_values, written_missing
from bayescrowd.data.validate import DUPLICATES, Report, as_list, check_weights, settle_repeats
from bayescrowd.errors import count_of, shorten

__all__ = ["Known", "Options", "assemble", "known_by_item", "known_by_row"]

# Codes that questionnaires and scripts use for "no answer".
_USUAL_MARKERS = frozenset({-1, -9, -99, -999, -9999, 99, 999, 9999})


@dataclass(frozen=True)
class Known:
    """Known classes of some items: the gold of a fit, or the truth for scoring.

    Attributes
    ----------
    item : int array [G]
        Item codes; an item may occur several times.
    value : Encoded [G]
        What is known; -1 where nothing is.
    name : hashable
        Where it came from, for messages.
    """

    item: np.ndarray
    value: Encoded
    name: Hashable


@dataclass(frozen=True)
class Options:
    """What the caller said about a table besides the table itself."""

    classes: object = None
    labels: object = None
    missing: object = None
    duplicates: str = "warn"

    def declared(self, report: Report) -> tuple[list[object] | None, list[object] | None]:
        """Check and list the declared classes and labels."""
        if self.duplicates not in DUPLICATES:
            report.problems.append(f"duplicates={self.duplicates!r} is unknown; it is one of {', '.join(DUPLICATES)}.")
        return list_declared(self.classes, "classes", report), list_declared(self.labels, "labels", report)


def known_by_row(column: pd.Series, item_code: np.ndarray, name: Hashable, missing: object, report: Report) -> Known:
    """Known classes held in a column of the label table."""
    return Known(item_code, encode(column, name, report, missing=as_list(missing), many_labels=True), name)


def known_by_item(
    given: Mapping[Any, Any] | pd.Series, items: pd.Index, name: str, missing: object, report: Report
) -> Known:
    """Known classes passed as a mapping or a Series, item -> class."""
    values = given.reset_index(drop=True) if isinstance(given, pd.Series) else pd.Series(list(given.values()))
    keys = list(given.index if isinstance(given, pd.Series) else given)
    code_of = {item: code for code, item in enumerate(items.tolist())}
    item = np.fromiter((code_of.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))
    value = encode(values, name, report, missing=as_list(missing), many_labels=True)
    unknown = [key for key, code in zip(keys, item, strict=True) if code < 0]
    if keys and len(unknown) == len(keys):
        hint = ""
        if isinstance(given, pd.Series) and given.name is not None:
            hint = f" A Series maps items to classes by its index; to name a column of the table pass {given.name!r}."
        report.warnings.append(
            f"{name} names no item of the table: {shorten(unknown)} against items {shorten(items[:6], 3)} "
            f"(text and numbers differ); it is ignored.{hint}"
        )
    elif unknown:
        report.notes.append(
            f"{name} names {count_of(len(unknown), 'item')} not in the table, ignored: {shorten(unknown)}."
        )
    inside = item >= 0
    return Known(item[inside], Encoded(value.codes[inside], value.values, value.fixed, value.ordered), name)


def assemble(
    item: Encoded,
    worker: Encoded,
    label: Encoded,
    *,
    options: Options,
    report: Report,
    label_name: Hashable,
    weight: pd.Series | None = None,
    gold: Known | None = None,
    truth: Known | None = None,
) -> dict[str, Any]:
    """Check everything, then return the fields of a ``CrowdLabels``.

    Parameters
    ----------
    item, worker, label : Encoded [N]
        Codes of the rows; -1 in ``label`` is "did not say".
    options : Options
        Declared classes and labels, missing markers, duplicate policy.
    report : Report
        Gathers problems, suspicions and notes; closed here.
    label_name : hashable
        What to call the label column in messages.
    weight : Series [N], optional
        Weights of the rows.
    gold, truth : Known, optional
        Known classes.

    Returns
    -------
    dict
        Fields of ``CrowdLabels``.

    Raises
    ------
    LabelError
        If anything makes the table unusable; all problems at once.
    """
    said = label.codes >= 0
    _check_ids(item, worker, said, report)
    classes, values, label_code, gold_values = _classes(label, gold, label_name, options, report)
    declared = options.classes is not None or options.labels is not None
    _note_missing(label, said, label_name, options, report)

    weights = None
    keep = said & (item.codes >= 0) & (worker.codes >= 0)
    if weight is not None:
        weights = check_weights(weight, said, weight.name, report)
        zero = int((said & (weights == 0)).sum())
        if zero:
            report.notes.append(f"rows of weight 0 left out: {zero:,} (column {weight.name!r}).")
        keep &= weights != 0
    rows = np.flatnonzero(keep)
    whole = len(rows) == len(keep)
    item_code, worker_code, label_code = (
        codes if whole else codes[rows] for codes in (item.codes, worker.codes, label_code)
    )
    weights = weights if weights is None or whole else weights[rows]
    if not report.problems or options.duplicates == "error":
        names = (item.values, worker.values)
        left = settle_repeats(options.duplicates, item_code, worker_code, label_code, weights, rows, names, report)
        if left is not None:
            item_code, worker_code, label_code = item_code[left], worker_code[left], label_code[left]
            weights = None if weights is None else weights[left]
    gold_code = _one_per_item(gold, len(item.values), item.values, "gold", report)
    truth_code = _one_per_item(truth, len(item.values), item.values, "truth", report)
    if not len(label.codes):
        report.problems.append("the table has no rows; there is nothing to learn from.")
    elif not len(item_code) and not report.problems:
        if weight is not None and said.any():
            why = f"the weights (column {weight.name!r}) of all rows that have one are 0"
        else:
            why = "every row is missing"
        report.problems.append(f"no row is left that carries a label (column {label_name!r}); {why}.")
    report.raise_problems()

    said_by = np.bincount(worker_code, minlength=len(worker.values))
    _suspect(label_code, gold_code, said_by, classes, values, declared, report)
    _suspect_names(worker.values, "worker ids", report.warnings)
    # ids of items are often addresses or sentences, in which case may well matter
    _suspect_names(item.values, "item ids", report.notes)
    silent = worker.values[said_by == 0]
    if len(silent):
        report.notes.append(f"workers without labels: {shorten(silent)}.")
    empty = len(item.values) - int((np.bincount(item_code, minlength=len(item.values)) > 0).sum())
    if empty:
        report.notes.append(f"items without labels: {empty:,}.")
    notes = report.close()
    return {
        "items": item.values.rename("item"),
        "workers": worker.values.rename("worker"),
        "classes": as_index(classes, "class"),
        "label_values": as_index(values, "label"),
        "item_code": item_code,
        "worker_code": worker_code,
        "label_code": label_code,
        "weight": None if weights is None or bool((weights == 1).all()) else weights,
        "gold_code": _to_classes(gold_code, gold_values, classes),
        "truth": _truth_series(truth, truth_code, item.values, classes),
        "ordered": label.ordered and not declared,
        "notes": notes,
    }


def _check_ids(item: Encoded, worker: Encoded, said: np.ndarray, report: Report) -> None:
    if report.problems:
        return  # ids that could not be read at all are reported already
    for codes, noun in ((item.codes, "item"), (worker.codes, "worker")):
        rows = np.flatnonzero((codes < 0) & said)
        if len(rows):
            report.problems.append(
                f"{count_of(len(rows), 'label')} without {noun} id: {report.where(rows)}. Fill in the {noun} or remove "
                "the rows."
            )


def _note_missing(label: Encoded, said: np.ndarray, name: Hashable, options: Options, report: Report) -> None:
    n_missing = int(len(said) - said.sum())
    if n_missing:
        marked = f", {label.n_marked:,} of them marked by missing={options.missing!r}" if label.n_marked else ""
        report.notes.append(f"rows without label left out: {n_missing:,} of {len(said):,} (column {name!r}){marked}.")
    markers = [marker for marker in as_list(options.missing) if not is_nothing(marker)]
    if markers and not label.n_marked:
        text = {str(marker) for marker in markers}
        close = [value for value in label.values[:1000].tolist() if str(value) in text]
        said_so = f"missing={options.missing!r} occurs nowhere in column {name!r}"
        if close:
            report.warnings.append(f"{said_so}, but {shorten(close)} does: text and numbers differ.")
        else:
            report.notes.append(f"{said_so}.")


def _classes(
    label: Encoded, gold: Known | None, name: Hashable, options: Options, report: Report
) -> tuple[list[object], list[object], np.ndarray, list[object]]:
    """Classes, label values, label codes among the latter, and the distinct gold values."""
    declared_classes, declared_labels = options.declared(report)
    found = label.values.tolist()
    gold_values = [] if gold is None else gold.value.values.tolist()
    infinite = [value for value in [*found, *gold_values] if isinstance(value, float) and np.isinf(value)]
    if infinite:
        report.problems.append(f"column {name!r} holds {shorten(infinite)}, which is no label.")
    if declared_classes is not None:
        classes = declared_classes
        values = [*classes, *(value for value in declared_labels or [] if value not in set(classes))]
        argument = "classes" if declared_labels is None else "labels"
    elif declared_labels is not None:
        classes = [*declared_labels, *(value for value in gold_values if value not in set(declared_labels))]
        values, argument = classes, "labels"
    elif label.fixed:
        classes = [*found, *(value for value in gold_values if value not in set(found))]
        return classes, classes, label.codes, gold_values
    else:
        # dict keeps the first of equal values, so that labels decide how a class is shown, not gold
        classes = order_values(dict.fromkeys([*found, *gold_values]))
        values, argument = classes, "classes"
    code = declare(label, values, name, argument, report).codes
    if gold is not None and declared_classes is not None:
        outside = [value for value in gold_values if value not in set(classes)]
        if outside:
            rows = np.flatnonzero(np.isin(gold.value.codes, [gold_values.index(value) for value in outside]))
            report.problems.append(
                f"gold ({gold.name!r}) holds {shorten(outside)} outside classes={classes!r:.200}, first for "
                f"{count_of(len(rows), 'entry').replace('entrys', 'entries')}; gold must be a class."
            )
    return classes, values, code, gold_values


def _one_per_item(known: Known | None, n_items: int, items: pd.Index, what: str, report: Report) -> np.ndarray:
    """Code of what is known of each item, -1 = nothing; two different values for an item are a problem."""
    code = np.full(n_items, -1, dtype=np.int32)
    if known is None:
        return code
    there = (known.value.codes >= 0) & (known.item >= 0)
    item, value = known.item[there], known.value.codes[there]
    code[item] = value
    clash = np.unique(item[code[item] != value])
    if len(clash):
        first = int(clash[0])
        held = known.value.values[np.unique(value[item == first])]
        report.problems.append(
            f"{what} ({known.name!r}) contradicts itself for {count_of(len(clash), 'item')}: {shorten(items[clash])}; "
            f"item {shorten([items[first]])} has {shorten(held)}. An item has one {what} value."
        )
    return code


def _to_classes(code: np.ndarray, values: Sequence[object], classes: Sequence[object]) -> np.ndarray:
    position = {value: number for number, value in enumerate(classes)}
    renumber = np.array([*(position.get(value, -1) for value in values), -1], dtype=np.int32)
    return renumber[code]


def _truth_series(
    known: Known | None, code: np.ndarray, items: pd.Index, classes: Sequence[object]
) -> pd.Series | None:
    """Truth by item, its values shown as the equal class is shown."""
    if known is None:
        return None
    shown = {value: value for value in classes}
    values = as_index([shown.get(value, value) for value in known.value.values.tolist()])
    there = np.flatnonzero(code >= 0)
    return pd.Series(values.take(code[there]), index=items[there].rename("item"), name="truth")


def _suspect(
    label_code: np.ndarray,
    gold_code: np.ndarray,
    said_by: np.ndarray,
    classes: Sequence[object],
    values: Sequence[object],
    declared: bool,
    report: Report,
) -> None:
    """Point out what can be used but limits what can be learned."""
    used = np.flatnonzero(np.bincount(label_code, minlength=len(values)))
    n_rows, n_talkers = len(label_code), int((said_by > 0).sum())
    if not declared:
        _suspect_names(as_index(list(values)), "labels", report.warnings)
        _suspect_numbers(values, n_rows, report)
        if len(classes) == 1:
            report.warnings.append(
                f"there is one class only, {classes[0]!r}: one class cannot say anything about workers. If others were "
                "possible, declare them: classes=[...]."
            )
    if len(classes) > 1 and len(used) == 1 and n_rows > 1 and not (gold_code >= 0).any():
        others = [value for value in classes if value != values[used[0]]]
        report.warnings.append(
            f"every label is {values[used[0]]!r}: no worker ever says {shorten(others)}, so the labels cannot tell the "
            "classes apart."
        )
    if n_talkers == 1:
        sentence = "only one worker labelled: a worker's accuracy is not identified without others, the prior decides."
        (report.warnings if n_rows > 1 else report.notes).append(sentence)


def _suspect_numbers(values: Sequence[object], n_rows: int, report: Report) -> None:
    numbers = {value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)}
    if len(numbers) == len(values) and numbers:
        odd = {value for value in numbers if value in _USUAL_MARKERS}
        rest = numbers - odd
        if odd and len(rest) > 1 and (max(odd) > 3 * max(rest) or (min(odd) < 0 <= min(rest) and max(rest) >= 2)):
            marks = order_values(odd)
            report.warnings.append(
                f"label {shorten(marks)} looks like a code for 'no answer'; if so pass missing={marks!r}, if not "
                "declare it: classes=[...]."
            )
    if len(values) > max(20, n_rows / 2):
        report.warnings.append(
            f"{len(values):,} different labels in {n_rows:,} rows: is the label column free text, an id or a "
            "measurement?"
        )


def _suspect_names(values: pd.Index, what: str, points: list[str]) -> None:
    groups = near_duplicates(values)
    if groups:
        listed = "; ".join(" / ".join(repr(value) for value in group[:4]) for group in groups[:3])
        hidden = f" and {len(groups) - 3} more groups" if len(groups) > 3 else ""
        points.append(f"{what} that differ only by case, spaces or type: {listed}{hidden}. They stay separate.")
    written = written_missing(values)
    if written:
        remedy = f"; if they mean 'no answer' pass missing={written!r}" if what == "labels" else ""
        points.append(f"{what} {shorten(written)} are kept as text{remedy}.")
