"""What single workers, pairs and triples of workers say of the same items: the statistics of a joint tensor fit.

All of them are stored alike, as statistics of three workers of whom some are nobody: a worker beside the others whose
one label is certain. Only combinations that occur are stored, and of their tables only the cells that are not zero.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bayescrowd.data.arrays import Table

__all__ = ["Statistics", "n_combinations", "statistics"]

_AT_ONCE, _HELD = 1_000_000, 12_000_000
"""Combinations of labels that are formed at once, and that are held before equal ones are added up."""


class Statistics(NamedTuple):
    """Shares of the common items of up to three workers that have certain labels.

    Parameters
    ----------
    workers : int array [statistic, 3]
        The workers, in rising order; ``n_workers`` stands for nobody.
    owner : int array [cell]
        Statistic of each cell.
    labels : int array [cell, 3]
        Labels of the cell; 0 of nobody.
    value : array [cell]
        Share of the common items with these labels; the cells of a statistic sum to one.
    """

    workers: np.ndarray
    owner: np.ndarray
    labels: np.ndarray
    value: np.ndarray


def n_combinations(table: Table) -> tuple[float, float]:
    """Count the triples of labels of one item, as if no worker had labelled it twice.

    Parameters
    ----------
    table : Table
        The labels.

    Returns
    -------
    tuple of float
        Of all items, which is the time that forming the statistics takes; and of the item with most labels, whose
        triples are formed at once.
    """
    size = np.bincount(table.item_code).astype(float)
    number = size * (size - 1) * (size - 2) / 6
    return float(number.sum()), float(number.max(initial=0.0))


def statistics(table: Table, most_cells: int) -> Statistics | None:
    """Count what workers say together.

    A worker's labels of one item count as one answer: repeats are averaged. A triple's item counts by the geometric
    mean of the answers' weights.

    Parameters
    ----------
    table : Table
        The labels, all of them classes.
    most_cells : int
        Most cells.

    Returns
    -------
    Statistics or None
        None where there are more cells.
    """
    n_workers, n_classes = table.n_workers, len(table.classes)
    item, worker, label, share, whole = _answers(table)
    first = np.searchsorted(item, np.arange(table.n_items + 1))
    size = np.diff(first)
    parts = []
    for order in (1, 2, 3):
        value = share * whole ** (1 / order)
        keys, sums, n_held, merged = [np.zeros(0, np.int64)], [np.zeros(0)], 0, 0
        for n in np.unique(size[size >= order]):
            begins = first[:-1][size == n]
            for rows in _combined(begins, int(n), order):
                members = worker[rows]
                apart = (np.diff(members, axis=1) > 0).all(axis=1)
                rows, members = rows[apart], members[apart]
                key = np.zeros(len(rows), np.int64)
                for base, codes in ((n_workers, members), (n_classes, label[rows])):
                    for column in codes.T:
                        key = key * base + column
                weight = value[rows].prod(axis=1)
                keys.append(key)
                sums.append(weight)
                n_held += len(key)
                if n_held > _HELD + merged:
                    keys, sums = _merged(keys, sums)
                    n_held = merged = len(keys[0])
                    if merged > most_cells:
                        return None
        keys, sums = _merged(keys, sums)
        if len(keys[0]) > most_cells:
            return None
        parts.append(_of_order(order, keys[0], sums[0], n_workers, n_classes))
    offset = np.cumsum([0] + [len(part.workers) for part in parts])
    return Statistics(
        np.concatenate([part.workers for part in parts]),
        np.concatenate([part.owner + begin for part, begin in zip(parts, offset[:-1], strict=True)]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def _answers(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Item, worker, label of each different label, its share of the worker's answer, and the answer's weight."""
    n_workers, n_classes = table.n_workers, len(table.classes)
    weight = np.ones(len(table.item_code)) if table.weight is None else table.weight
    key = (table.item_code.astype(np.int64) * n_workers + table.worker_code) * n_classes + table.label_code
    cell, place = np.unique(key, return_inverse=True)
    amount = np.bincount(place, weight, len(cell))
    answer, place = np.unique(cell // n_classes, return_inverse=True)
    whole = np.bincount(place, amount, len(answer))[place]
    kept = amount > 0
    cell, amount, whole = cell[kept], amount[kept], whole[kept]
    pair = cell // n_classes
    return pair // n_workers, pair % n_workers, cell % n_classes, amount / whole, whole


def _combined(begins: np.ndarray, n: int, order: int) -> Iterator[np.ndarray]:
    """Give the rows of all combinations of the labels of items with n labels each, in parts."""
    chosen = np.arange(n)[:, None]
    for _ in range(order - 1):
        more = n - 1 - chosen[:, -1]
        within = np.arange(more.sum()) - np.repeat(np.cumsum(more) - more, more)
        chosen = np.repeat(chosen, more, axis=0)
        chosen = np.column_stack([chosen, chosen[:, -1] + 1 + within])
    at_once = max(1, _AT_ONCE // max(len(chosen), 1))
    for start in range(0, len(begins), at_once):
        yield (begins[start : start + at_once, None, None] + chosen).reshape(-1, order)


def _merged(keys: list[np.ndarray], sums: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    return [key], [np.bincount(place, np.concatenate(sums), len(key))]


def _of_order(order: int, key: np.ndarray, total: np.ndarray, n_workers: int, n_classes: int) -> Statistics:
    group, place = np.unique(key // n_classes**order, return_inverse=True)
    workers = np.full((len(group), 3), n_workers)
    labels = np.zeros((len(key), 3), np.int64)
    for column in reversed(range(order)):
        labels[:, column] = key % n_classes
        key = key // n_classes
    for column in reversed(range(order)):
        workers[:, column] = group % n_workers
        group = group // n_workers
    whole = np.bincount(place, total, len(workers))
    return Statistics(workers, place, labels, total / whole[place])
