"""Sums over annotations: the only two kernels that touch every label, and the annotations as a plain list.

`item_table` adds up a table entry per annotation by item; `cell_counts` adds up an item's weights by cell. They are
linear and transposes of each other, which gives `item_table` its gradient. Both walk the blocks of the sliced layout
(`bayescrowd.data.arrays`) in a scan whose running sums stay in cache.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayescrowd.data.arrays import LabelArrays

__all__ = ["annotations_of", "cell_counts", "item_table"]


@jax.custom_vjp
def item_table(cells: Float[Array, "cell state"], arrays: LabelArrays) -> Float[Array, "row state"]:
    """Sum a cell x state table over each item's annotations, with their weights.

    Parameters
    ----------
    cells : array [cell, state]
        One value per (worker, label) cell and state, such as a log probability.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [row, state]
        Row r holds the sum of ``weight * cells[cell]`` over the annotations of the item in row r.
    """
    return _item_table(cells, arrays)


def _item_table(cells: Any, arrays: LabelArrays) -> Any:
    n_states = cells.shape[1]
    n_slots = arrays.blocks.shape[1]
    # One extra row of zeros: empty slots point to it, so that no mask (and no 0 * -inf) is needed.
    padded = jnp.concatenate([cells, jnp.zeros((1, n_states), cells.dtype)])

    def add_block(sums: Any, block: Any) -> tuple[Any, None]:
        index, slice_index, weight = block
        start = (slice_index * n_slots, jnp.zeros((), slice_index.dtype))
        values = padded[index]
        if weight is not None:
            values = jnp.where(weight[:, None] > 0, values * weight[:, None], 0)
        old = jax.lax.dynamic_slice(sums, start, (n_slots, n_states))
        return jax.lax.dynamic_update_slice(sums, old + values, start), None

    blocks = (jnp.asarray(arrays.blocks), jnp.asarray(arrays.block_slice), arrays.block_weight)
    sums, _ = jax.lax.scan(add_block, jnp.zeros((arrays.n_rows, n_states), cells.dtype), blocks)
    if arrays.loose_cell.shape[0]:
        values = padded[arrays.loose_cell]
        if arrays.loose_weight is not None:
            weight = jnp.asarray(arrays.loose_weight)[:, None]
            values = jnp.where(weight > 0, values * weight, 0)
        sums = sums.at[arrays.loose_row].add(values)
    return sums


def cell_counts(rows: Float[Array, "row state"], arrays: LabelArrays) -> Float[Array, "cell state"]:
    """Add up item x state weights by cell, with the annotations' weights.

    Parameters
    ----------
    rows : array [row, state]
        One weight per item and state, such as the probability of the state.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [cell, state]
        Expected number of annotations of each (worker, label) cell whose item is in each state.
    """
    n_states = rows.shape[1]
    n_slots = arrays.blocks.shape[1]

    def add_block(counts: Any, block: Any) -> tuple[Any, None]:
        index, slice_index, weight = block
        start = (slice_index * n_slots, jnp.zeros((), slice_index.dtype))
        values = jax.lax.dynamic_slice(rows, start, (n_slots, n_states))
        return counts.at[index].add(values if weight is None else values * weight[:, None]), None

    blocks = (jnp.asarray(arrays.blocks), jnp.asarray(arrays.block_slice), arrays.block_weight)
    counts, _ = jax.lax.scan(add_block, jnp.zeros((arrays.n_cells + 1, n_states), rows.dtype), blocks)
    if arrays.loose_cell.shape[0]:
        values = rows[arrays.loose_row]
        if arrays.loose_weight is not None:
            values = values * jnp.asarray(arrays.loose_weight)[:, None]
        counts = counts.at[arrays.loose_cell].add(values)
    return counts[:-1]


def annotations_of(arrays: LabelArrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the annotations of the sliced layout, on the host.

    Parameters
    ----------
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    tuple of array
        Row, cell and weight of each.
    """
    blocks = np.asarray(arrays.blocks)
    block, slot = np.nonzero(blocks < arrays.n_cells)
    row = np.asarray(arrays.block_slice)[block] * blocks.shape[1] + slot
    weight = np.ones(len(row)) if arrays.block_weight is None else np.asarray(arrays.block_weight)[block, slot]
    loose = np.asarray(arrays.loose_cell) < arrays.n_cells
    loose_weight = np.ones(loose.sum()) if arrays.loose_weight is None else np.asarray(arrays.loose_weight)[loose]
    return (
        np.concatenate([row, np.asarray(arrays.loose_row)[loose]]),
        np.concatenate([blocks[block, slot], np.asarray(arrays.loose_cell)[loose]]),
        np.concatenate([weight, loose_weight]),
    )


def _forward(cells: Any, arrays: LabelArrays) -> tuple[Any, LabelArrays]:
    return _item_table(cells, arrays), arrays


def _backward(arrays: LabelArrays, cotangent: Any) -> tuple[Any, None]:
    return cell_counts(cotangent, arrays), None


item_table.defvjp(_forward, _backward)
