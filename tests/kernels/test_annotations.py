"""The two sums over annotations, against plain loops in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from running import of_rows

from bayescrowd.data.arrays import build_arrays
from bayescrowd.kernels.annotations import cell_counts, item_table
from bayescrowd.kernels.precision import double_precision


def table(kind, seed=0):
    """Label tables whose layouts differ."""
    rng = np.random.default_rng(seed)
    weight = None
    if kind == "ragged":  # from no label to many; several slices of items
        degree = rng.integers(0, 9, 2500)
        item = np.repeat(np.arange(2500), degree)
    elif kind == "one item with thousands":  # goes to the list of loose annotations
        item = np.concatenate([np.full(4000, 7), rng.integers(0, 60, 200)])
    elif kind == "many labels":  # more pairs than fit a grid: cells are the pairs that occur
        item = rng.integers(0, 400, 3000)
    elif kind == "weighted":
        item = np.concatenate([np.full(300, 3), rng.integers(0, 50, 400)])
        weight = rng.uniform(0.01, 5, len(item))
    elif kind == "one row":
        item = np.array([0])
    n_workers, n_labels = {"many labels": (40, 500)}.get(kind, (13, 4))
    rows = np.stack([item, rng.integers(0, n_workers, len(item)), rng.integers(0, n_labels, len(item))], axis=1)
    n_items = int(item.max()) + 3
    return of_rows(rows, classes=n_labels, items=list(range(n_items)), workers=list(range(n_workers)), weight=weight)


KINDS = ["ragged", "one item with thousands", "many labels", "weighted", "one row"]
every_kind = pytest.mark.parametrize("kind", KINDS)
padding = pytest.mark.parametrize("pad", [True, False], ids=["padded", "exact"])
layouts = pytest.mark.parametrize("by_annotation", [True, False], ids=["by annotation", "by pair"])


def loops(labels, value_of, n_states):
    """Sum over annotations by item, one at a time."""
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    out = np.zeros((labels.n_items, n_states))
    for n, (i, k, y) in enumerate(zip(labels.item_code, labels.worker_code, labels.label_code, strict=True)):
        out[i] += weight[n] * value_of(k, y)
    return out


@every_kind
@padding
@layouts
def test_item_table_is_the_sum_over_the_items_annotations(kind, pad, by_annotation):
    labels = table(kind)
    values = np.random.default_rng(1).normal(size=(labels.n_workers, len(labels.label_values), 3))
    with double_precision():
        arrays = build_arrays(labels, pad=pad, by_annotation=by_annotation)
        worker = np.minimum(arrays.cell_worker, labels.n_workers - 1)
        found = np.asarray(item_table(jnp.asarray(values[worker, arrays.cell_label]), arrays))
    expected = loops(labels, lambda k, y: values[k, y], 3)
    np.testing.assert_allclose(found[arrays.row_of_item[: labels.n_items]], expected, rtol=1e-12, atol=1e-11)
    padding_rows = np.ones(arrays.n_rows, bool)
    padding_rows[arrays.row_of_item[: labels.n_items]] = False
    assert not found[padding_rows].any()
    assert not arrays.present[padding_rows].any()


@every_kind
@padding
@layouts
def test_cell_counts_are_the_weights_of_the_items_by_cell(kind, pad, by_annotation):
    labels = table(kind)
    with double_precision():
        arrays = build_arrays(labels, pad=pad, by_annotation=by_annotation)
        states = np.random.default_rng(2).dirichlet(np.ones(3), labels.n_items)
        rows = np.zeros((arrays.n_rows, 3))
        rows[arrays.row_of_item[: labels.n_items]] = states
        counts = np.asarray(cell_counts(jnp.asarray(rows), arrays))
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    found = np.zeros((labels.n_workers, len(labels.label_values), 3))
    real = counts.any(axis=1)
    np.add.at(found, (arrays.cell_worker[real], arrays.cell_label[real]), counts[real])
    expected = np.zeros_like(found)
    for n in range(labels.n_annotations):
        expected[labels.worker_code[n], labels.label_code[n]] += weight[n] * states[labels.item_code[n]]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert counts.sum() == pytest.approx(weight.sum(), rel=1e-12)


@every_kind
def test_they_are_transposes_of_each_other(kind):
    labels = table(kind)
    with double_precision():
        arrays = build_arrays(labels)
        rng = np.random.default_rng(3)
        cells, rows = rng.normal(size=(arrays.n_cells, 2)), rng.normal(size=(arrays.n_rows, 2))
        rows *= arrays.present[:, None]
        one = jnp.sum(item_table(jnp.asarray(cells), arrays) * rows)
        other = jnp.sum(cell_counts(jnp.asarray(rows), arrays) * cells)
    assert float(one) == pytest.approx(float(other), rel=1e-11)


@pytest.mark.parametrize("kind", ["weighted", "one item with thousands", "ragged"])
def test_the_gradient_agrees_with_finite_differences(kind):
    labels = table(kind)
    with double_precision():
        arrays = build_arrays(labels)
        rng = np.random.default_rng(4)
        cells = jnp.asarray(rng.normal(size=(arrays.n_cells, 2)))
        mixing = jnp.asarray(rng.normal(size=(arrays.n_rows, 2)))
        value = lambda cells: jnp.sum(mixing * jnp.tanh(item_table(cells, arrays) / 100))
        gradient = np.asarray(jax.grad(value)(cells))
        for _ in range(5):
            way = rng.normal(size=cells.shape)
            numeric = (value(cells + 1e-5 * way) - value(cells - 1e-5 * way)) / 2e-5
            assert float(numeric) == pytest.approx((gradient * way).sum(), rel=1e-6, abs=1e-9)


def test_weight_zero_times_log_zero_is_nothing():
    labels = of_rows([(0, 0, 0), (0, 1, 1), (1, 0, 1)], weight=[1.0, 2.0, 0.5])
    with double_precision():
        arrays = build_arrays(labels)
        cells = np.zeros((arrays.n_cells, 2))
        cells[(arrays.cell_worker == 1) & (arrays.cell_label == 0)] = -np.inf  # said by nobody
        found = np.asarray(item_table(jnp.asarray(cells), arrays))
    assert np.isfinite(found).all()


def test_P71_counts_and_sums_of_millions_are_exact():
    n = 1_000_003
    rows = np.zeros((n, 3), int)
    rows[:, 0] = np.arange(n) % 999
    labels = of_rows(rows, classes=2)
    with double_precision():
        arrays = jax.device_put(build_arrays(labels))
        ones = jnp.asarray(arrays.present)[:, None]
        assert float(jax.jit(cell_counts)(ones, arrays)[0, 0]) == n
        cells = jnp.full((arrays.n_cells, 1), np.log(0.7))
        total = float(jnp.sum(jax.jit(item_table)(cells, arrays)))
    assert total == pytest.approx(n * np.log(0.7), rel=1e-12)


def test_P71_a_weight_of_twenty_million_is_counted_exactly():
    labels = of_rows([(0, 0, 1), (1, 0, 1), (1, 0, 0)], weight=[20_000_001.0, 1.0, 0.25])
    with double_precision():
        arrays = build_arrays(labels)
        counts = np.asarray(cell_counts(jnp.asarray(arrays.present)[:, None], arrays))[:, 0]
    assert counts[(arrays.cell_worker == 0) & (arrays.cell_label == 1)].tolist() == [20_000_002.0]
    assert counts.sum() == 20_000_002.25
