"""Samplers against brute force: the golden values of four models on four items, and other tiny tables."""

from __future__ import annotations

import functools

import numpy as np
import oracle
import pytest
import running
from conformance import checks, exact
from conformance.cases import CASES, golden

import bayescrowd as bc

BCC = bc.DawidSkene(confusion_prior=bc.diagonal(2, 1))
SYMMETRIC = bc.IDBLA(n_levels=2, confusion_prior=0.5)
TWO = bc.IDBLA(n_levels=2, prevalence_prior=2.0, difficulty_prior=1.0, confusion_prior=exact.LEVELS)
FIXED = bc.FixedIDBLA(prevalence_prior=2.0, difficulty_prior=1.0, confusion_prior=1.0, easy_error=0.1, hard_error=0.5)

LOG_EVIDENCE = {"bcc": -7.3574632926, "symmetric": -7.6936118576, "two": -7.1638068481, "fixed": -6.9378586509}
GOLDEN = {"bcc": BCC, "symmetric": SYMMETRIC, "two": TWO, "fixed": FIXED}
P_CLASS = {
    "bcc": (0.641695, 0.168543, 0.508173, 0.753531),
    "symmetric": (0.5, 0.5, 0.5, 0.5),
    "two": (0.669267, 0.102654, 0.508229, 0.817265),
    "fixed": (0.558780, 0.255489, 0.497877, 0.672354),
}
P_LEVEL = {
    "two": np.stack(
        [(0.331503, 0.654025, 0.330035, 0.535508), 1 - np.array([0.331503, 0.654025, 0.330035, 0.535508])]
    ).T,
    "fixed": [
        (0.376967, 0.178833, 0.444200),
        (0.199812, 0.525606, 0.274582),
        (0.397311, 0.175284, 0.427406),
        (0.280546, 0.400434, 0.319020),
    ],
}
P_AGREE = (0.536905, 0.598512, 0.593155, 0.593155, 0.509226, 0.670833)

ENGINES = {
    "gibbs": ("gibbs", {"warmup": 200, "draws": 3000, "keep": 1000}),
    "gibbs-single": ("gibbs", {"scheme": "single", "warmup": 200, "draws": 3000, "keep": 1000}),
    "collapsed-gibbs": ("collapsed-gibbs", {"warmup": 200, "draws": 3000, "keep": 1000}),
    "collapsed-gibbs-single": ("collapsed-gibbs", {"scheme": "single", "warmup": 200, "draws": 3000, "keep": 1000}),
    "nuts": ("nuts", {"warmup": 400, "draws": 1000}),
}


@functools.cache
def known(name):
    return exact.posterior(GOLDEN[name], golden())


@pytest.mark.parametrize("name", GOLDEN)
def test_the_oracle_gives_the_golden_values(name):
    found = known(name)
    assert found.log_evidence == pytest.approx(LOG_EVIDENCE[name], abs=1e-9)
    np.testing.assert_allclose(found.class_probability[:, 0], P_CLASS[name], atol=1e-6)
    if name in P_LEVEL:
        np.testing.assert_allclose(found.level_probability, P_LEVEL[name], atol=1.1e-6)


@functools.cache
def agreement():
    """P(T_i = T_j) of every pair under the symmetric priors, by brute force."""
    data = oracle.of_labels(golden())
    every = oracle.assignments(data, 2)
    true_class, level = every % 2, every // 2
    log_p = np.zeros(len(every))
    count = lambda value, n: np.stack([(value == k).sum(1) for k in range(n)], axis=1)
    log_p += oracle._log_polya(count(true_class, 2), np.ones(2)) + oracle._log_polya(count(level, 2), np.ones(2))
    counts = np.zeros((len(every), 3, 2, 2, 2))
    for i, k, y in zip(data.item, data.worker, data.label, strict=True):
        counts[np.arange(len(every)), k, level[:, i], true_class[:, i], y] += 1
    log_p += oracle._log_polya(counts, np.full(2, 0.5)).sum((1, 2, 3))
    p = np.exp(log_p - LOG_EVIDENCE["symmetric"])
    assert p.sum() == pytest.approx(1, abs=1e-8)
    return np.array([p @ (true_class[:, i] == true_class[:, j]) for i in range(4) for j in range(i + 1, 4)])


def test_agreements_under_symmetric_priors():
    np.testing.assert_allclose(agreement(), P_AGREE, atol=1e-6)


def cross(quick):
    marks = lambda pair: () if pair in quick else pytest.mark.slow
    return [
        pytest.param(name, engine, id=f"{name}-{engine}", marks=marks((name, engine)))
        for name in GOLDEN
        for engine in ENGINES
        if not (engine.endswith("single") and name in ("bcc", "symmetric"))  # one variable at a time needs two
    ]


@pytest.mark.parametrize(("name", "engine"), cross({("two", "collapsed-gibbs"), ("fixed", "gibbs")}))
def test_samplers_agree_with_brute_force(name, engine):
    chosen, options = ENGINES[engine]
    model, labels = GOLDEN[name], golden()
    run = running.run(labels, model, chosen, seed=11, **options)
    assert run.status.code == "sampled"
    if name == "symmetric":
        # Classes and levels have no names here: chains may sit in any mode, only what renaming leaves alone is known.
        by_draw = checks.by_draw(model, run.draws, labels)
        by_class = by_draw.reshape(*by_draw.shape[:3], 2, 2).sum(3)
        assert exact.distance(exact.pairs(by_class), agreement()).max() < 4
        return
    exact.hold(model, labels, run, known(name))


def models(labels):
    """The three models with priors that favour the diagonal and tell the levels apart, for any label table."""
    n_classes, n_labels = labels.n_classes, len(labels.label_values)
    return {
        "dawid-skene": bc.DawidSkene(prevalence_prior=1.5, confusion_prior=bc.diagonal(2.5, 1)),
        "idbla": bc.IDBLA(
            n_levels=2,
            prevalence_prior=2.0,
            difficulty_prior=np.array([2.0, 1.0]),
            confusion_prior=exact.by_level(n_classes, n_labels),
        ),
        "fixed-idbla": bc.FixedIDBLA(
            prevalence_prior=1.5,
            difficulty_prior=np.array([1.0, 2.0, 1.5]),
            confusion_prior=bc.diagonal(2, 1),
            easy_error=0.1,
            hard_error=0.5,
        ),
    }


TINY = {"warmup": 100, "draws": 2000, "keep": 1000}
_QUICK = {("fixed-idbla", "everything", "gibbs"), ("idbla", "everything", "collapsed-gibbs")}
_TABLES = [
    pytest.param(name, case, engine, id="-".join((name, case, engine)), marks=marks)
    for name in ("dawid-skene", "idbla", "fixed-idbla")
    for case in CASES
    if case != "golden"
    for engine in ("gibbs", "collapsed-gibbs", "gibbs-single", "collapsed-gibbs-single")
    if not (engine.endswith("single") and (case != "everything" or name == "dawid-skene"))
    # Ragged tables and three classes are nothing new to both samplers and all models.
    if case in ("repeats", "everything") or (name, engine) in (("idbla", "collapsed-gibbs"), ("fixed-idbla", "gibbs"))
    for marks in [() if (name, case, engine) in _QUICK else pytest.mark.slow]
]


@functools.cache
def tiny(name, case):
    labels = CASES[case]()
    model = models(labels)[name]
    return labels, model, exact.posterior(model, labels)


@pytest.mark.parametrize(("name", "case", "engine"), _TABLES)
def test_any_table_agrees_with_brute_force(name, case, engine):
    """Ragged, repeats, labels that are no class, whole and fractional weights, gold, a class that nobody says."""
    labels, model, known = tiny(name, case)
    chosen, options = ENGINES[engine]
    run = running.run(labels, model, chosen, seed=5, **(options | TINY))
    exact.hold(model, labels, run, known)
    gold = np.flatnonzero(labels.gold_code >= 0)
    by_class = run.state_probability.reshape(labels.n_items, -1, labels.n_classes).sum(1)
    np.testing.assert_allclose(by_class[gold, labels.gold_code[gold]], 1, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["idbla", "fixed-idbla"])
def test_nuts_takes_any_table_with_levels(name):
    labels, model, known = tiny(name, "everything")
    run = running.run(labels, model, "nuts", seed=5, chains=2, warmup=400, draws=1500)
    exact.hold(model, labels, run, known)


@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
def test_fixed_rows_never_move(engine):
    labels = CASES["everything"]()
    model = models(labels)["fixed-idbla"]
    run = running.run(labels, model, engine, chains=2, warmup=20, draws=40)
    assert run.draws["free_confusion"].shape == (2, 40, 4, 1, 2, 3)
    for chain in range(2):
        for draw in range(0, 40, 13):
            point = {name: value[chain, draw] for name, value in run.draws.items()}
            table = np.asarray(model.confusion(point, running.inference.base.sizes_of(labels)))
            for level, error in ((1, 0.1), (2, 0.5)):
                given = oracle.diagonal(2, 3, 1 - error, error / 2)
                np.testing.assert_allclose(table[:, level], np.broadcast_to(given, (4, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs", pytest.param("nuts", marks=pytest.mark.slow)])
def test_one_level_is_dawid_skene_bit_for_bit(engine):
    labels = CASES["everything"]()
    prior = {"prevalence_prior": 1.5, "confusion_prior": bc.diagonal(2, 1)}
    options = {"chains": 2, "warmup": 30, "draws": 40, "seed": 3}
    one = running.run(labels, bc.IDBLA(n_levels=1, **prior), engine, **options)
    other = running.run(labels, bc.DawidSkene(**prior), engine, **options)
    assert one.draws.keys() == other.draws.keys() == {"prevalence", "confusion"}
    for name, value in one.draws.items():
        np.testing.assert_array_equal(value, other.draws[name])
    np.testing.assert_array_equal(one.state_probability, other.state_probability)
    np.testing.assert_array_equal(one.log_likelihood, other.log_likelihood)
