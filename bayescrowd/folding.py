"""Evaluate small traced functions in NumPy, without compiling them.

Priors are a handful of additions, products and broadcasts. XLA takes longer to compile them than everything else that a
fit of a small table does, and compiles them anew for tables of another size; NumPy has them at once. Only arithmetic
is done here, in the precision of the trace; the rest is left to the compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

__all__ = ["fold", "used"]


def fold(traced: Any, values: Sequence[Any]) -> list[np.ndarray] | None:
    """Evaluate a traced function.

    Parameters
    ----------
    traced : ClosedJaxpr
        From `jax.make_jaxpr`.
    values : sequence of array
        Its arguments, flattened.

    Returns
    -------
    list of array or None
        What it returns, flattened; None where it does something that is not known here, and must be compiled.

    Examples
    --------
    >>> import jax
    >>> fold(jax.make_jaxpr(lambda x: 2 * x + 1)(3.0), [3.0])[0].item()
    7.0
    """
    with np.errstate(all="ignore"):
        return _evaluate(traced.jaxpr, traced.consts, values)


def used(traced: Any) -> list[bool]:
    """Say which arguments of a traced function its results depend on.

    Parameters
    ----------
    traced : ClosedJaxpr
        From `jax.make_jaxpr`.

    Returns
    -------
    list of bool
        One per argument, flattened; False only where no result can depend on it.

    Examples
    --------
    >>> import jax
    >>> used(jax.make_jaxpr(lambda x, y: 2 * x)(3.0, 4.0))
    [True, False]
    """
    wanted = {atom for step in _needed(traced.jaxpr) for atom in step.invars if not isinstance(atom, Literal)}
    wanted |= {atom for atom in traced.jaxpr.outvars if not isinstance(atom, Literal)}
    return [variable in wanted for variable in traced.jaxpr.invars]


def _evaluate(jaxpr: Any, constants: Sequence[Any], values: Sequence[Any]) -> list[np.ndarray] | None:
    known: dict[Any, np.ndarray] = {}
    for variables, given in ((jaxpr.constvars, constants), (jaxpr.invars, values)):
        for variable, value in zip(variables, given, strict=True):
            known[variable] = np.asarray(value, variable.aval.dtype)

    def read(atom: Any) -> np.ndarray:
        return known[atom] if not isinstance(atom, Literal) else np.asarray(atom.val, getattr(atom.aval, "dtype", None))

    for step in _needed(jaxpr):
        given = [read(atom) for atom in step.invars]
        if "jaxpr" in step.params and step.primitive.name in ("jit", "pjit"):
            inner = step.params["jaxpr"]
            results = _evaluate(inner.jaxpr, inner.consts, given)
            if results is None:
                return None
        else:
            operation = _OPERATIONS.get(step.primitive.name)
            result = None if operation is None else operation(given, step.params)
            if result is None:
                return None
            results = [result]
        known.update(zip(step.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """List the steps that the result depends on: a trace also holds values of sites, which priors seldom look at."""
    wanted = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    steps = []
    for step in reversed(jaxpr.eqns):
        if any(variable in wanted for variable in step.outvars):
            steps.append(step)
            wanted.update(atom for atom in step.invars if not isinstance(atom, Literal))
    return steps[::-1]


def _iota(given: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    del given
    shape, axis = params["shape"], params["dimension"]
    counted = np.arange(shape[axis], dtype=params["dtype"])
    return np.broadcast_to(counted.reshape([-1 if other == axis else 1 for other in range(len(shape))]), shape)


def _broadcast(given: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], given[0].shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(given[0].reshape(shape), params["shape"])


def _divide(given: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray | None:
    del params
    # Whole numbers are divided in another way.
    return np.asarray(given[0] / given[1]) if given[0].dtype.kind == "f" else None


def _plain(function: Callable[..., Any]) -> Callable[[Sequence[np.ndarray], dict[str, Any]], np.ndarray]:
    def operation(given: Sequence[np.ndarray], params: dict[str, Any]) -> np.ndarray:
        del params
        return np.asarray(function(*given))

    return operation


_OPERATIONS: dict[str, Callable[[Sequence[np.ndarray], dict[str, Any]], np.ndarray | None]] = {
    "iota": _iota,
    "broadcast_in_dim": _broadcast,
    "convert_element_type": lambda given, params: given[0].astype(params["new_dtype"]),
    "reshape": lambda given, params: given[0].reshape(params["new_sizes"]),
    "squeeze": lambda given, params: given[0].squeeze(params["dimensions"]),
    "transpose": lambda given, params: given[0].transpose(params["permutation"]),
    "concatenate": lambda given, params: np.concatenate(given, params["dimension"]),
    "select_n": _plain(lambda which, *cases: np.choose(which.astype(int), cases)),
    "copy": lambda given, params: given[0],
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "neg": _plain(np.negative),
    "div": _divide,
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
}
