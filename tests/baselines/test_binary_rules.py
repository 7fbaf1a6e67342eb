"""What GhoshSVD and EigenRatio share: answers of two classes, weights, strange tables, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from baselines import crowds

import bayescrowd as bc
from bayescrowd.errors import EngineError, LabelError

both = pytest.mark.parametrize(
    "method", [bc.baselines.ghosh_svd, bc.baselines.eigen_ratio], ids=lambda method: method.__name__
)


@both
def test_a_weight_is_a_number_of_equal_labels_and_of_equal_items(method):
    base = crowds.neighbours(5, 40, 10, 5, np.linspace(0.6, 0.95, 10))
    rows = base.to_frame()[["item", "worker", "label"]]
    weight = 1 + rows["item"].astype(int) % 3
    weighted = bc.CrowdLabels.from_long(rows.assign(weight=weight), weight="weight", classes=[0, 1])
    repeated = bc.CrowdLabels.from_long(rows.loc[rows.index.repeat(weight)], classes=[0, 1], duplicates="keep")
    copies = [rows[weight > copy].assign(item=rows["item"].astype(str) + f"/{copy}") for copy in range(3)]
    copied = bc.CrowdLabels.from_long(pd.concat(copies), classes=[0, 1])
    fits = {
        name: method(labels) for name, labels in (("weighted", weighted), ("repeated", repeated), ("copied", copied))
    }
    found = {name: fit.class_probabilities()[1] for name, fit in fits.items()}
    assert found["repeated"][found["weighted"].index].equals(found["weighted"])
    assert found["copied"][[f"{i}/0" for i in found["weighted"].index]].tolist() == found["weighted"].tolist()
    skills = [fit.workers()["skill"] for fit in fits.values()]
    for skill in skills[1:]:
        np.testing.assert_allclose(skill[skills[0].index], skills[0], atol=1e-9)


STRANGE = {
    "one item": [(0, 0, 0), (0, 1, 1), (0, 2, 1)],
    "one worker": [(0, 0, 0), (1, 0, 1), (2, 0, 1)],
    "one label": [(0, 0, 0)],
    "agreed": [(i, w, 1) for i in range(2) for w in range(3)],
    "opposed": [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
    "apart": [(0, 0, 0), (1, 1, 1)],
    "never both": [(i, w, w) for i in range(3) for w in range(2)],
}


@both
@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(method, name):
    fit = method(bc.CrowdLabels.from_codes(*np.array(STRANGE[name]).T, classes=["n", "y"]))
    probability = fit.class_probabilities().to_numpy()
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert fit.workers()["skill"].between(-1, 1).all()
    if name in ("agreed", "one label"):
        assert (probability[:, 1] == (name == "agreed")).all()
    if name == "opposed":
        assert (probability == 0.5).all()
        assert "says nothing of 2 of the 2 items" in str(fit.idata.attrs["warnings"])


@both
def test_gold_silent_items_and_labels_that_are_no_class(method):
    rows = [(f"i{i}", w, "y" if i % 2 else "n") for i in range(6) for w in "abc"] + [("silent", "d", "?")]
    labels = bc.CrowdLabels.from_long(rows, classes=["n", "y"], labels=["n", "y", "?"], gold={"i0": "y"})
    probability = method(labels).class_probabilities()
    assert probability.loc["silent"].tolist() == [0.5, 0.5]
    assert probability.loc[["i0", "i1", "i2"], "y"].tolist() == [1, 1, 0]


@both
def test_refusals(method):
    with pytest.raises(EngineError, match="two classes, and these labels have 4: 1, 2, 3, 4.*ordered=True"):
        method(bc.datasets.load("anesthesia"))
    with pytest.raises(LabelError, match=f"baselines.{method.__name__} takes a CrowdLabels"):
        method([("i", "a", 1)])
