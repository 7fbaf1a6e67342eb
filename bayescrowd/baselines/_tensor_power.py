r"""The robust tensor power method, for several tensors and all random starts at once.

A tensor :math:`\sum_r \lambda_r v_r \otimes v_r \otimes v_r` with orthonormal :math:`v_r` has them as the stable fixed
points of :math:`v \leftarrow T(\cdot, v, v) / \lVert T(\cdot, v, v) \rVert`. The best of many starts is iterated once
more and taken off the tensor, and the next is looked for in what is left.

References
----------
Anandkumar, Ge, Hsu, Kakade, Telgarsky (2014), Tensor decompositions for learning latent variable models, JMLR 15,
algorithm 1.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["tensor_components"]


@partial(jax.jit, static_argnames="iterations")
def tensor_components(tensors: Any, starts: Any, *, iterations: int) -> tuple[Any, Any]:
    """Find as many components as a tensor has dimensions.

    Parameters
    ----------
    tensors : array [tensor, d, d, d]
        Tensors; where a tensor is not symmetric, its first axis is the one that stays free.
    starts : array [tensor, d, start, d]
        Starts of each component, of any length.
    iterations : int
        Steps from each start, and again from where the best of them ended.

    Returns
    -------
    tuple of array
        Weights [tensor, component] and unit vectors [tensor, component, d].
    """
    return jax.vmap(partial(_components, iterations=iterations))(tensors, starts)


def _components(tensor: Any, starts: Any, *, iterations: int) -> tuple[Any, Any]:
    def look(rest: Any, begin: Any) -> tuple[Any, tuple[Any, Any]]:
        ends = _iterate(rest, begin, iterations)
        best = jnp.argmax(_weight(rest, ends))
        vector = _iterate(rest, ends[best][None], iterations)
        weight = _weight(rest, vector)[0]
        vector = vector[0]
        rest = rest - weight * jnp.einsum("a,b,c->abc", vector, vector, vector)
        return rest, (weight, vector)

    _, (weights, vectors) = jax.lax.scan(look, tensor, starts)
    return weights, vectors


def _iterate(tensor: Any, vectors: Any, iterations: int) -> Any:
    def step(_: Any, vectors: Any) -> Any:
        return _unit(jnp.einsum("abc,rb,rc->ra", tensor, vectors, vectors), vectors)

    return jax.lax.fori_loop(0, iterations, step, _unit(vectors, vectors))


def _unit(vectors: Any, instead: Any) -> Any:
    length = jnp.sqrt(jnp.sum(vectors**2, axis=1, keepdims=True))
    # A tensor of which nothing is left sends everything to zero: stay.
    return jnp.where(length > 0, vectors / jnp.where(length > 0, length, 1.0), instead)


def _weight(tensor: Any, vectors: Any) -> Any:
    return jnp.einsum("abc,ra,rb,rc->r", tensor, vectors, vectors, vectors)
