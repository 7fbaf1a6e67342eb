r"""Collapsed Gibbs sweeps: items in sequence, tables integrated out.

All counts lie in one vector: prior plus count of every table entry, then the sums of all table rows, then a 1 that
entries without effect point to. An item's own counts are taken out, the probability of each of its states is a product
of fractions :math:`(N + \omega) / (N_{row} + \Omega)` over its labels (rising factorials where several of its labels
use one row), a state is drawn, and its counts are put back. A sweep is one scan per segment of items with similar
numbers of labels; chains are computed side by side within it.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

__all__ = ["Chains", "Design", "Segment", "segment_widths", "sweep"]

_FIXED_WORK = 6
"""What an item costs beyond its labels, in labels."""

_WASTE = 1.3
"""Segments are merged as long as padding costs no more than this factor."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Segment:
    """Items with similar numbers of labels, padded to the same number.

    Parameters
    ----------
    cell : int array [item, position]
        Cell of each label; one past the end for padding.
    weight : float array [item, position] or None
        Weights; None when all are 1.
    earlier : float array [item, position, 2] or None
        Weight of the item's earlier labels that use the same entry, and the same row, whatever the state; None where
        there are none, or where that depends on the state.
    gold : int array [item]
        Known class, -1 where unknown.
    state_entry : int array [item, table, state] or None
        Positions that the states of each item use, where items differ.
    """

    cell: Any
    weight: Any
    earlier: Any
    gold: Any
    state_entry: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Design:
    """What sweeps need to know of model and labels.

    Parameters
    ----------
    segments : list of Segment
        The items, in order of the rows of the layout.
    index : int array [route, cell + 1, fraction, state]
        Positions of numerators, then of denominators; past the end where there is no effect.
    log_constant : float array [route, cell + 1, state] or None
        Given constants of the routes; None where all are 0.
    state_entry : int array [table, state] or None
        Positions that states use, where all items use the same.
    n_classes, n_entries, n_fractions : int
        Sizes (static); the first ``n_fractions`` of the fractions are numerators.
    own : str
        How an item's labels meet in tables (static): ``"apart"`` (no row is used twice by one item), ``"listed"`` (they
        meet in the same way under every state: `Segment.earlier`) or ``"compared"`` (found out under every state).
    unit : bool
        True where all weights are 1 (static).
    joint : bool
        Draw class and difficulty together (static).
    whole : bool
        True where all weights are whole numbers, so that counts are (static).
    """

    segments: list[Segment]
    index: Any
    log_constant: Any
    state_entry: Any
    n_classes: int = field(metadata={"static": True})
    n_entries: int = field(metadata={"static": True})
    n_fractions: int = field(metadata={"static": True})
    own: str = field(metadata={"static": True})
    unit: bool = field(metadata={"static": True})
    joint: bool = field(metadata={"static": True})
    whole: bool = field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chains:
    """Where chains stand, chain first.

    Parameters
    ----------
    counts : float array [chain, position]
        Prior plus counts of entries, of rows, and a 1.
    state : list of int array [chain, item]
        State of each item, by segment.
    route : list of int array [chain, item, position]
        Route by which each label came about, by segment; empty lists of positions where there is one.
    """

    counts: Any
    state: list[Any]
    route: list[Any]


def segment_widths(degree: np.ndarray) -> list[tuple[int, int]]:
    """Cut items, sorted by falling number of labels, into few segments with little padding.

    Parameters
    ----------
    degree : int array [item]
        Numbers of labels, falling.

    Returns
    -------
    list of tuple
        (end of the segment, width).
    """
    if not len(degree):
        return []
    cuts, start = [], 0
    while start < len(degree):
        width = max(int(degree[start]), 1)
        end = int(np.searchsorted(-degree, -(width // 2), side="left")) if width > 1 else len(degree)
        end = max(end, start + 1)
        cuts.append((start, end, width))
        start = end

    def cost(cut: tuple[int, int, int]) -> int:
        return (cut[1] - cut[0]) * (cut[2] + _FIXED_WORK)

    least = float(degree.sum() + _FIXED_WORK * len(degree))
    while len(cuts) > 1:
        merged = [(a[0], b[1], a[2]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        extra = [cost(m) - cost(a) - cost(b) for m, a, b in zip(merged, cuts[:-1], cuts[1:], strict=True)]
        best = int(np.argmin(extra))
        if sum(map(cost, cuts)) + extra[best] > _WASTE * least:
            break
        cuts[best : best + 2] = [merged[best]]
    return [(end, width) for _, end, width in cuts]


def _pick(weights: Any, uniform: Any) -> Any:
    edges = jnp.cumsum(weights)
    return jnp.sum(uniform * edges[-1] >= edges[:-1]).astype(jnp.int32)


def _draw_state(design: Design, probability: Any, old: Any, uniform: Any) -> Any:
    if design.joint:
        return _pick(probability, uniform[0])
    by_level = probability.reshape(-1, design.n_classes)
    true_class = _pick(by_level[old // design.n_classes], uniform[0])
    return _pick(by_level[:, true_class], uniform[1]) * design.n_classes + true_class


def _earlier(position: Any, weight: Any) -> Any:
    """How much the labels before each one (and factors before it) add to its position, per state.

    ``position`` [label, fraction, state]; the result has the same shape.
    """
    n_labels, n_fractions, n_states = position.shape
    flat = position.reshape(-1, n_states)
    weights = jnp.repeat(weight, n_fractions)
    same = flat[:, None] == flat[None, :]
    before = jnp.tril(jnp.ones((len(flat), len(flat)), bool), -1)
    found = jnp.einsum("pqs,q->ps", (same & before[..., None]).astype(float), weights)
    return found.reshape(n_labels, n_fractions, n_states)


def _fractions(counts: Any, position: Any, weight: Any, earlier: Any, design: Design) -> Any:
    """Log of each label's product of fractions under each state: [label, state]."""
    found = counts.at[position].get(mode="clip")
    n = design.n_fractions
    if design.own == "apart" and design.unit:
        ratio = found[:, :n] / found[:, n:]
        return jnp.log(ratio[:, 0] if n == 1 else jnp.prod(ratio, axis=1))
    dead = position >= counts.shape[0]
    parts = []
    for number, half in enumerate((slice(0, n), slice(n, None))):
        at = found[:, half]
        if design.own == "listed":
            at = at + earlier[:, number, None, None]
        elif design.own == "compared":
            at = at + _earlier(position[:, half], weight)
        rise = jnp.log(at) if design.unit else gammaln(at + weight[:, None, None]) - gammaln(at)
        parts.append(jnp.where(dead[:, half], 0.0, rise).sum(axis=1))
    return parts[0] - parts[1]


def _one(design: Design, counts: Any, given: Any) -> tuple[Any, Any]:
    """Update one item of one chain."""
    segment, old, old_route, uniform = given
    state_entry = design.state_entry if segment.state_entry is None else segment.state_entry
    position = design.index[:, segment.cell]
    n_routes, n_labels = position.shape[:2]
    weight = jnp.ones(n_labels) if segment.weight is None else segment.weight

    def used(state: Any, route: Any) -> tuple[Any, Any]:
        of_labels = position[0] if n_routes == 1 else position[route, jnp.arange(n_labels)]
        return of_labels[:, :, state], state_entry[:, state]

    of_labels, of_state = used(old, old_route)
    counts = counts.at[of_labels].add(-weight[:, None], mode="drop")
    counts = counts.at[of_state].add(-1.0)
    logs = jax.vmap(lambda one: _fractions(counts, one, weight, segment.earlier, design))(position)
    if design.log_constant is not None:
        logs = logs + design.log_constant[:, segment.cell] * weight[:, None]
    by_label = logs[0] if n_routes == 1 else jax.nn.logsumexp(logs, axis=0)
    total = by_label.sum(axis=0) + jnp.log(counts[state_entry]).sum(axis=0)
    true_class = jnp.arange(total.shape[0]) % design.n_classes
    total = jnp.where((segment.gold < 0) | (segment.gold == true_class), total, -jnp.inf)
    probability = jnp.exp(total - total.max())
    probability = probability / probability.sum()
    new = _draw_state(design, probability, old, uniform)
    new_route = old_route
    if n_routes > 1:
        share = jax.nn.softmax(logs[:, :, new], axis=0)
        new_route = jax.vmap(_pick, in_axes=(1, 0))(share, uniform[-n_labels:])
    of_labels, of_state = used(new, new_route)
    counts = counts.at[of_labels].add(weight[:, None], mode="drop")
    counts = counts.at[of_state].add(1.0)
    return counts, (new, new_route, probability)


def sweep(design: Design, chains: Chains, keys: Any, index: Any) -> tuple[Chains, Any]:
    """Update every item of every chain once, in sequence.

    Parameters
    ----------
    design : Design
        Model and labels.
    chains : Chains
        Where they stand.
    keys : array [chain]
        Random keys of the chains.
    index : int array []
        Number of the sweep; it makes the random numbers, so that results do not depend on how sweeps are grouped.

    Returns
    -------
    tuple
        Where the chains stand, and the conditional probabilities of the states [chain, row, state].
    """
    n_routes = design.index.shape[0]

    def one_chain(counts: Any, states: list[Any], routes: list[Any], key: Any) -> tuple[Any, ...]:
        key = jax.random.fold_in(key, index)
        new_states, new_routes, probabilities = [], [], []
        for number, (segment, state, route) in enumerate(zip(design.segments, states, routes, strict=True)):
            n_items, n_labels = segment.cell.shape
            n_numbers = (1 if design.joint else 2) + (n_labels if n_routes > 1 else 0)
            uniform = jax.random.uniform(jax.random.fold_in(key, number), (n_items, n_numbers))
            counts, (state, route, probability) = jax.lax.scan(
                lambda carry, given: _one(design, carry, given), counts, (segment, state, route, uniform)
            )
            new_states.append(state)
            new_routes.append(route)
            probabilities.append(probability)
        return counts, new_states, new_routes, jnp.concatenate(probabilities)

    counts, states, routes, probability = jax.vmap(one_chain)(chains.counts, chains.state, chains.route, keys)
    return Chains(counts, states, routes), probability
