"""Exact answers for tiny problems, in float64 NumPy: sums over every joint assignment of the items' states.

Nothing of the package is used. The tables (class shares, level shares, confusion rows) have Dirichlet priors and are
integrated out in closed form by Gamma functions, so that weights may be fractions: an annotation of weight w counts as
the w-th power of its probability. A state of an item is ``difficulty * n_classes + class``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

_CHUNK = 4096
_MOST = 5_000_000


@dataclass(frozen=True)
class Problem:
    """Annotations as integer codes."""

    item: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    n_items: int
    n_workers: int
    n_classes: int
    n_labels: int
    weight: np.ndarray
    gold: np.ndarray

    @property
    def n(self) -> int:
        return len(self.item)


@dataclass(frozen=True)
class Exact:
    """The exact posterior."""

    log_evidence: float
    state_probability: np.ndarray  # item, state
    class_probability: np.ndarray  # item, class
    prevalence: np.ndarray  # class
    confusion: np.ndarray  # worker, difficulty, class, label
    level_probability: np.ndarray  # item, difficulty
    difficulty_prevalence: np.ndarray  # difficulty
    accuracy: np.ndarray  # worker: posterior mean of sum_class prevalence * confusion diagonal
    accuracy_of_means: np.ndarray  # worker: the same from the posterior means


def problem(
    rows: Sequence[tuple[int, int, int]] | np.ndarray,
    *,
    n_items: int | None = None,
    n_workers: int | None = None,
    n_classes: int = 2,
    n_labels: int | None = None,
    weight: Sequence[float] | None = None,
    gold: Mapping[int, int] | None = None,
) -> Problem:
    """Make a problem from rows (item, worker, label)."""
    table = np.asarray(rows, int).reshape(-1, 3)
    size = lambda column: int(table[:, column].max(initial=-1)) + 1
    n_items = size(0) if n_items is None else n_items
    known = np.full(n_items, -1)
    for item, value in (gold or {}).items():
        known[item] = value
    return Problem(
        *table.T,
        n_items=n_items,
        n_workers=size(1) if n_workers is None else n_workers,
        n_classes=n_classes,
        n_labels=n_classes if n_labels is None else n_labels,
        weight=np.ones(len(table)) if weight is None else np.asarray(weight, float),
        gold=known,
    )


def of_labels(labels) -> Problem:
    """Take the codes of a CrowdLabels."""
    return Problem(
        np.asarray(labels.item_code),
        np.asarray(labels.worker_code),
        np.asarray(labels.label_code),
        labels.n_items,
        labels.n_workers,
        labels.n_classes,
        len(labels.label_values),
        np.ones(labels.n_annotations) if labels.weight is None else np.asarray(labels.weight),
        np.asarray(labels.gold_code),
    )


def diagonal(n_classes: int, n_labels: int, on: float, off: float) -> np.ndarray:
    """Concentration class x label with one value on the diagonal."""
    table = np.full((n_classes, n_labels), float(off))
    table[np.arange(n_classes), np.arange(n_classes)] = on
    return table


def _log_polya(counts: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Log of the Dirichlet integral of prod p^counts, over the last axis."""
    total = alpha.sum(-1)
    rows = gammaln(total) - gammaln(total + counts.sum(-1))
    return rows + (gammaln(alpha + counts) - gammaln(alpha)).sum(-1)


def assignments(data: Problem, n_levels: int = 1) -> np.ndarray:
    """List every joint assignment of states that the gold allows, [assignment, item]."""
    states = range(n_levels * data.n_classes)
    choices = [[s for s in states if known < 0 or s % data.n_classes == known] for known in data.gold]
    if np.prod([float(len(choice)) for choice in choices]) > _MOST:
        raise ValueError("too many assignments for brute force")
    return np.array(list(itertools.product(*choices)), int).reshape(-1, data.n_items)


def posterior(
    data: Problem,
    *,
    prevalence: float | np.ndarray = 1.0,
    confusion: float | np.ndarray | None = None,
    n_levels: int = 1,
    difficulty: float | np.ndarray = 1.0,
    fixed: Mapping[int, np.ndarray] | None = None,
) -> Exact:
    """Sum over all assignments.

    ``confusion`` broadcasts to [worker, difficulty, class, label] and defaults to 3 on the diagonal and 1 off it.
    ``fixed`` maps a level to a given table class x label of probabilities, which takes no part in the counting.
    """
    n_c, n_l, n_h = data.n_classes, data.n_labels, n_levels
    shape = (data.n_workers, n_h, n_c, n_l)
    table = diagonal(n_c, n_l, 3, 1) if confusion is None else np.asarray(confusion, float)
    rows = np.broadcast_to(table, shape).reshape(-1, n_l)
    shares = np.broadcast_to(np.asarray(prevalence, float), (n_c,))
    levels = np.broadcast_to(np.asarray(difficulty, float), (n_h,))
    state = np.arange(n_h * n_c)
    level_of, class_of = state // n_c, state % n_c

    # What an item adds, in each of its states, to the counts and to the log probability under the fixed tables.
    counts_of = np.zeros((data.n_items, n_h * n_c, *shape))
    fixed_of = np.zeros((data.n_items, n_h * n_c))
    for i, k, y, w in zip(data.item, data.worker, data.label, data.weight, strict=True):
        for s in state:
            if fixed and int(level_of[s]) in fixed:
                fixed_of[i, s] += w * np.log(fixed[int(level_of[s])][class_of[s], y])
            else:
                counts_of[i, s, k, level_of[s], class_of[s], y] += w

    every = assignments(data, n_h)
    logs, sums = [], []
    for first in range(0, len(every), _CHUNK):
        part = every[first : first + _CHUNK]
        n_class = np.stack([(class_of[part] == c).sum(1) for c in range(n_c)], axis=1)
        n_level = np.stack([(level_of[part] == h).sum(1) for h in range(n_h)], axis=1)
        counts = np.zeros((len(part), *shape))
        log_p = np.zeros(len(part))
        for i in range(data.n_items):
            counts += counts_of[i][part[:, i]]
            log_p += fixed_of[i][part[:, i]]
        counts = counts.reshape(len(part), -1, n_l)
        log_p += _log_polya(n_class, shares) + _log_polya(counts, rows).sum(1)
        if n_h > 1:
            log_p += _log_polya(n_level, levels)
        mean_prevalence = (shares + n_class) / (shares.sum() + n_class.sum(1))[:, None]
        mean_level = (levels + n_level) / (levels.sum() + n_level.sum(1))[:, None]
        mean_rows = ((rows + counts) / (rows.sum(-1) + counts.sum(-1))[..., None]).reshape(len(part), *shape)
        square = mean_rows[..., :n_c]
        right = np.einsum("ac,ah,akhcc->ak", mean_prevalence, mean_level, square)
        logs.append(log_p)
        sums.append((log_p, part, mean_prevalence, mean_level, mean_rows, right))

    log_evidence = float(logsumexp(np.concatenate(logs)))
    state_probability = np.zeros((data.n_items, n_h * n_c))
    means = [np.zeros(n_c), np.zeros(n_h), np.zeros(shape), np.zeros(data.n_workers)]
    for log_p, part, *values in sums:
        p = np.exp(log_p - log_evidence)
        for s in state:
            state_probability[:, s] += p @ (part == s)
        means = [total + np.tensordot(p, value, 1) for total, value in zip(means, values, strict=True)]
    by_level = state_probability.reshape(data.n_items, n_h, n_c)
    mean_prevalence, mean_level, mean_confusion, accuracy = means
    of_means = np.einsum("c,h,khcc->k", mean_prevalence, mean_level, mean_confusion[..., :n_c])
    return Exact(
        log_evidence,
        state_probability,
        by_level.sum(1),
        mean_prevalence,
        mean_confusion,
        by_level.sum(2),
        mean_level,
        accuracy,
        of_means,
    )


def log_likelihood(data: Problem, log_state: np.ndarray, log_response: np.ndarray, *, n_levels: int = 1) -> float:
    """Sum over all joint assignments at given parameters.

    ``log_state`` [item, state] is the log prior probability of each state, ``log_response`` [annotation, state] the log
    probability of the label that was given.
    """
    total = []
    for states in assignments(data, n_levels):
        value = sum(log_state[i, s] for i, s in enumerate(states))
        value += sum(data.weight[n] * log_response[n, states[data.item[n]]] for n in range(data.n))
        total.append(value)
    return float(logsumexp(total))


def posterior_given(data: Problem, log_state: np.ndarray, log_response: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Conditional state probabilities [item, state] and log likelihood [item] at given parameters, item by item."""
    table = np.array(log_state, float)
    for n in range(data.n):
        table[data.item[n]] += data.weight[n] * log_response[n]
    for i, known in enumerate(data.gold):
        if known >= 0:
            table[i, np.arange(table.shape[1]) % data.n_classes != known] = -np.inf
    total = logsumexp(table, axis=1)
    return np.exp(table - total[:, None]), total


@dataclass(frozen=True)
class EM:
    """Where plain EM for Dawid-Skene arrived."""

    probability: np.ndarray
    prevalence: np.ndarray
    confusion: np.ndarray
    log_likelihood: float
    objective: np.ndarray


def majority(data: Problem) -> np.ndarray:
    """Shares of the votes, gold clamped, equal shares where nobody voted."""
    votes = np.zeros((data.n_items, data.n_classes))
    for i, y, w in zip(data.item, data.label, data.weight, strict=True):
        if y < data.n_classes:
            votes[i, y] += w
    votes[votes.sum(1) == 0] = 1.0
    votes /= votes.sum(1, keepdims=True)
    for i, known in enumerate(data.gold):
        if known >= 0:
            votes[i] = np.eye(data.n_classes)[known]
    return votes


def em(
    data: Problem,
    *,
    prevalence: float | np.ndarray | None = None,
    confusion: np.ndarray | None = None,
    empty_rows: np.ndarray | None = None,
    start: np.ndarray | None = None,
    n_passes: int = 20_000,
    tolerance: float = 1e-13,
) -> EM:
    """Run plain EM: maximum likelihood without priors, the posterior mode with them.

    ``empty_rows`` [class, label] is what a confusion row takes that nobody informs.
    """
    n_c, n_l, n_k = data.n_classes, data.n_labels, data.n_workers
    shares = np.ones(n_c) if prevalence is None else np.broadcast_to(np.asarray(prevalence, float), (n_c,))
    rows = np.ones((n_k, n_c, n_l)) if confusion is None else np.broadcast_to(confusion, (n_k, n_c, n_l))
    empty = np.full((n_c, n_l), 1 / n_l) if empty_rows is None else empty_rows
    probability = majority(data) if start is None else np.array(start, float)
    objective: list[float] = []
    for _ in range(n_passes):
        counts = np.zeros((n_k, n_c, n_l))
        np.add.at(counts.transpose(0, 2, 1), (data.worker, data.label), data.weight[:, None] * probability[data.item])
        counts += rows - 1
        total = counts.sum(-1, keepdims=True)
        table = np.where(total > 0, counts / np.where(total > 0, total, 1), empty)
        prev = probability.sum(0) + shares - 1
        prev = prev / prev.sum()
        with np.errstate(divide="ignore"):
            log_state = np.broadcast_to(np.log(np.maximum(prev, 1e-300)), (data.n_items, n_c))
            log_response = np.log(np.maximum(table, 1e-300))[data.worker, :, data.label]
        probability, by_item = posterior_given(data, log_state, log_response)
        prior = ((shares - 1) * np.log(np.maximum(prev, 1e-300))).sum()
        prior += ((rows - 1) * np.log(np.maximum(table, 1e-300))).sum()
        objective.append(float(by_item.sum() + prior))
        if len(objective) > 1 and objective[-1] - objective[-2] < tolerance * abs(objective[-1]):
            break
    return EM(probability, prev, table, float(by_item.sum()), np.array(objective))
