"""Class probabilities of new items, given what known and unknown workers say about them."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
import xarray as xr
from numpyro import handlers

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import BayescrowdWarning, LabelError, problems_message, shorten
from bayescrowd.inference.base import joint_by_draw
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import TINY
from bayescrowd.model import Model, Site, Sizes
from bayescrowd.results.tree import ids, model_of, samples_of, sizes_of
from bayescrowd.sites import TRACING

__all__ = ["predict"]

_PRIOR_DRAWS = 200
_COLUMNS = ("item", "worker", "label")
_OPTIONAL = ("weight", "gold")


@dataclass
class _Table:
    """New labels in the codes of the fit; the workers are those that occur, known ones first."""

    item_code: np.ndarray
    worker_code: np.ndarray
    label_code: np.ndarray
    weight: np.ndarray | None
    gold_code: np.ndarray
    n_items: int
    n_workers: int
    classes: Sequence[object]
    label_values: Sequence[object]


def predict(tree: xr.DataTree, new_labels: Any, *, seed: int = 0) -> pd.DataFrame:
    r"""Give class probabilities of new items from their labels.

    The exact posterior predictive,
    :math:`P(z \mid y_{new}, D) \propto E[\,\text{prevalence}_z \prod \text{confusion}(y_{new}) \mid D]`: the *joint*
    weights are averaged over the draws, then normalised. Workers that the fit does not know answer as the prior
    expects: each draw gets confusion matrices drawn from it. Point estimates are plugged in, the prior's mean for
    unknown workers.

    Parameters
    ----------
    tree : DataTree
        A result.
    new_labels : CrowdLabels or DataFrame
        New items, workers and what they said; a DataFrame needs columns ``item``, ``worker``, ``label`` and may have
        ``weight`` and ``gold``, which are used as by `CrowdLabels.from_long`. Every item counts as new and is judged by
        these labels alone, even if the fit knows an item of that id. Gold is respected.
    seed : int
        Seed of the draws for unknown workers.

    Returns
    -------
    DataFrame [item, class]
        Rows sum to one.

    Raises
    ------
    LabelError
        Listing label values that the fit does not know, missing columns, and weights or gold that cannot be used.

    Examples
    --------
    >>> import bayescrowd as bc, pandas as pd
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> new = pd.DataFrame({"item": ["p46"], "worker": [1], "label": [2]})
    >>> fit.predict(new).shape
    (1, 4)
    """
    seed = check_seed(seed)
    labels = _as_labels(tree, new_labels)
    table, known, n_unknown = _in_codes(tree, labels)
    model = model_of(tree)
    samples = _parameters(tree, model, known, n_unknown, table.n_items, np.random.default_rng(seed))
    log_joint = joint_by_draw(model, samples, table)
    weight = np.exp(log_joint - log_joint.max(axis=1, keepdims=True, initial=-np.inf))
    by_class = weight.reshape(table.n_items, -1, len(table.classes)).sum(axis=1)
    return pd.DataFrame(
        by_class / by_class.sum(axis=1, keepdims=True), index=labels.items.rename("item"), columns=ids(tree, "class")
    )


def _as_labels(tree: xr.DataTree, new_labels: Any) -> CrowdLabels:
    if isinstance(new_labels, CrowdLabels):
        return new_labels
    if not isinstance(new_labels, pd.DataFrame):
        raise LabelError(
            f"predict takes a CrowdLabels or a DataFrame with columns item, worker, label, not a "
            f"{type(new_labels).__name__}"
        )
    absent = [name for name in _COLUMNS if name not in new_labels.columns]
    if absent:
        raise LabelError(
            f"the new labels have no column {shorten(absent)} (they have {shorten(new_labels.columns, 10)}); name them "
            f"with CrowdLabels.from_long(df, item=..., worker=..., label=...) and predict from that"
        )
    known = ids(tree, "label")
    said = new_labels["label"].dropna()
    strange = [value for value in pd.unique(said) if known.get_indexer(pd.Index([value], tupleize_cols=False))[0] < 0]
    if strange:
        raise _unknown_labels(strange, known)
    also: dict[str, Any] = {name: name for name in _OPTIONAL if name in new_labels.columns}
    with warnings.catch_warnings():
        # What is suspicious in a table to learn from (one worker, one label) is natural in one to predict from.
        warnings.simplefilter("ignore", BayescrowdWarning)
        return CrowdLabels.from_long(
            new_labels[[*_COLUMNS, *also.values()]],
            **also,
            classes=ids(tree, "class").tolist(),
            labels=known.tolist(),
            duplicates="keep",
        )


def _unknown_labels(strange: Sequence[object], known: pd.Index) -> LabelError:
    of_fit, of_table = ({_kind(value) for value in values} for values in (known.tolist(), strange))
    kinds = of_fit ^ of_table
    hint = f" (types differ: {' and '.join(sorted(kinds))})" if len(kinds) > 1 and kinds != {"int", "float"} else ""
    return LabelError(
        f"the fit does not know the label values {shorten(strange, 10)}{hint}; it knows {shorten(known, 10)}. "
        f"Map them to known values, leave those rows out, or fit again with them"
    )


def _kind(value: object) -> str:
    """Name the type of a value as Python has it: NumPy's whole numbers are ints too."""
    return type(value.item() if isinstance(value, np.generic) else value).__name__


def _in_codes(tree: xr.DataTree, labels: CrowdLabels) -> tuple[_Table, np.ndarray, int]:
    """Recode new labels; also give the fit's indices of the known workers that occur, and the number of others."""
    known_labels, known_classes = ids(tree, "label"), ids(tree, "class")
    label_of = known_labels.get_indexer(labels.label_values)
    used = np.unique(labels.label_code)
    problems = []
    strange = [labels.label_values[code] for code in used if label_of[code] < 0]
    gold_code = labels.gold_code.copy()
    has_gold = gold_code >= 0
    class_of = known_classes.get_indexer(labels.classes)
    gold_code[has_gold] = class_of[gold_code[has_gold]]
    if (gold_code[has_gold] < 0).any():
        bad = labels.items[has_gold][gold_code[has_gold] < 0]
        problems.append(
            f"gold of {shorten(bad)} is no class of the fit, whose classes are {shorten(known_classes, 10)}."
        )
    if strange:
        problems.append(str(_unknown_labels(strange, known_labels)) + ".")
    if problems:
        raise LabelError(problems_message("cannot predict from these labels", problems))
    occurring = np.unique(labels.worker_code)
    position = ids(tree, "worker").get_indexer(labels.workers.take(occurring))
    order = np.argsort(position < 0, kind="stable")
    new_code = np.zeros(max(labels.n_workers, 1), np.int32)
    new_code[occurring[order]] = np.arange(len(occurring))
    known = position[order][position[order] >= 0]
    table = _Table(
        item_code=labels.item_code,
        worker_code=new_code[labels.worker_code],
        label_code=label_of[labels.label_code].astype(np.int32),
        weight=labels.weight,
        gold_code=gold_code,
        n_items=labels.n_items,
        n_workers=len(occurring),
        classes=list(known_classes),
        label_values=list(known_labels),
    )
    return table, known, len(occurring) - len(known)


def _parameters(
    tree: xr.DataTree, model: Model, known: np.ndarray, n_unknown: int, n_items: int, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Every site by sample, with the workers of the new table: known ones from the fit, others from the prior."""
    sizes = sizes_of(tree)
    with double_precision():
        sites = model.sites(sizes)
    fitted, lead = samples_of(tree, model)
    n_samples = len(next(iter(fitted.values())))
    plugged_in = not lead
    fresh = _fresh(model, sites, fitted, Sizes(n_items, n_unknown, sizes.n_classes, sizes.n_labels), random, plugged_in)
    out = {}
    for name, site in sites.items():
        value = fitted[name]
        if "item" in site.dims:
            value = fresh[name]
        elif "worker" in site.dims:
            axis = site.dims.index("worker") + 1
            value = np.take(value, known, axis=axis)
            if n_unknown:
                value = np.concatenate([value, fresh[name]], axis=axis)
        if site.kind != "other":
            # An estimate of exactly 0 must not forbid every class at once.
            value = np.clip(value, TINY, None if site.kind == "dirichlet" else 1 - 1e-15)
        out[name] = np.broadcast_to(value, (n_samples, *value.shape[1:]))
    return out


def _fresh(
    model: Model,
    sites: Mapping[str, Site],
    fitted: Mapping[str, np.ndarray],
    sizes: Sizes,
    random: np.random.Generator,
    plugged_in: bool,
) -> dict[str, np.ndarray]:
    """Sites of unknown workers and of new items: drawn from the prior for each sample, or at its mean."""
    wanted = {
        name: site
        for name, site in sites.items()
        if "item" in site.dims or ("worker" in site.dims and sizes.n_workers > 0)
    }
    n_samples = len(next(iter(fitted.values())))
    out = {}
    for name, site in wanted.items():
        if site.kind == "other":
            continue
        concentration = np.asarray(site.concentration, float)
        for dim, n in (("worker", sizes.n_workers), ("item", sizes.n_items)):
            if dim in site.dims:
                # Where workers have priors of their own, an unknown one gets their average.
                axis = site.dims.index(dim)
                concentration = np.repeat(concentration.mean(axis=axis, keepdims=True), n, axis=axis)
        if plugged_in:
            shares = concentration[None] / concentration.sum(axis=-1)[None, ..., None]
        else:
            gammas = random.standard_gamma(concentration, (n_samples, *concentration.shape))
            gammas = np.maximum(gammas, np.finfo(float).tiny)
            shares = gammas / gammas.sum(axis=-1, keepdims=True)
        out[name] = shares[..., 0] if site.kind == "beta" else shares
    rest = [name for name in wanted if name not in out]
    if rest:
        out |= _traced(model, rest, sites, fitted, sizes, random, plugged_in)
    return out


def _traced(
    model: Model,
    rest: Sequence[str],
    sites: Mapping[str, Site],
    fitted: Mapping[str, np.ndarray],
    sizes: Sizes,
    random: np.random.Generator,
    plugged_in: bool,
) -> dict[str, np.ndarray]:
    """Draw sites by running the model's own priors, given the fitted sites that concern neither workers nor items."""
    shared = {name: value for name, value in fitted.items() if not {"worker", "item"} & set(sites[name].dims)}
    wide = Sizes(max(sizes.n_items, 1), max(sizes.n_workers, 1), sizes.n_classes, sizes.n_labels)

    def draw(key: Any, given: dict[str, Any]) -> dict[str, Any]:
        seeded = handlers.seed(handlers.substitute(model.parameters, data=given), key)
        with TRACING:
            trace = handlers.trace(seeded).get_trace(wide)
        return {name: trace[name]["value"] for name in rest}

    n_draws = _PRIOR_DRAWS if plugged_in else len(next(iter(fitted.values())))
    keys = jax.random.split(jax.random.key(int(random.integers(2**31))), n_draws)
    given = {name: np.broadcast_to(value, (n_draws, *value.shape[1:])) for name, value in shared.items()}
    drawn = jax.jit(jax.vmap(draw))(keys, given)
    out = {name: np.asarray(value) for name, value in drawn.items()}
    return {name: value.mean(axis=0, keepdims=True) for name, value in out.items()} if plugged_in else out
