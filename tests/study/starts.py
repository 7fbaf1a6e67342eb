"""Which start leads EM to the best optimum, where majority vote is wrong for a whole class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from moments import exact_pairs

import bayescrowd as bc

STARTS = ("majority", "random", "multispa", "multispa-kl", "symnmf")
N_ITEMS, N_WORKERS, N_CLASSES = 1500, 15, 3
AS_GOOD = 1e-6
"""Objectives within this fraction of the best one count as the best optimum."""


def crowd(seed: int) -> Any:
    """Most workers take the third class for the second; a few specialists know it."""
    random = np.random.default_rng(seed)
    confusion = np.empty((N_WORKERS, N_CLASSES, N_CLASSES))
    for worker in range(N_WORKERS):
        skill = random.uniform(0.6, 0.85)
        confusion[worker] = skill * np.eye(N_CLASSES) + (1 - skill) / N_CLASSES
        confusion[worker, 2] = [0.1, 0.65, 0.25] if worker >= 4 else [0.05, 0.05, 0.9]
        confusion[worker, 2] += random.uniform(0, 0.1, N_CLASSES)
    confusion /= confusion.sum(axis=2, keepdims=True)
    return exact_pairs.labels_of(confusion, np.array([0.4, 0.3, 0.3]), N_ITEMS, random, observed=0.4)


def compare(seeds: int, say: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, float]]:
    """Start -> how often EM reaches the best optimum, and how often it is right there."""
    best, right = np.zeros((len(STARTS), seeds)), np.zeros((len(STARTS), seeds))
    for seed in range(seeds):
        labels = crowd(seed)
        for place, start in enumerate(STARTS):
            noise = np.random.default_rng(seed).dirichlet(np.ones(N_CLASSES), labels.n_items)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                init = noise if start == "random" else start
                fit = bc.fit(labels, bc.DawidSkene(), engine="em", init=init, progress=False)
            best[place, seed] = fit.idata["optimization"]["objective"].to_numpy()[-1]
            right[place, seed] = (fit.consensus()["class"] == labels.truth).mean()
        say(f"starts, crowd {seed + 1} of {seeds}")
    top = best.max(axis=0)
    reached = best >= top - AS_GOOD * np.abs(top)
    return {
        start: {"reached": float(reached[place].sum()), "accuracy": float(right[place].mean())}
        for place, start in enumerate(STARTS)
    }
