from __future__ import annotations

import datetime
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path

import fitted
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdError, LabelError
from bayescrowd.results import store
from bayescrowd.results import tree as reader


def _labels(ids: pd.Index, classes: pd.Index) -> CrowdLabels:
    return CrowdLabels.from_codes([0, 1, 2], [0, 1, 2], [0, 1, 0], items=ids, workers=ids, classes=classes)


@pytest.fixture(params=["fit.nc", "fit.zarr"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def _round_trip(tree: xr.DataTree, place: Path) -> xr.DataTree:
    store.save(tree, place)
    return store.load(place)


def _same(first: xr.DataTree, second: xr.DataTree) -> None:
    assert set(first.children) == set(second.children)
    assert dict(first.attrs) == dict(second.attrs)
    for name, node in first.children.items():
        for variable, value in node.dataset.variables.items():
            np.testing.assert_array_equal(second[name].dataset.variables[variable].to_numpy(), value.to_numpy())


def test_a_tree_survives_whole(place: Path) -> None:
    labels = fitted.d1(truth={"a": "yes", "b": "something else"})
    run = fitted.made_run(labels, fitted.r31(), warnings=("mind this", "and that"))
    tree = fitted.tree_of(labels, fitted.r31(), run)
    before = dict(tree.attrs)
    again = _round_trip(tree, place)
    _same(tree, again)
    assert tree.attrs == before  # saving changes nothing
    assert reader.labels_of(again).truth.to_dict() == {"a": "yes", "b": "something else"}
    assert reader.model_of(again) == fitted.r31()


@pytest.mark.parametrize(
    ("ids", "classes"),
    [
        ([1, 2, 3], [False, True]),
        (["a", "b", "c"], ["no", "yes"]),
        ([1, "1", 2.5], [1, "1"]),
        (["ü\0", "日本", ""], [0.5, 1.5]),
        ([True, False, "x"], [-1, 0]),
        ([10**30, 1, 2], ["a" * 1000, "b"]),
        ([pd.Timestamp("2024-01-02"), "x", 1], [False, "maybe"]),
        ([("a", 1), ("a", 2), "a"], [Decimal("0.5"), Decimal("1.50")]),
        ([datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3), b"x"], [("no", 0), ("yes", 1)]),
    ],
)
def test_P89_ids_of_any_type_survive_a_file(ids: list[object], classes: list[object], place: Path) -> None:
    labels = _labels(*(pd.Index(values, dtype=object, tupleize_cols=False) for values in (ids, classes)))
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    again = _round_trip(tree, place)
    for dim, expected in (("item", ids), ("worker", ids), ("class", classes), ("label", classes)):
        found = reader.ids(again, dim).tolist()
        assert found == expected
        assert [type(a) for a in found] == [type(b) for b in expected]


def test_long_attributes_survive(place: Path) -> None:
    # HDF5 refuses attributes above 64 kB; per-worker priors and long lists of warnings are larger.
    labels = CrowdLabels.from_codes([0, 1], [0, 1999], [0, 1], classes=3, workers=2000)
    model = bc.DawidSkene(confusion_prior=np.full((2000, 3, 3), 1.0123456789) + np.eye(3))
    run = fitted.made_point(labels, model, warnings=tuple(f"warning number {i} ü" for i in range(4000)))
    tree = fitted.tree_of(labels, model, run)
    again = _round_trip(tree, place)
    _same(tree, again)
    np.testing.assert_array_equal(reader.model_of(again).confusion_prior, model.confusion_prior)


def test_no_pickle_in_the_file(tmp_path: Path) -> None:
    labels = _labels(pd.Index([1, "1", 2.5], dtype=object), pd.Index(["no", "yes"]))
    store.save(fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene())), tmp_path / "fit.nc")
    import h5py

    def kinds(name: str, thing: object) -> None:
        if isinstance(thing, h5py.Dataset):
            text = h5py.check_string_dtype(thing.dtype)
            assert text is not None or thing.dtype.kind in "iufb", name

    with h5py.File(tmp_path / "fit.nc") as file:
        file.visititems(kinds)


def test_saving_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    path.write_text("something old")
    store.save(fitted.em().idata, path)
    store.save(fitted.em().idata, str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
    assert store.load(path).attrs["engine"] == "em"


def test_a_loaded_file_is_closed(tmp_path: Path) -> None:
    store.save(fitted.em().idata, tmp_path / "fit.nc")
    tree = store.load(tmp_path / "fit.nc")
    (tmp_path / "fit.nc").unlink()
    assert tree["latent"]["class_probability"].to_numpy().shape == (5, 2)


def test_P89_another_process_in_another_folder_loads_and_predicts(tmp_path: Path) -> None:
    fit = fitted.nuts()
    fit.save(tmp_path / "fit.nc")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = textwrap.dedent(
        """
        import pandas as pd
        import bayescrowd as bc
        fit = bc.load("../fit.nc")
        new = pd.DataFrame({"item": ["f"], "worker": ["w1"], "label": ["yes"]})
        print(repr(fit.predict(new).loc["f", "yes"].item()), fit.labels.n_annotations, fit.model.confusion_prior)
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    probability, n_annotations, *prior = done.stdout.split()
    assert float(probability) == pytest.approx(0.75594, abs=0.03)
    new = pd.DataFrame({"item": ["f"], "worker": ["w1"], "label": ["yes"]})
    assert float(probability) == pytest.approx(fit.predict(new).loc["f", "yes"], abs=1e-12)
    assert n_annotations == "15"
    assert prior == ["Diagonal(on=3.0,", "off=1.0)"]


def test_errors_of_loading(tmp_path: Path) -> None:
    fitted.em().save(tmp_path / "other.nc")
    with pytest.raises(BayescrowdError, match=r"there is no file.*NetCDF files there: .*other\.nc"):
        store.load(tmp_path / "fit.nc")
    with pytest.raises(BayescrowdError, match="is a folder"):
        store.load(tmp_path)
    (tmp_path / "labels.csv").write_text("item,worker,label\n")
    with pytest.raises(BayescrowdError, match="no NetCDF file.*read_labels"):
        store.load(tmp_path / "labels.csv")
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(str(tmp_path / "foreign.nc"), engine="h5netcdf")
    with pytest.raises(BayescrowdError, match="no result of bayescrowd"):
        store.load(tmp_path / "foreign.nc")
    newer = fitted.em().idata.copy()
    newer.attrs = newer.attrs | {"bayescrowd_format": 99}
    store.save(newer, tmp_path / "newer.nc")
    with pytest.raises(BayescrowdError, match="newer bayescrowd.*pip install --upgrade"):
        store.load(tmp_path / "newer.nc")


def test_errors_of_saving(tmp_path: Path) -> None:
    with pytest.raises(BayescrowdError, match="there is no folder"):
        fitted.em().save(tmp_path / "missing" / "fit.nc")
    with pytest.raises(BayescrowdError, match="it is a folder"):
        fitted.em().save(tmp_path)
    with pytest.raises(BayescrowdError, match=r"cannot save to .*choose a folder that you may write to"):
        fitted.em().save("/proc/fit.nc")


def test_ids_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    ids = pd.Index([frozenset({1}), frozenset({2}), "x"], dtype=object)
    labels = _labels(ids, pd.Index(["no", "yes"]))
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    assert reader.ids(tree, "worker").tolist() == ids.tolist()
    with pytest.raises(LabelError, match=r"item ids frozenset.* of type frozenset(.|\n)*worker ids"):
        store.save(tree, tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    labels = fitted.d1()
    path = tmp_path / "fit.nc"
    store.save(fitted.tree_of(labels, fitted.r31(), fitted.made_run(labels, fitted.r31(), draws=500)), path)
    sound = path.read_bytes()
    store.load(path)
    refused = 0
    for part in range(1, 20):
        place = len(sound) * part // 20
        path.write_bytes(sound[:place] + bytes(byte ^ 0x5A for byte in sound[place : place + 64]) + sound[place + 64 :])
        try:
            again = store.load(path)
        except BayescrowdError as error:
            refused += "is damaged" in str(error)
            continue
        # Where nothing is stored nothing is damaged.
        path.write_bytes(sound)
        _same(again, store.load(path))
    assert refused > 10
    path.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(BayescrowdError, match="no NetCDF file|damaged"):
        store.load(path)


def test_a_file_that_was_loaded_can_be_saved_again(place: Path) -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_run(labels, fitted.r31()))
    tree["posterior"] = tree["posterior"].dataset.assign(extra=("chain", [np.nan, 1.0]))
    again = _round_trip(_round_trip(tree, place), place)
    _same(tree, again)


def test_a_zarr_store_replaces_one_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "fit.zarr"
    fitted.em().save(place)
    fitted.nuts().save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.zarr"]
    assert bc.load(place).engine == "nuts"
    other = tmp_path / "other.zarr"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(BayescrowdError, match="it is a folder"):
        fitted.em().save(other)
    assert (other / "thesis.txt").read_text() == "precious"
    with pytest.raises(BayescrowdError, match="no zarr store"):
        store.load(other)
    foreign = tmp_path / "foreign.zarr"
    xr.Dataset({"x": ("y", [1.0])}).to_zarr(str(foreign), consolidated=False)
    with pytest.raises(BayescrowdError, match="is a zarr store but no result of bayescrowd"):
        store.load(foreign)


def test_a_damaged_zarr_store_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "fit.zarr"
    fitted.em().save(place)
    chunk = max(place.joinpath("latent", "class_probability").rglob("c/*/*"), key=lambda path: path.stat().st_size)
    chunk.write_bytes(bytes(byte ^ 0x5A for byte in chunk.read_bytes()))
    with pytest.raises(BayescrowdError, match="damaged"):
        store.load(place)


def test_without_zarr_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "find_spec", lambda name: None)
    with pytest.raises(BayescrowdError, match=r"pip install .*bayescrowd\[zarr\]"):
        fitted.em().save(tmp_path / "fit.zarr")
