from __future__ import annotations

import re
from typing import Any

import fitted
import numpy as np
import pandas as pd
import pytest
from panels import (
    copying,
    groups_of,
    hard_items,
    independent,
    labels_of,
    p41,
    panel,
    plain_soft_correlation,
    tree_of,
)

from bayescrowd.criticism import _kinds, _pairs, _worth
from bayescrowd.criticism import dependence as module
from bayescrowd.criticism._panel import panel_of
from bayescrowd.criticism.dependence import dependence, of_dependence
from bayescrowd.data.labels import CrowdLabels


def test_P41_without_gold() -> None:
    found = dependence(tree_of(p41()[1]))
    assert found.basis == "labels"
    assert found.prior_driven
    assert found.effective_lower < 1.9 < found.effective_upper
    assert found.effective_upper < 6
    assert found.effective_lower < found.effective < found.effective_upper
    text = str(found)
    assert "a prior makes of it: labels cannot tell" in text
    assert "the panel is worth 4.7; if not, workers err together there, and the panel is worth 1.8 to 4.7" in text
    assert "the interval misses now and then" in text
    assert "as gold" in text


def test_the_estimate_lies_between_what_is_said_of_the_readings() -> None:
    for seed in range(3):
        # On hard items labels are spread over four classes: what is taken for true is right as often as any other.
        random = np.random.default_rng(seed)
        z, said = independent(seed, 400, 10, 4, 0.9, 0.95)
        hard = np.flatnonzero(random.random(400) < 0.1)
        said[hard] = random.integers(0, 4, (len(hard), 10))
        for tree in (tree_of(said, 4), tree_of(p41(seed, 400)[1])):
            found = dependence(tree)
            (text,) = [text for text in found.sentences if "if not, workers err together there" in text]
            numbers = re.search(r"is worth ([\d.]+); if not, .* is worth ([\d.]+) to ([\d.]+), by how often", text)
            assert numbers is not None
            right, fewest, largest = map(float, numbers.groups())
            assert fewest <= right <= largest
            assert fewest - 0.05 <= found.effective <= largest + 0.05
            assert found.effective_lower - 0.05 <= fewest <= largest <= found.effective_upper + 0.05
    assert z.max() == 3


def test_labels_alone_on_further_panels_with_hard_items() -> None:
    for seed in range(2):
        for z, said, k in ((*p41(seed, 400), 2), (*hard_items(seed), 3)):
            tree = tree_of(said, k)
            true = dependence(tree, pd.Series(z)).effective
            found = dependence(tree)
            assert found.effective_lower < true < found.effective_upper
            assert found.effective < 0.6 * found.panel


@pytest.mark.parametrize(
    "crowd",
    [
        {"m": 10},
        {"m": 5},
        {"m": 3},
        {"m": 9, "low": 0.75, "high": 0.75},
        {"m": 30, "per": 5, "n": 800},
        {"m": 8, "k": 3},
    ],
    ids=str,
)
def test_independent_workers_are_not_called_dependent(crowd: dict[str, Any]) -> None:
    for seed in range(2):
        z, said = independent(seed, **crowd)
        found = dependence(tree_of(said, crowd.get("k", 2)))
        assert found.effective_upper >= 0.97 * found.panel
        assert found.effective >= 0.85 * found.panel
        assert found.groups == ()
        assert "independently" not in found.sentences[0]
        assert "No kind of items shows" in found.sentences[1]
        assert "That is no sign that workers err independently" in found.sentences[1]
        assert "labels cannot tell" in found.sentences[0]
        true = dependence(tree_of(said, crowd.get("k", 2)), pd.Series(z)).effective
        assert found.effective_lower <= true <= found.effective_upper + 1e-9


def test_no_hard_kind_in_independent_labels() -> None:
    found = []
    for seed in range(30):
        answers = panel(independent(seed, 200, 8)[1])
        one = _kinds.consensus_of(answers, answers.probability)
        found.append(_kinds.is_established(one, _kinds.with_hard_kind(answers, one)))
    assert sum(found) <= 1


def test_the_fit_of_two_kinds_against_plain_loops() -> None:
    z, said = hard_items(1, 80, 4)
    said[5:10, 1:] = -1
    known = np.where(np.arange(80) < 6, z, -1)
    answers = panel(said, 3, known)
    one = _kinds.consensus_of(answers, answers.probability)
    two = _kinds.with_hard_kind(answers, one)
    assert two.log_likelihood > one.log_likelihood
    assert two.share.sum() == pytest.approx(1)
    assert two.confusion.sum(axis=2) == pytest.approx(np.ones((4, 3)))
    assert two.guesses.sum(axis=1) == pytest.approx(np.ones(3))
    assert two.guesses.diagonal() == pytest.approx(np.full(3, 1 / 3))
    total = 0.0
    for i in range(80):
        joint = np.zeros((2, 3))
        for kind in range(2):
            for c in range(3):
                if known[i] >= 0 and known[i] != c:
                    continue
                joint[kind, c] = two.share[kind, c]
                for w in range(4):
                    if said[i, w] >= 0:
                        own = two.confusion[w, c, said[i, w]]
                        hard = (1 - two.guess) * own + two.guess * two.guesses[c, said[i, w]]
                        joint[kind, c] *= hard if kind else own
        total += np.log(joint.sum())
        assert np.stack([two.ordinary[i], two.hard[i]]) == pytest.approx(joint / joint.sum(), abs=1e-10)
    assert two.log_likelihood == pytest.approx(total, abs=1e-8)


def test_readings_against_plain_loops() -> None:
    _, said = hard_items(2, 60, 5)
    answers = panel(said, 3)
    two = _kinds.with_hard_kind(answers, _kinds.consensus_of(answers, answers.probability))
    average = two.hard_confusion(np.full(5, 60.0))
    plain = (1 - two.guess) * two.confusion.mean(axis=0) + two.guess * two.guesses
    assert average == pytest.approx(plain)
    weight = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    for wrong in (0.0, 0.3, 1.0):
        probability = np.zeros((60, 3))
        for i in range(60):
            for c in range(3):
                after = max((d for d in range(3) if d != c), key=lambda d: average[c, d])
                probability[i, c] += two.ordinary[i, c] + (1 - wrong) * two.hard[i, c]
                probability[i, after] += wrong * two.hard[i, c]
        assert _kinds.reading(answers, two, wrong, weight) == pytest.approx(
            plain_soft_correlation(said, probability * weight[:, None]), abs=1e-10
        )
    drawn = np.zeros((60, 3))
    for i in range(60):
        for w in range(5):
            given = two.share.sum(axis=0) * two.confusion[w, :, said[i, w]]
            drawn[i] += given / given.sum() / 5
    assert _kinds.as_one_label(answers, two) == pytest.approx(plain_soft_correlation(said, drawn), abs=1e-10)


def test_one_worker_and_two() -> None:
    z, said = independent(0, 40, 2)
    one = dependence(tree_of(said[:, :1]))
    assert np.isnan([one.correlation, one.effective, one.effective_lower, one.effective_upper]).all()
    assert one.panel == 1
    assert one.pairs.empty
    assert "cannot be told" in one.sentences[0]
    assert "No two workers have common items" in str(one)
    assert "nan" not in str(one).lower()
    two = dependence(tree_of(said))
    assert np.isnan(two.effective)
    assert two.pairs["correlation"].isna().all()
    assert "at least three workers" in two.sentences[0]
    assert "whether two workers copy takes the labels of a third, or known classes." in str(two)
    assert "could be judged" not in str(two)
    assert "as gold" in str(two)
    for found in (one, dependence(tree_of(said[:, :1]), pd.Series(z))):
        assert "Let two or more workers label the same items" in str(found)
        assert "as gold" not in str(found)
    known = dependence(tree_of(said), pd.Series(z))
    assert "The one pair that could be judged does not stand out as copying." in known.sentences
    assert 1 <= known.effective <= 2
    assert known.pairs["correlation"].notna().all()
    assert np.isnan(dependence(tree_of(said[:, :1]), pd.Series(z)).effective)


def test_no_common_items() -> None:
    z, said = independent(0, 40, 4)
    said[np.arange(4)[None, :] != (np.arange(40) % 4)[:, None]] = -1
    for truth in (None, pd.Series(z)):
        found = dependence(tree_of(said), truth)
        assert np.isnan(found.effective)
        assert found.panel == 1
        assert list(found.pairs.columns[:3]) == ["worker", "other", "n_common"]
        assert found.pairs.empty
        assert found._repr_html_()


def test_all_agree() -> None:
    z = np.arange(50) % 2
    said = np.repeat(z[:, None], 5, axis=1)
    found = dependence(tree_of(said))
    assert np.isnan(found.correlation)
    assert "all workers agree on every item" in found.sentences[0]
    assert found.groups == ()
    known = dependence(tree_of(said), pd.Series(z))
    assert np.isnan(known.effective)
    assert "are all right" in known.sentences[0]
    assert "Give" not in str(known)  # all classes are known already
    part = dependence(tree_of(said), pd.Series(z[:20]))
    assert part.sentences[1] == "Give the true class of more items: errors may show there."
    assert "as gold" in found.sentences[1]
    wrong = dependence(tree_of(said), pd.Series(1 - z))
    assert np.isnan(wrong.effective)
    half = dependence(tree_of(said), pd.Series(np.where(np.arange(50) < 25, z, 1 - z)))
    assert half.effective == pytest.approx(1, abs=0.1)


def test_one_class() -> None:
    labels = CrowdLabels.from_codes(*np.indices((30, 4)).reshape(2, -1), np.zeros(120, int), classes=1)
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31()))
    assert np.isnan(dependence(tree).effective)
    mixed = CrowdLabels.from_codes(
        *np.indices((30, 4)).reshape(2, -1),
        (np.arange(120) % 7 == 0).astype(int),
        classes=["a"],
        label_values=["a", "b"],
    )
    tree = fitted.tree_of(mixed, fitted.r31(), fitted.made_point(mixed, fitted.r31()))
    assert dependence(tree).sentences
    assert dependence(tree, dict.fromkeys(range(30), "a")).basis == "truth"


def test_a_little_gold_stays_with_the_labels() -> None:
    z, said = independent(0, 80, 5)
    gold = np.where(np.arange(80) < 4, z, -1)
    found = dependence(tree_of(said, gold_code=gold))
    assert found.basis == "labels"
    assert "4 gold items with labels of two workers are too few to measure by" in str(found)
    one = np.where(np.arange(80) < 1, z, -1)
    assert "1 gold item with labels of two workers is too few to measure by" in str(
        dependence(tree_of(said, gold_code=one))
    )
    lonely = said.copy()
    lonely[:12, 1:] = -1
    gold = np.where(np.arange(80) < 12, z, -1)
    assert dependence(tree_of(lonely, gold_code=gold)).basis == "labels"


def test_items_without_labels_and_truth_without_items_in_common() -> None:
    z, said = independent(0, 60, 5)
    said[:10] = -1
    found = dependence(tree_of(said), pd.Series(z))
    assert found.panel == 5
    assert found.n_items == 50
    none = dependence(tree_of(said), pd.Series(z[:10]))
    assert "fewer than two items of known class" in none.sentences[0]
    assert dependence(tree_of(said), {}).basis == "truth"


def test_weights_and_repeats_are_one_answer() -> None:
    z, said = copying(0, 80, m=6)
    item, worker = np.nonzero(said >= 0)
    label = said[item, worker]
    again = np.random.default_rng(0).random(len(item)) < 0.3
    twice = [np.concatenate([part, part[again]]) for part in (item, worker, label)]
    rows = CrowdLabels.from_codes(*twice, classes=2)
    weighed = CrowdLabels.from_codes(item, worker, label, classes=2, weight=1.0 + again)
    probability = np.clip(np.eye(2)[(said.mean(axis=1) > 0.5).astype(int)], 0.1, 0.9)
    found = []
    for labels in (rows, weighed):
        run = fitted.made_point(labels, fitted.r31())._replace(state_probability=probability)
        tree = fitted.tree_of(labels, fitted.r31(), run)
        found += [dependence(tree, pd.Series(z)), dependence(tree)]
    plain = dependence(tree_of(said), pd.Series(z))
    assert found[0].correlation == found[2].correlation == plain.correlation
    assert found[0].panel == 6
    assert found[1].effective == pytest.approx(found[3].effective, abs=1e-9)
    pd.testing.assert_frame_equal(found[1].pairs, found[3].pairs)


def test_repeats_that_differ_are_averaged() -> None:
    _, said = independent(0, 60, 4)
    rows = [(i, w, said[i, w]) for i in range(60) for w in range(4)]
    rows += [(i, 0, 1 - said[i, 0]) for i in range(30)]  # worker 0 takes it back on half of the items
    labels = CrowdLabels.from_codes(*np.array(rows).T, classes=2)
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31()))
    answers = panel_of(tree, np.full(60, -1))
    assert len(answers.item) == 240
    assert answers.shares.toarray()[answers.worker == 0][:30] == pytest.approx(np.full((30, 2), 0.5))
    assert _pairs.agreement(answers, np.array([0]), np.array([1])) == pytest.approx([0.5])
    assert dependence(tree).panel == 4


def test_order_and_names_do_not_matter() -> None:
    z, said = copying(3, 150, m=7)
    random = np.random.default_rng(0)
    workers, items = random.permutation(7), random.permutation(150)
    one = dependence(tree_of(said))
    two = dependence(tree_of(said[items][:, workers]))
    assert two.effective == pytest.approx(one.effective, rel=1e-3)
    assert [{int(workers[w]) for w in group} for group in two.groups] == groups_of(one)
    flipped = dependence(tree_of(1 - said))
    assert flipped.effective == pytest.approx(one.effective, rel=1e-3)
    assert dependence(tree_of(said[items][:, workers]), pd.Series(z[items])).correlation == pytest.approx(
        dependence(tree_of(said), pd.Series(z)).correlation, abs=1e-12
    )


def test_ids_of_strangers_are_shown_and_not_run() -> None:
    z, said = copying(1)
    names = ["<script>alert(1)</script>", "<b>", "c", "d", *map(str, range(4, 10))]
    labels = labels_of(said)
    labels = CrowdLabels.from_codes(
        labels.item_code, labels.worker_code, labels.label_code, workers=names, classes=["<i>", "&"]
    )
    run = fitted.made_point(labels, fitted.r31())
    run = run._replace(state_probability=np.eye(2)[z] * 0.8 + 0.1)
    found = dependence(fitted.tree_of(labels, fitted.r31(), run))
    assert set(found.groups[0]) == set(names[:4])
    page = found._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<b>" not in page.replace("<b>By", "").replace("<p><b>", "")
    assert "'<script>alert(1)</script>'" in str(found)


def test_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    z, said = p41(n=300)
    tree = tree_of(said)
    monkeypatch.setattr(module, "_MOST_LABELS", 900)
    part = dependence(tree)
    assert part.n_items == 100
    assert "Computed from 100 of 300 items" in str(part)
    monkeypatch.setattr(_worth, "_REFIT_LABELS", 450)
    assert part.effective_lower < dependence(tree).effective_upper
    monkeypatch.setattr(module, "_MOST_IN_DIAGNOSIS", 100)
    (skipped,) = of_dependence(tree)
    assert (skipped.severity, skipped.code) == ("note", "dependence-skipped")
    assert skipped.text == "Whether workers copy was not looked at: with 2,700 labels that takes a while."
    assert skipped.remedy == "fit.dependence() does it all the same"
    from bayescrowd.criticism import _panel

    monkeypatch.setattr(_panel, "_MOST_CELLS", 10)
    (skipped,) = of_dependence(tree)
    assert skipped.code == "dependence-skipped"
    assert "would not fit in memory" in skipped.text
    assert "truth" in skipped.remedy  # dependence() without it would tell nothing
    alone = dependence(tree)
    assert "would not fit in memory" in alone.sentences[0]
    assert str(alone).count("would not fit in memory") == 1
    assert "stands out" not in str(alone)
    by_truth = dependence(tree, pd.Series(z))
    assert by_truth.effective == pytest.approx(1.9, abs=0.3)
    assert by_truth.pairs["correlation"].isna().all()
    assert str(by_truth).count("would not fit in memory") == 1
    assert "stands out" not in str(by_truth)


def test_a_sample_is_named_with_known_classes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # Who copies did not label the items of known class, which are more than the sample has items.
    z, said = copying(1)
    said[:200, :4] = -1
    tree, truth = tree_of(said), pd.Series(z[:200])
    assert groups_of(dependence(tree, truth)) == [{0, 1, 2, 3}]
    monkeypatch.setattr(module, "_MOST_LABELS", 1500)
    found = dependence(tree, truth)
    assert groups_of(found) == [{0, 1, 2, 3}]
    assert found.n_items == 200
    (said_so,) = [text for text in found.sentences if "drawn at random" in text]
    assert said_so.startswith("Copies beyond the items of known class were looked for in ")
    # With all classes known nothing is drawn.
    assert "drawn at random" not in str(dependence(tree, pd.Series(z)))
