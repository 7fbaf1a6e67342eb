"""The checker of annotations in the tests: beartype, less what it cannot check in a function taken by itself."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
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


def install() -> None:
    """Check every annotation of bayescrowd as it is imported, those without shapes without jaxtyping's detour.

    jaxtyping binds the arguments of every call to the signature, checks them, and checks them again with the result:
    nearly half the time of a test. Only annotations with axes need that, for the sizes of the axes must fit together.
    """
    jaxtyping.install_import_hook("bayescrowd", "typecheck.checked")
    with_shapes = jaxtyping.jaxtyped

    def jaxtyped(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda function: jaxtyped(function, **options)
        if isinstance(function, type):
            return function  # a dataclass, whose constructor goes unchecked
        if (
            isinstance(function, types.FunctionType)
            and not inspect.isgeneratorfunction(function)
            and not any(_may_have_axes(hint) for hint in function.__annotations__.values())
        ):
            return checked(function)
        return with_shapes(function, **options)

    jaxtyping.jaxtyped = jaxtyped


def _may_have_axes(hint: Any) -> bool:
    """Tell whether an annotation names the axes of an array; one that is not resolved yet may do so."""
    if isinstance(hint, str | typing.ForwardRef) or getattr(hint, "__module__", None) == "jaxtyping":
        return True
    if isinstance(hint, typing.TypeAliasType):
        return _may_have_axes(hint.__value__)
    if isinstance(hint, list | tuple):  # the arguments of a Callable
        return any(_may_have_axes(part) for part in hint)
    return any(_may_have_axes(part) for part in (typing.get_origin(hint), *typing.get_args(hint)) if part is not None)


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
