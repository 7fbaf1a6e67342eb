"""Leaving pieces of a label table out, by the definition: nothing of what is tested is used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import oracle
from numpyro import distributions as dist
from scipy.special import logsumexp

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.model import Model, Route


def pieces(labels: CrowdLabels, by: str) -> range:
    return range({"item": labels.n_items, "annotation": labels.n_annotations, "worker": labels.n_workers}[by])


def without(labels: CrowdLabels, by: str, piece: int | np.ndarray) -> CrowdLabels:
    """The table without the labels (and the gold) of an item, without an annotation, or without a worker's labels."""
    of_row = {"item": labels.item_code, "annotation": np.arange(labels.n_annotations), "worker": labels.worker_code}[by]
    keep = ~np.isin(of_row, piece)
    gold = labels.gold_code.copy()
    if by == "item":
        gold[piece] = -1
    return dataclasses.replace(
        labels,
        item_code=labels.item_code[keep],
        worker_code=labels.worker_code[keep],
        label_code=labels.label_code[keep],
        weight=None if labels.weight is None else labels.weight[keep],
        gold_code=gold,
        truth=None,
    )


def differences(labels: CrowdLabels, by: str, log_p: Callable[[CrowdLabels], float]) -> np.ndarray:
    """Log probability of each piece given the rest: that of the whole table less that of the table without it."""
    whole = log_p(labels)
    return np.array([whole - log_p(without(labels, by, piece)) for piece in pieces(labels, by)])


def exact(labels: CrowdLabels, by: str, **prior: Any) -> np.ndarray:
    """Exact leave-one-out by enumeration, parameters integrated out (`oracle.posterior`)."""
    return differences(labels, by, lambda table: oracle.posterior(oracle.of_labels(table), **prior).log_evidence)


def log_p(labels: CrowdLabels, prevalence: Any, response: Callable[[int, int, int], np.ndarray]) -> float:
    """Log probability of a table at given parameters, item by item.

    ``prevalence`` [state]; ``response(worker, label, item)`` gives P(label | state) [state], whose class is
    ``state % n_classes``.
    """
    total = 0.0
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    for item in range(labels.n_items):
        log = np.log(np.asarray(prevalence, float))
        for row in np.flatnonzero(labels.item_code == item):
            log = log + weight[row] * np.log(response(labels.worker_code[row], labels.label_code[row], item))
        known = labels.gold_code[item]
        allowed = (known < 0) | (np.arange(len(log)) % labels.n_classes == known)
        total += logsumexp(log[allowed])
    return float(total)


def rich() -> CrowdLabels:
    """Everything at once: weights, gold, a repeat, a label that is no class, an item and a worker without labels."""
    rows = [
        (0, 0, 0), (0, 1, 0), (0, 2, 1), (1, 0, 1), (1, 1, 2), (1, 1, 1), (2, 2, 1),
        (2, 0, 1), (3, 1, 0), (3, 2, 2), (3, 0, 0), (5, 0, 0), (5, 1, 1),
    ]  # fmt: skip
    table = np.array(rows)
    return CrowdLabels.from_codes(
        *table.T,
        items=["a", "b", "c", "d", "no labels", "f"],
        workers=["w1", "w2", "w3", "silent"],
        classes=["no", "yes"],
        label_values=["no", "yes", "can't tell"],
        weight=[1, 1, 1, 2, 1, 1, 0.5, 1, 1, 1, 1, 1, 1],
        gold_code=[-1, 1, -1, -1, -1, 0],
    )


def small() -> CrowdLabels:
    """Six items, four workers, two classes; worker w4 says the opposite of the others, item f is hard."""
    patterns = ["1110", "0001", "1101", "0 00", "11 0", "1001"]
    rows = [(i, k, int(c)) for i, text in enumerate(patterns) for k, c in enumerate(text) if c != " "]
    return CrowdLabels.from_codes(
        *np.array(rows).T, items=list("abcdef"), workers=["w1", "w2", "w3", "w4"], classes=["no", "yes"]
    )


def prior() -> Any:
    return bc.diagonal(3, 1)


def strong() -> CrowdLabels:
    """Six items that four workers judge four times each: leaving one worker out changes nearly everything."""
    patterns = ["1101", "0010", "1101", "0001", "0010", "1101"]
    rows = [(i, k, int(c)) for i, text in enumerate(patterns) for k, c in enumerate(text) for _ in range(4)]
    rows[7] = (0, 1, 0)
    return CrowdLabels.from_codes(*np.array(rows).T, workers=["w1", "w2", "w3", "w4"], classes=["no", "yes"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Parity(Model):
    """Dawid-Skene with confusion matrices of their own for even and odd items: routes that depend on the item."""

    name = "parity"
    uses_item = True

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = dist.Dirichlet(jnp.ones(sizes.n_classes))
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        rows = dist.Dirichlet(bc.diagonal(3, 1).table(sizes.n_classes, sizes.n_labels))
        of_class = numpyro.plate("class", sizes.n_classes, dim=-1)
        with numpyro.plate("worker", sizes.n_workers, dim=-3), numpyro.plate("parity", 2, dim=-2), of_class:
            table = numpyro.sample("by_parity", rows, infer={"event_dims": ["label"]})
        return {"prevalence": prevalence, "by_parity": table}

    def log_response(self, parameters: Any, at: Any) -> Any:
        return jnp.log(parameters["by_parity"])[at.worker, at.item % 2, at.true_class, at.label]

    def routes(self, at: Any) -> list[Route]:
        return [Route({"by_parity": (at.worker, at.item % 2, at.true_class, at.label)})]

    def program(self, table: Any) -> None:
        raise NotImplementedError
