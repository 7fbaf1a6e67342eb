"""Prior predictive checks: expectations in closed form, uniform p-values, any model, plain refusals."""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any

import fitted
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pandas as pd
import pytest
from numpyro import distributions as dist

import bayescrowd as bc
from bayescrowd.criticism.prior_predictive import prior_predictive
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError, ModelError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nested(fitted.OneCoin):
    """Betas whose concentration is itself drawn: what the prior of one site is depends on another."""

    name = "nested"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.ones(sizes.n_classes)))
        skill = numpyro.sample("common_skill", dist.Gamma(400.0, 20.0))  # about 20
        with numpyro.plate("worker", sizes.n_workers):
            accuracy = numpyro.sample("right_rate", dist.Beta(skill, 1.0))
        return {"prevalence": prevalence, "common_skill": skill, "right_rate": accuracy}


def panel(n_items: int = 30, n_workers: int = 4, *, seed: int = 0, right: float = 0.8) -> CrowdLabels:
    random = np.random.default_rng(seed)
    z = random.integers(0, 2, n_items)
    answers = np.where(random.random((n_items, n_workers)) < right, z[:, None], 1 - z[:, None])
    return CrowdLabels.from_wide(answers, items="rows")


@functools.cache
def of_panel() -> Any:
    return prior_predictive(panel(), bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), draws=2000)


def test_expectations_are_those_of_the_prior() -> None:
    checks = of_panel()
    # E[confusion] is .75 on the diagonal, workers are independent given the class, and classes are even.
    np.testing.assert_allclose(checks["agreement"].table["expected"], 0.75**2 + 0.25**2, atol=0.02)
    np.testing.assert_allclose(checks["shares"].table["expected"], 0.5, atol=0.02)
    # P(all four agree) = sum over labels of E[p^4 ...]: given the class labels of workers are independent with mean.
    unanimous = checks["splits"].table.set_index("split").loc["4-0", "expected"] / 30
    assert unanimous == pytest.approx(0.75**4 + 0.25**4, abs=0.02)


def test_shares_of_one_worker_have_the_law_of_the_prior() -> None:
    """With gold a worker's labels on class a are Beta-binomial."""
    labels = panel(20, 2)
    labels = dataclasses.replace(labels, gold_code=np.zeros(20, np.int32))
    checks = prior_predictive(labels, bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), draws=4000, seed=2)
    row = checks["shares"].table.iloc[0]
    share = np.random.default_rng(0).binomial(20, np.random.default_rng(1).beta(3, 1, 200_000)) / 20
    assert row["expected"] == pytest.approx(0.75, abs=0.02)
    assert row["lower"] == pytest.approx(np.quantile(share, 0.025), abs=0.051)
    assert row["upper"] == pytest.approx(1)


@pytest.mark.parametrize("name", ["agreement", "splits", "shares"])
def test_p_values_are_uniform_on_labels_of_the_prior(name: str) -> None:
    assert np.mean(p_values()[name] < 0.1) == pytest.approx(0.1, abs=0.08)
    assert np.mean(p_values()[name]) == pytest.approx(0.5, abs=0.09)


@functools.cache
def p_values() -> pd.DataFrame:
    """P-values of labels that plain NumPy draws from the prior of Dawid-Skene's defaults."""
    found = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        true_class = (random.random(25) < random.beta(1, 1)).astype(int)
        right = random.beta(1.5, 0.5, (4, 2))  # by worker and class
        hit = random.random((25, 4)) < right[np.arange(4), true_class[:, None]]
        labels = CrowdLabels.from_codes(
            np.repeat(np.arange(25), 4),
            np.tile(np.arange(4), 25),
            np.where(hit, true_class[:, None], 1 - true_class[:, None]).ravel(),
            classes=["a", "b"],
        )
        checks = prior_predictive(labels, bc.DawidSkene(), draws=99, seed=seed + 1000)
        found.append({name: check.p_value for name, check in checks.items()})
    return pd.DataFrame(found)


def test_inside_and_outside() -> None:
    good = panel(right=0.95)
    inside = prior_predictive(good, bc.DawidSkene(confusion_prior=bc.diagonal(8, 1)))
    sentence = inside["agreement"].sentence
    assert re.search(r"a priori 95 % of pairs of workers would agree on \d+ to \d+ % of their common items", sentence)
    assert ": inside (prior predictive p = " in sentence
    assert "->" not in sentence
    outside = prior_predictive(good, bc.DawidSkene(confusion_prior=bc.diagonal(500, 500)))
    assert ": outside (prior predictive p = 0.005)" in outside["agreement"].sentence
    assert "-> the prior expects other workers" in outside["agreement"].sentence
    assert ": outside" in outside["splits"].sentence
    assert "all labels of an item would agree on" in outside["splits"].sentence
    shares = prior_predictive(
        good, bc.DawidSkene(prevalence_prior=np.array([1.0, 5000.0]), confusion_prior=bc.diagonal(900, 1))
    )["shares"].sentence
    assert ": outside" in shares
    assert "prevalence_prior" in shares


def test_headline_and_notes() -> None:
    checks = prior_predictive(fitted.anesthesia(), "dawid-skene", draws=50)
    assert str(checks).startswith(
        "Prior predictive checks of dawid-skene: 50 replications of 315 labels; parameters are draws from the prior."
    )
    assert str(checks).count("\n") == 3
    assert np.isnan(checks["splits"].ppp)
    assert checks["agreement"].replicated.shape == (50,)
    assert checks._repr_html_()


@pytest.mark.parametrize("model", ["idbla", bc.FixedIDBLA, bc.IDBLA(n_levels=2)], ids=str)
def test_model_by_name_class_or_instance(model: Any) -> None:
    assert list(prior_predictive(fitted.d1(), model, draws=20)) == ["agreement", "splits", "shares"]


@pytest.mark.parametrize("model", [fitted.OneCoin(right=20.0), fitted.Skilled(), Nested()], ids=lambda m: m.name)
def test_models_of_the_user(model: Any) -> None:
    checks = prior_predictive(panel(40, 5), model, draws=300, seed=1)
    mean = {"one-coin": 20 / 21, "nested": 20 / 21}.get(model.name)
    random = np.random.default_rng(0)
    if mean is None:
        common = random.normal(1, 1, 100_000)
        pair = 1 / (1 + np.exp(-random.normal(common, 0.1, (2, 100_000))))
        expected = (pair.prod(axis=0) + (1 - pair).prod(axis=0)).mean()
    else:
        expected = mean**2 + (1 - mean) ** 2
    assert checks["agreement"].table["expected"].mean() == pytest.approx(expected, abs=0.03)


def test_levels_of_difficulty_are_drawn() -> None:
    checks = prior_predictive(panel(200, 2), fitted.Levelled(right=1e6), draws=400)
    # Right on easy items, guesses on hard ones; half of the items are easy on average.
    assert checks["agreement"].table["expected"][0] == pytest.approx(0.75, abs=0.03)


def test_same_seed_same_numbers() -> None:
    for model in (bc.DawidSkene(), fitted.Skilled()):
        one, same, other = (prior_predictive(fitted.d1(), model, draws=20, seed=seed) for seed in (1, 1, 2))
        assert one["shares"].table.equals(same["shares"].table)
        assert not one["shares"].table.equals(other["shares"].table)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("dawid", "there is no model 'dawid'; did you mean 'dawid-skene'. The models are 'dawid-skene'"),
        (3, "model must be a model, its class or its name"),
        (None, "model must be a model, its class or its name"),
        (bc.DawidSkene(confusion_prior=-1.0), "must be positive"),
        (bc.DawidSkene(prevalence_prior=np.ones(5)), "does not broadcast"),
    ],
)
def test_models_that_are_none(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        bc.prior_predictive(fitted.d1(), model)


def test_labels_that_are_none() -> None:
    with pytest.raises(LabelError, match="prior_predictive takes a CrowdLabels, not a DataFrame"):
        bc.prior_predictive(fitted.frame(), "dawid-skene")
    empty = CrowdLabels.from_codes([], [], [], classes=["a", "b"])
    with pytest.raises(LabelError, match="the table has no rows"):
        bc.prior_predictive(empty, "dawid-skene")
    with pytest.raises(LabelError, match="at least 20"):
        bc.prior_predictive(fitted.d1(), "dawid-skene", draws=5)
    with pytest.raises(LabelError, match="seed must be"):
        bc.prior_predictive(fitted.d1(), "dawid-skene", seed=-1)
