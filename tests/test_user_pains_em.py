"""Small tables with known answers, for the engines that climb: EM, and the majority vote it starts from.

The id in a test's name is the report's. Values are printed results of independent code, or the oracle's plain EM.
"""

from __future__ import annotations

import time

import numpy as np
import oracle
import pandas as pd
import pytest
from oracle import problem
from running import of_rows

import bayescrowd as bc
from bayescrowd.inference.starts import majority

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def p1(fit):
    """Probability of the second class by item."""
    return fit.class_probabilities().iloc[:, 1].to_numpy()


def test_P14_grouped_counts_are_their_items():
    table = pd.DataFrame({"x": [1, 1, 0, 0, 0], "y": [1, 1, 0, 0, 1], "z": [1, 0, 0, 1, 0], "n": [40, 10, 30, 12, 0]})
    grouped = bc.CrowdLabels.from_counts(table)
    assert grouped.n_items == 92
    rows, item = [], 0
    for x, y, z, n in table.itertuples(index=False):
        for _ in range(n):
            rows += [(item, 0, x), (item, 1, y), (item, 2, z)]
            item += 1
    one = bc.fit(grouped, R31, objective="posterior", progress=False, engine="em")
    other = bc.fit(of_rows(rows), R31, objective="posterior", progress=False, engine="em")
    np.testing.assert_allclose(p1(one), p1(other), atol=1e-6)
    by_pattern = one.class_probabilities(by="pattern")
    assert len(by_pattern) == 4
    plain = oracle.em(problem(rows), confusion=oracle.diagonal(2, 2, 3, 1))
    np.testing.assert_allclose(p1(other), plain.probability[:, 1], atol=1e-4)


def test_P24_the_known_answer_of_three_workers():
    table = pd.DataFrame(
        {
            "x": [1, 1, 1, 1, 0, 0, 0, 0],
            "y": [1, 1, 0, 0, 0, 0, 1, 1],
            "z": [1, 0, 1, 0, 0, 1, 0, 1],
            "n": [255, 115, 75, 55, 255, 115, 75, 55],
        }
    )
    options = {"tolerance": 1e-15, "change_tolerance": 1e-10, "max_iter": 20_000}
    fit = bc.fit(bc.CrowdLabels.from_counts(table), progress=False, engine="em", **options)
    assert fit.idata["optimization"]["objective"].to_numpy()[-1] == pytest.approx(-1901.9466, abs=5e-5)
    points = fit.idata["point_estimate"]
    np.testing.assert_allclose(points["prevalence"], 0.5, atol=1e-4)
    diagonal = np.diagonal(points["confusion"].to_numpy(), axis1=1, axis2=2)
    np.testing.assert_allclose(diagonal, [[0.9, 0.9], [0.8, 0.8], [0.7, 0.7]], atol=1e-4)
    by_pattern = fit.class_probabilities(by="pattern").iloc[:, 1].to_numpy()
    np.testing.assert_allclose(by_pattern[[3, 2, 1]], [0.49091, 0.84, 0.93913], atol=1e-4)


def test_P31_ties_do_not_depend_on_the_order_of_rows():
    rows = pd.DataFrame(
        [
            ["t1", "w1", "b"],
            ["t1", "w2", "a"],
            ["t2", "w1", "a"],
            ["t2", "w2", "b"],
            ["t3", "w1", "b"],
            ["t3", "w2", "b"],
        ],
        columns=["item", "worker", "label"],
    )
    found = []
    for seed in range(6):
        labels = bc.CrowdLabels.from_long(rows.sample(frac=1, random_state=seed))
        shares = pd.DataFrame(majority(labels), index=labels.items, columns=labels.classes)
        np.testing.assert_allclose(shares.loc[["t1", "t2"]], 0.5)
        found.append(
            bc.fit(labels, R31, objective="posterior", progress=False, engine="em").consensus().loc[["t1", "t2", "t3"]]
        )
    assert found[0]["tie"].tolist() == [True, True, False]
    assert found[0]["majority"].tolist() == ["a", "a", "b"]
    for other in found[1:]:
        assert other["majority"].tolist() == found[0]["majority"].tolist()
        assert other["class"].tolist() == found[0]["class"].tolist()


@pytest.fixture(scope="module")
def anesthesia():
    return bc.datasets.load("anesthesia")


def test_P35_anesthesia_by_em(anesthesia):
    fit = bc.fit(anesthesia, progress=False, engine="em")
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert np.diff(objective).min() >= -1e-9
    assert objective[-1] == pytest.approx(-192.8909, abs=1e-4)
    np.testing.assert_allclose(fit.idata["point_estimate"]["prevalence"], [0.3996, 0.4220, 0.1118, 0.0667], atol=1e-4)
    consensus = fit.consensus()
    table = fit.labels.to_frame()
    votes = pd.crosstab(table["item"], table["label"])
    differs = [
        item for item in consensus.index if votes.loc[item, consensus.loc[item, "class"]] < votes.loc[item].max()
    ]
    tied = consensus.index[consensus["tie"]].tolist()
    assert sorted(set(differs) | set(tied)) == [2, 12, 36]
    assert 12 in tied
    probabilities = fit.class_probabilities()
    assert probabilities.loc[2, 4] > 0.99
    assert probabilities.loc[36, 4] > 0.99


def test_P35_a_loop_that_stops_early_says_so(anesthesia):
    with pytest.warns(bc.ConvergenceWarning):
        fit = bc.fit(anesthesia, max_iter=5, progress=False, engine="em")
    assert fit.converged is False


def adversaries():
    """300 items; three workers right with .8, two with .1."""
    r = np.random.default_rng(2)
    z = r.integers(0, 2, 300)
    rows = []
    for i in range(300):
        for k in range(5):
            right = r.random() < (0.8 if k < 3 else 0.1)
            rows.append((i, k, z[i] if right else 1 - z[i]))
    return z, rows


def test_P36_adversaries_are_used():
    z, rows = adversaries()
    fit = bc.fit(of_rows(rows), progress=False, engine="em")
    consensus = fit.consensus()
    assert (consensus["class"].to_numpy() == z).mean() >= 0.96
    assert (consensus["majority"].to_numpy() == z).mean() == pytest.approx(0.553, abs=0.002)
    accuracy = fit.workers()["accuracy"]
    assert accuracy.iloc[:3].between(0.72, 0.88).all()
    assert accuracy.iloc[3:].between(0.05, 0.12).all()


def imbalanced():
    """2000 items, one in a hundred positive, ten workers of accuracy .85, five labels per item."""
    r = np.random.default_rng(0)
    z = r.choice(2, size=2000, p=[0.99, 0.01])
    rows = []
    for i in range(2000):
        for k in r.choice(10, size=5, replace=False):
            rows.append((i, k, z[i] if r.random() < 0.85 else r.choice([c for c in range(2) if c != z[i]])))
    return z, rows


def test_P37_a_rare_class_does_not_vanish():
    z, rows = imbalanced()
    fit = bc.fit(of_rows(rows), progress=False, engine="em")
    consensus = fit.consensus()
    voted = consensus["majority"].to_numpy() == 1
    assert (voted.sum(), z.sum()) == (82, 21)
    said = consensus["class"].to_numpy() == 1
    assert 20 <= said.sum() <= 28
    assert z[said].mean() == pytest.approx(0.79, abs=0.06)
    assert said[z == 1].mean() == pytest.approx(0.90, abs=0.06)
    assert 0.012 <= float(fit.idata["point_estimate"]["prevalence"][1]) <= 0.014


def test_P94_not_converged_is_told():
    _, rows = imbalanced()
    with pytest.warns(bc.ConvergenceWarning, match="did not converge"):
        fit = bc.fit(of_rows(rows), max_iter=2, progress=False, engine="em")
    assert fit.converged is False
    assert fit.class_probabilities().shape == (2000, 2)
    with pytest.raises(bc.EngineError, match="did not converge"):
        bc.fit(of_rows(rows), max_iter=2, progress=False, on_failure="raise", engine="em")


def test_P78_the_second_fit_is_quick():
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(12):
        rows = [
            (i, k, int(rng.random() < 0.8) ^ (i % 2))
            for i in range(50)
            for k in range(5)
            if rng.random() < 0.9 or k == 0
        ]
        tables.append(of_rows(rows, items=list(range(50)), workers=list(range(5))))
    seconds = []
    for labels in tables:
        begun = time.process_time()
        bc.fit(labels, progress=False, engine="em")
        seconds.append(time.process_time() - begun)
    assert np.median(seconds[2:]) < 0.2


def test_P79_hundreds_of_items_are_no_sites():
    rng = np.random.default_rng(1)
    rows = [(i, k, int(rng.integers(2))) for i in range(200) for k in range(3)]
    fit = bc.fit(of_rows(rows), R31, objective="posterior", progress=False, engine="em")
    assert fit.class_probabilities().shape == (200, 2)
