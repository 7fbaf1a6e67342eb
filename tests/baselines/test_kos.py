"""KOS message passing and its singular-vector variant against plain loops, simulated crowds and published figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import EngineError, LabelError

METHODS = ("message-passing", "svd")


def table(rows, **options):
    return bc.CrowdLabels.from_long(rows, **options)


def by_loops(item, worker, sign, start, passes):
    """Message passing as the paper writes it; edges sorted by item and worker."""
    edges = list(range(len(item)))
    y = dict(enumerate(start))
    for _ in range(passes):
        x = {e: sum(sign[f] * y[f] for f in edges if item[f] == item[e] and f != e) for e in edges}
        y = {e: sum(sign[f] * x[f] for f in edges if worker[f] == worker[e] and f != e) for e in edges}
        largest = max(abs(v) for v in y.values())
        y = {e: v / largest for e, v in y.items()}
    return np.array([sum(sign[e] * y[e] for e in edges if item[e] == i) for i in range(max(item) + 1)])


def score(fit):
    return fit.idata["point_estimate"]["score"].to_numpy()


@pytest.mark.parametrize("passes", [1, 4])
def test_messages_equal_a_plain_loop(passes):
    labels = crowds.neighbours(0, 12, 6, 3, np.full(6, 0.8))
    order = np.lexsort((labels.worker_code, labels.item_code))
    item, worker = labels.item_code[order], labels.worker_code[order]
    start = np.random.default_rng(3).normal(1.0, 1.0, len(item))
    known = by_loops(item, worker, 2 * labels.label_code[order] - 1, start, passes)
    fit = bc.baselines.kos(labels, passes=passes, seed=3)
    np.testing.assert_allclose(score(fit), known / np.abs(known).max(), atol=1e-12)
    assert fit.class_probabilities().to_numpy()[:, 1].tolist() == ((1 + np.sign(known)) / 2).tolist()


def by_dense_svd(labels, threshold=0):
    answers = np.zeros((labels.n_items, labels.n_workers))
    answers[labels.item_code, labels.worker_code] = np.where(labels.label_code > threshold, 1, -1)
    u, _, v = np.linalg.svd(answers - answers.mean(axis=0), full_matrices=False)
    return u[:, 0] * (1 if (v[0][v[0] > 0] ** 2).sum() >= 0.5 else -1)


def test_singular_vectors_equal_a_dense_decomposition():
    labels = crowds.neighbours(1, 60, 12, 5, np.linspace(0.5, 0.95, 12))
    known = by_dense_svd(labels)
    np.testing.assert_allclose(score(bc.baselines.kos(labels, method="svd")), known / np.abs(known).max(), atol=1e-10)


def test_thresholds_of_ordered_classes():
    labels = crowds.neighbours(2, 60, 12, 6, np.full(12, 0.7), n_classes=4)
    above = np.array([by_dense_svd(labels, threshold) > 0 for threshold in range(3)])
    known = [next((level for level in range(3) if not above[level, item]), 3) for item in range(60)]
    fit = bc.baselines.kos(labels, method="svd", ordered=True)
    assert fit.class_probabilities().to_numpy().argmax(axis=1).tolist() == known
    assert "score" not in fit.idata["point_estimate"]
    said = bc.CrowdLabels.from_codes(labels.item_code, labels.worker_code, labels.label_code, classes=4, ordered=True)
    again = bc.baselines.kos(said, method="svd")
    assert np.array_equal(again.class_probabilities(), fit.class_probabilities())
    assert hits(bc.baselines.kos(labels, ordered=True).class_probabilities(), labels.truth) > 0.8


@pytest.mark.parametrize("method", METHODS)
def test_recovery_of_spammers_and_hammers(method):
    """The papers' own crowd: workers know, or guess. The vote counts both alike."""
    right = np.where(np.arange(60) < 24, 1.0, 0.5)
    labels = crowds.neighbours(4, 600, 60, 9, right)
    found = hits(bc.baselines.kos(labels, method=method).class_probabilities(), labels.truth)
    vote = hits(bc.baselines.majority_vote(labels).class_probabilities(), labels.truth)
    assert found > 0.97 > vote + 0.02
    skill = bc.baselines.kos(labels, method=method).workers()["skill"].to_numpy()
    assert skill[:24].min() > 0.9 > skill[24:].max() + 0.3


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_a_number_of_equal_labels_and_of_equal_items(method):
    base = crowds.neighbours(5, 40, 10, 5, np.linspace(0.6, 0.95, 10))
    rows = base.to_frame()[["item", "worker", "label"]]
    weight = 1 + rows["item"].astype(int) % 3
    weighted = bc.CrowdLabels.from_long(rows.assign(weight=weight), weight="weight", classes=[0, 1])
    repeated = bc.CrowdLabels.from_long(rows.loc[rows.index.repeat(weight)], classes=[0, 1], duplicates="keep")
    copies = pd.concat(
        [rows[weight > copy].assign(item=lambda r, c=copy: r["item"].astype(str) + f"/{c}") for copy in range(3)]
    )
    copied = bc.CrowdLabels.from_long(copies, classes=[0, 1])
    options = {"method": method, "passes": 100}
    found = {
        name: pd.Series(score(bc.baselines.kos(labels, **options)), labels.items.astype(str))
        for name, labels in (("weighted", weighted), ("repeated", repeated), ("copied", copied))
    }
    np.testing.assert_allclose(found["repeated"][found["weighted"].index], found["weighted"], atol=1e-9)
    if method == "message-passing":
        return  # there, what a worker says of a copy of the item is no message about the item itself
    first = found["copied"][[f"{item}/0" for item in found["weighted"].index]].to_numpy()
    root = np.sqrt(1 + found["weighted"].index.astype(int) % 3)
    ratio = found["weighted"].to_numpy() / (first * root)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


STRANGE = {
    "one item": [("i", "a", "n"), ("i", "b", "y"), ("i", "c", "y")],
    "one worker": [("i", "a", "n"), ("j", "a", "y"), ("k", "a", "y")],
    "one label": [("i", "a", "n")],
    "agreed": [(i, w, "y") for i in "ij" for w in "abc"],
    "opposed": [("i", "a", "n"), ("i", "b", "y"), ("j", "a", "y"), ("j", "b", "n")],
    "apart": [("i", "a", "n"), ("j", "b", "y")],
    "never both": [(i, w, "y" if w == "a" else "n") for i in "ijk" for w in "ab"],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(name, method):
    items, workers = (sorted({row[place] for row in STRANGE[name]}) for place in (0, 1))
    codes = [(items.index(i), workers.index(w), "ny".index(label)) for i, w, label in STRANGE[name]]
    fit = bc.baselines.kos(bc.CrowdLabels.from_codes(*np.array(codes).T, classes=["n", "y"]), method=method)
    probability = fit.class_probabilities()
    assert np.isfinite(probability).all(axis=None)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert fit.workers()["skill"].between(-1, 1).all()
    if name in ("agreed", "one label"):
        assert (probability == [0, 1] if name == "agreed" else probability == [1, 0]).all(axis=None)
    if name == "opposed" and method == "svd":
        assert (probability == 0.5).all(axis=None)
        assert "says nothing of 2 of the 2 items" in str(fit.idata.attrs["warnings"])


@pytest.mark.parametrize("method", METHODS)
def test_gold_silent_items_and_labels_that_are_no_class(method):
    rows = [(f"i{i}", w, "y" if i % 2 else "n") for i in range(6) for w in "abc"]
    rows += [("silent", "d", "?"), ("i0", "d", "?")]
    gold = {"i0": "y"}
    labels = table(rows, classes=["n", "y"], labels=["n", "y", "?"], gold=gold)
    probability = bc.baselines.kos(labels, method=method).class_probabilities()
    assert probability.loc["silent"].tolist() == [0.5, 0.5]
    assert probability.loc["i0"].tolist() == [0, 1]
    assert probability.loc["i1"].tolist() == [0, 1]
    assert probability.loc["i2"].tolist() == [1, 0]


def test_a_threshold_that_all_labels_are_above_is_no_riddle():
    labels = bc.CrowdLabels.from_codes(
        np.repeat(range(4), 3), np.tile(range(3), 4), np.repeat([1, 2, 1, 2], 3), classes=3
    )
    for method in METHODS:
        probability = bc.baselines.kos(labels, method=method, ordered=True).class_probabilities()
        assert probability.to_numpy().argmax(axis=1).tolist() == [1, 2, 1, 2]


def test_seeds():
    labels = crowds.neighbours(6, 30, 10, 3, np.full(10, 0.7))
    once, again, other = (score(bc.baselines.kos(labels, passes=1, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"method": "both"}, "method must be 'message-passing' or 'svd', not 'both'"),
        ({"passes": 0}, "passes must be a whole number of at least 1, not 0"),
        ({"passes": True}, "passes"),
        ({"seed": -1}, "seed"),
        ({}, "two classes, and these labels have 4: 1, 2, 3, 4. Where the classes are ordered.*ordered=True"),
    ],
)
def test_refusals(option, words):
    with pytest.raises(EngineError, match=words):
        bc.baselines.kos(bc.datasets.load("anesthesia"), **option)


def test_refusal_of_other_things():
    with pytest.raises(LabelError, match="baselines.kos takes a CrowdLabels"):
        bc.baselines.kos([("i", "a", 1)])
    with pytest.raises(EngineError, match="two classes, and these labels have 1"):
        bc.baselines.kos(table([("i", "a", "y")], classes=["y"]))


SVD = {"bluebird": 11.11, "rte": 39.75, "dog": 31.72, "web": 42.93, "trec": 51.96}
MESSAGES = {"bluebird": 27.78, "rte": 50.25, "trec": 42.81}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", SVD)
def test_published_figures(name, unrepeated):
    labels = unrepeated(name)
    ordered = labels.n_classes > 2
    shared, last = crowds.errors(bc.baselines.kos(labels, method="svd", ordered=ordered), labels)
    assert [shared, last] == pytest.approx([SVD[name]] * 2, abs=0.0051)
    for seed in range(3):
        fit = bc.baselines.kos(labels, ordered=ordered, seed=seed)
        if name in MESSAGES:
            assert crowds.errors(fit, labels)[1] == pytest.approx(MESSAGES[name], abs=0.0051)
        if name == "trec":
            assert crowds.errors(fit, labels)[0] == pytest.approx(42.77, abs=0.0051)
