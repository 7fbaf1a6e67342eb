r"""Filling in the blocks of pair statistics that nobody observed: pairs without common items, and the diagonal.

With :math:`U_m = A_m D^{1/2} \Theta`, one orthogonal :math:`\Theta` for all workers, every block is
:math:`R_{ml} = U_m U_l^T`; the diagonal blocks :math:`R_{mm}`, which no data show (a worker does not answer twice
independently), too.

*Designated* workers r with whom many others share items: :math:`[R_{mr}; R_{lr}]_r = [U_m; U_l] [U_r^T]_r`, so the
leading left singular vectors of these blocks, side by side for several references r, give :math:`U_m U_l^{-1}`, and
:math:`R_{mn} = U_m U_l^{-1} R_{ln}`, averaged over several bridges l. With one reference the singular vectors change
nothing (the blocks have no more columns than classes); with several they are total least squares.

*Robust*: all observed blocks at once, :math:`\min_U \sum w_{ml} \lVert R_{ml} - U_m U_l^T \rVert_F` subject to
:math:`\lVert U_m \rVert_F \le 1` (:math:`\lVert U_m \rVert_F^2 = \sum_k d_k \lVert A_m(\cdot, k) \rVert^2` lies between
1/K and 1), by reweighted least squares: worker by worker the exact minimum within the ball, from one eigendecomposition
and the root of the multiplier. The sum, smoothed at zero, never rises.

References
----------
Ibrahim, Fu (2021), Crowdsourcing via annotator co-occurrence imputation, ICML, eq. (8)-(11). Two changes: blocks weigh
by their common items, and the start is the majority vote's factor, not noise.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import bucket
from bayescrowd.errors import EngineError
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.cooccurrence import Cooccurrence
from bayescrowd.moments.partners import Partners, padded, partners_of

__all__ = ["LOSSES", "Factor", "designated_blocks", "factor_of_blocks", "robust_factor"]

LOSSES = ("absolute", "squared")

_SMOOTH = 1e-6
"""Added to squared residuals, whose inverse roots are the weights."""

_RIDGE = 1e-9
_BISECTIONS = 60
_RCOND = 1e-3
"""Largest cut-off of singular values when a block is inverted; the root of 1 / items where that is lower."""

_LATER = 0.25
"""Weight of a block that was filled in, as a share of the weakest observed one."""

_AS_LOW = 1e-4
"""Minima that differ by less than this fraction are the same one."""

_SMALL_PANEL, _ORDERS = 100, 4
"""Up to so many workers, so many orders of visits are tried: they take little time there, and luck plays a part."""

_SCALINGS = 20
_REFERENCES = 8
_BRIDGES = 8
_MOST_ROWS = 6000


class Factor(NamedTuple):
    """Blocks U of a square root of the completed matrix.

    Parameters
    ----------
    blocks : array [worker, label, class]
        In a frame of their own: any one rotation of all of them serves as well.
    objective : array [iteration]
        What was minimised, before each sweep and after the last.
    """

    blocks: np.ndarray
    objective: np.ndarray


def robust_factor(
    pairs: Cooccurrence,
    start: np.ndarray,
    *,
    loss: str = "absolute",
    weights: str = "count",
    max_iter: int = 100,
    tolerance: float = 1e-6,
    radius: float = 1.0,
) -> Factor:
    """Fit one factor to all observed blocks.

    Parameters
    ----------
    pairs : Cooccurrence
        The pair statistics.
    start : array [worker, label, class]
        Where to begin.
    loss : {"absolute", "squared"}
        Norms of the blocks' residuals, or their squares.
    weights : {"count", "uniform"}
        Blocks by their common items, or all alike.
    max_iter : int
        Most sweeps over all workers.
    tolerance : float
        Stops when a sweep changes the objective by less than this fraction.
    radius : float
        Largest norm of a worker's block.

    Returns
    -------
    Factor
    """
    n_workers = pairs.n_workers
    n_padded = bucket(max(pairs.n_pairs, 1), 64)
    n_rows = bucket(n_workers + 1, 16)
    weight = pairs.total if weights == "count" else np.ones(pairs.n_pairs)
    first, second = padded(pairs.first, n_padded, n_workers), padded(pairs.second, n_padded, n_workers)
    partners = partners_of(first, second, n_workers)
    rows = Partners(
        padded(partners.pair, n_rows, n_padded),
        padded(partners.partner, n_rows, 0),
        padded(partners.is_first, n_rows, 0),
    )
    rate = padded(pairs.rate, n_padded + 1, 0.0)
    share = padded(weight / max(float(weight.sum()), 1e-300), n_padded + 1, 0.0)
    begin = padded(np.asarray(start, float), n_rows, 0.0)
    factors = []
    with double_precision():
        for order in _visits(pairs):
            blocks, trace, n_sweeps = _sweeps(
                rate,
                share,
                rows,
                begin,
                padded(order, n_rows, n_workers),
                (max_iter, tolerance, radius),
                squared=loss == "squared",
                most=bucket(max_iter, 8),
            )
            factors.append(Factor(np.asarray(blocks)[:n_workers], np.asarray(trace)[: int(n_sweeps) + 1]))
    lowest = min(factor.objective[-1] for factor in factors)
    return next(factor for factor in factors if factor.objective[-1] <= lowest * (1 + _AS_LOW))


def _visits(pairs: Cooccurrence) -> list[np.ndarray]:
    """Give orders to visit the workers in that do not depend on how the table lists them: busy ones first, and others.

    The sum has local minima, and which one is reached may depend on the order.
    """
    agreed = np.trace(pairs.count, axis1=1, axis2=2)
    keys = []
    for value in (agreed**2, agreed, pairs.total**2, pairs.total):
        of_worker = np.bincount(pairs.first, value, pairs.n_workers) + np.bincount(pairs.second, value, pairs.n_workers)
        keys.append(-of_worker.round(6))
    order = np.lexsort((*keys[:-1], *np.sort(pairs.label_count, axis=1).T, keys[-1]))
    if pairs.n_workers > _SMALL_PANEL:
        return [order]
    random = np.random.default_rng(0)
    return [order, order[::-1], *(random.permutation(order) for _ in range(_ORDERS - 2))]


@partial(jax.jit, static_argnames=("squared", "most"))
def _sweeps(
    rate: Any, weight: Any, partners: Partners, start: Any, visits: Any, limits: Any, *, squared: bool, most: int
) -> tuple[Any, Any, Any]:
    max_iter, tolerance, radius = limits
    n_rows = start.shape[0]

    def of_worker(worker: Any, blocks: Any) -> tuple[Any, Any, Any]:
        target = rate[partners.pair[worker]]
        target = jnp.where(partners.is_first[worker][:, None, None], target, jnp.swapaxes(target, 1, 2))
        return target, weight[partners.pair[worker]], blocks[partners.partner[worker]]

    def residual(own: Any, target: Any, other: Any) -> Any:
        return jnp.sum((target - jnp.einsum("ak,pbk->pab", own, other)) ** 2, axis=(1, 2))

    def objective(blocks: Any) -> Any:
        def add(worker: Any, total: Any) -> Any:
            target, share, other = of_worker(worker, blocks)
            square = residual(blocks[worker], target, other)
            return total + jnp.sum(share * (square if squared else jnp.sqrt(square + _SMOOTH))) / 2

        return jax.lax.fori_loop(0, n_rows, add, jnp.zeros(()))

    def update(visit: Any, blocks: Any) -> Any:
        worker = visits[visit]
        target, share, other = of_worker(worker, blocks)
        if not squared:
            share = share / (2 * jnp.sqrt(residual(blocks[worker], target, other) + _SMOOTH))
        square = jnp.einsum("p,pbk,pbc->kc", share, other, other)
        product = jnp.einsum("p,pab,pbk->ak", share, target, other)
        own = _within_ball(square, product, blocks[worker], radius)
        return blocks.at[worker].set(jnp.where(jnp.sum(share) > 0, own, blocks[worker]))

    def sweep(state: Any) -> Any:
        blocks, before, step, trace, _ = state
        blocks = jax.lax.fori_loop(0, n_rows, update, blocks)
        now = objective(blocks)
        done = jnp.abs(before - now) <= tolerance * jnp.abs(before)
        return blocks, now, step + 1, trace.at[step + 1].set(now), done

    value = objective(start)
    state = (start, value, jnp.zeros((), int), jnp.zeros(most + 1).at[0].set(value), jnp.zeros((), bool))
    blocks, _, n_sweeps, trace, _ = jax.lax.while_loop(lambda state: (state[2] < max_iter) & ~state[4], sweep, state)
    return blocks, trace, n_sweeps


def _within_ball(square: Any, product: Any, before: Any, radius: Any) -> Any:
    """Minimise tr(U G U') - 2 tr(U B') over the ball: U = B (G + mu I)^-1, mu the root of its norm or 0.

    Where G leaves a direction open, U stays where it was: a little of the distance to ``before`` is added, which cannot
    raise the sum.
    """
    value, vector = jnp.linalg.eigh(square)
    ridge = _RIDGE * jnp.maximum(jnp.max(value), 1e-300)
    value = jnp.maximum(value, 0.0) + ridge
    turned = (product + ridge * before) @ vector
    energy = jnp.sum(turned**2, axis=0)

    def too_long(multiplier: Any) -> Any:
        return jnp.sum(energy / (value + multiplier) ** 2) > radius**2

    def halve(_: Any, bracket: Any) -> Any:
        low, high = bracket
        middle = (low + high) / 2
        above = too_long(middle)
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    most = jnp.sqrt(jnp.sum(energy)) / radius  # the norm is at most |B| / mu
    _, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros(()), most))
    multiplier = jnp.where(too_long(0.0), high, 0.0)
    return (turned / (value + multiplier)) @ vector.T


def designated_blocks(
    pairs: Cooccurrence, *, least: float = 0.0, designated: tuple[int, ...] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Fill in blocks through bridges and references.

    Parameters
    ----------
    pairs : Cooccurrence
        The pair statistics.
    least : float
        Blocks counted on fewer items are treated as missing.
    designated : tuple of int, optional
        Workers to use as bridges and references where they can be; by default the best ones for every block.

    Returns
    -------
    tuple of array
        Blocks [worker, worker, label, label], each summing to one, the diagonal symmetric; and which are there
        (observed or filled in) [worker, worker].

    Raises
    ------
    EngineError
        Where the whole matrix would not fit in memory.
    """
    n_workers, n_labels, n_classes = pairs.n_workers, pairs.n_labels, pairs.n_classes
    if n_workers * n_labels > _MOST_ROWS:
        raise EngineError(
            f"imputation='designated' forms the whole matrix of {n_workers} workers x {n_labels} labels, which is more "
            f"than {_MOST_ROWS} rows; use imputation='robust'"
        )
    kept = pairs.total >= least
    first, second = pairs.first[kept], pairs.second[kept]
    blocks = np.zeros((n_workers, n_workers, n_labels, n_labels))
    blocks[first, second] = pairs.rate[kept]
    blocks[second, first] = np.swapaxes(pairs.rate[kept], 1, 2)
    total = np.zeros((n_workers, n_workers))
    total[first, second] = total[second, first] = pairs.total[kept]
    there = total > 0
    for _ in range(n_workers):
        # What was filled in serves as bridge and reference of the next round, with little weight.
        filled, now = _filled(blocks, total, pairs.marginal, n_classes, designated)
        if (now == there).all() or now.all():
            return filled, now
        weakest = _LATER * float(total[there].min(initial=1.0))
        total = np.where(now & ~there, weakest, total)
        blocks, there = filled, now
    return blocks, there


def _filled(
    blocks: np.ndarray,
    total: np.ndarray,
    marginal: np.ndarray,
    n_classes: int,
    designated: tuple[int, ...] | None,
) -> tuple[np.ndarray, np.ndarray]:
    n_workers = len(total)
    there = total > 0
    smallest = np.linalg.svd(blocks, compute_uv=False)[:, :, n_classes - 1] * there
    quality = np.sqrt(total) * smallest  # inverse of the error that passing through a block brings
    out, filled = blocks.copy(), there.copy()
    for one in range(n_workers):
        missing = np.flatnonzero(~there[one])
        missing = missing[missing >= one]
        if not len(missing):
            continue
        bridges = np.flatnonzero(quality.max(axis=1, initial=0) > 0)
        bridges = bridges[bridges != one]
        moves: dict[int, tuple[np.ndarray, float]] = {}
        for other in missing:
            usable = bridges[there[bridges, other]]
            usable = _preferred(usable, designated, quality[usable, other] if len(usable) else np.zeros(0), _BRIDGES)
            estimate, weight = np.zeros_like(blocks[0, 0]), 0.0
            for bridge in usable:
                if bridge not in moves:
                    moves[bridge] = _move(blocks, total, quality, (one, int(bridge)), n_classes, designated)
                move, trust = moves[bridge]
                share = trust * quality[bridge, other]
                estimate += share * (move @ blocks[bridge, other])
                weight += share
            if weight > 0:
                block = np.maximum(estimate / weight, 0.0)
                if one == other:
                    block = (block + block.T) / 2
                if block.sum() > 0:
                    block = _with_marginals(block, marginal[one], marginal[other])
                    out[one, other], out[other, one] = block, block.T
                    filled[one, other] = filled[other, one] = True
    return out, filled


def _with_marginals(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scale rows and columns of a block to the workers' own shares of labels, which are known far better."""
    block = block / block.sum()
    for _ in range(_SCALINGS):
        for axis, wanted in ((1, rows[:, None]), (0, columns[None, :])):
            total = block.sum(axis=axis, keepdims=True)
            block = block * np.where(total > 0, wanted / np.where(total > 0, total, 1.0), 0.0)
    return np.asarray(block / max(float(block.sum()), 1e-300))


def _preferred(usable: np.ndarray, designated: tuple[int, ...] | None, quality: np.ndarray, most: int) -> np.ndarray:
    """Take the designated workers among those that can be used, or the best ones."""
    if designated:
        named = usable[np.isin(usable, designated)]
        if len(named):
            return named
    return usable[np.argsort(-quality, kind="stable")[:most]]


def _move(
    blocks: np.ndarray,
    total: np.ndarray,
    quality: np.ndarray,
    ends: tuple[int, int],
    n_classes: int,
    designated: tuple[int, ...] | None,
) -> tuple[np.ndarray, float]:
    """U_one times the inverse of U_bridge, from what both said together with references; and how far to trust it."""
    one, bridge = ends
    references = np.flatnonzero((total[one] > 0) & (total[bridge] > 0))
    strength = np.minimum(quality[bridge, references], quality[one, references]) + 1e-9 * quality[bridge, references]
    references = _preferred(references, designated, strength, _REFERENCES)
    if not len(references):
        return np.zeros_like(blocks[0, 0]), 0.0
    strength = np.minimum(quality[bridge, references], quality[one, references]) + 1e-9 * quality[bridge, references]
    scale = strength / max(float(strength.max()), 1e-300)
    stacked = np.concatenate(
        [
            np.concatenate([blocks[one, references], blocks[bridge, references]], axis=1)[i] * scale[i]
            for i in range(len(references))
        ],
        axis=1,
    )
    left = np.linalg.svd(stacked, full_matrices=False)[0][:, :n_classes]
    n_labels = blocks.shape[2]
    cut = min(_RCOND, 1 / np.sqrt(max(float(total[bridge, references].max()), 1.0)))
    return left[:n_labels] @ np.linalg.pinv(left[n_labels:], rcond=cut), float(strength.max())


def factor_of_blocks(blocks: np.ndarray, n_classes: int) -> np.ndarray:
    """Take the square root of a completed matrix of blocks: its leading eigenvectors times the roots of eigenvalues.

    Parameters
    ----------
    blocks : array [worker, worker, label, label]
        All of them.
    n_classes : int
        Rank.

    Returns
    -------
    array [worker, label, class]
        Each column's sum is not negative.
    """
    n_workers, _, n_labels, _ = blocks.shape
    whole = blocks.transpose(0, 2, 1, 3).reshape(n_workers * n_labels, n_workers * n_labels)
    value, vector = np.linalg.eigh((whole + whole.T) / 2)
    root = vector[:, -n_classes:] * np.sqrt(np.maximum(value[-n_classes:], 0.0))
    root = root[:, ::-1] * np.where(root[:, ::-1].sum(axis=0) < 0, -1.0, 1.0)
    return root.reshape(n_workers, n_labels, n_classes)
