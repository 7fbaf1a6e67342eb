from __future__ import annotations

import inspect
import json
import re
from typing import Any

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.criticism.chains import check_chains
from bayescrowd.criticism.convergence import diagnose
from bayescrowd.criticism.report import Diagnosis, Finding, ordered
from bayescrowd.criticism.sampling import one_number_of_draws
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Status

R31 = fitted.r31()


def _codes(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.code: finding.severity for finding in diagnosis.findings}


def _text(diagnosis: Diagnosis, code: str) -> str:
    return next(str(finding) for finding in diagnosis.findings if finding.code == code)


def _good_run(labels: CrowdLabels, model: Any = R31, draws: int = 500, chains: int = 4, **more: Any) -> Any:
    return fitted.made_run(labels, model, chains=chains, draws=draws, **more)


def test_a_good_fit_is_said_to_be_good() -> None:
    diagnosis = fitted.nuts().diagnose()
    assert diagnosis.converged
    assert diagnosis.r_hat < 1.02
    assert diagnosis.ess_bulk > 400
    assert diagnosis.n_divergent == 0
    assert diagnosis.problems == ()
    assert "converged." in diagnosis.headline
    text = str(diagnosis)
    assert len(text.splitlines()) < 15
    assert "R-hat at most" in text


def test_every_problem_says_what_to_do() -> None:
    labels = fitted.d1()
    run = _good_run(labels, draws=50)
    run.draws["prevalence"][0] = run.draws["prevalence"][0] * 0.1 + [0.9, 0.0]
    run.sample_stats["diverging"][:] = True
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert len(diagnosis.problems) >= 2
    assert all(finding.remedy for finding in diagnosis.findings if finding.severity != "note")


def test_chains_that_disagree() -> None:
    labels = fitted.d1()
    run = _good_run(labels)
    run.draws["prevalence"][0] = run.draws["prevalence"][0] * 0.1 + [0.9, 0.0]
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert diagnosis.converged is False
    assert "NOT converged" in diagnosis.headline
    assert "The chains disagree: R-hat" in _text(diagnosis, "r-hat")
    assert "warmup=" in _text(diagnosis, "r-hat")
    assert diagnosis.r_hat > 1.2
    assert diagnosis.quantities.index[0].startswith("prevalence[")


def test_P33_chains_that_only_name_the_classes_differently_are_told_from_chains_that_disagree() -> None:
    labels = fitted.d1()
    run = _good_run(labels)
    run.draws["confusion"][1:] = (
        run.draws["confusion"][:1] + np.random.default_rng(0).normal(0, 1e-3, (4, 500, 3, 2, 2))[1:]
    )
    run.draws["confusion"][1] = run.draws["confusion"][1][..., ::-1, :]
    run.draws["prevalence"][:] = 0.5 + np.random.default_rng(1).normal(0, 0.05, (4, 500, 1)) * np.array([1, -1])
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert diagnosis.converged is False
    assert "the chains name the classes differently" in _text(diagnosis, "r-hat")
    # R31 favours the diagonal by 3 to 1 already: a remedy asks for more than was used.
    assert "bc.diagonal(6, 1)" in _text(diagnosis, "r-hat")


def test_P33_switched_chains_are_reported() -> None:
    labels = fitted.d1()
    sure = np.array([[0.02, 0.98], [0.98, 0.02], [0.02, 0.98], [0.9, 0.1], [0.9, 0.1]])
    by_chain = np.stack([sure, sure, sure[:, ::-1], sure])
    run = _good_run(labels, state_probability_by_chain=by_chain)
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert "Chain 2 sits in a permuted mode" in _text(diagnosis, "permuted-mode")
    assert _codes(diagnosis)["permuted-mode"] == "problem"
    flat = bc.DawidSkene(confusion_prior=1.0)
    aligned = diagnose(fitted.tree_of(labels, flat, _good_run(labels, flat, state_probability_by_chain=by_chain)))
    assert "was put back" in _text(aligned, "aligned")
    assert "Nothing tells the classes 'no', 'yes' apart" in _text(aligned, "classes-not-identified")


def test_P33_a_flat_prior_is_not_identified_unless_gold_names_the_classes() -> None:
    flat = bc.DawidSkene(confusion_prior=1.0)
    for labels, expected in ((fitted.d1(), True), (fitted.d1(gold={"a": "yes", "b": "no"}), False)):
        diagnosis = diagnose(fitted.tree_of(labels, flat, _good_run(labels, flat)))
        assert ("classes-not-identified" in _codes(diagnosis)) is expected


def test_few_draws_one_chain_and_divergences() -> None:
    labels = fitted.d1()
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, draws=100, chains=1)))
    assert _codes(diagnosis)["one-chain"] == "caution"
    assert "draws=" in _text(diagnosis, "few-effective-draws")
    run = _good_run(labels)
    run.sample_stats["diverging"][0, :3] = True
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert _codes(diagnosis)["divergences"] == "caution"
    assert "3 of 2,000 transitions diverged" in _text(diagnosis, "divergences")
    assert diagnosis.n_divergent == 3
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, draws=2)))
    assert "too few to judge" in _text(diagnosis, "too-few-draws")
    assert diagnosis.converged is None


def test_an_interrupted_run_is_not_converged() -> None:
    labels = fitted.d1()
    run = _good_run(labels, status=Status("interrupted", "Interrupted: 4 chains of 500 draws are kept.", False))
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert diagnosis.converged is False
    assert _codes(diagnosis)["interrupted"] == "problem"


def test_P94_stopping_early_is_said_and_the_result_is_there() -> None:
    with pytest.warns(bc.ConvergenceWarning, match="did not converge"):
        fit = bc.fit(fitted.anesthesia(), max_iter=2, engine="em")
    assert fit.converged is False
    assert fit.class_probabilities().shape == (45, 4)
    diagnosis = fit.diagnose()
    assert "raise max_iter" in _text(diagnosis, "max-iterations")
    assert _codes(diagnosis)["max-iterations"] == "problem"


def test_P94_a_class_that_vanished() -> None:
    labels = CrowdLabels.from_codes([0, 1, 2, 2], [0, 1, 0, 1], [0, 1, 0, 2], classes=["no", "yes", "rare", "never"])
    probability = np.array([[0.9, 0.1, 0, 0], [0.2, 0.8, 0, 0], [0.7, 0, 0.3, 0]])
    run = fitted.made_point(labels, bc.DawidSkene(), state_probability=probability)
    diagnosis = diagnose(fitted.tree_of(labels, bc.DawidSkene(), run))
    assert "expected in class 'yes', 'rare', although" in _text(diagnosis, "vanished-class")
    assert "No worker ever says 'never'" in _text(diagnosis, "unused-class")


def test_several_starts() -> None:
    labels = fitted.d1()

    def found(*objectives: float) -> Finding:
        run = fitted.made_point(labels, R31, extra={"objective_by_start": list(objectives)})
        diagnosis = diagnose(fitted.tree_of(labels, R31, run))
        return next(finding for finding in diagnosis.findings if finding.code == "starts")

    assert "All 3 starts" in found(-10.0, -10.0, -10.0).text
    assert found(-10.0, -10.0, -14.0).severity == "note"
    alone = found(-10.0, -12.0, -14.0)
    assert alone.severity == "caution"
    assert "1 of 3 starts reached the best objective -10.000; the others ended up to 4 lower" in alone.text
    assert alone.remedy.endswith("starts=12")


def test_probabilities_at_the_edge() -> None:
    diagnosis = fitted.em().diagnose()
    assert "confusion probabilities are 0 or 1" in _text(diagnosis, "edge")
    careful = bc.fit(
        fitted.d1(), bc.DawidSkene(confusion_prior=bc.diagonal(4, 2)), objective="posterior", engine="em"
    ).diagnose()
    assert "edge" not in _codes(careful)


def test_what_the_labels_cannot_tell() -> None:
    one_class = CrowdLabels.from_codes([0, 1], [0, 1], [0, 0], classes=["ok"])
    diagnosis = diagnose(fitted.tree_of(one_class, R31, fitted.made_point(one_class, R31)))
    assert "one class only" in _text(diagnosis, "one-class")
    one_worker = CrowdLabels.from_codes(np.arange(6), [0] * 6, [0, 1, 1, 0, 1, 1], classes=2, workers=["w1", "idle"])
    diagnosis = diagnose(fitted.tree_of(one_worker, R31, fitted.made_point(one_worker, R31)))
    assert "not identified" in _text(diagnosis, "one-worker")
    assert "idle" in _text(diagnosis, "thin-workers")
    parts = CrowdLabels.from_codes([0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 2, 2], [0] * 6, classes=2, items=5, workers=4)
    diagnosis = diagnose(fitted.tree_of(parts, R31, fitted.made_point(parts, R31)))
    assert "fall into 2 groups that share no label" in _text(diagnosis, "disconnected")
    assert "disconnected" not in _codes(fitted.em().diagnose())


def test_P40_the_majority_vote_is_compared_with() -> None:
    assert "equals the majority vote" in _text(fitted.em().diagnose(), "majority")
    diagnosis = fitted.anesthesia_em().diagnose()
    # P35: the grade differs from the plurality for patient 36 and, where the vote is tied, for 2 and 12.
    assert "36" in _text(diagnosis, "majority")
    assert diagnosis.n_changed in (1, 2)


def test_quantities_are_named_and_spread_over_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = CrowdLabels.from_codes(np.arange(40) % 5, np.arange(40), np.arange(40) % 3, classes=3)
    run = fitted.made_run(labels, R31, draws=20)
    table = check_chains(fitted.tree_of(labels, R31, run))
    entries = [name for name in table.index if name.startswith("confusion[")]
    # 6 free entries per worker, 40 workers.
    assert len(entries) == 240
    assert {"log density", "log likelihood", "sum of squared prevalence"} <= set(table.index)
    monkeypatch.setattr("bayescrowd.criticism.chains.MAX_ENTRIES", 60)
    entries = [name for name in check_chains(fitted.tree_of(labels, R31, run)).index if name.startswith("confusion[")]
    assert len(entries) == 60
    assert any(name.startswith("confusion[39,") for name in entries)


def test_constant_quantities_are_left_out() -> None:
    labels = fitted.d1()
    run = fitted.made_run(labels, R31)
    run.draws["prevalence"][:] = 0.5
    table = check_chains(fitted.tree_of(labels, R31, run))
    assert not any("prevalence" in name for name in table.index)


def test_agrees_with_arviz() -> None:
    az = pytest.importorskip("arviz")
    summary = az.summary(fitted.nuts().idata, ci_prob=0.89, ci_kind="eti", round_to="none")
    table = fitted.nuts().diagnose().quantities
    for name in ("prevalence[no]", "confusion[w1, yes, no]"):
        assert table.loc[name, "r_hat"] == pytest.approx(summary.loc[name, "r_hat"])
        assert table.loc[name, "ess_bulk"] == pytest.approx(summary.loc[name, "ess_bulk"])
        assert table.loc[name, "ess_tail"] == pytest.approx(summary.loc[name, "ess_tail"])


def test_P17_no_alarm_from_a_single_row() -> None:
    labels = CrowdLabels.from_codes([0], [0], [1], classes=["no", "yes"], items=["a"], workers=["w1"])
    fit = bc.fit(labels, R31, objective="posterior", engine="em")
    assert fit.converged
    assert fit.diagnose().problems == ()


def test_reports() -> None:
    findings = [
        Finding("note", "a", "fine <b>"),
        Finding("problem", "b", "bad", "mend it"),
        Finding("caution", "c", "so so"),
    ]
    diagnosis = Diagnosis("head", None, ordered(findings))
    assert [finding.code for finding in diagnosis.findings] == ["b", "c", "a"]
    assert str(diagnosis) == "head\n  problem: bad\n    -> mend it\n  caution: so so\n  note: fine <b>"
    assert "fine &lt;b&gt;" in diagnosis._repr_html_()


def test_a_model_of_another_process_is_diagnosed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, R31, _good_run(labels))
    tree.attrs["model_class"] = "elsewhere:Model"
    assert "classes-not-identified" not in _codes(diagnose(tree))


def _tied(labels: CrowdLabels, probability: object) -> Diagnosis:
    run = fitted.made_point(labels, bc.DawidSkene(), state_probability=np.asarray(probability, float))
    return diagnose(fitted.tree_of(labels, bc.DawidSkene(), run))


def test_a_consensus_that_is_tied_itself_decides_nothing() -> None:
    labels = CrowdLabels.from_wide(np.array([[0, 1], [1, 0], [0, 0], [1, 0]]), items="rows")
    diagnosis = _tied(labels, [[0.5, 0.5], [0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    text = _text(diagnosis, "majority")
    assert "it also decides 1 tie; on 2 items it is itself tied" in text
    assert diagnosis.n_changed == 0
    assert _tied(labels, [[0.5, 0.5]] * 3 + [[0.4, 0.6]]).n_changed == 0
    text = _text(_tied(labels, [[0.5, 0.5]] * 4), "majority")
    assert "decides" not in text
    assert "equals" not in text


def test_a_symmetric_start_is_pointed_out() -> None:
    two = CrowdLabels.from_wide(np.array([[0, 1], [1, 0], [0, 1], [0, 1]]), items="rows")
    assert "the start is symmetric, EM may stand at a saddle" in _text(_tied(two, [[0.5, 0.5]] * 4), "symmetric-start")
    assert "starts=10" in _text(_tied(two, [[0.5, 0.5]] * 4), "symmetric-start")
    assert "symmetric-start" not in _codes(_tied(two, [[0.5, 0.5]] * 3 + [[0.9, 0.1]]))
    three = CrowdLabels.from_wide(np.array([[0, 1], [1, 0], [2, 2]]), items="rows")
    assert "The classes 0, 1 are" in _text(_tied(three, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]), "symmetric-start")
    # Nothing was said but one label: nothing is symmetric about that.
    same = CrowdLabels.from_codes([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4, classes=2)
    assert "symmetric-start" not in _codes(_tied(same, [[0.5, 0.5]] * 2))
    assert "symmetric-start" not in _codes(fitted.em().diagnose())


def test_an_interrupted_run_whose_chains_agree_is_not_said_to_disagree() -> None:
    labels = fitted.d1()
    stopped = Status("interrupted", "Interrupted: 4 chains of 500 draws are kept.", False)
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, status=stopped)))
    assert diagnosis.converged is False
    assert "interrupted" in diagnosis.headline
    assert "disagree" not in str(diagnosis)
    assert _codes(diagnosis)["r-hat"] == "note"
    run = _good_run(labels, status=stopped)
    run.draws["prevalence"][0] = run.draws["prevalence"][0] * 0.1 + [0.9, 0.0]
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert {"interrupted": "problem", "r-hat": "problem"}.items() <= _codes(diagnosis).items()


def test_one_chain_cannot_disagree_with_others() -> None:
    labels = fitted.d1()
    run = _good_run(labels, chains=1)
    run.draws["prevalence"][:, :250] = run.draws["prevalence"][:, :250] * 0.1 + [0.9, 0.0]
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert "The chains disagree" not in str(diagnosis)
    assert "The two halves of the only chain disagree" in _text(diagnosis, "r-hat")
    assert "chains=4" in _text(diagnosis, "r-hat")
    assert "cannot be compared" in _text(diagnosis, "one-chain")


def test_no_remedy_asks_for_less_than_was_used() -> None:
    labels = fitted.d1()
    for used in (50, 200, 1500):
        run = _good_run(labels, draws=min(used, 500))
        run.draws["prevalence"][0] = run.draws["prevalence"][0] * 0.1 + [0.9, 0.0]
        run.sample_stats["diverging"][0, :3] = True
        tree = fitted.tree_of(labels, R31, run)
        tree.attrs["settings"] = json.dumps({"warmup": 900, "draws": used, "target_accept": 0.95})
        remedy = str(diagnose(tree))
        asked = dict(re.findall(r"(warmup|draws|target_accept)=([0-9.]+[0-9])", remedy))
        assert int(asked["draws"]) >= max(2 * used, 1000)
        assert int(asked["warmup"]) >= 1800
        assert float(asked["target_accept"]) > 0.95


def test_few_effective_draws_are_never_called_converged() -> None:
    labels = fitted.d1()
    run = _good_run(labels, draws=20)
    diagnosis = diagnose(fitted.tree_of(labels, R31, run))
    assert diagnosis.r_hat < 1.1
    assert diagnosis.converged is None
    assert "convergence unknown" in diagnosis.headline
    assert _codes(diagnosis)["few-effective-draws"] == "problem"
    assert "fewer than 100 cannot show" in _text(diagnosis, "few-effective-draws")


def test_the_monte_carlo_error_of_the_class_probabilities_is_told() -> None:
    labels = fitted.d1()
    near = np.full((4, 5, 2), 0.5) + np.array([-0.01, 0.01, 0.0, 0.0])[:, None, None] * [1, -1]
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, state_probability_by_chain=near)))
    assert _codes(diagnosis)["monte-carlo"] == "note"
    assert "at most 0.0041" in _text(diagnosis, "monte-carlo")
    near[0, 3] = [0.3, 0.7]
    near[1, 3] = [0.7, 0.3]
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, state_probability_by_chain=near)))
    assert _codes(diagnosis)["monte-carlo"] == "caution"
    assert "item 'd', class 'no'" in _text(diagnosis, "monte-carlo")
    assert "draws=" in _text(diagnosis, "monte-carlo")
    alone = diagnose(fitted.tree_of(labels, R31, _good_run(labels, chains=1)))
    assert "monte-carlo" not in _codes(alone)


def test_too_few_draws_stand_in_the_headline_with_one_remedy() -> None:
    labels = fitted.d1()
    near = np.full((4, 5, 2), 0.5)
    near[:2, 3] = [[0.3, 0.7], [0.7, 0.3]]
    diagnosis = diagnose(fitted.tree_of(labels, R31, _good_run(labels, draws=60, state_probability_by_chain=near)))
    assert diagnosis.converged is True
    assert {"few-effective-draws", "monte-carlo"} <= set(_codes(diagnosis))
    word = "nearly converged" if diagnosis.r_hat > 1.01 else "converged"
    assert diagnosis.headline.endswith(f": {word}, too few draws.")
    asked = [finding.remedy for finding in diagnosis.findings if "draws=" in finding.remedy]
    assert len(asked) == 1
    even = np.full((4, 5, 2), 0.5)
    plenty = diagnose(fitted.tree_of(labels, R31, _good_run(labels, draws=2000, state_probability_by_chain=even)))
    assert plenty.headline.endswith(": converged.")
    fewer = diagnose(fitted.tree_of(labels, R31, _good_run(labels, draws=20)))
    assert fewer.headline.endswith(": convergence unknown, too few draws.")


def test_the_larger_number_of_draws_is_the_one_asked_for() -> None:
    findings = [
        Finding("caution", "few-effective-draws", "few", "fit again with draws=3000"),
        Finding("caution", "one-chain", "one", "chains=4"),
        Finding("caution", "monte-carlo", "error", "fit again with draws=10000"),
    ]
    remedies = [finding.remedy for finding in one_number_of_draws(findings)]
    assert remedies == ["fit again with draws=10000", "chains=4", ""]
    assert one_number_of_draws(findings[1:]) == findings[1:]


@pytest.mark.parametrize("value", ["no", 0, None, 1.0])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    unchecked = inspect.unwrap(diagnose)
    tree = fitted.em().idata
    with pytest.raises(LabelError, match="checks must be True or False or what fit.predictive_checks"):
        unchecked(tree, checks=value)
    with pytest.raises(LabelError, match="random_start must be True or False, not"):
        unchecked(tree, random_start=value)


def test_one_of_everything_is_one() -> None:
    labels = CrowdLabels.from_codes([0], [0], [0], classes=["ok"], items=["a"], workers=["w1"])
    tree = fitted.tree_of(labels, R31, fitted.made_point(labels, R31))
    assert "on 1 label (1 item, 1 worker, 1 class)" in diagnose(tree).headline
    assert "1 item, 1 worker, 1 class, 1 label." in repr(Fit(tree))


def test_four_draws_of_one_chain_are_too_few_to_judge() -> None:
    run = fitted.made_run(fitted.d1(), R31, chains=1, draws=4)
    diagnosis = diagnose(fitted.tree_of(fitted.d1(), R31, run))
    assert diagnosis.converged is not True
