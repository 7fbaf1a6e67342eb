"""Values that a caller declares: classes, labels, ids."""

import numpy as np
import pandas as pd

from bayescrowd.data.encode import as_plain
from bayescrowd.data.validate import Report, as_list
from bayescrowd.errors import shorten

__all__ = ["is_nothing", "list_declared"]


def list_declared(values: object, argument: str, report: Report) -> list[object] | None:
    """List declared values (classes, labels, ids) as plain Python; a category dtype declares its categories.

    Parameters
    ----------
    values : object
        What the caller passed; None declares nothing.
    argument : str
        What it was passed as, for messages.
    report : Report
        Takes the problems.

    Returns
    -------
    list or None
        None too where there is a problem.
    """
    if values is None:
        return None
    if isinstance(values, pd.CategoricalDtype):
        values = values.categories
    elif isinstance(values, (pd.Categorical, pd.Series)) and isinstance(values.dtype, pd.CategoricalDtype):
        values = values.dtype.categories
    elif not hasattr(values, "__iter__") or isinstance(values, (str, bytes)) or getattr(values, "shape", None) == ():
        report.problems.append(
            f"{argument}={values!r:.80} is one value; list the values: {argument}={_example(values)}."
        )
        return None
    listed = [as_plain(value) for value in as_list(values)]
    unusable = [value for value in listed if not pd.api.types.is_hashable(value) or is_nothing(value)]
    if unusable:
        report.problems.append(f"{argument} holds {shorten(unusable)}, which is no value; leave it out.")
        return None
    repeated = (
        [value for position, value in enumerate(listed) if value in listed[:position]] if len(listed) < 2000 else []
    )
    if repeated:
        report.problems.append(f"{argument} holds {shorten(repeated)} more than once (1, 1.0 and True are one value).")
        return None
    if not listed:
        report.problems.append(f"{argument} is empty; declare at least one value, or leave the argument out.")
        return None
    return listed


def _example(value: object) -> str:
    """Write a list that may be meant by a number of values, or by one text."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 < value < 6:
        return repr(list(range(int(value))))
    return f"[{value!r:.40}, ...]"


def is_nothing(value: object) -> bool:
    """Whether a value stands for no value: None, NaN, NA."""
    return value is None or value is pd.NA or value != value
