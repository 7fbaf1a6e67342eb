"""The collapsed sweep: its probabilities are ratios of the joint with the tables integrated out, which sums to one."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conformance import exact
from conformance.cases import CASES
from conformance.toys import Groups, Guessing, Subtypes
from hypothesis import given, settings
from hypothesis import strategies as st
from running import Recorder

import bayescrowd as bc
from bayescrowd.inference import get
from bayescrowd.inference._sequence import Laid
from bayescrowd.inference.base import Job
from bayescrowd.inference.collapsed_gibbs import _log_joint
from bayescrowd.kernels.collapsed import Chains, _one, segment_widths, sweep
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration, log_polya, tables_of

TWO = bc.IDBLA(n_levels=2, prevalence_prior=2.0, difficulty_prior=np.array([2.0, 1.0]), confusion_prior=exact.LEVELS)
REPEATS_PRIOR = bc.IDBLA(
    n_levels=2, prevalence_prior=2.0, difficulty_prior=np.array([2.0, 1.0]), confusion_prior=exact.by_level(2, 3)
)
FIXED = bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0, hard_error=0.5)


def laid_out(model, labels, scheme="joint"):
    start = np.full((labels.n_items, model.n_levels * labels.n_classes), 1.0)
    start[~_allowed(model, labels)] = 0
    settings = get("collapsed-gibbs").settings(scheme=scheme)
    return Laid(Job(model, labels, start / start.sum(1, keepdims=True), settings, 0, Recorder())), start


def _allowed(model, labels):
    classes = np.arange(model.n_levels * labels.n_classes) % labels.n_classes
    return (labels.gold_code[:, None] < 0) | (labels.gold_code[:, None] == classes)


def begin(laid, start, seed, n=1):
    return laid.begin(start / start.sum(1, keepdims=True), [np.random.default_rng([seed, k]) for k in range(n)])


def item_order(laid):
    """Item of each row of the layout."""
    return np.asarray(laid.arrays.item_of_row)[: int(np.asarray(laid.arrays.present).sum())]


def states_by_item(laid, chains, n_items):
    state = np.empty(n_items, int)
    state[item_order(laid)] = np.concatenate([np.asarray(part)[0] for part in chains.state])
    return state


def log_joint(model, labels, state):
    """Equation (5.1) by the oracle's formula: given states of all items, tables integrated out."""
    data = oracle.of_labels(labels)
    n_c, n_h = data.n_classes, model.n_levels
    prior = model.confusion_prior
    table = prior.table(n_c, data.n_labels) if hasattr(prior, "table") else np.asarray(prior, float)
    shape = (data.n_workers, n_h, n_c, data.n_labels)
    counts = np.zeros(shape)
    total = 0.0
    n_free = n_h - 2 if isinstance(model, bc.FixedIDBLA) else n_h
    for i, k, y, w in zip(data.item, data.worker, data.label, data.weight, strict=True):
        level, true_class = divmod(state[i], n_c)
        if level < n_free:
            counts[k, level, true_class, y] += w
        else:
            error = (model.easy_error, model.hard_error)[level - n_free]
            total += w * np.log(1 - error if y == true_class else error / (data.n_labels - 1))
    rows = np.broadcast_to(table, shape)
    total += oracle._log_polya(counts, rows).sum()
    count = lambda value, n: np.bincount(value, minlength=n).astype(float)
    total += oracle._log_polya(
        count(state % n_c, n_c), np.broadcast_to(np.asarray(model.prevalence_prior, float), (n_c,))
    )
    if n_h > 1:
        levels = np.broadcast_to(np.asarray(model.difficulty_prior, float), (n_h,))
        total += oracle._log_polya(count(state // n_c, n_h), levels)
    return total


CROSS = [
    (TWO, "golden"),
    (REPEATS_PRIOR, "repeats"),
    (TWO, "weighted"),
    (REPEATS_PRIOR, "everything"),
    (FIXED, "weighted"),
    (FIXED, "everything"),
]
every = pytest.mark.parametrize(
    ("model", "case"),
    [
        pytest.param(model, case, id=f"{model.name}-{case}", marks=() if case == "everything" else pytest.mark.slow)
        for model, case in CROSS
    ],
)


@every
def test_conditional_probabilities_are_ratios_of_the_joint(model, case):
    """Equation (5.2), with rising factorials for repeats and weights, is (5.1) with the state of one item changed."""
    labels = CASES[case]()
    with double_precision():
        laid, start = laid_out(model, labels)
        chains = begin(laid, start, seed=4)
        run, keys = jax.jit(sweep), jax.random.split(jax.random.key(1), 1)
        for index in range(3):
            before = states_by_item(laid, chains, labels.n_items)
            after_chains, probability = run(laid.design, chains, keys, index)
            after = states_by_item(laid, after_chains, labels.n_items)
            state = before.copy()
            for row, item in enumerate(item_order(laid)):
                allowed = _allowed(model, labels)[item]
                logs = np.full(len(allowed), -np.inf)
                for other in np.flatnonzero(allowed):
                    state[item] = other
                    logs[other] = log_joint(model, labels, state)
                expected = np.exp(logs - logs.max())
                np.testing.assert_allclose(probability[0, row], expected / expected.sum(), atol=1e-11)
                state[item] = after[item]
            chains = after_chains


@every
def test_the_joint_of_all_states_sums_to_the_evidence(model, case):
    labels = CASES[case]()
    data = oracle.of_labels(labels)
    total = [log_joint(model, labels, state) for state in oracle.assignments(data, model.n_levels)[::1]]
    found = exact.posterior(model, labels).log_evidence
    assert np.logaddexp.reduce(total) == pytest.approx(found, abs=1e-9)


@every
def test_counts_stay_those_of_the_states_and_the_joint_is_theirs(model, case):
    labels = CASES[case]()
    with double_precision():
        laid, start = laid_out(model, labels)
        chains = begin(laid, start, seed=1)
        run = jax.jit(sweep)
        for index in range(25):
            chains, _ = run(laid.design, chains, jax.random.split(jax.random.key(3), 1), index)
        state = states_by_item(laid, chains, labels.n_items)
        n = len(laid.alpha)
        counts = np.asarray(chains.counts)[0]
        # Row sums are sums of the entries; the last position stays 1.
        np.testing.assert_allclose(counts[n:-1], np.bincount(laid.row_of, counts[:n], laid.tables.n_rows), atol=1e-10)
        assert counts[-1] == 1
        expected = log_joint(model, labels, state)
        polya = float(log_polya(jnp.asarray(laid.alpha), jnp.asarray(counts[:n] - laid.alpha), laid.tables))
        found = float(_log_joint(laid.design, laid.alpha, chains, tables=laid.tables)[0])
    assert found == pytest.approx(expected, abs=1e-9)
    assert polya == pytest.approx(expected, abs=1e-9) or model is FIXED


def _joint_of_routes(model, laid, labels, state, route):
    """Log probability of states, routes and labels by the flat vector of counts, one label at a time."""
    tables, alpha = laid.tables, laid.alpha
    counts, total = np.zeros(len(alpha)), 0.0
    index = np.asarray(laid.design.index)
    constant = np.asarray(laid.design.log_constant)
    cell_of = {}
    for number in range(laid.arrays.n_cells):
        pair = (int(np.asarray(laid.arrays.cell_worker)[number]), int(np.asarray(laid.arrays.cell_label)[number]))
        cell_of[pair] = number
    for n, (i, k, y) in enumerate(zip(labels.item_code, labels.worker_code, labels.label_code, strict=True)):
        used = index[route[n], cell_of[int(k), int(y)], : laid.design.n_fractions, state[i]]
        for entry in used[used < len(alpha)]:
            counts[entry] += 1
        total += constant[route[n], cell_of[int(k), int(y)], state[i]]
    for i in range(labels.n_items):
        for entry in np.asarray(laid.design.state_entry)[:, state[i]]:
            counts[entry] += 1
    return total + float(log_polya(jnp.asarray(alpha), jnp.asarray(counts), tables))


def test_ways_are_summed_out_for_the_state():
    """Two routes: given the other items, the probability of a state sums over the routes of the item's labels."""
    model, labels = Guessing(guess_rate=0.3), CASES["golden"]()
    with double_precision():
        laid, start = laid_out(model, labels)
        chains = begin(laid, start, seed=2)
        segment = laid.segments[0]
        state = np.concatenate([np.asarray(part)[0] for part in chains.state])
        route = np.asarray(chains.route[0])[0]
        _, (_, _, probability) = _one(
            laid.design,
            chains.counts[0],
            (
                jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), segment),
                jnp.asarray(state[0]),
                jnp.asarray(route[0]),
                jnp.full(1 + segment.cell.shape[1], 0.5),
            ),
        )
        order = item_order(laid)
        item = order[0]
        by_item = np.empty(labels.n_items, int)
        by_item[order] = state
        # Routes of the labels in the order of the table.
        way = np.zeros(labels.n_annotations, int)
        for row, one in enumerate(order):
            mine = np.flatnonzero(labels.item_code == one)
            way[mine] = _routes_in_order(laid, labels, route, row, mine)
        mine = np.flatnonzero(labels.item_code == item)
        logs = []
        for other in range(2):
            by_item[item] = other
            parts = []
            for choice in itertools.product(range(2), repeat=len(mine)):
                way[mine] = choice
                parts.append(_joint_of_routes(model, laid, labels, by_item, way))
            logs.append(np.logaddexp.reduce(parts))
    expected = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    np.testing.assert_allclose(probability, expected, atol=1e-11)


def _routes_in_order(laid, labels, route, row, mine):
    """Routes of an item's labels, found by their cells."""
    cells = laid.segments[0].cell[row]
    worker, label = np.asarray(laid.arrays.cell_worker), np.asarray(laid.arrays.cell_label)
    position = {(int(worker[cell]), int(label[cell])): p for p, cell in enumerate(cells) if cell < laid.arrays.n_cells}
    return [route[row, position[int(labels.worker_code[n]), int(labels.label_code[n])]] for n in mine]


def test_one_variable_after_the_other_uses_the_same_table():
    """The two schemes give the same probabilities from the same place, and keep the item's other variable in turn."""
    labels = CASES["golden"]()
    with double_precision():
        joint, start = laid_out(TWO, labels)
        single, _ = laid_out(TWO, labels, "single")
        chains = begin(joint, start, seed=9)
        keys = jax.random.split(jax.random.key(0), 1)
        _, one = jax.jit(sweep)(joint.design, chains, keys, 0)
        _, other = jax.jit(sweep)(single.design, chains, keys, 0)
    np.testing.assert_allclose(one[0, 0], other[0, 0], atol=1e-12)


@pytest.mark.parametrize("model", [Groups(), Subtypes()], ids=lambda model: model.name)
def test_state_priors_of_their_own(model):
    """Items whose states use entries of their own, and one table of class and level together."""
    labels = CASES["golden"]()
    with double_precision():
        laid, start = laid_out(model, labels)
        chains = begin(laid, start, seed=0)
        for index in range(10):
            chains, probability = jax.jit(sweep)(laid.design, chains, jax.random.split(jax.random.key(5), 1), index)
        n = len(laid.alpha)
        counts = np.asarray(chains.counts)[0]
        np.testing.assert_allclose(probability.sum(-1), 1, atol=1e-12)
        np.testing.assert_allclose(counts[:n].sum() - laid.alpha.sum(), labels.n_items + labels.n_annotations)
        np.testing.assert_allclose(counts[n:-1], np.bincount(laid.row_of, counts[:n], laid.tables.n_rows), atol=1e-10)
        assert tables_of(model, laid.arrays.sizes) == laid.tables
        np.testing.assert_array_equal(concentration(model, laid.arrays.sizes), laid.alpha)


def test_chains_are_the_same_alone_or_together():
    labels = CASES["golden"]()
    with double_precision():
        laid, start = laid_out(TWO, labels)
        chains = begin(laid, start, seed=6, n=3)
        keys = jax.random.split(jax.random.key(1), 3)
        together, _ = jax.jit(sweep)(laid.design, chains, keys, 4)
        second = Chains(*jax.tree.map(lambda leaf: leaf[1:2], (chains.counts, chains.state, chains.route)))
        alone, _ = jax.jit(sweep)(laid.design, second, keys[1:2], 4)
    np.testing.assert_array_equal(together.state[0][1], alone.state[0][0])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 400), max_size=120))
def test_segments_cover_all_items_with_little_padding(degrees):
    degree = np.sort(np.array(degrees, int))[::-1]
    cuts = segment_widths(degree)
    ends = [end for end, _ in cuts]
    assert ends == sorted(set(ends))
    assert (ends[-1] if cuts else 0) == len(degree)
    start, slots = 0, 0
    for end, width in cuts:
        assert width == max(degree[start], 1)
        assert (degree[start:end] <= width).all()
        slots += (end - start) * width
        start = end
    # At most two slots per label where segments are uncut, and 30 % of all work (6 per item beside the labels) merged.
    least = degree.sum() + 6 * len(degree)
    assert slots + 6 * len(degree) <= max(1.3 * least, 2 * degree.sum() + 7 * len(degree))


def test_equal_items_make_one_segment():
    assert segment_widths(np.full(1000, 10)) == [(1000, 10)]
    assert segment_widths(np.zeros(0, int)) == []
    assert len(segment_widths(np.sort(np.random.default_rng(0).poisson(10, 5000))[::-1])) <= 3
