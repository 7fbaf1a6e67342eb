"""What labels identify, in words and numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.criticism.scattering import longest, two_sides
from bayescrowd.moments.binary import interval_of


def labels_of(rows, **more):
    return bc.CrowdLabels.from_long(
        pd.DataFrame(rows, columns=["item", "worker", "label"]), item="item", worker="worker", label="label", **more
    )


def codes(report):
    return {finding.code for finding in report.findings}


def answers(truth, workers, random, right=0.8, n_classes=2):
    return [
        (f"i{i}", w, int(k) if random.random() < right else int(random.integers(n_classes)))
        for i, k in enumerate(truth)
        for w in workers
    ]


def test_a_good_design():
    random = np.random.default_rng(0)
    labels = labels_of(answers(random.integers(3, size=300), "abcde", random, n_classes=3))
    report = bc.identifiability(labels)
    assert report.headline.startswith("Pair statistics cover all 5 workers")
    assert not {"bipartite", "no-common-items", "no-certificate"} & codes(report)
    assert (report.workers["n_partners"] == 4).all()
    assert (report.workers["median_common"] == 300).all()
    assert report.workers["epsilon"].between(0, 0.5).all()
    assert report.scattered is not None
    assert report.interval is None
    assert report.headline in str(report)


def test_workers_outside_are_named_with_the_remedy():
    random = np.random.default_rng(1)
    rows = answers(random.integers(2, size=100), "abc", random) + [("lonely", "hermit", 1)]
    report = bc.identifiability(labels_of(rows))
    (finding,) = [finding for finding in report.findings if finding.code == "no-common-items"]
    assert "'hermit'" in finding.text
    assert "label some of their items" in finding.remedy
    assert "3 of 4 workers" in report.headline
    assert np.isnan(report.workers.loc["hermit", "epsilon"])


def test_bipartite_and_separate_groups():
    random = np.random.default_rng(2)
    rows = []
    for i, k in enumerate(random.integers(2, size=200)):
        for worker in ("ab"[i % 2], "xy"[i // 2 % 2]):
            rows.append((f"p{i}", worker, int(k) if random.random() < 0.8 else 1 - int(k)))
    rows += [(f"q{item}", f"r{w}", label) for item, w, label in answers(random.integers(2, size=50), "uvw", random)]
    report = bc.identifiability(labels_of(rows))
    assert {"bipartite", "components"} <= codes(report)
    (finding,) = [finding for finding in report.findings if finding.code == "bipartite"]
    assert "two sides" in finding.text
    assert any(pair in finding.remedy for pair in ("'a' and 'b'", "'b' and 'a'", "'x' and 'y'", "'y' and 'x'"))


def test_spammers_and_classes_without_certificate():
    random = np.random.default_rng(3)
    truth = random.choice(3, size=2000, p=[0.9, 0.08, 0.02])
    rows = answers(truth, "abcd", random, right=0.7, n_classes=3)
    rows += [(f"i{i}", "spam", int(random.integers(3))) for i in range(2000)]
    report = bc.identifiability(labels_of(rows))
    assert {"rank-one", "no-certificate"} <= codes(report)
    (spam,) = [finding for finding in report.findings if finding.code == "rank-one"]
    assert "'spam'" in spam.text
    assert report.classes["certificate"].min() < 0.6


def test_two_classes_give_an_interval_that_contains_the_truth():
    random = np.random.default_rng(4)
    truth = (random.random(20000) < 0.4).astype(int)
    report = bc.identifiability(labels_of(answers(truth, "abcdef", random, right=0.6)))
    low, high = report.interval
    assert low <= 0.6 <= high
    assert "interval" in codes(report)


def test_diagnose_says_it_too():
    random = np.random.default_rng(5)
    rows = answers(random.integers(2, size=60), "abc", random) + [("lonely", "hermit", 1)]
    found = {finding.code for finding in bc.fit(labels_of(rows), engine="em").diagnose().findings}
    assert {"no-common-items", "common-items"} <= found
    levels = bc.fit(labels_of(rows), bc.IDBLA(n_levels=2), engine="vb").diagnose()
    assert "common-items" in {finding.code for finding in levels.findings}


def test_epsilon_and_interval_of_known_workers():
    """Three workers, right with .9, .8 and .7 on two equal classes: certificates are their accuracies."""
    random = np.random.default_rng(6)
    truth = random.integers(2, size=40000)
    skill = {"a": 0.9, "b": 0.8, "c": 0.7}
    rows = [
        (f"i{i}", w, int(k) if random.random() < right else 1 - int(k))
        for i, k in enumerate(truth)
        for w, right in skill.items()
    ]
    labels = labels_of(rows)
    fit = bc.fit(labels, engine="em")
    codes_of = {finding.code for finding in fit.diagnose().findings}
    assert "interval" in codes_of
    report = bc.identifiability(labels)
    confusion = np.array([[[right, 1 - right], [1 - right, right]] for right in skill.values()])
    truth_interval = interval_of(confusion, np.array([0.5, 0.5])).prevalence
    assert report.interval[0] <= 0.5 <= report.interval[1]
    assert truth_interval[0] < 0.5 < truth_interval[1]
    best = fit.idata["point_estimate"]["confusion"].to_numpy()
    np.testing.assert_allclose(best, confusion, atol=0.03)


def test_what_is_no_label_table_is_refused():
    with pytest.raises(bc.LabelError, match="identifiability takes a CrowdLabels"):
        bc.identifiability(pd.DataFrame({"item": [1]}))


@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
def test_one_class_is_refused():
    with pytest.raises(bc.EngineError, match="one class only"):
        bc.identifiability(labels_of([("a", "u", 0), ("a", "v", 0)]))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_scattering(n_classes):
    assert longest(np.eye(n_classes)) == 1
    assert longest(np.ones((5, n_classes))) == np.inf
    inside = np.eye(n_classes) + 0.2
    assert longest(inside) > 1


def test_scattered_without_certificates():
    # Rows on every edge of the triangle, none at a corner: scattered for three classes, not separable.
    edges = np.array(
        [[1, t, 0] for t in (0.1, 0.2)] + [[0, 1, t] for t in (0.1, 0.2)] + [[t, 0, 1] for t in (0.1, 0.2)]
    )
    edges = np.concatenate([edges, edges[:, [1, 0, 2]], edges[:, [0, 2, 1]], edges[:, [2, 1, 0]]])
    assert longest(edges) == pytest.approx(1)


def test_two_sides_are_joined_throughout():
    random = np.random.default_rng(0)
    joined = random.random((12, 12)) < 0.6
    joined = joined | joined.T
    np.fill_diagonal(joined, False)
    one, other = two_sides(joined, np.arange(12.0))
    assert len(one) > 0
    assert len(other) > 0
    assert not set(one) & set(other)
    assert joined[np.ix_(one, other)].all()
    assert [len(side) for side in two_sides(np.zeros((3, 3), bool), np.ones(3))] in ([1, 0], [0, 0])


def test_no_interval_where_more_than_one_number_is_open():
    """Two workers: their pair statistics leave a whole matrix open, not the interval of the formula."""
    one, other = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.6, 0.4], [0.1, 0.9]])
    count = (one.T @ np.diag([0.7, 0.3]) @ other * 1000).round().astype(int)
    pairs = [(a, b) for a in range(2) for b in range(2) for _ in range(count[a, b])]
    rows = [(i, w, k) for i, pair in enumerate(pairs) for w, k in zip("AB", pair, strict=True)]
    report = bc.identifiability(labels_of(rows))
    assert report.interval is None
    assert "interval" not in codes(report)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_workers_who_agree_by_chance_alone_are_hopeless(n_classes):
    random = np.random.default_rng(7)
    rows = answers(random.integers(n_classes, size=400), "abcdefg", random, 0, n_classes)
    report = bc.identifiability(labels_of(rows))
    (finding,) = [finding for finding in report.findings if finding.code == "independent"]
    assert finding.severity == "problem"
    rows = answers(random.integers(n_classes, size=100), "abcde", random, 0.5, n_classes)
    assert "independent" not in codes(bc.identifiability(labels_of(rows)))


def test_weak_links_are_named():
    random = np.random.default_rng(8)
    first = answers(random.integers(2, size=150), ["a0", "a1", "a2"], random)
    more = answers(random.integers(2, size=150), ["b0", "b1", "b2"], random)
    second = [(f"h{item}", worker, label) for item, worker, label in more]
    report = bc.identifiability(labels_of([*first, *second, ("i0", "b0", 1)]))
    (finding,) = [finding for finding in report.findings if finding.code == "weak-links"]
    assert "2 groups" in finding.text
    assert "'b0'" in finding.remedy
    lonely = [(f"alone{n}", f"hermit{n}", 1) for n in range(4)]
    with_hermits = bc.identifiability(labels_of([*first, *second, ("i0", "b0", 1), *lonely]))
    assert "2 groups" in next(finding.text for finding in with_hermits.findings if finding.code == "weak-links")
    solo = bc.identifiability(labels_of([*first, ("i0", "solo", 1)]))
    assert "cover 3 of 4 workers well" in solo.headline
    (finding,) = [finding for finding in solo.findings if finding.code == "weak-links"]
    assert "'solo'" in finding.text
    assert "rank-one" not in codes(solo)


def test_a_sparse_crowd_gets_no_all_clear():
    random = np.random.default_rng(9)
    truth = random.integers(3, size=300)
    rows = [
        (int(i), w, int(truth[i]) if random.random() < 0.8 else int(random.integers(3)))
        for w in range(300)
        for i in random.choice(300, 4, replace=False)
    ]
    report = bc.identifiability(labels_of(rows))
    assert "next to nothing" in report.headline
    assert "few-labels" in codes(report)
    assert not {"no-certificate", "rank-one"} & codes(report)
    assert report.classes["certificate"].isna().all()


def test_small_weights_do_not_make_everybody_a_spammer():
    random = np.random.default_rng(10)
    table = pd.DataFrame(answers(random.integers(3, size=200), "abcd", random, 0.75, 3), columns=["item", "w", "label"])
    labels = bc.CrowdLabels.from_long(table.assign(v=0.3), item="item", worker="w", label="label", weight="v")
    assert "rank-one" not in codes(bc.identifiability(labels))


def test_what_pairs_cannot_show_is_no_fault_of_a_likelihood() -> None:
    labels = bc.datasets.load("anesthesia")
    found = {engine: bc.fit(labels, engine=engine).diagnose().findings for engine in ("collapsed-vi", "multispa")}
    severities = {
        engine: {finding.severity for finding in findings if finding.code == "no-certificate"}
        for engine, findings in found.items()
    }
    assert severities == {"collapsed-vi": {"note"}, "multispa": {"caution"}}
