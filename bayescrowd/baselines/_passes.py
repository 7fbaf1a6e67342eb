"""What baselines that pass over the labels again and again share: padded arrays, the classes given scores, the loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.baselines._result import Votes
from bayescrowd.data.arrays import bucket
from bayescrowd.kernels import loops

__all__ = ["CHUNK", "TINY", "Padded", "by_item", "by_worker", "classes_given", "climb", "little_changed", "padded"]

CHUNK = 64
"""Most passes of one compiled call."""

TINY = 1e-300
"""Floor of a probability: its logarithm is finite, and it changes no sum."""


class Padded(NamedTuple):
    """Votes with sizes rounded up, so that similar tables share compiled code; sorted by item.

    Parameters
    ----------
    item, worker, label : int array [annotation]
        Codes; padding has weight 0.
    weight : float array [annotation]
        Numbers of equal votes.
    gold : int array [item]
        Known class, or -1.
    counts : bool array [item]
        True for items with votes or a known class.
    n_votes : float array [worker]
        Votes of each worker; 0 for padding.
    class_share : float array [class]
        Equal shares; its length is the number of classes.
    """

    item: Any
    worker: Any
    label: Any
    weight: Any
    gold: Any
    counts: Any
    n_votes: Any
    class_share: Any


def padded(votes: Votes) -> Padded:
    """Lay out votes for compiled passes.

    Parameters
    ----------
    votes : Votes
        The labels that are classes.

    Returns
    -------
    Padded
        NumPy arrays.
    """
    n_votes, n_items, n_workers = len(votes.item), bucket(votes.n_items), bucket(votes.n_workers)
    extra = (0, bucket(n_votes, 64) - n_votes)
    order = np.argsort(votes.item, kind="stable")
    item = np.pad(votes.item[order], extra, constant_values=n_items - 1)
    gold = np.pad(votes.gold, (0, n_items - votes.n_items), constant_values=-1)
    voted = np.bincount(votes.item, votes.weight, n_items) > 0
    return Padded(
        item.astype(np.int32),
        np.pad(votes.worker[order], extra).astype(np.int32),
        np.pad(votes.label[order], extra).astype(np.int32),
        np.pad(votes.weight[order], extra),
        gold.astype(np.int32),
        voted | (gold >= 0),
        np.bincount(votes.worker, votes.weight, n_workers),
        np.full(votes.n_classes, 1 / votes.n_classes),
    )


def by_item(values: Any, votes: Padded) -> Any:
    """Add up over the votes of each item.

    Parameters
    ----------
    values : array [annotation] or [annotation, ...]
        What to add.
    votes : Padded
        The votes.

    Returns
    -------
    array [item, ...]
    """
    return jax.ops.segment_sum(values, votes.item, votes.gold.shape[0], indices_are_sorted=True)


def by_worker(values: Any, votes: Padded) -> Any:
    """Add up over the votes of each worker.

    Parameters
    ----------
    values : array [annotation] or [annotation, ...]
        What to add.
    votes : Padded
        The votes.

    Returns
    -------
    array [worker, ...]
    """
    return jax.ops.segment_sum(values, votes.worker, votes.n_votes.shape[0])


def classes_given(worth: Any, log_prevalence: Any, votes: Padded) -> tuple[Any, Any]:
    r"""Give the classes of the items where a label's probability depends on whether it is right.

    .. math:: P(T_i = c \mid x) \propto d_c \prod_{m: x_{im} = c}
              \frac{P(x_{im} \mid \text{right})}{P(x_{im} \mid \text{wrong})} .

    Parameters
    ----------
    worth : array [annotation]
        Log of that ratio.
    log_prevalence : array [class]
        Log shares of the classes.
    votes : Padded
        The votes. Gold items stay at their known class.

    Returns
    -------
    tuple of array
        Probabilities [item, class], an item without votes having the prevalence; and the log of their sum before they
        were made to sum to one [item], to which the labels' log probabilities of being wrong are yet to be added.
    """
    n_items, n_classes = votes.gold.shape[0], votes.class_share.shape[0]
    cell = votes.item * n_classes + votes.label
    table = jax.ops.segment_sum(votes.weight * worth, cell, n_items * n_classes).reshape(n_items, n_classes)
    possible = (votes.gold < 0)[:, None] | (jnp.arange(n_classes) == votes.gold[:, None])
    table = jnp.where(possible, table + log_prevalence, -jnp.inf)
    total = jax.nn.logsumexp(table, axis=1)
    return jnp.exp(table - total[:, None]), total


def climb(advance: Callable[[Any, int], Any], progress: Any, max_iter: int) -> tuple[Any, np.ndarray]:
    """Call compiled passes until they settle, a chunk at a time, so that an interrupt is heard.

    Parameters
    ----------
    advance : callable
        (progress, most passes in all) -> progress after up to a chunk of passes.
    progress : Progress
        Before the first pass, from `bayescrowd.kernels.loops.begin`.
    max_iter : int
        Most passes.

    Returns
    -------
    tuple
        The last progress, and the objective by pass.
    """
    traces, done = [], 0
    while True:
        progress = advance(progress, min(done + CHUNK, max_iter))
        now = int(progress.n_steps)
        traces.append(np.asarray(progress.trace)[: now - done])
        done = now
        if int(progress.status) != loops.RUNNING or done >= max_iter:
            return progress, np.concatenate(traces)


def little_changed(tolerance: float) -> str:
    """Name the goal of passes that stop where two in a row change no class probability by more than a tolerance.

    Parameters
    ----------
    tolerance : float
        Largest change that is little.

    Returns
    -------
    str
        For `bayescrowd.baselines._result.ending`.
    """
    return f"two in a row changed no class probability by more than {tolerance:g}"
