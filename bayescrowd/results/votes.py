"""The plain vote on each item, read off a result tree."""

import numpy as np
import xarray as xr

__all__ = ["ABSTAIN", "leading", "majority_codes", "vote_shares"]

ABSTAIN = -1
"""Stands for "no class" among class indices; never shown to a user."""

_TIE = 1e-6
"""Probabilities and vote shares closer than this count as equal, so that rounding decides nothing."""


def vote_shares(tree: xr.DataTree) -> np.ndarray:
    """Share of each class among an item's votes, by weight; zeros for items without votes.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    array [item, class]
        Labels that are no class do not vote.
    """
    observed = tree["observed_data"].dataset
    n_items, n_classes = observed.sizes["item"], observed.sizes["class"]
    label = observed["label_index"].to_numpy()
    is_class = label < n_classes
    cell = observed["item_index"].to_numpy()[is_class].astype(np.int64) * n_classes + label[is_class]
    weight = observed["weight"].to_numpy()[is_class] if "weight" in observed else None
    votes = np.bincount(cell, weight, n_items * n_classes).reshape(n_items, n_classes).astype(float)
    total = votes.sum(axis=1, keepdims=True)
    return votes / np.where(total > 0, total, 1.0)


def leading(table: np.ndarray) -> np.ndarray:
    """Mark the classes that lead each row.

    Parameters
    ----------
    table : array [item, class]
        Probabilities or shares.

    Returns
    -------
    bool array [item, class]
        Several in a row that is tied; none in a row of zeros.
    """
    top = table.max(axis=1, keepdims=True, initial=0.0)
    return (table >= top - _TIE) & (top > 0)


def majority_codes(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """Majority vote of each item: the first of the leading classes (-1 without votes), and whether it is tied.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    code : int array [item]
        Index of the class.
    tie : bool array [item]
        True where several classes lead.
    """
    leads = leading(vote_shares(tree))
    n_leads = leads.sum(axis=1)
    return np.where(n_leads > 0, leads.argmax(axis=1), ABSTAIN), n_leads > 1
