r"""Collapsed variational inference: tables integrated out, states approximated.

The approximation is :math:`\prod_i q_i(T_i, Q_i)` (``family="joint"``) or :math:`\prod_i q_i(T_i) q_i(Q_i)`
(``"factorised"``, as in the paper). Its coordinate update is

.. math:: q_i(s) \propto \exp \sum_{\text{entries of } s} \Bigl\{ E \log(N^{\neg i} + \omega)
          - E \log(N^{\neg i}_{row} + \Omega) \Bigr\},

expectations over the states of the other items, which ``moments`` approximates: ``"zero"`` (CVB0: logarithm of the
mean), ``"second"`` (second-order expansion), ``"zero-split"`` (the probability of no count apart and exact; the most
accurate), or ``"paper"`` (equations (19) to (23) of the paper as they stand, for reproduction; they take the class of
the item itself into the count whose logarithm is expanded, which is not the expectation needed). All items are updated
at once from running sums, an item's own part left out exactly; a pass visits every label once per state.

There is no bound that must rise. What is traced, every tenth pass, is the lower bound of the log evidence that the
approximation implies, :math:`H(q) + E_q[\text{constants}] + \log \mathrm{DM}(E_q[\text{counts}])`; it also chooses
between restarts. Where two passes undo each other (a cycle of length two) updates are damped.

The posterior of a table given the approximation is Dirichlet, prior plus expected counts.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, equations (17) to (23). Asuncion, Welling, Smyth, Teh
(2009), On smoothing and inference for topic models, for CVB0. See `bayescrowd.kernels.moments`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.inference._fixpoint import CHUNK, Fixpoint, climb_all, starts_of
from bayescrowd.inference._leave_one_out import Plan, leave_one_out, plan_of
from bayescrowd.inference._paper_moments import Symmetric, check_symmetric, paper_update, symmetric_of
from bayescrowd.inference._variational import finish
from bayescrowd.inference.base import (
    Engine,
    Job,
    Run,
    check_numbers,
    check_whole,
    require,
    require_routes,
    whole_weights,
)
from bayescrowd.inference.points import rows_of
from bayescrowd.kernels import loops
from bayescrowd.kernels.entries import clamp
from bayescrowd.kernels.moments import MOMENTS
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration, log_polya
from bayescrowd.model import Model

__all__ = ["ENGINE", "Settings"]

_FAMILIES = ("joint", "factorised")
_EVERY = 10
"""Passes between two evaluations of the bound."""

_CYCLE = 0.1
"""A pass that brings back the state before the last within this share of the last change is part of a cycle."""

_CYCLES = 3
"""So many passes of a cycle in a row, and updates are damped."""

_DAMPING = 0.5


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="collapsed-vi"``.

    Parameters
    ----------
    family : str
        ``"joint"`` (class and difficulty of an item together) or ``"factorised"``.
    moments : str
        ``"zero"``, ``"second"``, ``"zero-split"`` or ``"paper"``. Fractional weights need ``"zero"``.
    max_iter : int
        Most passes over the data.
    tolerance : float
        Converged when two passes in a row change no probability by more than this.
    damping : float
        Share of the old probabilities that every update keeps, at least 0 and below 1.
    starts : int
        Number of starts; the first is ``init``, the others mix it with random probabilities; the best bound is kept.
    draws : int
        Draws from the approximation to put into ``posterior``.
    """

    family: str = "joint"
    moments: str = "zero-split"
    max_iter: int = 2000
    tolerance: float = 1e-4
    damping: float = 0.0
    starts: int = 1
    draws: int = 1000

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        require(self.family in _FAMILIES, f"family must be one of {_FAMILIES}, not {self.family!r}")
        allowed = (*MOMENTS, "paper")
        require(self.moments in allowed, f"moments must be one of {allowed}, not {self.moments!r}")
        check_whole(self, max_iter=1, starts=1, draws=1)
        check_numbers(self, "tolerance", "damping")
        require(self.damping < 1, f"damping must be below 1, not {self.damping!r}")
        require(
            self.moments != "paper" or self.family == "factorised",
            "moments='paper' belongs to the paper's approximation: pass family='factorised'",
        )


class _State(NamedTuple):
    """Where the passes stand."""

    rows: Any  # probabilities of the states [row, state]
    before: Any  # the same one pass earlier
    damping: Any
    n_cycles: Any  # passes in a row that undid the last one
    n_passes: Any
    bound: Any


def _bound(plan: Plan, alpha: Any, rows: Any, counts: Any) -> Any:
    entropy = -jnp.sum(jax.scipy.special.xlogy(rows, rows))
    given = 0.0 if plan.constants is None else jnp.sum(jnp.where(rows > 0, rows * plan.constants, 0.0))
    return entropy + given + log_polya(alpha, counts, plan.tables)


def _split(rows: Any, n_levels: int) -> tuple[Any, Any]:
    """Probabilities of classes [row, class] and of levels [row, level]."""
    by_level = rows.reshape(rows.shape[0], n_levels, -1)
    return by_level.sum(axis=1), by_level.sum(axis=2)


def _factorised(model: Model, plan: Plan, log_weights: Any, rows: Any) -> Any:
    """Update levels, then classes, each given the other; their product [row, state]."""
    n_levels = model.n_levels
    classes, _ = _split(rows, n_levels)
    by_level = log_weights.reshape(rows.shape[0], n_levels, -1)
    levels = jax.nn.softmax(jnp.einsum("iht,it->ih", by_level, classes), axis=1)
    return _with_classes(model, plan, jnp.einsum("iht,ih->it", by_level, levels), levels)


def _with_classes(model: Model, plan: Plan, log_classes: Any, levels: Any) -> Any:
    every = jnp.tile(log_classes, model.n_levels)
    classes = jax.nn.softmax(clamp(every, model, plan.arrays)[:, : log_classes.shape[1]], axis=1)
    return (levels[:, :, None] * classes[:, None, :]).reshape(log_classes.shape[0], -1)


@partial(jax.jit, static_argnames=("family", "moments"))
def _advance(
    model: Model,
    plan: Plan,
    symmetric: Symmetric | None,
    progress: loops.Progress[_State],
    limits: tuple[Any, Any],
    *,
    family: str,
    moments: str,
) -> loops.Progress[_State]:
    alpha = concentration(model, plan.arrays.sizes)
    present = jnp.asarray(plan.arrays.present)[:, None]

    def step(state: _State) -> tuple[_State, Any, Any]:
        rows = state.rows
        if symmetric is not None:
            log_classes, levels, counts = paper_update(model, plan, symmetric, alpha, rows)
            updated = _with_classes(model, plan, log_classes, levels)
        else:
            log_weights, counts = leave_one_out(plan, alpha, rows, moments)
            if family == "factorised":
                updated = _factorised(model, plan, log_weights, rows)
            else:
                updated = jax.nn.softmax(clamp(log_weights, model, plan.arrays), axis=1)
        # What an undamped update would change: damping must not look like convergence.
        wanted = jnp.max(jnp.abs(updated * present - rows))
        updated = (state.damping * rows + (1 - state.damping) * updated) * present
        bound = jax.lax.cond(
            state.n_passes % _EVERY == 0, lambda: _bound(plan, alpha, rows, counts), lambda: state.bound
        )
        change = jnp.max(jnp.abs(updated - rows))
        back = jnp.max(jnp.abs(updated - state.before))
        cycling = (back < _CYCLE * change) & (change > limits[0]) & (state.n_passes > 0)
        n_cycles = jnp.where(cycling, state.n_cycles + 1, 0)
        damping = jnp.where(n_cycles >= _CYCLES, jnp.maximum(state.damping, _DAMPING), state.damping)
        return _State(updated, rows, damping, n_cycles, state.n_passes + 1, bound), bound, wanted

    tolerance, max_steps = limits
    return loops.advance(step, progress, tolerance=jnp.inf, change_tolerance=tolerance, max_steps=max_steps)


@jax.jit
def _finish(model: Model, plan: Plan, state: _State) -> tuple[Any, Any, Any]:
    alpha = concentration(model, plan.arrays.sizes)
    _, counts = leave_one_out(plan, alpha, state.rows, "zero")
    return alpha + counts, state.rows, _bound(plan, alpha, state.rows, counts)


def run(job: Job) -> Run:
    """Update the approximation from one or several starts until it stands.

    Parameters
    ----------
    job : Job
        What to do.

    Returns
    -------
    Run
        The approximation with the highest bound.

    Raises
    ------
    EngineError
        For fractional weights with moments other than ``"zero"``, or tables that ``moments="paper"`` cannot take.
    """
    settings: Settings = job.settings
    require(
        settings.moments == "zero" or whole_weights(job.labels),
        f"moments={settings.moments!r} needs whole weights, since it counts labels; pass moments='zero'",
    )
    with double_precision():
        plan = plan_of(job.model, job.labels)
        require(
            len(plan.routes) == 1,
            f"engine 'collapsed-vi' needs a model with one route from class to label; model {job.model.name!r} has "
            f"{len(plan.routes)}. Use engine='vb', 'gibbs' or 'em'",
        )
        symmetric = symmetric_of(job.model, plan) if settings.moments == "paper" else None

        def advance(progress: Any, most: int) -> Any:
            limits = (settings.tolerance, most)
            how = {"family": settings.family, "moments": settings.moments}
            return _advance(job.model, plan, symmetric, progress, limits, **how)

        def begin(start: np.ndarray) -> Any:
            rows, zero = jnp.asarray(rows_of(start, plan.arrays)), jnp.zeros((), jnp.int32)
            state = _State(rows, rows, jnp.asarray(float(settings.damping)), zero, zero, jnp.asarray(0.0))
            return loops.begin(state, CHUNK)

        fixpoint = Fixpoint(begin, advance, "collapsed variational inference", "bound", settings.max_iter)
        ends = climb_all(job, fixpoint, starts_of(job, settings.starts))
        finished = [_finish(job.model, plan, end.progress.state) for end in ends]
        found = finish(job, plan.arrays, plan.tables, ends, finished, draws=settings.draws)
        best = ends[found.extra["best_start"]]
        damping = float(best.progress.state.damping)
    more: list[str] = []
    if damping > settings.damping:
        more.append(f"Two passes undid each other, so updates were damped by {damping:g}.")
    extra = dict(found.extra) | {"damping": damping}
    trace = best.trace[np.append(np.arange(0, len(best.trace), _EVERY), len(best.trace) - 1)]
    trace[-1] = found.extra["bound"]
    return found._replace(extra=extra, objective=trace, warnings=(*found.warnings, *more))


def _check(model: Model, settings: Settings) -> None:
    require_routes("collapsed-vi", model)
    if settings.moments == "paper":
        check_symmetric(model)


ENGINE = Engine("collapsed-vi", Settings, run, samples=False, check=_check)
