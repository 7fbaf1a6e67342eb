"""Why an item got its class: what each of its labels says, in log-odds."""

import difflib
from collections.abc import Hashable

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.errors import LabelError, ModelError, shorten
from bayescrowd.results.tree import ids, parameter_group, title, values

__all__ = ["explain"]

_TINY = 1e-300


def explain(tree: xr.DataTree, item: Hashable) -> pd.DataFrame:
    """Give the evidence for each class that the prevalence and every label of an item bring.

    Parameters
    ----------
    tree : DataTree
        A result.
    item : hashable
        The item's id.

    Returns
    -------
    DataFrame
        The first row is the prevalence, the others are the item's labels in the order of the table: ``worker``,
        ``label``, ``weight``, and a column per class: log probability of this label in that class (posterior mean of
        the confusion matrix, levels of difficulty averaged as they are probable for this item) minus its average over
        classes. Differences between two columns are log-odds; the column with the largest sum leads.

    Raises
    ------
    LabelError
        For an item that the fit does not know.
    ModelError
        For models without confusion matrices.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.fit(bc.datasets.load("anesthesia")).explain(3).shape
    (8, 7)
    """
    items = ids(tree, "item")
    position = items.get_indexer(pd.Index([item], tupleize_cols=False))
    if position[0] < 0:
        near = difflib.get_close_matches(str(item), [str(known) for known in items], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise LabelError(f"there is no item {item!r}{hint} The items are {shorten(items, 5)}")
    group = tree[parameter_group(tree)].dataset
    if "confusion" not in group or "prevalence" not in group:
        raise ModelError(f"{title(tree)} gives no confusion matrices that could explain an item")
    confusion, prevalence = group["confusion"], group["prevalence"]
    if "draw" in confusion.dims:
        confusion, prevalence = confusion.mean(("chain", "draw")), prevalence.mean(("chain", "draw"))
    if "difficulty" in confusion.dims:
        levels = tree["latent"].dataset["difficulty_probability"].isel(item=int(position[0]))
        confusion = (confusion * levels).sum("difficulty")
    table = confusion.transpose("worker", "class", "label").to_numpy()
    mine = values(tree, "observed_data", "item_index") == position[0]
    worker, label = (values(tree, "observed_data", f"{name}_index")[mine] for name in ("worker", "label"))
    observed = tree["observed_data"].dataset
    weight = observed["weight"].to_numpy()[mine] if "weight" in observed else np.ones(len(worker))
    logs = np.log(np.maximum(np.concatenate([prevalence.to_numpy()[None], table[worker, :, label]]), _TINY))
    logs[1:] *= weight[:, None]
    logs -= logs.mean(axis=1, keepdims=True)
    classes = ids(tree, "class")
    frame = pd.DataFrame(logs, columns=classes)
    frame.insert(0, "worker", pd.Series([None, *ids(tree, "worker")[worker]], dtype=object))
    frame.insert(1, "label", pd.Series([None, *ids(tree, "label")[label]], dtype=object))
    frame.insert(2, "weight", [1.0, *weight])
    frame.index = pd.Index(["prevalence", *(f"label {n + 1}" for n in range(len(worker)))], name="evidence")
    return frame
