"""The three estimators as engines and as starts: awkward tables, refusals, fall-backs, invariances."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from moments import exact_pairs

import bayescrowd as bc
from bayescrowd.errors import EngineError
from bayescrowd.inference.starts import majority, resolve
from bayescrowd.moments.cooccurrence import cooccurrence
from bayescrowd.moments.imputation import designated_blocks
from bayescrowd.moments.multispa import multispa
from bayescrowd.moments.multispa_kl import multispa_kl
from bayescrowd.moments.symnmf import symnmf

ENGINES = ["multispa", "multispa-kl", "symnmf"]

every_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module")
def crowd():
    return bc.simulate(
        bc.DawidSkene(confusion_prior=bc.diagonal(6, 1)), n_items=400, n_workers=9, classes=3, labels_per_item=5, seed=2
    )


def check(fit):
    point = fit.idata["point_estimate"].dataset
    for name in ("prevalence", "confusion"):
        value = point[name].to_numpy()
        assert np.isfinite(value).all()
        assert (value >= 0).all()
        np.testing.assert_allclose(value.sum(axis=-1), 1)
    np.testing.assert_allclose(fit.class_probabilities().sum(axis=1), 1)


@every_engine
def test_recovers_simulated_labels(engine, crowd):
    fit = bc.fit(crowd.labels, engine=engine)
    check(fit)
    assert fit.converged
    assert "estimated from the moments" in str(fit).lower()
    right = (fit.consensus()["class"] == crowd.labels.truth).mean()
    best = (bc.fit(crowd.labels, engine="em").consensus()["class"] == crowd.labels.truth).mean()
    assert right >= best - {"multispa": 0.08, "multispa-kl": 0.06, "symnmf": 0.03}[engine]


@every_engine
def test_order_of_rows_is_irrelevant_and_names_follow(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    shuffled = frame.sample(frac=1, random_state=1)
    renamed = shuffled.assign(
        label=shuffled["label"].map(lambda k: f"c{k}"), worker="w" + shuffled["worker"].astype(str)
    )
    one = bc.fit(bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label"), engine=engine)
    two = bc.fit(bc.CrowdLabels.from_long(renamed, item="item", worker="worker", label="label"), engine=engine)
    table = two.class_probabilities().loc[one.class_probabilities().index]
    np.testing.assert_allclose(
        one.class_probabilities().to_numpy(),
        table[[f"c{k}" for k in one.class_probabilities().columns]].to_numpy(),
        atol=1e-6,
    )


@every_engine
def test_classes_permute(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    classes = list(crowd.labels.classes)
    kinds = [classes, classes[::-1]]
    fits = [
        bc.fit(
            bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", classes=kind), engine=engine
        )
        for kind in kinds
    ]
    one, two = (fit.class_probabilities()[classes].to_numpy() for fit in fits)
    np.testing.assert_allclose(one, two, atol=1e-5)


@every_engine
def test_a_worker_without_labels_changes_nothing(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    alone = pd.DataFrame({"item": [10**6], "worker": [10**6], "label": [frame["label"].iloc[0]]})
    one = bc.fit(bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label"), engine=engine)
    more = bc.CrowdLabels.from_long(
        pd.concat([frame, alone], ignore_index=True), item="item", worker="worker", label="label"
    )
    two = bc.fit(more, engine=engine)
    assert any("1 of 10" in text and str(10**6) in text for text in two.warnings)
    np.testing.assert_allclose(
        two.class_probabilities().loc[one.class_probabilities().index], one.class_probabilities(), atol=0.02
    )


@every_engine
def test_more_labels_than_classes(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    random = np.random.default_rng(0)
    unsure = random.random(len(frame)) < 0.2
    frame = frame.assign(label=frame["label"].astype(object).where(~unsure, "can't tell"))
    labels = bc.CrowdLabels.from_long(
        frame,
        item="item",
        worker="worker",
        label="label",
        classes=list(crowd.labels.classes),
        labels=[*crowd.labels.classes, "can't tell"],
    )
    fit = bc.fit(labels, engine=engine)
    check(fit)
    assert fit.confusion(fit.workers().index[0]).shape == (3, 4)
    truth = crowd.labels.truth.loc[fit.consensus().index]
    assert (fit.consensus()["class"] == truth).mean() > 0.8


@every_engine
def test_gold_is_respected(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    frame = frame.assign(gold=frame["item"].map(crowd.labels.truth.iloc[:50]))
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", gold="gold")
    table = bc.fit(labels, engine=engine).class_probabilities()
    gold = labels.gold.dropna()
    assert all(table.loc[item, value] == 1 for item, value in gold.items())


@every_engine
@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
@pytest.mark.parametrize("kind", ["weights", "repeats"])
def test_weights_and_repeats(engine, kind, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    if kind == "weights":
        frame = frame.assign(weight=2.0)
        labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", weight="weight")
    else:
        labels = bc.CrowdLabels.from_long(
            pd.concat([frame, frame.iloc[:100]]), item="item", worker="worker", label="label", duplicates="keep"
        )
    fit = bc.fit(labels, engine=engine)
    check(fit)
    plain = bc.fit(crowd.labels, engine=engine)
    same = (fit.consensus()["class"] == plain.consensus()["class"].loc[fit.consensus().index]).mean()
    assert same > 0.93


@pytest.mark.parametrize("engine", ENGINES)
def test_a_class_that_nobody_says_and_a_worker_who_never_varies(engine):
    random = np.random.default_rng(4)
    truth = random.integers(2, size=200)
    rows = [(i, w, int(truth[i]) if random.random() < 0.8 else 1 - int(truth[i])) for i in range(200) for w in range(4)]
    rows += [(i, "same", 0) for i in range(200)]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", classes=[0, 1, 2])
    fit = bc.fit(labels, engine=engine)
    check(fit)
    assert (fit.consensus()["class"].to_numpy() == truth).mean() > 0.85
    constant = fit.confusion("same").to_numpy()
    assert constant[:2, 0].min() > 0.8


def test_two_workers_are_refused_by_symnmf_and_named_by_the_others():
    frame = pd.DataFrame({"item": [0, 0, 1, 1, 2, 2], "worker": ["a", "b"] * 3, "label": [1, 1, 0, 0, 0, 1]})
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label")
    with pytest.raises(EngineError, match="at least three workers"):
        bc.fit(labels, engine="symnmf")
    for engine in ("multispa", "multispa-kl"):
        check(bc.fit(labels, engine=engine))


def bipartite(n_items=200):
    """Workers a, b on one side and x, y on the other: every item has one of each."""
    random = np.random.default_rng(0)
    truth = random.integers(2, size=n_items)
    rows = [
        (i, worker, int(truth[i] ^ (random.random() < 0.2)))
        for i in range(n_items)
        for worker in ("ab"[i % 2], "xy"[i // 2 % 2])
    ]
    return bc.CrowdLabels.from_long(
        pd.DataFrame(rows, columns=["item", "worker", "label"]), item="item", worker="worker", label="label"
    )


def test_a_bipartite_graph_is_refused_by_symnmf():
    with pytest.raises(EngineError, match="bipartite"):
        bc.fit(bipartite(), engine="symnmf")


def test_a_start_falls_back_to_majority_and_says_so():
    labels = bipartite()
    notes: list[str] = []
    start = resolve("symnmf", labels, bc.DawidSkene(), notes=notes)
    np.testing.assert_array_equal(start, majority(labels))
    assert len(notes) == 1
    assert "The start is the majority vote, not 'symnmf'" in notes[0]
    fit = bc.fit(labels, bc.DawidSkene(), engine="em", init="symnmf")
    assert any("The start is the majority vote" in text for text in fit.warnings)


def test_sparse_labels_make_multispa_fall_back():
    frame = pd.DataFrame(
        [(i, f"w{i}{j}", (i + j) % 2) for i in range(30) for j in range(2)], columns=["item", "worker", "label"]
    )
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label")
    notes: list[str] = []
    resolve("multispa", labels, bc.DawidSkene(), notes=notes)
    assert "too few items in common" in notes[0]


@pytest.mark.parametrize(
    ("engine", "target"),
    [
        *(
            (engine, target)
            for engine in ENGINES
            for target in ("em", "vb", "collapsed-vi", "gibbs", "collapsed-gibbs")
        ),
        ("symnmf", "nuts"),
    ],
)
@pytest.mark.slow
def test_as_starts_of_every_engine(engine, target, crowd):
    options = {"chains": 2, "warmup": 20, "draws": 20} if target in ("gibbs", "collapsed-gibbs", "nuts") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)  # so few draws cannot agree
        fit = bc.fit(crowd.labels, bc.DawidSkene(), engine=target, init=engine, progress=False, **options)
    assert (fit.consensus()["class"] == crowd.labels.truth).mean() > 0.85


def test_models_with_levels_start_from_moments_too(crowd):
    start = resolve("multispa", crowd.labels, bc.IDBLA(n_levels=2))
    assert start.shape == (400, 6)
    np.testing.assert_allclose(start.sum(axis=1), 1)


@every_engine
def test_other_models_are_refused(engine, crowd):
    with pytest.raises(EngineError, match=f"Use it as a start, init='{engine}'"):
        bc.fit(crowd.labels, bc.IDBLA(), engine=engine)


@pytest.mark.parametrize(
    ("engine", "options", "match"),
    [
        ("multispa", {"align": "oracle"}, "align must be"),
        ("multispa", {"compat": "matlab"}, "compat must be"),
        ("multispa", {"shrink": -1.0}, "shrink"),
        ("multispa-kl", {"solver": "newton"}, "solver must be"),
        ("multispa-kl", {"max_iter": 0}, "max_iter"),
        ("symnmf", {"imputation": "mean"}, "imputation must be"),
        ("symnmf", {"designated": [1]}, "designated workers are for"),
        ("symnmf", {"imputation": "designated", "designated": ["nobody"]}, "nobody"),
        ("symnmf", {"decay": 2.0}, "decay"),
        ("symnmf", {"decode": "mean"}, "decode must be"),
    ],
)
def test_wrong_options(engine, options, match, crowd):
    with pytest.raises(EngineError, match=match):
        bc.fit(crowd.labels, engine=engine, **options)


def test_decoding_and_polishing(crowd):
    by_map = bc.fit(crowd.labels, engine="multispa")
    by_ml = bc.fit(crowd.labels, engine="multispa", decode="ml")
    assert not np.allclose(by_map.class_probabilities(), by_ml.class_probabilities())
    polished = bc.fit(crowd.labels, engine="multispa", polish=300)
    em = bc.fit(crowd.labels, engine="em", init=polished)
    np.testing.assert_allclose(polished.class_probabilities(), em.class_probabilities(), atol=0.02)
    assert "300 passes of EM" in polished.idata.attrs["status_sentence"]
    flat = bc.fit(crowd.labels, engine="multispa", polish=5, polish_prevalence="uniform")
    np.testing.assert_allclose(flat.idata["point_estimate"]["prevalence"], 1 / 3)


@pytest.mark.slow
def test_mirror_descent_goes_where_em_goes():
    random = np.random.default_rng(2)
    prevalence = np.array([0.4, 0.35, 0.25])
    confusion = exact_pairs.sparse(10, 3, random)
    labels = exact_pairs.labels_of(confusion, prevalence, 3000, random)
    pairs = cooccurrence(labels)
    em = multispa_kl(labels, pairs=pairs, prior=0, weights="uniform", max_iter=400)
    mirror = multispa_kl(labels, pairs=pairs, solver="mirror", weights="uniform", max_iter=400)
    assert np.diff(mirror.objective).max() <= 1e-8  # modelled shares are raised to 1e-6, as in the published code
    assert mirror.objective[-1] == pytest.approx(em.objective[-1], rel=0.05)
    assert exact_pairs.error(em.confusion, em.prevalence, mirror.confusion, mirror.prevalence) < 2e-3


def test_results_survive_a_round_trip(tmp_path, crowd):
    fit = bc.fit(crowd.labels, engine="symnmf")
    fit.save(tmp_path / "fit.nc")
    again = bc.load(tmp_path / "fit.nc")
    pd.testing.assert_frame_equal(again.class_probabilities(), fit.class_probabilities())
    assert again.settings["restarts"] == 10


def test_same_seed_same_numbers_and_compiled_once(crowd):
    from bayescrowd.moments import factorisation, imputation

    one = bc.fit(crowd.labels, engine="symnmf", seed=3).class_probabilities()
    sizes = [function._cache_size() for function in (factorisation._rotate, imputation._sweeps)]
    two = bc.fit(crowd.labels, engine="symnmf", seed=3).class_probabilities()
    assert sizes == [function._cache_size() for function in (factorisation._rotate, imputation._sweeps)]
    pd.testing.assert_frame_equal(one, two)


@every_engine
def test_a_declared_worker_without_labels_changes_nothing(engine, crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    names = {"item": "item", "worker": "worker", "label": "label"}
    one = bc.fit(bc.CrowdLabels.from_long(frame, **names), engine=engine)
    idle = bc.CrowdLabels.from_long(frame, **names, workers=[*sorted(set(frame["worker"])), "idle"])
    two = bc.fit(idle, engine=engine)
    assert "'idle'" in two.warnings[-1]
    atol = 0.03 if engine == "symnmf" else 1e-6  # workers are visited in the order of their codes
    np.testing.assert_allclose(two.class_probabilities(), one.class_probabilities(), atol=atol)


@every_engine
@pytest.mark.filterwarnings("ignore::bayescrowd.BayescrowdWarning")
@pytest.mark.parametrize("kind", ["one worker", "one label per item", "items without labels", "tiny weights"])
def test_odd_tables(engine, kind):
    random = np.random.default_rng(0)
    rows = [(i, w, int(random.integers(2))) for i in range(30) for w in range(4)]
    more = {}
    if kind == "one worker":
        rows = [row for row in rows if row[1] == 0]
    elif kind == "one label per item":
        rows = [row for row in rows if row[1] == row[0] % 4]
    elif kind == "items without labels":
        more = {"items": list(range(40))}
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    if kind == "tiny weights":
        frame, more = frame.assign(weight=0.3), {"weight": "weight"}
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label", **more)
    if engine == "symnmf" and kind in ("one worker", "one label per item"):
        with pytest.raises(EngineError, match="pair statistics"):
            bc.fit(labels, engine=engine)
        return
    fit = bc.fit(labels, engine=engine)
    check(fit)
    np.testing.assert_allclose(fit.idata["point_estimate"]["prevalence"].sum(), 1)


def test_a_class_that_nobody_says_takes_no_part(crowd):
    frame = crowd.labels.to_frame()[["item", "worker", "label"]]
    labels = bc.CrowdLabels.from_long(
        frame, item="item", worker="worker", label="label", classes=[*crowd.labels.classes, "never"]
    )
    for engine in ENGINES:
        plain = bc.fit(crowd.labels, engine=engine).class_probabilities()
        for options in ({}, {"decode": "ml"}, {"polish": 3, "polish_prevalence": "uniform"}):
            table = bc.fit(labels, engine=engine, **options).class_probabilities()
            assert (table["never"] == 0).all()
        table = bc.fit(labels, engine=engine).class_probabilities()
        # It stays a label value, so smoothing spreads a little mass on it.
        np.testing.assert_allclose(table.loc[plain.index, plain.columns], plain, atol=0.01)


def test_released_rules_on_a_small_crowd_are_refused():
    with pytest.raises(EngineError, match="more than seven partners"):
        bc.fit(bc.datasets.load("anesthesia"), engine="multispa", compat="released")


def test_a_start_for_what_needs_none_is_refused(crowd):
    with pytest.raises(EngineError, match="needs no start"):
        bc.fit(crowd.labels, engine="symnmf", init="majority")


def test_designated_workers_by_their_ids(crowd):
    ids = list(crowd.labels.workers[:2])
    fit = bc.fit(crowd.labels, engine="symnmf", imputation="designated", designated=ids)
    check(fit)
    # These two share few items with the others: they are no designated workers, but the estimate is of use.
    assert (fit.consensus()["class"] == crowd.labels.truth).mean() > 0.7


def test_a_ring_of_five_is_completed_step_by_step():
    """No triangle: blocks at distance two come first, then the diagonal."""
    random = np.random.default_rng(1)
    confusion = exact_pairs.sparse(5, 2, random)
    prevalence = np.array([0.6, 0.4])
    keep = np.zeros((5, 5), bool)
    for one in range(5):
        keep[one, (one + 1) % 5] = keep[(one + 1) % 5, one] = True
    pairs = exact_pairs.pairs_of(confusion, prevalence, keep, n_items=1e16)
    blocks, filled = designated_blocks(pairs)
    assert filled.all()
    np.testing.assert_allclose(blocks, np.einsum("k,mka,nkb->mnab", prevalence, confusion, confusion), atol=1e-6)


def test_estimators_are_equal_with_pairs_at_hand(crowd):
    pairs = cooccurrence(crowd.labels)
    for estimator in (multispa, multispa_kl, symnmf):
        one, two = estimator(crowd.labels), estimator(crowd.labels, pairs=pairs)
        np.testing.assert_array_equal(one.confusion, two.confusion)


@pytest.mark.parametrize(
    ("engine", "options", "said"),
    [
        ("multispa-kl", {"max_iter": 10**12}, "max_iter must be at most"),
        ("symnmf", {"sweeps": 10**9}, "sweeps must be at most"),
        ("symnmf", {"restarts": 10**9}, "restarts must be at most"),
        ("multispa-kl", {"solver": "mirror", "prior": 5.0}, "no effect: prior"),
        ("multispa", {"compat": "released", "shrink": 5.0}, "no effect: shrink"),
        ("symnmf", {"imputation": "designated", "loss": "squared"}, "no effect: loss"),
        ("symnmf", {"imputation": "designated", "designated": [["w0"]]}, "gave no labels"),
        ("symnmf", {"min_count": 1e6}, "lower min_count"),
    ],
)
def test_options_that_cannot_serve_are_refused(engine, options, said, crowd):
    with pytest.raises(EngineError, match=said):
        bc.fit(crowd.labels, bc.DawidSkene(), engine=engine, **options)


def test_designated_workers_survive_the_settings():
    random = np.random.default_rng(0)
    confusion = np.tile(0.7 * np.eye(2) + 0.15, (5, 1, 1))
    frame = exact_pairs.labels_of(confusion, np.full(2, 0.5), 300, random).to_frame()[["item", "worker", "label"]]
    frame["worker"] = [("w", int(worker)) for worker in frame["worker"]]
    labels = bc.CrowdLabels.from_long(frame, item="item", worker="worker", label="label")
    how = {"imputation": "designated", "designated": [("w", 0), ("w", 1)]}
    fit = bc.fit(labels, "dawid-skene", engine="symnmf", **how)
    again = bc.fit(labels, "dawid-skene", engine="symnmf", **fit.settings)
    np.testing.assert_array_equal(fit.class_probabilities(), again.class_probabilities())


def test_pairs_with_hardly_an_item_in_common_are_said():
    random = np.random.default_rng(1)
    truth = random.integers(3, size=300)
    rows = [
        (int(i), w, int(truth[i]) if random.random() < 0.8 else int(random.integers(3)))
        for w in range(300)
        for i in random.choice(300, 4, replace=False)
    ]
    labels = bc.CrowdLabels.from_long(rows)
    for engine in ENGINES:
        fit = bc.fit(labels, "dawid-skene", engine=engine)
        assert any("in common in the median" in text for text in fit.warnings)
        assert "in common in the median" in str(fit.diagnose(random_start=False))


def test_kl_runs_on_where_pairs_share_many_items():
    random = np.random.default_rng(2)
    confusion = random.dirichlet(np.ones(3), size=(8, 3)) * 0.6 + 0.4 * np.eye(3)
    labels = exact_pairs.labels_of(confusion, np.array([0.6, 0.3, 0.1]), 8000, random)
    fit = bc.fit(labels, "dawid-skene", engine="multispa-kl")
    assert fit.idata["optimization"].sizes["iteration"] > 11
    early = bc.fit(labels, "dawid-skene", engine="multispa-kl", max_iter=10)
    wrong = [
        exact_pairs.error(
            confusion, np.array([0.6, 0.3, 0.1]), point["confusion"].to_numpy(), point["prevalence"].to_numpy()
        )
        for point in (one.idata["point_estimate"].dataset.sel(worker=np.arange(8)) for one in (fit, early))
    ]
    assert wrong[0] < wrong[1]
    assert "stopped before the end" in str(early)


def test_two_sides_are_said_by_kl():
    random = np.random.default_rng(3)
    truth = random.integers(2, size=400)
    rows = [
        (i, worker, int(k) if random.random() < 0.8 else 1 - int(k))
        for i, k in enumerate(truth)
        for worker in (f"a{i % 3}", f"b{i // 3 % 3}")
    ]
    fit = bc.fit(bc.CrowdLabels.from_long(rows), "dawid-skene", engine="multispa-kl")
    assert any("two sides" in text for text in fit.warnings)


@pytest.mark.parametrize("engine", ["em", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_a_start_that_could_not_be_taken_is_said_once_and_by_the_diagnosis(engine):
    rows = [(i, worker, i % 2) for i in range(20) for worker in ("a", "b")]
    short = {"draws": 50, "warmup": 50} if engine == "gibbs" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        fit = bc.fit(
            bc.CrowdLabels.from_long(rows), "dawid-skene", engine=engine, init="symnmf", progress=False, **short
        )
    assert sum("not 'symnmf'" in text for text in fit.warnings) == 1
    assert str(fit.diagnose(random_start=False)).count("not 'symnmf'") == 1
