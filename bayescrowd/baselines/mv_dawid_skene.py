"""MV-D&S: Dawid and Skene's EM from the vote with a fixed number of passes, as papers compare with it."""

from typing import Any

import numpy as np

from bayescrowd.baselines._options import check_whole, check_word
from bayescrowd.baselines._result import Found, begin, finish, votes_of
from bayescrowd.data.votes import shares
from bayescrowd.fit import Fit
from bayescrowd.moments.estimate import Estimate, decode
from bayescrowd.moments.polish import given_classes, polished

__all__ = ["mv_dawid_skene"]


def mv_dawid_skene(labels: Any, *, passes: int = 10, prevalence: str = "uniform") -> Fit:
    r"""Run a few passes of EM from the soft vote, with classes taken as equally frequent.

    Each pass sets :math:`\pi_{mkc} \propto \sum_i q_i(k) 1(x_{im} = c)` and then :math:`q_i(k) \propto \prod_m
    \pi_{m k x_{im}}`. The published tables' rows are such runs of ten passes, stopped before EM has converged: for the
    maximum of the likelihood with estimated prevalence use ``bc.fit(labels, engine="em")``.

    Parameters
    ----------
    labels : CrowdLabels
        The labels.
    passes : int
        How many.
    prevalence : {"uniform", "estimated"}
        Equal class frequencies, or those of the last pass.

    Returns
    -------
    Fit
        With confusion matrices and prevalence.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.baselines.mv_dawid_skene(bc.datasets.load("anesthesia")).consensus()["class"].loc[[2, 3]].tolist()
    [4, 2]

    References
    ----------
    Dawid, Skene (1979), Applied Statistics 28. Zhang, Chen, Zhou, Jordan (2014), NIPS, for this use of it.
    """
    call = begin("mv-dawid-skene", labels, passes=passes, prevalence=prevalence)
    check_whole("passes", passes, 1)
    check_word("prevalence", prevalence, ("uniform", "estimated"))
    named = votes_of(call).named()
    n_classes, n_labels = len(labels.classes), len(labels.label_values)
    nothing = np.full((labels.n_workers, n_classes, n_labels), 1 / n_labels)
    # A class that nobody names would keep even rows, and be as good as any: it takes no part.
    estimate = Estimate(nothing, named / named.sum(), np.zeros(labels.n_workers, bool))
    start = np.where(named, shares(labels), 0.0)
    start /= start.sum(axis=1, keepdims=True)
    estimate = given_classes(labels, start, estimate, prevalence=prevalence)
    estimate = polished(labels, estimate, passes - 1, prevalence=prevalence)
    rule = "map" if prevalence == "estimated" else "ml"
    found = Found(
        decode(labels, estimate, rule=rule),
        confusion=estimate.confusion,
        prevalence=estimate.prevalence,
        sentence=f"Ended after {passes} passes, as asked for.",
    )
    return finish(call, found)
