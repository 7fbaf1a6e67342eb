"""What the moment estimators give: confusion matrices and prevalence, and for whom they could not be estimated."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayescrowd.data.arrays import Table

__all__ = [
    "FLOOR",
    "LEAST_COMMON",
    "Estimate",
    "counts_given",
    "decode",
    "floored",
    "pooled_confusion",
    "smoothed_confusion",
]

FLOOR = 1e-6
"""Smallest probability that an estimate contains: moments of few labels reach zero by chance."""


LEAST_COMMON = 2.0
"""Median number of common items of the pairs below which an estimate from pairs is worth little."""


class Estimate(NamedTuple):
    """A point estimate of Dawid and Skene's parameters.

    Parameters
    ----------
    confusion : array [worker, class, label]
        Rows sum to one.
    prevalence : array [class]
        Sums to one.
    estimated : bool array [worker]
        False for workers whose confusion is the documented fallback: what the soft majority vote says.
    objective : array [iteration] or None
        What was minimised or maximised.
    notes : tuple of str
        What the user should know, in words.
    details : dict
        Further numbers, by name.
    floor : float
        Smallest probability of a label that is believed of any worker when classes are decoded.
    """

    confusion: np.ndarray
    prevalence: np.ndarray
    estimated: np.ndarray
    objective: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = {}
    floor: float = FLOOR


def floored(table: np.ndarray, floor: float = FLOOR) -> np.ndarray:
    """Raise small probabilities to a floor and make rows sum to one.

    Parameters
    ----------
    table : array [..., label]
        Probabilities.
    floor : float
        The smallest allowed before the rows are normalised.

    Returns
    -------
    array [..., label]
    """
    raised = np.maximum(table, floor)
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def counts_given(labels: Table, probability: np.ndarray) -> np.ndarray:
    """Count each worker's labels by class, given probabilities of the items' classes.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    probability : array [item, class]
        Such as the soft majority vote.

    Returns
    -------
    array [worker, class, label]
        Expected counts, by weight.
    """
    n_workers, n_labels = labels.n_workers, len(labels.label_values)
    cell = labels.worker_code.astype(np.int64) * n_labels + labels.label_code
    columns = []
    for share in probability.T:
        weight = share[labels.item_code] if labels.weight is None else share[labels.item_code] * labels.weight
        columns.append(np.bincount(cell, weight, n_workers * n_labels).reshape(n_workers, n_labels))
    return np.stack(columns, axis=1)


def pooled_confusion(counts: np.ndarray, smoothing: float = 1.0) -> np.ndarray:
    """Average the confusion of all workers, by their labels.

    Parameters
    ----------
    counts : array [worker, class, label]
        Labels of each worker by class.
    smoothing : float
        Labels added to every row, spread evenly.

    Returns
    -------
    array [class, label]
        Rows sum to one.
    """
    total = counts.sum(axis=0) + smoothing / counts.shape[2]
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def smoothed_confusion(counts: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Turn counts into confusion matrices, each shrunk towards the average worker's.

    Parameters
    ----------
    counts : array [worker, class, label]
        Labels of each worker by class.
    strength : float
        How many labels per class the average worker is worth.

    Returns
    -------
    array [worker, class, label]
        Rows sum to one.
    """
    total = counts + strength * pooled_confusion(counts)
    return np.asarray(total / total.sum(axis=2, keepdims=True))


def decode(labels: Table, estimate: Estimate, *, rule: str = "map") -> np.ndarray:
    """Give the probabilities of the items' classes under an estimate.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    estimate : Estimate
        Confusion matrices and prevalence.
    rule : {"map", "ml"}
        With the estimated prevalence, or as if classes were equally frequent.

    Returns
    -------
    array [item, class]
        Rows sum to one; gold items at their known class; an item without labels has the prevalence (or even shares).
    """
    n_items, n_classes = labels.n_items, len(labels.classes)
    log_confusion = np.log(np.maximum(estimate.confusion, estimate.floor))
    table = np.empty((n_items, n_classes))
    for k in range(n_classes):
        evidence = log_confusion[labels.worker_code, k, labels.label_code]
        evidence = evidence if labels.weight is None else evidence * labels.weight
        table[:, k] = np.bincount(labels.item_code, evidence, n_items)
    if rule == "map":
        table += np.log(np.maximum(estimate.prevalence, FLOOR))
    if (estimate.prevalence > 0).any():
        table[:, estimate.prevalence <= 0] = -np.inf  # a class that nobody names
    table = np.exp(table - table.max(axis=1, keepdims=True))
    known = np.flatnonzero(labels.gold_code >= 0)
    table[known] = 0.0
    table[known, labels.gold_code[known]] = 1.0
    return np.asarray(table / table.sum(axis=1, keepdims=True))
