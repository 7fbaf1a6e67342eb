r"""The pieces that are left out, and the log probability of each given the rest: all states summed out, in float64.

A piece is an item with all its labels and its gold, one annotation, or a worker with all labels. Labels of one piece on
one item form a *pair*. With J_i(s) the joint log table of the labels of item i other than those of the pair, and h_p(s)
the log probability of the pair's labels under state s,

.. math:: \log p(\text{piece} \mid \text{rest}, \theta) = \sum_{p \in \text{piece}}
          \Bigl\{ \log \sum_s e^{J_i(s) + h_p(s)} - \log \sum_s e^{J_i(s)} \Bigr\} .

Pairs of one piece lie on different items, and items are independent given the parameters, so the sum is exact.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, bucket, build_arrays
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, LabelError
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal
from bayescrowd.model import At, Model, Parameters, Sizes

__all__ = [
    "Pairs",
    "by_item",
    "by_pairs",
    "check_by",
    "in_chunks",
    "lay_out",
    "piece_of_row",
    "pieces_to_judge",
    "tables",
]

PIECES = ("item", "annotation", "worker")

_CHUNK_BYTES = 32 * 2**20


def check_by(by: Any) -> str:
    """Check the name of a kind of piece.

    Parameters
    ----------
    by : str
        ``"item"``, ``"annotation"`` or ``"worker"``.

    Returns
    -------
    str
        The same.

    Raises
    ------
    LabelError
        Where it is anything else.
    """
    if not isinstance(by, str) or by not in PIECES:
        raise LabelError(f"by must be 'item', 'annotation' or 'worker', not {by!r}")
    return by


def piece_of_row(labels: CrowdLabels, by: str) -> np.ndarray:
    """Say to which piece each annotation belongs.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    by : str
        Kind of piece.

    Returns
    -------
    int array [annotation]
        Positions among items, annotations or workers.
    """
    if by == "annotation":
        return np.arange(labels.n_annotations)
    return np.asarray(labels.item_code if by == "item" else labels.worker_code).astype(np.int64)


def pieces_to_judge(labels: CrowdLabels, by: str) -> np.ndarray:
    """List the pieces of which something is known, and refuse tables from which none can be left out.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    by : str
        Kind of piece.

    Returns
    -------
    int array
        Positions, ascending.

    Raises
    ------
    EngineError
        Where there are fewer than two.
    """
    row = piece_of_row(labels, by)
    size = {"item": labels.n_items, "worker": labels.n_workers}.get(by, labels.n_annotations)
    judged = np.bincount(row, minlength=size) > 0
    if by == "item":
        judged |= labels.gold_code >= 0
    pieces = np.flatnonzero(judged)
    if len(pieces) < 2:
        what = "label" if by == "annotation" else f"{by} with labels"
        raise EngineError(f"there is {'but one' if len(pieces) else 'no'} {what}: without it nothing is left to fit")
    return pieces


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pairs:
    """Annotations by pair of piece and item; shapes are rounded up, so that similar tables share compiled code.

    Parameters
    ----------
    worker, label, item : int array [row]
        What the annotations say.
    weight : float array [row]
        Their weights; 0 for padding.
    place : int array [row]
        Item of each annotation, as a position among the items that occur here.
    pair : int array [row]
        Pair of each annotation; one past the end for those that belong to no piece and are only given.
    pair_place, pair_piece : int array [pair]
        Item and piece of each pair; the piece is one past the end for padding.
    place_item, place_gold : int array [place]
        The items that occur here, and their gold.
    left_out : bool
        True where the pairs' labels were not among those that the parameters are from: then a pair is judged given the
        annotations that belong to no pair; else given all other annotations of its item (static).
    n_pieces : int
        Number of pieces (static).
    sizes : Sizes
        Sizes of the parameters (static).
    """

    worker: Any
    label: Any
    item: Any
    weight: Any
    place: Any
    pair: Any
    pair_place: Any
    pair_piece: Any
    place_item: Any
    place_gold: Any
    left_out: bool = field(metadata={"static": True})
    n_pieces: int = field(metadata={"static": True})
    sizes: Sizes = field(metadata={"static": True})


def lay_out(labels: CrowdLabels, piece: np.ndarray, n_pieces: int, *, left_out: bool) -> Pairs:
    """Lay out annotations by pair of piece and item.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    piece : int array [annotation]
        Piece of each annotation; -1 for none.
    n_pieces : int
        How many pieces there are.
    left_out : bool
        As in `Pairs`.

    Returns
    -------
    Pairs
        Of the annotations on the items that have any pair.
    """
    item = np.asarray(labels.item_code).astype(np.int64)
    touched = np.zeros(labels.n_items, bool)
    touched[item[piece >= 0]] = True
    rows = np.flatnonzero(touched[item])
    places = np.flatnonzero(touched)
    place_of = np.zeros(labels.n_items, np.int64)
    place_of[places] = np.arange(len(places))
    mine = piece[rows] >= 0
    keys, found = np.unique(place_of[item[rows[mine]]] * n_pieces + piece[rows[mine]], return_inverse=True)
    n_rows, n_pairs, n_places = (bucket(size) for size in (len(rows), len(keys), len(places)))
    pair = np.full(len(rows), n_pairs)
    pair[mine] = found

    def padded(values: Any, length: int, fill: float = 0) -> np.ndarray:
        whole = np.full(length, fill, float if np.asarray(values).dtype.kind == "f" else np.int32)
        whole[: len(values)] = values
        return whole

    weight = np.ones(labels.n_annotations) if labels.weight is None else np.asarray(labels.weight, float)
    return Pairs(
        worker=padded(labels.worker_code[rows], n_rows),
        label=padded(labels.label_code[rows], n_rows),
        item=padded(item[rows], n_rows),
        weight=padded(weight[rows], n_rows),
        place=padded(place_of[item[rows]], n_rows),
        pair=padded(pair, n_rows, n_pairs),
        pair_place=padded(keys // max(n_pieces, 1), n_pairs),
        pair_piece=padded(keys % max(n_pieces, 1), n_pairs, n_pieces),
        place_item=padded(places, n_places),
        place_gold=padded(labels.gold_code[places], n_places, -1),
        left_out=left_out,
        n_pieces=n_pieces,
        sizes=sizes_of(labels),
    )


def tables(model: Model, parameters: Parameters, pairs: Pairs) -> tuple[Any, Any]:
    """Compute the joint log tables of each pair's item without and with the pair's labels.

    Parameters
    ----------
    model : Model
        Any model.
    parameters : dict
        Values of its parameter sites.
    pairs : Pairs
        The annotations.

    Returns
    -------
    tuple of array [pair, state]
        Log P(other labels, state) and log P(all labels, state); minus infinity where gold excludes the state.
    """
    sizes = pairs.sizes
    state = np.arange(model.n_levels * sizes.n_classes)
    true_class, difficulty = state % sizes.n_classes, state // sizes.n_classes
    n_pairs, n_places = pairs.pair_place.shape[0], pairs.place_item.shape[0]
    item = jnp.asarray(pairs.item)[:, None] if model.uses_item else None
    worker, label = (jnp.asarray(index)[:, None] for index in (pairs.worker, pairs.label))
    response = model.log_response(parameters, At(worker, true_class, difficulty, label, item, sizes))
    response = jnp.broadcast_to(response, (pairs.worker.shape[0], len(state)))
    weight = jnp.asarray(pairs.weight)[:, None]
    # An estimate may be exactly 0. Such labels are counted, not added up, or they could not be taken away again.
    never = jnp.isneginf(response)
    finite = jnp.where(never | (weight == 0), 0.0, response * weight)
    columns = jnp.concatenate([finite, never & (weight > 0)], axis=1)
    own = jax.ops.segment_sum(columns, jnp.asarray(pairs.pair), n_pairs + 1)[:-1]
    if pairs.left_out:
        columns = jnp.where(jnp.asarray(pairs.pair)[:, None] == n_pairs, columns, 0.0)
    rest = jax.ops.segment_sum(columns, jnp.asarray(pairs.place), n_places)[pairs.pair_place]
    rest = rest if pairs.left_out else rest - own

    states = At(None, true_class, difficulty, None, jnp.asarray(pairs.place_item)[:, None], sizes)
    base = jnp.broadcast_to(model.log_state(parameters, states), (n_places, len(state)))
    gold = jnp.asarray(pairs.place_gold)[:, None]
    base = jnp.where((gold < 0) | (gold == true_class), base, -jnp.inf)[pairs.pair_place]

    def log(sums: Any) -> Any:
        finite, n_never = jnp.split(sums, 2, axis=1)
        return base + jnp.where(n_never > 0.5, -jnp.inf, finite)

    return log(rest), log(rest + own)


def _pieces(model: Model, parameters: Parameters, pairs: Pairs) -> Any:
    rest, whole = (jax.nn.logsumexp(table, axis=1) for table in tables(model, parameters, pairs))
    change = jnp.where(jnp.isneginf(whole), -jnp.inf, whole - rest)
    change = jnp.where(jnp.asarray(pairs.pair_piece) < pairs.n_pieces, change, 0.0)
    return jax.ops.segment_sum(change, jnp.asarray(pairs.pair_piece), pairs.n_pieces + 1)[:-1]


@jax.jit
def _pieces_by_draw(model: Model, draws: dict[str, Any], pairs: Pairs) -> Any:
    return jax.lax.map(lambda parameters: _pieces(model, parameters, pairs), draws)


@jax.jit
def _items_by_draw(model: Model, draws: dict[str, Any], arrays: LabelArrays) -> Any:
    return jax.lax.map(lambda parameters: marginal(joint(model, parameters, arrays), arrays), draws)


def by_pairs(model: Model, samples: Mapping[str, np.ndarray], pairs: Pairs) -> Iterator[np.ndarray]:
    """Compute the log probability of each piece given the rest.

    Parameters
    ----------
    model : Model
        Any model.
    samples : dict
        Site -> array [sample, ...].
    pairs : Pairs
        The annotations.

    Yields
    ------
    array [sample, piece]
        A chunk of samples at a time.
    """
    with double_precision():
        on_device = jax.device_put(pairs)
    yield from in_chunks(lambda part: _pieces_by_draw(model, part, on_device), samples, max(pairs.n_pieces, 1))


def by_item(model: Model, samples: Mapping[str, np.ndarray], labels: CrowdLabels) -> Iterator[np.ndarray]:
    """Compute the log probability of the labels (and the gold) of each item.

    Parameters
    ----------
    model : Model
        Any model.
    samples : dict
        Site -> array [sample, ...].
    labels : CrowdLabels
        The label table.

    Yields
    ------
    array [sample, item]
        A chunk of samples at a time.
    """
    with double_precision():
        arrays = jax.device_put(build_arrays(labels, pad_sizes=False, by_annotation=model.uses_item))
    rows = np.asarray(arrays.row_of_item)[: labels.n_items]
    for part in in_chunks(lambda part: _items_by_draw(model, part, arrays), samples, arrays.n_rows):
        yield part[:, rows]


def in_chunks(
    evaluate: Callable[[dict[str, Any]], Any], samples: Mapping[str, np.ndarray], per_sample: int
) -> Iterator[np.ndarray]:
    """Evaluate something on a chunk of samples at a time, so that memory stays bounded.

    Parameters
    ----------
    evaluate : callable
        From site -> array [chunk, ...] to an array [chunk, ...].
    samples : dict
        Site -> array [sample, ...].
    per_sample : int
        How many numbers come out per sample.

    Yields
    ------
    array [sample, ...]
        On the host.
    """
    n_samples = len(next(iter(samples.values())))
    size = max(1, min(n_samples, _CHUNK_BYTES // (8 * max(per_sample, 1))))
    for first in range(0, n_samples, size):
        # The last chunk repeats samples so that all chunks share one compiled shape.
        rows = np.minimum(np.arange(first, first + size), n_samples - 1)
        with double_precision():
            part = np.asarray(evaluate({name: jnp.asarray(value[rows], float) for name, value in samples.items()}))
        yield part[: n_samples - first]
