r"""Two classes: what second moments leave open is an interval, in closed form.

Let :math:`p_m = P(x_m = 1)` and :math:`v_m = \sqrt{d_1 d_2}\,(a_m - b_m)`, with :math:`a_m, b_m` the probabilities of
label 1 given class 1 and 2: the covariance of two workers is :math:`v_m v_l`. For every :math:`\rho = \sqrt{d_2 / d_1}`
between

.. math:: \max_m \max(v_m^+ / p_m,\; v_m^- / (1 - p_m)) \quad\text{and}\quad
          \min_m \begin{cases} (1 - p_m) / v_m & v_m > 0 \\ p_m / |v_m| & v_m < 0 \end{cases}

:math:`a_m = p_m + \rho v_m`, :math:`b_m = p_m - v_m / \rho`, :math:`d_1 = 1 / (1 + \rho^2)` have the same second
moments. The interval shrinks to a point only where some worker is never wrong given class 1 and some worker given class
2. Ibrahim and Fu's "sufficiently scattered" condition is separability for two classes, and no weaker.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Interval", "interval_of", "member"]


class Interval(NamedTuple):
    r"""The parameters that share their second moments.

    Parameters
    ----------
    low, high : float
        Ends of the interval of the root odds :math:`\rho` of the second class.
    p : array [worker]
        Probability of label 1.
    v : array [worker]
        Strength: covariance of label and class over the class's standard deviation.
    """

    low: float
    high: float
    p: np.ndarray
    v: np.ndarray

    @property
    def prevalence(self) -> tuple[float, float]:
        """Smallest and largest prevalence of the first class."""
        return 1 / (1 + self.high**2), 1 / (1 + self.low**2)


def interval_of(confusion: np.ndarray, prevalence: np.ndarray) -> Interval:
    """Find all parameters with the second moments of these.

    Parameters
    ----------
    confusion : array [worker, class, label]
        For two classes and two labels.
    prevalence : array [class]
        Sums to one.

    Returns
    -------
    Interval

    Examples
    --------
    >>> found = interval_of(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]]), np.array([0.5, 0.5]))
    >>> [round(end, 3) for end in found.prevalence]
    [0.377, 0.712]
    """
    a, b = confusion[:, 0, 0], confusion[:, 1, 0]
    p = prevalence[0] * a + prevalence[1] * b
    v = np.sqrt(prevalence[0] * prevalence[1]) * (a - b)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.maximum(np.where(v > 0, v / p, 0.0), np.where(v < 0, -v / (1 - p), 0.0))
        high = np.where(v > 0, (1 - p) / v, np.where(v < 0, p / -v, np.inf))
    return Interval(float(np.nan_to_num(low).max(initial=0.0)), float(high.min(initial=np.inf)), p, v)


def member(interval: Interval, root_odds: float) -> tuple[np.ndarray, np.ndarray]:
    """Give the parameters at one point of the interval.

    Parameters
    ----------
    interval : Interval
        As `interval_of` gives it.
    root_odds : float
        A value between its ends.

    Returns
    -------
    tuple of array
        Confusions [worker, class, label] and prevalence [class].
    """
    a, b = interval.p + root_odds * interval.v, interval.p - interval.v / root_odds
    confusion = np.stack([np.stack([a, 1 - a], axis=-1), np.stack([b, 1 - b], axis=-1)], axis=1)
    first = 1 / (1 + root_odds**2)
    return confusion, np.array([first, 1 - first])
