"""Pair statistics against counting by hand, and the co-label graph."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayescrowd as bc
from bayescrowd.errors import EngineError
from bayescrowd.moments import cooccurrence as module
from bayescrowd.moments.cooccurrence import cooccurrence
from bayescrowd.moments.graph import components

pytestmark = pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")


def labels_of(rows, **more):
    frame = pd.DataFrame(rows, columns=["item", "worker", "label", "weight"][: len(rows[0])])
    weight = {"weight": "weight"} if "weight" in frame else {}
    return bc.CrowdLabels.from_long(
        frame, item="item", worker="worker", label="label", duplicates="keep", **weight, **more
    )


def by_hand(labels):
    """Counts by a loop over items and pairs of workers."""
    n_workers, n_labels = labels.n_workers, len(labels.label_values)
    count = np.zeros((n_workers, n_workers, n_labels, n_labels))
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    for item in range(labels.n_items):
        rows = np.flatnonzero(labels.item_code == item)
        answers = {}
        for row in rows:
            answer = answers.setdefault(labels.worker_code[row], np.zeros(n_labels))
            answer[labels.label_code[row]] += weight[row]
        for one, other in itertools.combinations(sorted(answers), 2):
            a, b = answers[one], answers[other]
            if a.sum() > 0 and b.sum() > 0:
                count[one, other] += np.outer(a, b) / np.sqrt(a.sum() * b.sum())
    return count


def check(labels):
    pairs = cooccurrence(labels)
    expected = by_hand(labels)
    found = np.zeros_like(expected)
    found[pairs.first, pairs.second] = pairs.count
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (pairs.first < pairs.second).all()
    assert (pairs.total > 0).all()
    np.testing.assert_allclose(pairs.rate.sum(axis=(1, 2)), 1)


rows = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 2), st.sampled_from([0.5, 1.0, 2.0])),
    min_size=1,
    max_size=40,
)


@given(rows)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_by_hand(table):
    check(labels_of(table))


def test_dense_products_give_the_same(monkeypatch):
    labels = bc.simulate(bc.DawidSkene(), n_items=60, n_workers=7, classes=3, seed=1).labels
    plain = cooccurrence(labels)
    monkeypatch.setattr(module, "_DENSE_FACTOR", 1e9)
    monkeypatch.setattr(module, "_ROWS", 16)
    dense = cooccurrence(labels)
    np.testing.assert_allclose(dense.count, plain.count)
    np.testing.assert_array_equal(dense.first, plain.first)


def test_a_weight_that_all_labels_share_counts_as_that_many_items():
    rows = [("a", "u", 0), ("a", "v", 1), ("b", "u", 0), ("b", "v", 0)]
    heavy = [(*row, 3.0 if row[0] == "a" else 1.0) for row in rows]
    often = rows + [(f"a{i}", worker, label) for i in range(2) for item, worker, label in rows if item == "a"]
    np.testing.assert_allclose(cooccurrence(labels_of(heavy)).count, cooccurrence(labels_of(often)).count)


def test_repeats_are_averaged():
    pairs = cooccurrence(labels_of([("a", "u", 0), ("a", "u", 1), ("a", "v", 1)]))
    np.testing.assert_allclose(pairs.rate, [[[0, 0.5], [0, 0.5]]])


def test_standard_errors_are_those_of_binomial_shares():
    labels = bc.simulate(bc.DawidSkene(), n_items=4000, n_workers=2, classes=2, seed=3).labels
    pairs = cooccurrence(labels)
    np.testing.assert_allclose(pairs.standard_error, np.sqrt(pairs.rate * (1 - pairs.rate) / 4000), rtol=0.02)


def test_pairs_with_few_common_items_can_be_left_out():
    rows = [(i, w, 0) for i in range(5) for w in "uv"] + [(9, "u", 1), (9, "x", 1)]
    labels = labels_of(rows)
    assert cooccurrence(labels).n_pairs == 2
    kept = cooccurrence(labels, least=2)
    assert (kept.n_pairs, kept.n_dropped) == (1, 1)
    np.testing.assert_array_equal(kept.degree(), [1, 1, 0])


def test_too_many_pairs_are_refused_with_the_remedy(monkeypatch):
    labels = bc.simulate(bc.DawidSkene(), n_items=30, n_workers=8, classes=2, seed=0).labels
    monkeypatch.setattr(module, "_MOST_VALUES", 40)
    with pytest.raises(EngineError, match="leave out pairs with few common items, for example those with fewer than"):
        cooccurrence(labels)


def graph_of(*groups):
    """Each group of workers labels an item of its own."""
    return components(cooccurrence(labels_of([(i, w, 0) for i, group in enumerate(groups) for w in group])))


def test_components_and_bipartite_ones():
    triangle = graph_of("ab", "bc", "ac")
    assert (triangle.n, triangle.bipartite.tolist()) == (1, [False])
    path = graph_of("ab", "bc", "cd")
    assert (path.n, path.bipartite.tolist()) == (1, [True])
    square = graph_of("ab", "bc", "cd", "da")
    assert square.bipartite.tolist() == [True]
    five = graph_of("ab", "bc", "cd", "de", "ea")
    assert five.bipartite.tolist() == [False]
    both = graph_of("abc", "abc", "de", "f")
    assert both.bipartite.tolist() == [False, True, True]
    assert both.of_worker.tolist() == [0, 0, 0, 1, 1, 2]
