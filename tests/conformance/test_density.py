"""One density: the enumerated program, the closed form in every layout, and brute force over all joint assignments."""

from __future__ import annotations

import jax
import numpy as np
import oracle
import pytest
from conformance import checks
from conformance.cases import CASES, MODELS, PLAIN, cross, model_id
from conformance.toys import TOYS

from bayescrowd.inference.base import conditional, joint_by_draw, sizes_of

every_model = pytest.mark.parametrize("model", MODELS, ids=model_id)
every_model_and_case = pytest.mark.parametrize(("model", "case"), cross())


@every_model_and_case
def test_the_program_the_closed_form_and_brute_force_have_one_density(model, case):
    labels = CASES[case]()
    parameters = checks.prior_draw(model, sizes_of(labels), seed=3)
    brute = checks.brute_density(model, labels, parameters)
    assert np.isfinite(brute)
    assert checks.enumerated_density(model, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.marginal_density(model, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.marginal_density(model, labels, parameters, by_annotation=True) == pytest.approx(brute, abs=1e-10)
    prior = checks.log_prior(model, sizes_of(labels), parameters)
    assert prior + checks.padded_likelihood(model, labels, parameters) == pytest.approx(brute, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", PLAIN + [toy for toy in TOYS if toy.name in ("subtypes", "guessing", "ability", "ease")], ids=model_id
)
def test_both_kinds_of_nuts_walk_on_one_surface(model):
    labels = CASES["everything"]()
    parameters = checks.prior_draw(model, sizes_of(labels), seed=4)
    (one, slope), (other, other_slope) = checks.potentials(model, labels, parameters)
    assert one == pytest.approx(float(other), abs=1e-10)
    assert set(slope) == set(other_slope)
    for name, value in slope.items():
        np.testing.assert_allclose(value, other_slope[name], atol=1e-9)


@every_model_and_case
def test_routes_add_up_to_the_response(model, case):
    if not model.has_routes:
        return
    labels = CASES[case]()
    parameters = checks.prior_draw(model, sizes_of(labels), seed=6)
    assert checks.route_gap(model, labels, parameters) < 1e-12


@every_model_and_case
def test_conditional_probabilities_of_the_states(model, case):
    labels = CASES[case]()
    data = oracle.of_labels(labels)
    parameters = checks.prior_draw(model, sizes_of(labels), seed=8)
    expected, by_item = oracle.posterior_given(data, *checks.tabulate(model, parameters, data))
    probability, log_likelihood = conditional(model, parameters, labels)
    np.testing.assert_allclose(probability, expected, atol=1e-12)
    np.testing.assert_allclose(log_likelihood, by_item, atol=1e-11)


@every_model
def test_joint_probabilities_are_averaged_over_draws(model):
    labels = CASES["everything"]()
    data = oracle.of_labels(labels)
    draws = [checks.prior_draw(model, sizes_of(labels), seed) for seed in range(3)]
    stacked = {name: np.stack([draw[name] for draw in draws]) for name in draws[0]}
    total = 0.0
    for draw in draws:
        probability, by_item = oracle.posterior_given(data, *checks.tabulate(model, draw, data))
        total = total + probability * np.exp(by_item)[:, None]
    np.testing.assert_allclose(np.exp(joint_by_draw(model, stacked, labels)), total / 3, atol=1e-12)


@every_model
def test_rows_of_the_confusion_matrices_sum_to_one(model):
    sizes = sizes_of(CASES["repeats"]())
    parameters = checks.prior_draw(model, sizes, seed=1)
    if model.uses_item:
        with pytest.raises(ValueError, match="no confusion matrices"):
            model.confusion(parameters, sizes)
        return
    table = np.asarray(jax.jit(lambda values: model.confusion(values, sizes))(parameters))
    levels = (model.n_levels,) if model.n_levels > 1 else ()
    assert table.shape == (sizes.n_workers, *levels, sizes.n_classes, sizes.n_labels)
    np.testing.assert_allclose(table.sum(-1), 1, atol=1e-6)
