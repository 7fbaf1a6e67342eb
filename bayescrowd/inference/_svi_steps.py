"""The programs, the guide and the compiled steps of SVI."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO
from numpyro.infer import autoguide as guides
from numpyro.infer.initialization import init_to_value
from numpyro.infer.util import log_density
from numpyro.optim import ClippedAdam
from numpyro.primitives import Messenger

from bayescrowd.data.arrays import LabelArrays, Sizes
from bayescrowd.kernels.density import log_prior
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.model import Model
from bayescrowd.sites import TRACING

__all__ = ["CHUNK", "EVALUATED", "Steps", "enumerated", "evaluate", "scaled", "steps_for"]

CHUNK = 100
"""Most steps per compiled call."""

EVALUATED = 50
"""Draws per compiled call."""

_SCALE = 0.1
"""Standard deviation of the guide at the start, on the unconstrained scale."""

_RANK = 10
"""Most columns of the low-rank guide."""

_DECAY = (300.0, 0.75)
"""The learning rate falls as (1 + step / first) ^ -second."""

_AVERAGED = 200
"""The guide's parameters are averaged over about this many last steps, which takes the noise of the steps out."""


def scaled(model: Model, arrays: LabelArrays, scale: Any) -> None:
    """State prior and likelihood of a group of items, states summed out, the likelihood scaled up to all items.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The group, with the sizes of the whole table.
    scale : float
        Number of groups.
    """
    parameters = model.parameters(arrays.sizes)
    numpyro.factor("marginal", scale * jnp.sum(marginal(joint(model, parameters, arrays), arrays)))


class _Weigh(Messenger):  # type: ignore[misc]
    """Move weights of annotations from the scale of a site into its distribution.

    `TraceEnum_ELBO` takes no scale that differs within a site; as a part of the site's log probability it may.
    """

    def process_message(self, msg: dict[str, Any]) -> None:
        """Rewrite one site."""
        scale = msg.get("scale")
        if msg["type"] == "sample" and msg["is_observed"] and scale is not None and jnp.ndim(scale) > 0:
            msg["fn"] = _Weighted(msg["fn"], scale)
            msg["scale"] = None


class _Weighted(dist.Distribution):  # type: ignore[misc]
    """A distribution whose log probabilities are multiplied by weights."""

    def __init__(self, base: Any, weight: Any) -> None:
        self._base = base
        self._weight = weight
        super().__init__(base.batch_shape, base.event_shape)

    @property
    def support(self) -> Any:
        return self._base.support

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        del intermediates
        return self._base.log_prob(value) * self._weight


def enumerated(model: Model, table: Any, scale: Any) -> None:
    """Run the model's own program, whose states NumPyro enumerates.

    Parameters
    ----------
    model : Model
        Any model.
    table : PaddedLabels
        All annotations.
    scale : float
        Not used: the program knows no groups.
    """
    del scale
    with _Weigh():
        model.program(table)


def _prior(model: Model, data: Any, scale: Any) -> None:
    """Sample the parameters alone: what the guide must cover."""
    del scale
    model.parameters(data.sizes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Bare:
    """Data of which only the sizes are known."""

    sizes: Sizes = field(metadata={"static": True})


_GUIDES: dict[str, Callable[..., Any]] = {
    "normal": guides.AutoNormal,
    "lowrank": functools.partial(guides.AutoLowRankMultivariateNormal, rank=_RANK),
    "multivariate": guides.AutoMultivariateNormal,
}
"""Guides by name."""


class Steps:
    """A guide and the compiled steps that move it, shared by later fits of the same shapes.

    Parameters
    ----------
    program : callable
        `scaled` or `enumerated`.
    guide : str
        ``"normal"``, ``"lowrank"`` or ``"multivariate"``.
    particles : int
        Samples of the ELBO per step.
    learning_rate : float
        Of the first step.
    clip : float
        Bound on each partial derivative.
    """

    def __init__(
        self, program: Callable[..., None], guide: str, particles: int, learning_rate: float, clip: float
    ) -> None:
        first, power = _DECAY
        self._program = program
        self._kind = guide
        self._optim = ClippedAdam(lambda step: learning_rate * (1 + step / first) ** -power, clip_norm=clip)
        self._elbo = (TraceEnum_ELBO if program is enumerated else Trace_ELBO)(particles)
        self.begin = jax.jit(self._begin, static_argnames="sizes")
        self.advance = jax.jit(self._advance)
        self.sample = jax.jit(self._sample, static_argnames=("sizes", "n"))
        self.elbo = jax.jit(self._elbo_at)

    def _svi(self, model: Model, sizes: Sizes, values: dict[str, Any] | None = None) -> tuple[SVI, Any, list[str]]:
        """Make NumPyro's objects, its state at the start, and the sites in the order in which the guide holds them.

        A guide keeps what it saw when it was first called, so one is made anew in every compiled function, and what
        it computes in doing so is thrown away by the compiler.
        """
        start = init_to_value(values=model.neutral_point(sizes))
        guide = _GUIDES[self._kind](_prior, init_loc_fn=start, init_scale=_SCALE)
        begun = SVI(_prior, guide, self._optim, Trace_ELBO())
        state = begun.init(jax.random.key(0), model, _Bare(sizes), 1.0, init_params=values)
        svi = SVI(self._program, guide, self._optim, self._elbo)
        svi.constrain_fn = begun.constrain_fn
        return svi, state, list(guide._init_locs)

    def _begin(self, model: Model, position: dict[str, Any], key: Any, *, sizes: Sizes) -> Any:
        """Place the guide at a position (site -> unconstrained value).

        Gives the optimiser's state and the average of the guide's parameters.
        """
        key, noise = jax.random.split(key)
        with TRACING:
            if self._kind == "normal":
                values = {f"{name}_auto_loc": value for name, value in position.items()}
            else:
                _, _, names = self._svi(model, sizes)
                flat = jnp.concatenate([jnp.ravel(position[name]) for name in names])
                values = {"auto_loc": flat}
                if self._kind == "lowrank":
                    # Zero columns would be a saddle.
                    values["auto_cov_factor"] = 0.1 * jax.random.normal(noise, (flat.size, _RANK))
            svi, state, _ = self._svi(model, sizes, values)
        return state._replace(rng_key=key), svi.optim.get_params(state.optim_state)

    def _advance(self, carry: Any, model: Model, data: Any, scale: Any, n_steps: Any) -> tuple[Any, Any]:
        """Take steps on one group of items; gives the carry and the losses."""
        with TRACING:
            svi, _, _ = self._svi(model, data.sizes)

        def one(index: Any, inner: Any) -> Any:
            (state, average), losses = inner
            with TRACING:
                state, loss = svi.stable_update(state, model, data, scale)
            now = svi.optim.get_params(state.optim_state)
            share = jnp.maximum(1 / _AVERAGED, jnp.minimum(2 / (state.optim_state[0] + 1.0), 1.0))
            average = jax.tree.map(lambda old, new: old + share * (new - old), average, now)
            return (state, average), losses.at[index].set(loss)

        return jax.lax.fori_loop(0, n_steps, one, (carry, jnp.full(CHUNK, jnp.nan)))

    def _elbo_at(self, average: Any, model: Model, data: Any, scale: Any, key: Any) -> Any:
        """Estimate the ELBO at parameters of the guide."""
        with TRACING:
            svi, _, _ = self._svi(model, data.sizes)
            return -svi.loss.loss(key, svi.constrain_fn(average), svi.model, svi.guide, model, data, scale)

    def _sample(self, average: Any, model: Model, key: Any, first: Any, *, sizes: Sizes, n: int) -> Any:
        """Draw parameters from the guide, with log prior - log guide density of each draw."""
        with TRACING:
            svi, _, names = self._svi(model, sizes)
            parameters = svi.constrain_fn(average)

        def one(index: Any) -> tuple[dict[str, Any], Any]:
            with TRACING:
                seeded = numpyro.handlers.seed(svi.guide, jax.random.fold_in(key, index))
                log_q, trace = log_density(seeded, (model, _Bare(sizes), 1.0), {}, parameters)
            values = {name: trace[name]["value"] for name in names}
            return values, log_prior(model, sizes, values) - log_q

        return jax.lax.map(one, first + jnp.arange(n))


@functools.lru_cache(maxsize=32)
def steps_for(
    structure: Any,
    shapes: Any,
    program: Callable[..., None],
    guide: str,
    particles: int,
    learning_rate: float,
    clip: float,
) -> Steps:
    """Find or make the steps for data of some shapes.

    Parameters
    ----------
    structure, shapes : hashable
        Of model and data.
    program, guide, particles, learning_rate, clip
        As for `Steps`.

    Returns
    -------
    Steps
        Shared.
    """
    del structure, shapes
    return Steps(program, guide, particles, learning_rate, clip)


@jax.jit
def evaluate(model: Model, arrays: LabelArrays, draws: dict[str, Any], n_draws: Any) -> tuple[Any, Any]:
    """Add up the state probabilities of a group over draws; log likelihood of each item and draw.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The group.
    draws : dict
        Site -> array [draw, ...].
    n_draws : int
        How many of them count.

    Returns
    -------
    tuple of array
        Sum of probabilities [row, state], log likelihood [draw, row].
    """

    def one(total: Any, indexed: Any) -> tuple[Any, Any]:
        index, parameters = indexed
        table = joint(model, parameters, arrays)
        return total + jnp.where(index < n_draws, responsibilities(table, arrays), 0.0), marginal(table, arrays)

    zero = jnp.zeros((arrays.n_rows, model.n_levels * arrays.sizes.n_classes))
    return jax.lax.scan(one, zero, (jnp.arange(EVALUATED), draws))
