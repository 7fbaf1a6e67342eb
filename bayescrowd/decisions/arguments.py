"""Checks of the arguments that several questions to a result share."""

from typing import Any

import numpy as np

from bayescrowd.errors import EngineError, LabelError

__all__ = ["check_interval", "check_refits", "check_seed"]


def check_seed(seed: Any) -> int:
    """Check a seed.

    Parameters
    ----------
    seed : int
        From 0 to 4294967295.

    Returns
    -------
    int
        The same.

    Raises
    ------
    LabelError
        Where it is anything else.

    Examples
    --------
    >>> check_seed(7)
    7
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise LabelError(f"seed must be a whole number from 0 to 4294967295, not {seed!r}")
    return int(seed)


def check_interval(interval: Any, name: str = "interval") -> float:
    """Check the probability of an interval.

    Parameters
    ----------
    interval : float
        Between 0 and 1.
    name : str
        What the caller's argument is called.

    Returns
    -------
    float
        The same.

    Raises
    ------
    LabelError
        Where it is anything else.

    Examples
    --------
    >>> check_interval(0.89)
    0.89
    """
    number = isinstance(interval, int | float | np.integer | np.floating) and not isinstance(interval, bool)
    if not number or not 0 < interval < 1:
        raise LabelError(f"{name} must be a probability between 0 and 1 such as 0.89, not {interval!r}")
    return float(interval)


def check_refits(bootstrap: Any) -> int:
    """Check a number of bootstrap refits.

    Parameters
    ----------
    bootstrap : int
        At least 2.

    Returns
    -------
    int
        The same.

    Raises
    ------
    EngineError
        Where it is anything else.

    Examples
    --------
    >>> check_refits(200)
    200
    """
    if isinstance(bootstrap, bool) or not isinstance(bootstrap, int | np.integer) or bootstrap < 2:
        raise EngineError(f"bootstrap must be a whole number of refits, at least 2 (200 is usual), not {bootstrap!r}")
    return int(bootstrap)
