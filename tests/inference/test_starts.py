"""Starts: the majority vote, arrays, earlier fits; gold clamped in all of them."""

from __future__ import annotations

import numpy as np
import oracle
import pandas as pd
import pytest
from conformance.cases import CASES
from conformance.toys import TwoLevels
from running import D1, labels_of, of_rows

import bayescrowd as bc
from bayescrowd.errors import EngineError
from bayescrowd.inference import starts

MODEL = bc.DawidSkene()


class EarlierFit:
    """All that a start needs of a fit."""

    def __init__(self, table):
        self.table = table

    def class_probabilities(self):
        return self.table


@pytest.mark.parametrize("case", CASES)
def test_the_majority_start_is_the_share_of_votes(case):
    labels = CASES[case]()
    expected = oracle.majority(oracle.of_labels(labels))
    np.testing.assert_allclose(starts.majority(labels), expected, atol=1e-15)
    np.testing.assert_allclose(starts.resolve("majority", labels, MODEL), expected, atol=1e-15)


def test_labels_that_are_no_class_do_not_vote():
    labels = of_rows([(0, 0, 2), (0, 1, 1), (1, 0, 2)], classes=["no", "yes"], label_values=["no", "yes", "?"])
    np.testing.assert_allclose(starts.majority(labels), [[0, 1], [0.5, 0.5]])


def test_an_array_by_class_is_spread_over_levels():
    labels = labels_of(D1)
    array = np.tile([[0.25, 0.75]], (5, 1))
    np.testing.assert_allclose(starts.resolve(array, labels, TwoLevels()), np.tile([[0.125, 0.375]], (5, 2)))
    by_state = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    np.testing.assert_allclose(starts.resolve(by_state, labels, TwoLevels()), by_state)


def test_gold_is_clamped_whatever_the_start():
    labels = labels_of(D1, gold={0: 0, 3: 1})
    by_state = np.random.default_rng(1).dirichlet(np.ones(4), 5)
    found = starts.resolve(by_state, labels, TwoLevels())
    assert found[0, [1, 3]].tolist() == [0, 0]
    assert found[3, [0, 2]].tolist() == [0, 0]
    # The levels keep their shares.
    np.testing.assert_allclose(found[0, [0, 2]], [by_state[0, :2].sum(), by_state[0, 2:].sum()])
    np.testing.assert_allclose(found.sum(1), 1)
    assert starts.resolve("majority", labels, MODEL)[0].tolist() == [1, 0]
    rng = np.random.default_rng(2)
    assert starts.perturbed(starts.majority(labels), labels, rng)[3].tolist() == [0, 1]


def test_an_earlier_fit_is_matched_by_ids_and_values():
    labels = labels_of(D1, classes=["no", "yes"])
    table = pd.DataFrame([[0.1, 0.9], [0.7, 0.3]], index=["c", "a"], columns=["yes", "no"])
    found = starts.resolve(EarlierFit(table), labels, MODEL)
    np.testing.assert_allclose(found[0], [0.3, 0.7])
    np.testing.assert_allclose(found[2], [0.9, 0.1])
    np.testing.assert_allclose(found[1], starts.majority(labels)[1])


def test_a_real_fit_is_a_start():
    labels = labels_of(D1)
    fit = bc.fit(labels, progress=False)
    found = starts.resolve(fit, labels, MODEL)
    np.testing.assert_allclose(found, fit.class_probabilities().to_numpy())


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("average", "majority"),
        (np.ones((4, 2)) / 2, r"\(5, 2\)"),
        (np.ones((5, 3)) / 3, r"\(5, 2\)"),
        (np.ones((5, 2)), "row 0"),
        (np.array([[0.5, 0.5]] * 4 + [[np.nan, 1]]), "row 4"),
        (np.array([[0.5, 0.5]] * 3 + [[1.5, -0.5]] * 2), "row 3"),
        (object(), "Fit or an array"),
    ],
)
def test_starts_that_do_not_fit(init, words):
    with pytest.raises(EngineError, match=words):
        starts.resolve(init, labels_of(D1), MODEL)


def test_fits_that_do_not_fit():
    labels = labels_of(D1, classes=["no", "yes"])
    with pytest.raises(EngineError, match="'no'"):
        starts.resolve(EarlierFit(pd.DataFrame([[1.0]], index=["a"], columns=["yes"])), labels, MODEL)
    strange = pd.DataFrame([[0.5, 0.5]], index=["z"], columns=["no", "yes"])
    with pytest.raises(EngineError, match="no item"):
        starts.resolve(EarlierFit(strange), labels, MODEL)


def test_perturbed_starts_are_starts():
    labels = CASES["everything"]()
    start = starts.majority(labels)
    rng = np.random.default_rng(0)
    one, other = (starts.perturbed(start, labels, rng) for _ in range(2))
    assert not np.allclose(one, other)
    for found in (one, other):
        np.testing.assert_allclose(found.sum(1), 1)
        assert (found >= start / 2 - 1e-12).all()


def test_a_table_of_probabilities_is_matched_by_its_ids_not_by_position():
    labels = bc.datasets.load("anesthesia")
    table = bc.fit(labels, progress=False).class_probabilities()
    start = starts.resolve(table.iloc[::-1, ::-1], labels, bc.DawidSkene())
    np.testing.assert_allclose(start, table, atol=1e-12)
    with pytest.raises(EngineError, match="does not know the classes"):
        starts.resolve(table.rename(columns={1: "one"}), labels, bc.DawidSkene())
    table.iloc[2, 1] = np.nan
    with pytest.raises(EngineError, match="the first is row 3"):
        starts.resolve(table, labels, bc.DawidSkene())
