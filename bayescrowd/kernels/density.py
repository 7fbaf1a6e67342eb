"""The posterior of the continuous parameters, states summed out: as a NumPyro program, and unconstrained."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro.infer.util import constrain_fn, unconstrain_fn

from bayescrowd.data.arrays import LabelArrays, PaddedLabels, Sizes
from bayescrowd.kernels.states import joint, marginal
from bayescrowd.model import Model, Parameters

__all__ = ["constrain", "enumerated_program", "marginal_program", "unconstrain"]


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
    position: dict[str, Any] = unconstrain_fn(model.parameters, (sizes,), {}, dict(parameters))
    return position
