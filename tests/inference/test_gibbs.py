"""Gibbs sampling of states and tables in turn: what the draws are, and how labels are shared among ways.

What it has in common with the collapsed sampler is in test_sweeps.py, its exactness in the conformance tests.
"""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import running
import scipy.stats
from conformance import checks
from conformance.cases import CASES, d1
from conformance.toys import Guessing

import bayescrowd as bc
from bayescrowd.inference.base import sizes_of

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
TWO = bc.IDBLA(n_levels=2)
SMALL = {"chains": 2, "warmup": 20, "draws": 60}


@pytest.mark.parametrize("scheme", ["blocked", "single"])
def test_probabilities_are_averages_over_the_draws_that_are_kept(scheme):
    """Every sweep kept: the averages are those of the conditional probabilities given the draws."""
    run = running.run(d1(), TWO, "gibbs", scheme=scheme, **SMALL)
    by_draw = checks.by_draw(TWO, run.draws, d1())
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-12)
    np.testing.assert_allclose(run.state_probability_by_chain, by_draw.mean(1), atol=1e-12)


def test_lp_is_the_log_posterior_density():
    labels = CASES["everything"]()
    run = running.run(labels, R31, "gibbs", **SMALL)
    point = {name: value[1, 33] for name, value in run.draws.items()}
    assert run.sample_stats["lp"][1, 33] == pytest.approx(checks.brute_density(R31, labels, point), abs=1e-9)


def test_the_first_draw_is_where_the_chain_stood_after_warmup():
    """One sweep without warmup gives the dispersed start itself, before anything was learned."""
    run = running.run(d1(), R31, "gibbs", chains=2, warmup=0, draws=1, seed=8)
    longer = running.run(d1(), R31, "gibbs", chains=2, warmup=0, draws=5, seed=8)
    np.testing.assert_array_equal(run.draws["confusion"][:, 0], longer.draws["confusion"][:, 0])
    moved = running.run(d1(), R31, "gibbs", chains=2, warmup=1, draws=4, seed=8)
    np.testing.assert_array_equal(moved.draws["confusion"][:, :4], longer.draws["confusion"][:, 1:5])


def test_without_labels_the_prior_comes_back():
    """A worker without labels, and the class that nobody says, keep their priors."""
    labels = CASES["holes"]()
    run = running.run(labels, R31, "gibbs", chains=4, warmup=50, draws=1000)
    idle = run.draws["confusion"][:, ::5, 3, 0, 0].ravel()
    assert scipy.stats.kstest(idle, scipy.stats.beta(3, 2).cdf).pvalue > 0.001
    np.testing.assert_allclose(run.points["confusion"][3, 0, 0], 0.6, atol=1e-12)
    expected = np.sqrt(0.6 * 0.4 / 6)
    np.testing.assert_allclose(run.deviations["confusion"][3, 0, 0], expected, atol=1e-12)


def test_gold_is_never_left():
    labels = CASES["weighted"]()
    run = running.run(labels, TWO, "gibbs", scheme="single", **SMALL)
    by_class = run.state_probability.reshape(4, 2, 2).sum(1)
    np.testing.assert_allclose(by_class[[0, 3], [0, 1]], 1, atol=1e-12)


@pytest.mark.slow
def test_whole_weights_are_repeats_where_labels_come_about_in_several_ways():
    rows = [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 1, 0)]
    weight = [2.0, 1.0, 3.0, 1.0, 2.0]
    repeated = [row for row, n in zip(rows, weight, strict=True) for _ in range(int(n))]
    one = running.run(running.of_rows(rows, weight=weight), Guessing(), "gibbs", warmup=50, draws=2000, keep=10)
    other = running.run(running.of_rows(repeated), Guessing(), "gibbs", warmup=50, draws=2000, keep=10)
    np.testing.assert_allclose(one.state_probability, other.state_probability, atol=0.03)
    np.testing.assert_allclose(one.points["seen"], other.points["seen"], atol=0.03)


def test_the_labels_of_a_guessing_worker_are_shared_out():
    """Nearly all guesses: the labels say nothing of the worker's own table, which keeps its prior."""
    labels = running.of_rows([(i, 0, i % 2) for i in range(40)])
    run = running.run(labels, Guessing(guess_rate=0.99), "gibbs", chains=2, warmup=50, draws=400)
    np.testing.assert_allclose(run.points["seen"][0, 0, 0], 0.75, atol=0.05)
    seen = running.run(labels, Guessing(guess_rate=1e-6), "gibbs", chains=2, warmup=50, draws=400)
    plain = running.run(labels, R31, "gibbs", chains=2, warmup=50, draws=400)
    np.testing.assert_allclose(seen.points["seen"], plain.points["confusion"], atol=0.06)


def test_one_variable_after_the_other_mixes_more_slowly_but_moves():
    """Class and level of an item both change from sweep to sweep."""
    labels = d1()
    run = running.run(labels, TWO, "gibbs", scheme="single", chains=1, warmup=50, draws=300)
    assert run.draws["difficulty_prevalence"][0, :, 0].std() > 0.05
    assert run.draws["prevalence"][0, :, 0].std() > 0.05


def test_three_classes_and_levels_of_a_larger_crowd():
    """Recovers what made the labels, where there are many."""
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    made = bc.simulate(model, n_items=150, n_workers=6, classes=3, labels_per_item=6, seed=4)
    run = running.run(made.labels, model, "gibbs", chains=2, warmup=100, draws=300)
    exact_truth = oracle.of_labels(made.labels)
    assert exact_truth.n_classes == 3
    truth = made.labels.truth.to_numpy()
    classes = made.labels.classes.to_numpy()
    right = (classes[run.state_probability.argmax(1)] == truth).mean()
    assert right > 0.9
    assert run.draws["confusion"].shape[2:] == (6, 3, 3)
    assert sizes_of(made.labels).n_items == 150
