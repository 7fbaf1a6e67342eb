"""The quick look at workers and items, against loops and a root finder."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.cases import CASES
from running import labels_of, of_rows
from scipy.optimize import brentq

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError
from bayescrowd.inference import ability


def crowd(seed=0, n_items=60, n_workers=7, n_classes=3, extra=0, repeats=False, weighted=False, gold=False):
    """Random labels, some of them no class, rows in random order."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n_items)
    pairs = [(i, k) for i in range(n_items) for k in range(n_workers) if random.random() < 0.6]
    if repeats:
        pairs += [pairs[row] for row in random.integers(0, len(pairs), len(pairs) // 3)]
    rows = []
    for i, k in pairs:
        right = random.random() < 0.3 + 0.6 * k / n_workers
        rows.append((i, k, truth[i] if right else random.integers(0, n_classes + extra)))
    rows = random.permutation(rows)
    more = {"weight": random.choice([0.5, 1.0, 2.0, 3.25], len(rows))} if weighted else {}
    more |= {"gold": {i: int(truth[i]) for i in range(0, n_items, 5)}} if gold else {}
    return of_rows(
        rows, classes=n_classes, label_values=n_classes + extra, items=range(n_items), workers=range(n_workers), **more
    )


CROWDS = {
    "plain": crowd(),
    "two-classes": crowd(1, n_classes=2),
    "extra": crowd(2, extra=2),
    "repeats": crowd(3, repeats=True),
    "weights": crowd(4, weighted=True),
    "gold": crowd(5, gold=True),
    "all": crowd(6, extra=1, repeats=True, weighted=True, gold=True),
    "sparse": crowd(7, n_items=40, n_workers=3, n_classes=4),
} | {name: make() for name, make in CASES.items()}
every_crowd = pytest.mark.parametrize("name", CROWDS)


def rows_of(labels):
    weight = np.ones(len(labels.item_code)) if labels.weight is None else labels.weight
    return list(zip(labels.item_code, labels.worker_code, labels.label_code, weight, strict=True))


def leaders(votes):
    return {c for c, n in enumerate(votes) if n >= max(votes) - 1e-9} if max(votes, default=0) > 1e-9 else set()


def tally(rows, n_classes):
    return [sum(w for _, _, label, w in rows if label == c) for c in range(n_classes)]


def agreement_by_loops(labels):
    n_classes, rows = len(labels.classes), rows_of(labels)
    hits, compared = np.zeros(labels.n_workers), np.zeros(labels.n_workers)
    for i, k, label, w in rows:
        others = [row for row in rows if row[0] == i and row[1] != k]
        leads = {labels.gold_code[i]} if labels.gold_code[i] >= 0 else leaders(tally(others, n_classes))
        if leads:
            compared[k] += w
            hits[k] += w * (label in leads) / len(leads)
    return (hits + 1) / (compared + len(labels.label_values))


def equation_24(labels, found, item):
    """Slope of the log posterior of log easiness, by loops."""
    rows = [row for row in rows_of(labels) if row[0] == item]
    votes = tally(rows, len(labels.classes))
    leads = {labels.gold_code[item]} if labels.gold_code[item] >= 0 else leaders(votes)
    n_answers = len(labels.label_values)

    def slope(u):
        total = 0.0
        for _, k, label, w in rows:
            skill = found.ability[k]
            p = 1 / (1 + (n_answers - 1) * np.exp(-skill * np.exp(u)))
            total += w * skill * ((label in leads) / max(len(leads), 1) - p)
        return np.exp(u) * total - u

    return slope


@every_crowd
def test_agreement_is_that_of_plain_loops(name):
    np.testing.assert_allclose(ability.estimate(CROWDS[name]).agreement, agreement_by_loops(CROWDS[name]), rtol=1e-12)


@every_crowd
@pytest.mark.parametrize("form", ["calibrated", "paper"])
def test_easiness_is_the_root_of_equation_24(name, form):
    labels = CROWDS[name]
    found = ability.estimate(labels, form=form)
    for item in range(labels.n_items):
        slope = equation_24(labels, found, item)
        expected = brentq(slope, *((-6, 1) if slope(1) <= 0 else (1, 3)), xtol=1e-13)
        assert np.log(found.easiness[item]) == pytest.approx(expected, abs=1e-6)


def test_easiness_stays_within_its_bounds():
    # One label that outweighs the prior by far.
    random = np.random.default_rng(0)
    rows = [(i, k, int(random.random() < 0.02)) for i in range(50) for k in range(4)]
    labels = of_rows([*rows, (50, 0, 2), (51, 3, 0)], classes=2, label_values=3, weight=[1.0] * 200 + [1e7, 1e7])
    easiness = ability.estimate(labels).easiness
    assert easiness[50] == pytest.approx(np.exp(-6))
    assert (easiness >= np.exp(-6) - 1e-12).all()
    assert (easiness <= np.exp(3) + 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_many_weak_labels_find_the_lower_mode(seed):
    # With abilities near 0 and many labels the posterior may have a second slope of zero above 1.
    random = np.random.default_rng(seed)
    labels = of_rows([(i, k, random.integers(0, 2)) for i in range(30) for k in range(60)])
    found = ability.estimate(labels)
    for item in range(30):
        slope = equation_24(labels, found, item)
        expected = brentq(slope, *((-6, 1) if slope(1) <= 0 else (1, 3)))
        assert np.log(found.easiness[item]) == pytest.approx(expected, abs=1e-6)


def test_unanimous_items_are_easier_than_split_ones():
    # Every worker is the odd one out as often as any other, so that all are equally able.
    split = ["11110", "11101", "11011", "10111", "01111", "11000", "01100", "00110", "00011", "10001"]
    labels = labels_of(["11111", "00000", "0000 ", "111  ", *split])
    found = ability.estimate(labels)
    easiness = found.easiness
    assert found.ability.min() > 0.3
    assert easiness[:3].min() > easiness[4:].max()
    assert easiness[3] > 1 > easiness[9]
    assert easiness[4:9].min() > easiness[9:].max()
    # The more labels agree, the easier.
    assert easiness[0] > easiness[2] > easiness[3]


def test_abilities_tell_experts_guessers_and_adversaries():
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 400)
    accuracy = [0.9, 0.9, 0.85, 0.8, 1 / 3, 0.02]
    rows = []
    for i in range(400):
        for k, right in enumerate(accuracy):
            wrong = (truth[i] + random.integers(1, 3)) % 3
            rows.append((i, k, truth[i] if random.random() < right else wrong))
    labels = of_rows(rows, classes=3)
    found = ability.estimate(labels)
    assert (np.diff(found.ability[[0, 2, 3, 4, 5]]) < 0).all()
    assert found.ability[4] == pytest.approx(0, abs=0.35)
    assert found.ability[5] < -2
    np.testing.assert_allclose(
        1 / (1 + 2 * np.exp(-found.ability)), found.agreement, rtol=1e-12, err_msg="easiness 1 gives back R"
    )
    paper = ability.estimate(labels, form="paper").ability
    np.testing.assert_allclose(paper, (3 + np.log(2)) * found.agreement)


def test_nobody_is_able_for_having_agreed_with_nobody():
    labels = of_rows([(0, 0, 1), (1, 0, 0), (2, 1, 1), (3, 1, 1), (4, 2, 0), (4, 2, 0)], workers=4)
    found = ability.estimate(labels)
    np.testing.assert_allclose(found.ability, 0, atol=1e-15)
    np.testing.assert_allclose(found.easiness, 1)


def test_gold_tells_more_than_votes():
    rows = [(i, k, int(k < 2)) for i in range(20) for k in range(3)]
    voted = ability.estimate(of_rows(rows))
    known = ability.estimate(of_rows(rows, gold=dict.fromkeys(range(20), 0)))
    assert voted.ability[2] < voted.ability[0]
    assert known.ability[2] > 2
    assert known.ability[0] < -2
    np.testing.assert_allclose(known.agreement, [1 / 22, 1 / 22, 21 / 22])
    np.testing.assert_allclose(known.class_share, [[1, 0]] * 20)


def test_items_and_workers_without_labels():
    labels = CASES["everything"]()
    found = ability.estimate(labels)
    assert found.easiness[4] == 1
    assert found.ability[3] == pytest.approx(0, abs=1e-12)
    assert found.class_share[4].tolist() == [0.5, 0.5]
    assert found.class_share[3].tolist() == [0.5, 0.5]  # only "can't tell"
    assert found.easiness[3] <= 1


def test_one_class():
    labels = labels_of(["000", "0  ", "   "], classes=1)
    found = ability.estimate(labels)
    np.testing.assert_array_equal(found.class_share, [[1]] * 3)
    np.testing.assert_array_equal(found.easiness, 1)
    np.testing.assert_array_equal(found.ability, 0)
    with_other = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0), (3, 0, 0), (3, 1, 1)]
    more = ability.estimate(of_rows(with_other, classes=1, label_values=2))
    assert more.ability[0] > more.ability[1] > 0
    assert more.easiness[0] > more.easiness[3]


def reordered(labels, seed):
    """The same table with rows, workers and classes in another order; also the order of the workers and classes."""
    random = np.random.default_rng(seed)
    n_classes = len(labels.classes)
    row = random.permutation(len(labels.item_code))
    worker = random.permutation(labels.n_workers)
    label = np.concatenate([random.permutation(n_classes), np.arange(n_classes, len(labels.label_values))])
    gold = np.where(labels.gold_code >= 0, label[labels.gold_code], -1)
    table = CrowdLabels.from_codes(
        labels.item_code[row],
        worker[labels.worker_code[row]],
        label[labels.label_code[row]],
        items=labels.n_items,
        workers=labels.n_workers,
        classes=n_classes,
        label_values=len(labels.label_values),
        weight=None if labels.weight is None else labels.weight[row],
        gold_code=gold,
    )
    return table, worker, label[:n_classes]


@every_crowd
@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_names_of_workers_and_classes_do_not_matter(name, seed):
    labels = CROWDS[name]
    other, worker, label = reordered(labels, seed)
    one, two = ability.estimate(labels), ability.estimate(other)
    np.testing.assert_allclose(two.easiness, one.easiness, rtol=1e-9)
    np.testing.assert_allclose(two.ability[worker], one.ability, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(two.class_share[:, label], one.class_share, atol=1e-12)
    for n_levels in (2, 3, 4):
        found = ability.levels(one.easiness, n_levels)
        assert found.tolist() == ability.levels(two.easiness, n_levels).tolist()
        by_votes = ability.item_levels(labels, one.easiness, n_levels)
        assert by_votes.tolist() == ability.item_levels(other, two.easiness, n_levels).tolist()


def test_a_weight_is_as_good_as_repeats_of_the_item():
    # Not of a worker's label, whose own repeats are left out of what the others say: both are.
    once = ability.estimate(of_rows([(0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 0, 0), (1, 1, 1)], weight=[2, 1, 3, 1, 2]))
    rows = [(0, 0, 1)] * 2 + [(0, 1, 1)] + [(0, 2, 0)] * 3 + [(1, 0, 0)] + [(1, 1, 1)] * 2
    again = ability.estimate(of_rows(rows))
    for one, two in zip(once, again, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_levels_are_quantiles():
    easiness = np.random.default_rng(0).permutation(np.exp(np.linspace(-1, 1, 99)))
    for n_levels in (1, 2, 3, 9):
        found = ability.levels(easiness, n_levels)
        sizes = np.bincount(found, minlength=n_levels)
        assert sizes.max() - sizes.min() <= 1
        for level in range(n_levels - 1):
            assert easiness[found == level].min() > easiness[found == level + 1].max()
    assert np.bincount(ability.levels(easiness[:10], 3)).tolist() in ([3, 4, 3], [4, 3, 3], [3, 3, 4])


@pytest.mark.parametrize(
    ("sizes", "n_levels", "expected"),
    [
        ([80, *[1] * 20], 3, [80, 10, 10]),  # most items are alike: they are easy, the others are told apart
        ([*[1] * 20, 80], 3, [10, 10, 80]),
        ([*[1] * 10, 80, *[1] * 10], 3, [10, 80, 10]),
        ([50, 50], 2, [50, 50]),
        ([90, 10], 3, [90, 0, 10]),
        ([100], 3, [0, 100, 0]),
        ([100], 2, [100, 0]),
        ([30, 30, 20, 20], 2, [60, 40]),
        ([1, 1, 98], 3, [1, 1, 98]),
        ([], 3, [0, 0, 0]),
    ],
)
def test_equal_items_share_a_level(sizes, n_levels, expected):
    # Values that differ by rounding alone are equal.
    value = np.repeat(np.exp(-0.1 * np.arange(len(sizes))), sizes)
    value = value * (1 + 1e-13 * np.random.default_rng(0).normal(size=len(value)))
    found = ability.levels(value, n_levels)
    assert np.bincount(found, minlength=n_levels).tolist() == expected
    groups = np.repeat(np.arange(len(sizes)), sizes)
    assert all(len(set(found[groups == group])) == 1 for group in set(groups))


@pytest.mark.parametrize("seed", range(20))
def test_no_level_is_empty_where_values_suffice(seed):
    random = np.random.default_rng(seed)
    n_levels = int(random.integers(2, 6))
    sizes = random.geometric(0.1, random.integers(n_levels, 12))
    found = ability.levels(np.repeat(np.exp(-1.0 * np.arange(len(sizes))), sizes), n_levels)
    assert (np.bincount(found, minlength=n_levels) > 0).all()
    assert (np.diff(found) >= 0).all()


def test_votes_tell_items_of_equal_easiness_apart():
    # All agree as often as guessers, so easiness says nothing.
    labels = labels_of(["111", "000", "110", "001", "10 ", "01 ", "   "])
    found = ability.estimate(labels)
    np.testing.assert_allclose(found.easiness, 1)
    assert ability.item_levels(labels, found.easiness, 3).tolist() == [0, 0, 1, 1, 2, 2, -1]
    assert ability.levels(np.array([2.0, 1, 1, 1]), 2, np.array([0.1, 0.9, 0.5, 0.5])).tolist() == [0, 0, 1, 1]


def test_unknown_form():
    with pytest.raises(EngineError, match="'calibrated' or 'paper'"):
        ability.estimate(CROWDS["plain"], form="raw")


def test_difficulty_is_found_where_there_is_some():
    # Labels of two levels: nearly right, and guesses.
    random = np.random.default_rng(0)
    hard = random.random(600) < 0.4
    truth = random.integers(0, 4, 600)
    rows = [
        (i, k, truth[i] if random.random() < (0.35 if hard[i] else 0.9) else random.integers(0, 4))
        for i in range(600)
        for k in random.choice(20, 6, replace=False)
    ]
    table = bc.item_difficulty(of_rows(rows, classes=4), n_levels=2)
    guessed = (table["level"] == "2").to_numpy()
    assert (guessed == hard).mean() > 0.8
