"""Parameter sites: names, dims and priors, read off the trace of the function that samples the parameters."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist
from numpyro import handlers

__all__ = ["TRACING", "Site", "read_site", "trace_sites"]

TRACING = threading.RLock()
"""Held while NumPyro traces: it keeps its handlers in one global stack, so only one thread may trace at a time."""


@dataclass(frozen=True)
class Site:
    """One parameter site as the trace of `Model.parameters` shows it.

    Parameters
    ----------
    name : str
        Name of the site.
    dims : tuple of str
        Name of each axis, in order.
    shape : tuple of int
        Shape of a draw.
    kind : str
        ``"dirichlet"``, ``"beta"`` or ``"other"``.
    concentration : array or None
        Concentrations with the shape of a draw; for a Beta a last axis of length two is added (value, complement).
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    kind: str
    concentration: Any


def trace_sites(sample: Callable[[], Any], spread: int | None) -> dict[str, Any]:
    """Trace a function that samples parameters, without drawing (or compiling) anything.

    Parameters
    ----------
    sample : callable
        Samples NumPyro sites.
    spread : int or None
        Seed of the values that the sites take; None for a neutral point of their supports.

    Returns
    -------
    dict
        Name -> node in the trace, of the unobserved sample sites.
    """
    with TRACING:
        trace = handlers.trace(handlers.substitute(sample, substitute_fn=_place(spread))).get_trace()
    return {name: node for name, node in trace.items() if node["type"] == "sample" and not node["is_observed"]}


def _place(spread: int | None) -> Any:
    """Substitute a point of each site's support, so that tracing draws (and compiles) nothing."""
    random = np.random.default_rng(spread)

    def value(node: dict[str, Any]) -> Any:
        if node["type"] != "sample" or node["is_observed"]:
            return None
        fn = node["fn"]
        shape = fn.shape()
        if spread is None:
            return fn.support.feasible_like(jnp.zeros(shape))
        to_support = dist.biject_to(fn.support)
        return to_support(jnp.asarray(random.standard_normal(to_support.inverse_shape(shape))))

    return value


def read_site(name: str, node: dict[str, Any]) -> Site:
    """Read the name, dims, kind and concentration of a site off its node in a trace.

    Parameters
    ----------
    name : str
        Name of the site.
    node : dict
        Its node.

    Returns
    -------
    Site
        Dims are the names of its plates and of the ``event_dims`` that its ``infer`` names.
    """
    fn = node["fn"]
    shape = tuple(fn.shape())
    n_event = len(fn.event_shape)
    n_batch = len(shape) - n_event
    plates = {frame.dim: frame.name for frame in node["cond_indep_stack"]}
    batch = tuple(plates.get(axis - n_batch, f"{name}_dim_{axis}") for axis in range(n_batch))
    named = tuple(node["infer"].get("event_dims", ()))
    event = named or tuple(f"{name}_dim_{axis}" for axis in range(n_batch, n_batch + n_event))
    base = fn
    while isinstance(base, dist.Independent | dist.ExpandedDistribution):
        base = base.base_dist
    if isinstance(base, dist.Dirichlet):
        concentration: Any = jnp.broadcast_to(base.concentration, shape)
        return Site(name, batch + event, shape, "dirichlet", concentration)
    if isinstance(base, dist.Beta):
        pair = jnp.stack(jnp.broadcast_arrays(base.concentration1, base.concentration0), axis=-1)
        return Site(name, batch + event, shape, "beta", jnp.broadcast_to(pair, (*shape, 2)))
    return Site(name, batch + event, shape, "other", None)
