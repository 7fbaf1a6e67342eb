"""From probabilities of the states to values of the parameters: the maximisation step, and dispersed starts.

Models with routes need only counts. For the others the expected log joint is climbed by L-BFGS on the unconstrained
scale.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

from bayescrowd.data.arrays import LabelArrays, Table
from bayescrowd.kernels.density import constrain, log_prior, potential, unconstrain
from bayescrowd.kernels.entries import table_counts
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.kernels.tables import TINY, Tables, concentration, draw, mean, tables_of
from bayescrowd.model import Model

__all__ = ["away_from_edges", "climb", "dispersed", "draw_states", "expect", "expected_counts", "rows_of"]

_TRUST = 0.5
"""Share of the counts that a dispersed start believes: chains begin wider than the posterior."""

_EDGE = 1e-4
"""Distance from the edge of the simplex that a dispersed start keeps, so that its log density is finite."""

_JITTER = 0.2
"""Standard deviation of the noise that disperses starts of models without routes, on the unconstrained scale."""

type Position = dict[str, Any]


def dispersed(
    model: Model, labels: Table, arrays: LabelArrays, start: np.ndarray, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw parameters around a start: random states, then parameters given them and part of the counts.

    Parameters
    ----------
    model : Model
        Any model.
    labels : CrowdLabels
        The label table.
    arrays : LabelArrays
        Its layout, exact sizes.
    start : array [item, state]
        Probabilities to draw the states from.
    random : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict
        Site -> value.
    """
    rows = np.zeros((arrays.n_rows, start.shape[1]))
    rows[np.asarray(arrays.row_of_item)[: labels.n_items], draw_states(start, random)] = 1.0
    if not model.has_routes:
        neutral = unconstrain(model, arrays.sizes, model.neutral_point(arrays.sizes))
        position = climb(model, arrays, rows, neutral, density="unconstrained", steps=50)
        position = {name: value + _JITTER * random.standard_normal(np.shape(value)) for name, value in position.items()}
        return {name: np.asarray(value) for name, value in constrain(model, arrays.sizes, position).items()}
    tables = tables_of(model, arrays.sizes)
    alpha = np.asarray(concentration(model, arrays.sizes))
    counts = np.asarray(expected_counts(model, arrays, rows, tables))
    flat = away_from_edges(draw(random, alpha + _TRUST * counts, tables), tables, _EDGE)
    return {name: np.asarray(value) for name, value in tables.unflatten(flat).items()}


def rows_of(start: np.ndarray, arrays: LabelArrays) -> np.ndarray:
    """Lay a start out in the order of the rows of the layout.

    Parameters
    ----------
    start : array [item, state]
        Probabilities of the states.
    arrays : LabelArrays
        The layout of these items.

    Returns
    -------
    array [row, state]
        Zeros for padding.
    """
    rows = np.zeros((arrays.n_rows, start.shape[1]))
    rows[np.asarray(arrays.row_of_item)[: len(start)]] = start
    return rows


def draw_states(probability: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw a state for every item.

    Parameters
    ----------
    probability : array [item, state]
        Probabilities of the states; a row of zeros (padding) gives state 0.
    random : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    int array [item]
        States.
    """
    edges = np.cumsum(probability, axis=1)
    point = random.random(len(edges))[:, None] * edges[:, -1:]
    state: np.ndarray = (edges[:, :-1] < point).sum(axis=1)
    return state


def away_from_edges(flat: np.ndarray, tables: Tables, distance: float) -> np.ndarray:
    """Mix table rows with even ones, so that no log density is infinite.

    Parameters
    ----------
    flat : array [entry]
        Probabilities.
    tables : Tables
        Layout of the table entries.
    distance : float
        Share of the even rows.

    Returns
    -------
    array [entry]
        Probabilities.
    """
    width = np.bincount(tables.row_of, minlength=tables.n_rows)[tables.row_of]
    mixed: np.ndarray = (1 - distance) * flat + distance / width
    return mixed


@partial(jax.jit, static_argnums=3)
def expected_counts(model: Model, arrays: LabelArrays, rows: Any, tables: Tables) -> Any:
    """Count the table entries in expectation, alternative routes by their shares under the prior's mean.

    Parameters
    ----------
    model : Model
        A model with routes.
    arrays : LabelArrays
        The annotations, exact sizes.
    rows : array [row, state]
        Probabilities of the states.
    tables : Tables
        Layout of the table entries.

    Returns
    -------
    array [entry]
        Expected counts.
    """
    centre = jnp.maximum(mean(concentration(model, arrays.sizes), tables), TINY)
    return table_counts(model, jnp.log(centre), rows, arrays, tables)


@partial(jax.jit, static_argnames="posterior")
def expect(model: Model, arrays: LabelArrays, position: Position, *, posterior: bool) -> tuple[Any, Any]:
    """Compute the objective and the probabilities of the states at a point (the expectation step).

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations, exact sizes.
    position : dict
        Site -> unconstrained value.
    posterior : bool
        Add the log prior density of the declared sites.

    Returns
    -------
    tuple
        Objective and array [row, state].
    """
    parameters = constrain(model, arrays.sizes, position)
    table = joint(model, parameters, arrays)
    objective = jnp.sum(marginal(table, arrays))
    if posterior:
        objective = objective + log_prior(model, arrays.sizes, parameters)
    return objective, responsibilities(table, arrays)


def climb(model: Model, arrays: LabelArrays, rows: Any, position: Position, *, density: str, steps: int) -> Position:
    """Climb the expected log joint given the probabilities of the states, by L-BFGS.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations, exact sizes.
    rows : array [row, state]
        Probabilities of the states.
    position : dict
        Where to begin: site -> unconstrained value.
    density : str
        Prior density to add: ``"none"``, ``"declared"`` (of the sites as the model declares them) or
        ``"unconstrained"`` (on the unconstrained scale, as NUTS sees it; always bounded where the posterior is proper).
    steps : int
        Most iterations.

    Returns
    -------
    dict
        Site -> unconstrained value, no worse than where it began.
    """
    flat, unravel = ravel_pytree(position)

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _loss(model, arrays, rows, unravel(jnp.asarray(vector)), density=density)
        return float(value), np.asarray(ravel_pytree(gradient)[0])

    before = loss(np.asarray(flat))[0]
    found = scipy.optimize.minimize(loss, np.asarray(flat), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return dict(unravel(jnp.asarray(found.x))) if np.isfinite(found.fun) and found.fun <= before else position


@partial(jax.jit, static_argnames="density")
def _loss(model: Model, arrays: LabelArrays, rows: Any, position: Position, *, density: str) -> tuple[Any, Position]:
    def negative(position: Position) -> Any:
        parameters = constrain(model, arrays.sizes, position)
        table = joint(model, parameters, arrays)
        value = jnp.sum(jnp.where(rows > 0, rows * table, 0.0))
        if density == "declared":
            value = value + log_prior(model, arrays.sizes, parameters)
        elif density == "unconstrained":
            value = value - potential(model.parameters, (arrays.sizes,), position)
        return -value

    value, gradient = jax.value_and_grad(negative)(position)
    return value, gradient
