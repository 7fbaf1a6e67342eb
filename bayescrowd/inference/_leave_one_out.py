"""Which leave-one-out layout a model and a label table need, and the table from it.

Indices are worked out once per fit, on the host; what the passes need travels as a pytree.
"""

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum

from bayescrowd.data.arrays import LabelArrays, Table, build_arrays
from bayescrowd.inference.base import padded_arrays, sizes_of
from bayescrowd.kernels.annotations import annotations_of, item_table
from bayescrowd.kernels.entries import RouteEntries, route_entries, state_entries
from bayescrowd.kernels.incidences import Incidences, incidence_table, incidences, most_steps
from bayescrowd.kernels.leave_one_out import SHORT, Uses, fast_table, state_table
from bayescrowd.kernels.leave_one_out_sums import Repeats
from bayescrowd.kernels.tables import Tables, concentration, tables_of
from bayescrowd.model import Model

__all__ = ["Plan", "group_repeats", "leave_one_out", "plan_of"]

_TINY_PRIOR = 1e-4
"""Smallest prior concentration with which products of a few fractions cannot vanish."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Plan:
    """What the passes need to know of model and labels.

    Parameters
    ----------
    arrays : LabelArrays
        The single annotations (in the general layout all, repeats of item, worker and label as one of a higher weight).
    routes : list of RouteEntries
        Table entries that labels use.
    constants : array [row, state] or None
        Sum over an item's labels of the given constants; None where there are none.
    states : list of int array
        Table entries that states use; see `state_table`. Empty in the general layout.
    repeats : Repeats or None
        Annotations of workers who labelled an item more than once, or with a weight; see `fast_table`.
    general : tuple of Incidences or None
        Entries and table rows that items use, in the general layout.
    tables : Tables
        Layout of the table entries (static).
    steps : int
        See `most_steps` (static).
    uses : tuple
        Which entries of ``states`` each state uses (static).
    short : bool
        True where every item has few labels (static); see `fast_table`.
    """

    arrays: LabelArrays
    routes: list[RouteEntries]
    constants: Any
    states: list[Any]
    repeats: Repeats | None
    general: Any
    tables: Tables = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    uses: tuple[Uses, ...] = field(default=(), metadata={"static": True})
    short: bool = field(default=False, metadata={"static": True})


class _Part:
    """A label table that holds some of another's annotations, on some of its items, or groups of them."""

    def __init__(
        self,
        labels: Table,
        codes: tuple[np.ndarray, np.ndarray, np.ndarray],
        weight: np.ndarray | None,
        items: np.ndarray | None = None,
    ) -> None:
        item, worker, label = codes
        self.item_code = (item if items is None else np.searchsorted(items, item)).astype(np.int32)
        self.worker_code, self.label_code = worker.astype(np.int32), label.astype(np.int32)
        self.weight = None if weight is None or (weight == 1).all() else weight
        self.gold_code = labels.gold_code if items is None else labels.gold_code[items]
        self.n_items = labels.n_items if items is None else len(items)
        self.n_workers, self.classes, self.label_values = labels.n_workers, labels.classes, labels.label_values


def _gathered(labels: Table, kept: np.ndarray, items: np.ndarray | None, *, by_label: bool) -> Table:
    """Gather annotations alike in item, worker (and label) as one of a higher weight."""
    item, worker = labels.item_code[kept].astype(np.int64), labels.worker_code[kept].astype(np.int64)
    n_labels = len(labels.label_values)
    label = labels.label_code[kept].astype(np.int64) if by_label else np.zeros_like(item)
    found, position = np.unique((item * labels.n_workers + worker) * n_labels + label, return_inverse=True)
    weight = np.bincount(position, None if labels.weight is None else labels.weight[kept], len(found)).astype(float)
    codes = (found // n_labels // labels.n_workers, found // n_labels % labels.n_workers, found % n_labels)
    part = _Part(labels, codes, weight, items)
    if not by_label:
        part.label_values = list(labels.label_values)[:1]
    return part


def group_repeats(labels: Table) -> tuple[Table, tuple[Table, Table, np.ndarray] | None]:
    """Part the annotations that stand alone from those of workers who labelled an item more than once.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.

    Returns
    -------
    tuple
        The single annotations of weight 1; and, where there are others, these by item, worker and label, the same by
        item and worker, and the items that they are of (both tables hold these items only).
    """
    pair = labels.item_code.astype(np.int64) * labels.n_workers + labels.worker_code
    _, place, count = np.unique(pair, return_inverse=True, return_counts=True)
    several = count[place] > 1
    if labels.weight is not None:
        several |= labels.weight != 1
    if not several.any():
        return labels if labels.weight is None else _gathered(labels, ~several, None, by_label=True), None
    codes = (labels.item_code[~several], labels.worker_code[~several], labels.label_code[~several])
    items = np.unique(labels.item_code[several])
    by_label, by_worker = (_gathered(labels, several, items, by_label=kind) for kind in (True, False))
    return _Part(labels, codes, None), (by_label, by_worker, items)


@partial(jax.jit, static_argnames="tables")
def _indices(model: Model, arrays: LabelArrays, tables: Tables) -> tuple[list[RouteEntries], list[Any], Any]:
    routes = route_entries(model, arrays, tables)
    return routes, state_entries(model, arrays, tables), item_table(routes[0].log_constant, arrays)


def plan_of(model: Model, labels: Table, *, general: bool = False) -> Plan:
    """Work out the layout.

    Parameters
    ----------
    model : Model
        A model with one route.
    labels : CrowdLabels
        The label table.
    general : bool
        Take the general layout even where the fast one would do.

    Returns
    -------
    Plan
        On the device.
    """
    singles, others = group_repeats(labels)
    repeats, more, steps = None, None, 1
    arrays = jax.device_put(padded_arrays(singles, model))
    tables = tables_of(model, arrays.sizes)
    routes, states, constants = _indices(model, arrays, tables)
    if others is not None:
        by_label, by_worker, items = others
        # The worker's labels of an item together are at least as many as those alike.
        steps = most_steps(np.ones(1) if by_worker.weight is None else by_worker.weight)
        steps = steps if by_label.weight is None or most_steps(by_label.weight) else 0
        repeats, more = _repeats(model, labels, arrays, (by_label, by_worker, items), tables)
    fast = not (general or model.uses_item) and _is_plain(routes[0], states, arrays, tables)
    fast = fast and (repeats is None or _is_plain(repeats.route, states, repeats.labels, tables))
    fast = fast and (repeats is None or _rows_are_of_workers(repeats, tables))
    if fast:
        if repeats is not None:
            constants = constants.at[repeats.at_labels].add(more, mode="drop")
        used = [_uses(entry) for entry in states]
        # Each label multiplies as many fractions as it uses tables; tiny priors make tiny fractions.
        most = int(np.bincount(singles.item_code).max(initial=0)) * len(routes[0].entries)
        short = most <= SHORT and float(np.min(np.asarray(concentration(model, arrays.sizes)))) >= _TINY_PRIOR
        return Plan(
            arrays,
            routes,
            constants if np.any(np.asarray(constants)) else None,
            [entry for entry, _ in used],
            repeats,
            None,
            tables,
            steps,
            tuple(position for _, position in used),
            short,
        )
    if others is not None:
        every = _gathered(labels, np.ones(len(labels.item_code), bool), None, by_label=True)
        arrays = jax.device_put(padded_arrays(every, model))
        routes, states, constants = _indices(model, arrays, tables)
    constants = constants if np.any(np.asarray(constants)) else None
    return Plan(arrays, routes, constants, [], None, _general(routes[0], states, arrays, tables), tables, steps)


def _repeats(
    model: Model, labels: Table, arrays: LabelArrays, others: tuple[Table, Table, np.ndarray], tables: Tables
) -> tuple[Repeats, Any]:
    """Lay out what is not single, and the constants of its labels [row]."""
    by_label, by_worker, items = others
    laid, found = [], []
    here = np.asarray(arrays.row_of_item)[items]
    for table in (by_label, by_worker):
        part = build_arrays(table, pad_sizes=arrays.sizes != sizes_of(labels), by_annotation=model.uses_item)
        at = np.where(np.asarray(part.present) > 0, here[np.asarray(part.item_of_row)], arrays.n_rows)
        laid.append((jax.device_put(dataclasses.replace(part, sizes=arrays.sizes)), at.astype(np.int32)))
        found.append(_indices(model, laid[-1][0], tables))
    (labels_there, at_labels), (workers_there, at_workers) = laid
    route, of_workers = found[0][0][0], found[1][0][0]
    rows = [(entry, of_workers.counted) for entry in of_workers.entries]
    return Repeats(labels_there, route, workers_there, rows, at_labels, at_workers), found[0][2]


def _uses(entry: Any) -> tuple[np.ndarray, Uses]:
    used, position = np.unique(np.asarray(entry)[0], return_inverse=True)
    return used.astype(np.int32), tuple(position.tolist())


def _is_plain(route: RouteEntries, states: list[Any], arrays: LabelArrays, tables: Tables) -> bool:
    """Whether a label uses, under different states, rows of its own worker that differ; and states one row each."""
    counted = np.asarray(route.counted)
    rows = []
    for entry in route.entries:
        entry = np.asarray(entry)
        worker = np.asarray(arrays.cell_worker)[:, None]
        if (counted & (tables.worker_of[entry] != worker)).any():
            return False
        rows.append(np.where(counted, tables.row_of[entry], -1 - np.arange(entry.shape[1])))
    ordered = np.sort(np.concatenate(rows, axis=1), axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        return False
    return all(entry.shape[0] == 1 and len(np.unique(tables.row_of[np.asarray(entry)])) == 1 for entry in states)


def _rows_are_of_workers(repeats: Repeats, tables: Tables) -> bool:
    """Whether the row that a label uses does not depend on the label."""
    workers = np.asarray(repeats.workers.cell_worker)
    position = np.zeros(repeats.labels.sizes.n_workers, np.int64)
    # Padding cells repeat the first worker and come last: take the first cell of each worker.
    present, first = np.unique(workers, return_index=True)
    position[present] = first
    used = np.zeros(len(position), bool)
    used[present] = True
    cell_worker = np.asarray(repeats.labels.cell_worker)
    keep = used[cell_worker]
    counted = np.asarray(repeats.route.counted)
    for entry, (row_entry, row_counted) in zip(repeats.route.entries, repeats.rows, strict=True):
        same = tables.row_of[np.asarray(entry)] == tables.row_of[np.asarray(row_entry)][position[cell_worker]]
        alike = counted == np.asarray(row_counted)[position[cell_worker]]
        if not ((same | ~counted) & alike)[keep].all():
            return False
    return True


def _general(
    route: RouteEntries, states: list[Any], arrays: LabelArrays, tables: Tables
) -> tuple[Incidences, Incidences]:
    row, cell, weight = annotations_of(arrays)
    counted = np.asarray(route.counted)[cell]
    n_states = counted.shape[1]
    parts = []
    for entry in route.entries:
        which, state = np.nonzero(counted)
        parts.append((row[which], state, np.asarray(entry)[cell[which], state], weight[which]))
    present = np.flatnonzero(np.asarray(arrays.present) > 0)
    for entry in states:
        every = np.broadcast_to(np.asarray(entry), (arrays.n_rows, n_states))[present]
        parts.append(
            (
                np.repeat(present, n_states),
                np.tile(np.arange(n_states), len(present)),
                every.ravel(),
                np.ones(every.size),
            )
        )
    item, state, entry, count = (np.concatenate(part) for part in zip(*parts, strict=True))
    return incidences(item, state, entry, count), incidences(item, state, tables.row_of[entry], count)


def leave_one_out(plan: Plan, alpha: Any, rows: Any, moments: str) -> tuple[Any, Any]:
    """Compute the log weights of the states given the others' expected counts, and the expected counts of all.

    Parameters
    ----------
    plan : Plan
        The layout.
    alpha : array [entry]
        Prior concentrations.
    rows : array [row, state]
        Probabilities of the states.
    moments : str
        How expected logarithms are approximated.

    Returns
    -------
    tuple of array
        Log weights [row, state] up to a constant per row, gold not yet applied; and counts [entry].
    """
    tables = plan.tables
    if plan.general is not None:
        row_of = jnp.asarray(tables.row_of)
        total = segment_sum(alpha, row_of, tables.n_rows, indices_are_sorted=True)
        above, counts = incidence_table(rows, alpha, plan.general[0], len(row_of), moments)
        below, _ = incidence_table(rows, total, plan.general[1], tables.n_rows, moments)
        return _with_constants(above - below, plan), counts
    products = moments == "zero" and plan.arrays.block_weight is None
    prior, more = state_table(rows, alpha, plan.states, plan.uses, len(tables.row_of), moments, logs=not products)
    labels, counts = fast_table(
        rows,
        alpha,
        plan.routes[0],
        plan.arrays,
        tables,
        moments,
        plan.steps,
        plan.repeats,
        first=prior if products else None,
        short=plan.short,
    )
    return _with_constants(labels if products else labels + prior, plan), counts + more


def _with_constants(table: Any, plan: Plan) -> Any:
    return table if plan.constants is None else table + plan.constants
