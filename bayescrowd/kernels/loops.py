"""The fixed-point loop that every deterministic engine shares: trace, tolerance, status."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["RUNNING", "CONVERGED", "FAILED", "Progress", "advance", "begin", "settled"]

RUNNING, CONVERGED, FAILED = 0, 1, 2


class Progress[State](NamedTuple):
    """Where a fixed-point loop stands.

    Parameters
    ----------
    state : pytree
        What the next step needs.
    objective : float array []
        Objective of the state before the last step.
    change : float array []
        Largest change that the last step made, in the step's own units.
    n_steps : int array []
        Steps taken so far.
    status : int array []
        ``RUNNING``, ``CONVERGED`` or ``FAILED`` (the objective is not finite).
    trace : float array [chunk]
        Objectives of the steps of the last call of `advance`.
    """

    state: State
    objective: Any
    change: Any
    n_steps: Any
    status: Any
    trace: Any


def begin[State](state: State, chunk: int) -> Progress[State]:
    """Stand at the start of a fixed-point loop.

    Parameters
    ----------
    state : pytree
        The first state.
    chunk : int
        Most steps that one call of `advance` takes.

    Returns
    -------
    Progress
        Before the first step.
    """
    return Progress(
        state,
        jnp.asarray(-jnp.inf),
        jnp.asarray(jnp.inf),
        jnp.zeros((), jnp.int32),
        jnp.full((), RUNNING, jnp.int32),
        jnp.full(chunk, jnp.nan),
    )


def settled(before: Progress[Any], objective: Any, change: Any, tolerance: Any, change_tolerance: Any) -> Any:
    """Say whether a step was the last one needed.

    Parameters
    ----------
    before : Progress
        Before the step.
    objective, change : float
        Objective of the state before the step, and the largest change that it made; of NumPy or JAX.
    tolerance : float
        The objective rises by no more than this fraction of ``1 + |objective|`` ...
    change_tolerance : float
        ... and neither the step to this state nor the step from it changes anything by more than this.

    Returns
    -------
    bool
    """
    flat = objective - before.objective <= tolerance * (1.0 + abs(objective))
    return flat & (before.change <= change_tolerance) & (change <= change_tolerance)


def advance[State](
    step: Callable[[State], tuple[State, Any, Any]],
    progress: Progress[State],
    *,
    tolerance: Any,
    change_tolerance: Any,
    max_steps: Any,
) -> Progress[State]:
    """Take up to a chunk of steps; stop early when converged, failed or at the last step allowed.

    Parameters
    ----------
    step : callable
        State -> (next state, objective of the state given, change made).
    progress : Progress
        From `begin` or an earlier call.
    tolerance, change_tolerance : float
        When to stop: see `settled`.
    max_steps : int
        Most steps in all calls together.

    Returns
    -------
    Progress
        Its trace starts anew with this call.
    """
    chunk = progress.trace.shape[0]
    first = progress.n_steps

    def unfinished(now: Progress[State]) -> Any:
        return (now.status == RUNNING) & (now.n_steps < max_steps) & (now.n_steps - first < chunk)

    def one(now: Progress[State]) -> Progress[State]:
        state, objective, change = step(now.state)
        done = settled(now, objective, change, tolerance, change_tolerance)
        status = jnp.where(jnp.isfinite(objective), jnp.where(done, CONVERGED, RUNNING), FAILED).astype(jnp.int32)
        trace = now.trace.at[now.n_steps - first].set(objective)
        return Progress(state, objective, change, now.n_steps + 1, status, trace)

    return jax.lax.while_loop(unfinished, one, progress._replace(trace=jnp.full(chunk, jnp.nan)))
