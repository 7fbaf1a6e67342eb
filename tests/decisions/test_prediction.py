from __future__ import annotations

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.prediction import predict
from bayescrowd.errors import LabelError


def _new(*rows: tuple[object, object, object]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["item", "worker", "label"])


def test_P26_P89_known_and_unknown_workers() -> None:
    new = _new(("f", "w1", "yes"), ("g", "w4", "yes"), ("h", "w4", "no"))
    table = fitted.nuts().predict(new)
    assert table.index.tolist() == ["f", "g", "h"]
    assert table.columns.tolist() == ["no", "yes"]
    # Exact, by enumeration with the item added.
    np.testing.assert_allclose(table["yes"], [0.75594, 0.72126, 0.22331], atol=0.03)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-12)


def test_joint_weights_are_averaged_before_they_are_normalised() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31(), chains=2, draws=25)
    tree = fitted.tree_of(labels, fitted.r31(), run)
    table = predict(tree, _new(("f", "w1", "yes"), ("f", "w3", "no"), ("f", "w1", "yes"), ("g", "w2", "no")))
    confusion = run.draws["confusion"].reshape(-1, 3, 2, 2)
    prevalence = run.draws["prevalence"].reshape(-1, 2)
    f = (prevalence * confusion[:, 0, :, 1] ** 2 * confusion[:, 2, :, 0]).mean(0)
    g = (prevalence * confusion[:, 1, :, 0]).mean(0)
    np.testing.assert_allclose(table, np.stack([f / f.sum(), g / g.sum()]), atol=1e-12)
    each = prevalence * confusion[:, 0, :, 1] ** 2 * confusion[:, 2, :, 0]
    wrong = (each / each.sum(1, keepdims=True)).mean(0)
    assert abs(table.loc["f", "yes"] - wrong[1]) > 1e-3


def test_weights_gold_and_items_without_labels() -> None:
    labels = fitted.d1()
    run = fitted.made_point(labels, fitted.r31())
    tree = fitted.tree_of(labels, fitted.r31(), run)
    new = CrowdLabels.from_codes(
        [0, 1],
        [0, 1],
        [1, 1],
        items=["f", "g", "empty"],
        workers=["w2", "w3"],
        classes=["no", "yes"],
        weight=[2, 1],
        gold_code=[-1, 0, -1],
    )
    table = predict(tree, new)
    confusion, prevalence = run.points["confusion"], run.points["prevalence"]
    f = prevalence * confusion[1, :, 1] ** 2
    np.testing.assert_allclose(table.loc["f"], f / f.sum())
    assert table.loc["g"].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(table.loc["empty"], prevalence)


def test_point_estimates_use_the_prior_mean_for_unknown_workers() -> None:
    labels = fitted.d1()
    run = fitted.made_point(labels, fitted.r31())
    table = predict(fitted.tree_of(labels, fitted.r31(), run), _new(("f", "new", "yes"), ("f", "newer", "yes")))
    f = run.points["prevalence"] * np.array([0.25, 0.75]) ** 2
    np.testing.assert_allclose(table.loc["f"], f / f.sum())


def test_unknown_workers_have_the_average_of_priors_per_worker() -> None:
    labels = fitted.d1()
    prior = np.array([[[3, 1], [1, 3]], [[5, 1], [1, 5]], [[1, 1], [1, 1]]])
    model = bc.DawidSkene(confusion_prior=prior)
    run = fitted.made_point(labels, model)
    table = predict(fitted.tree_of(labels, model, run), _new(("f", "new", "yes")))
    f = run.points["prevalence"] * np.array([0.25, 0.75])
    np.testing.assert_allclose(table.loc["f"], f / f.sum())


def test_draws_for_unknown_workers_are_seeded_and_shared_by_their_labels() -> None:
    labels = fitted.d1()
    model = fitted.r31()
    run = fitted.made_run(labels, model, chains=2, draws=2000)
    run.draws["prevalence"][:] = 0.5
    tree = fitted.tree_of(labels, model, run)
    new = _new(*[("f", "new", "yes")] * 3)
    first, again, other = predict(tree, new), predict(tree, new), predict(tree, new, seed=1)
    assert first.equals(again)
    assert not first.equals(other)
    # Three labels of one unknown worker: E[p^3] of Beta(3, 1) against Beta(1, 3), not the cube of the means.
    right, wrong = 3 * 4 * 5 / (4 * 5 * 6), 1 * 2 * 3 / (4 * 5 * 6)
    assert first.loc["f", "yes"] == pytest.approx(right / (right + wrong), abs=0.01)


@pytest.mark.parametrize("model", [fitted.OneCoin(), fitted.Levelled()])
def test_other_models(model: fitted.OneCoin) -> None:
    labels = fitted.d1()
    run = fitted.made_point(labels, model)
    table = predict(fitted.tree_of(labels, model, run), _new(("f", "w2", "yes"), ("f", "new", "yes")))
    rate, prevalence = np.array([run.points["right_rate"][1], 0.8]), run.points["prevalence"]
    easy = prevalence * np.stack([1 - rate, rate], 1).prod(0)
    if model.n_levels > 1:
        share = run.points["difficulty_prevalence"]
        easy = share[0] * easy + share[1] * prevalence / 4
    np.testing.assert_allclose(table.loc["f"], easy / easy.sum())


def test_priors_without_tables_are_drawn_given_what_the_fit_learnt() -> None:
    labels, model = fitted.d1(), fitted.Skilled()
    run = fitted.made_run(labels, model, chains=1, draws=400)
    run.draws["prevalence"][:] = 0.5
    run.draws["common_skill"][:] = 2.0
    tree = fitted.tree_of(labels, model, run)
    # An unknown worker's skill is N(2, .1), whatever the prior of the common skill says.
    assert predict(tree, _new(("f", "new", "yes"))).loc["f", "yes"] == pytest.approx(1 / (1 + np.exp(-2)), abs=0.005)
    point = fitted.made_point(labels, model)
    point.points["prevalence"] = np.array([0.5, 0.5])
    point.points["common_skill"] = np.array(2.0)
    table = predict(fitted.tree_of(labels, model, point), _new(("f", "new", "yes")))
    assert table.loc["f", "yes"] == pytest.approx(1 / (1 + np.exp(-2)), abs=0.01)


def test_an_estimate_of_zero_does_not_end_in_nothing() -> None:
    labels = fitted.d1()
    run = fitted.made_point(labels, fitted.r31())
    run.points["confusion"][:] = np.eye(2)
    table = predict(fitted.tree_of(labels, fitted.r31(), run), _new(("f", "w1", "yes"), ("f", "w2", "no")))
    assert np.isfinite(table).all(axis=None)


def test_unknown_label_values_are_listed() -> None:
    with pytest.raises(LabelError, match="does not know the label values 'maybe', 'unsure'.*it knows 'no', 'yes'"):
        fitted.em().predict(_new(("f", "w1", "maybe"), ("g", "w1", "unsure"), ("g", "w2", "no")))
    other = CrowdLabels.from_long(_new(("f", "w1", "yes"), ("g", "w2", "perhaps")))
    with pytest.raises(LabelError, match="'perhaps'"):
        fitted.em().predict(other)
    with pytest.raises(LabelError, match="types differ: int and str"):
        fitted.anesthesia_em().predict(_new(("p46", 1, "1")))
    with pytest.raises(LabelError, match=r"label values 9; it knows 1, 2, 3, 4"):
        fitted.anesthesia_em().predict(_new(("p46", 1, 9), ("p46", 2, 3)))
    gold = CrowdLabels.from_long(_new(("f", "w1", "yes"), ("f", "w2", "no")), gold={"f": "perhaps"})
    with pytest.raises(LabelError, match="gold of 'f' is no class of the fit"):
        fitted.em().predict(gold)


def test_labels_that_nobody_uses_do_not_matter() -> None:
    new = _new(("f", "w1", "yes"), ("f", "w2", "no"))
    wide = CrowdLabels.from_long(new, classes=["yes", "no", "perhaps"])
    plain = fitted.em().predict(new)
    pd.testing.assert_frame_equal(fitted.em().predict(wide), plain)


def test_tables_that_cannot_be_read() -> None:
    with pytest.raises(LabelError, match="no column 'item', 'worker'.*from_long"):
        fitted.em().predict(pd.DataFrame({"task": [1], "annotator": [1], "label": ["yes"]}))
    with pytest.raises(LabelError, match="not a dict"):
        fitted.em().predict({"item": ["f"]})


def test_items_of_the_fit_count_as_new() -> None:
    fit = fitted.em()
    known, new = fit.predict(_new(("a", "w1", "yes"))), fit.predict(_new(("z", "w1", "yes")))
    np.testing.assert_array_equal(known, new)


def test_weight_and_gold_columns_are_used_and_checked() -> None:
    fit = fitted.nuts()
    new = _new(("f", "w1", "yes"), ("g", "w2", "yes"), ("h", "w2", "no"))
    twice = pd.concat([new, new.iloc[:1]])
    table = fit.predict(new.assign(weight=[2, 1, 1]))
    pd.testing.assert_frame_equal(table, fit.predict(twice))
    table = fit.predict(new.assign(gold=[None, "no", None]))
    assert table.loc["g"].tolist() == [1.0, 0.0]
    pd.testing.assert_frame_equal(table.drop("g"), fit.predict(new).drop("g"))
    with pytest.raises(LabelError, match="weight"):
        fit.predict(new.assign(weight=[-1, 1, 1]))
    with pytest.raises(LabelError, match="'perhaps'"):
        fit.predict(new.assign(gold="perhaps"))


def test_one_new_item_is_nothing_suspicious() -> None:
    # Warnings are errors here.
    for rows in ([("f", 1, 3)], [("f", 1, 3), ("f", 1, 3)], [("f", 1, 3), ("g", 1, 3)], [("f", 1, 3), ("f", 2, 3)]):
        assert fitted.anesthesia_em().predict(_new(*rows)).notna().all(axis=None)
