"""Difficulty levels of a result: do they name the classes alike, are they used, are they told apart at all."""

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from bayescrowd.criticism.report import Finding
from bayescrowd.criticism.sampling import identify
from bayescrowd.errors import shorten
from bayescrowd.results.levels import is_of_levels
from bayescrowd.results.tree import has_chains, ids, n_labels_of, parameter_group, values

__all__ = ["of_the_levels", "permuted_levels"]

_SAME = 1e-6

_HARDLY_USED = 0.01
"""A level with a smaller share of the items tells no difficulty apart."""

_USED = 0.05
"""A level with a larger share of the items has to do with most of them."""

_DIFFERENCE = 0.05
"""Levels whose accuracies differ by less are no levels of difficulty."""

_CLEARLY = 0.25
"""How much more probable, on average over the classes that move, the labels of a permuted level must be than those of a
level whose classes keep their names."""


def of_the_levels(tree: xr.DataTree) -> list[Finding]:
    """Tell what is wrong with the difficulty levels.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        Nothing for models with one level.
    """
    if "difficulty_probability" not in tree["latent"].dataset:
        return []
    return permuted_levels(tree) + _alike(tree) + _empty(tree) + _no_difference(tree)


def _no_difference(tree: xr.DataTree) -> list[Finding]:
    """Point out levels on which workers are about equally often right: they are no levels of difficulty."""
    dataset = tree[parameter_group(tree)].dataset
    if "confusion" not in dataset or "difficulty" not in dataset["confusion"].dims:
        return []
    confusion = dataset["confusion"].mean([dim for dim in ("chain", "draw") if dim in dataset["confusion"].dims])
    table = confusion.transpose("worker", "difficulty", "class", "label").to_numpy()
    n_labels = n_labels_of(tree, "worker").astype(float)
    shares = values(tree, "latent", "class_probability").mean(axis=0)
    right = np.diagonal(table[..., : table.shape[2]], axis1=2, axis2=3) @ shares
    accuracy = n_labels / max(n_labels.sum(), 1.0) @ right
    expected = _expected(tree)
    used = np.flatnonzero(expected >= max(2.0, _USED * expected.sum()))
    if not len(used) or not np.isfinite(accuracy).all() or np.ptp(accuracy[used]) >= _DIFFERENCE:
        return []
    names = ids(tree, "difficulty")
    if len(used) == 1:
        name = names[used[0]]
        text = f"Nearly all items are on difficulty level {name!r}, so its name tells nothing of how hard they are"
    else:
        low, high = 100 * accuracy[used].min(), 100 * accuracy[used].max()
        text = (
            f"Workers are about equally often right on the difficulty levels {shorten(names[used])} ({low:.0f} to "
            f"{high:.0f} %): the levels say little of how hard an item is"
        )
    return [
        Finding(
            "note",
            "levels-alike",
            f"{text}.",
            "bc.DawidSkene() does without levels, bc.compare() tells which predicts labels better; "
            "bc.item_difficulty(labels) ranks the items",
        )
    ]


def permuted_levels(tree: xr.DataTree) -> list[Finding]:
    """Find levels whose classes are permuted against the labels that workers give.

    On average over workers the matrix of a level should have its largest entries on the diagonal: labels name the
    classes. Where another assignment of classes to labels fits clearly better, the level sits in one of the nearly
    equal modes that renaming its classes makes; or its items mislead most workers, which the labels alone cannot tell.

    Parameters
    ----------
    tree : DataTree
        A result of a model with levels and confusion matrices.

    Returns
    -------
    list of Finding
        One per level, or per level and the chains that are permuted where others are not.
    """
    group = parameter_group(tree)
    dataset = tree[group].dataset
    if "confusion" not in dataset or "difficulty" not in dataset["confusion"].dims:
        return []
    chains = range(dataset.sizes["chain"]) if has_chains(tree) else [None]
    found: dict[int, dict[int | None, list[int]]] = {}
    for chain in chains:
        for level, order in _permuted(tree, chain).items():
            found.setdefault(level, {})[chain] = order
    names, classes = ids(tree, "difficulty"), ids(tree, "class")
    symmetric = f"one of the nearly equal modes that renaming classes level by level makes, {len(classes)}! for a level"
    remedy = f'{identify(tree)}; start with init="ability"'
    if "free_difficulty" not in dataset.dims:
        remedy += "; or give the easiest and the hardest level, model=bc.FixedIDBLA()"
    findings = []
    for level, by_chain in sorted(found.items()):
        order = next(iter(by_chain.values()))
        parts = ", ".join(
            f"its {classes[code]!s} plays {classes[label]!s}" for code, label in enumerate(order) if code != label
        )
        name = names[level]
        if len(by_chain) < len(chains):
            who = shorten(list(by_chain))
            text = f"Chain {who} sits in a permuted mode on difficulty level {name} ({parts}): {symmetric}."
            findings.append(Finding("problem", "permuted-level", text, remedy))
            continue
        text = (
            f"Difficulty level {name} names the classes differently ({parts}): {symmetric}, unless its items mislead "
            f"most workers."
        )
        findings.append(Finding("caution", "permuted-level", text, remedy))
    return findings


def _permuted(tree: xr.DataTree, chain: int | None) -> dict[int, list[int]]:
    """Level -> the label that each of its classes goes by, for levels with items whose classes are permuted."""
    dataset = tree[parameter_group(tree)].dataset
    confusion = dataset["confusion"]
    if chain is not None:
        confusion = confusion.isel(chain=chain)
    confusion = confusion.mean([dim for dim in ("chain", "draw") if dim in confusion.dims])
    n_labels = n_labels_of(tree, "worker").astype(float)
    table = confusion.transpose("worker", "difficulty", "class", "label").to_numpy()
    average = np.einsum("k,khcl->hcl", n_labels / max(n_labels.sum(), 1.0), table)
    n_levels, n_classes = average.shape[:2]
    # Levels with given rows cannot move: the free ones are those that a site of their own runs over.
    free = [
        variable.sizes[dim]
        for variable in dataset.data_vars.values()
        for dim in variable.dims
        if dim != "difficulty" and is_of_levels(str(dim))
    ]
    expected = _expected(tree, chain)
    found = {}
    for level in range(min(free, default=n_levels)):
        if expected[level] < max(2, n_classes):
            continue
        square = average[level, :, :n_classes]
        if not np.isfinite(square).all():  # a run that failed
            continue
        order = linear_sum_assignment(-square)[1]
        moved = np.flatnonzero(order != np.arange(n_classes))
        if not len(moved):
            continue
        if (square[moved, order[moved]] - square[moved, moved]).mean() > _CLEARLY:
            found[level] = [int(code) for code in order]
    return found


def _expected(tree: xr.DataTree, chain: int | None = None) -> np.ndarray:
    """Sum over items with labels: how many are expected on each level."""
    latent = tree["latent"].dataset
    if chain is not None and "difficulty_probability_by_chain" in latent:
        probability = latent["difficulty_probability_by_chain"].to_numpy()[chain]
    else:
        probability = latent["difficulty_probability"].to_numpy()
    expected: np.ndarray = probability[n_labels_of(tree, "item") > 0].sum(axis=0)
    return expected


def _alike(tree: xr.DataTree) -> list[Finding]:
    """Point out levels that the engine left exactly alike, as a start without any difference between them does."""
    if has_chains(tree):
        return []
    probability = values(tree, "latent", "difficulty_probability")[n_labels_of(tree, "item") > 0]
    n_levels = probability.shape[1]
    twins = sorted(
        {
            level
            for first in range(n_levels)
            for second in range(first + 1, n_levels)
            # Levels without items have nothing but the prior to differ by.
            if probability[:, first].sum() >= 1 and np.abs(probability[:, first] - probability[:, second]).max() < _SAME
            for level in (first, second)
        }
    )
    if not twins:
        return []
    return [
        Finding(
            "caution",
            "symmetric-levels",
            f"The difficulty levels {shorten(ids(tree, 'difficulty')[twins])} are equally probable on every item with "
            f"labels: the start did not tell them apart, {tree.attrs['engine']} may stand at a saddle.",
            'start where levels differ, init="ability", or elsewhere with starts=10',
        )
    ]


def _empty(tree: xr.DataTree) -> list[Finding]:
    expected = _expected(tree)
    few = max(1.0, _HARDLY_USED * expected.sum())
    empty = expected < few
    if not empty.any():
        return []
    names = ids(tree, "difficulty")
    how_many = "Fewer than one item is" if few == 1 else f"Less than {_HARDLY_USED:.0%} of the items is"
    return [
        Finding(
            "note",
            "empty-level",
            f"{how_many} expected on difficulty level {shorten(names[empty])}: these labels tell no such difficulty "
            f"apart, fewer levels would do. bc.item_difficulty(labels) ranks the items anyway.",
        )
    ]
