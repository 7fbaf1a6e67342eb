"""Workers and classes of which the labels say so little that the prior does the talking.

A row of a confusion matrix with prior concentration c (summed over labels), on whose class n labels are expected, has
the posterior mean (c prior + n labels) / (c + n): the labels' share in it is n / (c + n). That holds for draws and
approximations alike; in a posterior mode each entry counts one less.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism.report import Finding
from bayescrowd.errors import ModelError, count_of, shorten
from bayescrowd.inference import get, names
from bayescrowd.kernels.precision import double_precision
from bayescrowd.results.levels import is_of_levels
from bayescrowd.results.tree import ids, json_attribute, model_of, n_labels_of, parameter_group, sizes_of, values
from bayescrowd.sites import Site

__all__ = ["ENOUGH", "label_shares", "thin_classes", "thin_workers"]

ENOUGH = 0.5
"""From this share on an estimate is more the labels' than the prior's."""

_FEW_LABELS = 5
_MANY = 0.1
_SHOWN = 3


class _Shares(NamedTuple):
    """What part of the estimates the labels decide: by worker, and by worker and class where classes have rows."""

    by_worker: np.ndarray
    by_class: np.ndarray | None


def thin_workers(tree: xr.DataTree) -> list[Finding]:
    """Find workers whose estimates are mostly the prior, or, for methods that know no prior, mostly luck.

    The labels' share in the rows of a worker's confusion matrix is averaged over the classes by their prevalence; below
    one half the prior says more than the labels do. Where no prior was used, fewer than five labels count as few.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        At most one: a caution where these workers gave a tenth of the labels or more, else a note.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> labels = bc.datasets.load("anesthesia").to_frame()
    >>> few = labels[(labels["worker"] != 5) | (labels["item"] < 3)]
    >>> fit = bc.fit(bc.CrowdLabels.from_long(few, duplicates="keep"))
    >>> print(thin_workers(fit.idata)[0].text.split(": ")[1])
    5 (2 labels, less than 1% of all).
    """
    n_labels = n_labels_of(tree, "worker")
    if len(n_labels) < 2 or not _is_of_workers(tree):
        return []
    found = _shares(tree)
    if found is None:
        thin, why = n_labels < _FEW_LABELS, "luck"
        remedy = 'fit a model with priors, engine="gibbs", whose intervals show it'
    else:
        thin, why = found.by_worker < ENOUGH, "the prior"
        remedy = "read fit.workers() with its intervals"
    if not thin.any():
        return []
    order = np.flatnonzero(thin)[np.argsort(n_labels[thin], kind="stable")]
    part = float(n_labels[order].sum() / max(n_labels.sum(), 1))
    parts = [
        f"{shorten([worker])} ({count_of(int(n), 'label')})"
        for worker, n in zip(ids(tree, "worker")[order[:_SHOWN]], n_labels[order[:_SHOWN]], strict=True)
    ]
    who = ", ".join(parts) + (f" and {len(order) - _SHOWN:,} more" if len(order) > _SHOWN else "")
    one, share = len(order) == 1, f"{part:.0%}" if part >= 0.01 else "less than 1%"
    of_all = f"{who[:-1]}, {share} of all)" if one else f"{who}; together {share} of all labels"
    text = (
        f"{len(order):,} of {count_of(len(n_labels), 'worker')} {'has' if one else 'have'} so few labels that what the "
        f"fit says of them is mostly {why}: {of_all}."
    )
    remedy += "; do not rank workers by accuracy alone; get more labels, or gold, from those who matter"
    return [Finding("caution" if part >= _MANY else "note", "thin-workers", text, remedy)]


def thin_classes(tree: xr.DataTree) -> list[Finding]:
    """Find classes with so few items that the rows of the confusion matrices for them are mostly the prior.

    Only workers with enough labels over all classes are looked at: of the others `thin_workers` tells.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        At most one note.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> print(thin_classes(bc.fit(bc.datasets.load("anesthesia")).idata)[0].text.split(":")[0])
    Class 4 (about 1 item)
    """
    found = _shares(tree) if _is_of_workers(tree) else None
    if found is None or found.by_class is None or found.by_class.shape[1] < 2:
        return []
    able = found.by_worker >= ENOUGH
    expected = values(tree, "latent", "class_probability").sum(axis=0)
    poor = (found.by_class[able] < ENOUGH).sum(axis=0)
    # Classes without items have a finding of their own.
    thin = np.flatnonzero((poor > able.sum() / 2) & (expected >= 1))
    if not len(thin):
        return []
    thin = thin[np.argsort(expected[thin], kind="stable")]
    about = [
        f"{shorten([name])} (about {count_of(round(float(n)), 'item')})"
        for name, n in zip(ids(tree, "class")[thin[:_SHOWN]], expected[thin[:_SHOWN]], strict=True)
    ]
    who = ", ".join(about) + (f" and {len(thin) - _SHOWN} more" if len(thin) > _SHOWN else "")
    one = len(thin) == 1
    return [
        Finding(
            "note",
            "thin-classes",
            f"{'Class' if one else 'Classes'} {who}: for most workers the rows of "
            f"{'that class' if one else 'these classes'} in the confusion matrix are mostly the prior.",
            "read those rows with their intervals, fit.confusion(worker, interval=0.89); items, or gold, of "
            f"{'that class' if one else 'these classes'} would help",
        )
    ]


def label_shares(tree: xr.DataTree) -> pd.Series | None:
    """Say what part of each worker's estimates the labels decide, the rest being the prior's.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Series by worker, or None
        From 0 (all prior) to 1 (all labels); None where no prior was used, or none of this kind.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> label_shares(bc.fit(bc.datasets.load("anesthesia")).idata).round(2).to_dict()
    {1: 0.92, 2: 0.8, 3: 0.8, 4: 0.8, 5: 0.8}
    """
    found = _shares(tree)
    return None if found is None else pd.Series(found.by_worker, index=ids(tree, "worker"), name="label_share")


def _is_of_workers(tree: xr.DataTree) -> bool:
    """Say whether the method estimates anything of workers."""
    group = parameter_group(tree)
    return group in tree.children and any("worker" in value.dims for value in tree[group].dataset.data_vars.values())


def _pseudo_labels(tree: xr.DataTree) -> float | None:
    """Say how much less than its concentration an entry counts: 0 in a mean, 1 in a mode; None without priors."""
    engine = str(tree.attrs["engine"])
    if engine == "em":
        return 1.0 if json_attribute(tree, "settings", {}).get("objective") == "posterior" else None
    return 0.0 if engine in names() and get(engine).priors else None


def _sites(tree: xr.DataTree) -> list[Site]:
    """Dirichlet and Beta tables of workers."""
    try:
        model = model_of(tree)
    except ModelError:
        return []
    with double_precision():
        sites = model.sites(sizes_of(tree))
    return [site for site in sites.values() if site.kind != "other" and "worker" in site.dims]


def _shares(tree: xr.DataTree) -> _Shares | None:
    less = _pseudo_labels(tree)
    sites = _sites(tree) if less is not None else []
    if less is None or not sites:
        return None
    latent = tree["latent"].dataset
    classes = latent["class_probability"].to_numpy().astype(float)
    levels = np.ones((len(classes), 1))
    if "difficulty_probability" in latent:
        levels = latent["difficulty_probability"].to_numpy().astype(float)
    counts = _expected_labels(tree, levels, classes)
    rows = [_of_site(site, counts, levels.mean(axis=0), classes.mean(axis=0), less) for site in sites]
    by_class = [part.by_class for part in rows if part.by_class is not None]
    return _Shares(np.mean([part.by_worker for part in rows], axis=0), np.mean(by_class, axis=0) if by_class else None)


def _expected_labels(tree: xr.DataTree, levels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Count how many labels of each worker are expected on items of each level and class, by weight."""
    observed = tree["observed_data"].dataset
    item, worker = (observed[f"{name}_index"].to_numpy() for name in ("item", "worker"))
    weight = observed["weight"].to_numpy() if "weight" in observed else np.ones(len(item))
    counts = np.zeros((observed.sizes["worker"], levels.shape[1], classes.shape[1]))
    for level in range(levels.shape[1]):
        for code in range(classes.shape[1]):
            chance = weight * levels[item, level] * classes[item, code]
            counts[:, level, code] = np.bincount(worker, chance, len(counts))
    return counts


def _of_site(site: Site, counts: np.ndarray, level_share: np.ndarray, class_share: np.ndarray, less: float) -> _Shares:
    """Compare the expected labels of each row of a table with its concentration, less something per entry."""
    concentration = (np.asarray(site.concentration, float) - less).sum(axis=-1)
    dims = list(site.dims[:-1] if site.kind == "dirichlet" else site.dims)
    level = next((dim for dim in dims if is_of_levels(dim)), None)
    n_levels = counts.shape[1] if level is None else concentration.shape[dims.index(level)]
    # Levels with given rows come last and have no prior.
    counts, level_share = counts[:, :n_levels], level_share[:n_levels]
    counts = counts.sum(axis=1, keepdims=True) if level is None else counts
    counts = counts if "class" in dims else counts.sum(axis=2, keepdims=True)
    wanted = [dim for dim in ("worker", level, "class") if dim in dims]
    further = tuple(axis for axis, dim in enumerate(dims) if dim not in wanted)
    concentration = concentration.mean(axis=further)
    kept = [dim for dim in dims if dim in wanted]
    concentration = concentration.transpose([kept.index(dim) for dim in wanted])
    shape = [size if dim in kept else 1 for dim, size in zip(("worker", level, "class"), counts.shape, strict=True)]
    total = counts + concentration.reshape(shape)
    share = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    of_level = level_share / max(level_share.sum(), 1e-300) if level is not None else np.ones(1)
    by_class = np.einsum("kht,h->kt", share, of_level)
    of_class = class_share if "class" in dims else np.ones(1)
    return _Shares(by_class @ of_class, by_class if "class" in dims else None)
