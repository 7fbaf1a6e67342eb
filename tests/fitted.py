"""Labels, fits and hand-made runs that several test files share; real fits are made once per session."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pandas as pd
from numpyro import distributions as dist

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Run, Status, sizes_of
from bayescrowd.inference.em import Settings
from bayescrowd.model import At, Model
from bayescrowd.results.build import build_tree

D1 = {"a": "110", "b": "000", "c": "111", "d": "010", "e": "001"}
D1_EXACT = [0.71969, 0.06910, 0.91611, 0.30942, 0.22737]
"""P(class 1) of a to e under R31, by enumeration."""


def r31() -> bc.DawidSkene:
    return bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))


def frame(
    patterns: dict[Any, str] = D1, values: Any = ("no", "yes"), workers: Any = ("w1", "w2", "w3")
) -> pd.DataFrame:
    rows = [(i, workers[k], values[int(c)]) for i, text in patterns.items() for k, c in enumerate(text) if c != " "]
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def d1(**more: Any) -> CrowdLabels:
    return CrowdLabels.from_long(frame(), **more)


@functools.cache
def em() -> Fit:
    return bc.fit(d1(), engine="em")


@functools.cache
def nuts() -> Fit:
    return bc.fit(d1(), r31(), engine="nuts", warmup=300, draws=1000, chains=4)


@functools.cache
def anesthesia() -> CrowdLabels:
    return bc.datasets.load("anesthesia")


@functools.cache
def anesthesia_em() -> Fit:
    return bc.fit(anesthesia(), engine="em")


def made_run(labels: CrowdLabels, model: Model, *, chains: int = 2, draws: int = 40, seed: int = 0, **more: Any) -> Run:
    """A run with draws from the prior; the state probabilities are random too. For layout, not for statistics."""
    random = np.random.default_rng(seed)
    sizes = sizes_of(labels)
    values = {}
    for name, site in model.sites(sizes).items():
        if site.kind == "other":
            values[name] = random.standard_normal((chains, draws, *site.shape))
            continue
        concentration = np.asarray(site.concentration)
        gammas = random.standard_gamma(concentration, (chains, draws, *concentration.shape)) + 1e-12
        shares = gammas / gammas.sum(-1, keepdims=True)
        values[name] = shares[..., 0] if site.kind == "beta" else shares
    by_chain = random.dirichlet(np.ones(model.n_levels * sizes.n_classes), (chains, sizes.n_items))
    parts: dict[str, Any] = {
        "points": None,
        "draws": values,
        "state_probability": by_chain.mean(0),
        "state_probability_by_chain": by_chain,
        "log_likelihood": random.normal(-2, 0.3, (chains, draws, sizes.n_items)),
        "sample_stats": {"lp": random.normal(size=(chains, draws)), "diverging": np.zeros((chains, draws), bool)},
        "objective": None,
        "status": Status("sampled", f"{chains} chains of {draws} draws.", None),
    }
    return Run(**(parts | more))


def made_point(labels: CrowdLabels, model: Model, *, seed: int = 0, **more: Any) -> Run:
    """A point estimate of the same kind."""
    run = made_run(labels, model, chains=1, draws=1, seed=seed)
    points = {name: value[0, 0] for name, value in run.draws.items()}
    parts = {
        "points": points,
        "draws": None,
        "state_probability_by_chain": None,
        "log_likelihood": None,
        "sample_stats": None,
        "objective": np.array([-3.0, -2.0]),
        "status": Status("converged", "Converged after 2 passes.", True),
    }
    return run._replace(**(parts | more))


def tree_of(labels: CrowdLabels, model: Model, run: Run, engine: str | None = None, **more: Any) -> Any:
    name = engine or ("nuts" if run.draws is not None else "em")
    return build_tree(labels, model, name, Settings(), run, 0, 0.5, **more)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneCoin(Model):
    """A worker is right with one probability; wrong labels are uniform. No site called confusion."""

    prevalence_prior: Any = 1.0
    right: Any = 4.0

    name = "one-coin"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers):
            accuracy = numpyro.sample("right_rate", dist.Beta(self.right, 1.0))
        return {"prevalence": prevalence, "right_rate": accuracy}

    def log_response(self, parameters: Any, at: At) -> Any:
        rate = parameters["right_rate"][at.worker]
        return jnp.log(jnp.where(at.label == at.true_class, rate, (1 - rate) / (at.sizes.n_labels - 1)))

    def program(self, table: Any) -> None:
        raise NotImplementedError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Levelled(OneCoin):
    """The same with two levels of difficulty: on hard items everybody guesses."""

    n_levels: int = field(default=2, metadata={"static": True})

    name = "levelled"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        found = super().parameters(sizes)
        shares = dist.Dirichlet(jnp.ones(2))
        levels = numpyro.sample("difficulty_prevalence", shares, infer={"event_dims": ["difficulty"]})
        return found | {"difficulty_prevalence": levels}

    def log_response(self, parameters: Any, at: At) -> Any:
        easy = super().log_response(parameters, at)
        return jnp.where(at.difficulty == 0, easy, -jnp.log(at.sizes.n_labels))

    def difficulty_names(self) -> list[str]:
        return ["easy", "hard"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Skilled(OneCoin):
    """One coin per worker, drawn around a common skill on the logit scale: no conjugate tables."""

    name = "skilled"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = dist.Dirichlet(jnp.ones(sizes.n_classes))
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        common = numpyro.sample("common_skill", dist.Normal(1.0, 1.0))
        with numpyro.plate("worker", sizes.n_workers):
            skill = numpyro.sample("skill", dist.Normal(common, 0.1))
        return {"prevalence": prevalence, "common_skill": common, "skill": skill}

    def log_response(self, parameters: Any, at: At) -> Any:
        rate = jax.nn.sigmoid(parameters["skill"])[at.worker]
        return jnp.log(jnp.where(at.label == at.true_class, rate, (1 - rate) / (at.sizes.n_labels - 1)))


def random_crowd(seed: int, *, items: int = 9, workers: int = 5, labels: int = 3, rows: int = 40) -> CrowdLabels:
    """Random rows, repeats of a worker on an item and items and workers without labels among them."""
    random = np.random.default_rng(seed)
    return CrowdLabels.from_codes(
        random.integers(0, items, rows),
        random.integers(0, workers, rows),
        random.integers(0, labels, rows),
        items=[f"i{number}" for number in range(items + 2)],
        workers=[f"w{number}" for number in range(workers + 1)],
        classes=["a", "b"],
        label_values=["a", "b", "c", "d", "e"][:labels],
    )
