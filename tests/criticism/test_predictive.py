"""Replications of the label table: their distribution against enumeration, what they keep, and ArviZ on them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from dataclasses import dataclass, field
from typing import Any

import fitted
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pandas as pd
import pytest
import xarray as xr
from numpyro import distributions as dist
from scipy.special import chdtrc

import bayescrowd as bc
from bayescrowd.criticism._replicator import Replicator
from bayescrowd.criticism.predictive import check_draws, posterior_predictive, replicate
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError, ModelError

MANY = 6000


def table(rows: str, *, labels: Any = ("a", "b", "c"), gold: dict[str, str] | None = None) -> CrowdLabels:
    """Rows such as "i1 w1 a"; classes a and b, and a further label c."""
    frame = pd.DataFrame([row.split() for row in rows.split(",")], columns=["item", "worker", "label"])
    frame["gold"] = frame["item"].map(gold or {})
    return CrowdLabels.from_long(
        frame, classes=["a", "b"], labels=list(labels), gold="gold" if gold else None, duplicates="keep"
    )


def small(**more: Any) -> CrowdLabels:
    return table("i1 w1 a, i1 w2 b, i1 w2 c, i2 w2 a", **more)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OfItems(fitted.OneCoin):
    """A coin per item instead of per worker, and shares of the classes that depend on the item."""

    name = "of-items"
    uses_item = True

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = dist.Dirichlet(jnp.ones(sizes.n_classes))
        with numpyro.plate("item", sizes.n_items):
            rate = numpyro.sample("item_rate", dist.Beta(4.0, 1.0))
            of_item = numpyro.sample("item_shares", shares, infer={"event_dims": ["class"]})
        return {"item_rate": rate, "item_shares": of_item}

    def log_response(self, parameters: Any, at: Any) -> Any:
        rate = parameters["item_rate"][at.item]
        return jnp.log(jnp.where(at.label == at.true_class, rate, (1 - rate) / (at.sizes.n_labels - 1)))

    def log_state(self, parameters: Any, at: Any) -> Any:
        return jnp.log(parameters["item_shares"])[at.item, at.true_class]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Misnamed(fitted.OneCoin):
    """A site called confusion that is not what labels are drawn from: half of all labels are uniform guesses."""

    n_levels: int = field(default=1, metadata={"static": True})

    name = "misnamed"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.ones(sizes.n_classes)))
        with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(jnp.ones(sizes.n_labels))
            confusion = numpyro.sample("confusion", rows, infer={"event_dims": ["label"]})
        return {"prevalence": prevalence, "confusion": confusion}

    def log_response(self, parameters: Any, at: Any) -> Any:
        known = parameters["confusion"][at.worker, at.true_class, at.label]
        return jnp.log(0.5 * known + 0.5 / at.sizes.n_labels)


def state_and_response(model: Any, points: dict[str, Any], labels: CrowdLabels) -> tuple[Any, Any]:
    """P(state of an item) and P(label of a row | state), by plain loops from the definitions of the models."""
    n_classes, n_labels = labels.n_classes, len(labels.label_values)

    def state(item: int, level: int, true_class: int) -> float:
        if model.name == "of-items":
            return float(points["item_shares"][item, true_class])
        share = float(points["difficulty_prevalence"][level]) if model.n_levels > 1 else 1.0
        return share * float(points["prevalence"][true_class])

    def response(item: int, worker: int, level: int, true_class: int, label: int) -> float:
        if model.name == "dawid-skene":
            return float(points["confusion"][worker, true_class, label])
        if model.name == "misnamed":
            return 0.5 * float(points["confusion"][worker, true_class, label]) + 0.5 / n_labels
        if model.name == "idbla":
            return float(points["confusion"][worker, level, true_class, label])
        if model.name == "levelled" and level == 1:
            return 1 / n_labels
        rate = float(points["item_rate"][item] if model.name == "of-items" else points["right_rate"][worker])
        return rate if label == true_class else (1 - rate) / (n_labels - 1)

    assert n_classes == 2
    return state, response


def exact(model: Any, points: dict[str, Any], labels: CrowdLabels) -> np.ndarray:
    """Probability of every pattern of labels of all rows, by enumeration of all states of all items."""
    state, response = state_and_response(model, points, labels)
    n_labels, n_rows = len(labels.label_values), labels.n_annotations
    states = list(itertools.product(range(model.n_levels), range(labels.n_classes)))
    out = np.zeros((n_labels,) * n_rows)
    for pattern in itertools.product(range(n_labels), repeat=n_rows):
        probability = 1.0
        for item in range(labels.n_items):
            known = int(labels.gold_code[item])
            allowed = [(h, c) for h, c in states if known in (-1, c)]
            total = sum(state(item, h, c) for h, c in allowed)
            of_item = 0.0
            for h, c in allowed:
                term = state(item, h, c) / total
                for row in np.flatnonzero(labels.item_code == item):
                    term *= response(item, int(labels.worker_code[row]), h, c, pattern[row])
                of_item += term
            probability *= of_item
        out[pattern] = probability
    return out.ravel()


def chi_square(count: np.ndarray, probability: np.ndarray) -> float:
    """P-value of a chi-square test; patterns that hardly ever occur are put together."""
    expected = count.sum() * probability
    rare = expected < 8
    seen, wanted = np.append(count[~rare], count[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    statistic = ((seen - wanted) ** 2 / np.maximum(wanted, 1e-9)).sum()
    return float(chdtrc(len(seen) - 1, statistic))


MODELS = [bc.DawidSkene(), bc.IDBLA(n_levels=2), fitted.OneCoin(), fitted.Levelled(), OfItems(), Misnamed()]


@pytest.mark.parametrize("gold", [None, {"i1": "b"}], ids=["free", "gold"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_labels_have_the_distribution_that_enumeration_gives(model: Any, gold: Any) -> None:
    labels = small(gold=gold)  # worker w2 labels i1 twice: two labels
    run = fitted.made_point(labels, model, seed=3)
    tree = fitted.tree_of(labels, model, run)
    found = replicate(tree, draws=MANY if model.name != "of-items" else 3000, seed=1)
    code = np.ravel_multi_index(tuple(found.label_code.T.astype(int)), (3,) * labels.n_annotations)
    count = np.bincount(code, minlength=3**labels.n_annotations)
    probability = exact(model, run.points, labels)
    assert probability.sum() == pytest.approx(1)
    assert chi_square(count, probability) > 1e-3
    # And the test can tell: the counts do not go with rows that have changed places.
    assert chi_square(count, probability.reshape((3,) * 4).transpose(3, 0, 1, 2).ravel()) < 1e-6


@pytest.mark.parametrize("model", MODELS[:4], ids=lambda model: model.name)
def test_states_follow_the_shares_and_gold(model: Any) -> None:
    labels = table("i0 w1 a, i1 w1 a, i2 w1 b, i3 w2 b", gold={"i0": "a", "i3": "b"})
    run = fitted.made_point(labels, model, seed=5)
    replicator = Replicator(model, labels)
    tables = next(replicator.tables({name: value[None] for name, value in run.points.items()}))
    random = np.random.default_rng(0)
    state = np.array([replicator.draw(tables, random)[1] for _ in range(6000)])
    true_class, level = state % 2, state // 2
    assert (true_class[:, 0] == 0).all()
    assert (true_class[:, 3] == 1).all()
    prevalence = np.asarray(run.points["prevalence"])
    assert true_class[:, 1:3].mean() == pytest.approx(prevalence[1], abs=0.02)
    if model.n_levels > 1:  # gold says nothing of the difficulty
        assert (level == 1).mean(axis=0) == pytest.approx(float(run.points["difficulty_prevalence"][1]), abs=0.03)


def telling(chains: int, draws: int) -> tuple[CrowdLabels, xr.DataTree]:
    """A result in which every label of a replication names the draw of its parameters."""
    labels = table("i1 w1 a, i1 w2 b, i2 w1 a", labels=["a", "b", *map(str, range(chains * draws))])
    run = fitted.made_run(labels, bc.DawidSkene(), chains=chains, draws=draws)
    confusion = np.zeros((chains, draws, 2, 2, chains * draws + 2))
    for chain, draw in np.ndindex(chains, draws):
        confusion[chain, draw, ..., 2 + chain * draws + draw] = 1
    return labels, fitted.tree_of(labels, bc.DawidSkene(), run._replace(draws=run.draws | {"confusion": confusion}))


@pytest.mark.parametrize(("wanted", "per_chain"), [(12, 6), (13, 6), (200, 20), (2, 1), (1, 1)])
def test_each_replication_belongs_to_its_draw(wanted: int, per_chain: int) -> None:
    _, tree = telling(2, 20)
    found = replicate(tree, draws=wanted, seed=0)
    n_chains = min(wanted, 2)
    assert found.label_code.shape == (n_chains * per_chain, 3)
    draws = found.draw.reshape(n_chains, per_chain)
    assert (draws == draws[0]).all()
    assert np.ptp(np.diff(draws[0])) <= 1 if per_chain > 2 else True  # evenly spaced
    named = found.label_code.astype(int) - 2
    assert (named == (found.chain * 20 + found.draw)[:, None]).all()
    assert found.basis == "posterior"


def test_predictive_group_has_the_coordinates_of_its_draws() -> None:
    labels, tree = telling(2, 20)
    before = tree.copy(deep=True)
    found = posterior_predictive(tree, draws=8, seed=3)
    codes = found["posterior_predictive"]["label_code"]
    assert codes.dims == ("chain", "draw", "annotation")
    assert codes.dtype.kind == "i"
    assert codes.attrs["label_values"] == [str(value) for value in labels.label_values]
    for chain, draw in itertools.product(codes["chain"].to_numpy(), codes["draw"].to_numpy()):
        assert (codes.sel(chain=chain, draw=draw) - 2 == chain * 20 + draw).all()
        assert float(found["posterior"]["confusion"].sel(chain=chain, draw=draw).max()) == 1
    observed = found["observed_data"].dataset
    assert list(observed.data_vars) == ["label_code"]
    assert (observed["label_code"].to_numpy() == labels.label_code).all()
    assert tree.identical(before)
    assert set(tree.children) | {"posterior_predictive"} == set(found.children)
    assert found.attrs == tree.attrs


@functools.cache
def sampled() -> bc.Fit:
    labels, model = fitted.anesthesia(), bc.DawidSkene()
    return bc.Fit(fitted.tree_of(labels, model, fitted.made_run(labels, model)))


@pytest.mark.parametrize("name", ["dist", "pit", "rootogram", "tstat", "interval"])
@pytest.mark.filterwarnings("ignore:.*look binary")
@pytest.mark.filterwarnings("ignore:Found chain dimension")  # arviz: few label values, taken for draws
def test_arviz_plots_run(name: str) -> None:
    import arviz_plots

    plot = getattr(arviz_plots, f"plot_ppc_{name}")
    options = {"dist": {"kind": "ecdf", "num_samples": 20}, "tstat": {"t_stat": "mean"}}.get(name, {})
    for tree in (sampled().idata, fitted.em().idata):
        assert plot(posterior_predictive(tree, draws=40), backend="none", **options) is not None


def test_predictive_group_survives_netcdf(tmp_path: Any) -> None:
    found = posterior_predictive(sampled().idata, draws=10)
    found.to_netcdf(tmp_path / "ppc.nc")
    with xr.open_datatree(tmp_path / "ppc.nc") as again:
        assert again["posterior_predictive"]["label_code"].equals(found["posterior_predictive"]["label_code"])


def test_point_estimates_give_a_parametric_bootstrap() -> None:
    found = replicate(fitted.em().idata, draws=30)
    assert found.basis == "estimate"
    assert "parametric bootstrap" in found.sentence
    assert found.label_code.shape == (30, 15)
    assert (found.chain == 0).all()
    assert found.draw.tolist() == list(range(30))


def test_approximations_say_so() -> None:
    found = replicate(bc.fit(fitted.d1(), engine="collapsed-vi").idata, draws=30)
    assert found.basis == "approximation"
    assert "collapsed-vi" in found.sentence


def test_no_kept_draws_is_a_point_estimate() -> None:
    fit = bc.fit(fitted.d1(), bc.DawidSkene(), engine="collapsed-gibbs", chains=2, warmup=20, draws=20, keep=0)
    assert replicate(fit.idata, draws=25).label_code.shape == (25, 15)
    assert posterior_predictive(fit.idata, draws=25)["posterior_predictive"].sizes["draw"] == 25


def test_seed_decides() -> None:
    tree = sampled().idata
    one, same, other = (replicate(tree, draws=10, seed=seed).label_code for seed in (4, 4, 5))
    assert (one == same).all()
    assert (one != other).any()


def test_rows_stay_rows_whatever_their_weight() -> None:
    plain = fitted.d1()
    weighted = dataclasses.replace(plain, weight=np.linspace(0.5, 3, plain.n_annotations))
    run = fitted.made_point(plain, bc.DawidSkene())
    pair = [replicate(fitted.tree_of(labels, bc.DawidSkene(), run), draws=10) for labels in (plain, weighted)]
    assert (pair[0].label_code == pair[1].label_code).all()


def test_codes_fit_into_their_type() -> None:
    values = ["a", "b", *(f"l{number:03d}" for number in range(198))]
    labels = table("i1 w1 a, i1 w2 b", labels=values)
    run = fitted.made_point(labels, bc.DawidSkene())
    found = replicate(fitted.tree_of(labels, bc.DawidSkene(), run), draws=400)
    assert found.label_code.dtype == np.int16
    assert found.label_code.min() >= 0
    assert 127 < found.label_code.max() < 200


def test_a_gold_class_that_the_estimate_rules_out() -> None:
    labels = small(gold={"i1": "b"})
    run = fitted.made_point(labels, bc.DawidSkene())
    confusion = np.broadcast_to([[1.0, 0, 0], [0, 0, 1.0]], (2, 2, 3))
    run = run._replace(points={"prevalence": np.array([1.0, 0.0]), "confusion": confusion})
    found = replicate(fitted.tree_of(labels, bc.DawidSkene(), run), draws=20).label_code
    assert (found == np.array([2, 2, 2, 0])).all()


def test_parameters_that_are_no_numbers() -> None:
    labels = small()
    run = fitted.made_point(labels, bc.DawidSkene())
    broken = run._replace(points=run.points | {"confusion": np.full((2, 2, 3), np.nan)})
    with pytest.raises(ModelError, match="not finite"):
        replicate(fitted.tree_of(labels, bc.DawidSkene(), broken))


@pytest.mark.parametrize("draws", [0, -1, True, 2.5, "many"])
def test_numbers_of_draws_that_are_none(draws: Any) -> None:
    with pytest.raises(LabelError, match="draws must be a whole number"):
        check_draws(draws)
    with pytest.raises(LabelError, match="draws must be a whole number"):
        fitted.em().posterior_predictive(draws=0)


def test_majority_vote_has_no_model() -> None:
    with pytest.raises(ModelError, match="without a probability model"):
        posterior_predictive(bc.baselines.majority_vote(fitted.d1()).idata)


def test_through_fit() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sampled().posterior_predictive(draws=10, seed=2)
    assert found["posterior_predictive"].sizes == {"chain": 2, "draw": 5, "annotation": 315}
