"""Every model by every engine that takes it, against exact answers where there are any."""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import oracle
import pytest
import running
from arviz_stats.base import array_stats
from conformance import checks, exact, toys
from conformance.cases import CASES, PLAIN, golden, model_id
from conformance.toys import TOYS, Ability, Ease, FixedLevels, Groups, Guessing, Subtypes, TwoLevels
from numpyro import distributions as dist

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import conditional
from bayescrowd.model import Route

_KINDS = ("subtypes", "guessing", "ability")
"""One toy of a kind: states drawn together, several ways to a label, no ways at all."""

one_of_each = pytest.mark.parametrize("model", PLAIN + [toy for toy in TOYS if toy.name in _KINDS], ids=model_id)
some_models = pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            model, id=model_id(model), marks=() if model in PLAIN or model.name == "ability" else pytest.mark.slow
        )
        for model in [*PLAIN, *(toy for toy in TOYS if toy.name not in ("two-levels", "groups"))]
    ],
)


def with_mode(model):
    """The same model with priors whose density has a mode inside the simplexes."""
    fields = {"prevalence_prior": 1.5}
    if hasattr(model, "confusion_prior"):
        fields["confusion_prior"] = bc.diagonal(3, 1.3)
    if hasattr(model, "difficulty_prior"):
        fields["difficulty_prior"] = 2.0
    return type(model)(**fields)


def crowd(model=None, seed=0):
    model = model or bc.DawidSkene(confusion_prior=bc.diagonal(6, 1))
    return bc.simulate(model, n_items=25, n_workers=4, classes=2, labels_per_item=(2, 4), seed=seed).labels


@some_models
def test_em_climbs_to_a_point_where_the_slope_is_zero(model):
    chosen = with_mode(model)
    by_state = np.random.default_rng(0).dirichlet(np.ones(2 * chosen.n_levels), 25)
    start = by_state if chosen.n_levels > 1 else "majority"
    labels = crowd()
    options = {"tolerance": 1e-13, "change_tolerance": 1e-7, "max_iter": 20_000}
    run = running.run(labels, chosen, "em", objective="posterior", init=start, **options)
    assert run.status.code == "converged"
    assert np.diff(run.objective).min() >= -1e-8 * (1 + abs(run.objective[-1]))
    assert checks.stationarity(chosen, labels, run.points, posterior=True) < 2e-3
    probability, log_likelihood = conditional(chosen, run.points, labels)
    np.testing.assert_allclose(run.state_probability, probability, atol=1e-4)
    assert run.extra["log_likelihood_at_point"] == pytest.approx(log_likelihood.sum(), abs=1e-4)


@some_models
@pytest.mark.parametrize("case", ["everything"])
def test_em_of_the_likelihood_takes_any_table(model, case):
    run = running.run(CASES[case](), model, "em", max_iter=200)
    assert np.isfinite(run.objective).all()
    assert np.diff(run.objective).min() >= -1e-7
    assert np.isfinite(run.state_probability).all()
    np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-9)


@pytest.mark.slow
@one_of_each
def test_nuts_agrees_with_draws_from_the_prior_weighted_by_the_likelihood(model):
    labels = golden()
    means, _ = checks.prior_monte_carlo(model, labels)
    run = running.run(labels, model, "nuts", chains=2, warmup=400, draws=1500)
    by_draw = checks.by_draw(model, run.draws, labels)
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-10)
    for name, draws in {"state": by_draw, **run.draws}.items():
        mean, error = (np.ravel(part) for part in means[name])
        flat = draws.reshape(*draws.shape[:2], -1)
        mcse = [array_stats.mcse(flat[..., j], chain_axis=0, draw_axis=1) for j in range(flat.shape[-1])]
        distance = np.abs(flat.mean((0, 1)) - mean) / np.hypot(np.array(mcse), error)
        assert distance.max() < 4.5, (name, flat.mean((0, 1)), mean, distance)


def far(found, exact, error):
    return np.abs(found - exact).max() / error


@pytest.mark.parametrize(
    "model", [TwoLevels(difficulty_prior=np.array([4.0, 2.0])), FixedLevels()], ids=lambda model: model.name
)
@pytest.mark.slow
def test_nuts_with_levels_agrees_with_brute_force(model):
    """Two latents per item, and levels whose tables are fixed."""
    labels = golden()
    given = lambda error: np.array([[1 - error, error], [error, 1 - error]])
    fixed = {1: given(0.1), 2: given(0.5)} if isinstance(model, FixedLevels) else None
    known = oracle.posterior(
        oracle.of_labels(labels), n_levels=model.n_levels, difficulty=model.difficulty_prior, fixed=fixed
    )
    run = running.run(labels, model, "nuts", chains=4, warmup=400, draws=1000)
    np.testing.assert_allclose(run.state_probability, known.state_probability, atol=0.02)
    np.testing.assert_allclose(run.draws["difficulty_prevalence"].mean((0, 1)), known.difficulty_prevalence, atol=0.03)
    np.testing.assert_allclose(run.draws["prevalence"].mean((0, 1)), known.prevalence, atol=0.02)


def test_weights_of_the_prior_agree_with_brute_force():
    """The reference of the slow tests, itself checked: evidence and class probabilities of the golden table."""
    known = oracle.posterior(oracle.of_labels(golden()), confusion=oracle.diagonal(2, 2, 2, 1))
    model = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
    means, (log_evidence, error) = checks.prior_monte_carlo(model, golden(), n=100_000)
    assert known.log_evidence == pytest.approx(-7.3574632926, abs=1e-9)
    assert log_evidence == pytest.approx(known.log_evidence, abs=4 * error)
    mean, spread = means["state"]
    assert (np.abs(mean - known.class_probability) < 4 * spread + 1e-9).all()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pooled(toys._OneLevel):
    """All workers share one confusion matrix, so that the labels of one item use the same rows."""

    prevalence_prior: Any = 1.0
    confusion_prior: Any = field(default=bc.diagonal(3.0, 1.0))

    name = "pooled"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})
        with numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(self.confusion_prior.table(sizes.n_classes, sizes.n_labels))
            return {"prevalence": prevalence, "shared": numpyro.sample("shared", rows, infer={"event_dims": ["label"]})}

    def log_response(self, parameters: Any, at: Any) -> Any:
        return jnp.log(parameters["shared"])[at.true_class, at.label] + 0.0 * at.worker

    def routes(self, at: Any) -> list[Route]:
        return [Route({"shared": (at.true_class, at.label)})]


SKELETON = importlib.import_module("bayescrowd.models._template").OneCoin()
WITH_ROUTES = [TwoLevels(), Subtypes(), FixedLevels(), Guessing(), Groups(), Pooled(), SKELETON]


@functools.cache
def weighted_prior(name, case):
    model = {model.name: model for model in WITH_ROUTES}[name]
    return checks.prior_monte_carlo(model, CASES[case](), n=100_000)[0]


def _pairs():
    """Both samplers and schemes; what is quick runs always."""
    quick = {("pooled", "repeats", "collapsed-gibbs")}
    several = {"gibbs": ("blocked", "single"), "collapsed-gibbs": ("joint", "single")}
    for model in WITH_ROUTES:
        for case in ("golden", "repeats") if model.name in ("guessing", "pooled", "one-coin") else ("golden",):
            for engine, schemes in several.items():
                if (model.name, case, engine) == ("guessing", "repeats", "collapsed-gibbs"):
                    continue  # refused: see below
                if (case, engine) == ("golden", "gibbs") and model.n_levels == 1:
                    continue  # nothing that repeats do not have
                for scheme in schemes if model.name == "two-levels" else schemes[:1]:
                    marks = () if (model.name, case, engine) in quick else pytest.mark.slow
                    yield pytest.param(
                        model, case, engine, scheme, id=f"{model.name}-{case}-{engine}-{scheme}", marks=marks
                    )


@pytest.mark.parametrize(("model", "case", "engine", "scheme"), list(_pairs()))
def test_gibbs_agrees_with_draws_from_the_prior_weighted_by_the_likelihood(model, case, engine, scheme):
    """State priors by item, joint tables of class and level, fixed levels, several ways, shared rows, shared cells."""
    labels = CASES[case]()
    means = weighted_prior(model.name, case)
    run = running.run(labels, model, engine, scheme=scheme, warmup=200, draws=3000, keep=1000, seed=2)
    by_draw = checks.by_draw(model, run.draws, labels)
    for name, draws in {"state": by_draw, **run.draws}.items():
        mean, error = (np.ravel(part) for part in means[name])
        flat = draws.reshape(*draws.shape[:2], -1)
        distance = np.abs(flat.mean((0, 1)) - mean) / np.hypot(exact.mcse(flat), error)
        assert distance.max() < 4.5, (name, flat.mean((0, 1)), mean, distance)
    mean, error = means["state"]
    spread = np.hypot(exact.mcse(by_draw.reshape(*by_draw.shape[:2], -1)), error.ravel())
    assert (np.abs(run.state_probability - mean).ravel() < 5 * spread).all()
    for name, found in run.points.items():
        mean, error = means[name]
        flat = run.draws[name].reshape(*run.draws[name].shape[:2], -1)
        spread = np.hypot(exact.mcse(flat), error.ravel())
        assert (np.abs(found - mean).ravel() < 5 * spread).all(), name


def test_collapsed_gibbs_refuses_several_ways_with_repeats():
    with pytest.raises(EngineError, match=r"guessing.*2 ways.*engine='gibbs'"):
        running.run(CASES["repeats"](), Guessing(), "collapsed-gibbs", chains=1, warmup=1, draws=1)


@pytest.mark.parametrize("model", [Ability(), Ease()], ids=lambda model: model.name)
def test_models_without_routes_say_which_objective_they_take(model):
    engine = inference.get("em")
    engine.check(model, engine.settings(objective="posterior"))

    class NoMode(Ability):
        name = "no-mode"
        has_mode = False

    with pytest.raises(EngineError, match="no-mode"):
        engine.check(NoMode(), engine.settings(objective="posterior"))
    engine.check(NoMode(), engine.settings())
