"""Parameter sites: names, dims and priors, read off the trace of the function that samples the parameters."""

import dataclasses
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import distributions as dist
from numpyro import handlers

from bayescrowd.data.arrays import Sizes
from bayescrowd.folding import fold, used

__all__ = ["TRACING", "Site", "hang_together", "read_site", "sites_of", "trace_sites"]

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


def trace_sites(sample: Callable[[], Any], spread: int | None, shift: Any = None) -> dict[str, Any]:
    """Trace a function that samples parameters, without drawing (or compiling) anything.

    Parameters
    ----------
    sample : callable
        Samples NumPyro sites.
    spread : int or None
        Seed of the values that the sites take; None for a neutral point of their supports.
    shift : float, optional
        Added to these values: a traced zero shows what depends on them.

    Returns
    -------
    dict
        Name -> node in the trace, of the unobserved sample sites.
    """
    with TRACING:
        trace = handlers.trace(handlers.substitute(sample, substitute_fn=_place(spread, shift))).get_trace()
    return {name: node for name, node in trace.items() if node["type"] == "sample" and not node["is_observed"]}


def _place(spread: int | None, shift: Any) -> Any:
    """Substitute a point of each site's support, so that tracing draws (and compiles) nothing."""
    random = np.random.default_rng(spread)

    def value(node: dict[str, Any]) -> Any:
        if node["type"] != "sample" or node["is_observed"]:
            return None
        fn = node["fn"]
        shape = fn.shape()
        if spread is None:
            neutral = fn.support.feasible_like(jnp.zeros(shape))
            return neutral if shift is None else neutral + shift
        to_support = dist.biject_to(fn.support)
        return to_support(random.standard_normal(to_support.inverse_shape(shape)))

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


def sites_of(model: Any, sizes: Sizes, spread: int | None, *, values: bool) -> dict[str, Site]:
    """Read all sites of a model; what was read before is not traced again.

    Parameters
    ----------
    model : Model
        A model, whose `parameters` samples the sites.
    sizes : Sizes
        Numbers of items, workers, classes and label values.
    spread : int or None
        Seed of the values that the sites take; None for a neutral point of their supports.
    values : bool
        False leaves the concentrations as shapes.

    Returns
    -------
    dict
        Name -> `Site`, in the order of sampling; its concentration must not be written to.
    """
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(model)):
        return _traced(model, sizes, spread)
    question = _Question(model, sizes, spread)
    if not values:
        return dict(_trace_of(question).sites)
    return dict(_known_values(question) if question.lasting else _evaluated(question))


def hang_together(model: Any, sizes: Sizes) -> bool:
    """Say whether a concentration may depend on the value of another site.

    Parameters
    ----------
    model : Model
        A model, whose `parameters` samples the sites.
    sizes : Sizes
        Numbers of items, workers, classes and label values.

    Returns
    -------
    bool
        False where it does not, as the trace of the concentrations shows.
    """
    return used(_trace_of(_Question(model, sizes, None)).jaxpr)[-1]


_SMALL = 2**20
"""Bytes of priors below which sites are kept."""


class _Question:
    """What is asked, as a key under which the answer is kept: models hold arrays, which have no hash."""

    def __init__(self, model: Any, sizes: Sizes, spread: int | None) -> None:
        self.model, self.sizes, self.spread = model, sizes, spread
        leaves, structure = jax.tree.flatten(model)
        arrays = [np.asarray(leaf) for leaf in leaves]
        self.lasting = all(one.dtype.kind in "biuf" for one in arrays) and sum(one.nbytes for one in arrays) < _SMALL
        bits = tuple((one.dtype.str, one.shape, one.tobytes()) for one in arrays) if self.lasting else ()
        # The function too: a class may be given another one.
        self._key = (structure, type(model).parameters, bits, sizes, spread)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class _Trace(NamedTuple):
    jaxpr: Any  # of the model and of the shift of the sites' values
    shapes: dict[str, Any]
    sites: dict[str, Site]  # concentrations are shapes


def _traced(model: Any, sizes: Sizes, spread: int | None, shift: Any = None) -> dict[str, Site]:
    nodes = trace_sites(functools.partial(model.parameters, sizes), spread, shift)
    return {name: read_site(name, node) for name, node in nodes.items()}


def _trace(question: _Question) -> _Trace:
    found: dict[str, Site] = {}

    def concentrations(model: Any, shift: Any) -> dict[str, Any]:
        found.update(_traced(model, question.sizes, question.spread, shift))
        return {name: site.concentration for name, site in found.items()}

    with jax.enable_x64(True):
        jaxpr, shapes = jax.make_jaxpr(concentrations, return_shape=True)(question.model, 0.0)
    sites = {name: dataclasses.replace(site, concentration=shapes[name]) for name, site in found.items()}
    return _Trace(jaxpr, shapes, sites)


_known_trace = functools.lru_cache(maxsize=128)(_trace)


def _trace_of(question: _Question) -> _Trace:
    return _known_trace(question) if question.lasting else _trace(question)


def _evaluated(question: _Question) -> dict[str, Site]:
    trace = _trace_of(question)
    # Copies of the priors: what is kept must not change with an array of the caller's.
    values = fold(trace.jaxpr, [*(np.array(leaf) for leaf in jax.tree.leaves(question.model)), 0.0])
    if values is None:
        # In one compiled piece instead of dozens of small ones; also where a compiled function asks.
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            values = jax.tree.leaves(_compiled(question.model, question.sizes, question.spread))
    known = jax.tree.unflatten(jax.tree.structure(trace.shapes), [_read_only(value) for value in values])
    return {name: dataclasses.replace(site, concentration=known[name]) for name, site in trace.sites.items()}


_known_values = functools.lru_cache(maxsize=128)(_evaluated)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _compiled(model: Any, sizes: Sizes, spread: int | None) -> dict[str, Any]:
    return {name: site.concentration for name, site in _traced(model, sizes, spread).items()}


def _read_only(value: Any) -> np.ndarray:
    # No copy: a prior that is the same for all workers stays as small as it is stated.
    array = np.asarray(value).view()
    array.flags.writeable = False
    return array
