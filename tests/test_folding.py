"""Traced functions in NumPy, against JAX itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd import sites
from bayescrowd.data.arrays import Sizes
from bayescrowd.folding import fold, used

X = np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])
N = np.array([[3, -7, 2], [0, 5, 1]])

KNOWN = {
    "arithmetic": lambda x, n: (2 * x - 1) * x + (-x) / 4,
    "whole numbers": lambda x, n: 3 * n - n * n,
    "comparisons": lambda x, n: [x < 0.5, x <= 0.5, x > 0.5, x >= 0.5, n == 2, n != 2],
    "choice": lambda x, n: jnp.where(x > 0, x, n),
    "extremes": lambda x, n: jnp.minimum(jnp.maximum(x, 0.0), n),
    "shapes": lambda x, n: x.T.reshape(6, 1).squeeze(1),
    "broadcast": lambda x, n: jnp.broadcast_to(x[:, None], (2, 4, 3)) + jnp.ones((2, 1, 3)) * n[:, None],
    "stack": lambda x, n: jnp.concatenate([x, x + 1], axis=1),
    "counting": lambda x, n: jnp.arange(4) + jnp.eye(4, 4),
    "types": lambda x, n: [x.astype(jnp.float32), n.astype(float), (x > 0).astype(int)],
    "inner functions": lambda x, n: jax.jit(lambda y: [y + 1, y * n])(x),
    "constants": lambda x, n: x + jnp.asarray(X[::-1].copy()),
    "not the argument": lambda x, n: jnp.zeros(3),
    "the argument": lambda x, n: [x, n, 1.0],
}
UNKNOWN = {
    "exp": lambda x, n: jnp.exp(x),
    "sum": lambda x, n: x.sum(),
    "whole division": lambda x, n: jax.lax.div(n, jnp.full_like(n, 2)),
    "inside": lambda x, n: jax.jit(jnp.sin)(x),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_values_are_those_of_jax(name):
    function = KNOWN[name]
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(function)(X, N)
        expected = jax.tree.leaves(function(jnp.asarray(X), jnp.asarray(N)))
        expected = [np.asarray(value) for value in expected]
    found = fold(traced, [X, N])
    assert len(found) == len(expected)
    for own, value in zip(found, expected, strict=True):
        assert own.shape == value.shape
        assert own.dtype == value.dtype
        np.testing.assert_array_equal(own, value)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_left_to_the_compiler(name):
    with jax.enable_x64(True):
        assert fold(jax.make_jaxpr(UNKNOWN[name])(X, N), [X, N]) is None


def test_what_the_result_does_not_need_may_be_anything():
    def function(x):
        jnp.exp(x).sum()
        return x + 1

    with jax.enable_x64(True):
        np.testing.assert_array_equal(fold(jax.make_jaxpr(function)(X), [X])[0], X + 1)


def test_what_a_result_depends_on():
    def function(x, n, other):
        jnp.exp(other)
        return [jax.jit(lambda y: y + 1)(x), n]

    with jax.enable_x64(True):
        assert used(jax.make_jaxpr(function)(X, N, X)) == [True, True, False]


SIZES = Sizes(n_items=5, n_workers=4, n_classes=2, n_labels=3)
MODELS = [
    bc.DawidSkene(),
    bc.DawidSkene(confusion_prior=np.random.default_rng(0).uniform(1, 2, (4, 2, 3))),
    bc.IDBLA(),
    bc.FixedIDBLA(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_priors_are_folded_and_equal_to_compiled_ones(model, monkeypatch):
    with jax.enable_x64(True):
        compiled = {name: np.asarray(value) for name, value in sites._compiled(model, SIZES, None).items()}
    monkeypatch.setattr(sites, "_compiled", None)  # nothing may be compiled
    sites._known_values.cache_clear()
    found = model.sites(SIZES)
    assert found.keys() == compiled.keys()
    for name, site in found.items():
        np.testing.assert_allclose(site.concentration, compiled[name], rtol=1e-15)


def test_what_is_kept_cannot_be_written_to():
    concentration = bc.DawidSkene().sites(SIZES)["confusion"].concentration
    with pytest.raises(ValueError, match="read-only"):
        concentration[0] = 5.0


def test_other_priors_and_sizes_are_other_answers():
    def entry(model, sizes=SIZES):
        return model.sites(sizes)["confusion"].concentration[0, 0].tolist()

    assert entry(bc.DawidSkene(confusion_prior=2.0)) == [2.0] * 3
    assert entry(bc.DawidSkene(confusion_prior=3.0)) == [3.0] * 3
    assert entry(bc.DawidSkene(confusion_prior=np.array([1.0, 2.0, 3.0]))) == [1.0, 2.0, 3.0]
    assert entry(bc.DawidSkene(confusion_prior=np.array([1.0, 2.0, 4.0]))) == [1.0, 2.0, 4.0]
    assert entry(bc.DawidSkene(confusion_prior=3.0), Sizes(5, 4, 2, 2)) == [3.0] * 2


def test_a_prior_changed_in_place_is_another_prior():
    prior = np.array([1.0, 2.0, 3.0])
    model = bc.DawidSkene(confusion_prior=prior)
    model.sites(SIZES)
    prior[0] = 9.0
    assert model.sites(SIZES)["confusion"].concentration[0, 0].tolist() == [9.0, 2.0, 3.0]


def test_large_priors_are_read_but_not_kept():
    sizes = Sizes(5, 30_000, 2, 3)
    model = bc.DawidSkene(confusion_prior=np.full((30_000, 2, 3), 2.0))
    before = sites._known_values.cache_info().currsize
    assert (model.sites(sizes)["confusion"].concentration == 2.0).all()
    assert model.sites(sizes, values=False)["confusion"].shape == (30_000, 2, 3)
    assert sites._known_values.cache_info().currsize == before


def test_what_is_kept_is_as_small_as_it_was_stated():
    """A concentration that all workers share is not written out for each of them."""
    sizes = Sizes(5, 100_000, 4, 4)
    concentration = bc.DawidSkene().sites(sizes)["confusion"].concentration
    assert concentration.shape == (100_000, 4, 4)
    assert concentration.strides[0] == 0


def test_what_is_kept_does_not_change_with_the_callers_array():
    prior = np.full((4, 2, 3), 7.0)  # just the table, so that nothing is left to compute
    bc.DawidSkene(confusion_prior=prior).sites(SIZES)
    prior[:] = 5.0
    same_as_before = bc.DawidSkene(confusion_prior=np.full((4, 2, 3), 7.0))
    assert (same_as_before.sites(SIZES)["confusion"].concentration == 7.0).all()
