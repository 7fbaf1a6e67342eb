"""Crowds to draw, calls of every picture, and a world that a picture must leave as it was."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import fitted
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.fit import Fit

HOSTILE = (
    "<script>alert(1)</script>",
    "$x_1$ and $y^2$",
    "工人一号",
    "a very long worker id indeed, of more than forty characters 0001",
    "a very long worker id indeed, of more than forty characters 0002",
    "under_score_",
    "\u202eright to left",
    "new\nline",
    "\\alpha 100% $",
    "naïve café Ω",
    "&amp; <b>",
)


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    """Draw without a screen; settings are as before, and the figures go."""
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before
    plt.close("all")


def random_labels(
    n_items: int, n_workers: int, classes: Any, per_item: tuple[int, int], seed: int = 0, **more: Any
) -> CrowdLabels:
    """Labels that are mostly right, by workers in a random design."""
    random = np.random.default_rng(seed)
    classes = list(classes)
    truth = random.integers(len(classes), size=n_items)
    count = np.minimum(random.integers(per_item[0], per_item[1] + 1, n_items), n_workers)
    item = np.repeat(np.arange(n_items), count)
    worker = np.concatenate([random.choice(n_workers, size=k, replace=False) for k in count])
    wrong = random.random(len(item)) > 0.75
    label = np.where(wrong, random.integers(len(classes), size=len(item)), truth[item])
    names = more.pop("workers", None) or [f"worker{k:03d}" for k in range(n_workers)]
    items = more.pop("items", None) or [f"item{i:04d}" for i in range(n_items)]
    known = pd.Series([classes[code] for code in truth], index=items)
    return CrowdLabels.from_codes(
        item, worker, label, items=items, workers=names, classes=classes, **({"truth": known} | more)
    )


def made(labels: CrowdLabels, model: Any = None, **run: Any) -> Fit:
    """A result without an engine: draws from the prior."""
    model = model or bc.DawidSkene()
    return Fit(fitted.tree_of(labels, model, fitted.made_run(labels, model, **run)))


def _anesthesia_gibbs() -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bc.fit(fitted.anesthesia(), engine="gibbs", chains=2, warmup=50, draws=100, progress=False)


def _odd() -> Fit:
    """Weights, gold, a label that is no class, a worker and an item without labels, a repeat."""
    labels = CrowdLabels.from_codes(
        [0, 0, 0, 1, 1, 2, 2, 2],
        [0, 1, 1, 0, 1, 0, 1, 1],
        [0, 1, 1, 0, 2, 1, 1, 0],
        items=["a", "b", "c", "never"],
        workers=["w1", "w2", "idle"],
        classes=["no", "yes"],
        label_values=["no", "yes", "can't tell"],
        weight=[1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0],
        gold_code=[-1, 0, -1, -1],
    )
    return made(labels)


def _islands() -> Fit:
    """Three groups without common items, and a worker on his own."""
    rows = [(f"i{n}", f"a{w}") for n in range(6) for w in range(4) if (n + w) % 3]
    rows += [(f"j{n}", f"b{w}") for n in range(4) for w in range(3)] + [("k", "c0"), ("k", "c1"), ("l", "alone")]
    frame = pd.DataFrame(rows, columns=["item", "worker"])
    return made(CrowdLabels.from_long(frame.assign(label=np.arange(len(frame)) % 2)))


def _trouble() -> Fit:
    """Two good workers, one who says anything, and one who says the opposite."""
    labels = random_labels(30, 4, ["no", "yes"], (4, 4))
    run = fitted.made_run(labels, bc.DawidSkene(), draws=50)
    good, bad = [[0.9, 0.1], [0.1, 0.9]], [[0.05, 0.95], [0.95, 0.05]]
    centre = np.array([good, [[0.5, 0.5], [0.5, 0.5]], bad, [[0.8, 0.2], [0.2, 0.8]]])
    noise = np.random.default_rng(1).normal(0, 0.02, (2, 50, 4, 2))
    table = np.empty((2, 50, 4, 2, 2))
    table[..., 0] = np.clip(centre[..., 0] + noise, 0.01, 0.99)
    table[..., 1] = 1 - table[..., 0]
    draws = run.draws | {"confusion": table, "prevalence": np.broadcast_to([0.5, 0.5], (2, 50, 2))}
    return Fit(fitted.tree_of(labels, bc.DawidSkene(), run._replace(draws=draws)))


CROWDS: dict[str, Callable[[], Any]] = {
    "anesthesia-gibbs": _anesthesia_gibbs,
    "anesthesia-em": fitted.anesthesia_em,
    "anesthesia-collapsed-vi": lambda: bc.fit(fitted.anesthesia()),
    "levels": lambda: made(random_labels(80, 9, "xyz", (2, 5)), bc.IDBLA(n_levels=3)),
    "500 workers": lambda: made(random_labels(1500, 500, ["a", "b", "c"], (2, 6)), draws=20),
    "2 workers": lambda: made(
        CrowdLabels.from_codes([0, 0], [0, 1], [0, 1], items=[1], workers=["a", "b"], classes=[0, 1])
    ),
    "1 worker": lambda: made(CrowdLabels.from_codes([0, 1], [0, 0], [0, 1], items=[1, 2], workers=[7], classes=[0, 1])),
    "hostile": lambda: made(
        random_labels(
            40,
            len(HOSTILE),
            ["$\\alpha$", "工 <b>", "a class with quite a long name, really"],
            (4, 6),
            workers=list(HOSTILE),
            items=[f"$item_{i}$ <script>" for i in range(40)],
        )
    ),
    "20 classes": lambda: made(random_labels(200, 30, [f"category {c}" for c in range(20)], (3, 5)), draws=20),
    "odd": _odd,
    "islands": _islands,
    "trouble": _trouble,
    "majority vote": lambda: bc.baselines.majority_vote(fitted.anesthesia()),
}


@functools.cache
def crowd(name: str) -> Fit:
    """A result by name; made once."""
    return CROWDS[name]()


def check_of(n_workers: int, *, name: str = "agreement", seed: int = 0, workers: Any = None, **more: Any) -> Any:
    """A predictive check made up: most pairs as expected, the first far off."""
    random = np.random.default_rng(seed)
    first, second = np.triu_indices(n_workers, 1)
    names = workers or [f"worker{k:03d}" for k in range(n_workers)]
    common = random.integers(5, 60, len(first))
    expected = random.uniform(0.4, 0.9, len(first))
    error = np.sqrt(expected * (1 - expected) / common)
    observed = np.clip(expected + 0.9 * error * random.uniform(-1, 1, len(first)), 0, 1)
    observed[0] = 1.0 if expected[0] < 0.7 else 0.1
    table = pd.DataFrame(
        {
            "worker": [names[k] for k in first],
            "other": [names[k] for k in second],
            "n_common": common,
            "observed": observed,
            "expected": expected,
            "lower": np.clip(expected - error, 0, 1),
            "upper": np.clip(expected + error, 0, 1),
            "z": (observed - expected) / error,
        }
    )
    if name == "shares":
        table = table.drop(columns="n_common").rename(columns={"other": "label"})
    table["outside"] = (table["observed"] < table["lower"]) | (table["observed"] > table["upper"])
    given = {"name": name, "table": table, "p_value": 0.004, "sentence": f"{name}: they agree. -> do something"}
    return SimpleNamespace(**(given | more))


def splits_of(splits: list[str] | None = None, **more: Any) -> Any:
    """A check of vote splits made up; the first is outside its interval."""
    splits = splits or ["3-0", "2-1", "5-0", "4-1", "3-2"]
    n = len(splits)
    expected = np.linspace(40, 10, n)
    observed = expected.copy()
    observed[0] += 20
    table = pd.DataFrame(
        {
            "split": splits,
            "n_labels": [3] * 2 + [5] * (n - 2),
            "observed": observed,
            "expected": expected,
            "lower": expected - 6,
            "upper": expected + 6,
            "z": (observed - expected) / 4,
        }
    )
    table["outside"] = (table["observed"] < table["lower"]) | (table["observed"] > table["upper"])
    return SimpleNamespace(**({"name": "splits", "table": table, "p_value": 0.3, "sentence": "Votes split."} | more))


def calibration_of(confidence: float = 0.95, accuracy: float = 0.91, *, verdict: int = 1, n_classes: int = 2) -> Any:
    """A calibration made up."""
    curve = pd.DataFrame(
        {
            "lower": [0.5, 0.6, 0.9],
            "upper": [0.6, 0.9, 1.0],
            "n_items": [5, 40, 300],
            "confidence": [0.56, 0.8, 0.97],
            "accuracy": [0.5, 0.75, 0.93],
            "accuracy_lower": [0.2, 0.6, 0.9],
            "accuracy_upper": [0.8, 0.85, 0.95],
        }
    )
    names = ["log_loss", "brier", "calibration_error", "accuracy", "confidence", "confidently_wrong"]
    value = np.array([0.35, 0.12, 0.04, accuracy, confidence, 0.012])
    scores = pd.DataFrame({"value": value, "lower": value - 0.01, "upper": value + 0.01}, index=names)
    by_class = pd.DataFrame({"n_items": 1}, index=range(n_classes))
    return SimpleNamespace(curve=curve, scores=scores, by_class=by_class, verdict=verdict)


def comparison_of(names: Any = ("idbla", "dawid-skene", "$a$ <b> 工 model with quite a long name")) -> pd.DataFrame:
    """A comparison made up: the first is best by far."""
    n = len(names)
    return pd.DataFrame(
        {"elpd_diff": -20.0 * np.arange(n), "dse": 4.0 * np.arange(n), "weight": [0.9, 0.1, 0.0][:n]}, index=list(names)
    )


def calls() -> dict[str, Callable[..., Any]]:
    """Every picture, ready to be called with the conventional arguments alone."""
    from bayescrowd import plots

    gibbs = crowd("anesthesia-gibbs")
    return {
        "plot_confusion": functools.partial(plots.plot_confusion, gibbs),
        "plot_workers": functools.partial(plots.plot_workers, gibbs),
        "plot_items": functools.partial(plots.plot_items, gibbs),
        "plot_explanation": functools.partial(plots.plot_explanation, gibbs, 3),
        "plot_agreement": functools.partial(plots.plot_agreement, check_of(6)),
        "plot_graph": functools.partial(plots.plot_graph, gibbs),
        "plot_reliability": functools.partial(plots.plot_reliability, calibration_of()),
        "plot_comparison": functools.partial(plots.plot_comparison, comparison_of()),
        "plot_certainty": functools.partial(plots.plot_certainty, gibbs),
    }


def well_drawn(picture: Any) -> Any:
    """Lay everything out: no warning, and nothing that is cut off at the edge. Gives the figure."""
    figure = picture.viz["figure"].item()
    figure.draw_without_rendering()
    width, height = figure.bbox.width, figure.bbox.height
    parts = [(axes.get_title() or repr(axes), axes.get_tightbbox()) for axes in figure.axes]
    parts += [(text.get_text(), text.get_window_extent()) for text in figure.texts]
    parts += [("legend", legend.get_window_extent()) for legend in figure.legends]
    for what, box in parts:
        if box is not None:
            inside = box.x0 > -3 and box.y0 > -3 and box.x1 < width + 3 and box.y1 < height + 3
            assert inside, f"{what} is cut off: {box} in {width} x {height}"
    return figure


@pytest.fixture
def drawn() -> Any:
    """What the tests of all pictures share."""
    return SimpleNamespace(
        crowd=crowd,
        calls=calls,
        check_of=check_of,
        splits_of=splits_of,
        calibration_of=calibration_of,
        comparison_of=comparison_of,
        well_drawn=well_drawn,
        random_labels=random_labels,
        made=made,
        hostile=HOSTILE,
    )
