"""Panels of workers who err alone or together, and plain references in loops, for tests of dependence."""

from __future__ import annotations

from typing import Any

import fitted
import numpy as np
from scipy import sparse

from bayescrowd.criticism import _copying, _pairs
from bayescrowd.criticism._panel import Panel, panel_of
from bayescrowd.criticism.dependence import Dependence
from bayescrowd.data.labels import CrowdLabels


def p41(seed: int = 11, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    z = r.integers(0, 2, n)
    hard = r.random(n) < 0.25
    said = np.where(r.random((n, 9)) < np.where(hard, 0.3, 0.95)[:, None], z[:, None], 1 - z[:, None])
    return z, said


def independent(
    seed: int, n: int = 400, m: int = 10, k: int = 2, low: float = 0.6, high: float = 0.95, per: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Dawid-Skene with rows of their own for every class; -1 where a worker did not label."""
    r = np.random.default_rng(seed)
    z = r.integers(0, k, n)
    right = r.uniform(low, high, (m, k))
    wrong = (z[:, None] + r.integers(1, k, (n, m))) % k
    said = np.where(r.random((n, m)) < right[:, z].T, z[:, None], wrong)
    for i in range(n if per else 0):
        said[i, r.permutation(m)[per:]] = -1
    return z, said


def copying(seed: int, n: int = 400, per: int = 0, k: int = 2, m: int = 10, rate: float = 0.9, **more: Any) -> Any:
    """Workers 1, 2 and 3 copy worker 0 on most items."""
    r = np.random.default_rng(1000 + seed)
    z, said = independent(seed, n, m, k, **more)
    for w in (1, 2, 3):
        said[:, w] = np.where(r.random(n) < rate, said[:, 0], said[:, w])
    for i in range(n if per else 0):
        said[i, r.permutation(m)[per:]] = -1
    return z, said


def hard_items(seed: int, n: int = 500, m: int = 10, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """On a quarter of the items most workers say the class after the true one."""
    r = np.random.default_rng(2000 + seed)
    z, said = independent(seed, n, m, k, 0.9, 0.95)
    hard = np.flatnonzero(r.random(n) < 0.25)
    said[hard] = np.where(r.random((len(hard), m)) < 0.3, z[hard, None], (z[hard, None] + 1) % k)
    return z, said


def labels_of(said: np.ndarray, k: int = 2, **more: Any) -> CrowdLabels:
    item, worker = np.nonzero(said >= 0)
    return CrowdLabels.from_codes(
        item, worker, said[item, worker], items=len(said), workers=said.shape[1], classes=k, **more
    )


def tree_of(said: np.ndarray, k: int = 2, **more: Any) -> Any:
    """A tree whose class probabilities are the vote shares: no engine is run."""
    labels = labels_of(said, k, **more)
    votes = np.stack([(said == code).sum(axis=1) for code in range(k)], axis=1) + 1e-9
    probability = votes / votes.sum(axis=1, keepdims=True)
    run = fitted.made_point(labels, fitted.r31())._replace(state_probability=probability)
    return fitted.tree_of(labels, fitted.r31(), run)


def panel(said: np.ndarray, k: int = 2, known: np.ndarray | None = None) -> Panel:
    return panel_of(tree_of(said, k), np.full(len(said), -1) if known is None else known)


def verdict(said: np.ndarray, k: int = 2) -> tuple[Panel, _pairs.Meetings, _copying.Verdict]:
    answers = panel(said, k)
    meetings = _pairs.meetings_of(answers, np.random.default_rng(0))
    return answers, meetings, _copying.by_consensus(answers, meetings)


def groups_of(found: Dependence) -> list[set[Any]]:
    return [set(group) for group in found.groups]


def right_or_wrong(said: np.ndarray) -> Panel:
    """A complete panel on items that are all of class 0."""
    n, m = said.shape
    shares = sparse.csr_array((np.ones(n * m), (np.arange(n * m), said.ravel())), shape=(n * m, 2))
    item, worker = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    known = np.zeros(n, int)
    return Panel(item, worker, shares, np.ones(n * m), np.arange(n), known, np.full((n, 2), 0.5), m, 2, 2)


def plain_rates(z: np.ndarray, said: np.ndarray, k: int) -> np.ndarray:
    """Error rates drawn by two labels towards what class and worker let expect, in loops."""
    m = said.shape[1]
    n, wrong = np.zeros((m, k)), np.zeros((m, k))
    for i in range(len(z)):
        for w in range(m):
            if z[i] >= 0 and said[i, w] >= 0:
                n[w, z[i]] += 1
                wrong[w, z[i]] += said[i, w] != z[i]
    rate = np.zeros((m, k))
    p = wrong.sum() / n.sum()
    for w in range(m):
        for c in range(k):
            of_class = (wrong[:, c].sum() + 2 * p) / (n[:, c].sum() + 2)
            of_worker = (wrong[w].sum() + 2 * p) / (n[w].sum() + 2)
            expected = min(max(of_class + of_worker - p, 0.0), 1.0)
            rate[w, c] = (wrong[w, c] + 2 * expected) / (n[w, c] + 2)
    return rate


def plain_correlation(z: np.ndarray, said: np.ndarray, k: int) -> float:
    rate = plain_rates(z, said, k)
    shared = own = 0.0
    for i in range(len(z)):
        who = [w for w in range(said.shape[1]) if said[i, w] >= 0]
        for w in who:
            for v in who:
                if w != v and z[i] >= 0:
                    one, other = ((said[i, u] != z[i]) - rate[u, z[i]] for u in (w, v))
                    shared += one * other
                    own += (one**2 + other**2) / 2
    return shared / own


def plain_soft_correlation(said: np.ndarray, probability: np.ndarray) -> float:
    """Expected products over expected squares, where classes have (weighted) probabilities."""
    n, m = said.shape
    k = probability.shape[1]
    count, wrong = np.zeros((m, k)), np.zeros((m, k))
    for i in range(n):
        for w in range(m):
            for c in range(k):
                count[w, c] += probability[i, c]
                wrong[w, c] += probability[i, c] * (said[i, w] != c)
    p = wrong.sum() / count.sum()
    rate = np.zeros((m, k))
    for w in range(m):
        for c in range(k):
            of_class = (wrong[:, c].sum() + 2 * p) / (count[:, c].sum() + 2)
            of_worker = (wrong[w].sum() + 2 * p) / (count[w].sum() + 2)
            rate[w, c] = (wrong[w, c] + 2 * np.clip(of_class + of_worker - p, 0, 1)) / (count[w, c] + 2)
    shared = own = 0.0
    for i in range(n):
        for c in range(k):
            r = np.array([(said[i, w] != c) - rate[w, c] for w in range(m)])
            shared += probability[i, c] * (r.sum() ** 2 - (r**2).sum())
            own += probability[i, c] * (m - 1) * (r**2).sum()
    return shared / own
