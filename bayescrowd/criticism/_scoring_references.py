"""What the scores of `calibration` are held against: right probabilities by chance alone, and the best temperature."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax

from bayescrowd.criticism._scoring import CHUNK, RESAMPLES, SMALLEST, SURE, Forecasts

__all__ = ["TEMPERATURES", "Chance", "Temperature", "by_chance", "temper"]

_SIMULATED = 8_000_000
_FEWEST_SIMULATIONS = 200
TEMPERATURES = (0.01, 100.0)
"""Lowest and highest temperature that is looked at."""

_BETAS = np.geomspace(1 / TEMPERATURES[1], 1 / TEMPERATURES[0], 121)
_FLAT = 1e-12
"""Slopes of the log loss below this are rounding."""


class Chance(NamedTuple):
    """What the scores would be if every class occurred exactly as often as the probabilities say.

    Parameters
    ----------
    overall : dict
        Score -> expected value.
    calibration_error : array [class]
        Expected calibration error of each class, by chance alone.
    accuracy : array [simulation]
        Shares of right answers that would be seen.
    calibration_errors : array [simulation]
        Calibration errors of the leading class that would be seen.
    """

    overall: dict[str, float]
    calibration_error: np.ndarray
    accuracy: np.ndarray
    calibration_errors: np.ndarray


def by_chance(found: Forecasts, random: np.random.Generator) -> Chance:
    """Compute what the scores would be if the probabilities were right.

    Parameters
    ----------
    found : Forecasts
        What is scored.
    random : Generator
        For the calibration errors, which are simulated; the rest is in closed form.

    Returns
    -------
    Chance
    """
    p = found.probability
    n = len(p)
    variance = p * (1 - p)
    expected = dict.fromkeys(("reliability", "resolution", "uncertainty", "within_bins"), 0.0)
    class_errors = np.zeros(p.shape[1])
    for code in range(p.shape[1]):
        number = found.class_bin[:, code]
        size = np.bincount(number)
        mean = np.bincount(number, p[:, code]) / size
        noise = np.bincount(number, variance[:, code]) / size**2
        share, of_share = p[:, code].mean(), variance[:, code].sum() / n**2
        chance = float((size * noise).sum() / n)
        expected["reliability"] += chance
        expected["resolution"] += float((size * (mean - share) ** 2).sum() / n) + chance - of_share
        expected["uncertainty"] += share * (1 - share) - of_share
        expected["within_bins"] -= float((p[:, code] ** 2).mean() - (size * mean**2).sum() / n)
        class_errors[code] = np.abs(_simulated(p[:, code], number, random)).sum(axis=1).mean() / n
    hit = np.where(found.leads, p, 0.0).sum(axis=1) / found.leads.sum(axis=1)
    misses = _simulated(hit, found.top_bin, random)
    errors = np.abs(misses).sum(axis=1) / n
    overall = {
        "log_loss": float(-(p * np.log(np.maximum(p, SMALLEST))).sum(axis=1).mean()),
        "brier": float(variance.sum(axis=1).mean()),
        **expected,
        "calibration_error": float(errors.mean()),
        "accuracy": float(hit.mean()),
        "confidence": float(found.confidence.mean()),
        "overconfidence": 0.0,
        "confidently_wrong": float(np.where(p > SURE, 1 - p, 0.0).sum() / n),
    }
    return Chance(overall, class_errors, hit.mean() + misses.sum(axis=1) / n, errors)


def _simulated(p: np.ndarray, number: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Simulate how often the event occurs in each bin, minus how often it is expected, [simulation, bin]."""
    order = np.argsort(number, kind="stable")
    p, starts = p[order], np.flatnonzero(np.diff(number[order], prepend=-1))
    n_simulations = int(np.clip(_SIMULATED // len(p), _FEWEST_SIMULATIONS, RESAMPLES))
    expected = np.add.reduceat(p, starts)
    step = max(1, CHUNK // len(p))
    parts = []
    for first in range(0, n_simulations, step):
        happened = random.random((min(step, n_simulations - first), len(p))) < p
        parts.append(np.add.reduceat(happened, starts, axis=1, dtype=np.int64) - expected)
    return np.concatenate(parts)


class Temperature(NamedTuple):
    """The temperature that would have scored best.

    Parameters
    ----------
    value : float
        T: probabilities raised to the power 1 / T, and normalised, have the lowest log loss. 0 where they could not be
        too sure, infinity where equal probabilities are better.
    log_loss : float
        Log loss at that temperature.
    derivative : array [unit, beta]
        Slope of the log loss along 1 / T on a grid, for the bootstrap.
    """

    value: float
    log_loss: float
    derivative: np.ndarray

    def resampled(self, weights: np.ndarray) -> np.ndarray:
        """Find the best temperature of resamples.

        Parameters
        ----------
        weights : array [resample, unit]
            How often each unit occurs.

        Returns
        -------
        array [resample]
            Within .01 and 100.
        """
        slope = weights @ self.derivative
        # The log loss is convex in 1 / T, so the slope crosses zero once.
        above = np.count_nonzero(slope <= _FLAT * weights.sum(axis=1, keepdims=True), axis=1)
        right = np.clip(above, 1, len(_BETAS) - 1)
        row = np.arange(len(slope))
        low, high = slope[row, right - 1], slope[row, right]
        gap = np.where(high > low, high - low, 1.0)
        part = np.where(above == len(_BETAS), 1.0, np.clip(-low / gap, 0, 1))
        logs = np.log(_BETAS)
        return np.exp(-(logs[right - 1] + part * (logs[right] - logs[right - 1])))


def temper(found: Forecasts, unit: np.ndarray) -> Temperature:
    """Find the temperature that minimises the log loss.

    Parameters
    ----------
    found : Forecasts
        What is scored.
    unit : int array [item]
        Units of the bootstrap.

    Returns
    -------
    Temperature
        NaN where all classes are equally probable on every item, so that no temperature changes anything.
    """
    logs = np.log(np.maximum(found.probability, SMALLEST))
    n_items = len(logs)
    right = logs[np.arange(n_items), found.truth]
    n_units = int(unit.max()) + 1

    def slopes(beta: float) -> np.ndarray:
        return (np.exp(log_softmax(beta * logs, axis=1)) * logs).sum(axis=1) - right

    derivative = np.stack([np.bincount(unit, slopes(beta), n_units) for beta in _BETAS], axis=1)
    total = derivative.sum(axis=0)
    if np.abs(derivative).max() < _FLAT:
        value, best = np.nan, 1.0
    elif total[0] > _FLAT * n_items:
        value, best = np.inf, 0.0
    elif total[-1] <= _FLAT * n_items:
        value, best = 0.0, float(_BETAS[-1])
    else:
        best = float(np.exp(brentq(lambda at: slopes(float(np.exp(at))).sum(), *np.log(_BETAS[[0, -1]]))))
        value = 1 / best
    log_loss = float(-log_softmax(best * logs, axis=1)[np.arange(n_items), found.truth].mean())
    return Temperature(value, log_loss, derivative)
