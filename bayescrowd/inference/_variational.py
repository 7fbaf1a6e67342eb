"""What the variational engines on Dirichlet tables share: restarts, the loop, and the run from the last state."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.inference.base import Job, Run, Status, require, sizes_of, trim
from bayescrowd.inference.starts import perturbed
from bayescrowd.kernels import loops
from bayescrowd.kernels.tables import Tables, draw

__all__ = ["CHUNK", "Fixpoint", "check_settings", "climb_all", "finish", "random_starts"]

CHUNK = 64
"""Most passes of one compiled call."""

_SECONDS_PER_CALL = 0.5

_DRAWS_LIMIT = 384 * 2**20
"""Bytes of draws from the approximation above which fewer are drawn."""


class Fixpoint(NamedTuple):
    """A fixed-point iteration of a variational engine.

    Parameters
    ----------
    begin : callable
        Array [row, state] -> `loops.Progress` before the first pass.
    advance : callable
        (progress, most steps in all) -> progress after up to a chunk of passes.
    finish : callable
        Progress -> (concentrations [entry], state probabilities [row, state], bound).
    name : str
        What progress is called.
    max_iter : int
        Most passes.
    """

    begin: Callable[[Any], Any]
    advance: Callable[[Any, int], Any]
    finish: Callable[[Any], tuple[Any, Any, Any]]
    name: str
    max_iter: int


def check_settings(settings: Any, *, whole: Sequence[str], numbers: Sequence[str]) -> None:
    """Check counts and tolerances of an engine's settings.

    Parameters
    ----------
    settings : dataclass
        The settings.
    whole : sequence of str
        Fields that must be whole numbers of at least 1.
    numbers : sequence of str
        Fields that must be numbers of at least 0.

    Raises
    ------
    EngineError
        Where one is out of range.
    """
    for name in whole:
        value = getattr(settings, name)
        good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        require(good, f"{name} must be a whole number of at least 1, not {value!r}")
    for name in numbers:
        value = getattr(settings, name)
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < np.inf
        require(good, f"{name} must be a finite number of at least 0, not {value!r}")


def random_starts(job: Job, n_starts: int) -> list[np.ndarray]:
    """List the starts: the one given, then ones mixed with random probabilities.

    Parameters
    ----------
    job : Job
        With start, labels and seed.
    n_starts : int
        How many.

    Returns
    -------
    list of array [item, state]
    """
    random = np.random.default_rng(job.seed)
    return [job.start, *(perturbed(job.start, job.labels, random) for _ in range(n_starts - 1))]


class End(NamedTuple):
    """Where one start arrived."""

    progress: Any
    trace: np.ndarray
    interrupted: bool


def climb_all(job: Job, arrays: LabelArrays, fixpoint: Fixpoint, starts: Sequence[np.ndarray]) -> list[End]:
    """Run every start to its end, or until an interrupt.

    Parameters
    ----------
    job : Job
        What to do.
    arrays : LabelArrays
        The annotations.
    fixpoint : Fixpoint
        The iteration.
    starts : sequence of array [item, state]
        Where to begin.

    Returns
    -------
    list of End
        One per start that made at least one pass.
    """
    ends = []
    for index, start in enumerate(starts):
        task = fixpoint.name if len(starts) == 1 else f"{fixpoint.name}, start {index + 1} of {len(starts)}"
        try:
            ends.append(_climb(job, arrays, fixpoint, start, task))
        except KeyboardInterrupt:
            if not ends:
                raise
            ends[-1] = ends[-1]._replace(interrupted=True)
        if ends[-1].interrupted:
            break
    return ends


def _climb(job: Job, arrays: LabelArrays, fixpoint: Fixpoint, start: np.ndarray, task: str) -> End:
    rows = np.zeros((arrays.n_rows, start.shape[1]))
    rows[np.asarray(arrays.row_of_item)[: job.labels.n_items]] = start
    job.reporter.start(task, fixpoint.max_iter)
    progress = fixpoint.begin(jnp.asarray(rows))
    traces: list[np.ndarray] = []
    steps, done = 1 if arrays.blocks.size > 1e6 else CHUNK, 0
    try:
        while True:
            begun = time.perf_counter()
            progress = fixpoint.advance(progress, min(done + steps, fixpoint.max_iter))
            now = int(progress.n_steps)
            traces.append(np.asarray(progress.trace)[: now - done])
            done = now
            job.reporter.update(done, f"bound {float(progress.objective):.4f}")
            if int(progress.status) != loops.RUNNING or done >= fixpoint.max_iter:
                return End(progress, np.concatenate(traces), False)
            if time.perf_counter() - begun < _SECONDS_PER_CALL:
                steps = min(2 * steps, CHUNK)
    except KeyboardInterrupt:
        if not traces:
            raise
        return End(progress, np.concatenate(traces), True)


def finish(
    job: Job,
    arrays: LabelArrays,
    tables: Tables,
    fixpoint: Fixpoint,
    ends: Sequence[End],
    *,
    draws: int,
    notes: Sequence[str] = (),
) -> Run:
    """Turn the best end into a run: probabilities of the states, Dirichlets of the tables, draws from them.

    Parameters
    ----------
    job : Job
        What was done.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.
    fixpoint : Fixpoint
        The iteration.
    ends : sequence of End
        Where each start arrived.
    draws : int
        How many draws to take from the Dirichlets.
    notes : sequence of str
        Warnings for the run.

    Returns
    -------
    Run
        Of the start with the highest bound.
    """
    exact = sizes_of(job.labels)
    finished = [fixpoint.finish(end.progress) for end in ends]
    bounds = [float(bound) for _, _, bound in finished]
    best = int(np.nanargmax(bounds)) if np.isfinite(bounds).any() else 0
    end, (alpha, probability, bound) = ends[best], finished[best]
    alpha = np.asarray(alpha)
    warnings = list(notes)
    size = max(alpha.nbytes, 1)
    kept = max(min(draws, _DRAWS_LIMIT // size), 1)
    if kept < draws:
        warnings.append(
            f"Drew {kept} times from the approximation, not {draws} times: all draws would exceed "
            f"{_DRAWS_LIMIT / 2**20:.0f} MB. Class probabilities do not depend on draws."
        )
    random = np.random.default_rng([job.seed, 1])
    safe = np.where(np.isfinite(alpha) & (alpha > 0), alpha, 1.0)
    flat = np.stack([draw(random, safe, tables) for _ in range(kept)])
    rows = np.asarray(arrays.row_of_item)[: exact.n_items]
    n_passes = int(end.progress.n_steps)
    return Run(
        points=None,
        draws=trim(tables.unflatten(flat[None]), job.model, arrays.sizes, exact),
        state_probability=np.asarray(probability)[rows],
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=end.trace,
        status=_status(end.progress, n_passes, interrupted=ends[-1].interrupted),
        warnings=tuple(warnings),
        extra={
            "n_passes": n_passes,
            "bound": float(bound),
            "best_start": best,
            "objective_by_start": bounds,
        },
        concentrations=_concentrations(job, tables, arrays, alpha),
        independent=True,
    )


def _concentrations(job: Job, tables: Tables, arrays: LabelArrays, alpha: np.ndarray) -> dict[str, np.ndarray]:
    exact = sizes_of(job.labels)
    length = {"worker": exact.n_workers, "item": exact.n_items}
    found = {}
    for name, site in job.model.sites(arrays.sizes, values=False).items():
        shape = tables.shapes[tables.names.index(name)]
        first = tables.offsets[name]
        table = alpha[first : first + int(np.prod(shape))].reshape(shape)
        found[name] = table[tuple(slice(length.get(dim)) for dim in site.dims)]
    return found


def _status(progress: Any, n_passes: int, *, interrupted: bool) -> Status:
    if interrupted:
        return Status("interrupted", f"Interrupted after {n_passes} passes; the approximation so far is kept.", False)
    if int(progress.status) == loops.CONVERGED:
        return Status("converged", f"Converged after {n_passes} passes.", True)
    if int(progress.status) == loops.FAILED:
        return Status("failed", "The bound is no longer finite; check priors and weights.", False)
    return Status(
        "max-iterations", f"Stopped at {n_passes} passes before converging; raise max_iter or tolerance.", False
    )
