"""From a start (probabilities of the states) to values of the parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, Table
from bayescrowd.kernels.states import table_counts
from bayescrowd.kernels.tables import TINY, Tables, concentration, draw, mean, tables_of
from bayescrowd.model import Model

__all__ = ["dispersed", "is_tabular"]

_TRUST = 0.5
"""Share of the counts that a dispersed start believes: chains begin wider than the posterior."""

_EDGE = 1e-4
"""Distance from the edge of the simplex that a dispersed start keeps, so that its log density is finite."""


def is_tabular(model: Model, arrays: LabelArrays) -> bool:
    """Tell whether a model is made of Dirichlet and Beta tables with routes, so that counts are all it needs.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations.

    Returns
    -------
    bool
        True for closed-form updates.
    """
    from bayescrowd.kernels.states import at_cells

    tabular = all(site.kind != "other" for site in model.sites(arrays.sizes).values())
    return tabular and model.routes(at_cells(model, arrays)) is not None


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
    edges = np.cumsum(start, axis=1)
    state = (edges < random.random(len(start))[:, None] * edges[:, -1:]).sum(axis=1).clip(max=start.shape[1] - 1)
    rows = np.zeros((arrays.n_rows, start.shape[1]))
    rows[np.asarray(arrays.row_of_item)[: labels.n_items], state] = 1.0
    tables = tables_of(model, arrays.sizes)
    alpha = np.asarray(concentration(model, arrays.sizes))
    counts = np.asarray(_counts(model, arrays, rows, tables))
    flat = draw(random, alpha + _TRUST * counts, tables)
    width = np.bincount(tables.row_of, minlength=tables.n_rows)[tables.row_of]
    flat = (1 - _EDGE) * flat + _EDGE / width
    return {name: np.asarray(value) for name, value in tables.unflatten(jnp.asarray(flat)).items()}


def _counts(model: Model, arrays: LabelArrays, rows: np.ndarray, tables: Tables) -> Any:
    return _jitted_counts(model, arrays, rows, tables)


@jax.jit(static_argnums=3)
def _jitted_counts(model: Model, arrays: LabelArrays, rows: Any, tables: Tables) -> Any:
    centre = jnp.maximum(mean(concentration(model, arrays.sizes), tables), TINY)
    return table_counts(model, centre, rows, arrays, tables)
