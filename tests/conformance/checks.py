"""What every model must pass, as functions of a model and a label table."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import scipy.stats
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.contrib import funsor as enumeration
from numpyro.infer.initialization import init_to_value
from numpyro.infer.util import initialize_model, log_density, potential_energy

from bayescrowd.data.arrays import Sizes, build_arrays, build_padded
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.density import enumerated_program, marginal_program, unconstrain
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import at_cells, joint, marginal
from bayescrowd.kernels.tables import concentration, tables_of
from bayescrowd.model import At, Model

# Compiled functions take the model as an argument, so that models of one class share them.


@partial(jax.jit, static_argnames="sizes")
def _draw(model: Model, key: Any, sizes: Sizes) -> dict[str, Any]:
    trace = handlers.trace(handlers.seed(model.parameters, key)).get_trace(sizes)
    return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}


@partial(jax.jit, static_argnames="sizes")
def _state(model: Model, parameters: Any, true_class: Any, difficulty: Any, item: Any, sizes: Sizes) -> Any:
    return model.log_state(parameters, At(None, true_class, difficulty, None, item, sizes)).squeeze()


@partial(jax.jit, static_argnames="sizes")
def _response(model: Model, parameters: Any, at: At, sizes: Sizes) -> Any:
    return model.log_response(parameters, at._replace(sizes=sizes)).squeeze()


@jax.jit
def _enumerated(model: Model, table: Any, parameters: Any) -> Any:
    program = enumeration.enum(model.program, first_available_dim=-6)
    return enumeration.log_density(program, (table,), {}, parameters)[0]


@jax.jit
def _marginal(model: Model, arrays: Any, parameters: Any) -> Any:
    return log_density(marginal_program, (model, arrays), {}, parameters)[0]


@jax.jit
def _likelihood(model: Model, arrays: Any, parameters: Any) -> Any:
    return jnp.sum(marginal(joint(model, parameters, arrays), arrays))


def prior_draw(model: Model, sizes: Sizes, seed: int) -> dict[str, np.ndarray]:
    """One draw of the parameters from the prior."""
    with double_precision():
        return {name: np.asarray(value) for name, value in _draw(model, jax.random.key(seed), sizes).items()}


def log_prior(model: Model, sizes: Sizes, parameters: dict[str, np.ndarray]) -> float:
    """The prior density: by SciPy for Dirichlet and Beta sites, by NumPyro for the others."""
    total = 0.0
    sites = model.sites(sizes)
    for name, site in sites.items():
        value = parameters[name]
        if site.kind == "dirichlet":
            alpha = np.asarray(site.concentration, float).reshape(-1, value.shape[-1])
            for row, a in zip(value.reshape(alpha.shape), alpha, strict=True):
                total += scipy.stats.dirichlet.logpdf(row / row.sum(), a) if len(row) > 1 else 0.0
        elif site.kind == "beta":
            pair = np.asarray(site.concentration, float)
            total += scipy.stats.beta.logpdf(value, pair[..., 0], pair[..., 1]).sum()
        else:
            with double_precision():
                trace = handlers.trace(handlers.substitute(model.parameters, data=parameters)).get_trace(sizes)
                total += float(np.sum(trace[name]["fn"].log_prob(value)))
    return total


def tabulate(model: Model, parameters: dict[str, np.ndarray], data: oracle.Problem) -> tuple[np.ndarray, np.ndarray]:
    """log_state [item, state] and log_response [annotation, state], one scalar index at a time."""
    sizes = Sizes(data.n_items, data.n_workers, data.n_classes, data.n_labels)
    n_states = model.n_levels * data.n_classes
    log_state = np.zeros((data.n_items, n_states))
    log_response = np.zeros((data.n, n_states))
    with double_precision():
        values = {name: jnp.asarray(value) for name, value in parameters.items()}
        for s in range(n_states):
            c, h = np.array([s % data.n_classes]), np.array([s // data.n_classes])
            for i in range(data.n_items):
                log_state[i, s] = float(_state(model, values, c, h, np.array([i]), sizes))
            for n in range(data.n):
                worker, label, item = (np.array([int(part[n])]) for part in (data.worker, data.label, data.item))
                item = item if model.uses_item else None
                log_response[n, s] = float(_response(model, values, At(worker, c, h, label, item, None), sizes))
    return log_state, log_response


def brute_density(model: Model, labels: Any, parameters: dict[str, np.ndarray]) -> float:
    """log p(parameters, labels): prior by SciPy, labels by a sum over all joint assignments."""
    data = oracle.of_labels(labels)
    log_state, log_response = tabulate(model, parameters, data)
    likelihood = oracle.log_likelihood(data, log_state, log_response, n_levels=model.n_levels)
    return log_prior(model, sizes_of(labels), parameters) + likelihood


def enumerated_density(model: Model, labels: Any, parameters: dict[str, np.ndarray]) -> float:
    """The density of the model's own program, NumPyro summing the states out."""
    with double_precision():
        return float(_enumerated(model, build_padded(labels), parameters))


def marginal_density(
    model: Model, labels: Any, parameters: dict[str, np.ndarray], *, by_annotation: bool = False
) -> float:
    """The density of the closed form, in the layout that samplers use."""
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=by_annotation or model.uses_item)
        return float(_marginal(model, arrays, parameters))


def padded_likelihood(model: Model, labels: Any, parameters: dict[str, np.ndarray]) -> float:
    """The likelihood in the layout that EM uses: workers, items and annotations padded to buckets."""
    with double_precision():
        arrays = build_arrays(labels, pad=True, by_annotation=model.uses_item)
        exact, longer = sizes_of(labels), arrays.sizes
        wide = {}
        for name, site in model.sites(longer).items():
            value = parameters[name]
            extra = [(0, size - now) for size, now in zip(site.shape, value.shape, strict=True)]
            wide[name] = np.pad(value, extra, mode="edge")
        assert longer.n_workers >= exact.n_workers
        return float(_likelihood(model, arrays, wide))


def potentials(
    model: Model, labels: Any, parameters: dict[str, np.ndarray]
) -> tuple[tuple[float, Any], tuple[float, Any]]:
    """Value and gradient of the potential energies that the two kinds of NUTS walk on."""
    with double_precision():
        exact = sizes_of(labels)
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        position = unconstrain(model, exact, parameters)
        table = build_padded(labels)
        info = initialize_model(
            jax.random.key(0),
            lambda: enumerated_program(model, table),
            init_strategy=init_to_value(values={name: jnp.asarray(value) for name, value in parameters.items()}),
        )
        closed = lambda z: potential_energy(marginal_program, (model, arrays), {}, z)
        return tuple(jax.jit(jax.value_and_grad(energy))(position) for energy in (info.potential_fn, closed))


def route_gap(model: Model, labels: Any, parameters: dict[str, np.ndarray]) -> float:
    """Largest difference of log_response and the sum over routes, on all cells and states."""
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        tables = tables_of(model, arrays.sizes)

        def gap(parameters: Any) -> Any:
            flat = tables.flatten(parameters)
            at = at_cells(model, arrays)
            total: Any = 0.0
            for route in model.routes(at):
                value = jnp.asarray(route.log_constant, float)
                for name, index in route.cells.items():
                    value = value + jnp.where(route.counted, jnp.log(flat)[tables.entries(name, index)], 0.0)
                total = total + jnp.exp(value)
            return jnp.max(jnp.abs(jnp.log(total) - model.log_response(parameters, at)))

        return float(jax.jit(gap)(parameters))


def by_draw(model: Model, draws: dict[str, np.ndarray], labels: Any) -> np.ndarray:
    """Conditional probabilities of the states for every draw, [chain, draw, item, state]."""
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        one = lambda parameters: jax.nn.softmax(joint(model, parameters, arrays), axis=1)
        table = np.asarray(jax.jit(jax.vmap(jax.vmap(one)))({k: jnp.asarray(v) for k, v in draws.items()}))
    return table[:, :, np.asarray(arrays.row_of_item)[: labels.n_items]]


def _gamma_sites(model: Model, sizes: Sizes, n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Draws [draw, ...] by NumPy of the Dirichlet and Beta sites whose prior hangs on no other site.

    Their priors are those of NumPyro's own trace of the program. JAX takes ten times as long to draw a gamma variate.
    """
    one, other = (handlers.trace(handlers.seed(model.parameters, seed)).get_trace(sizes) for seed in (0, 1))
    found = {}
    for name, site in one.items():
        alphas = [_concentration(trace[name]["fn"]) for trace in (one, other)]
        if alphas[0] is None or not np.array_equal(*alphas):
            continue
        gamma = random.standard_gamma(np.broadcast_to(alphas[0], (n, *alphas[0].shape)))
        shares = gamma / gamma.sum(-1, keepdims=True)
        found[name] = shares[..., 0] if shares[0].shape != site["value"].shape else shares
        assert found[name].shape == (n, *site["value"].shape)
    return found


def _concentration(fn: Any) -> np.ndarray | None:
    """Concentrations [..., part] of a Dirichlet distribution, or of a Beta distribution as pairs."""
    base = fn
    while isinstance(base, dist.Independent | dist.ExpandedDistribution):
        base = base.base_dist
    if isinstance(base, dist.Dirichlet):
        return np.broadcast_to(np.asarray(base.concentration), fn.shape())
    if isinstance(base, dist.Beta):
        pair = np.stack(np.broadcast_arrays(base.concentration1, base.concentration0), axis=-1)
        return np.broadcast_to(pair, (*fn.shape(), 2))
    return None


def prior_monte_carlo(
    model: Model, labels: Any, *, n: int = 200_000, seed: int = 1
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[float, float]]:
    """Posterior means by weighting draws from the prior with the likelihood: right for any model on few labels.

    Returns means with standard errors (of the states as "state", of the sites by name) and the log evidence with its.
    """
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        sizes = arrays.sizes

        def one(key: Any, given: Any) -> Any:
            program = handlers.substitute(handlers.seed(model.parameters, key), data=given)
            trace = handlers.trace(program).get_trace(sizes)
            values = {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}
            table = joint(model, values, arrays)
            state = jax.nn.softmax(table, axis=1)[jnp.asarray(arrays.row_of_item)[: sizes.n_items]]
            return jnp.sum(marginal(table, arrays)), {"state": state, **values}

        draw = jax.jit(jax.vmap(one))
        keys = jax.random.split(jax.random.key(seed), n).reshape(20, -1)
        given = _gamma_sites(model, sizes, n, np.random.default_rng(seed))
        parts = [draw(keys[k], {name: np.split(value, 20)[k] for name, value in given.items()}) for k in range(20)]
        log_weight = np.concatenate([np.asarray(part[0]) for part in parts])
        values = {name: np.concatenate([np.asarray(part[1][name]) for part in parts]) for name in parts[0][1]}
    weight = np.exp(log_weight - log_weight.max())
    log_evidence = float(np.log(weight.mean()) + log_weight.max())
    share = weight / weight.sum()
    means = {}
    for name, value in values.items():
        mean = np.tensordot(share, value, 1)
        error = np.sqrt(np.tensordot(share**2, (value - mean) ** 2, 1))
        means[name] = (mean, error)
    return means, (log_evidence, float(np.sqrt(weight.var() / n) / weight.mean()))


def stationarity(model: Model, labels: Any, points: dict[str, np.ndarray], *, posterior: bool) -> float:
    """Largest derivative of the objective along the simplexes, at an interior point."""
    with double_precision():
        exact = sizes_of(labels)
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        sites = model.sites(exact)
        alpha = {name: site.concentration for name, site in sites.items()}

        def objective(logs: Any) -> Any:
            values = {}
            prior: Any = 0.0
            for name, site in sites.items():
                if site.kind == "dirichlet":
                    values[name] = jax.nn.softmax(logs[name], axis=-1)
                    prior += jnp.sum((alpha[name] - 1) * jnp.log(values[name]))
                elif site.kind == "beta":
                    values[name] = jax.nn.sigmoid(logs[name])
                    prior += jnp.sum((alpha[name][..., 0] - 1) * jnp.log(values[name]))
                    prior += jnp.sum((alpha[name][..., 1] - 1) * jnp.log1p(-values[name]))
                else:
                    values[name] = jnp.exp(logs[name]) if np.min(points[name]) > 0 else logs[name]
            if any(site.kind == "other" for site in sites.values()):
                prior = log_density(model.parameters, (exact,), {}, values)[0]
            likelihood = jnp.sum(marginal(joint(model, values, arrays), arrays))
            return likelihood + prior if posterior else likelihood

        start = {}
        for name, site in sites.items():
            value = jnp.asarray(points[name])
            if site.kind == "beta":
                start[name] = jnp.log(value) - jnp.log1p(-value)
            elif site.kind == "dirichlet" or np.min(points[name]) > 0:
                start[name] = jnp.log(value)
            else:
                start[name] = value
        slopes = jax.jit(jax.grad(objective))(start)
        return max(float(jnp.max(jnp.abs(slope))) for slope in jax.tree.leaves(slopes))


def flat_concentration(model: Model, labels: Any) -> np.ndarray:
    """All prior concentrations in one vector."""
    with double_precision():
        return np.asarray(concentration(model, sizes_of(labels)))
