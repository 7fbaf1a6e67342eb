from __future__ import annotations

import functools
import inspect
import json
from typing import Any

import arviz as az
import fitted
import left_out
import numpy as np
import oracle
import pytest
import running
from conformance.toys import Ability, Ease, Groups, Guessing
from left_out import Parity
from scipy.special import logsumexp

import bayescrowd as bc
from bayescrowd.criticism import _refit
from bayescrowd.criticism.kfold import KFold, kfold
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, LabelError, ModelError

PRIOR = bc.diagonal(3, 1)
DS = bc.DawidSkene(confusion_prior=PRIOR)
BY = ("item", "annotation", "worker")


def _tree(labels: CrowdLabels, model: Any, engine: str, **options: Any) -> Any:
    """A result as the front door builds it, but silent about runs that are too short to converge."""
    tree = fitted.tree_of(labels, model, running.run(labels, model, engine, **options), engine)
    tree.attrs["settings"] = json.dumps(options)
    return tree


@functools.cache
def _gibbs() -> Any:
    return _tree(fitted.d1(), DS, "gibbs", draws=800, warmup=50, chains=2)


@pytest.mark.parametrize("by", ["item", "worker"])
def test_as_many_folds_as_pieces_is_exact_leave_one_out(by: str) -> None:
    expected = left_out.exact(fitted.d1(), by)
    found = kfold(_gibbs(), folds=len(expected), by=by)
    np.testing.assert_allclose(found.elpd_i, expected, atol=0.08)
    assert isinstance(found, az.ELPDData)
    assert found.elpd == pytest.approx(float(found.elpd_i.sum()))
    assert found.se == pytest.approx(np.sqrt(len(expected) * found.elpd_i.to_numpy().var(ddof=1)))
    assert found.p == pytest.approx(float(found.p_kfold_i.sum()))
    assert found.p > 0
    assert found.n_samples == 1600
    assert sorted(found.fold.to_numpy()) == list(range(len(expected)))
    assert found.elpd_i[by].equals(_gibbs()["observed_data"].dataset[by])
    assert found.advice == []
    assert f"{len(expected)}-fold cross validation by {by}" in str(found)


def test_folds_of_several_labels() -> None:
    # Each label of a fold is judged by itself, given what no label of the fold says.
    labels = fitted.d1()
    found = kfold(_gibbs(), folds=3, by="annotation")
    fold = found.fold.to_numpy()

    def evidence(rows: np.ndarray) -> float:
        table = left_out.without(labels, "annotation", np.flatnonzero(~rows))
        return oracle.posterior(oracle.of_labels(table)).log_evidence

    for row in range(15):
        seen = fold != fold[row]
        expected = evidence(seen | (np.arange(15) == row)) - evidence(seen)
        assert float(found.elpd_i[row]) == pytest.approx(expected, abs=0.08)


def test_levels_of_difficulty() -> None:
    labels = fitted.d1()
    model = bc.IDBLA(n_levels=2, confusion_prior=PRIOR)
    tree = _tree(labels, model, "gibbs", draws=600, warmup=100, chains=2)
    expected = left_out.exact(labels, "worker", n_levels=2)
    np.testing.assert_allclose(kfold(tree, folds=3, by="worker").elpd_i, expected, atol=0.1)


def _log_mean(labels: CrowdLabels, by: str, pieces: list[int], draws: dict[str, np.ndarray], of: Any) -> np.ndarray:
    """By the definition: p(piece | labels of no piece, parameters), averaged over draws; ``of`` gives p(table)."""
    seen = left_out.without(labels, by, np.array(pieces))
    logs = []
    for draw in range(len(next(iter(draws.values())))):
        values = {name: value[draw] for name, value in draws.items()}
        with_one = [left_out.without(labels, by, np.array([other for other in pieces if other != p])) for p in pieces]
        logs.append([of(table, values) - of(seen, values) for table in with_one])
    return logsumexp(np.array(logs), axis=0) - np.log(len(logs))


def _of_tables(table: CrowdLabels, values: dict[str, np.ndarray]) -> float:
    levels = values.get("difficulty_prevalence", np.ones(1))
    shares = (levels[:, None] * values["prevalence"]).ravel()
    rows = values["confusion"].reshape(table.n_workers, -1, values["confusion"].shape[-1])
    return left_out.log_p(table, shares, lambda worker, label, item: rows[worker, :, label])


def _of_guesses(table: CrowdLabels, values: dict[str, np.ndarray]) -> float:
    n_labels = values["seen"].shape[-1]
    response = lambda worker, label, item: 0.8 * values["seen"][worker, :, label] + 0.2 / n_labels
    return left_out.log_p(table, values["prevalence"], response)


def _of_ease(table: CrowdLabels, values: dict[str, np.ndarray]) -> float:
    def response(worker: int, label: int, item: int) -> np.ndarray:
        slope = values["ability"][worker] * (values["ease"][item] if "ease" in values else 1.0)
        right = 1 / (1 + np.exp(-slope))
        return np.where(np.arange(2) == label, right, (1 - right) / 2)

    return left_out.log_p(table, values["prevalence"], response)


def _of_groups(table: CrowdLabels, values: dict[str, np.ndarray]) -> float:
    rows = values["confusion"]
    total = 0.0
    for group in range(2):
        others = np.arange(1 - group, table.n_items, 2)
        mine = left_out.without(table, "item", others)
        response = lambda worker, label, item: rows[worker, :, label]
        total += left_out.log_p(mine, values["group_prevalence"][group], response)
    return total


def _of_parity(table: CrowdLabels, values: dict[str, np.ndarray]) -> float:
    rows = values["by_parity"]
    return left_out.log_p(table, values["prevalence"], lambda worker, label, item: rows[worker, item % 2, :, label])


MODELS = [
    (DS, _of_tables),
    (bc.IDBLA(n_levels=2), _of_tables),
    (Guessing(), _of_guesses),
    (Groups(), _of_groups),
    (Ability(), _of_ease),
    (Ease(), _of_ease),
    (Parity(), _of_parity),
]


@pytest.mark.parametrize(("model", "of"), MODELS, ids=lambda case: getattr(case, "name", ""))
def test_pieces_are_judged_by_the_definition(model: Any, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = left_out.rich()
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model, draws=30), "nuts")
    tree.attrs["settings"] = json.dumps({"chains": 1, "draws": 5})
    seen_by_engine = []

    def fit(job: Any) -> Any:
        run = fitted.made_run(job.labels, model, chains=1, draws=5, seed=job.seed)
        if "ease" in run.draws:
            run.draws["ease"] = np.exp(run.draws["ease"])
        seen_by_engine.append((job, run))
        return run

    for by, pieces in (("item", [0, 1, 5]), ("annotation", [1, 2, 4, 8]), ("worker", [0, 2])):
        refits = _refit.Refits(tree, by, 0)
        monkeypatch.setattr(refits, "_engine", type("Made", (), {"run": staticmethod(fit)}))
        monkeypatch.setattr(refits, "_closed", False)  # the same draws for both
        held = refits.without(np.array(pieces), 0)
        job, run = seen_by_engine[-1]
        expected = _log_mean(labels, by, pieces, {name: value[0] for name, value in run.draws.items()}, of)
        np.testing.assert_allclose(held.log_mean, expected, rtol=1e-9)
        assert held.n_samples == 5
        # What the engine sees: neither the labels nor the gold of the pieces; every worker, class and label value.
        kept = left_out.without(labels, by, np.array(pieces))
        assert job.labels.n_annotations == kept.n_annotations
        assert len(job.start) == job.labels.n_items
        assert job.labels.workers.equals(labels.workers)
        assert job.labels.label_values.equals(labels.label_values)
        assert (job.labels.gold_code >= 0).sum() == (kept.gold_code >= 0).sum()
        alone = model.name in ("groups", "ease", "parity")
        # Item c loses both its labels with the two workers.
        assert job.labels.n_items == (6 if alone else {"item": 3, "annotation": 6, "worker": 5}[by])
        assert np.isclose(job.start.sum(axis=1), 1).all()


def test_folds_are_even_and_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    held = lambda self, pieces, key: _refit.Held(np.zeros(len(pieces)), np.full(len(pieces), 99.0), 9, settled=True)
    monkeypatch.setattr(_refit.Refits, "without", held)
    labels = fitted.anesthesia()
    tree = fitted.anesthesia_em().idata
    fold = kfold(tree, folds=4).fold
    assert sorted(np.bincount(fold)) == [11, 11, 11, 12]
    assert fold.equals(kfold(tree, folds=4).fold)
    assert not fold.equals(kfold(tree, folds=4, seed=1).fold)
    assert sorted(np.bincount(kfold(tree, folds=7, by="annotation").fold)) == [45] * 7
    assert labels.n_annotations == 315


def test_maximum_likelihood_is_plugged_in() -> None:
    labels = fitted.anesthesia()
    model = bc.DawidSkene(confusion_prior=bc.diagonal(4, 2))
    fit = bc.fit(labels, model, engine="em", objective="posterior", tolerance=1e-12, change_tolerance=1e-9)
    found = fit.kfold(folds=3)
    assert found.n_samples == 1
    assert found.advice == []
    for fold in range(3):
        out = np.flatnonzero(found.fold == fold)
        rest = left_out.without(labels, "item", out)
        # The items left out stay in this table, without labels: no matter for a maximum.
        again = bc.fit(
            rest, model, engine="em", objective="posterior", init=fit, tolerance=1e-12, change_tolerance=1e-9
        )
        point = again.idata["point_estimate"].dataset
        values = {str(name): value.to_numpy() for name, value in point.data_vars.items()}
        response = lambda worker, label, item: values["confusion"][worker, :, label]  # noqa: B023
        for item in out[:4]:
            alone = left_out.without(labels, "item", np.delete(np.arange(45), item))
            expected = left_out.log_p(alone, values["prevalence"], response)
            assert float(found.elpd_i[item]) == pytest.approx(expected, abs=0.02)


def test_what_maximum_likelihood_calls_impossible() -> None:
    fit = bc.fit(left_out.small(), engine="em")
    found = fit.kfold(folds=6)
    bad = found.elpd_i.to_numpy() == -np.inf
    assert bad.any()
    assert found.elpd == -np.inf
    assert found.warning
    assert f"Labels of {bad.sum()} item" in found.advice[0]
    assert "minus infinity" in found.advice[0]
    assert all(repr(item) in found.advice[0] for item in found.elpd_i["item"].to_numpy()[bad].tolist())
    assert found.advice[0] in str(found)


@pytest.mark.parametrize("engine", ["vb", "collapsed-vi", "multispa-kl"])
def test_every_kind_of_engine(engine: str) -> None:
    moments = engine == "multispa-kl"
    labels = fitted.anesthesia() if moments else fitted.d1()
    tree = _tree(labels, DS, engine)
    for by, folds in (("item", 5), ("worker", 3)):
        found = kfold(tree, folds=folds, by=by)
        assert np.isfinite(found.elpd_i).all()
        if moments:
            assert -280 < found.elpd < -220  # guessing evenly at 315 labels of 4 values costs 437 nats
        else:
            # Approximations are near to exact leave-one-out of so small a table, not at it.
            assert found.elpd == pytest.approx(left_out.exact(labels, by).sum(), abs=0.4)


def test_engines_that_kept_no_draws_keep_some() -> None:
    tree = _tree(fitted.d1(), DS, "gibbs", draws=200, warmup=50, chains=2, keep=0)
    assert "posterior" not in tree.children
    found = kfold(tree, folds=5)
    assert found.n_samples == 400
    np.testing.assert_allclose(found.elpd_i, left_out.exact(fitted.d1(), "item"), atol=0.3)


def test_classes_and_workers_of_one_fold_stay_known() -> None:
    # One item alone is "rare", and one worker labels that item alone.
    rows = [("a", "x", "no"), ("a", "y", "no"), ("b", "x", "yes"), ("b", "y", "yes"), ("c", "z", "rare")]
    labels = CrowdLabels.from_long(rows)
    tree = _tree(labels, DS, "gibbs", draws=800, warmup=100, chains=2)
    found = kfold(tree, folds=3)
    np.testing.assert_allclose(found.elpd_i, left_out.exact(labels, "item"), atol=0.08)


def test_class_shares_by_item() -> None:
    # Even items are "no" and odd ones "yes": only a model that is told which items are left out can know.
    labels = CrowdLabels.from_codes(
        np.repeat(np.arange(12), 3), np.tile(np.arange(3), 12), np.repeat(np.arange(12) % 2, 3), classes=["no", "yes"]
    )
    tree = _tree(labels, Groups(), "gibbs", draws=300, warmup=100, chains=2)
    found = kfold(tree, folds=2)
    assert float(found.elpd_i.min()) > 3 * np.log(0.5)


def test_as_many_folds_as_pieces_where_these_are_few() -> None:
    tree = fitted.em().idata
    assert kfold(tree, by="worker").n_folds == 3
    assert fitted.em().kfold().n_folds == 5
    assert kfold(tree, by="annotation").n_folds == 10


def test_refusals() -> None:
    tree = fitted.em().idata
    unchecked = inspect.unwrap(kfold)
    for folds in (1, 6, 0, -2, 2.0, True, "5"):
        with pytest.raises(EngineError, match="folds must be a whole number from 2 to 5, the number of items"):
            unchecked(tree, folds=folds)
    with pytest.raises(EngineError, match="from 2 to 3, the number of workers"):
        kfold(tree, folds=4, by="worker")
    with pytest.raises(LabelError, match="by must be"):
        kfold(tree, by="row")
    with pytest.raises(LabelError, match="seed must be"):
        unchecked(tree, seed=1.5)
    with pytest.raises(EngineError, match="progress must be"):
        unchecked(tree, progress=1)
    with pytest.raises(ModelError, match="fit a model"):
        bc.baselines.majority_vote(fitted.d1()).kfold()
    alone = fitted.made_point(CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], classes=2), DS)
    for folds in (2, 5):
        with pytest.raises(EngineError, match="but one item with labels"):
            kfold(fitted.tree_of(CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], classes=2), DS, alone), folds=folds)


def test_fits_that_do_not_converge_and_rough_values_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(self: Any, pieces: np.ndarray, key: int) -> Any:
        return _refit.Held(np.full(len(pieces), -2.0), np.full(len(pieces), 4.0), 100, settled=key != 1)

    monkeypatch.setattr(_refit.Refits, "without", without)
    found = kfold(_gibbs(), folds=3)
    assert found.warning
    assert "1 fit did not converge, without fold 1" in found.advice[0]
    assert "5 items ('a', 'b', 'c', 'd', 'e') rest on fewer than 25 effective draws" in found.advice[1]
    assert isinstance(found, KFold)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = running.Recorder()
    monkeypatch.setattr("bayescrowd.criticism.kfold.reporter", lambda progress: recorder)
    kfold(fitted.em().idata, folds=3)
    assert recorder.tasks == [("3 folds", 3)]
    assert [done for done, _ in recorder.updates] == [1, 2, 3]
