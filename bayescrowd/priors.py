"""Priors as the user states them: numbers, arrays, and the diagonal whose shape follows the data."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayescrowd.errors import ModelError, problems_message

__all__ = ["Diagonal", "Prior", "diagonal", "from_plain", "plain", "prior_problems"]

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
    if isinstance(value, Diagonal):
        value = [value.on, value.off]
    elif isinstance(value, str) or value is None:
        return []
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        return [f"{name}={value!r} is not a number or an array of numbers"]
    if not np.all(np.isfinite(array)):
        return [f"{name} has values that are not finite"]
    if name.endswith("_prior") and not np.all(array > 0):
        where = "" if array.ndim == 0 else f" at {tuple(int(i) for i in np.argwhere(array <= 0)[0])}"
        return [f"{name} must be positive (Dirichlet concentrations); it holds {array[array <= 0].flat[0]:g}{where}"]
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
