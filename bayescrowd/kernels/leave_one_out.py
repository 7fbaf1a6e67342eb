r"""Leave-one-out tables: for every item and state, how well the others' expected counts explain the item's labels.

With tables integrated out, the log weight of state s of an item is a sum over the table entries that it would use,
:math:`E \log (N^{\neg i}_{entry} + \omega) - E \log (N^{\neg i}_{row} + \Omega)`, expectations over the states of the
other items (`bayescrowd.kernels.moments`). The sums behind them are kept for all items together, and an item's own part
is subtracted where it is needed, which is exact: a pass costs one visit to every label and state, never to pairs of
items.

Two layouts. `fast_table` walks the sliced blocks of `bayescrowd.kernels.annotations`; it serves models in which a label
uses, under different states, different rows that belong to its worker alone. `bayescrowd.kernels.incidences` takes any
model with one route, from a list of (item, state, entry) with multiplicities.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.kernels.entries import RouteEntries
from bayescrowd.kernels.leave_one_out_sums import (
    Repeats,
    inert_row,
    laid_above,
    laid_below,
    sums_of_cells,
    totals_of_entries,
    totals_of_rows,
    totals_of_workers_rows,
)
from bayescrowd.kernels.moments import expected_log_rising, own_moments
from bayescrowd.kernels.tables import Tables

__all__ = ["SHORT", "Uses", "fast_table", "state_table"]

type Uses = tuple[int, ...]

SHORT = 24
"""Products of so many fractions do not vanish in float64, whatever the counts."""


_barrier: Any = jax.lax.optimization_barrier

_SMALL = 1e-100
"""Products smaller than this are scaled up by its inverse."""


def _walk(
    cells: Any,
    signs: Any,
    own: Any,
    arrays: LabelArrays,
    moments: str,
    steps: int,
    *,
    fractions: bool = False,
    first: Any = None,
    short: bool = False,
) -> Any:
    """Add signed expected logarithms over the annotations of each item: [row, state].

    ``cells`` [cell, part, moment + 1, state] holds sums and concentrations; ``own`` [moment, row, state] is left out.
    ``fractions``: the first half of the parts lies above, the second below.
    """
    padded = jnp.concatenate([cells, inert_row(cells.shape[1:])])
    by_row = own.transpose(1, 0, 2)
    if arrays.block_weight is not None:
        powers = (1, 2, 0)[: own.shape[0]]

        def weighted(index: Any, x: Any, weight: Any) -> Any:
            gathered = padded[index]
            x = jnp.stack([x[:, m] * weight[:, None] ** power for m, power in enumerate(powers)], axis=1)
            sums = jnp.moveaxis(gathered[:, :, :-1] - x[:, None], 2, 0)
            live = (gathered[:, :, -1] > 0) & (weight[:, None, None] > 0)
            omega = jnp.where(live, gathered[:, :, -1], 1.0)
            logs = expected_log_rising(sums, omega, moments, weight[:, None, None], steps)
            return jnp.einsum("nps,p->ns", jnp.where(live, logs, 0.0), signs)

        return _sum_blocks(weighted, by_row, arrays)
    if not fractions:
        # Numerators or denominators alone: what takes no part does not cancel.
        def alone(index: Any, x: Any, weight: Any) -> Any:
            del weight
            gathered = padded[index]
            sums = jnp.moveaxis(gathered[:, :, :-1] - x[:, None], 2, 0)
            live = gathered[:, :, -1] > 0
            logs = expected_log_rising(sums, jnp.where(live, gathered[:, :, -1], 1.0), moments)
            return jnp.einsum("nps,p->ns", jnp.where(live, logs, 0.0), signs)

        return _sum_blocks(alone, by_row, arrays)
    if moments == "zero":
        first = jnp.ones_like(own[0]) if first is None else first
        return _multiply_blocks(padded[:, :, 0] + padded[:, :, 1], own[0], arrays, first, short)
    n_parts, n_states = cells.shape[1], cells.shape[3]
    omega = jnp.maximum(padded[:, :, -1], 1e-30)
    sums = [padded[:, :, m] for m in range(by_row.shape[1])]
    # One table per number, and long flat vectors for the transcendental functions: only these are vectorised.
    tables = [table.reshape(len(padded), -1) for table in (*sums, omega, jnp.log(omega))]

    def single(index: Any, x: Any, weight: Any) -> Any:
        del weight
        others = [table[index] - jnp.tile(x[:, m], n_parts) for m, table in enumerate(tables[:-2])]
        flat = [part.reshape(-1) for part in (*others, *(table[index] for table in tables[-2:]))]
        *parts, omega, log_omega = _barrier(flat)
        logs = expected_log_rising(parts, omega, moments, log_omega=log_omega)
        halves = _barrier(logs).reshape(len(index), 2, -1, n_states)
        return (halves[:, 0] - halves[:, 1]).sum(axis=1)

    return _sum_blocks(single, by_row, arrays)


def _sum_blocks(values: Callable[[Any, Any, Any], Any], by_row: Any, arrays: LabelArrays) -> Any:
    """Add up values(cell, what the item adds [moment, state], weight) over the annotations of each item."""
    n_slots = arrays.blocks.shape[1]
    n_rows, n_moment, n_states = by_row.shape

    def add_block(sums: Any, block: Any) -> tuple[Any, None]:
        index, slice_index, weight = block
        row = slice_index * n_slots
        zero = jnp.zeros((), row.dtype)
        x = jax.lax.dynamic_slice(by_row, (row, zero, zero), (n_slots, n_moment, n_states))
        old = jax.lax.dynamic_slice(sums, (row, zero), (n_slots, n_states))
        return jax.lax.dynamic_update_slice(sums, old + values(index, x, weight), (row, zero)), None

    blocks = (jnp.asarray(arrays.blocks), jnp.asarray(arrays.block_slice), arrays.block_weight)
    sums, _ = jax.lax.scan(add_block, jnp.zeros((n_rows, n_states)), blocks)
    if arrays.loose_cell.shape[0]:
        weight = None if arrays.loose_weight is None else jnp.asarray(arrays.loose_weight)
        row = jnp.asarray(arrays.loose_row)
        sums = sums.at[row].add(values(jnp.asarray(arrays.loose_cell), by_row[row], weight))
    return sums


def _multiply_blocks(cells: Any, own: Any, arrays: LabelArrays, first: Any, short: bool) -> Any:
    """Zero order, single labels: fractions are multiplied, and the logarithm of the product taken once.

    ``cells`` [cell, part, state]: numerators, then denominators; ``first`` [row, state] is a factor to begin with.
    Unless all items are short, products that become too small are scaled up and the scale is kept.
    """
    n_slots, half = arrays.blocks.shape[1], cells.shape[1] // 2
    n_rows, n_states = own.shape

    tables = [cells[:, part] for part in range(2 * half)]

    def fraction(index: Any, x: Any) -> Any:
        ratio: Any = 1.0
        for above, below in zip(tables[:half], tables[half:], strict=True):
            ratio = ratio * ((above[index] - x) / (below[index] - x))
        return ratio

    def multiply(carry: Any, block: Any) -> tuple[Any, None]:
        index, slice_index = block
        start = (slice_index * n_slots, jnp.zeros((), slice_index.dtype))
        old, x = (jax.lax.dynamic_slice(table, start, (n_slots, n_states)) for table in (carry, own))
        return jax.lax.dynamic_update_slice(carry, old * fraction(index, x), start), None

    def multiply_and_scale(carry: Any, block: Any) -> tuple[Any, None]:
        # Products and scales in one array, updated once: two updates that share a value would copy whole arrays.
        index, slice_index = block
        row, zero = slice_index * n_slots, jnp.zeros((), slice_index.dtype)
        old = jax.lax.dynamic_slice(carry, (row, zero), (n_slots, 2 * n_states))
        new = old[:, :n_states] * fraction(index, jax.lax.dynamic_slice(own, (row, zero), (n_slots, n_states)))
        small = new < _SMALL
        both = jnp.concatenate([jnp.where(small, new / _SMALL, new), old[:, n_states:] + small], axis=1)
        return jax.lax.dynamic_update_slice(carry, both, (row, zero)), None

    blocks = (jnp.asarray(arrays.blocks), jnp.asarray(arrays.block_slice))
    if short:
        sums = jnp.log(jax.lax.scan(multiply, first, blocks)[0])
    else:
        begin = jnp.concatenate([first, jnp.zeros((n_rows, n_states))], axis=1)
        carry = jax.lax.scan(multiply_and_scale, begin, blocks)[0]
        sums = jnp.log(carry[:, :n_states]) + carry[:, n_states:] * math.log(_SMALL)
    if arrays.loose_cell.shape[0]:
        row = jnp.asarray(arrays.loose_row)
        sums = sums.at[row].add(jnp.log(fraction(jnp.asarray(arrays.loose_cell), own[row])))
    return sums


def fast_table(
    rows: Any,
    alpha: Any,
    route: RouteEntries,
    arrays: LabelArrays,
    tables: Tables,
    moments: str,
    steps: int = 0,
    repeats: Repeats | None = None,
    first: Any = None,
    short: bool = False,
) -> tuple[Any, Any]:
    """Compute leave-one-out log weights of the states from the labels, and the expected counts, in the sliced layout.

    Parameters
    ----------
    rows : array [row, state]
        Probabilities of the states.
    alpha : array [entry]
        Prior concentrations.
    route : RouteEntries
        The model's only route; entries of a cell in rows of their own under every state, that no other worker uses.
    arrays : LabelArrays
        The single annotations, without weights.
    tables : Tables
        Layout of the table entries.
    moments : str
        How expected logarithms are approximated.
    steps : int
        Largest weight of the repeats where all are whole and small, else 0.
    repeats : Repeats, optional
        Annotations that are not single.
    first : array [row, state], optional
        A factor of the weights, where they are products (zero order, single labels).
    short : bool
        True where no item has more than `SHORT` labels, so that products cannot vanish.

    Returns
    -------
    tuple of array
        Log weights [row, state] (without state prior and constants), and counts [entry] from the labels.
    """
    own = own_moments(rows, moments)
    n_entries, n_factors = len(tables.row_of), len(route.entries)
    flat = totals_of_entries(sums_of_cells(own, arrays, moments), route, n_entries)
    totals = totals_of_rows(flat, tables)
    if repeats is not None:
        own_labels, own_workers = (
            own.at[:, at].get(mode="fill", fill_value=0.0) for at in (repeats.at_labels, repeats.at_workers)
        )
        more = totals_of_entries(sums_of_cells(own_labels, repeats.labels, moments), repeats.route, n_entries)
        flat = [one + other for one, other in zip(flat, more, strict=True)]
        more = totals_of_workers_rows(sums_of_cells(own_workers, repeats.workers, moments), repeats.rows, tables)
        totals = [one + other for one, other in zip(totals, more, strict=True)]
    counts = sum(one[0] for one in flat)
    signs = jnp.repeat(jnp.asarray([1.0, -1.0]), n_factors)
    rows_used = [(entry, route.counted) for entry in route.entries]
    both = jnp.concatenate([laid_above(flat, route, alpha), laid_below(totals, rows_used, alpha, tables)], axis=1)
    weights = _walk(both, signs, own, arrays, moments, steps, fractions=True, first=first, short=short)
    if repeats is not None:
        above, below = laid_above(flat, repeats.route, alpha), laid_below(totals, repeats.rows, alpha, tables)
        plus = _walk(above, jnp.ones(n_factors), own_labels, repeats.labels, moments, steps)
        minus = _walk(below, -jnp.ones(n_factors), own_workers, repeats.workers, moments, steps)
        weights = weights.at[repeats.at_labels].add(plus, mode="drop").at[repeats.at_workers].add(minus, mode="drop")
    return weights, counts


def state_table(
    rows: Any,
    alpha: Any,
    states: Sequence[Any],
    uses: Sequence[Uses],
    n_entries: int,
    moments: str,
    *,
    logs: bool = True,
) -> tuple[Any, Any]:
    """Compute leave-one-out log prior weights of the states, and the expected counts of the state tables.

    Parameters
    ----------
    rows : array [row, state]
        Probabilities of the states.
    alpha : array [entry]
        Prior concentrations.
    states : sequence of int array [used]
        For every table that states use, the same for all items and in one row each (so that row totals do not matter),
        its entries.
    uses : sequence of tuple of int
        Which of them each state uses.
    n_entries : int
        Number of entries of all tables.
    moments : str
        How expected logarithms are approximated.
    logs : bool
        False gives the weights themselves (zero order only), scaled to be at most about 1.

    Returns
    -------
    tuple of array
        Log weights [row, state] up to a constant, and counts [entry].
    """
    table = jnp.zeros_like(rows) if logs else jnp.ones_like(rows)
    counts = jnp.zeros(n_entries)
    for entry, position in zip(states, uses, strict=True):
        own = own_moments(_gather(rows, position), moments)
        total = own.sum(axis=1, keepdims=True)
        if logs:
            table = table + _spread(expected_log_rising(total - own, alpha[entry], moments), position)
        else:
            weight = (total[0] - own[0] + alpha[entry]) / (total[0].sum() + alpha[entry].sum())
            table = table * _spread(weight, position)
        counts = counts.at[entry].add(total[:, 0][0])
    return table, counts


def _pattern(position: Uses) -> str:
    n_states, n_used = len(position), max(position) + 1
    if n_states % n_used:
        return "other"
    if position == tuple(state % n_used for state in range(n_states)):
        return "tile"
    return "repeat" if position == tuple(state // (n_states // n_used) for state in range(n_states)) else "other"


def _gather(rows: Any, position: Uses) -> Any:
    """Add up the probabilities of the states that use the same entry: [row, used]."""
    n_rows, n_states = rows.shape
    n_used = max(position) + 1
    pattern = _pattern(position)
    if pattern == "tile":
        return rows if n_used == n_states else rows.reshape(n_rows, -1, n_used).sum(axis=1)
    if pattern == "repeat":
        return rows.reshape(n_rows, n_used, -1).sum(axis=2)
    return rows @ np.eye(n_used)[list(position)]


def _spread(values: Any, position: Uses) -> Any:
    """Give every state the value of the entry that it uses: [row, state]."""
    n_used, n_states = values.shape[1], len(position)
    pattern = _pattern(position)
    if pattern == "tile":
        return values if n_used == n_states else jnp.tile(values, (1, n_states // n_used))
    return jnp.repeat(values, n_states // n_used, axis=1) if pattern == "repeat" else values[:, list(position)]
