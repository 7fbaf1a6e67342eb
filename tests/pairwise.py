"""Leave-one-out updates of collapsed variational inference by plain sums over pairs of items, in float64 NumPy.

Of the package only the declarations of a model are used: which table entries a label or a state uses, and the priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, polygamma

from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration, tables_of
from bayescrowd.model import At


@dataclass(frozen=True)
class Usage:
    """How often each item would use each table entry in each of its states."""

    entry: np.ndarray  # item, state, entry
    row: np.ndarray  # item, state, row
    constants: np.ndarray  # item, state
    alpha: np.ndarray  # entry
    total: np.ndarray  # row
    allowed: np.ndarray  # item, state: not ruled out by gold
    tables: Any


def usage(model: Any, labels: Any) -> Usage:
    """Read a model's declarations, label by label."""
    sizes = sizes_of(labels)
    n_states = model.n_levels * sizes.n_classes
    state = np.arange(n_states)
    level, true_class = state // sizes.n_classes, state % sizes.n_classes
    worker, label, item = labels.worker_code, labels.label_code, labels.item_code
    weight = np.ones(len(item)) if labels.weight is None else np.asarray(labels.weight, float)
    with double_precision():
        tables = tables_of(model, sizes)
        alpha = np.asarray(concentration(model, sizes))
        (route,) = model.routes(At(worker[:, None], true_class, level, label[:, None], None, sizes))
        shape = (len(item), n_states)
        of_labels = [np.broadcast_to(tables.entries(name, at), shape) for name, at in route.cells.items()]
        counted = np.broadcast_to(route.counted, shape)
        constant = np.broadcast_to(np.asarray(route.log_constant, float), shape)
        every = np.arange(sizes.n_items)[:, None]
        cells = model.state_cells(At(None, true_class, level, None, every, sizes))
        shape = (sizes.n_items, n_states)
        of_states = [np.broadcast_to(tables.entries(name, at), shape) for name, at in cells.items()]
    entry = np.zeros((sizes.n_items, n_states, len(alpha)))
    constants = np.zeros((sizes.n_items, n_states))
    for n, i in enumerate(item):
        constants[i] += weight[n] * constant[n]
        for s in state:
            for table in of_labels:
                if counted[n, s]:
                    entry[i, s, table[n, s]] += weight[n]
    for i in range(sizes.n_items):
        for s in state:
            for table in of_states:
                entry[i, s, table[i, s]] += 1
    one_hot = np.eye(tables.n_rows)[tables.row_of]
    gold = np.asarray(labels.gold_code)[:, None]
    allowed = (gold < 0) | (gold == true_class)
    return Usage(entry, entry @ one_hot, constants, alpha, alpha @ one_hot, allowed, tables)


def log_rising(x: Any, count: float) -> Any:
    """Log of x (x + 1) ... (x + count - 1)."""
    if count == round(count):
        return sum(np.log(x + step) for step in range(round(count)))
    return gammaln(x + count) - gammaln(x)


def _curvature(x: Any, count: float) -> Any:
    if count == round(count):
        return -sum((x + step) ** -2.0 for step in range(round(count)))
    return polygamma(1, x + count) - polygamma(1, x)


def _second(mean: float, variance: float, omega: float, count: float) -> float:
    return log_rising(mean + omega, count) + variance / 2 * _curvature(mean + omega, count)


def convolve(terms: list[dict[float, float]]) -> dict[float, float]:
    """Distribution of a sum of independent variables, each a dict value -> probability."""
    total = {0.0: 1.0}
    for term in terms:
        new: dict[float, float] = {}
        for value, p in total.items():
            for more, share in term.items():
                new[value + more] = new.get(value + more, 0.0) + p * share
        total = new
    return total


def _expected(uses: np.ndarray, q: np.ndarray, omega: float, count: float, moments: str) -> float:
    """E log rising(N + omega, count), N the sum over items of uses [item, state] under independent states q."""
    mean = (q * uses).sum(1)
    if moments == "zero":
        return log_rising(mean.sum() + omega, count)
    if moments == "exact":
        terms = []
        for one, p in zip(uses, q, strict=True):
            if one.any():
                terms.append({float(value): float(p[one == value].sum()) for value in np.unique(one)})
        return sum(p * log_rising(value + omega, count) for value, p in convolve(terms).items())
    variance = ((q * uses**2).sum(1) - mean**2).sum()
    mean = mean.sum()
    if moments == "second":
        return _second(mean, variance, omega, count)
    p_zero = np.prod(1 - (q * (uses > 0)).sum(1))
    if p_zero == 1:
        return log_rising(omega, count)
    some = 1 - p_zero
    m = mean / some
    v = max((variance + mean**2) / some - m**2, 0.0)
    return p_zero * log_rising(omega, count) + some * _second(m, v, omega, count)


def log_weights(used: Usage, q: np.ndarray, moments: str) -> np.ndarray:
    """Log weights [item, state] of every item given the others, gold not applied."""
    found = used.constants.copy()
    for i in range(len(q)):
        others = np.arange(len(q)) != i
        for count, alpha, sign in ((used.entry, used.alpha, 1), (used.row, used.total, -1)):
            known: dict[tuple[int, float], float] = {}
            for s in range(q.shape[1]):
                for target in np.flatnonzero(count[i, s]):
                    key = (target, count[i, s, target])
                    if key not in known:
                        uses = count[others][:, :, target]
                        known[key] = _expected(uses, q[others], alpha[target], key[1], moments)
                    found[i, s] += sign * known[key]
    return found


def centred(table: np.ndarray) -> np.ndarray:
    """Log weights without the constant of each item."""
    return table - table.mean(1, keepdims=True)


def fixpoint(
    used: Usage, start: np.ndarray, moments: str, *, damping: float = 0.0, n_passes: int = 2000
) -> tuple[np.ndarray, float]:
    """Update all items at once until nothing moves: states [item, state], last change."""
    q, change = start, np.inf
    for _ in range(n_passes):
        table = np.where(used.allowed, log_weights(used, q, moments), -np.inf)
        new = damping * q + (1 - damping) * np.exp(table - logsumexp(table, axis=1, keepdims=True))
        change = np.abs(new - q).max()
        q = new
        if change < 1e-10:
            break
    return q, change


def log_polya(used: Usage, counts: np.ndarray) -> np.ndarray:
    """Log of the Dirichlet integrals of all rows, from counts [..., entry]."""
    one_hot = np.eye(used.tables.n_rows)[used.tables.row_of]
    rows = gammaln(used.total) - gammaln(used.total + counts @ one_hot)
    return rows.sum(-1) + (gammaln(used.alpha + counts) - gammaln(used.alpha)).sum(-1)


def log_evidence(used: Usage) -> float:
    """Sum over all joint assignments of states, tables integrated out."""
    choices = [np.flatnonzero(allowed) for allowed in used.allowed]
    logs = np.zeros(1)
    counts = np.zeros((1, len(used.alpha)))
    for i, states in enumerate(choices):
        counts = (counts[:, None] + used.entry[i, states]).reshape(-1, counts.shape[1])
        logs = (logs[:, None] + used.constants[i, states]).ravel()
    return float(logsumexp(logs + log_polya(used, counts)))


def implied_bound(used: Usage, q: np.ndarray) -> float:
    """Entropy, expected constants and the Dirichlet integrals at the expected counts."""
    entropy = -(q * np.log(np.where(q > 0, q, 1))).sum()
    return float(entropy + (q * used.constants).sum() + log_polya(used, np.einsum("is,ise->e", q, used.entry)))


def vb(used: Usage, start: np.ndarray, n_passes: int) -> tuple[np.ndarray, np.ndarray]:
    """Plain variational Bayes: states after the last pass and the bound of every pass."""
    one_hot = np.eye(used.tables.n_rows)[used.tables.row_of]
    counts = np.einsum("is,ise->e", start, used.entry)
    # The first look at the data is at the start itself; a pass updates the states, then the tables.
    q, bounds = start, []
    for _ in range(n_passes):
        alpha = used.alpha + counts
        total = alpha @ one_hot
        logs = digamma(alpha) - digamma(total)[used.tables.row_of]
        table = np.where(used.allowed, used.entry @ logs + used.constants, -np.inf)
        of_items = logsumexp(table, axis=1)
        q = np.exp(table - of_items[:, None])
        divergence = (gammaln(total) - gammaln(used.total)).sum() - (gammaln(alpha) - gammaln(used.alpha)).sum()
        divergence += ((alpha - used.alpha) * logs).sum()
        bounds.append(of_items.sum() - divergence)
        counts = np.einsum("is,ise->e", q, used.entry)
    return q, np.array(bounds)


def paper(
    labels: Any, n_levels: int, free: np.ndarray, log_given: np.ndarray, omega: float, gammas: Any, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Equations (19) to (23) of the paper as they stand: levels, then classes, all items at once.

    ``free`` [level] tells which levels have tables; ``log_given`` [annotation, level, class] is the log probability of
    a label on the others (0 on free levels); ``gammas`` are the concentrations of classes and levels; ``q`` [item,
    level, class] is a product. Where the item's own level is fixed, its count is 0.
    """
    lam, rho = q.sum(1), q.sum(2)
    n_items, n_labels = len(q), len(labels.label_values)
    item, worker, label = labels.item_code, labels.worker_code, labels.label_code

    def expansion(m: Any, concentration: float) -> float:
        m = np.asarray(m)
        mean, variance = m.sum(), (m * (1 - m)).sum()
        return np.log(mean + concentration) - variance / (2 * (mean + concentration) ** 2)

    new_rho = np.zeros_like(rho)
    for i in range(n_items):
        logs = np.zeros(n_levels)
        for h in range(n_levels):
            if n_levels > 1:
                logs[h] = expansion([rho[j, h] for j in range(n_items) if j != i], gammas[1])
            for n in np.flatnonzero(item == i):
                if not free[h]:
                    logs[h] += lam[i] @ log_given[n, h]
                    continue
                same_worker = [p for p in range(len(item)) if item[p] != i and worker[p] == worker[n]]
                means = {p: lam[item[p]] @ lam[i] * rho[item[p], h] for p in same_worker}
                logs[h] += expansion([means[p] for p in same_worker if label[p] == label[n]], omega)
                logs[h] -= expansion(list(means.values()), n_labels * omega)
        new_rho[i] = np.exp(logs - logsumexp(logs))
    log_lam = np.zeros_like(lam)
    for i in range(n_items):
        for t in range(lam.shape[1]):
            log_lam[i, t] = expansion([lam[j, t] for j in range(n_items) if j != i], gammas[0])
            for n in np.flatnonzero(item == i):
                log_lam[i, t] += new_rho[i] @ log_given[n, :, t]
                same_worker = [p for p in range(len(item)) if item[p] != i and worker[p] == worker[n]]
                means = {p: (rho[item[p]] * free) @ new_rho[i] * lam[item[p], t] for p in same_worker}
                log_lam[i, t] += expansion([means[p] for p in same_worker if label[p] == label[n]], omega)
                log_lam[i, t] -= expansion(list(means.values()), n_labels * omega)
    return log_lam, new_rho
