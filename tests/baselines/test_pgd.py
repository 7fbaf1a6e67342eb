"""PGD against a plain constant-step descent and simulated crowds, and its errors on real data."""

from __future__ import annotations

import numpy as np
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import EngineError


def skills(fit):
    return fit.idata["point_estimate"]["skill"].to_numpy()


def by_small_steps(labels, *, weights="count", absolute=False):
    """The papers' descent: from one half, by steps of one length, back into the box."""
    common, known = crowds.correlations(labels)
    weight = common if weights == "count" else (common > 0).astype(float)
    known = np.abs(known) if absolute else known
    margin = 1 / np.sqrt(labels.n_items)
    low, high = -1 / (labels.n_classes - 1) + margin, 1 - margin
    skill, step = np.full(labels.n_workers, 0.5), 0.3 / weight.sum(axis=1).max()
    for _ in range(20_000):
        before = skill
        skill = np.clip(skill + step * (weight * (known - np.outer(skill, skill))) @ skill, low, high)
        if np.abs(skill - before).max() < 1e-14:
            break
    return skill, (weight * (known - np.outer(skill, skill)) ** 2).sum() / 4


@pytest.mark.parametrize("options", [{}, {"weights": "equal"}, {"signs": "positive"}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_a_plain_descent(options, n_classes):
    labels = crowds.coins(1, 80, 5, np.linspace(0.45, 0.95, 12), n_classes)
    known, value = by_small_steps(
        labels, weights=options.get("weights", "count"), absolute=options.get("signs") == "positive"
    )
    fit = bc.baselines.pgd(labels, tolerance=1e-12, **options)
    np.testing.assert_allclose(skills(fit), known, atol=1e-8)
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert objective[-1] == pytest.approx(value, rel=1e-9)
    assert len(objective) < 200


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"weights": "all"}, "weights must be 'count' or 'equal', not 'all'"),
        ({"signs": "negative"}, "signs must be 'estimated' or 'positive', not 'negative'"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, not 0"),
        ({"tolerance": 0.0}, "tolerance must be a number above 0, not 0.0"),
    ],
)
def test_refusals(option, words):
    with pytest.raises(EngineError, match=words):
        bc.baselines.pgd(bc.datasets.load("anesthesia"), **option)


KNOWN = {"bluebird": (27.78, 24.07), "rte": (7.25, 7.00), "dog": (16.85, 17.10), "web": (17.45, 18.70)}
"""Percent wrong with signs estimated, and as the papers' code fits absolute values (pairs by count)."""


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_real_data(name, unrepeated):
    labels = unrepeated(name)
    for signs, known in zip(("estimated", "positive"), KNOWN[name], strict=True):
        fit = bc.baselines.pgd(labels, signs=signs)
        wrong = 100 * (1 - hits(fit.class_probabilities(), labels.truth.dropna()))
        assert wrong == pytest.approx(known, abs=0.0051)
