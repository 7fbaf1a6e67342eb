"""Starts: an item x state array of probabilities from which an engine begins."""

from typing import Any

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.errors import EngineError
from bayescrowd.model import Model

__all__ = ["majority", "perturbed", "resolve"]

_NAMES = ("majority",)


def majority(labels: Table) -> np.ndarray:
    """Share of each class among an item's labels (soft majority vote), gold items at their known class.

    Parameters
    ----------
    labels : CrowdLabels
        The label table. Labels that are no class do not vote; an item without votes gets equal shares.

    Returns
    -------
    array [item, class]
        Rows sum to one.
    """
    n_classes = len(labels.classes)
    votes_for_class = labels.label_code < n_classes
    cell = labels.item_code[votes_for_class].astype(np.int64) * n_classes + labels.label_code[votes_for_class]
    weight = None if labels.weight is None else labels.weight[votes_for_class]
    votes = np.bincount(cell, weight, labels.n_items * n_classes).reshape(labels.n_items, n_classes).astype(float)
    votes[votes.sum(axis=1) == 0] = 1.0
    return _clamp(votes / votes.sum(axis=1, keepdims=True), labels)


def perturbed(start: np.ndarray, labels: Table, random: np.random.Generator, share: float = 0.5) -> np.ndarray:
    """Mix a start with random probabilities.

    Parameters
    ----------
    start : array [item, state]
        The start to stay near to (which keeps the names of the classes).
    labels : CrowdLabels
        The label table, for its gold.
    random : numpy.random.Generator
        Source of randomness.
    share : float
        Weight of the random part.

    Returns
    -------
    array [item, state]
        Rows sum to one.
    """
    noise = random.dirichlet(np.ones(start.shape[1]), size=len(start))
    return _clamp((1 - share) * start + share * noise, labels)


def resolve(init: Any, labels: Table, model: Model) -> np.ndarray:
    """Turn what the user passed as ``init`` into a start.

    Parameters
    ----------
    init : str, Fit or array
        ``"majority"``; an earlier fit, or a DataFrame such as its ``class_probabilities()`` (matched by item ids and
        class values; items it does not know start from the majority vote); or an array item x class (or item x state)
        of probabilities.
    labels : CrowdLabels
        The label table.
    model : Model
        For its number of states.

    Returns
    -------
    array [item, state]
        Rows sum to one; gold items are clamped.

    Raises
    ------
    EngineError
        Where the start does not fit the labels or is no table of probabilities.
    """
    if isinstance(init, str):
        if init not in _NAMES:
            raise EngineError(
                f"there is no start {init!r}; init takes {', '.join(map(repr, _NAMES))}, a Fit or an array"
            )
        start = majority(labels)
    elif hasattr(init, "class_probabilities"):
        start = _from_table(init.class_probabilities(), labels, "fit")
    elif hasattr(init, "columns") and hasattr(init, "index"):
        start = _from_table(init, labels, "table")
    else:
        start = _from_array(init, labels, model)
    n_classes = len(labels.classes)
    if start.shape[1] == n_classes and model.n_levels > 1:
        start = np.tile(start / model.n_levels, model.n_levels)
    return _clamp(start, labels)


def _from_table(table: Any, labels: Any, word: str) -> np.ndarray:
    missing = [value for value in labels.classes if value not in table.columns]
    if missing:
        raise EngineError(
            f"the {word} given as init does not know the classes {missing}; it knows {list(table.columns)}"
        )
    start = majority(labels)
    position = table.index.get_indexer(labels.items)
    known = position >= 0
    if not known.any():
        raise EngineError(f"the {word} given as init shares no item with these labels; pass init='majority'")
    given = table[list(labels.classes)].to_numpy(float)[position[known]]
    _check_probabilities(given, table.index[position[known]], total=False)
    total = given.sum(axis=1, keepdims=True)
    start[known] = np.where(total > 0, given / np.where(total > 0, total, 1), 1 / start.shape[1])
    return start


def _check_probabilities(start: np.ndarray, rows: Any, *, total: bool) -> None:
    bad = ~np.isfinite(start).all(axis=1) | (start < 0).any(axis=1)
    if total:
        bad |= ~(np.abs(start.sum(axis=1) - 1) < 1e-6)
    if bad.any():
        raise EngineError(
            f"init must hold probabilities that sum to one over classes; {bad.sum()} rows do not, the first is row "
            f"{np.asarray(rows, object)[bad][0]!r}: {start[bad][0].tolist()}"
        )


def _from_array(init: Any, labels: Table, model: Model) -> np.ndarray:
    n_classes = len(labels.classes)
    shapes = [(labels.n_items, n_classes), (labels.n_items, n_classes * model.n_levels)]
    try:
        start = np.asarray(init, float)
    except (TypeError, ValueError):
        raise EngineError(
            f"init must be a name, a Fit or an array of probabilities, not {type(init).__name__}"
        ) from None
    if start.shape not in shapes:
        raise EngineError(f"init has shape {start.shape}; it must be item x class, {shapes[0]}")
    _check_probabilities(start, range(len(start)), total=True)
    return start


def _clamp(start: np.ndarray, labels: Table) -> np.ndarray:
    known = np.flatnonzero(labels.gold_code >= 0)
    if len(known) == 0:
        return start
    n_classes = len(labels.classes)
    start = start.copy()
    levels = start[known].reshape(len(known), -1, n_classes)
    share = levels.sum(axis=2) / levels.sum(axis=(1, 2))[:, None]
    clamped = np.zeros_like(levels)
    clamped[np.arange(len(known)), :, labels.gold_code[known]] = share
    start[known] = clamped.reshape(len(known), -1)
    return start
