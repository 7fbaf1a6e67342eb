"""Sums over patterns on the host, against plain loops."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pairwise
import pytest
from conformance.cases import CASES
from conformance.toys import FixedLevels, Groups, Guessing, Subtypes
from running import labels_of, of_rows

import bayescrowd as bc
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels import host
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import normalise, tables_of

MODELS = [bc.DawidSkene(), bc.IDBLA(), bc.FixedIDBLA(), FixedLevels(), Subtypes()]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
every_case = pytest.mark.parametrize("case", CASES)


def few_patterns(seed=0, n_items=200, n_workers=3, n_classes=3, **more):
    """Many items, few ways to label them."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(-1, n_classes, (12, n_workers))
    chosen = patterns[rng.integers(12, size=n_items)]
    item, worker = np.nonzero(chosen >= 0)
    rows = rng.permutation(np.stack([item, worker, chosen[item, worker]], axis=1))
    names = {"items": list(range(n_items)), "workers": list(range(n_workers))}
    return of_rows(rows, classes=n_classes, **names, **more)


def as_loops(labels):
    """What each item was labelled, as a multiset, and its gold."""
    weight = np.ones(len(labels.item_code)) if labels.weight is None else labels.weight
    found = [{} for _ in range(labels.n_items)]
    for i, k, a, w in zip(labels.item_code, labels.worker_code, labels.label_code, weight, strict=True):
        if w > 0:
            found[i][k, a] = found[i].get((k, a), 0.0) + w
    return [(tuple(sorted(one.items())), int(gold)) for one, gold in zip(found, labels.gold_code, strict=True)]


def by_pattern(made, what):
    """What the blocks hold, all together."""
    return np.concatenate([getattr(block, what) for block in made.blocks])


def check_patterns(labels, made):
    """Every item's pattern holds just its labels and gold, and every item is counted."""
    n_labels = len(labels.label_values)
    rows = np.concatenate([block.labels.toarray() for block in made.blocks])
    gold = by_pattern(made, "gold")
    for item, (cells, known) in enumerate(as_loops(labels)):
        pattern = made.pattern_of_item[item]
        assert {(k, a): rows[pattern][k * n_labels + a] for (k, a), _ in cells} == pytest.approx(dict(cells))
        assert rows[pattern].sum() == pytest.approx(sum(w for _, w in cells))
        assert gold[pattern] == known
    assert len(rows) == made.n_patterns
    np.testing.assert_array_equal(
        by_pattern(made, "n_items"), np.bincount(made.pattern_of_item, minlength=made.n_patterns)
    )


@pytest.fixture(autouse=True, params=[None, 2], ids=["one block", "small blocks"])
def blocks(request, monkeypatch):
    """All patterns at once, or two at a time (as many as there are cells, where cells are more)."""
    if request.param is not None:
        monkeypatch.setattr(host, "_BLOCK", request.param)


@every_case
def test_patterns_hold_every_label(case):
    labels = CASES[case]()
    check_patterns(labels, host.host_labels(labels))


@pytest.mark.parametrize("gold", [False, True])
def test_items_that_look_alike_are_seen_once(gold):
    labels = few_patterns(gold={i: i % 3 for i in range(0, 200, 5)} if gold else None)
    made = host.host_labels(labels)
    assert made.n_patterns == len(set(as_loops(labels)))
    assert made.n_patterns < 50
    check_patterns(labels, made)
    firsts = [int(np.flatnonzero(made.pattern_of_item == pattern)[0]) for pattern in range(made.n_patterns)]
    assert firsts == sorted(firsts)


def test_order_of_rows_and_repeats_make_no_pattern():
    """Labels in another order are the same labels; a label given twice is not the same as one given once."""
    rows = [(0, 0, 1), (0, 1, 0), (1, 1, 0), (1, 0, 1), (2, 0, 1), (2, 0, 1), (2, 1, 0), (3, 0, 1), (3, 1, 0)]
    made = host.host_labels(of_rows(rows))
    np.testing.assert_array_equal(made.pattern_of_item, [0, 0, 1, 0])
    np.testing.assert_array_equal(by_pattern(made, "n_items"), [3, 1])
    weighted = of_rows(rows[:4] + rows[7:], items=list("abcd"), weight=[1.0, 1.0, 1.0, 2.0, 1.0, 1.0])
    np.testing.assert_array_equal(host.host_labels(weighted).pattern_of_item, [0, 1, 2, 0])


def test_patterns_that_share_a_number_are_told_apart(monkeypatch):
    """The number is a quick look only: where it misleads, every item stands for itself."""

    class Constant:
        def integers(self, high, size, dtype):
            return np.full(size, 7, dtype)

    labels = few_patterns()
    monkeypatch.setattr(host.np.random, "default_rng", lambda seed: Constant())
    made = host.host_labels(labels)
    np.testing.assert_array_equal(made.pattern_of_item, np.arange(labels.n_items))
    check_patterns(labels, made)


def joint_of(entries, log_flat, made):
    """The joint of every item [item, state], from its blocks."""
    parts = [entries.joint(entries.logs(log_flat), block) for block in made.blocks]
    return np.concatenate(parts, axis=1).T[made.pattern_of_item]


def counts_of(entries, log_flat, made, states):
    """Counts of table entries, from probabilities of states [pattern, state]."""
    weights = states.T * by_pattern(made, "n_items")
    used = sum(block.cell_sums(part) for block, part in made.parts(weights))
    return entries.counts(entries.logs(log_flat), used, weights.sum(axis=1))


def prepared(model, labels):
    """Random entries, the patterns, and where the model's labels and states lie."""
    sizes = sizes_of(labels)
    with double_precision():
        tables = tables_of(model, sizes)
        entries = host.entries_of(model, sizes, tables)
    values = np.random.default_rng(0).uniform(0.1, 1, len(tables.row_of))
    log_flat = np.log(host.row_shares(values, tables, values))
    return log_flat, host.host_labels(labels), entries


@every_case
@every_model
def test_the_joint_is_that_of_plain_loops(model, case):
    labels = CASES[case]()
    log_flat, made, entries = prepared(model, labels)
    own = joint_of(entries, log_flat, made)
    used = pairwise.usage(model, labels)
    plain = np.where(used.allowed, used.entry @ log_flat + used.constants, -np.inf)
    np.testing.assert_allclose(own, plain, rtol=1e-12, atol=1e-12)
    block = made.blocks[0]
    out = np.full((own.shape[1], len(block.n_items)), np.nan)
    assert entries.joint(entries.logs(log_flat), block, out) is out
    np.testing.assert_array_equal(out.T[made.pattern_of_item[0]], own[0])


@every_case
@every_model
def test_counts_are_those_of_plain_loops(model, case):
    labels = CASES[case]()
    log_flat, made, entries = prepared(model, labels)
    n_states = model.n_levels * labels.n_classes
    states = np.random.default_rng(1).dirichlet(np.ones(n_states), made.n_patterns)
    own = counts_of(entries, log_flat, made, states)
    plain = np.einsum("is,ise->e", states[made.pattern_of_item], pairwise.usage(model, labels).entry)
    np.testing.assert_allclose(own, plain, rtol=1e-12, atol=1e-12)


def test_labels_that_come_about_in_several_ways():
    labels, model = CASES["everything"](), Guessing()
    log_flat, made, entries = prepared(model, labels)
    states = np.random.default_rng(1).dirichlet(np.ones(2), made.n_patterns)
    seen = np.exp(log_flat[2:]).reshape(labels.n_workers, 2, 3)
    joint = np.tile(log_flat[:2], (labels.n_items, 1))
    joint[np.flatnonzero(labels.gold_code == 0), 1] = -np.inf
    counts = np.zeros_like(seen)
    for i, k, y, weight in zip(labels.item_code, labels.worker_code, labels.label_code, labels.weight, strict=True):
        looked = 0.8 * seen[k, :, y]
        joint[i] += weight * np.log(looked + 0.2 / 3)
        counts[k, :, y] += weight * states[made.pattern_of_item[i]] * looked / (looked + 0.2 / 3)
    np.testing.assert_allclose(joint_of(entries, log_flat, made), joint, rtol=1e-12)
    own = counts_of(entries, log_flat, made, states)
    np.testing.assert_allclose(own[2:], counts.ravel(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(own[:2], states[made.pattern_of_item].sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("n_states", [1, 2, 4, 5, 9])
def test_sums_are_loops(n_states):
    labels = few_patterns(seed=3)
    made = host.host_labels(labels)
    rng = np.random.default_rng(2)
    cells, patterns = rng.normal(size=(9, n_states)), rng.normal(size=(n_states, made.n_patterns))
    by_item, by_cell = np.zeros((labels.n_items, n_states)), np.zeros((9, n_states))
    for i, k, a in zip(labels.item_code, labels.worker_code, labels.label_code, strict=True):
        by_item[i] += cells[3 * k + a]
        by_cell[3 * k + a] += patterns[:, made.pattern_of_item[i]]
    sums = np.concatenate([block.item_sums(cells) for block in made.blocks], axis=1)
    np.testing.assert_allclose(sums.T[made.pattern_of_item], by_item, atol=1e-12)
    weights = patterns * by_pattern(made, "n_items")
    counts = sum(block.cell_sums(part) for block, part in made.parts(weights))
    np.testing.assert_allclose(counts, by_cell, rtol=1e-10, atol=1e-12)


def test_items_with_a_prior_of_their_own_are_left_to_the_compiled_kernels():
    labels = labels_of(["01", "11", "00"])
    sizes = sizes_of(labels)
    assert host.entries_of(Groups(), sizes, tables_of(Groups(), sizes)) is None


def test_rows_sum_to_one_or_take_the_other_value():
    sizes = sizes_of(CASES["everything"]())
    tables = tables_of(bc.DawidSkene(), sizes)
    rng = np.random.default_rng(0)
    values = rng.uniform(size=len(tables.row_of))
    other = np.asarray(normalise(jnp.asarray(rng.uniform(size=len(values))), tables, 1.0))
    for gone in ([], [1, 4]):
        values[np.isin(tables.row_of, gone)] = 0.0
        own = host.row_shares(values, tables, other)
        np.testing.assert_allclose(own, normalise(jnp.asarray(values), tables, jnp.asarray(other)), rtol=1e-6)
        np.testing.assert_allclose(np.bincount(tables.row_of, own), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(own[np.isin(tables.row_of, gone)], other[np.isin(tables.row_of, gone)])
