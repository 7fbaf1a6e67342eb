from __future__ import annotations

import functools
import inspect
import json
import warnings
from typing import Any

import arviz as az
import fitted
import left_out
import matplotlib as mpl
import numpy as np
import pytest
import running

import bayescrowd as bc
from bayescrowd.criticism import _refit
from bayescrowd.criticism.kfold import kfold
from bayescrowd.criticism.likelihood import log_likelihood
from bayescrowd.criticism.loo import Loo, estimate, loo
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdWarning, ConvergenceWarning, EngineError, LabelError, ModelError

PRIOR = bc.diagonal(3, 1)
DS = bc.DawidSkene(confusion_prior=PRIOR)
LEVELS = bc.IDBLA(n_levels=2, confusion_prior=PRIOR)


@functools.cache
def _gibbs(model: Any = DS, table: Any = left_out.small, draws: int = 2000) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bc.fit(table(), model, engine="gibbs", draws=draws).idata


@functools.cache
def _exact(by: str, n_levels: int = 1, table: Any = left_out.small) -> np.ndarray:
    return left_out.exact(table(), by, n_levels=n_levels)


@pytest.mark.parametrize("by", ["item", "annotation", "worker"])
@pytest.mark.parametrize("model", [DS, LEVELS], ids=lambda model: model.name)
def test_against_exact_leave_one_out(model: Any, by: str) -> None:
    found = estimate(_gibbs(model), by=by)
    expected = _exact(by, model.n_levels)
    good = found.pareto_k.to_numpy() <= found.good_k
    assert good.mean() > 0.7
    np.testing.assert_allclose(found.elpd_i.to_numpy()[good], expected[good], atol=0.15 if by == "worker" else 0.06)
    assert found.elpd == pytest.approx(float(found.elpd_i.sum()))
    assert found.se == pytest.approx(np.sqrt(len(expected) * np.var(found.elpd_i.to_numpy(), ddof=1)))
    assert found.p == pytest.approx(float(found.p_loo_i.sum()))
    assert found.p > 0
    assert found.n_data_points == len(expected)
    assert found.elpd_i.dims == found.pareto_k.dims == (by,)
    assert found.elpd_i[by].equals(_gibbs(model)["observed_data"].dataset[by])


def test_weights_gold_repeats_and_labels_that_are_no_class() -> None:
    labels = left_out.rich()
    fit = bc.fit(labels, DS, engine="gibbs", draws=2000)
    expected = left_out.exact(labels, "item")
    found = estimate(fit.idata, by="item")
    good = found.pareto_k.to_numpy() <= found.good_k
    assert good.mean() > 0.5
    np.testing.assert_allclose(found.elpd_i[good], expected[good], atol=0.1)
    # An item without labels is predicted perfectly, whatever the draws, and a worker without labels likewise.
    assert float(found.elpd_i.sel(item="no labels")) == pytest.approx(0.0, abs=1e-9)
    assert float(found.pareto_k.sel(item="no labels")) == 0.0
    by_worker = estimate(fit.idata, by="worker")
    assert float(by_worker.elpd_i.sel(worker="silent")) == pytest.approx(0.0, abs=1e-9)
    good = by_worker.pareto_k.to_numpy() <= by_worker.good_k
    np.testing.assert_allclose(by_worker.elpd_i[good], left_out.exact(labels, "worker")[good], atol=0.15)
    by_label = estimate(fit.idata, by="annotation")
    good = by_label.pareto_k.to_numpy() <= by_label.good_k
    assert good.mean() > 0.5
    np.testing.assert_allclose(by_label.elpd_i[good], left_out.exact(labels, "annotation")[good], atol=0.1)


def test_agrees_with_arviz_where_arviz_can() -> None:
    tree = _gibbs()
    found, theirs = loo(tree), az.loo(tree, pointwise=True)
    # They take one effective sample size for all, of the parameters; we that of each item's own likelihood.
    np.testing.assert_allclose(found.elpd_i, theirs.elpd_i, atol=5e-3)
    np.testing.assert_allclose(found.pareto_k, theirs.pareto_k, atol=0.1)
    assert found.good_k == theirs.good_k
    assert (found.kind, found.n_samples, found.scale) == (theirs.kind, theirs.n_samples, theirs.scale)


def test_arviz_takes_the_result() -> None:
    mpl.use("agg")
    found = loo(_gibbs())
    assert isinstance(found, az.ELPDData)
    az.plot_khat(found, backend="matplotlib")
    table = az.compare({"ours": found, "again": loo(_gibbs(), by="item"), "levels": loo(_gibbs(LEVELS))})
    assert set(table.index) == {"ours", "again", "levels"}
    weights = found.log_weights.stack(sample=("chain", "draw"))
    np.testing.assert_allclose(np.exp(weights).sum("sample"), 1.0, rtol=1e-6)


def test_silent_where_all_is_well() -> None:
    found = loo(_gibbs())
    assert not found.warning
    assert found.advice == []
    assert found.refitted == []
    assert "elpd_loo" in str(found)


def test_high_pareto_k_is_named_and_remedied() -> None:
    tree = _gibbs(DS, left_out.strong)
    with pytest.warns(BayescrowdWarning, match=r"Pareto k is too high for \d of 4 workers \('w"):
        found = loo(tree, by="worker")
    bad = found.pareto_k.to_numpy() > found.good_k
    assert bad.any()
    assert found.warning
    text = " ".join(found.advice)
    assert "fit.loo(by='worker', refit=True)" in text
    assert "fit.kfold(by='worker')" in text
    assert "they carry 24 labels in the median" in text
    assert all(f"'{worker}'" in text for worker in found.elpd_i.worker.to_numpy()[bad])
    assert found.advice[0] in str(found)
    assert "There has been a warning" not in str(found)


def test_a_few_values_that_are_a_little_high_are_named_but_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimate(_gibbs(), by="annotation")
    k = np.zeros(22)
    k[[3, 5]] = 0.75
    found.pareto_k = found.pareto_k.copy(data=k)
    monkeypatch.setattr("bayescrowd.criticism.loo.estimate", lambda *_, **__: found)
    loo(_gibbs(), by="annotation")  # a warning would be an error here
    for alarming in ({7: 0.8}, {3: 1.01}):
        for row, value in alarming.items():
            found.pareto_k[row] = value
        with pytest.warns(BayescrowdWarning, match="Pareto k is too high for [23] of 22 annotations"):
            loo(_gibbs(), by="annotation")
        found.pareto_k[7] = 0.0


def test_refitting_is_exact_where_reweighting_fails() -> None:
    tree = _gibbs(DS, left_out.strong)
    expected = _exact("worker", 1, left_out.strong)
    plain = estimate(tree, by="worker")
    found = loo(tree, by="worker", refit=True, progress=False)
    bad = plain.pareto_k.to_numpy() > plain.good_k
    assert found.refitted == plain.elpd_i.worker.to_numpy()[bad].tolist()
    assert (found.pareto_k.to_numpy()[bad] == 0).all()
    assert not found.warning
    np.testing.assert_allclose(found.elpd_i[bad], expected[bad], atol=0.05)
    error, before = (np.abs(result.elpd_i.to_numpy() - expected)[bad].max() for result in (found, plain))
    assert error < before
    # What was well estimated is as it was, and the sums follow.
    assert (found.elpd_i[~bad] == plain.elpd_i[~bad]).all()
    assert found.elpd == pytest.approx(float(found.elpd_i.sum()))
    assert found.p == pytest.approx(float(found.p_loo_i.sum()))
    np.testing.assert_allclose(found.p_loo_i + found.elpd_i, plain.p_loo_i + plain.elpd_i)
    assert np.isnan(found.log_weights.sel(worker=found.refitted)).all()
    assert f"{bad.sum()} exact refit" in str(found)


@pytest.mark.parametrize("by", ["item", "annotation"])
def test_refits_of_single_items_and_labels(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _gibbs()
    plain = estimate(tree, by=by)
    worst = int(plain.pareto_k.to_numpy().argmax())
    second = float(np.sort(plain.pareto_k)[-2])
    # All are well estimated here: call the worst one bad.
    monkeypatch.setattr("bayescrowd.criticism.loo._bad", lambda result: result.pareto_k.to_numpy() > second)
    found = estimate(tree, by=by, refit=True)
    assert len(found.refitted) == 1
    assert float(found.pareto_k[worst]) == 0.0
    assert float(found.elpd_i[worst]) == pytest.approx(_exact(by)[worst], abs=0.06)
    assert float(found.elpd_i[worst]) != float(plain.elpd_i[worst])


def test_refits_that_do_not_settle_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held = _refit.Held(np.array([-3.0]), np.array([4.0]), 8000, settled=False)
    monkeypatch.setattr(_refit.Refits, "without", lambda self, pieces, key: held)
    found = loo(_gibbs(DS, left_out.strong), by="worker", refit=True)
    text = " ".join(found.advice)
    assert "did not converge, without worker 'w" in text
    assert "rest on fewer than 25 effective draws" in text


def test_an_interrupt_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _gibbs(DS, left_out.strong)
    n_bad = int((estimate(tree, by="worker").pareto_k > 0.7).sum())
    asked = []

    def without(self: Any, pieces: np.ndarray, key: int) -> Any:
        asked.append(pieces.tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(_refit.Refits, "without", without)
    with pytest.warns(BayescrowdWarning, match="Pareto k is too high"):
        found = loo(tree, by="worker", refit=True)
    assert len(asked) == 1
    assert found.refitted == []
    assert found.advice[0] == f"Interrupted: {n_bad} workers were not refitted."


def test_same_seed_same_refits() -> None:
    labels = left_out.strong()
    tree = fitted.tree_of(labels, DS, running.run(labels, DS, "gibbs", draws=30, warmup=10, chains=2), "gibbs")
    tree.attrs["settings"] = json.dumps({"chains": 2, "warmup": 10, "draws": 30})
    first, again, other = (
        _refit.Refits(tree, "worker", seed).without(np.array([1]), 1).log_mean[0] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = running.Recorder()
    monkeypatch.setattr("bayescrowd.criticism.loo.reporter", lambda progress: recorder)
    held = _refit.Held(np.array([-3.0]), np.array([400.0]), 8000, settled=True)
    monkeypatch.setattr(_refit.Refits, "without", lambda self, pieces, key: held)
    found = estimate(_gibbs(DS, left_out.strong), by="worker", refit=True)
    assert [task for task, _ in recorder.tasks] == ["leaving out each worker", "fitting again"]
    assert recorder.tasks[1][1] == len(found.refitted)
    assert "without worker 'w" in recorder.updates[-1][1]


@pytest.mark.parametrize("engine", ["vb", "collapsed-vi"])
def test_approximations_are_weighted_towards_the_posterior(engine: str) -> None:
    tree = bc.fit(left_out.small(), DS, engine=engine, draws=4000).idata
    for by in ("item", "annotation"):
        expected = _exact(by).sum()
        found = estimate(tree, by=by)
        bare = az.loo(_with_likelihood(tree, by), pointwise=True, reff=1.0)
        assert found.approx_posterior
        assert abs(found.elpd - expected) < 0.5 * abs(bare.elpd - expected)
        assert abs(found.elpd - expected) < 0.15
        if found.warning:
            assert "fit with engine='gibbs'" in found.advice[0]
            assert "before anything is left out" in found.advice[0]


def _with_likelihood(tree: Any, by: str) -> Any:
    copy = tree.copy()
    copy["log_likelihood"] = log_likelihood(tree, by=by).to_dataset(name="labels")
    return copy


def test_density_of_the_approximation_with_betas() -> None:
    # The same posterior told by Dirichlet and by Beta tables; half of it is integrated numerically here.
    from scipy.stats import beta, dirichlet

    from bayescrowd.criticism.loo import _correction

    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.OneCoin(), chains=1, draws=30, independent=True)
    shapes = {"prevalence": np.array([3.0, 2.0]), "right_rate": np.array([[4.0, 1.0], [2.0, 5.0], [1.0, 1.0]])}
    tree = fitted.tree_of(labels, fitted.OneCoin(), run._replace(concentrations=shapes), "vb")
    log_p, log_q = _correction(tree, log_likelihood(tree).sum("item"))
    for draw in range(30):
        value = {name: site[0, draw] for name, site in run.draws.items()}
        expected = dirichlet.logpdf(value["prevalence"] / value["prevalence"].sum(), shapes["prevalence"])
        expected += beta.logpdf(value["right_rate"], *shapes["right_rate"].T).sum()
        assert float(log_q[0, draw]) == pytest.approx(expected, rel=1e-6)
        assert float(log_p[0, draw]) == pytest.approx(
            beta.logpdf(value["right_rate"], 4, 1).sum() + float(log_likelihood(tree)[0, draw].sum()), rel=1e-6
        )


@pytest.mark.parametrize("by", ["item", "worker"])
def test_approximations_are_evaluated_once(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from bayescrowd.criticism import loo as module

    tree = bc.fit(left_out.small(), DS, engine="collapsed-vi", draws=100).idata
    calls = []
    for name in ("log_prior", "log_likelihood", "total_log_likelihood"):
        whole = getattr(module, name)
        counted = lambda *given, name=name, whole=whole, **more: (calls.append(name), whole(*given, **more))[1]
        monkeypatch.setattr(module, name, counted)
    estimate(tree, by=by)
    assert sorted(calls) == ["log_likelihood", "log_prior", *(["total_log_likelihood"] if by == "worker" else [])]


def test_refusals() -> None:
    tree = _gibbs()
    unchecked = inspect.unwrap(loo)  # by the annotations, which users do not check
    with pytest.raises(LabelError, match="by must be"):
        loo(tree, by="row")
    with pytest.raises(LabelError, match="refit must be True or False"):
        unchecked(tree, refit="yes")
    with pytest.raises(LabelError, match="seed must be"):
        loo(tree, seed=-1)
    with pytest.raises(EngineError, match="progress must be"):
        unchecked(tree, progress="bar")
    with pytest.raises(EngineError, match=r"use fit.kfold\(\), or fit with engine='gibbs'"):
        fitted.em().loo()
    with pytest.raises(EngineError, match=r"use fit.kfold\(by='worker'\), or fit with engine='gibbs'"):
        fitted.em().loo(by="worker")
    with pytest.raises(ModelError, match="fit a model"):
        bc.baselines.majority_vote(fitted.d1()).loo()
    with pytest.raises(EngineError, match="one-coin left a point estimate: fit a model, bc.fit") as refused:
        bc.baselines.one_coin(fitted.d1()).loo()
    assert "kfold" not in str(refused.value)
    run = fitted.made_run(fitted.d1(), DS, chains=1, draws=30, independent=True)
    with pytest.raises(EngineError, match="'svi' does not keep the density"):
        loo(fitted.tree_of(fitted.d1(), DS, run, "svi"))
    bare = running.run(fitted.d1(), DS, "gibbs", draws=30, warmup=5, chains=2, keep=0)
    with pytest.raises(EngineError, match="fit again with keep=1000"):
        loo(fitted.tree_of(fitted.d1(), DS, bare, "gibbs"))
    with pytest.raises(EngineError, match="at least 25 draws, not 20"):
        loo(tree.isel(draw=slice(0, 5)))


def test_baselines_that_look_like_a_model_refuse_to_be_fitted_again() -> None:
    one_coin = bc.baselines.one_coin(fitted.d1())
    with pytest.raises((EngineError, ModelError)):
        one_coin.loo()
    with pytest.raises((EngineError, ModelError)):
        one_coin.kfold()


def test_a_fit_that_did_not_converge_says_so() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, DS, draws=100)
    tree = fitted.tree_of(labels, DS, run)
    tree.attrs["converged"] = "no"
    assert "did not converge" in estimate(tree, by="item").advice[0]


def test_one_worker_one_class_one_chain() -> None:
    labels = CrowdLabels.from_codes([0, 1, 2], [0, 0, 0], [0, 0, 0], classes=["only"])
    run = fitted.made_run(labels, bc.DawidSkene(), chains=1, draws=60, log_likelihood=None)
    tree = fitted.tree_of(labels, bc.DawidSkene(), run)
    for by in ("item", "annotation"):
        found = loo(tree, by=by)
        assert isinstance(found, Loo)
        np.testing.assert_allclose(found.elpd_i, 0.0, atol=1e-9)
        assert (found.pareto_k == 0).all()
    with pytest.raises(EngineError, match="there is but one worker with labels: without it nothing is left to fit"):
        loo(tree, by="worker")


def test_a_single_item() -> None:
    labels = CrowdLabels.from_codes([0, 0, 0], [0, 1, 2], [0, 0, 1], classes=["no", "yes"])
    tree = fitted.tree_of(labels, DS, fitted.made_run(labels, DS, draws=100, log_likelihood=None))
    with pytest.raises(EngineError, match="there is but one item with labels: without it nothing is left to fit"):
        estimate(tree, by="item")
    for by in ("annotation", "worker"):
        assert np.isfinite(estimate(tree, by=by).elpd)
    approximate = fitted.made_run(labels, DS, chains=1, draws=100, independent=True, log_likelihood=None)
    shapes = {"prevalence": np.ones(2), "confusion": np.full((3, 2, 2), 2.0)}
    tree = fitted.tree_of(labels, DS, approximate._replace(concentrations=shapes), "vb")
    assert np.isfinite(estimate(tree, by="annotation").elpd)


@pytest.mark.realdata
@pytest.mark.slow
def test_rte(real_data: Any) -> None:
    labels = real_data("rte")
    fit = bc.fit(labels, DS, engine="gibbs", seed=1, draws=500, chains=2)
    found = estimate(fit.idata, by="item")
    assert (found.pareto_k > found.good_k).mean() < 0.05
    # The same by fitting again without a fifth of the items, from which workers are known a little less well.
    again = fit.kfold(folds=5)
    assert found.elpd - 40 < again.elpd < found.elpd + 5


@pytest.mark.parametrize(
    ("by", "item", "worker", "message"),
    [
        ("worker", [0, 1, 2], [0, 0, 0], "but one worker with labels: without it nothing is left to fit"),
        ("item", [0, 0, 0], [0, 1, 2], "but one item with labels: without it nothing is left to fit"),
        ("annotation", [0], [0], "but one label: without it nothing is left to fit"),
    ],
)
def test_a_single_piece_is_refused_as_by_kfold(by: str, item: list[int], worker: list[int], message: str) -> None:
    labels = CrowdLabels.from_codes(item, worker, [0, 1, 1][: len(item)], classes=2)
    with pytest.raises(EngineError, match=message):
        loo(fitted.tree_of(labels, DS, fitted.made_run(labels, DS, chains=2, draws=30)), by=by)
    with pytest.raises(EngineError, match=message):
        kfold(fitted.tree_of(labels, DS, fitted.made_point(labels, DS)), by=by)
