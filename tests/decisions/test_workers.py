from __future__ import annotations

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.workers import confusion, roles, score_tables, scores, workers
from bayescrowd.errors import LabelError, ModelError


def _two_class(tables: object, prevalence: object = (0.5, 0.5)) -> tuple[np.ndarray, np.ndarray]:
    found = score_tables(np.asarray(tables, float)[None], np.asarray(prevalence, float)[None])
    return found.accuracy[0], found.informativeness[0]


def test_scores_of_known_confusions() -> None:
    perfect, inverter, spammer, noisy = np.eye(2), np.eye(2)[::-1], [[0.9, 0.1]] * 2, [[0.9, 0.1], [0.1, 0.9]]
    accuracy, bits = _two_class([perfect, inverter, spammer, noisy])
    np.testing.assert_allclose(accuracy, [1, 0, 0.5, 0.9])
    # The last: 1 - H(.1) bits.
    np.testing.assert_allclose(bits, [1, 1, 0, 0.53100441], atol=1e-8)


def test_scores_respect_the_prevalence_and_extra_labels() -> None:
    table = [[0.8, 0.1, 0.1], [0.0, 0.5, 0.5]]
    accuracy, bits = _two_class([table], (0.9, 0.1))
    assert accuracy[0] == pytest.approx(0.9 * 0.8 + 0.1 * 0.5)
    joint = np.array([0.9, 0.1])[:, None] * table
    marginal = joint.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log2(joint / np.outer([0.9, 0.1], marginal))
    assert bits[0] == pytest.approx(np.nansum(terms))


def test_report_of_draws_equals_the_plain_formula() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31())
    tree = fitted.tree_of(labels, fitted.r31(), run)
    report = workers(tree, interval=0.5)
    assert report.columns.tolist() == [
        "n_labels",
        "accuracy",
        "accuracy_lower",
        "accuracy_upper",
        "informativeness",
        "p_spammer",
        "p_adversary",
    ]
    assert report.index.tolist() == ["w1", "w2", "w3"]
    diagonal = np.diagonal(run.draws["confusion"], axis1=-2, axis2=-1)
    accuracy = (run.draws["prevalence"][:, :, None, :] * diagonal).sum(-1).reshape(-1, 3)
    np.testing.assert_allclose(report["accuracy"], accuracy.mean(0))
    np.testing.assert_allclose(report["accuracy_lower"], np.quantile(accuracy, 0.25, axis=0))
    np.testing.assert_allclose(report["accuracy_upper"], np.quantile(accuracy, 0.75, axis=0))
    np.testing.assert_allclose(report["p_adversary"], (accuracy < 0.5).mean(0))
    assert report.attrs["intervals"].startswith("equal-tailed, probability 0.5, from the posterior draws")


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_run(labels, fitted.r31()))
    whole = scores(tree)
    monkeypatch.setattr("bayescrowd.decisions.workers._CHUNK_CELLS", 1)
    for once, again in zip(whole, scores(tree), strict=True):
        np.testing.assert_array_equal(once, again)


def test_difficulty_levels_are_averaged_by_their_share() -> None:
    labels, model = fitted.d1(), fitted.Levelled()
    run = fitted.made_run(labels, model)
    tree = fitted.tree_of(labels, model, run)
    share = run.draws["difficulty_prevalence"]
    expected = (share[..., :1] * run.draws["right_rate"] + share[..., 1:] * 0.5).mean((0, 1))
    np.testing.assert_allclose(workers(tree)["accuracy"], expected)
    np.testing.assert_allclose(confusion(tree, "w1", difficulty="hard"), 0.5)
    easy = confusion(tree, "w1", difficulty="easy").loc["no", "no"]
    assert easy == pytest.approx(run.draws["right_rate"][..., 0].mean())
    with pytest.raises(LabelError, match="there is no difficulty level 'medium'; the levels are 'easy', 'hard'"):
        confusion(tree, "w1", difficulty="medium")


def test_without_draws_intervals_are_missing_and_the_reason_is_given() -> None:
    report = fitted.em().workers()
    assert report[["accuracy_lower", "accuracy_upper", "p_spammer", "p_adversary"]].isna().all(axis=None)
    assert "em gives no draws" in report.attrs["intervals"]
    assert "bootstrap=200" in report.attrs["intervals"]


def test_P06_a_missing_vote_is_no_wrong_answer() -> None:
    whole = fitted.frame()
    here = (whole["item"] == "a") & (whole["worker"] == "w3")
    missing = whole.copy()
    missing.loc[here, "label"] = None
    reports = [
        bc.fit(CrowdLabels.from_long(table), fitted.r31(), objective="posterior", engine="em").workers()
        for table in (missing, whole[~here])
    ]
    pd.testing.assert_frame_equal(*reports)
    assert reports[0].loc["w3", "n_labels"] == 4


def test_P54_few_labels_give_wide_intervals() -> None:
    random = np.random.default_rng(0)
    item = np.arange(200)
    truth = item % 2
    agreeing = np.where(item < 180, truth, 1 - truth)
    other = np.where(random.random(200) < 0.9, truth, 1 - truth)
    rows = np.concatenate(
        [
            np.stack([item, np.full(200, 0), agreeing], 1),
            np.stack([item, np.full(200, 1), other], 1),
            np.stack([item, np.full(200, 2), truth], 1),
            np.array([[0, 3, 0], [1, 3, 1]]),
        ]
    )
    labels = CrowdLabels.from_codes(*rows.T, classes=2, workers=["long", "other", "third", "short"])
    report = bc.fit(labels, fitted.r31(), engine="nuts", chains=2, warmup=200, draws=300).workers()
    width = report["accuracy_upper"] - report["accuracy_lower"]
    assert width["short"] > 4 * width["long"]
    assert report.loc["short", "accuracy_lower"] < report.loc["long", "accuracy_lower"]


def test_an_inverter_is_an_adversary_and_no_spammer() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, fitted.r31())
    run.draws["confusion"][:, :, 0] = [[0.1, 0.9], [0.1, 0.9]]
    run.draws["confusion"][:, :, 1] = [[0.1, 0.9], [0.9, 0.1]]
    run.draws["confusion"][:, :, 2] = [[0.9, 0.1], [0.1, 0.9]]
    run.draws["prevalence"][:] = 0.5
    report = workers(fitted.tree_of(labels, fitted.r31(), run))
    assert report["p_spammer"].iloc[0] == 1
    assert roles(report).tolist() == ["spammer", "adversary", "worker"]
    assert report["p_adversary"].tolist() == [0, 1, 0]


def test_confusion_is_class_by_label() -> None:
    labels = CrowdLabels.from_codes(
        [0, 1, 2], [0, 0, 1], [0, 1, 2], classes=["no", "yes"], label_values=["no", "yes", "?"]
    )
    run = fitted.made_run(labels, bc.DawidSkene())
    tree = fitted.tree_of(labels, bc.DawidSkene(), run)
    table = confusion(tree, 1)
    assert (table.index.name, table.columns.name) == ("class", "label")
    assert table.index.tolist() == ["no", "yes"]
    assert table.columns.tolist() == ["no", "yes", "?"]
    np.testing.assert_allclose(table, run.draws["confusion"][:, :, 1].mean((0, 1)))
    ranges = confusion(tree, 1, interval=0.8)
    draws = run.draws["confusion"][:, :, 1, 0, 2].ravel()
    assert ranges.loc["no", ("?", "lower")] == pytest.approx(np.quantile(draws, 0.1))
    assert ranges.loc["no", ("?", "upper")] == pytest.approx(np.quantile(draws, 0.9))
    assert fitted.em().confusion("w1", interval=0.8)[("no", "lower")].isna().all()


def test_unknown_workers_get_a_hint() -> None:
    with pytest.raises(LabelError, match="there is no worker 'W1'; did you mean 'w1'"):
        fitted.em().confusion("W1")
    with pytest.raises(LabelError, match="the workers are 'w1', 'w2', 'w3'"):
        fitted.em().confusion("somebody else")
    with pytest.raises(LabelError, match=r"there is no worker '1' \(str\), but there is 1 \(int\)"):
        fitted.anesthesia_em().confusion("1")


def test_intervals_must_be_probabilities() -> None:
    with pytest.raises(LabelError, match="interval must be a probability"):
        fitted.em().workers(interval=89.0)
    with pytest.raises(LabelError, match="interval must be a probability"):
        fitted.em().confusion("w1", interval=0.0)


def test_models_without_confusion_say_so() -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31()))
    tree["point_estimate"] = tree["point_estimate"].dataset.drop_vars("confusion")
    report = workers(tree)
    assert report["accuracy"].between(0, 1).all()
    assert report["informativeness"].isna().all()
    assert "agree with the classes found" in report.attrs["accuracy"]
    assert "no confusion matrices" in report.attrs["intervals"]
    with pytest.raises(ModelError, match="no confusion matrices"):
        confusion(tree, report.index[0])
