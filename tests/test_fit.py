from __future__ import annotations

import pickle

import fitted
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescrowd as bc
from bayescrowd.fit import Fit


def test_a_fit_shows_what_it_is() -> None:
    text = repr(fitted.em())
    assert text.startswith("Fit of dawid-skene by em: 5 items, 3 workers, 2 classes, 15 labels. Converged after")
    assert "\n" not in text
    html = fitted.em()._repr_html_()
    assert "<table" in html
    assert "0 of 5 items differ from the majority vote" in html


def test_repr_of_a_fit_with_warnings() -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31(), warnings=("<one>",)))
    assert repr(Fit(tree)).endswith("1 warning: see fit.warnings and fit.diagnose().")
    assert Fit(tree).warnings == ["<one>"]
    tree.attrs["converged"] = "no"
    assert "NOT converged" in repr(Fit(tree))


def test_properties() -> None:
    fit = fitted.nuts()
    assert isinstance(fit.idata, xr.DataTree)
    assert fit.engine == "nuts"
    assert fit.model == fitted.r31()
    assert fit.converged is True
    assert fit.settings["chains"] == 4
    assert fit.warnings == []
    pd.testing.assert_frame_equal(fit.labels.to_frame(), fitted.d1().to_frame())


def test_P82_probabilities_are_conditional_and_right() -> None:
    np.testing.assert_allclose(fitted.nuts().class_probabilities()["yes"], fitted.D1_EXACT, atol=0.03)


def test_P93_probabilities_are_labelled() -> None:
    table = fitted.em().class_probabilities()
    assert (table.index.tolist(), table.columns.tolist()) == (list("abcde"), ["no", "yes"])
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)


def test_P81_everything_is_in_one_tree() -> None:
    tree = fitted.nuts().idata
    assert {"posterior", "latent", "log_likelihood", "sample_stats", "observed_data", "constant_data"} <= set(
        tree.children
    )
    assert tree["log_likelihood"]["labels_of_item"].dims == ("chain", "draw", "item")
    assert tree["latent"]["class_probability"].sel(item="a", **{"class": "yes"}).item() == pytest.approx(0.72, abs=0.03)


def test_P89_pickle_works() -> None:
    fit = fitted.em()
    again = pickle.loads(pickle.dumps(fit))
    pd.testing.assert_frame_equal(again.consensus(), fit.consensus())
    assert again.model == fit.model


def test_a_loaded_fit_answers_the_same(tmp_path) -> None:
    fit = fitted.nuts()
    fit.save(tmp_path / "fit.nc")
    again = bc.load(tmp_path / "fit.nc")
    pd.testing.assert_frame_equal(again.consensus(), fit.consensus())
    pd.testing.assert_frame_equal(again.workers(), fit.workers())
    pd.testing.assert_frame_equal(again.confusion("w2", interval=0.5), fit.confusion("w2", interval=0.5))
    assert str(again.diagnose()) == str(fit.diagnose())
    assert repr(again) == repr(fit)
    assert again.converged is True


def test_a_fit_starts_the_next_one() -> None:
    more = fitted.frame({**fitted.D1, "f": "110"})
    first = fitted.em()
    fit = bc.fit(bc.CrowdLabels.from_long(more), init=first)
    assert fit.converged


def test_no_state_besides_the_tree() -> None:
    with pytest.raises(AttributeError):
        fitted.em().something = 1
