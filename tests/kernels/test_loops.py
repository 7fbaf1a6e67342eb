"""The fixed-point loop: status, tolerance, trace, chunks."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from bayescrowd.kernels import loops
from bayescrowd.kernels.precision import double_precision


def halve(state):
    """Walk half of the way to zero; the objective is minus the distance."""
    after = state / 2
    return after, -jnp.abs(state), jnp.abs(after - state)


def go(step, start, *, chunk=100, tolerance=0.0, change_tolerance=0.0, max_steps=100):
    with double_precision():
        progress = loops.begin(jnp.asarray(start, float), chunk)
        return loops.advance(
            step, progress, tolerance=tolerance, change_tolerance=change_tolerance, max_steps=max_steps
        )


def test_it_runs_to_the_last_step_allowed():
    end = go(halve, 1.0, max_steps=7)
    assert int(end.n_steps) == 7
    assert int(end.status) == loops.RUNNING
    np.testing.assert_allclose(end.trace[:7], -(0.5 ** np.arange(7)))
    assert np.isnan(end.trace[7:]).all()
    assert float(end.state) == 0.5**7
    assert float(end.objective) == -(0.5**6)


def test_it_stops_where_gain_and_change_are_small():
    end = go(halve, 1.0, tolerance=1.0, change_tolerance=0.01)
    assert int(end.status) == loops.CONVERGED
    # Step n changes by .5^n; the last change and the one before must both be small: .5^7 and .5^8.
    assert int(end.n_steps) == 8
    end = go(halve, 1.0, tolerance=0.01, change_tolerance=1.0)
    # Step n gains .5^(n-1), against a hundredth of 1 + .5^(n-1).
    assert int(end.n_steps) == 8


def test_a_small_gain_alone_is_not_convergence():
    end = go(halve, 1.0, tolerance=1.0, change_tolerance=0.0, max_steps=20)
    assert int(end.status) == loops.RUNNING
    assert int(end.n_steps) == 20


def test_one_small_change_is_not_convergence():
    def step(state):
        # Changes 1, 0, 1, 0, ...: only two small ones in a row would do.
        change = jnp.where(state % 2 == 0, 1.0, 0.0)
        return state + 1, jnp.zeros(()), change

    end = go(step, 0.0, tolerance=1.0, change_tolerance=0.5, max_steps=9)
    assert int(end.status) == loops.RUNNING


def test_chunks_give_the_same_as_one_run():
    with double_precision():
        progress, traces = loops.begin(jnp.asarray(1.0), 4), []
        for _ in range(50):
            before = int(progress.n_steps)
            progress = loops.advance(halve, progress, tolerance=1e-9, change_tolerance=1e-6, max_steps=100)
            traces.append(np.asarray(progress.trace)[: int(progress.n_steps) - before])
            if int(progress.status) != loops.RUNNING:
                break
    whole = go(halve, 1.0, tolerance=1e-9, change_tolerance=1e-6)
    assert int(progress.n_steps) == int(whole.n_steps) > 12
    assert float(progress.state) == float(whole.state)
    np.testing.assert_array_equal(np.concatenate(traces), np.asarray(whole.trace)[: int(whole.n_steps)])


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_an_objective_that_is_not_finite_is_a_failure(bad):
    def step(state):
        return state + 1, jnp.where(state >= 3, bad, state), jnp.ones(())

    end = go(step, 0.0)
    assert int(end.status) == loops.FAILED
    assert int(end.n_steps) == 4


def test_nothing_happens_after_the_end():
    with double_precision():
        end = go(halve, 1.0, tolerance=1e-3, change_tolerance=1e-2)
        again = loops.advance(halve, end, tolerance=1e-3, change_tolerance=1e-2, max_steps=100)
    assert int(again.n_steps) == int(end.n_steps)
    assert float(again.state) == float(end.state)


def test_state_and_limits_may_be_any_pytree():
    def step(state):
        after = {"x": state["x"] / 2, "n": state["n"] + 1}
        return after, -state["x"], state["x"] / 2

    with double_precision():
        progress = loops.begin({"x": jnp.asarray(4.0), "n": jnp.asarray(0)}, 3)
        end = loops.advance(step, progress, tolerance=0.0, change_tolerance=0.0, max_steps=jnp.asarray(3))
    assert int(end.state["n"]) == 3
