"""What users report, through the public interface: criticism, ArviZ, progress, global settings."""

from __future__ import annotations

import functools
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels

az = pytest.importorskip("arviz")


@pytest.fixture(autouse=True)
def _agg() -> Any:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


def complete(votes: np.ndarray, truth: np.ndarray | None = None) -> CrowdLabels:
    item, worker = np.indices(votes.shape)
    known = None if truth is None else dict(enumerate(truth.tolist()))
    return CrowdLabels.from_codes(item.ravel(), worker.ravel(), votes.ravel(), classes=2, truth=known)


@functools.cache
def anesthesia() -> bc.Fit:
    labels = bc.datasets.load("anesthesia")
    return bc.fit(labels, fitted.r31(), engine="gibbs", warmup=200, draws=400, chains=2, progress=False)


def test_P40_equal_workers_the_model_buys_nothing_and_says_so() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(2, size=300)
    votes = np.where(random.random((300, 5)) < 0.8, truth[:, None], 1 - truth[:, None])
    fit = bc.fit(complete(votes), bc.DawidSkene())
    diagnosis = fit.diagnose()
    assert diagnosis.n_changed <= 6
    text = str(diagnosis)
    assert "majority vote" in text
    assert "look like replications by the model" in text
    assert not diagnosis.problems


def test_P41_nine_judges_who_err_together_are_worth_two() -> None:
    random = np.random.default_rng(11)
    truth = random.integers(0, 2, 1000)
    hard = random.random(1000) < 0.25
    votes = np.where(random.random((1000, 9)) < np.where(hard, 0.3, 0.95)[:, None], truth[:, None], 1 - truth[:, None])
    labels = complete(votes, truth)
    fit = bc.fit(labels, bc.DawidSkene())
    known = fit.dependence(True)
    assert known.effective == pytest.approx(1.9, abs=0.1)
    assert known.correlation == pytest.approx(0.469, abs=0.01)
    unknown = fit.dependence()
    assert unknown.prior_driven
    assert unknown.effective_lower <= 1.9 <= unknown.effective_upper
    splits = fit.predictive_checks(("splits",))["splits"]
    row = splits.table.set_index("split").loc["5-4"]
    assert row["observed"] == pytest.approx(63, abs=1)
    assert row["expected"] < 20
    assert splits.p_value < 0.01
    scores = fit.calibration().scores["value"]
    assert scores["log_loss"] > np.log(2)  # worse than a coin
    assert scores["confidence"] - scores["accuracy"] > 0.15


def test_P54_two_labels_never_outrank_two_hundred() -> None:
    """Right twice of two is not known to be better than right 180 times of 200."""
    random = np.random.default_rng(1)
    truth = random.integers(2, size=200)
    item = [*np.arange(200).repeat(3), 0, 1, *range(200)]
    worker = [*np.tile([0, 1, 2], 200), 3, 3, *([4] * 200)]
    right = np.ones(200, bool)
    right[random.permutation(200)[:20]] = False
    others = np.where(random.random((200, 3)) < 0.95, truth[:, None], 1 - truth[:, None]).ravel()
    label = [*others, *truth[:2], *np.where(right, truth, 1 - truth)]
    labels = CrowdLabels.from_codes(item, worker, label, classes=2, workers=["a", "b", "c", "two", "many"])
    table = bc.fit(labels, bc.DawidSkene(), engine="gibbs", warmup=200, draws=400, chains=2, progress=False).workers()
    assert table.loc["two", "accuracy_lower"] < table.loc["many", "accuracy_lower"]
    assert table.loc["two", "accuracy"] < table.loc["many", "accuracy"] + 0.02
    width = table["accuracy_upper"] - table["accuracy_lower"]
    assert width["two"] > 3 * width["many"]


def test_P81_P83_arviz_takes_fits_as_they_are(tmp_path: Path) -> None:
    fit = anesthesia()
    fit.save(tmp_path / "fit.zarr")
    fit.save(tmp_path / "fit.nc")
    for tree in (fit.idata, bc.load(tmp_path / "fit.zarr").idata, bc.load(tmp_path / "fit.nc").idata):
        table = az.summary(tree, var_names=["prevalence"], ci_prob=0.89, ci_kind="eti")
        assert {"eti89_lb", "eti89_ub", "r_hat"} <= set(table.columns)
        assert np.isfinite(az.loo(tree).elpd)
        for plot in (az.plot_rank_dist, az.plot_ess, az.plot_mcse):
            assert plot(tree, var_names=["prevalence"]) is not None


@pytest.mark.parametrize("plot", ["plot_ppc_pit", "plot_ppc_rootogram"])
def test_P83_predictive_plots_of_arviz(plot: str) -> None:
    assert getattr(az, plot)(anesthesia().posterior_predictive(draws=40)) is not None


@pytest.mark.filterwarnings("ignore:Pareto k is too high")
def test_P83_comparison_by_arviz() -> None:
    labels = bc.datasets.load("anesthesia")
    other = bc.fit(
        labels, bc.DawidSkene(confusion_prior=1.0), engine="gibbs", warmup=200, draws=400, chains=2, progress=False
    )
    ours = bc.compare({"good prior": anesthesia(), "weak prior": other})
    theirs = az.compare({"good prior": anesthesia().loo(), "weak prior": other.loo()}, round_to="none")
    assert ours.index.tolist() == theirs.index.tolist()
    np.testing.assert_allclose(ours["elpd"].to_numpy(float), theirs["elpd"].to_numpy(float), atol=0.06)


@pytest.mark.parametrize("engine", ["vb", "collapsed-vi"])
def test_P86_a_bound_lies_below_the_evidence(engine: str) -> None:
    fit = bc.fit(fitted.d1(), fitted.r31(), engine=engine, progress=False)
    assert json.loads(fit.idata.attrs["details"])["bound"] <= -11.21866
    if engine == "vb":
        objective = fit.idata["optimization"].dataset["objective"].to_numpy()
        assert (np.diff(objective) > -1e-9).all()


def test_P90_no_bar_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    out, error = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    done: list[bc.Fit] = []
    run = lambda: done.append(bc.fit(fitted.d1(), fitted.r31(), engine="gibbs", warmup=50, draws=200, chains=4))
    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(done) == 2
    assert out.getvalue() == ""
    assert error.getvalue() == ""
    np.testing.assert_array_equal(done[0].class_probabilities(), done[1].class_probabilities())


@pytest.mark.filterwarnings("ignore:Pareto k is too high")
def test_P92_criticism_and_pictures_leave_global_settings_alone() -> None:
    import warnings

    import jax
    import matplotlib as mpl

    def state() -> Any:
        legacy = np.random.get_state()[1].tolist()  # noqa: NPY002
        return jax.config.jax_enable_x64, dict(mpl.rcParams), list(warnings.filters), legacy

    before = state()
    fit = anesthesia()
    fit.predictive_checks(draws=50)
    fit.loo()
    bc.plots.plot_workers(fit)
    assert state() == before
