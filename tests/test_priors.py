"""Priors as the user states them: what is refused, and how it is said."""

import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.errors import ModelError
from bayescrowd.model import Sizes
from bayescrowd.priors import Diagonal, from_plain, plain

SIZES = Sizes(n_items=3, n_workers=5, n_classes=4, n_labels=4)


def test_every_prior_of_a_wrong_shape_is_named_with_the_shape_it_should_have():
    model = bc.DawidSkene(prevalence_prior=[1, 2], confusion_prior=np.ones((2, 2)))
    with pytest.raises(ModelError) as caught:
        model.check(SIZES)
    message = str(caught.value)
    assert r"prevalence_prior has shape (2,), which does not broadcast to class (4)" in message
    assert r"confusion_prior has shape (2, 2), which does not broadcast to worker (5), class (4), label (4)" in message


@pytest.mark.parametrize("value", [None, "x", True, pd.DataFrame([[1.0]]), {"a": 1}, [[1, 2], [3]]], ids=repr)
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(ModelError, match="confusion_prior must be a number, an array of numbers or bc.diagonal"):
        bc.DawidSkene(confusion_prior=value).check(SIZES)


@pytest.mark.parametrize("value", [0.0, -1, [[1, 1, 1, 0]] * 4, np.nan, np.inf])
def test_concentrations_must_be_positive_and_finite(value):
    with pytest.raises(ModelError, match="confusion_prior"):
        bc.DawidSkene(confusion_prior=value).check(SIZES)


@pytest.mark.parametrize("n_workers", [3, 5, 8, 11])
def test_one_prior_per_worker_runs_at_any_number_of_workers(n_workers):
    crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(8, 1)), n_items=40, n_workers=n_workers, seed=3)
    each = np.broadcast_to([[3.0, 1.0], [1.0, 3.0]], (n_workers, 2, 2))
    options = {"objective": "posterior", "progress": False}
    one = bc.fit(crowd.labels, bc.DawidSkene(confusion_prior=each.copy()), engine="em", **options)
    other = bc.fit(crowd.labels, bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), engine="em", **options)
    np.testing.assert_allclose(one.class_probabilities(), other.class_probabilities(), atol=1e-6)


def test_priors_survive_plain_numbers():
    assert from_plain(plain(Diagonal(3.0, 1.0))) == Diagonal(3.0, 1.0)
    np.testing.assert_array_equal(from_plain(plain(np.eye(2))), np.eye(2))
    assert from_plain(plain(2.0)) == 2.0
