"""Recovery of simulated parameters from moments: the synthetic crowds of the papers' drivers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from moments import exact_pairs
from scipy.optimize import linear_sum_assignment

import bayescrowd as bc
from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.estimate import Estimate, decode
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


class Setting(NamedTuple):
    """What a simulated crowd is like."""

    prevalence: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)
    observed: float = OBSERVED
    spammers: float = 0.0
    skill: float = 0.0
    sparse: bool = False


SETTINGS = {
    "as above": Setting(),
    "a third are spammers": Setting(spammers=1 / 3),
    "prevalence .7, .2, .1": Setting((0.7, 0.2, 0.1)),
    "2 classes": Setting((0.5,) * 2),
    "5 classes, some skill": Setting((0.2,) * 5, skill=0.4),
    "10 classes, some skill": Setting((0.1,) * 10, skill=0.4),
    "everybody labels 10 %": Setting(observed=0.1, skill=0.4),
    "20 %": Setting(observed=0.2),
    "50 %": Setting(observed=0.5),
    "confusions with zeros": Setting(sparse=True),
    "zeros, 2 classes": Setting((0.5,) * 2, sparse=True),
    "zeros, 5 classes": Setting((0.2,) * 5, sparse=True),
    "zeros, prevalence .7, .2, .1": Setting((0.7, 0.2, 0.1), sparse=True),
}
"""With many classes or few labels, confusions at random tell next to nothing: there, workers have some skill. Where
confusions have no zeros second moments leave a rotation open, so KL's error need not go to zero."""


def crowd(n_items: int, seed: int, setting: Setting = SETTINGS["as above"]) -> tuple[Any, np.ndarray, np.ndarray]:
    """One good worker, the others with random confusions; everybody labels 30 % of the items, two of them 80 %."""
    random = np.random.default_rng(seed)
    prevalence = np.asarray(setting.prevalence)
    n_classes = len(prevalence)
    confusion = random.random((N_WORKERS, n_classes, n_classes))
    confusion[0] = np.eye(n_classes) + random.random((n_classes, n_classes)) / 4
    confusion /= confusion.sum(axis=2, keepdims=True)
    if setting.sparse:
        confusion[1:] = exact_pairs.sparse(N_WORKERS - 1, n_classes, random)
    confusion[1:] = setting.skill * np.eye(n_classes) + (1 - setting.skill) * confusion[1:]
    for worker in range(N_WORKERS - int(setting.spammers * N_WORKERS), N_WORKERS):
        confusion[worker] = confusion[worker, 0]  # the same answers, whatever the class
    share = np.full(N_WORKERS, setting.observed)
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


def rates(
    setting: Setting, sizes: tuple[int, ...], trials: int, say: Callable[[str], None] = lambda text: None
) -> dict[str, dict[str, np.ndarray]]:
    """Mean squared errors of statistically efficient methods run to the end: method -> errors [size, trial]."""
    found = {name: np.zeros((len(sizes), trials)) for name in ("multispa-kl", "em", "vb")}
    flat = bc.DawidSkene(confusion_prior=1.0, prevalence_prior=1.0)
    for row, n_items in enumerate(sizes):
        for seed in range(trials):
            labels, confusion, prevalence = crowd(n_items, seed, setting)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first = multispa_kl(labels, prior=0.0, max_iter=2000)
                found["multispa-kl"][row, seed] = exact_pairs.error(
                    confusion, prevalence, first.confusion, first.prevalence
                )
                start = decode(labels, first)  # run to the end, it is in the right basin
                for engine in ("em", "vb"):
                    fit = bc.fit(labels, flat, engine=engine, init=start, progress=False)
                    found[engine][row, seed] = exact_pairs.error(confusion, prevalence, *_parameters(fit))
        say(f"{n_items} items, {trials} trials")
    return found


def slope(sizes: Sequence[int], errors: Sequence[np.ndarray]) -> float:
    """Slope of the logarithm of the median error against the logarithm of the number of items."""
    return float(np.polyfit(np.log(sizes), np.log([np.median(row) for row in errors]), 1)[0])


def _parameters(fit: Any) -> tuple[np.ndarray, np.ndarray]:
    """Confusions and prevalence: the estimate, or posterior means."""
    if "point_estimate" in fit.idata.children:
        found = fit.idata["point_estimate"].dataset
    else:
        found = fit.idata["posterior"].dataset.mean(("chain", "draw"))
    return found["confusion"].to_numpy(), found["prevalence"].to_numpy()
