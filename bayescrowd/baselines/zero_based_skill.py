"""Zero-based skill: votes weighted by skills, and skills moved towards agreement with the votes, in turn."""

from typing import Any

import numpy as np

from bayescrowd.baselines._agreement import agreement
from bayescrowd.baselines._options import check_number, check_whole
from bayescrowd.baselines._result import Found, begin, ending, finish, votes_of
from bayescrowd.fit import Fit
from bayescrowd.inference.base import require

__all__ = ["zero_based_skill"]

_SETTLED = 1e-9
"""Largest difference between skill and agreement at which nothing is left to learn."""


def zero_based_skill(
    labels: Any,
    *,
    passes: int = 100,
    rate: float = 1.0,
    reduce_every: int = 20,
    reduce_by: float = 0.5,
) -> Fit:
    r"""Vote by skill, measure agreement with the vote, move the skills towards it, and again.

    With :math:`W_i` the classes that lead item i when each worker's vote counts their skill :math:`s_m`, a pass moves

    .. math:: s_m \leftarrow s_m + \eta \Bigl( \frac1{n_m} \sum_i \frac{1(x_{im} \in W_i)}{|W_i|} - s_m \Bigr),

    which is a step down the gradient of :math:`\frac12 (s_m - \text{agreement}_m)^2`. The skills begin at
    :math:`1 / C + 10^{-5}`, all alike, so that the first vote is the majority vote; the rate :math:`\eta` is reduced as
    passes go by. At the default rate of 1 the skills of a pass are the agreements with the last vote, and passes end
    when votes no longer change.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class do not vote.
    passes : int
        Most passes.
    rate : float
        The rate of the first passes, above 0 and at most 1.
    reduce_every : int
        Number of passes between reductions of the rate.
    reduce_by : float
        Factor of a reduction, above 0 and at most 1.

    Returns
    -------
    Fit
        Shares of the weighted vote; ``workers()`` gives skill and, as accuracy, agreement with the last vote. A worker
        without votes has the agreement of all votes together.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, or no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.zero_based_skill(bc.datasets.load("anesthesia"))
    >>> fit.workers()["skill"].round(2).tolist(), fit.converged
    ([0.88, 0.71, 0.8, 0.87, 0.82], True)

    References
    ----------
    No paper: the rule is that of crowd-kit's ``ZeroBasedSkill`` (Ustalov, Pavlichenko, Tseitlin 2024, Learning from
    crowds with Crowd-Kit, JOSS 9), which makes all its passes and takes the first class where classes tie.
    """
    call = begin("zero-based-skill", labels, passes=passes, rate=rate, reduce_every=reduce_every, reduce_by=reduce_by)
    check_whole("passes", passes, 1)
    check_whole("reduce_every", reduce_every, 1)
    for name, value in (("rate", rate), ("reduce_by", reduce_by)):
        check_number(name, value)
        require(value <= 1, f"{name} must be at most 1, not {value!r}")
    votes = votes_of(call)
    crowd = agreement(votes)
    skill = np.full(votes.n_workers, 1 / votes.n_classes + 1e-5)
    eta, done, settled = float(rate), 0, False
    while done < passes and not settled:
        done += 1
        eta *= reduce_by if done % reduce_every == 0 else 1.0
        accuracy = crowd.rate(crowd.leading(crowd.tally(skill)))
        gap = accuracy - skill
        settled = bool(np.abs(gap).max() <= _SETTLED)
        skill = accuracy if eta == 1.0 else skill + eta * gap
    count = crowd.tally(skill)
    goal = f"skill met agreement (they still differ by up to {np.abs(gap).max():.2g})"
    found = Found(
        crowd.share(count),
        by_worker={"accuracy": crowd.rate(crowd.leading(count)), "skill": skill},
        converged=settled,
        sentence=ending(done, settled, goal, option="passes"),
        details={"n_passes": done},
    )
    return finish(call, found)
