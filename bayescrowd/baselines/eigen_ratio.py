"""Dalvi and others' ratio of eigenvectors: agreement of pairs of workers, corrected for who worked with whom."""

from typing import Any

import numpy as np
from scipy import sparse

from bayescrowd.baselines._binary import (
    NOISE,
    Answers,
    Scores,
    answers_of,
    decided,
    top_eigenvector,
    turned,
    upright,
)
from bayescrowd.baselines._result import begin, finish
from bayescrowd.errors import EngineError
from bayescrowd.fit import Fit

__all__ = ["eigen_ratio"]

_MOST_PRODUCTS = 400_000_000
"""Most pairs of answers of one item, where distinct, that are formed."""


def eigen_ratio(labels: Any, *, ordered: bool = False) -> Fit:
    r"""Decide between two classes by a vote weighted with the ratio of two eigenvectors.

    With :math:`A_{im} = \pm 1` for an answer and 0 for none, the mean agreement of workers m and l over their common
    items is :math:`R_{ml}`, of mean :math:`w_m w_l` with the skill :math:`w_m = 2 p_m - 1` of a worker who is right
    with probability :math:`p_m`. Pairs without common items leave zeros in R. Where the pattern of pairs,
    :math:`E_{ml} = 1` for those with common items, is nearly of rank one, with leading eigenvalue :math:`\lambda_2` and
    eigenvector :math:`v_2`, and those of R are :math:`\lambda_1` and :math:`v_1`,

    .. math::

        \hat w_m = \sqrt{\lambda_1 / \lambda_2} \, v_{1m} / v_{2m}, \qquad
        \hat T_i = \operatorname{sign} \sum_m A_{im} \hat w_m ,

    the sign of :math:`v_1` being the one that agrees with the vote. Workers who share no item with most of the others,
    nor by way of others, have :math:`v_{2m} = 0`; they have no say here.

    Gold decides the sign alone, for each threshold, where it contradicts at least three more items than it matches, and
    its own items; skills are estimated without it, as a warning of the fit says.

    Parameters
    ----------
    labels : CrowdLabels
        The labels, of two classes, or of ordered ones.
    ordered : bool
        Decide between more than two classes through the thresholds between them: an item has the lowest class that it
        is not above. The order is that of ``labels.classes``. Not needed where the table says that they are ordered.

    Returns
    -------
    Fit
        With probabilities 0 and 1, shared by classes where a score is zero. ``skill`` of a worker is the estimate of w,
        held between -1 and 1 (its mean over thresholds), and for two classes ``accuracy`` is (1 + w) / 2 and ``score``
        of an item is the weighted vote.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        For other than two classes that are not ordered; where pairs of workers are more than fit in memory.

    Notes
    -----
    For the set ``trec`` papers print an error of 43.95 %. That is the share of the first class: two workers of this set
    share no item with others, 0 / 0 makes all scores undefined, and every item falls to the last class. Without these
    two the rule is wrong for 38.7 %.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> rows = [("t1", "a", "no"), ("t1", "b", "no"), ("t1", "c", "yes"), ("t2", "a", "yes"), ("t2", "b", "yes"),
    ...         ("t2", "c", "no"), ("t3", "a", "yes"), ("t3", "b", "yes"), ("t3", "c", "yes")]
    >>> fit = bc.baselines.eigen_ratio(bc.CrowdLabels.from_long(rows, classes=["no", "yes"]))
    >>> fit.consensus()["class"].tolist(), fit.workers()["accuracy"].round(2).tolist()
    (['no', 'yes', 'yes'], [0.99, 0.99, 0.23])

    References
    ----------
    Dalvi, Dasgupta, Kumar, Rastogi (2013), Aggregating crowdsourced binary ratings, WWW, algorithm 2.
    """
    call = begin("eigen-ratio", labels, ordered=ordered)
    call, votes, answers = answers_of(call, ordered)
    products = float((np.bincount(answers.item).astype(float) ** 2).sum())
    if min(products, float(votes.n_workers) ** 2) > _MOST_PRODUCTS:
        raise EngineError(
            f"eigen-ratio would form {products:,.0f} products for the pairs of {votes.n_workers:,} workers, more than "
            "fit in memory: some items have very many labels. Use ghosh_svd, which forms none"
        )
    root = answers.table(answers.root)
    common = (root.T @ root).tocsr()
    inverse = common.copy()
    inverse.data = 1 / common.data
    pattern = common.copy()
    pattern.data = np.ones_like(common.data)
    beside = top_eigenvector(pattern)
    scores = turned(votes, answers, [_score(answers, net, inverse, beside) for net in answers.net])
    accuracy = {"accuracy": (1 + scores[0].skill) / 2} if votes.n_classes == 2 else {}
    return finish(call, decided(call, votes, answers, scores, by_worker=accuracy))


def _score(answers: Answers, net: np.ndarray, inverse: sparse.csr_array, beside: tuple[float, np.ndarray]) -> Scores:
    """Find the weights of the workers for one threshold, and the weighted votes."""
    table = answers.table(net)
    value, vector = top_eigenvector((table.T @ table).tocsr() * inverse)
    value_beside, vector_beside = beside
    outside = np.abs(vector_beside) <= NOISE * np.abs(vector_beside).max()
    ratio = np.where(outside, 0.0, vector / np.where(outside, 1.0, vector_beside))
    weight = ratio * np.sqrt(max(value, 0.0) / value_beside)
    item, size = table @ weight, abs(table) @ np.abs(weight)
    vote = answers.by_item(net * answers.root)
    found = Scores(item, size, np.clip(weight, -1, 1))
    return upright(found, float(item @ vote), float(size @ np.abs(vote)))
