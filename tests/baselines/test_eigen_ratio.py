"""Dalvi and others' ratio of eigenvectors against dense matrices, simulated crowds and published figures."""

from __future__ import annotations

import numpy as np
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc


def score(fit):
    return fit.idata["point_estimate"]["score"].to_numpy()


def by_dense_matrices(labels, threshold=0, weights=False):
    answers = crowds.answers_of(labels, threshold)
    common = np.abs(answers).T @ np.abs(answers)
    value, vector = np.linalg.eigh(np.where(common > 0, answers.T @ answers / np.where(common > 0, common, 1), 0))
    value_beside, vector_beside = np.linalg.eigh((common > 0).astype(float))
    weight = np.sqrt(value[-1] / value_beside[-1]) * vector[:, -1] / vector_beside[:, -1]
    u = answers @ weight
    sign = 1 if u @ answers.sum(axis=1) >= 0 else -1
    return sign * weight if weights else sign * u


@pytest.mark.parametrize("n_workers", [12, 450])  # the latter by Lanczos iterations
def test_equals_a_dense_decomposition(n_workers):
    labels = crowds.neighbours(
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
    labels = crowds.neighbours(4, 3000, 30, 15, right)
    frame = labels.to_frame()
    rare = (frame["worker"].astype(int) % 3 == 0) & (np.random.default_rng(0).random(len(frame)) < 0.7)
    frame = frame[~rare].assign(truth=frame["item"].map(labels.truth))
    labels = bc.CrowdLabels.from_long(frame[["item", "worker", "label", "truth"]], truth="truth", classes=[0, 1])
    fit = bc.baselines.eigen_ratio(labels)
    assert hits(fit.class_probabilities(), labels.truth) > 0.98
    found = fit.workers()["accuracy"]
    np.testing.assert_allclose(found, right[found.index.astype(int)], atol=0.06)


def test_thresholds_of_ordered_classes():
    labels = crowds.neighbours(2, 60, 12, 6, np.full(12, 0.7), n_classes=4)
    above = np.array([by_dense_matrices(labels, threshold) > 0 for threshold in range(3)])
    known = [next((level for level in range(3) if not above[level, item]), 3) for item in range(60)]
    fit = bc.baselines.eigen_ratio(labels, ordered=True)
    assert fit.class_probabilities().to_numpy().argmax(axis=1).tolist() == known
    assert hits(fit.class_probabilities(), labels.truth) > 0.8
    assert fit.workers()["skill"].between(-1, 1).all()


KNOWN = {"bluebird": 27.78, "rte": 9.00, "dog": 17.22, "web": 24.84}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_published_figures(name, unrepeated):
    labels = unrepeated(name)
    found = crowds.errors(bc.baselines.eigen_ratio(labels, ordered=labels.n_classes > 2), labels)
    assert list(found) == pytest.approx([KNOWN[name]] * 2, abs=0.0051)


@pytest.mark.realdata
@pytest.mark.slow
def test_the_published_figure_of_trec_is_that_of_the_last_class(unrepeated):
    """Two workers who share no item with others make every score 0 / 0 in published code."""
    labels = unrepeated("trec")
    truth = labels.truth.dropna()
    assert 100 * (truth != labels.classes[-1]).mean() == pytest.approx(43.96, abs=0.0051)
    fit = bc.baselines.eigen_ratio(labels)
    assert list(crowds.errors(fit, labels)) == pytest.approx([38.68, 38.73], abs=0.0051)
    assert (fit.workers()["skill"] == 0).sum() >= 2
