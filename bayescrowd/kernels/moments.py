r"""Expected logarithms of counts that are sums of independent indicators, from a few moments.

Collapsed methods need :math:`E \log (N + \omega)` where N counts the other items that used a table entry, a sum of
independent terms (Poisson-binomial where every item adds 0 or 1). Three approximations, all from sums over items:

* ``zero``: the logarithm of the mean, :math:`\log(m + \omega)`;
* ``second``: a second-order expansion at the mean, minus :math:`v / 2 (m + \omega)^2`; poor for small :math:`\omega`;
* ``zero-split``: N = 0 apart, whose probability :math:`p_0` is exact, and the expansion for N > 0.

An item that uses the entry c times at once (repeated labels) needs the rising factorial: the logarithm becomes
:math:`\log \Gamma(N + \omega + c) - \log \Gamma(N + \omega)`.

References
----------
Teh, Newman, Welling (2007), A collapsed variational Bayesian inference algorithm for latent Dirichlet allocation; Teh,
Kurihara, Welling (2008), Collapsed variational inference for HDP, for treating N = 0 apart. Generative models for
learning from crowds, arXiv:1706.03930, equations (20) to (22), for the second order.
"""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln, polygamma

__all__ = ["MOMENTS", "expected_log_rising", "n_moments", "own_moments", "quick_log"]

MOMENTS = ("zero", "second", "zero-split")
"""The approximations, by name."""

_SURE = 1 - 1e-12
"""Largest probability whose complement has a usable logarithm."""


def n_moments(moments: str) -> int:
    """Give the number of sums that an approximation needs.

    Parameters
    ----------
    moments : str
        One of `MOMENTS`.

    Returns
    -------
    int
        1 (means), 2 (and variances) or 3 (and logs of the probability of zero).
    """
    return 1 + MOMENTS.index(moments)


def own_moments(probability: Any, moments: str, count: Any = None) -> Any:
    """Compute what one item adds to the sums, which is also what leaving it out takes away.

    Parameters
    ----------
    probability : array
        Probability that the item uses the entry.
    moments : str
        One of `MOMENTS`.
    count : array, optional
        How often it does so at once; 1 without it.

    Returns
    -------
    array [moment, ...]
        Mean ``c x``, variance ``c^2 x (1 - x)``, log probability of zero ``log(1 - x)``.
    """
    one = probability if count is None else probability * count
    parts = [one]
    if n_moments(moments) > 1:
        parts.append(one * (1 - probability) if count is None else one * count * (1 - probability))
    if n_moments(moments) > 2:
        parts.append(jnp.log1p(-jnp.minimum(probability, _SURE)))
    return jnp.stack(parts)


def expected_log_rising(
    sums: Any, omega: Any, moments: str, count: Any = None, steps: int = 0, log_omega: Any = None
) -> Any:
    """Approximate the expected logarithm of the rising factorial of a count.

    Parameters
    ----------
    sums : array [moment, ...]
        Mean, variance and log probability of zero of the count N, as far as the approximation needs them.
    omega : array
        Prior concentration.
    moments : str
        One of `MOMENTS`.
    count : array, optional
        Number of factors: E log of ``(N + omega) (N + omega + 1) ...``; 1 without it (a plain logarithm). Need not be
        whole.
    steps : int
        Where counts are whole and at most this: logarithms are added up one by one, which is faster than gamma
        functions. 0 where they are not.
    log_omega : array, optional
        Logarithm of ``omega``, where it is at hand and counts are 1.

    Returns
    -------
    array
        Expected logarithms.
    """
    mean = jnp.maximum(sums[0], 0.0)
    if moments == "zero":
        return _log_rising(mean + omega, count, steps)
    variance = jnp.maximum(sums[1], 0.0)
    if moments == "second":
        return _log_rising(mean + omega, count, steps) + 0.5 * variance * _curvature(mean + omega, count, steps)
    log_zero = jnp.minimum(sums[2], 0.0)
    some = -jnp.expm1(log_zero)
    log_omega = _log_rising(omega, count, steps) if log_omega is None else log_omega
    safe = jnp.where(some > 1e-300, some, 1.0)
    mean_of_some = jnp.where(some > 1e-300, mean / safe, 1.0)
    variance_of_some = jnp.maximum((variance + mean**2) / safe - mean_of_some**2, 0.0)
    at = mean_of_some + omega
    expansion = _log_rising(at, count, steps) + 0.5 * variance_of_some * _curvature(at, count, steps)
    return (1 - some) * log_omega + some * expansion


def quick_log(x: Any) -> Any:
    """Compute a logarithm in float64 from one in float32 and an exponential, which are several times faster.

    With ``y`` the rough logarithm and ``d = x exp(-y) - 1``, ``y + d - d^2 / 2`` is off by ``d^3 / 3``, far below the
    rounding of float64.

    Parameters
    ----------
    x : array
        Numbers within the range of float32.

    Returns
    -------
    array
        Logarithms.
    """
    x = jnp.asarray(x, float)
    rough = jnp.log(x.astype(jnp.float32)).astype(x.dtype)
    rest = x * jnp.exp(-rough) - 1
    return rough + rest - 0.5 * rest**2


def _log_rising(x: Any, count: Any, steps: int) -> Any:
    if count is None:
        return quick_log(x)
    if steps:
        return sum(jnp.where(step < count, quick_log(x + step), 0.0) for step in range(steps))
    return gammaln(x + count) - gammaln(x)


def _curvature(x: Any, count: Any, steps: int) -> Any:
    if count is None:
        return -1 / x**2
    if steps:
        return sum(jnp.where(step < count, -1 / (x + step) ** 2, 0.0) for step in range(steps))
    return polygamma(1, x + count) - polygamma(1, x)
