"""Reports by practitioners that a label table can answer; the numbers of fits are tested elsewhere."""

import numpy as np
import pandas as pd
import pytest

from bayescrowd.data import read
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdWarning, LabelError

VOTES = {"a": "110", "b": "000", "c": "111", "d": "010", "e": "001"}
ROWS = [(item, f"w{k}", int(vote)) for item, votes in VOTES.items() for k, vote in enumerate(votes, 1)]
CODES = [int(vote) for votes in VOTES.values() for vote in votes]


def d1() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["item", "worker", "label"])


def is_d1(labels: CrowdLabels) -> bool:
    return (
        labels.label_code.tolist() == CODES
        and labels.item_code.tolist() == [code for code in range(5) for _ in range(3)]
        and labels.worker_code.tolist() == [0, 1, 2] * 5
    )


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (CODES, [0, 1]),
        (np.array(CODES, dtype=float), [0.0, 1.0]),
        (np.array(CODES, dtype=bool), [False, True]),
        (["yes" if code else "no" for code in CODES], ["no", "yes"]),
        (np.array(CODES, dtype=np.int8), [0, 1]),
        (pd.array(CODES, dtype="Int64"), [0, 1]),
        (pd.array(["yes" if code else "no" for code in CODES], dtype="string"), ["no", "yes"]),
        (pd.array(["yes" if code else "no" for code in CODES], dtype=object), ["no", "yes"]),
        (pd.array(np.array(CODES, dtype=bool), dtype="boolean"), [False, True]),
        (np.array(CODES, dtype=np.float16), [0.0, 1.0]),
        (np.array(CODES, dtype=np.uint8), [0, 1]),
        (np.array(CODES, dtype=bool).astype(object), [False, True]),
    ],
)
def test_p01_every_type_gives_the_same_codes_and_keeps_its_values(values, classes):
    labels = CrowdLabels.from_long(d1().assign(label=values))
    assert is_d1(labels)
    assert labels.classes.tolist() == classes
    assert [type(value) for value in labels.classes.tolist()] == [type(value) for value in classes]
    assert labels.to_frame()["label"].tolist() == [classes[code] for code in CODES]


def test_p02_ids_that_equal_codes_and_names_in_the_index():
    table = d1()
    table["item"] = [code for code in range(5) for _ in range(3)]
    table["worker"] = [0, 1, 2] * 5
    extra = table.assign(time=1.0, note="x")[["note", "label", "time", "worker", "item"]]
    for frame in (
        table,
        table.set_index("item", drop=False),
        table.set_index("item"),
        table.set_index(["worker", "item"]),
        table.set_axis([0] * 15),
        extra,
    ):
        before = frame.copy(deep=True)
        assert is_d1(CrowdLabels.from_long(frame))
        pd.testing.assert_frame_equal(frame, before)


def test_p03_categories_are_the_classes_in_their_order():
    table = d1()
    names = pd.Categorical(["yes" if code else "no" for code in CODES], categories=["no", "yes", "maybe"], ordered=True)
    table["label"] = names
    table["item"] = pd.Categorical(table["item"], categories=["zz", *"abcde"])
    table["worker"] = pd.Categorical(table["worker"], categories=["w3", "w2", "w1", "w0"])
    labels = CrowdLabels.from_long(table)
    assert labels.classes.tolist() == ["no", "yes", "maybe"]
    assert labels.ordered
    assert labels.label_code.tolist() == CODES
    # unused categories of ids are items and workers without labels
    assert labels.items.tolist() == ["zz", *"abcde"]
    assert labels.workers.tolist() == ["w3", "w2", "w1", "w0"]
    assert "items without labels: 1." in labels.notes
    assert labels.summary().items_silent.tolist() == ["zz"]
    assert not CrowdLabels.from_long(table, classes=["yes", "no"]).ordered


def test_p04_any_two_labels_will_do(tmp_path):
    for names in (["benign", "malignant"], [1, 2], [0, 1], ["01", "02"]):
        file = tmp_path / "labels.csv"
        d1().assign(label=[names[code] for code in CODES]).to_csv(file, index=False)
        labels = read.read_labels(file)
        assert is_d1(labels)
        assert labels.classes.tolist() == names


def test_p04_a_rejection_names_column_value_row_and_everything_at_once():
    table = d1().assign(weight=1.0)
    table.loc[4, "label"] = 7
    table.loc[9, "weight"] = -1
    table["fact"] = [0, 1] + [0] * 13
    table.loc[12, "worker"] = None
    with pytest.raises(LabelError) as error:
        CrowdLabels.from_long(table, weight="weight", gold="fact", classes=[0, 1])
    text = str(error.value)
    assert "4 problems" in text
    assert "column 'label' holds 7 outside classes=[0, 1]" in text
    assert "row 4" in text
    assert "column 'weight' (weight) is negative in 1 row, first -1.0 in row 9" in text
    assert "gold ('fact') contradicts itself for 1 item: 'a'" in text
    assert "1 label without worker id: row 12" in text


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT, "", "  "])
def test_p05_none_is_missing(nothing):
    table = d1().astype({"label": object})
    table.loc[2, "label"] = nothing
    labels = CrowdLabels.from_long(table)
    assert labels.classes.tolist() == [0, 1]
    assert labels.n_annotations == 14
    assert labels.label_code.tolist() == CODES[:2] + CODES[3:]
    assert "rows without label left out: 1 of 15 (column 'label')." in labels.notes


@pytest.mark.parametrize("text", ["None", "nan", "N/A", "NA", "<NA>"])
def test_p05_written_none_is_kept_with_a_warning(text):
    table = d1().astype({"label": str})
    table.loc[2, "label"] = text
    with pytest.warns(BayescrowdWarning, match=f"labels '{text}' are kept as text"):
        labels = CrowdLabels.from_long(table)
    assert labels.n_classes == 3
    assert CrowdLabels.from_long(table, missing=text).n_classes == 2
    assert CrowdLabels.from_long(table, classes=["0", "1", text]).n_classes == 3


def test_p06_a_missing_vote_is_no_vote():
    table = d1().astype({"label": object})
    table.loc[2, "label"] = None
    gone = CrowdLabels.from_long(d1().drop(index=2))
    missing = CrowdLabels.from_long(table)
    assert missing.label_code.tolist() == gone.label_code.tolist()
    assert (missing.worker_code == 2).sum() == (gone.worker_code == 2).sum() == 4


def test_p07_nan_is_handled_before_any_cast():
    labels = CrowdLabels.from_long(
        {"item": ["a", "b", "c", "d"], "worker": ["x", "y", "y", "x"], "label": np.array([1.0, np.nan, 0.0, 1.0])}
    )
    assert labels.label_code.tolist() == [1, 0, 1]
    assert labels.items[labels.item_code].tolist() == ["a", "c", "d"]
    assert labels.classes.tolist() == [0, 1]
    assert labels.items.tolist() == ["a", "b", "c", "d"]
    wide = CrowdLabels.from_wide(np.array([[1.0, np.nan], [0.0, 1.0]]), items="rows")
    assert wide.label_code.tolist() == [1, 0, 1]


def test_p09_zero_for_no_vote():
    votes = np.array([[1, 3, 0, 4, 2], [0, 3, 1, 4, 2], [1, 3, 0, 4, 0]])
    labels = CrowdLabels.from_wide(votes, items="columns", missing=0)
    assert labels.classes.tolist() == [1, 2, 3, 4]
    assert labels.n_annotations == 11
    assert labels.summary().raw_agreement == 1
    assert any("marked by missing=0" in note for note in labels.notes)


@pytest.mark.parametrize("code", [-1, -9, 99, 999])
def test_p09_a_usual_code_for_no_answer_is_pointed_out(code):
    votes = np.array([[1, 3, code], [2, 3, 4], [1, 3, 4]])
    with pytest.warns(BayescrowdWarning, match=f"label {code} looks like a code for 'no answer'"):
        CrowdLabels.from_wide(votes, items="rows")
    CrowdLabels.from_wide(np.array([[-1, 0], [0, 1]]), items="rows")


def test_p09_a_marker_of_another_type_is_pointed_out():
    with pytest.warns(BayescrowdWarning, match="missing='0' occurs nowhere .* but 0 does: text and numbers differ"):
        CrowdLabels.from_long(d1(), missing="0")


def test_p10_near_duplicates_are_warned_about():
    table = d1().assign(label=["yes" if code else "no" for code in CODES])
    table.loc[0, "label"] = "Yes "
    with pytest.warns(BayescrowdWarning, match="labels that differ only by case, spaces or type: 'Yes ' / 'yes'"):
        labels = CrowdLabels.from_long(table)
    assert labels.n_classes == 3
    mixed = d1().astype({"label": object})
    mixed.loc[0, "label"] = "1"
    with pytest.warns(BayescrowdWarning, match="1 / '1'"):
        assert CrowdLabels.from_long(mixed).n_classes == 3
    table = d1()
    table.loc[0, "worker"] = "W1"
    with pytest.warns(BayescrowdWarning, match="worker ids that differ only"):
        CrowdLabels.from_long(table)


def test_p10_equal_values_are_one_and_the_integer_is_shown():
    table = d1().astype({"label": object})
    table.loc[0, "label"] = True
    table.loc[1, "label"] = 1.0
    table.loc[3, "label"] = False
    table.loc[4, "label"] = np.float64(0)
    labels = CrowdLabels.from_long(table)
    assert is_d1(labels)
    assert [type(value) for value in labels.classes.tolist()] == [int, int]
    assert any("mixes bool, float, int" in note for note in labels.notes)


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA, ""])
def test_p12_a_worker_without_votes_is_listed(empty):
    wide = d1().pivot(index="item", columns="worker", values="label").assign(w4=empty)
    labels = CrowdLabels.from_wide(wide, items="rows")
    assert labels.workers.tolist() == ["w1", "w2", "w3", "w4"]
    assert is_d1(labels)
    assert "workers without labels: 'w4'." in labels.notes


def test_p13_long_and_wide_either_way_agree():
    wide = d1().pivot(index="item", columns="worker", values="label")
    tall = CrowdLabels.from_wide(wide, items="rows")
    flat = CrowdLabels.from_wide(wide.T, items="columns")
    assert is_d1(tall)
    pd.testing.assert_frame_equal(tall.to_frame(), flat.to_frame())
    pd.testing.assert_frame_equal(tall.to_frame(), CrowdLabels.from_long(d1()).to_frame())
    assert is_d1(CrowdLabels.from_wide(wide.to_numpy(), items="rows"))
    assert is_d1(CrowdLabels.from_wide(wide.T.to_numpy().tolist(), items="columns"))


def test_p13_the_orientation_is_never_guessed():
    with pytest.raises(TypeError, match="items"):
        CrowdLabels.from_wide(np.zeros((3, 5)))
    with pytest.raises(LabelError, match="it is not guessed"):
        CrowdLabels.from_wide(np.zeros((3, 5)), items="row")


def test_p14_grouped_counts_are_the_items_spelled_out():
    patterns = {"111": 40, "110": 10, "000": 30, "001": 12, "010": 0}
    table = pd.DataFrame(
        [[*map(int, pattern), number] for pattern, number in patterns.items()], columns=["w1", "w2", "w3", "n"]
    )
    labels = CrowdLabels.from_counts(table)
    assert (labels.n_items, labels.n_annotations) == (92, 276)
    assert labels.patterns.value_counts(sort=False).tolist() == [40, 10, 30, 12, 0]
    assert labels.patterns.index.equals(labels.items)
    assert "patterns of count 0 left out: 1." in labels.notes
    rows = [pattern for pattern, number in patterns.items() for _ in range(number)]
    spelled = CrowdLabels.from_wide(np.array([[int(vote) for vote in row] for row in rows]), items="rows")
    for name in ("item_code", "worker_code", "label_code"):
        assert getattr(labels, name).tolist() == getattr(spelled, name).tolist()


def test_p17_no_rows_and_one_row():
    with pytest.raises(LabelError, match="no rows"):
        CrowdLabels.from_long(d1().iloc[:0])
    with pytest.raises(LabelError, match="no rows"):
        CrowdLabels.from_wide(pd.DataFrame(columns=["w1", "w2"]), items="rows")
    with pytest.raises(LabelError, match="no row is left that carries a label"):
        CrowdLabels.from_long(d1().assign(label=None))
    labels = CrowdLabels.from_long([("a", "w1", "yes")], classes=["no", "yes"])
    assert (labels.n_items, labels.n_workers, labels.n_classes) == (1, 1, 2)


def test_p18_order_is_first_appearance_and_classes_are_sorted():
    table = pd.concat([d1()[d1()["item"] == item] for item in "caebd"])
    labels = CrowdLabels.from_long(table)
    assert labels.items.tolist() == list("caebd")
    assert labels.classes.tolist() == [0, 1]
    labels = CrowdLabels.from_long(table, classes=[1, 0], items=list("abcdef"))
    assert labels.items.tolist() == list("abcdef")
    assert labels.classes.tolist() == [1, 0]
    assert labels.to_frame()["item"].tolist() == table["item"].tolist()
    mixed = [("i1", "w1", "b"), ("i1", "w2", 2), ("i2", "w1", "a"), ("i2", "w2", 10)]
    assert CrowdLabels.from_long(mixed).classes.tolist() == [2, 10, "a", "b"]


def test_p20_one_class_declared_and_not():
    table = d1().assign(label="ok")
    with pytest.warns(BayescrowdWarning, match="no worker ever says 'bad'"):
        labels = CrowdLabels.from_long(table, classes=["ok", "bad"])
    assert labels.n_classes == 2
    with pytest.warns(BayescrowdWarning, match="one class cannot say anything about workers"):
        labels = CrowdLabels.from_long(table)
    assert labels.n_classes == 1
    assert CrowdLabels.from_long(table, classes=["ok"]).n_classes == 1


def test_p21_one_worker_is_not_identified():
    with pytest.warns(BayescrowdWarning, match="accuracy is not identified"):
        labels = CrowdLabels.from_wide(np.array([[0, 1, 1, 0, 1, 1]]), items="columns")
    summary = labels.summary()
    assert np.isnan(summary.raw_agreement)
    assert "no pair of workers shares an item" in str(summary)


def test_p25_p26_single_labels_are_used_and_listed():
    table = pd.concat([d1(), pd.DataFrame([("f", "w4", 1)], columns=["item", "worker", "label"])])
    labels = CrowdLabels.from_long(table)
    assert (labels.n_items, labels.n_workers, labels.n_annotations) == (6, 4, 16)
    assert labels.summary().workers_one_label.tolist() == ["w4"]


def test_p27_ragged_tables_in_every_form():
    table = d1().drop(index=[5, 7, 12])
    wide = table.pivot(index="item", columns="worker", values="label")
    for labels in (CrowdLabels.from_long(table), CrowdLabels.from_wide(wide, items="rows")):
        assert labels.n_annotations == 12
        assert labels.label_code.tolist() == [code for row, code in enumerate(CODES) if row not in (5, 7, 12)]
        assert labels.classes.tolist() == [0, 1]
        assert [type(value) for value in labels.classes.tolist()] == [int, int]
