"""Pairs as seen from each worker: whom a worker shares items with, in rows of one length."""

from typing import Any, NamedTuple

import numpy as np

from bayescrowd.data.arrays import bucket
from bayescrowd.errors import EngineError

__all__ = ["Partners", "padded", "partners_of"]

_MOST_SLOTS = 50_000_000


class Partners(NamedTuple):
    """The partners of each worker.

    Parameters
    ----------
    pair : int array [worker, slot]
        Number of the pair; one past the last where the slot is empty.
    partner : int array [worker, slot]
        The other worker (0 where empty).
    is_first : bool array [worker, slot]
        Whether the worker is the first of the pair, so that its labels are on the rows of the block.
    """

    pair: Any
    partner: Any
    is_first: Any


def partners_of(first: np.ndarray, second: np.ndarray, n_workers: int) -> Partners:
    """List the partners of each worker.

    Parameters
    ----------
    first, second : int array [pair]
        The workers of each pair; pairs of workers beyond ``n_workers`` are padding.
    n_workers : int
        Number of workers.

    Returns
    -------
    Partners
        With as many slots as the worker with most partners needs, rounded up.

    Raises
    ------
    EngineError
        Where that would not fit in memory.
    """
    n_pairs = len(first)
    owner, partner = np.concatenate([first, second]), np.concatenate([second, first])
    pair, is_first = np.tile(np.arange(n_pairs), 2), np.repeat([True, False], n_pairs)
    real = np.flatnonzero(owner < n_workers)
    order = real[np.argsort(owner[real], kind="stable")]
    owner, partner, pair, is_first = owner[order], partner[order], pair[order], is_first[order]
    degree = np.bincount(owner, minlength=n_workers)
    width = bucket(max(int(degree.max(initial=1)), 1), 8)
    if n_workers * width > _MOST_SLOTS:
        raise EngineError(
            f"one worker shares items with {degree.max():,} others: tables of {n_workers:,} x {width:,} would not fit "
            "in memory. Use engine='multispa' or 'multispa-kl', or an engine on the labels such as 'em'"
        )
    slot = np.arange(len(owner)) - np.repeat(np.cumsum(degree) - degree, degree)
    shape = (n_workers, width)
    table = Partners(np.full(shape, n_pairs), np.zeros(shape, int), np.zeros(shape, bool))
    table.pair[owner, slot] = pair
    table.partner[owner, slot] = partner
    table.is_first[owner, slot] = is_first
    return table


def padded(value: np.ndarray, n: int, filling: float) -> np.ndarray:
    """Lengthen an array along its first axis.

    Parameters
    ----------
    value : array [row, ...]
        What to lengthen.
    n : int
        New number of rows.
    filling : float
        What to fill in.

    Returns
    -------
    array [n, ...]
    """
    out = np.full((n, *value.shape[1:]), filling, value.dtype)
    out[: len(value)] = value
    return out
