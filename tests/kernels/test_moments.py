"""Approximate expected logarithms of counts, against exact Poisson-binomials and plain formulas."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pairwise
import pytest

from bayescrowd.kernels import moments as maths
from bayescrowd.kernels.precision import double_precision


def counts_of(p):
    """Distribution of the number of successes."""
    total = np.ones(1)
    for one in p:
        total = np.convolve(total, [1 - one, one])
    return total


def exact(p, omega, count=1):
    """E log rising(N + omega, count)."""
    return float(counts_of(p) @ pairwise.log_rising(np.arange(len(p) + 1) + omega, count))


def approximate(p, omega, moments, count=None, steps=0):
    """The same from the sums."""
    with double_precision():
        # Zeros to a common length: they add nothing, and nothing is compiled anew.
        sums = maths.own_moments(jnp.asarray(np.pad(p, (0, 256 - len(p)))), moments).sum(1)
        many = None if count is None else jnp.asarray(float(count))
        return float(maths.expected_log_rising(sums, jnp.asarray(float(omega)), moments, many, steps))


def trials(mean, rng):
    """Probabilities with a given mean sum, even or uneven."""
    n = max(int(np.ceil(mean * rng.uniform(1.3, 6))), 2)
    p = rng.dirichlet(np.full(n, rng.choice([0.5, 2.0, 50.0]))) * mean
    return np.minimum(p, 1.0)


@pytest.mark.parametrize("mean", [0.05, 0.5, 2, 5, 20])
@pytest.mark.parametrize("omega", [0.01, 0.1, 0.5, 1, 2])
def test_zero_split_is_within_two_hundredths_of_a_nat(omega, mean):
    rng = np.random.default_rng(3)
    for _ in range(40):
        p = trials(mean, rng)
        assert approximate(p, omega, "zero-split") == pytest.approx(exact(p, omega), abs=0.02)


TABLE = [
    # omega, mean, errors of zero, second and zero-split
    (0.01, 0.05, 1.8, 9.5, 0.000),
    (0.1, 0.5, 0.77, 0.23, 0.010),
    (0.5, 2, 0.20, 0.04, 0.007),
    (1, 0.5, 0.11, 0.02, 0.003),
    (1, 20, 0.013, 0.000, 0.000),
]


@pytest.mark.parametrize(("omega", "mean", "zero", "second", "split"), TABLE)
def test_the_errors_are_of_the_known_size(omega, mean, zero, second, split):
    """The largest errors over crowds of items whose counts have about this mean."""
    rng = np.random.default_rng(0)
    worst = dict.fromkeys(maths.MOMENTS, 0.0)
    for around in np.linspace(0.5, 1.2, 12):
        n = max(int(1.5 * mean), 10)
        p = rng.random(n)
        p = np.clip(p * around * mean / p.sum(), 0, 1)
        for moments in maths.MOMENTS:
            worst[moments] = max(worst[moments], abs(approximate(p, omega, moments) - exact(p, omega)))
    for moments, known in zip(maths.MOMENTS, (zero, second, split), strict=True):
        assert worst[moments] == pytest.approx(known, rel=0.5, abs=0.012), moments
    assert worst["zero-split"] < min(worst["zero"], worst["second"] + 0.001)


@pytest.mark.parametrize("moments", maths.MOMENTS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_adding_up_logarithms_is_gamma_functions(moments, count):
    p = np.random.default_rng(1).random(9)
    by_step = approximate(p, 0.7, moments, count, steps=6)
    assert by_step == pytest.approx(approximate(p, 0.7, moments, count), rel=1e-12)
    if count == 1:
        assert by_step == pytest.approx(approximate(p, 0.7, moments), rel=1e-14)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_zero_split_of_rising_factorials(count):
    rng = np.random.default_rng(2)
    for mean in (0.1, 1, 4):
        p = trials(mean, rng)
        assert approximate(p, 0.3, "zero-split", count, 4) == pytest.approx(exact(p, 0.3, count), abs=0.03)


@pytest.mark.parametrize("moments", maths.MOMENTS)
def test_nobody_else_and_everybody_for_sure(moments):
    """Sums of nothing, and of certainties, are exact."""
    for p in (np.zeros(3), np.ones(4), np.array([1.0, 0.0, 1.0])):
        for omega in (0.01, 1.0):
            assert approximate(p, omega, moments) == pytest.approx(np.log(p.sum() + omega), abs=1e-10)


def test_rounding_below_zero_does_no_harm():
    """What is left of sums after leaving out may be a hair below zero."""
    with double_precision():
        for moments in maths.MOMENTS:
            sums = jnp.asarray([-1e-17, -1e-17, 1e-17])[: maths.n_moments(moments)]
            assert float(maths.expected_log_rising(sums, jnp.asarray(0.5), moments)) == pytest.approx(np.log(0.5))


def test_what_one_item_adds_when_it_counts_several_times():
    with double_precision():
        mean, variance, log_zero = maths.own_moments(jnp.asarray([0.25]), "zero-split", jnp.asarray([3.0]))
    assert float(mean[0]) == 0.75
    assert float(variance[0]) == pytest.approx(9 * 0.25 * 0.75)
    assert float(log_zero[0]) == pytest.approx(np.log(0.75))
    assert [maths.n_moments(name) for name in maths.MOMENTS] == [1, 2, 3]
