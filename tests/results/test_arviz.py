"""Every function of ArviZ that people reach for takes a result as it is."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # hard items are all alike: ArviZ divides by zero
@pytest.mark.parametrize(
    "model", [bc.DawidSkene(), fitted.OneCoin(), fitted.Levelled(), bc.IDBLA(n_levels=2), bc.FixedIDBLA()]
)
@pytest.mark.parametrize("reload", [False, True])
def test_summary_puts_names_to_the_right_rows(model: Any, reload: bool, tmp_path: Path) -> None:
    labels = fitted.d1()
    fit = Fit(fitted.tree_of(labels, model, fitted.made_run(labels, model)))
    if reload:
        fit.save(tmp_path / "fit.nc")
        fit = bc.load(tmp_path / "fit.nc")
    posterior = fit.idata["posterior"].dataset
    table = az.summary(fit.idata, ci_prob=0.89, ci_kind="eti", round_to="none")
    assert len(table) == sum(value[0, 0].size for value in posterior.data_vars.values())
    for worker, true, said in itertools.product(["w1", "w2", "w3"], ["no", "yes"], ["no", "yes"]):
        for level in [f"{name}, " for name in model.difficulty_names()] if model.n_levels > 1 else [""]:
            at = {"worker": worker, "class": true, "label": said} | ({"difficulty": level[:-2]} if level else {})
            mean = posterior["confusion"].sel(at).mean().item()
            assert table.loc[f"confusion[{worker}, {level}{true}, {said}]", "mean"] == pytest.approx(mean)
        if "free_confusion" in posterior:
            mean = posterior["free_confusion"][:, :, :, 0].sel({"worker": worker, "class": true, "label": said}).mean()
            assert table.loc[f"free_confusion[{worker}, {true}, {said}, free1]", "mean"] == pytest.approx(mean.item())
    assert table.loc["prevalence[yes]", "mean"] == pytest.approx(posterior["prevalence"][..., 1].mean().item())


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
