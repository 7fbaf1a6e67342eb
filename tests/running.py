"""Run engines below the front door, on labels given as codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescrowd import inference
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import Job, Run
from bayescrowd.inference.starts import resolve

D1 = ["110", "000", "111", "010", "001"]
"""Five items a to e, three workers, two classes: the small example with exact answers."""


class Recorder:
    """A reporter that remembers; it can raise at a chosen update."""

    def __init__(self, raise_at: int | None = None, once_more: Any = None) -> None:
        self.tasks: list[tuple[str, int]] = []
        self.updates: list[tuple[int, str]] = []
        self.raise_at = raise_at
        self.ready = once_more or (
            lambda recorder: recorder.raise_at is not None and len(recorder.updates) >= recorder.raise_at
        )

    def start(self, task: str, total: int) -> None:
        self.tasks.append((task, total))

    def update(self, done: int, note: str = "") -> None:
        self.updates.append((done, note))
        if self.ready(self):
            raise KeyboardInterrupt

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def labels_of(
    patterns: list[str], *, classes: Any = None, names: str = "abcdefghijklmnopqrstuvwxyz", **more: Any
) -> CrowdLabels:
    """Labels from one text per item, one character per worker; a space is no label."""
    rows = [(i, k, int(c)) for i, text in enumerate(patterns) for k, c in enumerate(text) if c != " "]
    return of_rows(rows, classes=2 if classes is None else classes, items=list(names[: len(patterns)]), **more)


def of_rows(rows: Any, *, classes: Any = 2, gold: Any = None, **more: Any) -> CrowdLabels:
    """Labels from rows (item, worker, label) of codes; gold maps items to classes."""
    table = np.asarray(rows, int).reshape(-1, 3)
    if gold is not None:
        known = np.full(len(more["items"]) if "items" in more else int(table[:, 0].max()) + 1, -1)
        for item, value in gold.items():
            known[item] = value
        more["gold_code"] = known
    if "workers" not in more:
        more["workers"] = [f"w{k + 1}" for k in range(int(table[:, 1].max()) + 1)]
    return CrowdLabels.from_codes(*table.T, classes=classes, **more)


def run(
    labels: Any, model: Any, engine: str, *, init: Any = "majority", seed: int = 0, reporter: Any = None, **options: Any
) -> Run:
    """Run an engine as the front door does, without building a result tree."""
    chosen = inference.get(engine)
    settings = chosen.settings(**options)
    exact = inference.base.sizes_of(labels)
    model.check(exact)
    chosen.check(model, settings)
    return chosen.run(Job(model, labels, resolve(init, labels, model), settings, seed, reporter or Recorder()))
