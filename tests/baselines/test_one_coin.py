"""The one-coin model against plain loops, its own crowds, strange tables and published figures."""

from __future__ import annotations

import numpy as np
import pytest
from scoring import accuracy

import bayescrowd as bc
from bayescrowd.errors import ConvergenceWarning, EngineError, LabelError


def crowd(seed, n_items, right, per_item, prevalence):
    """Labels by coins: right with the worker's probability, else any other class alike."""
    random = np.random.default_rng(seed)
    n_classes = len(prevalence)
    truth = random.choice(n_classes, n_items, p=prevalence)
    item = np.repeat(np.arange(n_items), per_item)
    worker = np.concatenate([random.choice(len(right), per_item, replace=False) for _ in range(n_items)])
    wrong = (truth[item] + random.integers(1, n_classes, len(item))) % n_classes
    label = np.where(random.random(len(item)) < right[worker], truth[item], wrong)
    return bc.CrowdLabels.from_codes(
        item, worker, label, items=n_items, workers=len(right), classes=n_classes, truth=dict(enumerate(truth.tolist()))
    )


def by_loops(rows, n_items, n_workers, n_classes, passes, smoothing, estimated, gold):
    """EM as the docstring writes it; a row is item, worker, label and weight."""
    q = np.zeros((n_items, n_classes))
    for item, _, label, weight in rows:
        q[item, label] += weight
    voted = q.sum(1) > 0
    q[~voted] = 1.0
    q /= q.sum(1, keepdims=True)
    q = np.where((gold >= 0)[:, None], np.eye(n_classes)[gold], q)
    for _ in range(passes):
        right, total = np.full(n_workers, smoothing), np.full(n_workers, n_classes * smoothing)
        for item, worker, label, weight in rows:
            right[worker] += weight * q[item, label]
            total[worker] += weight
        right = right / total
        prevalence = q[voted | (gold >= 0)].sum(0) + smoothing if estimated else np.ones(n_classes)
        q = np.tile(np.log(prevalence / prevalence.sum()), (n_items, 1))
        for item, worker, label, weight in rows:
            for k in range(n_classes):
                q[item, k] += weight * np.log(right[worker] if k == label else (1 - right[worker]) / (n_classes - 1))
        q = np.exp(q - q.max(1, keepdims=True))
        q /= q.sum(1, keepdims=True)
        q = np.where((gold >= 0)[:, None], np.eye(n_classes)[gold], q)
    return q


@pytest.mark.parametrize("prevalence", ["estimated", "uniform"])
@pytest.mark.parametrize("passes", [1, 7])
def test_passes_equal_plain_loops(prevalence, passes):
    random = np.random.default_rng(4)
    base = crowd(1, 20, np.array([0.9, 0.8, 0.7, 0.5, 0.2]), 3, [0.5, 0.3, 0.2])
    gold = np.full(22, -1)  # item 20 has no labels, item 21 no labels but a known class
    gold[[0, 3, 21]] = 2, 1, 0
    weight = random.uniform(0.2, 2.0, base.n_annotations)
    labels = bc.CrowdLabels.from_codes(
        base.item_code, base.worker_code, base.label_code, items=22, workers=5, classes=3, weight=weight, gold_code=gold
    )
    rows = list(zip(base.item_code, base.worker_code, base.label_code, weight, strict=True))
    known = by_loops(rows, 22, 5, 3, passes, 0.1, prevalence == "estimated", gold)
    with pytest.warns(ConvergenceWarning, match=f"Stopped after {passes} pass"):
        fit = bc.baselines.one_coin(labels, prevalence=prevalence, smoothing=0.1, max_iter=passes, tolerance=0)
    np.testing.assert_allclose(fit.class_probabilities().to_numpy(), known, rtol=0, atol=1e-12)


def test_the_likelihood_never_falls_and_the_end_is_a_maximum():
    labels = crowd(2, 20, np.array([0.9, 0.8, 0.7, 0.6, 0.3]), 4, [0.5, 0.3, 0.2])
    fit = bc.baselines.one_coin(labels, tolerance=1e-9)
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert (np.diff(objective) >= -1e-10).all()
    confusion = fit.idata["point_estimate"]["confusion"].to_numpy()
    prevalence = fit.idata["point_estimate"]["prevalence"].to_numpy()
    right = confusion[:, 0, 0]

    def density(right, prevalence):
        log_right, log_wrong = np.log(right), np.log((1 - right) / 2)
        table = np.tile(np.log(prevalence), (20, 1))
        for item, worker, label in zip(labels.item_code, labels.worker_code, labels.label_code, strict=True):
            table[item] += np.where(np.arange(3) == label, log_right[worker], log_wrong[worker])
        pseudo = 0.01 * ((log_right + 2 * log_wrong).sum() + np.log(prevalence).sum())
        return np.logaddexp.reduce(table, axis=1).sum() + pseudo

    best = density(right, prevalence)
    assert best == pytest.approx(objective[-1], abs=1e-9)
    for worker in range(5):
        for step in (-1e-3, 1e-3):
            moved = right.copy()
            moved[worker] = np.clip(moved[worker] + step, 1e-6, 1 - 1e-6)
            assert density(moved, prevalence) < best + 1e-9


@pytest.mark.parametrize("n_classes", [2, 4])
def test_coins_are_recovered(n_classes):
    right = np.concatenate([np.linspace(0.55, 0.95, 18), [1 / n_classes, 0.1]])
    prevalence = [0.4, 0.6] if n_classes == 2 else [0.1, 0.2, 0.3, 0.4]
    labels = crowd(3, 4000, right, 8, prevalence)
    fit = bc.baselines.one_coin(labels)
    assert fit.converged
    assert np.abs(fit.workers()["accuracy"].to_numpy() - right).max() < 0.05
    assert np.abs(fit.idata["point_estimate"]["prevalence"].to_numpy() - prevalence).max() < 0.03
    assert accuracy(fit) > accuracy(bc.baselines.majority_vote(labels)) + 0.01
    fitted = bc.baselines.one_coin(labels, prevalence="uniform")
    assert fitted.idata["point_estimate"]["prevalence"].to_numpy().tolist() == [1 / n_classes] * n_classes


def test_what_the_fit_says_of_labels_that_are_no_class_and_of_idle_workers():
    rows = [("i", "a", 0), ("i", "b", 0), ("j", "a", 1), ("j", "b", 1), ("k", "c", "?"), ("k", "a", 1), ("i", "c", 1)]
    labels = bc.CrowdLabels.from_long(
        rows, classes=[0, 1], labels=[0, 1, "?"], items=["i", "j", "k", "l"], workers=["a", "b", "c", "d"]
    )
    fit = bc.baselines.one_coin(labels)
    matrix = fit.confusion("a")
    assert matrix["?"].tolist() == [0, 0]
    assert matrix.loc[0, 0] == matrix.loc[1, 1]
    right = fit.workers()["accuracy"]
    assert right["a"] > 0.9 > right["d"] > right["c"]
    votes = np.array([3, 2, 1])
    assert right["d"] == pytest.approx((right[["a", "b", "c"]] * votes).sum() / 6, abs=0.01)
    prevalence = fit.idata["point_estimate"]["prevalence"].to_numpy()
    assert fit.class_probabilities().loc["l"].to_numpy() == pytest.approx(prevalence, abs=1e-4)
    new = bc.CrowdLabels.from_long([("x", "a", 0), ("x", "d", 1)], classes=[0, 1])
    assert fit.predict(new).loc["x", 0] > 0.8
    assert fit.explain("i")[[0, 1]].notna().to_numpy().all()


STRANGE = {
    "one label": ([("i", "a", 0)], {}),
    "one worker": ([("i", "a", 0), ("j", "a", 1), ("k", "a", 1)], {}),
    "all agree": ([(item, worker, 0) for item in range(5) for worker in "abc"], {}),
    "repeats": ([("i", "a", 0), ("i", "a", 0), ("i", "a", 1), ("j", "b", 1), ("j", "a", 1)], {}),
    "gold against all": ([("i", "a", 0), ("i", "b", 0), ("j", "a", 1), ("j", "b", 1)], {"gold": {"i": 1, "j": 0}}),
}


@pytest.mark.parametrize("smoothing", [0.01, 0.0])
@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.filterwarnings("ignore:these labels can be used")
def test_strange_tables(name, smoothing):
    rows, options = STRANGE[name]
    fit = bc.baselines.one_coin(
        bc.CrowdLabels.from_long(rows, classes=[0, 1], duplicates="keep", **options), smoothing=smoothing
    )
    probability = fit.class_probabilities().to_numpy()
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(1), 1)
    assert np.isfinite(fit.workers()["accuracy"]).all()
    if name == "gold against all":
        assert fit.class_probabilities().loc["i"].tolist() == [0, 1]
        assert (fit.workers()["accuracy"] < 0.1).all()


def test_a_weight_is_a_number_of_votes():
    rows = [("i", "a", 0), ("i", "b", 1), ("j", "a", 1), ("j", "b", 1), ("k", "a", 0), ("k", "b", 0), ("i", "c", 1)]
    weights = [2.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    weighted = bc.CrowdLabels.from_long(
        [(*row, weight) for row, weight in zip(rows, weights, strict=True)], item=0, worker=1, label=2, weight=3
    )
    repeated = bc.CrowdLabels.from_long(
        [row for row, weight in zip(rows, weights, strict=True) for _ in range(int(weight))], duplicates="keep"
    )
    found = [bc.baselines.one_coin(labels).class_probabilities().to_numpy() for labels in (weighted, repeated)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prevalence": "flat"}, "prevalence must be 'estimated' or 'uniform', not 'flat'"),
        ({"smoothing": -1}, "smoothing must be a number of at least 0, not -1"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, not 0"),
        ({"tolerance": float("nan")}, "tolerance must be a number of at least 0, not nan"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(EngineError, match=words):
        bc.baselines.one_coin(bc.datasets.load("anesthesia"), **options)


def test_what_is_no_table_is_refused():
    with pytest.raises(LabelError, match="baselines.one_coin takes a CrowdLabels"):
        bc.baselines.one_coin([(1, 2, 3)])


# No published figures; crowd-kit 1.4.2's OneCoinDawidSkene, which stops earlier, has 41.67, 7.50, 16.98 and 43.96.
ESTIMATED = {"bluebird": 41.67, "rte": 7.50, "dog": 16.98, "web": 18.81, "trec": 43.96}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATED)
def test_real_data(name, unrepeated):
    assert 100 * (1 - accuracy(bc.baselines.one_coin(unrepeated(name)))) == pytest.approx(ESTIMATED[name], abs=0.03)
