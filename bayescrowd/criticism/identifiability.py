r"""What the labels can identify: whom pair statistics pin down, what they leave open, and which labels would help.

The second moments :math:`R_{ml} = A_m D A_l^T` of the pairs of workers with common items are what a table of labels
shows most reliably. This report says

* whether the co-label graph allows them to be completed: connected, and not bipartite (see
  `bayescrowd.moments.imputation`);
* how many items pairs of workers share;
* how near each worker's partners come to *certificates*: labels that are given for one class alone. With
  :math:`P(class = k \mid x_l = j) \ge 1 - \epsilon` for some partner's label, for every class, successive projection
  finds the worker's confusion up to an error of order :math:`\epsilon` (Ibrahim et al. 2019, theorem 1; its condition
  (11) is this one for equally frequent classes);
* whether two groups of workers, all pairs between them observed, are *sufficiently scattered* (theorem 3 there), under
  which the coupled factorisation has one solution even without certificates;
* how well-conditioned the confusions are, and who answers regardless of the class (rank one);
* for two classes the interval of parameters with the same second moments (`bayescrowd.moments.binary`).

Where second moments leave something open, the likelihood of all labels and the prior decide; nobody is refused.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism import graph_findings, pair_findings
from bayescrowd.criticism.modes import takes_starts
from bayescrowd.criticism.report import Finding, ordered
from bayescrowd.criticism.scattering import longest, two_sides
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.required import require_labels
from bayescrowd.errors import EngineError, count_of
from bayescrowd.moments.binary import interval_of
from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.graph import Components, components
from bayescrowd.moments.multispa_kl import multispa_kl
from bayescrowd.moments.polish import polished
from bayescrowd.results.tree import json_attribute, labels_of, parameter_group

__all__ = ["Identifiability", "identifiability", "of_the_fit"]

_MOST_PRODUCTS = 50_000_000
"""Sum over items of squared numbers of labels above which pair statistics are not computed for a diagnosis."""

_ROTATION = 0.05
_POLISH = 30
_LOST = 0.5
"""Passes of EM that leave less than this share of how much answers depend on the class have collapsed."""

_OFTEN = 5
"""Times that a worker must have given a label before it counts as a certificate."""

_ZERO = 1e-3
_FULL_RANK = 0.05
_MOST_WORKERS = 1000
"""Workers with most labels among whom two sides are sought."""

_MOST_CLASSES = 12
"""Number of classes up to which scattering is examined."""


@dataclass(frozen=True)
class Identifiability:
    """What `identifiability` found; print it.

    Parameters
    ----------
    headline : str
        The verdict in one sentence.
    findings : tuple of Finding
        Problems first; each says what labels would help.
    workers : DataFrame by worker
        ``n_labels``, ``n_partners`` (workers with common items), ``median_common`` (items shared with a partner),
        ``component`` (of the co-label graph, the largest is 0), ``bipartite`` (of that component), ``epsilon`` (how far
        the partners' labels are from certificates of all classes; NaN without partners), ``condition`` (smallest over
        largest singular value of the confusion) and ``rank_one`` (second over first, rows weighted by the roots of the
        prevalence).
    classes : DataFrame by class
        ``prevalence``, ``certificate`` (largest probability of the class given a label of any worker; NaN where nobody
        gave a label often enough) and ``by`` (whose label that is).
    interval : tuple of float or None
        For two classes: the prevalences of the first class that second moments leave possible.
    scattered : tuple of float or None
        Lengths of the two sides' longest dual vectors; 1 where a side is sufficiently scattered. None where no two
        sides were found, or for many classes.
    """

    headline: str
    findings: tuple[Finding, ...]
    workers: pd.DataFrame = field(repr=False)
    classes: pd.DataFrame = field(repr=False)
    interval: tuple[float, float] | None = None
    scattered: tuple[float, float] | None = None

    def __str__(self) -> str:
        """Say everything in plain words."""
        return "\n".join([self.headline, *(f"  {finding}" for finding in self.findings)])


def identifiability(labels: Any) -> Identifiability:
    """Say what a table of labels can identify, before any fit.

    Parameters
    ----------
    labels : CrowdLabels
        The label table. Confusions are estimated by MultiSPA-KL and some passes of EM.

    Returns
    -------
    Identifiability
        Print it, or read its tables.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where there is one class only, or the table is too large for pair statistics.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> print(bc.identifiability(bc.datasets.load("anesthesia")).headline)
    Pair statistics cover all 5 workers: they share items in one component that can be completed.
    """
    require_labels(labels, "identifiability")
    if len(labels.classes) < 2:
        raise EngineError("there is one class only, so there is nothing to identify; declare others with classes=[...]")
    pairs = cooccurrence(labels)
    first = multispa_kl(labels, pairs=pairs)
    estimate = polished(labels, first, _POLISH)
    # With fractional weights EM may end where nobody tells anything: the moments know better.
    count = np.bincount(labels.worker_code, minlength=labels.n_workers)
    told = [float(count @ _dependence(found.confusion, found.prevalence)) for found in (first, estimate)]
    if told[1] < _LOST * told[0]:
        estimate = first
    return _report(labels, pairs, estimate.confusion, estimate.prevalence)


def _dependence(confusion: np.ndarray, prevalence: np.ndarray) -> np.ndarray:
    """How much each worker's answers depend on the class: second singular value of the confusion over the first.

    Rows are weighted by the roots of the prevalence: those of rare classes are known least, and count least.
    """
    size = np.linalg.svd(np.sqrt(prevalence)[None, :, None] * confusion, compute_uv=False)
    return np.asarray(size[:, 1] / size[:, 0])


def of_the_fit(tree: xr.DataTree) -> list[Finding]:
    """Say what the labels of a result identify, given its confusions.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        Empty for models without confusions per worker and for single workers.
    """
    dataset = tree[parameter_group(tree)].dataset if parameter_group(tree) in tree.children else xr.Dataset()
    if not {"confusion", "prevalence"} <= set(dataset) or tree["observed_data"].sizes["worker"] < 2:
        return []
    labels = labels_of(tree)
    if len(labels.classes) < 2:
        return []
    size = np.bincount(labels.item_code, minlength=labels.n_items).astype(float)
    if (size**2).sum() > _MOST_PRODUCTS:
        return [
            Finding("note", "pairs-skipped", "Pair statistics of workers were not examined: the table is too large.")
        ]
    try:
        pairs = cooccurrence(labels)
    except EngineError:
        return [
            Finding("note", "pairs-skipped", "Pair statistics of workers were not examined: there are too many pairs.")
        ]
    dims = {"chain", "draw", "worker", "difficulty", "class", "label"}
    of_workers = {"worker", "class", "label"} <= set(dataset["confusion"].dims) <= dims
    if not of_workers or not set(dataset["prevalence"].dims) <= {"chain", "draw", "class"}:
        return []
    mean = dataset[["confusion", "prevalence"]]
    mean = mean.mean([dim for dim in ("chain", "draw") if dim in mean.dims])
    confusion = mean["confusion"]
    if "difficulty" in confusion.dims:
        share = tree["latent"].dataset["difficulty_probability"].mean("item")
        confusion = (confusion * share).sum("difficulty")
    confusion = confusion.transpose("worker", "class", "label").to_numpy().astype(float)
    if not (np.isfinite(confusion).all() and np.isfinite(mean["prevalence"]).all()):
        return []
    found = list(_report(labels, pairs, confusion, mean["prevalence"].to_numpy().astype(float)).findings)
    if takes_starts(tree):
        # The likelihood uses more than pairs: what successive projection cannot find is no fault of this result.
        remedy = "give gold items of these classes, or ask workers who know them"
        found = [
            dataclasses.replace(finding, severity="note", remedy=remedy)
            if finding.code == "no-certificate"
            else finding
            for finding in found
        ]
    spread = json_attribute(tree, "details", {}).get("rotation_spread")
    if spread is not None and spread > _ROTATION:
        found.append(
            Finding(
                "caution",
                "rotation",
                f"Restarts that fit the pair statistics equally well differ by up to {spread:.2f} in a confusion "
                "entry: second moments leave a rotation open.",
                "let the likelihood settle it, polish=10, or engine='em' with init=fit",
            )
        )
    return found


def _report(labels: CrowdLabels, pairs: Cooccurrence, confusion: np.ndarray, prevalence: np.ndarray) -> Identifiability:
    graph = components(pairs)
    named = prevalence > 0
    posterior = prevalence[None, :, None] * confusion
    posterior = posterior / np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
    # A label that a worker hardly ever gave certifies nothing.
    often = pairs.label_count >= _OFTEN
    posterior = np.where(often[:, None, :], posterior, 0.0)
    workers = _workers(labels, pairs, graph, (confusion, prevalence), posterior[:, named])
    best = posterior.max(axis=2)
    classes = pd.DataFrame(
        {
            "prevalence": prevalence,
            "certificate": np.where(often.any(), best.max(axis=0), np.nan),
            "by": np.asarray(labels.workers, object)[best.argmax(axis=0)] if often.any() else None,
        },
        index=pd.Index(labels.classes, name="class"),
    )
    supported = (pairs.degree(pair_findings.ENOUGH) > 0) & (pairs.label_count.sum(axis=1) >= pair_findings.ENOUGH)
    # Where nobody closes a ring far more is open than one number.
    supported &= ~graph.bipartite[graph.of_worker]
    square = confusion.shape[1] == confusion.shape[2] == 2 and supported.any() and named.all()
    interval = interval_of(confusion[supported], prevalence).prevalence if square else None
    strong = components(pairs, least=pair_findings.ENOUGH)
    scattered, outside = _scattered(pairs, confusion)
    n_items = np.count_nonzero(np.bincount(labels.item_code))
    chance = float(np.sqrt(prevalence[0] * (1 - prevalence[0]) / n_items))
    findings = [
        *graph_findings.of_the_graph(labels, pairs, graph),
        *graph_findings.of_weak_links(labels, pairs, graph, strong),
        *pair_findings.of_independence(pairs),
        *pair_findings.of_common_items(pairs),
        *pair_findings.of_spammers(workers),
        *pair_findings.of_certificates(classes[named]),
        *pair_findings.of_interval(interval, labels, chance),
        *pair_findings.of_scattering(scattered, outside),
    ]
    return Identifiability(_headline(graph, workers, strong), ordered(findings), workers, classes, interval, scattered)


def _workers(
    labels: CrowdLabels,
    pairs: Cooccurrence,
    graph: Components,
    parameters: tuple[np.ndarray, np.ndarray],
    posterior: np.ndarray,
) -> pd.DataFrame:
    confusion, prevalence = parameters
    n_workers = len(confusion)
    singular = np.linalg.svd(confusion, compute_uv=False)
    best = posterior.max(axis=2)  # [worker, class]
    reach = np.zeros((n_workers, posterior.shape[1]))
    np.maximum.at(reach, pairs.first, best[pairs.second])
    np.maximum.at(reach, pairs.second, best[pairs.first])
    degree = pairs.degree()
    both = pd.Series(np.tile(pairs.total, 2)).groupby(np.concatenate([pairs.first, pairs.second])).median()
    return pd.DataFrame(
        {
            "n_labels": np.bincount(labels.worker_code, minlength=n_workers),
            "n_partners": degree,
            "median_common": both.reindex(range(n_workers)).to_numpy(),
            "component": graph.of_worker,
            "bipartite": graph.bipartite[graph.of_worker],
            "epsilon": np.where(degree > 0, 1 - reach.min(axis=1), np.nan),
            "condition": singular[:, -1] / singular[:, 0],
            "rank_one": _dependence(confusion, prevalence),
        },
        index=pd.Index(labels.workers, name="worker"),
    )


def _scattered(pairs: Cooccurrence, confusion: np.ndarray) -> tuple[tuple[float, float] | None, int]:
    """Lengths of both sides' longest dual vectors, and how many workers the theorem does not reach from there."""
    n_workers, n_classes, n_labels = confusion.shape
    enough = pairs.total >= pair_findings.ENOUGH
    size = pairs.label_count.sum(axis=1)
    busy = np.unique(np.concatenate([pairs.first[enough], pairs.second[enough]]))
    busy = np.sort(busy[np.argsort(-size[busy], kind="stable")[:_MOST_WORKERS]])
    if n_classes > _MOST_CLASSES or n_classes > n_labels or not len(busy):
        return None, n_workers
    joined = np.zeros((len(busy), len(busy)), bool)
    kept = enough & np.isin(pairs.first, busy) & np.isin(pairs.second, busy)
    one, other = np.searchsorted(busy, pairs.first[kept]), np.searchsorted(busy, pairs.second[kept])
    joined[one, other] = joined[other, one] = True
    sides = [busy[side] for side in two_sides(joined, size[busy])]
    if min(map(len, sides)) == 0:
        return None, n_workers
    # Estimates are never zero: what is less than a thousandth counts as zero.
    clear = np.where(confusion < _ZERO, 0.0, confusion)
    first, second = (longest(np.swapaxes(clear[side], 1, 2).reshape(-1, n_classes)) for side in sides)
    inside = np.zeros(n_workers, bool)
    inside[np.concatenate(sides)] = True
    reached = inside.copy()
    reached[pairs.first[enough & inside[pairs.second]]] = True
    reached[pairs.second[enough & inside[pairs.first]]] = True
    reached &= np.linalg.svd(confusion, compute_uv=False)[:, -1] > _FULL_RANK
    return (first, second), int((~reached).sum())


def _headline(graph: Components, workers: pd.DataFrame, strong: Components) -> str:
    covered = int((~workers["bipartite"]).sum())
    n = len(workers)
    firm = int((~strong.bipartite[strong.of_worker]).sum())
    enough = f"{pair_findings.ENOUGH:.0f}"
    if covered > 0 and firm == 0:
        return (
            f"Pair statistics determine next to nothing by themselves: no three of the {n} workers are joined in a "
            f"ring by sharing {enough} items or more, pair by pair."
        )
    if firm < covered:
        outside = "" if covered == n else f"; outside of any ring: {n - covered}"
        return (
            f"Pair statistics cover {firm} of {n} workers well; joined by pairs with fewer than {enough} common items: "
            f"{covered - firm}{outside}."
        )
    if covered == n and graph.n == 1:
        return f"Pair statistics cover all {n} workers: they share items in one component that can be completed."
    if covered == 0:
        return (
            f"Pair statistics alone determine no confusion matrix of the {n} workers: no three of them are joined in a "
            "ring by common items."
        )
    good = int((~graph.bipartite).sum())
    return (
        f"Pair statistics cover {covered} of {n} workers, in {count_of(good, 'component')} of the co-label graph that "
        f"can be completed; outside: {n - covered}."
    )
