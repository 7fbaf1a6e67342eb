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
from typing import Any

import jax
import jax.numpy as jnp

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.inference._fixpoint import CHUNK, Fixpoint, climb_all, starts_of
from bayescrowd.inference._variational import finish
from bayescrowd.inference.base import Engine, Job, Run, check_numbers, check_whole, padded_arrays, require_routes
from bayescrowd.inference.points import rows_of
from bayescrowd.kernels import loops
from bayescrowd.kernels.entries import chain_joint, table_counts
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import marginal, responsibilities
from bayescrowd.kernels.tables import Tables, concentration, divergence, expected_log, mean, tables_of
from bayescrowd.model import Model

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
        check_whole(self, max_iter=1, starts=1, draws=1)
        check_numbers(self, "tolerance", "change_tolerance")


@partial(jax.jit, static_argnames="tables")
def _begin(model: Model, arrays: LabelArrays, rows: Any, *, tables: Tables) -> loops.Progress[Any]:
    prior = concentration(model, arrays.sizes)
    return loops.begin(prior + table_counts(model, expected_log(prior, tables), rows, arrays, tables), CHUNK)


def _pass(model: Model, arrays: LabelArrays, alpha: Any, prior: Any, tables: Tables) -> tuple[Any, Any]:
    """Update the states given the tables: bound, and probabilities [row, state]."""
    table = chain_joint(model, expected_log(alpha, tables)[None], arrays, tables)[0][:, 0]
    return jnp.sum(marginal(table, arrays)) - divergence(alpha, prior, tables), responsibilities(table, arrays)


@partial(jax.jit, static_argnames="tables")
def _advance(
    model: Model, arrays: LabelArrays, progress: loops.Progress[Any], limits: tuple[Any, Any, Any], *, tables: Tables
) -> loops.Progress[Any]:
    prior = concentration(model, arrays.sizes)

    def step(alpha: Any) -> tuple[Any, Any, Any]:
        bound, rows = _pass(model, arrays, alpha, prior, tables)
        after = prior + table_counts(model, expected_log(alpha, tables), rows, arrays, tables)
        return after, bound, jnp.max(jnp.abs(mean(after, tables) - mean(alpha, tables)))

    tolerance, change_tolerance, max_steps = limits
    return loops.advance(step, progress, tolerance=tolerance, change_tolerance=change_tolerance, max_steps=max_steps)


@partial(jax.jit, static_argnames="tables")
def _finish(model: Model, arrays: LabelArrays, alpha: Any, *, tables: Tables) -> tuple[Any, Any, Any]:
    bound, rows = _pass(model, arrays, alpha, concentration(model, arrays.sizes), tables)
    return alpha, rows, bound


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
        arrays = jax.device_put(padded_arrays(job.labels, job.model))
        tables = tables_of(job.model, arrays.sizes)
        limits = (settings.tolerance, settings.change_tolerance)
        fixpoint = Fixpoint(
            begin=lambda start: _begin(job.model, arrays, jnp.asarray(rows_of(start, arrays)), tables=tables),
            advance=lambda progress, most: _advance(job.model, arrays, progress, (*limits, most), tables=tables),
            name="variational Bayes",
            objective="bound",
            max_iter=settings.max_iter,
        )
        ends = climb_all(job, fixpoint, starts_of(job, settings.starts))
        finished = [_finish(job.model, arrays, end.progress.state, tables=tables) for end in ends]
        return finish(job, arrays, tables, ends, finished, draws=settings.draws)


def _check(model: Model, settings: Settings) -> None:
    del settings
    require_routes("vb", model)


ENGINE = Engine("vb", Settings, run, samples=False, check=_check)
