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
    for name in ("multispa-kl", "any + 10 passes of EM"):
        curve = [np.median(found[size][name]) for size in SIZES]
        slope = np.polyfit(np.log(SIZES), np.log(curve), 1)[0]
        assert slope == pytest.approx(-1, abs=0.25)
    curve = [np.median(found[size]["multispa, best order of each worker"]) for size in SIZES]
    assert (np.diff(curve) < 0).all()  # it has a floor: no label is a perfect certificate


def test_moments_lead_em_where_majority_is_wrong_for_a_class():
    table = starts.compare(6, "hard")
    assert table["majority"]["vote"] < 0.2
    reached = {name: row["reached"] for name, row in table.items()}
    assert reached["multispa-kl"] >= 5
    assert reached["multispa-kl"] >= max(reached["majority"], reached["random"])
