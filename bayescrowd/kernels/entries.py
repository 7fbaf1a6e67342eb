"""From table entries to states and back: what engines on the flat vector of table entries share.

A model with routes says which table entries a label and a state use (`Model.routes`, `Model.state_cells`). Here these
are turned into positions in the flat vector of `bayescrowd.kernels.tables`, and the two directions are computed for
several chains at once: joint tables from log entries, counts of entries from weights of states. Chains are folded into
the columns of the two kernels that touch every label, so that a pass over the labels serves all chains.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.kernels.annotations import cell_counts, item_table
from bayescrowd.kernels.states import at_cells, at_states
from bayescrowd.kernels.tables import Tables
from bayescrowd.model import Model

__all__ = [
    "RouteEntries",
    "chain_joint",
    "clamp",
    "route_entries",
    "route_logs",
    "spread",
    "state_entries",
    "state_prior",
    "table_counts",
]


class RouteEntries(NamedTuple):
    """One route in terms of the flat vector.

    Parameters
    ----------
    entries : tuple of int array [cell, state]
        Position of each table entry that the route multiplies.
    log_constant : float array [cell, state]
        Its given constant.
    counted : bool array [cell, state]
        False where only the constant counts.
    """

    entries: tuple[Any, ...]
    log_constant: Any
    counted: Any


def route_entries(model: Model, arrays: LabelArrays, tables: Tables) -> list[RouteEntries]:
    """Find the table entries that a label of each cell uses under each state, by route.

    Parameters
    ----------
    model : Model
        A model with routes.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    list of RouteEntries
        One per route.
    """
    shape = (arrays.n_cells, model.n_levels * arrays.sizes.n_classes)
    return [
        RouteEntries(
            tuple(jnp.broadcast_to(tables.entries(name, index), shape) for name, index in route.cells.items()),
            jnp.broadcast_to(jnp.asarray(route.log_constant, float), shape),
            jnp.broadcast_to(jnp.asarray(route.counted, bool), shape) & bool(route.cells),
        )
        for route in model.routes(at_cells(model, arrays)) or []
    ]


def state_entries(model: Model, arrays: LabelArrays, tables: Tables) -> list[Any]:
    """Find the table entries that each state of an item uses.

    Parameters
    ----------
    model : Model
        A model with routes.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    list of int array [1 or row, state]
        One per table; a single row where all items use the same entries.
    """
    n_states = model.n_levels * arrays.sizes.n_classes
    found = []
    for name, index in model.state_cells(at_states(model, arrays)).items():
        entry = jnp.atleast_2d(jnp.asarray(tables.entries(name, index)))
        found.append(jnp.broadcast_to(entry, (entry.shape[0], n_states)))
    return found


def route_logs(routes: list[RouteEntries], log_flat: Float[Array, " entry"]) -> Float[Array, "route cell state"]:
    """Compute the log of each route's product of table entries.

    Parameters
    ----------
    routes : list of RouteEntries
        From `route_entries`.
    log_flat : array [entry]
        Logarithm (or expected logarithm) of every table entry.

    Returns
    -------
    array [route, cell, state]
        Their logsumexp over routes is the log response.
    """
    logs = []
    for route in routes:
        total = route.log_constant
        for entry in route.entries:
            total = total + jnp.where(route.counted, log_flat[entry], 0.0)
        logs.append(total)
    return jnp.stack(logs)


def state_prior(states: list[Any], log_flat: Float[Array, " entry"]) -> Any:
    """Compute the log prior of each state from log entries.

    Parameters
    ----------
    states : list of int array [1 or row, state]
        From `state_entries`.
    log_flat : array [entry]
        Logarithm of every table entry.

    Returns
    -------
    array [1 or row, state]
        Log prior.
    """
    return sum((log_flat[entry] for entry in states), start=jnp.zeros((1, states[0].shape[1])))


def clamp(table: Any, model: Model, arrays: LabelArrays) -> Any:
    """Exclude the states that gold rules out.

    Parameters
    ----------
    table : array [row, ..., state]
        Logs.
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations, with the gold.

    Returns
    -------
    array [row, ..., state]
        Minus infinity where gold excludes the state.
    """
    gold = jnp.asarray(arrays.gold).reshape(-1, *[1] * (table.ndim - 1))
    true_class = jnp.arange(model.n_levels * arrays.sizes.n_classes) % arrays.sizes.n_classes
    return jnp.where((gold < 0) | (gold == true_class), table, -jnp.inf)


def chain_joint(
    model: Model, log_flat: Float[Array, "chain entry"], arrays: LabelArrays, tables: Tables
) -> tuple[Float[Array, "row chain state"], Float[Array, "chain route cell state"]]:
    """Compute log P(labels of the item, state) for several chains in one pass over the labels.

    Parameters
    ----------
    model : Model
        A model with routes.
    log_flat : array [chain, entry]
        Logarithm (or expected logarithm) of every table entry.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    tuple of array
        Log joint [row, chain, state], minus infinity where gold excludes a state; and the logs of the routes [chain,
        route, cell, state], for their shares.
    """
    routes, states = route_entries(model, arrays, tables), state_entries(model, arrays, tables)
    logs = jax.vmap(lambda one: route_logs(routes, one))(log_flat)
    response = jax.nn.logsumexp(logs, axis=1) if len(routes) > 1 else logs[:, 0]
    n_chains, n_cells, n_states = response.shape
    columns = response.transpose(1, 0, 2).reshape(n_cells, n_chains * n_states)
    table = item_table(columns, arrays).reshape(-1, n_chains, n_states)
    prior = jax.vmap(lambda one: state_prior(states, one), out_axes=1)(log_flat)
    return clamp(table + prior, model, arrays), logs


def table_counts(
    model: Model,
    log_flat: Float[Array, " entry"],
    rows: Float[Array, "row state"],
    arrays: LabelArrays,
    tables: Tables,
) -> Float[Array, " entry"]:
    """Count how often each table entry was used, in expectation over states and routes.

    Parameters
    ----------
    model : Model
        A model with routes.
    log_flat : array [entry]
        Present logarithms (or expected logarithms) of all table entries, for the shares of alternative routes.
    rows : array [row, state]
        Probabilities of the states of each item.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    array [entry]
        Expected counts.
    """
    routes, states = route_entries(model, arrays, tables), state_entries(model, arrays, tables)
    used = cell_counts(rows, arrays)[None]
    if len(routes) > 1:
        used = used * jax.nn.softmax(route_logs(routes, log_flat), axis=0)
    return spread(used, rows, routes, states, tables)


def spread(used: Any, rows: Any, routes: list[RouteEntries], states: list[Any], tables: Tables) -> Any:
    """Lay counts of cells and states out on the table entries.

    Parameters
    ----------
    used : array [route, cell, state]
        How often a label of each cell came about by each route under each state.
    rows : array [row, state]
        Weights of the states of each item.
    routes : list of RouteEntries
        From `route_entries`.
    states : list of int array
        From `state_entries`.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    array [entry]
        Counts.
    """
    counts = jnp.zeros(len(tables.row_of))
    for route, weight in zip(routes, used, strict=True):
        for entry in route.entries:
            counts = counts.at[entry].add(jnp.where(route.counted, weight, 0.0))
    for entry in states:
        counts = counts.at[entry].add(rows.sum(axis=0, keepdims=True) if entry.shape[0] == 1 else rows)
    return counts
