r"""Collapsed Gibbs sampling: tables integrated out, the states of the items drawn one item after another.

.. math:: P(T_i = t, Q_i = h \mid \text{rest}) \propto (N_t^{\neg i} + \gamma_\alpha) (N_h^{\neg i} + \gamma_\beta)
          \prod_k \frac{N^{\neg i}_{k,h,t,L_{ik}} + \omega}{N^{\neg i}_{k,h,t,\cdot} + \Omega} ,

rising factorials in place of the fractions where a worker labelled the item more than once. ``scheme="single"`` draws
class given difficulty, then difficulty given class, as the paper does. Labels that come about in several ways (routes)
have their way summed out for the state and drawn after it.

Given the states, tables are Dirichlet: their means and second moments are added up over all sweeps (Rao-Blackwell), and
draws from these Dirichlets fill ``posterior``. Class probabilities average the conditional probabilities above. Memory
does not grow with the number of sweeps beyond the ``keep`` draws that are asked for.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, equations (14) to (16); rising factorials are ours.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.inference._sequence import Laid
from bayescrowd.inference._sweeps import Kept, Schedule, log_likelihood, sample
from bayescrowd.inference.base import Engine, Job, Run, check_whole, require, require_routes
from bayescrowd.kernels.collapsed import Chains, Design, sweep
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import Tables, draw, log_polya
from bayescrowd.model import Model

__all__ = ["ENGINE", "Settings"]

_SCHEMES = ("joint", "single")


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="collapsed-gibbs"``.

    Parameters
    ----------
    chains, warmup, draws : int
        Number of chains, and of sweeps of each before and after warmup ends.
    scheme : str
        ``"joint"`` (class and difficulty of an item together) or ``"single"`` (one after the other).
    keep : int
        Most draws of the tables to keep of each chain, evenly spaced over its sweeps; 0 keeps none, only means.
    """

    chains: int = 4
    warmup: int = 500
    draws: int = 1000
    scheme: str = "joint"
    keep: int = 1000

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        check_whole(self, chains=1, warmup=0, draws=1, keep=0)
        require(self.scheme in _SCHEMES, f"scheme must be one of {_SCHEMES}, not {self.scheme!r}")


@partial(jax.jit, donate_argnames=("totals",))
def _sweeps(
    design: Design, chains: Chains, alpha: Any, row_of: Any, keys: Any, totals: Any, first: Any, n_sweeps: Any
) -> tuple[Chains, Any]:
    n_entries = design.n_entries

    def one(index: Any, carry: Any) -> Any:
        chains, (mean, square, total) = carry
        chains, probability = sweep(design, chains, keys, index)
        counts = chains.counts
        if design.whole:
            # Counts stay whole, whatever the rounding of a million additions to the priors.
            counts = counts.at[:, :n_entries].set(alpha + jnp.round(counts[:, :n_entries] - alpha))
            chains = Chains(counts, chains.state, chains.route)
        of_row = counts[:, n_entries + row_of]
        now = counts[:, :n_entries] / of_row
        return chains, (
            mean + now,
            square + now * (counts[:, :n_entries] + 1) / (of_row + 1),
            total + probability.transpose(1, 0, 2),
        )

    return jax.lax.fori_loop(first, first + n_sweeps, one, (chains, totals))


@partial(jax.jit, static_argnames="tables")
def _log_joint(design: Design, alpha: Any, chains: Chains, *, tables: Tables) -> Any:
    """Log probability of labels, states and routes by chain, tables integrated out."""
    counts = chains.counts[:, : design.n_entries]
    total = jax.vmap(lambda one: log_polya(alpha, one - alpha, tables))(counts)
    if design.log_constant is None:
        return total
    for segment, state, route in zip(design.segments, chains.state, chains.route, strict=True):
        which = route if design.index.shape[0] > 1 else 0
        constant = design.log_constant[which, segment.cell, state[..., None]]
        total += (constant if segment.weight is None else constant * segment.weight).sum(axis=(1, 2))
    return total


class _Group:
    """Some chains, swept together."""

    def __init__(self, job: Job, laid: Laid, chains: range, schedule: Schedule) -> None:
        self.kept = Kept()
        self._job, self._laid, self._schedule = job, laid, schedule
        self._random = [np.random.default_rng([job.seed, chain]) for chain in chains]
        key = jax.random.key(job.seed)
        self._keys = jnp.stack([jax.random.fold_in(key, chain) for chain in chains])
        self._chains = laid.begin(job.start, self._random)
        shape = (len(chains), len(laid.alpha))
        n_states = laid.design.index.shape[3]
        n_rows = sum(len(segment.gold) for segment in laid.segments)
        self._shapes = (shape, shape, (n_rows, len(chains), n_states))
        self._totals: Any = self._zero()
        self._done = 0

    def _zero(self) -> tuple[Any, ...]:
        return tuple(jnp.zeros(shape) for shape in self._shapes)

    def _run(self, n_sweeps: int) -> None:
        laid = self._laid
        self._chains, self._totals = _sweeps(
            laid.design, self._chains, laid.alpha, laid.row_of, self._keys, self._totals, self._done, n_sweeps
        )
        self._done += n_sweeps

    def warm(self, n_sweeps: int) -> None:
        self._run(n_sweeps)
        self._totals[0].block_until_ready()
        self._totals = self._zero()

    def draw(self, n_sweeps: int, *, keep: bool) -> None:
        self._run(n_sweeps)
        kept, laid = self.kept, self._laid
        if keep:
            tables = laid.tables
            after = np.asarray(self._chains.counts)[:, : len(laid.alpha)]
            flat = np.stack([draw(random, one, tables) for random, one in zip(self._random, after, strict=True)])
            kept.flat.append(flat)
            lp = _log_joint(laid.design, laid.alpha, self._chains, tables=tables)
            kept.lp.append(np.asarray(lp))
            if self._schedule.log_likelihood:
                kept.log_likelihood.append(
                    np.asarray(log_likelihood(self._job.model, flat, laid.arrays, tables=tables))
                )
        kept.n_sweeps += n_sweeps
        kept.mean, kept.square, kept.probability = self._totals
        self._totals[0].block_until_ready()


def run(job: Job) -> Run:
    """Sample the states of the items one after another, from dispersed starts.

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
    EngineError
        Where labels come about in several ways and a worker labelled an item twice or with a weight.
    """
    with double_precision():
        laid = Laid(job)
        make = lambda chains, schedule: _Group(job, laid, chains, schedule)
        return sample(job, laid.arrays, laid.tables, make, "collapsed Gibbs")


def _check(model: Model, settings: Settings) -> None:
    del settings
    require_routes("collapsed-gibbs", model)


ENGINE = Engine("collapsed-gibbs", Settings, run, samples=True, check=_check)
