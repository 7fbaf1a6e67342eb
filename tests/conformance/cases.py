"""Tiny label tables, one for each thing that a table may hold, and the models to try on them."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.toys import TOYS
from running import D1, labels_of, of_rows

import bayescrowd as bc
import bayescrowd.models
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.model import Model


def golden() -> CrowdLabels:
    """Four items by three workers, two labels missing."""
    return labels_of(["001", "111", "01 ", "0 0"])


def holes() -> CrowdLabels:
    """Ragged; the last item and the last worker have no labels; class 2 is never said."""
    rows = [(0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 1, 0), (2, 0, 0), (2, 2, 1)]
    return of_rows(rows, classes=3, items=list("abcd"), workers=list("wxyz"))


def repeats() -> CrowdLabels:
    """Repeats by one worker, contradictions among them, and a label that is no class."""
    rows = [
        (0, 0, 1),
        (0, 0, 1),
        (0, 0, 2),
        (0, 1, 0),
        (1, 0, 0),
        (1, 1, 2),
        (2, 1, 1),
        (2, 2, 1),
        (2, 2, 0),
        (3, 2, 2),
    ]
    return of_rows(rows, classes=["no", "yes"], label_values=["no", "yes", "can't tell"])


def weighted() -> CrowdLabels:
    """Whole and fractional weights, and two gold items."""
    rows = [(0, 0, 1), (0, 1, 1), (0, 2, 0), (1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 2, 0), (3, 1, 0)]
    return of_rows(rows, weight=[2.0, 0.5, 1.25, 3.0, 0.1, 1.0, 0.75, 1.0], gold={0: 0, 3: 1})


def three_classes() -> CrowdLabels:
    """Three classes, every label used."""
    return labels_of(["012", "112", "220", "00 "], classes=3)


def everything() -> CrowdLabels:
    """All of it at once: holes, repeats, a label that is no class, weights, gold."""
    rows = [(0, 0, 1), (0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 1, 1), (2, 1, 1), (2, 2, 0), (2, 2, 1), (3, 2, 2)]
    more = {"items": list("abcde"), "workers": list("wxyz"), "label_values": ["no", "yes", "can't tell"]}
    weight = [2.0, 0.5, 1.25, 3.0, 0.1, 1.0, 0.75, 1.0, 1.0]
    return of_rows(rows, classes=["no", "yes"], weight=weight, gold={1: 0}, **more)


CASES = {function.__name__: function for function in (golden, holes, repeats, weighted, three_classes, everything)}


def d1() -> CrowdLabels:
    """The five items of the exact example."""
    return labels_of(D1)


def registered() -> list[Model]:
    """Every model of the reading room with its default priors, and Dawid-Skene with others."""
    rng = np.random.default_rng(5)
    more = [
        bc.DawidSkene(confusion_prior=bc.diagonal(3, 1)),
        bc.DawidSkene(prevalence_prior=2.5, confusion_prior=rng.uniform(0.5, 4)),
    ]
    return [bayescrowd.models.get(name)() for name in bayescrowd.models.names()] + more


MODELS = registered() + list(TOYS)
PLAIN = MODELS[: len(bayescrowd.models.names())]
"""The registered models with their default priors."""


def model_id(model: Model) -> str:
    """Name of a model for the id of a test."""
    return f"{model.name}{MODELS.index(model) if model.name == 'dawid-skene' else ''}"


def cross() -> list[object]:
    """Registered models on every case; toys and other priors on the one that holds everything, a few of them fast."""
    quick = [*PLAIN, *(toy for toy in TOYS if toy.name in ("subtypes", "ability"))]
    slow = lambda model, case: () if case == "everything" and model in quick else pytest.mark.slow
    return [
        pytest.param(model, case, id=f"{model_id(model)}-{case}", marks=slow(model, case))
        for model in MODELS
        for case in (CASES if model in PLAIN else ("everything",))
    ]
