"""The plain vote on each item, from a label table."""

import numpy as np

from bayescrowd.data.arrays import Table

__all__ = ["shares", "votes"]


def votes(labels: Table) -> np.ndarray:
    """Add up the votes for each class, by weight.

    Parameters
    ----------
    labels : CrowdLabels
        The label table. Labels that are no class do not vote.

    Returns
    -------
    array [item, class]
        Zeros for an item without votes.
    """
    n_classes = len(labels.classes)
    is_class = labels.label_code < n_classes
    cell = labels.item_code[is_class].astype(np.int64) * n_classes + labels.label_code[is_class]
    weight = None if labels.weight is None else labels.weight[is_class]
    return np.bincount(cell, weight, labels.n_items * n_classes).reshape(labels.n_items, n_classes).astype(float)


def shares(labels: Table, count: np.ndarray | None = None) -> np.ndarray:
    """Give the soft majority vote of every item.

    Parameters
    ----------
    labels : CrowdLabels
        The label table. Labels that are no class do not vote; an item without votes gets equal shares.
    count : array [item, class], optional
        Its `votes`, where they are at hand.

    Returns
    -------
    array [item, class]
        Shares of the votes; gold items at their known class. Rows sum to one.
    """
    share = votes(labels) if count is None else count.copy()
    share[share.sum(axis=1) == 0] = 1.0
    known = np.flatnonzero(labels.gold_code >= 0)
    share[known] = 0.0
    share[known, labels.gold_code[known]] = 1.0
    return np.asarray(share / share.sum(axis=1, keepdims=True))
