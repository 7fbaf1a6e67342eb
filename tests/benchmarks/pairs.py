"""Pair statistics and moment estimators: seconds, compiling included and not, and memory."""

from __future__ import annotations

import time
import warnings
from typing import Any

from benchmarks.measure import Clock
from benchmarks.tables import LabelTable


def _labels(table: LabelTable) -> Any:
    import bayescrowd as bc

    return bc.CrowdLabels.from_codes(table.item, table.worker, table.label, classes=table.n_classes)


def count(clock: Clock, table: LabelTable) -> dict[str, Any]:
    """Pair statistics alone."""
    from bayescrowd.moments.cooccurrence import cooccurrence

    labels = _labels(table)
    with clock:
        begun = time.perf_counter()
        pairs = cooccurrence(labels)
        seconds = time.perf_counter() - begun
    return {"first_seconds": seconds, "pairs": pairs.n_pairs}


def estimate(clock: Clock, table: LabelTable, *, engine: str, **options: Any) -> dict[str, Any]:
    """A fit from labels in memory, twice in one process."""
    import bayescrowd as bc

    labels = _labels(table)
    seconds = []
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            begun = time.perf_counter()
            fit = bc.fit(labels, "dawid-skene", engine=engine, progress=False, **options)
            probability = fit.class_probabilities()
            seconds.append(time.perf_counter() - begun)
    accuracy = table.accuracy(probability.to_numpy().argmax(axis=1))
    return {"first_seconds": seconds[0], "second_seconds": seconds[1], "accuracy": accuracy}
