"""The layout of the co-label graph: parts, spanning edges, places."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayescrowd.plots._layout import ALIKE, components, groups, places, strongest


def _random(n: int, share: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    upper = np.triu(random.integers(1, 20, (n, n)) * (random.random((n, n)) < share), 1)
    return (upper + upper.T).astype(float)


def _reach(joined: np.ndarray) -> list[set[int]]:
    """Connected parts by plain search."""
    left, parts = set(range(len(joined))), []
    while left:
        part, new = set(), {min(left)}
        while new:
            part |= new
            new = {j for i in new for j in np.flatnonzero(joined[i])} - part
        parts.append(part)
        left -= part
    return parts


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_common_items(seed: int) -> None:
    random = np.random.default_rng(seed)
    item, worker = random.integers(40, size=30), random.integers(30, size=30)
    met = np.zeros((32, 42))
    met[worker, item] = 1
    expected = _reach((met @ met.T) > 0)
    part = groups(item, worker, 42, 32)
    assert len(part) == 32
    assert {frozenset(np.flatnonzero(part == k).tolist()) for k in set(part.tolist())} == set(map(frozenset, expected))
    assert np.bincount(part).tolist() == sorted(map(len, expected), reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_those_of_plain_search_the_largest_first(seed: int) -> None:
    common = _random(30, 0.05, seed)
    part = components(common)
    assert {frozenset(np.flatnonzero(part == k)) for k in set(part)} == set(map(frozenset, _reach(common)))
    assert np.bincount(part).tolist() == sorted(map(len, _reach(common)), reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_thinned_edges_hold_the_parts_together_and_are_the_strongest(seed: int) -> None:
    common = _random(40, 0.15, seed)
    first, second, total = strongest(common, 60)
    assert total == np.count_nonzero(np.triu(common))
    assert len(first) == 60
    assert np.array_equal(first, strongest(common, 60)[0])
    kept = np.zeros(common.shape)
    kept[first, second] = kept[second, first] = 1
    assert set(map(frozenset, _reach(kept))) == set(map(frozenset, _reach(common)))
    weight = common[first, second]
    assert (np.diff(weight) <= 0).all()
    # Whatever is clearly stronger than all edges that are nearly as good as the weakest is there.
    n_forest = len(common) - len(_reach(common))
    strong = np.sort(common[np.triu_indices(40, 1)])[::-1][60 - n_forest - 1]
    for i, j in zip(*np.nonzero(np.triu(common) > strong * np.exp(ALIKE)), strict=True):
        assert kept[i, j]
    assert weight.sum() > 0.85 * np.sort(common[np.triu_indices(40, 1)])[::-1][:60].sum()


def test_few_edges_are_all_drawn() -> None:
    common = _random(6, 0.9)
    first, second, total = strongest(common, 100)
    assert len(first) == total
    assert {tuple(sorted(pair)) for pair in zip(first.tolist(), second.tolist(), strict=True)} == {
        (i, j) for i, j in itertools.combinations(range(6), 2) if common[i, j]
    }


@pytest.mark.parametrize(("n", "share"), [(1, 0), (2, 1), (3, 1), (5, 0), (12, 1), (40, 0.1), (90, 0.05)])
def test_places_are_distinct_deterministic_and_parts_apart(n: int, share: float) -> None:
    common = _random(n, share)
    part = components(common)
    edges = strongest(common, 200)[:2]
    spots = places(common, part, edges)
    assert np.isfinite(spots).all()
    np.testing.assert_array_equal(spots, places(common, part, edges))
    if n > 1:
        apart = np.sqrt(((spots[:, None] - spots[None]) ** 2).sum(-1))
        assert apart[~np.eye(n, dtype=bool)].min() > 0.02
    boxes = [(spots[part == k].min(0), spots[part == k].max(0)) for k in range(part.max() + 1)]
    for (low, high), (start, end) in itertools.combinations(boxes, 2):
        assert (high < start).any() or (end < low).any()


def test_neighbours_lie_nearer_than_strangers() -> None:
    common = np.zeros((20, 20))
    common[:10, :10] = common[10:, 10:] = 9
    common[0, 10] = common[10, 0] = 1  # two cliques and a bridge
    np.fill_diagonal(common, 0)
    spots = places(common, components(common), strongest(common, 500)[:2])
    apart = np.sqrt(((spots[:, None] - spots[None]) ** 2).sum(-1))
    assert apart[:10, :10].mean() < 0.7 * apart[:10, 10:].mean()


def test_no_nodes() -> None:
    nothing = np.zeros((0, 0))
    assert components(nothing).tolist() == []


def test_of_ties_no_node_gets_more_than_the_others() -> None:
    common = np.full((60, 60), 418.0)
    common[0] = common[:, 0] = 419.0  # a worker with one item more is no hub
    np.fill_diagonal(common, 0)
    first, second, total = strongest(common, 300)
    assert (len(first), total) == (300, 1770)
    degree = np.bincount(np.concatenate([first, second]), minlength=60)
    assert degree.min() >= 1
    assert degree.max() < 3 * degree.mean()
    assert degree[0] < 2 * degree.mean()
