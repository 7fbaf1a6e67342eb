"""From parameters to the states of items: joint table, marginal likelihood, responsibilities.

State ``s = difficulty * n_classes + class``. Gold items are clamped: all states of another class have probability zero.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.kernels.annotations import item_table
from bayescrowd.model import At, Model, Parameters

__all__ = ["at_cells", "at_states", "joint", "marginal", "responsibilities"]


def _states(model: Model, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    state = np.arange(model.n_levels * n_classes)
    return state % n_classes, state // n_classes


def at_states(model: Model, arrays: LabelArrays) -> At:
    """Index the states of items for `Model.log_state` and `Model.state_cells`.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    At
        ``true_class`` and ``difficulty`` [state], ``item`` [row, 1].
    """
    true_class, difficulty = _states(model, arrays.sizes.n_classes)
    return At(None, true_class, difficulty, None, jnp.asarray(arrays.item_of_row)[:, None], arrays.sizes)


def at_cells(model: Model, arrays: LabelArrays) -> At:
    """Index every cell x state for `Model.log_response` and `Model.routes`.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    At
        ``worker`` and ``label`` [cell, 1], ``true_class`` and ``difficulty`` [state], ``item`` [cell, 1] or None.
    """
    true_class, difficulty = _states(model, arrays.sizes.n_classes)
    worker, label = (jnp.asarray(index)[:, None] for index in (arrays.cell_worker, arrays.cell_label))
    item = None if arrays.cell_item is None else jnp.asarray(arrays.cell_item)[:, None]
    return At(worker, true_class, difficulty, label, item, arrays.sizes)


def joint(model: Model, parameters: Parameters, arrays: LabelArrays) -> Float[Array, "row state"]:
    """Compute log P(labels of the item, state) for every item and state.

    Parameters
    ----------
    model : Model
        Any model.
    parameters : dict
        Values of its parameter sites.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [row, state]
        Log joint probabilities; minus infinity where gold excludes the state.
    """
    at = at_cells(model, arrays)
    n_states = model.n_levels * arrays.sizes.n_classes
    response = jnp.broadcast_to(model.log_response(parameters, at), (arrays.n_cells, n_states))
    states = at_states(model, arrays)
    table = item_table(response, arrays) + model.log_state(parameters, states)
    gold = jnp.asarray(arrays.gold)[:, None]
    return jnp.where((gold < 0) | (gold == states.true_class), table, -jnp.inf)


def marginal(log_joint: Float[Array, "row state"], arrays: LabelArrays) -> Float[Array, " row"]:
    """Sum the states out of a joint table.

    Parameters
    ----------
    log_joint : array [row, state]
        From `joint`.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [row]
        Log likelihood of each item's labels; 0 for padding.
    """
    return jnp.where(jnp.asarray(arrays.present) > 0, jax.nn.logsumexp(log_joint, axis=1), 0.0)


def responsibilities(log_joint: Float[Array, "row state"], arrays: LabelArrays) -> Float[Array, "row state"]:
    """Normalise a joint table to the conditional probabilities of the states.

    Parameters
    ----------
    log_joint : array [row, state]
        From `joint`.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    array [row, state]
        Rows sum to one; rows of padding are zero, so that they add nothing to counts.
    """
    return jax.nn.softmax(log_joint, axis=1) * jnp.asarray(arrays.present)[:, None]
