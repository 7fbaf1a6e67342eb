r"""Gibbs sampling of states and tables in turn.

Given the tables, all items are independent: class and difficulty of an item are drawn together (``scheme="blocked"``)
from

.. math:: P(T_i = t, Q_i = h \mid \cdot) \propto \alpha_t \beta_h \prod_k \pi^{(k,h)}_{t, L_{ik}} ,

for all items at once. Given the states, every row of every table is a Dirichlet, prior plus counts. ``scheme="single"``
draws classes given levels and levels given classes one after the other, as the paper does; it mixes more slowly. Labels
that come about in several ways have their way drawn too.

Class probabilities are averages of the conditional probabilities over sweeps, not counts of draws.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, equations (4) and (5), which are ``scheme="single"``.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, build_arrays
from bayescrowd.inference._sweeps import Kept, Schedule, by_item, sample
from bayescrowd.inference.base import Engine, Job, Run, check_whole, require, require_routes, whole_weights
from bayescrowd.inference.points import dispersed, draw_states, rows_of
from bayescrowd.kernels.annotations import cell_counts
from bayescrowd.kernels.entries import chain_joint, route_entries, spread, state_entries
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import TINY, Tables, concentration, draw, log_density, tables_of
from bayescrowd.model import Model

__all__ = ["ENGINE", "Settings"]

_SCHEMES = ("blocked", "single")


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="gibbs"``.

    Parameters
    ----------
    chains, warmup, draws : int
        Number of chains, and of sweeps of each before and after warmup ends.
    scheme : str
        ``"blocked"`` (class and difficulty of an item together) or ``"single"`` (one after the other).
    keep : int
        Most draws of the tables to keep of each chain, evenly spaced over its sweeps; 0 keeps none, only means.
    """

    chains: int = 4
    warmup: int = 500
    draws: int = 1000
    scheme: str = "blocked"
    keep: int = 1000

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        check_whole(self, chains=1, warmup=0, draws=1, keep=0)
        require(self.scheme in _SCHEMES, f"scheme must be one of {_SCHEMES}, not {self.scheme!r}")


@partial(jax.jit, static_argnames=("tables", "blocked"), donate_argnames="total")
def _sweep(
    model: Model,
    arrays: LabelArrays,
    flat: Any,
    state: Any,
    uniform: Any,
    total: Any,
    *,
    tables: Tables,
    blocked: bool,
) -> tuple[Any, ...]:
    """Draw the states given the tables.

    Returns states [row, chain], counts, the running sum of probabilities, log likelihood [chain, row], log posterior
    density [chain]. Counts are those of the table entries [chain, entry] where labels come about in one way; else those
    of cells [chain, cell, state] and of states, and the logs of the routes, for the ways are yet to be drawn.
    """
    log_flat = jnp.log(flat)
    table, logs = chain_joint(model, log_flat, arrays, tables)
    likelihood = by_item(table, arrays)
    alpha = concentration(model, arrays.sizes)
    prior = jax.vmap(lambda one: log_density(one, alpha, tables, arrays.worker_present))(flat)
    n_states = table.shape[2]
    probability = jax.nn.softmax(table, axis=2) * jnp.asarray(arrays.present)[:, None, None]
    if blocked:
        state = _categorical(probability, uniform[0])
    else:
        n_classes = arrays.sizes.n_classes
        by_level = probability.reshape(*probability.shape[:2], model.n_levels, n_classes)
        level = state // n_classes
        of_level = jnp.take_along_axis(by_level, level[..., None, None], axis=2)[:, :, 0]
        true_class = _categorical(of_level, uniform[0])
        of_class = jnp.take_along_axis(by_level, true_class[..., None, None], axis=3)[..., 0]
        state = _categorical(of_class, uniform[1]) * n_classes + true_class
    one_hot = (jnp.arange(n_states) == state[..., None]) * jnp.asarray(arrays.present)[:, None, None]
    used = cell_counts(one_hot.reshape(one_hot.shape[0], -1), arrays)
    used = used.reshape(used.shape[0], *one_hot.shape[1:]).transpose(1, 0, 2)
    counts = (used, one_hot, logs)
    if logs.shape[1] == 1:
        counts = _counts(model, arrays, used[:, None], one_hot, tables=tables)
    return state, counts, total + probability, likelihood, likelihood.sum(axis=1) + prior


def _categorical(weights: Any, uniform: Any) -> Any:
    edges = jnp.cumsum(weights, axis=-1)
    return jnp.sum(uniform[..., None] * edges[..., -1:] >= edges[..., :-1], axis=-1)


@partial(jax.jit, static_argnames="tables")
def _counts(model: Model, arrays: LabelArrays, used: Any, one_hot: Any, *, tables: Tables) -> Any:
    """Lay counts [chain, route, cell, state] out on the table entries: [chain, entry]."""
    routes, states = route_entries(model, arrays, tables), state_entries(model, arrays, tables)

    def lay(used: Any, rows: Any) -> Any:
        return spread(used, rows, routes, states, tables)

    return jax.vmap(lay, in_axes=(0, 1))(used, one_hot)


class _Group:
    """Some chains, swept together."""

    def __init__(
        self, job: Job, arrays: LabelArrays, tables: Tables, chains: range, schedule: Schedule, alpha: np.ndarray
    ) -> None:
        self.kept = Kept()
        self._job, self._arrays, self._tables, self._schedule = job, arrays, tables, schedule
        self._alpha = alpha
        self._random = [np.random.default_rng([job.seed, chain]) for chain in chains]
        starts = [dispersed(job.model, job.labels, arrays, job.start, random) for random in self._random]
        self._flat = np.stack([np.asarray(tables.flatten(dict(start))) for start in starts])
        n_states = job.model.n_levels * arrays.sizes.n_classes
        rows = rows_of(job.start, arrays)
        # Only the single scheme reads the first states: it draws classes given them.
        self._state: Any = np.stack([draw_states(rows, random) for random in self._random], axis=1)
        self._blocked = job.settings.scheme == "blocked"
        self._total: Any = jnp.zeros((arrays.n_rows, len(chains), n_states))

    def _one(self, total: Any) -> tuple[Any, Any, Any]:
        """Sweep once: the running sum, log likelihood [chain, row] and log density [chain] of the tables before it."""
        shape = (1 if self._blocked else 2, self._arrays.n_rows)
        uniform = np.stack([random.random(shape) for random in self._random], axis=2)
        self._state, counts, total, likelihood, density = _sweep(
            self._job.model,
            self._arrays,
            self._flat,
            self._state,
            uniform,
            total,
            tables=self._tables,
            blocked=self._blocked,
        )
        if isinstance(counts, tuple):
            used, one_hot, logs = counts
            by_route = self._split(np.asarray(used), np.asarray(logs))
            counts = _counts(self._job.model, self._arrays, by_route, one_hot, tables=self._tables)
        self._after = self._alpha + np.asarray(counts)
        self._flat = np.stack(
            [draw(random, after, self._tables) for random, after in zip(self._random, self._after, strict=True)]
        )
        return total, likelihood, density

    def _split(self, used: np.ndarray, logs: np.ndarray) -> np.ndarray:
        """Draw by which route the labels of each cell came about: binomial thinning, route after route."""
        share = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
        left = np.rint(used).astype(np.int64)
        remaining = np.ones_like(used)
        parts = []
        for route in range(share.shape[1] - 1):
            chance = np.clip(share[:, route] / np.maximum(remaining, TINY), 0.0, 1.0)
            taken = np.stack([random.binomial(n, p) for random, n, p in zip(self._random, left, chance, strict=True)])
            parts.append(taken)
            left = left - taken
            remaining = remaining - share[:, route]
        return np.stack([*parts, left], axis=1).astype(float)

    def _row_sums(self, values: np.ndarray) -> np.ndarray:
        row_of = self._tables.row_of
        sums: np.ndarray = np.bincount(row_of, values, self._tables.n_rows)[row_of]
        return sums

    def warm(self, n_sweeps: int) -> None:
        for _ in range(n_sweeps):
            self._total = self._one(self._total)[0]
        self._total = self._total * 0

    def draw(self, n_sweeps: int, *, keep: bool) -> None:
        for index in range(n_sweeps):
            before = self._flat
            self._total, likelihood, density = self._one(self._total)
            # Given the states every row is Dirichlet: its mean and second moment, not the draw's, are added up.
            row_total = np.stack([self._row_sums(after) for after in self._after])
            mean = self._after / row_total
            square = mean * (self._after + 1) / (row_total + 1)
            kept = self.kept
            kept.mean = mean if kept.mean is None else kept.mean + mean
            kept.square = square if kept.square is None else kept.square + square
            if keep and index == n_sweeps - 1:
                kept.flat.append(before)
                kept.lp.append(np.asarray(density))
                if self._schedule.log_likelihood:
                    kept.log_likelihood.append(np.asarray(likelihood))
        self.kept.n_sweeps += n_sweeps
        self.kept.probability = self._total


def run(job: Job) -> Run:
    """Sample states and tables in turn, from dispersed starts.

    Parameters
    ----------
    job : Job
        What to do.

    Returns
    -------
    Run
        Draws by chain.

    Raises
    ------
    EngineError
        For fractional weights where labels come about in several ways.
    """
    with double_precision():
        arrays = jax.device_put(build_arrays(job.labels, pad=False, by_annotation=job.model.uses_item))
        tables = tables_of(job.model, arrays.sizes)
        alpha = np.asarray(concentration(job.model, arrays.sizes))
        n_routes = len(route_entries(job.model, arrays, tables))
        require(
            n_routes == 1 or whole_weights(job.labels),
            f"model {job.model.name!r} counts by which of {n_routes} ways each label came about: engine 'gibbs' needs "
            f"whole weights there; use engine='nuts', 'vb' or 'em'",
        )

        def make(chains: range, schedule: Schedule) -> _Group:
            return _Group(job, arrays, tables, chains, schedule, alpha)

        return sample(job, arrays, tables, make, "Gibbs")


def _check(model: Model, settings: Settings) -> None:
    del settings
    require_routes("gibbs", model)


ENGINE = Engine("gibbs", Settings, run, samples=True, check=_check)
