"""Ma and Olshevsky's M-MSR: skills from the agreement of pairs by means that leave extremes out."""

from typing import Any

import numpy as np

from bayescrowd.baselines._options import check_number, check_whole
from bayescrowd.baselines._rank_one import Pairs, by_skill, pairs_of, signs_of
from bayescrowd.baselines._result import begin, ending, finish, votes_of
from bayescrowd.errors import count_of
from bayescrowd.fit import Fit

__all__ = ["m_msr"]

_RANGE = 1e-8
"""Skills below this share of the largest linked one run off to 0."""

_FAR = 64
"""Powers of two beyond which the free scale is taken out."""


def m_msr(
    labels: Any,
    *,
    trim: int | None = None,
    signs: str = "estimated",
    max_iter: int = 2000,
    tolerance: float = 1e-10,
) -> Fit:
    r"""Fit one-coin workers to the agreement of pairs by trimmed means, then take a weighted vote.

    The chance-corrected agreement of two workers has mean :math:`C_{ml} = s_m s_l`. With :math:`|C_{ml}| = u_m v_l`,
    every partner of a worker gives a value of the worker's skill, and passes take turns in

    .. math::

        v_l = \operatorname{mean}_{F} \{ |C_{ml}| / u_m : m \text{ shares items with } l \}, \qquad
        u_m = \operatorname{mean}_{F} \{ |C_{ml}| / v_l : l \text{ shares items with } m \} .

    The mean leaves out the F largest of the values above the worker's present one (all of them where there are fewer),
    and the F smallest of those below. So up to F partners who say anything whatever, in a plot or at random, cannot
    carry a worker's skill away. Then :math:`|s_m| = \sqrt{u_m v_m}`, signs follow from the signs of C, and labels weigh
    :math:`\log ((K - 1) p_m / (1 - p_m))` with :math:`p_m = (s_m (K - 1) + 1) / K`.

    Where workers share items with few others, F is 0 by the papers' rule and nothing is left out.

    There may be no fixed point, as where one pair of workers agrees by chance alone: the others' skills then run off,
    and the fit says that it did not converge.

    Gold decides the sign alone, in each part of linked workers, where the opposite sign would match at least three more
    gold items, and its own items; skills are estimated without it, as a warning of the fit says. With
    ``signs="positive"`` it decides its own items only.

    Parameters
    ----------
    labels : CrowdLabels
        The labels, of any number of classes.
    trim : int, optional
        F; by default one less than half the smallest number of partners, and at least 0, as in the papers' code.
    signs : {"estimated", "positive"}
        Find workers below chance from the signs that the pairs of workers tell, or take none to be so.
    max_iter : int
        Most passes.
    tolerance : float
        Converged when a pass changes the table :math:`u v^\top` by less than this share of it.

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

    Notes
    -----
    Skills are held as far from -1 / (K - 1) and from 1 as one over the root of the number of items, as in the papers.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.m_msr(bc.datasets.load("anesthesia"))
    >>> fit.workers()["accuracy"].round(2).tolist()
    [0.86, 0.75, 0.84, 0.88, 0.83]

    References
    ----------
    Ma, Olshevsky (2020), Adversarial crowdsourcing through robust rank-one matrix completion, NeurIPS, algorithms 1 and
    2.
    """
    call = begin("m-msr", labels, trim=trim, signs=signs, max_iter=max_iter, tolerance=tolerance)
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance)
    if trim is not None:
        check_whole("trim", trim, 0)
    votes = votes_of(call)
    pairs = pairs_of(call, votes, signs)
    n_items = len(np.unique(votes.item))
    size, passes, converged, ran_off, trimmed = _alternate(pairs, trim, 1 / np.sqrt(n_items), max_iter, tolerance)
    sign, undecided = (np.ones(votes.n_workers), {}) if signs == "positive" else signs_of(call, pairs)
    sentence = ending(passes, converged, f"the change fell below {tolerance:g}")
    if ran_off:
        sentence = (
            f"Stopped after {count_of(passes, 'pass')} without a fixed point: skills run off towards 0 and beyond 1, "
            "and more passes do not help. Use pgd, whose skills are held in bounds."
        )
    details = {"trim": trimmed}
    skill = sign * size
    found = by_skill(call, votes, pairs, skill, undecided, converged=converged, sentence=sentence, details=details)
    return finish(call, found)


def _alternate(
    pairs: Pairs, trim: int | None, least: float, max_iter: int, tolerance: float
) -> tuple[np.ndarray, int, bool, bool, int]:
    """Take turns; give the sizes of the skills, the passes taken, whether they settled, whether they ran off, and F."""
    row, column, degree = pairs.row, pairs.column, pairs.degree
    n = pairs.n_workers
    if trim is None:
        trim = max(int(degree[degree > 0].min()) // 2 - 1, 0) if len(row) else 0
    value = np.abs(pairs.correlation)
    place = np.arange(len(row)) - (np.cumsum(degree) - degree)[row]

    def turn(other: np.ndarray, own: np.ndarray) -> np.ndarray:
        ratio = value / other[column]
        if trim == 0:
            kept_row = row
        else:
            below = np.minimum(np.bincount(row, ratio < own[row], n), trim)
            above = np.minimum(np.bincount(row, ratio > own[row], n), trim)
            kept = (place >= below[row]) & (place < (degree - above)[row])
            ratio, kept_row = ratio[np.lexsort((ratio, row))][kept], row[kept]
        number = np.bincount(kept_row, minlength=n)
        mean = np.bincount(kept_row, ratio, n) / np.maximum(number, 1)
        # A skill of exactly 0 could not be divided by.
        return np.where(number > 0, np.where(mean > 0, mean, least), own)

    def floored(own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = np.zeros(len(own))
        np.maximum.at(top, pairs.part, own)
        floor = _RANGE * top[pairs.part]
        return np.maximum(own, floor), own < floor

    u = v = np.full(n, 0.5)
    ran_off = False
    for done in range(1, max_iter + 1):
        u_before, v_before = u, v
        v, low_v = floored(turn(u, v))
        u, low_u = floored(turn(v, u))
        ran_off = bool(low_u.any() or low_v.any())
        du, dv = u - u_before, v - v_before
        # The change of u v' is du v' + u_before dv'.
        change = (du @ du) * (v @ v) + (u_before @ u_before) * (dv @ dv) + 2 * (du @ u_before) * (v @ dv)
        if change <= tolerance**2 * (u @ u) * (v @ v):
            return np.sqrt(u * v), done, not ran_off, ran_off, trim
        # Only u v' matters: the scale of u alone, a power of two so that nothing is rounded, must not overflow.
        far = np.abs(np.log2(u)) > _FAR
        if ran_off and far.any():
            top = np.zeros(n)
            np.maximum.at(top, pairs.part, u)
            scale = np.exp2(np.floor(np.log2(np.where(top > 0, top, 1.0))))[pairs.part]
            u, v = u / scale, v * scale
    return np.sqrt(u * v), max_iter, False, ran_off, trim
