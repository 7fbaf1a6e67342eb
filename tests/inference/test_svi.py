"""SVI: against exact answers, minibatches against the whole, guides, interrupts, reproducibility."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
import running
from conformance import checks
from conformance.cases import d1, everything, golden
from conformance.exact import by_level
from conformance.exact import posterior as golden_posterior
from conformance.toys import Ability, Ease, Groups, Guessing, TwoLevels
from jax.flatten_util import ravel_pytree
from running import Recorder, of_rows

import bayescrowd as bc
from bayescrowd.data.arrays import build_arrays, build_padded
from bayescrowd.errors import EngineError
from bayescrowd.inference import _svi_steps
from bayescrowd.inference._svi_batches import Batches
from bayescrowd.inference.base import conditional, sizes_of
from bayescrowd.inference.svi import Settings
from bayescrowd.kernels.density import marginal_program, potential, unconstrain
from bayescrowd.kernels.precision import double_precision

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def crowd(**more):
    return bc.simulate(
        bc.DawidSkene(confusion_prior=bc.diagonal(6, 1)), n_items=23, n_workers=4, labels_per_item=(1, 4), **more
    ).labels


@pytest.fixture(scope="module")
def run():
    return running.run(d1(), R31, "svi", seed=3)


@pytest.fixture(scope="module")
def exact():
    return oracle.posterior(oracle.of_labels(d1()))


def test_class_probabilities_are_near_the_exact_ones(run, exact):
    assert run.status.code == "converged"
    np.testing.assert_allclose(run.state_probability, exact.class_probability, atol=0.1)
    # The average of the conditional probabilities over the draws, not a count of classes.
    by_draw = checks.by_draw(R31, run.draws, d1())
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-12)
    np.testing.assert_allclose(run.state_probability_by_chain, by_draw.mean(1), atol=1e-12)


def test_the_bound_lies_below_the_evidence(run, exact):
    error = run.extra["elbo_error"]
    assert 0 < error < 0.1
    assert exact.log_evidence - 0.6 < run.extra["elbo"] < exact.log_evidence + 4 * error
    assert run.objective[-20:].mean() < exact.log_evidence
    assert run.objective[-100:].mean() > run.objective[:100].mean()


def test_shapes(run):
    assert run.draws["confusion"].shape == (1, 1000, 3, 2, 2)
    assert run.draws["prevalence"].shape == (1, 1000, 2)
    assert run.draws["confusion"].dtype == np.float64
    np.testing.assert_allclose(run.draws["confusion"].sum(-1), 1, atol=1e-12)
    assert run.independent
    assert run.points is None
    assert run.extra["n_steps"] == len(run.objective)
    points = {name: value[0, 7] for name, value in run.draws.items()}
    np.testing.assert_allclose(run.log_likelihood[0, 7], conditional(R31, points, d1())[1], atol=1e-11)


def test_the_golden_table():
    model = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
    exact = oracle.posterior(oracle.of_labels(golden()), confusion=oracle.diagonal(2, 2, 2, 1))
    run = running.run(golden(), model, "svi")
    np.testing.assert_allclose(run.state_probability, exact.class_probability, atol=0.12)
    sure = np.abs(exact.class_probability[:, 0] - 0.5) > 0.1
    assert (run.state_probability.argmax(1) == exact.class_probability.argmax(1))[sure].all()
    assert run.extra["elbo"] < exact.log_evidence + 4 * run.extra["elbo_error"]


LEVELS = {
    "idbla": bc.IDBLA(n_levels=2, prevalence_prior=2.0, confusion_prior=by_level(2, 2)),
    "fixed-idbla": bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0, easy_error=0.1, hard_error=0.5),
}
"""The golden models with difficulty levels."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LEVELS)
def test_the_golden_tables_with_levels(name):
    model, labels = LEVELS[name], golden()
    known = golden_posterior(model, labels)
    run = running.run(labels, model, "svi")
    classes = run.state_probability.reshape(4, -1, 2).sum(1)
    np.testing.assert_allclose(classes, known.class_probability, atol=0.15)
    levels = run.state_probability.reshape(4, -1, 2).sum(2)
    np.testing.assert_allclose(levels, known.level_probability, atol=0.15)
    assert run.extra["elbo"] < known.log_evidence + 4 * run.extra["elbo_error"]
    few = {"seed": 3, "steps": 30, "draws": 20}
    one = running.run(labels, model, "svi", likelihood="enumerated", **few)
    other = running.run(labels, model, "svi", **few)
    np.testing.assert_allclose(one.objective, other.objective, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["lowrank", "multivariate"])
def test_guides_with_correlations(guide, run, exact):
    one = running.run(d1(), R31, "svi", guide=guide, steps=2000)
    np.testing.assert_allclose(one.state_probability, exact.class_probability, atol=0.1)
    assert one.extra["elbo"] < exact.log_evidence + 4 * one.extra["elbo_error"]
    assert one.extra["elbo"] > run.extra["elbo"] - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("labels", [d1(), everything()], ids=["d1", "everything"])
def test_both_programs_have_one_bound(labels):
    """At the same parameters of the guide and the same noise; weights, gold, repeats and holes included."""
    sizes = sizes_of(labels)
    with double_precision():
        key = jax.random.key(5)
        arrays, table = build_arrays(labels, pad=False), build_padded(labels)
        position = unconstrain(R31, sizes, R31.neutral_point(sizes))
        found = []
        for program, data in ((_svi_steps.scaled, arrays), (_svi_steps.enumerated, table)):
            steps = _svi_steps.Steps(program, "normal", 3, 0.05, 10.0)
            _, average = steps.begin(R31, position, key, sizes=sizes)
            found.append(float(steps.elbo(average, R31, data, 1.0, key)))
    assert found[0] == pytest.approx(found[1], abs=1e-10)


def test_the_enumerated_program_takes_the_same_path(run):
    few = {"seed": 3, "steps": 40, "draws": 60}
    one = running.run(d1(), R31, "svi", likelihood="enumerated", **few)
    other = running.run(d1(), R31, "svi", **few)
    np.testing.assert_allclose(one.objective, other.objective, atol=1e-8)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-8)


@jax.jit
def of_whole(model, arrays, position):
    return jax.value_and_grad(lambda z: potential(marginal_program, (model, arrays), z))(position)


@jax.jit
def of_part(model, arrays, scale, position):
    return jax.value_and_grad(lambda z: potential(_svi_steps.scaled, (model, arrays, scale), z))(position)


@pytest.mark.parametrize(
    ("model", "table", "batch_size"),
    [
        (R31, "everything", 2),
        (Ease(), "crowd", 7),
        pytest.param(R31, "crowd", 7, marks=pytest.mark.slow),
        pytest.param(Groups(), "everything", 7, marks=pytest.mark.slow),
        pytest.param(Groups(), "crowd", 2, marks=pytest.mark.slow),
        pytest.param(Ease(), "everything", 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_minibatches_average_to_the_whole(model, table, batch_size):
    """Value and gradient, at a point of no importance."""
    labels = everything() if table == "everything" else crowd(seed=1, classes=3)
    batches = Batches(labels, batch_size, by_annotation=model.uses_item, random=np.random.default_rng(0))
    assert batches.n == -(-labels.n_items // batch_size)
    assert sorted(np.concatenate(batches.members)) == list(range(labels.n_items))
    shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(batches.arrays(g))) for g in range(batches.n)}
    assert len(shapes) == 1
    sizes = sizes_of(labels)
    with double_precision():
        neutral, unravel = ravel_pytree(unconstrain(model, sizes, model.neutral_point(sizes)))
        position = unravel(neutral + 0.3 * np.random.default_rng(1).standard_normal(neutral.size))
        full = of_whole(model, build_arrays(labels, pad=False, by_annotation=model.uses_item), position)
        parts = [of_part(model, batches.arrays(g), float(batches.n), position) for g in range(batches.n)]
        mean = jax.tree.map(lambda *values: sum(values) / batches.n, *parts)
    for one, other in zip(jax.tree.leaves(full), jax.tree.leaves(mean), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_minibatches_of_a_long_tailed_table():
    """Blocks, loose annotations and cells that differ between groups."""
    random = np.random.default_rng(3)
    degree = np.minimum(random.zipf(1.6, 3000), 300)
    item = np.repeat(np.arange(3000), degree)
    rows = np.stack([item, random.integers(0, 700, len(item)), random.integers(0, 2, len(item))], axis=1)
    labels = of_rows(rows, items=list(range(3000)), workers=list(range(700)))
    batches = Batches(labels, 400, by_annotation=False, random=random)
    arrays = [batches.arrays(g) for g in range(batches.n)]
    assert len({tuple(np.shape(leaf) for leaf in jax.tree.leaves(part)) for part in arrays}) == 1
    assert arrays[0].blocks.size
    assert arrays[0].loose_row.size
    sizes = sizes_of(labels)
    with double_precision():
        neutral, unravel = ravel_pytree(unconstrain(R31, sizes, R31.neutral_point(sizes)))
        position = unravel(neutral + 0.3 * random.standard_normal(neutral.size))
        full, _ = of_whole(R31, build_arrays(labels, pad=False), position)
        parts = [float(of_part(R31, part, float(batches.n), position)[0]) for part in arrays]
    assert np.mean(parts) == pytest.approx(float(full), rel=1e-12)


@pytest.mark.slow
def test_minibatches_find_the_same():
    labels = crowd(seed=0, classes=2)
    whole = running.run(labels, R31, "svi", steps=2000)
    parts = running.run(labels, R31, "svi", steps=2000, batch_size=8)
    assert parts.extra["n_batches"] == 3
    assert parts.extra["elbo"] == pytest.approx(whole.extra["elbo"], abs=0.2)
    np.testing.assert_allclose(parts.state_probability, whole.state_probability, atol=0.06)
    by_draw = checks.by_draw(R31, parts.draws, labels)
    np.testing.assert_allclose(parts.state_probability, by_draw.mean((0, 1)), atol=1e-12)
    points = {name: value[0, 60] for name, value in parts.draws.items()}
    np.testing.assert_allclose(parts.log_likelihood[0, 60], conditional(R31, points, labels)[1], atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "batch_size"),
    [(TwoLevels(), 8), (Guessing(), None), (Ability(), 8), (Ease(), None)],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_kind_of_model(model, batch_size):
    labels = crowd(seed=0, classes=2)
    run = running.run(labels, model, "svi", batch_size=batch_size, steps=1500)
    probability = run.state_probability.reshape(labels.n_items, -1, 2).sum(1)
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-9)
    em = running.run(labels, R31, "em", objective="posterior").state_probability
    assert (probability.argmax(1) == em.argmax(1)).mean() > 0.8
    by_draw = checks.by_draw(model, run.draws, labels)
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-11)
    assert np.isfinite(run.extra["elbo"])
    mean = run.objective[-200:].mean()
    assert run.extra["elbo"] == pytest.approx(mean, abs=1.0)


@pytest.mark.parametrize("model", [TwoLevels(), Ease()], ids=lambda model: model.name)
@pytest.mark.slow
def test_any_table(model):
    run = running.run(everything(), model, "svi", steps=20, draws=10, batch_size=2)
    assert run.status.code == "max-iterations"
    assert run.state_probability.shape == (5, 2 * model.n_levels)
    assert np.isfinite(run.state_probability).all()
    assert run.state_probability[1].reshape(-1, 2).sum(0)[0] == pytest.approx(1)  # gold


def test_P36_adversarial_workers():
    random = np.random.default_rng(2)
    truth = random.integers(0, 2, 300)
    rows = [
        (i, k, z if random.random() < right else 1 - z)
        for i, z in enumerate(truth)
        for k, right in enumerate([0.8] * 3 + [0.1] * 2)
    ]
    run = running.run(of_rows(rows, items=list(range(300))), bc.DawidSkene(), "svi")
    assert (run.state_probability.argmax(1) == truth).mean() >= 0.95
    accuracy = np.einsum("sdc,sdkcc->k", run.draws["prevalence"], run.draws["confusion"]) / 1000
    assert (accuracy[3:] < 0.2).all()
    assert (accuracy[:3] > 0.7).all()


def test_the_same_seed_gives_the_same_bits(run):
    again = running.run(d1(), R31, "svi", seed=3)
    np.testing.assert_array_equal(again.objective, run.objective)
    for name, value in run.draws.items():
        np.testing.assert_array_equal(again.draws[name], value)
    other = running.run(d1(), R31, "svi", seed=4)
    assert not np.array_equal(other.draws["prevalence"], run.draws["prevalence"])


def test_global_settings_are_left_alone(run):
    assert jnp.ones(1).dtype == np.float32
    assert not jax.config.jax_enable_x64


def test_no_compilation_the_second_time(run):
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        running.run(d1(), bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), "svi", seed=9, steps=700, draws=70)
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_interrupt_keeps_the_guide_so_far(batch_size):
    recorder = Recorder(raise_at=4)
    run = running.run(d1(), R31, "svi", tolerance=0.0, batch_size=batch_size, draws=60, reporter=recorder)
    assert run.status.code == "interrupted"
    assert run.status.converged is False
    assert run.extra["n_steps"] == recorder.updates[-1][0] == len(run.objective)
    assert f"after {run.extra['n_steps']} steps" in run.status.sentence
    assert run.draws["prevalence"].shape == (1, 60, 2)
    assert np.isfinite(run.state_probability).all()


def test_progress_is_told():
    recorder = Recorder()
    run = running.run(d1(), R31, "svi", steps=150, draws=10, reporter=recorder)
    assert ("SVI, normal guide", 150) in recorder.tasks
    counts = [done for done, _ in recorder.updates]
    assert counts == sorted(counts)
    assert counts[-1] == 150
    assert "ELBO -" in recorder.updates[-1][1]
    assert run.status.code == "max-iterations"
    assert "150 steps" in run.status.sentence


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Broken(Ability):
    """A model whose density is nowhere finite."""

    name = "broken"

    def log_response(self, parameters, at):
        return jnp.nan * Ability.log_response(self, parameters, at)


def test_a_bound_that_is_nowhere_finite_is_a_failure():
    run = running.run(d1(), Broken(), "svi", steps=200, draws=5)
    assert run.status.code == "failed"
    assert "no longer finite" in run.status.sentence
    assert run.extra["n_steps"] == 100


def test_few_draws_where_many_would_not_fit(monkeypatch):
    monkeypatch.setattr("bayescrowd.inference.svi.DRAWS_LIMIT", 14 * 8 * 30)
    monkeypatch.setattr("bayescrowd.inference.svi.LOG_LIKELIHOOD_LIMIT", 100)
    monkeypatch.setattr("bayescrowd.inference.svi._TRACE_LIMIT", 40)
    run = running.run(d1(), R31, "svi", steps=100)
    assert run.draws["confusion"].shape[1] == 30
    assert run.log_likelihood is None
    assert len(run.objective) == 34
    assert len(run.warnings) == 2
    assert "30 times" in run.warnings[0]


def test_a_covariance_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("bayescrowd.inference.svi._LARGEST_MULTIVARIATE", 6)
    with pytest.raises(EngineError, match="too large for 7 of them"):
        running.run(d1(), R31, "svi", guide="multivariate")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"particles": True}, "particles"),
        ({"draws": -1}, "draws"),
        ({"guide": "delta"}, "guide must be"),
        ({"likelihood": "exact"}, "likelihood must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"tolerance": -1.0}, "tolerance must be a number of at least 0"),
        ({"likelihood": "enumerated", "guide": "lowrank"}, "guide='normal' only"),
        ({"likelihood": "enumerated", "batch_size": 5}, "all items at once"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(EngineError, match=message):
        Settings(**options)


@pytest.mark.realdata
@pytest.mark.slow
def test_rte(real_data):
    labels = real_data("rte")
    truth = labels.truth.reindex(labels.items)
    for options in ({}, {"batch_size": 200}):
        run = running.run(labels, bc.DawidSkene(), "svi", **options)
        said = np.asarray(labels.classes)[run.state_probability.argmax(1)]
        assert (said == truth)[truth.notna()].mean() >= 0.92
