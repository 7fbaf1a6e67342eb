r"""Expectation maximisation: the point that maximises the likelihood (or the posterior density), states summed out.

The E-step computes the probabilities of the states given the parameters, the M-step sets every table to its expected
relative frequencies (plus prior pseudo-counts minus one for ``objective="posterior"``). Both are exact, so the
objective never falls. Three maps make one accelerated step (SQUAREM): with :math:`r = \theta_1 - \theta_0` and
:math:`v = (\theta_2 - \theta_1) - r`, extrapolate to :math:`\theta_0 - 2 a r + a^2 v`, :math:`a = -|r| / |v|`, and
apply the map once more. An extrapolation whose objective is below that of :math:`\theta_1` is thrown away, which keeps
the sequence monotone.

Passes run on the host (`bayescrowd.inference._host_em`), where they need no compiling; large tables on an accelerator,
and models whose items differ in more than their labels, run compiled ones, which take the same steps.

References
----------
Dawid, Skene (1979), JRSS C 28(1). Varadhan, Roland (2008), Simple and globally convergent methods for accelerating the
convergence of any EM algorithm, Scandinavian Journal of Statistics 35(2), scheme S3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, Sizes
from bayescrowd.errors import problems_message
from bayescrowd.inference import _gradient_em
from bayescrowd.inference._fixpoint import CHUNK, Fixpoint, best_of, climb_all, starts_of, status_of
from bayescrowd.inference._host_em import HostEM, State, host_em
from bayescrowd.inference.base import (
    Engine,
    Job,
    Run,
    check_numbers,
    check_whole,
    padded_arrays,
    require,
    sizes_of,
    trim,
)
from bayescrowd.inference.points import rows_of
from bayescrowd.kernels import loops
from bayescrowd.kernels.entries import table_counts
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.kernels.tables import (
    TINY,
    Tables,
    concentration,
    log_density,
    mean,
    mode,
    normalise,
    tables_of,
)
from bayescrowd.model import Model

__all__ = ["ENGINE", "Settings"]

_ACCELERATIONS = ("squarem", "none")


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="em"``.

    Parameters
    ----------
    objective : str
        ``"likelihood"`` or ``"posterior"`` (which needs Dirichlet concentrations of at least 1).
    acceleration : str
        ``"squarem"`` or ``"none"``.
    max_iter : int
        Most passes over the data.
    tolerance : float
        Converged when a step raises the objective by less than this fraction of ``1 + |objective|`` ...
    change_tolerance : float
        ... and changes no probability by more than this.
    starts : int
        Number of starts; the first is ``init``, the others mix it with random probabilities; the best is kept.
    """

    objective: str = "likelihood"
    acceleration: str = "squarem"
    max_iter: int = 3000
    tolerance: float = 1e-10
    change_tolerance: float = 1e-3
    starts: int = 1

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        require(self.objective in ("likelihood", "posterior"), "objective must be 'likelihood' or 'posterior'")
        require(self.acceleration in _ACCELERATIONS, "acceleration must be 'squarem' or 'none'")
        check_whole(self, max_iter=1, starts=1)
        check_numbers(self, "tolerance", "change_tolerance")


@partial(jax.jit, static_argnames=("tables", "posterior"))
def _begin(model: Model, arrays: LabelArrays, rows: Any, *, tables: Tables, posterior: bool) -> loops.Progress[Any]:
    alpha = concentration(model, arrays.sizes)
    centre = mean(alpha, tables)
    counts = table_counts(model, jnp.log(jnp.maximum(centre, TINY)), rows, arrays, tables)
    point = _maximise(counts, alpha, tables, posterior=posterior)
    return loops.begin(State(point, point, point, jnp.asarray(-jnp.inf), jnp.zeros((), jnp.int32)), CHUNK)


def _leap(base: Any, first: Any, second: Any, tables: Tables) -> Any:
    step = first - base
    curve = second - first - step
    square = jnp.sum(curve**2)
    length = jnp.maximum(jnp.sqrt(jnp.sum(step**2) / jnp.where(square > 0, square, 1.0)), 1.0)
    leap = base + 2 * length * step + length**2 * curve
    # Where the leap leaves the simplex, go most of the way from the last map to its edge.
    return normalise(jnp.where(leap > 0, leap, 0.1 * second), tables, second)


def _maximise(counts: Any, alpha: Any, tables: Tables, *, posterior: bool) -> Any:
    centre = mean(alpha, tables)
    return mode(alpha + counts, tables, centre) if posterior else normalise(counts, tables, centre)


@partial(jax.jit, static_argnames=("tables", "posterior", "accelerate"))
def _advance(
    model: Model,
    arrays: LabelArrays,
    progress: loops.Progress[Any],
    limits: tuple[Any, Any, Any],
    *,
    tables: Tables,
    posterior: bool,
    accelerate: bool,
) -> loops.Progress[Any]:
    alpha = concentration(model, arrays.sizes)

    def em_map(flat: Any) -> tuple[Any, Any]:
        floored = jnp.maximum(flat, TINY)
        table = joint(model, tables.unflatten(floored), arrays)
        objective = jnp.sum(marginal(table, arrays))
        if posterior:
            objective = objective + log_density(floored, alpha, tables, arrays.worker_present)
        counts = table_counts(model, jnp.log(floored), responsibilities(table, arrays), arrays, tables)
        return objective, _maximise(counts, alpha, tables, posterior=posterior)

    def plain(state: State) -> tuple[State, Any, Any]:
        objective, after = em_map(state.point)
        return state._replace(point=after), objective, jnp.max(jnp.abs(after - state.point))

    def squarem(state: State) -> tuple[State, Any, Any]:
        # One map per step, its meaning turning from base to first to leap, so that the map is compiled once.
        objective, after = em_map(state.point)
        base = jnp.where(state.phase == 0, state.point, state.base)
        second = jnp.where(state.phase == 1, after, state.second)
        before = jnp.where(state.phase == 2, state.before, objective)
        rejected = (state.phase == 2) & ~(objective >= state.before)
        leap = _leap(base, state.point, after, tables)
        point = jnp.where(state.phase == 1, leap, jnp.where(rejected, state.second, after))
        change = jnp.where(rejected, jnp.inf, jnp.max(jnp.abs(after - state.point)))
        reached = jnp.where(rejected, state.before, objective)
        return State(point, base, second, before, (state.phase + 1) % 3), reached, change

    tolerance, change_tolerance, max_steps = limits
    return loops.advance(
        squarem if accelerate else plain,
        progress,
        tolerance=tolerance,
        change_tolerance=change_tolerance,
        max_steps=max_steps,
    )


@jax.jit
def _finish(model: Model, arrays: LabelArrays, parameters: dict[str, Any]) -> tuple[Any, Any]:
    table = joint(model, parameters, arrays)
    return responsibilities(table, arrays), jnp.sum(marginal(table, arrays))


def _settled(state: State) -> Any:
    """Return the last point known to be no worse than the ones before: a leap not yet evaluated is not."""
    return state.second if int(state.phase) == 2 else state.point


def run(job: Job) -> Run:
    """Run EM from one or several starts.

    Parameters
    ----------
    job : Job
        What to do.

    Returns
    -------
    Run
        The best point found.
    """
    settings: Settings = job.settings
    if not job.model.has_routes:
        return _gradient_em.run(job, starts_of(job, settings.starts))
    with double_precision():
        posterior, accelerate = settings.objective == "posterior", settings.acceleration == "squarem"
        if posterior:
            _check_concentrations(job.model, sizes_of(job.labels))
        host = host_em(job.model, job.labels, posterior=posterior, accelerate=accelerate)
        return _compiled(job) if host is None else _on_host(job, host)


def _on_host(job: Job, em: HostEM) -> Run:
    settings: Settings = job.settings
    return _climbed(
        job,
        begin=em.begin,
        advance=lambda progress, most: em.advance(progress, settings.tolerance, settings.change_tolerance, most),
        finish=lambda point: (em.tables.unflatten(point), *em.finish(point)),
    )


def _compiled(job: Job) -> Run:
    settings: Settings = job.settings
    arrays = jax.device_put(padded_arrays(job.labels, job.model))
    tables = tables_of(job.model, arrays.sizes)
    how = {"tables": tables, "posterior": settings.objective == "posterior"}
    accelerate = settings.acceleration == "squarem"
    limits = (settings.tolerance, settings.change_tolerance)

    def finish(point: Any) -> tuple[dict[str, np.ndarray], np.ndarray, float]:
        probability, log_likelihood = _finish(job.model, arrays, tables.unflatten(jnp.maximum(point, TINY)))
        points = trim(tables.unflatten(point), job.model, arrays.sizes, sizes_of(job.labels))
        rows = np.asarray(arrays.row_of_item)[: job.labels.n_items]
        return points, np.asarray(probability)[rows], float(log_likelihood)

    return _climbed(
        job,
        begin=lambda start: _begin(job.model, arrays, jnp.asarray(rows_of(start, arrays)), **how),
        advance=lambda progress, most: _advance(
            job.model, arrays, progress, (*limits, most), accelerate=accelerate, **how
        ),
        finish=finish,
    )


def _climbed(
    job: Job,
    *,
    begin: Callable[[Any], Any],
    advance: Callable[[Any, int], Any],
    finish: Callable[[Any], tuple[dict[str, np.ndarray], np.ndarray, float]],
) -> Run:
    """Run every start; of the best, `finish` gives points, probabilities of the states and the log likelihood."""
    settings: Settings = job.settings
    fixpoint = Fixpoint(begin, advance, "EM", "objective", settings.max_iter)
    ends = climb_all(job, fixpoint, starts_of(job, settings.starts))
    objectives = [float(end.progress.objective) for end in ends]
    best = best_of(objectives)
    progress = ends[best].progress
    points, probability, log_likelihood = finish(_settled(progress.state))
    return Run(
        points=points,
        draws=None,
        state_probability=probability,
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=ends[best].trace,
        status=status_of(ends[best], interrupted=ends[-1].interrupted, objective="objective"),
        extra={
            "n_passes": int(progress.n_steps),
            "log_likelihood_at_point": log_likelihood,
            "best_start": best,
            "objective_by_start": objectives,
        },
    )


def _check(model: Model, settings: Settings) -> None:
    if settings.objective == "posterior" and not model.has_routes:
        require(
            model.has_mode,
            f"objective='posterior' needs a posterior density with a mode, which model {model.name!r} does not vouch "
            "for; use objective='likelihood' or engine='nuts'",
        )


def _check_concentrations(model: Model, sizes: Sizes) -> None:
    """Refuse Dirichlet concentrations below 1: their density is highest at the edge, where it is infinite."""
    low = [
        f"{name}: smallest concentration {float(np.min(site.concentration)):g}"
        for name, site in model.sites(sizes).items()
        if np.min(site.concentration) < 1
    ]
    require(
        not low,
        problems_message(
            "objective='posterior' has no maximum where a Dirichlet concentration is below 1; pass larger priors (such "
            "as confusion_prior=bc.diagonal(2.5, 1)), objective='likelihood' or engine='nuts'",
            low,
        ),
    )


ENGINE = Engine("em", Settings, run, samples=False, check=_check, priors=False)
