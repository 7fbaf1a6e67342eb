r"""Is a nonnegative matrix sufficiently scattered? The condition under which coupled factorisations have one solution.

H (rows h, one per label of the workers of a set) is sufficiently scattered when its cone contains
:math:`C = \{x : 1^T x \ge \sqrt{K - 1}\,\lVert x \rVert\}` and touches the border of its dual only in the axes. By
duality: every y with :math:`H y \ge 0` and :math:`1^T y = 1` has :math:`\lVert y \rVert \le 1`, with equality for the
axes alone. To find the longest such y is hard in general (a convex function is maximised); linear programs climb to
local maxima from many starts. A y longer than 1 proves that the condition fails; where none is found, it holds as far
as the search could see. For two classes it is exact, and the same as separability.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS, definition 1 and theorem 3.
Huang, Sidiropoulos, Swami (2014), Non-negative matrix factorization revisited, theorem 4.
"""

import numpy as np
from scipy.optimize import linprog

__all__ = ["longest", "two_sides"]

_CLIMBS = 20
_GAIN = 1e-9


def longest(rows: np.ndarray, *, n_starts: int = 20, seed: int = 0) -> float:
    """Find the longest y with ``rows @ y >= 0`` and elements that sum to one.

    Parameters
    ----------
    rows : array [row, class]
        Nonnegative; each at any scale.
    n_starts : int
        Number of random directions to climb from, besides the axes' opposites.
    seed : int
        Seed of these directions.

    Returns
    -------
    float
        Its length: 1 where the rows are sufficiently scattered as far as the search sees, more where they are not,
        infinite where the rows do not even span the space.

    Examples
    --------
    >>> longest(np.eye(3))
    1.0
    >>> longest(np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])) > 1
    True
    """
    n_classes = rows.shape[1]
    rows = rows[rows.sum(axis=1) > 0]
    rows = rows / rows.sum(axis=1, keepdims=True) if len(rows) else rows
    if len(rows) < n_classes or np.linalg.matrix_rank(rows) < n_classes:
        return np.inf
    random = np.random.default_rng(seed)
    starts = [*(-np.eye(n_classes)), *random.normal(size=(n_starts, n_classes))]
    return round(max(_climb(rows, start) for start in starts), 9)


def _climb(rows: np.ndarray, direction: np.ndarray) -> float:
    length = 1.0
    for _ in range(_CLIMBS):
        found = linprog(
            -direction,
            A_ub=-rows,
            b_ub=np.zeros(len(rows)),
            A_eq=np.ones((1, rows.shape[1])),
            b_eq=[1.0],
            bounds=(None, None),
        )
        if found.status == 3:
            return np.inf
        if found.x is None:
            return length
        now = float(np.linalg.norm(found.x))
        if now <= length + _GAIN:
            return max(now, length)
        length, direction = now, found.x
    return length


def two_sides(joined: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Look for two groups of workers, each of one joined to each of the other, as large as greed makes them.

    Parameters
    ----------
    joined : bool array [worker, worker]
        Pairs with enough common items.
    size : array [worker]
        Workers are tried from the largest on.

    Returns
    -------
    tuple of int array
        The workers of both sides; empty where nobody is joined.
    """
    best: tuple[list[int], list[int]] = ([], [])
    order = np.argsort(-size, kind="stable")
    for root in order[: min(len(order), 8)]:
        sides: tuple[list[int], list[int]] = ([int(root)], [])
        for worker in order:
            if worker == root:
                continue
            fits = [
                bool(joined[worker, other].all()) for other in (np.asarray(sides[1], int), np.asarray(sides[0], int))
            ]
            smaller = int(len(sides[1]) < len(sides[0]))
            for side in (smaller, 1 - smaller):
                if fits[side] and (sides[1 - side] or side == 1):
                    sides[side].append(int(worker))
                    break
        if min(map(len, sides)) > min(map(len, best)):
            best = sides
    return np.asarray(best[0], int), np.asarray(best[1], int)
