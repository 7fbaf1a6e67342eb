"""Stochastic variational inference: NumPyro's automatic guides fitted to the parameters, all states summed out.

A guide is a normal distribution on the unconstrained scale. Its parameters climb the evidence lower bound (ELBO) by
Adam along reparameterised gradients, the states being summed out in closed form, or by NumPyro's enumeration of the
model's own program. Tables that do not fit into memory are taken in groups of items: items are split once into B
groups, every step takes one of them and scales its likelihood by B, so that value and gradient are right on average.
Classes are then judged by their conditional probabilities, averaged over independent draws from the guide.

The guide approximates: its draws are too narrow where parameters depend on each other, and it sits in one mode. The
ELBO is at most the log evidence.

References
----------
Kucukelbir, Tran, Ranganath, Gelman, Blei (2017), Automatic differentiation variational inference, Journal of Machine
Learning Research 18. Bingham et al. (2019), Pyro: deep universal probabilistic programming, Journal of Machine
Learning Research 20. Kingma, Ba (2015), Adam: a method for stochastic optimization, ICLR.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, build_padded
from bayescrowd.inference import _svi_steps
from bayescrowd.inference._svi_batches import Batches
from bayescrowd.inference._svi_steps import CHUNK, EVALUATED, Steps, steps_for
from bayescrowd.inference.base import (
    DRAWS_LIMIT,
    LOG_LIKELIHOOD_LIMIT,
    Engine,
    Job,
    Run,
    Status,
    check_numbers,
    check_whole,
    require,
)
from bayescrowd.inference.points import away_from_edges, climb, expected_counts, rows_of
from bayescrowd.kernels.density import unconstrain
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration, mean, tables_of
from bayescrowd.model import Model

__all__ = ["ENGINE", "Settings"]

_GUIDES = ("normal", "lowrank", "multivariate")

_LARGEST_MULTIVARIATE = 1000
"""Most unconstrained parameters of ``guide="multivariate"``, which holds their square many numbers."""

_EDGE = 1e-3
"""Distance from the edge of the simplex that a start keeps."""

_SECONDS_PER_CALL = (0.3, 1.0)
"""Chunks shorter than the first grow, chunks longer than the second shrink: an interrupt is answered at once."""

_FIRST_CHECK = 600
"""Steps before convergence is looked for; from then on every `CHUNK` steps."""

_PASSES = 5
"""Passes over all groups before convergence is looked for."""

_TRACE_LIMIT = 2000
"""Most numbers of the ELBO trace; longer ones are averaged over neighbours."""


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="svi"``.

    Parameters
    ----------
    likelihood : str
        ``"marginal"`` (closed form) or ``"enumerated"`` (the model's program; the same ELBO, slower; for
        ``guide="normal"`` without minibatches only).
    guide : str
        ``"normal"`` (independent normals), ``"lowrank"`` or ``"multivariate"`` (with correlations), all of them on the
        unconstrained scale.
    steps : int
        Most steps.
    batch_size : int, optional
        Items per step; all by default.
    learning_rate : float
        Of the first step; it falls from there.
    particles : int
        Samples of the ELBO per step.
    tolerance : float
        Converged when the mean ELBO of the last quarter of the steps is above that of the quarter before by less than
        this fraction of ``1 + |ELBO|``.
    draws : int
        Draws from the guide.
    """

    likelihood: str = "marginal"
    guide: str = "normal"
    steps: int = 5000
    batch_size: int | None = None
    learning_rate: float = 0.05
    particles: int = 1
    tolerance: float = 1e-4
    draws: int = 1000

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        check_whole(self, steps=1, particles=1, draws=1, **({} if self.batch_size is None else {"batch_size": 1}))
        require(self.likelihood in ("marginal", "enumerated"), "likelihood must be 'marginal' or 'enumerated'")
        require(self.guide in _GUIDES, "guide must be 'normal', 'lowrank' or 'multivariate'")
        check_numbers(self, "learning_rate", "tolerance")
        require(self.learning_rate > 0, f"learning_rate must be a number above 0, not {self.learning_rate!r}")
        if self.likelihood == "enumerated":
            require(self.guide == "normal", "likelihood='enumerated' goes with guide='normal' only; use 'marginal'")
            require(self.batch_size is None, "likelihood='enumerated' takes all items at once; use 'marginal'")


def _start(job: Job, batches: Batches, first: LabelArrays) -> dict[str, Any]:
    """Place the guide: parameters expected given the start's probabilities, on the unconstrained scale."""
    model, sizes = job.model, batches.sizes

    if not model.has_routes:
        # One group is enough to begin with.
        neutral = unconstrain(model, sizes, model.neutral_point(sizes))
        return climb(
            model, first, rows_of(job.start[batches.members[0]], first), neutral, density="unconstrained", steps=50
        )
    tables = tables_of(model, sizes)
    alpha = np.asarray(concentration(model, sizes))
    counts = np.zeros(alpha.shape)
    for index in range(batches.n):
        arrays = first if index == 0 else batches.arrays(index)
        rows = rows_of(job.start[batches.members[index]], arrays)
        counts += np.asarray(expected_counts(model, arrays, rows, tables))
    flat = away_from_edges(np.asarray(mean(jnp.asarray(alpha + counts), tables)), tables, _EDGE)
    return unconstrain(model, sizes, tables.unflatten(flat))


def _steps(settings: Settings, model: Model, data: Any, scale: float) -> Steps:
    """Compiled steps for the shapes of a job."""
    leaves = jax.tree.leaves((model, data))
    shapes = tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves)
    program = _svi_steps.enumerated if settings.likelihood == "enumerated" else _svi_steps.scaled
    # Gradients are sums over items: their noise at the optimum grows with the root of the number of items (and of
    # groups). The bound lies well above it, so that it stops single leaps and does not bend the mean.
    clip = 10 * math.sqrt(data.sizes.n_items * scale)
    structure = jax.tree.structure((model, data))
    return steps_for(structure, shapes, program, settings.guide, settings.particles, settings.learning_rate, clip)


def _check_dimension(guide: str, position: dict[str, Any]) -> None:
    dimension = sum(np.size(value) for value in position.values())
    require(
        guide != "multivariate" or dimension <= _LARGEST_MULTIVARIATE,
        f"guide='multivariate' holds a covariance of all parameters, too large for {dimension} of them (at most "
        f"{_LARGEST_MULTIVARIATE}); use guide='lowrank' or guide='normal'",
    )


def _average(values: Any) -> float:
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    return float(finite.mean()) if finite.size else float("nan")


def _level(trace: list[float]) -> tuple[float, float]:
    """Mean ELBO of the last quarter of the steps, and its gain over the quarter before."""
    width = max(len(trace) // 4, 1)
    level = _average(trace[-width:])
    return level, level - _average(trace[-2 * width : -width])


class _Path:
    """The steps taken so far."""

    def __init__(
        self, job: Job, steps: Steps, batches: Batches, data: Any, carry: Any, random: np.random.Generator
    ) -> None:
        self._job = job
        self._steps = steps
        self._batches = batches
        self.data = data
        self._random = random
        self._turn: list[int] = []
        self.carry = carry
        self.trace: list[float] = []

    def _next(self) -> LabelArrays:
        """Take the next group: all in turn, in a new random order each time, so that each is as likely at any step."""
        self._turn = self._turn or self._random.permutation(self._batches.n).tolist()
        return self._batches.arrays(self._turn.pop())

    def take(self, n_steps: int) -> None:
        """Take some steps."""
        model, n_groups = self._job.model, self._batches.n
        if n_groups == 1:
            carry, losses = self._steps.advance(self.carry, model, self.data, 1.0, n_steps)
            values = np.asarray(losses)[:n_steps]
        else:
            carry, pending = self.carry, []
            for _ in range(n_steps):
                carry, losses = self._steps.advance(carry, model, self._next(), float(n_groups), 1)
                pending.append(losses)
                if len(pending) > 1:
                    # One step computes while the next group is laid out; no more than two are on the device.
                    pending[-2].block_until_ready()
            values = np.array([float(losses[0]) for losses in pending])
        self.trace.extend((-values).tolist())
        self.carry = carry

    def run(self) -> Status:
        """Take steps until convergence, an interrupt or the last step allowed."""
        settings: Settings = self._job.settings
        report = self._job.reporter
        report.start("compiling", settings.steps)
        limit = 1
        try:
            while len(self.trace) < settings.steps:
                done = len(self.trace)
                begun = time.perf_counter()
                self.take(min(limit, CHUNK - done % CHUNK, settings.steps - done))
                seconds = time.perf_counter() - begun
                if done == 0:
                    report.start(f"SVI, {settings.guide} guide", settings.steps)
                elif seconds < _SECONDS_PER_CALL[0]:
                    limit = min(2 * limit, CHUNK)
                elif seconds > _SECONDS_PER_CALL[1]:
                    limit = max(limit // 2, 1)
                report.update(len(self.trace), f"ELBO {_level(self.trace)[0]:.2f}")
                if len(self.trace) % CHUNK == 0 and (ended := self._ended()):
                    return ended
        except KeyboardInterrupt:
            if not self.trace:
                raise
            report.start("stopping, the guide so far is kept", settings.steps)
            sentence = f"Interrupted after {len(self.trace)} steps; the guide so far is kept."
            return Status("interrupted", sentence, False)
        if ended := self._ended():
            return ended
        sentence = f"Stopped at {settings.steps} steps before converging; raise steps or tolerance."
        return Status("max-iterations", sentence, False)

    def _ended(self) -> Status | None:
        level, gain = _level(self.trace)
        if not np.isfinite(self.trace[-CHUNK:]).any():
            return Status("failed", "The ELBO is no longer finite; check priors and weights.", False)
        enough = max(_FIRST_CHECK, _PASSES * self._batches.n)
        if len(self.trace) >= enough and gain <= self._job.settings.tolerance * (1 + abs(level)):
            return Status("converged", f"Converged after {len(self.trace)} steps: the ELBO rises no more.", True)
        return None


def _thin(trace: list[float]) -> np.ndarray:
    """Average neighbours, so that the trace is short."""
    width = -(-len(trace) // _TRACE_LIMIT)
    return np.array([_average(trace[first : first + width]) for first in range(0, len(trace), width)])


def _gather(job: Job, path: _Path, steps: Steps, batches: Batches, status: Status, key: Any) -> Run:
    """Draw from the guide and judge the items by the draws."""
    settings: Settings = job.settings
    model, sizes, n_items = job.model, batches.sizes, batches.sizes.n_items
    notes = []
    size = 8 * sum(math.prod(site.shape) for site in model.sites(sizes, values=False).values())
    n_draws = max(min(settings.draws, DRAWS_LIMIT // size), 1)
    if n_draws < settings.draws:
        notes.append(
            f"Drew {n_draws} times from the guide instead of {settings.draws}: more draws of the parameters would "
            f"exceed {DRAWS_LIMIT / 2**20:.0f} MB."
        )
    job.reporter.start("drawing from the guide", n_draws)
    chunks: list[dict[str, np.ndarray]] = []
    log_ratio = []
    for first in range(0, n_draws, EVALUATED):
        values, ratio = steps.sample(path.carry[1], model, key, first, sizes=sizes, n=EVALUATED)
        chunks.append({name: np.asarray(value) for name, value in values.items()})
        log_ratio.append(np.asarray(ratio))
    kept = n_draws * n_items <= LOG_LIKELIHOOD_LIMIT
    by_item = np.empty((1, n_draws, n_items)) if kept else None
    probability = np.zeros((n_items, job.start.shape[1]))
    elbo = np.concatenate(log_ratio)[:n_draws]
    for index, members in enumerate(batches.members):
        arrays = path.data if batches.n == 1 and settings.likelihood == "marginal" else batches.arrays(index)
        rows = np.asarray(arrays.row_of_item)[: len(members)]
        for chunk, first in zip(chunks, range(0, n_draws, EVALUATED), strict=True):
            n_now = min(EVALUATED, n_draws - first)
            total, found = _svi_steps.evaluate(model, arrays, chunk, n_now)
            log_likelihood = np.asarray(found)[:n_now, rows]
            probability[members] += np.asarray(total)[rows]
            elbo[first : first + n_now] += log_likelihood.sum(axis=1)
            if by_item is not None:
                by_item[0, first : first + n_now, members] = log_likelihood.T
    if not kept:
        notes.append("the log likelihood of each item and draw was too large to keep")
    draws = {}
    for name in model.sites(sizes, values=False):
        # Taken out piece by piece, so that the draws are not held twice.
        pieces = [chunk.pop(name) for chunk in chunks]
        draws[name] = np.concatenate(pieces)[None, :n_draws]
    return Run(
        points=None,
        draws=draws,
        state_probability=probability / n_draws,
        state_probability_by_chain=(probability / n_draws)[None],
        log_likelihood=by_item,
        sample_stats=None,
        objective=_thin(path.trace),
        status=status,
        warnings=tuple(notes),
        extra={
            "n_steps": len(path.trace),
            "n_batches": batches.n,
            "elbo": float(elbo.mean()),
            "elbo_error": float(elbo.std() / math.sqrt(n_draws)),
        },
        independent=True,
    )


def run(job: Job) -> Run:
    """Fit a guide to the posterior of the parameters and draw from it.

    Parameters
    ----------
    job : Job
        What to do.

    Returns
    -------
    Run
        Independent draws from the guide.

    Raises
    ------
    KeyboardInterrupt
        Where interrupted before the first step.
    EngineError
        Where the guide would be too large.
    """
    settings: Settings = job.settings
    model = job.model
    random = np.random.default_rng(job.seed)
    with double_precision():
        batches = Batches(job.labels, settings.batch_size, by_annotation=model.uses_item, random=random)
        first: LabelArrays = batches.arrays(0)
        first = jax.device_put(first) if batches.n == 1 else first
        position = _start(job, batches, first)
        _check_dimension(settings.guide, position)
        data = jax.device_put(build_padded(job.labels)) if settings.likelihood == "enumerated" else first
        steps = _steps(settings, model, data, float(batches.n))
        of_steps, of_draws = jax.random.split(jax.random.key(job.seed))
        carry = steps.begin(model, position, of_steps, sizes=batches.sizes)
        path = _Path(job, steps, batches, data, carry, random)
        status = path.run()
        return _gather(job, path, steps, batches, status, of_draws)


ENGINE = Engine("svi", Settings, run, samples=True)
