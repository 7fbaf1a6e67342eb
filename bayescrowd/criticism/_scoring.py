"""The numbers of `calibration`: proper scores of class probabilities against known classes, and their parts.

Everything is a function of sums over items, so that one piece of code gives the value (each item once) and all
bootstrap replicates (each item as often as it was drawn).

References
----------
Murphy (1973), A new vector partition of the probability score, Journal of Applied Meteorology 12(4). Stephenson,
Coelho, Jolliffe (2008), Two extra components in the Brier score decomposition, Weather and Forecasting 23(4).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayescrowd.results.votes import leading

__all__ = [
    "CHUNK",
    "RESAMPLES",
    "SMALLEST",
    "SURE",
    "Forecasts",
    "Sums",
    "equal_mass_bins",
    "scores",
    "sums_of_items",
    "units",
    "weights_of_resamples",
    "wilson",
]

SMALLEST = 1e-15
"""Probabilities below this count as this much in the log loss and for the temperature: one mistake that a fit held for
impossible costs 34.5 nats, not infinitely many."""

SURE = 0.95
"""An answer is confident from this probability of its class on."""

RESAMPLES = 2000
"""Bootstrap resamples."""

CHUNK = 4_000_000
"""Numbers that are drawn at a time."""

_MOST_UNITS = 4096
"""More items than this are resampled in this many random groups: their sums vary as those of items do."""

_DIGITS = 14

type Sums = dict[str, np.ndarray]


class Forecasts(NamedTuple):
    """Class probabilities and known classes of the items that are scored.

    Parameters
    ----------
    probability : array [item, class]
        Rows sum to one.
    truth : int array [item]
        Index of the true class.
    leads : bool array [item, class]
        The leading classes; several where they are tied.
    confidence : array [item]
        Probability of a leading class.
    hit : array [item]
        1 where the leading class is true, a share of it where classes are tied.
    top_bin : int array [item]
        Bin of the confidence.
    class_bin : int array [item, class]
        Bin of the probability of each class.
    """

    probability: np.ndarray
    truth: np.ndarray
    leads: np.ndarray
    confidence: np.ndarray
    hit: np.ndarray
    top_bin: np.ndarray
    class_bin: np.ndarray

    @classmethod
    def of(cls, probability: np.ndarray, truth: np.ndarray, bins: int) -> "Forecasts":
        """Find the leading classes and the bins.

        Parameters
        ----------
        probability : array [item, class]
            Rows sum to one.
        truth : int array [item]
            Index of the true class.
        bins : int
            How many at most.

        Returns
        -------
        Forecasts
        """
        leads = leading(probability)
        confidence = probability.max(axis=1)
        hit = leads[np.arange(len(truth)), truth] / leads.sum(axis=1)
        class_bin = np.stack([equal_mass_bins(column, bins) for column in probability.T], axis=1)
        return cls(probability, truth, leads, confidence, hit, equal_mass_bins(confidence, bins), class_bin)


def equal_mass_bins(values: np.ndarray, bins: int) -> np.ndarray:
    """Put values into bins of as many values each, as far as ties allow: equal values share a bin.

    Parameters
    ----------
    values : array [item]
        Probabilities in any order; the bins do not depend on it. What differs by rounding alone counts as equal.
    bins : int
        How many at most.

    Returns
    -------
    int array [item]
        Numbers from 0, without gaps, in the order of the values.
    """
    values = np.round(values, _DIGITS)
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(values))
    _, number = np.unique(np.minimum((middle * bins).astype(int), bins - 1), return_inverse=True)
    return number.reshape(-1)


def units(n_items: int, random: np.random.Generator) -> np.ndarray:
    """Say which unit of the bootstrap each item belongs to: itself, or a random group where there are many items.

    Parameters
    ----------
    n_items : int
        How many.
    random : Generator
        Where the grouping comes from.

    Returns
    -------
    int array [item]
        Groups of as many items each, but for one.
    """
    if n_items <= _MOST_UNITS:
        return np.arange(n_items)
    return random.permutation(n_items) % _MOST_UNITS


def sums_of_items(found: Forecasts, unit: np.ndarray) -> Sums:
    """Sum what the scores need over the items of each unit.

    Parameters
    ----------
    found : Forecasts
        What is scored.
    unit : int array [item]
        From `units`.

    Returns
    -------
    dict
        Name -> array [unit, ...].
    """
    probability, truth = found.probability, found.truth
    n_items, n_classes = probability.shape
    n_units = int(unit.max()) + 1
    row = np.arange(n_items)
    is_true = np.zeros_like(probability)
    is_true[row, truth] = 1.0
    clipped = np.maximum(probability, SMALLEST)
    against = np.maximum(1 - probability, SMALLEST)
    share = found.leads / found.leads.sum(axis=1, keepdims=True)
    sure_wrong = (probability > SURE) & (is_true == 0)
    n_bins = int(found.class_bin.max()) + 1

    def total(values: np.ndarray) -> np.ndarray:
        if n_items == n_units:
            return values.astype(float)
        out = np.zeros((n_units, *values.shape[1:]))
        np.add.at(out, unit, values)
        return out

    def binned(values: np.ndarray | None, number: np.ndarray, size: int) -> np.ndarray:
        return np.bincount(unit * size + number, values, n_units * size).reshape(n_units, size).astype(float)

    def by_class(values: np.ndarray | None) -> np.ndarray:
        columns = [None if values is None else values[:, code] for code in range(n_classes)]
        parts = [binned(column, found.class_bin[:, code], n_bins) for code, column in enumerate(columns)]
        return np.stack(parts, axis=1)

    n_top = int(found.top_bin.max()) + 1
    return {
        "n": total(np.ones(n_items)),
        "log_loss": total(-np.log(clipped[row, truth])),
        "confidence": total(found.confidence),
        "accuracy": total(found.hit),
        "top_n": binned(None, found.top_bin, n_top),
        "top_confidence": binned(found.confidence, found.top_bin, n_top),
        "top_hit": binned(found.hit, found.top_bin, n_top),
        "class_n": by_class(None),
        "class_p": by_class(probability),
        "class_y": by_class(is_true),
        "class_pp": total(probability**2),
        "class_py": total(probability * is_true),
        "class_log": total(np.where(is_true > 0, -np.log(clipped), -np.log(against))),
        "class_called": total(share),
        "class_right": total(share * is_true),
        "class_sure_wrong": total(sure_wrong),
    }


def weights_of_resamples(n_units: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw how often each unit occurs in each resample, a chunk of resamples at a time.

    Parameters
    ----------
    n_units : int
        Items, or groups of items.
    random : Generator
        Where the draws come from.

    Yields
    ------
    array [resample, unit]
        Whole numbers; rows sum to the number of units.
    """
    step = max(1, CHUNK // n_units)
    for first in range(0, RESAMPLES, step):
        n = min(step, RESAMPLES - first)
        drawn = random.integers(n_units, size=(n, n_units)) + n_units * np.arange(n)[:, None]
        yield np.bincount(drawn.reshape(-1), minlength=n * n_units).reshape(n, n_units).astype(float)


def scores(sums: Sums) -> tuple[Sums, Sums]:
    """Compute all scores from sums over items.

    The Brier score is split class by class (Murphy 1973, with the within-bin terms of Stephenson et al. 2008), then
    summed over classes: ``brier = reliability - resolution + uncertainty + within_bins``, exactly.

    Parameters
    ----------
    sums : dict
        Name -> array [sample, ...], from `sums_of_items`, added up over the items of each sample.

    Returns
    -------
    tuple of dict
        Scores over all classes, name -> array [sample], and by class, name -> array [sample, class].
    """
    n = sums["n"][:, None]
    in_bin = np.where(sums["class_n"] > 0, sums["class_n"], 1.0)
    mean_p, mean_y = sums["class_p"] / in_bin, sums["class_y"] / in_bin
    true = sums["class_y"].sum(axis=2)
    expected = sums["class_p"].sum(axis=2)
    weight = sums["class_n"] / n[..., None]
    share = true / n
    spread = sums["class_pp"] / n - (weight * mean_p**2).sum(axis=2)
    joint = sums["class_py"] / n - (weight * mean_y * mean_p).sum(axis=2)
    nothing = np.full_like(true, np.nan)
    by_class = {
        "prevalence": share,
        "prevalence_expected": expected / n,
        "recall": np.divide(sums["class_right"], true, out=nothing.copy(), where=true > 0),
        "precision": np.divide(
            sums["class_right"], sums["class_called"], out=nothing.copy(), where=sums["class_called"] > 0
        ),
        "log_loss": sums["class_log"] / n,
        "brier": (sums["class_pp"] - 2 * sums["class_py"] + true) / n,
        "reliability": (weight * (mean_y - mean_p) ** 2).sum(axis=2),
        "resolution": (weight * (mean_y - share[..., None]) ** 2).sum(axis=2),
        "uncertainty": share * (1 - share),
        "within_bins": spread - 2 * joint,
        "calibration_error": np.abs(sums["class_y"] - sums["class_p"]).sum(axis=2) / n,
        "confidently_wrong": sums["class_sure_wrong"] / n,
    }
    n = sums["n"]
    overall = {
        "log_loss": sums["log_loss"] / n,
        **{
            name: by_class[name].sum(axis=1)
            for name in ("brier", "reliability", "resolution", "uncertainty", "within_bins")
        },
        "calibration_error": np.abs(sums["top_hit"] - sums["top_confidence"]).sum(axis=1) / n,
        "accuracy": sums["accuracy"] / n,
        "confidence": sums["confidence"] / n,
        "overconfidence": (sums["confidence"] - sums["accuracy"]) / n,
        "confidently_wrong": by_class["confidently_wrong"].sum(axis=1),
    }
    return overall, by_class


def wilson(successes: np.ndarray, n: np.ndarray, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Give Wilson's interval of a share; unlike a bootstrap it says something where all, or none, succeed.

    Parameters
    ----------
    successes, n : array
        How many of how many; ties make fractions.
    interval : float
        Probability of the interval.

    Returns
    -------
    tuple of array
        Lower and upper bounds; NaN where n is 0.

    References
    ----------
    Brown, Cai, DasGupta (2001), Interval estimation for a binomial proportion, Statistical Science 16(2).
    """
    z = float(ndtri((1 + interval) / 2))
    size = np.where(n > 0, n, np.nan)
    share = successes / size
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return np.clip(middle - half, 0, share), np.clip(middle + half, share, 1)
