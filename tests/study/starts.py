"""Which start leads EM to the best optimum, where majority vote is wrong for a whole class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from moments import exact_pairs

import bayescrowd as bc
from bayescrowd.inference.starts import majority

STARTS = ("majority", "random", "multispa", "multispa-kl", "symnmf")
N_WORKERS, N_CLASSES = 15, 3
KINDS = {
    "mild": {"n_items": 1500, "observed": 0.4, "n_experts": 4, "mistaken": (0.1, 0.65, 0.25)},
    "hard": {"n_items": 600, "observed": 0.3, "n_experts": 3, "mistaken": (0.05, 0.8, 0.15)},
}
"""How most workers answer where the third class is true, and how much there is to learn it from."""

AS_GOOD = 1e-6
"""Objectives within this fraction of the best one count as the best optimum."""


def crowd(seed: int, kind: str = "mild") -> Any:
    """Most workers take the third class for the second; a few experts know it."""
    how: dict[str, Any] = KINDS[kind]
    random = np.random.default_rng(seed)
    confusion = np.empty((N_WORKERS, N_CLASSES, N_CLASSES))
    for worker in range(N_WORKERS):
        skill = random.uniform(0.6, 0.85)
        confusion[worker] = skill * np.eye(N_CLASSES) + (1 - skill) / N_CLASSES
        confusion[worker, 2] = how["mistaken"] if worker >= how["n_experts"] else (0.05, 0.05, 0.9)
        confusion[worker, 2] += random.uniform(0, 0.1, N_CLASSES)
    confusion /= confusion.sum(axis=2, keepdims=True)
    prevalence = np.array([0.4, 0.3, 0.3])
    return exact_pairs.labels_of(confusion, prevalence, how["n_items"], random, observed=how["observed"])


def compare(
    seeds: int, kind: str = "mild", say: Callable[[str], None] = lambda text: None
) -> dict[str, dict[str, float]]:
    """Start -> how often EM reaches the best optimum, and how often it is right there."""
    votes = []
    best, right = np.zeros((len(STARTS), seeds)), np.zeros((len(STARTS), seeds))
    for seed in range(seeds):
        labels = crowd(seed, kind)
        truth = labels.truth.loc[labels.items].to_numpy()
        third = truth == 2
        votes.append((majority(labels)[third].argmax(axis=1) == 2).mean())
        for place, start in enumerate(STARTS):
            noise = np.random.default_rng(seed).dirichlet(np.ones(N_CLASSES), labels.n_items)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                init = noise if start == "random" else start
                fit = bc.fit(labels, bc.DawidSkene(), engine="em", init=init, progress=False)
            best[place, seed] = fit.idata["optimization"]["objective"].to_numpy()[-1]
            right[place, seed] = (fit.consensus()["class"] == labels.truth).mean()
        say(f"starts, {kind} crowd {seed + 1} of {seeds}")
    top = best.max(axis=0)
    vote = np.asarray(votes)
    reached = best >= top - AS_GOOD * np.abs(top)
    return {
        start: {
            "reached": float(reached[place].sum()),
            "accuracy": float(right[place].mean()),
            "vote": float(vote.mean()),
        }
        for place, start in enumerate(STARTS)
    }
