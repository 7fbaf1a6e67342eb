from __future__ import annotations

import functools
from typing import Any

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.api import _judge, _why
from bayescrowd.criticism.convergence import diagnose
from bayescrowd.criticism.report import Diagnosis
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import Run, Status, sizes_of

MODEL = bc.IDBLA(n_levels=2)
CONVERGED = Status("converged", "Converged after 7 passes.", True)


def _codes(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.code: finding.severity for finding in diagnosis.findings}


def _text(diagnosis: Diagnosis, code: str) -> str:
    return next(str(finding) for finding in diagnosis.findings if finding.code == code)


@functools.cache
def _crowd(n_classes: int = 3, n_items: int = 24) -> CrowdLabels:
    random = np.random.default_rng(0)
    rows = [(i, k, i % n_classes if random.random() < 0.8 else 0) for i in range(n_items) for k in range(4)]
    return CrowdLabels.from_codes(*np.array(rows).T, classes=list("abc")[:n_classes], items=n_items)


def _points(model: Any = MODEL, orders: Any = ((0, 1, 2), (0, 1, 2)), right: Any = (0.9, 0.8), **more: Any) -> Run:
    """A point estimate; class ``c`` of level ``h`` goes by the label ``orders[h][c]``."""
    labels = _crowd()
    run = fitted.made_point(labels, model)
    tables = np.full((len(orders), 3, 3), 0.0)
    for level, (order, p) in enumerate(zip(orders, right, strict=True)):
        tables[level] = (1 - p) / 2
        tables[level, np.arange(3), list(order)] = p
    name = "confusion" if "confusion" in run.points else "free_confusion"
    points = run.points | {name: np.broadcast_to(tables, run.points[name].shape)}
    return run._replace(points=points, **more)


def _diagnosis(run: Run, model: Any = MODEL, engine: str | None = None) -> Diagnosis:
    return diagnose(fitted.tree_of(_crowd(), model, run, engine))


def test_a_level_that_names_the_classes_differently_is_found() -> None:
    diagnosis = _diagnosis(_points(orders=((0, 1, 2), (1, 0, 2))))
    text = _text(diagnosis, "permuted-level")
    assert "level 2 names the classes differently (its a plays b, its b plays a)" in text
    assert "nearly equal modes" in text
    for remedy in ("confusion_prior=", 'init="ability"', "FixedIDBLA", "gold"):
        assert remedy in text
    assert _codes(diagnosis)["permuted-level"] == "caution"
    assert "permuted-level" not in _codes(_diagnosis(_points()))
    # Guessing is not another name.
    assert "permuted-level" not in _codes(_diagnosis(_points(orders=((0, 1, 2), (1, 0, 2)), right=(0.9, 0.4))))


def test_a_level_without_items_says_nothing_of_names() -> None:
    labels = _crowd()
    state = np.zeros((labels.n_items, 2, 3))
    state[:, 0] = np.eye(3)[np.arange(labels.n_items) % 3]
    diagnosis = _diagnosis(_points(orders=((0, 1, 2), (1, 0, 2)), state_probability=state.reshape(-1, 6)))
    assert "permuted-level" not in _codes(diagnosis)
    assert "difficulty level '2': these labels tell no such difficulty apart" in _text(diagnosis, "empty-level")
    assert _codes(diagnosis)["empty-level"] == "note"


def test_levels_of_one_accuracy_are_no_levels_of_difficulty() -> None:
    diagnosis = _diagnosis(_points(orders=((0, 1, 2), (0, 1, 2)), right=(0.81, 0.79)))
    text = _text(diagnosis, "levels-alike")
    assert "about equally often right on the difficulty levels '1', '2' (79 to 81 %)" in text
    assert "bc.DawidSkene()" in text
    assert _codes(diagnosis)["levels-alike"] == "note"
    assert "levels-alike" not in _codes(_diagnosis(_points(orders=((0, 1, 2), (0, 1, 2)), right=(0.9, 0.7))))


def test_one_level_for_all_items_has_a_name_that_tells_nothing() -> None:
    labels = _crowd()
    state = np.zeros((labels.n_items, 2, 3))
    state[:, 1] = np.eye(3)[np.arange(labels.n_items) % 3]
    diagnosis = _diagnosis(_points(state_probability=state.reshape(-1, 6)))
    assert "Nearly all items are on difficulty level '2', so its name" in _text(diagnosis, "levels-alike")


def test_fixed_levels_cannot_move() -> None:
    model = bc.FixedIDBLA(easy_error=0.1, hard_error=0.95)
    assert "permuted-level" not in _codes(_diagnosis(_points(model, [(0, 1, 2)], [0.8]), model))
    text = _text(_diagnosis(_points(model, [(1, 2, 0)], [0.8]), model), "permuted-level")
    assert "level free1 names" in text
    assert "FixedIDBLA" not in text


def test_a_fit_says_so_without_being_asked() -> None:
    tree = fitted.tree_of(_crowd(), MODEL, _points(orders=((0, 1, 2), (1, 0, 2))))
    _judge(tree)
    assert ["permuted" in text or "names the classes differently" in text for text in tree.attrs["warnings"]] == [True]


def _chains(permuted: Any, draws: int = 100) -> Run:
    labels = _crowd()
    run = fitted.made_run(labels, MODEL, chains=4, draws=draws)
    tables = np.stack([np.eye(3) * (3 * p - 1) / 2 + (1 - p) / 2 for p in (0.9, 0.8)])
    run.draws["confusion"][:] = tables + np.random.default_rng(0).normal(0, 0.01, run.draws["confusion"].shape)
    for chain in permuted:
        run.draws["confusion"][chain, :, :, 1] = run.draws["confusion"][chain, :, :, 1][:, :, [1, 0, 2]]
    same = np.repeat(run.state_probability[None], 4, axis=0)
    return run._replace(state_probability_by_chain=same)


def test_P33_a_chain_in_a_permuted_mode_on_one_level_is_named() -> None:
    diagnosis = _diagnosis(_chains([3]))
    assert _codes(diagnosis)["permuted-level"] == "problem"
    assert "Chain 3 sits in a permuted mode on difficulty level 2 (its a plays b" in _text(diagnosis, "permuted-level")
    assert "permuted-level" not in _codes(_diagnosis(_chains([])))
    everywhere = _diagnosis(_chains(range(4)))
    assert _codes(everywhere)["permuted-level"] == "caution"


def test_chains_that_numbered_the_levels_differently() -> None:
    labels = _crowd()
    sure = np.full((labels.n_items, 2, 3), 0.01)
    sure[np.arange(labels.n_items), np.arange(labels.n_items) % 2, np.arange(labels.n_items) % 3] = 0.95
    by_chain = np.stack([sure, sure, sure[:, ::-1], sure]).reshape(4, labels.n_items, 6)
    run = _chains([])._replace(state_probability_by_chain=by_chain)
    assert "Chain 2 numbered the difficulty levels differently and was put back" in _text(_diagnosis(run), "aligned")
    own = bc.IDBLA(n_levels=2, difficulty_prior=[2, 1])
    diagnosis = _diagnosis(run, own)
    assert "Chain 2 sits in a permuted mode: it numbers the difficulty levels" in _text(diagnosis, "permuted-mode")


def test_levels_that_the_start_did_not_tell_apart() -> None:
    labels = _crowd()
    state = np.tile(np.eye(3)[np.arange(labels.n_items) % 3] / 2, 2)
    diagnosis = _diagnosis(_points(state_probability=state))
    assert _codes(diagnosis)["symmetric-levels"] == "caution"
    assert "'1', '2' are equally probable" in _text(diagnosis, "symmetric-levels")
    assert "symmetric-levels" not in _codes(_diagnosis(_points()))
    assert not {"symmetric-levels", "empty-level", "permuted-level"} & set(_codes(fitted.em().diagnose()))


def _variational(model: Any = MODEL, **more: Any) -> Run:
    run = fitted.made_run(_crowd(), model, chains=1, draws=50, sample_stats=None)
    parts: dict[str, Any] = {"independent": True, "status": CONVERGED, "objective": np.array([-9.0, -8.0])}
    return run._replace(**(parts | more))


def test_an_approximation_has_no_chains_to_judge() -> None:
    tree = fitted.tree_of(_crowd(), MODEL, _variational(extra={"objective_by_start": [-8.0, -8.0, -9.5]}), "vb")
    diagnosis = diagnose(tree)
    assert diagnosis.converged is True
    assert diagnosis.r_hat is None
    assert not {"r-hat", "few-effective-draws", "one-chain", "monte-carlo"} & set(_codes(diagnosis))
    assert "too narrow" in _text(diagnosis, "approximation")
    assert 'engine="gibbs"' in _text(diagnosis, "approximation")
    assert "2 of 3 starts reached the best objective -8.000" in _text(diagnosis, "starts")
    _judge(tree)
    assert tree.attrs["converged"] == "yes"
    assert diagnosis.problems == ()


def test_an_approximation_that_did_not_converge() -> None:
    stopped = Status("max-iterations", "Stopped after 2 passes.", False)
    tree = fitted.tree_of(_crowd(), MODEL, _variational(status=stopped), "vb")
    _judge(tree)
    assert tree.attrs["converged"] == "no"
    assert diagnose(tree).converged is False
    assert "idbla by vb did not converge. Stopped after 2 passes. Remedy: raise max_iter" in _why(tree)


@pytest.mark.parametrize("prior", [1.0, bc.diagonal(3, 1)])
def test_P33_unnamed_classes_with_levels(prior: Any) -> None:
    model = bc.IDBLA(n_levels=2, confusion_prior=prior)
    run = fitted.made_run(_crowd(), model, chains=2, draws=100)
    assert _codes(_diagnosis(run, model)).get("classes-not-identified") == ("problem" if prior == 1.0 else None)
    # An approximation stays with the names of its start.
    found = _codes(_diagnosis(_variational(model), model, "vb")).get("classes-not-identified")
    assert found == ("caution" if prior == 1.0 else None)


def test_P33_the_easy_level_names_the_classes() -> None:
    model = bc.FixedIDBLA(confusion_prior=1.0)
    run = fitted.made_run(_crowd(), model, chains=2, draws=100)
    assert "classes-not-identified" not in _codes(_diagnosis(run, model))
    assert sizes_of(_crowd()).n_classes == 3


def test_a_run_that_failed_is_diagnosed_all_the_same() -> None:
    failed = Status("failed", "The bound is not a number.", False)
    run = _points()
    points = {name: np.full_like(value, np.nan) for name, value in run.points.items()}
    state = np.full_like(run.state_probability, np.nan)
    tree = fitted.tree_of(_crowd(), MODEL, run._replace(points=points, state_probability=state, status=failed))
    assert _codes(diagnose(tree, random_start=True))["failed"] == "problem"
