"""A model from its name and the priors given on the command line."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescrowd.model import Model


def make_model(name: str, priors: dict[str, Any]) -> Model:
    """Return a model with the priors given.

    Parameters
    ----------
    name : str
        As `bayescrowd.models.names` lists them.
    priors : dict of str to object
        Values of the model's own fields.

    Returns
    -------
    Model
        Priors that were not given have the model's defaults.

    Raises
    ------
    ModelError
        If there is no such model, or it has no such priors; the valid ones are named.
    """
    from bayescrowd.errors import ModelError, shorten
    from bayescrowd.models import get

    cls: Any = get(name)
    valid = [field.name for field in fields(cls) if field.init]
    unknown = [key for key in priors if key not in valid]
    if unknown:
        raise ModelError(f"model {name!r} has no {shorten(unknown)}; it has {', '.join(valid)}")
    model: Model = cls(**priors)
    return model
