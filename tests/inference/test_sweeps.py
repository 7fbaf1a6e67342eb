"""What the two Gibbs samplers share: threads, seeds, what is kept, progress, interrupts, memory."""

from __future__ import annotations

import concurrent.futures
import threading

import jax
import numpy as np
import oracle
import pytest
import running
from conformance import checks
from conformance.cases import CASES, d1
from conformance.toys import Ability, Guessing
from running import Recorder

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference import _sweeps
from bayescrowd.inference.base import Job, conditional
from bayescrowd.inference.starts import resolve

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
TWO = bc.IDBLA(n_levels=2)
SMALL = {"chains": 2, "warmup": 20, "draws": 60}
ENGINES = ["gibbs", "collapsed-gibbs"]
SCHEMES = {"gibbs": ("blocked", "single"), "collapsed-gibbs": ("joint", "single")}
both = pytest.mark.parametrize("engine", ENGINES)


def same(one, other):
    np.testing.assert_array_equal(one.state_probability, other.state_probability)
    np.testing.assert_array_equal(one.state_probability_by_chain, other.state_probability_by_chain)
    for name, value in one.points.items():
        np.testing.assert_array_equal(value, other.points[name])
    for name, value in one.deviations.items():
        np.testing.assert_array_equal(value, other.deviations[name])


def same_draws(one, other):
    for name, value in one.draws.items():
        np.testing.assert_array_equal(value, other.draws[name])
    np.testing.assert_array_equal(one.log_likelihood, other.log_likelihood)
    np.testing.assert_array_equal(one.sample_stats["lp"], other.sample_stats["lp"])


@both
def test_shapes_and_what_the_draws_say(engine):
    run = running.run(d1(), TWO, engine, chains=3, warmup=20, draws=50)
    assert run.draws["prevalence"].shape == (3, 50, 2)
    assert run.draws["difficulty_prevalence"].shape == (3, 50, 2)
    assert run.draws["confusion"].shape == (3, 50, 3, 2, 2, 2)
    assert run.log_likelihood.shape == (3, 50, 5)
    assert run.state_probability.shape == (5, 4)
    assert run.state_probability_by_chain.shape == (3, 5, 4)
    assert run.sample_stats["lp"].shape == (3, 50)
    assert run.status.code == "sampled"
    assert run.status.converged is None
    assert "3 chains of 50 sweeps" in run.status.sentence
    assert run.objective is None
    assert not run.independent
    for value in run.draws.values():
        assert value.dtype == np.float64
        assert ((value > 0) & (value < 1)).all()
    for name in ("prevalence", "difficulty_prevalence", "confusion"):
        np.testing.assert_allclose(run.draws[name].sum(-1), 1, atol=1e-12)
        np.testing.assert_allclose(run.points[name].sum(-1), 1, atol=1e-12)
    points = {name: value[1, 7] for name, value in run.draws.items()}
    np.testing.assert_allclose(run.log_likelihood[1, 7], conditional(TWO, points, d1())[1], atol=1e-11)
    np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(run.state_probability, run.state_probability_by_chain.mean(0), atol=1e-12)


@pytest.mark.slow
@both
@pytest.mark.slow
def test_P87_fifty_thousand_draws_are_within_a_hundredth(engine):
    exact = oracle.posterior(oracle.of_labels(d1()))
    run = running.run(d1(), R31, engine, chains=4, warmup=500, draws=12_500, keep=500, seed=87)
    np.testing.assert_allclose(run.state_probability, exact.class_probability, atol=0.01)
    for name, value in {"prevalence": exact.prevalence, "confusion": exact.confusion[:, 0]}.items():
        np.testing.assert_allclose(run.points[name], value, atol=0.01)


@both
def test_the_same_seed_gives_the_same_bits(engine):
    one = running.run(d1(), TWO, engine, seed=3, **SMALL)
    again = running.run(d1(), TWO, engine, seed=3, **SMALL)
    same(one, again)
    same_draws(one, again)
    other = running.run(d1(), TWO, engine, seed=4, **SMALL)
    assert not np.array_equal(one.draws["prevalence"], other.draws["prevalence"])
    assert len(np.unique(one.draws["prevalence"][:, 0, 0])) == 2


@both
@pytest.mark.parametrize("scheme", [0, 1])
def test_what_is_kept_changes_no_number(engine, scheme):
    options = SMALL | {"scheme": SCHEMES[engine][scheme], "seed": 5}
    every = running.run(d1(), TWO, engine, keep=1000, **options)
    some = running.run(d1(), TWO, engine, keep=20, **options)
    none = running.run(d1(), TWO, engine, keep=0, **options)
    same(every, some)
    same(every, none)
    assert some.draws["prevalence"].shape == (2, 20, 2)
    if engine == "gibbs":  # the collapsed sampler draws its tables for the sweeps that are kept alone
        np.testing.assert_array_equal(some.draws["confusion"], every.draws["confusion"][:, 2::3])
    assert none.draws is None
    assert none.log_likelihood is None
    assert none.sample_stats is None
    assert none.points.keys() == every.points.keys() == every.draws.keys()
    assert any("keep=0" in note for note in none.warnings)
    assert every.extra["n_sweeps"] == some.extra["n_sweeps"] == none.extra["n_sweeps"] == 60


@both
def test_a_number_of_draws_that_does_not_divide(engine):
    run = running.run(d1(), R31, engine, chains=3, warmup=7, draws=23, keep=5)
    assert run.draws["prevalence"].shape == (3, 5, 2)
    assert run.extra["n_sweeps"] == 23


@both
def test_no_warmup_and_one_chain(engine):
    run = running.run(d1(), R31, engine, chains=1, warmup=0, draws=30)
    assert run.draws["prevalence"].shape == (1, 30, 2)
    assert run.extra["largest_spread_of_means"] is None
    assert np.isfinite(run.state_probability).all()


@both
def test_the_number_of_cores_does_not_matter(engine, monkeypatch):
    """Groups of chains are made of the number of chains alone, and one after the other they give the same bits."""
    one = running.run(d1(), TWO, engine, chains=3, warmup=10, draws=20)

    class InTurn(concurrent.futures.ThreadPoolExecutor):
        def __init__(self, workers):
            super().__init__(1)

    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", InTurn)
    same_draws(one, running.run(d1(), TWO, engine, chains=3, warmup=10, draws=20))
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert [len(chains) for chains in _sweeps.groups_of(5)] == [2, 3]
    assert [list(chains) for chains in _sweeps.groups_of(1)] == [[0]]


@both
def test_two_fits_in_two_threads(engine):
    alone = [running.run(d1(), TWO, engine, seed=seed, **SMALL) for seed in (1, 2)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(running.run, d1(), TWO, engine, seed=seed, **SMALL) for seed in (1, 2)]
    for one, job in zip(alone, jobs, strict=True):
        same(one, job.result())
        same_draws(one, job.result())


@both
def test_progress_is_told(engine):
    recorder = Recorder()
    running.run(d1(), R31, engine, chains=2, warmup=100, draws=900, keep=0, reporter=recorder)
    name = {"gibbs": "Gibbs", "collapsed-gibbs": "collapsed Gibbs"}[engine]
    assert recorder.tasks == [("compiling", 2000), (f"{name}, 2 chains", 2000)]
    counts = [done for done, _ in recorder.updates]
    assert counts == sorted(counts)
    assert counts[-1] == 2000
    assert {note for _, note in recorder.updates} == {"sweeping"}


def under_way(recorder):
    """All chains are past their warmup."""
    return bool(recorder.updates) and recorder.updates[-1][0] > 2 * 20 + 400


@both
@pytest.mark.parametrize("keep", [0, 100_000])
def test_an_interrupt_keeps_the_sweeps_so_far(engine, keep):
    recorder = Recorder(once_more=under_way)
    options = {"chains": 2, "warmup": 20, "draws": 2_000_000, "keep": keep}
    run = running.run(d1(), R31, engine, reporter=recorder, **options)
    assert run.status.code == "interrupted"
    assert run.status.converged is False
    assert "Interrupted" in run.status.sentence
    assert 0 < run.extra["n_sweeps"] < 2_000_000
    assert "kept" in recorder.tasks[-1][0]
    np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-12)
    if keep:
        n_chains, n_draws = run.draws["prevalence"].shape[:2]
        assert n_chains == 2
        assert n_draws > 0
        assert run.log_likelihood is None or run.log_likelihood.shape == (2, n_draws, 5)
        assert run.sample_stats["lp"].shape == (2, n_draws)
        assert np.isfinite(run.draws["confusion"]).all()
    else:
        assert run.draws is None
        assert np.isfinite(run.points["confusion"]).all()


@both
def test_an_interrupt_during_warmup_is_an_interrupt(engine):
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        running.run(d1(), R31, engine, chains=2, warmup=5_000_000, draws=10, reporter=Recorder(raise_at=1))
    assert threading.active_count() <= before + 1  # nothing sweeps on


@both
def test_chains_that_were_still_warming_up_are_left_out(engine, monkeypatch):
    """Interrupted when one of two groups had begun to draw: its chains are what is left."""
    module = {"gibbs": "gibbs", "collapsed-gibbs": "collapsed_gibbs"}[engine]
    group = __import__(f"bayescrowd.inference.{module}", fromlist=["_Group"])._Group
    gate, original, first = threading.Event(), group.warm, []

    def warm(self, n_sweeps):
        if not first:
            first.append(self)
        if self is not first[0]:
            gate.wait(60)
        original(self, n_sweeps)

    def drawing(recorder):
        found = bool(recorder.updates) and recorder.updates[-1][0] > 500
        if found:
            gate.set()
        return found

    monkeypatch.setattr(group, "warm", warm)
    recorder = Recorder(once_more=drawing)
    run = running.run(d1(), R31, engine, chains=2, warmup=20, draws=2_000_000, keep=0, reporter=recorder)
    assert run.status.code == "interrupted"
    assert run.state_probability_by_chain.shape[0] == 1
    assert any("1 of 2 chains were interrupted during warmup" in note for note in run.warnings)


@both
def test_a_failure_in_a_chain_is_not_swallowed(engine, monkeypatch):
    module = __import__(f"bayescrowd.inference.{engine.replace('-', '_')}", fromlist=["draw"])

    def broken(*arguments):
        raise RuntimeError("broken chain")

    monkeypatch.setattr(module, "draw", broken)
    with pytest.raises(RuntimeError, match="broken chain"):
        running.run(d1(), R31, engine, chains=2, warmup=5, draws=20)


@both
def test_large_samples_are_kept_in_part_and_said_so(engine, monkeypatch):
    whole = running.run(d1(), R31, engine, chains=2, warmup=5, draws=60)
    n_bytes = sum(value.nbytes for value in whole.draws.values())
    monkeypatch.setattr(_sweeps, "DRAWS_LIMIT", n_bytes // 2 + 1)
    monkeypatch.setattr(_sweeps, "LOG_LIKELIHOOD_LIMIT", 100)
    part = running.run(d1(), R31, engine, chains=2, warmup=5, draws=60)
    assert part.draws["confusion"].shape[1] == 30
    assert part.log_likelihood is None
    same(whole, part)
    assert len(part.warnings) >= 1


@both
def test_a_second_call_compiles_nothing(engine):
    running.run(d1(), R31, engine, chains=2, warmup=20, draws=30)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
    )
    try:
        other = bc.DawidSkene(confusion_prior=bc.diagonal(4, 1))
        running.run(d1(), other, engine, chains=2, warmup=30, draws=47, keep=9, seed=9)
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


@both
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"chains": 0}, "chains"),
        ({"warmup": -1}, "warmup"),
        ({"draws": 0}, "draws"),
        ({"draws": 1.5}, "draws"),
        ({"draws": True}, "draws"),
        ({"keep": -1}, "keep"),
        ({"keep": None}, "keep"),
        ({"scheme": "random"}, "scheme"),
    ],
)
def test_options_out_of_range(engine, options, word):
    with pytest.raises(EngineError, match=word):
        inference.get(engine).settings(**options)


@both
def test_a_model_without_routes_is_refused_and_told_what_fits(engine):
    chosen = inference.get(engine)
    with pytest.raises(EngineError, match=rf"engine '{engine}' .*'ability'.*engine='nuts'"):
        chosen.check(Ability(), chosen.settings())


@both
def test_fractional_weights_do_not_go_with_several_ways(engine):
    labels, model = CASES["weighted"](), Guessing()
    with pytest.raises(EngineError, match="guessing"):
        running.run(labels, model, engine, chains=1, warmup=1, draws=1)


@both
def test_tables_at_the_edge(engine):
    """One item, one worker, one label; no label at all on an item; a class alone in its row."""
    one = running.of_rows([(0, 0, 1)])
    alone = running.run(one, TWO, engine, **SMALL)
    np.testing.assert_allclose(alone.state_probability.sum(1), 1, atol=1e-12)
    holes = CASES["holes"]()
    run = running.run(holes, R31, engine, **SMALL)
    by_draw = checks.by_draw(R31, run.draws, holes)
    np.testing.assert_allclose(by_draw[:, :, 3], run.draws["prevalence"], atol=1e-12)


@both
def test_many_more_labels_on_one_item_than_on_the_others(engine):
    """Rows of very different lengths; the counts behind the means add up."""
    rng = np.random.default_rng(0)
    rows = [(0, k, int(rng.random() < 0.7)) for k in range(60)]
    rows += [(i, int(k), int(rng.random() < 0.5)) for i in range(1, 40) for k in rng.choice(60, 2, replace=False)]
    run = running.run(running.of_rows(rows), R31, engine, chains=2, warmup=50, draws=100)
    assert run.state_probability.shape == (40, 2)
    exact = running.run(running.of_rows(rows), R31, "vb")
    assert np.abs(run.state_probability - exact.state_probability).max() < 0.4
    assert run.state_probability[0, 1] > 0.95


def test_the_start_is_where_chains_begin():
    """A start given as probabilities of states is used, by either sampler."""
    labels = d1()
    given = np.tile([0.0, 1.0], (5, 1))
    chosen = inference.get("collapsed-gibbs")
    settings = chosen.settings(chains=1, warmup=0, draws=1)
    job = Job(R31, labels, resolve(given, labels, R31), settings, 0, Recorder())
    run = chosen.run(job)
    # With all five items in class 1 the first of them sees four others there: 5 / 6 before its labels speak.
    assert run.state_probability[0, 1] > 0.5
