"""The order of ids: what a choice may rest on, where the order of rows must not matter."""

import re

import numpy as np
import pandas as pd

__all__ = ["natural_order"]

_DIGITS = frozenset("0123456789")


def natural_order(ids: pd.Index) -> np.ndarray:
    """Sort ids, numbers within them as numbers, so that ids read as text have the order of ids read as numbers.

    Parameters
    ----------
    ids : pandas.Index
        The ids.

    Returns
    -------
    int array
        Places of the ids, first to last.

    Examples
    --------
    >>> natural_order(pd.Index(["w10", "w9", "v11"])).tolist()
    [2, 1, 0]
    """
    keys = [(_parts(str(one)), str(one), type(one).__name__) for one in ids]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _parts(text: str) -> tuple[tuple[int, int, str], ...]:
    parts = re.split(r"([0-9]+)", text)
    return tuple((0, int(part), "") if part[0] in _DIGITS else (1, 0, part) for part in parts if part)
