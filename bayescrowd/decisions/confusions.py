"""Confusion matrices of workers, read off a result tree."""

import difflib
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.decisions.arguments import check_interval
from bayescrowd.errors import LabelError, ModelError, shorten
from bayescrowd.results.tree import ids, parameter_group, title

__all__ = ["averaged", "confusion", "confusion_draws", "interval_bounds", "parameters_of", "position_of"]


def confusion(
    tree: xr.DataTree, worker: Hashable, *, interval: float | None = None, difficulty: str | None = None
) -> pd.DataFrame:
    """Give the confusion matrix of a worker: P(label | class).

    Parameters
    ----------
    tree : DataTree
        A result.
    worker : hashable
        The worker's id.
    interval : float, optional
        Also give equal-tailed intervals of this probability.
    difficulty : str, optional
        A level of difficulty; by default the levels are averaged by their share.

    Returns
    -------
    DataFrame [class, label]
        Rows sum to one. With ``interval`` the columns have a second level ``mean``, ``lower``, ``upper`` (NaN where the
        engine gives no draws).

    Raises
    ------
    LabelError
        For an unknown worker or level, or an interval that is no probability.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.fit(bc.datasets.load("anesthesia"), engine="em").confusion(1).round(2).loc[1, 1]
    np.float64(0.89)
    """
    bounds = None if interval is None else interval_bounds(interval)
    known = ids(tree, "worker")
    draws = confusion_draws(tree, [position_of(known, worker)], difficulty)[:, 0]
    classes, labels = ids(tree, "class"), ids(tree, "label")
    mean = pd.DataFrame(draws.mean(axis=0), index=classes, columns=labels)
    if bounds is None:
        return mean
    low, high = bounds
    if len(draws) > 1:
        lower, upper = np.quantile(draws, [low, high], axis=0)
    else:
        lower = upper = np.full(draws.shape[1:], np.nan)
    whole = np.stack([mean.to_numpy(), lower, upper], axis=-1).reshape(len(classes), -1)
    columns = pd.MultiIndex.from_product([labels, ["mean", "lower", "upper"]], names=["label", "statistic"])
    return pd.DataFrame(whole, index=classes, columns=columns)


def confusion_draws(tree: xr.DataTree, rows: Any, difficulty: str | None = None) -> np.ndarray:
    """Give the confusion matrices of some workers for every draw (one for point estimates).

    Parameters
    ----------
    tree : DataTree
        A result.
    rows : slice or sequence of int
        Positions of the workers.
    difficulty : str, optional
        A level of difficulty; by default the levels are averaged by their share.

    Returns
    -------
    array [sample, worker, class, label]
        Workers in the order of ``rows``.

    Raises
    ------
    LabelError
        For an unknown level.
    ModelError
        For a method without confusion matrices.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> confusion_draws(bc.fit(bc.datasets.load("anesthesia"), engine="em").idata, [4, 0]).shape
    (1, 2, 4, 4)
    """
    table, shares, _ = parameters_of(tree, rows)
    if difficulty is None:
        return averaged(table, shares)
    if table.ndim != 5:
        raise LabelError(
            f"difficulty={difficulty!r}: model {tree.attrs['model']!r} has no levels of difficulty; "
            f"leave the argument out"
        )
    names = list(ids(tree, "difficulty"))
    if difficulty not in names:
        raise LabelError(f"there is no difficulty level {difficulty!r}; the levels are {shorten(names, 10)}")
    level: np.ndarray = table[:, :, names.index(difficulty)]
    return level


def parameters_of(tree: xr.DataTree, rows: Any) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Read the tables that scores of workers are made of.

    Parameters
    ----------
    tree : DataTree
        A result.
    rows : slice or sequence of int
        Positions of the workers.

    Returns
    -------
    confusion : array [sample, worker, (difficulty,) class, label]
    shares : array [sample, difficulty] or None
        Of the levels of difficulty.
    prevalence : array [sample, class]

    Raises
    ------
    ModelError
        For a method without confusion matrices.
    """
    group = parameter_group(tree)
    dataset = tree[group].dataset
    if "confusion" not in dataset:
        raise ModelError(f"{title(tree)} gives no confusion matrices: fit a model that has them")

    def flat(name: str) -> np.ndarray:
        variable = dataset[name].isel(worker=rows) if "worker" in dataset[name].dims else dataset[name]
        array = variable.to_numpy()
        return array.reshape(-1, *array.shape[2:]) if group == "posterior" else array[None]

    table = flat("confusion").astype(float)
    latent = tree["latent"].dataset
    # Models that state no class shares of their own are scored by the shares of the items' classes.
    if "prevalence" in dataset and set(dataset["prevalence"].dims) <= {"chain", "draw", "class"}:
        prevalence = flat("prevalence").astype(float)
    else:
        prevalence = np.repeat(latent["class_probability"].to_numpy().mean(0)[None], len(table), axis=0)
    shares = None
    if table.ndim == 5:
        if "difficulty_prevalence" in dataset:
            shares = flat("difficulty_prevalence").astype(float)
        else:
            shares = np.repeat(latent["difficulty_probability"].to_numpy().mean(0)[None], len(table), axis=0)
    return table, shares, prevalence


def averaged(table: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
    """Average confusion matrices over the levels of difficulty.

    Parameters
    ----------
    table : array [sample, worker, (difficulty,) class, label]
        As `parameters_of` reads it.
    shares : array [sample, difficulty] or None
        Of the levels; None where there are none.

    Returns
    -------
    array [sample, worker, class, label]
    """
    return table if shares is None else np.einsum("sh,skhcl->skcl", shares, table)


def position_of(known: pd.Index, worker: Any) -> int:
    """Find a worker.

    Parameters
    ----------
    known : Index
        Ids of all workers.
    worker : hashable
        The worker's id.

    Returns
    -------
    int
        Its position.

    Raises
    ------
    LabelError
        For an unknown one; it names those that look alike.

    Examples
    --------
    >>> import pandas as pd
    >>> position_of(pd.Index(["ann", "bob"]), "bob")
    1
    """
    try:
        row = known.get_indexer(pd.Index([worker], tupleize_cols=False))[0]
    except (TypeError, ValueError):
        row = -1
    if row >= 0:
        return int(row)
    names = {str(value): value for value in known}
    lower = {name.lower(): value for name, value in names.items()}
    near = [lower[name] for name in difflib.get_close_matches(str(worker).lower(), lower, n=3)]
    if str(worker) in names:
        value = names[str(worker)]
        raise LabelError(
            f"there is no worker {worker!r} ({type(worker).__name__}), but there is {value!r} ({type(value).__name__})"
        )
    hint = f"did you mean {shorten(near)}?" if near else f"the workers are {shorten(known)}"
    raise LabelError(f"there is no worker {worker!r}; {hint}")


def interval_bounds(interval: float) -> tuple[float, float]:
    """Lower and upper quantile of an equal-tailed interval.

    Parameters
    ----------
    interval : float
        Its probability.

    Returns
    -------
    tuple of float
        Two quantiles.

    Raises
    ------
    LabelError
        Where it is not between 0 and 1.
    """
    interval = check_interval(interval)
    return (1 - interval) / 2, (1 + interval) / 2
