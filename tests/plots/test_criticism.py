"""What the pictures of criticism show is what checks, calibrations and comparisons say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import fitted
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import bayescrowd as bc
from bayescrowd import plots
from bayescrowd.criticism.calibration import calibration
from bayescrowd.criticism.prior_predictive import prior_predictive
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdError
from bayescrowd.fit import Fit


def _offsets(picture: Any, name: str) -> np.ndarray:
    return np.asarray(picture.get_viz(name).get_offsets())


@pytest.mark.parametrize("name", ["agreement", "shares"])
def test_points_lie_at_expected_and_observed_and_those_outside_are_marked(drawn: Any, name: str) -> None:
    check = drawn.check_of(8, name=name)
    picture = plots.plot_agreement(check)
    table = check.table
    outside = (table["observed"] < table["lower"]) | (table["observed"] > table["upper"])
    assert outside.sum() >= 1
    for visual, rows in (("outside", outside), ("inside", ~outside)):
        expected = table.loc[rows, ["expected", "observed"]].to_numpy()
        found = _offsets(picture, visual)
        np.testing.assert_allclose(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    assert len(picture.get_viz("interval").get_segments()) == len(table)
    worst = table.iloc[np.argsort(-table["z"].abs(), kind="stable")].head(10)
    right = picture.get_target(None, {"panel": "worst"})
    names = [tick.get_text() for tick in right.get_yticklabels()]
    if name == "agreement":
        assert names[0] == f"{worst['worker'].iloc[0]} & {worst['other'].iloc[0]} ({worst['n_common'].iloc[0]})"
        title = f"{outside.sum()} of 28 pairs of workers agree"
        assert (
            picture.viz["title"]
            .item()
            .get_text()
            .startswith(title.replace("agree", "agree" if outside.sum() > 1 else "agrees"))
        )
        assert picture.viz["title"].item().get_text().endswith("(p < 0.01)")
    else:
        assert names[0] == f"{worst['worker'].iloc[0]} says {worst['label'].iloc[0]}"
    points = [mark.get_offsets()[0].tolist() for mark in np.ravel(picture.get_viz("worst"))]
    np.testing.assert_allclose(points, np.stack([worst["observed"], np.arange(10)[::-1]], -1))
    assert picture.viz["subtitle"].item().get_text() == "They agree."  # neither its name nor the remedy


def test_a_model_that_fits_is_said_to_fit(drawn: Any) -> None:
    picture = plots.plot_agreement(drawn.check_of(5, p_value=0.4))
    assert picture.viz["title"].item().get_text() == "Workers agree as the model expects (p = 0.40)"
    picture = plots.plot_agreement(drawn.check_of(5, p_value=float("nan"), sentence=""))
    assert picture.viz["title"].item().get_text() == "Workers agree as the model expects"
    assert "outside" in picture.viz["subtitle"].item().get_text()


def test_misfit_without_a_pair_outside_is_still_misfit(drawn: Any) -> None:
    check = drawn.check_of(5)
    check.table = check.table.assign(observed=check.table["expected"], outside=False)
    picture = plots.plot_agreement(check)
    assert picture.viz["title"].item().get_text() == "Workers agree unlike what the model expects (p < 0.01)"


def test_pairs_of_hostile_names_and_of_500_workers(drawn: Any) -> None:
    hostile = drawn.check_of(len(drawn.hostile), workers=list(drawn.hostile))
    drawn.well_drawn(plots.plot_agreement(hostile))
    picture = plots.plot_agreement(drawn.check_of(500))
    drawn.well_drawn(picture)
    assert "interval" not in picture.viz
    assert picture.get_viz("inside").get_array().sum() == 500 * 499 / 2
    assert len(_offsets(picture, "outside")) <= 1000


def test_vote_splits_are_bars_with_what_is_expected(drawn: Any) -> None:
    check = drawn.splits_of()
    picture = plots.plot_agreement(check)
    bars = np.ravel(picture.get_viz("observed"))
    np.testing.assert_allclose([bar.get_height() for bar in bars], check.table["observed"])
    colours = [bar.get_facecolor() for bar in bars]
    assert colours[0] != colours[1]
    assert len(set(colours[1:])) == 1
    x, y = picture.get_viz("expected").get_data()
    np.testing.assert_allclose(y, check.table["expected"])
    axes = picture.get_target(None, {"panel": "all"})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["3-0", "2-1", "5-0", "4-1", "3-2"]
    assert axes.get_ylabel() == "items"
    assert picture.viz["title"].item().get_text() == "Votes split as the model expects (p = 0.30)"
    drawn.well_drawn(picture)
    bad = plots.plot_agreement(drawn.splits_of(p_value=0.001))
    assert bad.viz["title"].item().get_text() == "1 vote split unlike what the model expects (p < 0.01)"
    bare = plots.plot_agreement(check, visuals={"observed": False, "names": False})
    assert "observed" not in bare.viz
    assert not len(bare.get_target(None, {"panel": "all"}).get_xticks())


def test_of_many_splits_the_commonest_are_shown(drawn: Any) -> None:
    picture = plots.plot_agreement(drawn.splits_of([f"{n}-{k}" for n in range(9) for k in range(5)]))
    assert len(np.ravel(picture.get_viz("observed"))) == 30
    assert "The 30 commonest of 45 splits are shown" in picture.viz["note"].item().get_text()
    drawn.well_drawn(picture)


def test_splits_are_numbers_of_items_however_small() -> None:
    labels = CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], items=["a"], workers=["v", "w"], classes=["no", "yes"])
    check = prior_predictive(labels, bc.DawidSkene(), draws=20)["splits"]
    assert check.table[["observed", "upper"]].to_numpy().max() == 1
    axes = plots.plot_agreement(check).get_target(None, {"panel": "all"})
    assert axes.get_ylabel() == "items"
    axes.figure.draw_without_rendering()
    assert not [tick.get_text() for tick in axes.get_yticklabels() if "%" in tick.get_text()]


def test_splits_outside_count_though_they_are_too_rare_to_be_shown(drawn: Any) -> None:
    check = drawn.splits_of([f"{n}-{k}" for n in range(9) for k in range(5)], p_value=0.001)
    rarest = int(check.table[["observed", "expected"]].max(axis=1).argmin())
    check.table.loc[rarest, ["observed", "outside"]] = 0.0, True
    picture = plots.plot_agreement(check)
    assert len(np.ravel(picture.get_viz("observed"))) == 30
    assert picture.viz["title"].item().get_text() == "2 vote splits unlike what the model expects (p < 0.01)"
    legend = [text.get_text() for text in picture.viz["legend"].item().get_texts()]
    assert "observed, outside the interval (1)" in legend  # the one that is shown


def test_misfit_without_a_split_outside_is_still_misfit(drawn: Any) -> None:
    check = drawn.splits_of(p_value=0.03)
    check.table = check.table.assign(observed=check.table["expected"], outside=False)
    title = plots.plot_agreement(check).viz["title"].item().get_text()
    assert title == "Votes split unlike what the model expects (p = 0.03)"


@pytest.mark.parametrize("name", ["agreement", "splits"])
def test_what_lies_outside_is_what_the_table_says(drawn: Any, name: str) -> None:
    check = drawn.check_of(6) if name == "agreement" else drawn.splits_of()
    check.table["outside"] = np.arange(len(check.table)) == len(check.table) - 1
    data = plots.plot_agreement(check).data.isel(panel=0)
    marked = data.where(data["outside"] > 0, drop=True)
    assert marked["observed"].values.tolist() == [check.table["observed"].iloc[-1]]


def test_tables_of_some_pairs_are_said_to_be(drawn: Any) -> None:
    note = plots.plot_agreement(drawn.check_of(6, n_values=1234)).viz["note"].item().get_text()
    assert "Of 1,234 pairs, the 15 with most common items are shown." in " ".join(note.split())
    note = plots.plot_agreement(drawn.check_of(6, n_values=15)).viz["note"].item().get_text()
    assert "most common items" not in note


@pytest.mark.parametrize("name", ["agreement", "splits", "shares"])
def test_a_prior_has_not_been_fitted(name: str) -> None:
    check = prior_predictive(fitted.anesthesia(), bc.DawidSkene(), draws=20)[name]
    assert check.is_prior
    picture = plots.plot_agreement(check)
    words = " ".join(" ".join(text.get_text().split()) for text in picture.viz["figure"].item().findobj(Text))
    assert "fitted" not in words
    assert "labels drawn from the model before it has seen any labels" in words


def test_checks_that_cannot_be_drawn_are_refused(drawn: Any) -> None:
    other = SimpleNamespace(name="mine", table=pd.DataFrame({"observed": [1.0], "expected": [1.0]}))
    with pytest.raises(BayescrowdError, match="check 'mine' has columns observed, expected; this picture draws pairs"):
        plots.plot_agreement(other)
    empty = drawn.check_of(4)
    empty.table = empty.table.iloc[:0]
    with pytest.raises(BayescrowdError, match="check 'agreement' is empty"):
        plots.plot_agreement(empty)


@pytest.mark.parametrize("name", ["agreement", "splits", "shares"])
def test_real_checks_are_drawn(drawn: Any, name: str) -> None:
    from bayescrowd.criticism.checks import predictive_checks

    checks = predictive_checks(drawn.crowd("anesthesia-gibbs").idata, draws=20)
    picture = plots.plot_agreement(checks[name])
    drawn.well_drawn(picture)
    assert np.sort(picture.data["observed"].isel(panel=0)).tolist() == np.sort(checks[name].table["observed"]).tolist()
    with pytest.raises(BayescrowdError, match="takes one check"):
        plots.plot_agreement(checks)


def test_the_reliability_curve_is_the_table(drawn: Any) -> None:
    given = drawn.calibration_of()
    picture = plots.plot_reliability(given)
    curve = given.curve
    x, y = picture.get_viz("accuracy").get_data()
    np.testing.assert_allclose(np.stack([x, y]), curve[["confidence", "accuracy"]].to_numpy().T)
    lines = np.array(picture.get_viz("interval").get_segments())
    np.testing.assert_allclose(lines[:, :, 1], curve[["accuracy_lower", "accuracy_upper"]])
    stems = np.array(picture.get_viz("n_items").get_segments())
    np.testing.assert_allclose(stems[:, 1], curve[["confidence", "n_items"]])
    x, y = picture.get_viz("diagonal").get_data()
    assert list(x) == list(y)
    words = picture.get_viz("scores").get_text()
    assert "log loss 0.350 (0.340 to 0.360)" in words
    assert picture.viz["title"].item().get_text() == "Overconfident: 95\u00a0% sure, 91\u00a0% right"
    assert "345 items with known class" in picture.viz["subtitle"].item().get_text()


@pytest.mark.parametrize(
    ("verdict", "words"),
    [(1, "Overconfident"), (-1, "Underconfident"), (0, "As sure as right, as far as these items tell")],
)
def test_the_verdict_is_that_of_the_calibration(drawn: Any, verdict: int, words: str) -> None:
    for confidence, accuracy in ((0.95, 0.91), (0.8, 0.91)):
        title = plots.plot_reliability(drawn.calibration_of(confidence, accuracy, verdict=verdict)).viz["title"].item()
        expected = f"{words}: {100 * confidence:.0f}\u00a0% sure, {100 * accuracy:.0f}\u00a0% right"
        assert title.get_text().replace("\n", " ") == expected


def _forecasts(drawn: Any, probability: np.ndarray, wrong: int) -> Fit:
    """A fit whose classes have these probabilities of the first class, which is true but for some items."""
    n = len(probability)
    truth = pd.Series(["a"] * (n - wrong) + ["b"] * wrong, index=[f"item{i:04d}" for i in range(n)])
    labels = drawn.random_labels(n, 3, "ab", (2, 3), truth=truth)
    table = np.stack([probability, 1 - probability], -1)
    run = fitted.made_run(labels, bc.DawidSkene())
    run = run._replace(state_probability=table, state_probability_by_chain=np.stack([table, table]))
    return Fit(fitted.tree_of(labels, bc.DawidSkene(), run))


@pytest.mark.parametrize(
    ("probability", "n", "wrong", "verdict"), [(0.999, 2000, 10, 1), (0.9, 20, 5, 0), (0.9, 300, 10, -1)]
)
def test_picture_and_sentence_of_a_calibration_agree(
    drawn: Any, probability: float, n: int, wrong: int, verdict: int
) -> None:
    found = calibration(_forecasts(drawn, np.full(n, probability), wrong).idata)
    assert found.verdict == verdict
    title = plots.plot_reliability(found).viz["title"].item().get_text()
    said = {1: "Overconfident", 0: "As sure as right", -1: "Underconfident"}[verdict]
    assert title.startswith(said)
    words = {1: "overconfident", 0: "no more and no less confident", -1: "not confident enough"}[verdict]
    assert words in found.sentences[0]


@pytest.mark.parametrize(
    ("n_classes", "least", "start"), [(2, 0.5, 0.5), (4, 0.25, 0.25), (4, 0.46, 0.45), (8, 0.1, 0.125)]
)
def test_confidence_begins_at_chance_and_accuracy_where_it_is_lowest(
    drawn: Any, n_classes: int, least: float, start: float
) -> None:
    given = drawn.calibration_of(n_classes=n_classes)
    given.curve.loc[0, ["lower", "accuracy_lower"]] = least, 0.08
    picture = plots.plot_reliability(given)
    top, bottom = (picture.get_target(None, {"panel": panel}) for panel in ("accuracy", "items"))
    for axes in (top, bottom):
        low, high = axes.get_xlim()
        assert start - 0.03 < low < start
        assert 1 < high < 1.03
    assert 0.02 < top.get_ylim()[0] < 0.05
    assert picture.get_viz("diagonal").get_xdata()[0] == pytest.approx(start)
    drawn.well_drawn(picture)


def test_a_real_calibration_is_drawn(drawn: Any) -> None:
    fit = drawn.made(drawn.random_labels(120, 6, "abc", (3, 5)))
    found = calibration(fit.idata)
    picture = plots.plot_reliability(found)
    drawn.well_drawn(picture)
    assert picture.data.sizes["bin"] == len(found.curve)


def test_comparison_shows_differences_errors_and_weights(drawn: Any) -> None:
    table = drawn.comparison_of()
    picture = plots.plot_comparison(table.iloc[::-1])
    np.testing.assert_allclose(
        _offsets(picture, "point_estimate"), np.stack([table["elpd_diff"], np.arange(3)[::-1]], -1)
    )
    two, one = (np.array(bars.get_segments())[:, :, 0] for bars in np.ravel(picture.get_viz("error_bar")))
    np.testing.assert_allclose(one.mean(1), table["elpd_diff"])
    np.testing.assert_allclose(np.ptp(one, axis=1), 2 * table["dse"])
    np.testing.assert_allclose(np.ptp(two, axis=1), 4 * table["dse"])
    np.testing.assert_allclose([bar.get_width() for bar in np.ravel(picture.get_viz("weight"))], table["weight"])
    names = [tick.get_text() for tick in picture.get_target(None, {"panel": "difference"}).get_yticklabels()]
    assert names[:2] == ["idbla", "dawid-skene"]
    assert "\\$a\\$" in names[2]
    expected = "“idbla” predicts labels best; “dawid-skene” is worse by 20.0 ± 4.0 nats"
    assert picture.viz["title"].item().get_text() == expected


def test_fits_that_cannot_be_told_apart_are_not_ranked(drawn: Any) -> None:
    table = drawn.comparison_of()
    table.loc["dawid-skene", "dse"] = 11.0
    title = plots.plot_comparison(table).viz["title"].item().get_text()
    assert title == "“idbla” and “dawid-skene” cannot be told apart"
    table["elpd_diff"] /= 10
    assert plots.plot_comparison(table).viz["title"].item().get_text() == "“idbla” and 2 others cannot be told apart"
    one = plots.plot_comparison(table.iloc[:1].drop(columns="weight"))
    assert one.viz["title"].item().get_text() == "Only “idbla”, and nothing to compare it with"
    assert "weight" not in one.viz


def test_a_real_comparison_is_drawn(drawn: Any) -> None:
    from bayescrowd.criticism.comparison import compare

    labels = fitted.d1()
    models = {"one": bc.DawidSkene(), "two": fitted.r31()}
    trees = {
        name: fitted.tree_of(labels, model, fitted.made_run(labels, model, seed=n))
        for n, (name, model) in enumerate(models.items())
    }
    table = compare(trees)
    picture = plots.plot_comparison(table)
    drawn.well_drawn(picture)
    assert np.sort(picture.data["elpd_diff"].isel(panel=0)).tolist() == np.sort(table["elpd_diff"]).tolist()
