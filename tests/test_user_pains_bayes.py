"""Small tables with known answers, for the engines that give posteriors; the id in a test's name is the report's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import running
from arviz_stats.base import array_stats
from running import of_rows
from test_user_pains_em import adversaries, imbalanced

import bayescrowd as bc

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def panel(seed, n_items=400, accuracies=(0.9, 0.8, 0.75, 0.7, 0.62, 0.55)):
    """A panel of workers, some of them hardly better than a coin; every item has 3 to 6 labels."""
    r = np.random.default_rng(seed)
    z = r.integers(0, 3, n_items)
    rows = []
    for i in range(n_items):
        for k in r.choice(6, size=r.integers(3, 7), replace=False):
            rows.append((i, k, z[i] if r.random() < accuracies[k] else (z[i] + r.integers(1, 3)) % 3))
    return z, rows


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.slow
def test_P32_a_unanimous_vote_is_not_overturned(seed):
    _, rows = panel(seed)
    labels = of_rows(rows, classes=3)
    fit = bc.fit(labels, progress=False)
    votes = np.zeros((labels.n_items, 3))
    np.add.at(votes, (labels.item_code, labels.label_code), 1)
    unanimous = votes.max(axis=1) == votes.sum(axis=1)
    assert unanimous.sum() > 30
    found = fit.consensus()["class"].to_numpy()
    overturned = np.flatnonzero(unanimous & (found != votes.argmax(axis=1)))
    accuracy = fit.workers()["accuracy"].to_numpy()
    for item in overturned:
        assert (accuracy[labels.worker_code[labels.item_code == item]] < 1 / 3).all()
    evidence = fit.explain(labels.items[np.flatnonzero(unanimous)[0]])
    assert (evidence[[0, 1, 2]].sum().idxmax()) == votes[np.flatnonzero(unanimous)[0]].argmax()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
def test_P33_anesthesia_by_gibbs_sampling(engine):
    fit = bc.fit(bc.datasets.load("anesthesia"), R31, engine=engine, draws=3000, keep=3000, progress=False)
    assert fit.converged
    posterior = fit.idata["posterior"]
    prevalence = posterior["prevalence"].to_numpy()
    for column in range(4):
        assert array_stats.rhat(prevalence[..., column], chain_axis=0, draw_axis=1, method="rank") < 1.01
    np.testing.assert_allclose(prevalence.mean((0, 1)), [0.396, 0.435, 0.123, 0.047], atol=0.004)
    probability = fit.class_probabilities()
    known = {2: (3, 0.963), 3: (2, 0.540), 7: (1, 0.955), 12: (2, 0.926), 36: (3, 0.781), 38: (2, 0.800)}
    for patient, (grade, expected) in known.items():
        assert probability.loc[patient, grade] == pytest.approx(expected, abs=0.02)
    others = probability.drop(index=list(known))
    assert (others.max(axis=1) > 0.965).all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs", "nuts"])
def test_P33_four_chains_agree_under_the_default_prior(engine):
    fit = bc.fit(bc.datasets.load("anesthesia"), bc.DawidSkene(), engine=engine, chains=4, draws=2000, progress=False)
    assert fit.converged
    prevalence = fit.idata["posterior"]["prevalence"].to_numpy()
    for column in range(4):
        assert array_stats.rhat(prevalence[..., column], chain_axis=0, draw_axis=1, method="rank") < 1.01


@pytest.mark.slow
def test_P33_a_flat_prior_is_said_not_to_name_the_classes():
    fit = bc.fit(
        bc.datasets.load("anesthesia"), bc.DawidSkene(confusion_prior=1.0), engine="collapsed-gibbs", progress=False
    )
    codes = {finding.code for finding in fit.diagnose(random_start=False).findings}
    assert "classes-not-identified" in codes


@pytest.mark.parametrize("engine", ["collapsed-vi", "vb", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_P36_adversaries_are_used(engine):
    z, rows = adversaries()
    labels = of_rows(rows)
    # The majority is right on 55 % only: chains that start around it may end in the mode where adversaries are right.
    init = bc.fit(labels, R31, engine="vb", progress=False) if engine == "gibbs" else None
    fit = bc.fit(labels, R31, engine=engine, init=init, progress=False)
    assert (fit.consensus()["class"].to_numpy() == z).mean() >= 0.96
    workers = fit.workers()
    assert workers["accuracy"].iloc[:3].between(0.7, 0.88).all()
    assert workers["accuracy"].iloc[3:].between(0.05, 0.13).all()
    assert (workers["p_adversary"].iloc[3:] > 0.99).all()
    assert (workers["p_adversary"].iloc[:3] < 0.01).all()


def test_P36_adversaries_under_the_default():
    z, rows = adversaries()
    fit = bc.fit(of_rows(rows), progress=False)
    assert (fit.consensus()["class"].to_numpy() == z).mean() >= 0.96
    assert (fit.workers()["accuracy"].iloc[3:] < 0.2).all()


def test_P36_adversaries_can_be_ruled_out_by_the_prior():
    """A prior worth hundreds of labels on the diagonal: nobody can be below chance."""
    _, rows = adversaries()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(700, 300))
    assert (bc.fit(of_rows(rows), model, engine="vb", progress=False).workers()["accuracy"] > 0.5).all()


@pytest.mark.parametrize("engine", ["collapsed-vi", pytest.param("collapsed-gibbs", marks=pytest.mark.slow)])
def test_P37_a_rare_class_does_not_vanish(engine):
    z, rows = imbalanced()
    fit = bc.fit(of_rows(rows), R31, engine=engine, progress=False)
    said = fit.consensus()["class"].to_numpy() == 1
    assert 19 <= said.sum() <= 28
    assert z[said].mean() == pytest.approx(0.79, abs=0.08)
    assert said[z == 1].mean() == pytest.approx(0.90, abs=0.08)
    prevalence = fit.idata["posterior"]["prevalence"].mean(("chain", "draw"))
    assert 0.011 <= float(prevalence[1]) <= 0.016


@pytest.mark.slow
def test_P37_a_rare_class_under_the_default():
    z, rows = imbalanced()
    fit = bc.fit(of_rows(rows), progress=False)
    said = fit.consensus()["class"].to_numpy() == 1
    assert z[said].mean() > 0.6
    assert said[z == 1].mean() > 0.8
    assert not any("vanished" in text for text in fit.warnings)


@pytest.mark.parametrize("engine", ["collapsed-vi", "vb", pytest.param("collapsed-gibbs", marks=pytest.mark.slow)])
def test_P38_rules_that_only_ever_say_one_class(engine):
    r = np.random.default_rng(3)
    rows = [(i, k, 1) for i in range(60) for k in range(5) if r.random() < 0.5 or k == i % 5]
    labels = of_rows(rows, items=list(range(100)))
    fit = bc.fit(labels, R31, engine=engine, progress=False)
    probability = fit.class_probabilities()[1].to_numpy()
    assert (probability[:60] > 0.5).all()
    prevalence = float(fit.idata["posterior"]["prevalence"].mean(("chain", "draw"))[1])
    np.testing.assert_allclose(probability[60:], prevalence, atol=0.06)
    assert "No worker ever says 0" in str(fit.diagnose(random_start=False))


@pytest.mark.parametrize("engine", ["em", "collapsed-vi", "vb", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_P38_abstaining_as_something_that_a_rule_says(engine):
    """With gold, an abstention tells: items that no rule speaks of lean to the class that rules never name."""
    r = np.random.default_rng(3)
    z = np.repeat([1, 0], [60, 40])
    said = np.full((100, 5), "abstain", object)
    said[(z[:, None] == 1) & (r.random((100, 5)) < 0.6)] = 1
    rows = [(i, k, said[i, k]) for i in range(100) for k in range(5)]
    gold = {0: 1, 1: 1, 97: 0, 98: 0, 99: 0}
    table = pd.DataFrame(rows, columns=["item", "rule", "label"])
    table["gold"] = table["item"].map(gold).astype("Int64")
    labels = bc.CrowdLabels.from_long(
        table, item="item", worker="rule", label="label", gold="gold", classes=[0, 1], labels=[0, 1, "abstain"]
    )
    options = {"draws": 300, "warmup": 200} if engine == "gibbs" else {}
    fit = bc.fit(labels, bc.DawidSkene(confusion_prior=1.0), engine=engine, progress=False, **options)
    probability = fit.class_probabilities()[1].to_numpy()
    spoken = (said == 1).sum(axis=1)
    assert (probability[spoken >= 2] > 0.8).all()  # a single voice may be an error of a rule
    assert (probability[spoken == 0][2:] < 0.1).all()
    confusion = fit.confusion(0)
    assert confusion.loc[0, "abstain"] > 0.85
    assert 0.25 < confusion.loc[1, "abstain"] < 0.65


def correlated():
    """Nine judges; a quarter of the items mislead all of them alike."""
    r = np.random.default_rng(11)
    z = r.integers(0, 2, 1000)
    hard = r.random(1000) < 0.25
    right = r.random((1000, 9)) < np.where(hard, 0.3, 0.95)[:, None]
    said = np.where(right, z[:, None], 1 - z[:, None])
    item, worker = np.divmod(np.arange(9000), 9)
    return z, of_rows(np.stack([item, worker, said.ravel()], axis=1))


def log_loss(fit, z):
    p = fit.class_probabilities().to_numpy()
    return float(-np.log(np.maximum(p[np.arange(len(z)), z], 1e-12)).mean())


@pytest.mark.slow
def test_P41_correlated_judges_are_confident_and_wrong_and_difficulty_helps():
    z, labels = correlated()
    plain = bc.fit(labels, bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)), engine="em", objective="posterior")
    assert (plain.consensus()["class"].to_numpy() == z).mean() == pytest.approx(0.782, abs=0.006)
    assert plain.consensus()["probability"].mean() == pytest.approx(0.992, abs=0.004)
    assert log_loss(plain, z) == pytest.approx(1.955, abs=0.1)
    levels = bc.fit(labels, bc.IDBLA(n_levels=2), engine="collapsed-vi", progress=False)
    assert log_loss(levels, z) < 0.6 * log_loss(plain, z)
    assert levels.consensus()["probability"].mean() < plain.consensus()["probability"].mean()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
def test_P44_samplers_do_not_care_about_names_and_order(engine):
    labels = running.labels_of(running.D1)
    rows = np.stack([labels.item_code, labels.worker_code, labels.label_code], axis=1)
    rng = np.random.default_rng(1)
    options = {"chains": 4, "warmup": 200, "draws": 4000, "keep": 0}
    one = running.run(labels, R31, engine, **options).state_probability[:, 1]
    shuffled = of_rows(rng.permutation(rows), items=list("abcde"))
    np.testing.assert_allclose(running.run(shuffled, R31, engine, **options).state_probability[:, 1], one, atol=0.02)
    swapped = of_rows(rows * [1, 1, -1] + [0, 0, 1], items=list("abcde"))
    np.testing.assert_allclose(running.run(swapped, R31, engine, **options).state_probability[:, 0], one, atol=0.02)
