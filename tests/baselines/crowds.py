"""Simulated crowds, and statistics of theirs by loops, that tests of several baselines share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scoring import hits

import bayescrowd as bc


def coins(seed, n_items, per_item, right, n_classes):
    """One-coin workers, picked at random for each item."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_items)
    n_workers = len(right)
    worker = np.concatenate([random.choice(n_workers, per_item, replace=False) for _ in range(n_items)])
    item = np.repeat(np.arange(n_items), per_item)
    step = np.where(random.random(len(item)) < right[worker], 0, random.integers(1, n_classes, len(item)))
    label = (truth[item] + step) % n_classes
    return bc.CrowdLabels.from_codes(
        item, worker, label, items=n_items, workers=n_workers, classes=n_classes, truth=dict(enumerate(truth.tolist()))
    )


def correlations(labels):
    """Chance-corrected agreement and common items of all pairs, by loops."""
    n, k = labels.n_workers, labels.n_classes
    said = [
        dict(zip(labels.item_code[labels.worker_code == w], labels.label_code[labels.worker_code == w], strict=True))
        for w in range(n)
    ]
    common, agree = np.zeros((n, n)), np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            both = set(said[a]) & set(said[b]) if a != b else set()
            common[a, b] = len(both)
            agree[a, b] = sum(said[a][i] == said[b][i] for i in both)
    share = agree / np.where(common > 0, common, 1)
    return common, np.where(common > 0, (k * share - 1) / (k - 1), 0.0)


def neighbours(seed, n_items, n_workers, per_item, right, n_classes=2):
    """Items labelled by random workers who are right with the probabilities given, else name a neighbour."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_items)
    rows = []
    for item in range(n_items):
        for worker in random.choice(n_workers, per_item, replace=False):
            step = 1 if truth[item] == 0 else -1 if truth[item] == n_classes - 1 else random.choice([-1, 1])
            rows.append((item, worker, int(truth[item] + (0 if random.random() < right[worker] else step))))
    return bc.CrowdLabels.from_codes(
        *np.array(rows).T, items=n_items, workers=n_workers, classes=n_classes, truth=dict(enumerate(truth.tolist()))
    )


def answers_of(labels, threshold=0):
    answers = np.zeros((labels.n_items, labels.n_workers))
    answers[labels.item_code, labels.worker_code] = np.where(labels.label_code > threshold, 1, -1)
    return answers


def confused(n_items, n_workers, n_classes=3, labels_per_item=5, prevalence=None, seed=1):
    """Labels of workers who confuse classes, with the matrices by which they do."""
    random = np.random.default_rng(seed)
    confusion = random.dirichlet(np.ones(n_classes), size=(n_workers, n_classes)) + 3 * np.eye(n_classes)
    confusion /= confusion.sum(axis=2, keepdims=True)
    truth = random.choice(n_classes, n_items, p=prevalence)
    worker = np.array([random.choice(n_workers, labels_per_item, replace=False) for _ in range(n_items)])
    drawn = random.random(worker.shape)[..., None]
    label = (drawn > confusion[worker, truth[:, None]].cumsum(axis=2)[..., :-1]).sum(axis=2)
    frame = pd.DataFrame(
        {
            "item": np.repeat(np.arange(n_items), labels_per_item),
            "worker": worker.ravel(),
            "label": label.ravel(),
            "truth": np.repeat(truth, labels_per_item),
        }
    )
    names = {"item": "item", "worker": "worker", "label": "label", "truth": "truth"}
    labels = bc.CrowdLabels.from_long(frame, **names, classes=range(n_classes))
    return labels, confusion[labels.workers]


def skilled():
    """Three good workers among nine, four labels of each of 600 items."""
    random = np.random.default_rng(0)
    truth = random.integers(2, size=600)
    item = np.repeat(np.arange(600), 4)
    worker = np.concatenate([random.choice(9, 4, replace=False) for _ in range(600)])
    right = np.array([0.95, 0.95, 0.95, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6])
    label = np.where(random.random(2400) < right[worker], truth[item], 1 - truth[item])
    return bc.CrowdLabels.from_codes(item, worker, label, classes=2, truth=dict(enumerate(truth.tolist())))


def errors(fit, labels):
    """Percent wrong with ties shared, and as published code has it, where an item of score zero has the last class."""
    probability, truth = fit.class_probabilities(), labels.truth.dropna()
    shared = 100 * (1 - hits(probability, truth))
    lead = probability.loc[truth.index].to_numpy()[:, ::-1].argmax(axis=1)
    return shared, 100 * float((probability.columns.to_numpy()[::-1][lead] != truth.to_numpy()).mean())
