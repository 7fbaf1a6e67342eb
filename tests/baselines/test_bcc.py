"""BCC is the library's own Dawid-Skene under another name; published accuracies of iBCC-VB, to the item."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from scoring import accuracy

import bayescrowd as bc
from bayescrowd.errors import ConvergenceWarning, EngineError, LabelError, ModelError


def by_loops(rows, n_items, n_workers, n_classes, passes, on=4.0, off=1.0):
    """Variational Bayes from the soft vote, a row being item, worker and label."""
    q = np.zeros((n_items, n_classes))
    for item, _, label in rows:
        q[item, label] += 1
    q /= q.sum(1, keepdims=True)
    for _ in range(passes):
        table = np.tile(off + (on - off) * np.eye(n_classes), (n_workers, 1, 1))
        for item, worker, label in rows:
            table[worker, :, label] += q[item]
        log_table = digamma(table) - digamma(table.sum(2, keepdims=True))
        score = np.tile(digamma(1 + q.sum(0)) - digamma(n_classes + n_items), (n_items, 1))
        for item, worker, label in rows:
            score[item] += log_table[worker, :, label]
        q = np.exp(score - score.max(1, keepdims=True))
        q /= q.sum(1, keepdims=True)
    return q


def small(seed=1):
    prior = bc.DawidSkene(confusion_prior=bc.diagonal(6, 2))
    return bc.simulate(prior, n_items=30, n_workers=6, classes=3, labels_per_item=4, seed=seed).labels


def test_vb_equals_plain_loops():
    labels = small()
    rows = list(zip(labels.item_code, labels.worker_code, labels.label_code, strict=True))
    known = by_loops(rows, 30, 6, 3, 6)
    with pytest.warns(ConvergenceWarning, match=r"dawid-skene by vb did not converge"):
        fit = bc.baselines.bcc(labels, engine="vb", max_iter=5, tolerance=0.0)
    np.testing.assert_allclose(fit.class_probabilities().to_numpy(), known, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "vb"},
        {"engine": "collapsed-vi", "moments": "zero"},
        {"engine": "gibbs", "draws": 100, "warmup": 50, "chains": 2},
        pytest.param({"engine": "collapsed-gibbs", "draws": 50, "warmup": 20, "chains": 2}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_it_is_the_same_fit(options):
    labels = small()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(4, 1), prevalence_prior=1.0)
    fit, same = bc.baselines.bcc(labels, seed=3, **options), bc.fit(labels, model, seed=3, **options)
    assert fit.class_probabilities().equals(same.class_probabilities())
    assert fit.workers().equals(same.workers())
    assert (fit.engine, fit.model, fit.converged) == (same.engine, same.model, same.converged)
    assert "bc.baselines.bcc" in fit.idata.attrs["choice"][0]


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_it_samples_by_default_and_the_fit_can_do_what_others_can():
    labels = small()
    fit = bc.baselines.bcc(labels, draws=60, warmup=30, chains=2)
    assert fit.engine == "gibbs"
    assert "posterior" in fit.idata.children
    assert fit.confusion(labels.workers[0]).shape == (3, 3)
    assert fit.explain(labels.items[0]).shape[0] == 5
    assert fit.workers()["accuracy_lower"].notna().all()
    point = bc.baselines.bcc(labels, engine="vb", confusion_prior=2.0, prevalence_prior=[1.0, 2.0, 3.0])
    assert point.predict(labels).shape == (30, 3)


@pytest.mark.filterwarnings("ignore:these labels can be used")
def test_strange_tables():
    rows = [("i", "a", 0), ("i", "a", 0), ("j", "b", "?"), ("k", "a", 1)]
    labels = bc.CrowdLabels.from_long(
        rows, classes=[0, 1], labels=[0, 1, "?"], items=list("ijkl"), gold={"k": 0}, duplicates="keep"
    )
    found = bc.baselines.bcc(labels, engine="vb").class_probabilities()
    assert np.isfinite(found.to_numpy()).all()
    assert found.loc["k"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"engine": "em"}, EngineError, "engine must be 'gibbs' or 'collapsed-gibbs' or 'vb' or 'collapsed-vi'"),
        ({"engine": "vb", "chains": 3}, EngineError, "unknown option 'chains'"),
        ({"seed": -1}, EngineError, "seed must be a whole number of at least 0"),
        ({"confusion_prior": -1.0}, ModelError, "confusion_prior must be positive"),
        ({"prevalence_prior": [1.0, 1.0]}, ModelError, "prevalence_prior has shape"),
        ({"init": "best"}, EngineError, "there is no start 'best'"),
    ],
)
def test_what_does_not_fit_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        bc.baselines.bcc(small(), **options)


def test_what_is_no_table_is_refused():
    with pytest.raises(LabelError, match="baselines.bcc takes a CrowdLabels"):
        bc.baselines.bcc([])


# Accuracies printed by the code of Li, Rubinstein, Cohn (2019) for iBCC-VB, and after how many passes it stops: where
# none changes a class probability by more than .001. Rows that are repeated word for word are left out.
PRINTED = {
    "fact_eval": 0.876736,
    "weather_cf": 0.883333,
    "weather_amt": 0.856667,
    "music": 0.79,
    "sp": 0.914983,
    "sp_amt": 0.944,
    "zencrowd_all": 0.795098,
    "zencrowd_in": 0.769608,
    "zencrowd_us": 0.826961,
    "product": 0.938304,
    "face": 0.640411,
    "adult": 0.744745,
    "bluebird": 0.888889,
    "dog": 0.83891,
    "rte": 0.9275,
    "trec": 0.705495,
    "web": 0.750848,
}


def n_passes(labels):
    """Passes of the published code until class probabilities settle."""
    n_classes, n_labels = len(labels.classes), len(labels.label_values)
    cell = labels.worker_code.astype(int) * n_labels + labels.label_code
    q = np.bincount(labels.item_code.astype(int) * n_labels + labels.label_code, minlength=labels.n_items * n_labels)
    q = q.reshape(labels.n_items, n_labels)[:, :n_classes]
    q = q / q.sum(1, keepdims=True)
    for done in range(1, 501):
        shape = (labels.n_workers, n_labels)
        counts = [np.bincount(cell, share[labels.item_code], np.prod(shape)).reshape(shape) for share in q.T]
        table = np.stack(counts, axis=1) + 1 + 3 * np.eye(n_classes, n_labels)
        log_table = digamma(table) - digamma(table.sum(2, keepdims=True))
        score = np.stack(
            [
                np.bincount(labels.item_code, log_table[labels.worker_code, k, labels.label_code], labels.n_items)
                for k in range(n_classes)
            ],
            axis=1,
        ) + digamma(1 + q.sum(0))
        after = np.exp(score - score.max(1, keepdims=True))
        after /= after.sum(1, keepdims=True)
        settled = bool((np.abs(after - q) <= 1e-3 + 1e-5 * np.abs(after)).all())
        q = after
        if settled:
            return done, q
    return 500, q


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_printed_accuracies_of_ibcc_vb(name, unrepeated):
    labels = unrepeated(name)
    passes, known = n_passes(labels)
    fit = bc.baselines.bcc(labels, engine="vb", max_iter=passes - 1, tolerance=0.0, change_tolerance=0.0, draws=1)
    np.testing.assert_allclose(fit.class_probabilities().to_numpy(), known, atol=1e-8)
    assert accuracy(fit) == pytest.approx(PRINTED[name], abs=6e-7)


# Errors in percent (uniform priors; Dirichlet of 4 on the diagonal and 1 off it).
UNIFORM = {"bluebird": 11.11, "rte": 7.13, "dog": 15.74, "web": 18.13, "trec": 29.63}
CVB0 = {"bluebird": 11.11, "rte": 7.13, "dog": 15.86, "web": 16.55, "trec": 29.54}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_priors(name, unrepeated):
    labels = unrepeated(name)
    fit = bc.baselines.bcc(labels, engine="vb", confusion_prior=1.0)
    assert 100 * (1 - accuracy(fit)) == pytest.approx(UNIFORM[name], abs=0.1)
    fit = bc.baselines.bcc(labels, engine="collapsed-vi", moments="zero", confusion_prior=1.0)
    assert 100 * (1 - accuracy(fit)) == pytest.approx(CVB0[name], abs=0.05)
