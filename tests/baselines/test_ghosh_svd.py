"""Ghosh, Kale and McAfee's rule against dense matrices, simulated crowds and published figures."""

from __future__ import annotations

import numpy as np
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc


def score(fit):
    return fit.idata["point_estimate"]["score"].to_numpy()


def by_dense_matrices(labels, threshold=0):
    answers = crowds.answers_of(labels, threshold)
    u = np.linalg.svd(answers)[0][:, 0]
    return u if np.sign(u) @ answers.sum(axis=1) >= 0 else -u


@pytest.mark.parametrize("n_workers", [12, 450])  # the latter by Lanczos iterations
def test_equals_a_dense_decomposition(n_workers):
    labels = crowds.neighbours(
        1, 60 if n_workers == 12 else 700, n_workers, n_workers // 2, np.linspace(0.5, 0.95, n_workers)
    )
    known = by_dense_matrices(labels)
    np.testing.assert_allclose(score(bc.baselines.ghosh_svd(labels)), known / np.abs(known).max(), atol=1e-9)


def test_recovery_of_one_coin_workers_and_adversaries():
    right = np.concatenate([np.full(10, 0.95), np.full(14, 0.55), np.full(6, 0.1)])
    labels = crowds.neighbours(4, 500, 30, 15, right)
    fit = bc.baselines.ghosh_svd(labels)
    vote = hits(bc.baselines.majority_vote(labels).class_probabilities(), labels.truth)
    assert hits(fit.class_probabilities(), labels.truth) > 0.97 > vote + 0.03
    skill = fit.workers()["skill"].to_numpy()
    assert skill[:10].min() > 0.6 > 0 > skill[24:].max()


def test_thresholds_of_ordered_classes():
    labels = crowds.neighbours(2, 60, 12, 6, np.full(12, 0.7), n_classes=4)
    above = np.array([by_dense_matrices(labels, threshold) > 0 for threshold in range(3)])
    known = [next((level for level in range(3) if not above[level, item]), 3) for item in range(60)]
    fit = bc.baselines.ghosh_svd(labels, ordered=True)
    assert fit.class_probabilities().to_numpy().argmax(axis=1).tolist() == known
    assert hits(fit.class_probabilities(), labels.truth) > 0.8
    assert fit.workers()["skill"].between(-1, 1).all()


KNOWN = {"bluebird": 27.78, "rte": 49.12, "dog": 19.58, "web": 6.78, "trec": 43.03}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_published_figures(name, unrepeated):
    labels = unrepeated(name)
    shared, last = crowds.errors(bc.baselines.ghosh_svd(labels, ordered=labels.n_classes > 2), labels)
    assert last == pytest.approx(KNOWN[name], abs=0.0051)
    # Of trec, two items with truth were labelled by workers who share none with others.
    assert shared == pytest.approx(42.99 if name == "trec" else KNOWN[name], abs=0.0051)
