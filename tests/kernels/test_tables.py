"""Dirichlet maths on the flat vector of all table entries, against SciPy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from conformance.toys import TwoLevels

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes
from bayescrowd.kernels import tables as maths
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import Tables, concentration, tables_of

SIZES = Sizes(7, 3, 2, 4)


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return bc.DawidSkene(prevalence_prior=np.array([2.0, 3.5]), confusion_prior=rng.uniform(1.2, 4, (3, 2, 4)))


def rows_of(tables, flat):
    """The rows of a flat vector."""
    return [np.asarray(flat)[tables.row_of == row] for row in range(tables.n_rows)]


def test_the_layout_of_the_flat_vector(model):
    with double_precision():
        tables = tables_of(model, SIZES)
        alpha = np.asarray(concentration(model, SIZES))
    assert tables.names == ("prevalence", "confusion")
    assert tables.offsets == {"prevalence": 0, "confusion": 2}
    assert tables.n_rows == 1 + 3 * 2
    assert len(alpha) == 2 + 3 * 2 * 4 == len(tables.row_of) == len(tables.worker_of)
    np.testing.assert_array_equal(alpha[2:].reshape(3, 2, 4), model.confusion_prior)
    assert tables.worker_of[:2].tolist() == [-1, -1]
    assert tables.worker_of[2:].tolist() == np.repeat([0, 1, 2], 8).tolist()
    k, c, y = np.meshgrid(range(3), range(2), range(4), indexing="ij")
    np.testing.assert_array_equal(alpha[np.asarray(tables.entries("confusion", (k, c, y)))], model.confusion_prior)


def test_cutting_up_and_laying_out_are_inverse():
    tables = Tables(("a", "b", "c"), ("dirichlet", "beta", "dirichlet"), ((3,), (2, 2), (2, 2, 2)), (-1, 0, 1))
    rng = np.random.default_rng(1)
    with double_precision():
        flat = jnp.concatenate([jnp.asarray(rng.dirichlet(np.ones(n), m).ravel()) for n, m in ((3, 1), (2, 2), (2, 4))])
        values = tables.unflatten(flat)
        assert {name: value.shape for name, value in values.items()} == {"a": (3,), "b": (2,), "c": (2, 2, 2)}
        np.testing.assert_allclose(tables.flatten(values), flat, rtol=1e-15)
    assert tables.worker_of.tolist() == [-1] * 3 + [0, 0, 1, 1] + [0, 0, 1, 1, 0, 0, 1, 1]


def test_mean_and_mode(model):
    with double_precision():
        tables = tables_of(model, SIZES)
        alpha = concentration(model, SIZES)
        mean = maths.mean(alpha, tables)
        mode = maths.mode(alpha, tables, mean)
    for a, average, top in zip(rows_of(tables, alpha), rows_of(tables, mean), rows_of(tables, mode), strict=True):
        np.testing.assert_allclose(average, scipy.stats.dirichlet.mean(a), rtol=1e-14)
        np.testing.assert_allclose(top, (a - 1) / (a.sum() - len(a)), rtol=1e-14)


def test_the_mode_is_the_highest_point(model):
    rng = np.random.default_rng(2)
    with double_precision():
        tables = tables_of(model, SIZES)
        alpha = concentration(model, SIZES)
        mode = np.asarray(maths.mode(alpha, tables, maths.mean(alpha, tables)))
    for a, top in zip(rows_of(tables, alpha), rows_of(tables, mode), strict=True):
        others = rng.dirichlet(np.ones(len(a)), 200)
        assert (scipy.stats.dirichlet.logpdf(others.T, a) <= scipy.stats.dirichlet.logpdf(top, a)).all()


def test_flat_rows_take_the_other_value():
    tables = Tables(("a",), ("dirichlet",), ((2, 2),), (-1,))
    with double_precision():
        otherwise = jnp.asarray([0.5, 0.5, 0.25, 0.75])
        mode = maths.mode(jnp.asarray([1.0, 1.0, 3.0, 2.0]), tables, otherwise)
        scaled = maths.normalise(jnp.asarray([0.0, 0.0, 1.0, 4.0]), tables, otherwise)
    np.testing.assert_allclose(mode, [0.5, 0.5, 2 / 3, 1 / 3])
    np.testing.assert_allclose(scaled, [0.5, 0.5, 0.2, 0.8])


def test_the_density_is_scipys(model):
    with double_precision():
        tables = tables_of(model, SIZES)
        alpha = concentration(model, SIZES)
        flat = maths.draw(np.random.default_rng(3), np.asarray(alpha), tables)
        found = float(maths.log_density(jnp.asarray(flat), alpha, tables, np.ones(3, bool)))
        without_last = float(maths.log_density(jnp.asarray(flat), alpha, tables, np.array([True, True, False])))
    pairs = list(zip(rows_of(tables, alpha), rows_of(tables, flat), strict=True))
    expected = [scipy.stats.dirichlet.logpdf(p / p.sum(), a) for a, p in pairs]
    assert found == pytest.approx(sum(expected), abs=1e-10)
    assert without_last == pytest.approx(sum(expected[:-2]), abs=1e-10)


def test_draws_have_the_mean_and_spread_of_the_dirichlet(model):
    with double_precision():
        tables = tables_of(model, SIZES)
        alpha = np.asarray(concentration(model, SIZES))
    rng = np.random.default_rng(4)
    draws = np.stack([maths.draw(rng, alpha, tables) for _ in range(4000)])
    total = np.concatenate([np.full(len(a), a.sum()) for a in rows_of(tables, alpha)])
    mean = alpha / total
    variance = mean * (1 - mean) / (total + 1)
    assert np.abs((draws.mean(0) - mean) / np.sqrt(variance / 4000)).max() < 4.5
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.15)
    for row in rows_of(tables, draws[0]):
        assert row.sum() == pytest.approx(1)


def test_P72_draws_at_the_edge_of_the_simplex_have_finite_logarithms():
    tables = Tables(("a",), ("dirichlet",), ((1, 3),), (-1,))
    rng = np.random.default_rng(5)
    draws = np.stack([maths.draw(rng, np.array([30, 69.998, 0.002]), tables) for _ in range(2000)])
    assert np.isfinite(np.log(draws)).all()
    np.testing.assert_allclose(draws.sum(1), 1)
    tiny = np.stack([maths.draw(rng, np.full(3, 1e-6), tables) for _ in range(200)])
    assert np.isfinite(np.log(tiny)).all()


def test_models_with_levels_lie_flat_too():
    tables = tables_of(TwoLevels(), SIZES)
    assert tables.names == ("prevalence", "difficulty_prevalence", "confusion")
    assert tables.shapes[2] == (3, 2, 2, 4)
    assert tables.worker_axes == (-1, -1, 0)


def test_the_layout_is_hashable(model):
    assert hash(tables_of(model, SIZES)) == hash(tables_of(bc.DawidSkene(), SIZES))
    assert tables_of(model, SIZES) == tables_of(bc.DawidSkene(), SIZES)
