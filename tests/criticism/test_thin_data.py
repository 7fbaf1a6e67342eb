"""Workers and classes of which the prior does the talking, against counts by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fitted import OneCoin, Skilled, made_point, made_run, tree_of

import bayescrowd as bc
from bayescrowd.criticism.thin_data import label_shares, thin_classes, thin_workers


def crowd(counts, n_items=200, n_classes=2, right=0.9, seed=0):
    """A table in which worker k labels the first ``counts[k]`` items; truth alternates."""
    random = np.random.default_rng(seed)
    rows = []
    for worker, count in counts.items():
        for item in range(count):
            truth = item % n_classes
            said = truth if random.random() < right else (truth + 1) % n_classes
            rows.append((item, worker, said))
    return bc.CrowdLabels.from_long(
        pd.DataFrame(rows, columns=["item", "worker", "label"]), classes=list(range(n_classes))
    )


def plain_shares(labels, probability, concentration):
    """n / (n + c) by worker and class, one annotation at a time; concentration [worker, class]."""
    n = np.zeros((labels.n_workers, probability.shape[1]))
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    for i, k, w in zip(labels.item_code, labels.worker_code, weight, strict=True):
        n[k] += w * probability[i]
    return n / (n + concentration)


BIG = {"a": 200, "b": 200, "c": 200}


@pytest.mark.parametrize("engine", ["vb", "collapsed-vi", "gibbs"])
def test_the_worker_with_few_labels_is_named(engine):
    labels = crowd(BIG | {"w7": 2, "w8": 1})
    fit = bc.fit(labels, bc.DawidSkene(), engine=engine, progress=False)
    (finding,) = thin_workers(fit.idata)
    assert (finding.severity, finding.code) == ("note", "thin-workers")
    assert finding.text == (
        "2 of 5 workers have so few labels that what the fit says of them is mostly the prior: 'w8' (1 label), "
        "'w7' (2 labels); together less than 1% of all labels."
    )
    assert "do not rank workers by accuracy alone" in finding.remedy
    shares = label_shares(fit.idata)
    assert shares["w8"] < shares["w7"] < 0.5 < 0.98 < shares["a"]


def test_shares_are_expected_counts_against_concentrations():
    labels = crowd({"a": 30, "b": 12, "c": 3}, n_items=30, n_classes=3)
    prior = np.stack([bc.diagonal(on, 1).table(3, 3) for on in (2, 5, 9)])
    model = bc.DawidSkene(confusion_prior=prior)
    probability = np.random.default_rng(0).dirichlet(np.ones(3), labels.n_items)
    tree = tree_of(labels, model, made_run(labels, model, state_probability=probability))
    rows = plain_shares(labels, probability, prior.sum(axis=-1))
    assert label_shares(tree).to_numpy() == pytest.approx(rows @ probability.mean(axis=0))
    assert label_shares(tree).index.tolist() == ["a", "b", "c"]


def test_weights_count():
    rows = pd.DataFrame(
        {"item": [0, 1, 0, 1], "worker": list("uuvv"), "label": [0, 1, 0, 1], "weight": [1.0, 1, 20, 20]}
    )
    labels = bc.CrowdLabels.from_long(rows, weight="weight")
    model = bc.DawidSkene(confusion_prior=1.0)
    probability = np.array([[1.0, 0.0], [0.0, 1.0]])
    tree = tree_of(labels, model, made_run(labels, model, state_probability=probability))
    assert label_shares(tree).tolist() == pytest.approx([1 / 3, 20 / 22])
    assert "'u' (2 labels" in thin_workers(tree)[0].text


@pytest.mark.parametrize("model", [bc.IDBLA(n_levels=2), bc.FixedIDBLA()])
def test_levels_have_their_parts_of_the_labels(model):
    labels = crowd({"a": 40, "b": 8}, n_items=40)
    random = np.random.default_rng(1)
    states = random.dirichlet(np.ones(2 * model.n_levels), labels.n_items)
    tree = tree_of(labels, model, made_run(labels, model, state_probability=states))
    cube = states.reshape(labels.n_items, model.n_levels, 2)
    by_level, by_class = cube.sum(axis=2), cube.sum(axis=1)
    free = 1 if isinstance(model, bc.FixedIDBLA) else 2
    shares = np.zeros(2)
    for level in range(free):
        for code in range(2):
            n = [(by_level[:count, level] * by_class[:count, code]).sum() for count in (40, 8)]
            weight = by_level[:, level].mean() / by_level[:, :free].mean(axis=0).sum() * by_class[:, code].mean()
            shares += weight * np.array([part / (part + 2.0) for part in n])
    assert label_shares(tree).to_numpy() == pytest.approx(shares)


def test_a_single_coin_per_worker_takes_all_labels():
    labels = crowd({"a": 40, "b": 3})
    model = OneCoin()
    tree = tree_of(labels, model, made_run(labels, model))
    assert label_shares(tree).tolist() == pytest.approx([40 / 45, 3 / 8])
    assert "'b' (3 labels" in thin_workers(tree)[0].text
    assert thin_classes(tree) == []


def test_severity_follows_the_part_of_the_labels():
    few = {f"w{k}": 2 for k in range(30)}
    labels = crowd({"a": 100, "b": 100} | few)
    (finding,) = thin_workers(bc.fit(labels, bc.DawidSkene(), engine="vb", progress=False).idata)
    assert finding.severity == "caution"
    assert finding.text.startswith("30 of 32 workers have")
    assert finding.text.endswith("and 27 more; together 23% of all labels.")
    assert "'w0' (2 labels), 'w1' (2 labels), 'w2' (2 labels) and" in finding.text


def test_one_thin_worker_in_the_singular():
    labels = crowd(BIG | {"w7": 1})
    (finding,) = thin_workers(bc.fit(labels, bc.DawidSkene(), engine="vb", progress=False).idata)
    assert finding.text.startswith("1 of 4 workers has so few")
    assert finding.text.endswith("'w7' (1 label, less than 1% of all).")


def test_a_worker_without_labels_is_all_prior():
    codes = {"item_code": [0, 0, 1, 1] * 5, "worker_code": [0, 1] * 10, "label_code": [0, 0, 1, 1] * 5}
    labels = bc.CrowdLabels.from_codes(**codes, items=["x", "y"], workers=["u", "v", "idle"], classes=[0, 1])
    fit = bc.fit(labels, bc.DawidSkene(), engine="vb", progress=False)
    assert label_shares(fit.idata)["idle"] == 0
    assert "'idle' (0 labels" in thin_workers(fit.idata)[0].text


@pytest.mark.parametrize("engine", ["em", "multispa"])
def test_without_a_prior_it_is_luck(engine):
    labels = crowd(BIG | {"w7": 4, "w8": 5})
    fit = bc.fit(labels, bc.DawidSkene(), engine=engine, progress=False)
    assert label_shares(fit.idata) is None
    (finding,) = thin_workers(fit.idata)
    assert "is mostly luck: 'w7' (4 labels, less than 1% of all)" in finding.text
    assert 'engine="gibbs"' in finding.remedy
    assert thin_classes(fit.idata) == []


def test_the_posterior_mode_has_a_prior():
    labels = crowd(BIG | {"w7": 2})
    model = bc.DawidSkene(confusion_prior=bc.diagonal(5, 2))
    fit = bc.fit(labels, model, engine="em", objective="posterior", progress=False)
    assert "mostly the prior: 'w7'" in thin_workers(fit.idata)[0].text
    # A mode counts one less per entry: about one label on each class, against 4 + 1.
    assert label_shares(fit.idata)["w7"] == pytest.approx(1 / 6, abs=0.01)


def test_methods_that_know_nothing_of_workers_have_nothing_to_say():
    labels = crowd(BIG | {"w7": 2})
    assert thin_workers(bc.baselines.majority_vote(labels).idata) == []
    assert thin_classes(bc.baselines.majority_vote(labels).idata) == []
    assert "luck" in thin_workers(bc.baselines.one_coin(labels).idata)[0].text


def test_priors_of_another_kind():
    labels = crowd({"a": 40, "b": 3})
    model = Skilled()
    tree = tree_of(labels, model, made_run(labels, model))
    assert label_shares(tree) is None
    assert "'b' (3 labels" in thin_workers(tree)[0].text


def test_a_crowd_of_one_has_another_finding():
    rows = pd.DataFrame({"item": [0, 1], "worker": "only", "label": [0, 1]})
    with pytest.warns(bc.BayescrowdWarning):
        labels = bc.CrowdLabels.from_long(rows)
    model = bc.DawidSkene()
    assert thin_workers(tree_of(labels, model, made_point(labels, model))) == []


def rare_class(n_rare):
    labels = crowd({"a": 150, "b": 150, "c": 150}, n_items=150, n_classes=3)
    truth = np.where(np.arange(150) < n_rare, 2, np.arange(150) % 2)
    model = bc.DawidSkene()
    return tree_of(labels, model, made_run(labels, model, state_probability=np.eye(3)[truth]))


def test_a_rare_class_is_named():
    (finding,) = thin_classes(rare_class(2))
    assert (finding.severity, finding.code) == ("note", "thin-classes")
    assert finding.text == (
        "Class 2 (about 2 items): for most workers the rows of that class in the confusion matrix are mostly the prior."
    )
    assert thin_classes(rare_class(3)) == []  # 3 labels against a concentration of 2.5
    assert thin_classes(rare_class(0)) == []  # an empty class has a finding of its own
    assert thin_workers(rare_class(2)) == []


def test_several_rare_classes_in_the_plural():
    labels = crowd({"a": 300, "b": 300}, n_items=300, n_classes=5)
    truth = np.r_[2, 2, 3, 3, 4, np.zeros(145, int), np.ones(150, int)]
    model = bc.DawidSkene()
    (finding,) = thin_classes(tree_of(labels, model, made_run(labels, model, state_probability=np.eye(5)[truth])))
    assert finding.text.startswith(
        "Classes 4 (about 1 item), 2 (about 2 items), 3 (about 2 items): for most workers the rows"
    )


def test_where_all_workers_are_thin_no_class_is_blamed():
    labels = crowd({f"w{k}": 2 for k in range(40)}, n_items=2)
    fit = bc.fit(labels, bc.DawidSkene(), engine="vb", progress=False)
    assert thin_classes(fit.idata) == []
    assert thin_workers(fit.idata)[0].severity == "caution"


def test_two_votes_are_not_ranked_above_two_hundred():
    """P54: 2 of 2 agreeing against 180 of 200."""
    rows = [(i, worker, i % 2) for i in range(200) for worker in "abc"]
    rows += [(i, "w200", i % 2 if i >= 20 else 1 - i % 2) for i in range(200)] + [(0, "w2", 0), (1, "w2", 1)]
    labels = bc.CrowdLabels.from_long(pd.DataFrame(rows, columns=["item", "worker", "label"]))
    fit = bc.fit(labels, bc.DawidSkene(), engine="gibbs", draws=300, progress=False)
    table = fit.workers()
    assert table.loc["w2", "accuracy"] < table.loc["w200", "accuracy"]
    assert table.loc["w2", "accuracy_lower"] < 0.7 < 0.85 < table.loc["w200", "accuracy_lower"]
    assert "'w2' (2 labels" in thin_workers(fit.idata)[0].text
    # Maximum likelihood puts 2 of 2 above 180 of 200: it gives no interval unasked, and the finding says what it is.
    plain = bc.fit(labels, bc.DawidSkene(), engine="em", progress=False)
    assert plain.workers().loc["w2", "accuracy"] > plain.workers().loc["w200", "accuracy"]
    assert plain.workers()["accuracy_lower"].isna().all()
    assert "mostly luck: 'w2'" in thin_workers(plain.idata)[0].text
    resampled = plain.workers(bootstrap=60)
    assert resampled.loc["w2", "accuracy_lower"] < resampled.loc["w200", "accuracy_lower"]
