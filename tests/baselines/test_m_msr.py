"""M-MSR against plain loops and crowds with plotters, and its errors on real data."""

from __future__ import annotations

import numpy as np
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import EngineError


def skills(fit):
    return fit.idata["point_estimate"]["skill"].to_numpy()


def by_loops(labels, trim, passes):
    """The algorithm as the paper states it."""
    common, known = crowds.correlations(labels)
    n, size = labels.n_workers, np.abs(known)

    def mean(values, own):
        values = sorted(values)
        if trim:
            below, above = sum(v < own for v in values), sum(v > own for v in values)
            values = values[min(below, trim) : len(values) - min(above, trim)]
        return (np.mean(values) or 1 / np.sqrt(labels.n_items)) if values else own

    u, v = np.full(n, 0.5), np.full(n, 0.5)
    for _ in range(passes):
        v = np.array([mean([size[i, j] / u[i] for i in range(n) if common[i, j]], v[j]) for j in range(n)])
        u = np.array([mean([size[i, j] / v[j] for j in range(n) if common[i, j]], u[i]) for i in range(n)])
    margin = 1 / np.sqrt(labels.n_items)
    return np.minimum(u * np.sqrt(np.linalg.norm(v) / np.linalg.norm(u)), 1 - margin)


@pytest.mark.parametrize("trim", [0, 1, 3, None])
def test_equals_plain_loops(trim):
    labels = crowds.coins(1, 90, 4, np.linspace(0.6, 0.95, 10), 3)
    fit = bc.baselines.m_msr(labels, trim=trim)
    degree = (crowds.correlations(labels)[0] > 0).sum(axis=1)
    used = max(degree.min() // 2 - 1, 0) if trim is None else trim
    assert fit.idata.attrs["details"] == f'{{"trim": {used}}}'
    np.testing.assert_allclose(skills(fit), by_loops(labels, used, 400), atol=1e-8)


def test_plotters_cannot_carry_skills_away():
    """Nine of forty workers copy one list of random answers: to each other they look perfect."""
    right = np.full(40, 0.75)
    labels = crowds.coins(7, 600, 15, right, 2)
    plot = np.random.default_rng(1).integers(2, size=600)
    label = np.where(labels.worker_code >= 31, plot[labels.item_code], labels.label_code)
    labels = bc.CrowdLabels.from_codes(
        labels.item_code, labels.worker_code, label, items=600, workers=40, classes=2, truth=labels.truth.to_dict()
    )
    fits = {
        "trimmed": bc.baselines.m_msr(labels),
        "untrimmed": bc.baselines.m_msr(labels, trim=0),
        "pgd": bc.baselines.pgd(labels),
    }
    plotters = {name: np.abs(fit.workers()["accuracy"][31:] - 0.5).mean() for name, fit in fits.items()}
    assert plotters["trimmed"] < 0.15 < 0.2 < plotters["untrimmed"] < 0.3 < 0.45 < plotters["pgd"]
    right = {name: hits(fit.class_probabilities(), labels.truth) for name, fit in fits.items()}
    vote = hits(bc.baselines.majority_vote(labels).class_probabilities(), labels.truth)
    assert right["trimmed"] > 0.93 > vote + 0.03 > right["untrimmed"] + 0.03 > right["pgd"] + 0.2


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"trim": -1}, "trim must be a whole number of at least 0, not -1"),
        ({"signs": "negative"}, "signs must be 'estimated' or 'positive', not 'negative'"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, not 0"),
        ({"tolerance": 0.0}, "tolerance must be a number above 0, not 0.0"),
    ],
)
def test_refusals(option, words):
    with pytest.raises(EngineError, match=words):
        bc.baselines.m_msr(bc.datasets.load("anesthesia"), **option)


KNOWN = {"bluebird": (28.70, 23.15), "rte": (7.25, 7.50), "dog": (17.60, 17.60), "temp": (6.93, 6.06)}
"""Percent wrong with signs estimated, and with all taken to be above chance."""


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_real_data(name, unrepeated):
    labels = unrepeated(name)
    for signs, known in zip(("estimated", "positive"), KNOWN[name], strict=True):
        fit = bc.baselines.m_msr(labels, signs=signs)
        wrong = 100 * (1 - hits(fit.class_probabilities(), labels.truth.dropna()))
        assert wrong == pytest.approx(known, abs=0.0051)
