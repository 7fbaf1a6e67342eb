"""Fixed-IDBLA: the given levels, their error rates, priors, names and recovery."""

from __future__ import annotations

import json
import warnings

import jax
import numpy as np
import oracle
import pytest
from conformance import checks, exact
from conformance.cases import CASES, golden
from numpyro import handlers
from recovering import recovery
from running import of_rows

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes, build_padded
from bayescrowd.errors import BayescrowdWarning, ModelError

SIZES = Sizes(n_items=5, n_workers=3, n_classes=2, n_labels=2)


@pytest.mark.parametrize("shape", [(), (2, 2), (2, 2, 2), (3, 2, 2, 2)])
def test_priors_of_every_shape(shape):
    prior = np.random.default_rng(0).uniform(0.5, 3, shape)
    model = bc.FixedIDBLA(
        n_levels=4, confusion_prior=prior if shape else float(prior), difficulty_prior=np.arange(1.0, 5)
    )
    model.check(SIZES)
    sites = model.sites(SIZES)
    assert list(sites) == ["prevalence", "difficulty_prevalence", "free_confusion"]
    np.testing.assert_allclose(sites["free_confusion"].concentration, np.broadcast_to(prior, (3, 2, 2, 2)), rtol=1e-6)
    np.testing.assert_array_equal(sites["difficulty_prevalence"].concentration, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"easy_error": 0.5, "hard_error": 0.5}, ["easy_error=0.5 must be smaller than hard_error=0.5"]),
        ({"easy_error": 0.6}, ["easy_error=0.6 must be smaller than hard_error=0.5"]),
        ({"easy_error": 0.0}, ["easy_error must be a probability between 0 and 1"]),
        ({"easy_error": 1.0, "hard_error": -0.1}, ["easy_error must be", "hard_error must be"]),
        ({"easy_error": np.array([0.1, 0.2])}, ["easy_error"]),
        ({"easy_error": "low"}, ["easy_error"]),
        ({"hard_error": np.nan}, ["hard_error"]),
        ({"n_levels": 2}, ["n_levels must be a whole number of at least 3", "use IDBLA"]),
        ({"n_levels": 3.0, "easy_error": 2}, ["n_levels", "easy_error"]),
        ({"confusion_prior": np.ones((3, 3))}, ["confusion_prior"]),
        ({"confusion_prior": np.ones((3, 2, 2))}, ["confusion_prior"]),  # one free level, not three
        ({"difficulty_prior": np.ones(1 + 3)}, ["difficulty_prior"]),
        ({"prevalence_prior": 0.0}, ["prevalence_prior must be positive"]),
    ],
)
def test_what_does_not_fit_is_told(options, words):
    with pytest.raises(ModelError) as caught:
        bc.FixedIDBLA(**options).check(SIZES)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_hard_level_worse_than_guessing_is_warned_about_once():
    model = bc.FixedIDBLA(hard_error=0.7)
    with pytest.warns(BayescrowdWarning, match=r"hard_error=0.7 is above 0.5.*against its own class") as caught:
        bc.fit(golden(), model, engine="em")
    assert len([w for w in caught if "hard_error" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.check(Sizes(5, 3, 4, 4))  # of four labels .75 is guessing
        bc.FixedIDBLA(hard_error=0.5).check(SIZES)
        bc.FixedIDBLA().check(SIZES)


def response(model, sizes):
    """P(label | level, class) of the first worker, from the model's own function."""
    parameters = checks.prior_draw(model, sizes, seed=0)
    return np.asarray(model.confusion(parameters, sizes))[0]


@pytest.mark.parametrize(("n_classes", "n_labels"), [(2, 4), pytest.param(3, 3, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_given_levels(n_classes, n_labels):
    """Labels may be more than classes: wrong ones are alike."""
    model = bc.FixedIDBLA(easy_error=0.2)
    table = response(model, Sizes(4, 2, n_classes, n_labels))
    assert table.shape == (3, n_classes, n_labels)
    np.testing.assert_allclose(table.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(table[1], oracle.diagonal(n_classes, n_labels, 0.8, 0.2 / (n_labels - 1)), atol=1e-6)
    np.testing.assert_allclose(table[2], 1 / n_labels, atol=1e-6)
    harder = response(bc.FixedIDBLA(hard_error=0.4), Sizes(4, 2, n_classes, n_labels))
    np.testing.assert_allclose(harder[2], oracle.diagonal(n_classes, n_labels, 0.6, 0.4 / (n_labels - 1)), atol=1e-6)


def test_one_class_is_no_trouble():
    labels = of_rows([(0, 0, 0), (0, 1, 0), (1, 1, 0)], classes=1)
    fit = bc.fit(labels, bc.FixedIDBLA(), engine="vb")
    np.testing.assert_allclose(fit.class_probabilities().to_numpy(), 1)


def test_names_and_order_of_the_levels():
    assert bc.FixedIDBLA().difficulty_names() == ["free1", "easy", "hard"]
    assert bc.FixedIDBLA(n_levels=5).difficulty_names() == ["free1", "free2", "free3", "easy", "hard"]
    assert bc.FixedIDBLA().levels_from_easy() == [1, 0, 2]
    assert bc.FixedIDBLA(n_levels=5).levels_from_easy() == [3, 0, 1, 2, 4]


@pytest.mark.parametrize(
    "model",
    [
        bc.FixedIDBLA(),
        bc.FixedIDBLA(n_levels=4, easy_error=0.05, hard_error=0.4, confusion_prior=2.0),
        bc.FixedIDBLA(confusion_prior=np.arange(1.0, 5).reshape(2, 2)),
    ],
)
def test_a_description_builds_the_model_again(model):
    again = bc.FixedIDBLA.from_description(json.loads(json.dumps(model.describe())))
    assert (again.n_levels, again.easy_error, again.hard_error) == (model.n_levels, model.easy_error, model.hard_error)
    for name, site in model.sites(SIZES).items():
        np.testing.assert_array_equal(again.sites(SIZES)[name].concentration, site.concentration)


def test_the_golden_evidence():
    model = bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0, hard_error=0.5)
    found = exact.posterior(model, golden())
    assert found.log_evidence == pytest.approx(-6.9378586509, abs=1e-9)
    np.testing.assert_allclose(found.class_probability[:, 0], (0.558780, 0.255489, 0.497877, 0.672354), atol=1e-6)


@pytest.mark.slow
def test_the_density_by_sums_over_assignments():
    labels = CASES["repeats"]()
    model = bc.FixedIDBLA(easy_error=0.15, confusion_prior=1.3)
    parameters = checks.prior_draw(model, Sizes(4, 3, 2, 3), seed=1)
    expected = checks.brute_density(model, labels, parameters)
    assert checks.marginal_density(model, labels, parameters) == pytest.approx(expected, abs=1e-10)
    assert checks.enumerated_density(model, labels, parameters) == pytest.approx(expected, abs=1e-10)


def test_the_program_simulates_what_it_says():
    n = 8000
    model = bc.FixedIDBLA(easy_error=0.1)
    table = build_padded(of_rows([(i, 0, 0) for i in range(n)], label_values=3), with_labels=False)
    values = {
        "prevalence": np.array([0.4, 0.6]),
        "difficulty_prevalence": np.array([0.2, 0.5, 0.3]),
        "free_confusion": np.array([[[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]]]),
    }
    program = handlers.seed(handlers.substitute(model.program, data=values), jax.random.key(2))
    trace = handlers.trace(program).get_trace(table)
    true_class, level = (np.asarray(trace[name]["value"]).ravel() for name in ("true_class", "item_difficulty"))
    said = np.asarray(trace["labels"]["value"])[:, 0]
    truth = [values["free_confusion"][0, 0], oracle.diagonal(2, 3, 0.9, 0.05), np.full((2, 3), 1 / 3)]
    for h, c in np.ndindex(3, 2):
        those = said[(true_class == c) & (level == h)]
        share = np.bincount(those, minlength=3) / len(those)
        np.testing.assert_allclose(share, truth[h][c], atol=4.5 * np.sqrt(0.25 / len(those)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vb", "collapsed-vi"])
def test_easy_and_hard_items_are_recovered(engine):
    """Free level in between, with workers well apart."""
    prior = oracle.diagonal(3, 3, 12, 4)
    model = bc.FixedIDBLA(prevalence_prior=5.0, difficulty_prior=5.0, easy_error=0.03, confusion_prior=prior)
    few, many = recovery(model, engine, 3), recovery(model, engine, 16)
    assert many[0] > 0.75  # a third of the items is hard: labels there tell nothing
    assert many[1] > 0.75
    assert many[0] > few[0] + 0.05
    assert many[1] > few[1] + 0.05


def test_shapes_that_do_not_fit_are_told_with_the_right_ones():
    with pytest.raises(
        ModelError, match=r"confusion_prior has shape \(5, 3, 2, 2\).*worker \(3\), free_difficulty \(1\)"
    ):
        bc.FixedIDBLA(confusion_prior=np.ones((5, 3, 2, 2))).check(Sizes(4, 3, 2, 2))
    with pytest.raises(ModelError, match=r"difficulty_prior has shape \(2,\).*difficulty \(3\)"):
        bc.IDBLA(difficulty_prior=np.array([1.0, 2.0])).check(Sizes(4, 3, 2, 2))
    with pytest.raises(ModelError, match="easy_error must be a probability"):
        bc.FixedIDBLA(easy_error=None).check(Sizes(4, 3, 2, 2))
