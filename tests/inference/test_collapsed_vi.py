"""Collapsed variational inference: against exact posteriors and the exact mean-field update."""

from __future__ import annotations

import functools

import jax
import numpy as np
import oracle
import pairwise
import pytest
import running
from conformance import exact
from conformance.cases import CASES, golden
from conformance.toys import Ability, Guessing
from running import D1, Recorder, labels_of, of_rows

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference.starts import resolve

BCC = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
FIXED = bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0, easy_error=0.1, hard_error=0.5)
TIGHT = {"tolerance": 1e-11, "max_iter": 5000}
MOMENTS = ("zero", "second", "zero-split")


def two(labels):
    """IDBLA whose levels differ by their priors."""
    prior = exact.by_level(labels.n_classes, len(labels.label_values))
    return bc.IDBLA(n_levels=2, prevalence_prior=2.0, confusion_prior=prior)


MODELS = {"bcc": lambda _: BCC, "two": two, "fixed": lambda _: FIXED}


def whole(labels):
    """The same labels with whole weights."""
    if labels.weight is None:
        return labels
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    gold = {i: c for i, c in enumerate(labels.gold_code) if c >= 0}
    more = {"items": list(labels.items), "workers": list(labels.workers), "label_values": len(labels.label_values)}
    return of_rows(rows, classes=labels.n_classes, weight=np.ceil(labels.weight), gold=gold, **more)


def crowd(seed=0, n_items=20, n_classes=3, **more):
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    return bc.simulate(model, n_items=n_items, n_workers=6, classes=n_classes, seed=seed, **more).labels


def noise():
    """Labels that mean nothing, so that there are many modes; as many as in a crowd."""
    rng = np.random.default_rng(3)
    return of_rows([(i, k, rng.integers(3)) for i in range(20) for k in range(6)], classes=3)


@functools.cache
def fitted(name, case="golden", moments="zero-split", family="joint"):
    labels = whole(CASES[case]())
    return running.run(labels, MODELS[name](labels), "collapsed-vi", moments=moments, family=family, **TIGHT)


@functools.cache
def known(name, case="golden"):
    labels = whole(CASES[case]())
    return exact.posterior(MODELS[name](labels), labels)


def marginals(state_probability, n_classes):
    """Class [item, class] and level [item, level] probabilities."""
    by_level = state_probability.reshape(len(state_probability), -1, n_classes)
    return by_level.sum(1), by_level.sum(2)


_AT_ONCE = {("golden", moments) for moments in MOMENTS}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("case", "moments"),
    [
        pytest.param(case, moments, marks=() if (case, moments) in _AT_ONCE else pytest.mark.slow)
        for case in CASES
        for moments in (MOMENTS if case in ("golden", "everything") else ("zero-split",))
    ],
)
def test_probabilities_are_near_the_exact_ones(name, case, moments):
    """Holes, repeats, gold, a class that nobody uses: within .15; and the bound below the evidence."""
    run, truth = fitted(name, case, moments), known(name, case)
    assert run.status.code == "converged"
    classes, levels = marginals(run.state_probability, truth.class_probability.shape[1])
    assert np.abs(classes - truth.class_probability).max() < 0.15
    assert np.abs(levels - truth.level_probability).max() < 0.15
    assert run.extra["bound"] < truth.log_evidence


@functools.cache
def mean_field(name):
    """The exact mean-field update on the golden table, expectations by convolution, to its fixpoint."""
    labels = golden()
    model = MODELS[name](labels)
    found, change = pairwise.fixpoint(pairwise.usage(model, labels), resolve("majority", labels, model), "exact")
    assert change < 1e-9
    return found


@pytest.mark.parametrize("name", MODELS)
def test_zero_split_is_nearest_to_the_exact_mean_field_update(name):
    """What is approximated is the mean-field update, whose own distance from the posterior is another matter."""
    target = mean_field(name)
    gap = {moments: np.abs(fitted(name, moments=moments).state_probability - target).max() for moments in MOMENTS}
    assert gap["zero-split"] < gap["zero"] / 4
    assert gap["zero-split"] < gap["second"] / 2
    assert gap["zero-split"] < 0.0015
    assert gap["zero"] < 0.02


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("moments", MOMENTS)
def test_the_fixpoint_is_that_of_sums_over_pairs(name, moments):
    labels = golden()
    model = MODELS[name](labels)
    used = pairwise.usage(model, labels)
    found, _ = pairwise.fixpoint(used, resolve("majority", labels, model), moments)
    run = fitted(name, moments=moments)
    np.testing.assert_allclose(run.state_probability, found, atol=1e-8)
    assert run.extra["bound"] == pytest.approx(pairwise.implied_bound(used, found), abs=1e-8)
    assert run.objective[-1] == run.extra["bound"]


@pytest.mark.slow
def test_factorised_is_a_product_lower_in_bound_and_farther_off():
    for name in ("two", "fixed"):
        joint, apart = fitted(name), fitted(name, family="factorised")
        classes, levels = marginals(apart.state_probability, 2)
        product = levels[:, :, None] * classes[:, None, :]
        np.testing.assert_allclose(apart.state_probability.reshape(product.shape), product, atol=1e-12)
        assert apart.extra["bound"] < joint.extra["bound"]
        gap = lambda run: np.abs(run.state_probability - known(name).state_probability).max()  # noqa: B023
        assert gap(joint) < gap(apart) < 0.3


@pytest.mark.parametrize("family", ["factorised", pytest.param("joint", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_one_level_is_dawid_skene(family):
    labels = crowd()
    options = {"family": family, "max_iter": 60, "tolerance": 0.0}
    one = running.run(labels, bc.DawidSkene(), "collapsed-vi", **options)
    other = running.run(labels, bc.IDBLA(n_levels=1), "collapsed-vi", **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-12)
    for name in ("prevalence", "confusion"):
        np.testing.assert_allclose(one.concentrations[name], other.concentrations[name], rtol=1e-12)
    np.testing.assert_allclose(one.objective, other.objective, rtol=1e-12)
    if family == "factorised":
        joint = running.run(labels, bc.DawidSkene(), "collapsed-vi", **(options | {"family": "joint"}))
        np.testing.assert_allclose(joint.state_probability, one.state_probability, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"family": "mean-field"}, "family"),
        ({"moments": "first"}, "moments"),
        ({"moments": "paper"}, "family='factorised'"),
        ({"max_iter": 0}, "max_iter"),
        ({"starts": 1.5}, "starts"),
        ({"draws": True}, "draws"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"damping": 1.0}, "damping"),
        ({"damping": -0.1}, "damping"),
        ({"damping": "much"}, "damping"),
    ],
)
def test_options_out_of_range(options, word):
    with pytest.raises(EngineError, match=word):
        inference.get("collapsed-vi").settings(**options)


def test_models_that_do_not_fit_are_refused_by_name():
    with pytest.raises(EngineError, match="ability"):
        running.run(golden(), Ability(), "collapsed-vi")
    with pytest.raises(EngineError, match=r"guessing.*vb.*gibbs.*em"):
        running.run(golden(), Guessing(), "collapsed-vi")


def test_fractional_weights_need_moments_zero():
    labels = CASES["weighted"]()
    for moments in ("second", "zero-split"):
        with pytest.raises(EngineError, match="moments='zero'"):
            running.run(labels, BCC, "collapsed-vi", moments=moments)
    run = running.run(labels, BCC, "collapsed-vi", moments="zero", **TIGHT)
    truth = exact.posterior(BCC, labels)
    assert np.abs(run.state_probability - truth.class_probability).max() < 0.15
    assert run.extra["bound"] < truth.log_evidence
    assert run.concentrations["confusion"].sum() == pytest.approx(3 * 6 + labels.weight.sum())


@pytest.mark.slow
@pytest.mark.parametrize("moments", ["zero", "zero-split"])
def test_weight_two_is_a_repeated_row(moments):
    labels = crowd(n_items=20, labels_per_item=(2, 5))
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    twice = np.random.default_rng(1).random(len(rows)) < 0.4
    more = {"classes": 3, "items": list(range(20))}
    one = running.run(of_rows(rows, weight=1.0 + twice, **more), two(labels), "collapsed-vi", moments=moments, **TIGHT)
    again = of_rows(np.concatenate([rows, rows[twice]]), **more)
    other = running.run(again, two(labels), "collapsed-vi", moments=moments, **TIGHT)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=1e-9)


TUG = labels_of(["00000", "00000"])
"""Two items alike: whatever one says of itself, the other wants to be."""
APART = np.array([[0.9, 0.1], [0.1, 0.9]])


def test_two_passes_that_undo_each_other_are_damped():
    model = bc.DawidSkene(confusion_prior=0.3)
    for moments in ("zero-split", "zero"):
        run = running.run(TUG, model, "collapsed-vi", init=APART, moments=moments)
        assert run.status.code == "converged"
        assert run.extra["damping"] == 0.5
        assert any("undid each other" in text for text in run.warnings)
        np.testing.assert_allclose(run.state_probability[0], run.state_probability[1], atol=1e-3)


def test_damping_by_hand_is_no_news():
    model = bc.DawidSkene(confusion_prior=0.3)
    run = running.run(TUG, model, "collapsed-vi", init=APART, moments="zero", damping=0.6)
    assert run.extra["damping"] == 0.6
    assert run.warnings == ()
    same = running.run(golden(), BCC, "collapsed-vi", damping=0.3, **TIGHT)
    np.testing.assert_allclose(same.state_probability, fitted("bcc").state_probability, atol=1e-8)


def test_a_few_passes_are_told():
    run = running.run(crowd(), BCC, "collapsed-vi", max_iter=2)
    assert run.status.code == "max-iterations"
    assert "2 passes" in run.status.sentence
    assert run.extra["n_passes"] == 2
    np.testing.assert_allclose(run.state_probability.sum(1), 1)


def test_several_starts_keep_the_best_bound():
    labels = noise()
    model = bc.DawidSkene(confusion_prior=0.1)
    run = running.run(labels, model, "collapsed-vi", starts=5)
    bounds = run.extra["objective_by_start"]
    assert len(bounds) == 5
    assert len({round(value, 3) for value in bounds}) > 1
    assert run.extra["best_start"] == int(np.argmax(bounds))
    assert run.extra["bound"] == max(bounds) == run.objective[-1]
    alone = running.run(labels, model, "collapsed-vi")
    assert bounds[0] == alone.extra["bound"]
    again = running.run(labels, model, "collapsed-vi", starts=5)
    np.testing.assert_array_equal(again.state_probability, run.state_probability)
    np.testing.assert_array_equal(again.draws["confusion"], run.draws["confusion"])
    other = running.run(labels, model, "collapsed-vi", starts=5, seed=1)
    assert other.extra["objective_by_start"][0] == bounds[0]
    assert other.extra["objective_by_start"][1:] != bounds[1:]


def test_the_posterior_of_the_tables():
    """Prior plus expected counts; draws are from it, independent of each other."""
    run = fitted("two")
    used = pairwise.usage(two(golden()), golden())
    alpha = used.alpha + np.einsum("is,ise->e", run.state_probability, used.entry)
    found = np.concatenate([run.concentrations[name].ravel() for name in used.tables.names])
    np.testing.assert_allclose(found, alpha, rtol=1e-9)
    assert run.independent
    assert run.points is None
    for name, value in run.concentrations.items():
        draws = run.draws[name]
        assert draws.shape == (1, 1000, *value.shape)
        np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-9)
        mean = value / value.sum(-1, keepdims=True)
        error = np.sqrt(mean * (1 - mean) / (value.sum(-1, keepdims=True) + 1) / 1000)
        assert (np.abs(draws[0].mean(0) - mean) < 4.5 * error).all()


def test_an_interrupt_keeps_the_approximation_so_far():
    run = running.run(crowd(), BCC, "collapsed-vi", reporter=Recorder(raise_at=1), tolerance=0.0)
    assert run.status.code == "interrupted"
    assert run.status.converged is False
    assert run.extra["n_passes"] <= 64
    np.testing.assert_allclose(run.state_probability.sum(1), 1)


def test_progress_is_told():
    recorder = Recorder()
    running.run(golden(), BCC, "collapsed-vi", reporter=recorder, starts=2)
    assert [name for name, _ in recorder.tasks] == [f"collapsed variational inference, start {k} of 2" for k in (1, 2)]
    assert {total for _, total in recorder.tasks} == {inference.get("collapsed-vi").settings().max_iter}
    assert all("bound" in note for _, note in recorder.updates)


def rows_of(labels):
    return np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)


@pytest.mark.parametrize("name", ["bcc", pytest.param("levels", marks=pytest.mark.slow)])
def test_P44_names_and_order_carry_no_information(name):
    model = BCC if name == "bcc" else bc.IDBLA(n_levels=2)
    rows = rows_of(labels_of(D1))
    more = {"items": list("abcde"), "workers": list("uvw")}
    one = running.run(of_rows(rows, **more), model, "collapsed-vi", **TIGHT)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        items, workers, classes = rng.permutation(5), rng.permutation(3), rng.permutation(2)
        other = np.stack([items[rows[:, 0]], workers[rows[:, 1]], classes[rows[:, 2]]], axis=1)
        run = running.run(of_rows(rng.permutation(other), **more), model, "collapsed-vi", seed=seed, **TIGHT)
        found = run.state_probability.reshape(5, -1, 2)[items][:, :, classes]
        np.testing.assert_allclose(found, one.state_probability.reshape(5, -1, 2), atol=1e-6)
        table = run.concentrations["confusion"][workers][..., classes, :][..., classes]
        np.testing.assert_allclose(table, one.concentrations["confusion"], atol=1e-5)


def test_a_class_nobody_uses_and_a_worker_nobody_knows():
    rows = rows_of(crowd())
    more = {"items": list(range(20))}
    options = {"workers": list(range(6)), **more}
    one = running.run(of_rows(rows, classes=3, **options), BCC, "collapsed-vi", **TIGHT)
    idle = running.run(of_rows(rows, classes=3, workers=list(range(8)), **more), BCC, "collapsed-vi", **TIGHT)
    np.testing.assert_allclose(one.state_probability, idle.state_probability, atol=1e-10)
    np.testing.assert_array_equal(idle.concentrations["confusion"][6], oracle.diagonal(3, 3, 2, 1))
    wide = running.run(of_rows(rows, classes=4, **options), BCC, "collapsed-vi", **TIGHT)
    assert wide.state_probability.shape == (20, 4)
    assert wide.concentrations["prevalence"].shape == (4,)
    assert (wide.state_probability[:, 3] > 0).all()
    assert wide.state_probability[:, 3].max() < 0.2


def test_it_does_not_compile_twice():
    first, *others = [crowd(seed=seed, n_items=19 + seed % 2) for seed in range(1, 4)]
    running.run(first, BCC, "collapsed-vi")
    running.run(first, bc.DawidSkene(confusion_prior=2.0), "collapsed-vi")
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        for labels in others:
            running.run(labels, BCC, "collapsed-vi")
            running.run(labels, bc.DawidSkene(confusion_prior=3.0), "collapsed-vi", damping=0.1, tolerance=1e-6)
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


@pytest.mark.parametrize("engine", ["collapsed-vi", pytest.param("vb", marks=pytest.mark.slow)])
def test_fixed_levels_never_move(engine):
    labels = crowd()
    model = bc.FixedIDBLA(easy_error=0.03, hard_error=0.5)
    fit = bc.fit(labels, model, engine=engine)
    for level, error in (("easy", 0.03), ("hard", 0.5)):
        table = oracle.diagonal(3, 3, 1 - error, error / 2)
        for worker in fit.labels.workers:
            np.testing.assert_allclose(fit.confusion(worker, difficulty=level), table, atol=1e-6)
    free = fit.confusion(fit.labels.workers[0], difficulty="free1")
    assert np.abs(free - oracle.diagonal(3, 3, 0.97, 0.015)).to_numpy().max() > 0.01


@pytest.mark.slow
def test_priors_by_worker_take_exact_sizes():
    labels = golden()
    table = np.broadcast_to(oracle.diagonal(2, 2, 2, 1), (3, 2, 2)).copy()
    run = running.run(labels, bc.DawidSkene(confusion_prior=table), "collapsed-vi", **TIGHT)
    np.testing.assert_allclose(run.state_probability, fitted("bcc").state_probability, atol=1e-9)
    table[1] += 1
    truth = exact.posterior(bc.DawidSkene(confusion_prior=table[:, None]), labels)
    run = running.run(labels, bc.DawidSkene(confusion_prior=table), "collapsed-vi", **TIGHT)
    assert np.abs(run.state_probability - truth.class_probability).max() < 0.15


def test_damping_does_not_look_like_convergence():
    """Steps that damping makes small are measured undamped: the fit takes more passes, and ends in the same place."""
    free = running.run(golden(), BCC, "collapsed-vi", tolerance=1e-6)
    slow = running.run(golden(), BCC, "collapsed-vi", tolerance=1e-6, damping=0.99, max_iter=20_000)
    assert slow.status.code == "converged"
    np.testing.assert_allclose(slow.state_probability, free.state_probability, atol=1e-5)
