"""Intervals for engines without draws: resample the items, fit again, look at the spread."""

import dataclasses

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.arguments import check_refits
from bayescrowd.decisions.workers import WorkerScores, score_tables
from bayescrowd.errors import EngineError
from bayescrowd.inference import get as get_engine
from bayescrowd.inference import names as engine_names
from bayescrowd.inference.base import Job, sizes_of
from bayescrowd.inference.progress import reporter
from bayescrowd.results.tree import json_attribute, labels_of, model_of, start_of

__all__ = ["refit_scores"]


def refit_scores(tree: xr.DataTree, n_refits: int, seed: int) -> WorkerScores:
    """Fit resampled items by the same engine and score the workers in each fit.

    Items are drawn with replacement, with all their labels; each refit starts from the class probabilities of the fit,
    which keeps the names of the classes.

    Parameters
    ----------
    tree : DataTree
        A result of an engine without draws.
    n_refits : int
        How many.
    seed : int
        Seed of the resampling.

    Returns
    -------
    WorkerScores
        By refit and worker.

    Raises
    ------
    EngineError
        For fewer than two refits, and for baselines.

    References
    ----------
    Efron, Tibshirani (1993), An Introduction to the Bootstrap.
    """
    n_refits = check_refits(n_refits)
    name = str(tree.attrs["engine"])
    if name not in engine_names():
        raise EngineError(
            f"{name} is no engine, so it is not refitted to resampled items: fit with engine='em' and ask for "
            "workers(bootstrap=200)"
        )
    engine = get_engine(name)
    options = json_attribute(tree, "settings")
    # One start is enough: it is the optimum that the fit found.
    settings = engine.settings(**(options | ({"starts": 1} if "starts" in options else {})))
    model, labels = model_of(tree), labels_of(tree)
    start = start_of(tree)
    random = np.random.default_rng(seed)
    found = []
    with reporter(False) as silent:
        for _ in range(n_refits):
            chosen = random.integers(labels.n_items, size=labels.n_items)
            again = _resample(labels, chosen)
            run = engine.run(Job(model, again, start[chosen], settings, int(random.integers(2**31)), silent))
            points = run.points or {}
            table = np.asarray(
                points["confusion"] if "confusion" in points else model.confusion(points, sizes_of(again))
            )
            by_item = run.state_probability.reshape(labels.n_items, model.n_levels, -1)
            prevalence = np.asarray(points.get("prevalence", by_item.sum(1).mean(0)))
            if model.n_levels > 1:
                shares = points.get("difficulty_prevalence", by_item.sum(2).mean(0))
                table = np.einsum("h,khcl->kcl", shares, table)
            found.append(score_tables(table[None], prevalence[None]))
    return WorkerScores(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _resample(labels: CrowdLabels, chosen: np.ndarray) -> CrowdLabels:
    """Take the chosen items with all their labels, as items of their own."""
    order = np.argsort(labels.item_code, kind="stable")
    degree = np.bincount(labels.item_code, minlength=labels.n_items)
    first = np.concatenate([[0], np.cumsum(degree)])
    count = degree[chosen]
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    rows = order[np.repeat(first[chosen], count) + offset]
    return dataclasses.replace(
        labels,
        items=pd.RangeIndex(len(chosen)),
        item_code=np.repeat(np.arange(len(chosen), dtype=np.int32), count),
        worker_code=labels.worker_code[rows],
        label_code=labels.label_code[rows],
        weight=None if labels.weight is None else labels.weight[rows],
        gold_code=labels.gold_code[chosen],
        truth=None,
        patterns=None,
    )
