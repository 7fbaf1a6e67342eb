"""Exact pair statistics of given parameters, and how far an estimate is from them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import bayescrowd as bc
from bayescrowd.moments.cooccurrence import Cooccurrence


def pairs_of(confusion, prevalence, keep=None, n_items=1e12):
    """What infinitely many items would show; `keep` [worker, worker] says which pairs have common items."""
    n_workers, n_classes, _ = confusion.shape
    first, second = np.triu_indices(n_workers, 1)
    if keep is not None:
        first, second = first[keep[first, second]], second[keep[first, second]]
    rate = np.einsum("k,pka,pkb->pab", prevalence, confusion[first], confusion[second])
    own = n_items * np.einsum("k,wkl->wl", prevalence, confusion)
    return Cooccurrence(first.astype(np.int32), second.astype(np.int32), n_items * rate, own, n_classes)


def labels_of(confusion, prevalence, n_items, random, observed=1.0):
    """Labels drawn from the parameters, each given with probability `observed` (or one per worker); ids are codes."""
    n_workers, n_classes, n_labels = confusion.shape
    truth = random.choice(n_classes, n_items, p=prevalence)
    seen = random.random((n_items, n_workers)) < observed
    item, worker = np.nonzero(seen)
    cut = np.cumsum(confusion[worker, truth[item]], axis=1)
    label = np.minimum((random.random(len(item))[:, None] > cut).sum(axis=1), n_labels - 1)
    frame = pd.DataFrame({"item": item, "worker": worker, "label": label, "truth": truth[item]})
    return bc.CrowdLabels.from_long(
        frame,
        item="item",
        worker="worker",
        label="label",
        truth="truth",
        classes=list(range(n_classes)),
        labels=list(range(n_labels)),
    )


def error(confusion, prevalence, other, other_prevalence):
    """Mean squared error after one best permutation of the classes, over entries and the prevalence (section 7.3)."""
    cost = (
        np.einsum("wkl,wkl->k", confusion, confusion)[:, None]
        + np.einsum("wcl,wcl->c", other, other)[None]
        - 2 * np.einsum("wkl,wcl->kc", confusion, other)
        + (prevalence[:, None] - other_prevalence[None]) ** 2
    )
    row, column = linear_sum_assignment(cost)
    n_workers, n_classes, _ = confusion.shape
    return float(cost[row, column].sum() / (n_workers * n_classes + 1))


def error_by_worker(confusion, other):
    """Largest difference of an entry after each worker's own best permutation."""
    largest = 0.0
    for one, two in zip(confusion, other, strict=True):
        gap = np.abs(one[:, None] - two[None]).max(axis=2)
        row, column = linear_sum_assignment(gap)
        largest = max(largest, float(gap[row, column].max()))
    return largest


def separable(n_workers, n_classes, random):
    """Confusions in which some label of two workers is given for one class alone, for every class."""
    confusion = random.dirichlet(np.ones(n_classes), size=(n_workers, n_classes))
    for worker in range(2 * n_classes):
        sure = worker % n_classes
        others = [k for k in range(n_classes) if k != sure]
        table = random.dirichlet(np.ones(n_classes), size=n_classes)
        table[:, sure] = 0
        table /= table.sum(axis=1, keepdims=True)
        table[sure] = 0.3 / (n_classes - 1)
        table[sure, sure] = 0.7
        table[sure, others] = 0.3 / len(others)
        confusion[worker] = table
    return confusion


def sparse(n_workers, n_classes, random):
    """Confusions with many entries near zero."""
    return random.dirichlet(np.full(n_classes, 0.2), size=(n_workers, n_classes))
