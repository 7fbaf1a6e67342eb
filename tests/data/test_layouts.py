"""Wide and counts files: truth, gold, weights and ids never become workers."""

import pandas as pd
import pytest

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.read import read_labels
from bayescrowd.errors import BayescrowdWarning, LabelError

WIDE = "item,w1,w2,w3,truth\n1,a,b,b,a\n2,a,a,b,b\n"


def read(tmp_path, text, **arguments):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    return read_labels(file, **arguments)


def wide(tmp_path, text, items="rows", **arguments):
    return read(tmp_path, text, layout="wide", items=items, **arguments)


def counts(tmp_path, text, **arguments):
    return read(tmp_path, text, layout="counts", **arguments)


@pytest.mark.parametrize("role", ["truth", "gold"])
@pytest.mark.parametrize("name", ["truth", "ground_truth", "Gold", "golden"])
def test_known_classes_in_wide_files_are_no_worker(tmp_path, role, name):
    recognised = "gold" if "old" in name else "truth"
    text = WIDE.replace("truth", name)
    labels = wide(tmp_path, text)
    assert labels.workers.tolist() == ["w1", "w2", "w3"]
    assert getattr(labels, recognised).to_dict() == {1: "a", 2: "b"}
    assert labels.notes == (f"column {name!r} is used as the {recognised}.",)
    aside = wide(tmp_path, text, **{recognised: False})
    assert aside.workers.tolist() == ["w1", "w2", "w3"]
    assert aside.truth is None
    assert aside.gold is None
    assert aside.notes == (f"columns not used: {name!r}.",)
    # named, or given from elsewhere
    assert getattr(wide(tmp_path, text, **{role: name, recognised: name}), role).to_dict() == {1: "a", 2: "b"}
    given = wide(tmp_path, text, **{recognised: {2: "b"}})
    assert given.workers.tolist() == ["w1", "w2", "w3"]
    assert getattr(given, recognised).to_dict() == {2: "b"}


def test_truth_does_not_decide_how_labels_are_read(tmp_path):
    labels = wide(tmp_path, "item,w1,w2,truth\na,0,1,unclear\nb,1,1,1\n")
    assert labels.classes.tolist() == [0, 1]
    assert labels.truth.to_dict() == {"a": "unclear", "b": 1}


def test_known_classes_in_a_row_of_workers_by_items(tmp_path):
    text = "worker,t1,t2\n1,0,1\n2,1,1\ntruth,0,\n"
    labels = wide(tmp_path, text, items="columns")
    assert labels.workers.tolist() == [1, 2]
    assert labels.items.tolist() == ["t1", "t2"]
    assert labels.truth.to_dict() == {"t1": 0}
    assert wide(tmp_path, text, items="columns", truth=False).truth is None
    with pytest.raises(LabelError, match=r"column 'truth' looks like the truth, but with items='columns'"):
        wide(tmp_path, "worker,t1,truth\n1,0,1\n2,1,1\n", items="columns")


@pytest.mark.parametrize("name", ["weight", "count", "Weights", "freq"])
def test_weights_in_wide_files_are_refused(tmp_path, name):
    text = WIDE.replace("truth", name)
    with pytest.raises(LabelError, match=rf"column '{name}' looks like weights or counts.*Pass weight=False"):
        wide(tmp_path, text)
    assert wide(tmp_path, text, weight=False).workers.tolist() == ["w1", "w2", "w3"]


@pytest.mark.parametrize(
    ("header", "items"),
    [("id,w1,w2,text", [1, 2]), (",item,w1,w2", ["x", "y"]), ("Unnamed: 0,w1,w2,confidence", [1, 2])],
)
def test_ids_and_contents_are_no_workers(tmp_path, header, items):
    cells = {"w1": "01", "w2": "11", "item": "xy"}
    rows = [[cells[name][row] if name in cells else str(row + 1) for name in header.split(",")] for row in (0, 1)]
    labels = wide(tmp_path, "\n".join([header, *map(",".join, rows)]))
    assert labels.workers.tolist() == ["w1", "w2"]
    assert labels.items.tolist() == items
    assert labels.classes.tolist() == [0, 1]


def test_a_long_file_is_not_read_as_a_wide_one(tmp_path):
    with pytest.raises(LabelError, match="'worker', 'label' cannot be workers"):
        wide(tmp_path, "item,worker,label\na,x,1\n")


def test_columns_a_spreadsheet_adds(tmp_path):
    assert wide(tmp_path, "item,w1,w2,,\na,0,1,,\nb,1,1,,\n").workers.tolist() == ["w1", "w2"]
    labels = read(tmp_path, "item,worker,label,,\n1,5,0,,\n2,6,1,,\n")
    assert (labels.items.tolist(), labels.workers.tolist(), labels.classes.tolist()) == ([1, 2], [5, 6], [0, 1])
    assert labels.notes == ()


def test_two_truths_are_ambiguous(tmp_path):
    with pytest.raises(LabelError, match="several columns may be the truth: 'ground_truth', 'true_label'"):
        wide(tmp_path, "item,w1,w2,ground_truth,true_label\na,0,1,1,1\n")


def test_counts_files(tmp_path):
    text = "id,w1,w2,gold,n,freq\n7,0,1,1,2,3\n8,1,1,0,2,3\n"
    with pytest.raises(LabelError, match="several columns may be the count: 'n', 'freq'"):
        counts(tmp_path, text)
    with pytest.raises(LabelError, match="column 'freq' looks like counts beside 'n'"):
        counts(tmp_path, text, count="n")
    labels = counts(tmp_path, text, count="n", weight=False)
    assert labels.workers.tolist() == ["w1", "w2"]
    assert labels.items.tolist() == ["7_1", "7_2", "8_1", "8_2"]
    assert labels.gold.to_dict() == {"7_1": 1, "7_2": 1, "8_1": 0, "8_2": 0}
    assert "columns not used: 'freq'." in labels.notes
    assert counts(tmp_path, text, count="n", weight=False, gold=False).gold is None
    with pytest.raises(LabelError, match="gold must be the name of a column here"):
        counts(tmp_path, text, count="n", weight=False, gold={7: 1})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"items": "rows"}, "items='rows'"),
        ({"count": "n"}, "count='n'"),
        ({"layout": "wide", "items": "rows", "weight": "w1"}, "weight='w1'"),
        ({"layout": "wide", "items": "rows", "label": "w1", "worker": "w2"}, "label='w1', worker='w2'"),
        ({"layout": "wide", "items": "columns", "item": "w2"}, "item='w2'"),
        ({"layout": "counts", "worker": "w1", "items": "rows"}, "items='rows', worker='w1'"),
        ({"layout": "counts", "weight": "n"}, "weight='n'"),
    ],
)
def test_arguments_of_another_layout_are_named(tmp_path, arguments, named):
    with pytest.raises(LabelError, match=f"^{named}: not for layout="):
        read(tmp_path, WIDE, **arguments)


def test_cells_are_named_by_line_and_column(tmp_path):
    with pytest.raises(LabelError, match="1 row: line 4, column 'w2'"):
        wide(tmp_path, 'item,w1,w2\na,1,0\n\n"b",1,9\n', classes=[0, 1])
    with pytest.raises(LabelError, match="1 row: line 3, column 't1'"):
        wide(tmp_path, "worker,t1,t2\na,1,0\nb,9,1\n", items="columns", classes=[0, 1])
    with pytest.raises(LabelError, match="2 rows: line 3, column 'w2'"):
        counts(tmp_path, "w1,w2,n\n0,1,10\n1,7,2\n", classes=[0, 1])
    with pytest.raises(LabelError, match="holds 'x' in line 3"):
        counts(tmp_path, "w1,w2,n\n0,1,10\n1,7,x\n")


@pytest.mark.parametrize("name", ["truth", "gold", "weight"])
def test_tables_in_memory_warn_of_such_workers(name):
    table = pd.DataFrame({"a": [0, 1], name: [0, 1]})
    with pytest.warns(BayescrowdWarning, match=f"'{name}' is taken as a worker"):
        CrowdLabels.from_wide(table, items="rows")
    with pytest.warns(BayescrowdWarning, match=f"'{name}' is taken as a worker"):
        CrowdLabels.from_counts(table.assign(n=1))


@pytest.mark.parametrize("count", [10**12, 1e30])
def test_counts_that_no_memory_holds(count):
    with pytest.raises(LabelError, match=r"at most 100,000,000 labels can be spelled out.*in row 1\. Divide"):
        CrowdLabels.from_counts(pd.DataFrame({"a": [0, 1], "b": [0, 1], "n": [1, count]}))
