from __future__ import annotations

import json
from typing import Any

import fitted
import numpy as np
import pytest

import bayescrowd as bc
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import Run, Status, sizes_of
from bayescrowd.results import align

FLAT = bc.DawidSkene(confusion_prior=1.0)


def _crowd(n_classes: int = 3, n_items: int = 30, gold: Any = None) -> CrowdLabels:
    truth = np.arange(n_items) % n_classes
    random = np.random.default_rng(0)
    rows = [
        (i, k, t if random.random() < 0.8 else random.integers(n_classes))
        for i, t in enumerate(truth)
        for k in range(4)
    ]
    return CrowdLabels.from_codes(*np.array(rows).T, classes=n_classes, gold_code=gold)


def _run(labels: CrowdLabels, orders: list[list[int]], draws: int = 50) -> Run:
    """Good chains, each with its classes permuted: class ``c`` of chain ``j`` is what others call ``orders[j][c]``."""
    n_classes = labels.n_classes
    truth = np.arange(labels.n_items) % n_classes
    random = np.random.default_rng(1)
    confusion = np.full((labels.n_workers, n_classes, n_classes), 0.2 / (n_classes - 1))
    confusion[:, np.arange(n_classes), np.arange(n_classes)] = 0.8
    probability = np.full((labels.n_items, n_classes), 0.1 / (n_classes - 1))
    probability[np.arange(labels.n_items), truth] = 0.9
    draws_by_site: dict[str, list[Any]] = {"prevalence": [], "confusion": []}
    by_chain = []
    for order in orders:
        noise = random.dirichlet(np.full(n_classes, 300.0), (draws, labels.n_workers, n_classes)) - 1 / n_classes
        draws_by_site["confusion"].append((confusion + noise)[:, :, order])
        draws_by_site["prevalence"].append(random.dirichlet(np.arange(1, n_classes + 1) * 200.0, draws)[:, order])
        by_chain.append(probability[:, order])
    chains = np.stack(by_chain)
    return Run(
        points=None,
        draws={name: np.stack(value) for name, value in draws_by_site.items()},
        state_probability=chains.mean(0),
        state_probability_by_chain=chains,
        log_likelihood=None,
        sample_stats=None,
        objective=None,
        status=Status("sampled", "Sampled.", None),
    )


def _exchangeable(model: bc.DawidSkene, labels: CrowdLabels) -> list[list[int]]:
    sizes = sizes_of(labels)
    run = fitted.made_run(labels, model, chains=1, draws=1)
    return align.exchangeable_classes(model, sizes, labels.gold_code, {k: v[0, 0] for k, v in run.draws.items()})


def test_which_classes_nothing_names() -> None:
    labels = _crowd()
    assert _exchangeable(bc.DawidSkene(), labels) == []
    assert _exchangeable(FLAT, labels) == [[0, 1, 2]]
    # A prevalence prior of its own names a class.
    assert _exchangeable(bc.DawidSkene(confusion_prior=1.0, prevalence_prior=[1, 1, 2]), labels) == [[0, 1]]
    gold = np.full(30, -1)
    gold[0] = 0
    assert _exchangeable(FLAT, _crowd(gold=gold)) == [[1, 2]]
    gold[1] = 1
    assert _exchangeable(FLAT, _crowd(gold=gold)) == []


def test_a_model_whose_response_names_the_classes_is_identified() -> None:
    # The prevalence prior is flat, but being right means saying the class.
    assert _exchangeable(fitted.OneCoin(), _crowd()) == []
    assert _exchangeable(fitted.Levelled(), _crowd()) == []


@pytest.mark.parametrize("switched", [[1, 0, 2], [1, 2, 0], [2, 1, 0]])
def test_P33_a_switched_chain_is_put_back_where_names_mean_nothing(switched: list[int]) -> None:
    labels, straight = _crowd(), [0, 1, 2]
    run = _run(labels, [straight, switched, straight])
    tree = fitted.tree_of(labels, FLAT, run)
    by_chain = tree["latent"]["class_probability_by_chain"].to_numpy()
    np.testing.assert_allclose(by_chain[1], by_chain[0])
    np.testing.assert_allclose(tree["latent"]["class_probability"], by_chain[0])
    means = tree["posterior"].dataset.mean("draw")
    np.testing.assert_allclose(means["prevalence"][1], means["prevalence"][0], atol=0.02)
    np.testing.assert_allclose(means["confusion"][1], means["confusion"][0], atol=0.02)
    done = json.loads(tree.attrs["label_switching"])
    assert [(switch["chain"], switch["action"]) for switch in done] == [(1, "permuted")]
    assert any("Chain 1 sits in a permuted mode" in text for text in tree.attrs["warnings"])
    # The run itself, which tests of engines read, is left alone.
    assert run.draws["prevalence"][1].mean(0).argmax() == switched.index(2)


def test_P33_a_switched_chain_is_reported_where_the_prior_names_the_classes() -> None:
    labels = _crowd()
    run = _run(labels, [[0, 1, 2], [0, 1, 2], [1, 0, 2]])
    tree = fitted.tree_of(labels, fitted.r31(), run)
    np.testing.assert_array_equal(tree["posterior"]["confusion"], run.draws["confusion"])
    np.testing.assert_array_equal(tree["latent"]["class_probability"], run.state_probability)
    done = json.loads(tree.attrs["label_switching"])
    assert done == [{"chain": 2, "permutation": [1, 0, 2], "action": "reported"}]


def test_gold_forbids_a_permutation() -> None:
    gold = np.full(30, -1)
    gold[0] = 0
    labels = _crowd(gold=gold)
    tree = fitted.tree_of(labels, FLAT, _run(labels, [[0, 1, 2], [1, 0, 2]]))
    assert [s["action"] for s in json.loads(tree.attrs["label_switching"])] == ["reported"]
    tree = fitted.tree_of(labels, FLAT, _run(labels, [[0, 1, 2], [0, 2, 1]]))
    assert [s["action"] for s in json.loads(tree.attrs["label_switching"])] == ["permuted"]


def test_the_chain_that_the_votes_name_keeps_its_names() -> None:
    labels = _crowd()
    tree = fitted.tree_of(labels, FLAT, _run(labels, [[1, 0, 2], [0, 1, 2]]))
    assert [s["chain"] for s in json.loads(tree.attrs["label_switching"])] == [0]
    tree = fitted.tree_of(labels, fitted.r31(), _run(labels, [[1, 0, 2], [0, 1, 2]]))
    assert [s["chain"] for s in json.loads(tree.attrs["label_switching"])] == [0]


def test_chains_that_agree_are_left_alone() -> None:
    labels = _crowd()
    run = _run(labels, [[0, 1, 2]] * 4)
    tree = fitted.tree_of(labels, FLAT, run)
    assert json.loads(tree.attrs["label_switching"]) == []
    np.testing.assert_array_equal(tree["posterior"]["confusion"], run.draws["confusion"])


def test_chains_that_know_nothing_are_left_alone() -> None:
    labels = _crowd(n_classes=2)
    random = np.random.default_rng(0)
    nearly_half = 0.5 + random.normal(0, 0.02, (4, labels.n_items, 1)) * np.array([1, -1])
    assert align.find_switches(nearly_half, 0) == {}
    run = _run(labels, [[0, 1]] * 4)._replace(state_probability_by_chain=nearly_half)
    assert json.loads(fitted.tree_of(labels, FLAT, run).attrs["label_switching"]) == []


def test_many_classes_need_no_search_over_permutations() -> None:
    random = np.random.default_rng(0)
    order = random.permutation(40)
    probability = random.dirichlet(np.full(40, 0.05), 500)
    found = align.find_switches(np.stack([probability, probability[:, order]]), 0)
    np.testing.assert_array_equal(probability[:, order][:, list(found[1])], probability)


def test_levels_of_difficulty_go_along() -> None:
    sizes = 2
    labels = _crowd(n_classes=2)
    state = np.random.default_rng(0).dirichlet(np.ones(4), (1, labels.n_items))
    state[..., [1, 3]] *= np.where(np.arange(labels.n_items) % 2, 20, 0.05)[:, None]
    state /= state.sum(-1, keepdims=True)
    both = np.concatenate([state, state.reshape(1, -1, 2, sizes)[..., ::-1].reshape(1, -1, 4)])
    run = fitted.made_run(labels, fitted.Levelled(), state_probability_by_chain=both)
    switches = json.loads(fitted.tree_of(labels, fitted.Levelled(), run).attrs["label_switching"])
    assert [switch["action"] for switch in switches] == ["reported"]
