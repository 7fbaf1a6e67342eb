"""Leave-one-out tables for any model with one route, from a list of who would use what in which state."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum

from bayescrowd.kernels.moments import expected_log_rising, n_moments, own_moments

__all__ = ["Incidences", "incidence_table", "incidences", "most_steps"]

_MOST_STEPS = 8


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Incidences:
    """Which item would use which table entry (or row) in which state, and how often; any model with one route.

    Parameters
    ----------
    row, state, target, group : int array [incidence]
        Row of the item, its state, the entry (or table row) used, and the (item, target) pair that it belongs to.
    count : float array [incidence]
        How often at once.
    group_target : int array [group]
        The entry (or table row) of each pair.
    steps : int
        Largest count where all are whole and small, else 0 (static).
    """

    row: Any
    state: Any
    target: Any
    group: Any
    count: Any
    group_target: Any
    steps: int = field(metadata={"static": True})


def most_steps(count: np.ndarray) -> int:
    """Find the largest count, where counts are whole and few enough to add up their logarithms one by one.

    Parameters
    ----------
    count : array
        Counts.

    Returns
    -------
    int
        The largest, or 0 where gamma functions are needed.
    """
    largest = float(count.max(initial=1.0))
    return int(largest) if largest <= _MOST_STEPS and (count == np.round(count)).all() else 0


def incidences(row: np.ndarray, state: np.ndarray, target: np.ndarray, count: np.ndarray) -> Incidences:
    """Gather incidences, those of one item in one state with one target as one.

    Parameters
    ----------
    row, state, target : int array
        Row of the item, its state, what it uses.
    count : float array
        How often.

    Returns
    -------
    Incidences
        On the host.
    """
    order = np.lexsort((state, target, row))
    row, state, target, count = row[order], state[order], target[order], count[order]
    pair_starts = np.ones(len(row), bool)
    pair_starts[1:] = (row[1:] != row[:-1]) | (target[1:] != target[:-1])
    starts = pair_starts.copy()
    starts[1:] |= state[1:] != state[:-1]
    first = np.flatnonzero(starts)
    total = np.add.reduceat(count, first) if len(first) else count
    group = np.cumsum(pair_starts)[first] - 1
    return Incidences(
        row[first].astype(np.int32),
        state[first].astype(np.int32),
        target[first].astype(np.int32),
        group.astype(np.int32),
        total,
        target[pair_starts].astype(np.int32),
        most_steps(total),
    )


def incidence_table(rows: Any, omega: Any, found: Incidences, n_targets: int, moments: str) -> tuple[Any, Any]:
    """Compute leave-one-out expected logarithms from a list of incidences.

    Parameters
    ----------
    rows : array [row, state]
        Probabilities of the states.
    omega : array [target]
        Prior concentrations of the entries (or their sums, of table rows).
    found : Incidences
        Who uses what.
    n_targets : int
        Number of entries (or table rows).
    moments : str
        How expected logarithms are approximated.

    Returns
    -------
    tuple of array
        Sums [row, state] over the entries (rows) that the item would use, and expected counts [target].
    """
    n_groups = found.group_target.shape[0]
    x = rows[found.row, found.state]

    def by_group(values: Any) -> Any:
        return segment_sum(values, found.group, n_groups, indices_are_sorted=True)

    mean = by_group(x * found.count)
    parts = [mean]
    if n_moments(moments) > 1:
        parts.append(by_group(x * found.count**2) - mean**2)
    if n_moments(moments) > 2:
        parts.append(own_moments(by_group(x), moments)[2])
    own = jnp.stack(parts)
    sums = jax.vmap(lambda one: segment_sum(one, found.group_target, n_targets))(own)
    others = sums[:, found.target] - own[:, found.group]
    count = None if found.steps == 1 else found.count
    logs = expected_log_rising(others, omega[found.target], moments, count, found.steps)
    return jnp.zeros_like(rows).at[found.row, found.state].add(logs), sums[0]
