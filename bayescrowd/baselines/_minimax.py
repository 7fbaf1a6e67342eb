"""The loop of minimax entropy: parameters of workers, parameters of items, probabilities of the classes, in turn."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayescrowd.baselines._lbfgs import minimise_rows

__all__ = ["Annotations", "Climb", "climb"]

_AT_REST = 0.02
"""A row of parameters rests where its slope over its largest curvature is below this share of the tolerance."""


class Annotations(NamedTuple):
    """The votes, padded with votes of weight zero.

    Parameters
    ----------
    item, worker, label : int array [annotation]
        Codes.
    weight : array [annotation]
        Weights.
    gold : int array [item]
        Known class, or -1.
    """

    item: Any
    worker: Any
    label: Any
    weight: Any
    gold: Any


class Climb(NamedTuple):
    """Where the loop stands.

    Parameters
    ----------
    worker, item : array [worker or item, feature]
        Parameters.
    probability : array [item, class]
        Probabilities of the classes.
    right : array [annotation]
        Probability that the annotation's worker is right on its item.
    objective : array [pass]
        Penalised log-likelihood after each pass.
    change : float
        Largest change of a probability in the last pass.
    n_passes : int
        Passes so far.
    """

    worker: Any
    item: Any
    probability: Any
    right: Any
    objective: Any
    change: Any
    n_passes: Any


@partial(jax.jit, static_argnames=("n_workers", "max_iter"))
def climb(
    votes: Annotations,
    probability: Any,
    features: Any,
    penalties: Any,
    tolerance: Any,
    steps: Any,
    *,
    n_workers: int,
    max_iter: int,
) -> Climb:
    """Run passes until the probabilities rest.

    Parameters
    ----------
    votes : Annotations
        The votes.
    probability : array [item, class]
        Where to begin.
    features : array [feature, class, label]
        What parameters add to the logits of a label given a class.
    penalties : array [2]
        Of the squared parameters of workers and of items.
    tolerance : float
        Stop where no probability changes more.
    steps : int
        Evaluations of each block of parameters per pass.
    n_workers : int
        Number of workers, with padding.
    max_iter : int
        Most passes.

    Returns
    -------
    Climb
    """
    n_items, n_classes = probability.shape
    n_features = features.shape[0]
    flat = features.reshape(n_features, -1)
    largest = jnp.linalg.norm(flat, 2) ** 2 / 2  # a softmax curves by no more than a half
    spoken = jax.nn.one_hot(votes.label, n_classes)

    def tables(parameters: Any) -> Any:
        return (parameters @ flat).reshape(-1, n_classes, n_classes)

    def said(logits: Any) -> tuple[Any, Any]:
        logs = jax.nn.log_softmax(logits, axis=2)
        return logs, jnp.take_along_axis(logs, votes.label[:, None, None], 2)[:, :, 0]

    def block(parameters: Any, owner: Any, others: Any, share: Any, penalty: Any) -> Any:
        n_rows = parameters.shape[0]

        def loss(parameters: Any) -> tuple[Any, Any]:
            logs, own = said(tables(parameters)[owner] + others)
            value = penalty / 2 * jnp.sum(parameters**2, axis=1)
            value = value - jax.ops.segment_sum(jnp.sum(share * own, axis=1), owner, n_rows)
            slope = share[:, :, None] * (jnp.exp(logs) - spoken[:, None])
            slope = jax.ops.segment_sum(slope.reshape(len(owner), -1), owner, n_rows)
            return value, slope @ flat.T + penalty * parameters

        count = jax.ops.segment_sum(jnp.sum(share, axis=1), owner, n_rows)
        curvature = penalty + largest * count[:, None]
        return minimise_rows(loss, parameters, curvature, steps=steps, tolerance=_AT_REST * tolerance)

    def one_pass(at: Climb) -> Climb:
        share = at.probability[votes.item] * votes.weight[:, None]
        worker = block(at.worker, votes.worker, tables(at.item)[votes.item], share, penalties[0])
        item = block(at.item, votes.item, tables(worker)[votes.worker], share, penalties[1])
        logs, own = said(tables(worker)[votes.worker] + tables(item)[votes.item])
        evidence = jax.ops.segment_sum(own * votes.weight[:, None], votes.item, n_items)
        known = jax.nn.one_hot(votes.gold, n_classes)
        gold = votes.gold[:, None] >= 0
        probability = jnp.where(gold, known, jax.nn.softmax(evidence, axis=1))
        evidence = jnp.where(gold & (known == 0), -jnp.inf, evidence)
        objective = jnp.sum(jax.nn.logsumexp(evidence, axis=1) - jnp.log(n_classes))
        objective = objective - (penalties[0] * jnp.sum(worker**2) + penalties[1] * jnp.sum(item**2)) / 2
        right = jnp.sum(probability[votes.item] * jnp.exp(jnp.diagonal(logs, axis1=1, axis2=2)), axis=1)
        change = jnp.max(jnp.abs(probability - at.probability))
        trace = at.objective.at[at.n_passes].set(objective)
        return Climb(worker, item, probability, right, trace, change, at.n_passes + 1)

    begin = Climb(
        jnp.zeros((n_workers, n_features)),
        jnp.zeros((n_items, n_features)),
        probability,
        jnp.zeros(len(votes.item)),
        jnp.full(max_iter, jnp.nan),
        jnp.asarray(jnp.inf),
        0,
    )
    return jax.lax.while_loop(lambda at: (at.n_passes < max_iter) & (at.change >= tolerance), one_pass, begin)
