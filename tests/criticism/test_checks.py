"""Predictive checks of real and made crowds: what is rejected, what is not, and how it is said."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.criticism._check_words import describe, remedy, verdict
from bayescrowd.criticism._checked import table_of
from bayescrowd.criticism._direction import direction_of
from bayescrowd.criticism._discrepancy import compare
from bayescrowd.criticism.checks import of_misfit, predictive_checks
from bayescrowd.criticism.predictive import replicate
from bayescrowd.criticism.statistics import Agreement, Splits
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError, ModelError


def wide(answers: np.ndarray) -> CrowdLabels:
    return CrowdLabels.from_wide(answers, items="rows")


@functools.cache
def judges() -> CrowdLabels:
    """P41: nine judges who err together on hard items."""
    random = np.random.default_rng(11)
    z = random.integers(0, 2, 1000)
    hard = random.random(1000) < 0.25
    right = random.random((1000, 9)) < np.where(hard, 0.3, 0.95)[:, None]
    return wide(np.where(right, z[:, None], 1 - z[:, None]))


# ---- on fits ----


@functools.cache
def caries(engine: str = "collapsed-vi") -> bc.Fit:
    return bc.fit(bc.datasets.load("caries"), bc.DawidSkene(), engine=engine, progress=False)


@functools.cache
def of_judges(model: str, engine: str = "collapsed-vi") -> Any:
    fit = bc.fit(judges(), {"ds": bc.DawidSkene(), "idbla": bc.IDBLA()}[model], engine=engine, progress=False)
    return fit.predictive_checks()


@pytest.mark.parametrize("engine", ["collapsed-vi", "em"])
def test_judges_who_err_together_split_their_votes_too_often(engine: str) -> None:
    checks = of_judges("ds", engine)
    table = checks["splits"].table.set_index("split")
    assert table.loc["5-4", "observed"] == 63
    assert table.loc["5-4", "expected"] == pytest.approx(11, abs=2.5)
    assert table.loc["5-4", "z"] > 8
    assert checks["splits"].p_value < 0.01
    assert checks["splits"].discrepancy > 30
    assert "5-4 splits on 63 items" in checks["splits"].sentence
    assert "rejected" in checks["splits"].sentence
    assert checks["agreement"].p_value < 0.01
    assert checks["shares"].p_value > 0.05


def test_difficulty_explains_the_judges() -> None:
    checks = of_judges("idbla")
    assert min(check.p_value for check in checks.values()) > 0.1
    assert "No sign of misfit" in checks["splits"].sentence
    assert [finding.code for finding in of_misfit(checks)] == ["fits"]


@pytest.mark.parametrize("seed", range(3))
def test_dawid_skene_is_rejected_on_caries(seed: int) -> None:
    checks = caries().predictive_checks(seed=seed)
    assert checks["splits"].p_value < 0.01
    assert checks["agreement"].p_value < 0.05


@pytest.mark.slow
def test_dawid_skene_is_rejected_on_caries_by_draws_of_the_posterior() -> None:
    checks = caries("gibbs").predictive_checks()
    assert checks["splits"].p_value < 0.01
    assert checks["agreement"].p_value < 0.03


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("engine", ["collapsed-vi", "gibbs"])
def test_dawid_skene_is_rejected_on_rte(real_data: Any, engine: str) -> None:
    checks = bc.fit(real_data("rte"), bc.DawidSkene(), engine=engine, progress=False).predictive_checks()
    assert checks["splits"].p_value < 0.02
    assert checks["agreement"].p_value < 0.03
    assert checks["agreement"].n_values == 1254


def refitted(fit: bc.Fit, labels: CrowdLabels, seeds: int) -> list[dict[str, float]]:
    """P-values of fits to labels simulated from a fit on the same design."""
    found = []
    for seed, codes in enumerate(replicate(fit.idata, draws=seeds, seed=9).label_code):
        again = dataclasses.replace(labels, label_code=codes.astype(labels.label_code.dtype))
        checks = bc.fit(again, bc.DawidSkene(), engine="collapsed-vi", progress=False).predictive_checks(seed=seed)
        found.append({name: check.p_value for name, check in checks.items()})
    return found


@pytest.mark.slow
def test_dawid_skene_is_not_rejected_on_labels_like_caries() -> None:
    found = pd.DataFrame(refitted(caries(), bc.datasets.load("caries"), 12))
    assert (found < 0.05).to_numpy().mean() <= 0.1
    assert ((found > 0.01).all(axis=1)).mean() >= 0.9


@pytest.mark.slow
@pytest.mark.realdata
def test_dawid_skene_is_not_rejected_on_labels_like_rte(real_data: Any) -> None:
    labels = real_data("rte")
    fit = bc.fit(labels, bc.DawidSkene(), engine="collapsed-vi", progress=False)
    found = pd.DataFrame(refitted(fit, labels, 8))
    assert (found < 0.05).to_numpy().mean() <= 0.1
    assert ((found > 0.01).all(axis=1)).mean() >= 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayescrowd.ConvergenceWarning")
def test_p_values_are_calibrated_on_labels_of_the_model() -> None:
    """60 tables of 40 items by 5 workers whose parameters are drawn from the prior of the fit."""
    model = bc.DawidSkene()
    found = []
    for seed in range(60):
        labels = bc.simulate(model, n_items=40, n_workers=5, seed=seed).labels
        fit = bc.fit(labels, model, engine="gibbs", chains=1, warmup=100, draws=100, seed=seed, progress=False)
        checks = fit.predictive_checks(seed=seed)
        found.append({name: (check.p_value, check.ppp) for name, check in checks.items()})
    for name in ("agreement", "splits", "shares"):
        p, ppp = np.array([row[name] for row in found]).T
        assert (p < 0.05).mean() <= 0.1  # 2.5 standard errors above .05 would be .12
        assert (p < 0.01).mean() <= 0.035
        assert 0.38 < p.mean() < 0.66
        assert p.std() > 0.18  # uniform: .29; the allowance for an estimated correlation draws them together
        assert ppp.std() < p.std()  # the usual p-value gathers around one half
        assert ppp.mean() == pytest.approx(0.5, abs=0.08)


# ---- what comes back ----


def test_table_holds_shares_and_their_intervals() -> None:
    checks = caries().predictive_checks(draws=100)
    assert list(checks) == ["agreement", "splits", "shares"]
    pairs = checks["agreement"].table
    numbers = ["observed", "expected", "lower", "upper", "z", "outside"]
    assert pairs.columns.tolist() == ["worker", "other", "n_common", *numbers]
    assert checks["splits"].table.columns.tolist() == ["split", "n_labels", *numbers]
    assert checks["shares"].table.columns.tolist() == ["worker", "label", *numbers]
    assert len(pairs) == 10
    assert (pairs["n_common"] == 3859).all()
    assert pairs["observed"].between(0.6, 0.95).all()
    for check in checks.values():
        table = check.table
        assert (table["lower"] <= table["upper"]).all()
        assert table["expected"].between(table["lower"] - 1e-9, table["upper"] + 1e-9).all()
        assert check.replicated.shape == (100,)
        assert check.n_values == len(table)
        assert table["outside"].dtype == bool
        assert (
            table["outside"].tolist()
            == ((table["observed"] < table["lower"] - 1e-9) | (table["observed"] > table["upper"] + 1e-9)).tolist()
        )
        assert not check.is_prior
    assert checks["splits"].table["observed"].sum() == 3859
    shares = checks["shares"].table.groupby("worker")["observed"].sum()
    np.testing.assert_allclose(shares, 1)


def test_draws_of_the_posterior_are_spread_and_counted() -> None:
    labels, model = fitted.anesthesia(), bc.DawidSkene()
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model, chains=2, draws=3))
    checks = predictive_checks(tree, draws=60)  # six draws, ten replications each
    assert checks["splits"].replicated.shape == (60,)
    assert "60 replications of 315 labels" in checks.headline
    assert "draws from the posterior" in checks.headline
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model, chains=1, draws=2))
    assert predictive_checks(tree, draws=60)["splits"].replicated.shape == (60,)


def test_same_seed_same_numbers() -> None:
    one, same, other = (caries().predictive_checks(["splits"], draws=40, seed=seed) for seed in (1, 1, 2))
    assert one["splits"].table.equals(same["splits"].table)
    assert not one["splits"].table.equals(other["splits"].table)


def test_functions_of_the_user() -> None:
    def n_ones(label_code: np.ndarray, tree: Any) -> float:
        assert label_code.dtype == np.int64
        assert "observed_data" in tree.children
        return label_code.sum()

    def pair(label_code: np.ndarray, tree: Any) -> np.ndarray:
        return np.array([label_code[0], label_code.mean()])

    checks = caries().predictive_checks([n_ones, "splits", pair], draws=40)
    assert list(checks) == ["n_ones", "splits", "pair"]
    labels = bc.datasets.load("caries")
    assert checks["n_ones"].table["observed"].tolist() == [labels.label_code.sum()]
    assert "n_ones: " in checks["n_ones"].sentence
    assert checks["pair"].table["value"].tolist() == [0, 1]
    alone = predictive_checks(caries().idata, n_ones, draws=40)
    assert list(alone) == ["n_ones"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda label_code: 1, "is called as"),
        (lambda label_code, tree: np.nan, "not finite"),
        (lambda label_code, tree: np.zeros(1 + int(label_code.dtype == np.int64 and label_code[0])), "same number"),
        (lambda label_code, tree: "text", "must return a number"),
    ],
)
def test_functions_that_cannot_be_used(function: Any, message: str) -> None:
    labels = wide(np.array([[0, 1], [1, 0], [0, 0]]))
    run = fitted.made_point(labels, bc.DawidSkene())
    even = {"prevalence": np.full(2, 0.5), "confusion": np.full((2, 2, 2), 0.5)}
    tree = fitted.tree_of(labels, bc.DawidSkene(), run._replace(points=even))
    with pytest.raises(LabelError, match=message):
        predictive_checks(tree, [function], draws=40)


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (["votes"], "there is no statistic 'votes'; the statistics are 'agreement', 'splits', 'shares'"),
        ([3], "there is no statistic 3"),
        ([], "name at least one"),
        (["splits", "splits"], "two statistics are called 'splits'"),
    ],
)
def test_statistics_that_there_are_not(statistics: Any, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        fitted.em().predictive_checks(statistics)


def test_arguments_and_methods_that_cannot_be_checked() -> None:
    with pytest.raises(LabelError, match="at least 20"):
        fitted.em().predictive_checks(draws=10)
    with pytest.raises(LabelError, match="seed must be"):
        fitted.em().predictive_checks(seed=-1)
    with pytest.raises(ModelError, match="without a probability model"):
        bc.baselines.majority_vote(fitted.d1()).predictive_checks()


# ---- edge cases ----


def checks_of(labels: CrowdLabels, model: Any = None, draws: int = 40) -> Any:
    model = bc.DawidSkene() if model is None else model
    return predictive_checks(fitted.tree_of(labels, model, fitted.made_run(labels, model, draws=10)), draws=draws)


@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
def test_one_worker_has_neither_pairs_nor_splits() -> None:
    checks = checks_of(wide(np.array([[0], [1], [1], [0]])))
    assert np.isnan(checks["agreement"].p_value)
    assert "no two workers label the same item" in checks["agreement"].sentence
    assert len(checks["agreement"].table) == 0
    assert "no item has two labels" in checks["splits"].sentence
    assert np.isfinite(checks["shares"].p_value)
    assert str(checks)
    assert checks["agreement"]._repr_html_()
    assert all("nothing to check" not in finding.text for finding in of_misfit(checks))


@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
def test_one_label_value_leaves_nothing_to_check() -> None:
    labels = CrowdLabels.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], classes=["a"])
    checks = checks_of(labels)
    for check in checks.values():
        assert np.isnan(check.p_value)
        assert "always show what was observed" in check.sentence
    assert of_misfit(checks) == []


@pytest.mark.parametrize("model", [bc.IDBLA(), bc.FixedIDBLA(), fitted.OneCoin(), fitted.Levelled(), fitted.Skilled()])
def test_any_model_and_more_labels_than_classes(model: Any) -> None:
    checks = checks_of(fitted.random_crowd(5), model)
    assert all(0 < check.p_value <= 1 for check in checks.values())
    assert checks["shares"].table["label"].unique().tolist() == ["a", "b", "c"]


def test_gold_is_kept() -> None:
    answers = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]] * 5)
    labels = dataclasses.replace(wide(answers), gold_code=np.array([1, -1, 0, -1] * 5, np.int32))
    exact = np.broadcast_to(np.eye(2), (3, 2, 2))
    run = fitted.made_point(labels, bc.DawidSkene())
    tree = fitted.tree_of(
        labels, bc.DawidSkene(), run._replace(points={"prevalence": np.array([0.0, 1.0]), "confusion": exact})
    )
    shares = predictive_checks(tree, ["shares"], draws=40)["shares"].table
    # All say the class, which is 0 on the five gold items of class 0 and 1 on all others.
    assert shares["expected"].tolist() == [0.25, 0.75] * 3


def test_weights_are_named() -> None:
    labels = dataclasses.replace(fitted.d1(), weight=np.linspace(0.5, 3, 15))
    assert any("every row is one label" in note for note in checks_of(labels).notes)
    assert not checks_of(fitted.d1()).notes


def test_point_estimates_are_named() -> None:
    checks = fitted.em().predictive_checks(draws=40)
    assert "parametric bootstrap" in checks.headline
    assert any("p-values are too large" in note for note in checks.notes)
    assert checks["splits"].replicated.shape == (40,)


def test_long_tables_list_the_pairs_with_most_common_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayescrowd.criticism._checked._MOST_ROWS", 3)
    check = checks_of(fitted.random_crowd(6))["agreement"]
    assert len(check.table) == 3
    common = Agreement(fitted.random_crowd(6)).rows["n_common"]
    assert check.n_values == len(common) > 3
    assert sorted(check.table["n_common"]) == sorted(common)[-3:]
    outside = int(check.table["outside"].sum())
    of = f"{outside} of the 3 pairs with most common items (there are {len(common)})"
    assert f"outside their 95 % intervals {'lies' if outside == 1 else 'lie'} {of}" in check.sentence


def test_whole_tables_are_not_called_part_of_one() -> None:
    check = checks_of(fitted.random_crowd(6))["agreement"]
    assert f"{int(check.table['outside'].sum())} of {check.n_values} pairs" in check.sentence
    assert "with most common items" not in check.sentence


def test_a_hair_outside_its_interval_is_rounding() -> None:
    statistic = Agreement(fitted.random_crowd(6))
    scale = np.asarray(statistic.scale, float)
    lowest = 0.25 * scale
    replicated = np.repeat(lowest[None], 20, axis=0)
    shift = np.zeros(len(scale))
    shift[:3] = 0.5e-9, -0.5e-9, 3e-9
    table, _ = table_of(statistic, replicated, lowest + shift * scale)
    assert table["outside"].tolist() == [False, False, True, *[False] * (len(scale) - 3)]
    counted = [word for word in describe(statistic, table, (0.5, 0.5, 0.4, 0.6)).split("; ") if "outside" in word]
    assert len(counted) == 1
    assert counted[0].startswith(f"outside their 95 % intervals lies 1 of {len(scale)} pairs")


def test_findings_and_words() -> None:
    checks = of_judges("ds")
    findings = of_misfit(checks)
    assert {finding.code for finding in findings} == {"misfit-splits", "misfit-agreement"}
    assert all(finding.severity == "caution" and finding.remedy for finding in findings)
    assert "->" not in findings[0].text
    text = str(checks)
    assert text.startswith(
        "Posterior predictive checks of dawid-skene by collapsed-vi: 200 replications of 9,000 labels"
    )
    assert text.count("\n") == 3
    assert repr(checks) == text
    doubtful = dataclasses.replace(checks["splits"], p_value=0.03)
    mild = of_misfit(dataclasses.replace(checks, checks={"splits": doubtful}))
    assert [finding.severity for finding in mild] == ["note"]


def test_checks_are_a_mapping() -> None:
    checks = of_judges("ds")
    assert len(checks) == 3
    assert "splits" in checks
    assert dict(checks)["shares"] is checks["shares"]
    with pytest.raises(LabelError, match="there is no check 'votes'"):
        checks["votes"]


def test_names_of_strangers_are_shown_not_run() -> None:
    labels = fitted.random_crowd(7)
    labels = dataclasses.replace(labels, workers=pd.Index(["<script>x</script>", *labels.workers[1:]]))
    checks = checks_of(labels)
    shown = checks._repr_html_() + "".join(check._repr_html_() for check in checks.values())
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


# ---- which way labels deviate ----


def good_crowd(seed: int, n_classes: int, *, accuracy: float = 0.9, n_items: int = 500) -> CrowdLabels:
    """Five labels per item by 100 workers, all of them equally good: Dawid-Skene, and not the default prior's."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n_items)
    worker = np.concatenate([random.choice(100, 5, replace=False) for _ in range(n_items)])
    item = np.repeat(np.arange(n_items), 5)
    wrong = (truth[item] + random.integers(1, n_classes, len(item))) % n_classes
    label = np.where(random.random(len(item)) < accuracy, truth[item], wrong)
    return CrowdLabels.from_codes(item, worker, label, classes=n_classes)


def checks_under(labels: CrowdLabels, model: Any) -> Any:
    return bc.fit(labels, model, engine="collapsed-vi", progress=False).predictive_checks()


@pytest.mark.parametrize(("n_classes", "on"), [(3, 19), (5, 37)])
def test_better_workers_than_the_prior_expects_ask_for_another_prior(n_classes: int, on: int) -> None:
    labels = good_crowd(0, n_classes)
    checks = checks_under(labels, bc.DawidSkene())
    for name in ("agreement", "splits"):
        assert checks[name].p_value < 0.01
        sentence = checks[name].sentence
        assert "agree more than the fitted model expects, as its prior expects worse workers" in sentence
        assert f"-> expect better workers, confusion_prior=bc.diagonal({on}, 1); bc.prior_predictive" in sentence
        assert "difficult" not in sentence
        assert "too sure" not in sentence
    # The remedy works.
    mended = checks_under(labels, bc.DawidSkene(confusion_prior=bc.diagonal(on, 1)))
    assert min(check.p_value for check in mended.values()) > 0.1
    assert "->" not in str(mended)


def test_where_all_agree_better_workers_are_expected() -> None:
    labels = wide(np.repeat(np.arange(60)[:, None] % 3, 5, axis=1))
    checks = checks_under(labels, bc.DawidSkene())
    for name in ("agreement", "splits"):
        assert checks[name].p_value < 0.01
        assert "confusion_prior=bc.diagonal(50, 1)" in checks[name].sentence
        assert "IDBLA" not in checks[name].sentence


def test_a_prior_of_good_workers_is_doubled() -> None:
    model = bc.DawidSkene(confusion_prior=bc.diagonal(20, 1))
    words = remedy("splits", model, good_crowd(0, 3, accuracy=0.9), "more")
    assert "bc.diagonal(40, 1)" in words
    assert "bc.diagonal(8, 1)" in remedy("splits", bc.DawidSkene(), good_crowd(0, 2, accuracy=0.7), "more")


def test_lumpy_agreement_asks_for_difficulty() -> None:
    for checks in (of_judges("ds"), caries().predictive_checks(draws=100)):
        assert "more are divided than go with that" in checks["splits"].sentence
        assert "let items differ in difficulty" in checks["splits"].sentence
        assert "diagonal(" not in str(checks)


@pytest.mark.slow
@pytest.mark.realdata
def test_rte_is_lumpy_though_its_labels_agree_more_than_expected(real_data: Any) -> None:
    checks = bc.fit(real_data("rte"), bc.DawidSkene(), engine="collapsed-vi", progress=False).predictive_checks()
    for name in ("agreement", "splits"):
        assert "let items differ in difficulty" in checks[name].sentence
    assert "diagonal(" not in str(checks)


def test_direction_by_hand() -> None:
    """Ten items of four labels: 4-0, 3-1 or 2-2."""
    answers = np.array([[0, 0, 0, 0]] * 6 + [[0, 0, 0, 1]] * 2 + [[0, 0, 1, 1]] * 2)
    statistic = Splits(wide(answers))
    assert statistic.rows["split"].tolist() == ["4-0", "3-1", "2-2"]
    random = np.random.default_rng(0)

    def of(expected: list[float], observed: list[int]) -> str:
        replicated = random.multinomial(1000, expected, size=(20, 20))
        return direction_of(statistic, replicated, np.array(observed))

    assert of([0.4, 0.4, 0.2], [400, 400, 200]) == ""
    assert of([0.4, 0.4, 0.2], [450, 390, 160]) == "more"
    assert of([0.4, 0.4, 0.2], [800, 190, 10]) == "more"
    assert of([0.4, 0.4, 0.2], [360, 400, 240]) == "less"
    assert of([0.4, 0.4, 0.2], [480, 280, 240]) == "lumpy"
    assert of([0.4, 0.4, 0.2], [470, 330, 200]) == "lumpy"  # as many divided items, yet too many for that agreement


# ---- the total of agreement ----


def test_a_total_far_off_is_tested_with_the_pairs() -> None:
    """500 pairs that share two items each: none stands out, the total does."""
    random = np.random.default_rng(1)
    replicated = random.binomial(2, 0.7, size=(20, 10, 500))
    observed = random.binomial(2, 0.8, size=500)
    assert compare(replicated, observed).p_value > 0.05
    assert compare(replicated, observed, total=True).p_value < 0.01


def test_pairs_are_still_tested_where_the_total_is_right() -> None:
    random = np.random.default_rng(1)
    replicated = random.binomial(100, 0.5, size=(20, 10, 20))
    observed = np.tile([35, 65], 10)
    assert compare(replicated, observed, total=True).p_value < 0.01


def test_p_values_of_pairs_and_total_are_uniform() -> None:
    random = np.random.default_rng(2)
    found = []
    for _ in range(300):
        labels = random.poisson(20, size=(1, 201, 15))
        found.append(compare(labels[:, :200], labels[0, 200], total=True).p_value)
    p = np.array(found)
    assert (p < 0.05).mean() < 0.09
    assert (p < 0.01).mean() < 0.03
    assert p.mean() == pytest.approx(0.5, abs=0.06)
    assert p.std() == pytest.approx(0.29, abs=0.04)


# ---- words ----


def test_words_between_rejected_and_fine() -> None:
    assert verdict(0.005, 2000, 0.01, 0.1) == "The model is rejected (p = 0.005)."
    assert verdict(0.0005, 2000, 0.01, 0.1).startswith("The model is rejected (p = 0.0005, the least that 2000")
    for p_value in (0.011, 0.05, 0.099):
        assert verdict(p_value, 200, 0.01, 0.1).startswith("Borderline: rare for labels of such a model")
    assert verdict(0.1, 200, 0.01, 0.1) == "No sign of misfit (p = 0.100)."
    assert "Borderline: the total is outside its interval" in verdict(0.3, 200, 0.01, 0.1, strayed=True)
    inside = verdict(0.001, 2000, 0.01, 0.1, direction="more", within=True)
    assert "expects from any one draw of its parameters, while the interval holds all draws, as its prior" in inside


def test_small_tables_have_many_replications_and_steady_p_values() -> None:
    fit = bc.fit(fitted.anesthesia(), engine="collapsed-vi", progress=False)
    found = [fit.predictive_checks(seed=seed) for seed in range(4)]
    assert all(len(checks["agreement"].replicated) == 2000 for checks in found)
    p = pd.DataFrame([{name: check.p_value for name, check in checks.items()} for checks in found])
    assert p["agreement"].max() < 0.01
    assert np.ptp(p["splits"]) < 0.1
    assert len(caries().predictive_checks(["splits"])["splits"].replicated) == 200


def test_draws_of_chains_that_did_not_converge_are_called_that() -> None:
    labels, model = fitted.anesthesia(), bc.DawidSkene()
    for run, words in (
        (fitted.made_run(labels, model, chains=2, draws=3), "did not converge: they are no draws from the posterior"),
        (fitted.made_point(labels, model), "a parametric bootstrap without refits); the fit did not converge"),
    ):
        tree = fitted.tree_of(labels, model, run)
        tree.attrs["converged"] = "yes"
        assert "did not converge" not in predictive_checks(tree, draws=20).headline
        tree.attrs["converged"] = "no"
        assert words in predictive_checks(tree, draws=20).headline
