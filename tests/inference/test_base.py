"""What engines share: discovery, sizes, trimming, and the conditional probabilities of states."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from conformance.toys import Ability
from running import D1, labels_of, of_rows

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.data.arrays import Sizes
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import Engine, conditional, joint_by_draw, require, sizes_of, trim


def test_engines_are_found_by_looking():
    assert {"em", "nuts"} <= set(inference.names())
    for name in inference.names():
        engine = inference.get(name)
        assert isinstance(engine, Engine)
        assert engine.name == name
        engine.settings()  # every option has a default
        assert engine.settings.__dataclass_params__.frozen


def test_an_unknown_engine_lists_the_known():
    with pytest.raises(EngineError, match=r"gibs.*em.*nuts"):
        inference.get("gibs")


def test_sizes_count_what_is_listed_not_what_occurs():
    labels = of_rows([(0, 0, 0)], classes=3, label_values=4, items=list("abc"), workers=list("xy"))
    assert sizes_of(labels) == Sizes(3, 2, 3, 4)


def test_padding_is_trimmed_along_named_axes():
    padded, exact = Sizes(8, 8, 2, 2), Sizes(5, 3, 2, 2)
    found = trim({"prevalence": np.ones(2), "confusion": np.ones((8, 2, 2))}, bc.DawidSkene(), padded, exact)
    assert {name: value.shape for name, value in found.items()} == {"prevalence": (2,), "confusion": (3, 2, 2)}
    found = trim({"prevalence": np.ones(2), "ability": np.arange(8.0)}, Ability(), padded, exact)
    assert found["ability"].tolist() == [0, 1, 2]


def test_conditional_probabilities_by_hand():
    labels = labels_of(D1)
    points = {"prevalence": np.array([0.3, 0.7]), "confusion": np.random.default_rng(0).dirichlet([1, 2], (3, 2))}
    probability, log_likelihood = conditional(bc.DawidSkene(), points, labels)
    for i, text in enumerate(D1):
        joint = points["prevalence"] * np.prod([points["confusion"][k, :, int(c)] for k, c in enumerate(text)], axis=0)
        np.testing.assert_allclose(probability[i], joint / joint.sum(), rtol=1e-12)
        assert log_likelihood[i] == pytest.approx(np.log(joint.sum()), rel=1e-12)


def test_joint_probabilities_of_new_items_by_hand():
    labels = labels_of(["01 ", "111"])
    rng = np.random.default_rng(1)
    draws = {"prevalence": rng.dirichlet([1, 1], 6), "confusion": rng.dirichlet([1, 2], (6, 3, 2))}
    data = oracle.of_labels(labels)
    total = np.zeros((2, 2))
    for prevalence, confusion in zip(draws["prevalence"], draws["confusion"], strict=True):
        response = np.log(confusion)[data.worker, :, data.label]
        probability, by_item = oracle.posterior_given(data, np.tile(np.log(prevalence), (2, 1)), response)
        total += probability * np.exp(by_item)[:, None] / 6
    np.testing.assert_allclose(np.exp(joint_by_draw(bc.DawidSkene(), draws, labels)), total, rtol=1e-12)


def test_require():
    require(True, "never said")
    with pytest.raises(EngineError, match="said"):
        require(False, "said")
