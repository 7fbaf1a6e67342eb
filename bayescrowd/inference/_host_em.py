"""EM on the host: the same steps as the compiled ones of `bayescrowd.inference.em`, in NumPy.

A compiled pass is no faster than one of sparse matrices on one processor, and compiling takes longer than all passes
over a table of some hundred thousand labels. Items that look alike are also seen once only.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import gammaln

from bayescrowd.data.arrays import Table
from bayescrowd.inference._fixpoint import CHUNK
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels import loops
from bayescrowd.kernels.host import Block, HostEntries, HostLabels, HostLogs, entries_of, host_labels, row_shares
from bayescrowd.kernels.tables import TINY, Tables, tables_of
from bayescrowd.model import Model

__all__ = ["HostEM", "State", "host_em"]


_SMALLEST = -665.0
"""Logarithm of the floor of the states' probabilities in a pass (what is given back has zeros there)."""

_MANY = 1_000_000
"""Labels up to which no accelerator is looked for: it is slower to start than this is to end."""


class State(NamedTuple):
    """Where EM stands: the point to map next and, for the acceleration, what the last two maps gave."""

    point: Any
    base: Any
    second: Any
    before: Any
    phase: Any


class HostEM(NamedTuple):
    """EM on one table.

    Parameters
    ----------
    labels : HostLabels
        The annotations.
    entries : HostEntries
        Table entries of labels and states.
    alpha : array [entry]
        Prior concentrations.
    log_constant : float
        Logarithm of the constant of the prior's density; 0 where the likelihood is maximised.
    mean : array [entry]
        Prior means, for rows that nothing was counted in.
    posterior, accelerate : bool
        What to maximise, and how.
    scratch : array [state, pattern]
        For the largest block, written anew all the time: fresh memory costs as much as the sums.
    """

    labels: HostLabels
    entries: HostEntries
    alpha: np.ndarray
    log_constant: float
    mean: np.ndarray
    posterior: bool
    accelerate: bool
    scratch: np.ndarray

    @property
    def tables(self) -> Tables:
        """Layout of the table entries."""
        return self.entries.tables

    def begin(self, start: np.ndarray) -> loops.Progress[State]:
        """Set the parameters to what a start says.

        Parameters
        ----------
        start : array [item, state]
            Probabilities of the states.

        Returns
        -------
        Progress
            Before the first pass.
        """
        pattern, n_patterns = self.labels.pattern_of_item, self.labels.n_patterns
        weights = np.stack([np.bincount(pattern, column, n_patterns) for column in start.T])
        logs = self.entries.logs(np.log(np.maximum(self.mean, TINY)))
        used = np.zeros_like(logs.response)
        for block, part in self.labels.parts(weights):
            used += block.cell_sums(part)
        point = self._maximise(self.entries.counts(logs, used, start.sum(axis=0)))
        state = State(point, point, point, -np.inf, 0)
        return loops.Progress(state, -np.inf, np.inf, 0, loops.RUNNING, np.full(CHUNK, np.nan))

    def advance(
        self, progress: loops.Progress[State], tolerance: float, change_tolerance: float, max_steps: int
    ) -> loops.Progress[State]:
        """Make up to a chunk of passes, as `bayescrowd.kernels.loops.advance` does.

        Parameters
        ----------
        progress : Progress
            From `begin` or an earlier call.
        tolerance, change_tolerance : float
            When to stop.
        max_steps : int
            Most steps in all calls together.

        Returns
        -------
        Progress
            Its trace starts anew with this call.
        """
        trace: list[float] = []
        step = self._squarem if self.accelerate else self._plain
        now = progress
        while now.status == loops.RUNNING and now.n_steps < max_steps and len(trace) < CHUNK:
            state, objective, change = step(now.state)
            status = loops.RUNNING
            if not np.isfinite(objective):
                status = loops.FAILED
            elif loops.settled(now, objective, change, tolerance, change_tolerance):
                status = loops.CONVERGED
            trace.append(objective)
            now = loops.Progress(state, objective, change, now.n_steps + 1, status, None)
        return now._replace(trace=np.array(trace))

    def finish(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        """Compute what a point says of the items.

        Parameters
        ----------
        point : array [entry]
            Probabilities.

        Returns
        -------
        tuple
            Probabilities of the states [item, state] and the log likelihood.
        """
        logs = self.entries.logs(np.log(np.maximum(point, TINY)))
        likelihood, found = 0.0, []
        for block in self.labels.blocks:
            probability, part = self._expect(logs, block)
            probability[probability < 2 * np.exp(_SMALLEST)] = 0.0
            found.append(np.ascontiguousarray(probability.T))
            likelihood += part
        return np.concatenate(found)[self.labels.pattern_of_item], likelihood

    def _expect(self, logs: HostLogs, block: Block) -> tuple[np.ndarray, float]:
        """Give the probabilities of the states [state, pattern], in the scratch, and the log likelihood."""
        n_patterns = len(block.n_items)
        table = self.entries.joint(logs, block, self.scratch[:, :n_patterns])
        top = table.max(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            table -= top
            # Numbers too small for full precision are a hundred times slower to compute with.
            np.exp(np.maximum(table, _SMALLEST, out=table), out=table)
            total = table.sum(axis=0)
            table /= total
            top += np.log(total, out=total)
        return table, _dot(block.n_items, top)

    def _map(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        log_flat = np.log(np.maximum(point, TINY))
        logs, objective = self.entries.logs(log_flat), 0.0
        used, of_states = np.zeros_like(logs.response), np.zeros_like(logs.prior)
        for block in self.labels.blocks:
            weights, likelihood = self._expect(logs, block)
            weights *= block.n_items
            objective += likelihood
            used += block.cell_sums(weights)
            of_states += weights.sum(axis=1)
        if self.posterior:
            objective += _dot(self.alpha - 1.0, log_flat) + self.log_constant
        return objective, self._maximise(self.entries.counts(logs, used, of_states))

    def _maximise(self, counts: np.ndarray) -> np.ndarray:
        return row_shares(self.alpha + counts - 1.0 if self.posterior else counts, self.tables, self.mean)

    def _plain(self, state: State) -> tuple[State, float, float]:
        objective, after = self._map(state.point)
        return state._replace(point=after), objective, _distance(after, state.point)

    def _squarem(self, state: State) -> tuple[State, float, float]:
        objective, after = self._map(state.point)
        if state.phase == 0:
            return State(after, state.point, state.second, objective, 1), objective, _distance(after, state.point)
        if state.phase == 1:
            leap = self._leap(state.base, state.point, after)
            return State(leap, state.base, after, objective, 2), objective, _distance(after, state.point)
        if not objective >= state.before:
            # The leap was no gain: go on from the map before it.
            return State(state.second, state.base, state.second, state.before, 0), state.before, np.inf
        return State(after, state.base, state.second, state.before, 0), objective, _distance(after, state.point)

    def _leap(self, base: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        step = first - base
        curve = second - first - step
        square = _dot(curve, curve)
        length = max(float(np.sqrt(_dot(step, step) / (square if square > 0 else 1.0))), 1.0)
        leap = base + 2 * length * step + length**2 * curve
        return row_shares(np.where(leap > 0, leap, 0.1 * second), self.tables, second)


def _dot(one: np.ndarray, other: np.ndarray) -> float:
    # Not BLAS: it starts threads for vectors as short as these, and sums in an order that depends on their number.
    return float(np.sum(one * other))


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def host_em(model: Model, labels: Table, *, posterior: bool, accelerate: bool) -> HostEM | None:
    """Prepare EM on the host.

    Parameters
    ----------
    model : Model
        A model with routes.
    labels : CrowdLabels
        The label table.
    posterior, accelerate : bool
        What to maximise, and how.

    Returns
    -------
    HostEM or None
        None where a compiled pass serves better: many labels and an accelerator, or items whose states differ in more
        than their labels.
    """
    if model.uses_item or (len(labels.item_code) > _MANY and jax.default_backend() != "cpu"):
        return None
    sizes = sizes_of(labels)
    tables = tables_of(model, sizes)
    entries = entries_of(model, sizes, tables)
    if entries is None:
        return None
    alpha = np.concatenate([np.ravel(site.concentration) for site in model.sites(sizes).values()])
    log_constant = 0.0
    if posterior:
        log_constant = float(gammaln(np.bincount(tables.row_of, alpha)).sum() - gammaln(alpha).sum())
    found = host_labels(labels)
    scratch = np.empty((model.n_levels * sizes.n_classes, max(len(block.n_items) for block in found.blocks)))
    mean = row_shares(alpha, tables, alpha)
    return HostEM(found, entries, alpha, log_constant, mean, posterior, accelerate, scratch)
