"""Label switching: chains that sit in a copy of the posterior with the classes permuted.

Only whole chains are permuted, and only by permutations under which the model, its priors and the gold are unchanged.
Then the permuted chain is an equally valid run of the same posterior. Anything else is reported, never changed:
aligning draws of an identified posterior biases it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import At, Model, Sizes

__all__ = ["Chains", "Switch", "align_chains", "exchangeable_classes", "find_switches", "in_words"]

_MOVED = 0.3
"""Share of the probability mass of the classes concerned that must lie in another class for a chain to be switched."""


class Chains(NamedTuple):
    """What alignment reads and changes of a sampling run.

    Parameters
    ----------
    draws : dict
        Site -> array [chain, draw, *site.shape].
    state_probability : array [chain, item, state]
        Probabilities of each item's states, by chain.
    """

    draws: dict[str, np.ndarray]
    state_probability: np.ndarray


class Switch(NamedTuple):
    """One chain whose classes are permuted against the others'.

    Parameters
    ----------
    chain : int
        Its index.
    permutation : tuple of int
        Which class of the chain plays the part of each class of the other chains.
    action : str
        ``"permuted"`` (brought back) or ``"reported"`` (left as it was).
    """

    chain: int
    permutation: tuple[int, ...]
    action: str


def exchangeable_classes(
    model: Model, sizes: Sizes, gold_code: np.ndarray, parameters: Mapping[str, Any]
) -> list[list[int]]:
    """Find the classes that could swap names without model, priors or gold noticing.

    Parameters
    ----------
    model : Model
        The model.
    sizes : Sizes
        Its sizes.
    gold_code : int array [item]
        Known classes, -1 where unknown.
    parameters : dict
        One draw of the parameter sites, to check that the response follows such a swap.

    Returns
    -------
    list of list of int
        Blocks of two or more interchangeable classes; empty where every class is anchored.
    """
    with double_precision():
        sites = {name: site for name, site in model.sites(sizes).items() if "class" in site.dims}
    if not sites or model.uses_item or any(site.concentration is None for site in sites.values()):
        return []
    slices = [np.moveaxis(np.asarray(site.concentration), site.dims.index("class"), 0) for site in sites.values()]
    anchored = set(np.unique(gold_code[gold_code >= 0]).tolist())
    blocks: dict[Any, list[int]] = {}
    for code in range(sizes.n_classes):
        key = code if code in anchored else tuple(np.ascontiguousarray(part[code]).tobytes() for part in slices)
        blocks.setdefault(key, []).append(code)
    axes = {name: site.dims.index("class") for name, site in sites.items()}
    return [
        block
        for block in blocks.values()
        if len(block) > 1 and _follows_swap(model, sizes, parameters, axes, (block[0], block[1]))
    ]


def find_switches(by_chain: np.ndarray, reference: int) -> dict[int, tuple[int, ...]]:
    """Find the chains whose classes are permuted against a reference chain.

    Parameters
    ----------
    by_chain : array [chain, item, class]
        Class probabilities of the items by chain.
    reference : int
        The chain to compare with.

    Returns
    -------
    dict
        Chain -> permutation, for the chains that are clearly switched.
    """
    found = {}
    for chain in range(by_chain.shape[0]):
        if chain == reference:
            continue
        distance = _distances(by_chain[reference], by_chain[chain])
        order = linear_sum_assignment(distance)[1]
        moved = np.flatnonzero(order != np.arange(len(order)))
        if not len(moved):
            continue
        mass = (by_chain[reference] ** 2).sum(0)[moved].sum() + (by_chain[chain] ** 2).sum(0)[moved].sum()
        here, there = distance[moved, moved].sum(), distance[moved, order[moved]].sum()
        if here > _MOVED * mass and there < 0.5 * here:
            found[chain] = tuple(int(code) for code in order)
    return found


def align_chains(chains: Chains, model: Model, sizes: Sizes, votes: CrowdLabels) -> tuple[Chains, list[Switch]]:
    """Bring switched chains back where that changes nothing but names; report the others.

    Parameters
    ----------
    chains : Chains
        Draws and state probabilities by chain.
    model : Model
        The model.
    sizes : Sizes
        Its sizes.
    votes : CrowdLabels
        The labels: they decide which chain keeps its names, and hold the gold.

    Returns
    -------
    chains : Chains
        With whole chains permuted where that is allowed.
    switches : list of Switch
        What was found and done.
    """
    n_chains, n_items, n_states = chains.state_probability.shape
    if n_chains < 2 or sizes.n_classes < 2:
        return chains, []
    levels = chains.state_probability.reshape(n_chains, n_items, n_states // sizes.n_classes, sizes.n_classes)
    by_chain = levels.sum(axis=2)
    blocks = exchangeable_classes(
        model, sizes, votes.gold_code, {name: value[0, 0] for name, value in chains.draws.items()}
    )
    found = find_switches(by_chain, _reference(by_chain, votes, any_names=bool(blocks)))
    if not found:
        return chains, []
    block_of = np.arange(sizes.n_classes)
    for block in blocks:
        block_of[block] = block[0]
    with double_precision():
        class_axis = {
            name: site.dims.index("class") + 1 for name, site in model.sites(sizes).items() if "class" in site.dims
        }
    draws = dict(chains.draws)
    state_probability = chains.state_probability
    switches = []
    for chain, permutation in sorted(found.items()):
        order = np.array(permutation)
        if not np.array_equal(block_of[order], block_of):
            switches.append(Switch(chain, permutation, "reported"))
            continue
        if state_probability is chains.state_probability:
            state_probability = state_probability.copy()
            draws |= {name: draws[name].copy() for name in class_axis if name in draws}
        state_probability[chain] = levels[chain][..., order].reshape(n_items, n_states)
        for name, axis in class_axis.items():
            if name in draws:
                draws[name][chain] = np.take(draws[name][chain], order, axis=axis)
        switches.append(Switch(chain, permutation, "permuted"))
    return Chains(draws, state_probability), switches


def in_words(switches: Sequence[Switch], classes: Sequence[Any]) -> list[str]:
    """Say what was found and done.

    Parameters
    ----------
    switches : list of Switch
        From `align_chains`.
    classes : sequence
        Class values.

    Returns
    -------
    list of str
        One sentence per chain; chains are numbered from 0, as in the ``chain`` coordinate.
    """
    sentences = []
    for switch in switches:
        pairs = ", ".join(
            f"{classes[source]!s} for {classes[target]!s}"
            for target, source in enumerate(switch.permutation)
            if source != target
        )
        done = (
            "it was put back: priors and gold are unchanged by that"
            if switch.action == "permuted"
            else "left as it is, since the priors tell these classes apart"
        )
        sentences.append(f"Chain {switch.chain} sits in a permuted mode ({pairs}); {done}.")
    return sentences


def _distances(reference: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Squared distance between the columns of two item x class tables."""
    cross = reference.T @ chain
    return (reference**2).sum(0)[:, None] + (chain**2).sum(0)[None, :] - 2 * cross


def _reference(by_chain: np.ndarray, votes: CrowdLabels, *, any_names: bool) -> int:
    """Pick the chain that keeps its names: the one nearest to the others, in doubt the one that the votes name best."""
    n_chains, _, n_classes = by_chain.shape
    is_class = votes.label_code < n_classes
    item, label = votes.item_code[is_class], votes.label_code[is_class]
    weight = np.ones(len(item)) if votes.weight is None else votes.weight[is_class]
    agreement = np.array([(by_chain[chain][item, label] * weight).sum() for chain in range(n_chains)])
    if any_names:
        return int(agreement.argmax())
    apart = np.array([[((a - b) ** 2).sum() for b in by_chain] for a in by_chain]).sum(1)
    near = apart <= apart.min() + 0.05 * max(float(apart.max()), 1e-12)
    return int(np.where(near, agreement, -np.inf).argmax())


def _follows_swap(
    model: Model, sizes: Sizes, parameters: Mapping[str, Any], axes: Mapping[str, int], pair: tuple[int, int]
) -> bool:
    """Check on one draw that swapping two classes in the parameters swaps them in the response and the state prior."""
    order = np.arange(sizes.n_classes)
    order[list(pair)] = order[list(pair)[::-1]]
    swapped = dict(parameters) | {
        name: np.take(np.asarray(parameters[name]), order, axis=axis) for name, axis in axes.items()
    }
    state = np.arange(model.n_levels * sizes.n_classes)
    at = At(None, state % sizes.n_classes, state // sizes.n_classes, None, None, sizes)
    with double_precision():
        given = [{name: jnp.asarray(value) for name, value in part.items()} for part in (parameters, swapped)]
        before, after = (np.asarray(model.confusion(part, sizes)) for part in given)
        prior, prior_after = (
            np.asarray(model.log_state(part, at)).reshape(model.n_levels, sizes.n_classes) for part in given
        )
    return bool(
        np.allclose(after, np.take(before, order, axis=-2), atol=1e-5)
        and np.allclose(prior_after, prior[:, order], atol=1e-4)
    )
