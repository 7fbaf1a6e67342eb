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
from bayescrowd.kernels.tables import Tables, tables_of
from bayescrowd.model import Model

__all__ = ["Plan", "group_repeats", "leave_one_out", "plan_of"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Plan:
    """What the passes need to know of model and labels.

    Parameters
    ----------
    arrays : LabelArrays
        The annotations; repeats of item, worker and label as one of a higher weight.
    routes : list of RouteEntries
        Table entries that labels use.
    constants : array [row, state] or None
        Sum over an item's labels of the given constants; None where there are none.
    states : list of int array
        Table entries that states use; see `state_table`. Empty in the general layout.
    grouped : tuple or None
        Annotations by item and worker, where a worker may label an item twice; see `fast_table`.
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
    grouped: Any
    general: Any
    tables: Tables = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    uses: tuple[Uses, ...] = field(default=(), metadata={"static": True})
    short: bool = field(default=False, metadata={"static": True})


class _Regrouped:
    """A label table whose annotations are groups of another's."""

    def __init__(self, labels: Table, *, by_label: bool) -> None:
        item, worker = labels.item_code.astype(np.int64), labels.worker_code.astype(np.int64)
        n_labels = len(labels.label_values)
        label = labels.label_code.astype(np.int64) if by_label else np.zeros_like(item)
        key = (item * labels.n_workers + worker) * n_labels + label
        found, position = np.unique(key, return_inverse=True)
        weight = np.bincount(position, labels.weight, len(found)).astype(float)
        self.item_code = (found // n_labels // labels.n_workers).astype(np.int32)
        self.worker_code = (found // n_labels % labels.n_workers).astype(np.int32)
        self.label_code = (found % n_labels).astype(np.int32)
        self.weight: np.ndarray | None = None if (weight == 1).all() else weight
        self.gold_code = labels.gold_code
        self.n_items, self.n_workers = labels.n_items, labels.n_workers
        self.classes = labels.classes
        self.label_values = labels.label_values if by_label else list(labels.label_values)[:1]


def group_repeats(labels: Table) -> tuple[Table, Table | None]:
    """Gather repeats of item, worker and label as one annotation of a higher weight.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.

    Returns
    -------
    tuple
        The table by item, worker and label; and, where a worker labelled an item twice or with a weight, the one by
        item and worker.
    """
    pair = labels.item_code.astype(np.int64) * labels.n_workers + labels.worker_code
    if labels.weight is None and len(np.unique(pair)) == len(pair):
        return labels, None
    return _Regrouped(labels, by_label=True), _Regrouped(labels, by_label=False)


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
    by_label, by_worker = group_repeats(labels)
    arrays = jax.device_put(padded_arrays(by_label, model))
    tables = tables_of(model, arrays.sizes)
    routes, states, constants = _indices(model, arrays, tables)
    rows_of_worker, steps = None, 1
    if by_worker is not None:
        # The worker's labels of an item together are at least as many as those alike.
        steps = most_steps(np.ones(1) if by_worker.weight is None else by_worker.weight)
        steps = steps if by_label.weight is None or most_steps(by_label.weight) else 0
        rows_of_worker = build_arrays(by_worker, pad_sizes=arrays.sizes != sizes_of(labels))
        rows_of_worker = jax.device_put(dataclasses.replace(rows_of_worker, sizes=arrays.sizes))
    fast = not (general or model.uses_item) and _is_plain(routes[0], states, arrays, tables)
    grouped = None
    if fast and rows_of_worker is not None:
        of_workers = _indices(model, rows_of_worker, tables)[0][0]
        here, there = np.asarray(arrays.row_of_item), np.asarray(rows_of_worker.row_of_item)
        row_here = np.where(
            np.asarray(rows_of_worker.present) > 0, here[np.asarray(rows_of_worker.item_of_row)], arrays.n_rows
        )
        row_there = there[np.asarray(arrays.item_of_row)]
        factors = [(entry, of_workers.counted) for entry in of_workers.entries]
        grouped = (rows_of_worker, factors, row_here.astype(np.int32), row_there.astype(np.int32))
        fast = _rows_are_of_workers(routes[0], of_workers, arrays, rows_of_worker, tables)
    constants = constants if np.any(np.asarray(constants)) else None
    if fast:
        used = [_uses(entry) for entry in states]
        short = int(np.bincount(by_label.item_code).max(initial=0)) <= SHORT
        return Plan(
            arrays,
            routes,
            constants,
            [entry for entry, _ in used],
            grouped,
            None,
            tables,
            steps,
            tuple(position for _, position in used),
            short,
        )
    return Plan(arrays, routes, constants, [], None, _general(routes[0], states, arrays, tables), tables, steps)


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


def _rows_are_of_workers(
    by_label: RouteEntries, by_worker: RouteEntries, arrays: LabelArrays, of_workers: LabelArrays, tables: Tables
) -> bool:
    """Whether the row that a label uses does not depend on the label."""
    position = np.zeros(arrays.sizes.n_workers, np.int64)
    # Padding cells repeat the first worker and come last: take the first cell of each worker.
    first = np.unique(np.asarray(of_workers.cell_worker), return_index=True)
    position[first[0]] = first[1]
    used = np.zeros(arrays.sizes.n_workers, bool)
    used[first[0]] = True
    cell_worker = np.asarray(arrays.cell_worker)
    keep = used[cell_worker]
    same_counted = np.asarray(by_label.counted)[keep] == np.asarray(by_worker.counted)[position[cell_worker]][keep]
    same = all(
        (
            (tables.row_of[np.asarray(one)] == tables.row_of[np.asarray(other)][position[cell_worker]])[keep]
            | ~np.asarray(by_label.counted)[keep]
        ).all()
        for one, other in zip(by_label.entries, by_worker.entries, strict=True)
    )
    return bool(same_counted.all()) and same


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
    products = moments == "zero" and plan.grouped is None and plan.arrays.block_weight is None
    prior, more = state_table(rows, alpha, plan.states, plan.uses, len(tables.row_of), moments, logs=not products)
    labels, counts = fast_table(
        rows,
        alpha,
        plan.routes[0],
        plan.arrays,
        tables,
        moments,
        plan.steps,
        plan.grouped,
        first=prior if products else None,
        short=plan.short,
    )
    return _with_constants(labels if products else labels + prior, plan), counts + more


def _with_constants(table: Any, plan: Plan) -> Any:
    return table if plan.constants is None else table + plan.constants
