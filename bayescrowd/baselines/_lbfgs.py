r"""L-BFGS for many small separate problems at once.

Every row of the point is a problem of its own, with its own curvature pairs and its own step length; all rows are
evaluated together. A step that does not lower its row's value enough is halved at the next evaluation.

References
----------
Nocedal, Wright (2006), Numerical optimization, algorithm 7.4 (two-loop recursion), eq. (3.4) (sufficient decrease).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["minimise_rows"]

_MEMORY = 6
"""Curvature pairs that are kept."""

_ENOUGH = 1e-4
"""Least decrease of a step, as a share of what the slope promises."""


class _Search(NamedTuple):
    point: Any
    value: Any
    slope: Any
    direction: Any
    length: Any
    moves: Any
    turns: Any
    n_pairs: Any
    n_done: Any


def minimise_rows(
    function: Callable[[Any], tuple[Any, Any]], point: Any, curvature: Any, *, steps: Any, tolerance: Any
) -> Any:
    """Minimise each row's value.

    Parameters
    ----------
    function : callable
        Point [row, d] -> values [row] and slopes [row, d].
    point : array [row, d]
        Where to begin.
    curvature : array [row, 1] or [row, d]
        A bound of each row's curvature: its inverse scales the first step.
    steps : int
        Most evaluations after the first.
    tolerance : float
        A row rests where its largest slope, times its inverse curvature bound, is below this.

    Returns
    -------
    array [row, d]
        No row's value is higher than where it began.
    """
    n_rows, n_dims = point.shape
    zeros = jnp.zeros((_MEMORY, n_rows, n_dims), point.dtype)
    still, rows = jnp.zeros_like(point), jnp.ones(n_rows, point.dtype)
    # The first evaluation is a step of no length: the function is compiled once.
    begin = _Search(point, rows * jnp.inf, still, still, rows, zeros, zeros, jnp.zeros(n_rows, jnp.int32), 0)

    def going(search: _Search) -> Any:
        moving = jnp.any(jnp.max(jnp.abs(search.slope / curvature), axis=1) > tolerance)
        return (search.n_done == 0) | ((search.n_done <= steps) & moving)

    def step(search: _Search) -> _Search:
        move = search.length[:, None] * search.direction
        point = search.point + move
        value, slope = function(point)
        promised = jnp.sum(search.slope * move, axis=1)
        better = (value <= search.value + _ENOUGH * promised) & ((promised < 0) | (search.n_done == 0))
        turn = slope - search.slope
        bent = better & (jnp.sum(move * turn, axis=1) > 1e-10 * jnp.sum(move**2, axis=1))
        moves = jnp.where(bent[:, None], jnp.concatenate([search.moves[1:], move[None]]), search.moves)
        turns = jnp.where(bent[:, None], jnp.concatenate([search.turns[1:], turn[None]]), search.turns)
        n_pairs = jnp.minimum(search.n_pairs + bent, _MEMORY)
        slope = jnp.where(better[:, None], slope, search.slope)
        direction = _direction(slope, moves, turns, n_pairs, curvature)
        return _Search(
            jnp.where(better[:, None], point, search.point),
            jnp.where(better, value, search.value),
            slope,
            jnp.where(better[:, None], direction, search.direction),
            jnp.where(better, 1.0, search.length / 2),
            moves,
            turns,
            n_pairs,
            search.n_done + 1,
        )

    return jax.lax.while_loop(going, step, begin).point


def _direction(slope: Any, moves: Any, turns: Any, n_pairs: Any, curvature: Any) -> Any:
    """Two-loop recursion; the newest pair of a row is the last, and a row has ``n_pairs`` of them."""
    along = jnp.sum(moves * turns, axis=2)
    held = jnp.arange(_MEMORY)[:, None] >= _MEMORY - n_pairs
    rate = jnp.where(held, 1 / jnp.where(held, along, 1.0), 0.0)

    def back_in_time(step: Any, carry: Any) -> Any:
        ahead, shares = carry
        pair = _MEMORY - 1 - step
        share = rate[pair] * jnp.sum(moves[pair] * ahead, axis=1)
        return ahead - share[:, None] * turns[pair], shares.at[pair].set(share)

    def forth(pair: Any, ahead: Any) -> Any:
        share = rate[pair] * jnp.sum(turns[pair] * ahead, axis=1)
        return ahead + (shares[pair] - share)[:, None] * moves[pair]

    ahead, shares = jax.lax.fori_loop(0, _MEMORY, back_in_time, (slope, jnp.zeros_like(rate)))
    scaled = jnp.sum(turns[-1] ** 2 / curvature, axis=1)
    scale = jnp.where(n_pairs > 0, along[-1] / jnp.where(scaled > 0, scaled, 1.0), 1.0)
    ahead = jax.lax.fori_loop(0, _MEMORY, forth, ahead * scale[:, None] / curvature)
    return -ahead
