"""What the pictures of a fit show is what its tables say."""

from __future__ import annotations

import itertools
from typing import Any

import fitted
import numpy as np
import pytest
from arviz_stats.base import array_stats

import bayescrowd as bc
from bayescrowd import plots
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions import workers as reports
from bayescrowd.errors import LabelError
from bayescrowd.fit import Fit


def _texts(artists: Any) -> list[str]:
    return [artist.get_text() for artist in np.ravel(artists)]


def _visual(picture: Any, name: str, **where: Any) -> Any:
    return picture.get_viz(name, sel=where) if where else picture.get_viz(name)


# --- workers ---------------------------------------------------------------------------------------------------------


def test_workers_are_sorted_and_are_those_of_the_report(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-gibbs")
    picture = plots.plot_workers(fit)
    report = fit.workers().sort_values("accuracy", ascending=False, kind="stable")
    for name, column in (("accuracy", "accuracy"), ("lower", "accuracy_lower"), ("upper", "accuracy_upper")):
        np.testing.assert_allclose(picture.data[name].isel(column=0), report[column])
    forest = picture.get_target(None, {"column": "forest"})
    labels = [tick.get_text() for tick in forest.get_yticklabels()]
    assert labels == [str(worker) for worker in report.index]
    assert forest.get_yticks().tolist() == [4, 3, 2, 1, 0]  # the best on top
    offsets = np.ravel(_visual(picture, "accuracy"))[0].get_offsets()
    np.testing.assert_allclose(offsets[:, 0], report["accuracy"])
    segments = np.array(_visual(picture, "interval").get_segments())
    np.testing.assert_allclose(segments[:, :, 0], report[["accuracy_lower", "accuracy_upper"]])
    assert _visual(picture, "chance").get_xdata()[0] == 0.25
    assert _texts(_visual(picture, "n_labels_text")) == [str(count) for count in report["n_labels"]]


def test_highest_density_intervals_are_those_of_arviz(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-gibbs")
    picture = plots.plot_workers(fit, ci_prob=0.8, ci_kind="hdi")
    accuracy = reports.scores(fit.idata).accuracy
    order = np.argsort(-accuracy.mean(0), kind="stable")
    expected = array_stats.hdi(accuracy, 0.8, axis=0)[order]
    np.testing.assert_allclose(picture.data["lower"].isel(column=0), expected[:, 0])
    np.testing.assert_allclose(picture.data["upper"].isel(column=0), expected[:, 1])


def test_spammers_and_adversaries_are_marked_by_colour_and_shape(drawn: Any) -> None:
    picture = plots.plot_workers(drawn.crowd("trouble"))
    assert picture.data["role"].isel(column=0).values.tolist() == ["worker", "worker", "spammer", "adversary"]
    assert picture.viz["title"].item().get_text() == "1 of 4 workers looks like a spammer, 1 like an adversary"
    marks = list(np.ravel(_visual(picture, "accuracy")))
    assert [len(mark.get_offsets()) for mark in marks] == [2, 1, 1]
    assert len({mark.get_facecolor().tobytes() for mark in marks}) == 3
    assert len({mark.get_paths()[0].vertices.tobytes() for mark in marks}) == 3
    legend = [text.get_text() for text in picture.viz["legend"].item().get_texts()]
    assert legend == ["worker", "looks like a spammer", "looks like an adversary", "chance (50\u00a0%)"]


def test_engines_without_draws_show_points_and_say_why(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-em")
    picture = plots.plot_workers(fit)
    assert _visual(picture, "interval").get_segments() == []
    assert "No intervals: em gives no draws" in " ".join(picture.viz["subtitle"].item().get_text().split())
    assert picture.viz["title"].item().get_text() == "Accuracies from 78\u00a0% to 87\u00a0%"
    again = plots.plot_workers(fit, bootstrap=4, seed=3)
    report = fit.workers(bootstrap=4, seed=3).sort_values("accuracy", ascending=False, kind="stable")
    np.testing.assert_allclose(again.data["lower"].isel(column=0), report["accuracy_lower"])
    assert "from 4 refits" in " ".join(again.viz["subtitle"].item().get_text().split())


def test_approximations_say_that_intervals_are_narrow(drawn: Any) -> None:
    picture = plots.plot_workers(drawn.crowd("anesthesia-collapsed-vi"))
    assert "too narrow" in " ".join(picture.viz["note"].item().get_text().split())


def test_of_500_workers_the_best_and_the_worst_are_named(drawn: Any) -> None:
    fit = drawn.crowd("500 workers")
    picture = plots.plot_workers(fit)
    report = fit.workers().sort_values("accuracy", ascending=False, kind="stable")
    forest = picture.get_target(None, {"column": "forest"})
    assert [text.get_text() for text in forest.texts] == [*report.index[:6], *report.index[:-7:-1]]
    assert not len(forest.get_yticks())
    assert len(_visual(picture, "interval").get_segments()) == 500
    assert picture.viz["figure"].item().get_size_inches()[1] <= 8
    assert not len(plots.plot_workers(fit, visuals={"names": False}).get_target(None, {"column": "forest"}).texts)


def test_a_method_without_confusion_says_what_accuracy_means(drawn: Any) -> None:
    picture = plots.plot_workers(drawn.crowd("majority vote"))
    assert "share of the worker's labels that agree" in " ".join(picture.viz["note"].item().get_text().split())


# --- confusion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crowd", "difficulty"), [("anesthesia-gibbs", None), ("levels", None), ("levels", "2")])
def test_confusion_has_means_and_intervals_of_the_tables(drawn: Any, crowd: str, difficulty: str | None) -> None:
    fit = drawn.crowd(crowd)
    picture = plots.plot_confusion(fit, difficulty=difficulty, ci_prob=0.8)
    shown = picture.data["worker"].to_numpy().tolist()
    for worker in shown:
        table = fit.confusion(worker, interval=0.8, difficulty=difficulty)
        for name, statistic in (("confusion", "mean"), ("lower", "lower"), ("upper", "upper")):
            expected = table.xs(statistic, axis=1, level="statistic").to_numpy()
            np.testing.assert_allclose(picture.data[name].sel(worker=worker), expected, atol=1e-12)
    counts = fit.workers()["n_labels"].loc[shown].to_numpy()
    assert (np.diff(counts) <= 0).all()
    words = picture.viz["subtitle"].item().get_text()
    assert ("levels of difficulty averaged" in words) == (crowd == "levels" and difficulty is None)
    assert ("items of difficulty 2" in words) == (difficulty is not None)


def test_cells_say_percent_and_interval(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-gibbs")
    picture = plots.plot_confusion(fit, workers=[3])
    table = fit.confusion(3, interval=0.89)
    mean = table.xs("mean", axis=1, level="statistic").to_numpy()
    low, high = (table.xs(name, axis=1, level="statistic").to_numpy() for name in ("lower", "upper"))
    numbers = np.array(_texts(_visual(picture, "probability", worker=3).to_numpy())).reshape(4, 4)
    ends = np.array(_texts(_visual(picture, "interval", worker=3).to_numpy())).reshape(4, 4)
    assert numbers[1, 1] == f"{100 * mean[1, 1]:.0f}"
    for place in itertools.product(range(4), range(4)):
        assert ends[place] == f"{100 * low[place]:.0f}–{100 * high[place]:.0f}"
    axes = picture.get_target(None, {"worker": 3})
    assert axes.get_title(loc="left") == "3 · 45 labels"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3", "4"]
    assert axes.get_ylim() == (3.5, -0.5)  # the first class is on top
    colours = _visual(picture, "cell", worker=3).get_facecolor().reshape(4, 4, 4)
    blue, red = colours[..., 2], colours[..., 0]
    assert (np.diag(blue) >= np.diag(red)).all()  # right ones blue
    off = ~np.eye(4, dtype=bool)
    assert (red[off] >= blue[off]).all()  # wrong ones warm


def test_confusion_without_draws_has_no_intervals_and_says_so(drawn: Any) -> None:
    picture = plots.plot_confusion(drawn.crowd("anesthesia-em"))
    assert "interval" not in picture.viz
    assert np.isnan(picture.data["lower"]).all()
    assert "em gives no draws, so no intervals" in picture.viz["note"].item().get_text()


def test_many_workers_those_with_most_labels_and_the_picture_says_so(drawn: Any) -> None:
    fit = drawn.crowd("500 workers")
    picture = plots.plot_confusion(fit)
    assert picture.data.sizes["worker"] == 12
    assert "12 of 500 workers, those with the most labels" in picture.viz["subtitle"].item().get_text()
    count = fit.workers()["n_labels"]
    shown = picture.data["worker"].to_numpy().tolist()
    assert count.loc[shown].min() >= count.drop(shown).max()


def test_many_classes_wide_intervals_are_small_cells(drawn: Any) -> None:
    fit = drawn.crowd("20 classes")
    picture = plots.plot_confusion(fit)
    assert picture.data.sizes["worker"] == 6
    assert "probability" not in picture.viz
    worker = picture.data["worker"].to_numpy()[0]
    cells = _visual(picture, "cell", worker=worker).get_paths()
    side = np.array([np.ptp(path.vertices[:, 0]) for path in cells])
    one = picture.data.sel(worker=worker)
    width = (one["upper"] - one["lower"]).to_numpy().ravel()
    np.testing.assert_allclose(side, np.clip(1 - width, 0.25, 1))


def test_which_workers_are_asked_for_is_checked(drawn: Any) -> None:
    fit = drawn.crowd("500 workers")
    chosen = ["worker400", "worker007"]
    assert plots.plot_confusion(fit, chosen).data["worker"].to_numpy().tolist() == chosen
    assert plots.plot_confusion(fit, "worker007").data.sizes["worker"] == 1
    with pytest.raises(LabelError, match="there is no worker 'worker7'; did you mean"):
        plots.plot_confusion(fit, ["worker7"])
    with pytest.raises(LabelError, match="must name 1 to 40 workers.* not 41"):
        plots.plot_confusion(fit, list(fit.labels.workers[:41]))
    with pytest.raises(LabelError, match="must name 1 to 40 workers.* not 0"):
        plots.plot_confusion(fit, [])
    with pytest.raises(LabelError, match="names 'worker007' more than once"):
        plots.plot_confusion(fit, ["worker007", "worker007"])
    with pytest.raises(LabelError, match="has no levels of difficulty"):
        plots.plot_confusion(fit, difficulty="1")


def test_the_commonest_mistake_is_named_and_labels_that_are_no_class_are_grey(drawn: Any) -> None:
    picture = plots.plot_confusion(drawn.crowd("odd"))
    fit = drawn.crowd("odd")
    labels, probability = fit.labels, fit.class_probabilities().to_numpy()
    count = np.zeros((2, 3))
    for item, label, weight in zip(labels.item_code, labels.label_code, labels.weight, strict=True):
        count[:, label] += weight * probability[item]
    share = count / count.sum()
    share[[0, 1], [0, 1]] = 0
    row, column = np.unravel_index(share.argmax(), share.shape)
    said, true = ["no", "yes", "can't tell"][column], ["no", "yes"][row]
    expected = (
        f"Commonest mistake: {100 * share.max():.0f}\u00a0% of all labels say “{said}” where the class is “{true}”"
    )
    assert " ".join(picture.viz["title"].item().get_text().split("\n")) == expected
    assert [text.get_text() for text in picture.viz["legend"].item().get_texts()] == ["right", "wrong", "no class"]


def _sure(labels: CrowdLabels, answers: list[int]) -> Fit:
    """A result that is sure of these classes; its matrices come from the prior."""
    run = fitted.made_run(labels, bc.DawidSkene())
    sure = np.eye(labels.n_classes)[answers]
    return Fit(
        fitted.tree_of(
            labels,
            bc.DawidSkene(),
            run._replace(state_probability=sure, state_probability_by_chain=np.stack([sure, sure])),
        )
    )


def test_a_class_without_items_and_workers_without_mistakes_give_no_commonest_mistake() -> None:
    said = [0, 0, 1, 1, 0, 0, 1, 1]
    labels = CrowdLabels.from_codes([0, 0, 1, 1, 2, 2, 3, 3], [0, 1] * 4, said, items=4, workers=2, classes=3)

    def title(answers: list[int], *more: Any) -> str:
        text = plots.plot_confusion(_sure(labels, answers), *more).viz["title"].item().get_text()
        return " ".join(text.replace("\u00a0", " ").split())

    # Whatever the prior says of class 2, which no item has.
    assert title([0, 1, 0, 1]) == "Next to none of all labels is expected to be wrong"
    assert title([0, 1, 0, 0]) == "Commonest mistake: 25 % of all labels say 1 where the class is 0"
    expected = "Commonest mistake: 25 % of the labels of these workers say 1 where the class is 0"
    assert title([0, 1, 0, 0], [0]) == expected


def test_the_commonest_mistake_counts_all_workers_and_names_stay_apart(drawn: Any) -> None:
    fit = drawn.crowd("500 workers")
    labels, probability = fit.labels, fit.class_probabilities().to_numpy()
    count = np.array([np.bincount(labels.label_code, probability[labels.item_code, k], 3) for k in range(3)])
    count[np.arange(3), np.arange(3)] = 0
    expected = 100 * count.max() / labels.n_annotations
    assert f"Commonest mistake: {expected:.0f}\u00a0%" in plots.plot_confusion(fit).viz["title"].item().get_text()


# --- items -----------------------------------------------------------------------------------------------------------


def test_items_are_sorted_and_compared_with_the_majority(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-gibbs")
    picture = plots.plot_items(fit)
    table = fit.consensus().sort_values("probability", kind="stable")
    np.testing.assert_allclose(picture.data["probability"].isel(panel=0), table["probability"])
    expected = np.where(table["tie"], "tied", np.where(table["class"] == table["majority"], "agrees", "differs"))
    assert picture.data["kind"].isel(panel=0).values.tolist() == expected.tolist()
    axes = picture.get_target(None, {"panel": "certainty"})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [str(item) for item in table.index]
    n_drawn = sum(len(dots.get_offsets()) for dots in np.ravel(_visual(picture, "item")))
    assert n_drawn == 45
    sure, differ = (table["probability"] >= 0.95).sum(), (expected == "differs").sum()
    end = {0: "none differs", 1: "1 differs"}.get(int(differ), f"{differ} differ")
    title = f"{sure} of 45 items are certain (at least 95\u00a0%); {end} from the majority vote"
    assert picture.viz["title"].item().get_text().replace("\n", " ") == title


def test_gold_and_unlabelled_items_are_of_their_kind(drawn: Any) -> None:
    picture = plots.plot_items(drawn.crowd("odd"))
    data = picture.data.isel(panel=0)
    by_item = dict(zip(data["position"].values.tolist(), data["kind"].values.tolist(), strict=True))
    assert by_item[1] == "gold"
    assert by_item[3] == "tied"  # nobody voted


def test_against_the_truth(drawn: Any) -> None:
    labels = drawn.random_labels(30, 5, "ab", (3, 5))
    known = labels.truth.iloc[:20]
    labels = drawn.random_labels(30, 5, "ab", (3, 5), truth=known)
    fit = drawn.made(labels)
    picture = plots.plot_items(fit, against="truth")
    found = fit.consensus()["class"]
    wrong = int((found.loc[known.index] != known).sum())
    kinds = picture.data["kind"].isel(panel=0).values
    assert ((kinds == "differs").sum(), (kinds == "tied").sum()) == (wrong, 10)
    assert f"{wrong} of 20 with known truth are wrong" in " ".join(picture.viz["title"].item().get_text().split())


def test_levels_of_difficulty_are_stacked_in_the_order_of_the_items(drawn: Any) -> None:
    fit = drawn.crowd("levels")
    picture = plots.plot_items(fit)
    order = fit.consensus()["probability"].argsort(kind="stable")
    expected = fit.items()[["1", "2", "3"]].to_numpy()[order]
    np.testing.assert_allclose(picture.data["difficulty"].isel(panel=0), expected.T)
    stack = np.ravel(_visual(picture, "difficulty"))
    assert len(stack) == 3
    top = stack[0].get_paths()[0].vertices
    assert np.isclose(top[:, 1].max(), expected[:, 0].max())
    assert "difficulty 3" in [text.get_text() for text in picture.viz["legend"].item().get_texts()]


def test_many_items_have_shares_instead_of_points(drawn: Any) -> None:
    picture = plots.plot_items(drawn.crowd("500 workers"))
    assert "item" not in picture.viz
    areas = [area.get_paths()[0].vertices for area in np.ravel(_visual(picture, "agreement"))]
    assert max(area[:, 1].max() for area in areas) == pytest.approx(1)
    axes = picture.get_target(None, {"panel": "certainty"})
    assert axes.get_xscale() == "log"
    x, y = _visual(picture, "curve").get_data()
    assert (x[0], x[-1], len(x)) == (1, 1500, 1500)
    assert (np.diff(y) >= 0).all()


# --- explanation -----------------------------------------------------------------------------------------------------


def test_bars_are_the_log_odds_and_add_up(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-gibbs")
    picture = plots.plot_explanation(fit, 3)
    probability = fit.class_probabilities().loc[3]
    lead, other = probability.sort_values(ascending=False).index[:2]
    table = fit.explain(3)
    odds = (table[lead] - table[other]).to_numpy()
    shown = picture.data["evidence"].to_numpy()
    np.testing.assert_allclose(shown[0], odds[0])
    np.testing.assert_allclose(shown[1:-1], np.sort(odds[1:])[::-1])
    np.testing.assert_allclose(shown[-1], odds.sum())
    bars = np.ravel(_visual(picture, "bar"))
    begin = np.array([bar.get_x() for bar in bars])
    np.testing.assert_allclose([bar.get_width() for bar in bars], shown, atol=1e-12)
    np.testing.assert_allclose(begin[1:-1], (begin + shown)[:-2], atol=1e-12)  # each begins where the last one ends
    assert begin[-1] == 0
    names = [tick.get_text() for tick in picture.get_target(None, {}).get_yticklabels()]
    assert names[0] == "how common the classes are"
    assert names[-1] == "together"
    order = 1 + np.argsort(-odds[1:], kind="stable")
    assert names[1:-1] == [f"worker {table['worker'].iloc[k]} said {table['label'].iloc[k]}" for k in order]
    colours = {bar.get_facecolor()[:3] for bar, value in zip(bars, shown, strict=True) if value > 0}
    assert len(colours) == 1
    assert colours.isdisjoint({bar.get_facecolor()[:3] for bar, value in zip(bars, shown, strict=True) if value < 0})


def test_impossible_labels_are_cut_and_said(drawn: Any) -> None:
    fit = drawn.crowd("anesthesia-em")
    picture = plots.plot_explanation(fit, 36)
    shown, bars = picture.data["evidence"].to_numpy(), np.ravel(_visual(picture, "bar"))
    assert np.abs(shown[1:-1]).max() > 100
    assert max(abs(bar.get_width()) for bar in bars[:-1]) == pytest.approx(12)
    assert "rules it out" in _texts(_visual(picture, "value"))
    assert "cut there" in picture.viz["note"].item().get_text()


def test_of_many_labels_the_weak_ones_are_one_bar(drawn: Any) -> None:
    fit = drawn.made(drawn.random_labels(5, 70, "abc", (70, 70)))
    picture = plots.plot_explanation(fit, "item0002")
    names = [tick.get_text() for tick in picture.get_target(None, {}).get_yticklabels()]
    assert len(names) == 1 + 29 + 1 + 1
    assert names[-2] == "41 weaker labels together"
    shown = picture.data["evidence"].to_numpy()
    assert shown[:-1].sum() == pytest.approx(shown[-1])
    table = fit.explain("item0002")
    lead, other = fit.class_probabilities().loc["item0002"].sort_values(ascending=False).index[:2]
    odds = (table[lead] - table[other]).to_numpy()
    assert shown[-1] == pytest.approx(odds.sum())
    assert np.abs(shown[1:30]).min() >= np.sort(np.abs(odds[1:]))[-29] - 1e-12


def test_weights_gold_and_unlabelled_items_are_explained(drawn: Any) -> None:
    fit = drawn.crowd("odd")
    names = [tick.get_text() for tick in plots.plot_explanation(fit, "a").get_target(None, {}).get_yticklabels()]
    assert {"w1 said no", "w2 said yes (weight 2)", "w2 said yes (weight 0.5)"} <= set(names)
    assert "This item is gold" in " ".join(plots.plot_explanation(fit, "b").viz["note"].item().get_text().split())
    assert plots.plot_explanation(fit, "never").data.sizes["bar"] == 2
    with pytest.raises(LabelError, match="there is no item 'z'"):
        plots.plot_explanation(fit, "z")


def test_one_class_leaves_nothing_to_explain(drawn: Any) -> None:
    fit = drawn.made(CrowdLabels.from_codes([0], [0], [0], items=["a"], workers=["w"], classes=["only"]))
    with pytest.raises(LabelError, match="one class only"):
        plots.plot_explanation(fit, "a")
    assert "nothing to mistake" in plots.plot_confusion(fit).viz["title"].item().get_text()


# --- graph -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crowd", ["odd", "islands", "levels", "trouble"])
def test_edges_are_the_common_items(drawn: Any, crowd: str) -> None:
    fit = drawn.crowd(crowd)
    picture = plots.plot_graph(fit)
    labels = fit.labels
    items = [set(labels.item_code[labels.worker_code == worker].tolist()) for worker in range(labels.n_workers)]
    expected = {(i, j): len(items[i] & items[j]) for i, j in itertools.combinations(range(len(items)), 2)}
    data = picture.data
    found = zip(data["first"].values.tolist(), data["second"].values.tolist(), data["common"].values, strict=True)
    assert {(i, j): count for i, j, count in found} == {pair: count for pair, count in expected.items() if count}
    report = fit.workers()
    np.testing.assert_allclose(data["accuracy"], report["accuracy"])
    assert data["n_labels"].values.tolist() == report["n_labels"].tolist()
    nodes = _visual(picture, "node")
    np.testing.assert_allclose(nodes.get_offsets(), np.stack([data["x"], data["y"]], -1))
    assert np.array_equal(np.argsort(nodes.get_sizes(), kind="stable"), np.argsort(report["n_labels"], kind="stable"))
    assert _texts(_visual(picture, "name")) == [str(worker) for worker in labels.workers]


def test_groups_without_common_items_are_said(drawn: Any) -> None:
    title = " ".join(plots.plot_graph(drawn.crowd("islands")).viz["title"].item().get_text().split())
    expected = (
        "The workers fall into 3 groups without common items (4, 3, 2 workers); 1 worker shares no item with anybody"
    )
    assert title == expected
    title = " ".join(plots.plot_graph(drawn.crowd("odd")).viz["title"].item().get_text().split())
    assert title == "1 worker shares no item with anybody; the other 2 workers are connected"
    assert "nobody to compare with" in plots.plot_graph(drawn.crowd("1 worker")).viz["title"].item().get_text()


def test_many_edges_are_thinned_and_that_is_said(drawn: Any) -> None:
    picture = plots.plot_graph(drawn.crowd("500 workers"))
    assert picture.data.sizes["edge"] == 1200
    assert "1,200 of those with most are drawn" in " ".join(picture.viz["note"].item().get_text().split())
    assert _visual(picture, "node").get_sizes().min() >= 14
    assert 4 <= len(_texts(_visual(picture, "name"))) <= 16


def test_of_too_many_workers_those_with_most_labels_are_drawn(drawn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from bayescrowd.plots import graph

    monkeypatch.setattr(graph, "_MOST_WORKERS", 5)
    fit = drawn.crowd("levels")
    picture = graph.plot_graph(fit)
    assert picture.data.sizes["node"] == 5
    assert "5 of 9 workers, those with the most labels" in picture.viz["subtitle"].item().get_text()
    count = fit.workers()["n_labels"].sort_values(ascending=False)
    assert sorted(picture.data["n_labels"].values.tolist(), reverse=True) == count.iloc[:5].tolist()


def test_of_a_complete_graph_edges_are_drawn_by_lot_without_hubs(drawn: Any) -> None:
    labels = drawn.random_labels(40, 70, "ab", (70, 70))
    picture = plots.plot_graph(drawn.made(labels, draws=2, chains=1))
    assert picture.viz["title"].item().get_text() == "Every two of the 70 workers have items in common"
    note = " ".join(picture.viz["note"].item().get_text().split())
    assert "Of 2,415 pairs, all with 40 common items, 1,200 are drawn by lot." in note
    degree = np.bincount(np.concatenate([picture.data["first"], picture.data["second"]]), minlength=70)
    assert degree.max() < 2 * degree.mean()
    spots = np.stack([picture.data["x"], picture.data["y"]], -1)
    assert np.abs(spots - spots.mean(0)).max() < 3 * np.abs(spots - spots.mean(0)).mean()


# --- certainty -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["probability", "entropy"])
def test_medians_and_bands_by_number_of_labels(drawn: Any, measure: str) -> None:
    fit = drawn.crowd("levels")
    picture = plots.plot_certainty(fit, measure=measure, ci_prob=0.6)
    groups = fit.consensus().groupby("n_labels")[measure]
    np.testing.assert_allclose(picture.data["n_labels"], list(groups.groups))
    np.testing.assert_allclose(picture.data["median"], groups.median())
    np.testing.assert_allclose(picture.data["lower"], groups.quantile(0.2))
    np.testing.assert_allclose(picture.data["upper"], groups.quantile(0.8))
    assert picture.data["n_items"].values.tolist() == groups.size().tolist()
    ticks = picture.get_target(None, {}).get_xticks()
    assert np.array_equal(ticks, np.round(ticks))
    points = _visual(picture, "item").get_offsets()
    assert np.array_equal(np.round(points[:, 0]), fit.consensus()["n_labels"])
    np.testing.assert_allclose(points[:, 1], fit.consensus()[measure])
    again = plots.plot_certainty(fit, measure=measure)
    np.testing.assert_array_equal(_visual(again, "item").get_offsets(), points)  # the same jitter
    assert _visual(picture, "median").get_ydata().tolist() == picture.data["median"].values.tolist()


def test_big_data_are_shaded_cells_and_many_numbers_of_labels_are_grouped(drawn: Any) -> None:
    labels = drawn.random_labels(6000, 60, "ab", (2, 40))
    fit = drawn.made(labels, draws=2, chains=1)
    picture = plots.plot_certainty(fit)
    assert picture.data.sizes["group"] <= 25
    assert int(picture.data["n_items"].sum()) == 6000
    mesh = _visual(picture, "item")
    assert np.nansum(np.ma.filled(mesh.get_array(), np.nan)) == 6000
    words = " ".join(picture.viz["note"].item().get_text().split())
    assert "shaded by its number of items" in words
    assert "groups with similar numbers of labels" in words
    drawn.well_drawn(picture)


def test_the_number_of_labels_that_makes_sure(drawn: Any) -> None:
    labels = CrowdLabels.from_codes([0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2], [0] * 6, items=3, workers=3, classes=2)
    run = fitted.made_run(labels, bc.DawidSkene())
    sure = np.array([[0.7, 0.3], [0.96, 0.04], [0.99, 0.01]])
    run = run._replace(state_probability=sure, state_probability_by_chain=np.stack([sure, sure]))
    picture = plots.plot_certainty(Fit(fitted.tree_of(labels, bc.DawidSkene(), run)))
    assert (
        picture.viz["title"].item().get_text() == "From 2 labels on, half of the items are at least 95\u00a0% certain"
    )


def test_one_number_of_labels_has_one_tick(drawn: Any) -> None:
    axes = plots.plot_certainty(drawn.crowd("anesthesia-em")).get_target(None, {})
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [7]
