"""The sums behind leave-one-out tables: what all items add to the table entries and rows, laid out for the walks.

See `bayescrowd.kernels.leave_one_out`, which uses them.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ops import segment_sum

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.kernels.annotations import cell_counts
from bayescrowd.kernels.entries import RouteEntries
from bayescrowd.kernels.moments import n_moments
from bayescrowd.kernels.tables import Tables

__all__ = [
    "Repeats",
    "inert_row",
    "laid_above",
    "laid_below",
    "sums_of_cells",
    "totals_of_entries",
    "totals_of_rows",
    "totals_of_workers_rows",
]

_INERT = 1e6
"""Counts of what takes no part: the same above and below a fraction, which is then 1 exactly."""


def sums_of_cells(own: Any, arrays: LabelArrays, moments: str) -> Any:
    """Sum what items add by cell, [cell, moment, state]; each moment has its own power of the weights."""
    n_rows, n_states = own.shape[1:]
    if arrays.block_weight is None:
        columns = own.transpose(1, 0, 2).reshape(n_rows, -1)
        return cell_counts(columns, arrays).reshape(-1, n_moments(moments), n_states)
    parts = []
    for index, power in enumerate((1, 2, 0)[: n_moments(moments)]):
        weighted = _with_weights(arrays, power)
        parts.append(cell_counts(own[index], weighted))
    return jnp.stack(parts, axis=1)


def _with_weights(arrays: LabelArrays, power: int) -> LabelArrays:
    change: dict[str, Any] = {
        name: jnp.where(weight > 0, jnp.asarray(weight) ** power, 0.0)
        for name in ("block_weight", "loose_weight")
        if (weight := getattr(arrays, name)) is not None
    }
    return dataclasses.replace(arrays, **change)


class Repeats(NamedTuple):
    """Annotations of workers who labelled an item more than once (or with a weight), apart from the single ones.

    Parameters
    ----------
    labels : LabelArrays
        By item, worker and label, weighted by their number.
    route : RouteEntries
        Entries of the cells of ``labels``.
    workers : LabelArrays
        By item and worker: cells are workers, weighted by number.
    rows : list of tuple
        For every factor: entries and counted flags [worker cell, state], to find the table rows.
    at_labels, at_workers : int array
        Row of the single annotations' layout for each row of ``labels`` and of ``workers``; one past the end for
        padding.
    """

    labels: LabelArrays
    route: RouteEntries
    workers: LabelArrays
    rows: list[tuple[Any, Any]]
    at_labels: Any
    at_workers: Any


def totals_of_entries(by_cell: Any, route: RouteEntries, n_entries: int) -> list[Any]:
    """Sum over the table entries [moment, entry], for every factor."""
    counted = route.counted[:, None]
    value = jnp.where(counted, by_cell, 0.0).transpose(1, 0, 2)
    empty = jnp.zeros((by_cell.shape[1], n_entries))
    return [empty.at[:, entry].add(value) for entry in route.entries]


def totals_of_workers_rows(by_worker: Any, rows: list[tuple[Any, Any]], tables: Tables) -> list[Any]:
    """Sum over the table rows [moment, row] what workers add, for every factor."""
    row_of = jnp.asarray(tables.row_of)
    empty = jnp.zeros((by_worker.shape[1], tables.n_rows))
    return [
        empty.at[:, row_of[entry]].add(jnp.where(counted[:, None], by_worker, 0.0).transpose(1, 0, 2))
        for entry, counted in rows
    ]


def totals_of_rows(flat: list[Any], tables: Tables) -> list[Any]:
    """Sum over the table rows where every label adds once to its row."""
    row_of = jnp.asarray(tables.row_of)
    add: Any = jax.vmap(lambda one: segment_sum(one, row_of, tables.n_rows, indices_are_sorted=True))
    return [add(one) for one in flat]


def laid_above(flat: list[Any], route: RouteEntries, alpha: Any) -> Any:
    """Lay out sums and concentrations of the entries of each cell [cell, factor, moment + 1, state]."""
    counted = route.counted[:, None]
    parts = zip(flat, route.entries, strict=True)
    return jnp.stack([_stacked(one[:, entry].transpose(1, 0, 2), alpha[entry], counted) for one, entry in parts], 1)


def laid_below(totals: list[Any], rows: list[tuple[Any, Any]], alpha: Any, tables: Tables) -> Any:
    """Lay out the same of their rows."""
    row_of = jnp.asarray(tables.row_of)
    whole = segment_sum(alpha, row_of, tables.n_rows, indices_are_sorted=True)
    parts = []
    for one, (entry, counted) in zip(totals, rows, strict=True):
        of_row = row_of[entry]
        parts.append(_stacked(one[:, of_row].transpose(1, 0, 2), whole[of_row], counted[:, None]))
    return jnp.stack(parts, 1)


def _stacked(sums: Any, omega: Any, counted: Any) -> Any:
    """Put sums [cell, moment, state] and concentrations [cell, state] into one array; inert where not counted."""
    inert = jnp.asarray([_INERT, 0.0, -_INERT][: sums.shape[1]])[:, None]
    return jnp.concatenate([jnp.where(counted, sums, inert), jnp.where(counted[:, 0], omega, -1.0)[:, None]], axis=1)


def inert_row(shape: tuple[int, ...]) -> Any:
    """One row of what `_stacked` gives where nothing is counted, for empty slots."""
    n_parts, n_channels, n_states = shape
    inert = jnp.concatenate([jnp.asarray([_INERT, 0.0, -_INERT][: n_channels - 1]), -jnp.ones(1)])
    return jnp.broadcast_to(inert[:, None], (1, n_parts, n_channels, n_states))
