"""Variational Bayes: against plain NumPy, and its bound against exact evidence."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import oracle
import pairwise
import pytest
import running
from conformance import exact
from conformance.cases import CASES, golden
from conformance.toys import TOYS, Ability, Ease, Guessing
from running import D1, Recorder, labels_of, of_rows

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference.starts import resolve

BCC = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
TIGHT = {"tolerance": 1e-14, "change_tolerance": 1e-10, "max_iter": 20_000}
SHORT = {"tolerance": 0.0, "change_tolerance": 0.0, "max_iter": 25}


def levels(labels):
    """IDBLA whose levels differ by their priors."""
    prior = exact.by_level(labels.n_classes, len(labels.label_values))
    return bc.IDBLA(n_levels=2, prevalence_prior=2.0, confusion_prior=prior)


MODELS = {
    "bcc": lambda _: BCC,
    "two": levels,
    "fixed": lambda _: bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0),
    "symmetric": lambda _: bc.IDBLA(n_levels=2, confusion_prior=0.5),
} | {toy.name: (lambda _, toy=toy: toy) for toy in TOYS if toy.has_routes}
_AT_ONCE = {("bcc", "golden"), ("two", "everything"), ("fixed", "golden"), ("guessing", "golden")}


def crowd(seed=0, n_items=20, n_classes=3, **more):
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    return bc.simulate(model, n_items=n_items, n_workers=6, classes=n_classes, seed=seed, **more).labels


def noise():
    """Labels that mean nothing, so that there are many modes; as many as in a crowd."""
    rng = np.random.default_rng(3)
    return of_rows([(i, k, rng.integers(3)) for i in range(20) for k in range(6)], classes=3)


def evidence_of_guessing(labels, model):
    """Sum over who guessed: a guess has a given probability, the others are Dawid-Skene."""
    data = oracle.of_labels(labels)
    rows = np.stack([data.item, data.worker, data.label], axis=1)
    sizes = {"n_items": data.n_items, "n_workers": data.n_workers, "n_classes": data.n_classes}
    total = []
    for guessed in itertools.product([False, True], repeat=data.n):
        guessed = np.array(guessed)
        part = oracle.problem(rows[~guessed], n_labels=data.n_labels, **sizes)
        given = guessed.sum() * np.log(model.guess_rate / data.n_labels)
        given += (~guessed).sum() * np.log1p(-model.guess_rate)
        total.append(given + oracle.posterior(part, confusion=oracle.diagonal(2, 2, 3, 1)).log_evidence)
    return np.logaddexp.reduce(total)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, marks=() if (name, case) in _AT_ONCE else pytest.mark.slow)
        for name in MODELS
        for case in (CASES if name in ("bcc", "two", "fixed") else ("golden", "everything"))
    ],
)
def test_the_bound_never_falls_and_stays_below_the_evidence(name, case):
    labels = CASES[case]()
    model = MODELS[name](labels)
    run = running.run(labels, model, "vb", **TIGHT)
    assert run.status.code == "converged"
    size = abs(run.objective[-1])
    assert np.diff(run.objective).min(initial=0) >= -1e-9 * size
    assert run.extra["bound"] >= run.objective[-1] - 1e-9 * size
    assert len(run.objective) == run.extra["n_passes"]
    if name == "guessing":
        if case == "golden":
            assert run.extra["bound"] < evidence_of_guessing(labels, model)
        return
    evidence = pairwise.log_evidence(pairwise.usage(model, labels))
    if name in ("bcc", "two", "fixed"):
        assert evidence == pytest.approx(exact.posterior(model, labels).log_evidence, abs=1e-9)
    assert run.extra["bound"] < evidence
    np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-12)
    for item, known in enumerate(labels.gold_code):
        if known >= 0:
            gold = run.state_probability[item].reshape(-1, labels.n_classes).sum(0)
            np.testing.assert_allclose(gold, np.eye(labels.n_classes)[known], atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "two",
        *(pytest.param(n, marks=pytest.mark.slow) for n in MODELS if n not in ("two", "guessing")),
    ],
)
def test_each_pass_is_a_pass_of_plain_vb(name):
    labels = CASES["everything"]()
    model = MODELS[name](labels)
    used = pairwise.usage(model, labels)
    start = resolve("majority", labels, model)
    run = running.run(labels, model, "vb", **SHORT)
    _, bounds = pairwise.vb(used, start, 25)
    np.testing.assert_allclose(run.objective, bounds, rtol=1e-11)
    probability, more = pairwise.vb(used, start, 26)
    np.testing.assert_allclose(run.state_probability, probability, atol=1e-10)
    assert run.extra["bound"] == pytest.approx(more[-1], rel=1e-11)
    assert run.extra["bound"] >= pairwise.implied_bound(used, start) - 1e-9


@pytest.mark.slow
def test_at_the_fixpoint_the_bound_is_entropy_and_dirichlet_integrals():
    labels = golden()
    model = levels(labels)
    run = running.run(labels, model, "vb", **TIGHT)
    used = pairwise.usage(model, labels)
    assert run.extra["bound"] == pytest.approx(pairwise.implied_bound(used, run.state_probability), abs=1e-9)
    other = running.run(labels, model, "collapsed-vi")
    assert run.extra["bound"] > other.extra["bound"]


def test_the_posterior_of_the_tables():
    labels = CASES["everything"]()
    model = levels(labels)
    run = running.run(labels, model, "vb", **TIGHT)
    assert run.independent
    assert run.points is None
    sites = model.sites(inference.base.sizes_of(labels))
    more = {name: value.sum() - sites[name].concentration.sum() for name, value in run.concentrations.items()}
    assert more["prevalence"] == pytest.approx(labels.n_items)
    assert more["difficulty_prevalence"] == pytest.approx(labels.n_items)
    assert more["confusion"] == pytest.approx(labels.weight.sum())
    # A worker without labels keeps the prior.
    np.testing.assert_allclose(run.concentrations["confusion"][3], sites["confusion"].concentration[3])
    for name, value in run.concentrations.items():
        draws = run.draws[name]
        assert draws.shape == (1, 1000, *value.shape)
        np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-9)
        mean = value / value.sum(-1, keepdims=True)
        error = np.sqrt(mean * (1 - mean) / (value.sum(-1, keepdims=True) + 1) / 1000)
        assert (np.abs(draws[0].mean(0) - mean) < 4.5 * error).all()


@pytest.mark.slow
def test_one_level_is_dawid_skene():
    labels = crowd()
    one = running.run(labels, bc.DawidSkene(), "vb", **SHORT)
    other = running.run(labels, bc.IDBLA(n_levels=1), "vb", **SHORT)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-12)
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-12)
    for name in ("prevalence", "confusion"):
        np.testing.assert_allclose(one.concentrations[name], other.concentrations[name], rtol=1e-12)


@pytest.mark.slow
def test_weight_two_is_a_repeated_row():
    labels = crowd(n_items=20, labels_per_item=(2, 5))
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    twice = np.random.default_rng(1).random(len(rows)) < 0.4
    more = {"classes": 3, "items": list(range(20))}
    one = running.run(of_rows(rows, weight=1.0 + twice, **more), BCC, "vb", **TIGHT)
    other = running.run(of_rows(np.concatenate([rows, rows[twice]]), **more), BCC, "vb", **TIGHT)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-8)
    assert one.extra["bound"] == pytest.approx(other.extra["bound"], abs=1e-8)


def test_P44_names_and_order_carry_no_information():
    labels = labels_of(D1)
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    more = {"items": list("abcde"), "workers": list("uvw")}
    one = running.run(of_rows(rows, **more), BCC, "vb", **TIGHT)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        items, workers, classes = rng.permutation(5), rng.permutation(3), rng.permutation(2)
        other = np.stack([items[rows[:, 0]], workers[rows[:, 1]], classes[rows[:, 2]]], axis=1)
        run = running.run(of_rows(rng.permutation(other), **more), BCC, "vb", seed=seed, **TIGHT)
        np.testing.assert_allclose(run.state_probability[items][:, classes], one.state_probability, atol=1e-6)
        table = run.concentrations["confusion"][workers][:, classes][:, :, classes]
        np.testing.assert_allclose(table, one.concentrations["confusion"], atol=1e-5)


@pytest.mark.slow
def test_a_class_nobody_uses_and_a_worker_nobody_knows():
    labels = crowd()
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    more = {"items": list(range(20))}
    one = running.run(of_rows(rows, classes=3, workers=list(range(6)), **more), BCC, "vb", **TIGHT)
    idle = running.run(of_rows(rows, classes=3, workers=list(range(8)), **more), BCC, "vb", **TIGHT)
    np.testing.assert_allclose(one.state_probability, idle.state_probability, atol=1e-8)
    assert one.extra["bound"] == pytest.approx(idle.extra["bound"], abs=1e-8)
    wide = running.run(of_rows(rows, classes=4, workers=list(range(6)), **more), BCC, "vb", **TIGHT)
    assert wide.state_probability.shape == (20, 4)
    assert wide.concentrations["confusion"].shape == (6, 4, 4)
    assert np.isfinite(wide.state_probability).all()


def test_several_starts_keep_the_best_bound():
    labels = noise()
    model = bc.DawidSkene(confusion_prior=0.1)
    run = running.run(labels, model, "vb", starts=5)
    bounds = run.extra["objective_by_start"]
    assert len(bounds) == 5
    assert len({round(value, 3) for value in bounds}) > 1
    assert run.extra["best_start"] == int(np.argmax(bounds))
    assert run.extra["bound"] == max(bounds)
    alone = running.run(labels, model, "vb")
    assert bounds[0] == alone.extra["bound"] <= run.extra["bound"]
    again = running.run(labels, model, "vb", starts=5)
    np.testing.assert_array_equal(again.state_probability, run.state_probability)
    np.testing.assert_array_equal(again.draws["confusion"], run.draws["confusion"])
    other = running.run(labels, model, "vb", starts=5, seed=1)
    assert other.extra["objective_by_start"][1:] != bounds[1:]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": True}, "max_iter"),
        ({"starts": 0}, "starts"),
        ({"draws": 0.5}, "draws"),
        ({"tolerance": -1e-3}, "tolerance must be"),
        ({"change_tolerance": "small"}, "change_tolerance must be"),
    ],
)
def test_options_out_of_range(options, word):
    with pytest.raises(EngineError, match=word):
        inference.get("vb").settings(**options)


@pytest.mark.parametrize("model", [Ability(), Ease()], ids=lambda model: model.name)
def test_models_without_routes_are_refused_by_name(model):
    with pytest.raises(EngineError, match=model.name):
        running.run(golden(), model, "vb")


def test_two_routes_count_once():
    """Guessing: what was guessed informs no table."""
    run = running.run(golden(), Guessing(), "vb", **TIGHT)
    used = run.concentrations["seen"].sum() - 3 * 8
    assert 0 < used < golden().n_annotations
    sure = running.run(golden(), Guessing(guess_rate=1e-12), "vb", **TIGHT)
    plain = running.run(golden(), bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), "vb", **TIGHT)
    np.testing.assert_allclose(sure.state_probability, plain.state_probability, atol=1e-8)


def test_a_few_passes_are_told():
    run = running.run(crowd(), BCC, "vb", max_iter=2)
    assert run.status.code == "max-iterations"
    assert "2 passes" in run.status.sentence
    assert len(run.objective) == run.extra["n_passes"] == 2


def test_an_interrupt_keeps_the_approximation_so_far():
    recorder = Recorder(raise_at=1)
    run = running.run(crowd(), BCC, "vb", reporter=recorder, tolerance=0.0, change_tolerance=0.0)
    assert run.status.code == "interrupted"
    assert recorder.tasks == [("variational Bayes", 2000)]
    assert 0 < run.extra["n_passes"] <= 64
    np.testing.assert_allclose(run.state_probability.sum(1), 1)
    later = Recorder(once_more=lambda told: len(told.tasks) > 1)
    run = running.run(crowd(), BCC, "vb", reporter=later, starts=4)
    assert run.status.code == "interrupted"
    assert len(run.extra["objective_by_start"]) == 2

    class Impatient(Recorder):
        def start(self, task, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run(crowd(), BCC, "vb", reporter=Impatient())


def test_it_does_not_compile_twice():
    first, *others = [crowd(seed=seed, n_items=19 + seed % 2) for seed in range(1, 4)]
    running.run(first, BCC, "vb")
    running.run(first, bc.DawidSkene(confusion_prior=2.0), "vb")
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        for labels in others:
            running.run(labels, BCC, "vb")
            running.run(labels, bc.DawidSkene(confusion_prior=3.0), "vb", tolerance=1e-6)
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []
