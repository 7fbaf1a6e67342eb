from __future__ import annotations

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.consensus import class_probabilities, consensus
from bayescrowd.errors import LabelError
from bayescrowd.fit import Fit

TIED = pd.DataFrame(
    [("t1", "w1", "b"), ("t1", "w2", "a"), ("t2", "w1", "a"), ("t2", "w2", "b"), ("t3", "w1", "b"), ("t3", "w2", "b")],
    columns=["item", "worker", "label"],
)


def _tree(labels: CrowdLabels, probability: object = None) -> object:
    run = fitted.made_point(labels, bc.DawidSkene())
    if probability is not None:
        run = run._replace(state_probability=np.asarray(probability, float))
    return fitted.tree_of(labels, bc.DawidSkene(), run)


def test_columns_and_values() -> None:
    table = consensus(_tree(fitted.d1(), [[0.25, 0.75], [0.9, 0.1], [0, 1], [0.5, 0.5], [0.6, 0.4]]))
    assert table.columns.tolist() == ["class", "probability", "entropy", "n_labels", "majority", "tie"]
    assert table.index.tolist() == list("abcde")
    assert table.index.name == "item"
    assert table["class"].tolist() == ["yes", "no", "yes", "no", "no"]
    assert table["majority"].tolist() == ["yes", "no", "yes", "no", "no"]
    assert table["probability"].tolist() == [0.75, 0.9, 1.0, 0.5, 0.6]
    np.testing.assert_allclose(table["entropy"], [0.56233514, 0.32508297, 0, np.log(2), 0.67301167], atol=1e-8)
    assert table["n_labels"].tolist() == [3] * 5
    assert not table["tie"].any()


@pytest.mark.parametrize("seed", range(4))
def test_P31_ties_do_not_depend_on_the_order_of_rows(seed: int) -> None:
    shuffled = TIED.sample(frac=1, random_state=seed)
    tree = _tree(CrowdLabels.from_long(shuffled))
    table = consensus(tree).sort_index()
    assert table["majority"].tolist() == ["a", "a", "b"]
    assert table["tie"].tolist() == [True, True, False]
    again = consensus(tree, ties="random", seed=3).sort_index()
    reference = consensus(_tree(CrowdLabels.from_long(TIED)), ties="random", seed=3).sort_index()
    assert again["majority"].tolist() == reference["majority"].tolist()


def test_P31_random_ties_are_seeded_and_fair() -> None:
    rows = [(f"t{i}", w, label) for i in range(400) for w, label in (("w1", "a"), ("w2", "b"))]
    tree = _tree(CrowdLabels.from_long(pd.DataFrame(rows, columns=["item", "worker", "label"])))
    first, again, other = (consensus(tree, ties="random", seed=seed)["majority"] for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)
    assert 150 < (first == "a").sum() < 250


def test_P95_abstaining_is_NA_even_where_minus_one_is_a_class() -> None:
    rows = pd.DataFrame([("x", 1, -1), ("x", 2, 1), ("y", 1, -1), ("y", 2, -1)], columns=["item", "worker", "label"])
    labels = CrowdLabels.from_long(rows, classes=[-1, 0, 1])
    table = consensus(_tree(labels, [[0.5, 0, 0.5], [1, 0, 0]]), ties="abstain")
    assert table["majority"].isna().tolist() == [True, False]
    assert table["class"].isna().tolist() == [True, False]
    assert table.loc["y", "majority"] == -1
    assert table["majority"].dtype == "Int64"
    assert consensus(_tree(labels, [[0.5, 0, 0.5], [1, 0, 0]]))["class"].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [([False, True], "boolean"), ([0.5, 1.5], "Float64"), (["no", "yes"], "string"), ([0, "0"], "object")],
)
def test_abstaining_keeps_the_type_of_the_classes(classes: list[object], dtype: str) -> None:
    labels = CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [0, 1, 1], classes=pd.Index(classes, dtype=object))
    majority = consensus(_tree(labels), ties="abstain")["majority"]
    assert majority.isna().tolist() == [True, False]
    assert majority[1] == classes[1]
    assert type(majority[1].item() if hasattr(majority[1], "item") else majority[1]) is type(classes[1])
    assert str(majority.dtype) == dtype or dtype == "string"


def test_rounding_does_not_break_a_tie() -> None:
    labels = fitted.d1()
    table = consensus(_tree(labels, [[0.5 - 1e-8, 0.5 + 1e-8]] + [[0.5 + 1e-8, 0.5 - 1e-8]] * 4))
    assert table["class"].tolist() == ["no"] * 5


def test_weights_count_in_the_vote_and_other_labels_do_not() -> None:
    labels = CrowdLabels.from_codes(
        [0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [0, 1, 0, 2, 2], classes=2, label_values=3, weight=[1, 3, 1, 1, 1], items=3
    )
    table = consensus(_tree(labels))
    assert table["majority"].tolist()[0] == 1
    assert table["majority"].isna().tolist() == [False, True, True]
    assert table["n_labels"].tolist() == [3, 2, 0]
    assert table["tie"].tolist() == [False, False, False]


def test_P14_one_row_per_pattern() -> None:
    counts = pd.DataFrame(
        {"w1": [1, 1, 0, 0, 0], "w2": [1, 1, 0, 0, 1], "w3": [1, 0, 0, 1, 0], "n": [40, 10, 30, 12, 0]}
    )
    labels = CrowdLabels.from_counts(counts)
    fit = bc.fit(labels, engine="em")
    by_item, by_pattern = fit.consensus(), fit.consensus(by="pattern")
    assert by_pattern["n_items"].tolist() == [40, 10, 30, 12]
    assert by_pattern.index.name == "pattern"
    probabilities = fit.class_probabilities(by="pattern")
    first_of_each = [0, 40, 50, 80]
    np.testing.assert_allclose(probabilities, fit.class_probabilities().iloc[first_of_each], atol=1e-12)
    assert by_pattern["class"].tolist() == by_item["class"].iloc[first_of_each].tolist()
    with pytest.raises(LabelError, match="from_counts"):
        fitted.em().consensus(by="pattern")


def test_P18_P93_both_axes_bear_the_users_ids_in_a_stated_order() -> None:
    rows = fitted.frame({key: fitted.D1[key] for key in "caebd"})
    table = class_probabilities(fitted.tree_of(*_labels_and_run(CrowdLabels.from_long(rows))))
    assert table.index.tolist() == list("caebd")
    assert table.columns.tolist() == ["no", "yes"]
    assert (table.index.name, table.columns.name) == ("item", "class")
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-12)


def _labels_and_run(labels: CrowdLabels) -> tuple[CrowdLabels, object, object]:
    return labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene())


def test_P18_the_order_of_rows_changes_nothing_but_the_order() -> None:
    straight = fitted.em().class_probabilities()
    rows = fitted.frame({key: fitted.D1[key] for key in "caebd"})
    pd.testing.assert_frame_equal(
        bc.fit(CrowdLabels.from_long(rows), engine="em").class_probabilities().loc[list("abcde")], straight
    )


def test_gold_is_the_consensus() -> None:
    fit = bc.fit(fitted.d1(gold={"a": "no"}), engine="em")
    assert fit.consensus().loc["a", ["class", "probability", "entropy", "majority"]].tolist() == ["no", 1.0, 0.0, "yes"]


def test_unknown_options() -> None:
    with pytest.raises(LabelError, match="ties must be 'first', 'abstain' or 'random'"):
        Fit(_tree(fitted.d1())).consensus(ties="last")
    with pytest.raises(LabelError, match="by must be 'item' or 'pattern'"):
        Fit(_tree(fitted.d1())).class_probabilities(by="worker")
