"""Classes that nobody ever says: no method gives them an item, and answers are those without them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import bayescrowd as bc

METHODS = {
    "mv_dawid_skene": {},
    "minimax_entropy": {},
    "one_coin": {},
    "spectral_dawid_skene": {},
    "glad": {},
    "mace": {},
    "pgd": {},
}


@functools.cache
def crowd() -> bc.CrowdLabels:
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 2))
    return bc.simulate(model, n_items=120, n_workers=12, classes=2, labels_per_item=5, seed=0).labels


def with_more(classes: list[int], **more: object) -> bc.CrowdLabels:
    frame = crowd().to_frame()[["item", "worker", "label"]]
    return bc.CrowdLabels.from_long(frame, classes=classes, **more)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
def test_a_class_that_nobody_says_gets_no_item(method: str) -> None:
    call = getattr(bc.baselines, method)
    plain = call(with_more([0, 1])).class_probabilities()
    more = call(with_more([0, 7, 1, 9])).class_probabilities()
    assert not more.idxmax(axis=1).isin([7, 9]).any()
    if method in ("mv_dawid_skene", "minimax_entropy", "spectral_dawid_skene"):
        np.testing.assert_allclose(more[[0, 1]], plain, atol=1e-9)


@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
@pytest.mark.parametrize("method", ["mv_dawid_skene", "minimax_entropy"])
def test_gold_names_a_class(method: str) -> None:
    item = crowd().items[0]
    table = getattr(bc.baselines, method)(with_more([0, 1, 2], gold={item: 2})).class_probabilities()
    assert table.loc[item, 2] == 1
    assert (table.idxmax(axis=1) == 2).sum() < 30


def test_classes_by_even_prevalence_are_explained_by_it() -> None:
    labels = bc.datasets.load("anesthesia")
    fit = bc.baselines.tensor_admm(labels, decode="ml")
    np.testing.assert_allclose(fit.predict(labels).to_numpy(), fit.class_probabilities().to_numpy(), atol=1e-6)
    evidence = fit.explain(35)
    assert np.abs(evidence.loc["prevalence", [1, 2, 3, 4]].to_numpy(float)).max() < 1e-9


def test_intervals_are_not_promised_where_refits_are_refused() -> None:
    said = bc.baselines.one_coin(crowd()).workers().attrs["intervals"]
    assert "bootstrap" not in said
    assert "bc.fit(labels)" in said
