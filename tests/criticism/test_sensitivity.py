"""Power-scaling against posteriors that are known: Beta distributions, and sums over every assignment of classes."""

from __future__ import annotations

import functools

import arviz_stats
import numpy as np
import oracle
import pandas as pd
import pytest
import xarray as xr
from fitted import D1, OneCoin, Skilled, anesthesia, em, frame, made_point, made_run, nuts, r31, tree_of
from left_out import Parity
from scipy import stats

import bayescrowd as bc
from bayescrowd.criticism import _power_scaling, likelihood
from bayescrowd.criticism._power_scaling import Scaling, components
from bayescrowd.criticism.likelihood import log_likelihood, log_prior
from bayescrowd.criticism.sensitivity import CONFLICT, PRIOR_DRIVEN, _row, sensitivity
from bayescrowd.errors import EngineError, LabelError, ModelError
from bayescrowd.kernels.precision import double_precision

RIGHT = (0.8, 0.7)


def all_gold(n_workers=3, n_items=60, *, prior=(2.0, 1.0), right=RIGHT, chains=4, draws=2000, seed=0):
    """Every class is gold, so that prevalence and rows have Dirichlet posteriors: exact draws, and their parameters."""
    random = np.random.default_rng(seed)
    truth = np.arange(n_items) % 2
    chance = np.asarray(right)[truth][:, None]
    said = np.where(random.random((n_items, n_workers)) < chance, truth[:, None], 1 - truth[:, None])
    rows = [(i, k, int(said[i, k])) for i in range(n_items) for k in range(n_workers)]
    labels = bc.CrowdLabels.from_long(
        pd.DataFrame(rows, columns=["item", "worker", "label"]), classes=[0, 1], gold=dict(enumerate(truth.tolist()))
    )
    model = bc.DawidSkene(prevalence_prior=3.0, confusion_prior=bc.diagonal(*prior))
    counts = np.zeros((n_workers, 2, 2))
    np.add.at(counts, (np.tile(np.arange(n_workers), n_items), np.repeat(truth, n_workers), said.reshape(-1)), 1)
    of_class = np.bincount(truth, minlength=2).astype(float)
    concentration = np.array([[prior[0], prior[1]], [prior[1], prior[0]]])
    gamma = lambda alpha: random.standard_gamma(alpha, (chains, draws, *np.shape(alpha)))
    normal = lambda value: value / value.sum(axis=-1, keepdims=True)
    drawn = {"prevalence": normal(gamma(3 + of_class)), "confusion": normal(gamma(concentration + counts))}
    run = made_run(labels, model, chains=chains, draws=draws)._replace(draws=drawn, log_likelihood=None)
    return tree_of(labels, model, run), counts, of_class, concentration


def distance(value, before, after):
    """Cumulative Jensen-Shannon distance of two distributions over the range of the draws, by quadrature."""
    grid = np.linspace(value.min(), value.max(), 20_001)
    found = []
    for sign in (1, -1):
        p, q = (law.cdf(grid) if sign == 1 else law.sf(grid) for law in (before, after))
        p, q = np.clip(p, 1e-300, 1), np.clip(q, 1e-300, 1)
        middle = np.log2((p + q) / 2)
        area = [np.trapezoid(part, grid) for part in (p, q)]
        parts = [
            np.trapezoid(one * (np.log2(one) - middle), grid) + 0.5 / np.log(2) * (area[1 - i] - area[i])
            for i, one in enumerate((p, q))
        ]
        found.append(np.sqrt(max(sum(max(part, 0) for part in parts), 0) / sum(area)))
    return max(found)


def exact(value, scaled):
    """Sensitivity of a quantity with law ``scaled(alpha)``."""
    parts = [distance(value, scaled(1.0), scaled(alpha)) / abs(np.log2(alpha)) for alpha in (0.99, 1.01)]
    return sum(parts) / 2


def test_sensitivity_equals_that_of_posteriors_known_exactly():
    tree, counts, of_class, prior = all_gold()
    table = sensitivity(tree, quantities=["prevalence", "confusion"])
    share = tree["posterior"]["prevalence"].to_numpy()[..., 0]
    of = lambda alpha: stats.beta(*(1 + alpha * 2 + of_class))
    assert table.at["prevalence[0]", "prior"] == pytest.approx(exact(share, of), abs=0.008)
    of = lambda alpha: stats.beta(*(3 + alpha * of_class))
    assert table.at["prevalence[0]", "likelihood"] == pytest.approx(exact(share, of), abs=0.015)
    for worker in range(3):
        for code in range(2):
            name = f"confusion[{worker}, {code}, 0]"
            value = tree["posterior"]["confusion"].to_numpy()[:, :, worker, code, 0]
            c, n = prior[code], counts[worker, code]
            of = lambda alpha, c=c, n=n: stats.beta(*(1 + alpha * (c - 1) + n))
            assert table.at[name, "prior"] == pytest.approx(exact(value, of), abs=0.008)
            of = lambda alpha, c=c, n=n: stats.beta(*(c + alpha * n))
            assert table.at[name, "likelihood"] == pytest.approx(exact(value, of), abs=0.015)
            assert table.at[name, "prior_prevalence"] < 0.005
            assert table.at[name, "prior_confusion"] == pytest.approx(table.at[name, "prior"], abs=0.005)
    assert table.at["prevalence[0]", "prior_confusion"] < 0.005


def test_hundreds_of_rows_do_not_drown_what_is_there():
    """With 150 workers the plain diagnostic sees sensitivities of prevalence that are noise."""
    tree, _, of_class, _ = all_gold(150, 40, prior=(1.5, 0.5), draws=500)
    share = tree["posterior"]["prevalence"].to_numpy()[..., 0]
    truth = exact(share, lambda alpha: stats.beta(*(1 + alpha * 2 + of_class)))
    found = components(tree, np.random.default_rng(0))
    plain = Scaling.of(log_prior(tree).to_numpy()).sensitivity(share)
    mine = Scaling.of(found.log_prior(found.groups(("prevalence",)))).sensitivity(share)
    assert abs(mine - truth) < 0.01
    assert Scaling.of(found.log_prior(found.groups(("prevalence",), -1))).noise(share, np.random.default_rng(1)) < 0.02
    assert Scaling.of(log_prior(tree).to_numpy()).noise(share, np.random.default_rng(1)) > 0.05
    assert abs(plain - truth) > abs(mine - truth)
    likelihood = found.log_likelihood(found.groups(("prevalence",)))
    assert likelihood.std() < 0.2 * log_likelihood(tree).sum("item").to_numpy().std()


def test_without_anything_taken_off_it_is_arvizs_own_number():
    tree = nuts().idata
    posterior = tree["posterior"].dataset
    value = (posterior["prevalence"].isel({"class": 0}) ** 2).drop_vars("class").rename("square")
    table = sensitivity(tree, quantities={"square": value})
    given = xr.DataTree.from_dict(
        {
            "posterior": value.to_dataset(),
            "log_prior": log_prior(tree).to_dataset(name="all"),
            "log_likelihood": log_likelihood(tree).to_dataset(name="labels"),
        }
    )
    for group in ("prior", "likelihood"):
        wanted = float(arviz_stats.psense(given, group=group)["square"])
        assert table.at["square", group] == pytest.approx(wanted, rel=1e-6)


def test_control_variates_have_mean_zero_and_keep_the_sum():
    tree = nuts().idata
    found = components(tree, np.random.default_rng(0))
    for excess in (found.prior_excess, found.likelihood_excess):
        error = excess.std(axis=0) / np.sqrt(len(excess) / 4)
        assert (np.abs(excess.mean(axis=0)) < 4 * error + 1e-12).all()
    every = found.groups(None)
    difference = found.log_prior(every) - log_prior(tree).to_numpy()
    assert np.ptp(difference) < 1e-6  # constants of the densities
    np.testing.assert_allclose(found.log_likelihood(every), log_likelihood(tree).sum("item"), rtol=1e-9)


def test_slopes_are_those_of_sums_over_every_assignment():
    """Cov(g, log prior) is the slope of the posterior mean along the log of the power: both known for five items."""
    tree = nuts().idata
    data = oracle.of_labels(bc.CrowdLabels.from_long(frame(D1)))
    step, base = 1e-4, oracle.diagonal(2, 2, 3, 1)

    def scaled(alpha):
        return oracle.posterior(data, prevalence=1.0, confusion=1 + alpha * (base - 1))

    low, high = scaled(1 - step), scaled(1 + step)
    found = components(tree, np.random.default_rng(0))
    posterior = tree["posterior"].dataset
    share = posterior["prevalence"].to_numpy()
    accuracy = np.einsum("adc,adkcc->adk", share, posterior["confusion"].to_numpy())

    def slope(value, read):
        return np.cov(value.reshape(-1), found.log_prior(read).reshape(-1))[0, 1]

    wanted = (high.prevalence - low.prevalence) / (2 * step)
    assert slope(share[..., 0], found.groups(("prevalence",))) == pytest.approx(wanted[0], abs=0.02)
    wanted = (high.accuracy - low.accuracy) / (2 * step)
    for worker in range(3):
        mine = slope(accuracy[..., worker], found.groups(None, worker))
        assert mine == pytest.approx(wanted[worker], abs=0.02)
        plain = slope(accuracy[..., worker], found.groups(None))
        assert mine == pytest.approx(plain, abs=0.06)


def test_a_strong_prior_against_the_labels_is_a_conflict():
    tree, *_ = all_gold(2, 40, prior=(950.0, 50.0), right=(0.5, 0.5))
    table = sensitivity(tree)
    assert (table.loc[["accuracy[0]", "accuracy[1]"], "diagnosis"] == CONFLICT).all()
    assert table["diagnosis"].eq(PRIOR_DRIVEN).sum() == 0
    assert table.loc[["accuracy[0]", "accuracy[1]"], "remedy"].str.contains("the prior of confusion").all()


def test_a_strong_prior_and_hardly_any_labels():
    tree, *_ = all_gold(2, 2, prior=(60.0, 20.0), right=(1.0, 1.0))
    table = sensitivity(tree)
    assert table.at["accuracy[0]", "diagnosis"] == PRIOR_DRIVEN
    assert "more labels, or gold" in table.at["accuracy[0]", "remedy"]


def test_many_labels_and_a_weak_prior():
    tree, *_ = all_gold(3, 2000, prior=(1.5, 0.5), draws=500)
    table = sensitivity(tree)
    assert (table["diagnosis"] == "-").all()
    assert (table["remedy"] == "").all()
    assert (table["likelihood"] > 0.05).all()
    assert (table["prior"] < 0.05).all()
    assert table.attrs["workers"] == 'all 3; quantities="accuracy" gives every worker'
    assert table.attrs["draws"] == "4 chains of 500 draws"


def test_a_flat_prior_does_not_move():
    labels = anesthesia()
    model = bc.DawidSkene(confusion_prior=1.0, prevalence_prior=1.0)
    tree = tree_of(labels, model, made_run(labels, model, draws=60)._replace(log_likelihood=None))
    table = sensitivity(tree, quantities="prevalence")
    assert (table[["prior", "prior_prevalence", "prior_confusion"]] == 0).all(axis=None)
    assert (table["diagnosis"] == "-").all()


def test_what_noise_might_explain_is_called_unclear():
    """Where nothing can be taken off and draws are few, the scatter of the prior alone moves everything."""
    random = np.random.default_rng(3)
    draws = lambda: random.standard_normal((4, 50))
    called = []
    for _ in range(20):
        value, prior = draws(), Scaling.of(40 * draws())
        row = _row(value, {"prior": prior, "likelihood": Scaling.of(draws()), "prior_x": prior}, 0.05, random)
        assert row["prior_noise"] > 0.05
        assert (row["diagnosis"] == "unclear") == (0.05 <= row["prior"] <= row["prior_noise"])
        called.append(row["diagnosis"])
    assert called.count("unclear") >= 14
    value = draws()
    prior = Scaling.of(40 * value + draws())  # and what is there is seen all the same
    row = _row(value, {"prior": prior, "likelihood": Scaling.of(draws()), "prior_x": prior}, 0.05, random)
    assert row["diagnosis"] in (CONFLICT, PRIOR_DRIVEN)
    assert row["prior"] > 2 * row["prior_noise"]


def test_a_constant_quantity_is_called_constant():
    tree, *_ = all_gold(2, 20, draws=100)
    one = xr.ones_like(tree["posterior"]["prevalence"].isel({"class": 0}, drop=True))
    table = sensitivity(tree, quantities={"one": one})
    assert table.at["one", "diagnosis"] == "constant"
    assert np.isnan(table.at["one", "prior"])


@functools.cache
def tree_of_model(name):
    labels = bc.CrowdLabels.from_long(frame())
    model = {"coin": OneCoin(), "skilled": Skilled(), "idbla": bc.IDBLA(n_levels=2), "fixed": bc.FixedIDBLA()}[name]
    return tree_of(labels, model, made_run(labels, model, draws=60)._replace(log_likelihood=None))


@pytest.mark.parametrize("name", ["coin", "skilled"])
def test_models_without_routes(name):
    tree = tree_of_model(name)
    found = components(tree, np.random.default_rng(0))
    assert found.prior_excess is None
    table = sensitivity(tree)
    if name == "coin":
        assert found.sites == ("prevalence", "right_rate")
        np.testing.assert_allclose(found.log_prior(found.groups(None)), log_prior(tree), rtol=1e-9)
        assert table.index.tolist() == ["prevalence[no]", "prevalence[yes]", *(f"accuracy[w{k}]" for k in (1, 2, 3))]
    else:
        # What hangs on the common skill is no prior of its own.
        assert found.sites == ("prevalence", "common_skill")
        common = tree["posterior"]["common_skill"].to_numpy()
        mine = found.log_prior(found.groups(None), "common_skill")
        np.testing.assert_allclose(mine, stats.norm(1, 1).logpdf(common), rtol=1e-6)
        assert "common_skill" in table.index
        assert "prior_skill" not in table


@pytest.mark.parametrize("name", ["idbla", "fixed"])
def test_models_with_levels(name):
    tree = tree_of_model(name)
    table = sensitivity(tree)
    site = {"idbla": "confusion", "fixed": "free_confusion"}[name]
    assert {"prior_prevalence", "prior_difficulty_prevalence", f"prior_{site}"} <= set(table)
    assert {f"difficulty_prevalence[{level}]" for level in tree["posterior"]["difficulty"].to_numpy()} <= set(
        table.index
    )
    found = components(tree, np.random.default_rng(0))
    with double_precision():
        assert np.ptp(found.log_prior(found.groups(None)) - log_prior(tree).to_numpy()) < 1e-6
    posterior = tree["posterior"].dataset
    share, levels = posterior["prevalence"].to_numpy(), posterior["difficulty_prevalence"].to_numpy()
    accuracy = np.einsum("adc,adh,adkhcc->adk", share, levels, posterior["confusion"].to_numpy())
    own = sensitivity(tree, quantities={"w2": xr.DataArray(accuracy[..., 1], dims=("chain", "draw"))})
    assert own.at["w2", "likelihood"] > 0  # the same number, with nothing taken off
    everything = Scaling.of(found.log_prior(found.groups(None))).sensitivity(accuracy[..., 1])
    assert own.at["w2", "prior"] == pytest.approx(everything, rel=1e-9)


def test_only_the_workers_with_most_labels_by_default():
    rows = [(i, f"w{k:02d}", i % 2) for k in range(30) for i in range(4 + k)]
    labels = bc.CrowdLabels.from_long(pd.DataFrame(rows, columns=["item", "worker", "label"]))
    model = bc.DawidSkene()
    tree = tree_of(labels, model, made_run(labels, model, draws=60)._replace(log_likelihood=None))
    table = sensitivity(tree)
    assert table.index[2:].tolist() == [f"accuracy[w{k:02d}]" for k in range(10, 30)]
    assert "the 20 of 30 with most labels" in table.attrs["workers"]
    assert len(sensitivity(tree, quantities="accuracy")) == 30
    assert len(sensitivity(tree, quantities=["prevalence", "confusion"])) == 2 + 30 * 4


def test_fewer_draws_where_all_would_take_long(monkeypatch):
    tree, *_ = all_gold(2, 30, draws=1000)
    whole = sensitivity(tree, quantities="prevalence")
    monkeypatch.setattr(_power_scaling, "_MOST_WORK", 4 * 1000 * 60 * 2 // 3)
    part = sensitivity(tree, quantities="prevalence")
    assert part.attrs["draws"] == "4 chains of 334 draws, evenly spaced among 1,000"
    assert part["likelihood"].to_numpy() == pytest.approx(whole["likelihood"].to_numpy(), abs=0.04)


def test_large_tables_need_no_table_of_draws_and_items(monkeypatch):
    tree, *_ = all_gold(2, 30, draws=300)
    whole = sensitivity(tree)
    monkeypatch.setattr(likelihood, "MAX_BYTES", 1)
    with pytest.raises(EngineError, match="fit again with fewer draws"):
        log_likelihood(tree)
    pd.testing.assert_frame_equal(sensitivity(tree), whole)


def test_a_response_that_depends_on_the_item():
    labels = bc.CrowdLabels.from_long(frame())
    tree = tree_of(labels, Parity(), made_run(labels, Parity(), draws=60)._replace(log_likelihood=None))
    assert np.isfinite(sensitivity(tree)[["prior", "likelihood"]]).all(axis=None)


def test_same_seed_same_numbers():
    tree = nuts().idata
    pd.testing.assert_frame_equal(sensitivity(tree), sensitivity(tree))
    assert sensitivity(tree, seed=1).index.equals(sensitivity(tree).index)


def test_results_without_markov_chains_are_refused_in_words():
    labels = bc.CrowdLabels.from_long(frame())
    with pytest.raises(EngineError, match="engine 'em' left a point estimate: fit with engine="):
        sensitivity(em().idata)
    with pytest.raises(EngineError, match="collapsed-vi gives draws from an approximation"):
        sensitivity(bc.fit(labels, r31(), engine="collapsed-vi", draws=200).idata)
    kept = bc.fit(labels, r31(), engine="gibbs", warmup=20, draws=20, chains=2, keep=0, progress=False)
    with pytest.raises(EngineError, match="none were kept"):
        sensitivity(kept.idata)
    with pytest.raises(ModelError, match="without a probability model"):
        sensitivity(bc.baselines.majority_vote(labels).idata)
    model = r31()
    with pytest.raises(EngineError, match="80 draws are too few"):
        sensitivity(tree_of(labels, model, made_run(labels, model)))
    run = made_run(labels, model, draws=60)
    run.draws["prevalence"][0, 3, 0] = np.nan
    with pytest.raises(EngineError, match="'prevalence' are not finite"):
        sensitivity(tree_of(labels, model, run))
    with pytest.raises(EngineError):
        sensitivity(tree_of(labels, model, made_point(labels, model)))


def test_arguments_that_cannot_be_used():
    tree = nuts().idata
    with pytest.raises(LabelError, match="threshold must be a positive number"):
        sensitivity(tree, threshold=0.0)
    with pytest.raises(LabelError, match=r"no quantities 'nonsense'; this result has .*'prevalence', 'accuracy'"):
        sensitivity(tree, quantities=["prevalence", "nonsense"])
    wrong = xr.DataArray(np.zeros((2, 3)), dims=("chain", "draw"))
    with pytest.raises(LabelError, match="2 problems"):
        sensitivity(tree, quantities={"a": wrong, "b": wrong})
    with pytest.raises(LabelError, match="seed"):
        sensitivity(tree, seed=-1)


@pytest.mark.realdata
@pytest.mark.slow
def test_workers_of_dog_with_few_labels_hang_on_the_prior(real_data):
    labels = real_data("dog")
    fit = bc.fit(labels, bc.DawidSkene(), engine="gibbs", progress=False)
    table = sensitivity(fit.idata, quantities=["prevalence", "accuracy"])
    n_labels = pd.Series(np.bincount(labels.worker_code), index=[f"accuracy[{worker}]" for worker in labels.workers])
    few, many = n_labels.index[n_labels <= 3], n_labels.index[n_labels > 100]
    assert table.loc[few, "diagnosis"].isin([CONFLICT, PRIOR_DRIVEN]).all()
    assert (table.loc[few, "diagnosis"] == PRIOR_DRIVEN).sum() >= 5
    assert table.loc[few, "prior"].median() > 2 * table.loc[many, "prior"].median()
    assert (table.filter(like="prevalence", axis=0)["prior"] < 0.06).all()
