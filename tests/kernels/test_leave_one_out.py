"""Leave-one-out tables, in both layouts, against plain sums over pairs of items."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pairwise
import pytest
from conformance.cases import CASES, MODELS
from conformance.toys import FixedLevels, Groups, Subtypes, TwoLevels, _OneLevel, _shares, _table
from numpyro import distributions as dist
from running import of_rows

import bayescrowd as bc
from bayescrowd.inference._leave_one_out import group_repeats, leave_one_out, plan_of
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.incidences import most_steps
from bayescrowd.kernels.moments import MOMENTS
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration
from bayescrowd.model import Route, diagonal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneCoin(_OneLevel):
    """Right with the worker's own rate, wrong labels alike: all classes that a label denies share an entry."""

    prevalence_prior: Any = 1.0
    rate_prior: Any = field(default_factory=lambda: np.array([2.5, 0.8]))

    name = "one-coin"

    def parameters(self, sizes):
        shares = _shares(self.prevalence_prior, sizes.n_classes)
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-1):
            rate = numpyro.sample("rate", dist.Beta(self.rate_prior[0], self.rate_prior[1]))
        return {"prevalence": prevalence, "rate": rate}

    def log_response(self, parameters, at):
        rate = parameters["rate"][at.worker]
        wrong = jnp.log1p(-rate) - np.log(at.sizes.n_labels - 1)
        return jnp.where(at.label == at.true_class, jnp.log(rate), wrong)

    def routes(self, at):
        right = at.label == at.true_class
        constant = jnp.where(right, 0.0, -np.log(at.sizes.n_labels - 1))
        return [Route({"rate": (at.worker, jnp.where(right, 0, 1))}, constant)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pooled(_OneLevel):
    """One confusion matrix for all workers: a worker's labels share rows with everybody's."""

    prevalence_prior: Any = 1.0
    confusion_prior: Any = field(default=diagonal(3.0, 1.0))

    name = "pooled"

    def parameters(self, sizes):
        shares = _shares(self.prevalence_prior, sizes.n_classes)
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(
                jnp.broadcast_to(_table(self.confusion_prior, sizes), (sizes.n_classes, sizes.n_labels))
            )
            shared = numpyro.sample("shared_confusion", rows, infer={"event_dims": ["label"]})
        return {"prevalence": prevalence, "shared_confusion": shared}

    def log_response(self, parameters, at):
        return jnp.log(parameters["shared_confusion"])[at.true_class, at.label]

    def routes(self, at):
        return [Route({"shared_confusion": (at.true_class, at.label)})]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoTables(_OneLevel):
    """A label is a product of entries of two tables of the worker (an odd model, but one that the contract allows)."""

    prevalence_prior: Any = 1.0
    confusion_prior: Any = field(default=diagonal(3.0, 1.0))

    name = "two-tables"

    def parameters(self, sizes):
        shares = _shares(self.prevalence_prior, sizes.n_classes)
        values = {"prevalence": numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})}
        shape = (sizes.n_workers, sizes.n_classes, sizes.n_labels)
        with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
            for name, factor in (("first", 1.0), ("second", 0.5)):
                rows = dist.Dirichlet(factor * jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
                values[name] = numpyro.sample(name, rows, infer={"event_dims": ["label"]})
        return values

    def log_response(self, parameters, at):
        where = (at.worker, at.true_class, at.label)
        return jnp.log(parameters["first"])[where] + jnp.log(parameters["second"])[where]

    def routes(self, at):
        where = (at.worker, at.true_class, at.label)
        return [Route({"first": where, "second": where})]


FREE = [
    bc.DawidSkene(confusion_prior=bc.diagonal(2, 0.2)),
    bc.IDBLA(n_levels=2, prevalence_prior=2.0, difficulty_prior=np.array([1.0, 3.0])),
    bc.IDBLA(n_levels=1, confusion_prior=0.1),
    bc.FixedIDBLA(easy_error=0.07, confusion_prior=0.4),
    bc.FixedIDBLA(n_levels=4),
]
FAST = [*FREE, TwoLevels(), FixedLevels(), Subtypes(), TwoTables()]
GENERAL = [OneCoin(), Pooled(), Groups()]
name_of = lambda model: f"{model.name}{model.n_levels}"


_compute = jax.jit(leave_one_out, static_argnames="moments")


def thinned(*axes, fast):
    """Combinations in which every value meets every approximation; those outside ``fast`` are slow.

    Of all combinations one in three or six is kept (a Latin square): each costs seconds of compiling.
    """
    mark = lambda values: () if fast(*values) else pytest.mark.slow
    word = lambda value: value if isinstance(value, str) else name_of(value)
    places = [range(len(axis)) for axis in axes]
    return [
        pytest.param(*values, marks=mark(values), id="-".join(word(value) for value in values))
        for place, values in zip(itertools.product(*places), itertools.product(*axes), strict=True)
        if fast(*values) or sum(place) % {2: 2, 3: 3, 4: 6}[len(axes)] == 0
    ]


def random_rows(plan, seed, spread=0.7):
    """Random probabilities: by item, and in the order of the layout."""
    rng = np.random.default_rng(seed)
    n_items = int(np.asarray(plan.arrays.present).sum())
    n_states = plan.routes[0].counted.shape[1]
    q = rng.dirichlet(np.full(n_states, spread), n_items)
    rows = np.zeros((plan.arrays.n_rows, n_states))
    rows[np.asarray(plan.arrays.row_of_item)[:n_items]] = q
    return q, rows


def computed(model, labels, moments, *, general=False, seed=0, q=None):
    """Log weights [item, state] and counts by site, from the package, and the probabilities used."""
    with double_precision():
        plan = plan_of(model, labels, general=general)
        drawn, rows = random_rows(plan, seed)
        if q is not None:
            drawn = q
            rows[np.asarray(plan.arrays.row_of_item)[: labels.n_items]] = q
        alpha = concentration(model, plan.arrays.sizes)
        table, counts = _compute(plan, alpha, jnp.asarray(rows), moments=moments)
        table = np.asarray(table)[np.asarray(plan.arrays.row_of_item)[: labels.n_items]]
        return table, trimmed(plan, np.asarray(counts), model, labels), drawn, plan


def trimmed(plan, counts, model, labels):
    """Counts of the sites at their exact sizes."""
    found = {}
    for name, site in model.sites(sizes_of(labels)).items():
        shape = plan.tables.shapes[plan.tables.names.index(name)]
        first = plan.tables.offsets[name]
        table = counts[first : first + int(np.prod(shape))].reshape(shape)
        found[name] = table[tuple(slice(n) for n in site.concentration.shape)]
    return found


def held(model, labels, moments, *, general=False, tolerance=1e-12, q=None):
    """Compare with sums over pairs of items."""
    table, counts, q, plan = computed(model, labels, moments, general=general, q=q)
    used = pairwise.usage(model, labels)
    expected = pairwise.log_weights(used, q, moments)
    np.testing.assert_allclose(pairwise.centred(table), pairwise.centred(expected), rtol=0, atol=tolerance)
    flat = np.einsum("is,ise->e", q, used.entry)
    np.testing.assert_allclose(
        np.concatenate([np.ravel(counts[name]) for name in used.tables.names]), flat, rtol=1e-12, atol=1e-12
    )
    return plan


def whole(labels):
    """The same labels with whole weights."""
    if labels.weight is None:
        return labels
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    return of_rows(
        rows,
        classes=labels.n_classes,
        label_values=len(labels.label_values),
        items=list(labels.items),
        workers=list(labels.workers),
        weight=np.ceil(labels.weight),
    )


def contradictions():
    """A worker who says two things of one item, once each: labels count once, rows twice."""
    rows = [(0, 0, 1), (0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 1, 1), (2, 1, 0), (3, 0, 1)]
    return of_rows(rows, classes=2)


SMALL = {name: CASES[name] for name in ("golden", "repeats", "everything")} | {"contradictions": contradictions}
_AT_ONCE = {
    ("everything", "idbla2", "zero"),
    ("everything", "fixed-idbla3", "zero-split"),
    ("golden", "idbla2", "zero-split"),
    ("golden", "fixed-idbla3", "zero"),
    ("contradictions", "two-tables1", "zero"),
    ("everything", "one-coin1", "zero-split"),
    ("everything", "groups1", "zero-split"),
}


@pytest.mark.parametrize(
    ("case", "model", "moments", "layout"),
    thinned(
        SMALL,
        [*FAST, *GENERAL],
        MOMENTS,
        ("fast", "general"),
        fast=lambda case, model, moments, layout: (
            (case, name_of(model), moments) in _AT_ONCE and (layout == "general" or model in FAST)
        ),
    ),
)
def test_small_tables_are_the_sums_over_pairs(case, model, moments, layout):
    """Holes, repeats, contradictions of one worker, labels that are no class, whole weights."""
    plan = held(model, whole(SMALL[case]()), moments, general=layout == "general")
    assert (plan.general is None) == (layout == "fast" and model in FAST)


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in MODELS if m.has_routes and m.name != "guessing"], ids=name_of)
def test_every_model_on_every_table(model):
    for place, case in enumerate(CASES.values()):
        held(model, whole(case()), MOMENTS[place % len(MOMENTS)])


@pytest.mark.parametrize(
    ("model", "layout"),
    thinned([*FREE[:4], TwoTables(), OneCoin(), Groups()], ("fast", "general"), fast=lambda model, _: model is FREE[3]),
)
def test_fractional_weights_with_moments_zero(model, layout):
    for case in ("everything", "weighted") if model is not FREE[3] else ("everything",):
        held(model, CASES[case](), "zero", general=layout == "general")


def crowd(seed=0, n_items=40, n_workers=7, n_classes=2, per_item=5, long=0, repeats=0, weights=False):
    """Random labels; one item with a label of each of ``long`` workers; some rows once more, some contradicted."""
    rng = np.random.default_rng(seed)
    n_workers = max(n_workers, long)
    rows = [
        (i, k, rng.integers(n_classes))
        for i in range(n_items)
        for k in rng.choice(n_workers, rng.integers(1, per_item + 1), replace=False)
    ]
    rows += [(0, k, rng.integers(n_classes)) for k in range(long) if (0, k) not in {row[:2] for row in rows}]
    again = [rows[n] for n in rng.integers(len(rows), size=repeats)]
    rows += again + [(i, k, rng.integers(n_classes)) for i, k, _ in again]
    weight = rng.integers(1, 4, len(rows)).astype(float) if weights else None
    workers = [f"w{k}" for k in range(n_workers)]
    return of_rows(rows, classes=n_classes, items=[f"i{i}" for i in range(n_items)], workers=workers, weight=weight)


TABLES = {
    "plain": crowd(),
    "three-classes": crowd(seed=1, n_classes=3),
    "one-long-item": crowd(seed=2, long=64, n_workers=20),
    "repeats": crowd(seed=3, repeats=15),
    "long-repeats-weights": crowd(seed=4, long=70, repeats=10, weights=True),
}


@pytest.mark.parametrize(
    ("table", "model", "moments"),
    thinned(
        TABLES,
        [FREE[1], FREE[3], TwoTables()],
        MOMENTS,
        fast=lambda table, model, moments: (
            model is FREE[1] and (table, moments) in {("one-long-item", "zero"), ("long-repeats-weights", "zero-split")}
        ),
    ),
)
def test_larger_tables_are_the_sums_over_pairs(table, model, moments):
    plan = held(model, TABLES[table], moments, tolerance=2e-12 if "long" in table else 1e-12)
    assert plan.general is None
    if "long" in table:  # labels of the long item lie outside the blocks
        assert (np.asarray(plan.arrays.loose_cell) < plan.arrays.n_cells).any()


@pytest.mark.parametrize(
    ("model", "moments"),
    thinned([*FREE[1:4], TwoTables()], MOMENTS, fast=lambda model, moments: model is FREE[1] and moments == "zero"),
)
def test_both_layouts_agree(model, moments):
    """A few hundred labels: products of fractions are folded into logarithms on the way."""
    for more in ({"long": 120}, {"repeats": 30}, {"long": 90, "weights": True}):
        labels = crowd(seed=9, n_items=90, n_workers=60, n_classes=3, per_item=55, **more)
        one, counts, _, fast = computed(model, labels, moments)
        other, again, _, slow = computed(model, labels, moments, general=True)
        assert fast.general is None
        assert slow.general is not None
        np.testing.assert_allclose(pairwise.centred(one), pairwise.centred(other), rtol=0, atol=1e-11)
        for name, value in counts.items():
            np.testing.assert_allclose(value, again[name], rtol=1e-12, atol=1e-11)


def test_products_of_tiny_fractions_do_not_vanish():
    """Hundreds of labels with fractions of a hundredth: far below the smallest number, if they were multiplied."""
    n_workers = 300
    rows = [(i, k, i % 2) for i in range(4) for k in range(n_workers)]
    labels = of_rows(rows, classes=2)
    q = np.full((4, 2), 0.5)
    q[:2] = [[0.999, 0.001], [0.001, 0.999]]
    model = bc.DawidSkene(confusion_prior=0.001)
    held(model, labels, "zero", q=q, tolerance=1e-9)
    assert np.isfinite(computed(model, labels, "zero", q=q)[0]).all()


@pytest.mark.parametrize(
    ("moments", "layout"),
    thinned(MOMENTS, ("fast", "general"), fast=lambda moments, layout: moments == "zero-split" and layout == "fast"),
)
def test_certain_items_are_no_trouble(moments, layout):
    """Where all are sure, the counts are whole and every approximation is exact."""
    labels = crowd(seed=5, repeats=8)
    model = FREE[1]
    q = np.eye(4)[np.random.default_rng(0).integers(4, size=labels.n_items)]
    table, *_ = computed(model, labels, moments, general=layout == "general", q=q)
    expected = pairwise.log_weights(pairwise.usage(model, labels), q, "zero")
    np.testing.assert_allclose(pairwise.centred(table), pairwise.centred(expected), atol=1e-8)


def test_repeats_are_set_apart_and_gathered():
    labels = of_rows([(0, 0, 1), (0, 0, 1), (0, 0, 0), (1, 0, 0), (1, 1, 0)], classes=2)
    singles, others = group_repeats(labels)
    assert list(zip(singles.item_code, singles.worker_code, singles.label_code, strict=True)) == [(1, 0, 0), (1, 1, 0)]
    assert singles.weight is None
    by_label, by_worker, items = others
    assert items.tolist() == [0]
    found = zip(by_label.item_code, by_label.worker_code, by_label.label_code, by_label.weight, strict=True)
    assert list(found) == [(0, 0, 0, 1), (0, 0, 1, 2)]
    assert (by_worker.item_code.tolist(), by_worker.weight.tolist()) == ([0], [3])
    assert group_repeats(of_rows([(0, 0, 1), (1, 0, 0)], classes=2))[1] is None
    weighted = of_rows([(0, 0, 1), (1, 0, 0)], classes=2, weight=[1.0, 2.0])
    assert group_repeats(weighted)[1][2].tolist() == [1]


def test_when_logarithms_are_added_one_by_one():
    assert most_steps(np.array([1.0, 3.0])) == 3
    assert most_steps(np.array([1.0, 1.5])) == 0
    assert most_steps(np.array([1.0, 1e6])) == 0


@pytest.mark.parametrize("moments", MOMENTS)
def test_a_table_of_repeats_alone(moments):
    """Nobody labelled an item but once or with weight 1: nothing is single. With gold, and levels that are given."""
    rows = [(i, k, (i * k) % 2) for i in range(4) for k in range(3)]
    twice = of_rows(rows + rows[:6], classes=2, weight=[1.0] * 6 + [3.0] * 6 + [1.0] * 6, gold={1: 0})
    plan = held(FREE[3], twice, moments)
    assert plan.repeats is not None
    assert (np.asarray(plan.arrays.blocks) == plan.arrays.n_cells).all()
    if moments == "zero":
        held(FREE[3], of_rows(rows + rows, classes=2, weight=[0.5] * 24, gold={1: 0}), moments)


@pytest.mark.slow
@pytest.mark.parametrize("moments", MOMENTS)
def test_large_weights_take_gamma_functions(moments):
    rows = [(i, k, (i + k) % 2) for i in range(5) for k in range(3)]
    labels = of_rows(rows, classes=2, weight=np.where(np.arange(15) % 4 == 0, 20.0, 2.0))
    for general in (False, True):
        held(FREE[1], labels, moments, general=general, tolerance=1e-10)
