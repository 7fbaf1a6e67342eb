"""Which side is which class: gold, ties, small crowds, and the order of rows; and skills that run off."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from baselines import crowds

import bayescrowd as bc
from bayescrowd.errors import ConvergenceWarning

B = bc.baselines
SPECTRAL = {
    "kos": B.kos,
    "kos-svd": lambda labels, **options: B.kos(labels, method="svd", **options),
    "ghosh_svd": B.ghosh_svd,
    "eigen_ratio": B.eigen_ratio,
}
PAIRS = {"pgd": B.pgd, "m_msr": B.m_msr}
spectral = pytest.mark.parametrize("name", SPECTRAL)
paired = pytest.mark.parametrize("name", PAIRS)
each = pytest.mark.parametrize("name", SPECTRAL | PAIRS)


def said(fit):
    return " ".join(fit.idata.attrs["warnings"])


def mostly_wrong(n_gold, n_classes=2, low=0.15):
    """Three good workers, and four who are mostly wrong."""
    random = np.random.default_rng(0)
    truth = random.integers(0, n_classes, 100)
    rows = []
    for worker, right in enumerate([0.9] * 3 + [low] * 4):
        step = np.where(random.random(100) < right, 0, random.integers(1, n_classes, 100))
        rows += [(item, worker, int((truth[item] + step[item]) % n_classes)) for item in range(100)]
    gold = {item: int(truth[item]) for item in range(n_gold)} or None
    return bc.CrowdLabels.from_long(rows, classes=list(range(n_classes)), gold=gold), truth


@each
def test_gold_decides_the_sign(name):
    method = (SPECTRAL | PAIRS)[name]
    labels, truth = mostly_wrong(50)
    fit = method(labels)
    found = fit.consensus()["class"]
    assert (found.loc[50:].to_numpy(int) == truth[50:]).mean() > 0.85
    assert (found.loc[:49].to_numpy(int) == truth[:50]).all()
    assert said(fit).count("Gold decides the sign only") == 1
    assert "contradicts the majority" not in said(fit)
    skill = fit.idata["point_estimate"]["skill"].to_numpy()
    assert skill[:3].min() > 0 > skill[3:].max()
    if name == "eigen_ratio":
        np.testing.assert_allclose(fit.workers()["accuracy"], (1 + skill) / 2)
    plain = method(mostly_wrong(0)[0])
    assert "Gold" not in said(plain)


@each
def test_one_gold_item_turns_nothing(name):
    method = (SPECTRAL | PAIRS)[name]
    labels = crowds.neighbours(1, 60, 12, 6, np.full(12, 0.85))
    plain = method(labels).class_probabilities()
    rows = labels.to_frame()[["item", "worker", "label"]]
    first = plain.index[0]
    wrong = 1 - int(plain.loc[first].to_numpy().argmax())
    turned = method(bc.CrowdLabels.from_long(rows, classes=[0, 1], gold={first: wrong})).class_probabilities()
    assert turned.loc[first].to_numpy().argmax() == wrong
    np.testing.assert_allclose(turned.loc[plain.index[1:]], plain.loc[plain.index[1:]], atol=1e-9)


@paired
def test_positive_signs_stay(name):
    labels, _ = mostly_wrong(50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = PAIRS[name](labels, signs="positive")
    assert fit.idata["point_estimate"]["skill"].min() >= 0
    assert "Gold decides its own items only" in said(fit)


@spectral
def test_items_without_evidence_share_all_ordered_classes(name):
    rows = [(f"a{i}", w, i % 4) for i in range(12) for w in "pqr"]
    rows += [(f"b{i}", w, i % 4) for i in range(8) for w in "xyz"]
    fit = SPECTRAL[name](bc.CrowdLabels.from_long(rows, classes=[0, 1, 2, 3]), ordered=True)
    probability = fit.class_probabilities()
    allowed = {1.0, 0.5, 1 / 3, 0.25}
    for row in probability.to_numpy():
        assert len(set(row[row > 0])) == 1
        assert row.max() in allowed
    if name != "kos":  # messages are passed in both parts of the crowd
        silent = "a" if name == "eigen_ratio" else "b"
        assert (probability.filter(like=silent, axis=0) == 0.25).all(axis=None) or name == "kos-svd"
        shared = (probability == 0.25).all(axis=1)
        assert (fit.consensus(ties="abstain")["class"].isna() == (probability.max(axis=1) < 1)).all()
        assert shared.any() or name == "kos-svd"


@spectral
def test_settings_say_how_classes_were_read(name):
    rows = [(f"a{i}", w, i % 3) for i in range(9) for w in "pqr"]
    codes = np.array([(i, w, i % 3) for i in range(9) for w in range(3)]).T
    said_so = bc.CrowdLabels.from_codes(*codes, classes=[0, 1, 2], ordered=True)
    asked = bc.CrowdLabels.from_long(rows, classes=[0, 1, 2])
    assert '"ordered": true' in SPECTRAL[name](said_so).idata.attrs["settings"]
    assert '"ordered": true' in SPECTRAL[name](asked, ordered=True).idata.attrs["settings"]
    two = bc.CrowdLabels.from_long([(i, w, i % 2) for i in range(4) for w in "pq"], classes=[0, 1])
    assert '"ordered": false' in SPECTRAL[name](two).idata.attrs["settings"]


def test_messages_that_end_upside_down_say_so():
    inverted = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        truth = random.integers(0, 2, 15)
        rows = [(i, w, int(truth[i] if random.random() < 0.8 else 1 - truth[i])) for i in range(15) for w in range(4)]
        labels = bc.CrowdLabels.from_long(rows, classes=[0, 1])
        fit = B.kos(labels)
        vote = labels.to_frame().groupby("item")["label"].mean()
        vote = vote[vote != 0.5]
        other = (fit.class_probabilities().loc[vote.index, 1] - (vote > 0.5)).abs() == 1
        assert ("contradicts the majority" in said(fit)) == (other.mean() > 0.5)
        inverted += bool(other.mean() > 0.5)
    assert inverted >= 3


def drifting():
    c = [0, 1] * 5
    a, b = c.copy(), c.copy()
    for place in (0, 1):
        a[place] = 1 - a[place]
    for place in (2, 3, 4):
        b[place] = 1 - b[place]
    rows = [(i, w, label) for w, said in zip("abc", (a, b, c), strict=True) for i, label in enumerate(said)]
    return bc.CrowdLabels.from_long(rows, classes=[0, 1])


@pytest.mark.parametrize("max_iter", [5, 60, 2000])
def test_skills_that_run_off_are_no_fixed_point(max_iter):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = B.m_msr(drifting(), max_iter=max_iter)
    assert fit.idata.attrs["converged"] == "no"
    skill = fit.idata["point_estimate"]["skill"].to_numpy()
    assert (np.abs(skill) <= 1 - 1 / np.sqrt(10) + 1e-12).all()
    if max_iter > 50:
        assert "without a fixed point" in fit.idata.attrs["status_sentence"]
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        B.m_msr(drifting(), max_iter=max_iter)


BALANCED = [(f"i{i}", f"w{w}", (i + (w >= 2)) % 2) for i in range(12) for w in range(4)]


@paired
def test_a_balanced_crowd_is_decided_by_ids_and_says_so(name):
    fits = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(BALANCED))
        fits.append(PAIRS[name](bc.CrowdLabels.from_long([BALANCED[row] for row in order], classes=[0, 1])))
    first = fits[0].class_probabilities()
    for fit in fits:
        assert "As many labels speak for one side as for the other" in said(fit)
        assert "'w0'" in said(fit)
        np.testing.assert_allclose(fit.class_probabilities().loc[first.index], first, atol=1e-9)
        assert fit.workers().loc["w0", "accuracy"] > 0.5
    # w0 says the parity of an item.
    assert first[1].loc["i1"] > 0.5 > first[1].loc["i0"]
    with_gold = PAIRS[name](bc.CrowdLabels.from_long(BALANCED, classes=[0, 1], gold={"i0": 1}))
    assert with_gold.class_probabilities()[1].loc["i2"] > 0.5
    assert "As many labels" not in said(with_gold)
