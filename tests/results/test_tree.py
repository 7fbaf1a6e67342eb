"""What is read off a result: parameters by sample, and the start of a fit that goes on from it."""

from __future__ import annotations

from typing import Any

import fitted
import numpy as np
import pytest
import xarray as xr

import bayescrowd as bc
from bayescrowd.errors import ModelError
from bayescrowd.results.tree import samples_of, start_of

MODELS = [bc.DawidSkene(), bc.IDBLA(n_levels=2)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_parameters_by_sample(model: Any) -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, model, chains=2, draws=7)
    # In another order of axes, as a file may have them.
    tree = fitted.tree_of(labels, model, run)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().transpose(*reversed(list(tree["posterior"].dims))))
    samples, lead = samples_of(tree, model)
    assert lead == (2, 7)
    assert set(samples) == set(run.draws)
    for name, value in samples.items():
        known = tree["posterior"].dataset[name]
        assert value.shape == (14, *run.draws[name].shape[2:])
        for chain, draw in ((0, 0), (0, 6), (1, 2)):
            dims = [dim for dim in ("worker", "difficulty", "class", "label") if dim in known.dims]
            one = known.isel(chain=chain, draw=draw).transpose(*dims)
            np.testing.assert_array_equal(value[7 * chain + draw], one)
    tree = fitted.tree_of(labels, model, fitted.made_point(labels, model))
    samples, lead = samples_of(tree, model)
    assert lead == ()
    for name, value in samples.items():
        np.testing.assert_array_equal(value, tree["point_estimate"].dataset[name].to_numpy()[None])


def test_a_result_without_parameters_is_refused() -> None:
    majority = bc.baselines.majority_vote(fitted.d1()).idata
    with pytest.raises(ModelError, match="kept no parameters 'prevalence', 'confusion', .* fit a model"):
        samples_of(majority, bc.DawidSkene())
    tree = fitted.em().idata.copy()
    del tree["point_estimate"]
    with pytest.raises(ModelError, match="em kept no parameters 'prevalence', 'confusion'"):
        samples_of(tree, bc.DawidSkene())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_start(model: Any) -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model))
    start = start_of(tree)
    assert start.shape == (5, 2 * model.n_levels)
    np.testing.assert_allclose(start.sum(axis=1), 1)
    by_state = start.reshape(5, model.n_levels, 2)
    np.testing.assert_allclose(by_state.sum(axis=1), tree["latent"]["class_probability"])
    if model.n_levels > 1:
        np.testing.assert_allclose(by_state.sum(axis=2), tree["latent"]["difficulty_probability"])
