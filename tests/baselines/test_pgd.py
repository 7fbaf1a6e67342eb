"""PGD against a plain constant-step descent and simulated crowds, and its errors on real data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import ConvergenceWarning, EngineError, LabelError


def crowd(seed, n_items, per_item, right, n_classes):
    """One-coin workers, picked at random for each item."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_items)
    n_workers = len(right)
    worker = np.concatenate([random.choice(n_workers, per_item, replace=False) for _ in range(n_items)])
    item = np.repeat(np.arange(n_items), per_item)
    step = np.where(random.random(len(item)) < right[worker], 0, random.integers(1, n_classes, len(item)))
    label = (truth[item] + step) % n_classes
    return bc.CrowdLabels.from_codes(
        item, worker, label, items=n_items, workers=n_workers, classes=n_classes, truth=dict(enumerate(truth.tolist()))
    )


def correlations(labels):
    """Chance-corrected agreement and common items of all pairs, by loops."""
    n, k = labels.n_workers, labels.n_classes
    said = [
        dict(zip(labels.item_code[labels.worker_code == w], labels.label_code[labels.worker_code == w], strict=True))
        for w in range(n)
    ]
    common, agree = np.zeros((n, n)), np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            both = set(said[a]) & set(said[b]) if a != b else set()
            common[a, b] = len(both)
            agree[a, b] = sum(said[a][i] == said[b][i] for i in both)
    share = agree / np.where(common > 0, common, 1)
    return common, np.where(common > 0, (k * share - 1) / (k - 1), 0.0)


def skills(fit):
    return fit.idata["point_estimate"]["skill"].to_numpy()


def by_small_steps(labels, *, weights="count", absolute=False):
    """The papers' descent: from one half, by steps of one length, back into the box."""
    common, known = correlations(labels)
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
    labels = crowd(1, 80, 5, np.linspace(0.45, 0.95, 12), n_classes)
    known, value = by_small_steps(
        labels, weights=options.get("weights", "count"), absolute=options.get("signs") == "positive"
    )
    fit = bc.baselines.pgd(labels, tolerance=1e-12, **options)
    np.testing.assert_allclose(skills(fit), known, atol=1e-8)
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert objective[-1] == pytest.approx(value, rel=1e-9)
    assert len(objective) < 200


def test_the_vote_that_skills_call_for():
    labels = bc.datasets.load("anesthesia")
    fit = bc.baselines.pgd(labels)
    right = (1 + 3 * skills(fit)) / 4
    logit = np.zeros((labels.n_items, 4))
    for item, worker, label in zip(labels.item_code, labels.worker_code, labels.label_code, strict=True):
        logit[item, label] += np.log(3 * right[worker] / (1 - right[worker]))
    probability = np.exp(logit) / np.exp(logit).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.class_probabilities(), probability, atol=1e-12)
    np.testing.assert_allclose(fit.workers()["accuracy"], right, atol=1e-12)
    np.testing.assert_allclose(np.diag(fit.confusion(2)), right[1], atol=1e-12)
    assert fit.explain(3).shape[0] == 8
    assert fit.predict(pd.DataFrame({"item": ["new"] * 2, "worker": [1, 2], "label": [3, 3]})).idxmax(
        axis=1
    ).tolist() == [3]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_recovery_of_one_coin_workers_and_adversaries(n_classes):
    right = np.concatenate([np.linspace(0.6, 0.95, 20), np.full(4, 0.05 if n_classes == 4 else 0.15)])
    labels = crowd(4, 4000, 8, right, n_classes)
    fit = bc.baselines.pgd(labels)
    np.testing.assert_allclose(fit.workers()["accuracy"], right, atol=0.06)
    assert np.flatnonzero(skills(fit) < 0).tolist() == [20, 21, 22, 23]
    vote = hits(bc.baselines.majority_vote(labels).class_probabilities(), labels.truth)
    assert hits(fit.class_probabilities(), labels.truth) > vote + 0.005
    if n_classes == 2:
        believing = bc.baselines.pgd(labels, signs="positive")
        assert (skills(believing) >= 0).all()
        np.testing.assert_allclose(skills(believing)[20:], -skills(fit)[20:], atol=0.05)


def test_a_weight_is_a_number_of_equal_labels_and_of_equal_items():
    base = crowd(5, 60, 5, np.full(8, 0.7), 3)
    rows = base.to_frame()[["item", "worker", "label"]]
    weight = 1 + rows["item"].astype(int) % 3
    weighted = bc.CrowdLabels.from_long(rows.assign(weight=weight), weight="weight", classes=[0, 1, 2])
    repeated = bc.CrowdLabels.from_long(rows.loc[rows.index.repeat(weight)], classes=[0, 1, 2], duplicates="keep")
    copies = [rows[weight > copy].assign(item=rows["item"].astype(str) + f"/{copy}") for copy in range(3)]
    copied = bc.CrowdLabels.from_long(pd.concat(copies), classes=[0, 1, 2])
    found = [bc.baselines.pgd(labels) for labels in (weighted, repeated, copied)]
    skill = [pd.Series(skills(fit), fit.labels.workers) for fit in found]
    low, high = -0.5 + 1 / np.sqrt(60), 1 - 1 / np.sqrt(60)
    assert skill[0].between(low + 1e-6, high - 1e-6).all()
    for other in skill[1:]:
        np.testing.assert_allclose(other[skill[0].index], skill[0], atol=1e-6)
    probability = [fit.class_probabilities() for fit in found]
    np.testing.assert_allclose(probability[1].loc[probability[0].index], probability[0], atol=1e-6)


STRANGE = {
    "one item": [(0, 0, 0), (0, 1, 1), (0, 2, 1)],
    "one worker": [(0, 0, 0), (1, 0, 1), (2, 0, 1)],
    "one label": [(0, 0, 0)],
    "agreed": [(i, w, 1) for i in range(2) for w in range(3)],
    "opposed": [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
    "apart": [(0, 0, 0), (1, 1, 1)],
    "never both": [(i, w, w) for i in range(3) for w in range(2)],
    "chance": [(i, w, (i >> w) % 2) for i in range(8) for w in range(3)],
}


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(name, n_classes):
    fit = bc.baselines.pgd(bc.CrowdLabels.from_codes(*np.array(STRANGE[name]).T, classes=n_classes))
    probability = fit.class_probabilities().to_numpy()
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert np.isfinite(skills(fit)).all()
    if name in ("one worker", "one label", "agreed", "apart"):
        vote = bc.baselines.majority_vote(fit.labels).class_probabilities().to_numpy()
        assert probability.argmax(axis=1).tolist() == vote.argmax(axis=1).tolist()
    said = str(fit.idata.attrs["warnings"])
    assert ("No two workers share an item" in said) == (name in ("one worker", "one label", "apart"))
    assert ("only products of skills" in said) == (name in ("opposed", "never both"))


def test_workers_who_share_no_item_are_like_the_average():
    labels = crowd(6, 300, 4, np.full(9, 0.8), 3)
    frame = labels.to_frame()[["item", "worker", "label"]]
    alone = pd.DataFrame({"item": ["x", "y"], "worker": "alone", "label": [1, 2]})
    more = bc.CrowdLabels.from_long(pd.concat([frame.astype({"item": str, "worker": str}), alone]), classes=[0, 1, 2])
    fit = bc.baselines.pgd(more)
    accuracy = fit.workers()["accuracy"]
    assert accuracy["alone"] == pytest.approx(accuracy.drop("alone").mean())
    assert fit.class_probabilities().loc["y", 2] == pytest.approx(accuracy["alone"])
    assert "share no item with others (1)" in str(fit.idata.attrs["warnings"])


def test_gold_silent_items_and_labels_that_are_no_class():
    rows = [(f"i{i}", w, "nyz"[i % 3]) for i in range(9) for w in "abc"] + [("silent", "d", "?"), ("i1", "d", "?")]
    labels = bc.CrowdLabels.from_long(rows, classes=["n", "y", "z"], labels=["n", "y", "z", "?"], gold={"i0": "y"})
    fit = bc.baselines.pgd(labels)
    probability = fit.class_probabilities()
    np.testing.assert_allclose(probability.loc["silent"], 1 / 3)
    assert probability.loc["i0"].tolist() == [0, 1, 0]
    assert probability.loc["i1", "y"] > 0.9
    assert fit.confusion("a")["?"].tolist() == [0, 0, 0]
    np.testing.assert_allclose(fit.confusion("a").sum(axis=1), 1)


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


def test_refusal_of_other_things():
    with pytest.raises(LabelError, match="baselines.pgd takes a CrowdLabels"):
        bc.baselines.pgd([("i", "a", 1)])
    with pytest.raises(EngineError, match="with one class there is no chance"):
        bc.baselines.pgd(bc.CrowdLabels.from_codes([0], [0], [0], classes=1))


def test_one_who_stops_early_says_so():
    with pytest.warns(ConvergenceWarning, match="Stopped after 1 .*raise max_iter"):
        fit = bc.baselines.pgd(bc.datasets.load("anesthesia"), max_iter=1)
    assert fit.idata.attrs["converged"] == "no"
    assert bc.baselines.pgd(bc.datasets.load("anesthesia")).idata.attrs["converged"] == "yes"


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
