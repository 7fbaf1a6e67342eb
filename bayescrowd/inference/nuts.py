"""NumPyro's No-U-Turn sampler on the parameters, all states summed out.

The density is the closed-form marginal (one grid of worker x label x state, see `bayescrowd.kernels`), or on request
the model's own enumerated program. Chains run side by side in threads, in chunks, so that progress can be told and an
interrupt keeps the draws so far. For every draw the conditional probabilities of the states are computed and averaged:
no class is ever sampled and counted.

References
----------
Hoffman, Gelman (2014), The No-U-Turn sampler, Journal of Machine Learning Research 15. Phan, Pradhan, Jankowiak (2019),
Composable effects for flexible and accelerated probabilistic programming in NumPyro, arXiv:1912.11554.
"""

import concurrent.futures
import functools
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc
from numpyro.infer.initialization import init_to_value
from numpyro.infer.util import initialize_model

from bayescrowd.data.arrays import LabelArrays, PaddedLabels, build_arrays, build_padded
from bayescrowd.errors import count_of
from bayescrowd.inference.base import (
    DRAWS_LIMIT,
    LOG_LIKELIHOOD_LIMIT,
    Engine,
    Job,
    Run,
    Status,
    check_whole,
    require,
    sizes_of,
)
from bayescrowd.inference.points import dispersed
from bayescrowd.kernels.density import constrain, enumerated_program, marginal_program, potential, unconstrain
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.model import Model
from bayescrowd.sites import TRACING

__all__ = ["ENGINE", "Settings"]

_CHUNK = 50
_FIRST_CHUNK = 10
_SECONDS_PER_CALL = (0.3, 1.0)
"""Chunks shorter than the first grow, chunks longer than the second shrink: an interrupt is answered at once."""

_STATS = ("lp", "energy", "acceptance_rate", "n_steps", "diverging", "step_size")


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="nuts"``.

    Parameters
    ----------
    chains, warmup, draws : int
        Number of chains, and of adaptation steps and draws kept of each.
    likelihood : str
        ``"marginal"`` (closed form) or ``"enumerated"`` (the model's program; the same posterior, slower).
    target_accept : float
        Acceptance rate that the step size is adapted to, in (0, 1); raise it where there are divergences.
    max_tree_depth : int
        Most doublings of a trajectory.
    """

    chains: int = 4
    warmup: int = 500
    draws: int = 1000
    likelihood: str = "marginal"
    target_accept: float = 0.8
    max_tree_depth: int = 10

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        check_whole(self, chains=1, warmup=1, draws=1, max_tree_depth=1)
        require(self.likelihood in ("marginal", "enumerated"), "likelihood must be 'marginal' or 'enumerated'")
        require(0 < self.target_accept < 1, f"target_accept must lie between 0 and 1, not {self.target_accept!r}")


class _Sampler(NamedTuple):
    """Compiled steps, shared by all chains and by later fits of the same shapes."""

    begin: Callable[..., Any]
    step: Callable[..., Any]


@functools.lru_cache(maxsize=32)
def _sampler(structure: Any, shapes: Any, warmup: int, target_accept: float, max_tree_depth: int) -> _Sampler:
    del structure, shapes

    def of_data(model: Model, arrays: LabelArrays) -> Callable[[Any], Any]:
        return lambda position: potential(marginal_program, (model, arrays), position)

    return _build(of_data, warmup, target_accept, max_tree_depth)


def _build(potential: Callable[..., Any], warmup: int, target_accept: float, max_tree_depth: int) -> _Sampler:
    begin_kernel, step_kernel = hmc(potential_fn_gen=potential, algo="NUTS")

    @jax.jit
    def begin(position: Any, key: Any, model: Model, data: Any) -> Any:
        return begin_kernel(
            position,
            warmup,
            target_accept_prob=target_accept,
            max_tree_depth=max_tree_depth,
            model_args=(model, data),
            rng_key=key,
        )

    @jax.jit
    def step(state: Any, model: Model, data: Any, n_steps: Any) -> tuple[Any, Any, Any]:
        positions = jax.tree.map(lambda leaf: jnp.zeros((_CHUNK, *leaf.shape), leaf.dtype), state.z)
        stats = {name: jnp.zeros(_CHUNK) for name in _STATS}

        def one(index: Any, carry: Any) -> Any:
            state, positions, stats = carry
            state = step_kernel(state, (model, data))
            now = {
                "lp": -state.potential_energy,
                "energy": state.energy,
                "acceptance_rate": state.accept_prob,
                "n_steps": state.num_steps,
                "diverging": state.diverging,
                "step_size": state.adapt_state.step_size,
            }
            positions = jax.tree.map(lambda all_, new: all_.at[index].set(new), positions, state.z)
            stats = {name: stats[name].at[index].set(now[name].astype(float)) for name in _STATS}
            return state, positions, stats

        return jax.lax.fori_loop(0, n_steps, one, (state, positions, stats))

    return _Sampler(begin, step)


@jax.jit
def _evaluate(model: Model, arrays: LabelArrays, positions: Any, n_draws: Any, total: Any) -> tuple[Any, Any, Any]:
    """Constrain a chunk of draws; add their state probabilities to a total; log likelihood of each item.

    The total is carried from draw to draw, so that the sum does not depend on where chunks end (which time decides).
    """

    def one(total: Any, indexed: Any) -> tuple[Any, Any]:
        index, position = indexed
        parameters = constrain(model, arrays.sizes, position)
        table = joint(model, parameters, arrays)
        probability = jnp.where(index < n_draws, responsibilities(table, arrays), 0.0)
        return total + probability, (parameters, marginal(table, arrays))

    total, (parameters, log_likelihood) = jax.lax.scan(one, total, (jnp.arange(_CHUNK), positions))
    return total, parameters, log_likelihood


@dataclass
class _Chain:
    """What one chain has gathered so far."""

    state: Any
    warmed: int = 0
    drawn: int = 0
    kept: int = 0
    probability: Any = None
    parameters: list[dict[str, np.ndarray]] = field(default_factory=list)
    log_likelihood: list[np.ndarray] = field(default_factory=list)
    stats: list[dict[str, np.ndarray]] = field(default_factory=list)


class _Keep(NamedTuple):
    """What is kept of the draws: every so many-th, with or without the log likelihood of each item."""

    every: int
    log_likelihood: bool


def _enumerated(job: Job, data: Any, parameters: dict[str, Any]) -> _Sampler:
    settings: Settings = job.settings
    with TRACING:
        info = initialize_model(
            jax.random.key(job.seed),
            enumerated_program,
            init_strategy=init_to_value(values={name: jnp.asarray(value) for name, value in parameters.items()}),
            dynamic_args=True,
            model_args=(job.model, data),
        )

    def of_data(model: Model, table: PaddedLabels) -> Callable[[Any], Any]:
        def locked(position: Any) -> Any:
            with TRACING:
                return info.potential_fn(model, table)(position)

        return locked

    return _build(of_data, settings.warmup, settings.target_accept, settings.max_tree_depth)


def _every(job: Job) -> int:
    """Keep every so many-th draw, so that large tables fit into memory; class probabilities use all draws."""
    settings: Settings = job.settings
    sites = job.model.sites(sizes_of(job.labels), values=False)
    size = sum(math.prod(site.shape) for site in sites.values()) * 8
    return max(-(-size * settings.chains * settings.draws // DRAWS_LIMIT), 1)


def _advance(
    chain: _Chain, job: Job, sampler: _Sampler, arrays: LabelArrays, data: Any, *, keep: _Keep, limit: int
) -> None:
    """Take one chunk of a chain: of its warmup, or of its draws."""
    settings: Settings = job.settings
    warming = chain.warmed < settings.warmup
    left = settings.warmup - chain.warmed if warming else settings.draws - chain.drawn
    n_steps = min(limit, left)
    chain.state, positions, stats = sampler.step(chain.state, job.model, data, n_steps)
    if warming:
        chain.state.i.block_until_ready()
        chain.warmed += n_steps
        return
    if chain.probability is None:
        chain.probability = np.zeros((arrays.n_rows, job.start.shape[1]))
    chain.probability, parameters, log_likelihood = _evaluate(job.model, arrays, positions, n_steps, chain.probability)
    rows = np.asarray(arrays.row_of_item)[: job.labels.n_items]
    kept = slice(-chain.drawn % keep.every, n_steps, keep.every)
    chain.parameters.append({name: np.array(np.asarray(value)[kept]) for name, value in parameters.items()})
    chain.stats.append({name: np.array(np.asarray(value)[kept]) for name, value in stats.items()})
    if keep.log_likelihood:
        chain.log_likelihood.append(np.asarray(log_likelihood)[kept][:, rows])
    chain.drawn += n_steps
    chain.kept += len(range(n_steps)[kept])


def _sample(job: Job, sampler: _Sampler, chains: list[_Chain], arrays: LabelArrays, data: Any) -> bool:
    """Run all chains to the end or to an interrupt; True where interrupted."""
    settings: Settings = job.settings
    goal = settings.chains * (settings.warmup + settings.draws)
    every = _every(job)
    n_values = settings.chains * settings.draws // every * job.labels.n_items
    keep = _Keep(every, n_values <= LOG_LIKELIHOOD_LIMIT)
    stop = threading.Event()

    def work(chain: _Chain) -> None:
        limit = _FIRST_CHUNK
        with double_precision():
            while chain.drawn < settings.draws and not stop.is_set():
                begun = time.perf_counter()
                _advance(chain, job, sampler, arrays, data, keep=keep, limit=limit)
                seconds = time.perf_counter() - begun
                if seconds < _SECONDS_PER_CALL[0]:
                    limit = min(2 * limit, _CHUNK)
                elif seconds > _SECONDS_PER_CALL[1]:
                    limit = max(limit // 2, 1)

    job.reporter.start("compiling", goal)
    interrupted = False
    pool = concurrent.futures.ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1))
    try:
        # One step before the threads start: they then share the compiled code.
        _advance(chains[0], job, sampler, arrays, data, keep=keep, limit=1)
        job.reporter.start(f"NUTS, {settings.chains} chains", goal)
        futures = [pool.submit(work, chain) for chain in chains]
        while not all(future.done() for future in futures):
            time.sleep(0.02)
            done = sum(chain.warmed + chain.drawn for chain in chains)
            warm = sum(chain.warmed < settings.warmup for chain in chains)
            job.reporter.update(done, f"{warm} chains still warming up" if warm else "drawing")
    except KeyboardInterrupt:
        interrupted = True
        job.reporter.start("stopping, the draws so far are kept; interrupt again to discard them", goal)
    finally:
        stop.set()
        pool.shutdown(wait=True)
    if not interrupted:
        for future in futures:
            future.result()
    return interrupted


def _gather(job: Job, chains: list[_Chain], arrays: LabelArrays, *, interrupted: bool) -> Run:
    settings: Settings = job.settings
    usable = [chain for chain in chains if chain.kept]
    if not usable:
        raise KeyboardInterrupt
    n_draws = min(chain.kept for chain in usable)
    notes = []
    every = _every(job)
    if every > 1:
        notes.append(
            f"Kept one of every {every} draws: all draws of the parameters would exceed {DRAWS_LIMIT / 2**20:.0f} MB. "
            "Class probabilities use all draws."
        )
    if len(usable) < len(chains):
        notes.append(f"{len(chains) - len(usable)} of {len(chains)} chains were interrupted during warmup and left out")
    sampled = count_of(settings.chains, "chain")
    sentence = f"{sampled} of {settings.draws} draws after {settings.warmup} steps of warmup."
    if interrupted:
        left = count_of(len(usable), "chain")
        sentence = f"Interrupted: {left} of {n_draws} draws are kept of {settings.chains} x {settings.draws}."

    def stack(pieces: list[list[Any]]) -> np.ndarray:
        out = np.empty((len(pieces), n_draws, *pieces[0][0].shape[1:]), pieces[0][0].dtype)
        for row, parts in zip(out, pieces, strict=True):
            filled = 0
            for part in parts:
                fitting = part[: n_draws - filled]
                row[filled : filled + len(fitting)] = fitting
                filled += len(fitting)
        return out

    names = list(usable[0].parameters[0])
    # Taken out piece by piece, so that the draws are not held twice.
    draws = {name: stack([[part.pop(name) for part in chain.parameters] for chain in usable]) for name in names}
    stats = {name: stack([[part[name] for part in chain.stats] for chain in usable]) for name in _STATS}
    stats["diverging"] = stats["diverging"] > 0
    stats["n_steps"] = stats["n_steps"].astype(np.int64)
    stats["tree_depth"] = np.ceil(np.log2(stats["n_steps"] + 1)).astype(np.int64)
    rows = np.asarray(arrays.row_of_item)[: job.labels.n_items]
    by_chain = np.stack([np.asarray(chain.probability)[rows] / chain.drawn for chain in usable])
    kept = all(chain.log_likelihood for chain in usable)
    if not kept:
        notes.append("the log likelihood of each item and draw was too large to keep")
    return Run(
        points=None,
        draws=draws,
        state_probability=by_chain.mean(axis=0),
        state_probability_by_chain=by_chain,
        log_likelihood=stack([chain.log_likelihood for chain in usable]) if kept else None,
        sample_stats=stats,
        objective=None,
        status=Status("interrupted" if interrupted else "sampled", sentence, False if interrupted else None),
        warnings=tuple(notes),
    )


def run(job: Job) -> Run:
    """Sample the parameters by NUTS, from dispersed starts.

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
    KeyboardInterrupt
        Where interrupted before the first draw.
    """
    settings: Settings = job.settings
    exact = sizes_of(job.labels)
    random = np.random.default_rng(job.seed)
    with double_precision():
        arrays = jax.device_put(build_arrays(job.labels, pad=False, by_annotation=job.model.uses_item))
        starts = [dispersed(job.model, job.labels, arrays, job.start, random) for _ in range(settings.chains)]
        data: Any = arrays
        if settings.likelihood == "enumerated":
            data = jax.device_put(build_padded(job.labels))
            sampler = _enumerated(job, data, starts[0])
        else:
            structure = jax.tree.structure((job.model, arrays))
            shapes = tuple(
                (np.shape(leaf), str(jnp.result_type(leaf))) for leaf in jax.tree.leaves((job.model, arrays))
            )
            sampler = _sampler(structure, shapes, settings.warmup, settings.target_accept, settings.max_tree_depth)
        keys = jax.random.split(jax.random.key(job.seed), settings.chains)
        chains = []
        for start, key in zip(starts, keys, strict=True):
            position = unconstrain(job.model, exact, start)
            chains.append(_Chain(sampler.begin(position, key, job.model, data)))
        interrupted = _sample(job, sampler, chains, arrays, data)
    return _gather(job, chains, arrays, interrupted=interrupted)


ENGINE = Engine("nuts", Settings, run, samples=True)
