"""Known classes to score a result against: given now, or with the labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.columns import as_mapping
from bayescrowd.errors import LabelError, count_of, problems_message, shorten
from bayescrowd.results.tree import ids, values

__all__ = ["known_classes"]

_SHOWN = 10


def known_classes(tree: xr.DataTree, truth: Any = None) -> tuple[np.ndarray, list[str]]:
    """Find the true class of each item.

    Parameters
    ----------
    tree : DataTree
        A result.
    truth : Series, mapping or True, optional
        Item -> class; by default, and for True, the truth that came with the labels.

    Returns
    -------
    code : int array [item]
        Index of the class, -1 where it is not known.
    notes : list of str
        What was left out, in words.

    Raises
    ------
    LabelError
        Where there is no truth, for False and all else that is no mapping, and listing unknown items, unknown classes
        and items with two classes.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> code, notes = known_classes(fit.idata, {1: 1, 2: 4})
    >>> code[:3].tolist()
    [0, 3, -1]
    """
    items, classes = ids(tree, "item"), ids(tree, "class")
    if isinstance(truth, bool | np.bool_) and not truth:
        raise LabelError("truth must be a Series or dict item -> class, or True for labels.truth, not False")
    if truth is None or isinstance(truth, bool | np.bool_):
        if "truth" not in tree.children:
            raise LabelError(
                "no class is known to score against: give truth=, a Series or dict item -> class, or make the labels "
                "with truth= (no fit ever reads it)"
            )
        where = values(tree, "truth", "truth_index")
        position = np.flatnonzero(where >= 0)
        said = ids(tree, "truth_value").take(where[position])
        notes: list[str] = []
        problems: list[str] = []
    else:
        keys, said, notes = _given(truth)
        position = items.get_indexer(keys)
        problems = _unknown_items(keys[position < 0], items)
    code_of = classes.get_indexer(said)
    strange = code_of < 0
    if strange.any():
        who = items[np.unique(position[strange & (position >= 0)])]
        problems.append(
            f"the classes {shorten(said[strange].unique(), _SHOWN)}{_kinds(said[strange], classes)} are none of the "
            f"fit, whose classes are {shorten(classes, _SHOWN)} (items {shorten(who, _SHOWN)}). Map them to classes, "
            f"leave these items out, truth[truth.isin(fit.labels.classes)], or fit again with labels made with "
            f"classes=[...]."
        )
    code = np.full(len(items), -1)
    usable = (position >= 0) & ~strange
    code[position[usable]] = code_of[usable]
    clash = np.unique(position[usable][code[position[usable]] != code_of[usable]])
    if len(clash):
        have = "has" if len(clash) == 1 else "have"
        problems.append(
            f"{count_of(len(clash), 'item')} {have} two classes: {shorten(items[clash], _SHOWN)}. Keep one."
        )
    if problems:
        raise LabelError(problems_message("cannot score against this truth", problems))
    return code, notes


def _given(truth: Any) -> tuple[pd.Index, pd.Index, list[str]]:
    """Items, their classes, and what was left out."""
    if isinstance(truth, pd.Series):
        pairs = list(zip(truth.index.tolist(), truth.tolist(), strict=True))
    elif isinstance(truth, Mapping):
        pairs = list(truth.items())
    else:
        remedy = f": pass {as_mapping('truth', truth.columns)}" if isinstance(truth, pd.DataFrame) else ""
        raise LabelError(f"truth must be a Series or dict item -> class, not a {type(truth).__name__}{remedy}")
    known = [(item, value) for item, value in pairs if not _is_missing(value)]
    n_missing = len(pairs) - len(known)
    notes = [f"{count_of(n_missing, 'item')} without a known class left out."] if n_missing else []
    keys = pd.Index([item for item, _ in known], tupleize_cols=False)
    try:
        return keys, pd.Index([value for _, value in known], tupleize_cols=False), notes
    except TypeError as error:
        raise LabelError(f"truth must give one class per item: {error}") from error


def _is_missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def _unknown_items(strange: pd.Index, items: pd.Index) -> list[str]:
    if not len(strange):
        return []
    return [
        f"the fit has no items {shorten(strange.unique(), _SHOWN)}{_kinds(strange, items)}; its items are "
        f"{shorten(items)}. Leave them out: truth[truth.index.isin(fit.labels.items)]."
    ]


def _kinds(strange: pd.Index, known: pd.Index) -> str:
    """Point out that ids differ in type only, such as 1 and '1'."""
    texts = {str(value): value for value in known.tolist()}
    for value in strange.tolist():
        if str(value) in texts:
            other = texts[str(value)]
            return f" (types differ: {type(value).__name__} here, {type(other).__name__} in the fit)"
    return ""
