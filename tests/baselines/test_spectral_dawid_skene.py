"""Spectral methods meet EM: against a plain loop, on simulated crowds, on strange tables, and on real data."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from baselines import crowds
from scoring import accuracy

import bayescrowd as bc
from bayescrowd.baselines._tensor_power import tensor_components
from bayescrowd.errors import EngineError, LabelError
from bayescrowd.kernels.precision import double_precision


def confusion_of(fit):
    return fit.idata["point_estimate"]["confusion"].to_numpy()


def test_the_power_method_finds_orthogonal_components():
    random = np.random.default_rng(0)
    vector = np.linalg.qr(random.normal(size=(2, 4, 4)))[0]
    weight = np.array([[3.0, 2.0, 1.0, 0.5], [1.0, 1.5, 2.0, 2.5]])
    tensors = np.einsum("tr,tar,tbr,tcr->tabc", weight, vector, vector, vector)
    with double_precision():
        found, vectors = tensor_components(tensors, random.normal(size=(2, 4, 30, 4)), iterations=60)
    rebuilt = np.einsum("tr,tra,trb,trc->tabc", found, vectors, vectors, vectors)
    np.testing.assert_allclose(rebuilt, tensors, atol=1e-8)
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(weight, axis=1), rtol=1e-8)


def plainly(labels):
    """The moments as the paper writes them, item by item; for tables whose classes need no naming."""
    n_items, n_workers, n_classes = labels.n_items, labels.n_workers, len(labels.classes)
    random = np.random.default_rng(5)
    group = np.argsort(np.argsort(labels.workers)) % 3
    x = np.zeros((3, n_items, n_classes))
    for i, w, c in zip(labels.item_code, labels.worker_code, labels.label_code, strict=True):
        x[group[w], i, c] += 1
    mean, share = np.zeros((3, n_classes, n_classes)), np.zeros((3, n_classes))
    for a, b, c in ((1, 2, 0), (2, 0, 1), (0, 1, 2)):
        moment = lambda g, h: sum(np.outer(x[g, i], x[h, i]) for i in range(n_items)) / n_items
        to_a = moment(c, b) @ np.linalg.inv(moment(a, b))
        to_b = moment(c, a) @ np.linalg.inv(moment(b, a))
        second = sum(np.outer(to_a @ x[a, i], to_b @ x[b, i]) for i in range(n_items)) / n_items
        left, size, _ = np.linalg.svd(second)
        whiten = left @ np.diag(size**-0.5)
        tensor = np.zeros((n_classes,) * 3)
        for i in range(n_items):
            one, two, three = whiten.T @ to_a @ x[a, i], whiten.T @ to_b @ x[b, i], whiten.T @ x[c, i]
            tensor += np.multiply.outer(np.outer(one, two), three) / n_items
        for _ in range(n_classes):
            ends = []
            for _ in range(10):
                v = random.normal(size=n_classes)
                for _ in range(150):
                    v = np.einsum("abc,b,c->a", tensor, v, v)
                    v /= np.linalg.norm(v)
                ends.append((np.einsum("abc,a,b,c", tensor, v, v, v), v))
            weight, v = max(ends, key=lambda end: end[0])
            tensor = tensor - weight * np.multiply.outer(np.outer(v, v), v)
            found = weight * np.linalg.pinv(whiten.T) @ v
            k = found.argmax()
            assert share[c, k] == 0
            mean[c, k], share[c, k] = found, weight**-2
    confusion = np.zeros((n_workers, n_classes, n_classes))
    for w in range(n_workers):
        a, b = (g for g in range(3) if g != group[w])
        joint = np.zeros((n_classes, n_classes))
        mine = labels.worker_code == w
        for i, c in zip(labels.item_code[mine], labels.label_code[mine], strict=True):
            joint[c] += (x[a, i] + x[b, i]) / n_items
        solved = joint @ np.linalg.inv(np.diag((share[a] + share[b]) / 2) @ (mean[a] + mean[b]))
        raised = np.maximum(solved.T, 1e-6)
        confusion[w] = raised / raised.sum(axis=1, keepdims=True)
    return confusion


def test_as_a_plain_loop_finds():
    labels = crowds.confused(200, 9, labels_per_item=8)[0]
    fit = bc.baselines.spectral_dawid_skene(labels, passes=0)
    assert fit.idata.attrs["warnings"] == []
    np.testing.assert_allclose(confusion_of(fit), plainly(labels), atol=1e-6)


def test_moments_find_the_confusions_and_passes_improve_them():
    labels, truth = crowds.confused(3000, 12, labels_per_item=8, prevalence=[0.5, 0.3, 0.2])
    rough = bc.baselines.spectral_dawid_skene(labels, passes=0)
    fine = bc.baselines.spectral_dawid_skene(labels, passes=10, prevalence="estimated")
    errors = [np.sqrt(((confusion_of(fit) - truth) ** 2).mean()) for fit in (rough, fine)]
    assert errors[0] < 0.06
    assert errors[1] < min(0.02, errors[0])
    np.testing.assert_allclose(fine.idata["point_estimate"]["prevalence"].to_numpy(), [0.5, 0.3, 0.2], atol=0.03)
    assert accuracy(fine) >= accuracy(rough)
    flat = bc.baselines.spectral_dawid_skene(labels)
    assert flat.idata["point_estimate"]["prevalence"].to_numpy().tolist() == [1 / 3] * 3
    assert flat.idata.attrs["status_sentence"].startswith("Moments of three groups of workers, then 10 passes of EM")


def test_the_order_of_rows_does_not_matter_and_seeds_do_what_they_should():
    labels = crowds.confused(300, 10, labels_per_item=8)[0]
    frame = labels.to_frame()[["item", "worker", "label"]]
    mixed = bc.CrowdLabels.from_long(frame.sample(frac=1, random_state=1), classes=[0, 1, 2])
    one = bc.baselines.spectral_dawid_skene(labels).class_probabilities()
    other = bc.baselines.spectral_dawid_skene(mixed).class_probabilities()
    np.testing.assert_allclose(one, other.loc[one.index], atol=1e-6)
    drawn = [bc.baselines.spectral_dawid_skene(labels, partition="random", seed=seed) for seed in (1, 1, 2)]
    groups = [fit.idata["point_estimate"]["group"].to_numpy().tolist() for fit in drawn]
    assert groups[0] == groups[1] != groups[2]
    assert sorted(np.bincount(np.array(groups[0], int))[1:]) == [3, 3, 4]
    assert drawn[0].class_probabilities().equals(drawn[1].class_probabilities())


def test_a_split_whose_moments_are_singular_is_left_for_another():
    # Every third worker, by id, never says "c": among the others the moments of their group are singular.
    made, _ = crowds.confused(400, 12, labels_per_item=12)
    frame = made.to_frame()
    shy = frame["worker"] % 3 == 0
    frame.loc[shy & (frame["label"] == 2), "label"] = 1
    labels = bc.CrowdLabels.from_long(
        frame[["item", "worker", "label"]].assign(truth=frame["item"].map(made.truth)),
        item="item",
        worker="worker",
        label="label",
        truth="truth",
        classes=[0, 1, 2],
    )
    fit = bc.baselines.spectral_dawid_skene(labels)
    warned = fit.idata.attrs["warnings"]
    assert len(warned) == 1
    assert "every third worker in the order of ids could not be inverted well (condition number " in warned[0]
    assert "a random split of the workers was used" in warned[0]
    assert json.loads(fit.idata.attrs["details"])["condition"] < 20
    assert accuracy(fit) > 0.95


def small(rows, **options):
    return bc.CrowdLabels.from_long(rows, classes=["a", "b"], **options)


STRANGE = {
    "one item": [("i", w, c) for w, c in (("u", "a"), ("v", "a"), ("w", "b"))],
    "one label each": [("i", "u", "a"), ("j", "v", "b"), ("k", "w", "a")],
    "all agree": [(f"i{i}", w, "ab"[i % 2]) for i in range(4) for w in "uvw"],
    "all the same": [(f"i{i}", w, "b") for i in range(4) for w in "uvw"],
    "chance": [(f"i{i}", w, "ab"[(i * j) % 2]) for i in range(6) for j, w in enumerate("uvwxyz")],
}


@pytest.mark.filterwarnings("ignore:these labels can be used")
@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(name):
    labels = small(STRANGE[name])
    fit = bc.baselines.spectral_dawid_skene(labels)
    probability = fit.class_probabilities().to_numpy()
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_allclose(confusion_of(fit).sum(axis=2), 1)
    if name.startswith("all"):
        first = labels.to_frame().groupby("item")["label"].first()
        assert fit.consensus()["class"].loc[first.index].tolist() == first.tolist()


def test_gold_weights_repeats_and_labels_that_are_no_class():
    frame = crowds.confused(60, 6, 2)[0].to_frame()[["item", "worker", "label"]]
    rows = list(frame.itertuples(index=False, name=None))
    twice = bc.CrowdLabels.from_long([*rows, *rows[:40]], classes=[0, 1], duplicates="keep")
    weighted = bc.CrowdLabels.from_long(
        frame.assign(weight=np.where(np.arange(len(frame)) < 40, 2.0, 1.0)),
        item="item",
        worker="worker",
        label="label",
        weight="weight",
        classes=[0, 1],
    )
    one, other = (bc.baselines.spectral_dawid_skene(labels) for labels in (twice, weighted))
    np.testing.assert_allclose(one.class_probabilities(), other.class_probabilities(), atol=1e-8)
    more = [*rows, *((row[0], "shy", "?") for row in rows[:9:5]), ("unseen", rows[0][1], "?")]
    unsure = bc.CrowdLabels.from_long(more, classes=[0, 1], labels=[0, 1, "?"])
    fit = bc.baselines.spectral_dawid_skene(unsure)
    assert fit.class_probabilities().loc["unseen"].tolist() == [0.5, 0.5]
    assert (confusion_of(fit)[:, :, 2] == 0).all()
    assert np.isfinite(fit.explain(rows[0][0])[[0, 1]].to_numpy(float)).all()
    known = pd.Series({rows[0][0]: 1, rows[-1][0]: 0})
    gold = bc.CrowdLabels.from_long(
        frame.assign(gold=frame["item"].map(known)),
        item="item",
        worker="worker",
        label="label",
        gold="gold",
        classes=[0, 1],
    )
    probability = bc.baselines.spectral_dawid_skene(gold).class_probabilities()
    assert probability.loc[known.index].to_numpy().tolist() == [[0, 1], [1, 0]]


@pytest.mark.filterwarnings("ignore:these labels can be used")
def test_a_class_that_nobody_names_has_no_prevalence():
    labels, _ = crowds.confused(60, 6, 2)
    more = bc.CrowdLabels.from_long(labels.to_frame()[["item", "worker", "label"]], classes=["never", 0, 1])
    plain, fit = bc.baselines.spectral_dawid_skene(labels), bc.baselines.spectral_dawid_skene(more)
    assert fit.idata["point_estimate"]["prevalence"].to_numpy().tolist() == [0, 0.5, 0.5]
    np.testing.assert_allclose(fit.class_probabilities()[[0, 1]], plain.class_probabilities(), atol=1e-4)
    np.testing.assert_allclose(confusion_of(fit)[:, 1:, 1:], confusion_of(plain), atol=1e-4)
    np.testing.assert_allclose(confusion_of(fit).sum(axis=2), 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"passes": -1}, "passes must be a whole number of at least 0, not -1"),
        ({"prevalence": "flat"}, "prevalence must be 'uniform' or 'estimated', not 'flat'"),
        ({"partition": "id"}, "partition must be 'modulo' or 'random', not 'id'"),
        ({"restarts": 0}, "restarts must be a whole number of at least 1, not 0"),
        ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"restarts": 10**9, "iterations": 10**6}, "takes about 5e\\+16 multiplications with 1000000000 restarts"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(EngineError, match=words):
        bc.baselines.spectral_dawid_skene(small(STRANGE["one item"]), **options)


def test_two_workers_cannot_be_split_and_other_refusals():
    with pytest.raises(EngineError, match="three groups, and only 2 gave labels that are classes"):
        bc.baselines.spectral_dawid_skene(small([("i", "u", "a"), ("i", "v", "b")]))
    with pytest.raises(LabelError, match=r"baselines.spectral_dawid_skene takes a CrowdLabels"):
        bc.baselines.spectral_dawid_skene([1, 2])


# Recomputed independently with ten passes; of rte, workers' ids there were others, and one item differs (7.25).
RECOMPUTED = {"bluebird": 10.19, "rte": 7.13, "dog": 15.99, "web": 16.70, "trec": 29.71}
PUBLISHED = {"rte": 7.12, "web": 16.88, "trec": 29.58}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", RECOMPUTED)
def test_published_figures(name, unrepeated):
    fit = bc.baselines.spectral_dawid_skene(unrepeated(name))
    found = 100 * (1 - accuracy(fit))
    assert found == pytest.approx(RECOMPUTED[name], abs=0.01)
    assert found == pytest.approx(PUBLISHED.get(name, found), abs=0.2)
    assert fit.idata.attrs["warnings"] == []


@pytest.mark.realdata
@pytest.mark.slow
def test_bad_splits_of_real_labels_are_noticed(unrepeated, monkeypatch):
    """Of web, splits on which the groups' means are nearly singular: about 40 percent wrong where they are used.

    The power method does not settle on such moments, and rounding has a say: hence no more than the middle of three.
    """
    labels = unrepeated("web")
    fit = lambda seed: bc.baselines.spectral_dawid_skene(labels, partition="random", seed=seed)
    saved = [100 * (1 - accuracy(fit(seed))) for seed in (7, 8, 10)]
    monkeypatch.setattr(sys.modules["bayescrowd.baselines.spectral_dawid_skene"], "_SPLITS", 1)
    lost = [fit(seed) for seed in (7, 8, 10)]
    assert np.median(saved) < 22 < 28 < np.median([100 * (1 - accuracy(one)) for one in lost])
    assert all("can hardly be inverted" in one.idata.attrs["warnings"][0] for one in lost)


def test_ids_read_as_text_are_split_like_ids_read_as_numbers():
    random = np.random.default_rng(0)
    truth = random.integers(2, size=60)
    rows = [
        (i, w, int(truth[i]) if random.random() < 0.75 else 1 - int(truth[i])) for i in range(60) for w in range(12)
    ]
    one = bc.baselines.spectral_dawid_skene(bc.CrowdLabels.from_long(rows)).class_probabilities()
    text = [(str(i), str(w), label) for i, w, label in rows]
    two = bc.baselines.spectral_dawid_skene(bc.CrowdLabels.from_long(text)).class_probabilities()
    np.testing.assert_allclose(two.loc[[str(item) for item in one.index]], one, atol=1e-12)


def test_random_splits_do_not_depend_on_the_order_of_rows():
    model = bc.DawidSkene(confusion_prior=bc.diagonal(6, 2))
    crowd = bc.simulate(
        model, n_items=150, n_workers=18, classes=3, labels_per_item=(3, 9), spammers=2, adversaries=1, seed=3
    )
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    classes = list(crowd.labels.classes)
    fits = {}
    for partition in ("modulo", "random"):
        for seed in range(3):
            shuffled = frame.sample(frac=1, random_state=seed)
            fits[partition, seed] = bc.baselines.spectral_dawid_skene(
                bc.CrowdLabels.from_long(shuffled, classes=classes), partition=partition
            )
        first = fits[partition, 0].class_probabilities()
        for seed in (1, 2):
            again = fits[partition, seed].class_probabilities()
            np.testing.assert_allclose(again.loc[first.index], first, atol=1e-5)
    assert any("random split" in said for said in fits["modulo", 0].idata.attrs["warnings"])


def test_classes_that_contradict_the_votes_are_named_anew(monkeypatch):
    labels, _ = crowds.confused(300, 12, labels_per_item=8)
    plain = bc.baselines.spectral_dawid_skene(labels)
    assert not any("contradict" in said for said in plain.idata.attrs["warnings"])
    inner = sys.modules["bayescrowd.baselines.spectral_dawid_skene"].polished

    def turned(*args, **options):
        estimate = inner(*args, **options)
        return estimate._replace(confusion=estimate.confusion[:, [1, 2, 0]], prevalence=estimate.prevalence[[1, 2, 0]])

    monkeypatch.setattr(sys.modules["bayescrowd.baselines.spectral_dawid_skene"], "polished", turned)
    fit = bc.baselines.spectral_dawid_skene(labels)
    np.testing.assert_allclose(fit.class_probabilities(), plain.class_probabilities(), atol=1e-12)
    np.testing.assert_allclose(confusion_of(fit), confusion_of(plain), atol=1e-12)
    assert any("named by the votes" in said and "another seed" in said for said in fit.idata.attrs["warnings"])
    first = bc.CrowdLabels.from_long(
        labels.to_frame()[["item", "worker", "label"]], classes=list(labels.classes), gold={labels.items[0]: 0}
    )
    kept = bc.baselines.spectral_dawid_skene(first)
    assert not np.allclose(kept.class_probabilities().iloc[1:], plain.class_probabilities().iloc[1:], atol=0.1)
    assert any("another seed" in said and "named by" not in said for said in kept.idata.attrs["warnings"])
