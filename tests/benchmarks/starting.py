"""Cold starts and recompilation."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Clock, Compilations
from benchmarks.tables import LabelTable


def _fastest(command: list[str], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def process(clock: Clock, table: None, *, code: str, repeats: int = 5) -> dict[str, Any]:
    """Wall time of a whole Python process that runs some code (or the command line, for code "--version")."""
    del table
    beside = Path(sys.executable).with_name("bayescrowd")
    command = [str(beside)] if beside.is_file() else [sys.executable, "-m", "bayescrowd"]
    command = [*command, code] if code == "--version" else [sys.executable, "-c", code]
    with clock:
        seconds = _fastest(command, repeats)
        bare = _fastest([sys.executable, "-c", "pass"], repeats)
    return {"process_seconds": seconds, "bare_seconds": bare}


def recompile(clock: Clock, table: None, *, fits: int = 50, engine: str = "em", **options: Any) -> dict[str, Any]:
    """Fits of 50 x 5 tables with different numbers of labels, one after another in one process."""
    del table
    import bayescrowd as bc

    compilations = Compilations()
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 50)
    seconds, compiled = [], []
    with clock:
        for _ in range(fits):
            said = random.random((50, 5)) < random.uniform(0.7, 1.0)
            said[:, 0] = True
            right = random.random((50, 5)) < 0.8
            label = np.where(right, truth[:, None], random.integers(0, 3, (50, 5)))
            item, worker = np.nonzero(said)
            before, begun = compilations.count, time.perf_counter()
            labels = bc.CrowdLabels.from_codes(item, worker, label[said], items=50, workers=5, classes=3)
            bc.fit(labels, "dawid-skene", engine=engine, progress=False, **options)
            seconds.append(time.perf_counter() - begun)
            compiled.append(compilations.count - before)
    later = seconds[1:]
    return {
        "first_seconds": seconds[0],
        "second_seconds": seconds[1],
        "median_later": float(np.median(later)),
        "largest_later": max(later),
        "compilations_first": compiled[0],
        "compilations_later": sum(compiled[1:]),
        "compile_seconds": compilations.seconds,
        "every": seconds,
    }


def peak(clock: Clock, table: LabelTable, *, engine: str = "em", **options: Any) -> dict[str, Any]:
    """Peak memory of a fit from codes."""
    import warnings

    import bayescrowd as bc

    bc.fit  # noqa: B018 - loads everything that a fit needs
    labels = bc.CrowdLabels.from_codes(table.item, table.worker, table.label, classes=table.n_classes)
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        fit = bc.fit(labels, "dawid-skene", engine=engine, progress=False, **options)
        fit.class_probabilities()
    n_workers, states = int(table.worker.max()) + 1, table.n_classes
    return {"cells": (len(table.item) + len(table.truth) + n_workers * states) * states}
