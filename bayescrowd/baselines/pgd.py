"""Ma and others' projected gradient descent: skills as a table of rank one that fits the agreement of pairs."""

from typing import Any

import numpy as np

from bayescrowd.baselines._options import check_number, check_whole, check_word
from bayescrowd.baselines._rank_one import Pairs, by_skill, limits, pairs_of, signs_of
from bayescrowd.baselines._result import begin, ending, finish, votes_of
from bayescrowd.fit import Fit

__all__ = ["pgd"]

_MEMORY = 10
"""A step may raise the objective above the last, but not above the highest of so many before."""


def pgd(
    labels: Any,
    *,
    weights: str = "count",
    signs: str = "estimated",
    max_iter: int = 5000,
    tolerance: float = 1e-8,
) -> Fit:
    r"""Fit one-coin workers to the agreement of pairs by projected gradient descent, then take a weighted vote.

    With the chance-corrected agreement :math:`C_{ml}` of workers m and l over their :math:`n_{ml}` common items, which
    has mean :math:`s_m s_l`, skills solve

    .. math:: \min_s \tfrac12 \sum_{m < l} n_{ml} (C_{ml} - s_m s_l)^2, \quad
        -\tfrac{1}{K - 1} + \tfrac{1}{\sqrt I} \le s_m \le 1 - \tfrac{1}{\sqrt I},

    and a worker is right with probability :math:`p_m = (s_m (K - 1) + 1) / K`. A label then weighs
    :math:`\log ((K - 1) p_m / (1 - p_m))`. Every part of linked workers needs a cycle of odd length for the solution to
    be one; where there is none, a warning says so.

    Gradients are scaled by the number of labels that a worker shares with others, and steps have the length of Barzilai
    and Borwein: tens of them reach the minimum that the papers' constant small steps need thousands for.

    Gold decides the sign alone, in each part of linked workers, where the opposite sign would match at least three more
    gold items, and its own items; skills are estimated without it, as a warning of the fit says. With
    ``signs="positive"`` it decides its own items only.

    Parameters
    ----------
    labels : CrowdLabels
        The labels, of any number of classes.
    weights : {"count", "equal"}
        Let a pair count as often as it has common items, as in the papers, or once, as in their code.
    signs : {"estimated", "positive"}
        Start from the signs that the pairs of workers tell, so that workers below chance are found; or fit the absolute
        values of C by skills of at least 0, as the papers' code does, which takes adversaries for good workers.
    max_iter : int
        Most steps.
    tolerance : float
        Converged when a scaled gradient step would move no skill by more than this.

    Returns
    -------
    Fit
        With confusion matrices of one coin, equal prevalence, and ``skill`` of workers, which is in
        ``fit.idata["point_estimate"]`` (``fit.workers()`` has what all confusion matrices tell).

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        For options out of range, and where pairs of workers are more than fit in memory.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.pgd(bc.datasets.load("anesthesia"))
    >>> fit.workers()["accuracy"].round(2).tolist()
    [0.87, 0.76, 0.83, 0.87, 0.83]

    References
    ----------
    Ma, Olshevsky, Saligrama, Szepesvari (2020), Gradient descent for sparse rank-one matrix completion for
    crowd-sourced aggregation of sparsely interacting workers, JMLR 21(133). Birgin, Martinez, Raydan (2000),
    Nonmonotone spectral projected gradient methods on convex sets, SIAM Journal on Optimization 10(4), for the steps.
    """
    call = begin("pgd", labels, weights=weights, signs=signs, max_iter=max_iter, tolerance=tolerance)
    check_word("weights", weights, ("count", "equal"))
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance)
    votes = votes_of(call)
    pairs = pairs_of(call, votes, signs)
    low, high = limits(votes)
    within = (max(low, 0.0) if signs == "positive" else low, high)
    sign, undecided = (np.ones(votes.n_workers), {}) if signs == "positive" else signs_of(call, pairs)
    skill, objective, converged = _descend(pairs, weights, signs, sign, within, max_iter, tolerance)
    steps = len(objective) - 1
    sentence = ending(steps, converged, f"a step moved every skill by less than {tolerance:g}", noun="step")
    found = by_skill(call, votes, pairs, skill, undecided, objective=objective, converged=converged, sentence=sentence)
    return finish(call, found)


def _descend(
    pairs: Pairs,
    weights: str,
    signs: str,
    sign: np.ndarray,
    within: tuple[float, float],
    max_iter: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Minimise from skills of one half; give skills, objectives on the way, and whether the minimum was reached."""
    low, high = within
    count = pairs.common if weights == "count" else np.ones(len(pairs.common))
    known = np.abs(pairs.correlation) if signs == "positive" else pairs.correlation
    alone, product = pairs.table(count), pairs.table(count * known)
    constant = float(count @ known**2)
    scale = np.bincount(pairs.row, count, pairs.n_workers)
    scale = np.where(scale > 0, scale, 1.0)

    def look(skill: np.ndarray) -> tuple[float, np.ndarray]:
        pull, push = product @ skill, alone @ skill**2
        return float(constant - 2 * skill @ pull + skill**2 @ push) / 4, skill * push - pull

    skill = np.clip(0.5 * sign, low, high)
    value, slope = look(skill)
    trace, length = [value], 1.0
    for _ in range(max_iter):
        if np.abs(np.clip(skill - slope / scale, low, high) - skill).max() <= tolerance:
            return skill, np.array(trace), True
        way = np.clip(skill - length * slope / scale, low, high) - skill
        descent, ceiling, share = float(slope @ way), max(trace[-_MEMORY:]), 1.0
        while True:
            trial = skill + share * way
            new_value, new_slope = look(trial)
            if new_value <= ceiling + 1e-4 * share * descent or share < 1e-10:
                break
            share /= 2
        moved, turned = trial - skill, new_slope - slope
        curvature = float(moved @ turned)
        length = float(np.clip(moved @ (scale * moved) / curvature, 1e-3, 1e3)) if curvature > 0 else 1e3
        skill, value, slope = trial, new_value, new_slope
        trace.append(value)
    return skill, np.array(trace), False
