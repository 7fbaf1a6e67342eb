"""Label tables as arrays: the sliced layout that kernels read and the padded layout that programs read.

The sliced layout is built for speed on any degree distribution. Items are sorted by their number of labels and cut into
slices of a fixed number of items; the annotations of a slice are stored position by position as *blocks*, so that a
block holds at most one annotation of each item of its slice. Blocks that would be nearly empty (one item with far more
labels than the others) go to a plain list instead. An annotation is stored as one number, its *cell*: the index of its
(worker, label) pair. A cell one past the end means "no annotation here".
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

__all__ = ["LabelArrays", "PaddedLabels", "Sizes", "bucket", "build_arrays", "build_padded"]

SLICE = 1024
"""Items per slice: large enough to amortise a loop step, small enough for its sums to stay in the first cache."""

_MIN_FILL = 8
_MIN_FILL_SHARE = 16

type AnyBool = Bool[Array, "..."] | np.ndarray
type AnyFloat = Float[Array, "..."] | np.ndarray
type AnyInt = Int[Array, "..."] | np.ndarray


@dataclass(frozen=True)
class Sizes:
    """The sizes that fix the shapes of a model's parameters.

    Parameters
    ----------
    n_items, n_workers, n_classes, n_labels : int
        Numbers of items, workers, classes and label values; ``n_labels >= n_classes`` and the first ``n_classes``
        label values are the classes.
    """

    n_items: int
    n_workers: int
    n_classes: int
    n_labels: int


class Table(Protocol):
    """What layouts, starts and engines need of a label table (`CrowdLabels` has it)."""

    @property
    def item_code(self) -> np.ndarray:
        """Item of each annotation."""

    @property
    def worker_code(self) -> np.ndarray:
        """Worker of each annotation."""

    @property
    def label_code(self) -> np.ndarray:
        """Label of each annotation."""

    @property
    def weight(self) -> np.ndarray | None:
        """Weight of each annotation."""

    @property
    def gold_code(self) -> np.ndarray:
        """Known class of each item, -1 where unknown."""

    @property
    def n_items(self) -> int:
        """Number of items."""

    @property
    def n_workers(self) -> int:
        """Number of workers."""

    @property
    def classes(self) -> Any:
        """Class values."""

    @property
    def label_values(self) -> Any:
        """Label values, classes first."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LabelArrays:
    """Annotations in sliced layout; items in an order of their own (most labels first).

    Parameters
    ----------
    blocks : int array [block, slot]
        Cell of the annotation in each slot; ``n_cells`` where there is none.
    block_slice : int array [block]
        Slice of items that a block belongs to: slot j of it is row ``slice * n_slots + j``.
    block_weight : float array [block, slot] or None
        Weights; None when all are 1.
    loose_row, loose_cell : int array [loose]
        Row and cell of each annotation that is kept outside the blocks.
    loose_weight : float array [loose] or None
        Their weights.
    gold : int array [row]
        Known class of each row's item, -1 where unknown.
    present : float array [row]
        1 for rows that hold an item, 0 for padding.
    item_of_row : int array [row]
        Item index of each row (0 for padding).
    row_of_item : int array [item]
        Row of each item, to bring results back into the caller's order.
    cell_worker, cell_label : int array [cell]
        Worker and label of each cell.
    cell_item : int array [cell] or None
        Item of each cell, where cells are single annotations (models whose response depends on the item).
    worker_present : bool array [worker]
        False for padding workers.
    sizes : Sizes
        Sizes of the parameters, padding included (static).
    """

    blocks: AnyInt
    block_slice: AnyInt
    block_weight: AnyFloat | None
    loose_row: AnyInt
    loose_cell: AnyInt
    loose_weight: AnyFloat | None
    gold: AnyInt
    present: AnyFloat
    item_of_row: AnyInt
    row_of_item: AnyInt
    cell_worker: AnyInt
    cell_label: AnyInt
    cell_item: AnyInt | None
    worker_present: AnyBool
    sizes: Sizes = field(metadata={"static": True})

    @property
    def n_rows(self) -> int:
        """Rows of an item x state table, padding included."""
        return int(self.present.shape[0])

    @property
    def n_cells(self) -> int:
        """Number of (worker, label) cells, padding included."""
        return int(self.cell_worker.shape[0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PaddedLabels:
    """Annotations as an item x position table, the form that a model's NumPyro program reads.

    Parameters
    ----------
    worker : int array [item, position]
        Worker of each annotation (0 where masked).
    label : int array [item, position] or None
        Label of each annotation (0 where masked); None to simulate labels.
    mask : bool array [item, position]
        True where there is an annotation.
    weight : float array [item, position] or None
        Weights (1 where masked); None when all are 1.
    gold : int array [item] or None
        Known class of each item, -1 where unknown; None when no item has one.
    sizes : Sizes
        Numbers of items, workers, classes and label values (static).
    """

    worker: AnyInt
    label: AnyInt | None
    mask: AnyBool
    weight: AnyFloat | None
    gold: AnyInt | None
    sizes: Sizes = field(metadata={"static": True})

    @property
    def n_positions(self) -> int:
        """Largest number of annotations of one item (at least 1)."""
        return int(self.worker.shape[1])


def bucket(n: int, smallest: int = 8) -> int:
    """Round a size up to one of four steps per power of two, so that similar tables share compiled code.

    Parameters
    ----------
    n : int
        Size to round up.
    smallest : int
        Smallest size returned (a power of two).

    Returns
    -------
    int
        The smallest of 1, 1.25, 1.5, 1.75 times a power of two that is at least ``n`` and ``smallest``.

    Examples
    --------
    >>> [bucket(n) for n in (3, 9, 45, 100, 1000)]
    [8, 10, 48, 112, 1024]
    """
    if n <= smallest:
        return smallest
    power = 1 << (n.bit_length() - 1)
    return next(size for size in (power, power * 5 // 4, power * 3 // 2, power * 7 // 4, power * 2) if size >= n)


def build_arrays(
    labels: Table, *, pad: bool = True, pad_sizes: bool | None = None, by_annotation: bool = False
) -> LabelArrays:
    """Lay out a label table for the kernels.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    pad : bool
        Round the layout's own shapes up to buckets.
    pad_sizes : bool, optional
        Round the sizes of the parameters up too; as ``pad`` by default. Samplers need exact sizes (a padding worker
        would be one more parameter to sample), and so do priors of one value per worker.
    by_annotation : bool
        One cell per annotation, for models whose response depends on the item.

    Returns
    -------
    LabelArrays
        NumPy arrays, float64 and int32.
    """
    n_items, n_workers = labels.n_items, labels.n_workers
    n_classes, n_labels = len(labels.classes), len(labels.label_values)
    size = bucket if (pad if pad_sizes is None else pad_sizes) else _exact
    sizes = Sizes(size(n_items), size(n_workers), n_classes, n_labels)
    item = labels.item_code.astype(np.int64)
    cell, cell_worker, cell_label, cell_item = _cells(labels, sizes, pad=pad, by_annotation=by_annotation)

    degree = np.bincount(item, minlength=n_items)
    order = np.argsort(-degree, kind="stable")
    slots = min(SLICE, bucket(n_items))
    n_slices = -(-n_items // slots)
    n_slices = bucket(n_slices, 1) if pad else n_slices
    n_rows = n_slices * slots
    row_of_item = np.empty(n_items, np.int64)
    row_of_item[order] = np.arange(n_items)

    by_item = np.argsort(row_of_item[item], kind="stable")
    row = row_of_item[item[by_item]]
    cell = cell[by_item]
    weight = None if labels.weight is None else labels.weight[by_item]
    first = np.concatenate([[0], np.cumsum(degree[order])])
    position = np.arange(len(row)) - first[row]

    # Position p of a slice is worth a block while enough of its items have more than p labels. Rows are sorted by
    # degree, so that is read off one item per slice.
    enough = max(min(_MIN_FILL, slots // 4), slots // _MIN_FILL_SHARE)
    degree_of_row = np.pad(degree[order], (0, n_rows - n_items))
    per_slice = degree_of_row[enough - 1 :: slots]
    offset = np.concatenate([[0], np.cumsum(per_slice)])
    slice_of = row // slots
    in_block = position < per_slice[slice_of]

    n_blocks = bucket(int(offset[-1])) if pad else int(offset[-1])
    n_cells = len(cell_worker)
    blocks = np.full((n_blocks, slots), n_cells, np.int32)
    where = (offset[slice_of[in_block]] + position[in_block], row[in_block] % slots)
    blocks[where] = cell[in_block]
    block_weight = None
    if weight is not None:
        block_weight = np.zeros((n_blocks, slots))
        block_weight[where] = weight[in_block]
    block_slice = np.zeros(n_blocks, np.int32)
    block_slice[: offset[-1]] = np.repeat(np.arange(n_slices), per_slice)

    loose = ~in_block
    n_loose = int(loose.sum())
    # Padded even where nothing is loose: a similar table with a loose label then needs no new code.
    extra = (bucket(n_loose, 64) if pad else n_loose) - n_loose
    present = np.zeros(n_rows)
    present[:n_items] = 1.0
    gold = np.full(n_rows, -1, np.int32)
    gold[:n_items] = labels.gold_code[order]
    item_of_row = np.zeros(n_rows, np.int32)
    item_of_row[:n_items] = order
    return LabelArrays(
        blocks=blocks,
        block_slice=block_slice,
        block_weight=block_weight,
        loose_row=np.pad(row[loose], (0, extra)).astype(np.int32),
        loose_cell=np.pad(cell[loose], (0, extra), constant_values=n_cells).astype(np.int32),
        loose_weight=None if weight is None else np.pad(weight[loose], (0, extra)),
        gold=gold,
        present=present,
        item_of_row=item_of_row,
        row_of_item=np.pad(row_of_item, (0, sizes.n_items - n_items)).astype(np.int32),
        cell_worker=cell_worker,
        cell_label=cell_label,
        cell_item=cell_item,
        worker_present=np.arange(sizes.n_workers) < n_workers,
        sizes=sizes,
    )


def build_padded(labels: Table, *, with_labels: bool = True) -> PaddedLabels:
    """Lay out a label table for a model's NumPyro program.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    with_labels : bool
        Leave the labels out (to simulate new ones on the same design) when False.

    Returns
    -------
    PaddedLabels
        Annotations as item x position, in the items' own order.
    """
    n_items = labels.n_items
    item = labels.item_code.astype(np.int64)
    order = np.argsort(item, kind="stable")
    degree = np.bincount(item, minlength=n_items)
    first = np.concatenate([[0], np.cumsum(degree)])
    position = np.arange(len(item)) - first[item[order]]
    shape = (n_items, max(int(degree.max(initial=0)), 1))
    at = (item[order], position)

    def table(values: np.ndarray, fill: float, dtype: type) -> np.ndarray:
        out: np.ndarray = np.full(shape, fill, dtype)
        out[at] = values[order]
        return out

    has_gold = bool((labels.gold_code >= 0).any())
    return PaddedLabels(
        worker=table(labels.worker_code, 0, np.int32),
        label=table(labels.label_code, 0, np.int32) if with_labels else None,
        mask=table(np.ones(len(item), bool), 0, bool),
        weight=None if labels.weight is None else table(labels.weight, 1.0, float),
        gold=labels.gold_code.astype(np.int32) if has_gold else None,
        sizes=Sizes(n_items, labels.n_workers, len(labels.classes), len(labels.label_values)),
    )


def _exact(n: int, smallest: int = 0) -> int:
    return max(n, smallest)


def _cells(
    labels: Table, sizes: Sizes, *, pad: bool, by_annotation: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Cell of each annotation, and worker, label (and item) of each cell.

    The cells are the whole worker x label grid while that is small beside the table, else the pairs that occur.
    """
    n_annotations = len(labels.item_code)
    worker, label = labels.worker_code.astype(np.int64), labels.label_code.astype(np.int64)
    if by_annotation:
        n_cells = bucket(n_annotations, 64) if pad else n_annotations
        extra = (0, n_cells - n_annotations)
        pairs = [np.pad(code, extra).astype(np.int32) for code in (worker, label, labels.item_code)]
        return np.arange(n_annotations), pairs[0], pairs[1], pairs[2]
    grid = worker * sizes.n_labels + label
    n_grid = sizes.n_workers * sizes.n_labels
    if n_grid <= max(2 * n_annotations, 4096):
        every = np.arange(n_grid)
        return grid, *_split(every, sizes.n_labels), None
    occupied, cell = np.unique(grid, return_inverse=True)
    n_cells = bucket(len(occupied), 64) if pad else len(occupied)
    return cell, *_split(np.pad(occupied, (0, n_cells - len(occupied))), sizes.n_labels), None


def _split(grid: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    return (grid // n_labels).astype(np.int32), (grid % n_labels).astype(np.int32)
