"""Starts: an item x state array of probabilities from which an engine begins.

A start by name gives probabilities of the classes. A model with difficulty levels needs more: a start that treats its
levels alike is a saddle that some engines never leave. So wherever a start says nothing about levels, they come from a
quick look at the items' easiness (`bayescrowd.inference.ability`), the easiest on the model's easiest level. The start
is *soft*: most, not all, of an item's probability is on its own level, or every level would be free to name the classes
in its own way.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.data.votes import shares as majority
from bayescrowd.errors import EngineError
from bayescrowd.inference import ability
from bayescrowd.model import Model
from bayescrowd.moments.estimate import LEAST_COMMON, Estimate, decode
from bayescrowd.moments.multispa import multispa
from bayescrowd.moments.multispa_kl import multispa_kl
from bayescrowd.moments.symnmf import symnmf

__all__ = ["level_weights", "majority", "names", "perturbed", "resolve"]


_CLASSES: dict[str, Callable[[Table], np.ndarray]] = {"majority": majority, "ability": majority}
"""Starts by name: label table -> probabilities [item, class]."""

_MOMENTS: dict[str, Callable[[Table], Estimate]] = {
    "multispa": multispa,
    "multispa-kl": multispa_kl,
    "symnmf": symnmf,
}
"""Starts by name: label table -> point estimate."""

_MOST_FALLBACK = 0.5
"""A moment estimate is no start where workers with a larger share of the labels could not be estimated."""


def names() -> list[str]:
    """List the starts that have a name.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "ability" in names()
    True
    """
    return [*_CLASSES, *_MOMENTS]


def level_weights(labels: Table, model: Model) -> np.ndarray:
    """Guess the difficulty level of each item from how easy it looks.

    Items are ranked by easiness and cut into levels as equal in number as ties allow; items alike in easiness and
    votes share a level. An item's own level gets .6 of two levels or .5 of more, the others share the rest.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    model : Model
        Its levels, from easy to hard.

    Returns
    -------
    array [item, difficulty]
        Rows sum to one; equal weights for items without labels.
    """
    n_levels = model.n_levels
    weights = np.full((labels.n_items, n_levels), 1 / n_levels)
    if n_levels > 1:
        own = 0.6 if n_levels == 2 else 0.5
        rank = ability.item_levels(labels, ability.estimate(labels).easiness, n_levels)
        labelled = np.flatnonzero(rank >= 0)
        weights[labelled] = (1 - own) / (n_levels - 1)
        weights[labelled, np.asarray(model.levels_from_easy())[rank[labelled]]] = own
    return weights


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


def resolve(init: Any, labels: Table, model: Model, *, notes: list[str] | None = None) -> np.ndarray:
    """Turn what the user passed as ``init`` into a start.

    Parameters
    ----------
    init : str, Fit, array or None
        ``"majority"`` or ``"ability"`` (the same classes: the soft majority vote); ``"multispa"``, ``"multispa-kl"``
        or ``"symnmf"`` (classes under a moment estimate); an earlier fit, or a DataFrame such as its
        ``class_probabilities()`` (matched by item ids and class values; items it does not know start from the majority
        vote); or an array item x class of probabilities. For a model with difficulty levels each of them is spread over
        the levels by `level_weights`, or by the difficulty probabilities of an earlier fit with the same levels. An
        array item x state is taken as it is. None: ``"ability"`` for models with levels, else ``"majority"``.
    labels : CrowdLabels
        The label table.
    model : Model
        For its levels.
    notes : list of str, optional
        Where to say that another start was taken than the one asked for.

    Returns
    -------
    array [item, state]
        Rows sum to one; gold items are clamped.

    Raises
    ------
    EngineError
        Where the start does not fit the labels or is no table of probabilities.
    """
    if init is None:
        init = "ability" if model.n_levels > 1 else "majority"
    levels = None
    if isinstance(init, str):
        if init not in names():
            raise EngineError(
                f"there is no start {init!r}; init takes {', '.join(map(repr, names()))}, a Fit or an array"
            )
        start = _CLASSES[init](labels) if init in _CLASSES else _from_moments(init, labels, notes)
    elif hasattr(init, "class_probabilities"):
        start = _from_table(init.class_probabilities(), labels, "fit")
        levels = _levels_of_fit(init, labels, model)
    elif hasattr(init, "columns") and hasattr(init, "index"):
        start = _from_table(init, labels, "table")
    else:
        start = _from_array(init, labels, model)
    if start.shape[1] == len(labels.classes) and model.n_levels > 1:
        levels = level_weights(labels, model) if levels is None else levels
        start = (levels[:, :, None] * start[:, None, :]).reshape(labels.n_items, -1)
    return _clamp(start, labels)


def _from_moments(name: str, labels: Table, notes: list[str] | None) -> np.ndarray:
    """Classes under a moment estimate, or the majority vote where pairs of workers have too little in common."""
    why = ""
    try:
        estimate = _MOMENTS[name](labels)
        n_labels = np.bincount(labels.worker_code, minlength=labels.n_workers)
        lost = n_labels[~estimate.estimated].sum() / max(n_labels.sum(), 1)
        common = estimate.details["median_common"]
        if lost > _MOST_FALLBACK:
            why = f"workers with {100 * lost:.0f} % of the labels have too few items in common with others"
        elif common < LEAST_COMMON:
            why = f"pairs of workers have {common:.3g} items in common in the median, fewer than {LEAST_COMMON:.0f}"
    except EngineError as error:
        why = str(error)
    if not why:
        if notes is not None:
            notes.extend(f"init={name!r}: {text}" for text in estimate.notes)
        return decode(labels, estimate)
    if notes is not None:
        notes.append(f"The start is the majority vote, not {name!r}: {why}.")
    return majority(labels)


def _levels_of_fit(fit: Any, labels: Any, model: Model) -> np.ndarray | None:
    """Difficulty probabilities of an earlier fit where it has the model's levels."""
    if model.n_levels == 1 or not hasattr(fit, "items"):
        return None
    table = fit.items()
    of_model = model.difficulty_names()
    if list(table.columns[: table.columns.get_indexer(["difficulty"])[0]]) != of_model:
        return None
    weights = level_weights(labels, model)
    position = table.index.get_indexer(labels.items)
    weights[position >= 0] = table[of_model].to_numpy(float)[position[position >= 0]]
    return weights / weights.sum(axis=1, keepdims=True)


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
        by_state = f", or item x state (difficulty by class), {shapes[1]}" if model.n_levels > 1 else ""
        raise EngineError(f"init has shape {start.shape}; it must be item x class, {shapes[0]}{by_state}")
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
