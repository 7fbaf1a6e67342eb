r"""Variational Bayes: states and tables independent in the approximation, a bound that never falls.

With :math:`q(T, Q) \prod q(\text{tables})` each table row is a Dirichlet, its concentration the prior's plus the
expected counts, and each item's states have

.. math:: q_i(s) \propto \exp\Bigl\{ E \log P(s) + \sum_{k} E \log P(L_{ik} \mid k, s) \Bigr\},

expectations of logarithms under the Dirichlets (digamma functions). Class and difficulty of an item are kept together.
The evidence lower bound right after the update of the states, :math:`\sum_i \log Z_i - \mathrm{KL}(q \| p)` over all
tables, rises with every pass and stays below the log evidence. Labels that come about in several ways (routes) have
their own factor in q.

The approximation is too narrow, since it takes tables and states to be independent; ``engine="gibbs"`` is not.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, collapses the tables instead (``engine="collapsed-vi"``).
Attias (1999), Inferring parameters and structure of latent variable models by variational Bayes, UAI.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayescrowd.data.arrays import LabelArrays, build_arrays
from bayescrowd.inference import _variational as variational
from bayescrowd.inference.base import Engine, Job, Run, require
from bayescrowd.kernels import loops
from bayescrowd.kernels.entries import chain_counts, chain_joint
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import marginal, responsibilities
from bayescrowd.kernels.tables import Tables, concentration, divergence, expected_log, mean, tables_of
from bayescrowd.model import Model
from bayescrowd.priors import misfits

__all__ = ["ENGINE", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="vb"``.

    Parameters
    ----------
    max_iter : int
        Most passes over the data.
    tolerance : float
        Converged when a pass raises the bound by less than this fraction of ``1 + |bound|`` ...
    change_tolerance : float
        ... and changes no expected table entry by more than this.
    starts : int
        Number of starts; the first is ``init``, the others mix it with random probabilities; the best bound is kept.
    draws : int
        Draws from the approximation to put into ``posterior``.
    """

    max_iter: int = 2000
    tolerance: float = 1e-9
    change_tolerance: float = 1e-3
    starts: int = 1
    draws: int = 1000

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        variational.check_settings(
            self, whole=("max_iter", "starts", "draws"), numbers=("tolerance", "change_tolerance")
        )


class _State(NamedTuple):
    """Concentrations of the tables."""

    alpha: Any


@partial(jax.jit, static_argnames="tables")
def _begin(model: Model, arrays: LabelArrays, rows: Any, *, tables: Tables) -> loops.Progress[_State]:
    prior = concentration(model, arrays.sizes)
    _, logs = chain_joint(model, expected_log(prior, tables)[None], arrays, tables)
    counts = chain_counts(model, rows[:, None], logs, arrays, tables)[0]
    return loops.begin(_State(prior + counts), variational.CHUNK)


def _pass(model: Model, arrays: LabelArrays, alpha: Any, prior: Any, tables: Tables) -> tuple[Any, Any, Any]:
    """Update the states given the tables: bound, probabilities [row, state], logs of the routes."""
    table, logs = chain_joint(model, expected_log(alpha, tables)[None], arrays, tables)
    bound = jnp.sum(marginal(table[:, 0], arrays)) - divergence(alpha, prior, tables)
    return bound, responsibilities(table[:, 0], arrays), logs


@partial(jax.jit, static_argnames="tables")
def _advance(
    model: Model, arrays: LabelArrays, progress: loops.Progress[_State], limits: tuple[Any, Any, Any], *, tables: Tables
) -> loops.Progress[_State]:
    prior = concentration(model, arrays.sizes)

    def step(state: _State) -> tuple[_State, Any, Any]:
        bound, rows, logs = _pass(model, arrays, state.alpha, prior, tables)
        alpha = prior + chain_counts(model, rows[:, None], logs, arrays, tables)[0]
        change = jnp.max(jnp.abs(mean(alpha, tables) - mean(state.alpha, tables)))
        return _State(alpha), bound, change

    tolerance, change_tolerance, max_steps = limits
    return loops.advance(step, progress, tolerance=tolerance, change_tolerance=change_tolerance, max_steps=max_steps)


@partial(jax.jit, static_argnames="tables")
def _finish(model: Model, arrays: LabelArrays, state: _State, *, tables: Tables) -> tuple[Any, Any, Any]:
    bound, rows, _ = _pass(model, arrays, state.alpha, concentration(model, arrays.sizes), tables)
    return state.alpha, rows, bound


def run(job: Job) -> Run:
    """Raise the bound from one or several starts.

    Parameters
    ----------
    job : Job
        What to do.

    Returns
    -------
    Run
        The best approximation found.
    """
    settings: Settings = job.settings
    with double_precision():
        arrays = build_arrays(job.labels, by_annotation=job.model.uses_item)
        if misfits(job.model, arrays.sizes):
            # A prior of one value per worker (or item) goes with the exact sizes only.
            arrays = build_arrays(job.labels, pad_sizes=False, by_annotation=job.model.uses_item)
        arrays = jax.device_put(arrays)
        tables = tables_of(job.model, arrays.sizes)
        fixpoint = variational.Fixpoint(
            begin=lambda rows: _begin(job.model, arrays, rows, tables=tables),
            advance=lambda progress, most: _advance(
                job.model,
                arrays,
                progress,
                (settings.tolerance, settings.change_tolerance, most),
                tables=tables,
            ),
            finish=lambda progress: _finish(job.model, arrays, progress.state, tables=tables),
            name="variational Bayes",
            max_iter=settings.max_iter,
        )
        ends = variational.climb_all(job, arrays, fixpoint, variational.random_starts(job, settings.starts))
        return variational.finish(job, arrays, tables, fixpoint, ends, draws=settings.draws)


def _check(model: Model, settings: Settings) -> None:
    del settings
    require(
        model.has_routes,
        f"engine 'vb' needs a model whose labels come about as products of table entries (routes); model "
        f"{model.name!r} states none",
    )


ENGINE = Engine("vb", Settings, run, samples=False, check=_check)
