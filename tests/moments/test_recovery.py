"""Recovery of simulated parameters, and its rate; `make study` does more of it."""

from __future__ import annotations

import numpy as np
import pytest
from study import recovery, starts

pytestmark = pytest.mark.slow

SIZES = (1000, 5000, 20_000)


@pytest.fixture(scope="module")
def found():
    return {size: recovery.errors(size, 4) for size in SIZES}


@pytest.mark.parametrize("name", recovery.PUBLISHED)
def test_errors_are_within_one_and_a_half_of_the_prototype(name, found):
    for size in SIZES:
        known = recovery.PUBLISHED[name][str(size)]
        # Four crowds: the bound also allows for their own spread.
        slack = 2 * found[size][name].std(ddof=1) / 2
        assert found[size][name].mean() <= 1.5 * known + slack


def test_half_of_the_pairs_missing():
    half = recovery.errors(5000, 4, half=True)
    for name, values in half.items():
        assert np.median(values) <= 1.5 * recovery.PUBLISHED[name]["half"] + values.std(ddof=1)


def test_errors_fall_with_the_number_of_items(found):
    curve = [found[size]["any + 10 passes of EM"] for size in SIZES]
    assert recovery.slope(SIZES, curve) == pytest.approx(-1, abs=0.15)
    curve = [np.median(found[size]["multispa, best order of each worker"]) for size in SIZES]
    assert (np.diff(curve) < 0).all()  # it has a floor: no label is a perfect certificate


@pytest.mark.parametrize("name", ["prevalence .7, .2, .1", "zeros, prevalence .7, .2, .1"])
def test_errors_fall_with_the_rate_of_efficient_estimators(name):
    sizes = (1000, 4000, 16_000)
    errors = recovery.rates(recovery.SETTINGS[name], sizes, 4)
    for method in ("em", "vb", *(["multispa-kl"] if name.startswith("zeros") else [])):
        assert recovery.slope(sizes, errors[method]) == pytest.approx(-1, abs=0.15)
    if not name.startswith("zeros"):
        # Second moments leave a rotation open, so KL need not reach what the likelihood reaches.
        assert np.median(errors["multispa-kl"][-1]) > np.median(errors["em"][-1])


def test_moments_lead_em_where_majority_is_wrong_for_a_class():
    table = starts.compare(6, "hard")
    assert table["majority"]["vote"] < 0.2
    reached = {name: row["reached"] for name, row in table.items()}
    assert reached["multispa-kl"] >= 5
    assert reached["multispa-kl"] >= max(reached["majority"], reached["random"])
