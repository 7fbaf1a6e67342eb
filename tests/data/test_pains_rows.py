"""Reports by practitioners that concern repeats, weights, gold and size; see test_pains."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdWarning, LabelError

VOTES = {"a": "110", "b": "000", "c": "111", "d": "010", "e": "001"}
ROWS = [(item, f"w{k}", int(vote)) for item, votes in VOTES.items() for k, vote in enumerate(votes, 1)]
CODES = [int(vote) for votes in VOTES.values() for vote in votes]


def d1() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["item", "worker", "label"])


def repeated() -> pd.DataFrame:
    """Five more copies of (a, w3, 0) and a contradicting (a, w1, 0)."""
    more = [("a", "w3", 0)] * 5 + [("a", "w1", 0)]
    return pd.concat([d1(), pd.DataFrame(more, columns=["item", "worker", "label"])], ignore_index=True)


def test_p29_repeats_are_kept_with_one_warning():
    with pytest.warns(BayescrowdWarning, match="repeat the item and worker of another row: 6") as caught:
        labels = CrowdLabels.from_long(repeated())
    assert len(caught) == 1
    assert "worker 'w3' on item 'a' (6 times)" in str(caught[0].message)
    assert labels.n_annotations == 21
    assert labels.summary().n_repeats == 6


@pytest.mark.parametrize(
    ("policy", "n_rows", "of_w1"),
    [("keep", 21, [1, 0]), ("first", 15, [1]), ("last", 15, [0]), ("drop-identical", 16, [1, 0])],
)
def test_p29_policies(policy, n_rows, of_w1):
    labels = CrowdLabels.from_long(repeated(), duplicates=policy)
    assert labels.n_annotations == n_rows
    said = labels.label_code[(labels.item_code == 0) & (labels.worker_code == 0)]
    assert said.tolist() == of_w1
    assert any("repeat the item and worker" in note for note in labels.notes)


def test_p29_error_policy_and_unknown_policy():
    with pytest.raises(
        LabelError, match=r"repeat the item and worker of another row: 6.*row 15, row 16, row 17 and 3 more"
    ):
        CrowdLabels.from_long(repeated(), duplicates="error")
    with pytest.raises(LabelError, match="duplicates='merge' is unknown; it is one of warn, keep"):
        CrowdLabels.from_long(repeated(), duplicates="merge")


def test_p29_weights_tell_rows_apart():
    rows = [("a", "x", 0, 1.0), ("a", "x", 0, 2.0), ("a", "x", 0, 2.0), ("a", "y", 1, 1.0)]
    table = pd.DataFrame(rows, columns=["item", "worker", "label", "weight"])
    labels = CrowdLabels.from_long(table, weight="weight", duplicates="drop-identical")
    assert labels.weight.tolist() == [1, 2, 1]


def test_p30_p31_ties_are_counted_whatever_the_order():
    rows = [
        ("t1", "w1", "b"),
        ("t1", "w2", "a"),
        ("t2", "w1", "a"),
        ("t2", "w2", "b"),
        ("t3", "w1", "b"),
        ("t3", "w2", "b"),
    ]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(rows))
        labels = CrowdLabels.from_long([rows[position] for position in order])
        assert labels.classes.tolist() == ["a", "b"]
        assert labels.summary().n_ties == 2


def test_p38_only_one_class_is_ever_said():
    rows = [(item, rule, 1) for item in range(10) for rule in range(5) if (item + rule) % 3]
    with pytest.warns(BayescrowdWarning, match="no worker ever says 0"):
        labels = CrowdLabels.from_long(rows, classes=[0, 1], items=list(range(14)))
    assert labels.n_items == 14
    # abstaining as something that a worker says: a label beside the classes
    abstain = [(item, rule, 1 if (item + rule) % 3 else "abstain") for item in range(10) for rule in range(5)]
    labels = CrowdLabels.from_long(abstain, classes=[0, 1], labels=[0, 1, "abstain"])
    assert labels.classes.tolist() == [0, 1]
    assert labels.label_values.tolist() == [0, 1, "abstain"]


def test_p46_weights():
    table = d1().assign(w=[2 if worker == "w1" else 1 for worker in d1()["worker"]])
    assert CrowdLabels.from_long(table, weight="w").weight.tolist() == [2, 1, 1] * 5
    table["w"] = [0.5 if worker == "w3" else 1 for worker in table["worker"]]
    assert CrowdLabels.from_long(table, weight="w").weight.tolist() == [1, 1, 0.5] * 5
    assert CrowdLabels.from_long(table.assign(w=1), weight="w").weight is None
    dropped = CrowdLabels.from_long(table.assign(w=[0] + [1] * 14), weight="w")
    assert dropped.n_annotations == 14
    assert "rows of weight 0 left out: 1 (column 'w')." in dropped.notes


@pytest.mark.parametrize(
    ("bad", "what"), [(-1, "negative"), (np.nan, "not a number"), (np.inf, "infinite"), ("much", "not a number")]
)
def test_p46_impossible_weights_are_named(bad, what):
    table = d1().assign(w=1).astype({"w": object})
    table.loc[3, "w"] = bad
    with pytest.raises(LabelError, match=rf"column 'w' \(weight\) is {what} in 1 row, first .* in row 3"):
        CrowdLabels.from_long(table, weight="w")


def test_p46_unnamed_weights_are_noticed_once():
    labels = CrowdLabels.from_long(d1().assign(confidence=0.5, weight=2))
    assert labels.weight is None
    assert sum("are not used" in note for note in labels.notes) == 1
    assert "'confidence', 'weight'" in labels.notes[0]


def test_p47_gold_by_column_mapping_and_series():
    table = d1().assign(known=[0, None, None] + [None] * 12)
    for gold in ("known", {"a": 0}, pd.Series({"a": 0})):
        labels = CrowdLabels.from_long(table, gold=gold)
        assert labels.gold_code.tolist() == [0, -1, -1, -1, -1]
        assert labels.gold.to_dict() == {"a": 0}
    wide = d1().pivot(index="item", columns="worker", values="label")
    assert CrowdLabels.from_wide(
        wide.assign(gold=[0, None, None, None, None]), items="rows", gold="gold"
    ).gold.to_dict() == {"a": 0}
    assert CrowdLabels.from_wide(wide, items="rows", gold={"a": 0}).gold.to_dict() == {"a": 0}


def test_p47_conflicting_gold_names_the_item():
    for role in ("gold", "truth"):
        with pytest.raises(
            LabelError, match=rf"{role} \('known'\) contradicts itself for 1 item: 'a'; item 'a' has 0, 1"
        ):
            CrowdLabels.from_long(d1().assign(known=[0, 1, 0] + [1] * 12), **{role: "known"})


def test_p47_gold_adds_classes_and_truth_never_does():
    labels = CrowdLabels.from_long(d1(), gold={"a": 2}, truth={"b": 3, "c": 1.0})
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.gold.to_dict() == {"a": 2}
    assert labels.truth.to_dict() == {"b": 3, "c": 1}
    with pytest.raises(LabelError, match=r"gold \('gold'\) holds 2 outside classes=\[0, 1\]"):
        CrowdLabels.from_long(d1(), gold={"a": 2}, classes=[0, 1])
    assert CrowdLabels.from_long(d1(), truth={"a": 2}, classes=[0, 1]).truth.to_dict() == {"a": 2}


def test_p47_gold_of_other_items_is_noted_or_warned_about():
    labels = CrowdLabels.from_long(d1(), gold={"a": 1, "z": 0})
    assert "gold names 1 item not in the table, ignored: 'z'." in labels.notes
    with pytest.warns(BayescrowdWarning, match="gold names no item of the table"):
        CrowdLabels.from_long(d1(), gold={1: 1})
    series = pd.Series([1] * 15, name="label")
    with pytest.warns(BayescrowdWarning, match="to name a column of the table pass 'label'"):
        CrowdLabels.from_long(d1(), gold=series)


@pytest.mark.parametrize("cell", [["safety", "billing"], {"safety"}, frozenset({"safety"}), ("safety",), np.array([1])])
def test_p49_several_labels_in_a_cell(cell):
    table = d1().astype({"label": object})
    table.at[1, "label"] = cell
    with pytest.raises(
        LabelError, match=r"column 'label' holds a \w+ in row 1: several labels at once.*one binary problem"
    ):
        CrowdLabels.from_long(table)


@pytest.mark.slow
def test_p75_five_million_rows_are_coded():
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "item": random.integers(0, 1_000_000, 5_000_000),
            "worker": random.integers(0, 5000, 5_000_000),
            "label": random.integers(0, 5, 5_000_000),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayescrowdWarning)
        labels = CrowdLabels.from_long(table)
    sample = random.integers(0, 5_000_000, 1000)
    np.testing.assert_array_equal(labels.items[labels.item_code[sample]], table["item"].to_numpy()[sample])
    np.testing.assert_array_equal(labels.workers[labels.worker_code[sample]], table["worker"].to_numpy()[sample])
    assert labels.n_annotations == 5_000_000
    assert labels.label_code.dtype == np.int32
