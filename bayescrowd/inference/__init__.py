"""Engines, one file each, found by looking: a file of this folder that defines ``ENGINE`` is one."""

import importlib
import pkgutil

from bayescrowd.errors import EngineError, shorten
from bayescrowd.inference.base import Engine

__all__ = ["get", "names"]

_NOT_ENGINES = {"ability", "base", "points", "progress", "starts"}


def names() -> list[str]:
    """List the engines by name.

    Returns
    -------
    list of str
        For example ``["em", "nuts"]``.

    Examples
    --------
    >>> import bayescrowd.inference
    >>> "em" in bayescrowd.inference.names()
    True
    """
    files = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in files if not name.startswith("_") and name not in _NOT_ENGINES)


def get(name: str) -> Engine:
    """Import an engine by name.

    Parameters
    ----------
    name : str
        As in `names`.

    Returns
    -------
    Engine
        Its settings and its run.

    Raises
    ------
    EngineError
        Where there is none of that name.
    """
    if name not in names():
        raise EngineError(f"there is no engine {name!r}; the engines are {shorten(names(), 20)}")
    engine: Engine = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").ENGINE
    return engine
