"""Findings on draws: do the chains agree, are they enough, do they name the classes alike."""

import dataclasses
import re
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism.chains import FEWEST_EFFECTIVE, R_HAT_CAUTION, R_HAT_ENTRY, R_HAT_KEY, too_few
from bayescrowd.criticism.report import Finding
from bayescrowd.errors import ModelError, count_of, shorten
from bayescrowd.kernels.precision import double_precision
from bayescrowd.results.align import exchangeable_classes
from bayescrowd.results.tree import has_chains, ids, json_attribute, model_of, sizes_of, values

__all__ = ["identify", "monte_carlo", "of_the_draws", "one_number_of_draws", "switching", "unnamed"]

_ENOUGH_DRAWS = 400
_R_HAT_OF_MODES = 1.2
_USUAL_DRAWS = 1000
_USUAL_WARMUP = 500
_MONTE_CARLO = 0.02
_DRAWS = re.compile(r"\bdraws=(\d+)")
_ACTIONS = ("reported", "permuted")


def of_the_draws(tree: xr.DataTree, table: pd.DataFrame, agreed: bool | None) -> tuple[list[Finding], dict[str, Any]]:
    """Tell what the draws say.

    Parameters
    ----------
    tree : DataTree
        A result with draws.
    table : DataFrame
        From `check_chains`.
    agreed : bool or None
        From `agree`.

    Returns
    -------
    list of Finding
        On R-hat, effective draws, single chains, divergences.
    dict
        Fields of a `Diagnosis`.
    """
    n_chains, n_draws = (tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
    findings = []
    if table.empty and agreed:
        findings.append(Finding("note", "constant", "Nothing varies from draw to draw, so nothing had to converge."))
        return findings, {"quantities": table}
    if table.empty:
        text = f"{count_of(n_draws, 'draw')} per chain are too few to judge convergence."
        findings.append(Finding("problem", "too-few-draws", text, _more_draws(tree, 2.0)))
        return findings, {"quantities": table}
    r_hat, bulk, tail = float(table["r_hat"].iloc[0]), float(table["ess_bulk"].min()), float(table["ess_tail"].min())
    findings.append(_agreement(tree, table, agreed))
    if n_chains == 1:
        text = "One chain only: it cannot be compared with others, which may differ; its two halves were compared."
        findings.append(Finding("caution", "one-chain", text, "chains=4"))
    details = json_attribute(tree, "details", {})
    divergent = details.get("n_divergent")
    if divergent:
        n_transitions = details["n_transitions"]
        accept = json_attribute(tree, "settings", {}).get("target_accept", 0.0)
        # Never below what was used: at high rates, half of the way to 1.
        higher = 0.95 if accept < 0.95 else round((1 + accept) / 2, 4)
        findings.append(
            Finding(
                "problem" if divergent / n_transitions > 0.01 else "caution",
                "divergences",
                f"{divergent:,} of {count_of(n_transitions, 'transition')} diverged: part of the posterior may be "
                f"missed.",
                f"target_accept={higher}, or priors away from the edges (concentrations of at least 1)",
            )
        )
    numbers = {"r_hat": r_hat, "ess_bulk": bulk, "ess_tail": tail, "n_divergent": divergent, "quantities": table}
    return findings, numbers


def _agreement(tree: xr.DataTree, table: pd.DataFrame, agreed: bool | None) -> Finding:
    """One finding on R-hat and effective draws: the most serious one."""
    worst, r_hat = str(table.index[0]), float(table["r_hat"].iloc[0])
    bulk, tail = float(table["ess_bulk"].min()), float(table["ess_tail"].min())
    more = _more_draws(tree, _ENOUGH_DRAWS / max(bulk, 1.0))
    if agreed is False:
        alone = tree["posterior"].sizes["chain"] == 1
        invariant = table[table["invariant"]]
        # One chain has one way to name the classes.
        switched = (
            not alone
            and not invariant.empty
            and bool((invariant["r_hat"] <= R_HAT_KEY).all())
            # Chains in different modes disagree grossly; a little is just too short a run.
            and r_hat > _R_HAT_OF_MODES
        )
        over = int((table["r_hat"] > np.where(table["key"], R_HAT_KEY, R_HAT_ENTRY)).sum())
        who = "The two halves of the only chain disagree" if alone else "The chains disagree"
        limit = f"{over} of {count_of(len(table), 'quantity')} {'is' if over == 1 else 'are'} above the limit."
        of_levels = ", or the classes on some levels of difficulty," if "difficulty" in tree["posterior"].dims else ""
        why = (
            f" Quantities that do not depend on class names agree: the chains name the classes{of_levels} differently."
            if switched
            else ""
        )
        remedy = f"{'chains=4, ' if alone else ''}{_more_warmup(tree)}, {more}"
        return Finding(
            "problem",
            "r-hat",
            f"{who}: R-hat {r_hat:.2f} for {worst}; {limit}{why}",
            identify(tree) if switched else remedy,
        )
    short = too_few(table)
    if not short.empty:
        fewest = short["ess_bulk"]
        return Finding(
            "problem",
            "few-effective-draws",
            f"Only {fewest.iloc[0]:.0f} effective draws of {short.index[0]}: fewer than {FEWEST_EFFECTIVE} cannot show "
            f"that the chains converged (R-hat up to {r_hat:.3f}, {worst}); even means are rough.",
            f"fit again with {more}",
        )
    if r_hat > R_HAT_CAUTION or bulk < _ENOUGH_DRAWS or tail < FEWEST_EFFECTIVE:
        usable = (
            "means are usable, interval ends are rough" if bulk >= FEWEST_EFFECTIVE else "some means are rough as well"
        )
        more = _more_draws(tree, _ENOUGH_DRAWS / max(min(bulk, tail), 1.0))
        return Finding(
            "caution",
            "few-effective-draws",
            f"R-hat up to {r_hat:.3f} ({worst}), effective draws down to {bulk:.0f} (bulk) and {tail:.0f} (tails): "
            f"{usable}.",
            f"fit again with {more}",
        )
    return Finding(
        "note",
        "r-hat",
        f"R-hat at most {r_hat:.3f}; effective draws at least {bulk:.0f} (bulk), {tail:.0f} (tails).",
    )


def monte_carlo(tree: xr.DataTree, agreed: bool | None) -> list[Finding]:
    """Say how far the class probabilities may be off because there are only so many draws.

    The standard error of the mean over chains, from the spread between chains.

    Parameters
    ----------
    tree : DataTree
        A result with draws.
    agreed : bool or None
        Whether the chains agree; where they do not, that is the problem to mend first.

    Returns
    -------
    list of Finding
        One finding; none where there is but one chain.
    """
    latent = tree["latent"].dataset
    if "class_probability_by_chain" not in latent or latent.sizes["chain"] < 2:
        return []
    by_chain = latent["class_probability_by_chain"].to_numpy().astype(float)
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    if not error.size:
        return []
    item, of_class = divmod(int(error.argmax()), error.shape[1])
    largest = float(error[item, of_class])
    where = f"item {shorten([ids(tree, 'item')[item]])}, class {shorten([ids(tree, 'class')[of_class]])}"
    text = f"Monte Carlo error of the class probabilities: at most {largest:.2g} (between chains; {where})."
    if largest <= _MONTE_CARLO or agreed is False:
        return [Finding("note", "monte-carlo", text)]
    # The error falls with the root of the number of draws.
    remedy = f"fit again with {_more_draws(tree, (largest / _MONTE_CARLO) ** 2)}"
    return [Finding("caution", "monte-carlo", text, remedy)]


def one_number_of_draws(findings: list[Finding]) -> list[Finding]:
    """Ask for one number of draws, the largest, where several findings ask for some.

    Parameters
    ----------
    findings : list of Finding
        Their remedies may hold ``draws=``.

    Returns
    -------
    list of Finding
        The first of them asks for as many as any; the others, which that mends too, for nothing more.
    """
    asked = [int(number) for finding in findings for number in _DRAWS.findall(finding.remedy)]
    found, said = [], False
    for finding in findings:
        if not _DRAWS.search(finding.remedy):
            found.append(finding)
            continue
        remedy = "" if said else _DRAWS.sub(f"draws={max(asked)}", finding.remedy)
        found.append(dataclasses.replace(finding, remedy=remedy))
        said = True
    return found


def switching(tree: xr.DataTree) -> list[Finding]:
    """Tell which chains named the classes, or numbered the levels, differently, and what was done about it.

    Parameters
    ----------
    tree : DataTree
        A result with draws.

    Returns
    -------
    list of Finding
        Empty where no chain did.
    """
    switches = [switch for switch in json_attribute(tree, "label_switching", []) if switch["chain"] is not None]
    findings = []
    kinds = (
        ("permutation", "names", "named", "classes", "priors and gold allow"),
        ("levels", "numbers", "numbered", "difficulty levels", "the priors allow"),
    )
    for key, says, said, what, allowed in kinds:
        chains = {action: [s["chain"] for s in switches if key in s and s["action"] == action] for action in _ACTIONS}
        if chains["reported"]:
            findings.append(
                Finding(
                    "problem",
                    "permuted-mode",
                    f"Chain {shorten(chains['reported'])} sits in a permuted mode: it {says} the {what} differently "
                    f"from the others.",
                    f"{identify(tree)}; or start all chains in one mode, init=an earlier fit",
                )
            )
        who = shorten(chains["permuted"])
        if chains["permuted"]:
            findings.append(
                Finding(
                    "note",
                    "aligned",
                    f"Chain {who} {said} the {what} differently and was put back, as {allowed}.",
                )
            )
    return findings


def identify(tree: xr.DataTree) -> str:
    """Say how to tell classes apart; a prior that favours the diagonal already is to do so more.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    str
        A remedy.
    """
    try:
        prior = getattr(model_of(tree), "confusion_prior", None)
    except ModelError:
        prior = None
    on, off = getattr(prior, "on", None), getattr(prior, "off", None)
    stronger = "bc.diagonal(3, 1)"
    if isinstance(on, int | float) and isinstance(off, int | float) and on >= 3 * off > 0:
        stronger = f"bc.diagonal({2 * on:g}, {off:g})"
    return f"favour the diagonal, confusion_prior={stronger}, or give the true class of some items as gold"


def unnamed(tree: xr.DataTree) -> list[Finding]:
    """Find classes that nothing names.

    Parameters
    ----------
    tree : DataTree
        A result with draws.

    Returns
    -------
    list of Finding
        One for each group of classes that could swap names.
    """
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
    # An approximation stays in the mode of its start: usable, where one trusts the start.
    chained = has_chains(tree)
    why = "class probabilities mean little" if chained else "the names are those of the start"
    return [
        Finding(
            "problem" if chained else "caution",
            "classes-not-identified",
            f"Nothing tells the classes {shorten(classes[block])} apart but their start: the priors treat them alike "
            f"and no gold names them, so {why}.",
            identify(tree),
        )
        for block in blocks
    ]


def _more_draws(tree: xr.DataTree, factor: float) -> str:
    """Ask for more draws: at least twice as many, never fewer than were asked for or than are usual."""
    n_kept = tree["posterior"].sizes["draw"]
    asked = json_attribute(tree, "settings", {}).get("draws", n_kept)
    factor = min(max(factor, 2.0), 20.0)
    # After an interrupt the draws that were asked for may do.
    wanted = n_kept * factor if tree.attrs["status"] == "interrupted" else max(asked, n_kept) * factor
    return f"draws={_round_up(max(wanted, asked, _USUAL_DRAWS))}"


def _more_warmup(tree: xr.DataTree) -> str:
    asked = json_attribute(tree, "settings", {}).get("warmup", _USUAL_WARMUP)
    return f"warmup={_round_up(max(2 * asked, _USUAL_DRAWS))}"


def _round_up(number: float) -> int:
    return int(np.ceil(number / 500) * 500)
