"""Dawid-Skene: the program as a NumPyro user runs it, and the density by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
import scipy.stats
from conformance import checks
from conformance.cases import d1
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from running import D1, of_rows

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes, build_padded
from bayescrowd.kernels.precision import double_precision

R31 = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def test_the_density_by_hand():
    """Five items, three workers: prior by SciPy, labels item by item."""
    rng = np.random.default_rng(0)
    prevalence, confusion = rng.dirichlet([1, 1]), rng.dirichlet([2, 2], (3, 2))
    expected = scipy.stats.dirichlet.logpdf(prevalence, [1, 1])
    for k in range(3):
        expected += scipy.stats.dirichlet.logpdf(confusion[k, 0], [3, 1])
        expected += scipy.stats.dirichlet.logpdf(confusion[k, 1], [1, 3])
    for text in D1:
        said = [int(c) for c in text]
        expected += np.log(
            sum(prevalence[c] * np.prod([confusion[k, c, y] for k, y in enumerate(said)]) for c in range(2))
        )
    parameters = {"prevalence": prevalence, "confusion": confusion}
    assert checks.marginal_density(R31, d1(), parameters) == pytest.approx(expected, abs=1e-11)
    assert checks.enumerated_density(R31, d1(), parameters) == pytest.approx(expected, abs=1e-11)


@pytest.mark.slow
def test_numpyros_own_sampler_runs_the_program():
    mcmc = MCMC(NUTS(R31.program), num_warmup=500, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(1), d1().padded())
    draws = mcmc.get_samples()
    exact = oracle.posterior(oracle.of_labels(d1()))
    np.testing.assert_allclose(draws["prevalence"].mean(0), exact.prevalence, atol=0.03)
    np.testing.assert_allclose(draws["confusion"].mean(0), exact.confusion[:, 0], atol=0.03)


def test_the_program_simulates_what_it_says():
    """Frequencies of labels given the class, against the confusion matrix that was used."""
    rng = np.random.default_rng(1)
    n = 20_000
    rows = [(i, i % 3, 0) for i in range(n)]
    table = build_padded(of_rows(rows, classes=2, label_values=3), with_labels=False)
    parameters = {"prevalence": np.array([0.3, 0.7]), "confusion": rng.dirichlet([2, 1, 1], (3, 2))}
    with double_precision():
        values = {name: jnp.asarray(value) for name, value in parameters.items()}
        program = handlers.seed(handlers.substitute(R31.program, data=values), jax.random.key(0))
        trace = handlers.trace(program).get_trace(table)
    true_class = np.asarray(trace["true_class"]["value"]).ravel()
    said = np.asarray(trace["labels"]["value"])[:, 0]
    assert true_class.mean() == pytest.approx(0.7, abs=4 * np.sqrt(0.21 / n))
    for k in range(3):
        for c in range(2):
            those = said[(np.arange(n) % 3 == k) & (true_class == c)]
            share = np.bincount(those, minlength=3) / len(those)
            np.testing.assert_allclose(share, parameters["confusion"][k, c], atol=4.5 * np.sqrt(0.25 / len(those)))


def test_P79_hundreds_of_items_are_two_sites():
    rows = [(i, k, 0) for i in range(200) for k in range(3)]
    program = handlers.seed(R31.program, jax.random.key(0))
    trace = handlers.trace(program).get_trace(build_padded(of_rows(rows, classes=2)))
    sites = [name for name, site in trace.items() if site["type"] == "sample"]
    assert sites == ["prevalence", "confusion", "true_class", "labels"]


def test_confusion_matrices_of_one_draw():
    sizes = Sizes(2, 3, 2, 4)
    parameters = checks.prior_draw(bc.DawidSkene(), sizes, seed=0)
    np.testing.assert_allclose(bc.DawidSkene().confusion(parameters, sizes), parameters["confusion"], atol=1e-6)


def test_the_default_prior_favours_the_diagonal_weakly():
    site = bc.DawidSkene().sites(Sizes(1, 1, 3, 3))["confusion"]
    np.testing.assert_array_equal(site.concentration[0], oracle.diagonal(3, 3, 1.5, 0.5))
