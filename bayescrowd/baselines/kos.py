"""Karger, Oh and Shah's message passing between items and workers, and its singular-vector variant."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from bayescrowd.baselines._binary import Answers, Scores, answers_of, decided, top_eigenvector, turned, upright
from bayescrowd.baselines._options import check_whole, check_word
from bayescrowd.baselines._result import begin, finish
from bayescrowd.fit import Fit

__all__ = ["kos"]


def kos(labels: Any, *, method: str = "message-passing", ordered: bool = False, passes: int = 20, seed: int = 0) -> Fit:
    r"""Decide between two classes by messages between items and workers.

    With :math:`A_{im} = \pm 1` for an answer, messages start at :math:`y_{m \to i} \sim N(1, 1)`, and each pass sets

    .. math::

        x_{i \to m} = \sum_{m' \ne m} A_{im'} \, y_{m' \to i}, \qquad
        y_{m \to i} = \sum_{i' \ne i} A_{i'm} \, x_{i' \to m}, \qquad
        \hat T_i = \operatorname{sign} \sum_m A_{im} \, y_{m \to i} .

    x says what the others think of the item, y how far the worker agrees with the others on other items. Each sum is a
    total less one's own share, so that a pass takes time proportional to the number of labels.

    ``method="svd"``, which published tables often call KOS, takes the columns of A less their means and decides by the
    signs of their leading left singular vector u; the sign is the one with at least half of the squared length of the
    right singular vector in positive entries.

    Both rest on workers and items being matched at random. Where workers see items in batches (set ``rte``) they are
    near chance, in published tables too.

    Messages have no rule for the sign: on small tables they may come out the wrong way round. Where the classes
    contradict the majority on more than half of the items with a clear one, a warning says so.

    Gold decides the sign alone, for each threshold, where it contradicts at least three more items than it matches, and
    its own items; skills are estimated without it, as a warning of the fit says.

    Parameters
    ----------
    labels : CrowdLabels
        The labels, of two classes, or of ordered ones.
    method : {"message-passing", "svd"}
        Which of them.
    ordered : bool
        Decide between more than two classes through the thresholds between them: an item has the lowest class that it
        is not above. The order is that of ``labels.classes``. Not needed where the table says that they are ordered.
    passes : int
        Passes of message passing. Decisions settle within 20 on all sets that we tried, whatever the seed.
    seed : int
        Seed of the first messages.

    Returns
    -------
    Fit
        With probabilities 0 and 1, shared by classes where a score is zero (as where no worker of an item labelled
        anything else). ``skill`` of a worker is the agreement of the answers with what others think, from -1 to 1, and
        ``score`` of an item is what the sign is taken of, for two classes.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        For other than two classes that are not ordered, and for options out of range.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(8, 2)), n_items=200, n_workers=20, adversaries=2,
    ...                     seed=1)
    >>> fit, vote = bc.baselines.kos(crowd.labels), bc.baselines.majority_vote(crowd.labels)
    >>> [int((found.consensus()["class"] == crowd.labels.truth).sum()) for found in (vote, fit)]
    [167, 188]

    References
    ----------
    Karger, Oh, Shah (2011), Iterative learning for reliable crowdsourcing systems, NIPS, algorithm 1. The same (2014),
    Budget-optimal task allocation for reliable crowdsourcing systems, Operations Research 62(1). The same (2011),
    Budget-optimal crowdsourcing using low-rank matrix approximations, Allerton, for singular vectors.
    """
    call = begin("kos", labels, method=method, ordered=ordered, passes=passes, seed=seed)
    check_word("method", method, ("message-passing", "svd"))
    check_whole("passes", passes, 1)
    check_whole("seed", seed, 0)
    call, votes, answers = answers_of(call, ordered)
    if method == "svd":
        scores = turned(votes, answers, [_singular(answers, net) for net in answers.net])
        return finish(call, decided(call, votes, answers, scores))
    random = np.random.default_rng(seed)
    scores = turned(votes, answers, [_messages(answers, net, passes, random) for net in answers.net])
    sentence = f"Passed messages {passes} times, as asked for."
    return finish(call, decided(call, votes, answers, scores, sentence=sentence))


def _messages(answers: Answers, net: np.ndarray, passes: int, random: np.random.Generator) -> Scores:
    """Pass messages for one threshold."""
    to_worker = np.zeros(len(net))
    to_item = random.normal(1.0, 1.0, len(net))
    for _ in range(passes):
        told = net * to_item
        to_worker = answers.by_item(told)[answers.item] - told
        heard = net * to_worker
        to_item = answers.by_worker(heard)[answers.worker] - heard
        # Only signs matter in the end, and messages would overflow.
        to_item /= np.abs(to_item).max(initial=0.0) or 1.0
    told = net * to_item
    item = answers.by_item(told)
    return Scores(item, answers.by_item(np.abs(told)), answers.agreement(net, item[answers.item] - told))


def _singular(answers: Answers, net: np.ndarray) -> Scores:
    """Find the singular vectors of the centred table for one threshold."""
    table = answers.table(net)
    back = table.T.tocsr()
    # An item counts as often as its labels do: once without weights.
    n_answers = np.bincount(answers.item, minlength=answers.n_items)
    weight = answers.by_item(answers.root**2) / np.maximum(n_answers, 1)
    root, total = np.sqrt(weight), float(weight.sum())
    mean = (back @ root) / total

    def multiply(x: np.ndarray) -> np.ndarray:
        return back @ (table @ x) - total * np.multiply.outer(mean, mean @ x).reshape(x.shape)

    n = answers.n_workers
    _, worker = top_eigenvector(LinearOperator((n, n), matvec=multiply, matmat=multiply, dtype=float))
    centre = float(mean @ worker)
    item = table @ worker - root * centre
    size = abs(table) @ np.abs(worker) + root * float(np.abs(mean) @ np.abs(worker))
    found = Scores(item, size, answers.agreement(net, item[answers.item]))
    positive = float((worker[worker > 0] ** 2).sum())
    whole = float((worker**2).sum())
    return upright(found, 2 * positive - whole, whole)
