"""What PGD and M-MSR share: one-coin workers from the agreement of pairs, and the vote that their skills call for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from baselines import crowds
from scoring import hits

import bayescrowd as bc
from bayescrowd.errors import ConvergenceWarning, EngineError, LabelError

both = pytest.mark.parametrize("method", [bc.baselines.pgd, bc.baselines.m_msr], ids=lambda method: method.__name__)


def skills(fit):
    return fit.idata["point_estimate"]["skill"].to_numpy()


@both
def test_the_vote_that_skills_call_for(method):
    labels = bc.datasets.load("anesthesia")
    fit = method(labels)
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


@both
@pytest.mark.parametrize("n_classes", [2, 4])
def test_recovery_of_one_coin_workers_and_adversaries(method, n_classes):
    right = np.concatenate([np.linspace(0.6, 0.95, 20), np.full(4, 0.05 if n_classes == 4 else 0.15)])
    labels = crowds.coins(4, 4000, 8, right, n_classes)
    fit = method(labels)
    np.testing.assert_allclose(fit.workers()["accuracy"], right, atol=0.06)
    assert np.flatnonzero(skills(fit) < 0).tolist() == [20, 21, 22, 23]
    vote = hits(bc.baselines.majority_vote(labels).class_probabilities(), labels.truth)
    assert hits(fit.class_probabilities(), labels.truth) > vote + 0.005
    if n_classes == 2:
        believing = method(labels, signs="positive")
        assert (skills(believing) >= 0).all()
        np.testing.assert_allclose(skills(believing)[20:], -skills(fit)[20:], atol=0.05)


@both
def test_a_weight_is_a_number_of_equal_labels_and_of_equal_items(method):
    base = crowds.coins(5, 60, 5, np.full(8, 0.7), 3)
    rows = base.to_frame()[["item", "worker", "label"]]
    weight = 1 + rows["item"].astype(int) % 3
    weighted = bc.CrowdLabels.from_long(rows.assign(weight=weight), weight="weight", classes=[0, 1, 2])
    repeated = bc.CrowdLabels.from_long(rows.loc[rows.index.repeat(weight)], classes=[0, 1, 2], duplicates="keep")
    copies = [rows[weight > copy].assign(item=rows["item"].astype(str) + f"/{copy}") for copy in range(3)]
    copied = bc.CrowdLabels.from_long(pd.concat(copies), classes=[0, 1, 2])
    found = [method(labels) for labels in (weighted, repeated, copied)]
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


@both
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(method, name, n_classes):
    fit = method(bc.CrowdLabels.from_codes(*np.array(STRANGE[name]).T, classes=n_classes))
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


@both
def test_workers_who_share_no_item_are_like_the_average(method):
    labels = crowds.coins(6, 300, 4, np.full(9, 0.8), 3)
    frame = labels.to_frame()[["item", "worker", "label"]]
    alone = pd.DataFrame({"item": ["x", "y"], "worker": "alone", "label": [1, 2]})
    more = bc.CrowdLabels.from_long(pd.concat([frame.astype({"item": str, "worker": str}), alone]), classes=[0, 1, 2])
    fit = method(more)
    accuracy = fit.workers()["accuracy"]
    assert accuracy["alone"] == pytest.approx(accuracy.drop("alone").mean())
    assert fit.class_probabilities().loc["y", 2] == pytest.approx(accuracy["alone"])
    assert "share no item with others (1)" in str(fit.idata.attrs["warnings"])


@both
def test_gold_silent_items_and_labels_that_are_no_class(method):
    rows = [(f"i{i}", w, "nyz"[i % 3]) for i in range(9) for w in "abc"] + [("silent", "d", "?"), ("i1", "d", "?")]
    labels = bc.CrowdLabels.from_long(rows, classes=["n", "y", "z"], labels=["n", "y", "z", "?"], gold={"i0": "y"})
    fit = method(labels)
    probability = fit.class_probabilities()
    np.testing.assert_allclose(probability.loc["silent"], 1 / 3)
    assert probability.loc["i0"].tolist() == [0, 1, 0]
    assert probability.loc["i1", "y"] > 0.9
    assert fit.confusion("a")["?"].tolist() == [0, 0, 0]
    np.testing.assert_allclose(fit.confusion("a").sum(axis=1), 1)


@both
def test_refusal_of_other_things(method):
    with pytest.raises(LabelError, match=f"baselines.{method.__name__} takes a CrowdLabels"):
        method([("i", "a", 1)])
    with pytest.raises(EngineError, match="with one class there is no chance"):
        method(bc.CrowdLabels.from_codes([0], [0], [0], classes=1))


@both
def test_one_who_stops_early_says_so(method):
    with pytest.warns(ConvergenceWarning, match="Stopped after 1 .*raise max_iter"):
        fit = method(bc.datasets.load("anesthesia"), max_iter=1)
    assert fit.idata.attrs["converged"] == "no"
    assert method(bc.datasets.load("anesthesia")).idata.attrs["converged"] == "yes"
