"""How many independent workers a panel is worth: from known classes, or as far as labels alone can tell.

Errors of m workers with correlation rho have a mean whose variance is that of m / (1 + (m - 1) rho) independent ones:
the effective sample size of Kish's design effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from bayescrowd.criticism._kinds import (
    Consensus,
    as_one_label,
    consensus_of,
    is_established,
    reading,
    with_hard_kind,
)
from bayescrowd.criticism._panel import (
    Panel,
    correlation_interval,
    correlation_of,
    correlations_of,
    log_effect,
    shared_errors,
)
from bayescrowd.errors import count_of

__all__ = ["Worth", "by_known_classes", "by_labels_alone", "effective_size", "unknown_worth"]

_REFITS, _FEW_REFITS, _PASSES = 40, 15, 50
_REFIT_LABELS = 20_000
_REFIT_WORK = 300_000
"""Products per pass from which on few refits must do; they give a spread to a fifth."""

_FEWEST_ANSWERS, _FEWEST_ITEMS = 3, 20
_SHARES_WRONG = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Worth:
    """What a panel is worth.

    Parameters
    ----------
    correlation, lower, upper : float
        Correlation of errors, and its interval; NaN where it cannot be told.
    n_items : int
        Items that it comes from.
    why_not : str
        Why it cannot be told; empty where it can.
    hard : Consensus or None
        From labels alone: ordinary and hard items, where labels show hard ones beyond chance.
    right : float
        From labels alone: correlation if most labels are right on hard items (everywhere, if there are none).
    most, least : float
        From labels alone: the largest and the least correlation by how often they are wrong on hard items, from never
        to always, the estimate among them.
    as_one : float
        From labels alone: correlation if all labels of an item tell as much as one.
    agreement : float
        From labels alone: how far labels agree on hard items.
    """

    correlation: float
    lower: float
    upper: float
    n_items: int
    why_not: str = ""
    hard: Consensus | None = None
    right: float = float("nan")
    most: float = float("nan")
    least: float = float("nan")
    as_one: float = float("nan")
    agreement: float = float("nan")


def effective_size(size: float, correlation: float) -> float:
    """Give the number of independent workers that a panel is worth, from 1 to all of them.

    Parameters
    ----------
    size : float
        Workers in it.
    correlation : float
        Of their errors; negative ones count as 0.

    Returns
    -------
    float
    """
    return float(size / (1 + (size - 1) * np.clip(correlation, 0.0, 1.0)))


def by_known_classes(panel: Panel, size: float, interval: float, random: np.random.Generator) -> Worth:
    """Measure the correlation of errors.

    Parameters
    ----------
    panel : Panel
        Answers to items of known class.
    size : float
        Answers per item, of all items.
    interval : float
        Probability of the interval.
    random : Generator
        Source of chance.

    Returns
    -------
    Worth
    """
    panel = panel.only(panel.n_answers > 1)
    if panel.n_items < 2:
        return unknown_worth(panel, "fewer than two items of known class have labels of two workers")
    errors = shared_errors(panel, panel.known_probability())
    correlation = correlation_of(errors)
    if np.isnan(correlation):
        n = count_of(len(panel.item), "label")
        return unknown_worth(
            panel, f"{n} on items of known class are all right (or all wrong), so no errors can go together"
        )
    lower, upper = correlation_interval(errors, size, interval, random)
    return Worth(correlation, lower, upper, panel.n_items)


def by_labels_alone(panel: Panel, one: Consensus, size: float, interval: float, random: np.random.Generator) -> Worth:
    """Bound the correlation of errors by what labels show and what they cannot show.

    Parameters
    ----------
    panel : Panel
        The answers.
    one : Consensus
        Their fit without a hard kind of items.
    size : float
        Answers per item.
    interval : float
        Probability of the interval.
    random : Generator
        Source of chance.

    Returns
    -------
    Worth
    """
    why_not = _too_little(panel)
    if why_not:
        return unknown_worth(panel, why_not)
    two = with_hard_kind(panel, one)
    established = is_established(one, two)
    fitted = two if established else one
    ends = _readings(panel, fitted)
    agreement = float("nan")
    if established:
        by_class = two.hard_confusion(panel.n_by_worker).diagonal()
        # Most labels are as likely wrong as a single label there is to differ from them.
        correlation = reading(panel, two, 1 - by_class)
        agreement = float(by_class @ two.share[1] / two.share[1].sum())
    else:
        correlation = float(ends[0])
    if np.isnan(correlation):
        return unknown_worth(panel, "no label seems to be wrong, so no errors can go together")
    low, high = int(np.nanargmin(ends)), int(np.nanargmax(ends))
    reach = float(ndtri((1 + interval) / 2)) * _spread(panel, fitted, (low, high), size, random)
    effects = log_effect(ends[[low, high]], size) + np.array([-1.0, 1.0]) * reach
    lower, upper = correlations_of(effects, size)
    return Worth(
        correlation,
        min(float(lower), correlation),
        max(float(upper), correlation),
        panel.n_items,
        hard=two if established else None,
        right=float(ends[0]),
        most=max(float(np.nanmax(ends[:-1])), correlation),
        least=min(float(np.nanmin(ends[:-1])), correlation),
        as_one=float(ends[-1]),
        agreement=agreement,
    )


def _readings(
    panel: Panel,
    consensus: Consensus,
    wanted: Sequence[int] | None = None,
    item_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Correlations: hard items always right, ..., always wrong; then all labels of an item as one."""
    shares = _SHARES_WRONG if consensus.hard_share else (0.0,)
    found = []
    for which in range(len(shares) + 1) if wanted is None else wanted:
        if which < len(shares):
            found.append(reading(panel, consensus, shares[which], item_weight))
        else:
            found.append(as_one_label(panel, consensus, item_weight))
    return np.array(found)


def _spread(
    panel: Panel,
    fitted: Consensus,
    ends: tuple[int, int],
    size: float,
    random: np.random.Generator,
) -> np.ndarray:
    """Refit to resampled items: standard deviations of the log design effect of two readings."""
    part = panel.some(_REFIT_LABELS, random)
    rows = np.searchsorted(panel.items, part.items)
    before = replace(fitted, ordinary=fitted.ordinary[rows], hard=fitted.hard[rows])
    work = len(part.item) * part.n_classes + before.confusion.size
    found = []
    for _ in range(_REFITS if work <= _REFIT_WORK else _FEW_REFITS):
        weight = random.multinomial(part.n_items, np.full(part.n_items, 1 / part.n_items)).astype(float)
        if before.hard_share:
            again = with_hard_kind(part, before, item_weight=weight, passes=_PASSES)
        else:
            again = consensus_of(part, before.ordinary, item_weight=weight, passes=_PASSES)
        found.append(_readings(part, again, ends, weight))
    effects = log_effect(np.nan_to_num(np.array(found)), size)
    return np.asarray(effects.std(axis=0, ddof=1) * np.sqrt(part.n_items / panel.n_items))


def _too_little(panel: Panel) -> str:
    """Why labels alone cannot tell; empty where they can."""
    answers = panel.n_answers
    n_workers = len(np.unique(panel.worker))
    if n_workers < _FEWEST_ANSWERS:
        return "labels alone need at least three workers, or there is nobody to say which of two errs"
    n_enough = int((answers >= _FEWEST_ANSWERS).sum())
    if n_enough < _FEWEST_ITEMS:
        return (
            f"labels alone need at least {_FEWEST_ITEMS} items with labels of three workers, and there "
            f"{'is' if n_enough == 1 else 'are'} {n_enough}"
        )
    if (panel.votes() > 0).sum(axis=1).max() <= 1:
        return "all workers agree on every item: whether they copy or know, their labels look the same"
    return ""


def unknown_worth(panel: Panel, why_not: str) -> Worth:
    """Say why it cannot be told what a panel is worth.

    Parameters
    ----------
    panel : Panel
        The answers.
    why_not : str
        The reason, as a part of a sentence.

    Returns
    -------
    Worth
        All NaN.
    """
    nothing = float("nan")
    return Worth(nothing, nothing, nothing, panel.n_items, why_not)
