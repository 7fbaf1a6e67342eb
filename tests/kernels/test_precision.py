"""Double precision inside, global settings untouched."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance import checks
from conformance.toys import TOYS

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes
from bayescrowd.kernels.density import constrain, unconstrain
from bayescrowd.kernels.precision import double_precision


def test_the_context_is_double_and_leaves_no_trace():
    before = jax.config.jax_enable_x64
    with double_precision():
        assert jnp.ones(1).dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.ones(1).dtype == (np.float64 if before else np.float32)


def test_it_leaves_no_trace_after_an_error_either():
    before = jax.config.jax_enable_x64
    with pytest.raises(RuntimeError, match="inside"), double_precision():
        raise RuntimeError("inside")
    assert jax.config.jax_enable_x64 == before


@pytest.mark.parametrize("model", [bc.DawidSkene(), *TOYS], ids=lambda model: model.name)
def test_to_the_unconstrained_scale_and_back(model):
    sizes = Sizes(4, 3, 2, 3)
    parameters = checks.prior_draw(model, sizes, seed=2)
    with double_precision():
        back = constrain(model, sizes, unconstrain(model, sizes, parameters))
    assert set(back) == set(parameters)
    for name, value in parameters.items():
        np.testing.assert_allclose(back[name], value, atol=1e-12)
