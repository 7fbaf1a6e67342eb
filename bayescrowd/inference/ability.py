r"""A quick look at workers and items without a fit: how able a worker is, how easy an item.

Four steps, each over all labels at once:

1. The soft majority vote of every item, and which classes lead it. Several leaders share what one would get, so nothing
   depends on the order of classes. An item with gold has its known class instead.
2. The agreement of worker k: :math:`R_k = (a_k + 1) / (n_k + C)`, with :math:`a_k` of :math:`n_k` labels equal to what
   the *other* workers' majority says. Leaving the worker's own votes out costs some agreement on close votes, but
   counting them would call everybody able where items have few labels: a worker who alone labels an item would always
   be right. Labels on which nobody else voted are not compared. A guesser agrees with probability 1 / C.
3. The ability :math:`\lambda_k = \log \{(C - 1) R_k / (1 - R_k)\}`, which at easiness 1 gives back :math:`R_k`: 0 for a
   guesser, negative below chance. The paper's form :math:`x R_k`, :math:`x = 3 + \log(C - 1)`, knows nobody below
   chance.
4. The easiness :math:`\epsilon_i = e^{u_i}` of item i, in which a label is right with probability
   :math:`p_{ik} = 1 / (1 + (C - 1) e^{-\lambda_k \epsilon_i})`, at its posterior mode under :math:`u_i \sim N(0, 1)`:
   the root of :math:`\epsilon_i \sum_k \lambda_k (y_{ik} - p_{ik}) - u_i` within [-6, 3]. Without the prior, unanimous
   items would be infinitely easy. At most one root lies below 1; where there is none, it is sought above.

C is the number of answers that a worker can give; one that is no class is a wrong answer. Weights count as repeats.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, eq. (24), where 1 / easiness is called difficulty.
Whitehill et al. (2009), Whose vote should count more (GLAD).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayescrowd.data.arrays import Table
from bayescrowd.data.votes import shares, votes
from bayescrowd.errors import EngineError

__all__ = ["Ability", "estimate", "item_levels", "levels"]

_LOWEST, _HIGHEST = -6.0, 3.0
_PRECISION = 1e-10
_SAME = 1e-8
"""Log easiness and shares closer than this are equal, so that rounding (and so the order of rows) decides nothing."""
_TIE = 1e-9
"""Votes closer than this share of an item's votes are tied."""


class Ability(NamedTuple):
    """What a quick look says.

    Parameters
    ----------
    class_share : array [item, class]
        Soft majority vote: shares of the votes, equal without votes; gold items at their known class.
    ability : array [worker]
        0 for a guesser (and a worker of whom nothing is known), negative below chance.
    agreement : array [worker]
        Smoothed share of the worker's labels that agree with the other workers' majority.
    easiness : array [item]
        From exp(-6) to exp(3); 1, the prior's centre, for an item without labels.
    """

    class_share: np.ndarray
    ability: np.ndarray
    agreement: np.ndarray
    easiness: np.ndarray


def estimate(labels: Table, *, form: str = "calibrated") -> Ability:
    """Estimate the ability of workers and the easiness of items.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    form : {"calibrated", "paper"}
        Ability from agreement: log odds above chance, or the paper's multiple of the agreement.

    Returns
    -------
    Ability
        Arrays in the order of the table's items and workers.

    Raises
    ------
    EngineError
        For an unknown form.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> estimate(bc.datasets.load("anesthesia")).ability.round(1).tolist()
    [2.4, 1.7, 2.1, 2.4, 2.1]
    """
    if form not in ("calibrated", "paper"):
        raise EngineError(f"form must be 'calibrated' or 'paper', not {form!r}")
    n_answers = len(labels.label_values)
    weight = np.ones(len(labels.item_code)) if labels.weight is None else labels.weight
    count = votes(labels)
    right = _right(labels, count)
    agreement = _agreement(labels, count, right, weight, n_answers)
    if n_answers == 1:
        ability = np.zeros(labels.n_workers)
    elif form == "paper":
        ability = (3 + np.log(n_answers - 1)) * agreement
    else:
        ability = np.log((n_answers - 1) * agreement / (1 - agreement))
    log_easiness = _mode(labels, right, weight, ability, n_answers)
    return Ability(shares(labels, count), ability, agreement, np.exp(log_easiness))


def item_levels(labels: Table, easiness: np.ndarray, n_levels: int) -> np.ndarray:
    """Cut the items of a table into levels by easiness; items of equal easiness are told apart by their votes.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    easiness : array [item]
        As `estimate` gives it.
    n_levels : int
        Number of levels.

    Returns
    -------
    int array [item]
        0 for the easiest, -1 for items without labels.
    """
    count = votes(labels)
    total = count.sum(axis=1)
    share = count.max(axis=1) / np.where(total > 0, total, 1.0)
    labelled = np.bincount(labels.item_code, minlength=labels.n_items) > 0
    found = np.full(labels.n_items, -1)
    found[labelled] = levels(easiness[labelled], n_levels, share[labelled])
    return found


def levels(easiness: np.ndarray, n_levels: int, share: np.ndarray | None = None) -> np.ndarray:
    """Cut items into levels from easy to hard, as equal in number as ties allow.

    Equal items share a level, so the order of rows decides nothing. Between groups of equal items the cuts are first
    put nearest to equal numbers; then each is moved to where its two neighbours differ least. No level is empty where
    there are at least as many different items as levels; where there are fewer, they are spread from the easiest to the
    hardest level.

    Parameters
    ----------
    easiness : array [item]
        Positive numbers.
    n_levels : int
        Number of levels.
    share : array [item], optional
        Tells items of equal easiness apart: a larger share is easier.

    Returns
    -------
    int array [item]
        0 for the easiest.

    Examples
    --------
    >>> levels(np.array([1.0, 9.0, 2.0, 1.0, 5.0, 7.0]), 3).tolist()
    [2, 0, 1, 2, 1, 0]
    >>> levels(np.array([9.0, 9.0, 9.0, 9.0, 2.0, 1.0]), 3).tolist()
    [0, 0, 0, 0, 1, 2]
    """
    group = _groups(-np.log(easiness))
    if share is not None and len(group):
        second = _groups(-share)
        group = np.unique(group * (second.max() + 1) + second, return_inverse=True)[1]
    n_groups = int(group.max(initial=-1)) + 1
    if n_groups < n_levels:
        spread = np.rint(np.linspace(0, n_levels - 1, n_groups)) if n_groups > 1 else [(n_levels - 1) // 2]
        level_of_group = np.asarray(spread, int)
    else:
        cuts = _cuts(np.concatenate([[0], np.cumsum(np.bincount(group))]), n_levels)
        level_of_group = np.searchsorted(cuts[1:-1], np.arange(n_groups), side="right")
    return level_of_group[group]


def _groups(value: np.ndarray) -> np.ndarray:
    """Give each value the number of its rank; values that differ by rounding alone have the same."""
    order = np.argsort(value)
    found = np.zeros(len(value), np.int64)
    found[order[1:]] = np.cumsum(np.diff(value[order]) > _SAME)
    return found


def _cuts(end: np.ndarray, n_levels: int) -> list[int]:
    """Numbers of groups before each level (and after the last); ``end[g]`` items lie in the first g groups."""

    def nearest(target: float, low: int, high: int) -> int:
        after = int(np.clip(np.searchsorted(end, target), low, high))
        before = max(after - 1, low)
        return before if target - end[before] <= end[after] - target else after

    last = len(end) - 1
    cuts = [0]
    for level in range(1, n_levels):
        cuts.append(nearest(end[-1] * level / n_levels, cuts[-1] + 1, last - (n_levels - level)))
    cuts.append(last)
    moved = True
    while moved:  # every move lowers the sum of squared sizes, so this ends
        moved = False
        for level in range(1, n_levels):
            middle = (end[cuts[level - 1]] + end[cuts[level + 1]]) / 2
            there = nearest(middle, cuts[level - 1] + 1, cuts[level + 1] - 1)
            if abs(end[there] - middle) < abs(end[cuts[level]] - middle):
                cuts[level], moved = there, True
    return cuts


def _leaders(count: np.ndarray) -> np.ndarray:
    return count >= count.max(axis=1, keepdims=True) - _TIE * count.sum(axis=1, keepdims=True)


def _right(labels: Table, count: np.ndarray) -> np.ndarray:
    """How far each label is what the item's majority says: 1 over the number of leaders, or 0."""
    leads = _leaders(count)
    known = np.flatnonzero(labels.gold_code >= 0)
    leads[known] = False
    leads[known, labels.gold_code[known]] = True
    share = leads / leads.sum(axis=1, keepdims=True)
    return _at_label(labels, share)


def _at_label(labels: Table, table: np.ndarray) -> np.ndarray:
    """Entry of an item x class table at each label; 0 at a label that is no class."""
    n_classes = table.shape[1]
    is_class = labels.label_code < n_classes
    cell = labels.item_code.astype(np.int64) * n_classes + np.minimum(labels.label_code, n_classes - 1)
    return np.where(is_class, table.ravel()[cell], 0)


def _agreement(labels: Table, count: np.ndarray, right: np.ndarray, weight: np.ndarray, n_answers: int) -> np.ndarray:
    """Smoothed share of each worker's labels that equal the majority of the others (or gold)."""
    agrees, compared = _with_others(labels, count, weight)
    rows = _repeated(labels)
    if len(rows):
        agrees[rows], compared[rows] = _with_others_of_repeats(labels, count, weight, rows)
    known = labels.gold_code[labels.item_code] >= 0
    agrees, compared = np.where(known, right, agrees), compared | known
    taken = weight * compared
    hits = np.bincount(labels.worker_code, taken * agrees, labels.n_workers)
    return (hits + 1) / (np.bincount(labels.worker_code, taken, labels.n_workers) + n_answers)


def _with_others(labels: Table, count: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Agreement with the others and whether they voted, for workers with one label on an item.

    Removing one label changes one cell of the item's votes, so the two highest counts of the item tell the rest.
    """
    item = labels.item_code
    total = count.sum(axis=1)
    leads = _leaders(count)
    below = np.where(leads, 0.0, count)
    n_first, second = leads.sum(axis=1), below.max(axis=1)
    n_second = (~leads & (below >= (second - _TIE * total)[:, None])).sum(axis=1)
    mine = _at_label(labels, count)
    own = np.where(labels.label_code < count.shape[1], weight, 0.0)
    leading = _at_label(labels, leads).astype(bool)
    alone = leading & (n_first == 1)[item]
    rival = np.where(alone, second[item], count.max(axis=1)[item])
    n_rivals = np.where(alone, n_second[item], n_first[item] - leading)
    margin, slack = mine - own - rival, _TIE * total[item]
    agrees = np.where(margin > slack, 1.0, np.where(margin >= -slack, 1 / (1 + n_rivals), 0.0))
    agrees[own == 0] = 0.0
    return agrees, total[item] - own > slack


def _repeated(labels: Table) -> np.ndarray:
    """Rows in which a worker labels an item that the same worker labels elsewhere too."""
    pair = labels.item_code.astype(np.int64) * labels.n_workers + labels.worker_code
    by_pair = np.sort(pair)
    twice = np.unique(by_pair[1:][by_pair[1:] == by_pair[:-1]])
    if len(twice) == 0:
        return np.arange(0)
    place = np.minimum(np.searchsorted(twice, pair), len(twice) - 1)
    return np.flatnonzero(twice[place] == pair)


def _with_others_of_repeats(
    labels: Table, count: np.ndarray, weight: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Do the same for repeats, by a table of all votes of a worker on an item."""
    n_classes = count.shape[1]
    item, label = labels.item_code[rows].astype(np.int64), labels.label_code[rows]
    _, first, pair = np.unique(
        item * labels.n_workers + labels.worker_code[rows], return_index=True, return_inverse=True
    )
    is_class = label < n_classes
    cell = pair * n_classes + np.minimum(label, n_classes - 1)
    own = np.bincount(cell[is_class], weight[rows][is_class], len(first) * n_classes).reshape(-1, n_classes)
    all_votes = count[item[first]]
    slack = _TIE * all_votes.sum(axis=1, keepdims=True)
    others = all_votes - own
    leads = others >= others.max(axis=1, keepdims=True) - slack
    share = (leads / leads.sum(axis=1, keepdims=True)).ravel()
    return np.where(is_class, share[cell], 0.0), (others.sum(axis=1, keepdims=True) > slack)[pair, 0]


def _mode(labels: Table, right: np.ndarray, weight: np.ndarray, ability: np.ndarray, n_answers: int) -> np.ndarray:
    """Log easiness of all items by Newton's method, kept within a shrinking bracket by bisection."""
    result = np.zeros(labels.n_items)
    if n_answers == 1:
        return result
    item, skill = labels.item_code, ability[labels.worker_code]
    pull = weight * skill
    won = np.bincount(item, pull * right, labels.n_items)
    place = np.flatnonzero(np.bincount(item, minlength=labels.n_items))  # items still sought
    position = np.zeros(labels.n_items, np.int64)
    position[place] = np.arange(len(place))
    item, won = position[item], won[place]
    u = np.ones(len(place))  # at most one root lies below
    low, high = np.full(len(place), _LOWEST), np.full(len(place), _HIGHEST)
    chance = np.log(n_answers - 1)
    while len(place):
        easiness = np.exp(u)
        probability = expit(skill * easiness[item] - chance)
        expected = pull * probability
        gain = easiness * (won - np.bincount(item, expected, len(place)))
        bend = easiness**2 * np.bincount(item, expected * skill * (1 - probability), len(place))
        slope = gain - bend - 1
        low, high = np.where(gain > u, u, low), np.where(gain > u, high, u)
        step = (gain - u) / np.where(slope < 0, -slope, np.inf)
        inside = (slope < 0) & (u + step > low) & (u + step < high)
        found = ((slope < 0) & (np.abs(step) < _PRECISION)) | (high - low < _PRECISION)
        after = np.where(found, u, np.where(inside, u + step, (low + high) / 2))
        u = after
        result[place[found]] = u[found]
        if found.any() and (found.all() or 2 * found.sum() > len(found)):
            left = ~found
            rows = left[item]
            position = np.cumsum(left) - 1
            item, skill, pull = position[item[rows]], skill[rows], pull[rows]
            place, won, u, low, high = place[left], won[left], u[left], low[left], high[left]
    return result
