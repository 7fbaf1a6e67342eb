"""Model and labels laid out for the sweeps of collapsed Gibbs: positions of counts, segments, first states."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, build_arrays
from bayescrowd.inference.base import Job, require, whole_weights
from bayescrowd.inference.points import draw_states, rows_of
from bayescrowd.kernels.annotations import annotations_of
from bayescrowd.kernels.collapsed import Chains, Design, Segment, segment_widths
from bayescrowd.kernels.entries import RouteEntries, route_entries, state_entries
from bayescrowd.kernels.tables import Tables, concentration, tables_of
from bayescrowd.model import Model

__all__ = ["Laid"]


@partial(jax.jit, static_argnames="tables")
def _indices(model: Model, arrays: LabelArrays, tables: Tables) -> tuple[list[RouteEntries], list[Any], Any]:
    routes = route_entries(model, arrays, tables)
    return routes, state_entries(model, arrays, tables), concentration(model, arrays.sizes)


class Laid:
    """Model and labels laid out for sweeps.

    Parameters
    ----------
    job : Job
        Model, labels and settings (``scheme``).

    Raises
    ------
    EngineError
        For what sequential sweeps cannot take.
    """

    def __init__(self, job: Job) -> None:
        model, labels = job.model, job.labels
        self.arrays = jax.device_put(build_arrays(labels, pad=False, by_annotation=model.uses_item))
        self.tables = tables_of(model, self.arrays.sizes)
        routes, states, alpha = _indices(model, self.arrays, self.tables)
        self.alpha = np.asarray(alpha)
        self.row_of = self.tables.row_of
        n_entries, dead = len(self.alpha), len(self.alpha) + self.tables.n_rows + 1
        n_fractions = max(len(route.entries) for route in routes)
        n_states = routes[0].counted.shape[1]
        position = np.full((len(routes), self.arrays.n_cells + 1, 2 * n_fractions, n_states), dead, np.int32)
        log_constant = np.zeros((len(routes), self.arrays.n_cells + 1, n_states))
        worker_specific = True
        for number, route in enumerate(routes):
            counted = np.asarray(route.counted)
            log_constant[number, :-1] = np.asarray(route.log_constant)
            for factor, entry in enumerate(route.entries):
                entry = np.asarray(entry)
                worker = np.asarray(self.arrays.cell_worker)[:, None]
                worker_specific &= not (counted & (self.tables.worker_of[entry] != worker)).any()
                position[number, :-1, factor] = np.where(counted, entry, dead)
                below = n_entries + self.tables.row_of[entry]
                position[number, :-1, n_fractions + factor] = np.where(counted, below, dead)
        same = [entry.shape[0] == 1 for entry in states]
        of_states = self._state_positions([np.asarray(entry) for entry in states])
        self.row, self.cell, self.weight = annotations_of(self.arrays)
        pair = self.row.astype(np.int64) * labels.n_workers + np.asarray(self.arrays.cell_worker)[self.cell]
        unit = bool((self.weight == 1).all())
        apart = worker_specific and len(np.unique(pair)) == len(pair)
        # Under every state a label's entry is told by its cell, and its row by the worker.
        listed = worker_specific and len(routes) == 1 and self._told_by_cells(position[0], n_fractions, dead)
        self._pair = pair
        self._listed = listed and not apart
        require(
            len(routes) == 1 or (apart and unit),
            f"model {model.name!r} has labels that come about in {len(routes)} ways, and some worker labelled an item "
            f"twice or with a weight: engine 'collapsed-gibbs' cannot take both; use engine='gibbs', or "
            f"duplicates='first'",
        )
        design = {
            "index": position,
            "log_constant": log_constant if log_constant.any() else None,
            "state_entry": of_states[0] if all(same) else None,
            "n_classes": self.arrays.sizes.n_classes,
            "n_entries": n_entries,
            "n_fractions": n_fractions,
            "own": "apart" if apart else "listed" if listed else "compared",
            "unit": unit,
            "joint": job.settings.scheme == "joint",
            "whole": whole_weights(labels),
        }
        self.segments, self._slots = self._segments(of_states if not all(same) else None)
        self.design = jax.device_put(Design(segments=self.segments, **design))

    def _told_by_cells(self, position: np.ndarray, n_fractions: int, dead: int) -> bool:
        """Whether cells use entries of their own under every state, and cells of one worker the same rows."""
        worker = np.asarray(self.arrays.cell_worker)
        first = np.unique(worker, return_index=True, return_inverse=True)
        same_row = (position[:-1, n_fractions:] == position[:-1, n_fractions:][first[1][first[2]]]).all()
        for factor in range(n_fractions):
            for of_state in position[:-1, factor].T:
                used = of_state[of_state < dead]
                if len(np.unique(used)) < len(used):
                    return False
        return bool(same_row)

    def _earlier(self) -> np.ndarray:
        """Weight of the item's labels before each one with the same cell, and by the same worker."""
        found = []
        cell = self.row.astype(np.int64) * self.arrays.n_cells + self.cell
        for key in (cell, self._pair):
            order = np.argsort(key, kind="stable")
            ordered, weight = key[order], self.weight[order]
            before = np.cumsum(weight) - weight
            starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
            base = np.repeat(before[starts], np.diff(np.append(starts, len(ordered))))
            out = np.empty(len(order))
            out[order] = before - base
            found.append(out)
        return np.stack(found, axis=1)

    def _state_positions(self, states: list[np.ndarray]) -> np.ndarray:
        """Positions that states use, [1 or row, table, state]; row sums do not matter while all states share a row."""
        n = max(entry.shape[0] for entry in states)
        for entry in states:
            rows = self.tables.row_of[entry]
            require(
                (rows == rows[:, :1]).all(),
                "engine 'collapsed-gibbs' needs the prior of an item's states to come from one row of each table; use "
                "engine='gibbs'",
            )
        return np.stack([np.broadcast_to(entry, (n, entry.shape[1])) for entry in states], axis=1).astype(np.int32)

    def _segments(self, of_states: np.ndarray | None) -> tuple[list[Segment], list[tuple[np.ndarray, ...]]]:
        """Cut the rows into segments; also where each annotation lies: (annotations, rows within, positions)."""
        arrays = self.arrays
        order = np.argsort(self.row, kind="stable")
        degree = np.bincount(self.row, minlength=arrays.n_rows)
        present = int(np.asarray(arrays.present).sum())
        first = np.concatenate([[0], np.cumsum(degree)])
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order)) - first[self.row[order]]
        segments: list[Segment] = []
        slots: list[tuple[np.ndarray, ...]] = []
        start = 0
        unit = bool((self.weight == 1).all())
        earlier_of = self._earlier() if self._listed else None
        for end, width in segment_widths(degree[:present]):
            inside = np.flatnonzero((self.row >= start) & (self.row < end))
            where = (self.row[inside] - start, position[inside])
            cell = np.full((end - start, width), arrays.n_cells, np.int32)
            cell[where] = self.cell[inside]
            weight = None
            if not unit:
                weight = np.zeros((end - start, width))
                weight[where] = self.weight[inside]
            earlier = None
            if earlier_of is not None:
                earlier = np.zeros((end - start, width, 2))
                earlier[where] = earlier_of[inside]
            gold = np.asarray(arrays.gold)[start:end]
            of_items = None if of_states is None else of_states[start:end]
            segments.append(Segment(cell, weight, earlier, gold, of_items))
            slots.append((inside, *where))
            start = end
        return segments, slots

    def begin(self, start: np.ndarray, randoms: list[np.random.Generator]) -> Chains:
        """Draw the states of each chain from a start, and count.

        Parameters
        ----------
        start : array [item, state]
            Probabilities of the states.
        randoms : list of numpy.random.Generator
            One per chain.

        Returns
        -------
        Chains
            Before the first sweep.
        """
        n_routes = self.design.index.shape[0]
        rows = rows_of(start, self.arrays)
        index = np.asarray(self.design.index)
        size = len(self.alpha) + self.tables.n_rows + 1
        prior = np.concatenate([self.alpha, np.bincount(self.row_of, self.alpha, self.tables.n_rows), [1.0]])
        counts, states, routes = [], [], []
        for random in randoms:
            state = draw_states(rows, random)
            route = random.integers(0, n_routes, len(self.row))
            used = index[route, self.cell, :, state[self.row]]
            flat = np.bincount(used.ravel(), np.repeat(self.weight, used.shape[1]), size + 1)[:size]
            first = 0
            for segment in self.segments:
                of_item = state[first : first + len(segment.gold)]
                entry = segment.state_entry
                found = np.asarray(self.design.state_entry)[:, of_item] if entry is None else _take(entry, of_item)
                # An item's states share a row of each table: its sum never changes, but means are taken by it.
                both = np.concatenate([found.ravel(), len(self.alpha) + self.row_of[found].ravel()])
                flat += np.bincount(both, minlength=size)
                first += len(of_item)
            counts.append(prior + flat)
            states.append(state)
            routes.append(route)
        by_segment, by_route, first = [], [], 0
        for segment, (inside, row, position) in zip(self.segments, self._slots, strict=True):
            last = first + len(segment.gold)
            by_segment.append(jnp.asarray(np.stack([state[first:last] for state in states]), jnp.int32))
            laid = np.zeros((len(randoms), *segment.cell.shape), np.int32)
            for chain, route in enumerate(routes):
                laid[chain][row, position] = route[inside]
            by_route.append(jnp.asarray(laid if n_routes > 1 else laid[..., :0]))
            first = last
        return Chains(jnp.asarray(np.stack(counts)), by_segment, by_route)


def _take(entry: np.ndarray, state: np.ndarray) -> np.ndarray:
    return entry[np.arange(len(state)), :, state]
