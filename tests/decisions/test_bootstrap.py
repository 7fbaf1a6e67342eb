from __future__ import annotations

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.bootstrap import _resample
from bayescrowd.errors import EngineError


def test_intervals_of_a_point_estimate() -> None:
    fit = fitted.anesthesia_em()
    report = fit.workers(bootstrap=12, seed=1)
    assert (report["accuracy_lower"] <= report["accuracy_upper"]).all()
    assert (report["accuracy_lower"] <= report["accuracy"] + 0.05).all()
    assert (report["accuracy_upper"] >= report["accuracy"] - 0.05).all()
    assert report["p_adversary"].between(0, 1).all()
    assert "12 refits to resampled items (bootstrap)" in report.attrs["intervals"]
    # The estimate itself is that of the fit.
    assert report["accuracy"].equals(fit.workers()["accuracy"])


def test_same_seed_same_intervals() -> None:
    first, again, other = (fitted.em().workers(bootstrap=3, seed=seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)


def test_the_width_is_about_right() -> None:
    random = np.random.default_rng(0)
    n_items = 400
    truth = random.integers(2, size=n_items)
    rate = np.array([0.9, 0.8, 0.75])
    said = np.where(random.random((n_items, 3)) < rate, truth[:, None], 1 - truth[:, None])
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(n_items), 3), np.tile(np.arange(3), n_items), said.ravel(), classes=2
    )
    report = bc.fit(labels, engine="em").workers(bootstrap=25, interval=0.8)
    width = report["accuracy_upper"] - report["accuracy_lower"]
    # With known truth the width would be 2 * 1.28 * sqrt(p (1 - p) / n), about .05; unknown truth widens it.
    assert width.between(0.03, 0.25).all()


def test_resampling_keeps_an_items_labels_together() -> None:
    labels = CrowdLabels.from_codes(
        [2, 0, 0, 1, 2],
        [0, 1, 0, 2, 1],
        [0, 1, 2, 0, 1],
        classes=2,
        label_values=3,
        weight=[1, 2, 3, 4, 5],
        gold_code=[1, -1, 0],
    )
    again = _resample(labels, np.array([2, 2, 0]))
    found = [
        sorted(zip(again.worker_code[rows], again.label_code[rows], again.weight[rows], strict=True))
        for rows in (again.item_code == item for item in range(3))
    ]
    assert found == [[(0, 0, 1), (1, 1, 5)], [(0, 0, 1), (1, 1, 5)], [(0, 2, 3), (1, 1, 2)]]
    assert again.gold_code.tolist() == [0, 0, 1]


def test_too_few_refits() -> None:
    with pytest.raises(EngineError, match="at least 2"):
        fitted.em().workers(bootstrap=1)
