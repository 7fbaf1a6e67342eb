"""Difficulty levels: chains that number them differently, and the order of levels that have no names of their own.

Levels whose priors are alike, and which the response treats alike, could swap numbers without anything noticing. Whole
chains are brought to one numbering, and then all results together to the order easiest first: a permutation under which
model, priors, gold and given rows are unchanged. Other levels are never touched; a chain that plays them in other parts
is reported.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import Run
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import At, Model, Site, Sizes
from bayescrowd.results.align import find_switches

__all__ = ["LevelSwitch", "ease_of_levels", "exchangeable_levels", "in_words", "is_of_levels", "order_levels"]

_DIM = "difficulty"


class LevelSwitch(NamedTuple):
    """One permutation of difficulty levels.

    Parameters
    ----------
    chain : int or None
        Index of the chain; None for all of the result.
    levels : tuple of int
        Which old level stands at each place of the new order, or, where it is only reported, which level of the chain
        plays the part of each level of the other chains.
    action : str
        ``"permuted"`` (brought back), ``"reported"`` (left as it was) or ``"ordered"`` (easiest first).
    """

    chain: int | None
    levels: tuple[int, ...]
    action: str


def is_of_levels(dim: str) -> bool:
    """Say whether a dim runs over difficulty levels: all of them, or the first ones (``free_difficulty``).

    Parameters
    ----------
    dim : str
        Its name.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_of_levels("difficulty"), is_of_levels("free_difficulty"), is_of_levels("class")
    (True, True, False)
    """
    return dim == _DIM or dim.endswith(f"_{_DIM}")


def exchangeable_levels(model: Model, sizes: Sizes, parameters: Mapping[str, Any]) -> list[list[int]]:
    """Find the difficulty levels that could swap numbers without model or priors noticing.

    Parameters
    ----------
    model : Model
        The model.
    sizes : Sizes
        Its sizes.
    parameters : dict
        One value of the parameter sites, to check that the response follows such a swap.

    Returns
    -------
    list of list of int
        Blocks of two or more interchangeable levels.
    """
    if model.n_levels < 2 or model.uses_item:
        return []
    with double_precision():
        sites = _of_levels(model.sites(sizes))
    if not sites or any(site.concentration is None for site in sites.values()):
        return []
    slices = [np.moveaxis(np.asarray(site.concentration), _axis(site), 0) for site in sites.values()]
    blocks: dict[Any, list[int]] = {}
    for level in range(model.n_levels):
        key = tuple(np.ascontiguousarray(part[level]).tobytes() if level < len(part) else None for part in slices)
        blocks.setdefault(key, []).append(level)
    found = []
    for block in blocks.values():
        rest = block
        while len(rest) > 1:
            first, *others = rest
            alike = [other for other in others if _follows_swap(model, sizes, parameters, sites, (first, other))]
            if alike:
                found.append([first, *alike])
            rest = [other for other in others if other not in alike]
    return found


def order_levels(run: Run, model: Model, sizes: Sizes, labels: CrowdLabels) -> tuple[Run, list[LevelSwitch]]:
    """Give exchangeable levels the same numbers in all chains, then order all of the result easiest first.

    Parameters
    ----------
    run : Run
        What an engine found.
    model : Model
        The model.
    sizes : Sizes
        Its sizes.
    labels : CrowdLabels
        The labels, for the weights of the workers.

    Returns
    -------
    run : Run
        Draws, points, concentrations and state probabilities permuted alike; the arrays of the given run are not
        changed.
    switches : list of LevelSwitch
        What was found and done; empty where nothing was.
    """
    if model.n_levels < 2:
        return run, []
    parameters = _point(run)
    blocks = [] if parameters is None else exchangeable_levels(model, sizes, parameters)
    with double_precision():
        sites = _of_levels(model.sites(sizes))
    run, switches = _match_chains(run, model.n_levels, sites, blocks)
    if not blocks:
        return run, switches
    ease = ease_of_levels(run, model, sizes, labels)
    if not np.isfinite(ease).all():  # a run that failed
        return run, switches
    order = np.arange(model.n_levels)
    for block in blocks:
        # Levels that are as easy as each other keep their order, whatever the last digits say.
        order[block] = sorted(block, key=lambda level: (-round(float(ease[level]), 6), level))
    if (order == np.arange(model.n_levels)).all():
        return run, switches
    by_chain = run.state_probability_by_chain
    run = run._replace(
        draws=_permuted(run.draws, sites, order, 2),
        points=_permuted(run.points, sites, order, 0),
        deviations=_permuted(run.deviations, sites, order, 0),
        concentrations=_permuted(run.concentrations, sites, order, 0),
        state_probability=_states(run.state_probability, order),
        state_probability_by_chain=None if by_chain is None else _states(by_chain, order),
    )
    return run, [*switches, LevelSwitch(None, tuple(int(level) for level in order), "ordered")]


def ease_of_levels(run: Run, model: Model, sizes: Sizes, labels: CrowdLabels) -> np.ndarray:
    """Compute how easy each level is: the probability that a label there is right.

    Parameters
    ----------
    run : Run
        What an engine found.
    model : Model
        The model.
    sizes : Sizes
        Its sizes.
    labels : CrowdLabels
        The labels.

    Returns
    -------
    array [difficulty]
        P(label = class) at the means of the parameters, averaged over classes by their expected shares and over workers
        by their numbers of labels.
    """
    with double_precision():
        means = {name: jnp.asarray(value, float) for name, value in (_means(run) or {}).items()}
        confusion = np.asarray(model.confusion(means, sizes), float)
    confusion = confusion.reshape(sizes.n_workers, model.n_levels, sizes.n_classes, sizes.n_labels)
    right = np.diagonal(confusion, axis1=2, axis2=3)
    share = run.state_probability.reshape(sizes.n_items, -1, sizes.n_classes).sum(axis=(0, 1))
    share = share / max(float(share.sum()), 1e-300)
    weight = np.bincount(labels.worker_code, minlength=sizes.n_workers) / max(len(labels.worker_code), 1)
    return np.asarray(np.einsum("k,khc,c->h", weight, right, share))


def in_words(switches: Sequence[LevelSwitch], names: Sequence[str]) -> list[str]:
    """Say which chains number the levels differently; the common order, easiest first, needs no words.

    Parameters
    ----------
    switches : list of LevelSwitch
        From `order_levels`.
    names : sequence of str
        Names of the levels.

    Returns
    -------
    list of str
        One sentence per chain; chains are numbered from 0, as in the ``chain`` coordinate.
    """
    sentences = []
    for switch in switches:
        if switch.chain is None:
            continue
        pairs = ", ".join(
            f"{names[source]} for {names[target]}" for target, source in enumerate(switch.levels) if source != target
        )
        done = (
            "it was put back: the priors treat these levels alike"
            if switch.action == "permuted"
            else "left as it is, since the model tells these levels apart"
        )
        sentences.append(f"Chain {switch.chain} plays the difficulty levels in other parts ({pairs}); {done}.")
    return sentences


def _of_levels(sites: Mapping[str, Site]) -> dict[str, Site]:
    return {name: site for name, site in sites.items() if any(map(is_of_levels, site.dims))}


def _axis(site: Site) -> int:
    return next(axis for axis, dim in enumerate(site.dims) if is_of_levels(dim))


def _point(run: Run) -> dict[str, np.ndarray] | None:
    """One value of the parameters."""
    return {name: value[0, 0] for name, value in run.draws.items()} if run.draws else _means(run)


def _means(run: Run) -> dict[str, np.ndarray] | None:
    if run.draws:
        return {name: value.mean(axis=(0, 1), dtype=float) for name, value in run.draws.items()}
    return run.points


def _match_chains(
    run: Run, n_levels: int, sites: Mapping[str, Site], blocks: list[list[int]]
) -> tuple[Run, list[LevelSwitch]]:
    """Bring chains that clearly number the levels differently to the numbers of the chain nearest to all."""
    by_chain = run.state_probability_by_chain
    if by_chain is None or len(by_chain) < 2:
        return run, []
    levels = by_chain.reshape(*by_chain.shape[:2], n_levels, -1).sum(axis=3)
    apart = np.array([[((one - other) ** 2).sum() for other in levels] for one in levels]).sum(axis=1)
    block_of = np.arange(n_levels)
    for block in blocks:
        block_of[block] = block[0]
    switches = []
    draws, by_chain = dict(run.draws or {}), by_chain.copy()
    for chain, permutation in sorted(find_switches(levels, int(apart.argmin())).items()):
        order = np.array(permutation)
        if not np.array_equal(block_of[order], block_of):
            switches.append(LevelSwitch(chain, permutation, "reported"))
            continue
        by_chain[chain] = _states(by_chain[chain], order)
        for name, site in sites.items():
            if name in draws:
                if draws[name] is (run.draws or {})[name]:
                    draws[name] = draws[name].copy()
                axis = _axis(site)
                draws[name][chain] = np.take(draws[name][chain], order[: site.shape[axis]], axis=axis + 1)
        switches.append(LevelSwitch(chain, permutation, "permuted"))
    if not any(switch.action == "permuted" for switch in switches):
        return run, switches
    return (
        run._replace(
            draws=draws or None,
            state_probability_by_chain=by_chain,
            state_probability=np.asarray(by_chain.mean(axis=0)),
        ),
        switches,
    )


def _permuted(
    values: dict[str, np.ndarray] | None, sites: Mapping[str, Site], order: np.ndarray, n_lead: int
) -> dict[str, np.ndarray] | None:
    """Reorder the levels of every site that has them; the first levels stay among the first."""
    if values is None:
        return None
    out = dict(values)
    for name, site in sites.items():
        if name in out:
            axis = _axis(site)
            out[name] = np.take(np.asarray(out[name]), order[: site.shape[axis]], axis=axis + n_lead)
    return out


def _states(probability: np.ndarray, order: np.ndarray) -> np.ndarray:
    levels = probability.reshape(*probability.shape[:-1], len(order), -1)
    return np.take(levels, order, axis=-2).reshape(probability.shape)


def _follows_swap(
    model: Model, sizes: Sizes, parameters: Mapping[str, Any], sites: Mapping[str, Site], pair: tuple[int, int]
) -> bool:
    """Check on one value that swapping two levels in the parameters swaps them in response and state prior."""
    order = np.arange(model.n_levels)
    order[list(pair)] = order[list(pair)[::-1]]
    plain = {name: np.asarray(value, float) for name, value in parameters.items()}
    swapped = _permuted(plain, sites, order, 0) or {}
    state = np.arange(model.n_levels * sizes.n_classes)
    at = At(None, state % sizes.n_classes, state // sizes.n_classes, None, None, sizes)
    with double_precision():
        given = [{name: jnp.asarray(value) for name, value in part.items()} for part in (plain, swapped)]
        before, after = (np.asarray(model.confusion(part, sizes)) for part in given)
        prior, prior_after = (
            np.broadcast_to(np.asarray(model.log_state(part, at)), state.shape).reshape(model.n_levels, -1)
            for part in given
        )
    return bool(
        np.allclose(after, np.take(before, order, axis=1), atol=1e-5)
        and np.allclose(prior_after, prior[order], atol=1e-4)
    )
