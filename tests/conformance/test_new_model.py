"""A newcomer's model, defined in this file alone, goes through the contract and every engine that exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import oracle
import pytest
import running
from conformance import checks
from conformance.cases import CASES, golden
from numpyro import distributions as dist
from scipy.special import betaln, logsumexp

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.errors import EngineError
from bayescrowd.inference.base import sizes_of
from bayescrowd.model import At, Model, Route, annotations, observe_gold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneCoin(Model):
    """Each worker is right with one probability, and otherwise says any other label, all alike."""

    prevalence_prior: Any = 1.0
    right: Any = 4.0
    wrong: Any = 1.5

    name = "one-coin"

    def parameters(self, sizes):
        shares = dist.Dirichlet(jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,)))
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-1):
            ability = numpyro.sample("ability", dist.Beta(self.right, self.wrong))
        return {"prevalence": prevalence, "ability": ability}

    def log_response(self, parameters, at):
        ability = parameters["ability"][at.worker]
        right = at.label == at.true_class
        return jnp.where(right, jnp.log(ability), jnp.log1p(-ability) - np.log(at.sizes.n_labels - 1))

    def program(self, table):
        sizes = table.sizes
        parameters = self.parameters(sizes)
        with numpyro.plate("item", sizes.n_items, dim=-2):
            classes = dist.Categorical(parameters["prevalence"])
            true_class = numpyro.sample("true_class", classes, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            with annotations(table):
                at = At(table.worker[..., None], true_class[..., None], 0, jnp.arange(sizes.n_labels), None, sizes)
                numpyro.sample("labels", dist.Categorical(logits=self.log_response(parameters, at)), obs=table.label)

    def routes(self, at):
        right = at.label == at.true_class
        among_others = jnp.where(right, 0.0, -np.log(at.sizes.n_labels - 1))
        return [Route({"ability": (at.worker, jnp.where(right, 0, 1))}, among_others)]


MODEL = OneCoin()


def exact(labels):
    """Sum over all assignments, the abilities integrated out by Beta functions."""
    data = oracle.of_labels(labels)
    logs, every = [], oracle.assignments(data)
    for classes in every:
        share = np.bincount(classes, minlength=data.n_classes)
        value = oracle._log_polya(share, np.ones(data.n_classes))
        right = classes[data.item] == data.label
        for k in range(data.n_workers):
            mine = data.worker == k
            hit, miss = (data.weight[mine & right]).sum(), (data.weight[mine & ~right]).sum()
            value += betaln(4 + hit, 1.5 + miss) - betaln(4, 1.5) - miss * np.log(data.n_labels - 1)
        logs.append(value)
    p = np.exp(np.array(logs) - logsumexp(logs))
    probability = np.stack([(every == c).T @ p for c in range(data.n_classes)], axis=1)
    ability = np.zeros(data.n_workers)
    for classes, share in zip(every, p, strict=True):
        right = classes[data.item] == data.label
        for k in range(data.n_workers):
            mine = data.worker == k
            hit = data.weight[mine & right].sum()
            ability[k] += share * (4 + hit) / (5.5 + data.weight[mine].sum())
    return probability, ability, float(logsumexp(logs))


@pytest.mark.parametrize(
    "case", ["everything", *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case != "everything")]
)
def test_density(case):
    labels = CASES[case]()
    parameters = checks.prior_draw(MODEL, sizes_of(labels), seed=2)
    brute = checks.brute_density(MODEL, labels, parameters)
    assert checks.enumerated_density(MODEL, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.marginal_density(MODEL, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.route_gap(MODEL, labels, parameters) < 1e-12


def test_its_sites_are_read_off_the_trace():
    sites = MODEL.sites(sizes_of(CASES["everything"]()))
    assert {name: site.kind for name, site in sites.items()} == {"prevalence": "dirichlet", "ability": "beta"}
    assert sites["ability"].dims == ("worker",)
    np.testing.assert_allclose(sites["ability"].concentration, [[4, 1.5]] * 4)


@pytest.mark.slow
def test_every_engine_that_exists_runs_it():
    """Engines with draws give the exact posterior; the others a sensible point."""
    labels = golden()
    probability, ability, _ = exact(labels)
    small = {"nuts": {"chains": 2, "warmup": 300, "draws": 1000}}
    for name in inference.names():
        if not inference.get(name).starts:  # moment estimators, which know one model only and say so
            with pytest.raises(EngineError, match="Use it as a start"):
                inference.get(name).check(MODEL, inference.get(name).settings())
            continue
        run = running.run(labels, MODEL, name, **small.get(name, {}))
        assert run.state_probability.shape == (4, 2)
        np.testing.assert_allclose(run.state_probability.sum(1), 1, atol=1e-9)
        if inference.get(name).samples:
            np.testing.assert_allclose(run.state_probability, probability, atol=0.03)
            np.testing.assert_allclose(run.draws["ability"].mean((0, 1)), ability, atol=0.03)


def test_em_finds_the_mode():
    labels = bc.simulate(OneCoin(right=8.0), n_items=60, n_workers=5, classes=3, seed=1).labels
    run = running.run(labels, MODEL, "em", objective="posterior", tolerance=1e-14, change_tolerance=1e-9)
    assert np.diff(run.objective).min() > -1e-9
    assert checks.stationarity(MODEL, labels, run.points, posterior=True) < 1e-4
    # Each ability is the mode of its Beta given the class probabilities.
    hit = np.zeros(5)
    np.add.at(hit, labels.worker_code, run.state_probability[labels.item_code, labels.label_code])
    total = np.bincount(labels.worker_code, minlength=5)
    np.testing.assert_allclose(run.points["ability"], (hit + 3) / (total + 3.5), atol=1e-6)


def test_the_front_door_takes_it():
    labels = bc.simulate(OneCoin(right=8.0), n_items=40, n_workers=5, classes=3, seed=2).labels
    fit = bc.fit(labels, MODEL, progress=False)
    assert fit.class_probabilities().shape == (40, 3)
    assert fit.workers().shape[0] == 5
    assert fit.confusion("worker1").shape == (3, 3)
    assert fit.model == MODEL
    assert "one-coin" in repr(fit)


def test_the_skeleton_to_copy_passes():
    """The template is a working model, so that a newcomer starts from something right."""
    import importlib

    template = importlib.import_module("bayescrowd.models._template").OneCoin()
    labels = CASES["everything"]()
    template.check(sizes_of(labels))
    parameters = checks.prior_draw(template, sizes_of(labels), seed=2)
    brute = checks.brute_density(template, labels, parameters)
    assert checks.enumerated_density(template, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.marginal_density(template, labels, parameters) == pytest.approx(brute, abs=1e-10)
    assert checks.route_gap(template, labels, parameters) < 1e-12
