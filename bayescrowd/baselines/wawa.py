"""Worker agreement with aggregate: a vote weighted by how often each worker agrees with the majority."""

from typing import Any

import numpy as np

from bayescrowd.baselines._agreement import agreement
from bayescrowd.baselines._result import Found, begin, finish, votes_of
from bayescrowd.fit import Fit

__all__ = ["wawa"]


def wawa(labels: Any) -> Fit:
    r"""Weight each worker's votes by the share of them that agree with the majority vote.

    .. math:: s_m = \frac1{n_m} \sum_i P_{\text{majority}}(T_i = x_{im}), \quad
              P(T_i = c) = \frac{\sum_m s_m 1(x_{im} = c)}{\sum_m s_m 1(m \text{ labelled } i)} .

    Classes that tie in the majority vote share the item, whatever the order of the rows. Gold items count with their
    known class.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class do not vote.

    Returns
    -------
    Fit
        Shares of the weighted vote; ``workers()`` gives the shares of agreement as accuracy. A worker without votes has
        that of all votes together.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.wawa(bc.datasets.load("anesthesia"))
    >>> fit.workers()["accuracy"].round(2).tolist()
    [0.87, 0.72, 0.81, 0.87, 0.83]

    References
    ----------
    Appen, Calculating worker agreement with aggregate (Wawa), success centre article; the steps are those of
    crowd-kit's ``Wawa``, which takes the first class where classes tie.
    """
    call = begin("wawa", labels)
    crowd = agreement(votes_of(call))
    accuracy = crowd.rate(crowd.leading(crowd.tally(np.ones_like(crowd.n_votes))))
    return finish(call, Found(crowd.share(crowd.tally(accuracy)), by_worker={"accuracy": accuracy}))
