"""Difficulty of items: probabilities of levels after a fit, and the quick estimate without one."""

from __future__ import annotations

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.items import items
from bayescrowd.errors import LabelError, ModelError
from bayescrowd.inference import ability


def _tree(labels: CrowdLabels, by_level: object) -> object:
    """A result of two levels and two classes with the given probabilities of the levels."""
    model = fitted.Levelled()
    levels = np.asarray(by_level, float)
    state = (levels[:, :, None] * np.array([0.3, 0.7])).reshape(len(levels), -1)
    return fitted.tree_of(labels, model, fitted.made_point(labels, model)._replace(state_probability=state))


def test_columns_and_values() -> None:
    table = items(_tree(fitted.d1(), [[0.25, 0.75], [0.9, 0.1], [0, 1], [0.5, 0.5], [0.6, 0.4]]))
    assert table.columns.tolist() == [
        *("easy", "hard", "difficulty", "probability", "entropy", "n_labels", "agreement"),
    ]
    assert table.index.tolist() == list("abcde")
    assert table.index.name == "item"
    np.testing.assert_allclose(table["easy"], [0.25, 0.9, 0, 0.5, 0.6])
    np.testing.assert_allclose(table["hard"], [0.75, 0.1, 1, 0.5, 0.4])
    assert table["difficulty"].tolist() == ["hard", "easy", "hard", "easy", "easy"]
    np.testing.assert_allclose(table["probability"], [0.75, 0.9, 1, 0.5, 0.6])
    np.testing.assert_allclose(table["entropy"], [0.56233514, 0.32508297, 0, np.log(2), 0.67301167], atol=1e-8)
    assert table["n_labels"].tolist() == [3] * 5
    np.testing.assert_allclose(table["agreement"], [2 / 3, 1, 1, 2 / 3, 2 / 3])
    assert table.attrs == {}


def test_rounding_does_not_break_a_tie() -> None:
    table = items(_tree(fitted.d1(), [[0.5 - 1e-8, 0.5 + 1e-8]] * 5))
    assert table["difficulty"].tolist() == ["easy"] * 5


def test_a_model_without_levels_says_so() -> None:
    table = fitted.em().items()
    assert table.columns.tolist() == ["n_labels", "agreement"]
    assert "no difficulty levels" in table.attrs["difficulty"]
    assert "IDBLA" in table.attrs["difficulty"]
    assert "bc.item_difficulty" in table.attrs["difficulty"]


def test_votes_that_are_no_class_and_items_without_labels() -> None:
    labels = CrowdLabels.from_codes(
        [0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [0, 1, 0, 2, 2], classes=2, label_values=3, weight=[1, 3, 1, 1, 1], items=3
    )
    for table in (items(_tree(labels, [[0.5, 0.5]] * 3)), bc.item_difficulty(labels)):
        np.testing.assert_allclose(table["agreement"], [0.6, np.nan, np.nan])
        assert table["n_labels"].tolist() == [3, 2, 0]


def test_P14_one_row_per_pattern() -> None:
    counts = pd.DataFrame(
        {"w1": [1, 1, 0, 0, 0], "w2": [1, 1, 0, 0, 1], "w3": [1, 0, 0, 1, 0], "n": [40, 10, 30, 12, 0]}
    )
    labels = CrowdLabels.from_counts(counts)
    for model in (bc.IDBLA(n_levels=2), bc.DawidSkene()):
        fit = bc.fit(labels, model, engine="em")
        by_item, by_pattern = fit.items(), fit.items(by="pattern")
        assert by_pattern["n_items"].tolist() == [40, 10, 30, 12]
        assert by_pattern.index.name == "pattern"
        first_of_each = by_item.iloc[[0, 40, 50, 80]]
        pd.testing.assert_frame_equal(
            by_pattern.drop(columns="n_items").reset_index(drop=True), first_of_each.reset_index(drop=True)
        )
    with pytest.raises(LabelError, match="from_counts"):
        fitted.em().items(by="pattern")
    with pytest.raises(LabelError, match="by must be"):
        fitted.em().items(by="level")


def test_levels_of_a_real_fit() -> None:
    fit = bc.fit(fitted.anesthesia(), bc.FixedIDBLA(), engine="em")
    table = fit.items()
    assert table.columns[:3].tolist() == ["free1", "easy", "hard"]
    np.testing.assert_allclose(table[["free1", "easy", "hard"]].sum(axis=1), 1)
    assert set(table["difficulty"]) <= {"free1", "easy", "hard"}


def test_quick_difficulty() -> None:
    labels = fitted.d1()
    table = bc.item_difficulty(labels, n_levels=2)
    assert table.columns.tolist() == ["easiness", "difficulty", "level", "n_labels", "agreement"]
    assert table.index.tolist() == list("abcde")
    assert table.index.name == "item"
    np.testing.assert_allclose(table["easiness"], ability.estimate(labels).easiness)
    np.testing.assert_allclose(table["difficulty"] * table["easiness"], 1)
    assert table["level"].tolist() == ["2", "1", "1", "2", "2"]
    np.testing.assert_allclose(table["agreement"], [2 / 3, 1, 1, 2 / 3, 2 / 3])


def test_quick_difficulty_of_items_without_labels() -> None:
    labels = CrowdLabels.from_long(fitted.frame(), items=[*"abcdef"])
    table = bc.item_difficulty(labels)
    assert table.loc["f", ["easiness", "difficulty", "level", "agreement"]].isna().all()
    assert table.loc["f", "n_labels"] == 0
    assert table["level"].notna().sum() == 5


@pytest.mark.parametrize("seed", range(3))
def test_quick_difficulty_does_not_depend_on_the_order_of_rows(seed: int) -> None:
    rows = fitted.anesthesia().to_frame()
    table = bc.item_difficulty(CrowdLabels.from_long(rows, duplicates="keep"))
    shuffled = CrowdLabels.from_long(rows.sample(frac=1, random_state=seed), duplicates="keep")
    pd.testing.assert_frame_equal(bc.item_difficulty(shuffled).loc[table.index], table)


@pytest.mark.parametrize("n_levels", [0, -1, 2.5, True, "3", None])
def test_a_number_of_levels_that_is_none(n_levels: object) -> None:
    with pytest.raises(ModelError, match="n_levels must be a whole number of at least 1"):
        bc.item_difficulty(fitted.d1(), n_levels=n_levels)


def test_more_levels_than_items_and_one_level() -> None:
    assert set(bc.item_difficulty(fitted.d1(), n_levels=1)["level"]) == {"1"}
    many = bc.item_difficulty(fitted.d1(), n_levels=np.int64(50))["level"].astype(int)
    assert (many.min(), many.max()) == (1, 50)


def test_what_is_no_table_of_labels() -> None:
    with pytest.raises(LabelError, match="item_difficulty takes a CrowdLabels, not a DataFrame"):
        bc.item_difficulty(fitted.frame())
    with pytest.raises(LabelError, match=r"bc\.item_difficulty\(bc\.read_labels\('x\.csv'\)\)"):
        bc.item_difficulty("x.csv")
    with pytest.raises(LabelError, match="item_difficulty takes a CrowdLabels, not an array"):
        bc.item_difficulty(np.zeros((3, 3)))
