"""The checker of annotations in the tests: beartype, less what it cannot check in a function taken by itself."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintException

# As for mypy, an int is a float.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that checks its annotations on every call.

    `typing.Self` and protocols that are not `runtime_checkable` go unchecked; all other annotations of the function are
    checked all the same. Constructors go unchecked: JAX calls those of registered dataclasses with placeholders.
    """
    if function.__name__ == "__init__":
        return function
    try:
        return _check(function)
    except BeartypeDecorHintException:
        if not isinstance(function, types.FunctionType):
            raise
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    copy.__annotations__ = {
        name: hint for name, hint in function.__annotations__.items() if _can_be_checked(hint, function.__module__)
    }
    return _check(copy)


def _can_be_checked(hint: object, module: str) -> bool:
    def probe(value: Any) -> Any:
        return value

    probe.__annotations__ = {"value": hint}
    probe.__module__ = module
    try:
        _check(probe)
    except BeartypeDecorHintException:
        return False
    return True
