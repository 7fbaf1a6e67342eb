"""NUTS: against exact answers within its Monte Carlo error, progress, interrupts, starts."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import running
import scipy.special
from arviz_stats.base import array_stats
from conformance import checks
from conformance.cases import d1
from running import Recorder

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.data.arrays import build_arrays
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import conditional
from bayescrowd.inference.points import dispersed
from bayescrowd.inference.starts import majority
from bayescrowd.kernels.precision import double_precision

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def far(draws, exact):
    """Distance of the mean of draws [chain, draw, ...] from the truth, in Monte Carlo standard errors."""
    flat = draws.reshape(*draws.shape[:2], -1)
    error = np.array([array_stats.mcse(flat[..., j], chain_axis=0, draw_axis=1) for j in range(flat.shape[-1])])
    return np.abs(flat.mean((0, 1)) - np.ravel(exact)) / error


@pytest.fixture(scope="module")
def run():
    return running.run(d1(), R31, "nuts", warmup=500, draws=1500, seed=3)


@pytest.fixture(scope="module")
def exact():
    return oracle.posterior(oracle.of_labels(d1()))


def test_the_oracle_gives_the_published_values(exact):
    assert exact.log_evidence == pytest.approx(-11.21866, abs=5e-6)
    np.testing.assert_allclose(exact.class_probability[:, 1], [0.71969, 0.06910, 0.91611, 0.30942, 0.22737], atol=5e-6)
    np.testing.assert_allclose(exact.prevalence, [0.5369, 0.4631], atol=5e-5)


def test_class_probabilities_within_four_standard_errors(run, exact):
    by_draw = checks.by_draw(R31, run.draws, d1())
    assert far(by_draw[..., 1], exact.class_probability[:, 1]).max() < 4
    # What the engine hands out is the average of the conditional probabilities over the draws, not a count of classes.
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-12)
    np.testing.assert_allclose(run.state_probability_by_chain, by_draw.mean(1), atol=1e-12)


def test_parameters_within_four_standard_errors(run, exact):
    assert far(run.draws["prevalence"][..., 0], exact.prevalence[0]).max() < 4
    assert far(run.draws["confusion"][..., 0], exact.confusion[:, 0, :, 0]).max() < 4
    accuracy = np.einsum("sdc,sdkcc->sdk", run.draws["prevalence"], run.draws["confusion"])
    assert far(accuracy, exact.accuracy).max() < 4


def test_the_draws_give_the_evidence(run, exact):
    """Bridge from the prior: E_posterior of 1/likelihood has no variance to speak of on five items."""
    ones = run.log_likelihood.sum(-1)
    harmonic = -(scipy.special.logsumexp(-ones) - np.log(ones.size))
    assert harmonic == pytest.approx(exact.log_evidence, abs=0.15)


def test_the_log_likelihood_of_each_draw(run):
    points = {name: value[1, 7] for name, value in run.draws.items()}
    np.testing.assert_allclose(run.log_likelihood[1, 7], conditional(R31, points, d1())[1], atol=1e-11)


def test_shapes_and_statistics(run):
    assert run.draws["confusion"].shape == (4, 1500, 3, 2, 2)
    assert run.draws["prevalence"].shape == (4, 1500, 2)
    assert run.log_likelihood.shape == (4, 1500, 5)
    assert set(run.sample_stats) == {
        "lp", "energy", "acceptance_rate", "n_steps", "diverging", "step_size", "tree_depth",
    }  # fmt: skip
    for value in run.sample_stats.values():
        assert value.shape == (4, 1500)
        assert np.isfinite(value).all()
    assert run.sample_stats["diverging"].dtype == bool
    assert run.sample_stats["diverging"].mean() < 0.01
    assert 0.6 < run.sample_stats["acceptance_rate"].mean() < 1
    assert (2.0 ** run.sample_stats["tree_depth"] >= run.sample_stats["n_steps"]).all()
    assert len(set(run.sample_stats["step_size"].ravel())) == 4  # adapted once per chain, then held
    assert run.status.code == "sampled"
    assert run.points is None
    assert run.objective is None


@pytest.mark.slow
def test_lp_is_the_density_that_was_walked_on(run):
    points = {name: value[2, 100] for name, value in run.draws.items()}
    (_, _), (energy, _) = checks.potentials(R31, d1(), points)
    assert run.sample_stats["lp"][2, 100] == pytest.approx(-float(energy), abs=1e-9)


def test_chains_begin_dispersed_and_end_alike(run):
    labels = d1()
    with double_precision():
        arrays = build_arrays(labels, pad=False)
        rng = np.random.default_rng(0)
        starts = [dispersed(R31, labels, arrays, majority(labels), rng)["prevalence"][0] for _ in range(200)]
    posterior = run.draws["prevalence"][..., 0]
    assert np.std(starts) > posterior.std()
    rhat = array_stats.rhat(posterior, chain_axis=0, draw_axis=1)
    assert rhat < 1.01


@pytest.mark.slow
def test_the_enumerated_program_has_the_same_posterior(exact):
    run = running.run(d1(), R31, "nuts", likelihood="enumerated", chains=2, warmup=300, draws=1000)
    assert far(checks.by_draw(R31, run.draws, d1())[..., 1], exact.class_probability[:, 1]).max() < 4
    assert far(run.draws["prevalence"][..., 0], exact.prevalence[0]).max() < 4
    points = {name: value[0, 5] for name, value in run.draws.items()}
    (energy, _), _ = checks.potentials(R31, d1(), points)
    assert run.sample_stats["lp"][0, 5] == pytest.approx(-float(energy), abs=1e-9)


def test_the_same_seed_gives_the_same_bits(run):
    again = running.run(d1(), R31, "nuts", warmup=500, draws=1500, seed=3)
    for name, value in run.draws.items():
        np.testing.assert_array_equal(again.draws[name], value)
    np.testing.assert_array_equal(again.state_probability, run.state_probability)
    other = running.run(d1(), R31, "nuts", warmup=500, draws=1500, seed=4)
    assert not np.array_equal(other.draws["prevalence"], run.draws["prevalence"])


def test_one_chain_is_the_same_alone_or_with_others():
    one = running.run(d1(), R31, "nuts", chains=1, warmup=500, draws=120)
    assert one.draws["prevalence"].shape == (1, 120, 2)
    assert np.isfinite(one.state_probability).all()


def test_an_odd_number_of_draws_is_kept_exactly():
    run = running.run(d1(), R31, "nuts", chains=2, warmup=500, draws=73)
    by_draw = checks.by_draw(R31, run.draws, d1())
    assert by_draw.shape[:2] == (2, 73)
    np.testing.assert_allclose(run.state_probability, by_draw.mean((0, 1)), atol=1e-12)


def test_progress_is_told():
    recorder = Recorder()
    running.run(d1(), R31, "nuts", chains=2, warmup=500, draws=200, reporter=recorder)
    assert recorder.tasks[-1] == ("NUTS, 2 chains", 1400)
    counts = [done for done, _ in recorder.updates]
    assert counts == sorted(counts)
    assert counts[-1] <= 1400
    assert {note for _, note in recorder.updates} <= {
        "drawing",
        "1 chains still warming up",
        "2 chains still warming up",
    }


def drawing(recorder):
    return bool(recorder.updates) and recorder.updates[-1][1] == "drawing"


def test_an_interrupt_keeps_the_draws_so_far():
    recorder = Recorder(once_more=drawing)
    run = running.run(d1(), R31, "nuts", chains=2, warmup=500, draws=500_000, reporter=recorder)
    assert run.status.code == "interrupted"
    assert run.status.converged is False
    assert "Interrupted" in run.status.sentence
    n_chains, n_draws = run.draws["prevalence"].shape[:2]
    assert n_chains == 2
    assert 0 < n_draws < 500_000
    assert run.draws["confusion"].shape == (2, n_draws, 3, 2, 2)
    for value in run.sample_stats.values():
        assert value.shape == (2, n_draws)
    assert np.isfinite(run.draws["prevalence"]).all()
    np.testing.assert_allclose(run.state_probability.sum(1), 1)


def test_an_interrupt_during_warmup_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        running.run(d1(), R31, "nuts", chains=2, warmup=500_000, draws=10, reporter=Recorder(raise_at=1))


def test_a_failure_in_a_chain_is_not_swallowed(monkeypatch):
    import bayescrowd.inference.nuts as nuts

    def broken(*arguments):
        raise RuntimeError("broken chain")

    monkeypatch.setattr(nuts, "_evaluate", broken)
    with pytest.raises(RuntimeError, match="broken chain"):
        running.run(d1(), R31, "nuts", chains=2, warmup=500, draws=20)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"chains": 0}, "chains"),
        ({"warmup": 0}, "warmup"),
        ({"draws": 1.5}, "draws"),
        ({"draws": True}, "draws"),
        ({"max_tree_depth": 0}, "max_tree_depth"),
        ({"likelihood": "joint"}, "likelihood"),
        ({"target_accept": 1.0}, "target_accept"),
    ],
)
def test_options_out_of_range(options, word):
    with pytest.raises(EngineError, match=word):
        inference.get("nuts").settings(**options)


def test_draws_that_would_not_fit_are_thinned_and_said_so(monkeypatch):
    from bayescrowd.inference import nuts

    options = {"chains": 2, "warmup": 60, "draws": 70}
    whole = running.run(d1(), R31, "nuts", **options)
    n_bytes = sum(value.nbytes for value in whole.draws.values())
    monkeypatch.setattr(nuts, "DRAWS_LIMIT", n_bytes // 3 + 1)
    thinned = running.run(d1(), R31, "nuts", **options)
    for name, value in whole.draws.items():
        np.testing.assert_array_equal(thinned.draws[name], value[:, ::3])
    np.testing.assert_array_equal(thinned.log_likelihood, whole.log_likelihood[:, ::3])
    np.testing.assert_array_equal(thinned.sample_stats["lp"], whole.sample_stats["lp"][:, ::3])
    np.testing.assert_array_equal(thinned.state_probability, whole.state_probability)
    assert any("one of every 3 draws" in note for note in thinned.warnings)


def test_the_numbers_do_not_depend_on_where_chunks_end(monkeypatch):
    """Time decides how long a chunk is; the same seed gives the same bits all the same."""
    from bayescrowd.inference import nuts

    options = {"chains": 2, "warmup": 60, "draws": 70}
    one = running.run(d1(), R31, "nuts", **options)
    monkeypatch.setattr(nuts, "_SECONDS_PER_CALL", (0.0, 0.0))
    other = running.run(d1(), R31, "nuts", **options)
    np.testing.assert_array_equal(one.state_probability, other.state_probability)
    np.testing.assert_array_equal(one.draws["confusion"], other.draws["confusion"])
