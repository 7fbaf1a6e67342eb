"""Pairs of workers on their common items: how often they say the same beyond what the class of the item explains.

Given the class, or the probabilities of the classes by the labels of others, a worker's label leaves a residual: the
label as a vector of a one and zeros, less its expectation. The products of two workers' residuals, summed over labels,
are their excess of agreement; over the root of both sums of squares they are a correlation. With two classes whose
values are known that is exactly the correlation of errors given the class.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import gammainc, ndtri

from bayescrowd.criticism._kinds import confusion_of
from bayescrowd.criticism._panel import Panel, error_rates

__all__ = [
    "FEWEST_COMMON",
    "MOST_PAIRS",
    "Meetings",
    "PairScores",
    "agreement",
    "by_truth",
    "fisher",
    "meetings_of",
    "score_pairs",
    "unknown_scores",
]

MOST_PAIRS = 10_000
"""Pairs that are looked at: those with the most common items."""

FEWEST_COMMON = 10
"""Pairs with fewer common items are not judged."""

_MOST_MEETINGS = 4_000_000
_MOST_PRODUCTS = 10_000_000_000
"""Meetings, and meetings x classes x labels, that are looked at."""

_ENOUGH = 1000
"""Common items that say enough of a pair, where there are too many to look at all."""

_DENSE = 4000
_LEAST_SPREAD = 0.25
"""Mean squared residuals are taken for no less than this part of what the model expects."""

_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Meetings:
    """Pairs of workers, and the items on which they meet.

    Parameters
    ----------
    first, second : int array [pair]
        The workers, most common items first.
    n_common : int array [pair]
        Their common items.
    start : int array [pair + 1]
        Where the meetings of each pair begin; a pair that cannot be judged has none.
    one, other : int array [meeting]
        Its two answers.
    n_pairs : int
        Number of pairs with common items; more than are listed in large crowds.
    """

    first: np.ndarray
    second: np.ndarray
    n_common: np.ndarray
    start: np.ndarray
    one: np.ndarray
    other: np.ndarray
    n_pairs: int

    @functools.cached_property
    def n_met(self) -> np.ndarray:
        """Number of meetings of each pair, array [pair]; NaN for pairs that are not judged."""
        n = np.diff(self.start).astype(float)
        return np.where(n > 0, n, np.nan)

    @functools.cached_property
    def pair(self) -> np.ndarray:
        """Pair of each meeting, int array [meeting]."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.start))

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum a value [meeting] over the meetings of each pair."""
        return np.bincount(self.pair, values, len(self.first))


@dataclass(frozen=True, eq=False)
class PairScores:
    """How pairs of workers err together; NaN where a pair is not judged.

    Parameters
    ----------
    correlation : array [pair]
        Of errors, or of the residuals of labels, given the class; NaN also where one of the two always says the same.
    excess : array [pair]
        Agreements per common item beyond those that the class explains.
    z : array [pair]
        The same in standard errors.
    p_shared : array [pair]
        Probability that independent workers would as often say the same against the class.
    error : array [pair]
        Standard error of the correlation on the scale of its inverse hyperbolic tangent.
    """

    correlation: np.ndarray
    excess: np.ndarray
    z: np.ndarray
    p_shared: np.ndarray
    error: np.ndarray

    def bounds(self, interval: float) -> tuple[np.ndarray, np.ndarray]:
        """Interval of each correlation (Fisher's transformation).

        Parameters
        ----------
        interval : float
            Its probability.

        Returns
        -------
        tuple of array
            Lower and upper bounds.
        """
        half = float(ndtri((1 + interval) / 2)) * self.error
        centre = fisher(self.correlation)
        lower, upper = np.tanh(centre - half), np.tanh(centre + half)
        # The scale ends a hair before one.
        return np.minimum(lower, self.correlation), np.maximum(upper, self.correlation)


def fisher(correlation: np.ndarray | float) -> np.ndarray:
    """Transform correlations so that their errors hardly depend on them.

    Parameters
    ----------
    correlation : array
        Any.

    Returns
    -------
    array
        Inverse hyperbolic tangents, finite also for 1.
    """
    return np.asarray(np.arctanh(np.clip(correlation, -0.999, 0.999)))


def meetings_of(panel: Panel, random: np.random.Generator, most_pairs: int = MOST_PAIRS) -> Meetings:
    """List pairs of workers with common items.

    Parameters
    ----------
    panel : Panel
        The answers.
    random : Generator
        Source of chance, where items must be left out.
    most_pairs : int
        How many pairs to list: those with the most common items.

    Returns
    -------
    Meetings
    """
    first, second, n = _common_items(panel)
    n_pairs = len(n)
    order = np.argsort(-n, kind="stable")[:most_pairs]
    first, second, n = first[order], second[order], n[order]
    judged = np.flatnonzero(n >= FEWEST_COMMON) if panel.is_small else np.zeros(0, np.int64)
    items, answers = panel.item, np.arange(len(panel.item))
    most = min(_MOST_MEETINGS, _MOST_PRODUCTS // (panel.n_classes * panel.n_labels))
    if n[judged].sum() > most:
        thinned = min(1.0, max(most / n[judged].sum(), _ENOUGH / n.max()))
        judged = judged[thinned * np.cumsum(n[judged]) <= most]
        kept = (random.random(panel.n_items) < thinned)[panel.item]
        items, answers = items[kept], answers[kept]
    by_worker = np.argsort(panel.worker[answers], kind="stable")
    ends = np.cumsum(np.bincount(panel.worker[answers], minlength=panel.n_workers))[:-1]
    items_of, answers_of = np.split(items[by_worker], ends), np.split(answers[by_worker], ends)
    one, other, count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], np.zeros(len(n), np.int64)
    for pair in judged:
        w, v = first[pair], second[pair]
        _, mine, theirs = np.intersect1d(items_of[w], items_of[v], assume_unique=True, return_indices=True)
        if len(mine) < FEWEST_COMMON:  # too few are left of them
            continue
        one.append(answers_of[w][mine])
        other.append(answers_of[v][theirs])
        count[pair] = len(mine)
    start = np.concatenate([[0], np.cumsum(count)])
    return Meetings(first, second, n, start, np.concatenate(one), np.concatenate(other), n_pairs)


def unknown_scores(meetings: Meetings) -> PairScores:
    """Give pairs without any judgement.

    Parameters
    ----------
    meetings : Meetings
        The pairs.

    Returns
    -------
    PairScores
        All NaN.
    """
    return PairScores(*np.full((5, len(meetings.first)), np.nan))


def agreement(panel: Panel, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Share of the labels of two answers that are the same.

    Parameters
    ----------
    panel : Panel
        The answers.
    one, other : int array [meeting]
        Which.

    Returns
    -------
    array [meeting]
        Ones and zeros but for workers who said several things of an item.
    """
    shares = panel.shares
    if shares.nnz == shares.shape[0]:
        return (shares.indices[one] == shares.indices[other]).astype(float)
    return np.asarray(shares[one].multiply(shares[other]).sum(axis=1), float).ravel()


def by_truth(panel: Panel, meetings: Meetings) -> PairScores:
    """Score pairs where the class of every item is known.

    Parameters
    ----------
    panel : Panel
        Answers to items of known class.
    meetings : Meetings
        Its pairs.

    Returns
    -------
    PairScores
        Correlations of errors given the class.
    """
    if not len(meetings.one):
        return unknown_scores(meetings)
    known = panel.known_probability()
    table = panel.shares.tocoo()
    hit = table.col == panel.known[panel.item[table.row]]
    wrong = 1 - np.bincount(table.row, table.data * hit, len(panel.item))
    rate = error_rates(panel, known)[panel.worker, panel.known[panel.item]]
    residual, spread = wrong - rate, rate * (1 - rate)
    n, pair = meetings.n_met, meetings.pair
    with np.errstate(invalid="ignore", divide="ignore"):
        sides, errs = [], []
        for answer in (meetings.one, meetings.other):
            size = np.maximum(meetings.total(residual[answer] ** 2), _LEAST_SPREAD * meetings.total(spread[answer])) / n
            sides.append(residual[answer] / np.sqrt(size)[pair])
            errs.append((meetings.total(wrong[answer]) > 0) & (meetings.total(1 - wrong[answer]) > 0))
        one, other = sides
        # Who never errs there, or never does anything else, has no errors that could go with those of others.
        correlation = np.where(errs[0] & errs[1], meetings.total(one * other) / n, np.nan)
        # The influence of every meeting on the correlation.
        influence = one * other - correlation[pair] / 2 * (one**2 + other**2)
        error = np.sqrt(meetings.total(influence**2)) / n
    scores = score_pairs(panel, meetings, known, confusion_of(panel, known))
    return replace(scores, correlation=correlation, error=_fisher_error(correlation, error, n))


def score_pairs(
    panel: Panel,
    meetings: Meetings,
    whole: np.ndarray,
    confusion: np.ndarray,
    own: np.ndarray | None = None,
    same: np.ndarray | None = None,
) -> PairScores:
    """Score pairs given probabilities of the classes.

    Parameters
    ----------
    panel : Panel
        The answers.
    meetings : Meetings
        Its pairs.
    whole : array [item, class]
        Class probabilities; or with ``own`` log probabilities by all labels.
    confusion : array [worker, class, label]
        Confusion matrices.
    own : array [answer, class], optional
        What an answer has added to ``whole``; it is taken away again for the pair that is judged. Where classes are
        known there is nothing to take away, and correlations are left to those of errors.
    same : bool array [pair], optional
        Pairs whose two answers have added it together, once.

    Returns
    -------
    PairScores
        Correlations are those of the residuals of labels; without ``own`` they are NaN.
    """
    spread = 1 - (confusion**2).sum(axis=2)
    found = np.full((5, len(meetings.first)), np.nan)
    for pair in np.flatnonzero(np.diff(meetings.start)):
        rows = slice(meetings.start[pair], meetings.start[pair + 1])
        one, other = meetings.one[rows], meetings.other[rows]
        w, v = meetings.first[pair], meetings.second[pair]
        probability = whole[panel.item[one]]
        if own is not None:
            probability = probability - (own[one] if same is not None and same[pair] else own[one] + own[other])
            probability = np.exp(probability - probability.max(axis=1, keepdims=True))
            probability /= probability.sum(axis=1, keepdims=True)
        first, second = panel.shares[one].toarray(), panel.shares[other].toarray()
        mean, its_mean = probability @ confusion[w], probability @ confusion[v]
        beyond = _product(probability, (first, second), (mean, its_mean), (confusion[w], confusion[v]))
        if own is not None:
            squares = (
                _product(probability, (first, first), (mean, mean), (confusion[w], confusion[w])),
                _product(probability, (second, second), (its_mean, its_mean), (confusion[v], confusion[v])),
            )
            least = [_LEAST_SPREAD * float((probability @ spread[who]).mean()) for who in (w, v)]
            found[:2, pair] = _correlation(beyond, squares, least)
        # Said by both, against the class.
        wrong = 1 - np.pad(probability, ((0, 0), (0, panel.n_labels - panel.n_classes)))
        shared = float((first * second * wrong).sum())
        by_chance = float(((probability @ (confusion[w] * confusion[v])) * wrong).sum())
        variance = float((probability @ _variance(confusion[w], confusion[v])).sum())
        # Poisson tail: rare events, each counting no more than one.
        p_shared = float(gammainc(shared, by_chance)) if shared > 0 else 1.0
        length = float(np.sqrt(max((beyond**2).sum(), variance)))
        found[2:, pair] = beyond.mean(), float(beyond.sum()) / length if length > _TINY else 0.0, p_shared
    correlation, error, excess, z, shared_by_chance = found
    return PairScores(correlation, excess, z, shared_by_chance, _fisher_error(correlation, error, meetings.n_met))


def _product(
    probability: np.ndarray,
    said: tuple[np.ndarray, np.ndarray],
    mean: tuple[np.ndarray, np.ndarray],
    confusion: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Products of two residuals given the class, less what they come to on average since the class is uncertain."""
    by_label = said[0] * said[1] - said[0] * mean[1] - mean[0] * said[1] + 2 * mean[0] * mean[1]
    return np.asarray(by_label.sum(axis=1) - probability @ (confusion[0] * confusion[1]).sum(axis=1))


def _variance(confusion: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Variance of the product of two independent residuals, by class."""
    both = (confusion * other).sum(axis=1)
    return np.asarray(both + both**2 - (confusion * other * (confusion + other)).sum(axis=1))


def _correlation(beyond: np.ndarray, squares: tuple[np.ndarray, np.ndarray], least: list[float]) -> tuple[float, float]:
    """Correlation of the residuals of one pair and its standard error; NaN where one of the two never varies."""
    if min(least) < _TINY:
        return float("nan"), float("nan")
    size = [max(float(square.mean()), floor) for square, floor in zip(squares, least, strict=True)]
    scale = float(np.sqrt(size[0] * size[1]))
    correlation = float(np.clip(beyond.mean() / scale, -1.0, 1.0))
    influence = beyond / scale - correlation / 2 * (squares[0] / size[0] + squares[1] / size[1])
    return correlation, float(np.sqrt((influence**2).sum())) / len(beyond)


def _fisher_error(correlation: np.ndarray, error: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Put a standard error on Fisher's scale; never below that of normal variables."""
    with np.errstate(invalid="ignore", divide="ignore"):
        steep = np.maximum(1 - correlation**2, 1 / n)
        return np.asarray(np.maximum(error / steep, 1 / np.sqrt(np.maximum(n - 3, 1))))


def _common_items(panel: Panel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of workers with common items, and how many these are."""
    shape = (panel.n_items, panel.n_workers)
    there = csr_array((np.ones(len(panel.item), np.float32), (panel.item, panel.worker)), shape=shape)
    products = float((panel.n_answers.astype(float) ** 2).sum())
    if panel.n_workers <= _DENSE and products > float(panel.n_workers) ** 2:
        gram = np.zeros((panel.n_workers, panel.n_workers))
        step = max(1, 10_000_000 // max(panel.n_workers, 1))
        for begin in range(0, panel.n_items, step):
            part = there[begin : begin + step].toarray()
            gram += part.T @ part
        first, second = np.nonzero(np.triu(gram, 1))
        return first, second, gram[first, second].astype(np.int64)
    table = (there.T @ there).tocoo()
    first, second, n = (part[table.row < table.col].astype(np.int64) for part in (table.row, table.col, table.data))
    return first, second, n
