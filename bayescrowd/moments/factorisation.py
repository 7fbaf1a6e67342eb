"""Rotating a square root of a matrix until it is nonnegative, and what its blocks then say of workers and classes.

See `bayescrowd.moments.symnmf`, which uses it.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import bucket
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.partners import padded
from bayescrowd.moments.spa import successive_projection

__all__ = ["Rotated", "extract", "nonnegative"]


class Rotated(NamedTuple):
    """Where the restarts ended.

    Parameters
    ----------
    factor : array [restart, row, class]
        Nonnegative factors.
    objective : array [restart]
        Squared distance from the rotated square root.
    traces : array [restart, iteration]
        Objectives.
    """

    factor: np.ndarray
    objective: np.ndarray
    traces: np.ndarray


def nonnegative(
    root: np.ndarray,
    thresholds: tuple[float, float] = (0.0, 0.8),
    *,
    restarts: int = 10,
    max_iter: int = 500,
    tolerance: float = 1e-12,
    random: np.random.Generator | None = None,
    begin: np.ndarray | None = None,
) -> Rotated:
    """Rotate a square root until it is nonnegative.

    Parameters
    ----------
    root : array [worker, label, class]
        Blocks U.
    thresholds : tuple of float
        First threshold and its decay by iteration.
    restarts : int
        Number of rotations to begin with.
    max_iter : int
        Most iterations.
    tolerance : float
        Stops when the objective falls by less than this fraction.
    random : numpy.random.Generator, optional
        Source of the random rotations.
    begin : array [restart, class, class], optional
        Orthogonal matrices to begin with, instead.

    Returns
    -------
    Rotated
        Factors of all restarts, by blocks.
    """
    n_workers, n_labels, n_classes = root.shape
    if begin is None:
        begin = _beginnings(root, restarts, np.random.default_rng(0) if random is None else random)
    n_rows = bucket(n_workers, 8)
    flat = padded(root, n_rows, 0.0).reshape(n_rows * n_labels, n_classes)
    real = np.repeat(np.arange(n_rows) < n_workers, n_labels)
    with double_precision():
        factor, objective, traces, n_steps = _rotate(
            flat, real, begin, (*thresholds, max_iter, tolerance), most=bucket(max_iter, 8)
        )
    factor = np.asarray(factor).reshape(len(begin), n_rows, n_labels, n_classes)[:, :n_workers]
    objective = np.asarray(objective)
    return Rotated(factor, objective, np.asarray(traces)[:, : int(n_steps)])


@partial(jax.jit, static_argnames=("most",))
def _rotate(root: Any, real: Any, begin: Any, limits: Any, *, most: int) -> tuple[Any, Any, Any, Any]:
    threshold, decay, max_iter, tolerance = limits

    def step(rotation: Any, lowest: Any) -> tuple[Any, Any, Any]:
        turned = root @ rotation
        factor = jnp.where(real[:, None], jnp.maximum(turned, lowest), 0.0)
        left, _, right = jnp.linalg.svd(factor.T @ root)
        after = right.T @ left.T
        return after, factor, jnp.sum((factor - root @ after) ** 2)

    def advance(state: Any) -> Any:
        rotation, before, trace, count, _ = state
        after, _, now = jax.vmap(step, (0, None))(rotation, threshold * decay**count)
        settled = before - now <= tolerance * before
        return after, now, trace.at[:, count].set(now), count + 1, jnp.all(settled) & (count > 0)

    n = begin.shape[0]
    state = (
        begin,
        jnp.full(n, jnp.inf),
        jnp.zeros((n, most)),
        jnp.zeros((), int),
        jnp.zeros((), bool),
    )
    rotation, objective, trace, count, _ = jax.lax.while_loop(
        lambda state: (state[3] < max_iter) & ~state[4], advance, state
    )
    factor = jnp.where(real[:, None], jnp.maximum(root @ rotation, 0.0), 0.0)
    return factor, objective, trace, count


def _beginnings(root: np.ndarray, restarts: int, random: np.random.Generator) -> np.ndarray:
    """None, the rotation that successive projection of the rows suggests, and random ones (uniform)."""
    n_classes = root.shape[2]
    found = [np.eye(n_classes)]
    if restarts > 1:
        found.append(_by_rows(root))
    while len(found) < restarts:
        matrix, upper = np.linalg.qr(random.normal(size=(n_classes, n_classes)))
        found.append(matrix * np.where(np.diag(upper) < 0, -1.0, 1.0))
    return np.stack(found[: max(restarts, 1)])


def _by_rows(root: np.ndarray) -> np.ndarray:
    rows = root.reshape(-1, root.shape[2])
    length = np.linalg.norm(rows, axis=1)
    rows = rows[length > 1e-3 * length.max(initial=0)]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) if len(rows) else rows
    n_classes = root.shape[2]
    if len(rows) < n_classes:
        return np.eye(n_classes)
    n = bucket(len(rows), 64)
    with double_precision():
        picked, _ = successive_projection(padded(rows, n, 0.0), np.zeros(n, int), n_owners=1, n_picks=n_classes)
    index = np.asarray(picked)[0]
    if (index >= len(rows)).any():
        return np.eye(n_classes)
    left, _, right = np.linalg.svd(rows[index].T)
    return np.asarray(left @ right)


def extract(factor: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Read confusions and prevalence off a nonnegative factor.

    Parameters
    ----------
    factor : array [worker, label, class]
        Blocks of H.
    weight : array [worker]
        Numbers of labels.

    Returns
    -------
    tuple
        Confusions [worker, class, label], roots of the prevalence [class], and how far the column sums of the blocks,
        which should be alike, differ (weighted standard deviation, largest over classes).
    """
    sums = factor.sum(axis=1)
    share = weight / max(float(weight.sum()), 1e-300)
    mean = share @ sums
    spread = float(np.sqrt(np.maximum(share @ (sums - mean) ** 2, 0.0)).max())
    n_labels = factor.shape[1]
    table = np.where(sums[:, None, :] > 1e-12, factor / np.maximum(sums, 1e-300)[:, None, :], 1 / n_labels)
    return np.swapaxes(table, 1, 2), mean, spread
