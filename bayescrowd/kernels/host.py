"""The sums over annotations on the host, by sparse matrices: nothing to compile, and items that look alike only once.

Two items that the same workers labelled alike have the same posterior, given the parameters. So a table is a sparse
matrix *pattern* x *cell* (the number of labels of each worker and label value on an item of that pattern), and how many
items there are of each pattern. Patterns are cut into blocks, so that what is computed of a block stays in the caches.
Arrays by pattern have their states first: NumPy's reductions over them then run along contiguous memory.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bayescrowd.data.arrays import Sizes, Table
from bayescrowd.kernels.tables import Tables
from bayescrowd.model import At, Model

__all__ = ["Block", "HostEntries", "HostLabels", "HostLogs", "entries_of", "host_labels", "row_shares"]

_BLOCK = 2**15
"""Patterns in a block."""

_FEW_STATES = 2
"""Up to so many states, one product with a vector per state is faster than one with all states side by side."""

_NARROW = 8
"""Entries in a row up to which rows are summed column by column."""

_WORTH = 0.8
"""Share of the items that patterns must not exceed to be worth looking up."""


class Block(NamedTuple):
    """Annotations of some patterns.

    Parameters
    ----------
    labels : sparse matrix [pattern, cell]
        Weights of the labels; ``cell = worker * n_labels + label``.
    by_cell : sparse matrix [cell, pattern]
        Its transpose, on the same memory: products with it run along the patterns, and the counts stay in the caches.
    n_items : float array [pattern]
        Number of items of each pattern.
    gold : int array [pattern]
        Known class, -1 where unknown.
    """

    labels: Any
    by_cell: Any
    n_items: np.ndarray
    gold: np.ndarray

    def item_sums(self, cells: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Sum a table of cells over the annotations of each pattern.

        Parameters
        ----------
        cells : array [cell, state]
            Such as log probabilities.
        out : array [state, pattern], optional
            Where to write.

        Returns
        -------
        array [state, pattern]
            What `bayescrowd.kernels.annotations.item_table` gives, transposed.
        """
        found = np.empty((cells.shape[1], len(self.n_items))) if out is None else out
        if len(found) <= _FEW_STATES:
            for row, column in zip(found, cells.T, strict=True):
                row[:] = self.labels @ column
        else:
            found[:] = (self.labels @ cells).T
        return found

    def cell_sums(self, patterns: np.ndarray) -> np.ndarray:
        """Add up weights of patterns and states by cell.

        Parameters
        ----------
        patterns : array [state, pattern]
            Such as the probability of each state, times the number of items.

        Returns
        -------
        array [cell, state]
            What `bayescrowd.kernels.annotations.cell_counts` gives.
        """
        found: np.ndarray = self.by_cell @ np.ascontiguousarray(patterns.T)
        return found


class HostLabels(NamedTuple):
    """Annotations by pattern.

    Parameters
    ----------
    blocks : list of Block
        The patterns, in order.
    pattern_of_item : int array [item]
        Where each item is.
    """

    blocks: list[Block]
    pattern_of_item: np.ndarray

    @property
    def n_patterns(self) -> int:
        """Number of patterns."""
        return sum(len(block.n_items) for block in self.blocks)

    def parts(self, patterns: np.ndarray) -> Iterator[tuple[Block, np.ndarray]]:
        """Cut an array by pattern into its blocks.

        Parameters
        ----------
        patterns : array [..., pattern]
            Anything.

        Yields
        ------
        tuple
            Block, and the part of the array that belongs to it.
        """
        first = 0
        for block in self.blocks:
            yield block, patterns[..., first : first + len(block.n_items)]
            first += len(block.n_items)


def host_labels(labels: Table) -> HostLabels:
    """Gather the annotations of a label table by pattern.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.

    Returns
    -------
    HostLabels
        Patterns in the order of their first items.
    """
    n_labels = len(labels.label_values)
    cell = labels.worker_code.astype(np.int64) * n_labels + labels.label_code
    weight = np.ones(len(cell)) if labels.weight is None else np.asarray(labels.weight, float)
    shape = (labels.n_items, labels.n_workers * n_labels)
    used = weight > 0
    by_item = sp.csr_matrix((weight[used], (labels.item_code[used], cell[used])), shape=shape)
    by_item.sum_duplicates()  # puts the cells of an item in order too
    gold = np.asarray(labels.gold_code)
    first, pattern_of_item = _patterns(by_item, gold)
    by_pattern = by_item if len(first) == labels.n_items else by_item[first]
    n_items = np.bincount(pattern_of_item, minlength=len(first)).astype(float)
    # As many patterns at a time as there are cells at least: every block adds to all of them.
    size = max(_BLOCK, shape[1])
    blocks = []
    for begin in range(0, len(first), size):
        part = slice(begin, begin + size)
        rows = by_pattern[part] if size < len(first) else by_pattern
        blocks.append(Block(rows, rows.T, n_items[part], gold[first[part]]))
    return HostLabels(blocks, pattern_of_item)


def _patterns(by_item: Any, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the first item of each pattern, and the pattern of each item."""
    every = np.arange(len(gold))
    random = np.random.default_rng(0)
    code = random.integers(2**63, size=by_item.shape[1] + 1, dtype=np.uint64)
    index, start = by_item.indices, by_item.indptr
    size = np.diff(start)
    key = code[-1] * (gold + 2).astype(np.uint64)
    filled = size > 0
    if filled.any():
        # One number per item: the sum of random numbers of its cells, times their weights as bits.
        mixed = code[index] * (by_item.data.view(np.uint64) | np.uint64(1))
        key[filled] += np.add.reduceat(mixed, start[:-1][filled])
    _, first, pattern = np.unique(key, return_index=True, return_inverse=True)
    if len(first) > _WORTH * len(gold):
        return every, every
    like = first[pattern]
    if not (np.array_equal(size, size[like]) and np.array_equal(gold, gold[like])):
        return every, every
    there = np.arange(len(index)) + np.repeat(start[:-1][like] - start[:-1], size)
    if not (np.array_equal(index, index[there]) and np.array_equal(by_item.data, by_item.data[there])):
        return every, every  # two patterns share a number: n^2 / 2^65 of all tables
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return first[order], rank[pattern]


class _Route(NamedTuple):
    entries: tuple[np.ndarray, ...]  # [cell, state] each
    log_constant: np.ndarray | None  # [cell, state]; None where 0
    counted: np.ndarray | None  # [cell, state]; None where all are


class HostLogs(NamedTuple):
    """What a pass needs of the logarithms of the table entries.

    Parameters
    ----------
    prior : array [state]
        Log prior of each state.
    response : array [cell, state]
        Log probability of every label, all routes together.
    shares : array [route, cell, state] or None
        Probability that the label came about by each route; None where there is one.
    """

    prior: np.ndarray
    response: np.ndarray
    shares: np.ndarray | None


class HostEntries(NamedTuple):
    """The table entries of a model's labels and states.

    Parameters
    ----------
    routes : list
        Ways in which a label comes about.
    states : list of int array [state]
        Entries of each state, one array per table.
    tables : Tables
        Layout of the entries.
    n_classes : int
        Number of classes; ``state = difficulty * n_classes + class``.
    """

    routes: list[_Route]
    states: list[np.ndarray]
    tables: Tables
    n_classes: int

    def logs(self, log_flat: np.ndarray) -> HostLogs:
        """Look the logarithms of table entries up.

        Parameters
        ----------
        log_flat : array [entry]
            Logarithms of the table entries.

        Returns
        -------
        HostLogs
            For `joint` and `counts`.
        """
        prior = sum((log_flat[entry] for entry in self.states), start=np.zeros(1))
        logs = [_log_route(route, log_flat) for route in self.routes]
        if len(logs) == 1:
            return HostLogs(prior, logs[0], None)
        response = np.logaddexp.reduce(logs)
        return HostLogs(prior, response, np.exp(logs - np.where(np.isfinite(response), response, 0.0)))

    def joint(self, logs: HostLogs, block: Block, out: np.ndarray | None = None) -> np.ndarray:
        """Compute log P(labels of an item, state) of every pattern of a block.

        Parameters
        ----------
        logs : HostLogs
            From `logs`.
        block : Block
            The annotations.
        out : array [state, pattern], optional
            Where to write.

        Returns
        -------
        array [state, pattern]
            Minus infinity where gold excludes the state.
        """
        table = block.item_sums(logs.response, out)
        table += logs.prior[:, None]
        known = np.flatnonzero(block.gold >= 0)
        if len(known):
            excluded = np.arange(len(table))[:, None] % self.n_classes != block.gold[known]
            table[:, known] = np.where(excluded, -np.inf, table[:, known])
        return table

    def counts(self, logs: HostLogs, used: np.ndarray, of_states: np.ndarray) -> np.ndarray:
        """Count how often each table entry was used, in expectation over states and routes.

        Parameters
        ----------
        logs : HostLogs
            From `logs`.
        used : array [cell, state]
            Number of labels of each cell by state of the item.
        of_states : array [state]
            Number of items by state.

        Returns
        -------
        array [entry]
            What `bayescrowd.kernels.entries.table_counts` gives.
        """
        n_entries = len(self.tables.row_of)
        counts = np.zeros(n_entries)
        by_route = [used] if logs.shares is None else used * logs.shares
        for route, part in zip(self.routes, by_route, strict=True):
            counted = part if route.counted is None else np.where(route.counted, part, 0.0)
            for entry in route.entries:
                counts += np.bincount(entry.reshape(-1), counted.reshape(-1), n_entries)
        for entry in self.states:
            counts += np.bincount(entry, of_states, n_entries)
        return counts


def _log_route(route: _Route, log_flat: np.ndarray) -> np.ndarray:
    total: Any = 0.0 if route.log_constant is None else route.log_constant
    for entry in route.entries:
        values = log_flat[entry]
        total = total + (values if route.counted is None else np.where(route.counted, values, 0.0))
    return np.asarray(total)


def entries_of(model: Model, sizes: Sizes, tables: Tables) -> HostEntries | None:
    """Look up the table entries that labels and states use.

    Parameters
    ----------
    model : Model
        A model with routes, whose response does not depend on the item.
    sizes : Sizes
        Exact sizes.
    tables : Tables
        Layout of the entries.

    Returns
    -------
    HostEntries or None
        None where the prior of the states differs between items.
    """
    n_states, n_cells = model.n_levels * sizes.n_classes, sizes.n_workers * sizes.n_labels
    difficulty, true_class = np.divmod(np.arange(n_states), sizes.n_classes)
    at_states = At(None, true_class, difficulty, None, np.arange(sizes.n_items)[:, None], sizes)
    states = [np.atleast_2d(tables.entries(name, index)) for name, index in model.state_cells(at_states).items()]
    if any(len(entry) > 1 for entry in states):
        return None
    worker, label = np.divmod(np.arange(n_cells)[:, None], sizes.n_labels)
    at = At(worker, true_class, difficulty, label, None, sizes)
    shape = (n_cells, n_states)
    routes = []
    for route in model.routes(at) or []:
        counted = np.broadcast_to(np.asarray(route.counted, bool), shape) & bool(route.cells)
        constant = np.broadcast_to(np.asarray(route.log_constant, float), shape)
        entries = (np.broadcast_to(tables.entries(name, index), shape) for name, index in route.cells.items())
        routes.append(
            _Route(
                tuple(np.ascontiguousarray(np.where(counted, entry, 0)) for entry in entries),
                constant if constant.any() or not route.cells else None,
                None if counted.all() else counted,
            )
        )
    return HostEntries(routes, [np.broadcast_to(entry[0], (n_states,)) for entry in states], tables, sizes.n_classes)


def row_shares(values: np.ndarray, tables: Tables, otherwise: np.ndarray) -> np.ndarray:
    """Scale every row to sum to one; rows that sum to zero take another value.

    Parameters
    ----------
    values : array [entry]
        Non-negative numbers.
    tables : Tables
        The layout.
    otherwise : array [entry]
        Probabilities for rows without any mass.

    Returns
    -------
    array [entry]
        What `bayescrowd.kernels.tables.normalise` gives.
    """
    shares = np.empty_like(values)
    for name, shape in zip(tables.names, tables.shapes, strict=True):
        part = slice(tables.offsets[name], tables.offsets[name] + math.prod(shape))
        rows, scaled = (array[part].reshape(-1, shape[-1]) for array in (values, shares))
        # Sums along short rows are slow; those of whole columns are not.
        total = sum(rows.T[1:], start=rows.T[0]) if shape[-1] <= _NARROW else rows.sum(axis=1)
        if total.min() > 0:
            np.divide(rows, total[:, None], out=scaled)
        else:
            filled = (total > 0)[:, None]
            scaled[:] = np.where(
                filled, rows / np.where(filled, total[:, None], 1.0), otherwise[part].reshape(rows.shape)
            )
    return shares
