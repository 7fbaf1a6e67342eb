"""Real data: accuracies against published figures and independent recomputations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scoring import accuracy, hits

import bayescrowd as bc
from bayescrowd.inference.starts import majority

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::bayescrowd.ConvergenceWarning"),
]

ERRORS = {"bluebird": 10.2, "rte": 7.3, "dog": 15.9, "web": 17.4, "trec": 29.8, "sp": 8.5, "product": 6.0}
"""Percent of the items with truth that maximum likelihood gets wrong; half a point covers ties and stopping rules."""

DAWID_SKENE = {"dog": 0.838, "rte": 0.925, "bluebird": 0.88}
"""Accuracy that Dawid-Skene with default priors reaches."""


def error(fit, labels):
    """Percent of the items with truth whose most probable class is another one."""
    truth = labels.truth.dropna()
    found = fit.consensus().loc[truth.index, "class"]
    return 100 * float((found.to_numpy() != truth.to_numpy()).mean())


@pytest.mark.parametrize("name", ERRORS)
def test_error_of_maximum_likelihood(name, real_data):
    labels = real_data(name)
    fit = bc.fit(labels, engine="em", progress=False)
    objective = fit.idata["optimization"]["objective"].to_numpy()
    assert np.diff(objective).min() >= -1e-9 * abs(objective[-1])
    assert fit.converged
    assert error(fit, labels) == pytest.approx(ERRORS[name], abs=0.5)


@pytest.mark.parametrize("engine", ["em", "vb", "collapsed-vi"])
@pytest.mark.parametrize("name", DAWID_SKENE)
def test_dawid_skene_by_deterministic_engines(name, engine, unrepeated):
    fit = bc.fit(unrepeated(name), bc.DawidSkene(), engine=engine, progress=False)
    assert fit.converged
    assert accuracy(fit) >= DAWID_SKENE[name]


@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
@pytest.mark.parametrize("name", DAWID_SKENE)
def test_dawid_skene_by_samplers_with_five_seeds(name, engine, unrepeated):
    labels = unrepeated(name)
    for seed in range(5):
        fit = bc.fit(labels, bc.DawidSkene(), engine=engine, seed=seed, progress=False)
        assert fit.converged
        assert accuracy(fit) >= DAWID_SKENE[name]


def test_dawid_skene_on_bluebird_by_nuts(unrepeated):
    fit = bc.fit(unrepeated("bluebird"), bc.DawidSkene(), engine="nuts", warmup=300, draws=500, progress=False)
    assert accuracy(fit) >= DAWID_SKENE["bluebird"]


def test_web_with_a_flat_prior(unrepeated):
    model = bc.DawidSkene(confusion_prior=1.0)
    fit = bc.fit(unrepeated("web"), model, engine="collapsed-vi", moments="zero", progress=False)
    assert accuracy(fit) >= 0.83


@pytest.mark.parametrize(("name", "least"), [("zencrowd_us", 0.905), ("zencrowd_all", 0.86)])
def test_difficulty_is_real_in_zencrowd(name, least, unrepeated):
    labels = unrepeated(name)
    levels = accuracy(bc.fit(labels, bc.IDBLA(), engine="collapsed-vi", progress=False))
    plain = accuracy(bc.fit(labels, bc.DawidSkene(), engine="collapsed-vi", progress=False))
    assert levels >= least
    assert plain < levels - 0.03
    for seed in range(5):
        fit = bc.fit(labels, bc.IDBLA(), engine="gibbs", seed=seed, warmup=300, draws=300, progress=False)
        assert accuracy(fit) >= least


@pytest.fixture
def web_of_76(real_data):
    """The 2653 items with truth, and the workers with at least 30 labels on them: 76 workers, 14638 labels."""
    labels = real_data("web")
    frame = labels.to_frame()[["item", "worker", "label"]]
    truth = labels.truth.dropna()
    frame = frame[frame["item"].isin(truth.index)]
    counts = frame["worker"].value_counts()
    frame = frame[frame["worker"].isin(counts.index[counts >= 30])]
    frame = frame.assign(truth=frame["item"].map(truth))
    made = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", truth="truth")
    assert (made.n_workers, made.n_annotations) == (76, 14638)
    return made


PAPER = {
    ("rte", "idbla"): (bc.IDBLA(confusion_prior=1.0, n_levels=2), {"moments": "zero"}, 7.13),
    ("rte", "fixed-idbla"): (bc.FixedIDBLA(confusion_prior=1.0), {"moments": "zero"}, 7.50),
    ("web", "idbla"): (bc.IDBLA(confusion_prior=1.0, n_levels=2), {"moments": "zero"}, 16.66),
    ("web", "fixed-idbla"): (bc.FixedIDBLA(confusion_prior=1.0), {"moments": "zero-split"}, 18.77),
}
"""Published errors in percent (arXiv:1706.03930) with the settings that come near; its own are not all stated."""


@pytest.mark.parametrize("row", PAPER, ids="-".join)
def test_the_papers_rows_within_a_point(row, unrepeated, web_of_76):
    labels = web_of_76 if row[0] == "web" else unrepeated(row[0])
    model, options, published = PAPER[row]
    fit = bc.fit(labels, model, engine="collapsed-vi", progress=False, **options)
    assert 100 * (1 - accuracy(fit)) == pytest.approx(published, abs=1.0)


def test_the_papers_own_moments_on_rte(unrepeated):
    model = bc.IDBLA(confusion_prior=1.0, n_levels=2)
    fit = bc.fit(unrepeated("rte"), model, engine="collapsed-vi", family="factorised", moments="paper", progress=False)
    assert 100 * (1 - accuracy(fit)) == pytest.approx(7.13, abs=1.0)


def test_without_the_start_levels_permute_their_classes(web_of_76):
    """The paper's table of errors with and without initialisation, on the set that we have: .160 against .409 there."""
    model = bc.IDBLA(confusion_prior=1.0, n_levels=2)
    options = {"engine": "collapsed-vi", "moments": "zero", "progress": False}
    at_random = np.random.default_rng(0).dirichlet(np.ones(10), web_of_76.n_items)
    assert accuracy(bc.fit(web_of_76, model, **options)) > 0.83
    assert accuracy(bc.fit(web_of_76, model, init=at_random, **options)) < 0.7


def synthetic(model):
    """100 workers, 1000 items, about 11600 labels, 5 classes; how often the majority is right."""
    crowd = bc.simulate(model, n_items=1000, n_workers=100, classes=5, labels_per_item=(11, 12), seed=1)
    table = pd.DataFrame(majority(crowd.labels), index=crowd.labels.items, columns=crowd.labels.classes)
    return crowd.labels, hits(table, crowd.labels.truth)


def test_a_synthetic_set_of_the_papers_size_with_and_without_the_start():
    """How the paper made its set is not stated, so its errors (majority 19.8 %, IDBLA 9.5 %) cannot be met exactly.

    Here the majority errs about as often, and IDBLA removes as large a part of its errors.
    """
    prior = np.stack([bc.diagonal(9, 1).table(5, 5), bc.diagonal(1.6, 1).table(5, 5)])
    shares = {"prevalence_prior": 50.0, "difficulty_prior": np.array([27.0, 23.0])}
    labels, votes = synthetic(bc.IDBLA(n_levels=2, confusion_prior=prior, **shares))
    assert 0.12 < 1 - votes < 0.30
    options = {"engine": "collapsed-vi", "progress": False}
    assert 1 - accuracy(bc.fit(labels, bc.IDBLA(n_levels=2), **options)) < 0.65 * (1 - votes)
    flat = bc.IDBLA(n_levels=2, confusion_prior=1.0)
    at_random = np.random.default_rng(0).dirichlet(np.ones(10), labels.n_items)
    with_start = accuracy(bc.fit(labels, flat, **options))
    assert with_start > 0.5
    assert accuracy(bc.fit(labels, flat, init=at_random, **options)) < with_start - 0.1


def test_a_synthetic_set_with_fixed_levels():
    model = bc.FixedIDBLA(confusion_prior=bc.diagonal(4, 1), prevalence_prior=50.0, difficulty_prior=20.0)
    labels, votes = synthetic(model)
    fit = bc.fit(labels, bc.FixedIDBLA(), engine="collapsed-vi", progress=False)
    # A third of the items are pure guessing: hardly anything is left to win in accuracy, but workers agree less there.
    assert accuracy(fit) >= votes - 0.01
    agreement = fit.items().groupby("difficulty")["agreement"].mean()
    assert agreement["easy"] > agreement["hard"] + 0.2
