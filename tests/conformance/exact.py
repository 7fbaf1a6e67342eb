"""Exact posteriors of the registered models by the oracle, and draws held against them."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
from arviz_stats.base import array_stats
from conformance import checks

import bayescrowd as bc
from bayescrowd.inference.base import Run
from bayescrowd.model import Diagonal, Model

LEVELS = np.stack([0.5 + 3 * np.eye(2), 1 + 0.5 * np.eye(2)])
"""Confusion priors of two levels that differ, on two classes and two labels."""


def by_level(n_classes: int, n_labels: int) -> np.ndarray:
    """The same for any numbers of classes and labels."""
    one = np.eye(n_classes, n_labels)
    return np.stack([0.5 + 3 * one, 1 + 0.5 * one])


def posterior(model: Model, labels: Any) -> oracle.Exact:
    """Sum over all assignments."""
    data = oracle.of_labels(labels)
    prior: Any = model.confusion_prior  # type: ignore[attr-defined]
    table = prior.table(data.n_classes, data.n_labels) if isinstance(prior, Diagonal) else np.asarray(prior, float)
    options: dict[str, Any] = {"prevalence": model.prevalence_prior, "confusion": table}  # type: ignore[attr-defined]
    if model.n_levels > 1:
        options |= {"n_levels": model.n_levels, "difficulty": model.difficulty_prior}  # type: ignore[attr-defined]
    if isinstance(model, bc.FixedIDBLA):
        hard = 1 - 1 / data.n_labels if model.hard_error is None else model.hard_error
        options["fixed"] = {
            model.n_levels - 2: _given(model.easy_error, data),
            model.n_levels - 1: _given(hard, data),
        }
    return oracle.posterior(data, **options)


def _given(error: float, data: oracle.Problem) -> np.ndarray:
    return oracle.diagonal(data.n_classes, data.n_labels, 1 - error, error / (data.n_labels - 1))


def mcse(draws: np.ndarray) -> np.ndarray:
    """Monte Carlo standard error of the mean of draws [chain, draw, quantity]."""
    return np.array([array_stats.mcse(draws[..., j], chain_axis=0, draw_axis=1) for j in range(draws.shape[-1])])


def distance(draws: np.ndarray, exact: Any) -> np.ndarray:
    """Distance of the mean of draws [chain, draw, ...] from the truth, in Monte Carlo standard errors.

    What does not vary must be right to the last digits.
    """
    flat = draws.reshape(*draws.shape[:2], -1)
    gap = np.abs(flat.mean((0, 1)) - np.ravel(exact))
    moves = np.ptp(flat, axis=(0, 1)) > 1e-12
    assert (gap[~moves] < 1e-9).all()
    return gap[moves] / mcse(flat[..., moves])


def pairs(by_draw: np.ndarray) -> np.ndarray:
    """P(two items have one class | draw), every pair, from class probabilities [chain, draw, item, class]."""
    agree = np.einsum("sdic,sdjc->sdij", by_draw, by_draw)
    return agree[(..., *np.triu_indices(by_draw.shape[2], 1))]


def hold(model: Model, labels: Any, run: Run, exact: oracle.Exact, *, limit: float = 4.0) -> None:
    """Class, level and state probabilities and the parameters within ``limit`` Monte Carlo standard errors."""
    assert run.draws is not None
    by_draw = checks.by_draw(model, run.draws, labels)
    n_items, n_classes = exact.class_probability.shape
    by_level = by_draw.reshape(*by_draw.shape[:3], model.n_levels, n_classes)
    found: dict[str, np.ndarray] = {
        "state": distance(by_draw, exact.state_probability),
        "class": distance(by_level.sum(3), exact.class_probability),
        "prevalence": distance(run.draws["prevalence"], exact.prevalence),
    }
    if model.n_levels > 1:
        found["level"] = distance(by_level.sum(4), exact.level_probability)
        found["difficulty"] = distance(run.draws["difficulty_prevalence"], exact.difficulty_prevalence)
    name = "free_confusion" if "free_confusion" in run.draws else "confusion"
    confusion = run.draws[name]
    n_free = 1 if confusion.ndim == 5 else confusion.shape[3]
    found["confusion"] = distance(confusion, exact.confusion[:, :n_free])
    far = {key: value.max(initial=0) for key, value in found.items()}
    assert max(far.values()) < limit, far
    # What is handed out averages conditional probabilities over all sweeps: no worse than the same from the draws.
    flat = by_draw.reshape(*by_draw.shape[:2], -1)
    error = np.where(np.ptp(flat, axis=(0, 1)) > 1e-12, mcse(flat), 0)
    gap = np.abs(run.state_probability - exact.state_probability).ravel()
    assert (gap < 1.25 * limit * error + 1e-9).all(), gap / np.maximum(error, 1e-12)
    hold_moments(run, exact)


def hold_moments(run: Run, exact: oracle.Exact) -> None:
    """Means and deviations that were streamed over all sweeps agree with the draws."""
    if run.deviations is None:
        return
    assert run.draws is not None
    assert run.points is not None
    for name, draws in run.draws.items():
        flat = draws.reshape(*draws.shape[:2], -1)
        error = mcse(flat)
        mean = run.points[name].ravel()
        assert (np.abs(mean - flat.mean((0, 1))) < 5 * error).all(), name
        deviation = run.deviations[name].ravel()
        np.testing.assert_allclose(deviation, flat.std((0, 1)), rtol=0.15)
    for value in run.points.values():
        np.testing.assert_allclose(value.sum(-1), 1, atol=1e-9)
    np.testing.assert_allclose(run.points["prevalence"], exact.prevalence, atol=0.05)
