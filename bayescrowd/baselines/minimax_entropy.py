"""Minimax conditional entropy: labels by the traits of workers and of items, without more assumptions than needed."""

from typing import Any

import jax
import numpy as np

from bayescrowd.baselines._minimax import Annotations, climb
from bayescrowd.baselines._options import check_flag, check_number, check_whole
from bayescrowd.baselines._result import Found, begin, ending, finish, votes_of
from bayescrowd.data.arrays import bucket
from bayescrowd.data.votes import shares
from bayescrowd.errors import EngineError
from bayescrowd.fit import Fit
from bayescrowd.kernels.precision import double_precision

__all__ = ["minimax_entropy"]

_MOST_NUMBERS, _MOST_SUMS = 3e8, 1e11
"""Most cells of all annotations' tables of class and label, and of these times the evaluations that may be needed."""

_SECONDS = 5e-9
"""Time of a cell in an evaluation, as measured."""


def minimax_entropy(
    labels: Any,
    *,
    ordinal: bool = False,
    worker_penalty: float | None = None,
    item_penalty: float | None = None,
    max_iter: int = 50,
    tolerance: float = 5e-3,
    steps: int = 25,
) -> Fit:
    r"""Estimate classes by regularised minimax conditional entropy.

    Of all ways to give labels that agree with what each worker, and each item, was seen to get (the number of labels c
    on items of class k), take the one of largest entropy; and choose the classes that make this entropy smallest. The
    labels then have

    .. math:: P(x_{im} = c \mid T_i = k) \propto \exp(\sigma_m[k, c] + \tau_i[k, c]),

    a confusion matrix for each pair of worker and item. Agreement need not be exact: its slack leaves the penalties
    :math:`\lambda_\sigma \lVert\sigma_m\rVert^2 / 2` and :math:`\lambda_\tau \lVert\tau_i\rVert^2 / 2`. In turn,
    :math:`\sigma`, :math:`\tau` (each by L-BFGS) and :math:`q_i(k) \propto \prod_m P(x_{im} \mid T_i = k)` are set,
    beginning with the shares of the votes; the penalised likelihood never falls.

    For ordered classes, parameters can be tied: :math:`\sigma_m[k, c] = \sum_s \sigma_{ms}[k \ge s, c \ge s]`, four
    numbers for each threshold s between two classes. Neighbouring classes are then confused more easily than distant
    ones.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of equal votes. Labels that are no class are left out.
    ordinal : bool
        Tie the parameters along the order of ``labels.classes``. Of two classes this changes nothing.
    worker_penalty : float, optional
        :math:`\lambda_\sigma`; by default a quarter of the squared number of classes.
    item_penalty : float, optional
        :math:`\lambda_\tau`; by default the workers' times labels per worker over labels per item.
    max_iter : int
        Most passes.
    tolerance : float
        Stop where no probability changes by more in a pass.
    steps : int
        Evaluations of each block of parameters in a pass.

    Returns
    -------
    Fit
        ``accuracy`` of each worker is the average probability of being right on the items it labelled; ``difficulty``
        of each item is the probability that a worker without traits (:math:`\sigma = 0`) is wrong. No confusion
        matrices: they differ from item to item.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, or there are so many labels and classes that it would not end, or would not
        fit in memory.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.minimax_entropy(bc.datasets.load("anesthesia"))
    >>> fit.consensus()["class"].loc[[2, 5]].tolist()
    [3, 2]

    References
    ----------
    Zhou, Basu, Mao, Platt (2012), Learning from the wisdom of crowds by minimax entropy, NIPS. Zhou, Liu, Platt, Meek
    (2014), Aggregating ordinal labels from crowds by minimax conditional entropy, ICML.
    """
    options = {"ordinal": ordinal, "worker_penalty": worker_penalty, "item_penalty": item_penalty}
    call = begin("minimax-entropy", labels, **options, max_iter=max_iter, tolerance=tolerance, steps=steps)
    check_flag("ordinal", ordinal)
    for name, penalty in (("worker_penalty", worker_penalty), ("item_penalty", item_penalty)):
        if penalty is not None:
            check_number(name, penalty)
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance, positive=False)
    check_whole("steps", steps, 1)
    votes = votes_of(call)
    # Classes that nobody names have no constraint to meet, and would attract items: they take no part.
    named = votes.named()
    place = np.cumsum(named) - 1
    n_items, n_workers, n_classes = votes.n_items, votes.n_workers, int(named.sum())
    n_annotations = len(votes.item)
    cells = float(n_annotations) * n_classes**2
    sums = cells * 2 * steps * max_iter
    if cells > _MOST_NUMBERS or sums > _MOST_SUMS:
        raise EngineError(
            f"minimax-entropy evaluates a table of class and label for each label: {n_annotations:,} labels of "
            f"{n_classes} classes are {cells:,.0f} numbers ({cells * 40 / 2**30:,.1f} GiB), and {max_iter} passes of "
            f"{steps} steps take up to {sums * _SECONDS / 60:,.0f} minutes. Lower max_iter, or use bc.fit(labels, "
            "engine='em') or bc.baselines.glad"
        )
    for_workers = n_classes**2 / 4 if worker_penalty is None else float(worker_penalty)
    # Labels per worker over labels per item, of those who have labels.
    ratio = len(np.unique(votes.item)) / len(np.unique(votes.worker))
    for_items = for_workers * ratio if item_penalty is None else float(item_penalty)

    start = shares(labels)[:, named]
    total = start.sum(axis=1, keepdims=True)
    start = np.where(total > 0, start / np.where(total > 0, total, 1.0), 1 / n_classes)
    begun = np.pad(start, ((0, bucket(n_items) - n_items), (0, 0)), constant_values=1 / n_classes)
    room = (0, bucket(n_annotations) - n_annotations)
    gold = np.where(votes.gold >= 0, place[votes.gold], -1)
    gold = np.pad(gold, (0, len(begun) - n_items), constant_values=-1)
    item, worker, label, weight = (
        np.pad(part, room) for part in (votes.item, votes.worker, place[votes.label], votes.weight)
    )
    features = _features(n_classes, ordinal=bool(ordinal))
    with double_precision():
        found = climb(
            Annotations(item, worker, label, weight, gold),
            begun,
            features,
            np.array([for_workers, for_items]),
            float(tolerance),
            int(steps),
            n_workers=bucket(n_workers),
            max_iter=int(max_iter),
        )
        found = jax.device_get(found)

    n_passes, change = int(found.n_passes), float(found.change)
    converged = change < tolerance
    goal = f"no probability changed by more than {tolerance:g} (the last change was {change:.2g})"
    probability = found.probability[:n_items]
    total = np.bincount(votes.worker, votes.weight, n_workers)
    right = np.bincount(votes.worker, votes.weight * found.right[:n_annotations], n_workers)
    accuracy = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1 / n_classes)
    traits = np.tensordot(found.item[:n_items], features, 1)
    traits = np.exp(traits - traits.max(axis=2, keepdims=True))
    hit = np.diagonal(traits / traits.sum(axis=2, keepdims=True), axis1=1, axis2=2)
    whole = np.zeros((n_items, votes.n_classes))
    whole[:, named] = probability / probability.sum(axis=1, keepdims=True)
    return finish(
        call,
        Found(
            votes.clamped(whole),
            by_worker={"accuracy": accuracy},
            by_item={"difficulty": 1 - (probability * hit).sum(axis=1)},
            objective=found.objective[:n_passes],
            converged=converged,
            sentence=ending(n_passes, converged, goal),
            details={"worker_penalty": for_workers, "item_penalty": for_items},
        ),
    )


def _features(n_classes: int, *, ordinal: bool) -> np.ndarray:
    """Tell what each parameter adds to the logits, array [feature, class, label]."""
    if not ordinal or n_classes == 1:
        return np.eye(n_classes**2).reshape(-1, n_classes, n_classes)
    place = np.arange(n_classes)
    sides = [(place >= s, place < s) for s in range(1, n_classes)]
    return np.array([np.outer(k, c) for pair in sides for k in pair for c in pair], float)
