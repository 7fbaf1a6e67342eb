"""What cannot be used is refused in words that help: roles, rows, values, lines of files."""

import json
from decimal import Decimal
from fractions import Fraction

import pandas as pd
import pytest

from bayescrowd.data import datasets
from bayescrowd.data.catalog import _cause
from bayescrowd.data.frames import long_fields, wide_fields
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.read import read_labels
from bayescrowd.errors import DatasetError, LabelError

TABLE = pd.DataFrame({"item": [1, 2], "worker": [3, 4], "label": [0, 1]})


def read(tmp_path, text, name="labels.csv", **arguments):
    file = tmp_path / name
    file.write_text(text)
    return read_labels(file, **arguments)


@pytest.mark.parametrize(
    "roles", [{"item": "item", "worker": "item"}, {"weight": "label"}, {"truth": "worker"}, {"gold": "label"}]
)
def test_a_column_has_one_role(tmp_path, roles):
    with pytest.raises(LabelError, match="is taken twice: as the"):
        CrowdLabels.from_long(TABLE, **roles)
    with pytest.raises(LabelError, match="is taken twice: as the"):
        read(tmp_path, TABLE.to_csv(index=False), **roles)


def test_gold_may_also_be_the_truth():
    labels = CrowdLabels.from_long(TABLE.assign(known=[0, 1]), gold="known", truth="known")
    assert labels.gold.to_dict() == labels.truth.to_dict() == {1: 0, 2: 1}


def test_only_repeated_names_in_use_matter(tmp_path):
    labels = read(tmp_path, "item,worker,label,x,x\n1,3,0,a,b\n2,4,1,a,b\n")
    assert (labels.items.tolist(), labels.classes.tolist()) == ([1, 2], [0, 1])
    with pytest.raises(LabelError, match="several columns may be the label"):
        read(tmp_path, "item,worker,label,label\n1,3,0,1\n")
    with pytest.raises(LabelError, match="'x' .* occurs 2 times"):
        read(tmp_path, "item,worker,x,x\n1,3,0,1\n", label="x")


def test_what_is_known_but_not_used_is_in_the_summary():
    labels = CrowdLabels.from_long(TABLE.assign(truth=1, weight=2))
    assert "columns 'truth', 'weight' are not used" in str(labels.summary())
    assert "column 'gold' is not used; to use what is in it pass gold='gold'" in str(
        CrowdLabels.from_long(TABLE.assign(gold=1)).summary()
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 2, 3), (1, 2)], "row 1 of the table has 2 values, but row 0 has 3"),
        ([(1, 2, 3), (1, 2, 3), {"item": 1}], "row 2 of the table is of type dict"),
        ([[1, 2, 3], 4], "row 1 of the table is of type int"),
    ],
)
def test_ragged_rows(rows, message):
    with pytest.raises(LabelError, match=message):
        CrowdLabels.from_long(rows)


def test_decimals_become_numbers_that_files_hold():
    rows = [("a", "x", Decimal("1.0")), ("b", "y", Decimal(2)), ("b", "x", Decimal("NaN")), ("a", "y", 1)]
    labels = CrowdLabels.from_long(rows, classes=[Decimal(1), Decimal(2)])
    assert labels.classes.tolist() == [1, 2]
    assert [type(value) for value in labels.classes.tolist()] == [int, int]
    assert labels.n_annotations == 3
    assert "column 'label' holds Decimal values: whole ones are read as int, others as float." in labels.notes
    halves = CrowdLabels.from_long([("a", "x", Fraction(1, 2)), ("b", "x", Decimal("1.5")), ("b", "y", Decimal(".5"))])
    assert halves.classes.tolist() == [0.5, 1.5]


def test_no_path_and_no_name():
    for path in (None, 3, TABLE):
        with pytest.raises(LabelError, match="path must be the name of a file"):
            read_labels(path)
        with pytest.raises(DatasetError, match=r"named by text.*datasets.list\(\)"):
            datasets.load(path)


@pytest.mark.parametrize("argument", ["classes", "labels", "items", "workers"])
@pytest.mark.parametrize("value", [2, "ab", 1.5])
def test_one_value_is_no_list(argument, value):
    with pytest.raises(LabelError, match=rf"{argument}={value!r} is one value; list the values: {argument}=\["):
        CrowdLabels.from_long(TABLE, **{argument: value})


def test_all_weights_zero():
    with pytest.raises(LabelError, match=r"the weights \(column 'w'\) of all rows that have one are 0"):
        CrowdLabels.from_long(TABLE.assign(w=0), weight="w")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("item,worker,label\na,x,1\nb,x,2\n", 3),
        ("\n\nitem,worker,label\na,x,1\nb,x,2\n", 5),
        ("item,worker,label\na,x,1\n\n   \nb,x,2\n", 5),
        ('item,worker,label\n"a",x,1\nb,x,2\n', 3),
        ('item,worker,label\n"a\nb",x,1\n\nb,x,2\n', 5),
        ("item,worker,label\r\na,x,1\r\n\r\nb,x,2", 4),
    ],
)
def test_rows_are_named_by_their_line(tmp_path, text, line):
    with pytest.raises(LabelError, match=f"holds 2 outside .*: line {line}. Add"):
        read(tmp_path, text, classes=[1])


def test_records_of_json_are_named_as_in_the_file(tmp_path):
    rows = [json.dumps({"item": "a", "worker": "x", "label": label}) for label in (1, 2)]
    with pytest.raises(LabelError, match="line 4. Add"):
        read(tmp_path, "\n" + "\n\n".join(rows), "labels.jsonl", classes=[1])
    with pytest.raises(LabelError, match="record 2. Add"):
        read(tmp_path, f"[{','.join(rows)}]", "labels.json", classes=[1])
    with pytest.raises(LabelError, match="no valid JSON in line 3: .* in column 11"):
        read(tmp_path, rows[0] + '\n\n{"item":  }', "labels.jsonl")
    with pytest.raises(LabelError, match="but line 2 is a int"):
        read(tmp_path, rows[0] + "\n7", "labels.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('item,worker,label\na,x,"1\nb,x,2\n', "a quote opens in line 2 and is never closed"),
        ('\nitem,worker,label\n"a\n""b""",x,1\nb,x,"2\n', "a quote opens in line 5 and is never closed"),
        ('item,worker,label\na,x,"1\n' + "b,x,2\n" * 30_000, "a quote opens in line 2 and is never closed"),
        ('item,"worker,label\na,x,1\n', "a quote opens in line 1 and is never closed"),
        ('item,worker,label\na,x,"1\nb,x,"2"\n', "a quote opens in line 2, and text follows directly"),
        ("\nitem,worker,label\na,x,1\nb,x\n", "line 4 has 2"),
    ],
)
def test_broken_tables_are_named_by_their_line(tmp_path, text, message):
    with pytest.raises(LabelError, match=message):
        read(tmp_path, text)


def test_one_of_a_kind_is_singular():
    labels = CrowdLabels.from_long([("a", "x", 1)], classes=[0, 1])
    assert repr(labels) == "CrowdLabels: 1 label on 1 item by 1 worker; 2 classes 0, 1"


def test_a_failed_download_has_one_cause():
    inner = OSError("[Errno -2] Name or service not known")
    middle = RuntimeError("HTTPSConnection(host='x', port=443): Failed to resolve")
    middle.__cause__ = inner
    assert _cause(ConnectionError(middle)) == "[Errno -2] Name or service not known"
    assert "SHA-256" in _cause(ValueError("SHA256 hash of downloaded file (x) does not match the known hash"))
    assert _cause(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize("role", ["gold", "truth"])
def test_a_table_of_known_classes_is_told_how_to_become_a_series(role: str) -> None:
    rows = pd.DataFrame({"item": ["a", "a"], "worker": ["u", "v"], "label": [1, 0]})
    wide = pd.DataFrame({"u": [1], "v": [0]}, index=["a"])
    nothing = {"classes": None, "labels": None, "missing": None, "duplicates": "warn"}
    for table, remedy in (
        (pd.DataFrame({"item": ["a"], "label": [1]}), f"{role}.set_index('item')['label']"),
        (pd.DataFrame({"one": ["a"], "two": [1]}), f"{role}.set_index('one')['two']"),
        (pd.DataFrame({"label": [1]}, index=["a"]), f"{role}['label']"),
        (pd.DataFrame(), f"{role}.set_index('item')['label']"),
    ):
        for make in (
            lambda given: long_fields(
                table=rows,
                item=None,
                worker=None,
                label=None,
                weight=None,
                items=None,
                workers=None,
                **nothing,
                **given,
            ),
            lambda given: wide_fields(table=wide, items="rows", **nothing, **given),
        ):
            with pytest.raises(LabelError) as caught:
                make({"gold": None, "truth": None, role: table})
            assert f"{role} is a DataFrame, not a Series item -> class: pass {remedy}." in str(caught.value)
        if len(table):
            series = eval(remedy, {role: table})
            assert getattr(CrowdLabels.from_long(rows, **{role: series}), role).tolist() == [1]
