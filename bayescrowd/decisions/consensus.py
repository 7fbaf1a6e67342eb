"""The consensus on each item, its uncertainty, and the majority vote beside it."""

import zlib

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import LabelError
from bayescrowd.results.tree import ids, n_labels_of, values
from bayescrowd.results.votes import ABSTAIN, leading, vote_shares

__all__ = ["by_pattern", "class_probabilities", "consensus"]


def class_probabilities(tree: xr.DataTree, *, by: str = "item") -> pd.DataFrame:
    """Give the posterior probability of each class for each item.

    Parameters
    ----------
    tree : DataTree
        A result.
    by : {"item", "pattern"}
        One row per item, or one per response pattern (for labels from `CrowdLabels.from_counts`).

    Returns
    -------
    DataFrame [item, class]
        Rows in the order of the items, columns in the order of the classes, both with the user's ids; rows sum to one.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.fit(bc.datasets.load("anesthesia")).class_probabilities().shape
    (45, 4)
    """
    table = pd.DataFrame(
        values(tree, "latent", "class_probability").astype(float), index=ids(tree, "item"), columns=ids(tree, "class")
    )
    return table if by == "item" else by_pattern(tree, table, by)


def consensus(
    tree: xr.DataTree,
    *,
    by: str = "item",
    ties: str = "first",
    seed: int = 0,
) -> pd.DataFrame:
    """Give the most probable class of each item.

    Parameters
    ----------
    tree : DataTree
        A result.
    by : {"item", "pattern"}
        One row per item, or one per response pattern (for labels from `CrowdLabels.from_counts`).
    ties : {"first", "abstain", "random"}
        What ``class`` and ``majority`` say where several classes lead by the same probability or votes: the first of
        them in the order of the classes (so the order of rows never matters), ``pandas.NA``, or one of them at random
        by ``seed`` and the item's id.
    seed : int
        For ``ties="random"``.

    Returns
    -------
    DataFrame by item
        ``class`` (most probable class), ``probability`` (of that class), ``entropy`` (of the class probabilities, in
        nats: 0 = sure), ``n_labels``, ``majority`` (what most votes, counted by weight, say; NA without votes) and
        ``tie`` (True where the majority vote is tied). By pattern also ``n_items``.

    Raises
    ------
    LabelError
        For ``by="pattern"`` without patterns, an unknown option, or a seed that is none.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> fit.consensus().columns.tolist()
    ['class', 'probability', 'entropy', 'n_labels', 'majority', 'tie']
    """
    if ties not in ("first", "abstain", "random"):
        raise LabelError(f"ties must be 'first', 'abstain' or 'random', not {ties!r}")
    seed = check_seed(seed)
    items, classes = ids(tree, "item"), ids(tree, "class")
    probability = values(tree, "latent", "class_probability").astype(float)
    votes = vote_shares(tree)
    best, _ = _leaders(probability, items, ties, seed)
    majority, tied = _leaders(votes, items, ties, seed)
    majority[votes.sum(axis=1) == 0] = ABSTAIN
    safe = np.where(probability > 0, probability, 1.0)
    table = pd.DataFrame(
        {
            "class": _named(best, classes, items),
            "probability": probability.max(axis=1, initial=0.0),
            "entropy": np.abs((safe * np.log(safe)).sum(axis=1)),
            "n_labels": n_labels_of(tree, "item"),
            "majority": _named(majority, classes, items),
            "tie": tied,
        },
        index=items,
    )
    return table if by == "item" else by_pattern(tree, table, by, counted=True)


def _leaders(table: np.ndarray, items: pd.Index, ties: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Index of the leading class of each row by the rule for ties, and which rows are tied."""
    leads = leading(table)
    tied = leads.sum(axis=1) > 1
    code = leads.argmax(axis=1)
    if ties == "abstain":
        code[tied] = ABSTAIN
    elif ties == "random":
        for row in np.flatnonzero(tied):
            # Drawn from the item's id, not from its position: the order of rows must not matter.
            random = np.random.default_rng(
                [seed, zlib.crc32(repr(items[int(row)]).encode("utf-8", "backslashreplace"))]
            )
            code[row] = random.choice(np.flatnonzero(leads[row]))
    return code, tied


def _named(codes: np.ndarray, classes: pd.Index, items: pd.Index) -> pd.Series:
    """Class values by code, in the classes' own type where no item abstains; NA where one does."""
    absent = codes < 0
    if not absent.any():
        return pd.Series(classes.take(codes), index=items)
    nullable = {"b": "boolean", "i": "Int64", "u": "UInt64", "f": "Float64"}.get(classes.dtype.kind, "object")
    if isinstance(classes.dtype, pd.StringDtype):
        nullable = "string"
    names = classes.tolist()
    values = [pd.NA if code < 0 else names[code] for code in codes.tolist()]
    return pd.Series(values, index=items, dtype=nullable)


def by_pattern(tree: xr.DataTree, table: pd.DataFrame, by: str, *, counted: bool = False) -> pd.DataFrame:
    """Keep one row per response pattern: its first item's, which its other items share unless some have gold.

    Parameters
    ----------
    tree : DataTree
        A result.
    table : DataFrame by item
        What to cut down.
    by : str
        Must be ``"pattern"``.
    counted : bool
        Add ``n_items``, the number of items of each pattern.

    Returns
    -------
    DataFrame by pattern

    Raises
    ------
    LabelError
        For another ``by``, or labels without patterns.
    """
    if by != "pattern":
        raise LabelError(f"by must be 'item' or 'pattern', not {by!r}")
    observed = tree["observed_data"].dataset
    if "pattern_index" not in observed:
        raise LabelError("these labels have no patterns: by='pattern' is for labels from CrowdLabels.from_counts")
    names = ids(tree, "pattern")
    code, first, count = np.unique(observed["pattern_index"].to_numpy(), return_index=True, return_counts=True)
    rows = table.iloc[first].set_axis(names.take(code), axis=0)
    if counted:
        rows["n_items"] = count
    return rows
