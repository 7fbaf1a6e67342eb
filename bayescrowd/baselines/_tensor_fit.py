r"""The joint fit of means, pairs and triples by block-coordinate ADMM.

With the statistics of `bayescrowd.baselines._triples`, where nobody has a matrix of one row of ones, the criterion is
the sum over statistics s of :math:`\frac12 \lVert R_s - \sum_k d_k A_{s_1}[:, k] \otimes A_{s_2}[:, k] \otimes A_{s_3}
[:, k] \rVert^2`, quadratic in each worker's matrix and in the prevalence. A cell's contraction with the other two
matrices costs as many multiplications as there are classes, and only cells that are not zero are visited.

References
----------
Traganitis, Pages-Zamora, Giannakis (2018), Blind multiclass ensemble classification, IEEE Trans. Signal Processing 66.
Huang, Sidiropoulos, Liavas (2016), A flexible and efficient algorithmic framework for constrained matrix and tensor
factorization, IEEE Trans. Signal Processing 64, for ADMM within blocks.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.baselines._triples import Statistics
from bayescrowd.data.arrays import bucket

__all__ = ["Fitted", "Layout", "fit_jointly", "layout"]

_BLOCK = 256
"""Cells of a worker that are added up at once."""


class Layout(NamedTuple):
    """The statistics, and each worker's share of them, in blocks of equal size.

    A row of the stacked matrices is ``worker * n_classes + label``; cells and statistics that fill up have value or
    weight zero.

    Parameters
    ----------
    rows : int array [block, cell, 3]
        Rows of the workers' labels.
    value : array [block, cell]
        Shares.
    members : int array [block, statistic, 3]
        Workers.
    weight : array [block, statistic]
        1, or 0 for those that fill up.
    own, beside, amount : array [block, cell], [block, cell, 2], [block, cell]
        A worker's cells: its label, the rows of the two others, the share.
    partner, present : array [block, cell, 2], [block, cell]
        A worker's statistics: the two others, and 1 or 0.
    first : int array [worker + 1]
        First block of each worker.
    """

    rows: Any
    value: Any
    members: Any
    weight: Any
    own: Any
    beside: Any
    amount: Any
    partner: Any
    present: Any
    first: Any


class Fitted(NamedTuple):
    """Where the fit stands.

    Parameters
    ----------
    matrix : array [worker + 1, label, class]
        Columns are distributions of labels; the last worker is nobody.
    prevalence : array [class]
        Sums to one.
    loss : array [pass]
        The criterion after each pass.
    change : float
        How much the last pass lowered it, as a share.
    n_passes : int
        Passes so far.
    """

    matrix: Any
    prevalence: Any
    loss: Any
    change: Any
    n_passes: Any


def layout(found: Statistics, n_workers: int, n_classes: int) -> Layout:
    """Lay the statistics out by worker.

    Parameters
    ----------
    found : Statistics
        The statistics.
    n_workers, n_classes : int
        Sizes.

    Returns
    -------
    Layout
    """
    room = bucket(n_workers)
    # Nobody stands after the workers that fill up.
    members = np.where(found.workers == n_workers, room, found.workers)
    rows = members[found.owner] * n_classes + found.labels
    others = np.array([[1, 2], [0, 2], [0, 1]])

    def by_worker(workers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Worker, row of the list and column of each worker that is somebody, sorted by worker."""
        row, column = np.nonzero(workers < room)
        order = np.argsort(workers[row, column], kind="stable")
        return workers[row, column][order], row[order], column[order]

    cell_worker, cell, cell_column = by_worker(members[found.owner])
    held_worker, held, held_column = by_worker(members)
    n_cells, n_held = (np.bincount(codes, minlength=room) for codes in (cell_worker, held_worker))
    first = np.concatenate([[0], np.cumsum(-(-np.maximum(n_cells, n_held) // _BLOCK))])
    n_blocks = bucket(int(first[-1]))

    def place(workers: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Slot of each entry of a sorted list."""
        begin = np.concatenate([[0], np.cumsum(count)])[:-1]
        return first[workers] * _BLOCK + np.arange(len(workers)) - begin[workers]

    def blocks(slot: np.ndarray, values: np.ndarray) -> np.ndarray:
        table = np.zeros((n_blocks * _BLOCK, *values.shape[1:]), values.dtype)
        table[slot] = values
        return table.reshape(n_blocks, _BLOCK, *values.shape[1:])

    at, at_held = place(cell_worker, n_cells), place(held_worker, n_held)

    def listed(values: np.ndarray) -> np.ndarray:
        n = bucket(-(-len(values) // _BLOCK)) * _BLOCK
        table = np.zeros((n, *values.shape[1:]), values.dtype)
        table[: len(values)] = values
        return table.reshape(-1, _BLOCK, *values.shape[1:])

    return Layout(
        rows=listed(rows.astype(np.int32)),
        value=listed(found.value),
        members=listed(members.astype(np.int32)),
        weight=listed(np.ones(len(members))),
        own=blocks(at, found.labels[cell, cell_column].astype(np.int32)),
        beside=blocks(at, rows[cell[:, None], others[cell_column]].astype(np.int32)),
        amount=blocks(at, found.value[cell]),
        partner=blocks(at_held, members[held[:, None], others[held_column]].astype(np.int32)),
        present=blocks(at_held, np.ones(len(held))),
        first=first,
    )


@partial(jax.jit, static_argnames=("max_iter", "inner"))
def fit_jointly(data: Layout, matrix: Any, prevalence: Any, tolerance: Any, *, max_iter: int, inner: int) -> Fitted:
    """Lower the criterion block by block.

    Parameters
    ----------
    data : Layout
        The statistics.
    matrix : array [worker, label, class]
        Where to begin; columns sum to one. Workers include those that fill up.
    prevalence : array [class]
        Where to begin.
    tolerance : float
        Stop where a pass lowers the criterion by a smaller share.
    max_iter : int
        Most passes over all blocks.
    inner : int
        ADMM steps of each block.

    Returns
    -------
    Fitted
    """
    n_workers, n_classes, _ = matrix.shape
    nobody = jnp.zeros((1, n_classes, n_classes)).at[0, 0].set(1.0)
    size = jnp.sum(data.value**2)

    def square(matrix: Any) -> Any:
        return jnp.einsum("...ak,...ac->...kc", matrix, matrix)

    def whole(matrix: Any, squares: Any) -> tuple[Any, Any]:
        """Give the quadratic and linear part of the criterion in the prevalence."""
        rows = matrix.reshape(-1, n_classes)

        def add_linear(block: Any, linear: Any) -> Any:
            at = data.rows[block]
            return linear + data.value[block] @ (rows[at[:, 0]] * rows[at[:, 1]] * rows[at[:, 2]])

        def add_quadratic(block: Any, quadratic: Any) -> Any:
            at = data.members[block]
            product = squares[at[:, 0]] * squares[at[:, 1]] * squares[at[:, 2]]
            return quadratic + jnp.einsum("s,skc->kc", data.weight[block], product)

        linear = jax.lax.fori_loop(0, len(data.value), add_linear, jnp.zeros(n_classes))
        quadratic = jax.lax.fori_loop(0, len(data.weight), add_quadratic, jnp.zeros((n_classes, n_classes)))
        return quadratic, linear

    def loss(quadratic: Any, linear: Any, prevalence: Any) -> Any:
        return jnp.maximum(size - 2 * linear @ prevalence + prevalence @ quadratic @ prevalence, 0.0) / 2

    def one_worker(worker: Any, carry: Any) -> Any:
        matrix, squares, prevalence, pull = carry
        rows = matrix.reshape(-1, n_classes)

        def add(block: Any, sums: Any) -> tuple[Any, Any]:
            quadratic, linear = sums
            at = data.beside[block]
            beside = data.amount[block][:, None] * rows[at[:, 0]] * rows[at[:, 1]]
            linear = linear.at[data.own[block]].add(beside)
            both = squares[data.partner[block]]
            return quadratic + jnp.einsum("s,skc->kc", data.present[block], both[:, 0] * both[:, 1]), linear

        zero = jnp.zeros((n_classes, n_classes))
        quadratic, linear = jax.lax.fori_loop(data.first[worker], data.first[worker + 1], add, (zero, zero))
        quadratic = quadratic * prevalence[:, None] * prevalence
        mine = _admm(quadratic, (linear * prevalence).T, matrix[worker].T, pull, inner).T
        # A worker without statistics stays where it began.
        mine = jnp.where(data.first[worker + 1] > data.first[worker], mine, matrix[worker])
        return matrix.at[worker].set(mine), squares.at[worker].set(square(mine)), prevalence, pull

    def one_pass(at: Fitted) -> Fitted:
        before = at.loss[at.n_passes]
        pull = 1e-7 + 1e-2 * before / size
        matrix, squares, _, _ = jax.lax.fori_loop(
            0, n_workers, one_worker, (at.matrix, square(at.matrix), at.prevalence, pull)
        )
        quadratic, linear = whole(matrix, squares)
        prevalence = _admm(quadratic, linear[:, None], at.prevalence[:, None], pull, inner, columns=True)[:, 0]
        after = loss(quadratic, linear, prevalence)
        change = jnp.abs(before - after) / jnp.maximum(before, 1e-300)
        n_passes = at.n_passes + 1
        return Fitted(matrix, prevalence, at.loss.at[n_passes].set(after), change, n_passes)

    matrix = jnp.concatenate([matrix, nobody])
    started = loss(*whole(matrix, square(matrix)), prevalence)
    trace = jnp.full(max_iter + 1, jnp.nan).at[0].set(started)
    begin = Fitted(matrix, prevalence, trace, jnp.asarray(jnp.inf), 0)
    return jax.lax.while_loop(lambda at: (at.n_passes < max_iter) & (at.change >= tolerance), one_pass, begin)


def _admm(quadratic: Any, linear: Any, point: Any, pull: Any, inner: int, *, columns: bool = False) -> Any:
    """Minimise tr(X'QX)/2 - tr(L'X) + pull |X - point|^2 / 2 with rows (or columns) on the simplex."""
    n = quadratic.shape[0]
    step = jnp.maximum(jnp.linalg.norm(quadratic) / n, 1e-12)
    factor = jax.scipy.linalg.cho_factor(quadratic + (pull + step) * jnp.eye(n))

    def one(_: Any, carry: Any) -> tuple[Any, Any]:
        inside, dual = carry
        free = jax.scipy.linalg.cho_solve(factor, linear + pull * point + step * (inside - dual))
        inside = _onto_simplex((free + dual).T).T if columns else _onto_simplex(free + dual)
        return inside, dual + free - inside

    return jax.lax.fori_loop(0, inner, one, (point, jnp.zeros_like(point)))[0]


def _onto_simplex(rows: Any) -> Any:
    """Project each row onto the probability simplex (sort and threshold)."""
    falling = -jnp.sort(-rows, axis=1)
    excess = (jnp.cumsum(falling, axis=1) - 1) / jnp.arange(1, rows.shape[1] + 1)
    last = jnp.sum(falling > excess, axis=1) - 1
    return jnp.maximum(rows - jnp.take_along_axis(excess, last[:, None], 1), 0.0)
