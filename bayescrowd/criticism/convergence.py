"""Diagnosis of a result in plain words: converged, identified, trustworthy, and what to do if not."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayescrowd.criticism.chains import R_HAT_CAUTION, R_HAT_ENTRY, R_HAT_KEY, agree, check_chains
from bayescrowd.criticism.report import Diagnosis, Finding, ordered
from bayescrowd.errors import ModelError, shorten
from bayescrowd.kernels.precision import double_precision
from bayescrowd.results.align import exchangeable_classes
from bayescrowd.results.tree import ids, json_attribute, model_of, n_labels_of, parameter_group, sizes_of, values
from bayescrowd.results.votes import leading, majority_codes, vote_shares

__all__ = ["Diagnosis", "Finding", "diagnose", "vanished_classes"]

_FEW_LABELS = 3
_ENOUGH_DRAWS = 400
_ROUGH_DRAWS = 100
_EDGE = 1e-9
_IDENTIFY = "favour the diagonal, confusion_prior=bc.diagonal(3, 1), or give the true class of some items as gold"


def diagnose(tree: xr.DataTree) -> Diagnosis:
    """Say whether a result can be trusted, and what to do where it cannot.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Diagnosis
        Prints as a few lines of plain words; fields and findings for programs.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.fit(bc.datasets.load("anesthesia")).diagnose().converged
    True
    """
    findings: list[Finding] = []
    numbers: dict[str, Any] = {}
    converged = {"yes": True, "no": False}.get(str(tree.attrs["converged"]))
    findings += _status(tree)
    if parameter_group(tree) == "posterior":
        table = check_chains(tree)
        if tree.attrs["status"] == "sampled":
            converged = agree(table, tree["posterior"].sizes["draw"])
        found, numbers = _sampling(tree, table, converged)
        findings += found + _switching(tree) + _unnamed(tree)
    else:
        findings += _starts(tree) + _edges(tree)
    changed, compared = _against_majority(tree)
    findings += _data(tree) + vanished_classes(tree) + [compared]
    numbers["n_changed"] = changed
    return Diagnosis(_headline(tree, converged), converged, ordered(findings), **numbers)


def vanished_classes(tree: xr.DataTree) -> list[Finding]:
    """Find classes to which less than one item is expected to belong.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        A caution for classes that somebody used as a label, a note for classes that nobody did.
    """
    expected = values(tree, "latent", "class_probability").sum(axis=0)
    classes = ids(tree, "class")
    used = np.bincount(values(tree, "observed_data", "label_index"), minlength=len(classes))[: len(classes)] > 0
    gone = expected < 1
    findings = []
    if (gone & used).any():
        lost = classes[gone & used]
        findings.append(
            Finding(
                "caution",
                "vanished-class",
                f"Fewer than one item is expected in class {shorten(lost)}, although workers used that label.",
                "look at these labels with fit.workers() and fit.consensus(); give gold for such items, or favour the "
                "diagonal more strongly, confusion_prior=bc.diagonal(3, 1)",
            )
        )
    if (gone & ~used).any():
        findings.append(
            Finding(
                "note",
                "unused-class",
                f"Nobody used the label {shorten(classes[gone & ~used])}; that class stays empty.",
            )
        )
    return findings


def _headline(tree: xr.DataTree, converged: bool | None) -> str:
    sizes = tree["observed_data"].dataset.sizes
    word = {True: "converged", False: "NOT converged", None: "convergence unknown"}[converged]
    return (
        f"{tree.attrs['model']} by {tree.attrs['engine']} on {sizes['annotation']:,} labels ({sizes['item']:,} items, "
        f"{sizes['worker']:,} workers, {sizes['class']} classes): {word}."
    )


def _status(tree: xr.DataTree) -> list[Finding]:
    sentence = str(tree.attrs["status_sentence"])
    remedies = {
        "max-iterations": "raise max_iter, or loosen the tolerance, and fit again",
        "interrupted": "fit again without interrupting, init=fit saves time",
        "failed": "check weights and priors; start elsewhere (init=) or use another engine",
    }
    status = str(tree.attrs["status"])
    if status not in remedies:
        return [Finding("note", "status", sentence)]
    return [Finding("problem", status, sentence, remedies[status])]


def _sampling(tree: xr.DataTree, table: pd.DataFrame, converged: bool | None) -> tuple[list[Finding], dict[str, Any]]:
    """Tell what the draws say."""
    posterior = tree["posterior"].dataset
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    findings = []
    if table.empty and converged:
        findings.append(Finding("note", "constant", "Nothing varies from draw to draw, so nothing had to converge."))
        return findings, {"quantities": table}
    if table.empty:
        findings.append(
            Finding(
                "problem", "too-few-draws", f"{n_draws} draws per chain are too few to judge convergence.", "draws=1000"
            )
        )
        return findings, {"quantities": table}
    worst, r_hat = str(table.index[0]), float(table["r_hat"].iloc[0])
    bulk, tail = float(table["ess_bulk"].min()), float(table["ess_tail"].min())
    usable = "means are usable, interval ends are rough" if bulk >= _ROUGH_DRAWS else "even means are rough"
    more = f"draws={_round_up(n_draws * min(max(2.0, _ENOUGH_DRAWS / max(bulk, 1.0)), 20.0))}"
    if converged is False:
        invariant = table[table["invariant"]]
        switching = not invariant.empty and bool((invariant["r_hat"] <= R_HAT_KEY).all())
        over = int((table["r_hat"] > np.where(table["key"], R_HAT_KEY, R_HAT_ENTRY)).sum())
        why = (
            " Quantities that do not depend on class names agree: the chains name the classes differently."
            if switching
            else ""
        )
        findings.append(
            Finding(
                "problem",
                "r-hat",
                f"The chains disagree: R-hat {r_hat:.2f} for {worst}; {over} of {len(table)} quantities are above the "
                f"limit.{why}",
                _IDENTIFY if switching else f"warmup={_round_up(2 * n_draws)}, {more}",
            )
        )
    elif r_hat > R_HAT_CAUTION or bulk < _ENOUGH_DRAWS:
        findings.append(
            Finding(
                "caution",
                "few-effective-draws",
                f"R-hat up to {r_hat:.3f} ({worst}), effective draws down to {bulk:.0f} (bulk) and {tail:.0f} (tails): "
                f"{usable}.",
                f"fit again with {more}",
            )
        )
    else:
        findings.append(
            Finding(
                "note",
                "r-hat",
                f"R-hat at most {r_hat:.3f}; effective draws at least {bulk:.0f} (bulk), {tail:.0f} (tails).",
            )
        )
    if n_chains == 1:
        text = "One chain only: its halves were compared, other chains may differ."
        findings.append(Finding("caution", "one-chain", text, "chains=4"))
    divergent = json_attribute(tree, "details").get("n_divergent")
    if divergent:
        n_transitions = json_attribute(tree, "details")["n_transitions"]
        share = divergent / n_transitions
        findings.append(
            Finding(
                "problem" if share > 0.01 else "caution",
                "divergences",
                f"{divergent} of {n_transitions} transitions diverged: part of the posterior may be missed.",
                "target_accept=0.95, or priors away from the edges (concentrations of at least 1)",
            )
        )
    numbers = {"r_hat": r_hat, "ess_bulk": bulk, "ess_tail": tail, "n_divergent": divergent, "quantities": table}
    return findings, numbers


def _switching(tree: xr.DataTree) -> list[Finding]:
    switches = json_attribute(tree, "label_switching", [])
    reported = [switch["chain"] for switch in switches if switch["action"] == "reported"]
    permuted = [switch["chain"] for switch in switches if switch["action"] == "permuted"]
    findings = []
    if reported:
        findings.append(
            Finding(
                "problem",
                "permuted-mode",
                f"Chain {shorten(reported)} sits in a permuted mode: it names the classes differently from the others.",
                f"{_IDENTIFY}; or start all chains in one mode, init=an earlier fit",
            )
        )
    if permuted:
        findings.append(
            Finding(
                "note",
                "aligned",
                f"Chain {shorten(permuted)} named the classes differently and was put back, as priors and gold allow.",
            )
        )
    return findings


def _unnamed(tree: xr.DataTree) -> list[Finding]:
    """Classes that nothing names."""
    try:
        model = model_of(tree)
    except ModelError:
        return []
    sizes = sizes_of(tree)
    posterior = tree["posterior"].dataset.isel(chain=0, draw=0)
    with double_precision():
        dims = {name: site.dims for name, site in model.sites(sizes).items()}
    parameters = {name: posterior[name].transpose(*axes).to_numpy() for name, axes in dims.items()}
    blocks = exchangeable_classes(model, sizes, values(tree, "observed_data", "gold_index"), parameters)
    classes = ids(tree, "class")
    return [
        Finding(
            "problem",
            "classes-not-identified",
            f"Nothing tells the classes {shorten(classes[block])} apart but their start: the priors treat them alike "
            f"and no gold names them, so class probabilities mean little.",
            _IDENTIFY,
        )
        for block in blocks
    ]


def _starts(tree: xr.DataTree) -> list[Finding]:
    objectives = np.asarray(json_attribute(tree, "details", {}).get("objective_by_start", []), float)
    if len(objectives) < 2:
        return []
    best = np.nanmax(objectives)
    near = int((objectives > best - 1e-4 * (1 + abs(best))).sum())
    lowest = best - np.nanmin(objectives)
    text = (
        f"{near} of {len(objectives)} starts reached the best objective {best:.3f}; the others ended up to "
        f"{lowest:.3g} lower."
    )
    if near == len(objectives):
        return [Finding("note", "starts", f"All {near} starts reached the same objective {best:.3f}.")]
    if near > 1:
        return [Finding("note", "starts", text)]
    more = 4 * len(objectives)
    return [Finding("caution", "starts", text, f"more starts may find a better one: starts={more}")]


def _edges(tree: xr.DataTree) -> list[Finding]:
    point = tree["point_estimate"].dataset if "point_estimate" in tree.children else xr.Dataset()
    if "confusion" not in point or point.sizes.get("label", 0) < 2:
        return []
    confusion = point["confusion"].to_numpy()
    at_edge = (confusion < _EDGE) | (confusion > 1 - _EDGE)
    n_edge = int(at_edge.sum())
    if n_edge == 0:
        return []
    return [
        Finding(
            "caution",
            "edge",
            f"{n_edge} of {confusion.size} confusion probabilities are 0 or 1: a point estimate takes small counts at "
            f"their word, and items look surer than they are.",
            'for honest uncertainty use engine="nuts"; or objective="posterior" with confusion_prior=bc.diagonal(4, 2)',
        )
    ]


def _against_majority(tree: xr.DataTree) -> tuple[int, Finding]:
    probability = values(tree, "latent", "class_probability")
    majority, tied = majority_codes(tree)
    free = (majority >= 0) & (values(tree, "observed_data", "gold_index") < 0)
    best = probability.argmax(axis=1)
    among = leading(vote_shares(tree))[np.arange(len(best)), best]
    changed = free & ~among
    items = ids(tree, "item")
    n_changed = int(changed.sum())
    n_ties = int((free & tied).sum())
    ties = f"; it also decides {n_ties} tie{'s' * (n_ties > 1)}" if n_ties else ""
    if n_changed:
        text = (
            f"The consensus differs from the majority vote on {n_changed} of {len(items)} items "
            f"({shorten(items[changed])}){ties}."
        )
    else:
        text = f"The consensus equals the majority vote on every item with a clear majority{ties}."
    return n_changed, Finding("note", "majority", text)


def _data(tree: xr.DataTree) -> list[Finding]:
    """Tell what the labels themselves cannot."""
    findings = []
    sizes = sizes_of(tree)
    if sizes.n_classes == 1:
        findings.append(
            Finding(
                "caution",
                "one-class",
                "There is one class only: every item is in it, and nothing can be said about workers.",
                "declare the classes that might have occurred, classes=[...], when you make the labels",
            )
        )
    n_by_worker = n_labels_of(tree, "worker")
    workers = ids(tree, "worker")
    if (n_by_worker > 0).sum() == 1:
        findings.append(
            Finding(
                "caution",
                "one-worker",
                "One worker gave all labels: how accurate they are is not identified, only the prior says.",
                "add labels of other workers, or gold",
            )
        )
    few = n_by_worker < _FEW_LABELS
    if few.any() and len(workers) > 1:
        findings.append(
            Finding(
                "note",
                "few-labels",
                f"{int(few.sum())} of {len(workers)} workers gave fewer than {_FEW_LABELS} labels "
                f"({shorten(workers[few])}): what is said of them is mostly the prior, or for maximum likelihood luck.",
            )
        )
    n_parts = _components(tree)
    if n_parts > 1:
        findings.append(
            Finding(
                "caution",
                "disconnected",
                f"Items and workers fall into {n_parts} groups that share no label: workers of different groups are "
                f"compared only through the prior and the common prevalence.",
                "let some workers label items of several groups, or give gold in each",
            )
        )
    return findings


def _components(tree: xr.DataTree) -> int:
    observed = tree["observed_data"].dataset
    item = observed["item_index"].to_numpy().astype(np.int64)
    worker = observed["worker_index"].to_numpy().astype(np.int64)
    n_items, n_workers = observed.sizes["item"], observed.sizes["worker"]
    n_nodes = n_items + n_workers
    graph = coo_array((np.ones(len(item), np.int8), (item, worker + n_items)), shape=(n_nodes, n_nodes))
    _, part = connected_components(graph, directed=False)
    return len(np.unique(part[np.unique(item)]))


def _round_up(number: float) -> int:
    return int(np.ceil(number / 500) * 500)
