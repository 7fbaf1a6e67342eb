"""Simulated labels: the design asked for, the truth that made them, and estimates that find it again."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.toys import Ability, TwoLevels

import bayescrowd as bc
from bayescrowd.errors import ModelError

GOOD = bc.DawidSkene(confusion_prior=bc.diagonal(12, 1))


def make(model=GOOD, **more):
    return bc.simulate(model, **{"n_items": 40, "n_workers": 8, "seed": 1} | more)


def per_item(crowd):
    return np.bincount(crowd.labels.item_code, minlength=crowd.labels.n_items)


def per_worker(crowd):
    return np.bincount(crowd.labels.worker_code, minlength=crowd.labels.n_workers)


def test_the_default_design():
    crowd = make()
    assert per_item(crowd).tolist() == [5] * 40
    assert make(n_workers=3).labels.n_annotations == 120
    assert crowd.labels.classes.tolist() == [0, 1]
    assert crowd.difficulty is None
    assert crowd.labels.gold is None
    assert crowd.labels.truth.index.tolist() == crowd.labels.items.tolist()


@pytest.mark.parametrize(
    ("asked", "check"),
    [
        ({"labels_per_item": 3}, lambda crowd: per_item(crowd).tolist() == [3] * 40),
        ({"labels_per_item": 8}, lambda crowd: per_item(crowd).tolist() == [8] * 40),
        ({"labels_per_item": (1, 4)}, lambda crowd: set(per_item(crowd)) == {1, 2, 3, 4}),
        ({"labels_per_item": [0, 1, 2, 8] * 10}, lambda crowd: per_item(crowd).tolist() == [0, 1, 2, 8] * 10),
        ({"labels_per_item": (2, 2), "n_items": 2}, lambda crowd: per_item(crowd).tolist() == [2, 2]),
        ({"labels_per_worker": 7}, lambda crowd: per_worker(crowd).tolist() == [7] * 8),
        ({"labels_per_worker": list(range(8))}, lambda crowd: per_worker(crowd).tolist() == list(range(8))),
        ({"labels_per_worker": 40}, lambda crowd: per_worker(crowd).tolist() == [40] * 8),
    ],
)
def test_designs(asked, check):
    crowd = make(**asked)
    assert check(crowd)
    pairs = crowd.labels.item_code.astype(int) * 100 + crowd.labels.worker_code
    assert len(set(pairs.tolist())) == len(pairs), "a worker labelled an item twice"
    assert crowd.workers["n_labels"].tolist() == per_worker(crowd).tolist()


def test_a_sparse_design_on_many_workers():
    crowd = make(n_items=3000, n_workers=900, labels_per_item=4)
    assert per_item(crowd).tolist() == [4] * 3000
    pairs = crowd.labels.item_code.astype(int) * 1000 + crowd.labels.worker_code
    assert len(set(pairs.tolist())) == 12_000
    assert per_worker(crowd).std() < 3 * np.sqrt(12_000 / 900)


def test_names_of_classes_and_labels():
    crowd = make(classes=["cat", "dog"], labels=["cat", "dog", "can't tell"])
    assert crowd.labels.classes.tolist() == ["cat", "dog"]
    assert crowd.labels.label_values.tolist() == ["cat", "dog", "can't tell"]
    assert set(crowd.labels.truth) <= {"cat", "dog"}
    assert crowd.parameters["confusion"].shape == (8, 2, 3)
    assert crowd.labels.items[0] == "item01"
    assert crowd.labels.workers[-1] == "worker8"


def test_the_same_seed_gives_the_same_labels():
    one, again, other = make(), make(), make(seed=2)
    np.testing.assert_array_equal(one.labels.label_code, again.labels.label_code)
    np.testing.assert_array_equal(one.labels.worker_code, again.labels.worker_code)
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value, again.parameters[name])
    assert one.labels.truth.equals(again.labels.truth)
    assert not np.array_equal(one.parameters["prevalence"], other.parameters["prevalence"])


def test_the_labels_come_from_the_parameters():
    crowd = make(n_items=20_000, n_workers=3, classes=3, labels_per_item=3)
    truth = crowd.labels.classes.get_indexer(crowd.labels.truth)
    n = np.bincount(truth, minlength=3)
    np.testing.assert_allclose(n / 20_000, crowd.parameters["prevalence"], atol=4 * np.sqrt(0.25 / 20_000))
    for k in range(3):
        mine = crowd.labels.worker_code == k
        for c in range(3):
            said = crowd.labels.label_code[mine & (truth[crowd.labels.item_code] == c)]
            share = np.bincount(said, minlength=3) / len(said)
            np.testing.assert_allclose(share, crowd.parameters["confusion"][k, c], atol=4.5 * np.sqrt(0.25 / len(said)))


def test_parameters_can_be_given():
    confusion = np.tile(np.eye(2), (8, 1, 1))
    crowd = make(parameters={"confusion": confusion, "prevalence": [0.0, 1.0]})
    np.testing.assert_array_equal(crowd.parameters["confusion"], confusion)
    assert set(crowd.labels.truth) == {1}
    assert set(crowd.labels.label_code) == {1}
    crowd = make(parameters={"confusion": confusion})
    truth = crowd.labels.classes.get_indexer(crowd.labels.truth)
    np.testing.assert_array_equal(crowd.labels.label_code, truth[crowd.labels.item_code])


def test_spammers_and_adversaries_are_the_last():
    crowd = make(n_items=3000, n_workers=10, spammers=2, adversaries=1, labels_per_item=10)
    assert crowd.workers["role"].tolist() == ["worker"] * 7 + ["spammer"] * 2 + ["adversary"]
    confusion = crowd.parameters["confusion"]
    for k in (7, 8):
        np.testing.assert_allclose(confusion[k, 0], confusion[k, 1])
    assert np.diagonal(confusion[9]).max() < 0.5
    assert np.diagonal(confusion[:7], axis1=1, axis2=2).mean() > 0.85
    truth = crowd.labels.classes.get_indexer(crowd.labels.truth)[crowd.labels.item_code]
    right = [(crowd.labels.label_code == truth)[crowd.labels.worker_code == k].mean() for k in range(10)]
    assert max(right[9:]) < 0.35
    said = crowd.labels.label_code == 1
    for k in (7, 8):
        mine = crowd.labels.worker_code == k
        assert said[mine & (truth == 0)].mean() == pytest.approx(said[mine & (truth == 1)].mean(), abs=0.08)


def test_a_share_of_the_workers():
    crowd = make(n_workers=10, spammers=0.2, adversaries=0.1)
    assert crowd.workers["role"].value_counts().to_dict() == {"worker": 7, "spammer": 2, "adversary": 1}
    assert make(n_workers=10, spammers=1).workers["role"].eq("spammer").sum() == 1


def test_adversaries_of_three_classes_are_as_informative_as_experts():
    crowd = make(classes=3, adversaries=2)
    confusion = crowd.parameters["confusion"]
    assert (confusion[-2:].argmax(-1) != np.arange(3)).all()
    np.testing.assert_allclose(confusion.sum(-1), 1, atol=1e-9)


def test_models_with_levels_tell_the_difficulty():
    crowd = make(TwoLevels(difficulty_prior=5.0), n_items=200)
    assert crowd.difficulty.shape == (200,)
    assert set(crowd.difficulty) == {0, 1}
    share = crowd.parameters["difficulty_prevalence"][1]
    assert crowd.difficulty.mean() == pytest.approx(share, abs=4 * np.sqrt(0.25 / 200))


def test_models_without_tables():
    crowd = make(Ability(mean=3.0, spread=0.1), n_items=2000)
    truth = crowd.labels.classes.get_indexer(crowd.labels.truth)[crowd.labels.item_code]
    assert (crowd.labels.label_code == truth).mean() == pytest.approx(1 / (1 + np.exp(-3)), abs=0.02)
    with pytest.raises(ModelError, match="confusion matrix per worker"):
        make(Ability(), spammers=1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"n_items": 0}, "at least 1"),
        ({"classes": "ab"}, "text"),
        ({"classes": ["a", "a"]}, "without repeats"),
        ({"classes": 0}, "at least one"),
        ({"labels": [1, 0]}, "begin with the classes"),
        ({"labels_per_item": 9}, "between 0 and 8"),
        ({"labels_per_item": -1}, "between 0 and 8"),
        ({"labels_per_item": [1, 2, 3]}, "3 values for 40"),
        ({"labels_per_worker": 41}, "between 0 and 40"),
        ({"labels_per_item": 2, "labels_per_worker": 2}, "not both"),
        ({"spammers": 9}, "of 8 workers"),
        ({"spammers": -1}, "whole number of workers"),
        ({"classes": 1, "adversaries": 1}, "two classes"),
        ({"parameters": {"skill": 1}}, "no parameter 'skill'"),
        ({"parameters": {"prevalence": [0.2, 0.3, 0.5]}}, r"shape \(2,\)"),
        ({"parameters": {"prevalence": [0.7, 0.7]}}, "support"),
        ({"parameters": {"confusion": np.tile(np.eye(2), (8, 1, 1))}, "spammers": 1}, "overwrite"),
        ({"model": bc.DawidSkene(prevalence_prior=-1.0)}, "positive"),
    ],
)
def test_arguments_that_do_not_fit(asked, words):
    with pytest.raises(ModelError, match=words):
        make(**asked)


def test_every_problem_is_listed():
    with pytest.raises(ModelError) as caught:
        make(spammers=5, adversaries=5, labels=[3, 4], labels_per_item=99)
    for words in ("5 spammers", "begin with the classes", "between 0 and 8"):
        assert words in str(caught.value)
    with pytest.raises(ModelError) as caught:
        make(parameters={"skill": 1, "prevalence": [1.0], "confusion": np.ones((8, 2, 2))})
    for words in ("skill", "prevalence", "confusion"):
        assert words in str(caught.value)


@pytest.mark.slow
def test_em_comes_nearer_to_the_truth_at_the_expected_rate():
    """Four times the items halve the error of the confusion matrices: squared error goes like 1/N."""
    sizes, errors = [400, 1600, 6400], []
    for n_items in sizes:
        total = 0.0
        for seed in range(6):
            crowd = make(
                n_items=n_items, n_workers=6, labels_per_item=6, seed=seed, parameters={"prevalence": [0.4, 0.6]}
            )
            fit = bc.fit(crowd.labels, progress=False, engine="em")
            found = fit.idata["point_estimate"]["confusion"].to_numpy()
            total += ((found - crowd.parameters["confusion"]) ** 2).mean()
        errors.append(total / 6)
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1, abs=0.3), errors


@pytest.mark.slow
def test_intervals_of_nuts_cover_the_truth_and_shrink():
    """Data drawn from the prior that is fitted: 80 % intervals hold the truth in about 80 % of the entries."""
    model = bc.DawidSkene(confusion_prior=bc.diagonal(6, 2))
    covered, widths = [], {}
    for n_items in (25, 100):
        for seed in range(8):
            crowd = bc.simulate(model, n_items=n_items, n_workers=5, labels_per_item=5, seed=seed)
            fit = bc.fit(crowd.labels, model, engine="nuts", chains=2, warmup=300, draws=400, progress=False)
            draws = fit.idata["posterior"]["confusion"].to_numpy()[..., 0].reshape(-1, 5, 2)
            low, high = np.quantile(draws, [0.1, 0.9], axis=0)
            truth = crowd.parameters["confusion"][..., 0]
            covered.append(((low <= truth) & (truth <= high)).mean())
            widths.setdefault(n_items, []).append((high - low).mean())
    # 160 entries, correlated within a data set.
    assert np.mean(covered) == pytest.approx(0.8, abs=0.1)
    assert np.mean(widths[100]) < 0.75 * np.mean(widths[25])
