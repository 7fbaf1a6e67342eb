"""One method on one real label set: its class probabilities, and how good they are against the known truth."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FLOOR = 1e-6
"""Smallest probability in log losses, so that one wrong certainty does not decide them."""

N_BINS = 15
N_ENTRIES = 100
"""Confusion entries whose effective sample size is looked at."""


class Judged(NamedTuple):
    """A label set as this benchmark uses it: equal rows dropped, truth apart."""

    labels: Any
    truth: np.ndarray  # code of the true class by item; -1 unknown, -2 a value that no label has


def read(folder: Path, subset: str | None = None) -> Judged:
    """Read a set, or the part of it that a paper used."""
    import pandas as pd

    import bayescrowd as bc

    frame = pd.read_csv(folder / "labels.csv", dtype=str, keep_default_na=False)
    if subset is not None:
        frame = SUBSETS[subset](frame, pd.read_csv(folder / "truth.csv", dtype=str, keep_default_na=False))
    known = pd.read_csv(folder / "truth.csv", dtype=str, keep_default_na=False)
    known = known.drop_duplicates("item").set_index("item")["label"]
    how = {"item": "item", "worker": "worker", "label": "label", "duplicates": "drop-identical"}
    labels = bc.CrowdLabels.from_long(frame, **how)
    codes = labels.classes.get_indexer(known)
    codes = pd.Series(np.where(codes < 0, -2, codes), index=known.index)
    return Judged(labels, codes.reindex(labels.items, fill_value=-1).to_numpy(int))


def _first_30_workers(frame: Any, truth: Any) -> Any:
    return frame[frame["worker"].isin(frame["worker"].drop_duplicates()[:30])]


def _52_busiest_workers(frame: Any, truth: Any) -> Any:
    counts = frame.drop_duplicates(["item", "worker", "label"])["worker"].value_counts(sort=False)
    return frame[frame["worker"].isin(counts.sort_values(ascending=False, kind="stable").index[:52])]


def _76_workers_on_items_with_truth(frame: Any, truth: Any) -> Any:
    frame = frame[frame["item"].isin(truth["item"])]
    counts = frame["worker"].value_counts()
    return frame[frame["worker"].isin(counts.index[counts >= 30])]


SUBSETS: dict[str, Callable[[Any, Any], Any]] = {
    "first 30 workers": _first_30_workers,
    "52 busiest workers": _52_busiest_workers,
    "workers with 30 labels or more on items with truth": _76_workers_on_items_with_truth,
}
"""What papers took of a set: its rows and its truth -> rows."""


def scores(probability: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Judge class probabilities [item, class] by the items with known truth.

    Ties share the error evenly. Calibration: the mean over 15 bins, equal in number of items, of the distance between
    the mean probability of the most probable class and how often it is right.
    """
    known = truth != -1
    table, true = probability[known], truth[known]
    one_hot = np.arange(table.shape[1]) == true[:, None]
    top = table.max(axis=1)
    right = hits(table, true)
    of_truth = (table * one_hot).sum(axis=1)
    order = np.argsort(top, kind="stable")
    bins = np.array_split(order, min(N_BINS, len(order)))
    distance = sum(len(one) * abs(top[one].mean() - right[one].mean()) for one in bins) / len(order)
    return {
        "error": 1 - right.mean(),
        "log_loss": -np.log(np.maximum(of_truth, FLOOR)).mean(),
        "brier": ((table - one_hot) ** 2).sum(axis=1).mean(),
        "calibration_error": distance,
    }


def majority(labels: Any) -> np.ndarray:
    """Shares of the votes [item, class]; even shares for an item without votes for a class."""
    votes = np.zeros((labels.n_items, labels.n_classes))
    inside = labels.label_code < labels.n_classes
    np.add.at(votes, (labels.item_code[inside], labels.label_code[inside]), 1.0)
    total = votes.sum(axis=1, keepdims=True)
    return np.where(total > 0, votes / np.maximum(total, 1), 1 / labels.n_classes)


def hits(table: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Whether the leading class of each item is the true one; ties share evenly."""
    leads = table >= table.max(axis=1, keepdims=True) - 1e-9
    return (leads & (np.arange(table.shape[1]) == true[:, None])).sum(axis=1) / leads.sum(axis=1)


def smallest_ess(fit: Any) -> float:
    """Smallest bulk effective sample size of prevalences, difficulty proportions and some confusion entries.

    Levels that could change places are made alike first: proportions sorted, confusion averaged over the levels.
    """
    import arviz_stats
    import xarray as xr

    posterior = {name: np.asarray(values) for name, values in fit.idata["posterior"].dataset.data_vars.items()}
    looked = {"prevalence": posterior["prevalence"]}
    shares = posterior.get("difficulty_prevalence")
    confusion = posterior["free_confusion" if "free_confusion" in posterior else "confusion"]
    random = np.random.default_rng(0)
    if shares is not None:
        looked["difficulty"] = np.sort(shares, axis=2) if "confusion" in posterior else shares
    if shares is not None and "confusion" in posterior:
        n_workers, _, n_classes, n_labels = confusion.shape[2:]
        chosen = random.permutation(n_workers * n_classes * n_labels)[:N_ENTRIES]
        worker, true, label = np.unravel_index(chosen, (n_workers, n_classes, n_labels))
        picked = np.stack([confusion[:, :, k, :, c, given] for k, c, given in zip(worker, true, label, strict=True)])
        looked["confusion"] = np.moveaxis((picked * shares).sum(axis=-1), 0, -1)
    else:
        flat = confusion.reshape(*confusion.shape[:2], -1)
        looked["confusion"] = flat[:, :, random.permutation(flat.shape[2])[:N_ENTRIES]]
    values = np.concatenate(list(looked.values()), axis=2)
    found = arviz_stats.ess(xr.Dataset({"value": (("chain", "draw", "entry"), values)}), method="bulk")
    return float(np.nanmin(np.asarray(found["value"])))


def ours(
    data: Judged, model: str | None, engine: str | None, options: dict[str, Any], fitted: Callable[[], None]
) -> dict[str, Any]:
    """`bayescrowd.fit`, and for Markov chains the smallest effective sample size."""
    import bayescrowd as bc
    from benchmarks.measure import Compilations

    chosen = {name: value for name, value in (("model", model), ("engine", engine)) if value is not None}
    compilations = Compilations()
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit(data.labels, progress=False, **chosen, **options)
        probability = fit.class_probabilities().to_numpy()
    seconds = time.perf_counter() - begun
    fitted()
    attributes = fit.idata.attrs
    record = {
        "seconds": seconds,
        "compile_seconds": compilations.seconds,
        "model": str(attributes["model"]),
        "engine": fit.engine,
        "converged": fit.converged,
        "interrupted": str(attributes["status"]) == "interrupted",
        "status": str(attributes["status_sentence"]),
        **scores(probability, data.truth),
    }
    if attributes.get("draws_are") == "markov-chains" and fit.idata["posterior"].sizes["draw"] >= 4:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record["smallest_ess"] = smallest_ess(fit)
        record["draws"] = fit.idata["posterior"].sizes["draw"]
        record["ess_per_second"] = record["smallest_ess"] / seconds
    return record


def peers(data: Judged, method: str) -> dict[str, Any]:
    """A method of crowd-kit with its default settings."""
    import crowdkit.aggregation
    import pandas as pd

    labels = data.labels
    frame = labels.to_frame()[["item", "worker", "label"]].astype(str)
    frame.columns = ["task", "worker", "label"]
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        aggregator = getattr(crowdkit.aggregation, method)()
        if hasattr(aggregator, "fit_predict_proba"):
            found = aggregator.fit_predict_proba(frame)
        else:
            found = pd.get_dummies(aggregator.fit_predict(frame)).astype(float)
    seconds = time.perf_counter() - begun
    table = found.reindex(index=labels.items, columns=labels.classes).fillna(0.0).to_numpy(float)
    return {"seconds": seconds, "converged": None, **scores(table, data.truth)}


def of_table(data: Judged, given: dict[str, Any], fitted: Callable[[], None]) -> dict[str, Any]:
    """A row of the papers' tables: errors of several seeds, an interval by the bootstrap, seconds cold and warm."""
    import bayescrowd as bc

    model = given.get("model")
    if isinstance(model, dict):
        model = getattr(bc, model["class"])(**model["priors"])
    seeds = given.get("seeds") or ([None] if given.get("once") else [None, None])
    tables, seconds, ended = [], [], []
    for seed in seeds:
        options = given.get("options", {}) | ({} if seed is None else {"seed": seed})
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if "baseline" in given:
                    fit = getattr(bc.baselines, given["baseline"])(data.labels, **options)
                else:
                    fit = bc.fit(data.labels, model, progress=False, **options)
            except bc.EngineError as error:
                return {"refused": str(error).splitlines()[0], "seconds": time.perf_counter() - begun}
            tables.append(fit.class_probabilities().to_numpy())
        seconds.append(time.perf_counter() - begun)
        ended.append(fit.converged)
    fitted()
    known = data.truth != -1
    right = np.mean([hits(table[known], data.truth[known]) for table in tables], axis=0)
    random = np.random.default_rng(0)
    shares = [right[random.integers(len(right), size=len(right))].mean() for _ in range(2000)]
    low, high = np.quantile(shares, [0.025, 0.975])
    errors = [scores(table, data.truth)["error"] for table in tables]
    return {
        "seconds": seconds[0],
        "seconds_again": min(seconds[1:], default=None),
        "converged": False if False in ended else None if None in ended else True,
        "interrupted": str(fit.idata.attrs["status"]) == "interrupted",
        **scores(tables[0], data.truth),
        "error": float(np.mean(errors)),
        "error_low": 1 - high,
        "error_high": 1 - low,
        "errors": errors if seeds[0] is not None else errors[:1],
        "n_items": data.labels.n_items,
        "n_workers": data.labels.n_workers,
        "n_truth": int(known.sum()),
    }


def judge(data: Judged, given: dict[str, Any], fitted: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run one method; `fitted` is called where only the judging is left."""
    if given["kind"] == "majority":
        begun = time.perf_counter()
        probability = majority(data.labels)
        seconds = time.perf_counter() - begun
        labels = data.labels
        sizes = {"n_items": labels.n_items, "n_workers": labels.n_workers, "n_classes": labels.n_classes}
        sizes |= {"n_labels": labels.n_annotations, "n_truth": int((data.truth != -1).sum())}
        return {"seconds": seconds, "converged": None, **sizes, **scores(probability, data.truth)}
    if given["kind"] == "table":
        return of_table(data, given, fitted)
    if given["kind"] == "peer":
        return peers(data, given["method"])
    return ours(data, given.get("model"), given.get("engine"), given.get("options", {}), fitted)


def work(job: dict[str, Any]) -> None:
    """Do several methods on one set, a line per record; past its cap a method is interrupted, at last ended."""
    # A process that was started in the background may have come with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = Path(job["out"])

    def write(record: dict[str, Any]) -> None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, default=float) + "\n")

    data = read(Path(job["folder"]), job.get("subset"))
    import jax

    import bayescrowd as bc

    bc.fit  # noqa: B018 - loads everything that a fit needs
    if any(given["kind"] == "peer" for given in job["jobs"]):
        import crowdkit.aggregation  # noqa: F401
    for given in job["jobs"]:
        jax.clear_caches()
        cap = given["cap"]

        def give_up(cap: float = cap) -> None:
            write({"seconds": cap, "capped": True})
            os._exit(0)

        timers = [
            threading.Timer(cap, os.kill, (os.getpid(), signal.SIGINT)),
            threading.Timer(cap + job["grace"], give_up),
        ]
        for timer in timers:
            timer.daemon = True
        try:
            for timer in timers:
                timer.start()
            record = judge(data, given, timers[0].cancel)
        except KeyboardInterrupt:
            record = {"seconds": cap, "capped": True}
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs on the page
            record = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        finally:
            for timer in timers:
                timer.cancel()
        write(record)
