"""Majority vote and soft vote: everybody counts alike."""

from typing import Any

from bayescrowd.baselines._result import Found, begin, finish, votes_of
from bayescrowd.data.votes import shares
from bayescrowd.fit import Fit
from bayescrowd.results.votes import leading

__all__ = ["majority_vote", "soft_vote"]


def majority_vote(labels: Any) -> Fit:
    r"""Give every item the class that most of its labels name.

    .. math:: P(T_i = c) = 1 / |W_i| \text{ for } c \in W_i, \quad W_i = \arg\max_c \sum_m w_{im} 1(x_{im} = c).

    Classes that lead together share the item equally, whatever the order of the rows; `Fit.consensus` says by
    ``ties=`` what a single class should then be.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class do not vote.

    Returns
    -------
    Fit
        Items without votes have equal shares, gold items their known class.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> rows = [("t1", "a", "yes"), ("t1", "b", "no"), ("t2", "a", "yes")]
    >>> fit = bc.baselines.majority_vote(bc.CrowdLabels.from_long(rows, classes=["no", "yes"]))
    >>> fit.class_probabilities().loc["t1"].tolist(), fit.consensus(ties="abstain").loc["t2", "class"]
    ([0.5, 0.5], 'yes')
    """
    call = begin("majority-vote", labels)
    votes_of(call)  # refuses tables without votes
    leads = leading(shares(labels))
    return finish(call, Found(leads / leads.sum(axis=1, keepdims=True)))


def soft_vote(labels: Any) -> Fit:
    """Give every item its shares of the votes.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class do not vote.

    Returns
    -------
    Fit
        Items without votes have equal shares, gold items their known class.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.baselines.soft_vote(bc.datasets.load("anesthesia")).class_probabilities().loc[3].round(2).tolist()
    [0.43, 0.57, 0.0, 0.0]
    """
    call = begin("soft-vote", labels)
    votes_of(call)  # refuses tables without votes
    return finish(call, Found(shares(labels)))
