r"""Names for the classes: which estimated column is which class, by assignment (never by trying permutations).

An estimator that treats workers apart leaves every worker's classes in an order of their own; one that treats them
together leaves one order for all. Names come from outside: the soft majority vote (with gold, where there is some), or
the belief that everybody is right more often than not.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from bayescrowd.moments.cooccurrence import Cooccurrence

__all__ = ["align_each", "align_together", "best_order", "chain_orders"]

_RIDGE = 1e-2


def best_order(score: np.ndarray) -> np.ndarray:
    """Assign estimated columns to classes.

    Parameters
    ----------
    score : array [class, column]
        How well each column fits each class; larger is better.

    Returns
    -------
    int array [class]
        The column of each class.

    Examples
    --------
    >>> best_order(np.array([[0.1, 0.9], [0.8, 0.7]])).tolist()
    [1, 0]
    """
    finite = np.nan_to_num(score, nan=-1e300, neginf=-1e300, posinf=1e300)
    return np.asarray(linear_sum_assignment(finite, maximize=True)[1])


def align_each(confusion: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Name the classes of each worker apart.

    Parameters
    ----------
    confusion : array [worker, column, label]
        Estimates, positive; each worker's classes in an order of their own.
    counts : array [worker, class, label], optional
        Labels of each worker by voted class: the order in which they are most probable is taken. Without them, the
        order with the most probable diagonal.

    Returns
    -------
    int array [worker, class]
        Column of each class.
    """
    logs = np.log(confusion)
    if counts is None:
        n_classes = confusion.shape[1]
        score = np.swapaxes(logs[:, :, :n_classes], 1, 2)
    else:
        score = np.einsum("wkl,wcl->wkc", counts, logs)
    return np.stack([best_order(table) for table in score]) if len(score) else np.zeros(confusion.shape[:2], int)


def align_together(confusion: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Name the classes of all workers at once.

    Parameters
    ----------
    confusion : array [worker, column, label]
        Estimates, positive, in one order of the classes.
    counts : array [worker, class, label]
        Labels of each worker by voted class.

    Returns
    -------
    int array [class]
        Column of each class.
    """
    return best_order(np.einsum("wkl,wcl->kc", counts, np.log(confusion)))


def chain_orders(confusion: np.ndarray, pairs: Cooccurrence, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Bring workers into one order of the classes by what they said of the same items.

    For two workers :math:`\hat A_m^+ R_{ml} (\hat A_l^+)^T = \Pi_m^T D \Pi_l`, a permuted positive diagonal; the
    permutations are chained along a spanning tree of the best pairs (many common items, well-conditioned estimates).

    Parameters
    ----------
    confusion : array [worker, column, label]
        Estimates, each worker's classes in an order of their own.
    pairs : Cooccurrence
        The pair statistics.
    usable : bool array [worker]
        Workers with an estimate.

    Returns
    -------
    tuple of int array
        Column of each class of the tree's root [worker, class], and the tree (component) of each worker, -1 for those
        without an estimate.
    """
    n_workers, n_classes, _ = confusion.shape
    smallest = np.linalg.svd(confusion, compute_uv=False)[:, -1]
    square = np.einsum("wkl,wcl->wkc", confusion, confusion)
    ridge = _RIDGE * np.trace(square, axis1=1, axis2=2)[:, None, None] / n_classes * np.eye(n_classes)
    inverse = np.linalg.solve(square + ridge, confusion)  # pseudo-inverse of the label x class matrix
    both = usable[pairs.first] & usable[pairs.second]
    first, second = pairs.first[both], pairs.second[both]
    quality = pairs.total[both] * smallest[first] * smallest[second] + 1e-12
    size = (n_workers, n_workers)
    tree = minimum_spanning_tree(coo_array((1 / quality, (first, second)), shape=size).tocsr())
    rate = dict(zip(zip(first.tolist(), second.tolist(), strict=True), pairs.rate[both], strict=True))
    order = np.tile(np.arange(n_classes), (n_workers, 1))
    part = np.full(n_workers, -1)
    n_labels = pairs.label_count.sum(axis=1)
    symmetric = tree + tree.T
    for root in np.argsort(-n_labels * usable, kind="stable"):
        if not usable[root] or part[root] >= 0:
            continue
        number = part.max() + 1
        nodes, before = breadth_first_order(symmetric, root, directed=False)
        part[root] = number
        for node in nodes[1:]:
            parent = before[node]
            table = rate[(parent, node)] if parent < node else rate[(node, parent)].T
            match = best_order(inverse[parent] @ table @ inverse[node].T)  # column of the node for each of the parent
            order[node] = match[order[parent]]
            part[node] = number
    return order, part
