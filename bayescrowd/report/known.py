"""The known classes that a page scores a result against, checked before anything is computed."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayescrowd.criticism.known import known_classes
from bayescrowd.errors import LabelError, shorten
from bayescrowd.results.tree import ids, values

__all__ = ["Known", "known"]


class Known(NamedTuple):
    """The known classes to score a result against."""

    truth: Any
    """What `calibration` takes; None where no class is known."""
    unusable: str
    """Why the classes that came with the labels are of no use, in words for readers of the page; mostly empty."""
    to_score: bool
    """Whether any is of an item that the fit was not told."""


def known(tree: xr.DataTree, truth: Any) -> Known:
    """Check the known classes, before anything is computed.

    Parameters
    ----------
    tree : DataTree
        A result.
    truth : Series, dict or None
        Item -> true class; by default the truth of the labels.

    Returns
    -------
    Known
        What there is to score against.

    Raises
    ------
    LabelError
        For a truth that is none, or that names items or classes that the fit does not have. Where a truth that came
        with the labels has other classes, the page says so.
    """
    if truth is None and "truth" not in tree.children:
        return Known(None, "", to_score=False)
    try:
        code, _ = known_classes(tree, truth)
    except LabelError:
        if truth is not None:
            raise
        where = values(tree, "truth", "truth_index")
        said = ids(tree, "truth_value").take(np.unique(where[where >= 0]))
        strange = shorten(said[~said.isin(ids(tree, "class"))])
        return Known(
            None, f"the labels came with known classes that the fit does not have ({strange}).", to_score=False
        )
    if truth is not None and (code < 0).all():
        raise LabelError("truth names no class: give a Series or dict item -> class, or leave truth out")
    told = values(tree, "observed_data", "gold_index") >= 0
    return Known(True if truth is None else truth, "", to_score=bool(((code >= 0) & ~told).any()))
