"""Simulation-based calibration: NUTS on Dawid-Skene, both Gibbs samplers on every model, and mutants to be caught.

Data are drawn from the prior by NumPy, apart from the package. The rank of each true quantity among the posterior draws
is uniform if and only if the sampler targets the posterior of that prior.
Talts, Betancourt, Simpson, Vehtari, Gelman (2018), arXiv:1804.06788; Modrak et al. (2023), arXiv:2211.02383, for why
the log likelihood belongs to the quantities.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import running
import scipy.stats
from conformance import calibration
from running import of_rows

import bayescrowd as bc
from bayescrowd.inference import collapsed_gibbs
from bayescrowd.inference.base import conditional
from bayescrowd.kernels import collapsed

pytestmark = pytest.mark.slow

N_ITEMS, N_WORKERS, REPLICATES = 15, 4, 60
THIN, KEPT, BINS = 8, 59, 10
RIGHT = bc.DawidSkene(prevalence_prior=1.0, confusion_prior=bc.diagonal(3, 1))


def draw_from_the_prior(rng):
    """Prevalence, confusion matrices and the labels of a full design."""
    prevalence = rng.dirichlet([1, 1])
    confusion = np.stack([np.stack([rng.dirichlet([3, 1]), rng.dirichlet([1, 3])]) for _ in range(N_WORKERS)])
    true_class = rng.choice(2, N_ITEMS, p=prevalence)
    said = rng.random((N_ITEMS, N_WORKERS)) < confusion[:, true_class, 1].T
    item, worker = np.divmod(np.arange(N_ITEMS * N_WORKERS), N_WORKERS)
    return {"prevalence": prevalence, "confusion": confusion}, np.stack(
        [item, worker, said.ravel().astype(int)], axis=1
    )


def quantities(prevalence, confusion, log_likelihood):
    """What is ranked: the last axis counts the quantities."""
    diagonal = np.stack([confusion[..., 0, 0], confusion[..., 1, 1]], axis=-1)
    parts = [prevalence[..., 0], diagonal[..., 0, 0], diagonal[..., 0, 1], diagonal[..., 3, 1], diagonal.mean((-1, -2))]
    return np.stack([*parts, log_likelihood], axis=-1)


@functools.cache
def p_values(mutation="none", replicates=REPLICATES):
    """Chi-square p-value of the ranks of each quantity."""
    rng = np.random.default_rng(20240229)
    fitted = {"prior": bc.DawidSkene(prevalence_prior=1.0, confusion_prior=bc.diagonal(2, 1))}.get(mutation, RIGHT)
    ranks = []
    for replicate in range(replicates):
        truth, rows = draw_from_the_prior(rng)
        if mutation == "other data":
            _, rows = draw_from_the_prior(rng)
        labels = of_rows(rows)
        run = running.run(labels, fitted, "nuts", chains=1, warmup=200, draws=THIN * KEPT, seed=replicate)
        draws = {name: value[0, ::THIN] for name, value in run.draws.items()}
        likelihood = run.log_likelihood[0, ::THIN].sum(-1)
        true = quantities(truth["prevalence"], truth["confusion"], conditional(RIGHT, truth, labels)[1].sum())
        ranks.append((quantities(draws["prevalence"], draws["confusion"], likelihood) < true).sum(0))
    counts = [np.bincount(np.array(column) * BINS // (KEPT + 1), minlength=BINS) for column in np.array(ranks).T]
    return np.array([scipy.stats.chisquare(count).pvalue for count in counts])


def test_ranks_are_uniform():
    p = p_values()
    assert p.min() > 0.01 / len(p), p


def test_a_prior_that_is_off_by_one_is_caught():
    p = p_values("prior", replicates=200)
    assert p.min() < 0.001 / len(p), p


def test_a_sampler_that_sees_other_data_is_caught_by_the_likelihood():
    """Averaged over data the parameters' ranks stay uniform: only the log likelihood tells."""
    p = p_values("other data")
    assert p[-1] < 1e-6, p


GIBBS = {"gibbs": {"kept": 19, "thin": 12}, "collapsed-gibbs": {"kept": 19, "thin": 6}}
"""Draws that are kept, and sweeps from one to the next: about as many as the slowest quantity needs to forget."""


def calibrated(name, engine, replicates=400, **more):
    """Chi-square p-value of each quantity's ranks."""
    options = GIBBS[engine] | {"warmup": 30, "keep": 19, "seed": 1} | more
    return calibration.p_values(calibration.ranks(calibration.CASES[name], engine, replicates, **options), 19)


def passes(p):
    return min(p.values()) > 0.01 / len(p)


def caught(p):
    return min(p.values()) < 0.001 / len(p)


@pytest.mark.parametrize("engine", GIBBS)
@pytest.mark.parametrize("name", calibration.CASES)
def test_gibbs_samplers_are_calibrated(name, engine):
    # The other models with as many replicates: `make sbc`.
    p = calibrated(name, engine, 400 if name == "dawid-skene" else 150)
    assert passes(p), p


def test_an_item_that_sees_its_own_counts_is_caught(monkeypatch):
    """A collapsed sampler that forgets to take an item's counts out before it draws the item's state."""
    right = collapsed._one

    def forgetful(design, counts, given):
        segment, old, _, _ = given
        labels, states = design.index[0, segment.cell][:, :, old], design.state_entry[:, old]
        add = lambda counts, sign: counts.at[labels].add(sign, mode="drop").at[states].add(sign)
        counts, found = right(design, add(counts, 1.0), given)
        return add(counts, -1.0), found

    monkeypatch.setattr(collapsed, "_one", forgetful)
    collapsed_gibbs._sweeps.clear_cache()
    try:
        p = calibrated("fixed-idbla", "collapsed-gibbs", 400)
    finally:
        collapsed_gibbs._sweeps.clear_cache()
    assert caught(p), p


@pytest.mark.parametrize("engine", GIBBS)
def test_a_difficulty_prior_that_is_off_by_one_is_caught(engine):
    case = calibration.CASES["idbla"]
    wrong = dataclasses.replace(case.model, difficulty_prior=case.levels + 1)
    p = calibrated("idbla", engine, 250, fitted=wrong)
    assert caught(p), p


@pytest.mark.parametrize("engine", GIBBS)
def test_difficulty_axes_that_are_swapped_are_caught(engine):
    """Confusion matrices handed out with the levels the other way round."""
    swap = lambda draws: draws | {"confusion": draws["confusion"][:, :, ::-1]}
    p = calibrated("idbla", engine, 100, change=swap)
    assert caught(p), p
