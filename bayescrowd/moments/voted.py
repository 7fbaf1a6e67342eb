"""Classes that nobody votes for take no part: moments cannot tell a class without labels from a copy of another."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.data.votes import votes
from bayescrowd.moments.cooccurrence import Cooccurrence
from bayescrowd.moments.estimate import Estimate

__all__ = ["on_voted_classes"]


class _Voted:
    """A label table in which classes that nobody votes for are label values, not classes."""

    def __init__(self, labels: Table, voted: np.ndarray) -> None:
        n_classes, n_labels = len(labels.classes), len(labels.label_values)
        self.order = np.concatenate([np.flatnonzero(voted), np.flatnonzero(~voted), np.arange(n_classes, n_labels)])
        place = np.argsort(self.order)
        self.item_code, self.worker_code, self.weight = labels.item_code, labels.worker_code, labels.weight
        self.label_code = place[labels.label_code].astype(np.int32)
        self.gold_code = np.where(labels.gold_code >= 0, place[labels.gold_code], -1).astype(np.int32)
        self.n_items, self.n_workers = labels.n_items, labels.n_workers
        self.classes = [labels.classes[k] for k in np.flatnonzero(voted)]
        self.label_values = [labels.label_values[k] for k in self.order]


def on_voted_classes(estimator: Callable[..., Estimate]) -> Callable[..., Estimate]:
    """Let an estimator see the classes that somebody votes for (or gold names); give the others a prevalence of zero.

    Parameters
    ----------
    estimator : callable
        (labels, **options) -> Estimate.

    Returns
    -------
    callable
        The same for any label table. Their confusion rows are even: nothing is known of them.
    """

    @functools.wraps(estimator)
    def wrapped(labels: Table, **options: Any) -> Estimate:
        known = labels.gold_code[labels.gold_code >= 0]
        voted = votes(labels).sum(axis=0) > 0
        voted[known] = True
        if voted.all() or not voted.any():
            return estimator(labels, **options)
        part = _Voted(labels, voted)
        pairs = options.get("pairs")
        if pairs is not None:
            count = pairs.count[:, part.order][:, :, part.order]
            more = (pairs.label_count[:, part.order], int(voted.sum()), pairs.n_dropped)
            options["pairs"] = Cooccurrence(pairs.first, pairs.second, count, *more)
        start = options.get("start")
        if start is not None:
            kept = start.prevalence[voted]
            options["start"] = start._replace(
                confusion=start.confusion[:, voted][:, :, part.order], prevalence=kept / max(float(kept.sum()), 1e-300)
            )
        found = estimator(part, **options)
        n_classes, n_labels = len(labels.classes), len(labels.label_values)
        confusion = np.full((labels.n_workers, n_classes, n_labels), 1 / n_labels)
        prevalence = np.zeros(n_classes)
        confusion[np.ix_(np.arange(labels.n_workers), np.flatnonzero(voted), part.order)] = found.confusion
        prevalence[voted] = found.prevalence
        return found._replace(confusion=confusion, prevalence=prevalence)

    return wrapped
