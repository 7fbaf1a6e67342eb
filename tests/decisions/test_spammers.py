"""Evidence that a worker's labels have nothing to do with the classes, against enumeration and on simulated crowds."""

from __future__ import annotations

import itertools

import fitted
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import gammaln, logsumexp

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.spammers import SHARE, spammer_evidence, with_spammers
from bayescrowd.decisions.workers import roles, workers


def _log_beta(alpha: np.ndarray) -> float:
    return float((gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))).sum())


def _exact(label: np.ndarray, others: np.ndarray, alpha: np.ndarray, prevalence: np.ndarray) -> float:
    """Log evidence of one row less that of the prior's matrix, all classes of the worker's items enumerated."""
    row = prevalence @ alpha
    counts = np.bincount(label, minlength=alpha.shape[1])
    of_row = _log_beta(row + counts) - _log_beta(row)
    terms = []
    for classes in itertools.product(range(len(alpha)), repeat=len(label)):
        table = np.zeros_like(alpha)
        np.add.at(table, (list(classes), label), 1)
        chance = np.log(others[np.arange(len(label)), list(classes)]).sum()
        terms.append(chance + _log_beta(alpha + table) - _log_beta(alpha))
    return of_row - float(logsumexp(terms))


def _made(
    n_classes: int, others: np.ndarray, label: np.ndarray, prevalence: np.ndarray, model: bc.DawidSkene
) -> xr.DataTree:
    """A result in which worker 0 has these labels, and the others say this of the items' classes."""
    n = len(label)
    item = np.arange(n)
    labels = CrowdLabels.from_codes(item, np.zeros(n, int), label, classes=n_classes)
    run = fitted.made_run(labels, model)
    mean = run.draws["confusion"].mean(axis=(0, 1))[0]
    run.draws["prevalence"][:] = prevalence
    whole = others * mean[:, label].T
    run = run._replace(state_probability=whole / whole.sum(axis=1, keepdims=True))
    return fitted.tree_of(labels, model, run)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sure", [True, False])
def test_evidence_against_enumeration(seed: int, sure: bool) -> None:
    random = np.random.default_rng(seed)
    model = bc.DawidSkene(confusion_prior=random.gamma(2.0, size=(3, 3)) + np.eye(3))
    prevalence = np.array([0.5, 0.3, 0.2])
    classes = random.permuted(np.array([0, 0, 0, 1, 1, 2, 2]))
    label = classes if seed % 2 else random.integers(0, 3, 7)
    others = random.dirichlet(np.ones(3), 7) * 0.3 + 0.7 * np.eye(3)[classes]
    if sure:
        others = np.full((7, 3), 1e-14) + np.eye(3)[classes]
    found = spammer_evidence(_made(3, others / others.sum(1, keepdims=True), label, prevalence, model))
    exact = _exact(label, others / others.sum(1, keepdims=True), np.asarray(model.confusion_prior), prevalence)
    assert found[0] == pytest.approx(exact, abs=1e-6 if sure else 0.25)


def test_labels_on_items_that_nobody_else_knows_tell_little() -> None:
    label = np.array([0, 1, 2, 0, 1, 2, 0, 0])
    prevalence = np.array([0.4, 0.3, 0.3])
    model = bc.DawidSkene()
    others = np.tile(prevalence, (8, 1))
    found = spammer_evidence(_made(3, others, label, prevalence, model))
    assert abs(found[0]) < 1
    alpha = model.confusion_prior.table(3, 3)
    assert found[0] == pytest.approx(_exact(label, others, np.asarray(alpha), prevalence), abs=0.6)


def _crowd(n_classes: int, n_items: int, n_workers: int, per_item: int, n_random: int, seed: int) -> CrowdLabels:
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n_items)
    accuracy = random.beta(6, 2, n_workers)
    accuracy[:n_random] = 0
    rows = []
    for item in range(n_items):
        for worker in random.choice(n_workers, per_item, replace=False):
            right = random.random() < accuracy[worker]
            rows.append((item, worker, truth[item] if right else random.integers(n_classes)))
    return CrowdLabels.from_codes(*np.array(rows).T, classes=n_classes, workers=list(range(n_workers)))


@pytest.mark.parametrize(("model", "least"), [(bc.DawidSkene(), 4), (bc.IDBLA(n_levels=2), 3)])
def test_random_workers_are_found_among_five_classes(model: bc.DawidSkene, least: int) -> None:
    labels = _crowd(5, 1000, 50, 5, 4, 1)
    table = bc.fit(labels, model, progress=False).workers()
    spammer = roles(table) == "spammer"
    assert spammer[:4].sum() >= least
    assert not spammer[4:].any()
    # By draws of independent rows alone nobody would be one.
    assert table["informativeness"].iloc[:4].min() > 0.05


def test_without_labels_it_is_the_share_before_any() -> None:
    labels = CrowdLabels.from_codes(
        [0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 0, 1], classes=["a", "b", "c"], workers=["one", "other", "absent"]
    )
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_run(labels, bc.DawidSkene()))
    assert spammer_evidence(tree)[2] == 0
    little = float((workers(tree)["p_spammer"].loc["absent"] - SHARE) / (1 - SHARE))
    assert 0 <= little <= 1
    assert with_spammers(np.array([little]), np.zeros(1))[0] == pytest.approx(SHARE + (1 - SHARE) * little)


def test_weights_count_as_repeats_and_repeats_share_an_item() -> None:
    once = CrowdLabels.from_long(
        pd.DataFrame({"item": [0, 1, 0, 1], "worker": list("aabb"), "label": list("xyxx"), "n": [2, 2, 2, 2]}),
        weight="n",
    )
    twice = CrowdLabels.from_long(
        pd.DataFrame({"item": [0, 1, 0, 1] * 2, "worker": list("aabb") * 2, "label": list("xyxx") * 2}),
        duplicates="keep",
    )
    evidence = []
    for labels in (once, twice):
        run = fitted.made_run(labels, bc.DawidSkene())
        run = run._replace(state_probability=np.eye(2) * 0.99999999 + 5e-9)
        run.draws["prevalence"][:] = 0.5
        run.draws["confusion"][:] = np.array([[0.7, 0.3], [0.4, 0.6]])
        evidence.append(spammer_evidence(fitted.tree_of(labels, bc.DawidSkene(), run)))
    assert np.isfinite(evidence).all()
    assert (np.sign(evidence[0]) == np.sign(evidence[1])).all()
    assert evidence[0][0] < 0 < evidence[0][1]


def test_methods_without_a_prior_of_matrices_have_none() -> None:
    assert spammer_evidence(fitted.anesthesia_em().idata) is not None  # em knows the model, though it has no draws
    little = np.array([0.25])
    assert with_spammers(little, None) is little
