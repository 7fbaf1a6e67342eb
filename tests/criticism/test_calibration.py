"""Calibration against plain NumPy: literal loops over items, bins and resamples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fitted import made_point, tree_of

import bayescrowd as bc
from bayescrowd.criticism import _scoring as scoring
from bayescrowd.criticism._scoring import equal_mass_bins, units, wilson
from bayescrowd.criticism.calibration import calibration
from bayescrowd.errors import EngineError, LabelError

PARTS = ["reliability", "resolution", "uncertainty", "within_bins"]


def table(n_items, classes, **more):
    rows = pd.DataFrame({"item": np.arange(n_items), "worker": "w", "label": classes[0]})
    rows.loc[len(rows)] = [0, "v", classes[-1]]
    return bc.CrowdLabels.from_long(rows, classes=list(classes), **more)


def tree_with(probability, truth, classes=None, **more):
    """A result whose class probabilities are given."""
    n_items, n_classes = np.shape(probability)
    classes = list(range(n_classes)) if classes is None else classes
    known = {item: classes[code] for item, code in enumerate(truth) if code >= 0}
    labels = table(n_items, classes, truth=known, **more)
    model = bc.DawidSkene()
    return tree_of(labels, model, made_point(labels, model, state_probability=np.asarray(probability, float)))


def forecasts(n_items, n_classes, *, seed=0, power=1.0, spread=0.7):
    """Probabilities, and classes drawn from them; a power above 1 makes the probabilities overconfident."""
    random = np.random.default_rng(seed)
    right = random.dirichlet(np.full(n_classes, spread), n_items)
    truth = np.minimum((random.random(n_items)[:, None] > right.cumsum(axis=1)).sum(axis=1), n_classes - 1)
    stated = right**power
    return stated / stated.sum(axis=1, keepdims=True), truth


def plain_bins(values, bins):
    """Mid-ranks, one value at a time."""
    n = len(values)
    number = [int(bins * ((values < v).sum() + (values <= v).sum()) / (2 * n)) for v in values]
    return np.minimum(number, bins - 1)


def plain_scores(p, truth, bins=10):
    """Everything by loops, without a line of the package."""
    n, n_classes = p.shape
    row = np.arange(n)
    y = np.eye(n_classes)[truth]
    found = {
        "log_loss": -np.log(np.maximum(p[row, truth], 1e-15)).mean(),
        "brier": np.mean([sum((p[i, k] - y[i, k]) ** 2 for k in range(n_classes)) for i in range(n)]),
        "confidence": p.max(axis=1).mean(),
    }
    hit = []
    for i in range(n):
        leads = [k for k in range(n_classes) if p[i, k] > p[i].max() - 1e-6]
        hit.append((truth[i] in leads) / len(leads))
    hit = np.array(hit)
    found["accuracy"] = hit.mean()
    found["confidently_wrong"] = np.mean([p[i].max() > 0.95 and p[i].argmax() != truth[i] for i in range(n)])
    top = plain_bins(p.max(axis=1), bins)
    found["calibration_error"] = sum(
        (top == b).mean() * abs(hit[top == b].mean() - p.max(axis=1)[top == b].mean()) for b in np.unique(top)
    )
    parts = dict.fromkeys(PARTS, 0.0)
    for k in range(n_classes):
        number = plain_bins(p[:, k], bins)
        for b in np.unique(number):
            at = number == b
            parts["reliability"] += at.mean() * (y[at, k].mean() - p[at, k].mean()) ** 2
            parts["resolution"] += at.mean() * (y[at, k].mean() - y[:, k].mean()) ** 2
            parts["within_bins"] += ((p[at, k] - p[at, k].mean()) ** 2).sum() / n
            parts["within_bins"] -= 2 * ((y[at, k] - y[at, k].mean()) * (p[at, k] - p[at, k].mean())).sum() / n
        parts["uncertainty"] += y[:, k].mean() * (1 - y[:, k].mean())
    return found | parts


@pytest.mark.parametrize(("n_items", "n_classes", "power"), [(60, 2, 1.0), (150, 3, 2.5), (37, 4, 0.5), (3, 2, 1.0)])
def test_scores_equal_plain_loops(n_items, n_classes, power):
    p, truth = forecasts(n_items, n_classes, power=power)
    scores = calibration(tree_with(p, truth)).scores["value"]
    for name, value in plain_scores(p, truth).items():
        assert scores[name] == pytest.approx(value, abs=1e-12), name
    assert scores["overconfidence"] == pytest.approx(scores["confidence"] - scores["accuracy"], abs=1e-12)


@pytest.mark.parametrize("bins", [1, 4, 10, 1000])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_brier_score_is_the_sum_of_its_parts(bins, n_classes):
    random = np.random.default_rng(bins)
    p, truth = forecasts(200, n_classes, seed=bins)
    p[:60] = np.round(p[:60], 1)  # ties
    p[60:90] = np.eye(n_classes)[random.integers(n_classes, size=30)]  # certainty
    p[90:95] = 1 / n_classes
    p /= p.sum(axis=1, keepdims=True)
    found = calibration(tree_with(p, truth), bins=bins)
    value = found.scores["value"]
    total = value["reliability"] - value["resolution"] + value["uncertainty"] + value["within_bins"]
    assert total == pytest.approx(value["brier"], abs=1e-13)
    assert value["brier"] == pytest.approx(found.by_class["brier"].sum(), abs=1e-13)
    expected = found.scores["expected"]
    total = expected["reliability"] - expected["resolution"] + expected["uncertainty"] + expected["within_bins"]
    assert total == pytest.approx(expected["brier"], abs=1e-13)


def test_within_bins_vanishes_where_bins_hold_one_probability():
    p = np.repeat([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], 20, axis=0)
    _, truth = forecasts(60, 2)
    assert calibration(tree_with(p, truth)).scores.at["within_bins", "value"] == pytest.approx(0, abs=1e-15)


def test_bins_have_equal_mass_whatever_the_order():
    random = np.random.default_rng(0)
    values = random.permutation(np.linspace(0, 1, 100))
    number = equal_mass_bins(values, 10)
    assert np.bincount(number).tolist() == [10] * 10
    assert (np.diff(number[np.argsort(values)]) >= 0).all()
    order = random.permutation(100)
    assert (equal_mass_bins(values[order], 10) == number[order]).all()
    # Classes of two are mirror images of each other.
    assert (number + equal_mass_bins(1 - values, 10) == 9).all()


def test_ties_share_a_bin_and_rounding_makes_no_bins():
    values = np.r_[np.full(60, 1.0), np.full(20, 0.5), np.linspace(0, 0.4, 20)]
    number = equal_mass_bins(values, 10)
    assert len(set(number[:60])) == len(set(number[60:80])) == 1
    assert sorted(set(number)) == list(range(number.max() + 1))
    assert (equal_mass_bins(values + 1e-16, 10) == number).all()
    assert equal_mass_bins(np.array([0.3]), 10).tolist() == [0]


def test_expected_scores_are_those_of_classes_drawn_from_the_probabilities():
    p, truth = forecasts(80, 3, power=2)
    expected = calibration(tree_with(p, truth)).scores["expected"]
    random = np.random.default_rng(5)
    drawn = []
    for _ in range(1500):
        simulated = np.minimum((random.random(80)[:, None] > p.cumsum(axis=1)).sum(axis=1), 2)
        drawn.append(plain_scores_fast(p, simulated))
    drawn = pd.DataFrame(drawn)
    error = 4 * drawn.std() / np.sqrt(len(drawn)) + 1e-9
    for name in drawn:
        assert abs(drawn[name].mean() - expected[name]) < error[name] + 0.0015 * (name == "calibration_error"), name


def plain_scores_fast(p, truth):
    """The scores that depend on the truth, with vectors instead of loops over items."""
    y = np.eye(p.shape[1])[truth]
    top, hit = p.max(axis=1), p.argmax(axis=1) == truth
    found = {
        "log_loss": -np.log(p[np.arange(len(p)), truth]).mean(),
        "brier": ((p - y) ** 2).sum(axis=1).mean(),
        "accuracy": hit.mean(),
        "confidently_wrong": ((top > 0.95) & ~hit).mean(),
    }
    number = equal_mass_bins(top, 10)
    found["calibration_error"] = np.abs(np.bincount(number, hit - top)).sum() / len(p)
    for k in range(p.shape[1]):
        number = equal_mass_bins(p[:, k], 10)
        size = np.bincount(number)
        share = np.bincount(number, y[:, k]) / size
        gap = share - np.bincount(number, p[:, k]) / size
        found["reliability"] = found.get("reliability", 0) + (size * gap**2).sum() / len(p)
        found["resolution"] = found.get("resolution", 0) + (size * (share - y[:, k].mean()) ** 2).sum() / len(p)
    return found


def test_intervals_are_those_of_a_literal_bootstrap():
    p, truth = forecasts(120, 3, power=2)
    found = calibration(tree_with(p, truth), interval=0.8)
    random = np.random.default_rng(9)
    drawn = []
    top, top_bin = p.max(axis=1), equal_mass_bins(p.max(axis=1), 10)
    y = np.eye(3)[truth]
    for _ in range(3000):
        chosen = random.integers(120, size=120)
        hit = p[chosen].argmax(axis=1) == truth[chosen]
        drawn.append(
            {
                "log_loss": -np.log(p[chosen, truth[chosen]]).mean(),
                "brier": ((p[chosen] - y[chosen]) ** 2).sum(axis=1).mean(),
                "confidence": top[chosen].mean(),
                "overconfidence": top[chosen].mean() - hit.mean(),
                "calibration_error": np.abs(np.bincount(top_bin[chosen], hit - top[chosen])).sum() / 120,
            }
        )
    drawn = pd.DataFrame(drawn)
    # Resampling adds scatter to what comes from bins: the interval is moved back by that much.
    excess = drawn["calibration_error"].mean() - found.scores.at["calibration_error", "value"]
    assert excess > 0
    drawn["calibration_error"] -= excess
    for name in drawn:
        lower, upper = drawn[name].quantile([0.1, 0.9])
        row = found.scores.loc[name]
        assert [row["lower"], row["upper"]] == pytest.approx([max(lower, 0), upper], abs=0.1 * drawn[name].std()), name
        assert row["lower"] < row["value"] < row["upper"]


def test_shares_have_wilsons_intervals():
    p, truth = forecasts(50, 2)
    found = calibration(tree_with(p, truth), interval=0.95)
    z, share = 1.959963984540054, found.scores.at["accuracy", "value"]
    roots = np.roots([1 + z**2 / 50, -(2 * share + z**2 / 50), share**2])
    assert sorted(found.scores.loc["accuracy", ["lower", "upper"]]) == pytest.approx(sorted(roots), abs=1e-12)
    lower, upper = wilson(np.array([0.0, 10.0, 0.0]), np.array([10.0, 10.0, 0.0]), 0.95)
    assert upper[0] == pytest.approx(0.2775, abs=1e-4)
    assert lower[1] == pytest.approx(0.7225, abs=1e-4)
    assert (lower[0], upper[1]) == (0, 1)
    assert np.isnan([lower[2], upper[2]]).all()
    # A bootstrap of items that are all right would claim certainty.
    sure = calibration(tree_with(np.tile([0.97, 0.03], (10, 1)), np.zeros(10, int))).scores
    assert sure.at["accuracy", "lower"] < 0.85
    assert sure.at["confidently_wrong", "upper"] > 0.1


def test_curve_is_the_leading_class_by_bin():
    p, truth = forecasts(100, 3)
    curve = calibration(tree_with(p, truth), bins=5).curve
    top, number = p.max(axis=1), plain_bins(p.max(axis=1), 5)
    assert curve["n_items"].tolist() == [20] * 5
    for b, row in curve.iterrows():
        at = number == b
        assert [row["lower"], row["upper"]] == pytest.approx([top[at].min(), top[at].max()], abs=1e-12)
        assert row["confidence"] == pytest.approx(top[at].mean())
        assert row["accuracy"] == pytest.approx((p[at].argmax(axis=1) == truth[at]).mean())
        assert row["accuracy_lower"] <= row["accuracy"] <= row["accuracy_upper"]


def test_each_class_against_the_rest():
    p, truth = forecasts(90, 3, power=2)
    found = calibration(tree_with(p, truth, classes=["a", "b", "c"]))
    said = p.argmax(axis=1)
    assert found.by_class.index.tolist() == ["a", "b", "c"]
    for code, (_, row) in enumerate(found.by_class.iterrows()):
        mine = truth == code
        assert row["n_items"] == mine.sum()
        assert row["prevalence"] == pytest.approx(mine.mean())
        assert row["prevalence_expected"] == pytest.approx(p[:, code].mean())
        assert row["recall"] == pytest.approx((said[mine] == code).mean())
        assert row["precision"] == pytest.approx(mine[said == code].mean())
        assert row["log_loss"] == pytest.approx(-np.log(np.where(mine, p[:, code], 1 - p[:, code])).mean())
        assert row["brier"] == pytest.approx(((p[:, code] - mine) ** 2).mean())
        assert row["confidently_wrong"] == pytest.approx(((p[:, code] > 0.95) & ~mine).mean())
        number = plain_bins(p[:, code], 10)
        error = sum(abs((mine - p[:, code])[number == b].sum()) for b in range(10)) / 90
        assert row["calibration_error"] == pytest.approx(error)
        for name in ("recall", "precision", "log_loss", "brier", "calibration_error", "confidently_wrong"):
            assert row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"], name
    assert found.by_class["confidently_wrong"].sum() == pytest.approx(found.scores.at["confidently_wrong", "value"])


def test_a_class_without_items_or_answers_has_no_recall_or_precision():
    p = np.tile([0.7, 0.3, 0.0], (30, 1))
    found = calibration(tree_with(p, np.r_[np.zeros(20, int), np.ones(10, int)])).by_class
    assert found.loc[1, "recall"] == 0
    assert np.isnan(found.loc[[1, 2], "precision"]).all()
    assert np.isnan(found.loc[2, ["recall", "recall_lower", "recall_upper"]].astype(float)).all()


def test_tied_leaders_share_the_answer():
    p = np.array([[0.5, 0.5, 0.0], [0.4, 0.2, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.8, 0.0]])
    found = calibration(tree_with(p, np.array([0, 1, 2, 1])))
    assert found.scores.at["accuracy", "value"] == pytest.approx((1 / 2 + 0 + 1 / 3 + 1) / 4)
    assert found.by_class.loc[1, "recall"] == pytest.approx(1 / 2)
    assert found.by_class.loc[2, "precision"] == pytest.approx((1 / 3) / (1 / 2 + 1 / 3))


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_the_temperature_undoes_a_power(power):
    p, truth = forecasts(2000, 3, power=power)
    found = calibration(tree_with(p, truth))
    grid = np.geomspace(power / 2, power * 2, 4001)
    logs, row = np.log(p), np.arange(len(p))
    losses = [np.mean(np.log(np.exp(logs / t).sum(axis=1)) - (logs / t)[row, truth]) for t in grid]
    assert found.temperature == pytest.approx(grid[np.argmin(losses)], rel=1e-3)
    assert found.log_loss_tempered == pytest.approx(min(losses), abs=1e-6)
    assert found.temperature_lower < power < found.temperature_upper
    assert found.temperature_lower < found.temperature < found.temperature_upper < 1.3 * found.temperature_lower
    verdict = {0.4: "not confident enough", 1.0: "no more and no less", 3.0: "overconfident"}[power]
    assert verdict in found.sentences[0]
    assert found.verdict == {0.4: -1, 1.0: 0, 3.0: 1}[power]
    assert any("No temperature" in text for text in found.sentences) == (power == 1.0)


def test_interval_of_the_temperature_is_that_of_a_literal_bootstrap():
    p, truth = forecasts(150, 2, power=2)
    found = calibration(tree_with(p, truth), interval=0.8)
    grid = np.geomspace(0.3, 10, 400)
    logs, row = np.log(p), np.arange(150)
    losses = np.stack([np.log(np.exp(logs / t).sum(axis=1)) - (logs / t)[row, truth] for t in grid])
    random = np.random.default_rng(3)
    best = [grid[losses[:, random.integers(150, size=150)].mean(axis=1).argmin()] for _ in range(2000)]
    wanted = np.quantile(best, [0.1, 0.9])
    assert [found.temperature_lower, found.temperature_upper] == pytest.approx(wanted, abs=0.15 * np.std(best))


def test_temperatures_without_an_answer():
    all_right = calibration(tree_with(np.tile([0.9, 0.1], (20, 1)), np.zeros(20, int)))
    assert (all_right.temperature, all_right.temperature_upper) == (0, 0)
    assert all_right.log_loss_tempered == pytest.approx(0, abs=1e-6)
    mostly_wrong = calibration(tree_with(np.tile([0.9, 0.1], (20, 1)), np.r_[np.ones(15, int), np.zeros(5, int)]))
    assert np.isinf(mostly_wrong.temperature)
    assert mostly_wrong.log_loss_tempered == pytest.approx(np.log(2))
    undecided = calibration(tree_with(np.full((20, 2), 0.5), np.arange(20) % 2))
    assert np.isnan([undecided.temperature, undecided.temperature_lower, undecided.temperature_upper]).all()
    for found in (all_right, mostly_wrong, undecided):
        assert "nan" not in str(found.sentences)


def test_right_probabilities_are_rarely_called_wrong(monkeypatch):
    monkeypatch.setattr(scoring, "RESAMPLES", 20)  # the verdict needs none
    called = []
    for seed in range(40):
        p, truth = forecasts(150, 2, seed=seed)
        found = calibration(tree_with(p, truth), seed=seed)
        called.append("no more and no less" not in found.sentences[0])
        assert called[-1] == (found.verdict != 0)
    assert sum(called) <= 6


@pytest.mark.slow
def test_intervals_cover_the_log_loss_and_the_accuracy(monkeypatch):
    """89 % intervals of 60 tables of 200 items, against the averages of a table of 200,000."""
    monkeypatch.setattr(scoring, "RESAMPLES", 400)
    p, truth = forecasts(200_000, 2, power=2, seed=77)
    hit = p.argmax(axis=1) == truth
    known = {"log_loss": -np.log(p[np.arange(len(p)), truth]).mean(), "accuracy": hit.mean()}
    known["overconfidence"] = p.max(axis=1).mean() - hit.mean()
    inside = pd.Series(0.0, index=list(known))
    for seed in range(60):
        part, classes = forecasts(200, 2, power=2, seed=seed)
        scores = calibration(tree_with(part, classes), seed=seed).scores
        for name, value in known.items():
            inside[name] += scores.at[name, "lower"] <= value <= scores.at[name, "upper"]
    assert ((inside >= 46) & (inside <= 59)).all()


def test_many_items_are_resampled_in_groups_that_vary_alike():
    p, truth = forecasts(9000, 2, power=2)
    unit = units(9000, np.random.default_rng(0))
    assert set(np.bincount(unit)) <= {2, 3}
    found = calibration(tree_with(p, truth)).scores
    for name, value in plain_scores_fast(p, truth).items():
        assert found.at[name, "value"] == pytest.approx(value, abs=1e-12)
    losses = -np.log(p[np.arange(9000), truth])
    width = found.at["log_loss", "upper"] - found.at["log_loss", "lower"]
    assert width == pytest.approx(2 * 1.598 * losses.std() / np.sqrt(9000), rel=0.1)


def test_mistakes_held_for_impossible_are_clipped_and_counted():
    p = np.array([[1.0, 0.0], [1.0, 0.0], [1 - 1e-16, 1e-16], [0.5, 0.5]])
    found = calibration(tree_with(p, np.array([0, 1, 1, 1])))
    assert found.n_clipped == 2
    assert found.scores.at["log_loss", "value"] == pytest.approx((-2 * np.log(1e-15) + np.log(2)) / 4)
    assert any("2 true classes had a probability below 1e-15" in text for text in found.sentences)
    assert found.sure_mistakes["class"].tolist() == [0, 0]
    assert found.sure_mistakes["truth"].tolist() == [1, 1]


def test_gold_is_left_out_and_that_is_said():
    p, truth = forecasts(40, 2)
    found = calibration(tree_with(p, truth, gold={0: int(truth[0]), 5: int(truth[5])}))
    keep = np.setdiff1d(np.arange(40), [0, 5])
    assert found.n_items == 38
    assert found.scores.at["brier", "value"] == pytest.approx(plain_scores(p[keep], truth[keep])["brier"])
    assert "2 gold items left out: the fit was told their class." in found.sentences
    tree = tree_with(p, np.where(np.arange(40) < 2, truth, -1), gold={0: int(truth[0]), 1: int(truth[1])})
    with pytest.raises(LabelError, match="every item with a known class is gold"):
        calibration(tree)


def test_truth_given_now_goes_before_that_of_the_labels():
    p, truth = forecasts(30, 2)
    tree = tree_with(p, 1 - truth)
    given = pd.Series(truth, index=np.arange(30))
    found = calibration(tree, given)
    assert found.scores.at["accuracy", "value"] == pytest.approx((p.argmax(axis=1) == truth).mean())
    assert calibration(tree, given.sample(frac=1, random_state=0)).scores.equals(found.scores)
    some = {0: int(truth[0]), 3: None, 4: float("nan"), 7: int(truth[7])}
    partial = calibration(tree, some)
    assert partial.n_items == 2
    assert "2 items without a known class left out." in partial.sentences


def test_faults_of_the_truth_are_listed_at_once():
    p, truth = forecasts(20, 2)
    tree = tree_with(p, truth, classes=["no", "yes"])
    with pytest.raises(LabelError) as caught:
        calibration(tree, pd.Series(["no", "maybe", "yes", "yes", "no"], index=[0, 1, 99, 3, 3]))
    text = str(caught.value)
    assert "3 problems" in text
    assert "no items 99" in text
    assert "'maybe'" in text
    assert "two classes: 3" in text
    with pytest.raises(LabelError, match="types differ: str here, int in the fit"):
        calibration(tree, {"0": "no"})
    with pytest.raises(LabelError, match="types differ: bool here, str in the fit"):
        calibration(tree_with(p, truth, classes=["False", "True"]), {0: True})
    with pytest.raises(LabelError, match=r"Series or dict.*pass truth\['truth'\]"):
        calibration(tree, pd.DataFrame({"truth": ["no"]}))
    with pytest.raises(LabelError, match="it is empty"):
        calibration(tree, {})


def test_without_truth_the_error_says_how_to_give_it():
    labels = table(5, ["a", "b"])
    model = bc.DawidSkene()
    with pytest.raises(LabelError, match="give truth=, a Series or dict item -> class"):
        calibration(tree_of(labels, model, made_point(labels, model)))


def test_truth_of_the_labels_that_is_no_class():
    rows = pd.DataFrame({"item": [0, 0, 1], "worker": list("uvu"), "label": ["a", "b", "a"]})
    labels = bc.CrowdLabels.from_long(rows, truth={0: "a", 1: "c"}, classes=["a", "b"])
    model = bc.DawidSkene()
    with pytest.raises(LabelError, match=r"'c' are none of the fit.*fit again"):
        calibration(tree_of(labels, model, made_point(labels, model)))


def test_ids_that_are_tuples():
    rows = pd.DataFrame({"item": [("a", 1), ("a", 2)] * 2, "worker": list("uuvv"), "label": [0, 1, 0, 1]})
    labels = bc.CrowdLabels.from_long(rows)
    fit = bc.fit(labels, engine="em")
    found = calibration(fit.idata, pd.Series([0, 1], index=pd.Index([("a", 1), ("a", 2)], tupleize_cols=False)))
    assert found.n_items == 2
    assert calibration(fit.idata, {("a", 1): 0}).n_items == 1


def test_items_without_labels_are_scored_by_the_shares_of_the_classes():
    rows = pd.DataFrame({"item": [0, 0, 1, 1], "worker": list("uvuv"), "label": [0, 0, 1, 1]})
    codes = {"item_code": [0, 0, 1, 1], "worker_code": [0, 1, 0, 1], "label_code": [0, 0, 1, 1]}
    labels = bc.CrowdLabels.from_codes(**codes, items=["a", "b", "c"], workers=list("uv"), classes=[0, 1])
    assert len(rows) == labels.n_annotations
    found = calibration(bc.fit(labels, engine="em").idata, {"a": 0, "b": 1, "c": 0})
    assert "1 item without labels scored by the shares of the classes." in found.sentences


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bins": 0}, "bins must be a whole number"),
        ({"bins": True}, "bins must be a whole number"),
        ({"interval": 1.0}, "interval must be a probability"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_arguments_that_cannot_be_used(options, text):
    p, truth = forecasts(10, 2)
    with pytest.raises(LabelError, match=text):
        calibration(tree_with(p, truth), **options)


def test_a_fit_that_failed_has_nothing_to_score():
    p, truth = forecasts(10, 2)
    tree = tree_with(p, truth)
    tree["latent"]["class_probability"][3, 0] = np.nan
    with pytest.raises(EngineError, match="no class probabilities"):
        calibration(tree)


def test_same_seed_same_numbers():
    p, truth = forecasts(50, 3)
    tree = tree_with(p, truth)
    first, again, other = calibration(tree), calibration(tree), calibration(tree, seed=1)
    pd.testing.assert_frame_equal(first.scores, again.scores)
    pd.testing.assert_frame_equal(first.by_class, again.by_class)
    assert first.sentences == again.sentences
    assert not first.scores.equals(other.scores)
    assert first.scores["value"].equals(other.scores["value"])


@pytest.mark.parametrize("n_items", [1, 2, 9])
def test_hardly_any_items(n_items):
    for truth in (0, 1):
        found = calibration(tree_with(np.tile([0.99, 0.01], (n_items, 1)), np.full(n_items, truth)))
        assert found.n_items == n_items
        text = "\n".join(found.sentences)
        assert "So few items say little: most intervals cannot be told" in text
        assert f"{n_items} item{'s are' if n_items > 1 else ' is'} too few to tell whether it is too sure" in text
        assert f"a bin of the curve holds {n_items} item" in text
        assert "1 items" not in text
        assert "nan" not in text
        for word in ("overconfident", "worse than a coin", "chance explains", "temperature", "What to do"):
            assert word not in text
        assert found.verdict == 0
        # Nine alike have no spread, and a resample of them no width: shares have Wilson's intervals, others none.
        bounds = found.scores[["lower", "upper"]]
        shares = bounds.index.isin(["accuracy", "confidently_wrong"])
        assert bounds[~shares].isna().all(axis=None)
        assert bounds[shares].notna().all(axis=None)
        assert np.isnan([found.temperature_lower, found.temperature_upper]).all()
        assert found.by_class["log_loss_lower"].isna().all()
    assert found.scores.at["accuracy", "upper"] > 0.2


def test_a_temperature_is_offered_only_where_it_clearly_helps():
    # Ten right and two wrong, all of them sure: too sure, but a resample may hold no mistake.
    p = np.tile([0.9999, 0.0001], (12, 1))
    truth = np.r_[np.zeros(10, int), 1, 1]
    found = calibration(tree_with(p, truth))
    text = " ".join(found.sentences)
    assert found.verdict == 1
    assert found.temperature > 1 > found.temperature_lower
    assert "No temperature would clearly help" in text
    assert "flatten" not in text
    assert "What to do" in text
    clear = calibration(tree_with(np.tile(p, (50, 1)), np.tile(truth, 50)))
    assert clear.temperature_lower > 1
    assert f"flatten the probabilities with the temperature, p ** (1 / {clear.temperature:.2f})" in str(clear)
    assert "No temperature" not in str(clear)
    # Not sure enough, and all right: there is no temperature to name.
    timid = calibration(tree_with(np.tile([0.6, 0.4], (60, 1)), np.zeros(60, int)))
    assert timid.verdict == -1
    assert timid.temperature == 0
    assert "sharpen" not in str(timid)


def test_one_class_only():
    rows = pd.DataFrame({"item": [0, 1], "worker": ["u", "v"], "label": ["a", "a"]})
    with pytest.warns(bc.BayescrowdWarning):
        labels = bc.CrowdLabels.from_long(rows)
    found = calibration(bc.fit(labels, engine="em").idata, {0: "a", 1: "a"})
    assert found.scores.loc[["log_loss", "brier", "calibration_error"], "value"].tolist() == [0, 0, 0]
    assert any("one class only" in text for text in found.sentences)


def test_a_vote_is_scored_as_it_is():
    labels = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), n_items=150, n_workers=5, seed=3).labels
    found = calibration(bc.baselines.majority_vote(labels).idata)
    assert found.n_items == 150
    assert found.scores.at["confidence", "value"] > 0.6


def test_it_prints_and_shows_ids_without_running_them():
    nasty = "<script>alert(1)</script>"
    p, truth = forecasts(30, 2, power=4)
    found = calibration(tree_with(p, truth, classes=["ok", nasty]))
    page = found._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    text = str(found)
    assert text.startswith("The fit says")
    assert "log_loss" in text
    assert "sentences" in repr(found)


def correlated_judges():
    """P41: a quarter of the items is hard, and there all nine judges are wrong together."""
    random = np.random.default_rng(11)
    truth = random.integers(0, 2, 1000)
    hard = random.random(1000) < 0.25
    said = np.where(random.random((1000, 9)) < np.where(hard, 0.3, 0.95)[:, None], truth[:, None], 1 - truth[:, None])
    rows = pd.DataFrame(
        [(i, k, said[i, k]) for i in range(1000) for k in range(9)], columns=["item", "worker", "label"]
    )
    return bc.CrowdLabels.from_long(rows), truth


def test_confident_and_wrong_is_said_plainly():
    labels, truth = correlated_judges()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
    fit = bc.fit(labels, model, engine="em", objective="posterior", progress=False)
    found = calibration(fit.idata, dict(enumerate(truth)))
    value = found.scores["value"]
    assert value["accuracy"] == pytest.approx(0.782, abs=0.0005)
    assert value["confidence"] == pytest.approx(0.992, abs=0.0005)
    assert value["log_loss"] == pytest.approx(1.955, abs=0.0005)
    assert "says 99.2% on average and is right on 78.2%" in found.sentences[0]
    assert "overconfident" in found.sentences[0]
    said = " ".join(found.sentences)
    assert "worse than a coin, which has 0.693" in said
    assert "fit.dependence()" in said
    assert "bc.IDBLA()" in said
    assert f"T = {found.temperature:.2f}" in said
    assert 7 < found.temperature < 10
    assert found.log_loss_tempered < 0.45
    assert len(found.sure_mistakes) == round(1000 * value["confidently_wrong"]) > 150


@pytest.mark.realdata
@pytest.mark.slow
def test_judges_of_llmbar_are_overconfident(real_data):
    labels = real_data("llmbar")
    found = calibration(bc.fit(labels, bc.DawidSkene(), engine="vb", progress=False).idata)
    assert "overconfident" in found.sentences[0]
    assert found.temperature > 2
