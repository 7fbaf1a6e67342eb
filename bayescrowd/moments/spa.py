r"""Successive projection: the vertices of a cloud of points, for the clouds of all workers at once.

Every worker's cloud holds the normalised columns of its co-occurrence blocks. In a column of worker m stands
:math:`A_m h` with :math:`h_k = P(class = k | the partner's label)`: a mixture of the columns of :math:`A_m`, and a
column of it alone where the partner's label is given for one class only. Successive projection takes the longest point,
removes its direction from all points, and repeats.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS, algorithm 1. Gillis, Vavasis
(2014), Fast and robust recursive algorithms for separable nonnegative matrix factorization.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["successive_projection"]

_SAME = 1e-6
"""Lengths closer than this fraction are tied: the point that was longer to begin with is taken."""

_GONE = 1e-9
"""A worker's points have no further direction where the largest squared rest is below this fraction of the first."""


@partial(jax.jit, static_argnames=("n_owners", "n_picks"))
def successive_projection(points: Any, owner: Any, *, n_owners: int, n_picks: int) -> tuple[Any, Any]:
    """Pick the vertices of each owner's points.

    Parameters
    ----------
    points : array [point, label]
        All points.
    owner : int array [point]
        Whose point each is.
    n_owners : int
        Number of owners.
    n_picks : int
        Number of vertices to pick.

    Returns
    -------
    tuple of array
        Index of the picked points [owner, pick], the number of points where there is none; and the squared length that
        was left when each was picked, as a share of the first [owner, pick].
    """
    n_points, n_dims = points.shape
    length = jnp.sum(points**2, axis=1)
    highest = jnp.maximum(jax.ops.segment_max(length, owner, n_owners), 0.0)
    place = jnp.arange(n_points)

    def pick(step: Any, carry: Any) -> Any:
        rest, basis, picked, left = carry
        longest = jnp.maximum(jax.ops.segment_max(rest, owner, n_owners), 0.0)
        near = rest >= (longest * (1 - _SAME))[owner]
        score = jnp.where(near, length, -1.0)
        best = jax.ops.segment_max(score, owner, n_owners)
        index = jax.ops.segment_min(jnp.where(near & (score == best[owner]), place, n_points), owner, n_owners)
        found = (longest > _GONE * highest) & (highest > 0)
        index = jnp.where(found, jnp.minimum(index, n_points), n_points)
        chosen = points[jnp.minimum(index, n_points - 1)]
        for _ in range(2):  # once more for rounding
            chosen = chosen - jnp.einsum("oqd,oq->od", basis, jnp.einsum("oqd,od->oq", basis, chosen))
        norm = jnp.sqrt(jnp.sum(chosen**2, axis=1, keepdims=True))
        unit = jnp.where(found[:, None] & (norm > 0), chosen / jnp.where(norm > 0, norm, 1.0), 0.0)
        rest = jnp.maximum(rest - jnp.sum(unit[owner] * points, axis=1) ** 2, 0.0)
        share = jnp.where(highest > 0, longest / jnp.where(highest > 0, highest, 1.0), 0.0)
        return rest, basis.at[:, step].set(unit), picked.at[:, step].set(index), left.at[:, step].set(share)

    begin = (
        length,
        jnp.zeros((n_owners, n_picks, n_dims), points.dtype),
        jnp.full((n_owners, n_picks), n_points),
        jnp.zeros((n_owners, n_picks), points.dtype),
    )
    _, _, picked, left = jax.lax.fori_loop(0, n_picks, pick, begin)
    return picked, left
