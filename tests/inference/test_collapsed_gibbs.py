"""Collapsed Gibbs sampling: draws from the tables' Dirichlets, memory, labels laid out in segments.

What it has in common with the other Gibbs sampler is in test_sweeps.py, its exactness in the conformance tests.
"""

from __future__ import annotations

import tracemalloc

import jax
import numpy as np
import oracle
import pytest
import running
import scipy.stats
from conformance import exact
from conformance.cases import CASES, d1
from conformance.toys import Guessing
from running import Recorder

import bayescrowd as bc
from bayescrowd.errors import EngineError
from bayescrowd.inference import _sweeps, get
from bayescrowd.inference._sequence import Laid
from bayescrowd.inference.base import Job
from bayescrowd.kernels.precision import double_precision

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
TWO = bc.IDBLA(n_levels=2, prevalence_prior=2.0, difficulty_prior=1.0, confusion_prior=exact.LEVELS)
SMALL = {"chains": 2, "warmup": 20, "draws": 60}


def test_lp_averages_to_the_evidence():
    """lp is log p(labels, states): the mean of its reciprocal over the posterior is 2^5 states over the evidence."""
    labels = d1()
    run = running.run(labels, R31, "collapsed-gibbs", chains=4, warmup=100, draws=2000, keep=2000, seed=1)
    lp = run.sample_stats["lp"]
    known = oracle.posterior(oracle.of_labels(labels)).log_evidence
    reciprocal = np.exp(-lp) / 2**5
    found = -np.log(reciprocal.mean())
    error = exact.mcse(reciprocal[..., None])[0] / reciprocal.mean()
    assert abs(found - known) < 4 * error
    assert (lp < known).all()


def test_draws_are_from_the_dirichlets_of_the_counts():
    """A worker without labels keeps the prior; the streamed mean and deviation of its row are the prior's own."""
    labels = CASES["holes"]()
    run = running.run(labels, R31, "collapsed-gibbs", chains=4, warmup=50, draws=500)
    idle = run.draws["confusion"][:, :, 3, 0, 0].ravel()
    assert scipy.stats.kstest(idle, scipy.stats.beta(3, 2).cdf).pvalue > 0.001
    np.testing.assert_allclose(run.points["confusion"][3, 0, 0], 0.6, atol=1e-12)
    expected = np.sqrt(0.6 * 0.4 / 6)
    np.testing.assert_allclose(run.deviations["confusion"][3, 0, 0], expected, atol=1e-12)


def test_streamed_means_are_those_of_all_sweeps():
    """Given the counts, the mean of every Dirichlet: closer to the truth than the mean of the draws."""
    run = running.run(d1(), R31, "collapsed-gibbs", chains=4, warmup=100, draws=4000, keep=100, seed=3)
    known = oracle.posterior(oracle.of_labels(d1()))
    np.testing.assert_allclose(run.points["prevalence"], known.prevalence, atol=0.01)
    np.testing.assert_allclose(run.points["confusion"], known.confusion[:, 0], atol=0.01)
    np.testing.assert_allclose(run.state_probability, known.class_probability, atol=0.015)


@pytest.mark.parametrize("case", ["weighted", "everything"])
def test_counts_do_not_drift(case):
    """After thousands of sweeps the rows' sums are the priors plus the labels' weights, to the last digits."""
    labels = CASES[case]()
    model = bc.DawidSkene(confusion_prior=0.01)
    run = running.run(labels, model, "collapsed-gibbs", chains=1, warmup=10, draws=20_000, keep=0)
    for value in run.points.values():
        np.testing.assert_allclose(value.sum(-1), 1, atol=1e-9)
        assert (value > 0).all()
    assert np.isfinite(run.state_probability).all()


def test_memory_does_not_grow_with_sweeps():
    labels = d1()
    options = {"chains": 2, "warmup": 10}
    running.run(labels, R31, "collapsed-gibbs", draws=100, keep=10, **options)

    def peak(draws, keep):
        tracemalloc.start()
        running.run(labels, R31, "collapsed-gibbs", draws=draws, keep=keep, **options)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(1000, 10), peak(20_000, 10)
    assert many < 1.5 * few + 2**18


def test_draws_that_are_kept_are_bounded():
    job = Job(R31, d1(), None, get("collapsed-gibbs").settings(draws=10**6, keep=10**6), 0, Recorder())
    n_entries = 2 * 10**5
    schedule = _sweeps.Schedule(job, n_entries)
    assert schedule.n_kept * job.settings.chains * n_entries * 8 <= _sweeps.DRAWS_LIMIT
    assert schedule.every * schedule.n_kept >= 10**6
    assert len(schedule.notes()) == 1
    small = _sweeps.Schedule(job._replace(settings=get("gibbs").settings(draws=1001, keep=1000)), 10)
    assert small.every == 2
    assert not small.notes()


def test_a_worker_who_labelled_an_item_twice_with_several_ways():
    with pytest.raises(EngineError, match=r"'guessing'.*2 ways.*engine='gibbs', or duplicates='first'"):
        running.run(CASES["repeats"](), Guessing(), "collapsed-gibbs", **SMALL)
    weighted = running.of_rows([(0, 0, 1), (1, 0, 0)], weight=[2.0, 1.0])
    with pytest.raises(EngineError, match="guessing"):
        running.run(weighted, Guessing(), "collapsed-gibbs", **SMALL)


def laid(labels, model=R31):
    settings = get("collapsed-gibbs").settings()
    return Laid(Job(model, labels, None, settings, 0, Recorder()))


def test_what_is_plain():
    """One label of weight 1 by each worker on each item is the fast case; all else takes rising factorials."""
    assert laid(d1()).design.own == "apart"
    assert laid(d1()).design.whole
    assert laid(CASES["repeats"]()).design.own == "listed"
    assert laid(CASES["repeats"]()).design.whole
    assert not laid(CASES["weighted"]()).design.unit
    assert not laid(CASES["weighted"]()).design.whole


def test_every_label_lies_in_one_place():
    rng = np.random.default_rng(1)
    rows = [(i, int(k), int(rng.integers(3))) for i in range(300) for k in rng.choice(40, 1 + i % 17, replace=False)]
    labels = running.of_rows(rows, classes=3)
    one = laid(labels)
    n_cells = one.arrays.n_cells
    assert len(one.segments) > 1
    cells = np.concatenate([segment.cell[segment.cell < n_cells] for segment in one.segments])
    worker, label = np.asarray(one.arrays.cell_worker), np.asarray(one.arrays.cell_label)
    found = np.sort(worker[cells] * 3 + label[cells])
    np.testing.assert_array_equal(found, np.sort(labels.worker_code * 3 + labels.label_code))
    assert sum(len(segment.gold) for segment in one.segments) == 300


def test_segments_and_chains_begin_where_the_start_says():
    rng = np.random.default_rng(1)
    rows = [(i, int(k), int(rng.integers(2))) for i in range(60) for k in rng.choice(20, 1 + i % 9, replace=False)]
    labels = running.of_rows(rows)
    start = np.eye(2)[rng.integers(0, 2, 60)]
    with double_precision():
        one = laid(labels)
        chains = one.begin(start, [np.random.default_rng(k) for k in range(2)])
        state = np.concatenate([np.asarray(part) for part in chains.state], axis=1)
        item = np.asarray(one.arrays.item_of_row)[:60]
        np.testing.assert_array_equal(state, np.broadcast_to(start.argmax(1)[item], (2, 60)))
        counts = one.tables.unflatten(np.asarray(chains.counts)[0, : len(one.alpha)] - one.alpha)
    expected = np.zeros((20, 2, 2))
    np.add.at(expected, (labels.worker_code, start.argmax(1)[labels.item_code], labels.label_code), 1)
    np.testing.assert_array_equal(counts["confusion"], expected)
    np.testing.assert_array_equal(counts["prevalence"], start.sum(0))


@pytest.mark.slow
def test_long_and_short_items_in_several_segments_agree_with_the_other_sampler():
    rng = np.random.default_rng(2)
    made = bc.simulate(
        bc.DawidSkene(confusion_prior=bc.diagonal(6, 1)),
        n_items=120,
        n_workers=12,
        classes=2,
        labels_per_item=(1, 12),
        seed=3,
    )
    assert len(laid(made.labels).segments) > 1
    model = bc.DawidSkene(confusion_prior=bc.diagonal(6, 1))
    options = {"chains": 2, "warmup": 100, "draws": 1000, "keep": 0, "seed": int(rng.integers(9))}
    one = running.run(made.labels, model, "collapsed-gibbs", **options)
    other = running.run(made.labels, model, "gibbs", **options)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=0.06)
    np.testing.assert_allclose(one.points["confusion"], other.points["confusion"], atol=0.03)


def test_single_precision_outside_is_left_alone():
    running.run(d1(), R31, "collapsed-gibbs", **SMALL)
    assert not jax.config.jax_enable_x64
