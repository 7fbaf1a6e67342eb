"""From parameters to states: gold, padding, counts, against plain NumPy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conformance import checks
from conformance.cases import CASES
from conformance.toys import FixedLevels, Groups, Guessing, Subtypes, TwoLevels

import bayescrowd as bc
from bayescrowd.data.arrays import build_arrays
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.entries import table_counts
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.kernels.tables import tables_of


def setting(model, case, *, pad=False):
    labels = CASES[case]()
    parameters = checks.prior_draw(model, sizes_of(labels), seed=11)
    arrays = build_arrays(labels, pad=pad)
    return labels, parameters, arrays


def test_gold_clamps_every_level_and_keeps_the_prevalence():
    model = TwoLevels()
    with double_precision():
        labels, parameters, arrays = setting(model, "weighted")
        rows = np.asarray(joint(model, parameters, arrays))[arrays.row_of_item]
    log_state, log_response = checks.tabulate(model, parameters, oracle.of_labels(labels))
    expected = log_state.copy()
    for n in range(labels.n_annotations):
        expected[labels.item_code[n]] += labels.weight[n] * log_response[n]
    assert np.isneginf(rows[0, [1, 3]]).all()
    assert np.isneginf(rows[3, [0, 2]]).all()
    np.testing.assert_allclose(rows[0, [0, 2]], expected[0, [0, 2]], atol=1e-12)
    np.testing.assert_allclose(rows[1], expected[1], atol=1e-12)


@pytest.mark.parametrize("pad", [True, False])
def test_rows_of_padding_count_for_nothing(pad):
    model = bc.DawidSkene()
    labels = CASES["holes"]()
    with double_precision():
        arrays = build_arrays(labels, pad=pad)
        parameters = checks.prior_draw(model, arrays.sizes, seed=0)
        table = joint(model, parameters, arrays)
        probability = np.asarray(responsibilities(table, arrays))
        likelihood = np.asarray(marginal(table, arrays))
    absent = arrays.present == 0
    assert absent.any() or not pad
    assert not probability[absent].any()
    assert not likelihood[absent].any()
    np.testing.assert_allclose(probability[~absent].sum(1), 1, atol=1e-14)


def brute_counts(model, parameters, labels, states):
    """Expected uses of every table entry, one annotation, state and route at a time."""
    data = oracle.of_labels(labels)
    sizes = sizes_of(labels)
    counts = {name: np.zeros(np.shape(value)) for name, value in parameters.items()}
    n_c = sizes.n_classes
    one = lambda value: np.array([int(value)])
    for s in range(model.n_levels * n_c):
        for i in range(data.n_items):
            at = checks.At(None, one(s % n_c), one(s // n_c), None, one(i), sizes)
            for name, index in model.state_cells(at).items():
                counts[name][tuple(int(np.asarray(part).item()) for part in index)] += states[i, s]
        for n in range(data.n):
            at = checks.At(one(data.worker[n]), one(s % n_c), one(s // n_c), one(data.label[n]), None, sizes)
            routes = model.routes(at)
            share = []
            for route in routes:
                p = np.exp(float(np.asarray(route.log_constant).item()))
                for name, index in route.cells.items():
                    if np.asarray(route.counted).item():
                        p *= parameters[name][tuple(int(np.asarray(part).item()) for part in index)]
                share.append(p)
            share = np.array(share) / sum(share)
            for route, part in zip(routes, share, strict=True):
                if np.asarray(route.counted).item():
                    for name, index in route.cells.items():
                        where = tuple(int(np.asarray(piece).item()) for piece in index)
                        counts[name][where] += data.weight[n] * part * states[data.item[n], s]
    return counts


@pytest.mark.parametrize(
    "model", [bc.DawidSkene(), TwoLevels(), Subtypes(), FixedLevels(), Guessing(), Groups()], ids=lambda m: m.name
)
def test_counts_of_table_entries(model):
    with double_precision():
        labels, parameters, arrays = setting(model, "everything")
        states = np.random.default_rng(1).dirichlet(np.ones(model.n_levels * 2), labels.n_items)
        rows = np.zeros((arrays.n_rows, states.shape[1]))
        rows[arrays.row_of_item] = states
        tables = tables_of(model, arrays.sizes)
        flat = tables.flatten(parameters)
        found = tables.unflatten(table_counts(model, jnp.log(flat), jnp.asarray(rows), arrays, tables))
    expected = brute_counts(model, parameters, labels, states)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-11, err_msg=name)
