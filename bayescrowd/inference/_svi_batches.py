"""Items in groups of one shape, so that a step of SVI sees one group and one compiled piece of code serves all.

Items are split once, at random, into groups whose sizes differ by one at most. A group's arrays are built from the
label codes when they are asked for and padded to the largest group; sizes of the parameters, and the items' own
indices, stay those of the whole table.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayescrowd.data.arrays import LabelArrays, Sizes, Table, build_arrays
from bayescrowd.inference.base import sizes_of

__all__ = ["Batches"]

_HOST_BYTES = 256 * 2**20
"""Bytes of built groups that are kept on the host, so that small tables are laid out once."""


@dataclass(frozen=True)
class _Part:
    """Some items of a label table, renumbered; the form that `build_arrays` takes."""

    item_code: np.ndarray
    worker_code: np.ndarray
    label_code: np.ndarray
    weight: np.ndarray | None
    gold_code: np.ndarray
    n_items: int
    n_workers: int
    classes: Any
    label_values: Any


class Batches:
    """Groups of items.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    batch_size : int or None
        Items per group at most; None for one group of all items.
    by_annotation : bool
        One cell per annotation (models whose response depends on the item).
    random : numpy.random.Generator
        Deals the items out.
    """

    def __init__(
        self, labels: Table, batch_size: int | None, *, by_annotation: bool, random: np.random.Generator
    ) -> None:
        n_items = labels.n_items
        self._labels = labels
        self._by_annotation = by_annotation
        self.sizes: Sizes = sizes_of(labels)
        self.n = 1 if batch_size is None else -(-n_items // batch_size)
        order = np.arange(n_items) if self.n == 1 else random.permutation(n_items)
        self.members: list[np.ndarray] = np.array_split(order, self.n)
        group = np.empty(n_items, np.int64)
        self._local = np.empty(n_items, np.int64)
        for index, members in enumerate(self.members):
            group[members] = index
            self._local[members] = np.arange(len(members))
        of_annotation = group[labels.item_code]
        self._order = np.argsort(of_annotation, kind="stable") if self.n > 1 else np.arange(len(of_annotation))
        self._first = np.searchsorted(of_annotation[self._order], np.arange(self.n + 1))
        self._shape = (0, 0, 0)
        for index in range(self.n if self.n > 1 else 0):
            raw = self._raw(index)
            shape = (len(raw.blocks), len(raw.loose_row), raw.n_cells)
            self._shape = (max(self._shape[0], shape[0]), max(self._shape[1], shape[1]), max(self._shape[2], shape[2]))
        first = self._build(0)
        n_bytes = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(first))
        self._kept = functools.lru_cache(maxsize=max(_HOST_BYTES // n_bytes, 1))(self._build)

    def arrays(self, index: int) -> LabelArrays:
        """Lay out one group.

        Parameters
        ----------
        index : int
            Which.

        Returns
        -------
        LabelArrays
            Host arrays with the sizes of the whole table; all groups have the same shapes.
        """
        return self._kept(index)

    def _raw(self, index: int) -> LabelArrays:
        labels, members = self._labels, self.members[index]
        rows = self._order[self._first[index] : self._first[index + 1]]
        n_items = len(self.members[0])  # the largest: a smaller group gets an item that is not there
        gold = np.full(n_items, -1, np.int32)
        gold[: len(members)] = np.asarray(labels.gold_code)[members]
        part = _Part(
            item_code=self._local[labels.item_code[rows]],
            worker_code=labels.worker_code[rows],
            label_code=labels.label_code[rows],
            weight=None if labels.weight is None else labels.weight[rows],
            gold_code=gold,
            n_items=n_items,
            n_workers=labels.n_workers,
            classes=labels.classes,
            label_values=labels.label_values,
        )
        return build_arrays(part, pad=False, by_annotation=self._by_annotation)

    def _build(self, index: int) -> LabelArrays:
        raw, members = self._raw(index), self.members[index]
        item = np.concatenate([members, np.zeros(len(self.members[0]) - len(members), np.int64)]).astype(np.int32)
        present = np.array(raw.present)
        present[np.asarray(raw.row_of_item)[len(members) :]] = 0.0
        arrays = dataclasses.replace(
            raw,
            present=present,
            item_of_row=item[np.asarray(raw.item_of_row)],
            cell_item=None if raw.cell_item is None else item[np.asarray(raw.cell_item)],
            sizes=self.sizes,
        )
        return arrays if self.n == 1 else _pad(arrays, *self._shape)


def _pad(arrays: LabelArrays, n_blocks: int, n_loose: int, n_cells: int) -> LabelArrays:
    """Pad blocks, loose annotations and cells with ones that hold nothing."""

    def longer(values: Any, length: int, fill: float = 0) -> Any:
        if values is None:
            return None
        width = [(0, length - len(values)), *[(0, 0)] * (np.ndim(values) - 1)]
        return np.pad(values, width, constant_values=fill)

    def cells(values: Any, length: int) -> Any:
        return longer(np.where(np.asarray(values) == arrays.n_cells, n_cells, values).astype(np.int32), length, n_cells)

    return dataclasses.replace(
        arrays,
        blocks=cells(arrays.blocks, n_blocks),
        block_slice=longer(arrays.block_slice, n_blocks),
        block_weight=longer(arrays.block_weight, n_blocks),
        loose_row=longer(arrays.loose_row, n_loose),
        loose_cell=cells(arrays.loose_cell, n_loose),
        loose_weight=longer(arrays.loose_weight, n_loose),
        cell_worker=longer(arrays.cell_worker, n_cells),
        cell_label=longer(arrays.cell_label, n_cells),
        cell_item=longer(arrays.cell_item, n_cells),
    )
