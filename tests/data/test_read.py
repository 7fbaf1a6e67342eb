import bz2
import gzip
import json

import pandas as pd
import pytest

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.read import read_labels
from bayescrowd.errors import BayescrowdWarning, LabelError

CSV = "task,rater,answer\nt1,x,yes\nt1,y,no\nt2,x,yes\n"
FRAME = [["t1", "x", "yes"], ["t1", "y", "no"], ["t2", "x", "yes"]]


def write(tmp_path, content, name="labels.csv"):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def records():
    return [dict(zip(("task", "rater", "answer"), row, strict=True)) for row in FRAME]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", CSV),
        ("labels.CSV", CSV),
        ("labels", CSV),
        ("labels.csv", "\ufeff" + CSV),
        ("labels.csv", CSV.encode("utf-16")),
        ("labels.csv", CSV.replace("\n", "\r\n")),
        ("labels.csv", CSV.replace("\n", "\r")),
        ("labels.csv", CSV.replace(",", ";")),
        ("labels.csv", "\n" + CSV.replace("\n", "\n\n")),
        ("labels.csv", CSV.rstrip("\n")),
        ("labels.csv", CSV.replace("t1,", '"t1",')),
        ("labels.tsv", CSV.replace(",", "\t")),
        ("labels.txt", CSV.replace(",", "|")),
        ("labels.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("labels.csv.bz2", bz2.compress(CSV.encode())),
        ("labels.json", json.dumps(records())),
        ("labels.json", json.dumps({name: [row[name] for row in records()] for name in records()[0]})),
        ("labels.json", pd.DataFrame(records()).to_json()),
        ("labels.jsonl", "\n".join(map(json.dumps, records())) + "\n\n"),
        ("labels.ndjson.gz", gzip.compress("\n".join(map(json.dumps, records())).encode(), mtime=0)),
    ],
)
def test_every_format_gives_the_same_labels(tmp_path, name, content):
    labels = read_labels(write(tmp_path, content, name))
    assert labels.to_frame().to_numpy().tolist() == FRAME


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    file = tmp_path / "labels.parquet"
    pd.DataFrame(records()).to_parquet(file)
    assert read_labels(file).to_frame().to_numpy().tolist() == FRAME
    pd.DataFrame(records()).set_index("task").to_parquet(file)
    assert read_labels(str(file)).to_frame().to_numpy().tolist() == FRAME
    with pytest.raises(LabelError, match="no readable parquet"):
        read_labels(write(tmp_path, "PAR1 or so", "broken.parquet"))


@pytest.mark.parametrize(
    "header",
    [
        "item,worker,label",
        "Item,Worker,Label",
        "TASK_ID,Annotator,Rating",
        "question,judge,response",
        "exampleId,user id,vote",
        "image,coder,annotation",
        "doc,labeller,class",
        "unit,observer,value",
        " item , worker , label ",
    ],
)
def test_usual_names_are_recognised(tmp_path, header):
    labels = read_labels(write(tmp_path, CSV.replace("task,rater,answer", header)))
    assert labels.to_frame().to_numpy().tolist() == FRAME


def test_weight_gold_and_truth_are_used_and_said_so(tmp_path):
    text = "task,worker,label,Count,gold,ground_truth,confidence\nt1,x,1,2,1,0,.9\nt1,y,0,1,,0,.9\nt2,x,1,1,,7,.9\n"
    labels = read_labels(write(tmp_path, text))
    assert labels.weight.tolist() == [2, 1, 1]
    assert labels.gold.to_dict() == {"t1": 1}
    assert labels.truth.to_dict() == {"t1": 0, "t2": 7}
    assert labels.classes.tolist() == [0, 1]
    assert labels.notes[:5] == (
        "column 'task' is used as the item.",
        "column 'Count' is used as the weight.",
        "column 'gold' is used as the gold.",
        "column 'ground_truth' is used as the truth.",
        "columns not used: 'confidence'.",
    )
    plain = read_labels(write(tmp_path, text), weight=False, gold=False, truth=False)
    assert plain.weight is None
    assert plain.gold is None
    assert plain.truth is None
    assert read_labels(write(tmp_path, text), gold={"t2": 0}, weight="confidence").gold.to_dict() == {"t2": 0}


def test_columns_by_name(tmp_path):
    file = write(tmp_path, "a,b,c\nt1,x,1\nt1,y,0\n")
    labels = read_labels(file, item="a", worker="b", label="c")
    assert labels.n_annotations == 2
    with pytest.raises(LabelError) as error:
        read_labels(file, item="z")
    for part in (
        "no column 'z' for the item",
        "recognised as the worker; the columns are 'a', 'b', 'c'",
        "label='...'",
    ):
        assert part in str(error.value)


def test_two_candidates_are_ambiguous_unless_one_has_the_very_name(tmp_path):
    with pytest.raises(LabelError, match=r"several columns may be the item: 'task', 'image'; say which: item='task'"):
        read_labels(write(tmp_path, "task,image,worker,label\n1,2,3,4\n"))
    labels = read_labels(write(tmp_path, "text,item_id,worker,label\nlong,1,x,0\nlonger,2,y,1\n"))
    assert labels.items.tolist() == [1, 2]
    assert "columns not used: 'text'." in labels.notes


def test_numbers_only_where_every_value_is_written_as_one(tmp_path):
    def classes(values, **arguments):
        rows = "".join(f"{position},w{position},{value}\n" for position, value in enumerate(values))
        return read_labels(write(tmp_path, f"item,worker,label\n{rows}"), **arguments).classes.tolist()

    assert classes(["0", "1", "-1"]) == [-1, 0, 1]
    assert classes(["01", "02"]) == ["01", "02"]
    assert classes(["1", "2.0"]) == ["1", "2.0"]
    assert classes(["1", "-0"]) == ["-0", "1"]
    assert classes(["1", "", "2"]) == [1, 2]
    assert classes(["9" * 20, "1"]) == ["1", "9" * 20]
    assert classes(["1", "²"]) == ["1", "²"]
    assert classes(["1", "NA", "2"], missing="NA") == [1, 2]
    assert classes(["1", "0", "2"], missing=0) == [1, 2]
    assert classes(["1", "0", "2"], missing="0") == [1, 2]
    assert classes(["True", "False"], classes=[False, True]) == [False, True]
    assert classes(["0.5", "1"], classes=[0.5, 1]) == [0.5, 1]
    assert classes(["0", "1"], classes=["1", "0"]) == ["1", "0"]


def test_na_words_stay_text_with_a_warning(tmp_path):
    with pytest.warns(BayescrowdWarning, match="labels 'NA', 'None' are kept as text"):
        labels = read_labels(write(tmp_path, "item,worker,label\nNA,None,NA\n1,x,None\n"))
    assert labels.classes.tolist() == ["NA", "None"]
    assert labels.items.tolist() == ["NA", "1"]


def test_labels_and_gold_are_typed_alike(tmp_path):
    labels = read_labels(write(tmp_path, "item,worker,label,gold\na,x,1,\nb,x,2,\na,y,1,no idea\n"))
    assert labels.classes.tolist() == ["1", "2", "no idea"]


def test_problems_name_the_line(tmp_path):
    with pytest.raises(LabelError, match="holds 2 outside classes.*line 3"):
        read_labels(write(tmp_path, "item,worker,label\na,x,1\nb,x,2\n"), classes=[0, 1])
    with pytest.raises(LabelError, match="without item id: line 3"):
        read_labels(write(tmp_path, "item,worker,label\na,x,1\n,x,1\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels.csv", "", "is empty"),
        ("labels.csv", "\n \n", "is empty"),
        ("labels.csv", "item,worker,label\n", "no rows"),
        ("labels.csv", "item,worker,label\na,x,yes\nb,y\n", "names 3 columns, but line 3 has 2"),
        ("labels.csv", "item,worker,label\na,x,yes,1\nb,y,no,1\n", "line 2 has 4, line 3 has 4"),
        ("labels.csv", "item,worker,label\na,x,yes,1\nb,y\n", "line"),
        ("labels.csv", 'item,worker,label\na,x,"yes\nb,y,no\n', "cannot read .* as a table"),
        (
            "labels.csv",
            "item,worker,label\na,x,é\n".encode("latin-1"),
            "is not utf-8 text: byte 0xe9 in line 2.*encoding='latin-1'",
        ),
        ("labels.csv", "item,worker,label,label\na,x,1,2\n", "several columns may be the label"),
        ("labels.csv.gz", b"no gzip", "cannot read"),
        ("labels.xlsx", b"PK", "unknown kind; labels can be read from csv"),
        ("labels.json", "{", "no valid JSON"),
        ("labels.json", '{"item": 1}\n{"item": 2}', "name the file .jsonl"),
        ("labels.json", '{"item": 1}', "not one record"),
        ("labels.json", "[1, 2]", "list of records"),
        ("labels.json", '{"item": [1], "worker": [1, 2]}', "must hold a list of records"),
        ("labels.json", "[" * 100_000, "nested too deeply|no valid JSON"),
    ],
)
def test_broken_files_are_explained(tmp_path, name, content, message):
    with pytest.raises(LabelError, match=message):
        read_labels(write(tmp_path, content, name))


def test_absent_files_and_folders(tmp_path):
    write(tmp_path, CSV, "votes.csv")
    with pytest.raises(LabelError, match=r"no file .*vote.csv.*Close to it: 'votes.csv'"):
        read_labels(tmp_path / "vote.csv")
    with pytest.raises(LabelError, match=r"is a folder; name the file in it. It holds 'votes.csv'"):
        read_labels(tmp_path)
    with pytest.raises(LabelError, match="layout='tall' is unknown"):
        read_labels(tmp_path, layout="tall")


def test_encodings(tmp_path):
    file = write(tmp_path, "item,worker,label\na,x,é\nb,y,e\n".encode("latin-1"))
    assert read_labels(file, encoding="latin-1").classes.tolist() == ["e", "é"]
    with pytest.raises(LabelError, match="encoding='klingon' is unknown"):
        read_labels(file, encoding="klingon")


def test_json_keeps_types(tmp_path):
    rows = [
        {"item": 1, "worker": "01", "label": True},
        {"item": 2, "worker": "02", "label": None},
        {"item": 2, "worker": "02", "label": False},
    ]
    labels = read_labels(write(tmp_path, json.dumps(rows), "labels.json"))
    assert labels.items.tolist() == [1, 2]
    assert labels.workers.tolist() == ["01", "02"]
    assert labels.classes.tolist() == [False, True]


def test_wide_files(tmp_path):
    text = "task,x,y\nt1,1,0\nt2,,1\n"
    labels = read_labels(write(tmp_path, text), layout="wide", items="rows")
    assert labels.items.tolist() == ["t1", "t2"]
    assert labels.classes.tolist() == [0, 1]
    assert labels.n_annotations == 3
    turned = read_labels(write(tmp_path, "rater,t1,t2\nx,1,\ny,0,1\n"), layout="wide", items="columns")
    pd.testing.assert_frame_equal(turned.to_frame(), labels.to_frame())
    assert read_labels(write(tmp_path, "x,y\n1,0\n0,1\n"), layout="wide", items="rows").items.tolist() == [0, 1]
    truth = read_labels(
        write(tmp_path, "task,x,y,fact\nt1,1,0,1\nt2,,1,0\n"), layout="wide", items="rows", truth="fact"
    )
    assert truth.truth.to_dict() == {"t1": 1, "t2": 0}
    with pytest.raises(LabelError, match="needs items='rows' or items='columns'"):
        read_labels(write(tmp_path, text), layout="wide")
    with pytest.raises(LabelError, match="no column 'z' of item ids"):
        read_labels(write(tmp_path, text), layout="wide", items="rows", item="z")


def test_count_files(tmp_path):
    labels = read_labels(write(tmp_path, "x,y,n\n1,0,3\n1,1,2\n"), layout="counts")
    assert labels.n_items == 5
    assert isinstance(labels, CrowdLabels)
    assert labels.classes.tolist() == [0, 1]
    named = read_labels(write(tmp_path, "case,x,y,many\nA,1,0,3\nB,1,1,2\n"), layout="counts", count="many")
    assert named.items.tolist() == ["A_1", "A_2", "A_3", "B_1", "B_2"]
    with pytest.raises(LabelError, match="recognised as the count.*count='...'"):
        read_labels(write(tmp_path, "x,y\n1,0\n"), layout="counts")
