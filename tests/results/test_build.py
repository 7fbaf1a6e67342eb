from __future__ import annotations

import json

import fitted
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import ModelError
from bayescrowd.inference.base import Status
from bayescrowd.results import tree as reader


def _check_schema(tree: xr.DataTree) -> None:
    """What ArviZ and NetCDF ask of every tree."""
    for node in tree.subtree:
        data = node.dataset
        assert not set(data.data_vars) & set(data.dims)
        assert set(data.dims) <= set(data.coords)
    assert all(isinstance(value, str | int | float | list) for value in tree.attrs.values())
    assert not any(isinstance(value, bool) for value in tree.attrs.values())


def test_tree_of_draws() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31())
    tree = fitted.tree_of(labels, fitted.r31(), run)
    _check_schema(tree)
    assert set(tree.children) == {
        "posterior",
        "latent",
        "log_likelihood",
        "sample_stats",
        "observed_data",
        "constant_data",
    }
    posterior = tree["posterior"].dataset
    assert posterior["prevalence"].dims == ("chain", "draw", "class")
    assert posterior["confusion"].dims == ("chain", "draw", "worker", "class", "label")
    assert tree["latent"]["class_probability"].dims == ("item", "class")
    assert tree["latent"]["class_probability_by_chain"].dims == ("chain", "item", "class")
    assert list(tree["log_likelihood"].dataset.data_vars) == ["labels_of_item"]
    assert tree["log_likelihood"]["labels_of_item"].dims == ("chain", "draw", "item")
    assert posterior.sel(worker="w2")["worker"].item() == "w2"
    np.testing.assert_array_equal(posterior["confusion"].to_numpy(), run.draws["confusion"])
    assert tree.attrs["model"] == "dawid-skene"
    assert tree.attrs["converged"] == "unknown"
    assert json.loads(tree.attrs["versions"])["bayescrowd"] == bc.__version__
    assert json.loads(tree.attrs["settings"])["max_iter"] == 3000


def test_tree_of_a_point_estimate_has_no_fake_draw() -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31()))
    _check_schema(tree)
    assert "posterior" not in tree.children
    assert tree["point_estimate"]["confusion"].dims == ("worker", "class", "label")
    assert tree["optimization"]["objective"].dims == ("iteration",)


def test_confusion_is_derived_where_no_site_bears_the_name() -> None:
    labels, model = fitted.d1(), fitted.OneCoin()
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model))
    _check_schema(tree)
    rate = tree["posterior"]["right_rate"].to_numpy()
    confusion = tree["posterior"]["confusion"].to_numpy()
    np.testing.assert_allclose(confusion[..., 0, 0], rate, atol=1e-12)
    np.testing.assert_allclose(confusion[..., 1, 0], 1 - rate, atol=1e-12)
    point = fitted.tree_of(labels, model, fitted.made_point(labels, model))
    np.testing.assert_allclose(point["point_estimate"]["confusion"].sum("label"), 1, atol=1e-12)


def test_difficulty_levels() -> None:
    labels, model = fitted.d1(), fitted.Levelled()
    run = fitted.made_run(labels, model)
    tree = fitted.tree_of(labels, model, run)
    _check_schema(tree)
    assert tree["posterior"]["confusion"].dims == ("chain", "draw", "worker", "difficulty", "class", "label")
    assert tree["posterior"]["difficulty"].to_numpy().tolist() == ["easy", "hard"]
    state = run.state_probability
    # state = difficulty * n_classes + class
    np.testing.assert_allclose(tree["latent"]["class_probability"], state[:, :2] + state[:, 2:])
    np.testing.assert_allclose(tree["latent"]["difficulty_probability"][:, 0], state[:, :2].sum(1))


def test_priors_are_kept_without_idle_axes() -> None:
    labels = fitted.d1()
    constant = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31()))["constant_data"].dataset
    assert constant["confusion_concentration"].dims == ("class", "label")
    np.testing.assert_array_equal(constant["confusion_concentration"], [[3, 1], [1, 3]])
    per_worker = bc.DawidSkene(confusion_prior=np.arange(1, 13).reshape(3, 2, 2))
    constant = fitted.tree_of(labels, per_worker, fitted.made_point(labels, per_worker))["constant_data"].dataset
    assert constant["confusion_concentration"].dims == ("worker", "class", "label")
    coin = fitted.OneCoin()
    constant = fitted.tree_of(labels, coin, fitted.made_point(labels, coin))["constant_data"].dataset
    np.testing.assert_array_equal(constant["right_rate_concentration"], [4, 1])


def test_large_draws_are_thinned_and_that_is_said() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31(), draws=200)
    tree = fitted.tree_of(labels, fitted.r31(), run, max_bytes=2 * 8 * (12 + 2) * 50)
    _check_schema(tree)
    assert tree["posterior"].sizes["draw"] == 50
    assert tree["posterior"]["draw"].to_numpy()[:3].tolist() == [0, 4, 8]
    # All groups share the draws, so that ArviZ can put them side by side.
    assert tree["sample_stats"].sizes["draw"] == 50
    assert any("Kept 50 of 200 draws" in text for text in tree.attrs["warnings"])
    np.testing.assert_array_equal(tree["latent"]["class_probability"], run.state_probability)


def test_a_large_log_likelihood_is_left_out_and_that_is_said() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31(), log_likelihood=np.zeros((2, 40, 5)))
    tree = fitted.tree_of(labels, fitted.r31(), run, max_bytes=2000)
    assert "log_likelihood" not in tree.children
    assert any("log-likelihood" in text for text in tree.attrs["warnings"])


def _rich_labels() -> CrowdLabels:
    return CrowdLabels.from_codes(
        [0, 0, 1, 2, 2],
        [0, 1, 0, 1, 0],
        [0, 2, 1, 1, 0],
        items=["x", "y", "z", "never labelled"],
        workers=[7, 8, 9],
        classes=["no", "yes"],
        label_values=["no", "yes", "cannot tell"],
        weight=[1, 2, 0.5, 1, 1],
        gold_code=[-1, 1, -1, -1],
        truth={"x": "no", "z": "another thing"},
        ordered=True,
        notes=["one thing was noticed"],
    )


def test_labels_come_back_from_the_tree() -> None:
    labels = _rich_labels()
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    _check_schema(tree)
    again = reader.labels_of(tree)
    for name in ("item_code", "worker_code", "label_code", "weight", "gold_code"):
        np.testing.assert_array_equal(getattr(again, name), getattr(labels, name))
    for name in ("items", "workers", "classes", "label_values"):
        assert getattr(again, name).tolist() == getattr(labels, name).tolist()
    pd.testing.assert_frame_equal(again.to_frame(), labels.to_frame())
    assert again.truth.to_dict() == {"x": "no", "z": "another thing"}
    assert again.ordered
    assert again.notes == labels.notes


def test_truth_is_kept_apart_from_what_a_fit_reads() -> None:
    labels = _rich_labels()
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    assert list(tree["truth"].dataset.data_vars) == ["truth_index"]
    assert not any("truth" in str(name) for name in tree["observed_data"].dataset.variables)


def test_patterns_come_back() -> None:
    counts = pd.DataFrame({"w1": [1, 0], "w2": [1, 0], "n": [3, 2]}, index=["both", "none"])
    labels = CrowdLabels.from_counts(counts)
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    pd.testing.assert_series_equal(reader.labels_of(tree).patterns, labels.patterns, check_names=False)


def test_model_comes_back_with_its_priors() -> None:
    labels = fitted.d1()
    for model in (fitted.r31(), fitted.OneCoin(right=2.5), fitted.Levelled()):
        tree = fitted.tree_of(labels, model, fitted.made_point(labels, model))
        assert reader.model_of(tree) == model


def test_unknown_model_class_says_what_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, model = fitted.d1(), fitted.OneCoin()
    tree = fitted.tree_of(labels, model, fitted.made_point(labels, model))
    monkeypatch.setattr(reader, "_SEEN", {})
    assert reader.model_of(tree) == model  # found in the module that is imported here
    tree.attrs["model_class"] = "somewhere.models:Mine"
    with pytest.raises(ModelError, match=r"class 'Mine' of module 'somewhere\.models'.*import that module"):
        reader.model_of(tree)


def test_status_and_warnings_are_kept() -> None:
    labels = fitted.d1()
    status = Status("max-iterations", "Stopped at 2 passes.", False)
    run = fitted.made_point(
        labels, fitted.r31(), status=status, warnings=("mind this",), extra={"n_passes": np.int64(2)}
    )
    tree = fitted.tree_of(labels, fitted.r31(), run)
    assert (tree.attrs["status"], tree.attrs["converged"]) == ("max-iterations", "no")
    assert tree.attrs["warnings"] == ["mind this"]
    assert json.loads(tree.attrs["details"]) == {"n_passes": 2}


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (pd.Index([1, "1", 2.5], dtype=object), ["1", "'1'", "2.5"]),
        (pd.Index([True, False, "maybe"], dtype=object), ["True", "False", "maybe"]),
    ],
)
def test_mixed_ids_are_text_in_the_tree_and_themselves_in_the_answers(ids: pd.Index, text: list[str]) -> None:
    labels = CrowdLabels.from_codes([0, 1, 2], [0, 1, 2], [0, 1, 0], items=ids, workers=ids, classes=2)
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_point(labels, bc.DawidSkene()))
    assert tree["latent"]["item"].to_numpy().tolist() == text
    assert reader.ids(tree, "item").tolist() == ids.tolist()
    assert reader.ids(tree, "worker").tolist() == ids.tolist()
