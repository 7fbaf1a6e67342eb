"""Names and order carry no information: every model by EM, Dawid-Skene and IDBLA by the samplers."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import running
from conformance.cases import d1, golden
from conformance.toys import Ability, Guessing, TwoLevels
from running import of_rows

import bayescrowd as bc

OPTIONS = {"tolerance": 1e-14, "change_tolerance": 1e-9, "max_iter": 20_000}
R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
MODELS = [R31, TwoLevels(), Guessing(), Ability()]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def crowd(seed=0):
    """A crowd, as rows."""
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    labels = bc.simulate(model, n_items=30, n_workers=5, classes=3, labels_per_item=(2, 5), seed=seed).labels
    return np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)


def fitted(rows, model, engine="em", **more):
    """Class probabilities by item, and the run."""
    options = more.pop("options", OPTIONS)
    labels = of_rows(rows, classes=3, items=list(range(30)), workers=list(range(5)), **more)
    run = running.run(labels, model, engine, objective="posterior", **options)
    return run.state_probability.reshape(30, -1, 3).sum(1), run


def close(one, other, model):
    np.testing.assert_allclose(one, other, atol=1e-6 if model.has_routes else 1e-4)


@every_model
def test_the_order_of_the_rows_is_irrelevant(model):
    rows = crowd()
    one, run = fitted(rows, model)
    for seed in range(3):
        other, again = fitted(np.random.default_rng(seed).permutation(rows), model)
        close(one, other, model)
        assert again.objective[-1] == pytest.approx(run.objective[-1], abs=1e-6)


@every_model
def test_renaming_permutes_the_answer(model):
    rng = np.random.default_rng(5)
    rows = crowd()
    one, run = fitted(rows, model)
    items, workers, classes = rng.permutation(30), rng.permutation(5), rng.permutation(3)
    other, again = fitted(np.stack([items[rows[:, 0]], workers[rows[:, 1]], classes[rows[:, 2]]], axis=1), model)
    close(one, other[items][:, classes], model)
    close(run.points["prevalence"], again.points["prevalence"][classes], model)
    for name in ("confusion", "seen"):
        if name in run.points:
            back = again.points[name][workers][..., classes, :][..., classes]
            np.testing.assert_allclose(run.points[name], back, atol=1e-5)


@every_model
def test_weight_two_is_a_repeated_row(model):
    rows = crowd()
    twice = np.random.default_rng(1).random(len(rows)) < 0.4
    one, run = fitted(rows, model, weight=1.0 + twice)
    other, again = fitted(np.concatenate([rows, rows[twice]]), model)
    close(one, other, model)
    assert again.objective[-1] == pytest.approx(run.objective[-1], abs=1e-6)


@pytest.mark.parametrize("model", [R31, TwoLevels()], ids=lambda model: model.name)
def test_a_class_nobody_uses_stays(model):
    rows = crowd()
    labels = of_rows(rows, classes=5, items=list(range(30)), workers=list(range(5)))
    run = running.run(labels, model, "em", objective="posterior", max_iter=3000)
    assert run.points["prevalence"].shape == (5,)
    assert run.state_probability.shape == (30, 5 * model.n_levels)
    assert np.isfinite(run.state_probability).all()


def test_adding_a_worker_without_labels_changes_nothing():
    rows = crowd()
    more = {"classes": 3, "items": list(range(30))}
    one = running.run(of_rows(rows, workers=list(range(5)), **more), R31, "em", objective="posterior", **OPTIONS)
    other = running.run(of_rows(rows, workers=list(range(9)), **more), R31, "em", objective="posterior", **OPTIONS)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-9)
    np.testing.assert_allclose(one.points["confusion"], other.points["confusion"][:5], atol=1e-8)


@every_model
def test_the_same_seed_gives_the_same_bits(model):
    one, run = fitted(crowd(), model, options={"max_iter": 40, "starts": 3})
    other, again = fitted(crowd(), model, options={"max_iter": 40, "starts": 3})
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(run.objective, again.objective)


@pytest.mark.parametrize("engine", ["nuts", "gibbs", "collapsed-gibbs"])
def test_P88_global_state_is_neither_read_nor_changed(engine):
    settings = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_platforms", "jax_debug_nans")}
    np.random.seed(1)  # noqa: NPY002  the global generator is what must not matter
    first = running.run(d1(), R31, engine, chains=2, warmup=20, draws=30)
    after_first = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(np.random.get_state()[1], after_first)  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    second = running.run(d1(), R31, engine, chains=2, warmup=20, draws=30)
    np.testing.assert_array_equal(first.draws["confusion"], second.draws["confusion"])
    running.run(d1(), R31, "em", starts=2)
    assert settings == {name: getattr(jax.config, name) for name in settings}


SAMPLERS = {
    "nuts": {"chains": 4, "warmup": 300, "draws": 800},
    "gibbs": {"chains": 4, "warmup": 100, "draws": 3000, "keep": 300},
    "collapsed-gibbs": {"chains": 4, "warmup": 100, "draws": 3000, "keep": 300},
}


@pytest.mark.parametrize("engine", SAMPLERS)
@pytest.mark.slow
def test_samplers_do_not_care_about_names_and_order(engine):
    """Within Monte Carlo error; one compilation serves all three, as the shapes are the same."""
    labels = golden()
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    options = SAMPLERS[engine]
    one = running.run(labels, R31, engine, **options)
    rng = np.random.default_rng(0)
    shuffled = of_rows(rng.permutation(rows), items=list("abcd"))
    other = running.run(shuffled, R31, engine, **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=0.03)
    swapped = of_rows(rows * [1, 1, -1] + [0, 0, 1], items=list("abcd"))
    other = running.run(swapped, R31, engine, **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability[:, ::-1], atol=0.03)
    np.testing.assert_allclose(
        one.draws["prevalence"].mean((0, 1)), other.draws["prevalence"].mean((0, 1))[::-1], atol=0.03
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
@pytest.mark.parametrize("model", [R31, bc.IDBLA(n_levels=2, confusion_prior=bc.diagonal(3, 1))], ids=lambda m: m.name)
@pytest.mark.slow
def test_gibbs_samplers_take_weight_two_for_a_repeated_row(model, engine):
    labels = golden()
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    twice = np.random.default_rng(1).random(len(rows)) < 0.4
    options = {"chains": 4, "warmup": 100, "draws": 3000, "keep": 300}
    one = running.run(of_rows(rows, weight=1.0 + twice), model, engine, **options)
    other = running.run(of_rows(np.concatenate([rows, rows[twice]])), model, engine, **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=0.03)
    for name, value in one.points.items():
        np.testing.assert_allclose(value, other.points[name], atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
def test_gibbs_samplers_permute_with_the_items_and_workers(engine):
    rng = np.random.default_rng(3)
    rows = crowd()
    options = {"chains": 2, "warmup": 200, "draws": 2000, "keep": 200}
    model = bc.DawidSkene(confusion_prior=bc.diagonal(5, 1))
    named = {"classes": 3, "items": list(range(30)), "workers": list(range(5))}
    one = running.run(of_rows(rows, **named), model, engine, **options)
    items, workers, classes = rng.permutation(30), rng.permutation(5), rng.permutation(3)
    renamed = np.stack([items[rows[:, 0]], workers[rows[:, 1]], classes[rows[:, 2]]], axis=1)
    other = running.run(of_rows(rng.permutation(renamed), **named), model, engine, **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability[items][:, classes], atol=0.06)
    back = other.points["confusion"][workers][:, classes][:, :, classes]
    np.testing.assert_allclose(one.points["confusion"], back, atol=0.04)


def test_nuts_does_not_compile_twice_for_the_same_shapes():
    running.run(d1(), R31, "nuts", chains=2, warmup=20, draws=30)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        running.run(
            d1(), bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), "nuts", chains=2, warmup=20, draws=40, seed=9
        )
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []
