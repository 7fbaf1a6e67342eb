"""What the two Gibbs samplers share: groups of chains in threads, what is kept of the sweeps, and the run from it.

Chains are dealt into two groups whatever the number of cores, so that results do not depend on it; a group's chains are
computed together, and the groups run side by side.
"""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.errors import count_of
from bayescrowd.inference.base import DRAWS_LIMIT, LOG_LIKELIHOOD_LIMIT, Job, Run, Status, sizes_of, trim
from bayescrowd.kernels.entries import chain_joint
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import marginal
from bayescrowd.kernels.tables import Tables
from bayescrowd.model import Model

__all__ = ["Group", "Kept", "Schedule", "by_item", "groups_of", "log_likelihood", "sample"]

N_GROUPS = 2

_SECONDS_PER_CALL = 0.5
"""Fewer sweeps are made at once where they take longer than this."""


@dataclass
class Kept:
    """What one group of chains has gathered; arrays have the chain first.

    Parameters
    ----------
    flat : list of array [chain, entry]
        Draws of the tables.
    log_likelihood : list of array [chain, item]
        Log likelihood of each item's labels at these draws.
    lp : list of array [chain]
        Log density of the sampler's target.
    mean : array [chain, entry] or None
        Sum over sweeps of the tables' conditional means.
    square : array [chain, entry] or None
        Sum over sweeps of the tables' conditional second moments.
    probability : array [row, chain, state] or None
        Sum over sweeps of the conditional probabilities of the states.
    n_sweeps : int
        Sweeps summed.
    """

    flat: list[np.ndarray] = field(default_factory=list)
    log_likelihood: list[np.ndarray] = field(default_factory=list)
    lp: list[np.ndarray] = field(default_factory=list)
    mean: Any = None
    square: Any = None
    probability: Any = None
    n_sweeps: int = 0


class Group(Protocol):
    """Some chains of a Gibbs sampler, swept together."""

    kept: Kept

    def warm(self, n_sweeps: int) -> None:
        """Sweep without keeping anything."""

    def draw(self, n_sweeps: int, *, keep: bool) -> None:
        """Sweep, add up, and keep the tables of the last sweep if asked to."""


def groups_of(n_chains: int) -> list[range]:
    """Deal chains into groups.

    Parameters
    ----------
    n_chains : int
        How many.

    Returns
    -------
    list of range
        Consecutive chains.
    """
    edges = np.linspace(0, n_chains, min(N_GROUPS, n_chains) + 1).round().astype(int)
    return [range(int(first), int(last)) for first, last in zip(edges[:-1], edges[1:], strict=True)]


def by_item(table: Any, arrays: LabelArrays) -> Any:
    """Sum the states out of the joint tables of several chains.

    Parameters
    ----------
    table : array [row, chain, state]
        Log joint probabilities.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [chain, row]
        Log likelihood of each item's labels.
    """
    return jax.vmap(lambda one: marginal(one, arrays), in_axes=1)(table)


@partial(jax.jit, static_argnames="tables")
def log_likelihood(model: Model, flat: Any, arrays: LabelArrays, *, tables: Tables) -> Any:
    """Compute the log likelihood of each item's labels for a draw of every chain.

    Parameters
    ----------
    model : Model
        A model with routes.
    flat : array [chain, entry]
        Tables.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    array [chain, row]
        States summed out.
    """
    return by_item(chain_joint(model, jnp.log(flat), arrays, tables)[0], arrays)


class Schedule:
    """Which of the sweeps are kept.

    Parameters
    ----------
    job : Job
        With ``draws``, ``chains`` and ``keep`` among its settings.
    n_entries : int
        Number of table entries of one draw.
    """

    def __init__(self, job: Job, n_entries: int) -> None:
        settings = job.settings
        self.asked = min(settings.keep, settings.draws)
        fits = max(DRAWS_LIMIT // (8 * n_entries * settings.chains), 20)
        self.n_kept = min(self.asked, fits)
        self.every = -(-settings.draws // self.n_kept) if self.n_kept else settings.draws
        n_values = settings.chains * self.n_kept * job.labels.n_items
        self.log_likelihood = 0 < n_values <= LOG_LIKELIHOOD_LIMIT

    def notes(self) -> list[str]:
        """Say what was not kept.

        Returns
        -------
        list of str
        """
        found = []
        if self.n_kept < self.asked:
            found.append(
                f"Kept {self.n_kept} draws of the tables per chain, not {self.asked}: all of them would exceed "
                f"{DRAWS_LIMIT / 2**20:.0f} MB. Class probabilities and means use all sweeps."
            )
        if self.n_kept and not self.log_likelihood:
            found.append("the log likelihood of each item and draw was too large to keep")
        return found


def sample(
    job: Job,
    arrays: LabelArrays,
    tables: Tables,
    make: Callable[[range, Schedule], Group],
    name: str,
) -> Run:
    """Run all groups of chains to the end, or to an interrupt, and gather what they kept.

    Parameters
    ----------
    job : Job
        What to do.
    arrays : LabelArrays
        The annotations, exact sizes.
    tables : Tables
        Layout of the table entries.
    make : callable
        (chains, schedule) -> group.
    name : str
        What progress is called.

    Returns
    -------
    Run
        Draws by chain, or points where none were to be kept.

    Raises
    ------
    KeyboardInterrupt
        Where interrupted before the first sweep after warmup.
    """
    settings = job.settings
    schedule = Schedule(job, len(tables.row_of))
    goal = settings.chains * (settings.warmup + settings.draws)
    job.reporter.start("compiling", goal)
    done: dict[int, int] = {}
    stop = threading.Event()
    groups: list[Group] = []

    def work(group: Group, chains: range) -> None:
        with double_precision():
            step = 25
            left = settings.warmup
            while left and not stop.is_set():
                now = min(step, left)
                begun = time.perf_counter()
                group.warm(now)
                if time.perf_counter() - begun > _SECONDS_PER_CALL:
                    step = max(step // 2, 1)
                left -= now
                done[chains[0]] = (settings.warmup - left) * len(chains)
            left, since = settings.draws, 0
            while left and not stop.is_set():
                # Never many sweeps at once, so that an interrupt is answered soon.
                now = min(schedule.every - since, step, left)
                begun = time.perf_counter()
                since += now
                last = since == schedule.every or now == left
                group.draw(now, keep=bool(schedule.n_kept) and last)
                since = 0 if last else since
                left -= now
                done[chains[0]] = (settings.warmup + settings.draws - left) * len(chains)
                if now == step:
                    step = max(step // 2, 1) if time.perf_counter() - begun > _SECONDS_PER_CALL else step

    dealt = groups_of(settings.chains)
    interrupted = False
    futures: list[Any] = []
    pool = concurrent.futures.ThreadPoolExecutor(len(dealt))
    try:
        groups = [make(chains, schedule) for chains in dealt]
        job.reporter.start(f"{name}, {settings.chains} chains", goal)
        futures = [pool.submit(work, group, chains) for group, chains in zip(groups, dealt, strict=True)]
        while True:
            running = concurrent.futures.wait(futures, timeout=0.05).not_done
            job.reporter.update(sum(done.values()), "sweeping")
            if not running:
                break
    except KeyboardInterrupt:
        interrupted = True
        job.reporter.start("stopping, the sweeps so far are kept; interrupt again to discard them", goal)
    finally:
        stop.set()
        pool.shutdown(wait=True)
    if not interrupted:
        for future in futures:
            future.result()
    return _gather(job, arrays, tables, groups, dealt, schedule, interrupted=interrupted)


def _gather(
    job: Job,
    arrays: LabelArrays,
    tables: Tables,
    groups: Sequence[Group],
    dealt: Sequence[range],
    schedule: Schedule,
    *,
    interrupted: bool,
) -> Run:
    settings = job.settings
    exact = sizes_of(job.labels)
    usable = [(group.kept, chains) for group, chains in zip(groups, dealt, strict=False) if group.kept.n_sweeps]
    if not usable:
        raise KeyboardInterrupt
    notes = schedule.notes()
    n_chains = sum(len(chains) for _, chains in usable)
    if n_chains < settings.chains:
        notes.append(f"{settings.chains - n_chains} of {settings.chains} chains were interrupted during warmup")
    n_sweeps = min(kept.n_sweeps for kept, _ in usable)
    sentence = f"{count_of(settings.chains, 'chain')} of {settings.draws} sweeps after {settings.warmup} of warmup."
    if interrupted:
        sentence = (
            f"Interrupted: {count_of(n_chains, 'chain')} of {n_sweeps} sweeps are kept of {settings.chains} x "
            f"{settings.draws}."
        )
    rows = np.asarray(arrays.row_of_item)[: exact.n_items]
    by_chain = np.concatenate(
        [np.asarray(kept.probability)[rows].transpose(1, 0, 2) / kept.n_sweeps for kept, _ in usable]
    )

    def stack(lists: list[list[np.ndarray]]) -> np.ndarray:
        n = min(len(pieces) for pieces in lists)
        return np.concatenate([np.stack(pieces[:n], axis=1) for pieces in lists])

    draws = stats = likelihood = None
    if schedule.n_kept and min(len(kept.flat) for kept, _ in usable):
        flat = stack([kept.flat for kept, _ in usable])
        draws = trim(tables.unflatten(flat), job.model, arrays.sizes, exact)
        stats = {"lp": stack([kept.lp for kept, _ in usable])}
        if schedule.log_likelihood:
            likelihood = stack([kept.log_likelihood for kept, _ in usable])[..., rows]
    mean = np.concatenate([np.asarray(kept.mean) / kept.n_sweeps for kept, _ in usable])
    square = np.concatenate([np.asarray(kept.square) / kept.n_sweeps for kept, _ in usable])
    overall = mean.mean(axis=0)
    deviation = np.sqrt(np.maximum(square.mean(axis=0) - overall**2, 0.0))
    if draws is None:
        why = "keep=0" if settings.keep == 0 else "interrupted before the first"
        notes.append(f"No draws were kept ({why}): means of the tables, and class probabilities, use all sweeps.")
    between = mean.std(axis=0, ddof=1).max() if n_chains > 1 else np.nan
    return Run(
        points=trim(tables.unflatten(overall), job.model, arrays.sizes, exact),
        draws=draws,
        state_probability=by_chain.mean(axis=0),
        state_probability_by_chain=by_chain,
        log_likelihood=likelihood,
        sample_stats=stats,
        objective=None,
        status=Status("interrupted" if interrupted else "sampled", sentence, False if interrupted else None),
        warnings=tuple(notes),
        extra={
            "n_sweeps": n_sweeps,
            "largest_standard_deviation": float(deviation.max()),
            "largest_spread_of_means": None if np.isnan(between) else float(between),
        },
        deviations=trim(tables.unflatten(deviation), job.model, arrays.sizes, exact),
    )
