"""Real data: error of maximum likelihood from a majority start, against published recomputations."""

from __future__ import annotations

import numpy as np
import pytest

import bayescrowd as bc

pytestmark = [pytest.mark.realdata, pytest.mark.slow]

ERRORS = {"bluebird": 10.2, "rte": 7.3, "dog": 15.9, "web": 17.4, "trec": 29.8, "sp": 8.5, "product": 6.0}
"""Percent of the items with truth that maximum likelihood gets wrong; half a point covers ties and stopping rules."""


def error(fit, labels):
    """Percent of the items with truth whose most probable class is another one."""
    truth = labels.truth.dropna()
    found = fit.consensus().loc[truth.index, "class"]
    return 100 * float((found.to_numpy() != truth.to_numpy()).mean())


@pytest.mark.parametrize("name", ERRORS)
def test_error_of_maximum_likelihood(name, real_data):
    labels = real_data(name)
    fit = bc.fit(labels, progress=False, engine="em")
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert np.diff(objective).min() >= -1e-9 * abs(objective[-1])
    assert fit.converged
    assert error(fit, labels) == pytest.approx(ERRORS[name], abs=0.5)
