"""Statistics of label tables against plain loops; discrepancies and combined p-values against plain references."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import fitted
import numpy as np
import pytest
from scipy.stats import norm

from bayescrowd.criticism import statistics as module
from bayescrowd.criticism._discrepancy import combine, compare, discrepancies, rank_p_value
from bayescrowd.criticism.statistics import Agreement, Shares, Splits
from bayescrowd.data.labels import CrowdLabels


def rows_of(labels: CrowdLabels) -> list[tuple[int, int, int]]:
    codes = (labels.item_code, labels.worker_code, labels.label_code)
    return [tuple(int(code) for code in row) for row in zip(*codes, strict=True)]


def agreement_by_loops(labels: CrowdLabels) -> dict[tuple[Any, Any], list[int]]:
    found: dict[tuple[Any, Any], list[int]] = defaultdict(lambda: [0, 0])
    for (i, k, a), (j, m, b) in itertools.combinations(rows_of(labels), 2):
        if i == j and k != m:
            pair = found[labels.workers[min(k, m)], labels.workers[max(k, m)]]
            pair[0] += a == b
            pair[1] += 1
    return found


def splits_by_loops(labels: CrowdLabels) -> Counter[tuple[int, ...]]:
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for item, _, label in rows_of(labels):
        votes[item][label] += 1
    return Counter(tuple(sorted(vote.values(), reverse=True)) for vote in votes.values() if vote.total() > 1)


@pytest.mark.parametrize("way", ["listed", "sparse", "dense"])
@pytest.mark.parametrize("seed", range(4))
def test_agreement_of_pairs(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "listed":
        monkeypatch.setattr(module, "_MOST_COMPARISONS", 0)
        monkeypatch.setattr(module, "_DENSE", 0.0 if way == "dense" else math.inf)
    labels = fitted.random_crowd(seed)
    statistic = Agreement(labels)
    expected = agreement_by_loops(labels)
    rows = statistic.rows
    found = {
        (one, other): [agree, common]
        for one, other, agree, common in zip(
            rows["worker"], rows["other"], statistic(labels.label_code), rows["n_common"], strict=True
        )
    }
    assert found == expected
    # Other labels, of a small type, on the same design.
    random = np.random.default_rng(seed)
    again = dataclasses.replace(labels, label_code=random.integers(0, 3, len(labels.label_code)).astype(np.int32))
    counted = statistic(again.label_code.astype(np.int8))
    expected = agreement_by_loops(again)
    assert counted.tolist() == [expected[pair][0] for pair in zip(rows["worker"], rows["other"], strict=True)]


@pytest.mark.parametrize("labels", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_splits_of_votes(seed: int, labels: int) -> None:
    made = fitted.random_crowd(seed, labels=labels, items=12, rows=35)
    statistic = Splits(made)
    assert not statistic.pooled
    found = {
        split: number
        for split, number in zip(statistic.rows["split"], statistic(made.label_code), strict=True)
        if number
    }
    expected: Counter[str] = Counter()
    for split, number in splits_by_loops(made).items():
        expected["-".join(map(str, split if len(split) > 1 else (*split, 0)))] += number
    assert found == expected
    sizes = [sum(map(int, split.split("-"))) for split in statistic.rows["split"]]
    assert statistic.rows["n_labels"].tolist() == sizes
    assert len(set(statistic.rows["split"])) == len(statistic.rows)


def test_many_splits_are_grouped_by_the_leading_share() -> None:
    made = fitted.random_crowd(1, items=30, rows=900, labels=5, workers=40)
    statistic = Splits(made)
    assert statistic.pooled
    assert any("grouped by the share" in note for note in statistic.notes)
    expected: Counter[str] = Counter()
    for split, number in splits_by_loops(made).items():
        tenth = next(t for t in range(10) if split[0] * 10 <= (t + 1) * sum(split))
        name = f"{10 * tenth}-{10 * tenth + 10} %" if tenth < 9 else "over 90 %"
        expected["all agree" if len(split) == 1 else name] += number
    found = dict(zip(statistic.rows["split"], statistic(made.label_code).tolist(), strict=True))
    assert {split: number for split, number in found.items() if number} == dict(expected)
    assert sum(found.values()) == len(np.unique(made.item_code))


def test_which_splits_are_unanimous() -> None:
    plain = Splits(fitted.random_crowd(0))
    assert plain.rows["split"][plain.unanimous].tolist() == [
        split for split in plain.rows["split"] if split.endswith("-0")
    ]
    assert plain.unanimous.sum() == plain.rows["n_labels"].nunique()
    pooled = Splits(fitted.random_crowd(1, items=30, rows=900, labels=5, workers=40))
    assert pooled.rows["split"][pooled.unanimous].tolist() == ["all agree"]
    # With one label value everybody agrees; the split has no second place to tell it from.
    alone = Splits(CrowdLabels.from_codes([0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [0] * 5, classes=["only"]))
    assert alone.unanimous.tolist() == [True, True]


def test_shares_of_labels() -> None:
    labels = fitted.random_crowd(2)
    statistic = Shares(labels)
    count = Counter((k, a) for _, k, a in rows_of(labels))
    total = Counter(k for _, k, _ in rows_of(labels))
    rows = statistic.rows
    assert len(rows) == 3 * len(total)  # w5 has no labels
    for worker, label, number, scale in zip(
        rows["worker"], rows["label"], statistic(labels.label_code), statistic.scale, strict=True
    ):
        k, a = list(labels.workers).index(worker), list(labels.label_values).index(label)
        assert (number, scale) == (count[k, a], total[k])


def test_pairs_with_most_common_items_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = fitted.random_crowd(3, rows=60)
    every = Agreement(labels)
    monkeypatch.setattr(module, "_MOST_PAIRS", 4)
    few = Agreement(labels)
    assert len(few.rows) == 4
    assert "4 pairs of workers with most common items, of 10 pairs" in few.notes[0]
    assert sorted(few.rows["n_common"]) == sorted(every.rows["n_common"])[-4:]
    merged = every.rows.assign(agree=every(labels.label_code)).merge(few.rows.assign(again=few(labels.label_code)))
    assert (merged["agree"] == merged["again"]).all()
    assert len(merged) == 4


def test_discrepancies_against_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    draws, each, numbers = 4, 5, 7
    replicated = random.poisson(3, (draws, each, numbers)) + np.arange(draws)[:, None, None]
    replicated[..., 2] = 4  # never varies, and is what was observed
    replicated[..., 3] = 1  # never varies, and is not
    observed = random.poisson(3, numbers)
    observed[2] = 4
    observed[3] = 2
    squares = np.zeros((draws, each, numbers))
    gaps = np.zeros((draws, numbers))
    for k, j in np.ndindex(draws, numbers):
        gaps[k, j] = (observed[j] - replicated[k, :, j].mean()) ** 2 * each / (each + 1)
        for r in range(each):
            others = np.delete(replicated[k, :, j], r).mean()
            squares[k, r, j] = (replicated[k, r, j] - others) ** 2 * (each - 1) / each
    variance = (squares.sum(axis=(0, 1)) + gaps.mean(axis=0)) / (draws * each + 1)
    live = [0, 1, 3, 4, 5, 6]
    for block in (2**21, 1):
        monkeypatch.setattr("bayescrowd.criticism._discrepancy._BLOCK", block)
        of_observed, of_replicated = discrepancies(replicated, observed)
        np.testing.assert_allclose(of_observed, (gaps[:, live] / variance[live]).mean(axis=1))
        np.testing.assert_allclose(of_replicated, (squares[:, :, live] / variance[live]).mean(axis=2))


def test_rank_p_value_counts_the_labels_themselves() -> None:
    assert rank_p_value(np.array([1.0, 2.0, 3.0]), 2.0) == 3 / 4
    assert rank_p_value(np.array([1.0, 2.0, 3.0]), 9.0) == 1 / 4
    assert rank_p_value(np.array([0.3]), 0.1 + 0.2) == 1  # equal but for rounding


def test_combination_is_hartungs() -> None:
    p = np.array([0.01, 0.2, 0.4, 0.03])
    score = norm.isf(p)
    correlation = 1 - score.var(ddof=1)
    assert 0 < correlation < 1
    total = (1 - correlation) * 4 + (correlation + 0.2 * math.sqrt(2 / 5) * (1 - correlation)) * 16
    assert combine(p, 1e-3) == pytest.approx(norm.sf(score.sum() / math.sqrt(total)))
    assert combine(np.full(20, 0.07), 1e-3) == pytest.approx(0.07)  # wholly dependent
    assert combine(np.array([0.07]), 1e-3) == 0.07
    assert combine(np.full(20, 1e-3), 1e-3) == pytest.approx(1e-3)
    assert combine(np.full(20, 1.0), 1e-3) > 0.99


def test_combined_p_values_are_uniform_for_dependent_scores() -> None:
    random = np.random.default_rng(1)
    for correlation in (0.0, 0.3, 0.7, 1.0):
        common, own = random.standard_normal((4000, 1)), random.standard_normal((4000, 20))
        p = norm.sf(math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own)
        found = np.array([combine(row, 1 / 201) for row in p])
        assert (found < 0.05).mean() <= 0.065
        if correlation > 0.2:  # independent p-values are combined with more care than power
            assert (found < 0.05).mean() >= 0.03


def test_exchangeable_labels_have_uniform_p_values() -> None:
    random = np.random.default_rng(2)
    p = []
    for _ in range(400):
        mean = random.uniform(2, 9, 12)
        p.append(compare(random.poisson(mean, (1, 60, 12)), random.poisson(mean)).p_value)
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.04)
    assert np.mean(p) == pytest.approx(0.5, abs=0.05)
