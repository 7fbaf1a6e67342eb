"""Tensor ADMM: confusion matrices from a joint fit of what workers, pairs and triples of workers say."""

from typing import Any

import jax
import numpy as np

from bayescrowd.baselines._confusions import with_other_labels
from bayescrowd.baselines._options import check_number, check_whole, check_word
from bayescrowd.baselines._result import Found, begin, ending, finish, votes_of
from bayescrowd.baselines._tensor_fit import fit_jointly, layout
from bayescrowd.baselines._triples import Statistics, n_combinations, statistics
from bayescrowd.baselines._votes_table import VotesTable
from bayescrowd.data.arrays import Table, bucket
from bayescrowd.data.votes import shares
from bayescrowd.errors import EngineError
from bayescrowd.fit import Fit
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.estimate import Estimate, counts_given, floored, smoothed_confusion
from bayescrowd.moments.estimate import decode as decoded
from bayescrowd.moments.permutation import align_together
from bayescrowd.moments.voted import on_voted_classes

__all__ = ["tensor_admm"]

_MOST_AT_ONCE = 2e7
"""Most triples of labels of a single item."""

_MOST_CELLS = 10_000_000
"""Most cells of the tensors that are kept."""

_MOST_SECONDS = 900.0
"""Longest time that all passes may take, by estimate."""

_SECONDS, _BYTES = 2.5e-7, 400
"""Time of each triple of labels, and memory of each that is formed at once or cell that is kept, as measured."""

_SECONDS_OF_CELL, _SECONDS_OF_TRIPLE = 1.5e-8, 7e-11
"""Time in each pass of each cell, by squared number of classes, and of each triple of workers, by its fourth power: as
measured with 2 and with 50 classes."""


_INSTEAD = "Use the pairs only, bc.fit(labels, engine='multispa-kl'), or all labels, engine='em'"


def tensor_admm(
    labels: Any,
    *,
    init: str = "majority",
    decode: str = "map",
    max_iter: int = 100,
    tolerance: float = 1e-6,
    inner: int = 10,
    seed: int = 0,
) -> Fit:
    r"""Fit the shares of labels of all workers, pairs and triples of workers by least squares.

    With :math:`A_m[c, k]` the probability that worker m says c of an item of class k, and :math:`d_k` the prevalence,

    .. math::

        \min_{A, d} \tfrac12 \sum_m \lVert p_m - A_m d \rVert^2
        + \tfrac12 \sum_{m<l} \lVert R_{ml} - A_m \mathrm{diag}(d) A_l^T \rVert^2
        + \tfrac12 \sum_{m<l<r} \lVert T_{mlr} - \textstyle\sum_k d_k A_m[:, k] \otimes A_l[:, k] \otimes A_r[:, k]
        \rVert^2

    over columns and prevalence on the probability simplex. One matrix after the other, then the prevalence, is set by
    a few steps of ADMM, with a proximal term that fades with the criterion. Every statistic counts alike, however few
    common items it comes from.

    The published computation visits every cell of every triple, :math:`O(M^3 K^4)` per pass. Here only triples with
    common items, and labels that they gave, are stored and visited: time and memory are proportional to the number of
    triples of labels of one item (at most to that of all cells), so that large tables with few labels per item are
    easy. Tables with many labels per item are refused.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of equal votes. Labels that are no class are left out.
    init : {"majority", "random"}
        Begin with what the soft majority vote says of the workers, or with random matrices, as published: these need
        not agree on the classes where groups of workers share few items.
    decode : {"map", "ml"}
        Classes by the estimated prevalence, or as if all were equally frequent: the result's prevalence is then even.
    max_iter : int
        Most passes.
    tolerance : float
        Stop where a pass lowers the criterion by a smaller share of it.
    inner : int
        ADMM steps of each block in a pass.
    seed : int
        Seed of random matrices.

    Returns
    -------
    Fit
        With confusion matrices and prevalence; its objective is the criterion.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, or the table has too many triples of labels: the message says how many, with
        the time and memory they would take.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.tensor_admm(bc.datasets.load("anesthesia"))
    >>> fit.consensus()["class"].loc[[3, 5]].tolist(), fit.confusion(1).shape
    ([2, 2], (4, 4))

    References
    ----------
    Traganitis, Pages-Zamora, Giannakis (2018), Blind multiclass ensemble classification, IEEE Trans. Signal Processing
    66(18), algorithm 1. Ibrahim, Fu, Kargas, Huang (2019), NeurIPS, table 2, for its results on crowds.
    """
    options = {
        "init": init,
        "decode": decode,
        "max_iter": max_iter,
        "tolerance": tolerance,
        "inner": inner,
        "seed": seed,
    }
    call = begin("tensor-admm", labels, **options)
    check_word("init", init, ("majority", "random"))
    check_word("decode", decode, ("map", "ml"))
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance, positive=False)
    check_whole("inner", inner, 1)
    check_whole("seed", seed, 0)
    table = VotesTable(votes_of(call))
    _require_few(table, max_iter)
    random = np.random.default_rng(seed) if init == "random" else None
    estimate = _fitted(table, random=random, max_iter=int(max_iter), tolerance=float(tolerance), inner=int(inner))
    n_passes = len(estimate.objective) - 1 if estimate.objective is not None else 0
    change = float(estimate.details["change"])
    converged = change < tolerance
    goal = f"the criterion changed by less than {tolerance:g} of itself (the last change was {change:.2g})"
    # What explains and predicts has to use the prevalence that the classes were found with.
    even = (estimate.prevalence > 0) / max(int((estimate.prevalence > 0).sum()), 1)
    found = Found(
        decoded(table, estimate, rule=decode),
        confusion=with_other_labels(estimate.confusion, len(labels.label_values)),
        prevalence=estimate.prevalence if decode == "map" else even,
        objective=estimate.objective,
        converged=converged,
        sentence=ending(n_passes, converged, goal),
        warnings=estimate.notes,
        details={name: estimate.details[name] for name in ("n_pairs", "n_triples", "n_cells")}
        | {"estimated_prevalence": estimate.prevalence.tolist()},
    )
    return finish(call, found)


def _require_few(table: Table, max_iter: int) -> None:
    """Refuse tables with too many triples of labels, or of cells."""
    combinations, at_once = n_combinations(table)
    n_workers, n_classes = len(np.unique(table.worker_code)), len(table.classes)
    cells = min(combinations, n_workers * (n_workers - 1) * (n_workers - 2) / 6 * n_classes**3)
    triples = min(combinations, n_workers * (n_workers - 1) * (n_workers - 2) / 6)
    a_pass = cells * n_classes**2 * _SECONDS_OF_CELL + triples * n_classes**4 * _SECONDS_OF_TRIPLE
    seconds = combinations * _SECONDS + max_iter * a_pass
    memory = max(max(cells, at_once) * _BYTES / 2**30, 0.1)
    if at_once > _MOST_AT_ONCE or seconds > _MOST_SECONDS:
        raise EngineError(
            f"tensor-admm would form {combinations:,.0f} triples of labels of one item and fit up to {cells:,.0f} "
            f"cells of {n_classes} classes: about {_duration(seconds)} for {max_iter} passes, and {memory:,.1f} GiB. "
            f"{_INSTEAD}"
        )


def _duration(seconds: float) -> str:
    number, unit = (seconds / 3600, "hour") if seconds > 7200 else (max(seconds / 60, 1.0), "minute")
    return f"{number:,.0f} {unit}{'s' * (round(number) != 1)}"


@on_voted_classes
def _fitted(
    table: Table, *, random: np.random.Generator | None, max_iter: int, tolerance: float, inner: int
) -> Estimate:
    n_workers, n_classes = table.n_workers, len(table.classes)
    found = statistics(table, _MOST_CELLS)
    if found is None:
        memory = _MOST_CELLS * _BYTES / 2**30
        seconds = max_iter * _MOST_CELLS * n_classes**2 * _SECONDS_OF_CELL
        raise EngineError(
            f"the tensors of three workers have more than {_MOST_CELLS:,} cells that are not zero, which would take "
            f"more than {memory:,.1f} GiB, and {_duration(seconds)} for {max_iter} passes. {_INSTEAD}"
        )
    vote = shares(table)
    counts = counts_given(table, vote)[:, :, :n_classes]  # label values after the classes have no votes
    by_vote = smoothed_confusion(counts)
    shape = (bucket(n_workers), n_classes, n_classes)
    matrix = np.full(shape, 1 / n_classes)
    if random is None:
        matrix[:n_workers] = np.swapaxes(by_vote, 1, 2)
        prevalence = vote.mean(axis=0)
    else:
        matrix = random.random(shape)
        matrix /= matrix.sum(axis=1, keepdims=True)
        prevalence = np.full(n_classes, 1 / n_classes)
    with double_precision():
        fitted = fit_jointly(
            layout(found, n_workers, n_classes), matrix, prevalence, tolerance, max_iter=max_iter, inner=inner
        )
        fitted = jax.device_get(fitted)
    confusion = floored(np.swapaxes(fitted.matrix[:n_workers], 1, 2))
    order = align_together(confusion, counts)
    size = (found.workers < n_workers).sum(axis=1)
    joined = np.isin(np.arange(n_workers), found.workers[size > 1])
    confusion = np.where(joined[:, None, None], confusion[:, order], by_vote)
    details = {
        "change": fitted.change,
        "n_pairs": int((size == 2).sum()),
        "n_triples": int((size == 3).sum()),
        "n_cells": len(found.value),
    }
    return Estimate(
        with_other_labels(confusion, len(table.label_values)),
        floored(fitted.prevalence[order]),
        joined,
        objective=fitted.loss[: int(fitted.n_passes) + 1],
        notes=_notes(found, size, joined, np.unique(table.worker_code)),
        details=details,
    )


def _notes(found: Statistics, size: np.ndarray, joined: np.ndarray, active: np.ndarray) -> tuple[str, ...]:
    notes = []
    if not (size == 3).any():
        notes.append(
            "No three workers labelled an item in common, so there are no tensors: the fit is of pairs of workers, "
            "which leave more open."
        )
    alone = int((~joined[active]).sum())
    if alone:
        notes.append(
            f"{alone} worker{'s share' if alone > 1 else ' shares'} no item with another: their confusion matrices are "
            "what the soft majority vote says."
        )
    return tuple(notes)
