"""Every function of ArviZ that people reach for takes a result as it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import fitted
import numpy as np
import pandas as pd
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.fit import Fit

az = pytest.importorskip("arviz")


@pytest.fixture(autouse=True)
def _agg() -> Iterator[None]:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


KINDS: dict[str, Any] = {
    "text": (["no", "yes"], ["w1", "w2", "w3"]),
    "bool": ([False, True], [1, 2, 3]),
    "int": ([0, 1], [10, 11, 12]),
    "mixed": ([1, "1"], [1, "1", 2.5]),
    "float": ([0.5, 2.5], ["a", "b", "c"]),
}


@pytest.fixture(params=KINDS)
def fit(request: pytest.FixtureRequest) -> Fit:
    classes, workers = KINDS[request.param]
    given = fitted.d1()
    labels = CrowdLabels.from_codes(
        given.item_code,
        given.worker_code,
        given.label_code,
        items=pd.Index([1, "b", 2.5, "1", "e"], dtype=object) if request.param == "mixed" else list("abcde"),
        workers=pd.Index(workers, dtype=object),
        classes=pd.Index(classes, dtype=object),
    )
    return Fit(fitted.tree_of(labels, bc.DawidSkene(), fitted.made_run(labels, bc.DawidSkene())))


def test_summary(fit: Fit) -> None:
    table = az.summary(fit.idata, ci_prob=0.89, ci_kind="eti")
    assert len(table) == 2 + 3 * 2 * 2
    assert table["r_hat"].notna().all()
    assert any(name.startswith("confusion[") for name in table.index)


def test_summary_needs_no_help_for_other_data() -> None:
    Fit(fitted.nuts().idata).idata  # noqa: B018
    other = az.from_dict({"posterior": {"mu": np.random.default_rng(0).normal(size=(2, 50))}})
    assert list(az.summary(other, ci_prob=0.89, ci_kind="eti").index) == ["mu"]


@pytest.mark.parametrize("function", ["plot_trace_dist", "plot_forest", "plot_dist"])
def test_plots(fit: Fit, function: str) -> None:
    assert getattr(az, function)(fit.idata) is not None


def test_loo(fit: Fit) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # random draws: Pareto k may be large
        result = az.loo(fit.idata)
    assert np.isfinite(result.elpd)


def test_loo_on_a_real_fit() -> None:
    result = az.loo(fitted.nuts().idata)
    # Sum of the exact leave-one-item-out log densities of D1 under R31 (by enumeration).
    assert result.elpd == pytest.approx(-11.955, abs=0.25)
