"""Fixed-point engines from one or several starts: restarts, the loop of compiled chunks, interrupts, status."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayescrowd.inference.base import Job, Status
from bayescrowd.inference.starts import perturbed
from bayescrowd.kernels import loops

__all__ = ["CHUNK", "End", "Fixpoint", "best_of", "climb_all", "starts_of", "status_of"]

CHUNK = 64
"""Most passes of one compiled call."""

_SECONDS_PER_CALL = 0.5


class Fixpoint(NamedTuple):
    """A fixed-point iteration.

    Parameters
    ----------
    begin : callable
        Start [item, state] -> `loops.Progress` before the first pass.
    advance : callable
        (progress, most steps in all) -> progress after up to a chunk of passes.
    name : str
        What progress is called.
    objective : str
        What its objective is called.
    max_iter : int
        Most passes.
    """

    begin: Callable[[Any], Any]
    advance: Callable[[Any, int], Any]
    name: str
    objective: str
    max_iter: int


def starts_of(job: Job, n_starts: int) -> list[np.ndarray]:
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
    """Where one start arrived.

    Parameters
    ----------
    progress : Progress
        The last one.
    trace : array [pass]
        The objective by pass.
    interrupted : bool
        True where it did not come to its end.
    """

    progress: Any
    trace: np.ndarray
    interrupted: bool


def climb_all(job: Job, fixpoint: Fixpoint, starts: Sequence[np.ndarray]) -> list[End]:
    """Run every start to its end, or until an interrupt.

    Parameters
    ----------
    job : Job
        What to do.
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
            ends.append(_climb(job, fixpoint, start, task))
        except KeyboardInterrupt:
            if not ends:
                raise
            ends[-1] = ends[-1]._replace(interrupted=True)
        if ends[-1].interrupted:
            break
    return ends


def _climb(job: Job, fixpoint: Fixpoint, start: np.ndarray, task: str) -> End:
    job.reporter.start(task, fixpoint.max_iter)
    progress = fixpoint.begin(start)
    traces: list[np.ndarray] = []
    steps, done = 1 if len(job.labels.item_code) > 1e6 else CHUNK, 0
    try:
        while True:
            begun = time.perf_counter()
            progress = fixpoint.advance(progress, min(done + steps, fixpoint.max_iter))
            now = int(progress.n_steps)
            traces.append(np.asarray(progress.trace)[: now - done])
            done = now
            job.reporter.update(done, f"{fixpoint.objective} {float(progress.objective):.4f}")
            if int(progress.status) != loops.RUNNING or done >= fixpoint.max_iter:
                return End(progress, np.concatenate(traces), False)
            if time.perf_counter() - begun < _SECONDS_PER_CALL:
                steps = min(2 * steps, CHUNK)
    except KeyboardInterrupt:
        if not traces:
            raise
        return End(progress, np.concatenate(traces), True)


def best_of(objectives: Sequence[float]) -> int:
    """Find the start with the highest objective.

    Parameters
    ----------
    objectives : sequence of float
        One per start.

    Returns
    -------
    int
        The first where none is finite.
    """
    return int(np.nanargmax(objectives)) if np.isfinite(objectives).any() else 0


def status_of(end: End, *, interrupted: bool, objective: str) -> Status:
    """Say how a run ended.

    Parameters
    ----------
    end : End
        The best start's.
    interrupted : bool
        Whether any start was interrupted.
    objective : str
        What the objective is called.

    Returns
    -------
    Status
        With a sentence that says what to do.
    """
    n_passes, code = int(end.progress.n_steps), int(end.progress.status)
    if interrupted:
        return Status("interrupted", f"Interrupted after {n_passes} passes; the estimate so far is kept.", False)
    if code == loops.CONVERGED:
        return Status("converged", f"Converged after {n_passes} passes.", True)
    if code == loops.FAILED:
        return Status("failed", f"The {objective} is no longer finite; check priors and weights.", False)
    return Status(
        "max-iterations", f"Stopped at {n_passes} passes before converging; raise max_iter or tolerance.", False
    )
