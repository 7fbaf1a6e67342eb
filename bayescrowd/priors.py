"""Priors as the user states them: numbers, arrays, and the diagonal whose shape follows the data."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayescrowd.errors import ModelError, problems_message

__all__ = ["Diagonal", "Prior", "diagonal", "from_plain", "misfits", "plain", "prior_problems"]

type Prior = Any
"""A prior's concentration: a number, an array that broadcasts to the table, or a `Diagonal`."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Diagonal:
    """A class x label concentration with one value on the diagonal and another off it, whatever the sizes.

    Parameters
    ----------
    on : float
        Concentration where the label is the class.
    off : float
        Concentration elsewhere, labels that are no class included.
    """

    on: Any
    off: Any

    def table(self, n_classes: int, n_labels: int) -> Float[Array, "class label"]:
        """Write the concentration out as a class x label array.

        Parameters
        ----------
        n_classes, n_labels : int
            Its shape.

        Returns
        -------
        array [class, label]
            ``on`` on the diagonal, ``off`` elsewhere.
        """
        return self.off + (self.on - self.off) * jnp.eye(n_classes, n_labels)


def diagonal(on: float, off: float) -> Diagonal:
    """Prior for confusion matrices that favours (or disfavours) the right label.

    Parameters
    ----------
    on : float
        Dirichlet concentration (pseudo-count) of the label that equals the class.
    off : float
        Concentration of every other label.

    Returns
    -------
    Diagonal
        To be passed as ``confusion_prior``; its shape follows the data.

    Raises
    ------
    ModelError
        Where a concentration is not a positive number.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.diagonal(3, 1).table(2, 3).tolist()
    [[3.0, 1.0, 1.0], [1.0, 3.0, 1.0]]
    """
    problems = [
        f"{name}={value!r} is not a positive number"
        for name, value in (("on", on), ("off", off))
        if not _is_positive(value)
    ]
    if problems:
        raise ModelError(problems_message("diagonal(on, off) takes two Dirichlet concentrations", problems))
    return Diagonal(float(on), float(off))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < float(value) < np.inf


def prior_problems(name: str, value: Any) -> list[str]:
    """List what is wrong with a prior, whatever the sizes of the data.

    Parameters
    ----------
    name : str
        Name of the field; names that end in ``_prior`` are Dirichlet concentrations.
    value : Any
        The prior.

    Returns
    -------
    list of str
        One sentence per problem.
    """
    is_prior = name.endswith("_prior")
    if isinstance(value, Diagonal):
        value = [value.on, value.off]
    elif is_prior and (value is None or isinstance(value, str | bool) or not _is_numeric(value)):
        return [f"{name} must be a number, an array of numbers or bc.diagonal(on, off), not {_show(value)}"]
    elif not _is_numeric(value):
        return []
    array = np.asarray(value, float)
    if not np.all(np.isfinite(array)):
        return [f"{name} has values that are not finite"]
    if is_prior and not np.all(array > 0):
        where = "" if array.ndim == 0 else f" at {tuple(int(i) for i in np.argwhere(array <= 0)[0])}"
        return [f"{name} must be positive (Dirichlet concentrations); it holds {array[array <= 0].flat[0]:g}{where}"]
    return []


def _is_numeric(value: Any) -> bool:
    if not isinstance(value, int | float | np.number | np.ndarray | jax.Array | list | tuple):
        return False
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except (TypeError, ValueError):
        return False


def _show(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, str | bool) else f"a {type(value).__name__}"


def misfits(model: Any, sizes: Any) -> list[str]:
    """List the priors whose shapes do not broadcast to the tables that they are for.

    Parameters
    ----------
    model : Model
        A model, whose fields ``X_prior`` are the concentrations of its sites ``X``.
    sizes : Sizes
        Sizes of its parameters.

    Returns
    -------
    list of str
        One sentence per prior.
    """
    try:
        model.sites(sizes, values=False)
    except (TypeError, ValueError) as error:
        names = [field.name for field in dataclasses.fields(model) if field.name.endswith("_prior")]
        plainest = dataclasses.replace(model, **dict.fromkeys(names, 1.0))
        problems = [text for name in names for text in _misfit(model, plainest, name, sizes)]
        return problems or [str(error)]
    return []


def _misfit(model: Any, plainest: Any, name: str, sizes: Any) -> list[str]:
    value = getattr(model, name)
    try:
        dataclasses.replace(plainest, **{name: value}).sites(sizes, values=False)
    except (TypeError, ValueError):
        sites, stem = plainest.sites(sizes, values=False), name.removesuffix("_prior")
        near = [site for known, site in sites.items() if known.startswith(stem) or known.endswith(stem)]
        site = sites.get(stem, near[0] if near else None)
        wanted = (
            "the table" if site is None else ", ".join(f"{d} ({n})" for d, n in zip(site.dims, site.shape, strict=True))
        )
        return [f"{name} has shape {np.shape(value)}, which does not broadcast to {wanted}"]
    return []


def plain(value: Any) -> Any:
    """Write a prior down as plain numbers and lists.

    Parameters
    ----------
    value : Any
        The prior.

    Returns
    -------
    Any
        Safe for JSON; `from_plain` takes it back.
    """
    if isinstance(value, Diagonal):
        return {"diagonal": [float(value.on), float(value.off)]}
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    return value


def from_plain(value: Any) -> Any:
    """Rebuild a prior from what `plain` wrote.

    Parameters
    ----------
    value : Any
        Plain numbers and lists.

    Returns
    -------
    Any
        The prior.
    """
    if isinstance(value, dict) and "diagonal" in value:
        return Diagonal(*value["diagonal"])
    return np.asarray(value, float) if isinstance(value, list) else value
