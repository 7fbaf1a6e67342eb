"""Ghosh, Kale and McAfee's spectral rule: the leading singular vector of the table of answers."""

from typing import Any

import numpy as np

from bayescrowd.baselines._binary import (
    Answers,
    Scores,
    answers_of,
    decided,
    gram_operator,
    top_eigenvector,
    turned,
    upright,
)
from bayescrowd.baselines._result import begin, finish
from bayescrowd.fit import Fit

__all__ = ["ghosh_svd"]


def ghosh_svd(labels: Any, *, ordered: bool = False) -> Fit:
    r"""Decide between two classes by the signs of the leading left singular vector of the answers.

    With :math:`A_{im} = \pm 1` for an answer and 0 for none,

    .. math:: \hat T_i = \operatorname{sign} u_i, \quad A \approx \sigma u v^\top.

    Where every worker m labels an item with the same probability and is right with probability :math:`p_m`, the mean of
    A is a multiple of :math:`T (2p - 1)^\top`, so that the vector of the classes is its only left singular vector. The
    sign of u is the one that agrees with the vote, that is :math:`\sum_i \operatorname{sign}(u_i) \sum_m A_{im} \ge 0`.

    Where labels are few and workers see items in batches, the leading vector may be that of one batch: on the set
    ``rte`` the rule is wrong for 49 of 100 items, as in published tables.

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
        With probabilities 0 and 1, shared by classes where a score is zero (as for items that share no worker, by way
        of others, with most). ``skill`` of a worker is the agreement of the answers with u, from -1 to 1, and ``score``
        of an item is u, for two classes.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        For other than two classes that are not ordered.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> rows = [("t1", "a", "no"), ("t1", "b", "no"), ("t1", "c", "yes"), ("t2", "a", "yes"), ("t2", "b", "yes"),
    ...         ("t2", "c", "no"), ("t3", "a", "yes"), ("t3", "b", "yes"), ("t3", "c", "yes")]
    >>> fit = bc.baselines.ghosh_svd(bc.CrowdLabels.from_long(rows, classes=["no", "yes"]))
    >>> fit.consensus()["class"].tolist(), fit.workers()["skill"].round(2).tolist()
    (['no', 'yes', 'yes'], [1.0, 1.0, -0.56])

    References
    ----------
    Ghosh, Kale, McAfee (2011), Who moderates the moderators? Crowdsourcing abuse detection in user-generated content,
    ACM EC, section 4.
    """
    call = begin("ghosh-svd", labels, ordered=ordered)
    call, votes, answers = answers_of(call, ordered)
    scores = turned(votes, answers, [_score(answers, net) for net in answers.net])
    return finish(call, decided(call, votes, answers, scores))


def _score(answers: Answers, net: np.ndarray) -> Scores:
    """Find the singular vectors for one threshold."""
    table = answers.table(net)
    _, worker = top_eigenvector(gram_operator(table))
    item, size = table @ worker, abs(table) @ np.abs(worker)
    vote = answers.by_item(net * answers.root)
    sign = np.where(np.abs(item) > 1e-9 * size, np.sign(item), 0.0)
    found = Scores(item, size, answers.agreement(net, item[answers.item]))
    return upright(found, float(sign @ vote), float(np.abs(vote).sum()))
