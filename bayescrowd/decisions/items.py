"""How difficult the items are: by the levels of a model, or quickly without one."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.votes import votes
from bayescrowd.decisions.consensus import by_pattern
from bayescrowd.errors import ModelError
from bayescrowd.inference import ability
from bayescrowd.results.tree import estimates_by, ids, n_labels_of, title, values
from bayescrowd.results.votes import leading, vote_shares

__all__ = ["items", "quick_difficulty"]


def items(tree: xr.DataTree, *, by: str = "item") -> pd.DataFrame:
    """Give the posterior probability of each difficulty level for each item.

    Parameters
    ----------
    tree : DataTree
        A result.
    by : {"item", "pattern"}
        One row per item, or one per response pattern (for labels from `CrowdLabels.from_counts`).

    Returns
    -------
    DataFrame by item
        A column per level (its probability; rows sum to one), ``difficulty`` (most probable level; of several that
        lead equally the first in the order of the model), ``probability`` (of that level), ``entropy`` (of the levels,
        in nats), ``n_labels`` and ``agreement`` (share of the votes for the leading class; NaN without votes). By
        pattern also ``n_items``. For a model without levels only the last ones, and ``attrs["difficulty"]`` says so.
        What else the method estimates of items (GLAD's ``easiness``) follows in columns of its own.

    Raises
    ------
    LabelError
        For ``by="pattern"`` without patterns, or an unknown ``by``.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"), bc.IDBLA(), engine="em")
    >>> items(fit.idata).columns.tolist()
    ['1', '2', '3', 'difficulty', 'probability', 'entropy', 'n_labels', 'agreement']
    """
    index = ids(tree, "item")
    share = vote_shares(tree).max(axis=1, initial=0.0)
    voted = {"n_labels": n_labels_of(tree, "item"), "agreement": np.where(share > 0, share, np.nan)}
    if "difficulty_probability" in tree["latent"].dataset:
        names = ids(tree, "difficulty")
        probability = values(tree, "latent", "difficulty_probability").astype(float)
        safe = np.where(probability > 0, probability, 1.0)
        columns = dict(zip(names, probability.T, strict=True)) | {
            "difficulty": pd.Series(names.take(leading(probability).argmax(axis=1)), index=index),
            "probability": probability.max(axis=1, initial=0.0),
            "entropy": np.abs((safe * np.log(safe)).sum(axis=1)),
        }
        table = pd.DataFrame(columns | voted, index=index)
    else:
        table = pd.DataFrame(voted, index=index)
    for name, value in estimates_by(tree, "item").items():
        table[name] = value
    if by != "item":
        table = by_pattern(tree, table, by, counted=True)
    if "difficulty" not in table.columns:
        table.attrs["difficulty"] = (
            f"{title(tree)} has no difficulty levels. Fit bc.IDBLA() for their probabilities, or ask "
            f"bc.item_difficulty(labels) for a quick estimate."
        )
    return table


def quick_difficulty(labels: CrowdLabels, n_levels: Any) -> pd.DataFrame:
    """Estimate how difficult each item is from agreement alone, without a model fitted.

    Parameters
    ----------
    labels : CrowdLabels
        The labels.
    n_levels : int
        Number of levels to cut the items into.

    Returns
    -------
    DataFrame by item
        ``easiness``, ``difficulty``, ``level``, ``n_labels``, ``agreement``: see `bayescrowd.item_difficulty`.

    Raises
    ------
    ModelError
        Where ``n_levels`` is no number of levels.
    """
    if isinstance(n_levels, bool) or not isinstance(n_levels, int | np.integer) or n_levels < 1:
        raise ModelError(f"n_levels must be a whole number of at least 1, not {n_levels!r}")
    count = votes(labels)
    n_votes, n_labels = count.sum(axis=1), np.bincount(labels.item_code, minlength=labels.n_items)
    labelled = n_labels > 0
    found = ability.estimate(labels).easiness
    rank = ability.item_levels(labels, found, int(n_levels))
    level = (rank + 1).astype(str).astype(object)
    level[~labelled] = pd.NA
    easiness = np.where(labelled, found, np.nan)
    return pd.DataFrame(
        {
            "easiness": easiness,
            "difficulty": 1 / easiness,
            "level": pd.array(level, dtype="str" if labelled.all() else "string"),
            "n_labels": n_labels,
            "agreement": np.where(n_votes > 0, count.max(axis=1) / np.where(n_votes > 0, n_votes, 1.0), np.nan),
        },
        index=labels.items.rename("item"),
    )
