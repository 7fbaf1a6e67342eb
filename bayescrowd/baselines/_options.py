"""Checks of a baseline's options, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescrowd.errors import EngineError

__all__ = ["check_flag", "check_number", "check_whole", "check_word"]


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number, or a small one.

    Parameters
    ----------
    name : str
        The option.
    value : int
        Its value.
    least : int
        The smallest allowed.

    Raises
    ------
    EngineError
        Naming the option, its value and what is allowed.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise EngineError(f"{name} must be a whole number of at least {least}, not {value!r}")


def check_number(name: str, value: Any, *, positive: bool = True) -> None:
    """Refuse what is no finite number above zero (or at least zero).

    Parameters
    ----------
    name : str
        The option.
    value : float
        Its value.
    positive : bool
        Refuse zero, too.

    Raises
    ------
    EngineError
        Naming the option, its value and what is allowed.
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < 0 or (positive and value == 0):
        raise EngineError(f"{name} must be a number {'above' if positive else 'of at least'} 0, not {value!r}")


def check_word(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse what is none of the allowed words.

    Parameters
    ----------
    name : str
        The option.
    value : str
        Its value.
    allowed : sequence of str
        The words.

    Raises
    ------
    EngineError
        Naming the option, its value and what is allowed.
    """
    if not isinstance(value, str) or value not in allowed:
        raise EngineError(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False.

    Parameters
    ----------
    name : str
        The option.
    value : bool
        Its value.

    Raises
    ------
    EngineError
        Naming the option and its value.
    """
    if not isinstance(value, bool | np.bool_):
        raise EngineError(f"{name} must be True or False, not {value!r}")
