"""How far observed labels are from replications, given draws of the parameters, and how surprising that is."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

__all__ = ["Compared", "combine", "compare", "discrepancies", "rank_p_value"]

_KAPPA = 0.2
"""Hartung's allowance for an estimated correlation."""

_BLOCK = 2**21
"""Numbers that are looked at in one go."""

_ROUNDING = 1e-9


class Compared(NamedTuple):
    """A discrepancy and what replications say of it.

    Parameters
    ----------
    discrepancy : float
        Of the observed labels, averaged over draws of the parameters.
    replicated : array [replication]
        Of the replications.
    p_value : float
        Combined over draws of the parameters; NaN where nothing varies.
    ppp : float
        Mean over draws of the parameters: the usual posterior predictive p-value.
    """

    discrepancy: float
    replicated: np.ndarray
    p_value: float
    ppp: float


def compare(replicated: np.ndarray, observed: np.ndarray) -> Compared:
    """Compare observed numbers with replicated ones.

    Parameters
    ----------
    replicated : array [draw, replication, number]
        Several replications (at least two) for every draw of the parameters.
    observed : array [number]
        Of the labels.

    Returns
    -------
    Compared
    """
    n_draws, n_each = replicated.shape[:2]
    of_observed, of_replicated = discrepancies(replicated, observed)
    flat = of_replicated.ravel()
    if np.isnan(flat).any():
        return Compared(float("nan"), flat, float("nan"), float("nan"))
    # Given its draw a discrepancy has nearly the same distribution at every draw, so all replications serve for each.
    p_value = np.array([rank_p_value(flat, value) for value in of_observed])
    smallest = 1 / (n_draws * n_each + 1)
    return Compared(float(of_observed.mean()), flat, combine(p_value, smallest), float(p_value.mean()))


def discrepancies(replicated: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean squared standardised deviations from what each draw of the parameters expects.

    Every replication is compared with the mean of the others of its draw, and the observed numbers with the mean of
    all of it; both are scaled for the noise of these means.

    Parameters
    ----------
    replicated : array [draw, replication, number]
        Of the replications.
    observed : array [number]
        Of the labels.

    Returns
    -------
    array [draw]
        Of the labels; NaN where no number ever varies.
    array [draw, replication]
        Of the replications.
    """
    n_draws, n_each, n_values = replicated.shape
    of_observed, of_replicated = np.zeros(n_draws), np.zeros((n_draws, n_each))
    n_live = 0
    width = max(_BLOCK // (n_draws * n_each), 1)
    for first in range(0, n_values, width):
        part = replicated[:, :, first : first + width].astype(float)
        mean = part.mean(axis=1)
        own = (part - mean[:, None]) ** 2 * (n_each / (n_each - 1))
        gap = (observed[first : first + width].astype(float) - mean) ** 2 * (n_each / (n_each + 1))
        # The labels are one more set: what no replication shows is no more than one in so many.
        variance = (own.sum(axis=(0, 1)) + gap.mean(axis=0)) / (n_draws * n_each + 1)
        size = np.abs(part).max(axis=(0, 1), initial=0.0) + np.abs(observed[first : first + width])
        live = variance > (_ROUNDING * size) ** 2
        n_live += int(live.sum())
        of_observed += (gap[:, live] / variance[live]).sum(axis=1)
        of_replicated += (own[:, :, live] / variance[live]).sum(axis=2)
    if n_live == 0:
        return np.full(n_draws, np.nan), np.full((n_draws, n_each), np.nan)
    return of_observed / n_live, of_replicated / n_live


def rank_p_value(replicated: np.ndarray, observed: float) -> float:
    """Share of values that are at least as large as the observed one, itself included.

    Parameters
    ----------
    replicated : array [replication]
        Of the replications.
    observed : float
        Of the labels.

    Returns
    -------
    float
        At least 1 / (number of replications + 1).
    """
    as_large = np.count_nonzero(replicated >= observed - _ROUNDING * abs(observed))
    return (1 + as_large) / (1 + len(replicated))


def combine(p_values: np.ndarray, smallest: float) -> float:
    """Combine p-values of the same labels, one for each draw of the parameters, by Hartung's test.

    Parameters
    ----------
    p_values : array [draw]
        Each uniform where the model is right; dependent.
    smallest : float
        Smallest p-value that the number of replications allows.

    Returns
    -------
    float
        Between ``smallest`` and 1.

    References
    ----------
    Hartung (1999), A note on combining dependent tests of significance, Biometrical Journal 41.
    """
    if len(p_values) == 1:
        return float(max(p_values[0], smallest))
    score = -ndtri(np.clip(p_values, smallest, 1 - smallest))
    n = len(score)
    # Scores have variance one; what they do not vary within is what they share. They cannot share less than nothing.
    correlation = np.clip(1 - score.var(ddof=1), 0.0, 1.0)
    allowance = _KAPPA * np.sqrt(2 / (n + 1)) * (1 - correlation)
    combined = score.mean() / np.sqrt((1 - correlation) / n + correlation + allowance)
    return float(np.clip(ndtr(-combined), smallest, 1.0))
