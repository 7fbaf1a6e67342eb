from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.criticism import modes
from bayescrowd.criticism.convergence import diagnose
from bayescrowd.criticism.report import Finding
from bayescrowd.inference.base import Engine, Job, Run, Status


def _run(by_state: np.ndarray, bound: float) -> Run:
    return Run(None, None, by_state, None, None, None, np.array([bound - 1, bound]), Status("converged", "Ok.", True))


@dataclass(frozen=True)
class _Settings:
    max_iter: int = 10
    draws: int = 10


def _engine(monkeypatch: pytest.MonkeyPatch, other: Any, bound: float) -> list[Job]:
    """Replace vb by an engine that stays at the first start and goes somewhere given from the second."""
    jobs: list[Job] = []

    def run(job: Job) -> Run:
        jobs.append(job)
        return _run(job.start, -50.0) if len(jobs) == 1 else _run(np.asarray(other, float), bound)

    monkeypatch.setattr(modes, "get", lambda name: Engine(name, _Settings, run, samples=False))
    return jobs


SURE = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])


def _found(monkeypatch: pytest.MonkeyPatch, other: Any, bound: float) -> Finding:
    _engine(monkeypatch, other, bound)
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.r31(), fitted.made_point(labels, fitted.r31(), state_probability=SURE))
    (found,) = modes.random_mode(tree)
    return found


def test_the_same_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _found(monkeypatch, SURE + [0.02, -0.02], -50.0)
    assert (found.severity, found.text) == ("note", "A random start found the same mode.")


def test_a_worse_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _found(monkeypatch, SURE[:, ::-1], -62.3)
    assert found.severity == "note"
    assert "another, worse mode (bound of vb lower by 12.3; it differs on 5 of 5 items" in found.text
    assert "with classes in other parts: 'yes for no, no for yes'" in found.text


def test_a_better_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _found(monkeypatch, SURE[[1, 0, 2, 3, 4]], -40.0)
    assert found.severity == "caution"
    assert "a BETTER one (bound of vb higher by 10; it differs on 2 of 5 items)" in found.text
    assert "starts=10" in found.remedy


def test_a_mode_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _found(monkeypatch, SURE[:, ::-1], -50.1)
    assert found.severity == "caution"
    assert "as good" in found.text
    assert "gold" in found.remedy


def test_both_starts_respect_the_gold_and_the_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, model = fitted.d1(gold={"a": "yes"}), bc.IDBLA(n_levels=2)
    state = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    state[0, [0, 2]] = 0
    state /= state.sum(1, keepdims=True)
    jobs = _engine(monkeypatch, state, -50.0)
    tree = fitted.tree_of(labels, model, fitted.made_point(labels, model, state_probability=state))
    modes.random_mode(tree)
    assert [job.start.shape for job in jobs] == [(5, 4)] * 2
    for job in jobs:
        np.testing.assert_allclose(job.start.sum(1), 1)
        np.testing.assert_array_equal(job.start[0, [0, 2]], 0)
    by_class = jobs[0].start.reshape(5, 2, 2).sum(1)
    np.testing.assert_allclose(by_class, tree["latent"]["class_probability"])


def test_large_tables_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "LARGEST", 20)
    found = _found(monkeypatch, SURE, -50.0)
    assert found.text == "No random start was tried: 30 labels x states are more than 20."


@functools.cache
def _tree(model: Any) -> Any:
    labels = fitted.d1()
    return fitted.tree_of(labels, model, fitted.made_point(labels, model))


def test_models_that_the_engine_does_not_fit_are_left_out() -> None:
    assert modes.random_mode(_tree(fitted.OneCoin())) == []


@pytest.mark.parametrize("model", [bc.IDBLA(n_levels=2), bc.FixedIDBLA()])
def test_with_the_engine_itself(model: Any) -> None:
    codes = [finding.code for finding in diagnose(_tree(model), random_start=True).findings]
    assert codes.count("random-start") == 1
    assert "random-start" not in [finding.code for finding in diagnose(_tree(model)).findings]


def test_a_fit_is_asked_for_it_and_can_be_told_not_to() -> None:
    fit = fitted.anesthesia_em()
    assert any(finding.code == "random-start" for finding in fit.diagnose().findings)
    assert not any(finding.code == "random-start" for finding in fit.diagnose(random_start=False).findings)
    # The same answer each time.
    assert str(fit.diagnose()) == str(fit.diagnose())
