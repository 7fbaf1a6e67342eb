"""Fits without some pieces: what the engine is given, how the pieces are judged, and what can go wrong."""

from __future__ import annotations

import itertools
from typing import Any

import fitted
import left_out
import numpy as np
import pytest
import running
from conformance.toys import Ability, Ease, Groups, Guessing
from left_out import Parity
from scipy.special import gammaln, logsumexp

import bayescrowd as bc
from bayescrowd.criticism import _refit, _refit_worker
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import sizes_of

PRIOR = bc.diagonal(3, 1)
DS = bc.DawidSkene(confusion_prior=PRIOR)


def _exact_new_worker(
    labels: CrowdLabels, worker: int, shares: np.ndarray, response: Any, alpha: np.ndarray, given: np.ndarray
) -> float:
    """Sum over the states of the worker's items; ``alpha`` [state, label], or ``given`` [state, label] where finite."""
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    mine = np.flatnonzero(labels.worker_code == worker)
    items = np.unique(labels.item_code[mine])
    posterior = {}
    for item in items:
        log = np.log(shares)
        for row in np.flatnonzero((labels.item_code == item) & (labels.worker_code != worker)):
            log = log + weight[row] * np.log(response(labels.worker_code[row], labels.label_code[row], item))
        known = labels.gold_code[item]
        log = np.where((known < 0) | (np.arange(len(log)) % labels.n_classes == known), log, -np.inf)
        posterior[item] = log - logsumexp(log)
    total = []
    for states in itertools.product(range(len(shares)), repeat=len(items)):
        state_of = dict(zip(items, states, strict=True))
        counts = np.zeros_like(alpha)
        log = sum(posterior[item][state] for item, state in state_of.items())
        for row in mine:
            cell = (state_of[labels.item_code[row]], labels.label_code[row])
            if np.isfinite(given[cell]):
                log += weight[row] * given[cell]
            else:
                counts[cell] += weight[row]
        log += (gammaln(alpha.sum(1)) - gammaln((alpha + counts).sum(1))).sum()
        log += (gammaln(alpha + counts) - gammaln(alpha)).sum()
        total.append(log)
    return float(logsumexp(total))


@pytest.mark.parametrize(
    "model",
    [DS, bc.IDBLA(n_levels=2, confusion_prior=PRIOR), bc.FixedIDBLA(n_levels=3, confusion_prior=PRIOR)],
    ids=lambda model: model.name,
)
def test_a_new_workers_labels_with_tables_integrated_out(model: Any) -> None:
    labels = left_out.rich()
    assert _refit_worker.has_closed_form(model, sizes_of(labels))
    run = fitted.made_run(labels, model, chains=1, draws=1)
    values = {name: value[0, 0] for name, value in run.draws.items()}
    many = {name: np.repeat(value[None], 20_000, axis=0) for name, value in values.items()}
    levels = values.get("difficulty_prevalence", np.ones(1))
    shares = (levels[:, None] * values["prevalence"]).ravel()
    name = "confusion" if "confusion" in values else "free_confusion"
    table = values[name].reshape(labels.n_workers, -1, 3)
    alpha = np.tile([[3.0, 1, 1], [1, 3, 1]], (model.n_levels, 1))
    given = np.full((len(shares), 3), np.inf)
    if name == "free_confusion":  # the easy level and the hard one are fixed
        fixed = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], *[[1 / 3] * 3] * 2])
        given[2:] = np.log(fixed)
        table = np.concatenate([table, np.broadcast_to(fixed, (labels.n_workers, 4, 3))], axis=1)
    for worker in range(3):
        expected = _exact_new_worker(labels, worker, shares, lambda k, label, item: table[k, :, label], alpha, given)
        random = np.random.default_rng(worker)
        logs = np.concatenate(list(_refit_worker.new_worker(model, many, labels, worker, random)))
        error = np.exp(logs - expected).std() / np.sqrt(len(logs))
        assert abs(np.exp(logs - expected).mean() - 1) < 4 * error + 1e-9
        # The worker's own matrices are not read.
        blind = {name: value.copy() for name, value in many.items()}
        blind[name][:, worker] = np.nan
        parts = _refit_worker.new_worker(model, blind, labels, worker, np.random.default_rng(worker))
        np.testing.assert_array_equal(np.concatenate(list(parts)), logs)


def test_which_models_integrate_a_new_worker_out() -> None:
    sizes = sizes_of(left_out.small())
    for model in (DS, bc.IDBLA(), bc.FixedIDBLA(), Groups()):
        assert _refit_worker.has_closed_form(model, sizes)
    for model in (Guessing(), Ability(), Ease(), Parity(), fitted.OneCoin()):
        assert not _refit_worker.has_closed_form(model, sizes)


def test_a_fit_that_fails_names_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refits = _refit.Refits(fitted.em().idata, "item", 0)

    def fail(job: Any) -> Any:
        raise EngineError("too few labels")

    monkeypatch.setattr(refits, "_engine", type("Broken", (), {"run": staticmethod(fail)}))
    with pytest.raises(EngineError, match="the fit without item 'b', 'c' failed: too few labels"):
        refits.without(np.array([1, 2]), 0)


def test_interrupts_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    refits = _refit.Refits(fitted.em().idata, "item", 0)
    run = fitted.made_point(fitted.d1(), DS)
    run = run._replace(status=run.status.__class__("interrupted", "Interrupted.", False))
    monkeypatch.setattr(refits, "_engine", type("Slow", (), {"run": staticmethod(lambda job: run)}))
    with pytest.raises(KeyboardInterrupt):
        refits.without(np.array([1]), 0)


def test_a_response_that_depends_on_the_item_has_no_closed_form() -> None:
    """Routes alone do not make one: they were asked without an item, which ended in a TypeError."""
    labels = left_out.small()
    tree = fitted.tree_of(labels, Parity(), running.run(labels, Parity(), "vb"), "vb")
    tree.attrs["settings"] = "{}"
    assert Parity().has_routes
    assert not _refit_worker.has_closed_form(Parity(), sizes_of(labels))
    held = _refit.Refits(tree, "worker", 0).without(np.array([1]), 0)
    assert np.isfinite(held.log_mean).all()


def test_one_estimate_is_imputed_many_times_without_being_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = left_out.rich()
    run = fitted.made_point(labels, DS)
    one = {name: np.asarray(value)[None] for name, value in run.points.items()}
    many = {name: np.repeat(value, 50, axis=0) for name, value in one.items()}
    found = [
        np.concatenate(list(_refit_worker.new_worker(DS, samples, labels, 0, np.random.default_rng(0), particles)))
        for samples, particles in ((one, 50), (many, 1))
    ]
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (50,)
    seen = []

    def new_worker(model: Any, samples: Any, table: Any, worker: int, random: Any, particles: int) -> Any:
        seen.append(({len(value) for value in samples.values()}, particles))
        return iter([np.zeros(particles)])

    monkeypatch.setattr(_refit, "new_worker", new_worker)
    held = _refit.Refits(fitted.em().idata, "worker", 0).without(np.array([1]), 0)
    assert seen == [({1}, 1000)]
    assert held.n_samples == 1
    assert held.effective[0] == pytest.approx(1000)


def test_a_failed_run_is_an_error_that_names_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refits = _refit.Refits(fitted.em().idata, "item", 0)
    run = fitted.made_point(fitted.d1(), DS)
    run = run._replace(status=run.status.__class__("failed", "The likelihood is no longer finite.", False))
    monkeypatch.setattr(refits, "_engine", type("Broken", (), {"run": staticmethod(lambda job: run)}))
    with pytest.raises(EngineError, match="the fit without item 'b', 'c' failed: The likelihood is no longer finite"):
        refits.without(np.array([1, 2]), 0)


def test_nothing_left_to_fit() -> None:
    labels = CrowdLabels.from_codes([0, 1, 2], [0, 0, 0], [0, 1, 0], workers=["w1", "w2"], classes=["no", "yes"])
    tree = fitted.tree_of(labels, DS, fitted.made_point(labels, DS), "em")
    tree.attrs["settings"] = "{}"
    with pytest.raises(EngineError, match="without worker 'w1' no label is left to fit, so it cannot be left out"):
        _refit.Refits(tree, "worker", 0).without(np.array([0]), 0)
    with pytest.raises(EngineError, match="without item 0, 1, 2 no label is left to fit: use more folds"):
        _refit.Refits(tree, "item", 0).without(np.array([0, 1, 2]), 0)


def test_whether_chains_agree() -> None:
    random = np.random.default_rng(0)
    same = random.standard_normal((4, 200))
    assert _refit._agree(same)
    assert not _refit._agree(same + np.arange(4)[:, None])
    assert _refit._agree(same[:1])
    assert not _refit._agree(same[:1] + np.linspace(0, 5, 200))  # a single chain that wanders off
    assert _refit._agree(same[:, :5] + np.arange(4)[:, None])  # too few draws to tell
    assert _refit._agree(np.ones((2, 50)))
    assert _refit._agree(np.full((2, 50), -np.inf))


def test_annotations_are_named_by_item_and_worker() -> None:
    refits = _refit.Refits(fitted.em().idata, "annotation", 0)
    assert refits._named(np.array([0, 4])) == "annotation 'a' by 'w1', 'b' by 'w2'"
