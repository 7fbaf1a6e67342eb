"""Majority vote and soft vote, and what every baseline's result can do."""

from __future__ import annotations

import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.errors import EngineError, LabelError, ModelError

TIED = [
    ("t1", "w1", "b"),
    ("t1", "w2", "a"),
    ("t2", "w1", "a"),
    ("t2", "w2", "b"),
    ("t3", "w1", "b"),
    ("t3", "w2", "b"),
]


def table(rows, **options):
    return bc.CrowdLabels.from_long(rows, **options)


@pytest.mark.parametrize("seed", range(5))
def test_P31_ties_are_shared_whatever_the_order_of_the_rows(seed):
    order = np.random.default_rng(seed).permutation(len(TIED))
    fit = bc.baselines.majority_vote(table([TIED[row] for row in order], classes=["a", "b"]))
    probability = fit.class_probabilities()
    assert probability.loc[["t1", "t2"]].to_numpy().tolist() == [[0.5, 0.5]] * 2
    assert probability.loc["t3"].tolist() == [0.0, 1.0]
    consensus = fit.consensus()
    assert consensus["class"].loc[["t1", "t2", "t3"]].tolist() == ["a", "a", "b"]
    assert consensus["tie"].loc[["t1", "t2", "t3"]].tolist() == [True, True, False]
    assert fit.consensus(ties="abstain")["class"].isna().sum() == 2


def test_weights_gold_and_items_without_votes():
    rows = [("i", "a", 0, 2.5), ("i", "b", 1, 1.5), ("i", "c", 1, 1.0), ("j", "a", 1, 1.0), ("k", "a", "?", 1.0)]
    labels = table(rows, item=0, worker=1, label=2, weight=3, classes=[0, 1], labels=[0, 1, "?"])
    fit = bc.baselines.majority_vote(labels)
    assert fit.class_probabilities().loc[["i", "j", "k"]].to_numpy().tolist() == [[0.5, 0.5], [0, 1], [0.5, 0.5]]
    soft = bc.baselines.soft_vote(labels).class_probabilities()
    assert soft.loc["i"].tolist() == [0.5, 0.5]


def test_what_needs_a_model_is_refused_in_words(tmp_path):
    fit = bc.baselines.majority_vote(bc.datasets.load("anesthesia"))
    assert str(fit).startswith("Fit of majority-vote: 45 items")
    with pytest.raises(ModelError, match="without a probability model"):
        fit.model  # noqa: B018
    with pytest.raises(ModelError, match="confusion matrices"):
        fit.explain(3)
    with pytest.raises(ModelError, match="confusion matrices"):
        fit.confusion(1)
    with pytest.raises(EngineError, match="leave bootstrap out"):
        fit.workers(bootstrap=20)
    with pytest.raises(LabelError, match="baselines.majority_vote takes a CrowdLabels"):
        bc.baselines.majority_vote([1, 2])
    report = fit.workers()
    assert report["accuracy"].between(0.7, 0.9).all()
    assert "agree with the classes" in report.attrs["accuracy"]
    assert "nothing to converge" in str(fit.diagnose())
    fit.save(tmp_path / "votes.nc")
    again = bc.load(tmp_path / "votes.nc")
    assert again.class_probabilities().equals(fit.class_probabilities())
    with pytest.raises(AttributeError, match="there are"):
        bc.baselines.no_such_method  # noqa: B018


@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
def test_every_baseline_can_be_diagnosed():
    """Also where a random start ends elsewhere: then the remedy is not the baseline's own."""
    random = np.random.default_rng(0)
    rows = [(i, w, int(random.integers(2))) for i in range(15) for w in "abcd"]
    for name in bc.baselines.__all__:
        if name == "bcc":
            continue  # a fit like any other
        fit = getattr(bc.baselines, name)(table(rows))
        assert fit.engine.replace("-", "_") == name
        assert str(fit.diagnose()).startswith(("dawid-skene by", fit.engine))
        assert len(fit.workers()) == 4
