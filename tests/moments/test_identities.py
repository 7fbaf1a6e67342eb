"""Exact statistics in, exact parameters out (section 10.1 of the algorithms' specification)."""

from __future__ import annotations

import numpy as np
import pytest
from moments import exact_pairs

from bayescrowd.moments.binary import interval_of, member
from bayescrowd.moments.estimate import Estimate
from bayescrowd.moments.factorisation import extract, nonnegative
from bayescrowd.moments.imputation import designated_blocks, factor_of_blocks, robust_factor
from bayescrowd.moments.multispa import columns_of, multispa, vertices
from bayescrowd.moments.multispa_kl import multispa_kl
from bayescrowd.moments.permutation import chain_orders
from bayescrowd.moments.simplex import onto_simplex, prevalence_from_marginals
from bayescrowd.moments.symnmf import symnmf

N_WORKERS = 25
CLASSES = [2, 3, 5, 8]

every_size = pytest.mark.parametrize(
    "n_classes", [pytest.param(n, marks=() if n == 3 else pytest.mark.slow) for n in CLASSES]
)


def blocks_of(confusion, prevalence):
    return np.einsum("k,mka,nkb->mnab", prevalence, confusion, confusion)


@every_size
def test_multispa_finds_separable_confusions(n_classes):
    random = np.random.default_rng(n_classes)
    prevalence = random.dirichlet(np.full(n_classes, 5.0))
    confusion = exact_pairs.separable(N_WORKERS, n_classes, random)
    columns = columns_of(exact_pairs.pairs_of(confusion, prevalence), least=0, shrink=0)
    found, complete, _ = vertices(columns, N_WORKERS, n_classes)
    assert complete.all()
    assert exact_pairs.error_by_worker(confusion, found) < 1e-6


@every_size
def test_multispa_from_labels_to_estimates(n_classes):
    """Names and prevalence too; labels serve for the names only."""
    random = np.random.default_rng(n_classes)
    prevalence = random.dirichlet(np.full(n_classes, 20.0))
    good = 0.7 * np.eye(n_classes) + 0.3 * exact_pairs.separable(N_WORKERS, n_classes, random)
    good[: 2 * n_classes] = exact_pairs.separable(N_WORKERS, n_classes, random)[: 2 * n_classes]
    labels = exact_pairs.labels_of(good, prevalence, 4000, random)
    pairs = exact_pairs.pairs_of(good, prevalence)
    for align in ("mv", "cooccurrence"):
        found = multispa(labels, pairs=pairs, least=0, shrink=0, align=align)
        assert found.estimated.all()
        np.testing.assert_allclose(found.confusion, good, atol=1e-5)
        np.testing.assert_allclose(found.prevalence, prevalence, atol=1e-5)


@every_size
def test_workers_agree_on_one_order_by_their_common_items(n_classes):
    random = np.random.default_rng(n_classes + 10)
    prevalence = random.dirichlet(np.full(n_classes, 5.0))
    confusion = exact_pairs.separable(12 + n_classes, n_classes, random)
    shuffled = np.stack([table[random.permutation(n_classes)] for table in confusion])
    pairs = exact_pairs.pairs_of(confusion, prevalence)
    order, part = chain_orders(shuffled, pairs, np.ones(len(confusion), bool))
    assert (part == 0).all()
    ordered = np.take_along_axis(shuffled, order[:, :, None], axis=1)
    assert (
        exact_pairs.error(confusion, prevalence, ordered, prevalence) < 1e-6
        or exact_pairs.error(confusion, np.zeros(n_classes), ordered, np.zeros(n_classes)) < 1e-12
    )


@every_size
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.5])
def test_both_imputations_and_the_factorisation_are_exact(n_classes, missing):
    random = np.random.default_rng(n_classes)
    prevalence = random.dirichlet(np.full(n_classes, 5.0))
    confusion = exact_pairs.sparse(N_WORKERS, n_classes, random)
    keep = random.random((N_WORKERS, N_WORKERS)) >= missing
    pairs = exact_pairs.pairs_of(confusion, prevalence, keep, n_items=1e16)
    truth = blocks_of(confusion, prevalence)
    blocks, filled = designated_blocks(pairs)
    assert filled.all()
    np.testing.assert_allclose(blocks, truth, atol=1e-6)
    start = np.swapaxes(0.5 * confusion + 0.5 / n_classes, 1, 2) * np.sqrt(prevalence)
    robust = robust_factor(pairs, start, max_iter=2000, tolerance=1e-12)
    np.testing.assert_allclose(np.einsum("mak,nbk->mnab", robust.blocks, robust.blocks), truth, atol=1e-6)
    assert np.diff(robust.objective).max() <= 1e-12
    for root in (factor_of_blocks(blocks, n_classes), robust.blocks):
        ended = nonnegative(root, restarts=10)
        found, roots, spread = extract(ended.factor[np.argmin(ended.objective)], np.ones(N_WORKERS))
        assert exact_pairs.error(confusion, prevalence, found, roots**2 / (roots**2).sum()) < 1e-6
        assert spread < 1e-3


@every_size
def test_kl_and_symnmf_from_labels_to_estimates(n_classes):
    random = np.random.default_rng(n_classes)
    prevalence = random.dirichlet(np.full(n_classes, 5.0))
    confusion = exact_pairs.sparse(N_WORKERS, n_classes, random)
    pairs = exact_pairs.pairs_of(confusion, prevalence, n_items=1e6)
    labels = exact_pairs.labels_of(confusion, prevalence, 100, random)  # they name the classes only
    near = Estimate(0.5 * confusion + 0.5 / n_classes, prevalence, np.ones(N_WORKERS, bool))
    kl = multispa_kl(labels, pairs=pairs, start=near, prior=0, max_iter=2000, tolerance=0)
    assert exact_pairs.error(confusion, prevalence, kl.confusion, kl.prevalence) < 1e-6
    kl = multispa_kl(labels, pairs=pairs, prior=0, max_iter=2000, tolerance=0)  # from its own start
    assert np.diff(kl.objective).max() <= 1e-9 * abs(kl.objective[0])
    assert exact_pairs.error(confusion, prevalence, kl.confusion, kl.prevalence) < 1e-6
    for imputation in ("robust", "designated"):
        found = symnmf(labels, pairs=pairs, imputation=imputation)
        assert exact_pairs.error(confusion, prevalence, found.confusion, found.prevalence) < 1e-6


def test_the_error_of_symnmf_falls_geometrically():
    random = np.random.default_rng(3)
    n_classes, n_workers = 3, 40
    prevalence = np.full(n_classes, 1 / n_classes)
    confusion = exact_pairs.sparse(n_workers, n_classes, random)
    factor = np.swapaxes(confusion, 1, 2) * np.sqrt(prevalence)
    turn = np.linalg.qr(np.eye(n_classes) + 0.3 * random.normal(size=(n_classes, n_classes)))[0]
    begin = np.linalg.qr(turn.T + 0.05 * random.normal(size=(n_classes, n_classes)))[0]
    begin = begin * np.sign(np.diag(turn @ begin))
    gaps = []
    for steps in (1, 5, 9, 13, 17, 21):
        ended = nonnegative(factor @ turn, begin=begin[None], max_iter=steps, tolerance=0)
        gaps.append(np.sqrt(((ended.factor[0] - factor) ** 2).sum()))
    ratios = np.array(gaps[1:]) / np.array(gaps[:-1])
    assert (ratios < 0.9).all()
    assert ratios.max() / ratios.min() < 3


def test_thresholds_that_fall_keep_the_objective_falling():
    random = np.random.default_rng(0)
    confusion = exact_pairs.sparse(20, 3, random)
    root = np.swapaxes(confusion, 1, 2) @ np.linalg.qr(random.normal(size=(3, 3)))[0]
    for thresholds in ((0.0, 0.8), (0.1, 0.8), (0.3, 0.95), (1e-3, 1.0)):
        ended = nonnegative(root, thresholds, restarts=3, max_iter=60)
        assert np.diff(ended.traces, axis=1).max() <= 1e-12 * ended.traces[:, 0].max()


def test_the_interval_of_two_classes():
    for seed in range(20):
        random = np.random.default_rng(seed)
        confusion = random.dirichlet(np.ones(2), size=(6, 2))
        prevalence = random.dirichlet(np.full(2, 3.0))
        found = interval_of(confusion, prevalence)
        low, high = found.prevalence
        assert low - 1e-12 <= prevalence[0] <= high + 1e-12
        truth = blocks_of(confusion, prevalence)
        for odds in (found.low, found.high, np.sqrt(prevalence[1] / prevalence[0])):
            table, share = member(found, max(odds, 1e-9))
            assert table.min() > -1e-9
            np.testing.assert_allclose(blocks_of(table, share), truth, atol=1e-9)
        for odds in (found.low * 0.99, found.high * 1.01):
            assert member(found, odds)[0].min() < 0


def test_prevalence_from_shares_of_labels():
    random = np.random.default_rng(1)
    for n_classes in CLASSES:
        confusion = random.dirichlet(np.ones(n_classes), size=(N_WORKERS, n_classes))
        prevalence = random.dirichlet(np.ones(n_classes))
        marginal = np.einsum("k,wkl->wl", prevalence, confusion)
        found = prevalence_from_marginals(confusion, marginal, np.ones(N_WORKERS))
        np.testing.assert_allclose(found, prevalence, atol=1e-5)
    assert prevalence_from_marginals(confusion, marginal, np.zeros(N_WORKERS)).tolist() == [1 / 8] * 8


def test_projection_onto_the_simplex():
    random = np.random.default_rng(2)
    for _ in range(50):
        point = 3 * random.normal(size=5)
        found = onto_simplex(point)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        for _ in range(20):
            other = random.dirichlet(np.ones(5))
            assert (point - found) @ (other - found) <= 1e-12  # the nearest point of a convex set


@pytest.mark.parametrize("align", ["mv", "cooccurrence", "diagonal"])
def test_every_alignment_names_good_workers_right(align):
    random = np.random.default_rng(5)
    n_classes = 3
    confusion = 0.8 * np.eye(n_classes) + 0.2 * random.dirichlet(np.ones(n_classes), size=(9, n_classes))
    prevalence = np.array([0.5, 0.3, 0.2])
    labels = exact_pairs.labels_of(confusion, prevalence, 4000, random)
    found = multispa(labels, align=align)
    assert found.estimated.all()
    np.testing.assert_allclose(found.confusion, confusion, atol=0.2)
    np.testing.assert_allclose(found.prevalence, prevalence, atol=0.08)
