"""Places for the nodes of a graph: springs within each connected part, the parts side by side. Deterministic."""

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

__all__ = ["ALIKE", "components", "groups", "places", "strongest"]

_CROWD = 60
ALIKE = 0.3
"""Weights whose logarithms differ by less are as good as ties."""


def components(common: np.ndarray) -> np.ndarray:
    """Find the connected parts of a graph, the largest first.

    Parameters
    ----------
    common : array [node, node]
        Symmetric; not joined where 0.

    Returns
    -------
    int array [node]
    """
    _, part = connected_components(sparse.csr_array(common > 0), directed=False)
    return _largest_first(part)


def groups(item: np.ndarray, worker: np.ndarray, n_items: int, n_workers: int) -> np.ndarray:
    """Find the workers that labels join, through items and other workers; the largest group first.

    Parameters
    ----------
    item, worker : int array [annotation]
        Who labelled what.
    n_items, n_workers : int
        How many there are.

    Returns
    -------
    int array [worker]
        A worker without labels is a group alone.
    """
    n = n_workers + n_items
    # Items are nodes too: pairs of workers may be too many to list.
    joined = sparse.coo_array((np.ones(len(item), np.int8), (worker, item.astype(np.int64) + n_workers)), shape=(n, n))
    _, part = connected_components(joined, directed=False)
    return _largest_first(np.unique(part[:n_workers], return_inverse=True)[1])


def _largest_first(part: np.ndarray) -> np.ndarray:
    """Give parts new numbers: 0 to the largest, and so on."""
    order = np.argsort(-np.bincount(part), kind="stable")
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    numbers: np.ndarray = rank[part]
    return numbers


def strongest(common: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Choose the edges to draw: as many of the strongest, and what holds the parts of the graph together.

    Among edges of about the same weight it is by lot (always the same): by order, some nodes would look like hubs.

    Parameters
    ----------
    common : array [node, node]
        Symmetric; not joined where 0.
    most : int
        About how many.

    Returns
    -------
    first, second : int array [edge]
        Ends of the edges, the strongest first.
    total : int
        How many edges there are.
    """
    first, second = np.nonzero(np.triu(common, 1))
    weight = common[first, second]
    total = len(weight)
    kept = np.ones(total, bool)
    if total > most:
        rank = np.log(weight) + ALIKE * np.random.default_rng(0).random(total)
        # The spanning tree of the strongest edges: without them a part would look like several.
        cost = sparse.csr_array((rank.max() + 1.0 - rank, (first, second)), shape=common.shape)
        tree = minimum_spanning_tree(cost).tocoo()
        needed = set(zip(np.minimum(tree.row, tree.col), np.maximum(tree.row, tree.col), strict=True))
        kept = np.array([pair in needed for pair in zip(first, second, strict=True)], bool)
        rest = np.flatnonzero(~kept)
        room = max(0, most - int(kept.sum()))
        kept[rest[np.argsort(-rank[rest], kind="stable")[:room]]] = True
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(-weight[rows], kind="stable")]
    return first[rows], second[rows], total


def places(common: np.ndarray, part: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Lay out a graph.

    Parameters
    ----------
    common : array [node, node]
        Symmetric weights.
    part : int array [node]
        As `components` numbers them.
    edges : tuple of int array [edge]
        The edges that pull.

    Returns
    -------
    array [node, 2]
        Coordinates.
    """
    joined = np.zeros(common.shape)
    joined[edges[0], edges[1]] = joined[edges[1], edges[0]] = np.sqrt(common[edges[0], edges[1]])
    spots = np.zeros((len(part), 2))
    radii = []
    for number in range(int(part.max(initial=-1)) + 1):
        members = np.flatnonzero(part == number)
        radius = 0.55 if len(members) == 1 else 0.9 * np.sqrt(len(members))
        spots[members] = radius * _springs(joined[np.ix_(members, members)])
        radii.append(radius + 0.45)
    centres = _shelves(np.array(radii))
    laid: np.ndarray = spots + centres[part]
    return laid


def _springs(weight: np.ndarray) -> np.ndarray:
    """Fruchterman and Reingold's forces from a spectral start; within the unit circle."""
    n = len(weight)
    if n == 1:
        return np.zeros((1, 2))
    spot = _spectral(weight)
    ideal = 1 / np.sqrt(n)
    pull = weight / weight.max()
    steps = 150 if n <= 200 else 70
    for step in range(steps):
        square = (spot**2).sum(-1)
        distance = np.sqrt(np.maximum(square[:, None] + square[None] - 2 * spot @ spot.T, 1e-6))
        force = (ideal / distance) ** 2 - pull * distance / ideal
        # Sum of the forces along the differences of places, without an array of the differences.
        move = spot * force.sum(1, keepdims=True) - force @ spot - 0.6 * spot  # a little towards the middle
        length = np.maximum(np.sqrt((move**2).sum(-1, keepdims=True)), 1e-9)
        spot = spot + move / length * np.minimum(length, 0.15 * (1 - step / steps) + 0.002)
    spot -= (spot.max(0) + spot.min(0)) / 2
    radius = np.sqrt((spot**2).sum(-1))
    radius /= max(float(radius.max()), 1e-9)
    if n > _CROWD:  # the crowd in the middle makes use of the room that a few stragglers leave empty
        even = np.sqrt((np.argsort(np.argsort(radius, kind="stable"), kind="stable") + 0.5) / n)
        spot *= ((0.3 * radius + 0.7 * even) / np.maximum(radius, 1e-9))[:, None]
    return spot / max(float(np.sqrt((spot**2).sum(-1)).max()), 1e-9)


def _spectral(weight: np.ndarray) -> np.ndarray:
    """Start on a circle, in the order in which the graph itself goes round; slightly off it, so that forces act."""
    n = len(weight)
    degree = np.maximum(weight.sum(1), 1e-12)
    scaled = weight / np.sqrt(degree[:, None] * degree[None])
    if n > 2:
        _, pair = eigh(scaled, subset_by_index=(n - 3, n - 2))
    else:
        pair = np.array([[1.0, 0.0], [-1.0, 0.0]])
    # Eigenvectors have no sign: the largest entry is made positive.
    pair = pair * np.sign(pair[np.abs(pair).argmax(0), np.arange(pair.shape[1])])
    angle = np.arctan2(pair[:, -1], pair[:, 0]) + 1e-9 * np.arange(n)
    turn = 2 * np.pi * np.argsort(np.argsort(angle, kind="stable"), kind="stable") / n
    radius = 0.5 + 0.05 * np.cos(2.4 * np.arange(n))
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def _shelves(radii: np.ndarray) -> np.ndarray:
    """Centres of circles put side by side on shelves, in their order."""
    wide = max(2 * float(radii.max(initial=0.0)), 1.35 * float(np.sqrt((4 * radii**2).sum())))
    centres, x, y, high = np.zeros((len(radii), 2)), 0.0, 0.0, 0.0
    for number, radius in enumerate(radii):
        if x and x + 2 * radius > wide + 1e-9:
            x, y, high = 0.0, y - high, 0.0
        high = max(high, 2 * radius)
        centres[number] = x + radius, y - high / 2
        x += 2 * radius
    return centres
