"""IDBLA: priors of every shape, one level, recovery of difficulty, and what symmetric priors cannot do."""

from __future__ import annotations

import json

import jax
import numpy as np
import oracle
import pytest
import running
from conformance import checks, exact
from conformance.cases import CASES, golden
from numpyro import handlers
from recovering import recovery

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes, build_padded
from bayescrowd.errors import ModelError

SIZES = Sizes(n_items=5, n_workers=3, n_classes=2, n_labels=4)
EASY, HARD = oracle.diagonal(3, 3, 30, 1), oracle.diagonal(3, 3, 4, 3)
SEPARATED = bc.IDBLA(n_levels=2, prevalence_prior=5.0, difficulty_prior=5.0, confusion_prior=np.stack([EASY, HARD]))


@pytest.mark.parametrize("shape", [(), (2, 4), (3, 2, 4), (3, 3, 2, 4), (3, 1, 2, 4)])
def test_priors_of_every_shape(shape):
    prior = np.random.default_rng(0).uniform(0.5, 3, shape)
    model = bc.IDBLA(n_levels=3, confusion_prior=prior if shape else float(prior), difficulty_prior=np.arange(1.0, 4))
    model.check(SIZES)
    sites = model.sites(SIZES)
    assert list(sites) == ["prevalence", "difficulty_prevalence", "confusion"]
    np.testing.assert_allclose(sites["confusion"].concentration, np.broadcast_to(prior, (3, 3, 2, 4)), rtol=1e-6)
    np.testing.assert_array_equal(sites["difficulty_prevalence"].concentration, [1, 2, 3])
    np.testing.assert_array_equal(sites["prevalence"].concentration, [1, 1])
    assert tuple(sites["confusion"].dims[:3]) == ("worker", "difficulty", "class")


def test_the_default_prior_favours_the_diagonal_weakly():
    site = bc.IDBLA().sites(Sizes(1, 1, 3, 3))["confusion"]
    assert site.concentration.shape == (1, 3, 3, 3)
    for level in range(3):
        np.testing.assert_array_equal(site.concentration[0, level], oracle.diagonal(3, 3, 1.5, 0.5))


@pytest.mark.parametrize(
    ("prior", "word"),
    [
        ({"confusion_prior": np.ones((3, 3))}, "confusion_prior"),
        ({"confusion_prior": np.ones((2, 2, 4))}, "confusion_prior"),
        ({"confusion_prior": np.ones((9, 3, 2, 4))}, "confusion_prior"),
        ({"difficulty_prior": np.ones(2)}, "difficulty_prior"),
        ({"prevalence_prior": np.ones(3)}, "prevalence_prior"),
        ({"confusion_prior": 0.0}, "must be positive"),
        ({"difficulty_prior": [1.0, -1.0, 1.0]}, r"difficulty_prior must be positive.*-1 at \(1,\)"),
        ({"prevalence_prior": np.nan}, "prevalence_prior has values that are not finite"),
        ({"confusion_prior": "flat"}, "confusion_prior must be a number"),
        ({"difficulty_prior": None}, "difficulty_prior must be a number"),
        ({"n_levels": 0}, "n_levels must be a whole number of at least 1, not 0"),
        ({"n_levels": 2.0}, "n_levels"),
        ({"n_levels": True}, "n_levels"),
    ],
)
def test_what_does_not_fit_is_told(prior, word):
    with pytest.raises(ModelError, match=word):
        bc.IDBLA(**prior).check(SIZES)


def test_every_problem_is_told_at_once():
    with pytest.raises(ModelError) as caught:
        bc.IDBLA(prevalence_prior=-1.0, difficulty_prior="no", confusion_prior=np.inf).check(SIZES)
    assert all(f"{name}_prior" in str(caught.value) for name in ("prevalence", "difficulty", "confusion"))


@pytest.mark.parametrize(
    "model",
    [
        bc.IDBLA(),
        bc.IDBLA(n_levels=2, confusion_prior=2.5),
        bc.IDBLA(difficulty_prior=np.array([1.0, 2, 3])),
        SEPARATED,
    ],
)
def test_a_description_builds_the_model_again(model):
    again = bc.IDBLA.from_description(json.loads(json.dumps(model.describe())))
    assert again.n_levels == model.n_levels
    sizes = Sizes(4, 3, 3, 3)
    for name, site in model.sites(sizes).items():
        np.testing.assert_array_equal(again.sites(sizes)[name].concentration, site.concentration)


def test_one_level_has_the_sites_and_the_density_of_dawid_skene():
    labels = CASES["everything"]()
    one, other = bc.IDBLA(n_levels=1), bc.DawidSkene()
    sizes = Sizes(5, 4, 2, 3)
    assert list(one.sites(sizes)) == list(other.sites(sizes)) == ["prevalence", "confusion"]
    parameters = checks.prior_draw(one, sizes, seed=3)
    for density in (checks.marginal_density, checks.enumerated_density):
        assert density(one, labels, parameters) == pytest.approx(density(other, labels, parameters), abs=1e-11)


def test_one_level_is_dawid_skene_under_em():
    labels = CASES["everything"]()
    options = {"max_iter": 30, "tolerance": 0.0, "change_tolerance": 0.0}
    one = running.run(labels, bc.IDBLA(n_levels=1), "em", **options)
    other = running.run(labels, bc.DawidSkene(), "em", **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-12)
    for name in ("prevalence", "confusion"):
        np.testing.assert_allclose(one.points[name], other.points[name], atol=1e-12)


def test_symmetric_priors_name_nothing():
    """Exact: every class is as likely as every other for every item, and so are the levels; agreement is not."""
    model = bc.IDBLA(n_levels=2, confusion_prior=0.5)
    found = exact.posterior(model, golden())
    assert found.log_evidence == pytest.approx(-7.6936118576, abs=1e-9)
    np.testing.assert_allclose(found.class_probability, 0.5, atol=1e-9)
    np.testing.assert_allclose(found.level_probability, 0.5, atol=1e-9)
    asymmetric = exact.posterior(bc.IDBLA(n_levels=2, confusion_prior=exact.LEVELS), golden())
    assert np.abs(asymmetric.class_probability - 0.5).max() > 0.1
    assert np.abs(asymmetric.level_probability - 0.5).max() > 0.1


def test_the_program_simulates_what_it_says():
    """Frequencies of labels given class and level."""
    n = 12_000
    rng = np.random.default_rng(1)
    model = bc.IDBLA(n_levels=2)
    table = build_padded(running.of_rows([(i, i % 2, 0) for i in range(n)], label_values=3), with_labels=False)
    values = {
        "prevalence": np.array([0.3, 0.7]),
        "difficulty_prevalence": np.array([0.6, 0.4]),
        "confusion": rng.dirichlet([2, 1, 1], (2, 2, 2)),
    }
    program = handlers.seed(handlers.substitute(model.program, data=values), jax.random.key(0))
    trace = handlers.trace(program).get_trace(table)
    true_class = np.asarray(trace["true_class"]["value"]).ravel()
    difficulty = np.asarray(trace["item_difficulty"]["value"]).ravel()
    said = np.asarray(trace["labels"]["value"])[:, 0]
    assert true_class.mean() == pytest.approx(0.7, abs=0.02)
    assert difficulty.mean() == pytest.approx(0.4, abs=0.02)
    for k, h, c in np.ndindex(2, 2, 2):
        those = said[(np.arange(n) % 2 == k) & (true_class == c) & (difficulty == h)]
        share = np.bincount(those, minlength=3) / len(those)
        np.testing.assert_allclose(share, values["confusion"][k, h, c], atol=4.5 * np.sqrt(0.25 / len(those)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vb", "collapsed-vi"])
def test_separated_levels_are_recovered(engine):
    few, many = recovery(SEPARATED, engine, 3), recovery(SEPARATED, engine, 16)
    assert many[0] > 0.85
    assert many[1] > 0.85
    assert many[0] > few[0] + 0.05
    assert many[1] > few[1] + 0.05
