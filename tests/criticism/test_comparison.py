from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from typing import Any

import arviz as az
import fitted
import left_out
import numpy as np
import pytest
import running
import xarray as xr

import bayescrowd as bc
from bayescrowd.criticism.comparison import compare, told_apart
from bayescrowd.criticism.kfold import kfold
from bayescrowd.criticism.likelihood import log_likelihood
from bayescrowd.criticism.loo import estimate
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdError, BayescrowdWarning, EngineError, ModelError
from bayescrowd.fit import Fit

DS = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
FLAT = bc.DawidSkene(confusion_prior=300.0)
"""Believes firmly that everybody guesses."""


@functools.cache
def _fit(model: Any = DS, table: Any = fitted.anesthesia) -> Fit:
    labels = table()
    run = running.run(labels, model, "gibbs", draws=300, warmup=100, chains=2)
    tree = fitted.tree_of(labels, model, run, "gibbs")
    return Fit(tree)


def _crowd() -> CrowdLabels:
    """120 items, 5 good workers."""
    return bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(20, 2)), n_items=120, n_workers=5, seed=3).labels


def test_the_table_is_arvizs() -> None:
    one, two = estimate(_fit().idata, by="item"), estimate(_fit(FLAT).idata, by="item")
    found, theirs = compare({"ds": _fit(), "flat": _fit(FLAT)}), az.compare({"ds": one, "flat": two}, round_to="none")
    assert found.index.tolist() == theirs.index.tolist() == ["ds", "flat"]
    assert found.columns.tolist() == theirs.columns.tolist()
    numbers = ["rank", "elpd", "se", "p", "elpd_diff", "dse", "weight"]
    np.testing.assert_allclose(found[numbers].astype(float), theirs[numbers].astype(float), rtol=1e-6, atol=1e-6)
    difference = one.elpd_i - two.elpd_i
    assert abs(float(found.loc["flat", "elpd_diff"])) == pytest.approx(float(difference.sum()), rel=1e-9)
    assert found.attrs["by"] == "item"
    assert float(found["weight"].sum()) == pytest.approx(1.0, abs=0.02)


def test_told_apart() -> None:
    assert told_apart(4.1, 2.0)
    assert told_apart(-4.1, 2.0)
    assert not told_apart(4.0, 2.0)
    assert not told_apart(0.0, 0.0)
    assert not told_apart(5.0, np.nan)


def test_what_it_says() -> None:
    table = compare({"flat": _fit(FLAT, _crowd), "ds": _fit(DS, _crowd)})
    assert table.index[0] == "ds"
    assert table.attrs["advice"][0].startswith("ds predicts labels better than flat by ")
    assert " nats." in table.attrs["advice"][0]
    nearly = bc.DawidSkene(confusion_prior=bc.diagonal(2.9, 1))
    twins = compare({"ds": _fit(DS, _crowd), "nearly": _fit(nearly, _crowd)})
    assert "cannot be told apart" in twins.attrs["advice"][0]
    assert "within two standard errors" in twins.attrs["advice"][0]
    assert not any("standard errors are rough" in sentence for sentence in twins.attrs["advice"])
    few = compare({"ds": _fit(), "flat": _fit(FLAT)})
    assert "With 45 items only, standard errors are rough: they may be much too small." in few.attrs["advice"]


def test_small_differences_are_no_preference() -> None:
    found = estimate(_fit().idata, by="item")
    better = dataclasses.replace(found, elpd_i=found.elpd_i + 0.02, elpd=found.elpd + 0.9)
    table = compare({"ds": found, "a little better": better})
    expected = "a little better predicts labels better than ds by 0.9 +- 0.0 nats: too little to matter."
    assert table.attrs["advice"][0] == expected


def test_fits_trees_and_results_alike() -> None:
    given = [_fit(), _fit().idata, estimate(_fit().idata, by="item")]
    tables = [compare({"a": one, "flat": _fit(FLAT)}) for one in given]
    for table in tables[1:]:
        assert table.equals(tables[0])
    by_label = compare({"a": _fit(), "flat": _fit(FLAT)}, by="annotation")
    assert by_label.attrs["by"] == "annotation"
    # Results say themselves what was left out.
    results = {name: estimate(fit.idata, by="annotation") for name, fit in (("a", _fit()), ("flat", _fit(FLAT)))}
    assert compare(results).equals(by_label)


def test_folds() -> None:
    ds, flat = (kfold(bc.fit(fitted.anesthesia(), model, engine="vb").idata, folds=3) for model in (DS, FLAT))
    table = compare({"ds": ds, "flat": flat})
    assert table.index[0] == "ds"
    assert table.attrs["advice"][0].startswith("ds predicts labels better than flat")
    other = dataclasses.replace(flat, fold=flat.fold[::-1])
    with pytest.raises(BayescrowdError, match="other folds: give kfold the same folds and seed"):
        compare({"ds": ds, "flat": other})
    with pytest.raises(BayescrowdError, match="'flat' from k-fold cross-validation: take one for all"):
        compare({"ds": _fit(), "flat": flat})
    impossible = dataclasses.replace(flat, elpd_i=flat.elpd_i.where(np.arange(45) != 3, -np.inf))
    with pytest.raises(BayescrowdError, match="'em' gives probability 0 to the labels of 1 item"):
        compare({"ds": ds, "em": impossible})


def test_high_pareto_k_and_underflow() -> None:
    # The labels of a worker have probabilities that underflow, and weights must come out all the same.
    with pytest.warns(BayescrowdWarning, match=r"too high for .*Compare the results of fit.kfold\(by='worker'\)"):
        table = compare({"ds": _fit(DS, _crowd), "flat": _fit(FLAT, _crowd)}, by="worker")
    assert np.isfinite(table["weight"]).all()
    assert float(table.loc["ds", "weight"]) == pytest.approx(1.0, abs=0.01)
    assert any(sentence.startswith("ds: Pareto k is above") for sentence in table.attrs["advice"])
    lifted = {
        name: dataclasses.replace(result, elpd_i=result.elpd_i - 800, elpd=result.elpd - 800 * 45)
        for name, result in (("ds", estimate(_fit().idata, by="item")), ("flat", estimate(_fit(FLAT).idata, by="item")))
    }
    plain = compare({"ds": _fit(), "flat": _fit(FLAT)})
    np.testing.assert_allclose(compare(lifted)["weight"], plain["weight"], atol=1e-6)


def test_fits_whose_pareto_k_are_too_high_are_named_once() -> None:
    vb = bc.fit(fitted.anesthesia(), DS, engine="vb", progress=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table = compare({"ds": _fit(), "vb": vb})
    assert len(told) == 1
    assert told[0].category is BayescrowdWarning
    text = str(told[0].message)
    assert text.startswith("Pareto k is too high for 'vb': these values, and the places in the table, cannot be relied")
    assert "fit.kfold() of all fits" in text
    assert any(sentence.startswith("vb: Pareto k is above") for sentence in table.attrs["advice"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what fit.loo() gave has been warned of
        compare({"ds": estimate(_fit().idata, by="item"), "vb": estimate(vb.idata, by="item")})


@pytest.mark.parametrize("method", ["stacking", "BB-pseudo-BMA", "pseudo-BMA"])
def test_methods(method: str) -> None:
    table = compare({"ds": _fit(), "flat": _fit(FLAT)}, method=method)
    assert float(table["weight"].sum()) == pytest.approx(1.0, abs=0.05)
    assert float(table.loc["ds", "weight"]) > 0.9


def test_many_models() -> None:
    base = estimate(_fit().idata, by="item")
    many = {}
    for index in range(13):
        value = base.elpd_i + (index - 6) / 45
        many[f"m{index}"] = dataclasses.replace(base, elpd_i=value, elpd=float(value.sum()))
    assert any("may lead by chance" in sentence for sentence in compare(many).attrs["advice"])


def _arviz(tree: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return az.loo(tree, **options)


def test_results_of_arviz() -> None:
    theirs = _arviz(_fit().idata, pointwise=True)
    assert compare({"theirs": theirs, "ours": _fit(FLAT)}).index[0] == "theirs"
    bare = _arviz(_fit().idata, pointwise=False)
    with pytest.raises(BayescrowdError, match="'bare' has no values by piece"):
        compare({"bare": bare, "ours": _fit(FLAT)})
    tree = xr.DataTree.from_dict(
        {"log_likelihood": log_likelihood(_fit().idata).rename(item="observation").to_dataset(name="x")}
    )
    with pytest.raises(BayescrowdError, match="leaves out by observation, 'ours' by item"):
        compare({"theirs": _arviz(tree, pointwise=True, reff=1.0), "ours": _fit()})


def _altered(**changes: Any) -> Fit:
    labels = left_out.small()
    changed = dataclasses.replace(labels, **changes)
    run = fitted.made_run(changed, DS, draws=40, log_likelihood=None)
    return Fit(fitted.tree_of(changed, DS, run))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight": np.where(np.arange(22) == 3, 2.0, 1.0)}, "weights differ"),
        ({"gold_code": np.array([0, -1, -1, -1, -1, -1])}, "gold differ"),
        ({"label_code": 1 - left_out.small().label_code}, r"rows \(who said what of which item\) differ"),
        ({"items": left_out.small().items[::-1]}, "items differ"),
        ({"workers": left_out.small().workers.str.upper()}, "workers differ"),
        (dict.fromkeys(("classes", "label_values"), left_out.small().classes[::-1]), "classes and label values differ"),
    ],
)
def test_different_labels_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BayescrowdError, match=f"'one' and 'other' are of different labels: .*{words}"):
        compare({"one": _altered(), "other": _altered(**changes)})


@pytest.mark.filterwarnings("ignore:Pareto k is too high")
def test_the_order_of_rows_counts_by_annotation_only() -> None:
    labels = left_out.small()
    order = np.random.default_rng(0).permutation(22)
    shuffled = _altered(**{name: getattr(labels, name)[order] for name in ("item_code", "worker_code", "label_code")})
    compare({"one": _altered(), "other": shuffled})
    with pytest.raises(BayescrowdError, match="order of the rows differ"):
        compare({"one": _altered(), "other": shuffled}, by="annotation")


def test_other_items_of_arvizs_results() -> None:
    theirs = _arviz(_fit().idata, pointwise=True)
    with pytest.raises(BayescrowdError, match="of different labels: items differ"):
        compare({"theirs": theirs, "ours": _altered()})


def test_refusals() -> None:
    unchecked = inspect.unwrap(compare)
    with pytest.raises(BayescrowdError, match="at least two fits, not 1"):
        compare({"ds": _fit()})
    with pytest.raises(BayescrowdError, match="takes a dict of names and fits"):
        unchecked([_fit(), _fit()])
    with pytest.raises(BayescrowdError, match="names of the fits must be text, not 1"):
        unchecked({1: _fit(), "b": _fit()})
    with pytest.raises(BayescrowdError, match="names of the fits must be text, not ' '"):
        compare({" ": _fit(), "b": _fit()})
    with pytest.raises(BayescrowdError, match="'b' is a str; compare takes fits"):
        compare({"a": _fit(), "b": "fit.nc"})
    with pytest.raises(BayescrowdError, match="method must be one of 'stacking'"):
        compare({"a": _fit(), "b": _fit()}, method="waic")
    with pytest.raises(BayescrowdError, match="by must be"):
        compare({"a": _fit(), "b": _fit()}, by="task")
    with pytest.raises(BayescrowdError, match="'a' leaves out by item, 'b' by worker: give all of them the same by"):
        compare({"a": _fit(), "b": estimate(_fit().idata, by="worker")})
    with pytest.raises(EngineError, match=r"'b': .*engine 'em' left a point estimate: use fit.kfold\(\)"):
        compare({"a": _fit(), "b": fitted.anesthesia_em()})
    with pytest.raises(ModelError, match="'b': majority"):
        compare({"a": _fit(), "b": bc.baselines.majority_vote(fitted.anesthesia())})


def test_it_is_at_the_front_door() -> None:
    assert bc.compare is compare
