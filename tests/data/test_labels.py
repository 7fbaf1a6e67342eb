import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdWarning, LabelError

ROWS = [("a", "x", "no"), ("a", "y", "yes"), ("b", "x", "yes")]


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        np.array(ROWS),
        [{"item": item, "worker": worker, "label": label} for item, worker, label in ROWS],
        {"item": ["a", "a", "b"], "worker": np.array(["x", "y", "x"]), "label": pd.Series(["no", "yes", "yes"])},
        pd.DataFrame(ROWS, columns=["item", "worker", "label"]).to_records(index=False),
        pd.DataFrame(ROWS, columns=["item", "worker", "label"]).set_index(["item", "worker"])["label"],
        pd.DataFrame(ROWS, columns=["Task ID", "annotator", "Response"]),
    ],
    ids=["tuples", "array", "records", "columns", "recarray", "series", "usual names"],
)
def test_any_form_of_a_long_table(table):
    labels = CrowdLabels.from_long(table)
    assert labels.to_frame().to_numpy().tolist() == [list(row) for row in ROWS]
    assert (labels.n_items, labels.n_workers, labels.n_annotations, labels.n_classes) == (2, 2, 3, 2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "a int is no table of labels"),
        ([], "the table is empty"),
        ({"item": [1], "worker": [1, 2], "label": [1]}, "cannot make a table"),
        (pd.DataFrame(ROWS), "no column is recognised as the item; the columns are 0, 1, 2"),
        (
            pd.DataFrame([(1, 2, 3, 4)], columns=["item", "worker", "label", "label"]),
            "several columns may be the label",
        ),
        (pd.DataFrame([(1, 2, 3, 4)], columns=["task", "image", "worker", "label"]), "several columns may be the item"),
    ],
)
def test_tables_that_cannot_be_read(table, message):
    with pytest.raises(LabelError, match=message):
        CrowdLabels.from_long(table)


def test_a_missing_or_repeated_column_is_named_with_what_is_there():
    frame = pd.DataFrame([(1, 2, 3, 4)], columns=["item", "worker", "label", "label"])
    with pytest.raises(LabelError) as error:
        CrowdLabels.from_long(frame, item="task", worker="who", label="label", weight="w", classes=[])
    text = str(error.value)
    assert "there is no column 'task' for the item; the columns are 'item', 'worker', 'label', 'label'" in text
    assert "no column 'who' for the worker" in text
    assert "column 'label' (label) occurs 2 times" in text
    assert "no column 'w' for the weight" in text
    assert "classes is empty" in text


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "classes is empty"),
        (["no", "yes", "no"], "'no' more than once"),
        ([1, True], "True more than once"),
        (["no", None], "None, which is no value"),
        ([["no"]], "which is no value"),
        (["no", "maybe"], r"column 'label' holds 'yes' outside classes=\['no', 'maybe'\]"),
    ],
)
def test_declared_classes_are_checked(classes, message):
    with pytest.raises(LabelError, match=message):
        CrowdLabels.from_long(ROWS, classes=classes)


def test_the_same_text_of_another_type_gets_a_hint():
    with pytest.raises(LabelError, match="the same text but another type"):
        CrowdLabels.from_long([("a", "x", 0), ("a", "y", 1)], classes=["0", "1"])


def test_declared_classes_and_labels():
    labels = CrowdLabels.from_long([*ROWS, ("b", "y", "?")], classes=["yes", "no"], labels=["?", "no", "yes"])
    assert labels.classes.tolist() == ["yes", "no"]
    assert labels.label_values.tolist() == ["yes", "no", "?"]
    assert "labels beside them: ?" in repr(labels)
    assert CrowdLabels.from_long(ROWS, labels=["yes", "no"]).classes.tolist() == ["yes", "no"]
    assert CrowdLabels.from_long(ROWS, classes=pd.CategoricalDtype(["yes", "no"])).classes.tolist() == ["yes", "no"]
    with pytest.raises(LabelError, match=r"outside labels=\['yes', 'no', 'maybe'\]"):
        CrowdLabels.from_long([*ROWS, ("b", "y", "?")], classes=["yes", "no"], labels=["maybe"])
    with pytest.raises(LabelError, match="gold .* outside classes"):
        CrowdLabels.from_long(ROWS, classes=["yes", "no"], labels=["?"], gold={"a": "?"})


def test_declared_items_and_workers():
    labels = CrowdLabels.from_long(ROWS, items=["c", "b", "a"], workers=["z", "y", "x"])
    assert labels.items.tolist() == ["c", "b", "a"]
    assert labels.workers.tolist() == ["z", "y", "x"]
    assert labels.item_code.tolist() == [2, 2, 1]
    with pytest.raises(LabelError, match="column 'item' holds 'b' outside items"):
        CrowdLabels.from_long(ROWS, items=["a"])


def test_ids_may_be_tuples_dates_or_mixed():
    day, next_day = pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")
    labels = CrowdLabels.from_long([((1, 2), day, 0), ("a", day, 1), (True, next_day, 1)])
    assert labels.items.tolist() == [(1, 2), "a", True]
    assert labels.workers.tolist() == [day, next_day]
    with pytest.raises(LabelError, match="column 'item' holds a list in row 1; an id is one text or number"):
        CrowdLabels.from_long([("a", "x", 0), (["b"], "x", 1)])


def test_labels_are_immutable_and_leave_the_caller_alone():
    codes = np.array([0, 1])
    labels = CrowdLabels.from_codes(codes, [0, 0], [0, 1], classes=2)
    with pytest.raises(ValueError, match="read-only"):
        labels.label_code[0] = 1
    with pytest.raises(AttributeError):
        labels.items = labels.workers
    codes[0] = 1
    assert labels.item_code.tolist() == [0, 1]


def test_from_codes():
    labels = CrowdLabels.from_codes(
        [0, 1, 0],
        [0, 0, 1],
        [0, 1, 2],
        items=["a", "b", "c"],
        workers=2,
        classes=["no", "yes"],
        label_values=["no", "yes", "?"],
        weight=[1, 2, 0.5],
        gold_code=[1, -1, -1],
        truth={"a": "yes"},
        ordered=True,
        notes=["made up"],
    )
    assert labels.workers.tolist() == [0, 1]
    assert labels.to_frame().columns.tolist() == ["item", "worker", "label", "weight", "gold", "truth"]
    assert labels.gold.to_dict() == labels.truth.to_dict() == {"a": "yes"}
    assert labels.notes == ("made up",)
    assert "1 with gold; 1 with truth" in repr(labels)
    assert CrowdLabels.from_codes([], [], [], items=3, workers=2, classes=2).n_annotations == 0
    assert CrowdLabels.from_codes([0], [0], [0], classes=2, weight=[1]).weight is None
    again = pickle.loads(pickle.dumps(labels))
    pd.testing.assert_frame_equal(again.to_frame(), labels.to_frame())


def test_from_codes_reports_all_problems():
    with pytest.raises(LabelError) as error:
        CrowdLabels.from_codes(
            [0, 5], [0, -1], [0.5, 1], items=["a", "a"], workers=1, classes=2, label_values=[1, 0], weight=[1, 0],
            gold_code=[3],
        )  # fmt: skip
    text = str(error.value)
    for part in (
        "label_code must be a list of integers",
        "item_code holds 5 in position 1, outside 0..1",
        "worker_code holds -1 in position 1",
        "label_values must begin with the classes",
        "items holds 'a' more than once",
        "gold_code has 1 values for 2 items",
        "gold_code holds 3",
        "weight must hold one positive finite number",
        "the codes differ in length",
    ):
        assert part in text


def test_to_frame_reads_back():
    rows = [("a", "x", 0, 2.0, 1), ("a", "y", 1, 0.5, 1), ("b", "x", 1, 1.0, None)]
    table = pd.DataFrame(rows, columns=["item", "worker", "label", "weight", "gold"])
    labels = CrowdLabels.from_long(table, weight="weight", gold="gold", truth={"b": 0})
    again = CrowdLabels.from_long(labels.to_frame(), weight="weight", gold="gold", truth="truth")
    pd.testing.assert_frame_equal(again.to_frame(), labels.to_frame())
    assert again.gold.to_dict() == {"a": 1}


def test_wide_tables():
    frame = pd.DataFrame({"x": ["u", "v"], "y": ["v", None]}, index=["a", "b"])
    labels = CrowdLabels.from_wide(frame.assign(known=["u", None]), items="rows", truth="known")
    assert labels.truth.to_dict() == {"a": "u"}
    assert labels.n_annotations == 3
    flat = frame.T
    flat.loc["known"] = ["u", None]
    assert CrowdLabels.from_wide(flat, items="columns", gold="known").gold.to_dict() == {"a": "u"}
    masked = np.ma.masked_array([[1, 2], [2, 9]], mask=[[False, False], [False, True]])
    assert CrowdLabels.from_wide(masked, items="rows").classes.tolist() == [1, 2]
    categories = frame.astype(pd.CategoricalDtype(["w", "v", "u"], ordered=True))
    assert CrowdLabels.from_wide(categories, items="rows").classes.tolist() == ["w", "v", "u"]
    # the first worker rated twice: a repeated name holds repeats
    twice = pd.DataFrame([[1, 1, 2], [2, 2, 2]], columns=["o1", "o1", "o2"])
    assert CrowdLabels.from_wide(twice, items="rows", duplicates="keep").n_workers == 2


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        (np.zeros(3), {}, "two dimensions"),
        ([[1, 2], [1]], {}, "equally long"),
        (pd.DataFrame(index=["a"]), {}, "no columns of workers"),
        (pd.DataFrame({"task": ["t1", "t2"], "x": [0, 1]}), {}, r"'task' looks like item ids.*set_index\('task'\)"),
        (pd.DataFrame({"x": [0, 1]}), {"gold": "known"}, "gold='known' names no single column"),
        (pd.DataFrame({"x": [0, [1]]}), {}, "holds a list in item 1 by worker 'x'"),
    ],
)
def test_wide_tables_that_cannot_be_used(table, arguments, message):
    with pytest.raises(LabelError, match=message):
        CrowdLabels.from_wide(table, items="rows", **arguments)


def test_counts():
    table = pd.DataFrame(
        {"x": [0, 1], "y": [None, 1], "n": ["3", "2"], "fact": [0, 1], "site": ["l", "r"]}, index=["p", "q"]
    )
    labels = CrowdLabels.from_counts(table, workers=["x", "y"], gold="fact", truth="fact")
    assert labels.items.tolist() == ["p_1", "p_2", "p_3", "q_1", "q_2"]
    assert labels.patterns.tolist() == ["p", "p", "p", "q", "q"]
    assert labels.gold_code.tolist() == [0, 0, 0, 1, 1]
    assert labels.truth.tolist() == [0, 0, 0, 1, 1]
    assert labels.n_annotations == 7


def test_counts_of_millions_are_exact_and_numbered():
    labels = CrowdLabels.from_counts({"x": [0, 1], "y": [0, 1], "n": [1_000_000, 1]})
    assert labels.n_items == 1_000_001
    assert labels.items[-1] == 1_000_000


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ({"x": [0, 1], "n": [1, 0.5]}, {}, r"must count items, but holds 0.5 in row 1"),
        ({"x": [0, 1], "n": [1, -1]}, {}, "must count items, but holds -1"),
        ({"x": [0, 1], "n": [1, None]}, {}, "must count items"),
        ({"x": [0, 1]}, {}, "no column 'n' for the count"),
        ({"x": [0, 1], "n": [1, 1]}, {"count": None}, "name the column"),
        ({"x": [0, 1], "n": [1, 1]}, {"workers": ["z"]}, "workers names 'z', no column"),
        ({"n": [1, 1]}, {}, "no columns of workers"),
        ({"x": [0, 1], "n": [0, 0]}, {}, "no rows"),
    ],
)
def test_counts_that_cannot_be_used(table, arguments, message):
    with pytest.raises(LabelError, match=message):
        CrowdLabels.from_counts(table, **arguments)


def test_suspicions_come_as_one_warning_and_stay_in_the_notes():
    with pytest.warns(BayescrowdWarning, match=r"look suspicious \(3 remarks\)") as caught:
        labels = CrowdLabels.from_long([("a", "x", "ok"), ("a", "x", "ok")])
    assert len(caught) == 1
    for part in ("one class", "one worker", "repeat"):
        assert any(part in note for note in labels.notes)


def test_free_text_as_label_is_pointed_out():
    with pytest.warns(BayescrowdWarning, match="30 different labels in 30 rows"):
        CrowdLabels.from_long([(item, item % 3, f"text {item}") for item in range(30)])


def test_the_warning_points_at_the_callers_line(tmp_path):
    script = tmp_path / "caller.py"
    script.write_text(
        textwrap.dedent(
            """
            import warnings
            from bayescrowd.data.labels import CrowdLabels
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                CrowdLabels.from_long([("a", "x", 1), ("b", "x", 0)])
            assert [warning.filename for warning in caught] == [__file__], caught
            assert caught[0].lineno == 6, caught[0].lineno
            import sys
            assert "jax" not in sys.modules
            """
        )
    )
    subprocess.run([sys.executable, str(script)], check=True)


def test_arrow_and_other_extension_types():
    table = pd.DataFrame(ROWS, columns=["item", "worker", "label"])
    for dtype in ("string[pyarrow]", "category", pd.ArrowDtype(pytest.importorskip("pyarrow").string())):
        labels = CrowdLabels.from_long(table.astype(dtype))
        assert labels.classes.tolist() == ["no", "yes"]
        assert pd.api.types.is_string_dtype(labels.classes.dtype)
    numbers = table.assign(label=pd.array([1, 2, None], dtype="int64[pyarrow]"))
    labels = CrowdLabels.from_long(numbers)
    assert labels.classes.tolist() == [1, 2]
    assert labels.classes.dtype == np.int64
    assert CrowdLabels.from_long(table.assign(label=pd.array([0.5, 1.0, pd.NA], dtype="Float64"))).n_annotations == 2
