r"""The labels of a worker whom a fit has not seen, with the worker's confusion matrices integrated out.

Averaging over matrices drawn from the prior would need astronomically many draws, since few of them explain a hundred
labels. Where a label is one entry of a table of the worker's own (Dawid-Skene, IDBLA, ...) the rows are Dirichlet and
can be integrated out while the items' states are imputed one after the other: with :math:`\pi_i(s)` the probability of
the state given the other workers' labels and one draw of the parameters,

.. math:: w = \prod_i \sum_s \pi_i(s) \frac{\omega + N_{s, x_i}}{\Omega + N_{s \cdot}} ,

each state being drawn from its summand before it is counted in N. The average of w over draws is an unbiased estimate
of the probability of all labels of the worker given all others (sequential imputation).

References
----------
Kong, Liu, Wong (1994), Sequential imputations and Bayesian missing data problems, Journal of the American Statistical
Association 89(425).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import gammaln, logsumexp

from bayescrowd.criticism._refit_pieces import Pairs, in_chunks, lay_out, tables
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration, tables_of
from bayescrowd.model import At, Model, Sizes

__all__ = ["has_closed_form", "new_worker"]


def has_closed_form(model: Model, sizes: Sizes) -> bool:
    """Say whether a label is one entry of a Dirichlet table of the worker's own.

    Parameters
    ----------
    model : Model
        Any model.
    sizes : Sizes
        Sizes of its parameters.

    Returns
    -------
    bool
    """
    if not model.has_routes or model.uses_item:  # routes are asked without an item here
        return False
    routes = model.routes(At(np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), None, sizes))
    if routes is None or len(routes) != 1 or len(routes[0].cells) != 1:
        return False
    layout = tables_of(model, sizes)
    return layout.worker_axes[layout.names.index(next(iter(routes[0].cells)))] >= 0


class _Own(NamedTuple):
    """The worker's labels in terms of the worker's own table entries, numbered from 0."""

    pair: np.ndarray  # of each label
    weight: np.ndarray
    entry: np.ndarray  # [label, state]
    row: np.ndarray  # [label, state]
    counted: np.ndarray  # [label, state]
    log_constant: np.ndarray  # [label, state]
    alpha: np.ndarray  # [entry]
    alpha_row: np.ndarray  # [row]


def new_worker(
    model: Model,
    samples: Mapping[str, np.ndarray],
    labels: CrowdLabels,
    worker: int,
    random: np.random.Generator,
    particles: int = 1,
) -> Iterator[np.ndarray]:
    """Estimate the log probability of all labels of a worker, given the others' labels and parameters.

    Parameters
    ----------
    model : Model
        A model with closed form.
    samples : dict
        Site -> array [sample, ...]; the worker's own tables are not read.
    labels : CrowdLabels
        The label table; all labels but the worker's are given.
    worker : int
        Position of the worker.
    random : numpy.random.Generator
        Source of randomness.
    particles : int
        Imputations of each sample; more than one where there is but one estimate.

    Yields
    ------
    array [sample and particle]
        A chunk of samples at a time. Exponentials, not logs, are to be averaged.
    """
    piece = np.where(np.asarray(labels.worker_code) == worker, 0, -1)
    pairs = lay_out(labels, piece, 1, left_out=True)
    own = _own_labels(model, labels, pairs)
    n_pairs = int(own.pair.max(initial=-1)) + 1
    with double_precision():
        on_device = jax.device_put(pairs)
    n_states = model.n_levels * labels.n_classes
    for log_states in in_chunks(
        lambda part: _states(model, part, on_device), samples, len(pairs.pair_place) * n_states
    ):
        yield _impute(log_states[:, :n_pairs], own, random, particles)


@jax.jit
def _states(model: Model, draws: dict[str, Any], pairs: Pairs) -> Any:
    """Log probabilities [sample, pair, state] of the states of the worker's items given the others' labels."""
    return jax.lax.map(lambda parameters: jax.nn.log_softmax(tables(model, parameters, pairs)[0], axis=1), draws)


def _own_labels(model: Model, labels: CrowdLabels, pairs: Pairs) -> _Own:
    sizes = sizes_of(labels)
    state = np.arange(model.n_levels * sizes.n_classes)
    mine = np.flatnonzero((pairs.weight > 0) & (pairs.pair < len(pairs.pair_place)))
    mine = mine[np.argsort(pairs.pair[mine], kind="stable")]
    worker, label = (index[mine][:, None] for index in (pairs.worker, pairs.label))
    at = At(worker, state % sizes.n_classes, state // sizes.n_classes, label, None, sizes)
    shape = (len(mine), len(state))
    with double_precision():
        route = (model.routes(at) or [])[0]
        layout = tables_of(model, sizes)
        name, index = next(iter(route.cells.items()))
        entry = np.broadcast_to(np.asarray(layout.entries(name, index)), shape)
        constant = np.broadcast_to(np.asarray(route.log_constant, float), shape)
        counted = np.broadcast_to(np.asarray(route.counted, bool), shape)
        alpha = np.asarray(concentration(model, sizes))
    total = np.bincount(layout.row_of, alpha, layout.n_rows)
    entries, entry = np.unique(entry, return_inverse=True)
    rows, row = np.unique(layout.row_of[entries], return_inverse=True)
    entry = entry.reshape(shape)
    return _Own(pairs.pair[mine], pairs.weight[mine], entry, row[entry], counted, constant, alpha[entries], total[rows])


def _impute(log_states: np.ndarray, own: _Own, random: np.random.Generator, particles: int) -> np.ndarray:
    n_pairs = log_states.shape[1]
    sample = np.repeat(np.arange(len(log_states)), particles)
    n_samples = len(sample)
    every = np.arange(n_samples)
    in_entry = np.tile(own.alpha, (n_samples, 1))
    in_row = np.tile(own.alpha_row, (n_samples, 1))
    total = np.zeros(n_samples)
    first = np.searchsorted(own.pair, np.arange(n_pairs + 1))
    # The clearest items first: their states hardly depend on what has been counted, and so the weights vary least.
    entropy = -(np.exp(log_states) * np.maximum(log_states, -700)).sum(axis=2).mean(axis=0)
    for pair in np.argsort(entropy, kind="stable"):
        rows = np.arange(first[pair], first[pair + 1])
        log_weight = log_states[sample, pair] + _given_states(own, rows, in_entry, in_row)
        change = logsumexp(log_weight, axis=1)
        total += change
        possible = np.isfinite(change)
        share = np.exp(log_weight - np.where(possible, change, 0.0).reshape(-1, 1))
        state = (random.random((n_samples, 1)) > np.cumsum(share, axis=1)).sum(axis=1)
        state = np.minimum(state, share.shape[1] - 1)
        for row in rows:
            weight = np.where(own.counted[row, state], own.weight[row], 0.0)
            in_entry[every, own.entry[row, state]] += weight
            in_row[every, own.row[row, state]] += weight
    return np.where(np.isnan(total), -np.inf, total)


def _given_states(own: _Own, rows: np.ndarray, in_entry: np.ndarray, in_row: np.ndarray) -> np.ndarray:
    """Log probability [sample, state] of the worker's labels on one item, given what was counted before."""
    found = np.zeros((len(in_entry), own.entry.shape[1]))
    for position, row in enumerate(rows):
        before = rows[:position]
        weight = own.weight[row]
        earlier = np.where(own.counted[before], own.weight[before, None], 0.0)
        entry = in_entry[:, own.entry[row]] + (earlier * (own.entry[before] == own.entry[row])).sum(axis=0)
        whole = in_row[:, own.row[row]] + (earlier * (own.row[before] == own.row[row])).sum(axis=0)
        if weight == 1:
            share = np.log(entry) - np.log(whole)
        else:
            share = gammaln(entry + weight) - gammaln(entry) - gammaln(whole + weight) + gammaln(whole)
        found += np.where(own.counted[row], share, 0.0) + weight * own.log_constant[row]
    return found
