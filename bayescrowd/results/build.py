"""From a run to one `xarray.DataTree`, which ArviZ takes as it is where there are draws.

====================  =================================================================================================
group                 variables (dims)
====================  =================================================================================================
``posterior``         parameter sites and ``confusion (chain, draw, worker[, difficulty], class, label)``
``point_estimate``    the same names without sample dims, for engines without draws
``point_deviation``   standard deviations of the parameter sites, of samplers that stream them over all sweeps (their
                      ``point_estimate`` are posterior means over all sweeps)
``variational``       ``<site>_concentration``: the Dirichlets that an approximation consists of
``latent``            ``class_probability (item, class)``, ``difficulty_probability (item, difficulty)``, and both
                      ``..._by_chain``
``log_likelihood``    ``labels_of_item (chain, draw, item)``, states summed out
``sample_stats``      ``lp``, ``diverging``, ... ``(chain, draw)``
``optimization``      ``objective (iteration)``
``observed_data``     one row per annotation, gold, weights
``constant_data``     prior concentrations
``truth``             known classes that no fit reads, for scoring only
``original_ids``      ids that had to become text to be coordinates
====================  =================================================================================================
"""

import dataclasses
import functools
import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.inference.base import Run, sizes_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import Model, Site, Sizes
from bayescrowd.results import align, levels
from bayescrowd.results.coordinates import Coordinates, Variables
from bayescrowd.results.rule import Rule
from bayescrowd.results.tree import class_path, remember

__all__ = ["FORMAT", "MAX_BYTES", "build_tree"]

FORMAT = 1
"""Version of the layout of the tree; `bayescrowd.load` refuses newer ones."""

MAX_BYTES = 512 * 2**20
"""Draws of the parameters above this size are thinned, a log-likelihood above it is not stored."""

_MIN_DRAWS = 20
_AXES = ("item", "worker", "difficulty", "free_difficulty", "class", "label")
_LIBRARIES = ("bayescrowd", "jax", "numpyro", "numpy", "arviz-base", "xarray")
_CHUNK_BYTES = 32 * 2**20


def build_tree(
    labels: CrowdLabels,
    model: Model,
    engine: str,
    settings: Any,
    run: Run,
    seed: int,
    seconds: float,
    *,
    further: Variables | None = None,
    max_bytes: int = MAX_BYTES,
) -> xr.DataTree:
    """Put what an engine found into a result tree.

    Parameters
    ----------
    labels : CrowdLabels
        What was fitted.
    model : Model
        With which model.
    engine : str
        By which engine.
    settings : dataclass or dict
        With which options.
    run : Run
        What came out.
    seed : int
        Seed of the run.
    seconds : float
        Wall time.
    further : dict, optional
        Name -> (dims, value) of estimates that are no parameters of the model, to stand beside the points.
    max_bytes : int
        Size above which draws are thinned and a log-likelihood is left out, with a warning in the tree.

    Returns
    -------
    DataTree
        All ids of the user as coordinates; root attributes hold only text, numbers and lists.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> sorted(bc.fit(bc.datasets.load("anesthesia")).idata.children)
    ['constant_data', 'latent', 'observed_data', 'optimization', 'posterior', 'variational']
    """
    remember(type(model))
    sizes = sizes_of(labels)
    warnings = list(run.warnings)
    with double_precision():
        sites = model.sites(sizes)
    run, switches, level_switches = _align(run, model, sizes, labels, warnings)
    coords = Coordinates(labels, model, sites)
    groups: dict[str, xr.Dataset] = {}
    if run.draws is not None:
        draws = run.draws
        n_draws = next(iter(draws.values())).shape[1]
        keep = _kept_draws(draws, model, sizes, max_bytes)
        if len(keep) < n_draws:
            warnings.append(
                f"Kept {len(keep)} of {n_draws} draws per chain: all draws of the confusion matrices would exceed "
                f"{max_bytes / 2**20:.0f} MB. Class probabilities use all draws."
            )
            draws = {name: value[:, keep] for name, value in draws.items()}
        coords.draw = keep
        groups["posterior"] = coords.dataset(_parameters(draws, model, sites, sizes, ("chain", "draw")))
    if run.points is not None:
        groups["point_estimate"] = coords.dataset(
            _parameters(run.points, model, sites, sizes, ()) | dict(further or {})
        )
    if run.deviations is not None:
        groups["point_deviation"] = coords.dataset(_parameters(run.deviations, model, sites, sizes, (), derive=False))
    if run.concentrations is not None:
        groups["variational"] = coords.dataset(_concentrations(run.concentrations, sites))
    groups["latent"] = coords.dataset(_latent(run.state_probability, run.state_probability_by_chain, sizes))
    if run.log_likelihood is not None:
        if run.log_likelihood.nbytes <= max_bytes:
            thinned = run.log_likelihood[:, coords.draw]
            groups["log_likelihood"] = coords.dataset({"labels_of_item": (("chain", "draw", "item"), thinned)})
        else:
            warnings.append(
                f"The log-likelihood by draw and item is not stored: it would exceed {max_bytes / 2**20:.0f} MB."
            )
    if run.sample_stats is not None:
        groups["sample_stats"] = coords.dataset(
            {name: (("chain", "draw"), value[:, coords.draw]) for name, value in run.sample_stats.items()}
        )
    if run.objective is not None:
        groups["optimization"] = coords.dataset({"objective": (("iteration",), np.asarray(run.objective))})
    groups["observed_data"] = _observed(labels, coords)
    groups["constant_data"] = coords.dataset(_priors(sites))
    groups |= _truth(labels, coords)
    if coords.originals:
        groups["original_ids"] = coords.dataset(coords.originals)
    tree = xr.DataTree.from_dict(groups)
    warnings += align.in_words(switches, list(labels.classes))
    # Levels that the priors treat alike have no names to lose: putting them back is worth a note, no warning.
    harmless = [switch for switch in level_switches if switch.action != "reported"]
    names = model.difficulty_names()
    warnings += levels.in_words([switch for switch in level_switches if switch not in harmless], names)
    notes = [*coords.notes, *levels.in_words(harmless, names)]
    converged = {True: "yes", False: "no", None: "unknown"}[run.status.converged]
    tree.attrs = {
        "bayescrowd_format": FORMAT,
        "model": model.name,
        "model_class": "" if isinstance(model, Rule) else class_path(type(model)),
        "model_description": _json(model.describe()),
        "engine": engine,
        "settings": _json(settings if isinstance(settings, Mapping) else dataclasses.asdict(settings)),
        "seed": int(seed),
        "seconds": float(seconds),
        "status": run.status.code,
        "status_sentence": run.status.sentence,
        "converged": converged,
        "warnings": warnings,
        "noticed": list(run.warnings),
        "notes": notes,
        "label_notes": list(labels.notes),
        "ordered": int(labels.ordered),
        "label_switching": _json([s._asdict() for s in switches] + [s._asdict() for s in level_switches]),
        "details": _json(dict(run.extra) | _divergences(run)),
        "versions": _json(_versions()),
    }
    if run.draws is not None:
        tree.attrs["draws_are"] = "independent" if run.independent else "markov-chains"
    return tree


def _divergences(run: Run) -> dict[str, int]:
    """Count divergent transitions before draws are thinned."""
    if run.sample_stats is None or "diverging" not in run.sample_stats:
        return {}
    diverging = np.asarray(run.sample_stats["diverging"], bool)
    return {"n_divergent": int(diverging.sum()), "n_transitions": diverging.size}


def _align(
    run: Run, model: Model, sizes: Sizes, labels: CrowdLabels, warnings: list[str]
) -> tuple[Run, list[align.Switch], list[levels.LevelSwitch]]:
    """Bring chains to the same names of classes and levels, and levels without names of their own into order."""
    switches: list[align.Switch] = []
    if run.draws is not None:
        by_chain = run.state_probability_by_chain
        chains = align.Chains(run.draws, run.state_probability[None] if by_chain is None else by_chain)
        chains, switches = align.align_chains(chains, model, sizes, labels)
        run = run._replace(draws=chains.draws, state_probability_by_chain=chains.state_probability)
    run, level_switches = levels.order_levels(run, model, sizes, labels)
    by_chain = run.state_probability_by_chain
    permuted = "permuted" in {switch.action for switch in switches} | {switch.action for switch in level_switches}
    if by_chain is not None and permuted:
        run = run._replace(state_probability=by_chain.mean(0))
        draws = run.draws
        if run.points is not None and draws is not None:
            # What was averaged over all sweeps mixed chains that did not name things alike.
            run = run._replace(points={name: value.mean(axis=(0, 1)) for name, value in draws.items()})
            if run.deviations is not None:
                run = run._replace(deviations={name: value.std(axis=(0, 1)) for name, value in draws.items()})
        elif run.points is not None:
            warnings.append(
                "The means of the tables mix chains that name levels differently, and no draws were kept to put them "
                "right: fit again with keep=1000."
            )
    return run, switches, level_switches


def _kept_draws(draws: Mapping[str, np.ndarray], model: Model, sizes: Sizes, max_bytes: int) -> np.ndarray:
    """Evenly spaced draws, as many as fit."""
    n_chains, n_draws = next(iter(draws.values())).shape[:2]
    per_draw = sum(value[:, :1].nbytes for value in draws.values())
    if "confusion" not in draws and not model.uses_item:
        cells = sizes.n_workers * model.n_levels * sizes.n_classes * sizes.n_labels
        per_draw += 8 * n_chains * cells
    fits = max(int(max_bytes // max(per_draw, 1)), _MIN_DRAWS)
    step = -(-n_draws // fits)
    return np.arange(0, n_draws, step)


def _parameters(
    values: Mapping[str, np.ndarray],
    model: Model,
    sites: Mapping[str, Site],
    sizes: Sizes,
    sample_dims: tuple[str, ...],
    *,
    derive: bool = True,
) -> Variables:
    """Every site with its dims in the canonical order, and the confusion matrices where no site bears that name."""
    out: Variables = {}
    for name, site in sites.items():
        out[name] = _in_order(np.asarray(values[name]), site.dims, sample_dims)
    if derive and "confusion" not in out and not model.uses_item:
        dims = ("worker", "difficulty", "class", "label") if model.n_levels > 1 else ("worker", "class", "label")
        out["confusion"] = (sample_dims + dims, _confusion(values, model, sizes, len(sample_dims)))
    # Most dims first: the dims of the dataset then have the order worker, difficulty, class, label too. Where they have
    # another order than a variable's own, `arviz.summary` (arviz-base 1.3.1) puts names to the wrong rows.
    return dict(sorted(out.items(), key=lambda entry: (-len(entry[1][0]), entry[0] != "confusion")))


def _in_order(
    value: np.ndarray, dims: tuple[str, ...], sample_dims: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], np.ndarray]:
    """Transpose a value to the canonical order of dims; axes beyond those that are named stay last."""
    order = sorted(range(len(dims)), key=lambda axis: _AXES.index(dims[axis]) if dims[axis] in _AXES else 9)
    n_sample = len(sample_dims)
    named = n_sample + len(dims)
    axes = (*range(n_sample), *(axis + n_sample for axis in order), *range(named, value.ndim))
    return sample_dims + tuple(dims[axis] for axis in order), np.transpose(value, axes)


def _concentrations(values: Mapping[str, np.ndarray], sites: Mapping[str, Site]) -> Variables:
    """Dirichlet parameters of the approximate posterior, by site."""
    out: Variables = {}
    for name, value in values.items():
        dims, ordered = _in_order(np.asarray(value, float), sites[name].dims)
        out[f"{name}_concentration"] = (dims if sites[name].kind == "dirichlet" else (*dims, "outcome"), ordered)
    return out


def _confusion(values: Mapping[str, np.ndarray], model: Model, sizes: Sizes, n_sample: int) -> np.ndarray:
    """Tabulate the confusion matrices of all draws, a chunk of draws at a time."""
    if n_sample == 0:
        with double_precision():
            return np.asarray(model.confusion({name: jnp.asarray(value) for name, value in values.items()}, sizes))
    lead = next(iter(values.values())).shape[:n_sample]
    flat = {name: value.reshape(-1, *value.shape[n_sample:]) for name, value in values.items()}
    n_draws = int(np.prod(lead))
    cells = sizes.n_workers * model.n_levels * sizes.n_classes * sizes.n_labels
    chunk = max(1, min(n_draws, _CHUNK_BYTES // (8 * cells)))
    tabulate = jax.jit(jax.vmap(lambda parameters: model.confusion(parameters, sizes)))
    parts = []
    for first in range(0, n_draws, chunk):
        # The last chunk repeats draws so that all chunks share one compiled shape.
        rows = np.minimum(np.arange(first, first + chunk), n_draws - 1)
        with double_precision():
            part = np.asarray(tabulate({name: value[rows] for name, value in flat.items()}))
        parts.append(part[: n_draws - first])
    whole = np.concatenate(parts)
    return whole.reshape(*lead, *whole.shape[1:])


def _latent(state_probability: np.ndarray, by_chain: np.ndarray | None, sizes: Sizes) -> Variables:
    states = state_probability.reshape(sizes.n_items, -1, sizes.n_classes)
    has_levels = states.shape[1] > 1
    out: Variables = {"class_probability": (("item", "class"), states.sum(axis=1))}
    if by_chain is not None:
        chains = by_chain.reshape(len(by_chain), sizes.n_items, -1, sizes.n_classes)
        out["class_probability_by_chain"] = (("chain", "item", "class"), chains.sum(axis=2))
        if has_levels:
            out["difficulty_probability_by_chain"] = (("chain", "item", "difficulty"), chains.sum(axis=3))
    if has_levels:
        out["difficulty_probability"] = (("item", "difficulty"), states.sum(axis=2))
    return out


def _observed(labels: CrowdLabels, coords: Coordinates) -> xr.Dataset:
    variables: Variables = {
        "item_index": (("annotation",), labels.item_code),
        "worker_index": (("annotation",), labels.worker_code),
        "label_index": (("annotation",), labels.label_code),
        "gold_index": (("item",), labels.gold_code),
    }
    if labels.weight is not None:
        variables["weight"] = (("annotation",), labels.weight)
    also = ["item", "worker", "class", "label"]
    if labels.patterns is not None:
        code, names = pd.factorize(labels.patterns.reindex(labels.items))
        coords.add("pattern", pd.Index(names, tupleize_cols=False))
        variables["pattern_index"] = (("item",), code.astype(np.int32))
        also.append("pattern")
    return coords.dataset(variables, also)


def _truth(labels: CrowdLabels, coords: Coordinates) -> dict[str, xr.Dataset]:
    if labels.truth is None:
        return {}
    truth = labels.truth.dropna()
    code, found = pd.factorize(truth)
    coords.add("truth_value", pd.Index(found, tupleize_cols=False))
    whole = np.full(labels.n_items, -1, np.int32)
    position = labels.items.get_indexer(truth.index)
    whole[position[position >= 0]] = code[position >= 0]
    return {"truth": coords.dataset({"truth_index": (("item",), whole)}, ["truth_value"])}


def _priors(sites: Mapping[str, Site]) -> Variables:
    """Concentrations of the parameter sites; an axis along which nothing varies is left out (but the last one)."""
    out: Variables = {}
    for name, site in sites.items():
        if site.concentration is None:
            continue
        value = np.asarray(site.concentration, float)
        dims = site.dims if site.kind == "dirichlet" else (*site.dims, "outcome")
        for axis in range(value.ndim - 2, -1, -1):
            first = np.take(value, [0], axis=axis)
            if value.shape[axis] > 1 and (value == first).all():
                value = np.take(value, 0, axis=axis)
                dims = dims[:axis] + dims[axis + 1 :]
        out[f"{name}_concentration"] = (dims, value)
    return out


@functools.cache
def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def _json(value: Any) -> str:
    def plain(part: Any) -> Any:
        if isinstance(part, np.generic | np.ndarray | jax.Array):
            return np.asarray(part).tolist()
        return str(part)

    return json.dumps(value, default=plain)
