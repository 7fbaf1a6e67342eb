"""Reports from users of other tools that concern moment estimators; numbers P.. of the collection."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.errors import EngineError

ENGINES = ["multispa", "multispa-kl", "symnmf"]


def from_patterns(patterns, classes=(0, 1)):
    """Labels from response patterns and their counts."""
    rows = [
        (f"{pattern}-{number}", f"w{worker}", int(label))
        for pattern, count in patterns.items()
        for number in range(count)
        for worker, label in enumerate(pattern)
    ]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    return bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", classes=list(classes))


def finite(fit):
    point = fit.idata["point_estimate"].dataset
    confusion = point["confusion"].to_numpy()
    assert np.isfinite(confusion).all()
    assert ((confusion >= 0) & (confusion <= 1)).all()
    table = fit.workers()
    assert table["accuracy"].between(0, 1).all()
    assert np.isfinite(fit.class_probabilities().to_numpy()).all()


def test_p22_two_workers():
    labels = from_patterns({"11": 2, "00": 2, "01": 1, "10": 1})
    with pytest.raises(EngineError, match="at least three workers must have items in common"):
        bc.fit(labels, engine="symnmf")
    for engine in ("multispa", "multispa-kl"):
        finite(bc.fit(labels, engine=engine))
    report = bc.identifiability(labels)
    assert "alone determine no confusion matrix" in report.headline
    assert any("Only two workers" in finding.text for finding in report.findings)


CASES = {
    "copies and an independent coin": {"110": 50, "111": 50, "000": 50, "001": 50},
    "one negative covariance": {"111": 30, "110": 60, "101": 20, "011": 5, "000": 30, "001": 60, "010": 20, "100": 5},
    "a worker who never varies": {"111": 60, "101": 30, "011": 20, "001": 60},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_p23_moments_outside_the_model(engine, case):
    labels = from_patterns(CASES[case])
    fit = bc.fit(labels, engine=engine)
    finite(fit)
    codes = {finding.code for finding in fit.diagnose().findings}
    assert "common-items" in codes
    if case == "a worker who never varies":
        assert "rank-one" in codes


P24 = {
    "111": 255, "110": 115, "101": 75, "100": 55, "000": 255, "001": 115, "010": 75, "011": 55,
}  # fmt: skip


def test_p24_three_workers_with_a_known_answer():
    labels = from_patterns(P24)
    pairs = bc.fit(labels, engine="multispa-kl", max_iter=2000, prior=0.0, tolerance=0.0)
    agree = {}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = (pairs.idata["point_estimate"]["confusion"].to_numpy()[w] for w in (one, other))
        share = pairs.idata["point_estimate"]["prevalence"].to_numpy()
        agree[one, other] = 2 * np.einsum("k,kl,kl->", share, a, b) - 1
    # The second moments that the fit reproduces: .48, .32 and .24 as covariances of answers coded -1, 1.
    np.testing.assert_allclose(list(agree.values()), [0.48, 0.32, 0.24], atol=1e-4)
    report = bc.identifiability(labels)
    assert report.interval is not None
    assert report.interval[0] <= 0.5 <= report.interval[1]
    for start in ("majority", *ENGINES):
        em = bc.fit(labels, bc.DawidSkene(), engine="em", init=start)
        assert em.workers()["accuracy"].to_numpy() == pytest.approx([0.9, 0.8, 0.7], abs=2e-3)
        assert em.idata["optimization"]["objective"].to_numpy()[-1] == pytest.approx(-1901.9466, abs=1e-3)
        table = em.class_probabilities()[1]
        for pattern, expected in {"100": 0.49091, "101": 0.84, "110": 0.93913}.items():
            assert table[f"{pattern}-0"] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_p76_twelve_classes_are_named_by_assignment(engine):
    random = np.random.default_rng(0)
    truth = random.integers(12, size=500)
    rows = [
        (i, w, int(truth[i]) if random.random() < 0.7 else int(random.integers(12)))
        for i in range(500)
        for w in range(20)
    ]
    labels = bc.CrowdLabels.from_long(
        pd.DataFrame(rows, columns=["item", "worker", "label"]), item="item", worker="worker", label="label"
    )
    fit = bc.fit(labels, engine=engine)  # trying 12! permutations would never end
    assert (fit.consensus()["class"].to_numpy() == truth).mean() > 0.97
