"""Reports on workers: accuracy, informativeness, spammers and adversaries, confusion matrices."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.decisions.arguments import check_refits, check_seed
from bayescrowd.decisions.confusions import averaged, confusion, confusion_draws, interval_bounds, parameters_of
from bayescrowd.decisions.spammers import spammer_evidence, with_spammers
from bayescrowd.errors import EngineError
from bayescrowd.inference import names as engine_names
from bayescrowd.results.tree import estimates_by, ids, json_attribute, n_labels_of, parameter_group

__all__ = [
    "SPAMMER_BITS",
    "WorkerScores",
    "confusion",
    "confusion_draws",
    "interval_bounds",
    "roles",
    "scores",
    "workers",
]

SPAMMER_BITS = 0.05
"""A worker whose label says less than this about the class, in bits, counts as a spammer."""

_CHUNK_CELLS = 4_000_000


class WorkerScores(NamedTuple):
    """Scores of workers by draw.

    Parameters
    ----------
    accuracy : array [sample, worker]
        Probability that a label equals the class of a random item.
    informativeness : array [sample, worker]
        Mutual information of label and class, in bits.
    """

    accuracy: np.ndarray
    informativeness: np.ndarray


def workers(tree: xr.DataTree, *, interval: float = 0.89, bootstrap: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Report how good each worker is, and how sure one may be of that.

    Parameters
    ----------
    tree : DataTree
        A result.
    interval : float
        Probability of the equal-tailed intervals.
    bootstrap : int, optional
        For engines without draws: number of refits to resampled items from which intervals and probabilities come.
        Draws need none: there ``attrs["intervals"]`` notes that it was not used.
    seed : int
        Seed of the resampling.

    Returns
    -------
    DataFrame by worker
        ``n_labels``; ``accuracy``: sum over classes of prevalence x confusion diagonal, with ``accuracy_lower`` and
        ``accuracy_upper``; ``informativeness``: mutual information of label and class in bits (a consistent inverter is
        as informative as an expert, a spammer near 0); ``p_spammer``: P(informativeness < .05 bit), where before any
        label one worker in ten is taken to label at random (`bayescrowd.decisions.spammers`; from a bootstrap: the
        share of the refits); ``p_adversary``: P(accuracy < 1 / number of classes). Posterior means over draws. Where
        the engine gives no draws, intervals and probabilities are NaN and ``attrs["intervals"]`` says why. Where the
        method has no confusion matrices, accuracy is its own where it gives one, else the share of the worker's labels
        that agree with the classes found, as ``attrs["accuracy"]`` says; what else the method says of workers follows
        in columns of its own.

    Raises
    ------
    LabelError
        For an interval that is no probability, or a seed that is none.
    EngineError
        For a number of refits that is none, or a method without confusion matrices.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> report = bc.fit(bc.datasets.load("anesthesia"), engine="em").workers()
    >>> report["n_labels"].tolist()
    [135, 45, 45, 45, 45]
    >>> report.attrs["intervals"][:18]
    'em gives no draws:'
    """
    low, high = interval_bounds(interval)
    seed = check_seed(seed)
    if bootstrap is not None:
        bootstrap = check_refits(bootstrap)
    if "confusion" not in tree[parameter_group(tree)].dataset:
        if bootstrap is not None:
            raise EngineError(
                f"{tree.attrs['engine']} gives no confusion matrices to refit: leave bootstrap out, or fit with "
                "engine='em'"
            )
        return _without_confusion(tree)
    found = scores(tree)
    n_classes = tree["observed_data"].dataset.sizes["class"]
    report = pd.DataFrame({"n_labels": n_labels_of(tree, "worker")}, index=ids(tree, "worker"))
    report["accuracy"] = found.accuracy.mean(axis=0)
    spread: WorkerScores | None = None
    reason = f"equal-tailed, probability {interval:g}, from the posterior draws"
    if tree.attrs.get("draws_are") == "independent":
        reason += ' of an approximation, which tends to be too narrow: engine="gibbs" gives wider ones'
    if parameter_group(tree) == "posterior":
        spread = found
        if bootstrap is not None:
            reason += f"; bootstrap={bootstrap} was not needed: draws say more than refits"
    elif bootstrap is not None:
        from bayescrowd.decisions.bootstrap import refit_scores

        spread = refit_scores(tree, bootstrap, seed)
        reason = f"equal-tailed, probability {interval:g}, from {bootstrap} refits to resampled items (bootstrap)"
    elif json_attribute(tree, "settings", {}).get("keep") == 0:
        reason = "no draws were kept (keep=0): fit again with keep=1000, or ask for workers(bootstrap=200)"
    elif str(tree.attrs["engine"]) in engine_names():
        reason = (
            f"{tree.attrs['engine']} gives no draws: ask for workers(bootstrap=200), or fit with an engine that samples"
        )
    else:
        reason = f"{tree.attrs['engine']} gives a point only: for intervals fit with an engine, bc.fit(labels)"
    nothing = np.full(len(report), np.nan)
    lower, upper = (nothing, nothing) if spread is None else np.quantile(spread.accuracy, [low, high], axis=0)
    report["accuracy_lower"], report["accuracy_upper"] = lower, upper
    report["informativeness"] = found.informativeness.mean(axis=0)
    chance = 1 / n_classes
    report["p_spammer"] = nothing
    if spread is not None:
        little = (spread.informativeness < SPAMMER_BITS).mean(axis=0)
        report["p_spammer"] = with_spammers(little, spammer_evidence(tree) if spread is found else None)
    # A hair below chance is rounding, not malice.
    report["p_adversary"] = nothing if spread is None else (spread.accuracy < chance - 1e-9).mean(axis=0)
    report.attrs["intervals"] = reason
    return report


def roles(table: pd.DataFrame) -> np.ndarray:
    """Say of each worker which kind is more probable than not.

    Parameters
    ----------
    table : DataFrame by worker
        As `workers` gives it.

    Returns
    -------
    array [worker]
        ``"spammer"`` where P(spammer) > 1/2, else ``"adversary"`` where P(adversary) > 1/2, else ``"worker"``: one who
        is both says nothing, and counts as a spammer. Where probabilities are not known all are ``"worker"``.

    Examples
    --------
    >>> import pandas as pd
    >>> roles(pd.DataFrame({"p_spammer": [0.9, 0.2, 0.1], "p_adversary": [0.6, 0.7, 0.1]})).tolist()
    ['spammer', 'adversary', 'worker']
    """
    kinds = [table["p_spammer"].to_numpy(float) > 0.5, table["p_adversary"].to_numpy(float) > 0.5]
    return np.select(kinds, ["spammer", "adversary"], "worker")


def _without_confusion(tree: xr.DataTree) -> pd.DataFrame:
    by_worker = estimates_by(tree, "worker")
    report = pd.DataFrame({"n_labels": n_labels_of(tree, "worker")}, index=ids(tree, "worker"))
    if "accuracy" in by_worker:
        report["accuracy"], meaning = by_worker.pop("accuracy"), f"as {tree.attrs['engine']} has it"
    else:
        observed = tree["observed_data"].dataset
        item, worker, label = (observed[f"{name}_index"].to_numpy() for name in ("item", "worker", "label"))
        weight = observed["weight"].to_numpy() if "weight" in observed else np.ones(len(item))
        probability = tree["latent"].dataset["class_probability"].to_numpy()
        is_class = label < probability.shape[1]
        agrees = np.where(is_class, probability[item, np.where(is_class, label, 0)], 0.0)
        total = np.bincount(worker, weight, len(report))
        right = np.bincount(worker, weight * agrees, len(report))
        report["accuracy"] = right / np.where(total > 0, total, np.nan)
        meaning = "share of the worker's labels that agree with the classes found"
    for name in ("accuracy_lower", "accuracy_upper", "informativeness", "p_spammer", "p_adversary"):
        report[name] = np.nan
    for name, value in by_worker.items():
        report[name] = value
    report.attrs["accuracy"] = meaning
    report.attrs["intervals"] = f"{tree.attrs['engine']} has no confusion matrices, so there are none"
    return report


def scores(tree: xr.DataTree) -> WorkerScores:
    """Compute accuracy and informativeness of every worker for every draw (one for point estimates).

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    WorkerScores
        By sample and worker.
    """
    sizes = tree["observed_data"].dataset.sizes
    n_workers = sizes["worker"]
    per_worker = max(1, _n_samples(tree) * sizes["class"] * sizes["label"])
    step = max(1, _CHUNK_CELLS // per_worker)
    parts = []
    for first in range(0, n_workers, step):
        table, shares, prevalence = parameters_of(tree, slice(first, first + step))
        parts.append(score_tables(averaged(table, shares), prevalence))
    if not parts:
        return WorkerScores(np.zeros((1, 0)), np.zeros((1, 0)))
    return WorkerScores(*(np.concatenate(part, axis=1) for part in zip(*parts, strict=True)))


def score_tables(table: np.ndarray, prevalence: np.ndarray) -> WorkerScores:
    """Score confusion matrices.

    Parameters
    ----------
    table : array [sample, worker, class, label]
        Rows sum to one.
    prevalence : array [sample, class]
        Class shares.

    Returns
    -------
    WorkerScores
        By sample and worker.
    """
    diagonal = np.diagonal(table, axis1=2, axis2=3)
    accuracy = np.einsum("sc,skc->sk", prevalence, diagonal)
    joint = prevalence[:, None, :, None] * table
    independent = prevalence[:, None, :, None] * joint.sum(axis=2, keepdims=True)
    ratio = np.divide(joint, independent, out=np.ones_like(joint), where=(joint > 0) & (independent > 0))
    return WorkerScores(accuracy, np.maximum((joint * np.log2(ratio)).sum(axis=(2, 3)), 0.0))


def _n_samples(tree: xr.DataTree) -> int:
    group = parameter_group(tree)
    sizes = tree[group].dataset.sizes
    return int(sizes["chain"] * sizes["draw"]) if group == "posterior" else 1
