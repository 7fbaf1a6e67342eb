"""EM: against plain NumPy EM run long, and against published values."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import oracle
import pytest
import running
from conformance.cases import CASES
from conformance.toys import Groups, Guessing, Subtypes
from running import Recorder, labels_of, of_rows

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference import _host_em, em
from bayescrowd.inference.base import conditional, sizes_of

FLAT = bc.DawidSkene(confusion_prior=1.0)
TIGHT = {"tolerance": 1e-14, "change_tolerance": 1e-9, "max_iter": 20_000}


@pytest.fixture(autouse=True, params=["host", "compiled"])
def place(request, monkeypatch):
    """Where a pass is computed: everything here holds for both."""
    if request.param == "compiled":
        monkeypatch.setattr(em, "host_em", lambda *args, **options: None)
    return request.param


on_the_host = pytest.mark.parametrize("place", ["host"], indirect=True)


def crowd(seed=0, n_items=60, n_workers=6, n_classes=3, **more):
    """A crowd that is good enough to have one mode near the majority."""
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    return bc.simulate(model, n_items=n_items, n_workers=n_workers, classes=n_classes, seed=seed, **more).labels


def dressed(labels, *, weights=False, gold=False, repeats=False, seed=1):
    """The same labels with weights, gold, repeats."""
    rng = np.random.default_rng(seed)
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    if repeats:
        rows = np.concatenate([rows, rows[::3]])
    truth = [labels.classes.get_loc(value) for value in labels.truth]
    return of_rows(
        rows,
        classes=labels.n_classes,
        items=list(labels.items),
        workers=list(labels.workers),
        weight=rng.uniform(0.2, 3, len(rows)) if weights else None,
        gold={i: truth[i] for i in range(0, labels.n_items, 7)} if gold else None,
    )


DRESSES = {
    "plain": {},
    "weights": {"weights": True},
    "gold": {"gold": True},
    "repeats": {"repeats": True},
    "all": {"weights": True, "gold": True, "repeats": True},
}
every_dress = pytest.mark.parametrize("dress", DRESSES)
both = pytest.mark.parametrize("acceleration", ["squarem", "none"])


@every_dress
@both
@pytest.mark.parametrize("objective", ["likelihood", "posterior"])
def test_the_objective_never_falls_and_ends_where_plain_em_ends(dress, acceleration, objective):
    labels = dressed(crowd(), **DRESSES[dress])
    model = bc.DawidSkene(prevalence_prior=1.5, confusion_prior=bc.diagonal(3, 1.2))
    run = running.run(labels, model, "em", objective=objective, acceleration=acceleration, **TIGHT)
    assert run.status.code == "converged"
    assert np.diff(run.objective).min() >= -1e-9 * abs(run.objective[-1])
    prior = {"prevalence": 1.5, "confusion": oracle.diagonal(3, 3, 3, 1.2)} if objective == "posterior" else {}
    plain = oracle.em(oracle.of_labels(labels), **prior)
    assert run.extra["log_likelihood_at_point"] == pytest.approx(plain.log_likelihood, abs=2e-5)
    np.testing.assert_allclose(run.points["prevalence"], plain.prevalence, atol=1e-6)
    np.testing.assert_allclose(run.points["confusion"], plain.confusion, atol=2e-5)
    np.testing.assert_allclose(run.state_probability, plain.probability, atol=2e-5)


@both
def test_each_step_of_plain_em_is_a_step_of_plain_em(acceleration):
    labels = crowd(seed=3)
    run = running.run(labels, FLAT, "em", acceleration=acceleration, max_iter=40, tolerance=0.0, change_tolerance=0.0)
    plain = oracle.em(oracle.of_labels(labels), n_passes=40, tolerance=-1.0)
    # The first two maps are not accelerated; later ones are at least as good.
    np.testing.assert_allclose(run.objective[:2], plain.objective[:2], rtol=1e-12)
    if acceleration == "none":
        np.testing.assert_allclose(run.objective, plain.objective, rtol=1e-12)
    assert run.objective[-1] >= plain.objective[-1] - 1e-9


@both
def test_the_state_probabilities_belong_to_the_points(acceleration):
    labels = dressed(crowd(seed=4), weights=True, gold=True)
    run = running.run(labels, FLAT, "em", acceleration=acceleration, max_iter=5)
    points = {name: np.maximum(value, 1e-300) for name, value in run.points.items()}
    probability, log_likelihood = conditional(FLAT, points, labels)
    np.testing.assert_allclose(run.state_probability, probability, atol=1e-12)
    assert run.extra["log_likelihood_at_point"] == pytest.approx(log_likelihood.sum(), rel=1e-12)
    for value in run.points.values():
        np.testing.assert_allclose(value.sum(-1), 1, atol=1e-12)
        assert (value >= 0).all()


def test_the_point_is_never_worse_than_the_trace():
    """An extrapolation that was not evaluated is not handed out."""
    labels = crowd(seed=5)
    for max_iter in range(1, 12):
        run = running.run(labels, FLAT, "em", max_iter=max_iter)
        assert run.extra["log_likelihood_at_point"] >= run.objective.max() - 1e-9


@pytest.mark.slow
def test_squarem_needs_fewer_passes():
    labels = crowd(seed=6, n_items=200, n_workers=5, n_classes=4, labels_per_item=3)
    slow = running.run(labels, FLAT, "em", acceleration="none", **TIGHT)
    fast = running.run(labels, FLAT, "em", **TIGHT)
    assert fast.extra["n_passes"] < 0.7 * slow.extra["n_passes"]
    assert fast.objective[-1] >= slow.objective[-1] - 1e-6


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", ["likelihood", "posterior"])
def test_tiny_and_odd_tables_give_probabilities(case, objective):
    labels = CASES[case]()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
    run = running.run(labels, model, "em", objective=objective)
    assert run.status.code == "converged"
    assert np.isfinite(run.objective).all()
    assert np.diff(run.objective, prepend=run.objective[0]).min() >= -1e-9
    np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-12)
    assert {name: value.shape for name, value in run.points.items()} == {
        name: site.shape for name, site in model.sites(sizes_of(labels)).items()
    }
    for value in run.points.values():
        np.testing.assert_allclose(value.sum(-1), 1, atol=1e-12)
    for item, known in enumerate(labels.gold_code):
        if known >= 0:
            assert run.state_probability[item, known] == 1.0


def test_a_worker_nobody_heard_stays_at_the_prior():
    labels = CASES["holes"]()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
    confusion = running.run(labels, model, "em").points["confusion"][3]
    np.testing.assert_allclose(confusion, oracle.diagonal(3, 3, 3, 1) / 5, atol=1e-12)
    confusion = running.run(labels, model, "em", objective="posterior").points["confusion"][3]
    np.testing.assert_allclose(confusion, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        bc.DawidSkene(),
        bc.DawidSkene(prevalence_prior=0.9, confusion_prior=1.0),
        bc.DawidSkene(confusion_prior=bc.diagonal(3, 0.99)),
    ],
)
def test_the_posterior_mode_is_refused_below_one(model):
    with pytest.raises(EngineError, match="below 1") as caught:
        running.run(crowd(), model, "em", objective="posterior")
    assert "nuts" in str(caught.value)


def test_the_refusal_names_every_site():
    model = bc.DawidSkene(prevalence_prior=0.5, confusion_prior=bc.diagonal(1, 0.5))
    with pytest.raises(EngineError, match="prevalence") as caught:
        running.run(crowd(), model, "em", objective="posterior")
    assert "confusion" in str(caught.value)


def test_several_starts_keep_the_best():
    poor = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
    labels = bc.simulate(poor, n_items=40, n_workers=4, classes=3, labels_per_item=3, seed=8).labels
    run = running.run(labels, FLAT, "em", starts=6)
    objectives = run.extra["objective_by_start"]
    assert len(objectives) == 6
    assert len({round(value, 3) for value in objectives}) > 1
    assert run.extra["best_start"] == int(np.argmax(objectives))
    assert run.objective[-1] == pytest.approx(max(objectives), abs=1e-9)
    alone = running.run(labels, FLAT, "em")
    assert objectives[0] == pytest.approx(alone.objective[-1], abs=1e-12)
    assert run.objective[-1] >= alone.objective[-1]
    other_seed = running.run(labels, FLAT, "em", starts=6, seed=1).extra["objective_by_start"]
    assert other_seed[0] == objectives[0]
    assert other_seed[1:] != objectives[1:]


def test_the_last_pass_allowed_is_told():
    run = running.run(crowd(), FLAT, "em", max_iter=2)
    assert run.status.code == "max-iterations"
    assert run.status.converged is False
    assert "2 passes" in run.status.sentence
    assert len(run.objective) == run.extra["n_passes"] == 2
    assert np.isfinite(run.state_probability).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"objective": "evidence"}, "objective"),
        ({"acceleration": "fast"}, "acceleration"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"max_iter": True}, "max_iter"),
        ({"starts": 0}, "starts"),
        ({"tolerance": -1e-3}, "tolerance must be"),
        ({"change_tolerance": -1.0}, "change_tolerance must be"),
    ],
)
def test_options_out_of_range(options, word):
    with pytest.raises(EngineError, match=word):
        inference.get("em").settings(**options)


def test_progress_is_told():
    recorder = Recorder()
    run = running.run(crowd(), FLAT, "em", reporter=recorder, starts=2)
    assert [name for name, _ in recorder.tasks] == ["EM, start 1 of 2", "EM, start 2 of 2"]
    assert {total for _, total in recorder.tasks} == {3000}
    assert all("objective" in note for _, note in recorder.updates)
    assert recorder.updates[-1][0] >= 1
    assert run.extra["n_passes"] in {done for done, _ in recorder.updates}


def test_an_interrupt_keeps_the_estimate_so_far():
    recorder = Recorder(raise_at=1)
    run = running.run(
        crowd(n_items=400, labels_per_item=2), FLAT, "em", reporter=recorder, tolerance=0.0, change_tolerance=0.0
    )
    assert run.status.code == "interrupted"
    assert run.status.converged is False
    assert "Interrupted" in run.status.sentence
    assert 0 < len(run.objective) < 3000
    np.testing.assert_allclose(run.state_probability.sum(1), 1)


def test_an_interrupt_of_a_later_start_keeps_the_best():
    recorder = Recorder(once_more=lambda told: len(told.tasks) > 1)
    run = running.run(crowd(), FLAT, "em", reporter=recorder, starts=5)
    assert run.status.code == "interrupted"
    assert len(run.extra["objective_by_start"]) == 2


def test_an_interrupt_before_the_first_pass_is_an_interrupt():
    class Impatient(Recorder):
        def start(self, task, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run(crowd(), FLAT, "em", reporter=Impatient())


def test_a_start_where_the_classes_are_swapped_is_followed():
    labels = crowd(seed=9, n_classes=2)
    forward = running.run(labels, FLAT, "em", **TIGHT)
    start = 1 - oracle.majority(oracle.of_labels(labels))
    backward = running.run(labels, FLAT, "em", init=start, **TIGHT)
    np.testing.assert_allclose(backward.state_probability, forward.state_probability[:, ::-1], atol=1e-7)
    np.testing.assert_allclose(backward.points["confusion"], forward.points["confusion"][:, ::-1], atol=1e-6)


@pytest.mark.slow
def test_the_evidence_of_a_million_labels_is_exact():
    """P71: float64 sums; the same table a thousand times has a thousand times the log likelihood."""
    labels = crowd(seed=2, n_items=200, n_workers=5, n_classes=2)
    small = running.run(labels, FLAT, "em", max_iter=3, acceleration="none")
    copies = 1000
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    shift = np.repeat(np.arange(copies), len(rows))[:, None] * [[labels.n_items, 0, 0]]
    large = of_rows(np.tile(rows, (copies, 1)) + shift, classes=2)
    run = running.run(large, FLAT, "em", max_iter=3, acceleration="none")
    np.testing.assert_allclose(run.objective, copies * small.objective, rtol=1e-11)
    np.testing.assert_allclose(run.points["confusion"], small.points["confusion"], atol=1e-11)


def test_zero_probabilities_do_not_poison_the_likelihood():
    """P30: a confusion entry of exactly zero meets a label that needs it."""
    labels = labels_of(["000", "000", "000", "000", "110", "110", "110", "110", "001"])
    run = running.run(labels, FLAT, "em")
    assert np.isfinite(run.objective).all()
    assert np.isfinite(run.state_probability).all()


@pytest.mark.slow
def test_it_does_not_compile_twice(place):
    """P78: tables of similar size, new labels and new priors share the compiled code; on the host there is none."""
    first, *others = [crowd(seed=seed, n_items=49 + seed % 2, n_workers=5) for seed in range(1, 6)]
    if place == "compiled":
        running.run(first, FLAT, "em")
        running.run(first, bc.DawidSkene(confusion_prior=2.0), "em", objective="posterior")
    else:
        jax.clear_caches()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        for labels in others:
            running.run(labels, FLAT, "em")
            running.run(labels, bc.DawidSkene(confusion_prior=3.0), "em", objective="posterior")
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


MODELS = [bc.DawidSkene(), bc.IDBLA(), bc.FixedIDBLA(), Guessing(), Subtypes()]


@pytest.mark.parametrize("objective", ["likelihood", "posterior"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@on_the_host
def test_the_host_takes_the_steps_of_the_compiled_passes(model, objective, monkeypatch):
    labels = dressed(crowd(n_items=40, n_workers=4), weights=True, gold=True, repeats=True)
    labels = of_rows_twice(labels)
    priors = {name: 2.0 for name in ("prevalence_prior", "difficulty_prior", "confusion_prior") if hasattr(model, name)}
    model = dataclasses.replace(model, **priors)
    options = {"objective": objective, "tolerance": 0.0, "change_tolerance": 0.0}
    for acceleration, n_passes in (("none", 25), ("squarem", 12)):
        host = running.run(labels, model, "em", acceleration=acceleration, max_iter=n_passes, **options)
        with monkeypatch.context() as patch:
            patch.setattr(em, "host_em", lambda *args, **options: None)
            compiled = running.run(labels, model, "em", acceleration=acceleration, max_iter=n_passes, **options)
        np.testing.assert_allclose(host.objective, compiled.objective, rtol=1e-11)
        np.testing.assert_allclose(host.state_probability, compiled.state_probability, atol=1e-8)
        for name, value in host.points.items():
            np.testing.assert_allclose(value, compiled.points[name], atol=1e-8)
        assert host.extra["log_likelihood_at_point"] == pytest.approx(
            compiled.extra["log_likelihood_at_point"], rel=1e-9
        )
        assert host.status == compiled.status


def of_rows_twice(labels):
    """Every item of a table again under another name, so that patterns gain."""
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    n_items = labels.n_items
    gold = {i + shift: int(c) for i, c in enumerate(labels.gold_code) if c >= 0 for shift in (0, n_items)}
    return of_rows(
        np.concatenate([rows, rows + [[n_items, 0, 0]]]),
        classes=labels.n_classes,
        items=list(range(2 * n_items)),
        workers=list(labels.workers),
        weight=np.tile(labels.weight, 2),
        gold=gold,
    )


@on_the_host
def test_models_that_look_at_the_item_are_compiled(monkeypatch):
    """A prior of its own for each item: nothing is gained by items that look alike."""
    chosen = []
    kept = em._compiled
    monkeypatch.setattr(em, "_compiled", lambda job: chosen.append(job) or kept(job))
    run = running.run(crowd(), Groups(), "em")
    assert len(chosen) == 1
    assert run.status.code == "converged"


@on_the_host
def test_on_an_accelerator_large_tables_are_compiled(monkeypatch):
    labels = crowd()
    monkeypatch.setattr(_host_em.jax, "default_backend", lambda: "gpu")
    assert _host_em.host_em(FLAT, labels, posterior=False, accelerate=True) is not None
    monkeypatch.setattr(_host_em, "_MANY", 10)
    assert _host_em.host_em(FLAT, labels, posterior=False, accelerate=True) is None
