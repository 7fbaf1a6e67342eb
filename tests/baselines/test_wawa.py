"""Worker agreement with aggregate against plain loops, strange tables and the figures of crowd-kit's code."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from baselines import crowds
from scoring import accuracy

import bayescrowd as bc
from bayescrowd.errors import EngineError, LabelError


def by_loops(rows):
    """Shares by item, and skills; a row is item, worker, label and weight. Ties are shared."""
    count, weighted = defaultdict(Counter), defaultdict(Counter)
    for item, _, label, weight in rows:
        count[item][label] += weight
    leading = {item: [k for k, v in votes.items() if v == max(votes.values())] for item, votes in count.items()}
    hits, total = Counter(), Counter()
    for item, worker, label, weight in rows:
        hits[worker] += weight * (label in leading[item]) / len(leading[item])
        total[worker] += weight
    skill = {worker: hits[worker] / total[worker] for worker in total}
    for item, worker, label, weight in rows:
        weighted[item][label] += weight * skill[worker]
    return {i: {k: v / sum(votes.values()) for k, v in votes.items()} for i, votes in weighted.items()}, skill


@pytest.mark.parametrize("seed", range(3))
def test_shares_equal_plain_loops(seed):
    random = np.random.default_rng(seed)
    rows = [
        (item, worker, int(random.integers(3)), float(random.integers(1, 4)))
        for item in range(12)
        for worker in random.choice(6, random.integers(1, 5), replace=False).tolist()
    ]
    shares, skill = by_loops(rows)
    labels = bc.CrowdLabels.from_long(rows, item=0, worker=1, label=2, weight=3, classes=[0, 1, 2])
    fit = bc.baselines.wawa(labels)
    found = fit.class_probabilities()
    for item, share in shares.items():
        assert found.loc[item].tolist() == pytest.approx([share.get(k, 0.0) for k in range(3)], abs=1e-12)
    accuracies = fit.workers()["accuracy"]
    assert accuracies.to_dict() == pytest.approx({worker: skill[worker] for worker in accuracies.index})
    assert fit.converged is None
    assert fit.workers().attrs["accuracy"] == "as wawa has it"


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_rows_does_not_matter(seed):
    rows = [("i", "a", 0), ("i", "b", 1), ("j", "a", 0), ("j", "b", 0), ("j", "c", 1), ("k", "c", 1)]
    order = np.random.default_rng(seed).permutation(len(rows))
    found = [
        bc.baselines.wawa(bc.CrowdLabels.from_long(given, classes=[0, 1])).class_probabilities().sort_index()
        for given in (rows, [rows[place] for place in order])
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-15)


def test_good_workers_outvote_the_others():
    labels = crowds.skilled()
    fit = bc.baselines.wawa(labels)
    skill = fit.workers()["accuracy"].to_numpy()
    assert skill[:3].min() > skill[3:].max() + 0.1
    assert accuracy(fit) > accuracy(bc.baselines.majority_vote(labels)) + 0.01


@pytest.mark.filterwarnings("ignore:these labels can be used")
def test_strange_tables():
    rows = [("i", "a", 0), ("i", "a", 0), ("i", "b", 1), ("j", "b", 1), ("k", "c", "?")]
    labels = bc.CrowdLabels.from_long(
        rows,
        classes=[0, 1],
        labels=[0, 1, "?"],
        items=["i", "j", "k", "l", "m"],
        workers=["a", "b", "c"],
        gold={"i": 1, "m": 0},
        duplicates="keep",
    )
    fit = bc.baselines.wawa(labels)
    found = fit.class_probabilities()
    assert found.loc[["i", "j", "m"]].to_numpy().tolist() == [[0, 1], [0, 1], [1, 0]]
    assert found.loc[["k", "l"]].to_numpy().tolist() == [[0.5, 0.5]] * 2
    # c has no votes: the average of all.
    assert fit.workers()["accuracy"].to_dict() == {"a": 0.0, "b": 1.0, "c": 0.5}
    one = bc.CrowdLabels.from_long([("i", "a", 0)], classes=[0, 1])
    assert bc.baselines.wawa(one).class_probabilities().to_numpy().tolist() == [[1, 0]]
    no_class = bc.CrowdLabels.from_long([("i", "a", "?")], classes=[0, 1], labels=[0, 1, "?"])
    with pytest.raises(EngineError, match="no label of this table is one"):
        bc.baselines.wawa(no_class)
    with pytest.raises(LabelError, match="baselines.wawa takes a CrowdLabels"):
        bc.baselines.wawa(None)


# With crowd-kit 1.4.2's Wawa on the items whose vote is not tied, shares and skills agree to 1e-15 on rte, dog, web,
# trec, product and face. Its figures on product, which has no ties, and on bluebird and rte are these.
CROWD_KIT = {"bluebird": 24.07, "rte": 7.87, "product": 10.34}
SHARED = {"dog": 16.98, "web": 20.13, "trec": 35.65}


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.parametrize("name", [*CROWD_KIT, *SHARED])
def test_real_data(name, unrepeated):
    found = 100 * (1 - accuracy(bc.baselines.wawa(unrepeated(name))))
    assert found == pytest.approx((CROWD_KIT | SHARED)[name], abs=0.006)
