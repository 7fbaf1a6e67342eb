"""Classifiers as workers: the machine-classifier experiment of the NeurIPS paper, on data that scikit-learn ships."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayescrowd as bc

KEPT = (1.0, 0.5, 0.2)
TRAINED_ON = 0.2

METHODS: dict[str, dict[str, Any]] = {
    "MultiSPA": {"engine": "multispa"},
    "MultiSPA, released rules": {"engine": "multispa", "compat": "released"},
    "MultiSPA-KL": {"engine": "multispa-kl"},
    "MultiSPA-D&S": {"engine": "multispa", "polish": 10},
    "SymNMF": {"engine": "symnmf"},
    "D&S from majority": {"engine": "em"},
}


def data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name -> features and classes."""
    from sklearn import datasets

    digits = datasets.load_digits()
    cancer = datasets.load_breast_cancer()
    made = datasets.make_classification(
        6000, n_features=12, n_informative=6, n_redundant=2, n_classes=4, class_sep=0.9, flip_y=0.02, random_state=1
    )
    return {
        "digits (10 classes)": (digits.data, digits.target),
        "breast cancer (2 classes)": (cancer.data, cancer.target),
        "simulated (4 classes)": made,
    }


def workers() -> dict[str, Any]:
    """Ten classifiers, as in the paper's experiment: trees, nearest neighbours, logistic, discriminants."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    scaled = lambda model: make_pipeline(StandardScaler(), model)
    return {
        "fine tree": DecisionTreeClassifier(max_leaf_nodes=100, random_state=0),
        "medium tree": DecisionTreeClassifier(max_leaf_nodes=20, random_state=0),
        "coarse tree": DecisionTreeClassifier(max_leaf_nodes=4, random_state=0),
        "fine neighbours": scaled(KNeighborsClassifier(1)),
        "medium neighbours": scaled(KNeighborsClassifier(10)),
        "coarse neighbours": scaled(KNeighborsClassifier(50)),
        "cosine neighbours": scaled(KNeighborsClassifier(10, metric="cosine")),
        "logistic": scaled(LogisticRegression(max_iter=500)),
        "linear discriminant": LinearDiscriminantAnalysis(),
        # A class has too few items for a covariance of all features.
        "quadratic discriminant": make_pipeline(
            StandardScaler(), PCA(8, random_state=0), QuadraticDiscriminantAnalysis()
        ),
    }


def answers(features: np.ndarray, classes: np.ndarray, seed: int) -> pd.DataFrame:
    """Every classifier's label of every item it was not trained on, with the truth."""
    from sklearn.model_selection import train_test_split

    known, rest, known_class, truth = train_test_split(
        features, classes, train_size=TRAINED_ON, random_state=seed, stratify=classes
    )
    n = len(truth)
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in workers().items():
            found = model.fit(known, known_class).predict(rest)
            parts.append(pd.DataFrame({"item": np.arange(n), "worker": name, "label": found, "truth": truth}))
    return pd.concat(parts, ignore_index=True)


def compare(trials: int, say: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, dict[float, float]]]:
    """Data -> method -> share of labels kept -> mean error in percent."""
    from scoring import hits

    out: dict[str, dict[str, dict[float, float]]] = {}
    for name, (features, classes) in data().items():
        table: dict[str, dict[float, list[float]]] = {}
        for seed in range(trials):
            frame = answers(features, classes, seed)
            random = np.random.default_rng(seed)
            by_worker = frame["label"].eq(frame["truth"]).groupby(frame["worker"]).mean()
            for kept in KEPT:
                part = frame[random.random(len(frame)) < kept]
                labels = bc.CrowdLabels.from_long(
                    part, item="item", worker="worker", label="label", truth="truth", classes=sorted(set(classes))
                )
                truth = labels.truth.dropna()
                votes = part.groupby(["item", "label"]).size().unstack(fill_value=0).reindex(columns=labels.classes)
                table.setdefault("majority vote", {}).setdefault(kept, []).append(
                    1 - hits(votes.fillna(0), truth.loc[truth.index.isin(votes.index)])
                )
                table.setdefault("best single classifier", {}).setdefault(kept, []).append(1 - by_worker.max())
                for method, how in METHODS.items():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        fit = bc.fit(labels, "dawid-skene", progress=False, **how)
                    table.setdefault(method, {}).setdefault(kept, []).append(1 - hits(fit.class_probabilities(), truth))
            say(f"classifiers on {name}, trial {seed + 1} of {trials}")
        out[name] = {
            method: {kept: 100 * float(np.mean(values)) for kept, values in row.items()}
            for method, row in table.items()
        }
    return out
