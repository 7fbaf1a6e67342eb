"""Diagnosis of a result in plain words: converged, identified, trustworthy, and what to do if not."""

from typing import Any

import numpy as np
import xarray as xr

from bayescrowd.criticism.chains import R_HAT_CAUTION, agree, check_chains
from bayescrowd.criticism.checks import PredictiveChecks, of_misfit, predictive_checks
from bayescrowd.criticism.dependence import of_dependence
from bayescrowd.criticism.evidence import against_majority, of_the_labels, vanished_classes
from bayescrowd.criticism.identifiability import of_the_fit
from bayescrowd.criticism.levels import of_the_levels
from bayescrowd.criticism.modes import random_mode, takes_starts
from bayescrowd.criticism.report import Diagnosis, Finding, ordered
from bayescrowd.criticism.sampling import monte_carlo, of_the_draws, one_number_of_draws, switching, unnamed
from bayescrowd.criticism.thin_data import thin_classes, thin_workers
from bayescrowd.errors import LabelError, count_of, shorten
from bayescrowd.results.tree import has_chains, ids, json_attribute, n_labels_of, parameter_group, title, values
from bayescrowd.results.votes import leading

__all__ = ["MOST_CHECKED", "Diagnosis", "Finding", "diagnose"]

_SHORT = ("few-effective-draws", "too-few-draws", "monte-carlo")
"""Findings that ask for more draws."""

_EDGE = 1e-9
_SAME = 1e-6

MOST_CHECKED = 100_000
"""Labels above which replications take too long to make unasked."""


def diagnose(tree: xr.DataTree, *, random_start: bool = False, checks: bool | PredictiveChecks = False) -> Diagnosis:
    """Say whether a result can be trusted, and what to do where it cannot.

    Parameters
    ----------
    tree : DataTree
        A result.
    random_start : bool
        Also see whether a random start of the variational engine ends where one from this result does; that takes time
        and is left out for large tables.
    checks : bool or PredictiveChecks
        Also compare the labels with replications by the fitted model (or take this comparison), and look for workers
        that err together.

    Returns
    -------
    Diagnosis
        Prints as a few lines of plain words; fields and findings for programs.

    Raises
    ------
    LabelError
        For arguments that are neither True nor False.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> bc.fit(bc.datasets.load("anesthesia")).diagnose().converged
    True
    """
    _check_flag(random_start, "random_start")
    if not isinstance(checks, PredictiveChecks):
        _check_flag(checks, "checks", " or what fit.predictive_checks() gave")
    findings: list[Finding] = []
    numbers: dict[str, Any] = {}
    short = False
    converged = {"yes": True, "no": False}.get(str(tree.attrs["converged"]))
    findings += _status(tree)
    findings += [Finding("note", "choice", str(reason)) for reason in tree.attrs.get("choice", [])]
    if has_chains(tree):
        table = check_chains(tree)
        agreed = agree(table, tree["posterior"].sizes["draw"])
        # An interrupted or failed run is not what was asked for, however well its draws agree.
        converged = agreed if tree.attrs["status"] == "sampled" else converged
        found, numbers = of_the_draws(tree, table, agreed)
        found = one_number_of_draws(found + monte_carlo(tree, agreed))
        short = any(finding.code in _SHORT for finding in found if finding.severity != "note")
        findings += found + switching(tree) + unnamed(tree)
    elif parameter_group(tree) == "posterior":
        findings += [_approximate(tree)] + _starts(tree) + _saddle(tree) + unnamed(tree)
    else:
        findings += _starts(tree) + _saddle(tree) + _edges(tree)
    findings += of_the_levels(tree)
    if random_start:  # asked for by the user, not within the fit
        findings += of_the_fit(tree) + random_mode(tree)
    if checks and converged is not False:  # what did not converge is judged when it has
        findings += _misfit(tree, checks) + of_dependence(tree)
    changed, compared = against_majority(tree)
    findings += of_the_labels(tree) + thin_workers(tree) + thin_classes(tree) + vanished_classes(tree) + [compared]
    # What the engine and the start noticed themselves, such as a start that could not be taken.
    findings += [Finding("caution", "noticed", str(text)) for text in tree.attrs.get("noticed", [])]
    numbers["n_changed"] = changed
    return Diagnosis(
        _headline(tree, converged, numbers.get("r_hat"), short=short), converged, ordered(findings), **numbers
    )


def _misfit(tree: xr.DataTree, checks: bool | PredictiveChecks) -> list[Finding]:
    """Compare with replications; a large table is told why not, a method without a model has none."""
    if isinstance(checks, PredictiveChecks):
        return of_misfit(checks)
    if not tree.attrs["model_class"] or not {"posterior", "point_estimate"} & set(tree.children):
        return []
    if tree["observed_data"].sizes["annotation"] > MOST_CHECKED:
        text = f"The labels were not compared with replications: there are more than {MOST_CHECKED:,} of them."
        return [Finding("note", "checks-skipped", text, "fit.predictive_checks() does it all the same")]
    return of_misfit(predictive_checks(tree))


def _check_flag(value: Any, name: str, otherwise: str = "") -> None:
    if not isinstance(value, bool | np.bool_):
        raise LabelError(f"{name} must be True or False{otherwise}, not {value!r}")


def _headline(tree: xr.DataTree, converged: bool | None, r_hat: float | None, *, short: bool) -> str:
    sizes = tree["observed_data"].dataset.sizes
    word = {True: "converged", False: "NOT converged", None: "convergence unknown"}[converged]
    if short and converged:
        word = f"{'nearly ' if r_hat is not None and r_hat > R_HAT_CAUTION else ''}converged, too few draws"
    if short and converged is None:
        word += ", too few draws"
    if converged is None and tree.attrs["status"] == "estimated":
        word = "nothing to converge"
    if tree.attrs["status"] == "interrupted":
        word = "interrupted"
    return (
        f"{title(tree)} on {count_of(sizes['annotation'], 'label')} "
        f"({count_of(sizes['item'], 'item')}, {count_of(sizes['worker'], 'worker')}, "
        f"{count_of(sizes['class'], 'class')}): {word}."
    )


def _status(tree: xr.DataTree) -> list[Finding]:
    sentence = str(tree.attrs["status_sentence"])
    settings = json_attribute(tree, "settings", {})
    limit = "steps" if "steps" in settings else "max_iter"
    most = settings.get(limit)
    higher = f"raise {limit}, for example {limit}={2 * most}" if isinstance(most, int) else f"raise {limit}"
    remedies = {
        "max-iterations": f"{higher}, or loosen the tolerance, and fit again",
        "interrupted": "fit again without interrupting, init=fit saves time",
        "failed": "check weights and priors; start elsewhere (init=) or use another engine",
    }
    status = str(tree.attrs["status"])
    if status not in remedies:
        return [Finding("note", "status", sentence)]
    return [Finding("problem", status, sentence, remedies[status])]


def _approximate(tree: xr.DataTree) -> Finding:
    return Finding(
        "note",
        "approximation",
        f"The draws are independent draws from the approximation that {tree.attrs['engine']} found, not from the "
        f"posterior itself: their spread tends to be too narrow, and R-hat and effective draws mean nothing for them.",
        'where intervals matter fit again with a sampler, engine="gibbs"',
    )


def _saddle(tree: xr.DataTree) -> list[Finding]:
    """Point out a symmetry that the labels do not have: classes, or items, that the engine left exactly alike."""
    probability = values(tree, "latent", "class_probability").astype(float)
    free = (n_labels_of(tree, "item") > 0) & (values(tree, "observed_data", "gold_index") < 0)
    said = np.bincount(values(tree, "observed_data", "label_index"), minlength=probability.shape[1])
    rows = probability[free]
    if not len(rows) or (said > 0).sum() < 2:
        return []
    open_rows = leading(rows).sum(axis=1) > 1
    used = np.flatnonzero(said[: probability.shape[1]] > 0)
    columns = rows[:, used]
    twins = [
        (first, second)
        for first in range(len(used))
        for second in range(first + 1, len(used))
        if columns[:, first].sum() > _SAME * len(rows) and np.abs(columns[:, first] - columns[:, second]).max() < _SAME
    ]
    if twins:
        alike = ids(tree, "class")[used[sorted({code for pair in twins for code in pair})]]
        what = f"The classes {shorten(alike)} are equally probable on every item with labels"
    elif open_rows.any() and np.ptp(rows, axis=0).max() < _SAME and len(rows) > 1:
        what = "Every item with labels has the same class probabilities"
    else:
        return []
    if not takes_starts(tree):
        text = f"{what}: the labels do not tell them apart."
        return [Finding("caution", "symmetric-start", text, "give the true class of some items as gold")]
    engine = str(tree.attrs["engine"]).upper() if tree.attrs["engine"] == "em" else str(tree.attrs["engine"])
    return [
        Finding(
            "caution",
            "symmetric-start",
            f"{what}: the start is symmetric, {engine} may stand at a saddle.",
            "start elsewhere with starts=10, give the true class of some items as gold, or favour the diagonal with "
            + ('objective="posterior" and ' if engine == "EM" else "")
            + "confusion_prior=bc.diagonal(3, 1)",
        )
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
    confusion = point["confusion"].transpose(..., "label").to_numpy()
    # Labels of which the method knows nothing are no estimates of zero.
    confusion = confusion[..., confusion.reshape(-1, confusion.shape[-1]).any(axis=0)]
    at_edge = (confusion < _EDGE) | (confusion > 1 - _EDGE)
    n_edge = int(at_edge.sum())
    if n_edge == 0:
        return []
    return [
        Finding(
            "caution",
            "edge",
            f"{n_edge} of {confusion.size} confusion probabilities {'is' if n_edge == 1 else 'are'} 0 or 1: "
            f"a point estimate takes small counts at their word, and items look surer than they are.",
            'for honest uncertainty use engine="nuts"; or objective="posterior" with confusion_prior=bc.diagonal(4, 2)',
        )
    ]
