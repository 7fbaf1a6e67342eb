"""The paper's own moments: against its formulas, written as loops over pairs of items."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pairwise
import pytest
import running
from conformance import exact
from conformance.cases import CASES, golden
from conformance.toys import Groups, Subtypes
from running import D1, labels_of

import bayescrowd as bc
from bayescrowd.errors import EngineError
from bayescrowd.inference._leave_one_out import plan_of
from bayescrowd.inference._paper_moments import paper_update, symmetric_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import concentration


def crowd(seed, n_items, **more):
    model = bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))
    return bc.simulate(model, n_items=n_items, n_workers=6, classes=3, seed=seed, **more).labels


def paper_reference(model, labels, q, omega):
    """The paper's update by loops."""
    n_levels, n_classes = model.n_levels, labels.n_classes
    fixed = isinstance(model, bc.FixedIDBLA)
    free = np.arange(n_levels) < (n_levels - 2 if fixed else n_levels)
    log_given = np.zeros((labels.n_annotations, n_levels, n_classes))
    if fixed:
        for level, error in ((n_levels - 2, model.easy_error), (n_levels - 1, model.hard_error)):
            table = oracle.diagonal(n_classes, n_classes, 1 - error, error / (n_classes - 1))
            log_given[:, level] = np.log(table[:, labels.label_code]).T
    gammas = (model.prevalence_prior, getattr(model, "difficulty_prior", 1.0))
    return pairwise.paper(labels, n_levels, free, log_given, omega, gammas, q)


PAPER = {
    "bcc": (bc.DawidSkene(prevalence_prior=1.5, confusion_prior=0.7), 0.7),
    "two": (bc.IDBLA(n_levels=2, prevalence_prior=2.0, difficulty_prior=0.6, confusion_prior=0.5), 0.5),
    "three": (bc.IDBLA(n_levels=3, confusion_prior=bc.diagonal(1, 1)), 1.0),
    "fixed": (bc.FixedIDBLA(prevalence_prior=2.0, confusion_prior=1.0, easy_error=0.1, hard_error=0.6), 1.0),
    "fixed-4": (bc.FixedIDBLA(n_levels=4, confusion_prior=0.4, easy_error=0.2, hard_error=0.5), 0.4),
}


@pytest.mark.parametrize(
    "name", ["two", "fixed", *(pytest.param(n, marks=pytest.mark.slow) for n in PAPER if n not in ("two", "fixed"))]
)
def test_the_papers_moments_are_the_papers_formulas(name):
    model, omega = PAPER[name]
    rng = np.random.default_rng(4)
    for labels in (crowd(seed=1, n_items=12, labels_per_item=(1, 5)), labels_of(D1)):
        lam = rng.dirichlet(np.full(labels.n_classes, 0.6), labels.n_items)
        rho = rng.dirichlet(np.full(model.n_levels, 0.6), labels.n_items)
        q = rho[:, :, None] * lam[:, None, :]
        with double_precision():
            plan = plan_of(model, labels)
            where = np.asarray(plan.arrays.row_of_item)[: labels.n_items]
            rows = np.zeros((plan.arrays.n_rows, model.n_levels * labels.n_classes))
            rows[where] = q.reshape(labels.n_items, -1)
            alpha = concentration(model, plan.arrays.sizes)
            given = symmetric_of(model, plan)
            log_lam, new_rho, _ = jax.jit(paper_update)(model, plan, given, alpha, jnp.asarray(rows))
        expected, levels = paper_reference(model, labels, q, omega)
        np.testing.assert_allclose(np.asarray(new_rho)[where], levels, rtol=0, atol=1e-12)
        found = pairwise.centred(np.asarray(log_lam)[where])
        np.testing.assert_allclose(found, pairwise.centred(expected), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_run_with_the_papers_moments_ends_where_the_formulas_stand_still():
    model, omega = PAPER["two"]
    labels = labels_of(D1)
    run = running.run(
        labels, model, "collapsed-vi", moments="paper", family="factorised", tolerance=1e-11, max_iter=5000
    )
    assert run.status.code == "converged"
    q = run.state_probability.reshape(5, 2, 2)
    log_lam, rho = paper_reference(model, labels, q, omega)
    lam = np.exp(log_lam) / np.exp(log_lam).sum(1, keepdims=True)
    np.testing.assert_allclose(q, rho[:, :, None] * lam[:, None, :], atol=1e-8)


@pytest.mark.parametrize(
    ("labels", "model", "options", "word"),
    [
        (golden(), bc.IDBLA(n_levels=2, confusion_prior=exact.LEVELS), {}, "symmetric confusion prior"),
        (golden(), bc.IDBLA(n_levels=2), {}, "symmetric confusion prior"),
        (CASES["repeats"](), PAPER["two"][0], {}, "duplicates='first'"),
        (golden(), Groups(confusion_prior=1.0), {}, "one confusion table"),
        (golden(), Subtypes(confusion_prior=1.0), {}, "one confusion table"),
    ],
)
def test_what_the_papers_moments_refuse(labels, model, options, word):
    with pytest.raises(EngineError, match=word):
        running.run(labels, model, "collapsed-vi", moments="paper", family="factorised", **options)
