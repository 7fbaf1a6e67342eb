import hashlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescrowd.data import catalog, datasets
from bayescrowd.errors import DatasetError

FILES = {
    "label.csv": "item,worker,label\n10,a,1\n10,b,0\n7,a,1\n7,a,1\n",
    "truth.csv": "item,truth\n7,1\n10,0\n",
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("BAYESCROWD_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    """A folder of data sets: birds with truth, plain without, caries in another form."""
    for name, labels, truth in (
        ("birds", "item,worker,label\n01,9,true\n01,8,false\n2,9,false\n2,9,false\n", "item,label\n01,true\n2,maybe\n"),
        ("plain", "item,worker,label\n1,x,0\n1,y,1\n", None),
        ("caries", "item,worker,label\n1,x,1\n1,y,2\n", "item,label\n"),
        ("broken", "item,worker,label\n1,x\n", None),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels.csv").write_text(labels)
        if truth is not None:
            (tmp_path / name / "truth.csv").write_text(truth)
    return tmp_path


@pytest.fixture
def net(tmp_path, monkeypatch):
    """A registry and a net of our own; yields the addresses that were asked for."""
    rows = [
        {
            "name": "rte",
            "file": file,
            "repository": "someone/else",
            "commit": "abc",
            "path": f"a folder/{file}",
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "bytes": str(len(text)),
        }
        for file, text in FILES.items()
    ]
    monkeypatch.setattr(catalog, "_registry", lambda: pd.DataFrame(rows))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    asked = []

    def download(url, output, pooch):
        asked.append(url)
        Path(output).write_text(FILES[url.rsplit("/", 1)[1]])

    monkeypatch.setattr(catalog, "downloader", download)
    return asked


def test_anesthesia():
    labels = datasets.load("anesthesia")
    assert (labels.n_items, labels.n_workers, labels.n_annotations) == (45, 5, 315)
    assert labels.classes.tolist() == [1, 2, 3, 4]
    assert np.bincount(labels.worker_code).tolist() == [135, 45, 45, 45, 45]
    frame = labels.to_frame()
    assert frame[(frame["item"] == 7) & (frame["worker"] == 1)]["label"].tolist() == [1, 2, 2]
    assert frame["label"].value_counts(sort=False).sort_index().tolist() == [127, 125, 48, 15]
    assert labels.summary().raw_agreement == pytest.approx(0.7123456790123457)
    assert labels.truth is None


def test_caries():
    labels = datasets.load("caries")
    assert (labels.n_items, labels.n_workers, labels.n_annotations) == (3859, 5, 19295)
    assert labels.patterns.nunique() == 32
    assert labels.classes.tolist() == [1, 2]
    assert labels.items[0] == "p01_1"


@pytest.mark.parametrize("name", ["anesthesia", "caries"])
def test_shipped_tables_equal_the_local_ones(name, data_folder):
    if data_folder is None:
        pytest.skip("set BAYESCROWD_DATA")
    local = datasets.load(name, folder=data_folder).to_frame()
    pd.testing.assert_frame_equal(datasets.load(name).to_frame(), local, check_dtype=False)


def test_the_registry_is_that_of_the_downloads(data_folder):
    registry = catalog._registry()
    assert registry["name"].nunique() == 18
    assert len(registry) == 36
    assert registry["sha256"].str.fullmatch("[0-9a-f]{64}").all()
    assert registry["commit"].str.fullmatch("[0-9a-f]{40}").all()
    assert set(registry["name"]) | set(catalog.SHIPPED) == set(datasets.list()["name"])
    assert "%20" in catalog._url(registry, "face")
    if data_folder is None or not (data_folder / "DOWNLOADS.tsv").is_file():
        pytest.skip("set BAYESCROWD_DATA")
    given = pd.read_csv(data_folder / "DOWNLOADS.tsv", sep="\t", dtype=str)
    pd.testing.assert_frame_equal(registry.astype(str), given[registry.columns].astype(str))


def test_download_converts_caches_and_checks(net, tmp_path):
    labels = datasets.load("rte")
    assert net == [f"https://raw.githubusercontent.com/someone/else/abc/a%20folder/{file}" for file in FILES]
    assert labels.items.tolist() == [10, 7]
    assert labels.truth.to_dict() == {7: 1, 10: 0}
    assert labels.n_annotations == 4
    datasets.load("rte")
    assert len(net) == 2
    assert (tmp_path / "cache" / "bayescrowd" / "rte" / "label.csv").is_file()


def test_a_file_that_changed_is_refused(net, monkeypatch):
    monkeypatch.setitem(FILES, "label.csv", "item,worker,label\n1,a,1\n")
    with pytest.raises(DatasetError, match="cannot download label.csv of 'rte'.*set BAYESCROWD_DATA"):
        datasets.load("rte")


def test_offline_says_what_to_do(net, monkeypatch):
    def fail(url, output, pooch):
        raise ConnectionError("no net")

    monkeypatch.setattr(catalog, "downloader", fail)
    with pytest.raises(DatasetError, match="no net.*set BAYESCROWD_DATA to the folder"):
        datasets.load("rte")
    with pytest.raises(DatasetError, match="download=False"):
        datasets.load("rte", download=False)


def test_local_folders(folder, monkeypatch):
    labels = datasets.load("birds", folder=folder)
    assert labels.items.tolist() == ["01", "2"]
    assert labels.workers.tolist() == [9, 8]
    assert labels.classes.tolist() == ["false", "true"]
    assert labels.truth.to_dict() == {"01": "true", "2": "maybe"}
    assert labels.n_annotations == 4
    assert any("repeat" in note for note in labels.notes)
    assert datasets.load(folder / "plain").truth is None
    assert datasets.load(str(folder / "plain")).n_annotations == 2
    monkeypatch.setenv("BAYESCROWD_DATA", str(folder))
    assert datasets.load("birds").n_annotations == 4
    # shipped wins over the environment, a named folder over shipped
    assert datasets.load("caries").n_annotations == 19295
    assert datasets.load("caries", folder=folder).n_annotations == 2


def test_the_environment_wins_over_download(folder, net, monkeypatch):
    shutil.copytree(folder / "plain", folder / "rte")
    monkeypatch.setenv("BAYESCROWD_DATA", str(folder))
    assert datasets.load("rte").n_annotations == 2
    assert net == []


def test_list(folder, monkeypatch):
    table = datasets.list()
    assert table.columns.tolist() == ["name", "task", "items", "workers", "labels", "classes", "truth", "where"]
    assert table["where"].value_counts().to_dict() == {"download": 18, "shipped": 2}
    monkeypatch.setenv("BAYESCROWD_DATA", str(folder))
    table = datasets.list().set_index("name")
    assert table.loc["birds", ["truth", "where"]].tolist() == [True, "local"]
    assert table.loc["plain", "truth"] == False  # noqa: E712
    assert table.loc["caries", "where"] == "shipped"
    assert datasets.list(folder).set_index("name").loc["caries", "where"] == "local"


@pytest.mark.parametrize(
    ("name", "with_folder", "message"),
    [
        ("anaesthesia", False, "no data set 'anaesthesia'. Did you mean 'anesthesia'"),
        ("RTE", False, "Did you mean 'rte'"),
        ("x/y", False, "no folder 'x/y'"),
        ("bird", True, r"no 'bird': no file bird/labels.csv. It holds .*Did you mean 'birds'"),
        ("broken", True, "cannot use the data set in .*line 2 has 2"),
        ("", False, "no data set ''"),
    ],
)
def test_unknown_sets(folder, name, with_folder, message):
    with pytest.raises(DatasetError, match=message):
        datasets.load(name, folder=folder if with_folder else None)


def test_folders_that_are_none(folder):
    with pytest.raises(DatasetError, match="is no folder"):
        datasets.load("birds", folder=folder / "absent")
    with pytest.raises(DatasetError, match="has no labels.csv"):
        datasets.load(folder)


@pytest.mark.parametrize("name", [row[0] for row in datasets.list()[["name"]].to_numpy()])
def test_the_catalogue_says_what_the_sets_hold(name, real_data):
    labels = real_data(name)
    row = datasets.list().set_index("name").loc[name]
    sizes = (labels.n_items, labels.n_workers, labels.n_annotations, labels.n_classes)
    assert sizes == tuple(int(row[column]) for column in ("items", "workers", "labels", "classes"))
    assert (labels.truth is not None) == row["truth"]
