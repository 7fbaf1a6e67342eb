r"""The paper's own moments of collapsed variational inference, to reproduce it: equations (19) to (23) as they stand.

The paper forms one count, :math:`N = \sum_j 1(Q_j = h, T_j = T_i)`, whose indicators it takes for independent with
means :math:`m_j = (\lambda_j^\top \lambda_i) \rho_{jh}`, and expands :math:`E \log(N + \omega)` to second order at the
mean of N with variance :math:`\sum_j m_j (1 - m_j)`. (The indicators share the item's own class, so they are not
independent, and the logarithm belongs inside the expectation over that class; ``moments="second"`` does both rightly.)
The mean is a mixture of table sums and the variance a quadratic form in :math:`\lambda_i` of second-order table sums,
so no pair of items is visited: a factor of C (or H) dearer than the others.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum

from bayescrowd.inference._leave_one_out import Plan, leave_one_out
from bayescrowd.inference.base import require
from bayescrowd.kernels.annotations import annotations_of
from bayescrowd.kernels.moments import expected_log_rising, own_moments
from bayescrowd.kernels.tables import concentration
from bayescrowd.model import Model
from bayescrowd.priors import Diagonal

__all__ = ["Symmetric", "check_symmetric", "paper_update", "symmetric_of"]

_LIMIT = 20_000_000
"""Most numbers that a list of annotations x levels x classes x classes may hold."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Symmetric:
    """The annotations as a list, for the paper's moments.

    Parameters
    ----------
    row, cell : int array [annotation]
        Row of the item and (worker, label) cell.
    worker : int array [annotation]
        The worker.
    omega, total : array []
        The symmetric concentration and its sum over labels.
    counted : bool array [level]
        False for fixed levels.
    """

    row: Any
    cell: Any
    worker: Any
    omega: Any
    total: Any
    counted: Any


def check_symmetric(model: Model) -> None:
    """Refuse models that the paper's moments do not fit.

    Parameters
    ----------
    model : Model
        The model.

    Raises
    ------
    EngineError
        Where the confusion prior is not one number.
    """
    prior = getattr(model, "confusion_prior", None)
    flat = isinstance(prior, int | float | np.number) or (isinstance(prior, Diagonal) and prior.on == prior.off)
    require(
        flat,
        "moments='paper' needs the paper's symmetric confusion prior, one number: confusion_prior=1.0, for example",
    )


def symmetric_of(model: Model, plan: Plan) -> Symmetric:
    """Lay the annotations out for the paper's moments.

    Parameters
    ----------
    model : Model
        A model with one confusion table.
    plan : Plan
        The leave-one-out layout.

    Returns
    -------
    Symmetric
        On the host.

    Raises
    ------
    EngineError
        For repeats, weights, other table structures and tables that are too large.
    """
    arrays, route = plan.arrays, plan.routes[0]
    shares = {"prevalence"} | ({"difficulty_prevalence"} if model.n_levels > 1 else set())
    require(
        plan.general is None and len(route.entries) == 1 and shares <= set(plan.tables.names),
        f"moments='paper' needs one confusion table per worker, class and level; model {model.name!r} differs",
    )
    require(
        plan.repeats is None,
        "moments='paper' counts one label per item and worker, without weights: make the labels with "
        "duplicates='first' and without weight=, or take other moments",
    )
    row, cell, _ = annotations_of(arrays)
    n_classes = arrays.sizes.n_classes
    size = len(row) * model.n_levels * n_classes * max(n_classes, model.n_levels)
    require(size <= _LIMIT, f"moments='paper' is for reproduction on small tables; this one needs {size:,} numbers")
    counted = np.asarray(route.counted)[0].reshape(model.n_levels, n_classes)[:, 0]
    entry = np.asarray(route.entries[0])
    alpha = np.asarray(concentration(model, arrays.sizes))
    of_entries = alpha[entry[np.asarray(route.counted)]]
    omega = float(of_entries[0])
    return Symmetric(
        row.astype(np.int32),
        cell.astype(np.int32),
        np.asarray(arrays.cell_worker)[cell].astype(np.int32),
        np.asarray(omega),
        np.asarray(omega * arrays.sizes.n_labels),
        counted,
    )


def _second_order(mean: Any, square: Any, omega: Any) -> Any:
    """Expand as the paper does: variance = mean - sum of squares of the indicators' means."""
    variance = jnp.maximum(mean - square, 0.0)
    return jnp.log(jnp.maximum(mean, 0.0) + omega) - variance / (2 * (jnp.maximum(mean, 0.0) + omega) ** 2)


def paper_update(model: Model, plan: Plan, given: Symmetric, alpha: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Update levels, then classes, by the paper's formulas.

    Parameters
    ----------
    model : Model
        The model.
    plan : Plan
        The leave-one-out layout.
    given : Symmetric
        The annotations.
    alpha : array [entry]
        Prior concentrations.
    rows : array [row, state]
        Products of class and level probabilities.

    Returns
    -------
    tuple of array
        Log weights of the classes [row, class], level probabilities [row, level], expected counts [entry].
    """
    n_rows, n_levels = rows.shape[0], model.n_levels
    by_level = rows.reshape(n_rows, n_levels, -1)
    classes, levels = by_level.sum(axis=1), by_level.sum(axis=2)
    _, counts = leave_one_out(plan, alpha, rows, "zero")
    n_cells, n_workers = plan.arrays.n_cells, plan.arrays.sizes.n_workers
    # Given constants enter with their expectation, which needs no approximation.
    constants = jnp.zeros_like(rows) if plan.constants is None else plan.constants
    by_constants = _by_level(plan, constants, n_levels)

    # Levels: T_i of the others equal to that of the item, weights lambda_i.
    own_mean = classes[:, None, :] * levels[:, :, None]
    own_square = jnp.einsum("it,iu,ih->ihtu", classes, classes, levels**2)
    logs = _labels(own_mean, own_square, classes, given, n_cells, n_workers)
    of_levels = jnp.where(given.counted, logs, 0.0) + jnp.einsum("iht,it->ih", by_constants, classes)
    new_levels = jax.nn.softmax(of_levels + _table(levels, alpha, plan, model, "difficulty_prevalence"), axis=1)

    # Classes: Q_i of the others equal to that of the item, weights rho_i; fixed levels take no part in the count.
    free = new_levels * given.counted
    others = levels * given.counted
    own_mean = classes[:, :, None] * others[:, None, :]
    own_square = jnp.einsum("it,ih,ig->ithg", classes**2, others, others)
    logs = _labels(own_mean, own_square, free, given, n_cells, n_workers)
    log_classes = logs + jnp.einsum("iht,ih->it", by_constants, new_levels)
    return log_classes + _table(classes, alpha, plan, model, "prevalence"), new_levels, counts


def _by_level(plan: Plan, constants: Any, n_levels: int) -> Any:
    return constants.reshape(constants.shape[0], n_levels, -1)


def _labels(own_mean: Any, own_square: Any, weights: Any, given: Symmetric, n_cells: int, n_workers: int) -> Any:
    """Sum over an item's labels, [row, a], of the expansions of cell and worker counts.

    ``own_mean`` [row, a, b] and ``own_square`` [row, a, b, c] are one item's parts of the sums; ``weights`` [row, b]
    mix them.
    """
    total: Any = 0.0
    for group, n_groups, omega, sign in (
        (given.cell, n_cells, given.omega, 1.0),
        (given.worker, n_workers, given.total, -1.0),
    ):
        mean = segment_sum(own_mean[given.row], group, n_groups)[group] - own_mean[given.row]
        square = segment_sum(own_square[given.row], group, n_groups)[group] - own_square[given.row]
        of_item = weights[given.row]
        mixed = jnp.einsum("nab,nb->na", mean, of_item)
        mixed_square = jnp.einsum("nabc,nb,nc->na", square, of_item, of_item)
        total = total + sign * _second_order(mixed, mixed_square, omega)
    return segment_sum(total, given.row, own_mean.shape[0])


def _table(probability: Any, alpha: Any, plan: Plan, model: Model, name: str) -> Any:
    """Approximate the expected log of the others' counts of classes or levels: [row, class or level]."""
    if name not in plan.tables.names or (name == "difficulty_prevalence" and model.n_levels == 1):
        return jnp.zeros_like(probability)
    first = plan.tables.offsets[name]
    own = own_moments(probability, "second")
    sums = own.sum(axis=1, keepdims=True) - own
    return expected_log_rising(sums, alpha[first : first + probability.shape[1]], "second")
