"""Recovery of simulated parameters from moments: the synthetic crowds of the papers' drivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from moments import exact_pairs
from scipy.optimize import linear_sum_assignment

from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.estimate import Estimate
from bayescrowd.moments.multispa import multispa
from bayescrowd.moments.multispa_kl import multispa_kl
from bayescrowd.moments.polish import polished
from bayescrowd.moments.symnmf import symnmf

N_WORKERS, N_CLASSES, OBSERVED, OF_DESIGNATED = 25, 3, 0.3, 0.8

PUBLISHED: dict[str, dict[str, float]] = {
    "multispa, best order of each worker": {"1000": 7.3e-2, "5000": 1.9e-2, "20000": 1.2e-2, "half": 2.1e-2},
    "multispa, aligned by common items": {"1000": 1.3e-1, "5000": 2.2e-2, "20000": 1.4e-2, "half": 4.8e-2},
    "multispa-kl": {"1000": 9.5e-3, "5000": 2.3e-3, "20000": 7.3e-4, "half": 2.3e-3},
    "symnmf, designated": {"1000": 1.0e-2, "5000": 3.0e-3, "20000": 1.8e-3, "half": 3.3e-2},
    "symnmf, robust": {"1000": 9.8e-3, "5000": 2.6e-3, "20000": 1.8e-3, "half": 2.5e-3},
    "any + 10 passes of EM": {"1000": 5.9e-3, "5000": 1.2e-3, "20000": 2.8e-4, "half": 1.0e-3},
}
"""An independent prototype's mean squared errors (six other random crowds), to compare with."""


def crowd(n_items: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """One good worker, the others with random confusions; everybody labels 30 % of the items, two of them 80 %."""
    random = np.random.default_rng(seed)
    confusion = random.random((N_WORKERS, N_CLASSES, N_CLASSES))
    confusion[0] = np.eye(N_CLASSES) + random.random((N_CLASSES, N_CLASSES)) / 4
    confusion /= confusion.sum(axis=2, keepdims=True)
    prevalence = np.full(N_CLASSES, 1 / N_CLASSES)
    share = np.full(N_WORKERS, OBSERVED)
    share[:2] = OF_DESIGNATED
    labels = exact_pairs.labels_of(confusion, prevalence, n_items, random, observed=share)
    return labels, confusion[np.asarray(labels.workers, int)], prevalence


def half_missing(pairs: Cooccurrence, designated: tuple[int, ...], seed: int) -> Cooccurrence:
    """Half of the pairs are taken away, those of the designated workers excepted."""
    kept = np.random.default_rng(seed).random(pairs.n_pairs) < 0.5
    kept |= np.isin(pairs.first, designated) | np.isin(pairs.second, designated)
    return Cooccurrence(pairs.first[kept], pairs.second[kept], pairs.count[kept], pairs.label_count, pairs.n_classes)


def best_order_of_each(confusion: np.ndarray, estimate: Estimate) -> Estimate:
    """Every worker's classes in the order nearest to the truth, which only a simulation knows."""
    found = estimate.confusion.copy()
    for worker, table in enumerate(found):
        cost = ((confusion[worker][:, None] - table[None]) ** 2).sum(axis=2)
        found[worker] = table[linear_sum_assignment(cost)[1]]
    return estimate._replace(confusion=found)


def estimates(labels: Any, pairs: Cooccurrence, confusion: np.ndarray) -> dict[str, Estimate]:
    """Every estimator on one crowd."""
    workers = np.asarray(labels.workers, int)
    designated = tuple(np.flatnonzero(workers < 2).tolist())
    apart = multispa(labels, pairs=pairs)
    common = multispa(labels, pairs=pairs, align="cooccurrence")
    found = {
        "multispa, best order of each worker": best_order_of_each(confusion, apart),
        "multispa, aligned by common items": common,
        "multispa-kl": multispa_kl(labels, pairs=pairs, start=common, prior=0.0, max_iter=100),
        "symnmf, designated": symnmf(labels, pairs=pairs, imputation="designated", designated=designated),
        "symnmf, robust": symnmf(labels, pairs=pairs),
    }
    return found | {"any + 10 passes of EM": polished(labels, found["multispa-kl"], 10)}


def errors(
    n_items: int, trials: int, *, half: bool = False, say: Callable[[str], None] = lambda text: None
) -> dict[str, np.ndarray]:
    """Mean squared errors [trial] of every estimator, after one permutation for all workers."""
    found: dict[str, list[float]] = {}
    for seed in range(trials):
        labels, confusion, prevalence = crowd(n_items, seed)
        pairs = cooccurrence(labels)
        if half:
            workers = np.asarray(labels.workers, int)
            pairs = half_missing(pairs, tuple(np.flatnonzero(workers < 2).tolist()), seed)
        for name, estimate in estimates(labels, pairs, confusion).items():
            gap = exact_pairs.error(confusion, prevalence, estimate.confusion, estimate.prevalence)
            found.setdefault(name, []).append(gap)
        say(f"{n_items} items, trial {seed + 1} of {trials}")
    return {name: np.asarray(values) for name, values in found.items()}
