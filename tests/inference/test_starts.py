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
from bayescrowd.inference import ability, starts

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


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("init", [None, "ability"])
def test_without_levels_ability_is_the_majority(case, init):
    labels = CASES[case]()
    np.testing.assert_array_equal(starts.resolve(init, labels, MODEL), starts.majority(labels))
    np.testing.assert_array_equal(starts.resolve(init, labels, bc.IDBLA(n_levels=1)), starts.majority(labels))


def test_an_array_by_class_is_spread_over_the_levels_of_ability():
    labels = labels_of(D1)
    array = np.tile([[0.25, 0.75]], (5, 1))
    weights = starts.level_weights(labels, TwoLevels())
    found = starts.resolve(array, labels, TwoLevels())
    np.testing.assert_allclose(found, np.hstack([weights[:, :1] * array, weights[:, 1:] * array]))
    # Levels that all items share alike are a saddle.
    assert len({tuple(row) for row in weights}) > 1
    by_state = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    np.testing.assert_allclose(starts.resolve(by_state, labels, TwoLevels()), by_state)


UNEQUAL = ["111", "000", "110", "001", "10 ", "01 "]
"""Two easy, two middling, two hard items."""


@pytest.mark.parametrize(
    ("model", "easy", "middle", "hard"),
    [
        (bc.IDBLA(n_levels=3), [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]),
        (bc.FixedIDBLA(), [0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]),
    ],
)
@pytest.mark.parametrize("init", ["ability", "majority", None])
def test_levels_from_easy_to_hard_are_filled_softly(model, easy, middle, hard, init):
    labels = labels_of(UNEQUAL)
    weights = starts.level_weights(labels, model)
    np.testing.assert_allclose(weights, [easy, easy, middle, middle, hard, hard])
    start = starts.resolve(init, labels, model).reshape(6, 3, 2)
    np.testing.assert_allclose(start.sum(2), weights)
    np.testing.assert_allclose(start.sum(1), starts.majority(labels))


def test_two_and_four_levels():
    labels = labels_of(UNEQUAL)
    two = starts.level_weights(labels, bc.IDBLA(n_levels=2))
    np.testing.assert_allclose(two[[0, -1]], [[0.6, 0.4], [0.4, 0.6]])
    rng = np.random.default_rng(0)
    many = of_rows([(i, k, rng.integers(0, 2)) for i in range(40) for k in rng.choice(9, 4, replace=False)])
    four = starts.level_weights(many, bc.FixedIDBLA(n_levels=4))
    assert np.sort(four, axis=1).tolist() == pytest.approx(np.tile([1 / 6, 1 / 6, 1 / 6, 0.5], (40, 1)))
    easiness = ability.estimate(many).easiness
    by_level = [easiness[four.argmax(1) == level] for level in (2, 0, 1, 3)]
    assert all(one.min() > two.max() for one, two in zip(by_level, by_level[1:], strict=False))
    assert [len(part) for part in by_level] == pytest.approx([10] * 4, abs=3)


def test_items_without_labels_favour_no_level():
    labels = CASES["everything"]()
    np.testing.assert_allclose(starts.level_weights(labels, bc.IDBLA())[4], 1 / 3)
    start = starts.resolve(None, labels, bc.IDBLA())
    np.testing.assert_allclose(start[4], 1 / 6)
    assert start[1].reshape(3, 2)[:, 1].tolist() == [0, 0, 0]  # gold
    np.testing.assert_allclose(start.sum(1), 1)


def test_tables_and_fits_are_spread_over_the_levels_of_ability():
    labels = labels_of(UNEQUAL)
    table = pd.DataFrame([[0.3, 0.7]] * 6, index=labels.items, columns=labels.classes)
    weights = starts.level_weights(labels, bc.IDBLA())
    expected = (weights[:, :, None] * [0.3, 0.7]).reshape(6, -1)
    for init in (table, EarlierFit(table), table.to_numpy()):
        np.testing.assert_allclose(starts.resolve(init, labels, bc.IDBLA()), expected)


class EarlierFitWithLevels(EarlierFit):
    """All that a start needs of a fit with levels."""

    def __init__(self, table, levels):
        super().__init__(table)
        self.levels = levels

    def items(self):
        return self.levels.assign(difficulty="1", probability=1.0)


def test_an_earlier_fit_with_the_same_levels_gives_both():
    labels = labels_of(UNEQUAL)
    table = pd.DataFrame([[0.3, 0.7]] * 6, index=labels.items, columns=labels.classes)
    levels = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(3), 6), labels.items, ["1", "2", "3"])
    weights = starts.level_weights(labels, bc.IDBLA())
    weights[1:] = levels.to_numpy()[1:]
    fit = EarlierFitWithLevels(table, levels.iloc[:0:-1])  # without the first item, backwards
    found = starts.resolve(fit, labels, bc.IDBLA())
    np.testing.assert_allclose(found, (weights[:, :, None] * [0.3, 0.7]).reshape(6, -1))
    # Other levels are no levels of this model.
    for other in (bc.FixedIDBLA(), bc.IDBLA(n_levels=2), bc.IDBLA(n_levels=4)):
        spread = starts.resolve(fit, labels, other).reshape(6, -1, 2).sum(2)
        np.testing.assert_allclose(spread, starts.level_weights(labels, other))


def test_a_real_fit_with_levels_is_a_start():
    labels = labels_of(UNEQUAL)
    fit = bc.fit(labels, bc.IDBLA(), engine="em", progress=False)
    found = starts.resolve(fit, labels, bc.IDBLA()).reshape(6, 3, 2)
    np.testing.assert_allclose(found.sum(2), fit.items()[["1", "2", "3"]], atol=1e-12)
    np.testing.assert_allclose(found.sum(1), fit.class_probabilities(), atol=1e-12)
    np.testing.assert_allclose(starts.resolve(fit, labels, MODEL), fit.class_probabilities())
    plain = bc.fit(labels, engine="em", progress=False)
    spread = starts.resolve(plain, labels, bc.IDBLA()).reshape(6, 3, 2).sum(2)
    np.testing.assert_allclose(spread, starts.level_weights(labels, bc.IDBLA()))


def test_a_fit_with_levels_starts_from_ability_by_default():
    labels = labels_of(UNEQUAL)
    with pytest.warns(bc.ConvergenceWarning):
        one, two, other = (
            bc.fit(labels, bc.IDBLA(), engine="em", max_iter=1, progress=False, **init)
            for init in ({}, {"init": "ability"}, {"init": np.full((6, 6), 1 / 6)})
        )
    np.testing.assert_array_equal(one.class_probabilities(), two.class_probabilities())
    assert not np.allclose(one.class_probabilities(), other.class_probabilities())


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
        ("average", "'multispa-kl', 'symnmf', a Fit or an array"),
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


def test_an_array_of_neither_shape_names_both():
    with pytest.raises(EngineError, match=r"item x class, \(5, 2\), or item x state .*, \(5, 6\)"):
        starts.resolve(np.ones((5, 4)) / 4, labels_of(D1), bc.IDBLA())


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


def test_names_of_starts():
    assert starts.names() == ["majority", "ability", "multispa", "multispa-kl", "symnmf"]
