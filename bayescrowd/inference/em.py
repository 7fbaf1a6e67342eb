r"""Expectation maximisation: the point that maximises the likelihood (or the posterior density), states summed out.

The E-step computes the probabilities of the states given the parameters, the M-step sets every table to its expected
relative frequencies (plus prior pseudo-counts minus one for ``objective="posterior"``). Both are exact, so the
objective never falls. Three maps make one accelerated step (SQUAREM): with :math:`r = \theta_1 - \theta_0` and
:math:`v = (\theta_2 - \theta_1) - r`, extrapolate to :math:`\theta_0 - 2 a r + a^2 v`, :math:`a = -|r| / |v|`, and
apply the map once more. An extrapolation whose objective is below that of :math:`\theta_1` is thrown away, which keeps
the sequence monotone.

References
----------
Dawid, Skene (1979), JRSS C 28(1). Varadhan, Roland (2008), Simple and globally convergent methods for accelerating the
convergence of any EM algorithm, Scandinavian Journal of Statistics 35(2), scheme S3.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, Sizes, build_arrays
from bayescrowd.errors import problems_message
from bayescrowd.inference import _gradient_em
from bayescrowd.inference.base import Engine, Job, Run, Status, require, sizes_of, trim
from bayescrowd.inference.starts import perturbed
from bayescrowd.kernels import loops
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal, responsibilities, table_counts
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
from bayescrowd.priors import misfits

__all__ = ["ENGINE", "Settings"]

_CHUNK = 64
_SECONDS_PER_CALL = 0.5
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
        require(_whole(self.max_iter), f"max_iter must be a whole number of at least 1, not {self.max_iter!r}")
        require(_whole(self.starts), f"starts must be a whole number of at least 1, not {self.starts!r}")
        for name in ("tolerance", "change_tolerance"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            require(number, f"{name} must be a number of at least 0, not {value!r}")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class _State(NamedTuple):
    """Where EM stands: the point to map next and, for the acceleration, what the last two maps gave."""

    point: Any
    base: Any
    second: Any
    before: Any
    phase: Any


@partial(jax.jit, static_argnames=("tables", "posterior"))
def _begin(model: Model, arrays: LabelArrays, rows: Any, *, tables: Tables, posterior: bool) -> loops.Progress[Any]:
    alpha = concentration(model, arrays.sizes)
    centre = mean(alpha, tables)
    counts = table_counts(model, jnp.maximum(centre, TINY), rows, arrays, tables)
    point = _maximise(counts, alpha, tables, posterior=posterior)
    return loops.begin(_State(point, point, point, jnp.asarray(-jnp.inf), jnp.zeros((), jnp.int32)), _CHUNK)


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
        counts = table_counts(model, floored, responsibilities(table, arrays), arrays, tables)
        return objective, _maximise(counts, alpha, tables, posterior=posterior)

    def plain(state: _State) -> tuple[_State, Any, Any]:
        objective, after = em_map(state.point)
        return state._replace(point=after), objective, jnp.max(jnp.abs(after - state.point))

    def squarem(state: _State) -> tuple[_State, Any, Any]:
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
        return _State(point, base, second, before, (state.phase + 1) % 3), reached, change

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


def _settled(state: _State) -> Any:
    """Return the last point known to be no worse than the ones before: a leap not yet evaluated is not."""
    return jnp.where(state.phase == 2, state.second, state.point)


def _climb(job: Job, arrays: LabelArrays, tables: Tables, start: np.ndarray, task: str) -> tuple[Any, np.ndarray, bool]:
    """Run one start to the end; returns the progress, the trace and whether it was interrupted."""
    settings: Settings = job.settings
    posterior = settings.objective == "posterior"
    accelerate = settings.acceleration == "squarem"
    max_steps = settings.max_iter
    rows = np.zeros((arrays.n_rows, start.shape[1]))
    rows[np.asarray(arrays.row_of_item)[: job.labels.n_items]] = start
    progress = _begin(job.model, arrays, rows, tables=tables, posterior=posterior)
    job.reporter.start(task, max_steps)
    traces, steps, done = [], 1 if arrays.blocks.size > 1e6 else _CHUNK, 0
    try:
        while True:
            begun = time.perf_counter()
            limits = (settings.tolerance, settings.change_tolerance, min(done + steps, max_steps))
            progress = _advance(
                job.model, arrays, progress, limits, tables=tables, posterior=posterior, accelerate=accelerate
            )
            now = int(progress.n_steps)
            traces.append(np.asarray(progress.trace)[: now - done])
            done = now
            job.reporter.update(done, f"objective {float(progress.objective):.4f}")
            if int(progress.status) != loops.RUNNING or done >= max_steps:
                return progress, np.concatenate(traces), False
            if time.perf_counter() - begun < _SECONDS_PER_CALL:
                steps = min(2 * steps, _CHUNK)
    except KeyboardInterrupt:
        if not traces:
            raise
        return progress, np.concatenate(traces), True


def _status(progress: Any, n_passes: int, *, interrupted: bool) -> Status:
    if interrupted:
        return Status("interrupted", f"Interrupted after {n_passes} passes; the estimate so far is kept.", False)
    if int(progress.status) == loops.CONVERGED:
        return Status("converged", f"Converged after {n_passes} passes.", True)
    if int(progress.status) == loops.FAILED:
        return Status("failed", "The objective is no longer finite; check priors and weights.", False)
    return Status(
        "max-iterations",
        f"Stopped at {n_passes} passes before converging; raise max_iter or tolerance.",
        False,
    )


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
    exact = sizes_of(job.labels)
    random = np.random.default_rng(job.seed)
    starts = [job.start, *(perturbed(job.start, job.labels, random) for _ in range(settings.starts - 1))]
    if not job.model.has_routes:
        return _gradient_em.run(job, starts)
    with double_precision():
        arrays = build_arrays(job.labels, by_annotation=job.model.uses_item)
        if misfits(job.model, arrays.sizes):
            # A prior of one value per worker (or item) goes with the exact sizes only.
            arrays = build_arrays(job.labels, pad_sizes=False, by_annotation=job.model.uses_item)
        if settings.objective == "posterior":
            _check_concentrations(job.model, arrays.sizes)
        arrays = jax.device_put(arrays)
        tables = tables_of(job.model, arrays.sizes)
        ends = []
        for index, start in enumerate(starts):
            task = "EM" if settings.starts == 1 else f"EM, start {index + 1} of {settings.starts}"
            ends.append(_climb(job, arrays, tables, start, task))
            if ends[-1][2]:
                break
        objectives = [float(progress.objective) for progress, _, _ in ends]
        best = int(np.nanargmax(objectives)) if np.isfinite(objectives).any() else 0
        progress, trace, _ = ends[best]
        point = _settled(progress.state)
        probability, log_likelihood = _finish(job.model, arrays, tables.unflatten(jnp.maximum(point, TINY)))
        points = trim(tables.unflatten(point), job.model, arrays.sizes, exact)
    rows = np.asarray(arrays.row_of_item)[: exact.n_items]
    n_passes = int(progress.n_steps)
    return Run(
        points=points,
        draws=None,
        state_probability=np.asarray(probability)[rows],
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=trace,
        status=_status(progress, n_passes, interrupted=ends[-1][2]),
        extra={
            "n_passes": n_passes,
            "log_likelihood_at_point": float(log_likelihood),
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


ENGINE = Engine("em", Settings, run, samples=False, check=_check)
