from __future__ import annotations

import fitted
import numpy as np
import pytest
from scipy.special import softmax

import bayescrowd as bc
from bayescrowd.errors import LabelError, ModelError


def test_the_evidence_of_a_point_estimate_adds_up_to_its_probabilities() -> None:
    fit = fitted.anesthesia_em()
    for item in (2, 3, 36):
        table = fit.explain(item)
        total = softmax(table[fit.labels.classes].sum().to_numpy())
        np.testing.assert_allclose(total, fit.class_probabilities().loc[item], atol=1e-6)
        np.testing.assert_allclose(table[fit.labels.classes].sum(axis=1), 0, atol=1e-9)
        said = fit.labels.to_frame()
        said = said[said["item"] == item]
        assert table["worker"].tolist()[1:] == said["worker"].tolist()
        assert table["label"].tolist()[1:] == said["label"].tolist()


def test_levels_count_as_they_are_probable_for_the_item() -> None:
    labels, model = fitted.d1(), bc.IDBLA(n_levels=2)
    tree = fitted.tree_of(labels, model, fitted.made_point(labels, model))
    table = bc.Fit(tree).explain("a")
    levels = tree["latent"]["difficulty_probability"].sel(item="a").to_numpy()
    confusion = tree["point_estimate"]["confusion"].sel(worker="w1", label="yes").to_numpy()
    logs = np.log(levels @ confusion)
    np.testing.assert_allclose(table.loc["label 1", ["no", "yes"]].astype(float), logs - logs.mean())


def test_weights_count() -> None:
    frame = fitted.frame().assign(weight=2.0)
    labels = bc.CrowdLabels.from_long(frame, weight="weight")
    run = fitted.made_point(labels, fitted.r31())
    plain = bc.Fit(fitted.tree_of(fitted.d1(), fitted.r31(), run)).explain("b")
    heavy = bc.Fit(fitted.tree_of(labels, fitted.r31(), run)).explain("b")
    np.testing.assert_allclose(heavy["yes"].iloc[1:], 2 * plain["yes"].iloc[1:])
    assert heavy["weight"].tolist() == [1.0, 2.0, 2.0, 2.0]


def test_what_cannot_be_explained() -> None:
    with pytest.raises(LabelError, match="there is no item 'z'"):
        fitted.em().explain("z")
    run = fitted.made_point(fitted.d1(), fitted.r31())
    tree = fitted.tree_of(fitted.d1(), fitted.r31(), run)
    del tree["point_estimate"]["confusion"]
    with pytest.raises(ModelError, match="no confusion matrices"):
        bc.Fit(tree).explain("a")
