"""Groups of workers who copy each other, or a common source.

A pair is judged by a consensus that it has no part in: the class probabilities of an item by the labels of all others
(leave two out; and whoever seems to copy either of them is left out too). Since workers who copy also pull the
consensus and make each other look able, a first look at the table of agreements finds them before any class is
estimated: under the model of independent workers, agreement beyond chance is close to a product of one ability for each
worker, which medians over partners find as long as most of a worker's partners do not copy it. Workers who stand out
there count together as one while confusion matrices are estimated; then pairs are judged, and the groups that are left
count as one, until they stay the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayescrowd.criticism._kinds import Consensus, consensus_of
from bayescrowd.criticism._pairs import Meetings, PairScores, agreement, fisher, score_pairs, unknown_scores
from bayescrowd.criticism._panel import Panel

__all__ = ["Verdict", "by_consensus", "copies", "together"]

_ROUNDS = 3
_MEDIANS = 50
_FEWEST_WORKERS = 3
"""Two have nobody else whose labels could tell the class."""

_COPIES = 0.5
"""Correlation from which on a pair can be said to copy."""

_STANDS_OUT = 5.0
"""Standard errors by which a pair must stand out in the first look."""

_NEARLY_IDENTICAL = 0.7
"""Lower bound of a correlation from which on a pair copies even if all pairs are as alike."""

_CHANCE = 0.01
"""Probability that any pair of independent workers is said to copy (Bonferroni)."""

_FAR = 4.0
"""Standard deviations of the sum of squared z of all pairs that are not left to chance."""

_TINY = 1e-12


type Links = tuple[Meetings, np.ndarray, np.ndarray]


class Verdict(NamedTuple):
    """What the consensus says of the pairs.

    Parameters
    ----------
    scores : PairScores
        Of each pair.
    copies : bool array [pair]
        Which copy.
    consensus : Consensus
        The consensus that they were judged by.
    panel : Panel
        The answers as it was fitted to them: weights divided by the size of the group that a worker seems to belong to.
    """

    scores: PairScores
    copies: np.ndarray
    consensus: Consensus
    panel: Panel


def by_consensus(panel: Panel, meetings: Meetings) -> Verdict:
    """Score pairs by the consensus of the others.

    Parameters
    ----------
    panel : Panel
        The answers; known classes are kept.
    meetings : Meetings
        Its pairs.

    Returns
    -------
    Verdict
    """
    alone = np.arange(panel.n_workers)
    plain = _judged_apart(panel, meetings, alone)
    nobody = np.zeros(len(meetings.first), bool)
    if len(np.unique(panel.worker)) < _FEWEST_WORKERS:
        return plain._replace(scores=unknown_scores(meetings), copies=nobody)
    # Two able workers among poor ones agree as copyists do: nobody copies where independence explains all pairs.
    if not (beyond_chance(plain.scores).any() or _misfit(plain.scores)):
        return plain._replace(copies=nobody)
    beyond, far = _first_look(panel, meetings)
    verdict = plain
    groups = together(panel.n_workers, [(meetings, beyond, far)])
    if np.array_equal(groups, alone):
        groups = together(panel.n_workers, [(meetings, plain.scores.correlation, plain.copies)])
    seen = [alone.tolist()]
    while groups.tolist() not in seen and len(seen) <= _ROUNDS:
        verdict = _judged_apart(panel, meetings, groups)
        seen.append(groups.tolist())
        groups = together(panel.n_workers, [(meetings, verdict.scores.correlation, verdict.copies)])
    return verdict if verdict.copies.any() else plain._replace(copies=nobody)


def _judged_apart(panel: Panel, meetings: Meetings, groups: np.ndarray) -> Verdict:
    """Judge pairs by what those outside their groups say."""
    shared_by = np.bincount(groups)[groups]
    panel = replace(panel, weight=panel.weight / shared_by[panel.worker])
    start = panel.probability
    # Copyists may have pulled the result itself; and a fit that failed has nothing to start from.
    if shared_by.max(initial=1) > 1 or not np.isfinite(start).all():
        votes = panel.votes()[:, : panel.n_classes] + _TINY
        start = votes / votes.sum(axis=1, keepdims=True)
    consensus = consensus_of(panel, start)
    scores = _by_others(panel, meetings, consensus, groups)
    return Verdict(scores, copies(scores), consensus, panel)


def beyond_chance(scores: PairScores) -> np.ndarray:
    """Say which pairs say the same, or the same against the class, more often than independent workers would.

    Parameters
    ----------
    scores : PairScores
        Scores of all pairs.

    Returns
    -------
    bool array [pair]
        Corrected for their number.
    """
    each = _CHANCE / max(int(np.isfinite(scores.z).sum()), 1)
    with np.errstate(invalid="ignore"):
        return np.asarray((scores.p_shared < each / 2) | (scores.z > ndtri(1 - each / 2)))


def _misfit(scores: PairScores) -> bool:
    """Say whether the pairs together are further from independence than chance has it."""
    z = scores.z[np.isfinite(scores.z)]
    return bool((z**2).sum() > len(z) + _FAR * np.sqrt(2 * len(z)))


def copies(scores: PairScores) -> np.ndarray:
    """Say which pairs copy each other, or a common source.

    Parameters
    ----------
    scores : PairScores
        Scores of all pairs.

    Returns
    -------
    bool array [pair]
        Pairs who say the same, or the same against the class, more often than by chance, and whose correlation is at
        least .5 and beyond chance higher than the median of all pairs (what is difficult for all makes all pairs err
        together, and nobody a copyist), or has a lower bound of .7.
    """
    judged = np.isfinite(scores.correlation)
    n_judged = int(judged.sum())
    if not n_judged:
        return judged
    common = float(np.median(scores.correlation[judged]))
    with np.errstate(invalid="ignore"):
        lower = scores.bounds(1 - 2 * _CHANCE / n_judged)[0]
        ahead = (scores.correlation >= _COPIES) & (fisher(lower) > fisher(common))
        alike = scores.bounds(1 - 2 * _CHANCE)[0] > _NEARLY_IDENTICAL
    return np.asarray(judged & beyond_chance(scores) & (ahead | alike))


def together(n_workers: int, links: Sequence[Links]) -> np.ndarray:
    """Put workers who copy into one group, the most alike first.

    Parameters
    ----------
    n_workers : int
        How many there are.
    links : sequence of (Meetings, correlations [pair], bool array [pair])
        Pairs, how alike they are, and which of them copy.

    Returns
    -------
    int array [worker]
        Number of the group of each worker; most are alone in theirs. Groups that a pair links become one where the
        correlations between their members are at least .5 on average, so that no chain of pairs joins strangers.
    """
    group = np.arange(n_workers)
    involved = [np.concatenate([meetings.first[linked], meetings.second[linked]]) for meetings, _, linked in links]
    workers = np.unique(np.concatenate(involved))
    place = np.full(n_workers, -1)
    place[workers] = np.arange(len(workers))
    alike = np.full((len(workers), len(workers)), np.nan)
    pairs = []
    for meetings, correlation, linked in links:
        one, other = place[meetings.first], place[meetings.second]
        inside = (one >= 0) & (other >= 0)
        for rows, columns in ((one[inside], other[inside]), (other[inside], one[inside])):
            alike[rows, columns] = np.fmax(alike[rows, columns], correlation[inside])
        pairs += list(zip(-correlation[linked], one[linked], other[linked], strict=True))
    part = np.arange(len(workers))
    for _, one, other in sorted(pairs):
        if part[one] == part[other]:
            continue
        mine, theirs = part == part[one], part == part[other]
        if np.nanmean(alike[np.ix_(mine, theirs)]) >= _COPIES:
            part[mine | theirs] = min(part[one], part[other])
    group[workers] = workers[part]
    return np.unique(group, return_inverse=True)[1]


def _first_look(panel: Panel, meetings: Meetings) -> tuple[np.ndarray, np.ndarray]:
    """Give agreement above the product of one ability per worker, as a share of what could differ, and where it is far.

    Pairs of equal workers who copy have the same share, so that it can stand for a correlation.
    """
    n = meetings.n_met
    nothing = np.full(len(n), np.nan)
    if not np.isfinite(n).any():
        return nothing, np.zeros(len(n), bool)
    said = np.zeros((panel.n_workers, panel.n_labels))
    table = panel.shares.tocoo()
    np.add.at(said, (panel.worker[table.row], table.col), table.data)
    said /= np.maximum(said.sum(axis=1, keepdims=True), _TINY)
    chance = (said[meetings.first] * said[meetings.second]).sum(axis=1)
    agreed = meetings.total(agreement(panel, meetings.one, meetings.other)) / n
    ability = _abilities(panel.n_workers, meetings, agreed - chance)
    expected = np.clip(chance + ability[meetings.first] * ability[meetings.second], 0.01, 0.99)
    beyond = (agreed - expected) / (1 - expected)
    far = _STANDS_OUT * np.sqrt(expected / (1 - expected) / n)
    return beyond, np.isfinite(n) & (beyond > far) & (beyond >= _COPIES)


def _abilities(n_workers: int, meetings: Meetings, beyond: np.ndarray) -> np.ndarray:
    """Fit a product of abilities to agreements beyond chance, by medians over the partners of each worker."""
    judged = np.flatnonzero(np.isfinite(beyond))
    worker = np.concatenate([meetings.first[judged], meetings.second[judged]])
    partner = np.concatenate([meetings.second[judged], meetings.first[judged]])
    value, weight = np.tile(beyond[judged], 2), np.tile(meetings.n_common[judged].astype(float), 2)
    ability = np.sqrt(np.maximum(_medians(n_workers, worker, value, weight), 1e-3))
    for _ in range(_MEDIANS):
        divisor = ability[partner]
        usable = np.abs(divisor) > 1e-3
        found = _medians(n_workers, worker[usable], value[usable] / divisor[usable], weight[usable])
        found = (np.clip(found, -1.0, 1.0) + ability) / 2
        moved, ability = np.abs(found - ability).max(initial=0.0), found
        if moved < 1e-4:
            break
    return ability


def _medians(n_workers: int, worker: np.ndarray, value: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted median of the values of each worker; 0 without any."""
    if not len(value):
        return np.zeros(n_workers)
    order = np.lexsort((value, worker))
    below = np.cumsum(weight[order])
    total = np.bincount(worker, weight, n_workers)
    middle = np.searchsorted(below, np.cumsum(total) - total / 2)
    return np.where(total > 0, value[order][np.minimum(middle, len(value) - 1)], 0.0)


def _by_others(panel: Panel, meetings: Meetings, consensus: Consensus, groups: np.ndarray) -> PairScores:
    """Score pairs by the class probabilities that labels outside their groups give."""
    logs = np.log(np.maximum(consensus.confusion, 1e-300))
    table = panel.shares.tocoo()
    weight = table.data * panel.weight[table.row]
    said = logs[panel.worker[table.row], :, table.col] * weight[:, None]
    # What the whole group of the worker of an answer says of its item.
    _, place = np.unique(panel.item * (groups.max(initial=0) + 1) + groups[panel.worker], return_inverse=True)
    own = np.stack(
        [np.bincount(place[table.row], said[:, code], len(place))[place] for code in range(panel.n_classes)], axis=1
    )
    whole = np.log(np.maximum(consensus.probability, 1e-300))
    same = groups[meetings.first] == groups[meetings.second]
    return score_pairs(panel, meetings, whole, consensus.confusion, own, same)
