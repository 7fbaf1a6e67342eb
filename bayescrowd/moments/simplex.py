"""Probability vectors: projection onto the simplex, and the prevalence that explains the labels' shares best."""

import numpy as np

__all__ = ["onto_simplex", "prevalence_from_marginals"]

_MOST_STEPS = 20_000


def onto_simplex(point: np.ndarray) -> np.ndarray:
    """Project a point onto the probability simplex (sort and threshold).

    Parameters
    ----------
    point : array [class]
        Any numbers.

    Returns
    -------
    array [class]
        The nearest probability vector.

    Examples
    --------
    >>> onto_simplex(np.array([0.7, 0.9, -0.2])).round(3).tolist()
    [0.4, 0.6, 0.0]
    """
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.asarray(np.maximum(point - excess[last], 0.0))


def prevalence_from_marginals(confusion: np.ndarray, marginal: np.ndarray, weight: np.ndarray) -> np.ndarray:
    r"""Find the prevalence from how often each worker uses each label.

    Minimises :math:`\sum_m n_m \lVert p_m - A_m d \rVert^2` over probability vectors, by projected gradient with
    momentum; a strictly convex problem where the confusions tell the classes apart.

    Parameters
    ----------
    confusion : array [worker, class, label]
        Rows sum to one.
    marginal : array [worker, label]
        Shares of each worker's labels.
    weight : array [worker]
        Numbers of labels; 0 leaves a worker out.

    Returns
    -------
    array [class]
        Even shares where no worker counts.
    """
    n_classes = confusion.shape[1]
    even = np.full(n_classes, 1 / n_classes)
    total = weight.sum()
    if total <= 0:
        return even
    share = weight / total
    square = np.einsum("w,wkl,wcl->kc", share, confusion, confusion)
    target = np.einsum("w,wkl,wl->k", share, confusion, marginal)
    step = 1 / max(float(np.linalg.eigvalsh(square)[-1]), 1e-12)
    point = ahead = even
    momentum = 1.0
    for _ in range(_MOST_STEPS):
        after = onto_simplex(ahead - step * (square @ ahead - target))
        if (after - point) @ (ahead - after) > 0:
            momentum = 1.0  # restart: the momentum points uphill
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after + (momentum - 1) / grown * (after - point)
        moved = np.abs(after - point).max()
        point, momentum = after, grown
        if moved < 1e-14:
            break
    return point
