from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from panels import (
    copying,
    groups_of,
    independent,
    p41,
    panel,
    plain_rates,
    tree_of,
    verdict,
)

import bayescrowd as bc
from bayescrowd.criticism import _copying, _pairs
from bayescrowd.criticism.dependence import dependence


def test_pairs_by_truth_against_a_plain_reference() -> None:
    for k in (2, 3):
        z, said = copying(0, 90, k=k, m=5)
        said[::7, 2] = -1
        tree = tree_of(said, k)
        found = dependence(tree, pd.Series(z)).pairs
        rate = plain_rates(z, said, k)
        assert len(found) == 10
        assert (np.diff(found["n_common"]) <= 0).all()
        for _, row in found.iterrows():
            w, v = int(row["worker"]), int(row["other"])
            both = (said[:, w] >= 0) & (said[:, v] >= 0)
            one, other = ((said[both, u] != z[both]) - rate[u, z[both]] for u in (w, v))
            plain = (one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum())
            assert row["n_common"] == both.sum()
            assert row["correlation"] == pytest.approx(plain, abs=1e-12)
            assert row["lower"] < row["correlation"] < row["upper"]
            assert row["lower"] >= -1
            assert row["upper"] <= 1


def test_excess_by_truth_is_agreement_beyond_the_class() -> None:
    z, said = copying(0, 2000, m=4)
    found = dependence(tree_of(said), pd.Series(z)).pairs
    for _, row in found.iterrows():
        w, v = int(row["worker"]), int(row["other"])
        right = np.array([[(said[z == c, u] == c).mean() for c in range(2)] for u in (w, v)])
        expected = np.mean((right.prod(axis=0) + (1 - right).prod(axis=0))[z])
        assert row["excess"] == pytest.approx((said[:, w] == said[:, v]).mean() - expected, abs=2e-3)


def test_a_pair_is_judged_by_the_others() -> None:
    """In loops: the class by the labels of all others, residuals of the two, less what an uncertain class adds."""
    _, said = independent(5, 60, 5, 3)
    said[::5, 4] = -1
    answers, meetings, found = verdict(said, 3)
    c = found.consensus
    share = c.share[0]
    for pair in range(10):
        w, v = meetings.first[pair], meetings.second[pair]
        total = squares = 0.0
        both = [i for i in range(60) if said[i, w] >= 0 and said[i, v] >= 0]
        for i in both:
            p = share.copy()
            for u in range(5):
                if u not in (w, v) and said[i, u] >= 0:
                    p = p * c.confusion[u, :, said[i, u]]
            p = p / p.sum()
            given = expected = 0.0
            for s in range(3):
                one, other = (np.eye(3)[said[i, u]] - c.confusion[u, s] for u in (w, v))
                given += p[s] * (one @ other)
            for t in range(3):
                for s in range(3):
                    gap = [c.confusion[u, t] - c.confusion[u, s] for u in (w, v)]
                    expected += p[t] * p[s] * (gap[0] @ gap[1])
            total += given - expected
            squares += (given - expected) ** 2
        assert found.scores.excess[pair] == pytest.approx(total / len(both), abs=1e-9)
        assert found.scores.z[pair] == pytest.approx(total / np.sqrt(squares), rel=0.25)
    assert answers.n_items == 60


def test_pairs_of_independent_workers_are_centred_and_calibrated() -> None:
    for crowd in ({"m": 10}, {"m": 8, "k": 3}, {"m": 25, "per": 8, "n": 600}):
        for known in (False, True):
            scores = []
            for seed in range(6):
                z, said = independent(100 + seed, **crowd)
                k = crowd.get("k", 2)
                answers = panel(said, k, z if known else None)
                meetings = _pairs.meetings_of(answers, np.random.default_rng(0))
                if known:
                    scores.append(_pairs.by_truth(answers, meetings))
                else:
                    scores.append(_copying.by_consensus(answers, meetings).scores)
            z_values = np.concatenate([s.z for s in scores])
            excess = np.concatenate([s.excess for s in scores])
            bounds = [s.bounds(0.89) for s in scores]
            covered = np.mean(np.concatenate([(low <= 0) & (high >= 0) for low, high in bounds]))
            assert abs(np.nanmean(z_values)) < 0.2
            assert 0.8 < np.nanstd(z_values) < 1.15
            assert abs(np.nanmean(excess)) < 0.004
            assert 0.84 < covered < 0.98


def test_workers_who_never_err_or_always_say_the_same() -> None:
    z, said = independent(0, 300, 6)
    said[:, 0] = z
    said[:, 1] = said[:, 2] = 0
    for truth in (pd.Series(z), None):
        found = dependence(tree_of(said), truth)
        assert found.groups == ()
        assert np.isfinite(found.correlation)
        assert found.pairs["excess"].abs().max() < 0.1
    by_truth = dependence(tree_of(said), pd.Series(z)).pairs
    assert by_truth.loc[(by_truth["worker"] == 0) | (by_truth["other"] == 0), "correlation"].isna().all()


def test_pairs_with_few_common_items_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    z, said = independent(0, 60, 6)
    said[9:, 5] = -1
    found = dependence(tree_of(said), pd.Series(z))
    few = found.pairs["n_common"] == 9
    assert few.sum() == 5
    assert found.pairs.loc[few, ["correlation", "lower", "upper", "excess", "z"]].isna().all(axis=None)
    assert found.pairs.loc[~few, ["correlation", "lower", "upper", "excess", "z"]].notna().all(axis=None)
    assert "5 pairs with fewer than 10 common items of known class could not be judged." in found.sentences
    # Large crowds: the pairs with the most common items, and only some of the items.
    tree = tree_of(said)
    answers = panel(said)
    meetings = _pairs.meetings_of(answers, np.random.default_rng(0), 7)
    assert len(meetings.first) == 7
    assert meetings.n_pairs == 15
    monkeypatch.setattr(_pairs, "_MOST_MEETINGS", 200)
    monkeypatch.setattr(_pairs, "_ENOUGH", 10)
    meetings = _pairs.meetings_of(answers, np.random.default_rng(0))
    assert 100 < len(meetings.one) < 300
    assert (meetings.n_common[:10] == 60).all()
    assert dependence(tree).pairs["n_common"].max() == 60
    assert "10 pairs were judged on part of their common items only, to save time." in dependence(tree).sentences


def test_no_pair_is_judged_on_a_few_of_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three workers label all items and two others twelve of them; a random part of the items leaves of these a few.
    z, said = independent(0, 200, 5)
    said[12:, 3:] = -1
    monkeypatch.setattr(_pairs, "_MOST_MEETINGS", 350)
    monkeypatch.setattr(_pairs, "_ENOUGH", 10)
    answers = panel(said)
    n_left = []
    for seed in range(20):
        n_met = np.diff(_pairs.meetings_of(answers, np.random.default_rng(seed)).start)
        assert (n_met[n_met > 0] >= _pairs.FEWEST_COMMON).all()
        n_left += n_met.tolist()
    assert max(n_left) < 200
    found = dependence(tree_of(said), pd.Series(z))
    assert found.pairs.loc[found.pairs["n_common"] == 12, "z"].isna().all()
    assert "7 pairs with fewer common items of known class were not judged, to save time." in found.sentences


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "crowd",
    [{}, {"k": 3}, {"n": 2500, "m": 25, "per": 8}, {"low": 0.85, "high": 0.95}, {"low": 0.75, "high": 0.75}],
    ids=str,
)
def test_planted_copies_are_found(crowd: dict[str, Any], known: bool) -> None:
    for seed in range(3):
        z, said = copying(seed, **crowd)
        k = crowd.get("k", 2)
        if known:
            answers = panel(said, k, z)
            meetings = _pairs.meetings_of(answers, np.random.default_rng(0))
            scores = _pairs.by_truth(answers, meetings)
            linked = _copying.copies(scores)
        else:
            answers, meetings, judged = verdict(said, k)
            scores, linked = judged.scores, judged.copies
        group = _copying.together(said.shape[1], [(meetings, scores.correlation, linked)])
        assert (group[:4] == group[0]).all()
        assert len(np.unique(group)) == said.shape[1] - 3


def test_copies_in_words_and_in_the_worth_of_the_panel() -> None:
    z, said = copying(1)
    tree = tree_of(said)
    for truth in (None, pd.Series(z)):
        found = dependence(tree, truth)
        assert groups_of(found) == [{0, 1, 2, 3}]
        assert "0, 1, 2, 3 say the same far more often than the class explains" in str(found)
        assert "give their labels the weight 0.2" in str(found)
        inside = found.pairs[(found.pairs["worker"] < 4) & (found.pairs["other"] < 4)]
        assert inside["correlation"].min() > 0.6
        assert inside["excess"].min() > found.pairs.drop(inside.index)["excess"].max()
        assert 3.5 < (found.effective if truth is not None else found.effective_upper) < 7
    # In the consensus the four count as one; the panel itself stays as it is.
    answers, _, judged = verdict(said)
    assert (judged.panel.weight == np.where(answers.worker < 4, 0.25, 1.0)).all()
    assert (answers.weight == 1).all()
    # A consensus pulled by the copies would take them for experts; it is not.
    true = dependence(tree, pd.Series(z))
    alone = dependence(tree)
    assert alone.effective_lower < true.effective < alone.effective_upper * 1.1


def test_no_copies_among_independent_workers() -> None:
    claims = 0
    for seed in range(12):
        for m, n, k in ((10, 200, 2), (5, 200, 2), (4, 200, 2), (8, 150, 3)):
            z, said = independent(500 + seed, n, m, k, 0.52, 0.97)
            claims += bool(verdict(said, k)[2].copies.any())
            answers = panel(said, k, z)
            meetings = _pairs.meetings_of(answers, np.random.default_rng(0))
            claims += bool(_copying.copies(_pairs.by_truth(answers, meetings)).any())
    assert claims <= 1  # of 96


def test_able_workers_are_no_copyists() -> None:
    for seed in range(3):
        r = np.random.default_rng(seed)
        z = r.integers(0, 2, 400)
        right = np.array([0.95, 0.95, 0.6, 0.58, 0.6])
        said = np.where(r.random((400, 5)) < right, z[:, None], 1 - z[:, None])
        assert dependence(tree_of(said)).groups == ()


def test_common_difficulty_makes_no_copyists() -> None:
    z, said = p41()
    for truth in (pd.Series(z), None):
        found = dependence(tree_of(said), truth)
        assert found.groups == ()
        assert "None of 36 pairs that could be judged stands out as copying." in found.sentences


def test_a_majority_that_copies_is_found_by_truth_only() -> None:
    z, said = independent(0, 400, 7)
    r = np.random.default_rng(0)
    for w in range(1, 5):
        said[:, w] = np.where(r.random(400) < 0.95, said[:, 0], said[:, w])
    found = dependence(tree_of(said), pd.Series(z))
    assert groups_of(found) == [{0, 1, 2, 3, 4}]
    assert found.effective < 2.5


def test_a_whole_panel_of_near_copies() -> None:
    z, said = independent(3, 500, 1, low=0.7, high=0.8)
    said = np.repeat(said, 4, axis=1)
    flips = np.random.default_rng(0).random(said.shape) < 0.02
    said = np.where(flips, 1 - said, said)
    found = dependence(tree_of(said), pd.Series(z))
    assert groups_of(found) == [{0, 1, 2, 3}]
    assert found.effective < 1.3


def test_gold_and_labels_find_copies_together() -> None:
    z, said = copying(2)
    gold = np.where(np.arange(400) < 15, z, -1)
    found = dependence(tree_of(said, gold_code=gold))
    assert found.basis == "gold"
    assert groups_of(found) == [{0, 1, 2, 3}]
    assert "So few items say little" in str(found)


def test_no_chain_of_pairs_joins_strangers() -> None:
    first, second = np.array([0, 1, 0, 3, 2]), np.array([1, 2, 2, 4, 3])
    nothing = np.zeros(0, int)
    meetings = _pairs.Meetings(first, second, np.full(5, 50), np.zeros(6, int), nothing, nothing, 5)
    copies = np.array([True, True, False, True, False])
    for between, expected in ((0.6, [0, 0, 0, 1, 1, 2]), (0.1, [0, 0, 1, 2, 2, 3]), (np.nan, [0, 0, 0, 1, 1, 2])):
        alike = np.array([0.9, 0.7, between, 0.8, 0.0])
        assert _copying.together(6, [(meetings, alike, copies)]).tolist() == expected
    # Pairs of two sources add up; of a pair that both know the larger correlation counts.
    other = _pairs.Meetings(first[4:], second[4:], np.array([50]), np.zeros(2, int), nothing, nothing, 1)
    links = [(meetings, np.array([0.9, 0.7, 0.6, 0.8, 0.0]), copies), (other, np.array([0.9]), np.array([True]))]
    assert _copying.together(6, links).tolist() == [0, 0, 0, 0, 0, 1]
    assert _copying.together(6, [(meetings, alike, np.zeros(5, bool))]).tolist() == list(range(6))


@pytest.mark.realdata
@pytest.mark.slow
def test_judges_of_one_model_are_found_in_llmbar(real_data: Any) -> None:
    labels = real_data("llmbar")
    tree = bc.baselines.majority_vote(labels).idata
    for truth in (True, None):
        found = dependence(tree, truth)
        assert len(found.groups[0]) > 15
        families = [{str(judge).split("/")[0].split("-")[0] for judge in group} for group in found.groups[:10]]
        assert sum(len(family) == 1 for family in families) >= 9
        assert found.effective_upper < 0.1 * found.panel
