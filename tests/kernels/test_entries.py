"""Table entries to states and back, chain by chain, against plain loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pairwise
import pytest
from conformance import checks
from conformance.cases import CASES
from conformance.toys import Guessing, Subtypes

import bayescrowd as bc
from bayescrowd.data.arrays import build_arrays
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels import entries
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint
from bayescrowd.kernels.tables import tables_of

MODELS = [
    bc.FixedIDBLA(),
    Guessing(),
    *(pytest.param(m, marks=pytest.mark.slow) for m in (bc.DawidSkene(), bc.IDBLA(n_levels=2), Subtypes())),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def given(model, labels, n_chains=2):
    """Parameters of some chains, the layout, and everything computed."""
    exact = sizes_of(labels)
    draws = [checks.prior_draw(model, exact, seed) for seed in range(n_chains)]
    arrays = build_arrays(labels, pad=False)
    tables = tables_of(model, arrays.sizes)
    logs = jnp.log(jnp.stack([tables.flatten(draw) for draw in draws]))
    return draws, arrays, tables, logs


@every_model
def test_the_joint_of_every_chain_is_the_models_own(model):
    labels = CASES["everything"]()
    with double_precision():
        draws, arrays, tables, logs = given(model, labels)
        table, _ = jax.jit(entries.chain_joint, static_argnames="tables")(model, logs, arrays, tables=tables)
        for chain, draw in enumerate(draws):
            own = jax.jit(joint)(model, {name: jnp.asarray(value) for name, value in draw.items()}, arrays)
            np.testing.assert_allclose(table[:, chain], own, rtol=1e-12, atol=1e-12)


@every_model
def test_counts_of_every_chain_are_loops(model):
    labels = CASES["everything"]()
    rng = np.random.default_rng(1)
    n_states = model.n_levels * labels.n_classes
    q = rng.dirichlet(np.ones(n_states), (labels.n_items, 2))
    with double_precision():
        _, arrays, tables, logs = given(model, labels)
        rows = np.zeros((2, arrays.n_rows, n_states))
        rows[:, np.asarray(arrays.row_of_item)[: labels.n_items]] = q.transpose(1, 0, 2)
        one = lambda log_flat, rows: entries.table_counts(model, log_flat, rows, arrays, tables)
        counts = np.asarray(jax.vmap(one)(jnp.asarray(logs), jnp.asarray(rows)))
    for chain in range(2):
        if model.name == "guessing":
            expected = guessing_counts(model, labels, q[:, chain], np.exp(logs[chain]), tables)
        else:
            expected = np.einsum("is,ise->e", q[:, chain], pairwise.usage(model, labels).entry)
        np.testing.assert_allclose(counts[chain], expected, rtol=1e-12, atol=1e-12)


def guessing_counts(model, labels, q, flat, tables):
    """A label counts by the probability that it was no guess."""
    values = tables.unflatten(flat)
    seen = np.zeros(values["seen"].shape)
    for n in range(labels.n_annotations):
        i, k, y = labels.item_code[n], labels.worker_code[n], labels.label_code[n]
        looked = (1 - model.guess_rate) * values["seen"][k, :, y]
        seen[k, :, y] += labels.weight[n] * q[i] * looked / (looked + model.guess_rate / seen.shape[-1])
    return np.concatenate([q.sum(0), seen.ravel()])


def test_gold_excludes_states_of_other_classes():
    labels = CASES["everything"]()
    model = bc.IDBLA(n_levels=2)
    arrays = build_arrays(labels, pad=False)
    table = np.asarray(entries.clamp(jnp.zeros((arrays.n_rows, 3, 4)), model, arrays))
    row = int(np.asarray(arrays.row_of_item)[1])
    np.testing.assert_array_equal(table[row], [[0, -np.inf, 0, -np.inf]] * 3)
    assert (np.delete(table, row, axis=0) == 0).all()
