"""GLAD: workers differ in ability and items in easiness; a label is right by the product of the two."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.baselines._options import check_number, check_whole, check_word
from bayescrowd.baselines._passes import CHUNK, Padded, by_item, by_worker, classes_given, climb, little_changed, padded
from bayescrowd.baselines._result import Found, Votes, begin, ending, finish, votes_of
from bayescrowd.errors import EngineError
from bayescrowd.fit import Fit
from bayescrowd.kernels import loops
from bayescrowd.kernels.precision import double_precision

__all__ = ["glad"]

_LONGEST = 1.0
"""Longest step of a log easiness: its part of the objective is not concave."""

_LEAST_CURVATURE = 0.3
"""Least curvature that a step of a log easiness assumes, as a share of the expected one."""

_TRIES = 8
"""How often a step is shortened, to a quarter each time, before it is left out."""


def glad(
    labels: Any,
    *,
    floor: str = "half",
    ability_prior: tuple[float, float] = (1.0, 1.0),
    easiness_prior: tuple[float, float] = (1.0, 1.0),
    steps: int = 1,
    max_iter: int = 1000,
    tolerance: float = 1e-4,
) -> Fit:
    r"""Estimate the ability of workers and the easiness of items with the classes.

    Worker m is right on item i with a probability that grows with ability :math:`a_m` (below 0 for adversaries) times
    easiness :math:`b_i = e^{u_i} > 0`, and errs alike in every direction; all classes are equally frequent:

    .. math:: P(x_{im} = T_i) = \frac1{1 + e^{-a_m b_i}} \quad \text{(floor="half")}, \qquad
              P(x_{im} = T_i) = \frac1{1 + (C - 1) e^{-a_m b_i}} \quad \text{(floor="chance")} .

    At ability 0 that is one half, whatever the number of classes, or chance; for two classes both are the same. Ability
    and log easiness have independent normal priors. Expectation maximisation ends at a maximum of the posterior density
    of both, with the classes summed out. Given the classes' probabilities, abilities are problems of one variable each,
    and so are easinesses given the abilities: each pass takes Newton steps in all of one and then in all of the other,
    shortened where they would lower the density. A pass takes time proportional to the number of labels.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class are left out.
    floor : {"half", "chance"}
        What an ability of 0 means.
    ability_prior, easiness_prior : (float, float)
        Mean and standard deviation of the normal priors of ability and log easiness.
    steps : int
        Newton steps in either of a pass. More of them make the pass an exact one of EM (some ten do), and slower.
    max_iter : int
        Most passes.
    tolerance : float
        Converged when two passes in a row change no class probability by more than this.

    Returns
    -------
    Fit
        ``workers()`` has ``ability``, and as accuracy the probability of being right on the items that the worker
        labelled, on average. ``idata["point_estimate"]`` has ``easiness`` of the items. Workers and items without votes
        have the prior means.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, or no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.glad(bc.datasets.load("anesthesia"))
    >>> fit.workers()["ability"].round(2).tolist()
    [0.92, 0.43, 0.64, 0.9, 0.61]

    References
    ----------
    Whitehill, Ruvolo, Wu, Bergsma, Movellan (2009), Whose vote should count more: optimal integration of labels from
    labelers of unknown expertise, NIPS. Generative models for learning from crowds, arXiv:1706.03930,
    equation (24), for the floor at chance.
    """
    call = begin(
        "glad",
        labels,
        floor=floor,
        ability_prior=ability_prior,
        easiness_prior=easiness_prior,
        steps=steps,
        max_iter=max_iter,
        tolerance=tolerance,
    )
    check_word("floor", floor, ("half", "chance"))
    priors = _normal("ability_prior", ability_prior), _normal("easiness_prior", easiness_prior)
    check_whole("steps", steps, 1)
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance, positive=False)
    votes = votes_of(call)
    n_errors = max(votes.n_classes - 1, 1)
    with double_precision():
        laid = jax.device_put(padded(votes))
        task = _Task(laid, *priors, np.log(n_errors) if floor == "chance" else 0.0, np.log(n_errors))
        progress, objective = climb(
            lambda now, most: _advance(now, task, float(tolerance), most, int(steps)), _begun(task), int(max_iter)
        )
        state = progress.state
        probability = np.asarray(state.probability)[: votes.n_items]
        ability = np.asarray(state.ability)[: votes.n_workers]
        easiness = np.exp(np.asarray(state.log_easiness)[: votes.n_items])
    n_passes = int(progress.n_steps)
    converged = int(progress.status) == loops.CONVERGED
    found = Found(
        probability,
        by_worker={"accuracy": _accuracy(votes, ability, easiness, float(task.offset)), "ability": ability},
        by_item={"easiness": easiness},
        objective=objective,
        converged=converged,
        sentence=ending(n_passes, converged, little_changed(tolerance)),
        details={"n_passes": n_passes},
    )
    return finish(call, found)


def _normal(name: str, value: Any) -> np.ndarray:
    """Check mean and standard deviation."""
    try:
        pair = np.asarray(value, float)
    except (TypeError, ValueError):
        pair = np.empty(0)
    if pair.shape != (2,) or not np.isfinite(pair).all() or pair[1] <= 0:
        raise EngineError(f"{name} must be a mean and a standard deviation above 0, such as (1, 1), not {value!r}")
    return pair


def _accuracy(votes: Votes, ability: np.ndarray, easiness: np.ndarray, offset: float) -> np.ndarray:
    """Average over the items that a worker labelled; over all labels for a worker without any."""

    def right(product: np.ndarray) -> np.ndarray:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * (product - offset))))

    total = np.bincount(votes.worker, votes.weight, votes.n_workers)
    hits = np.bincount(
        votes.worker, votes.weight * right(ability[votes.worker] * easiness[votes.item]), votes.n_workers
    )
    idle = total == 0
    if idle.any():  # all at the prior mean
        hits[idle] = np.sum(votes.weight * right(ability[idle][0] * easiness[votes.item])) / votes.weight.sum()
    return np.where(idle, hits, hits / np.where(idle, 1.0, total))


class _Task(NamedTuple):
    """What stays the same in all passes: votes, priors, and what the logit of being right loses at chance."""

    votes: Padded
    ability_prior: Any
    easiness_prior: Any
    offset: Any
    log_errors: Any


class _State(NamedTuple):
    ability: Any
    log_easiness: Any
    probability: Any


@jax.jit
def _begun(task: _Task) -> loops.Progress[Any]:
    votes = task.votes
    state = _State(
        jnp.full(votes.n_votes.shape, task.ability_prior[0]),
        jnp.full(votes.gold.shape, task.easiness_prior[0]),
        jnp.zeros((votes.gold.shape[0], votes.class_share.shape[0])),
    )
    return loops.begin(state, CHUNK)


def _log_odds(ability: Any, log_easiness: Any, task: _Task) -> Any:
    votes = task.votes
    return ability[votes.worker] * jnp.exp(log_easiness)[votes.item] - task.offset


def _softplus(logit: Any) -> Any:
    return jnp.maximum(logit, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(logit)))


def _log_normal(value: Any, prior: Any) -> Any:
    """Log density less what does not depend on the value."""
    return -0.5 * ((value - prior[0]) / prior[1]) ** 2


def _uphill(point: Any, step: Any, height: Callable[[Any], Any]) -> Any:
    """Take a step in every coordinate that does not lower its own height; shorten the others."""
    start = height(point)
    least = start - 1e-12 * (1 + jnp.abs(start))

    def unfinished(now: tuple[Any, Any, Any]) -> Any:
        _, fine, tries = now
        return (tries < _TRIES) & ~jnp.all(fine)

    def shorten(now: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        step, fine, tries = now
        step = jnp.where(fine, step, step / 4)
        return step, height(point + step) >= least, tries + 1

    # The first try is of four steps a quarter each, so that the loop holds the only copy of the height.
    step, fine, _ = jax.lax.while_loop(unfinished, shorten, (4 * step, jnp.zeros(point.shape, bool), 0))
    return jnp.where(fine, point + step, point)


def _better(agrees: Any, ability: Any, log_easiness: Any, task: _Task) -> tuple[Any, Any]:
    """Raise the expected log density: a Newton step in every ability, then in every log easiness."""
    votes = task.votes

    def gain(logit: Any) -> Any:
        return votes.weight * (agrees * logit - _softplus(logit))

    def slope(ability: Any) -> tuple[Any, Any]:
        chance = jax.nn.sigmoid(_log_odds(ability, log_easiness, task))
        return votes.weight * (agrees - chance), votes.weight * chance * (1 - chance)

    mean, variance = task.ability_prior[0], task.ability_prior[1] ** 2
    easiness = jnp.exp(log_easiness)[votes.item]
    first, second = slope(ability)
    sums = by_worker(jnp.stack([first * easiness, second * easiness**2], axis=1), votes)
    step = (sums[:, 0] - (ability - mean) / variance) / (sums[:, 1] + 1 / variance)
    ability = _uphill(
        ability,
        step,
        lambda value: (
            by_worker(gain(_log_odds(value, log_easiness, task)), votes) + _log_normal(value, task.ability_prior)
        ),
    )

    mean, variance = task.easiness_prior[0], task.easiness_prior[1] ** 2
    product = ability[votes.worker] * easiness
    first, second = slope(ability)
    sums = by_item(jnp.stack([first * product, second * product**2], axis=1), votes)
    expected = sums[:, 1] + 1 / variance
    curvature = jnp.maximum(expected - sums[:, 0], _LEAST_CURVATURE * expected)
    step = jnp.clip((sums[:, 0] - (log_easiness - mean) / variance) / curvature, -_LONGEST, _LONGEST)
    log_easiness = _uphill(
        log_easiness,
        step,
        lambda value: by_item(gain(_log_odds(ability, value, task)), votes) + _log_normal(value, task.easiness_prior),
    )
    return ability, log_easiness


@jax.jit
def _advance(progress: loops.Progress[Any], task: _Task, tolerance: Any, most: Any, steps: Any) -> loops.Progress[Any]:
    votes = task.votes

    def step(state: _State) -> tuple[_State, Any, Any]:
        logit = _log_odds(state.ability, state.log_easiness, task)
        nothing = _softplus(logit)
        log_share = jnp.log(votes.class_share)
        probability, total = classes_given(logit + task.log_errors, log_share, votes)
        objective = jnp.sum(jnp.where(votes.counts, total, 0.0)) - jnp.sum(votes.weight * (nothing + task.log_errors))
        objective += jnp.sum(_log_normal(state.ability, task.ability_prior))
        objective += jnp.sum(_log_normal(state.log_easiness, task.easiness_prior))
        agrees = probability[votes.item, votes.label]

        def once(_: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
            return _better(agrees, *now, task)

        ability, log_easiness = jax.lax.fori_loop(0, steps, once, (state.ability, state.log_easiness))
        change = jnp.max(jnp.abs(probability - state.probability))
        return _State(ability, log_easiness, probability), objective, change

    return loops.advance(step, progress, tolerance=jnp.inf, change_tolerance=tolerance, max_steps=most)
