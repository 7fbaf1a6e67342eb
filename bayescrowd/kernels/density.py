"""The posterior of the continuous parameters, states summed out: as a NumPyro program, and unconstrained."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro.infer.util import constrain_fn, log_density, potential_energy, unconstrain_fn

from bayescrowd.data.arrays import LabelArrays, PaddedLabels, Sizes
from bayescrowd.kernels.states import joint, marginal
from bayescrowd.model import Model, Parameters
from bayescrowd.sites import TRACING

__all__ = ["constrain", "enumerated_program", "log_prior", "marginal_program", "potential", "unconstrain"]


def marginal_program(model: Model, arrays: LabelArrays) -> None:
    """State the parameters' prior and the likelihood with all states summed out in closed form.

    Parameters
    ----------
    model : Model
        Any model.
    arrays : LabelArrays
        The annotations, with exact sizes of the parameters.
    """
    parameters = model.parameters(arrays.sizes)
    numpyro.factor("marginal", jnp.sum(marginal(joint(model, parameters, arrays), arrays)))


def enumerated_program(model: Model, table: PaddedLabels) -> None:
    """Run the model's own program, whose states NumPyro enumerates; the same density as `marginal_program`.

    Parameters
    ----------
    model : Model
        Any model.
    table : PaddedLabels
        The annotations.
    """
    model.program(table)


def constrain(model: Model, sizes: Sizes, position: Mapping[str, Any]) -> dict[str, Any]:
    """Map unconstrained values of the parameter sites to their supports.

    Parameters
    ----------
    model : Model
        Any model.
    sizes : Sizes
        Sizes of its parameters.
    position : dict
        Site -> unconstrained value.

    Returns
    -------
    dict
        Site -> value.
    """
    with TRACING:
        values: dict[str, Any] = constrain_fn(model.parameters, (sizes,), {}, dict(position))
    return values


@partial(jax.jit, static_argnums=1)
def unconstrain(model: Model, sizes: Sizes, parameters: Parameters) -> dict[str, Any]:
    """Map values of the parameter sites to the unconstrained scale.

    Parameters
    ----------
    model : Model
        Any model.
    sizes : Sizes
        Sizes of its parameters.
    parameters : dict
        Site -> value.

    Returns
    -------
    dict
        Site -> unconstrained value.
    """
    with TRACING:
        position: dict[str, Any] = unconstrain_fn(model.parameters, (sizes,), {}, dict(parameters))
    return position


def log_prior(model: Model, sizes: Sizes, parameters: Parameters) -> Any:
    """Compute the log prior density of the parameter sites as the model declares them.

    Parameters
    ----------
    model : Model
        Any model.
    sizes : Sizes
        Sizes of its parameters.
    parameters : dict
        Site -> value.

    Returns
    -------
    array []
        The sum over sites.
    """
    with TRACING:
        return log_density(model.parameters, (sizes,), {}, dict(parameters))[0]


def potential(program: Callable[..., Any], arguments: tuple[Any, ...], position: Mapping[str, Any]) -> Any:
    """Compute the negative log density of a NumPyro program on the unconstrained scale.

    Parameters
    ----------
    program : callable
        A NumPyro program without discrete sites.
    arguments : tuple
        Its arguments.
    position : dict
        Site -> unconstrained value.

    Returns
    -------
    array []
        The potential energy, Jacobian of the transformation included.
    """
    with TRACING:
        return potential_energy(program, arguments, {}, dict(position))
