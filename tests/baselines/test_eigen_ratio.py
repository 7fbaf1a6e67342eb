"""Dalvi and others' ratio of eigenvectors against dense matrices, simulated crowds and published figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import EngineError, LabelError


def crowd(seed, n_items, n_workers, per_item, right, n_classes=2):
    """Items labelled by random workers who are right with the probabilities given, else name a neighbour."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_items)
    rows = []
    for item in range(n_items):
        for worker in random.choice(n_workers, per_item, replace=False):
            step = 1 if truth[item] == 0 else -1 if truth[item] == n_classes - 1 else random.choice([-1, 1])
            rows.append((item, worker, int(truth[item] + (0 if random.random() < right[worker] else step))))
    return bc.CrowdLabels.from_codes(
        *np.array(rows).T, items=n_items, workers=n_workers, classes=n_classes, truth=dict(enumerate(truth.tolist()))
    )


def answers_of(labels, threshold=0):
    answers = np.zeros((labels.n_items, labels.n_workers))
    answers[labels.item_code, labels.worker_code] = np.where(labels.label_code > threshold, 1, -1)
    return answers


def score(fit):
    return fit.idata["point_estimate"]["score"].to_numpy()


def by_dense_matrices(labels, threshold=0, weights=False):
    answers = answers_of(labels, threshold)
    common = np.abs(answers).T @ np.abs(answers)
    value, vector = np.linalg.eigh(np.where(common > 0, answers.T @ answers / np.where(common > 0, common, 1), 0))
    value_beside, vector_beside = np.linalg.eigh((common > 0).astype(float))
    weight = np.sqrt(value[-1] / value_beside[-1]) * vector[:, -1] / vector_beside[:, -1]
    u = answers @ weight
    sign = 1 if u @ answers.sum(axis=1) >= 0 else -1
    return sign * weight if weights else sign * u


@pytest.mark.parametrize("n_workers", [12, 450])  # the latter by Lanczos iterations
def test_equals_a_dense_decomposition(n_workers):
    labels = crowd(
        1, 60 if n_workers == 12 else 300, n_workers, 6 if n_workers == 12 else 30, np.linspace(0.5, 0.95, n_workers)
    )
    known = by_dense_matrices(labels)
    fit = bc.baselines.eigen_ratio(labels)
    np.testing.assert_allclose(score(fit), known / np.abs(known).max(), atol=1e-9)
    weight = np.clip(by_dense_matrices(labels, weights=True), -1, 1)
    np.testing.assert_allclose(fit.workers()["skill"], weight, atol=1e-8)
    np.testing.assert_allclose(fit.workers()["accuracy"], (1 + weight) / 2, atol=1e-8)


def test_recovery_of_one_coin_workers_and_adversaries():
    """Workers' accuracies too, though labels are missing, more of them from some workers than from others."""
    right = np.concatenate([np.full(10, 0.95), np.full(14, 0.6), np.full(6, 0.1)])
    labels = crowd(4, 3000, 30, 15, right)
    frame = labels.to_frame()
    rare = (frame["worker"].astype(int) % 3 == 0) & (np.random.default_rng(0).random(len(frame)) < 0.7)
    frame = frame[~rare].assign(truth=frame["item"].map(labels.truth))
    labels = bc.CrowdLabels.from_long(frame[["item", "worker", "label", "truth"]], truth="truth", classes=[0, 1])
    fit = bc.baselines.eigen_ratio(labels)
    assert hits(fit.class_probabilities(), labels.truth) > 0.98
    found = fit.workers()["accuracy"]
    np.testing.assert_allclose(found, right[found.index.astype(int)], atol=0.06)


def test_thresholds_of_ordered_classes():
    labels = crowd(2, 60, 12, 6, np.full(12, 0.7), n_classes=4)
    above = np.array([by_dense_matrices(labels, threshold) > 0 for threshold in range(3)])
    known = [next((level for level in range(3) if not above[level, item]), 3) for item in range(60)]
    fit = bc.baselines.eigen_ratio(labels, ordered=True)
    assert fit.class_probabilities().to_numpy().argmax(axis=1).tolist() == known
    assert hits(fit.class_probabilities(), labels.truth) > 0.8
    assert fit.workers()["skill"].between(-1, 1).all()


def test_a_weight_is_a_number_of_equal_labels_and_of_equal_items():
    base = crowd(5, 40, 10, 5, np.linspace(0.6, 0.95, 10))
    rows = base.to_frame()[["item", "worker", "label"]]
    weight = 1 + rows["item"].astype(int) % 3
    weighted = bc.CrowdLabels.from_long(rows.assign(weight=weight), weight="weight", classes=[0, 1])
    repeated = bc.CrowdLabels.from_long(rows.loc[rows.index.repeat(weight)], classes=[0, 1], duplicates="keep")
    copies = [rows[weight > copy].assign(item=rows["item"].astype(str) + f"/{copy}") for copy in range(3)]
    copied = bc.CrowdLabels.from_long(pd.concat(copies), classes=[0, 1])
    fits = {
        name: bc.baselines.eigen_ratio(labels)
        for name, labels in (("weighted", weighted), ("repeated", repeated), ("copied", copied))
    }
    found = {name: fit.class_probabilities()[1] for name, fit in fits.items()}
    assert found["repeated"][found["weighted"].index].equals(found["weighted"])
    assert found["copied"][[f"{i}/0" for i in found["weighted"].index]].tolist() == found["weighted"].tolist()
    skills = [fit.workers()["skill"] for fit in fits.values()]
    for skill in skills[1:]:
        np.testing.assert_allclose(skill[skills[0].index], skills[0], atol=1e-9)


STRANGE = {
    "one item": [(0, 0, 0), (0, 1, 1), (0, 2, 1)],
    "one worker": [(0, 0, 0), (1, 0, 1), (2, 0, 1)],
    "one label": [(0, 0, 0)],
    "agreed": [(i, w, 1) for i in range(2) for w in range(3)],
    "opposed": [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
    "apart": [(0, 0, 0), (1, 1, 1)],
    "never both": [(i, w, w) for i in range(3) for w in range(2)],
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(name):
    fit = bc.baselines.eigen_ratio(bc.CrowdLabels.from_codes(*np.array(STRANGE[name]).T, classes=["n", "y"]))
    probability = fit.class_probabilities().to_numpy()
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert fit.workers()["skill"].between(-1, 1).all()
    if name in ("agreed", "one label"):
        assert (probability[:, 1] == (name == "agreed")).all()
    if name == "opposed":
        assert (probability == 0.5).all()
        assert "says nothing of 2 of the 2 items" in str(fit.idata.attrs["warnings"])


def test_gold_silent_items_and_labels_that_are_no_class():
    rows = [(f"i{i}", w, "y" if i % 2 else "n") for i in range(6) for w in "abc"] + [("silent", "d", "?")]
    labels = bc.CrowdLabels.from_long(rows, classes=["n", "y"], labels=["n", "y", "?"], gold={"i0": "y"})
    probability = bc.baselines.eigen_ratio(labels).class_probabilities()
    assert probability.loc["silent"].tolist() == [0.5, 0.5]
    assert probability.loc[["i0", "i1", "i2"], "y"].tolist() == [1, 1, 0]


def test_refusals():
    with pytest.raises(EngineError, match="two classes, and these labels have 4: 1, 2, 3, 4.*ordered=True"):
        bc.baselines.eigen_ratio(bc.datasets.load("anesthesia"))
    with pytest.raises(LabelError, match="baselines.eigen_ratio takes a CrowdLabels"):
        bc.baselines.eigen_ratio([("i", "a", 1)])


def errors(fit, labels):
    """Percent wrong with ties shared, and as published code has it, where an item of score zero has the last class."""
    probability, truth = fit.class_probabilities(), labels.truth.dropna()
    shared = 100 * (1 - hits(probability, truth))
    lead = probability.loc[truth.index].to_numpy()[:, ::-1].argmax(axis=1)
    return shared, 100 * float((probability.columns.to_numpy()[::-1][lead] != truth.to_numpy()).mean())


KNOWN = {"bluebird": 27.78, "rte": 9.00, "dog": 17.22, "web": 24.84}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_published_figures(name, unrepeated):
    labels = unrepeated(name)
    found = errors(bc.baselines.eigen_ratio(labels, ordered=labels.n_classes > 2), labels)
    assert list(found) == pytest.approx([KNOWN[name]] * 2, abs=0.0051)


@pytest.mark.realdata
@pytest.mark.slow
def test_the_published_figure_of_trec_is_that_of_the_last_class(unrepeated):
    """Two workers who share no item with others make every score 0 / 0 in published code."""
    labels = unrepeated("trec")
    truth = labels.truth.dropna()
    assert 100 * (truth != labels.classes[-1]).mean() == pytest.approx(43.96, abs=0.0051)
    fit = bc.baselines.eigen_ratio(labels)
    assert list(errors(fit, labels)) == pytest.approx([38.68, 38.73], abs=0.0051)
    assert (fit.workers()["skill"] == 0).sum() >= 2
