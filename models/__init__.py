"""The reading room: one generative model per file, found by looking into this folder.

A file that does not start with an underscore defines exactly one subclass of `bayescrowd.model.Model`; its ``name`` is
the file's name with hyphens. There is no list to edit.
"""

import importlib
import inspect
import pkgutil
from typing import Any

from bayescrowd.errors import ModelError, no_such, shorten
from bayescrowd.model import Model

__all__ = ["get", "names", "resolve"]


def names() -> list[str]:
    """List the models by name.

    Returns
    -------
    list of str
        For example ``["dawid-skene"]``.

    Examples
    --------
    >>> import bayescrowd.models
    >>> "dawid-skene" in bayescrowd.models.names()
    True
    """
    files = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in files if not name.startswith("_"))


def get(name: str) -> type[Model]:
    """Import the model of a given name.

    Parameters
    ----------
    name : str
        As in `names`.

    Returns
    -------
    type
        The model's class.

    Raises
    ------
    ModelError
        Where no file of that name exists, or it does not define one model of that name.
    """
    if name not in names():
        raise ModelError(no_such("model", name, names()))
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    found = [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, Model) and value.__module__ == module.__name__
    ]
    if len(found) != 1 or found[0].name != name:
        raise ModelError(f"{module.__name__} must define one Model with name = {name!r}; it defines {found}")
    return found[0]


def resolve(model: Any) -> Model:
    """Give the model that a user named in one of three ways.

    Parameters
    ----------
    model : Model, its class or its name
        Classes and names get their default priors.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    ModelError
        For anything else, unknown names, and classes that need arguments.

    Examples
    --------
    >>> import bayescrowd.models
    >>> bayescrowd.models.resolve("idbla").n_levels
    3
    """
    if isinstance(model, Model):
        return model
    chosen = get(model) if isinstance(model, str) else model
    if isinstance(chosen, type) and issubclass(chosen, Model) and not inspect.isabstract(chosen):
        try:
            return chosen()
        except TypeError as error:
            raise ModelError(f"model {chosen.__name__} needs arguments: {error}") from error
    raise ModelError(f"model must be a model, its class or its name ({shorten(names(), 20)}), not {model!r}")
