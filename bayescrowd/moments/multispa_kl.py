r"""MultiSPA-KL: all pair statistics at once, in the Kullback-Leibler sense.

Minimises :math:`\sum_{m<l} w_{ml} KL(\hat R_{ml} \Vert A_m D A_l^T)` over confusion matrices and prevalence. With
:math:`w_{ml} = n_{ml}`, the number of common items, that is the pairwise composite log likelihood
:math:`\sum N_{ml}[a, b] \log R_{ml}[a, b]`, the right weight for shares of :math:`n_{ml}` items; equal weights are the
paper's.

``solver="em"``: every cell of every pair is a mixture over classes, with responsibilities
:math:`Q(k \mid a, b) = d_k A_m[a, k] A_l[b, k] / R_{ml}[a, b]`. Setting all tables at once to their expected shares
never raises the objective (it is EM), needs no step size, and takes a prior as pseudo-counts. After twenty passes the
steps are lengthened, :math:`\theta' \propto \theta (\theta_{EM} / \theta)^\eta` with :math:`\eta` growing by a tenth
while the objective falls, else back to 1: EM is slow at entries that go to zero. ``solver="mirror"``: the paper's
cyclic exponentiated gradient with Armijo's rule, for reproduction.

Run to the end, the criterion fits the chance of workers with few labels (labels of one item enter through all its
pairs, as if they were new): a few passes are better on real data. So ten are the default, but 500 where pairs of
workers share 300 items or more in the median.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS, eq. (13) and algorithm 2;
the solver here is the usual EM for such mixtures.
Salakhutdinov, Roweis (2003), Adaptive overrelaxed bound optimization methods, ICML (the lengthened steps).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import Table, bucket
from bayescrowd.data.votes import shares
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.estimate import Estimate, counts_given, floored, pooled_confusion, smoothed_confusion
from bayescrowd.moments.graph import Components, components
from bayescrowd.moments.multispa import multispa
from bayescrowd.moments.partners import Partners, padded, partners_of
from bayescrowd.moments.permutation import align_together
from bayescrowd.moments.voted import on_voted_classes

__all__ = ["SOLVERS", "WEIGHTS", "multispa_kl"]

SOLVERS = ("em", "mirror")
WEIGHTS = ("count", "uniform")

_TINY = 1e-300
_ROUGH = 1e-6
"""The published code raises the modelled shares to this."""

_EARLY, _LATE, _MANY = 10, 500, 300
"""Default passes where pairs share fewer than so many items in the median, and where they share more."""

_PLAIN, _STRIDE = 20, 1.1
"""Plain passes at first; then every pass goes this factor farther than the last, until one would raise the value."""

_STEP, _FACTOR, _SLOPE, _LEAST_STEP, _INNER = 0.1, 0.9, 1e-3, 1e-5, 3
"""Armijo's rule of the published code: first step, its factor, share of the slope to gain, when to give up, steps."""


class _Pairs(NamedTuple):
    """Pairs as arrays of padded length; padding has no weight and belongs to a worker who is cut off."""

    first: Any
    second: Any
    weight: Any  # [pair, label, label]


class _State(NamedTuple):
    confusion: Any  # [worker, label, class]
    prevalence: Any
    objective: Any
    step: Any
    trace: Any
    done: Any


@on_voted_classes
def multispa_kl(
    labels: Table,
    *,
    solver: str = "em",
    weights: str = "count",
    max_iter: int | None = None,
    tolerance: float = 1e-7,
    prior: float = 0.5,
    least: float = 0.0,
    start: Estimate | None = None,
    pairs: Cooccurrence | None = None,
) -> Estimate:
    """Fit confusion matrices and prevalence to all pair statistics.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    solver : {"em", "mirror"}
        Monotone EM, or the paper's mirror descent.
    weights : {"count", "uniform"}
        Every pair by its common items, or all alike.
    max_iter : int, optional
        Most passes; by default as many as the numbers of common items bear.
    tolerance : float
        Stops when a pass changes the objective by less than this fraction.
    prior : float
        EM only: strength of a prior at the average worker's confusion, in labels per class (counted as often as the
        worker's own labels are, that is once per partner).
    least : float
        Pairs with fewer common items do not count.
    start : Estimate, optional
        Where to begin; by default MultiSPA's estimate of the workers with many columns of full rank, the vote for the
        others, and an equal prevalence (a rough one would decide doubtful items before the confusions are found).
    pairs : Cooccurrence, optional
        The pair statistics, where they are at hand.

    Returns
    -------
    Estimate
        ``objective`` holds the divergence (plus the prior's part) before each pass and after the last.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> import numpy as np
    >>> estimate = multispa_kl(bc.datasets.load("anesthesia"), max_iter=50)
    >>> bool(np.all(np.diff(estimate.objective) < 1e-9))
    True
    """
    pairs = cooccurrence(labels, least=least) if pairs is None else pairs
    if max_iter is None:
        max_iter = _LATE if pairs.median_common >= _MANY else _EARLY
    if start is None:
        start = multispa(labels, pairs=pairs, columns="full-rank", prevalence="uniform", rounds=1)
    vote = counts_given(labels, shares(labels))
    n_workers, n_classes, n_labels = start.confusion.shape
    with_partner = np.zeros(n_workers, bool)
    with_partner[pairs.first] = with_partner[pairs.second] = True
    strength = np.zeros(n_workers)
    weight = pairs.count if weights == "count" else pairs.rate
    if solver == "em" and prior > 0:
        own = np.maximum(pairs.label_count.sum(axis=1), 1e-12)
        mass = weight.sum(axis=(1, 2))
        partners = np.bincount(pairs.first, mass, n_workers) + np.bincount(pairs.second, mass, n_workers)
        strength = prior * partners / own
    pseudo = strength[:, None, None] * pooled_confusion(vote)
    n_padded, n_rows = bucket(max(pairs.n_pairs, 1), 64), bucket(n_workers + 1, 16)
    state, objective = _descend(
        _Pairs(
            padded(pairs.first, n_padded, n_workers),
            padded(pairs.second, n_padded, n_workers),
            padded(weight, n_padded, 0.0),
        ),
        padded(np.swapaxes(floored(start.confusion), 1, 2), n_rows, 1 / n_labels),
        start.prevalence,
        padded(np.swapaxes(pseudo, 1, 2), n_rows, 0.0),
        (max_iter, tolerance),
        solver=solver,
        n_workers=n_workers,
        most=max_iter,
    )
    confusion = floored(np.swapaxes(np.asarray(state.confusion)[:n_workers], 1, 2))
    prevalence = np.asarray(state.prevalence)
    graph = components(pairs)
    # Components have orders of their own; the first is the one with most labels, whose order the prevalence takes.
    for number in range(graph.n):
        members = np.flatnonzero((graph.of_worker == number) & with_partner)
        if len(members):
            order = align_together(confusion[members], vote[members])
            confusion[members] = confusion[members][:, order]
            prevalence = prevalence[order] if number == 0 else prevalence
    confusion[~with_partner] = smoothed_confusion(vote)[~with_partner]
    n_steps = int(state.step)
    return Estimate(
        confusion,
        prevalence,
        with_partner,
        objective=objective[: n_steps + 1],
        notes=(*_bipartite_note(pairs, graph, with_partner), *_notes(with_partner)),
        details={
            "n_passes": n_steps,
            "settled": bool(state.done),
            "median_common": pairs.median_common,
        },
    )


def _descend(
    pairs: _Pairs,
    confusion: np.ndarray,
    prevalence: np.ndarray,
    pseudo: np.ndarray,
    limits: tuple[int, float],
    *,
    solver: str,
    n_workers: int,
    most: int,
) -> tuple[_State, np.ndarray]:
    with double_precision():
        if solver == "em":
            state = _by_em(pairs, confusion, prevalence, pseudo, limits, most=bucket(most, 8))
        else:
            state = _by_mirror(
                pairs,
                partners_of(pairs.first, pairs.second, n_workers),
                confusion,
                prevalence,
                limits,
                most=bucket(most, 8),
            )
    return state, np.asarray(state.trace)


def _divergence(pairs: _Pairs, confusion: Any, prevalence: Any, floor: float = _TINY) -> Any:
    model = _model(pairs, confusion, prevalence)
    total = jnp.sum(pairs.weight, axis=(1, 2), keepdims=True)
    rate = pairs.weight / jnp.where(total > 0, total, 1.0)
    ratio = jnp.where(pairs.weight > 0, rate / jnp.maximum(model, floor), 1.0)
    return jnp.sum(pairs.weight * jnp.log(ratio))


def _model(pairs: _Pairs, confusion: Any, prevalence: Any) -> Any:
    return jnp.einsum("pak,pbk->pab", confusion[pairs.first] * prevalence, confusion[pairs.second])


@partial(jax.jit, static_argnames=("most",))
def _by_em(pairs: _Pairs, confusion: Any, prevalence: Any, pseudo: Any, limits: Any, *, most: int) -> _State:
    n_rows = confusion.shape[0]
    max_iter, tolerance = limits

    def objective(confusion: Any, prevalence: Any) -> Any:
        return _divergence(pairs, confusion, prevalence) - jnp.sum(
            jnp.where(pseudo > 0, pseudo * jnp.log(jnp.maximum(confusion, _TINY)), 0.0)
        )

    def one_pass(confusion: Any, prevalence: Any) -> tuple[Any, Any]:
        one, other = confusion[pairs.first], confusion[pairs.second]
        model = jnp.einsum("pak,pbk->pab", one * prevalence, other)
        ratio = jnp.where(pairs.weight > 0, pairs.weight / jnp.maximum(model, _TINY), 0.0)
        of_one = one * prevalence * jnp.einsum("pab,pbk->pak", ratio, other)
        of_other = other * prevalence * jnp.einsum("pab,pak->pbk", ratio, one)
        total = jax.ops.segment_sum(of_one, pairs.first, n_rows) + jax.ops.segment_sum(of_other, pairs.second, n_rows)
        total = total + pseudo
        column = jnp.sum(total, axis=1, keepdims=True)
        share = jnp.sum(of_one, axis=(0, 1))
        return (
            jnp.where(column > 1e-12, total / jnp.maximum(column, 1e-12), confusion),
            jnp.where(jnp.sum(share) > 0, share / jnp.maximum(jnp.sum(share), _TINY), prevalence),
        )

    def farther(before: Any, after: Any, stride: Any) -> Any:
        moved = after * (jnp.maximum(after, _TINY) / jnp.maximum(before, _TINY)) ** (stride - 1)
        return moved / jnp.maximum(jnp.sum(moved, axis=-2 if moved.ndim == 3 else 0, keepdims=True), _TINY)

    def step(carry: tuple[_State, Any]) -> tuple[_State, Any]:
        state, stride = carry
        after, share = one_pass(state.confusion, state.prevalence)
        far = farther(state.confusion, after, stride), farther(state.prevalence, share, stride)
        reached = objective(*far)
        good = reached <= state.objective
        after, share = jnp.where(good, far[0], after), jnp.where(good, far[1], share)
        now = jax.lax.cond(good, lambda: reached, lambda: objective(after, share))
        done = jnp.abs(state.objective - now) <= tolerance * (jnp.abs(now) + 1e-12)
        stride = jnp.where((state.step < _PLAIN) | ~good, 1.0, stride * _STRIDE)
        moved = _State(after, share, now, state.step + 1, state.trace.at[state.step + 1].set(now), done)
        return moved, stride

    def going(carry: tuple[_State, Any]) -> Any:
        return (carry[0].step < max_iter) & ~carry[0].done

    value = objective(confusion, prevalence)
    trace = jnp.zeros(most + 1).at[0].set(value)
    begin = _State(confusion, prevalence, value, jnp.zeros((), int), trace, jnp.zeros((), bool))
    return jax.lax.while_loop(going, step, (begin, jnp.ones(())))[0]


@partial(jax.jit, static_argnames=("most",))
def _by_mirror(pairs: _Pairs, partners: Partners, confusion: Any, prevalence: Any, limits: Any, *, most: int) -> _State:
    """Cyclic exponentiated gradient, as the published code: three steps for each worker in turn, then one for d."""
    max_iter, tolerance = limits
    n_workers = partners.pair.shape[0]
    n_pairs = jnp.sum(jnp.sum(pairs.weight, axis=(1, 2)) > 0)
    blocks = jnp.concatenate([pairs.weight, jnp.zeros((1, *pairs.weight.shape[1:]))])

    def descend(point: Any, value_of: Any) -> Any:
        value, slope = jax.value_and_grad(value_of)(point)

        def candidate(size: Any) -> Any:
            moved = point * jnp.exp(-size * (slope - jnp.min(slope, axis=0)))
            return moved / jnp.sum(moved, axis=0)

        def worse(size: Any) -> Any:
            moved = candidate(size)
            return (value_of(moved) > value + _SLOPE * jnp.sum(slope * (moved - point))) & (size >= _LEAST_STEP)

        size = jax.lax.while_loop(worse, lambda size: size * _FACTOR, jnp.asarray(_STEP))
        return jnp.where(size >= _LEAST_STEP, candidate(size), point)

    def of_worker(worker: Any, confusion: Any, prevalence: Any) -> Any:
        block = blocks[partners.pair[worker]]
        block = jnp.where(partners.is_first[worker][:, None, None], block, jnp.swapaxes(block, 1, 2))
        other = confusion[partners.partner[worker]] * prevalence
        # At the scale of one pair, as with equal weights: the step sizes are made for it.
        n_there = jnp.sum(jnp.sum(block, axis=(1, 2)) > 0)
        block = block * n_there / jnp.maximum(jnp.sum(block), _TINY)

        def value_of(own: Any) -> Any:
            model = jnp.maximum(jnp.einsum("ak,pbk->pab", own, other), _ROUGH)
            model = model / jnp.sum(model, axis=(1, 2), keepdims=True)
            return -jnp.sum(block * jnp.log(model))

        own = confusion[worker]
        for _ in range(_INNER):
            own = descend(own, value_of)
        return confusion.at[worker].set(own)

    def value_of_prevalence(confusion: Any, prevalence: Any) -> Any:
        model = jnp.maximum(_model(pairs, confusion, prevalence), _ROUGH)
        model = model / jnp.sum(model, axis=(1, 2), keepdims=True)
        return -jnp.sum(pairs.weight * jnp.log(model)) * n_pairs / jnp.maximum(jnp.sum(pairs.weight), _TINY)

    def step(state: _State) -> _State:
        confusion = jax.lax.fori_loop(
            0, n_workers, lambda worker, table: of_worker(worker, table, state.prevalence), state.confusion
        )
        prevalence = descend(state.prevalence, lambda share: value_of_prevalence(confusion, share))
        now = _divergence(pairs, confusion, prevalence, _ROUGH)
        done = jnp.abs(state.objective - now) <= tolerance * (jnp.abs(now) + 1e-12)
        return _State(confusion, prevalence, now, state.step + 1, state.trace.at[state.step + 1].set(now), done)

    def going(state: _State) -> Any:
        return (state.step < max_iter) & ~state.done

    value = _divergence(pairs, confusion, prevalence, _ROUGH)
    trace = jnp.zeros(most + 1).at[0].set(value)
    return jax.lax.while_loop(
        going, step, _State(confusion, prevalence, value, jnp.zeros((), int), trace, jnp.zeros((), bool))
    )


def _bipartite_note(pairs: Cooccurrence, graph: Components, with_partner: np.ndarray) -> tuple[str, ...]:
    caught = int((graph.bipartite[graph.of_worker] & with_partner).sum())
    if not caught:
        return ()
    return (
        f"{caught} of {pairs.n_workers} workers fall into two sides that only meet each other: their pair "
        "statistics leave a whole matrix undetermined, so the estimate of them hangs on its start. Let two workers of "
        "one side label common items, or use engine='em'.",
    )


def _notes(with_partner: np.ndarray) -> tuple[str, ...]:
    missing = int((~with_partner).sum())
    if not missing:
        return ()
    return (
        f"Workers who share no item with anybody ({missing} of {len(with_partner)}) have the confusion that the soft "
        "majority vote gives them.",
    )
