from __future__ import annotations

import inspect
from typing import Any

import fitted
import left_out
import numpy as np
import pytest
import running
import xarray as xr
from conformance.toys import Ease, Groups, Guessing
from scipy.special import gammaln, logsumexp

import bayescrowd as bc
from bayescrowd.criticism import likelihood
from bayescrowd.criticism.likelihood import log_likelihood, log_prior, require_draws, total_log_likelihood
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, LabelError, ModelError

BY = ("item", "annotation", "worker")


def _states(values: dict[str, np.ndarray], n_levels: int) -> np.ndarray:
    levels = values["difficulty_prevalence"] if n_levels > 1 else np.ones(1)
    return (levels[:, None] * values["prevalence"]).ravel()


def _dawid_skene(values: dict[str, np.ndarray]) -> Any:
    return lambda worker, label, item: values["confusion"][worker, :, label]


def _levels(values: dict[str, np.ndarray]) -> Any:
    return lambda worker, label, item: values["confusion"][worker, :, :, label].ravel()


def _fixed(values: dict[str, np.ndarray]) -> Any:
    def response(worker: int, label: int, item: int) -> np.ndarray:
        free = values["free_confusion"][worker, 0, :, label]
        n_labels = values["free_confusion"].shape[-1]
        easy = np.where(np.arange(2) == label, 0.9, 0.1 / (n_labels - 1))
        hard = np.full(2, 1 / n_labels)
        return np.concatenate([free, easy, hard])

    return response


def _skilled(values: dict[str, np.ndarray]) -> Any:
    rate = 1 / (1 + np.exp(-values["skill"]))
    return lambda worker, label, item: np.where(np.arange(2) == label, rate[worker], (1 - rate[worker]) / 2)


def _ease(values: dict[str, np.ndarray]) -> Any:
    def response(worker: int, label: int, item: int) -> np.ndarray:
        right = 1 / (1 + np.exp(-values["ability"][worker] * values["ease"][item]))
        return np.where(np.arange(2) == label, right, (1 - right) / 2)

    return response


def _guessing(values: dict[str, np.ndarray]) -> Any:
    return lambda worker, label, item: 0.8 * values["seen"][worker, :, label] + 0.2 / 3


CASES = [
    (bc.DawidSkene(), _dawid_skene),
    (bc.IDBLA(n_levels=2), _levels),
    (bc.FixedIDBLA(n_levels=3), _fixed),
    (fitted.Skilled(), _skilled),
    (Guessing(), _guessing),
    (Ease(), _ease),
]


def _tree(model: Any, labels: CrowdLabels, draws: int = 3, **more: Any) -> Any:
    run = fitted.made_run(labels, model, chains=2, draws=draws, log_likelihood=None, sample_stats=None, **more)
    if "ease" in run.draws:
        run.draws["ease"] = np.exp(run.draws["ease"])
    return fitted.tree_of(labels, model, run, "nuts")


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(("model", "response"), CASES, ids=lambda case: getattr(case, "name", ""))
def test_equals_enumeration_draw_by_draw(model: Any, response: Any, by: str) -> None:
    labels = left_out.rich()
    tree = _tree(model, labels)
    found = log_likelihood(tree, by=by)
    assert found.dims == ("chain", "draw", by)
    assert found.dtype == np.float64
    posterior = tree["posterior"].dataset
    for chain in range(2):
        for draw in range(3):
            values = {str(name): value[chain, draw].to_numpy() for name, value in posterior.data_vars.items()}
            shares = _states(values, model.n_levels)
            expected = left_out.differences(
                labels,
                by,
                lambda table: left_out.log_p(table, shares, response(values)),  # noqa: B023
            )
            np.testing.assert_allclose(found[chain, draw], expected, rtol=1e-10, atol=1e-10)


def test_state_prior_of_the_item() -> None:
    # Even and odd items have class shares of their own: the item counts although no response asks for it.
    labels = left_out.rich()
    tree = _tree(Groups(), labels, draws=1)
    posterior = tree["posterior"].dataset
    shares = posterior["group_prevalence"].transpose(..., "group", "class")[0, 0].to_numpy()
    values = {"confusion": posterior["confusion"][0, 0].to_numpy()}
    for by in BY:
        total = np.zeros(len(left_out.pieces(labels, by)))
        for group in range(2):
            # Items of the other group keep no labels and no gold, and so add nothing.
            mine = left_out.without(labels, "item", np.arange(1 - group, labels.n_items, 2))
            rows = np.flatnonzero(labels.item_code % 2 == group)
            part = left_out.differences(
                mine,
                by,
                lambda table: left_out.log_p(table, shares[group], _dawid_skene(values)),  # noqa: B023
            )
            if by == "annotation":
                total[rows] += part
            else:
                total += part
        np.testing.assert_allclose(log_likelihood(tree, by=by)[0, 0], total, rtol=1e-10, atol=1e-10)


def test_by_item_is_what_engines_store() -> None:
    labels = fitted.d1(gold={"a": "yes"})
    for model, engine in ((bc.IDBLA(n_levels=2), "gibbs"), (bc.DawidSkene(), "collapsed-gibbs")):
        run = running.run(labels, model, engine, draws=40, chains=2)
        tree = fitted.tree_of(labels, model, run, engine)
        stored = tree["log_likelihood"].dataset["labels_of_item"]
        assert log_likelihood(tree).equals(stored)
        assert log_likelihood(tree).name == log_likelihood(tree, by="worker").name == "log_likelihood"
        computed = log_likelihood(tree.filter(lambda node: node.name != "log_likelihood"))
        np.testing.assert_allclose(computed, stored, rtol=1e-9, atol=1e-9)
        assert computed.coords["item"].equals(stored.coords["item"])


def test_items_add_up_to_the_table() -> None:
    labels = left_out.rich()
    tree = _tree(bc.DawidSkene(), labels)
    values = {str(name): value[0, 0].to_numpy() for name, value in tree["posterior"].dataset.data_vars.items()}
    whole = left_out.log_p(labels, values["prevalence"], _dawid_skene(values))
    assert float(log_likelihood(tree)[0, 0].sum()) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("by", BY)
def test_point_estimates(by: str) -> None:
    tree = bc.fit(left_out.rich(), engine="em").idata
    found = log_likelihood(tree, by=by)
    assert found.dims == (by,)
    values = {str(name): value.to_numpy() for name, value in tree["point_estimate"].dataset.data_vars.items()}
    assert values["confusion"].min() < 1e-12  # maximum likelihood says that some labels are impossible
    with np.errstate(divide="ignore"):
        expected = left_out.differences(
            left_out.rich(), by, lambda table: left_out.log_p(table, values["prevalence"], _dawid_skene(values))
        )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_impossible_labels_of_a_point_estimate() -> None:
    # Worker 1 never says "yes" of a "no", worker 2 never says "no" of a "yes": item a is impossible, b is not.
    labels = CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [1, 0, 1], classes=["no", "yes"])
    point = fitted.made_point(labels, bc.DawidSkene())
    point.points["confusion"] = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]])
    point.points["prevalence"] = np.array([0.4, 0.6])
    tree = fitted.tree_of(labels, bc.DawidSkene(), point)
    np.testing.assert_allclose(log_likelihood(tree), [-np.inf, np.log(0.6 * 0.8)])
    # Given the other label each of the two is impossible.
    np.testing.assert_allclose(log_likelihood(tree, by="annotation"), [-np.inf, -np.inf, np.log(0.6 * 0.8)])
    assert not np.isnan(log_likelihood(tree, by="worker")).any()


def test_nothing_to_say_of_items_and_workers_without_labels() -> None:
    tree = _tree(bc.DawidSkene(), left_out.rich())
    np.testing.assert_allclose(log_likelihood(tree).sel(item="no labels"), 0.0, atol=1e-12)
    assert (log_likelihood(tree, by="worker").sel(worker="silent") == 0).all()
    # Gold alone is likely or not: the share of its class.
    labels = CrowdLabels.from_codes([0], [0], [1], items=["a", "gold only"], classes=["no", "yes"], gold_code=[-1, 1])
    tree = _tree(bc.DawidSkene(), labels)
    share = tree["posterior"].dataset["prevalence"][..., 1]
    np.testing.assert_allclose(log_likelihood(tree).sel(item="gold only"), np.log(share), rtol=1e-12)


def test_ids_and_thinned_draws() -> None:
    labels = CrowdLabels.from_long([(1, "x", 0), ("1", "x", 1), (1, ("y", 2), 1)], duplicates="keep")
    tree = _tree(bc.DawidSkene(), labels, draws=6)
    for by in ("item", "worker"):
        found = log_likelihood(tree, by=by)
        assert found[by].equals(tree["observed_data"].dataset[by])
    assert log_likelihood(tree, by="annotation")["annotation"].values.tolist() == [0, 1, 2]
    few = tree.isel(draw=slice(1, None, 2))
    assert log_likelihood(few).draw.values.tolist() == [1, 3, 5]
    assert log_likelihood(few, by="worker").equals(log_likelihood(tree, by="worker")[:, 1::2])
    assert log_prior(few).equals(log_prior(tree)[:, 1::2])


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _tree(bc.DawidSkene(), left_out.rich(), draws=7)
    whole = {by: log_likelihood(tree, by=by) for by in BY}
    monkeypatch.setattr("bayescrowd.criticism._refit_pieces._CHUNK_BYTES", 600)
    for by in BY:
        np.testing.assert_allclose(log_likelihood(tree, by=by), whole[by], rtol=1e-12)


def test_what_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = _tree(bc.DawidSkene(), left_out.rich(), draws=10)
    monkeypatch.setattr(likelihood, "MAX_BYTES", 2 * 5 * 13 * 8)
    with pytest.raises(EngineError, match=r"13 annotations under 20 draws .* \(draws=5\) or ask for by='item'"):
        log_likelihood(tree, by="annotation")
    log_likelihood(tree, by="worker")


@pytest.mark.parametrize("draws", [slice(None), slice(None, None, 3)])
def test_all_labels_together_need_no_memory(draws: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = _tree(bc.IDBLA(n_levels=2), left_out.rich(), draws=7)
    expected = log_likelihood(bare)[:, draws].sum("item")
    run = fitted.made_run(left_out.rich(), bc.DawidSkene(), chains=2, draws=7)
    stored = fitted.tree_of(left_out.rich(), bc.DawidSkene(), run, "nuts")
    monkeypatch.setattr(likelihood, "MAX_BYTES", 1)
    monkeypatch.setattr("bayescrowd.criticism._refit_pieces._CHUNK_BYTES", 200)
    found = total_log_likelihood(bare, draws)
    xr.testing.assert_allclose(found, expected)
    assert found.dims == ("chain", "draw")
    kept = stored["log_likelihood"].dataset["labels_of_item"][:, draws].sum("item")
    assert total_log_likelihood(stored, draws).equals(kept)


def test_draws_that_are_not_there() -> None:
    require_draws(_tree(bc.DawidSkene(), left_out.rich()), "this needs")
    with pytest.raises(EngineError, match="this needs draws of the parameters, and engine 'em' left a point estimate"):
        require_draws(fitted.em().idata, "this needs")
    bare = running.run(fitted.d1(), bc.DawidSkene(), "gibbs", draws=30, warmup=5, chains=2, keep=0)
    tree = fitted.tree_of(fitted.d1(), bc.DawidSkene(), bare, "gibbs")
    for ask in (log_prior, total_log_likelihood):
        with pytest.raises(EngineError, match=r"none were kept \(keep=0\): fit again with keep=1000"):
            ask(tree)
    with pytest.raises(EngineError, match=r"\(keep=0\): use something else, or fit again"):
        require_draws(tree, "this needs", "use something else, or ")


def test_log_prior() -> None:
    labels = left_out.rich()
    model = bc.IDBLA(n_levels=2, prevalence_prior=[2.0, 3.0], difficulty_prior=1.5)
    tree = _tree(model, labels)
    posterior = tree["posterior"].dataset

    def dirichlet(value: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        alpha = np.broadcast_to(alpha, value.shape)
        constant = gammaln(alpha.sum(-1)) - gammaln(alpha).sum(-1)
        density = constant + ((alpha - 1) * np.log(value)).sum(-1)
        return density.reshape(*density.shape[:2], -1).sum(-1)

    confusion = np.array([[1.5, 0.5, 0.5], [0.5, 1.5, 0.5]])
    expected = dirichlet(posterior["prevalence"].to_numpy(), np.array([2.0, 3.0]))
    expected = expected + dirichlet(posterior["difficulty_prevalence"].to_numpy(), np.array([1.5, 1.5]))
    expected = expected + dirichlet(posterior["confusion"].to_numpy(), confusion)
    found = log_prior(tree)
    assert found.dims == ("chain", "draw")
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_log_prior_of_a_model_of_ones_own() -> None:
    tree = _tree(fitted.Skilled(), left_out.rich())
    posterior = tree["posterior"].dataset
    common, skill = posterior["common_skill"], posterior["skill"]
    normal = lambda value, scale: -0.5 * (value / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    expected = normal(common - 1.0, 1.0) + normal(skill - common, 0.1).sum("worker")  # the shares are uniform
    np.testing.assert_allclose(log_prior(tree), expected, rtol=1e-9)


def test_refusals() -> None:
    tree = _tree(bc.DawidSkene(), left_out.rich())
    for by in ("task", None, 3, ["item"]):
        with pytest.raises(LabelError, match="by must be 'item', 'annotation' or 'worker'"):
            inspect.unwrap(log_likelihood)(tree, by=by)
    with pytest.raises(EngineError, match="'em' left a point estimate"):
        log_prior(bc.fit(fitted.d1(), engine="em").idata)
    majority = bc.baselines.majority_vote(fitted.d1()).idata
    with pytest.raises(ModelError, match="fit a model"):
        log_likelihood(majority)


def test_one_class_and_one_worker() -> None:
    labels = CrowdLabels.from_codes([0, 1, 2], [0, 0, 0], [0, 0, 0], classes=["only"])
    tree = _tree(bc.DawidSkene(), labels)
    for by in BY:
        np.testing.assert_allclose(log_likelihood(tree, by=by), 0.0, atol=1e-12)


def test_leaving_out_divides_the_posterior() -> None:
    # The identity behind leave-one-out: p(piece | rest) is the harmonic mean of p(piece | rest, parameters).
    labels = fitted.d1()
    tree = bc.fit(labels, fitted.r31(), engine="gibbs", draws=2000, warmup=200).idata
    for by in ("item", "annotation"):
        value = log_likelihood(tree, by=by).stack(sample=("chain", "draw")).transpose("sample", by).to_numpy()
        harmonic = np.log(len(value)) - logsumexp(-value, axis=0)
        np.testing.assert_allclose(harmonic, left_out.exact(labels, by), atol=0.05)
