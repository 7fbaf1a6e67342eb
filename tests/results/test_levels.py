from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fitted
import numpy as np
import pytest
import xarray as xr

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Run, Status, sizes_of
from bayescrowd.results import levels

RIGHT = np.array([0.95, 0.8, 0.6])
"""How often a label is right on the levels of the runs made here, easiest first."""


def _crowd(n_items: int = 30) -> CrowdLabels:
    random = np.random.default_rng(0)
    rows = [(i, k, random.integers(2)) for i in range(n_items) for k in range(4)]
    return CrowdLabels.from_codes(*np.array(rows).T, classes=2)


def _run(labels: CrowdLabels, orders: list[list[int]], draws: int = 30) -> Run:
    """Good chains of IDBLA: level ``h`` of chain ``j`` is the ``orders[j][h]``-th easiest."""
    random = np.random.default_rng(1)
    n_levels = len(orders[0])
    right = RIGHT[:n_levels]
    table = np.stack([[[p, 1 - p], [1 - p, p]] for p in right])
    confusion = np.broadcast_to(table, (draws, labels.n_workers, *table.shape))
    shares = np.arange(1, n_levels + 1) / np.arange(1, n_levels + 1).sum()
    state = np.full((labels.n_items, n_levels, 2), 0.02)
    state[np.arange(labels.n_items), np.arange(labels.n_items) % n_levels, np.arange(labels.n_items) % 2] = 1
    state /= state.sum((1, 2), keepdims=True)
    found: dict[str, list[Any]] = {"prevalence": [], "difficulty_prevalence": [], "confusion": []}
    for order in orders:
        noise = random.normal(0, 0.01, confusion.shape[:-1])[..., None] * [1, -1]
        found["confusion"].append((confusion + noise)[:, :, order])
        found["difficulty_prevalence"].append(random.dirichlet(500 * shares, draws)[:, order])
        found["prevalence"].append(random.dirichlet([50, 50], draws))
    by_chain = np.stack([state[:, order].reshape(labels.n_items, -1) for order in orders])
    return Run(
        points=None,
        draws={name: np.stack(value) for name, value in found.items()},
        state_probability=by_chain.mean(0),
        state_probability_by_chain=by_chain,
        log_likelihood=None,
        sample_stats=None,
        objective=None,
        status=Status("sampled", "Sampled.", None),
    )


def _blocks(model: Any) -> list[list[int]]:
    labels = _crowd()
    run = fitted.made_run(labels, model, chains=1, draws=1)
    return levels.exchangeable_levels(model, sizes_of(labels), {k: v[0, 0] for k, v in run.draws.items()})


def test_which_levels_have_no_names() -> None:
    assert _blocks(bc.IDBLA(n_levels=3)) == [[0, 1, 2]]
    assert _blocks(bc.IDBLA(n_levels=1)) == []
    assert _blocks(bc.DawidSkene()) == []
    assert _blocks(bc.IDBLA(n_levels=3, difficulty_prior=[1, 2, 1])) == [[0, 2]]
    by_level = np.stack([np.eye(2) * on + 1 for on in (1.0, 1.0, 3.0)])
    assert _blocks(bc.IDBLA(n_levels=3, confusion_prior=by_level)) == [[0, 1]]
    assert _blocks(bc.FixedIDBLA()) == []
    assert _blocks(bc.FixedIDBLA(n_levels=5)) == [[0, 1, 2]]
    assert _blocks(bc.FixedIDBLA(n_levels=4, difficulty_prior=[1, 2, 1, 1])) == []
    # The toy's levels have equal priors, but one is easy and one is guessing.
    assert _blocks(fitted.Levelled()) == []


def _eases(tree: xr.DataTree, group: str = "posterior") -> np.ndarray:
    confusion = tree[group]["confusion"].transpose(..., "difficulty", "class", "label")
    return np.asarray(confusion.isel({"class": 0, "label": 0}).mean(list(confusion.dims[:-3])))


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0], [0, 2, 1]])
def test_levels_with_equal_priors_are_ordered_easiest_first(order: list[int]) -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    run = _run(labels, [order, order])
    tree = fitted.tree_of(labels, model, run)
    np.testing.assert_allclose(_eases(tree), RIGHT, atol=0.01)
    assert (np.diff(tree["posterior"]["difficulty_prevalence"].mean(("chain", "draw"))) > 0).all()
    for chain in range(2):
        level = tree["latent"]["difficulty_probability_by_chain"][chain].to_numpy().argmax(1)
        np.testing.assert_array_equal(level, np.arange(labels.n_items) % 3)
    np.testing.assert_array_equal(tree["latent"]["difficulty_probability"].to_numpy().argmax(1), level)
    done = json.loads(tree.attrs["label_switching"])
    assert done == [{"chain": None, "levels": np.argsort(order).tolist(), "action": "ordered"}]
    # Nothing of this is worth a warning, and the run itself is left alone.
    assert tree.attrs["warnings"] == []
    np.testing.assert_allclose(run.draws["confusion"][..., 0, 0].mean((0, 1, 2)), RIGHT[order], atol=0.01)


def test_levels_in_order_are_left_alone() -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    run = _run(labels, [[0, 1, 2]] * 2)
    tree = fitted.tree_of(labels, model, run)
    assert json.loads(tree.attrs["label_switching"]) == []
    np.testing.assert_array_equal(tree["posterior"]["confusion"], run.draws["confusion"])


def test_levels_with_priors_of_their_own_are_not_touched() -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3, difficulty_prior=[3, 2, 1])
    run = _run(labels, [[2, 1, 0]] * 2)
    tree = fitted.tree_of(labels, model, run)
    assert json.loads(tree.attrs["label_switching"]) == []
    np.testing.assert_array_equal(tree["posterior"]["confusion"], run.draws["confusion"])
    np.testing.assert_array_equal(tree["latent"]["class_probability"], run.state_probability.reshape(-1, 3, 2).sum(1))


def test_chains_that_number_the_levels_differently_are_matched() -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    run = _run(labels, [[0, 1, 2], [2, 0, 1], [0, 1, 2]])
    tree = fitted.tree_of(labels, model, run)
    by_chain = tree["latent"]["difficulty_probability_by_chain"].to_numpy()
    np.testing.assert_allclose(by_chain[1], by_chain[0])
    np.testing.assert_allclose(tree["latent"]["difficulty_probability"], by_chain[0])
    means = tree["posterior"].dataset.mean("draw")
    np.testing.assert_allclose(means["confusion"][1], means["confusion"][0], atol=0.02)
    np.testing.assert_allclose(means["difficulty_prevalence"][1], means["difficulty_prevalence"][0], atol=0.02)
    assert json.loads(tree.attrs["label_switching"]) == [{"chain": 1, "levels": [1, 2, 0], "action": "permuted"}]
    said = [
        "Chain 1 plays the difficulty levels in other parts (2 for 1, 3 for 2, 1 for 3); it was put back: the priors "
    ]
    assert [text[: len(said[0])] for text in tree.attrs["notes"]] == said
    assert tree.attrs["warnings"] == []


def test_chains_are_matched_and_then_ordered() -> None:
    labels = _crowd()
    tree = fitted.tree_of(labels, bc.IDBLA(n_levels=3), _run(labels, [[2, 1, 0], [1, 0, 2], [2, 1, 0]]))
    np.testing.assert_allclose(_eases(tree), RIGHT, atol=0.01)
    by_chain = tree["latent"]["difficulty_probability_by_chain"].to_numpy()
    np.testing.assert_allclose(by_chain[1], by_chain[0])
    assert [switch["action"] for switch in json.loads(tree.attrs["label_switching"])] == ["permuted", "ordered"]


def test_a_chain_is_reported_where_the_priors_tell_the_levels_apart() -> None:
    labels = _crowd()
    run = _run(labels, [[0, 1, 2], [1, 0, 2], [0, 1, 2]])
    tree = fitted.tree_of(labels, bc.IDBLA(n_levels=3, difficulty_prior=[3, 2, 1]), run)
    np.testing.assert_array_equal(tree["posterior"]["confusion"], run.draws["confusion"])
    assert json.loads(tree.attrs["label_switching"]) == [{"chain": 1, "levels": [1, 0, 2], "action": "reported"}]
    assert "left as it is, since the model tells these levels apart" in tree.attrs["warnings"][0]


def test_classes_and_levels_are_put_back_independently() -> None:
    labels = _crowd()
    run = _run(labels, [[0, 1, 2], [2, 0, 1], [0, 1, 2]])
    run.draws["confusion"][1] = run.draws["confusion"][1][..., ::-1, :]
    run.draws["prevalence"][1] = run.draws["prevalence"][1][..., ::-1]
    states = run.state_probability_by_chain.reshape(3, -1, 3, 2).copy()
    states[1] = states[1][..., ::-1]
    labels = CrowdLabels.from_codes(
        labels.item_code, labels.worker_code, (labels.item_code % 2).astype(np.int32), classes=2
    )
    run = run._replace(state_probability_by_chain=states.reshape(3, -1, 6))
    tree = fitted.tree_of(labels, bc.IDBLA(n_levels=3, confusion_prior=1.0), run)
    done = json.loads(tree.attrs["label_switching"])
    assert done == [
        {"chain": 1, "permutation": [1, 0], "action": "permuted"},
        {"chain": 1, "levels": [1, 2, 0], "action": "permuted"},
    ]
    means = tree["posterior"].dataset.mean("draw")
    np.testing.assert_allclose(means["confusion"][1], means["confusion"][0], atol=0.02)
    by_chain = tree["latent"]["class_probability_by_chain"].to_numpy()
    np.testing.assert_allclose(by_chain[1], by_chain[0])


def test_points_that_mixed_chains_are_made_anew_from_the_draws() -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    for orders in ([[0, 1, 2]] * 2, [[0, 1, 2], [2, 0, 1]]):
        run = _run(labels, orders)
        run = run._replace(points={name: value.mean((0, 1)) for name, value in run.draws.items()})
        tree = fitted.tree_of(labels, model, run)
        mean = tree["posterior"]["confusion"].mean(("chain", "draw"))
        np.testing.assert_allclose(tree["point_estimate"]["confusion"], mean, atol=1e-12)


def test_point_estimates_are_ordered_too() -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    run = _run(labels, [[2, 0, 1]])
    points = {name: value.mean((0, 1)) for name, value in run.draws.items()}
    point = fitted.made_point(labels, model, points=points, state_probability=run.state_probability)
    tree = fitted.tree_of(labels, model, point)
    np.testing.assert_allclose(_eases(tree, "point_estimate"), RIGHT, atol=0.02)
    level = tree["latent"]["difficulty_probability"].to_numpy().argmax(1)
    np.testing.assert_array_equal(level, np.arange(labels.n_items) % 3)
    assert "draws_are" not in tree.attrs


def _variational(labels: CrowdLabels, model: Any, **more: Any) -> Run:
    run = fitted.made_run(labels, model, chains=1, draws=50, log_likelihood=None, sample_stats=None)
    concentrations = {
        name: 100 * (value.mean((0, 1)) if site.kind == "dirichlet" else np.stack([value, 1 - value], -1).mean((0, 1)))
        for (name, value), site in zip(run.draws.items(), model.sites(sizes_of(labels)).values(), strict=True)
    }
    return run._replace(
        concentrations=concentrations,
        independent=True,
        state_probability_by_chain=None,
        objective=np.array([-9.0, -8.0]),
        status=Status("converged", "Converged after 2 passes.", True),
        **more,
    )


def test_variational_results_are_ordered_and_hold_their_dirichlets(tmp_path: Path) -> None:
    labels, model = _crowd(), bc.IDBLA(n_levels=3)
    backwards = _run(labels, [[2, 1, 0]])
    run = _variational(labels, model)._replace(
        draws=backwards.draws,
        concentrations={name: 100 * value.mean((0, 1)) for name, value in backwards.draws.items()},
        state_probability=backwards.state_probability,
    )
    tree = fitted.tree_of(labels, model, run, engine="vb")
    group = tree["variational"].dataset
    assert set(group.data_vars) == {f"{name}_concentration" for name in run.draws}
    assert group["confusion_concentration"].dims == ("worker", "difficulty", "class", "label")
    np.testing.assert_allclose(group["confusion_concentration"][:, :, 0, 0].mean("worker"), 100 * RIGHT, atol=1)
    np.testing.assert_allclose(
        group["confusion_concentration"] / 100, tree["posterior"]["confusion"].mean(["chain", "draw"])
    )
    assert tree.attrs["draws_are"] == "independent"
    Fit(tree).save(tmp_path / "fit.nc")
    again = bc.load(tmp_path / "fit.nc")
    assert again.idata.attrs == tree.attrs
    xr.testing.assert_identical(again.idata["variational"].dataset.load(), group)
    assert again.model == model


def test_the_dirichlets_of_a_beta_have_an_outcome(tmp_path: Path) -> None:
    labels = fitted.d1()
    tree = fitted.tree_of(labels, fitted.Levelled(), _variational(labels, fitted.Levelled()), engine="vb")
    rates = tree["variational"]["right_rate_concentration"]
    assert rates.dims == ("worker", "outcome")
    np.testing.assert_allclose(rates.sum("outcome"), 100)


def test_free_levels_have_their_names() -> None:
    labels, model = fitted.d1(), bc.FixedIDBLA(n_levels=4)
    tree = fitted.tree_of(labels, model, fitted.made_run(labels, model))
    posterior = tree["posterior"].dataset
    assert posterior["free_confusion"].dims == ("chain", "draw", "worker", "free_difficulty", "class", "label")
    assert posterior["free_difficulty"].to_numpy().tolist() == ["free1", "free2"]
    assert posterior["difficulty"].to_numpy().tolist() == ["free1", "free2", "easy", "hard"]
    np.testing.assert_allclose(
        posterior["confusion"].sel(difficulty=["free1", "free2"]).to_numpy(), posterior["free_confusion"].to_numpy()
    )
    right = posterior["confusion"].isel({"class": 0, "label": 0}).mean(["chain", "draw", "worker"])
    assert right.sel(difficulty="free1") >= right.sel(difficulty="free2") - 0.05
    np.testing.assert_allclose(right.sel(difficulty=["easy", "hard"]), [0.9, 0.5])


def test_free_levels_are_ordered_among_themselves() -> None:
    labels, model = _crowd(), bc.FixedIDBLA(n_levels=4)
    run = fitted.made_run(labels, model)
    table = np.stack([[[p, 1 - p], [1 - p, p]] for p in (0.6, 0.8)])
    run.draws["free_confusion"][:] = table
    tree = fitted.tree_of(labels, model, run)
    np.testing.assert_allclose(_eases(tree), [0.8, 0.6, 0.9, 0.5])
    ordered = [s for s in json.loads(tree.attrs["label_switching"]) if s["action"] == "ordered"]
    assert ordered == [{"chain": None, "levels": [1, 0, 2, 3], "action": "ordered"}]
    shares = run.draws["difficulty_prevalence"][..., [1, 0, 2, 3]]
    np.testing.assert_array_equal(tree["posterior"]["difficulty_prevalence"], shares)


@pytest.mark.filterwarnings("ignore::bayescrowd.ConvergenceWarning")  # so few draws cannot agree
@pytest.mark.parametrize("model", [bc.IDBLA(n_levels=2), bc.FixedIDBLA()])
@pytest.mark.slow
def test_end_to_end_by_nuts(model: Any, tmp_path: Path) -> None:
    fit = bc.fit(fitted.d1(), model, engine="nuts", warmup=20, draws=10, chains=2)
    names = model.difficulty_names()
    latent = fit.idata["latent"].dataset
    assert latent["difficulty"].to_numpy().tolist() == names
    np.testing.assert_allclose(latent["difficulty_probability_by_chain"].sum("difficulty"), 1)
    assert fit.idata.attrs["draws_are"] == "markov-chains"
    assert fit.workers().shape[0] == 3
    fit.save(tmp_path / "fit.nc")
    again = bc.load(tmp_path / "fit.nc")
    assert str(again.diagnose(random_start=False)) == str(fit.diagnose(random_start=False))
    assert fit.predict(fitted.frame()).equals(again.predict(fitted.frame()))
