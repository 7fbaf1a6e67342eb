r"""Power-scaling with little noise: log prior and log likelihood, freed of what a quantity cannot depend on.

Raising the prior to the power :math:`\alpha` moves the posterior mean of g by
:math:`\mathrm{Cov}(g, \log p(\theta)) \log \alpha`. With hundreds of workers :math:`\log p(\theta)` is a sum over
thousands of rows, nearly all of which have nothing to do with g, yet whose scatter drowns the covariance: with 109
workers and 4 classes chance alone gives sensitivities of .2 from 4000 draws, four times the usual threshold.

So, for models whose labels come about in one way, the states z of all items are drawn along with each draw of the
parameters. Given z every row is a Dirichlet of its own, independent of the others: with counts n and concentrations c,

.. math:: d = (c - 1)^T \log \pi - E[(c - 1)^T \log \pi \mid z], \qquad
          e = n^T \log \pi - E[n^T \log \pi \mid z]

have mean zero given z and everything that is computed from z and other rows. For a quantity that depends on the states
and on some rows, d and e of all *other* rows are taken off the log prior and off the log likelihood: the covariance
stays as it is, and the noise goes.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpyro import handlers

from bayescrowd.criticism.likelihood import total_log_likelihood
from bayescrowd.data.arrays import LabelArrays, build_arrays
from bayescrowd.kernels.entries import chain_joint, route_entries, table_counts
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import TINY, Tables, concentration, expected_log, tables_of
from bayescrowd.model import Model, Sizes
from bayescrowd.results.tree import labels_of, model_of, samples_of, sizes_of
from bayescrowd.sites import TRACING

__all__ = ["Components", "Scaling", "components"]

_MOST_WORK = 1_000_000_000
_FEWEST_DRAWS = 400
_CHUNK_BYTES = 32 * 2**20
_ALPHAS = (0.99, 1.01)
_CONSTANT = 1e-10
_ROTATIONS = 10


class Components(NamedTuple):
    """What can be power-scaled, by draw; rows of tables are grouped by site and worker.

    Parameters
    ----------
    draws : slice
        The draws of each chain that are used.
    shape : tuple of int
        Numbers of chains and draws.
    sites : tuple of str
        Parameter sites whose prior does not hang on other sites.
    site, worker : int array [group]
        Site and worker of each group of rows; worker -1 where the rows belong to no single one.
    prior : array [sample, group]
        Log prior density, up to constants.
    likelihood : array [sample]
        Log likelihood of all labels.
    prior_excess, likelihood_excess : array [sample, group] or None
        What each group adds to the two beyond its expectation given the states; None where that is not known.
    """

    draws: slice
    shape: tuple[int, int]
    sites: tuple[str, ...]
    site: np.ndarray
    worker: np.ndarray
    prior: np.ndarray
    likelihood: np.ndarray
    prior_excess: np.ndarray | None
    likelihood_excess: np.ndarray | None

    def groups(self, sites: tuple[str, ...] | None, worker: int = -1) -> np.ndarray:
        """Mark the groups of rows that a quantity is computed from.

        Parameters
        ----------
        sites : tuple of str or None
            Sites that it reads; None for all.
        worker : int
            The one worker whose rows it reads, -1 for all.

        Returns
        -------
        bool array [group]
        """
        read = np.ones(len(self.site), bool)
        if sites is not None:
            read = np.isin(self.site, [self.sites.index(name) for name in sites])
        return read & ((self.worker < 0) | (self.worker == worker)) if worker >= 0 else read

    def log_prior(self, read: np.ndarray, site: str | None = None) -> np.ndarray:
        """Give the log prior to scale for a quantity.

        Parameters
        ----------
        read : bool array [group]
            From `groups`.
        site : str, optional
            The prior of this site only.

        Returns
        -------
        array [chain, draw]
        """
        mine = np.ones(len(self.site), bool) if site is None else self.site == self.sites.index(site)
        value = self.prior[:, mine].sum(axis=1)
        if self.prior_excess is not None:
            value = value - self.prior_excess[:, mine & ~read].sum(axis=1)
        return value.reshape(self.shape)

    def log_likelihood(self, read: np.ndarray) -> np.ndarray:
        """Give the log likelihood to scale for a quantity.

        Parameters
        ----------
        read : bool array [group]
            From `groups`.

        Returns
        -------
        array [chain, draw]
        """
        value = self.likelihood
        if self.likelihood_excess is not None:
            value = value - self.likelihood_excess[:, ~read].sum(axis=1)
        return value.reshape(self.shape)


def components(tree: xr.DataTree, random: np.random.Generator) -> Components:
    """Compute what can be power-scaled.

    Parameters
    ----------
    tree : DataTree
        A result with Markov chains.
    random : Generator
        For the states of the items.

    Returns
    -------
    Components
        Of evenly spaced draws, where all of them would take long.
    """
    model, labels, sizes = model_of(tree), labels_of(tree), sizes_of(tree)
    samples, lead = samples_of(tree, model)
    n_chains, n_draws = lead
    work = n_chains * n_draws * labels.n_annotations * sizes.n_classes * model.n_levels
    step = max(1, min(-(-work // _MOST_WORK), n_draws * n_chains // _FEWEST_DRAWS))
    draws = slice(None, None, step)
    likelihood = total_log_likelihood(tree, draws).to_numpy()
    shape = likelihood.shape
    samples = {
        name: value.reshape(*lead, *value.shape[1:])[:, draws].reshape(-1, *value.shape[1:])
        for name, value in samples.items()
    }
    with double_precision():
        if model.has_routes:
            arrays = jax.device_put(build_arrays(labels, pad=False, by_annotation=model.uses_item))
            tables = tables_of(model, sizes)
            if len(route_entries(model, arrays, tables)) == 1:
                return _by_rows(model, arrays, tables, samples, draws, likelihood, random)
        by_site = {name: np.asarray(value) for name, value in _by_site(model, _on_device(samples), sizes=sizes).items()}
        names = _on_top(model, samples, sizes)
    groups = np.arange(len(names))
    prior = np.stack([by_site[name] for name in names], axis=1)
    return Components(draws, shape, names, groups, np.full(len(names), -1), prior, likelihood.reshape(-1), None, None)


class Scaling(NamedTuple):
    """Importance weights that scale one component of the posterior down and up a little.

    Parameters
    ----------
    lower, upper : array [chain, draw] or None
        Pareto-smoothed weights; None for a component that is constant, which scaling does not change.
    """

    lower: np.ndarray | None
    upper: np.ndarray | None

    @classmethod
    def of(cls, component: np.ndarray) -> "Scaling":
        """Compute the weights.

        Parameters
        ----------
        component : array [chain, draw]
            Log density that is raised to a power.

        Returns
        -------
        Scaling
        """
        if np.ptp(component) < _CONSTANT:
            return cls(None, None)
        weights = [np.exp(_statistics().power_scale_lw(component, alpha=alpha, axis=(-2, -1))) for alpha in _ALPHAS]
        return cls(*(weight / weight.sum() for weight in weights))

    def sensitivity(self, value: np.ndarray) -> float:
        """Give the sensitivity of a quantity.

        Parameters
        ----------
        value : array [chain, draw]
            Its draws.

        Returns
        -------
        float
            Gradient, in log2 of the power, of the distance between the cumulative distributions of the posterior and of
            the scaled one.

        References
        ----------
        Kallioinen, Paananen, Buerkner, Vehtari (2023), Detecting and diagnosing prior and likelihood sensitivity with
        power-scaling, Statistics and Computing 34, 57.
        """
        if self.lower is None or self.upper is None:
            return 0.0
        arguments = (value, self.lower, self.upper, *_ALPHAS)
        return float(_statistics().power_scale_sense(*arguments, chain_axis=-2, draw_axis=-1))

    def noise(self, value: np.ndarray, random: np.random.Generator) -> float:
        """Say how large a sensitivity chance alone would show.

        Parameters
        ----------
        value : array [chain, draw]
            Draws of the quantity.
        random : Generator
            For the rotations.

        Returns
        -------
        float
            The largest of the sensitivities to weights of other chains, rotated within each: as autocorrelated as they
            are, and without any connection to the quantity.
        """
        if self.lower is None or self.upper is None:
            return 0.0
        n_chains, n_draws = value.shape
        found = []
        for _ in range(_ROTATIONS):
            chain = (np.arange(n_chains) + random.integers(n_chains)) % n_chains
            shift = random.integers(n_draws // 4, n_draws - n_draws // 4, size=(n_chains, 1))
            place = (np.arange(n_draws) + shift) % n_draws
            rotated = Scaling(*(weight[chain[:, None], place] for weight in (self.lower, self.upper)))
            found.append(rotated.sensitivity(value))
        return max(found)


def _statistics() -> Any:
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    return array_stats


def _on_device(samples: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: jnp.asarray(value, float) for name, value in samples.items()}


@partial(jax.jit, static_argnames="sizes")
def _by_site(model: Model, samples: dict[str, Any], *, sizes: Sizes) -> dict[str, Any]:
    """Log prior density of each site, [sample]."""

    def one(parameters: dict[str, Any]) -> dict[str, Any]:
        with TRACING:
            placed = handlers.substitute(model.parameters, data=parameters)
            trace = handlers.trace(placed).get_trace(sizes)
        return {name: trace[name]["fn"].log_prob(trace[name]["value"]).sum() for name in parameters}

    found: dict[str, Any] = jax.lax.map(one, samples)
    return found


def _on_top(model: Model, samples: dict[str, np.ndarray], sizes: Sizes) -> tuple[str, ...]:
    """Name the sites whose prior does not hang on other sites: what lies below them belongs to the model."""

    def trace(row: int) -> dict[str, Any]:
        with TRACING:
            given = {name: jnp.asarray(value[row], float) for name, value in samples.items()}
            found: dict[str, Any] = handlers.trace(handlers.substitute(model.parameters, data=given)).get_trace(sizes)
        return found

    first, last = trace(0), trace(-1)
    top = []
    for name in samples:
        here, there = (np.asarray(node[name]["fn"].log_prob(first[name]["value"])) for node in (first, last))
        if np.array_equal(here, there):
            top.append(name)
    return tuple(top)


def _by_rows(
    model: Model,
    arrays: LabelArrays,
    tables: Tables,
    samples: dict[str, np.ndarray],
    draws: slice,
    likelihood: np.ndarray,
    random: np.random.Generator,
) -> Components:
    site_of = np.concatenate([np.full(int(np.prod(shape)), code) for code, shape in enumerate(tables.shapes)])
    pairs, group = np.unique(np.stack([site_of, tables.worker_of], axis=1), axis=0, return_inverse=True)
    flat = np.asarray(jax.vmap(tables.flatten)(_on_device(samples)))
    alpha = concentration(model, arrays.sizes)
    per_sample = 8 * (len(site_of) + arrays.n_rows)
    size = max(1, min(likelihood.size, _CHUNK_BYTES // per_sample))
    parts = []
    for first in range(0, likelihood.size, size):
        # The last chunk repeats samples so that all chunks share one compiled shape.
        rows = np.minimum(np.arange(first, first + size), likelihood.size - 1)
        uniform = random.random((size, arrays.n_rows))
        part = _terms(model, arrays, alpha, flat[rows], uniform, group.reshape(-1), tables=tables, n_groups=len(pairs))
        parts.append(np.asarray(part)[: likelihood.size - first])
    prior, prior_mean, used, used_mean = np.moveaxis(np.concatenate(parts), 2, 0)
    return Components(
        draws,
        likelihood.shape,
        tables.names,
        pairs[:, 0],
        pairs[:, 1],
        prior,
        likelihood.reshape(-1),
        prior - prior_mean,
        used - used_mean,
    )


@partial(jax.jit, static_argnames=("tables", "n_groups"))
def _terms(
    model: Model, arrays: LabelArrays, alpha: Any, flat: Any, uniform: Any, group: Any, *, tables: Tables, n_groups: int
) -> Any:
    """Sum (c - 1) log pi, n log pi, and their expectations given states, over each group, [sample, group, 4]."""

    def one(given: tuple[Any, Any]) -> Any:
        flat, uniform = given
        log_flat = jnp.log(jnp.maximum(flat, TINY))
        table, _ = chain_joint(model, log_flat[None], arrays, tables)
        edges = jnp.cumsum(jax.nn.softmax(table[:, 0], axis=1), axis=1)
        state = jnp.sum(uniform[:, None] * edges[:, -1:] >= edges[:, :-1], axis=1)
        rows = (jnp.arange(table.shape[2]) == state[:, None]) * jnp.asarray(arrays.present)[:, None]
        counts = table_counts(model, log_flat, rows, arrays, tables)
        mean = expected_log(alpha + counts, tables)
        terms = jnp.stack([(alpha - 1) * log_flat, (alpha - 1) * mean, counts * log_flat, counts * mean], axis=1)
        return jax.ops.segment_sum(terms, group, n_groups)

    return jax.lax.map(one, (flat, uniform))
