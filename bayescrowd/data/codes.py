"""From plain integer codes to the fields of ``CrowdLabels``."""

from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.encode import as_index
from bayescrowd.data.validate import as_list
from bayescrowd.errors import LabelError, problems_message, shorten

__all__ = ["code_fields"]


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
    indexes["label_values"] = (
        indexes["classes"].rename("label") if label_values is None else _ids(label_values, "label", None)
    )
    n_classes = len(indexes["classes"])
    if indexes["label_values"][:n_classes].tolist() != indexes["classes"].tolist():
        problems.append("label_values must begin with the classes.")
    for (name, array), ids in zip(arrays.items(), ("items", "workers", "label_values"), strict=True):
        _check_range(name, array, 0, len(indexes[ids]), problems)
    for name, index in indexes.items():
        if not index.is_unique:
            problems.append(f"{name} holds {shorten(index[index.duplicated()])} more than once.")
    n_items = len(indexes["items"])
    gold = np.full(n_items, -1, np.int32) if gold_code is None else _int_codes("gold_code", gold_code, problems)
    if len(gold) != n_items:
        problems.append(f"gold_code has {len(gold)} values for {n_items} items.")
    _check_range("gold_code", gold, -1, n_classes, problems)
    weights = None if weight is None else np.array(weight, dtype=np.float64)
    if weights is not None and (
        weights.shape != arrays["item_code"].shape or not bool(((weights > 0) & np.isfinite(weights)).all())
    ):
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
