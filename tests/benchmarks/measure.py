"""What a cell needs while it is measured: a clock with a cap, peak memory, compilations, one common log likelihood."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

MB = 1e6


def peak_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MB if sys.platform == "darwin" else peak * 1024 / MB


class Clock:
    """Wall time from `with` to its end, lap by lap; past the cap it writes what is known and ends the process.

    Laps, peak memory and anything put into `facts` end up in the cell's record.
    """

    def __init__(self, out: str, cap: float) -> None:
        self.out, self.cap = out, cap
        self.laps: dict[str, float] = {}
        self.facts: dict[str, Any] = {}
        self.seconds = 0.0
        self.known_when_capped: Any = dict
        self._timer = threading.Timer(cap, self._give_up)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self.facts["base_mb"] = peak_mb()
        self._timer.start()
        self._begun = self._last = time.perf_counter()
        self._cpu = time.process_time()
        return self

    def lap(self, name: str) -> float:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
        return self.laps[name]

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._begun
        self.facts["cpu_seconds"] = time.process_time() - self._cpu
        self._timer.cancel()
        # Read before anything else is computed: the judging that follows is not part of the work.
        self.facts["peak_mb"] = peak_mb()

    def _give_up(self) -> None:
        self.seconds = self.cap
        self.facts["cpu_seconds"] = time.process_time() - self._cpu
        self.facts["peak_mb"] = peak_mb()
        self.write(capped=True, **self.known_when_capped())
        os._exit(0)

    def write(self, **facts: Any) -> None:
        record = {"seconds": self.seconds, "laps": self.laps, **self.facts, **facts}
        Path(self.out).write_text(json.dumps(record, default=float), encoding="utf-8")


class Compilations:
    """Counts XLA compilations and their seconds from the moment it is made."""

    def __init__(self) -> None:
        import jax.monitoring

        self.count, self.seconds = 0, 0.0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, seconds: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.count += 1
            self.seconds += seconds


def log_likelihood(
    item: np.ndarray, worker: np.ndarray, label: np.ndarray, prevalence: np.ndarray, confusion: np.ndarray
) -> float:
    """Dawid-Skene log likelihood of a label table, classes summed out, in plain NumPy: one judge for all tools.

    `prevalence` [class], `confusion` [worker, class, label]; codes count from 0.
    """
    n_items = int(item.max()) + 1
    with np.errstate(divide="ignore"):
        table = np.log(np.maximum(confusion, 1e-300))
        joint = [
            np.log(share) + np.bincount(item, table[worker, code, label], n_items)
            for code, share in enumerate(prevalence)
            if share > 0
        ]
    stacked = np.stack(joint)
    top = stacked.max(axis=0)
    return float((top + np.log(np.exp(stacked - top).sum(axis=0))).sum())


def smallest_ess(posterior: Any) -> tuple[float, float]:
    """Smallest bulk effective sample size and largest R-hat of all parameters (constants, such as NaN, left out)."""
    import arviz_stats

    sizes = [np.asarray(values) for values in arviz_stats.ess(posterior, method="bulk").data_vars.values()]
    hats = [np.asarray(values) for values in arviz_stats.rhat(posterior).data_vars.values()]
    return float(min(np.nanmin(value) for value in sizes)), float(max(np.nanmax(value) for value in hats))
