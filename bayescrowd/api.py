"""The front door: `fit`, `item_difficulty` and `load`. It joins the rooms and does nothing else."""

import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bayescrowd.choice import choose
from bayescrowd.data.required import require_labels
from bayescrowd.decisions.items import quick_difficulty
from bayescrowd.errors import ConvergenceWarning, EngineError
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Job, sizes_of
from bayescrowd.inference.progress import check_progress, reporter
from bayescrowd.inference.starts import resolve
from bayescrowd.kernels.precision import double_precision
from bayescrowd.results import store
from bayescrowd.results.build import build_tree
from bayescrowd.results.tree import has_chains, title

__all__ = ["fit", "item_difficulty", "load"]

_PACKAGE = str(Path(__file__).parent)


def fit(
    labels: Any,
    model: Any = None,
    *,
    engine: str | None = None,
    init: Any = None,
    seed: int = 0,
    progress: bool | None = None,
    on_failure: str = "warn",
    **options: Any,
) -> Fit:
    """Infer the true class of every item and the confusion matrix of every worker.

    Parameters
    ----------
    labels : CrowdLabels
        The labels (`bayescrowd.read_labels`, `CrowdLabels.from_long`, ...).
    model : Model, type or str, optional
        A model with priors (``bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))``), its class, or its name
        (``"dawid-skene"``, ``"idbla"``, ``"fixed-idbla"``). By default one that the labels can bear; the result says
        which and why.
    engine : str, optional
        How to infer. Approximations: ``"collapsed-vi"``, ``"vb"``, ``"svi"``. Samplers of the posterior: ``"gibbs"``,
        ``"collapsed-gibbs"``, ``"nuts"``. A point estimate: ``"em"`` (maximum likelihood, where priors do not count, or
        with ``objective="posterior"`` the posterior mode); from the moments of pairs of workers, without iterations
        over the labels: ``"multispa"``, ``"multispa-kl"``, ``"symnmf"``. By default ``"collapsed-vi"`` where the model
        allows it.
    init : str, Fit or array, optional
        Start: ``"majority"``, ``"ability"`` (majority vote, and difficulty levels by how easy items look),
        ``"multispa"``, ``"multispa-kl"``, ``"symnmf"`` (classes under a moment estimate), an earlier fit, or an array
        item x class of probabilities. By default ``"ability"`` for models with difficulty levels, else ``"majority"``.
        Where a start says nothing about levels, they come from ``"ability"``.
    seed : int
        Seed of all randomness. The same seed gives the same numbers (on one machine, with the same versions).
    progress : bool, optional
        Show a progress bar; by default where somebody looks at a terminal or a notebook.
    on_failure : {"warn", "raise"}
        What to do where the engine did not converge: return the result with a `ConvergenceWarning`, or raise.
    **options
        Options of the engine, e.g. ``chains=4, warmup=500, draws=1000`` of samplers, ``objective="posterior"`` of em.

    Returns
    -------
    Fit
        The result.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    ModelError
        For an unknown model or priors that do not fit the labels.
    EngineError
        For an unknown engine, option or start; or, with ``on_failure="raise"``, where the engine did not converge.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> fit.model.name, fit.engine, fit.converged
    ('dawid-skene', 'collapsed-vi', True)
    """
    require_labels(labels)
    choice = choose(model, engine=engine, seed=seed, labels=labels, **options)
    chosen_model, chosen, settings, seed = choice.model, choice.engine, choice.settings, choice.seed
    if on_failure not in ("warn", "raise"):
        raise EngineError(f"on_failure must be 'warn' or 'raise', not {on_failure!r}")
    check_progress(progress)
    with double_precision():  # as the engines: small operations are then compiled once
        chosen_model.check(sizes_of(labels))
    if init is not None and not chosen.starts:
        raise EngineError(f"engine {chosen.name!r} needs no start: leave init out")
    begun = time.perf_counter()
    notes: list[str] = []
    start = resolve(init, labels, chosen_model, notes=notes)
    with reporter(progress) as report:
        run = chosen.run(Job(chosen_model, labels, start, settings, seed, report))
    run = run._replace(warnings=(*notes, *run.warnings))
    seconds = time.perf_counter() - begun
    tree = build_tree(labels, chosen_model, chosen.name, settings, run, seed, seconds)
    if choice.reasons:
        tree.attrs["choice"] = list(choice.reasons)
    _judge(tree)
    result = Fit(tree)
    if result.converged is False:
        sentence = _why(tree)
        if on_failure == "raise":
            raise EngineError(sentence)  # there is no fit to ask: the remedy is in the sentence
        warnings.warn(f"{sentence} fit.diagnose() says more", ConvergenceWarning, skip_file_prefixes=(_PACKAGE,))
    return result


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Fit
        The result, in memory.

    Raises
    ------
    BayescrowdError
        Where there is no such file, it is no result of bayescrowd, or a newer version wrote it.

    Examples
    --------
    >>> import bayescrowd as bc, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.nc")
    >>> bc.fit(bc.datasets.load("anesthesia")).save(path)
    >>> bc.load(path).consensus().shape
    (45, 6)
    """
    return Fit(store.load(path))


def item_difficulty(labels: Any, n_levels: Any = 3) -> pd.DataFrame:
    """Estimate quickly, without a fit, how difficult each item is.

    Workers are judged by their agreement with the majority of the others, then items by how well workers of that
    ability agree on them. `Fit.items`, of a model with difficulty levels, gives probabilities.

    Parameters
    ----------
    labels : CrowdLabels
        The labels.
    n_levels : int
        Number of levels to cut the items into.

    Returns
    -------
    DataFrame by item
        ``easiness`` (1 is middling), ``difficulty`` (1 / easiness), ``level`` (``"1"`` easiest; levels as equal in
        number as ties allow), ``n_labels`` and ``agreement`` (share of the votes for the leading class); NaN and NA
        for an item without labels.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    ModelError
        Where ``n_levels`` is no number of levels.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> table = bc.item_difficulty(bc.datasets.load("anesthesia"))
    >>> table.loc[[1, 3], "level"].tolist()
    ['1', '3']
    """
    require_labels(labels, "item_difficulty")
    return quick_difficulty(labels, n_levels)


def _judge(tree: xr.DataTree) -> None:
    """Say in the tree whether a sampler's chains agree, and what else should be known without being asked."""
    from bayescrowd.criticism.evidence import silent_classes, vanished_classes
    from bayescrowd.criticism.levels import permuted_levels

    noticed = vanished_classes(tree) + silent_classes(tree) + permuted_levels(tree)
    found = [finding.text for finding in noticed if finding.severity != "note"]
    if has_chains(tree):
        from bayescrowd.criticism.convergence import diagnose

        diagnosis = diagnose(tree)
        tree.attrs["converged"] = {True: "yes", False: "no", None: "unknown"}[diagnosis.converged]
        known = {"permuted-mode", "permuted-level", "vanished-class"}
        found += [
            f"{finding.text} Remedy: {finding.remedy}." for finding in diagnosis.problems if finding.code not in known
        ]
    tree.attrs["warnings"] = [*tree.attrs["warnings"], *found]


def _why(tree: xr.DataTree) -> str:
    """One message on a fit that did not converge: why, and what to do."""
    from bayescrowd.criticism.convergence import diagnose

    codes = ("r-hat", str(tree.attrs["status"]))
    reasons = [finding for finding in diagnose(tree).problems if finding.code in codes and finding.remedy]
    sentences = [f"{finding.text} Remedy: {finding.remedy}." for finding in reasons]
    return f"{title(tree)} did not converge. {' '.join(sentences) or tree.attrs['status_sentence']}"
