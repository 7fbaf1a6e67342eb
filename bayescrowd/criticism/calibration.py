"""Do the class probabilities of a result mean what they say: scored against known classes."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._calibration_report import FEWEST, Calibration, sentences, verdict_on
from bayescrowd.criticism._scoring import (
    SMALLEST,
    SURE,
    Forecasts,
    Sums,
    scores,
    sums_of_items,
    units,
    weights_of_resamples,
    wilson,
)
from bayescrowd.criticism._scoring_references import TEMPERATURES, Chance, by_chance, temper
from bayescrowd.criticism.known import known_classes
from bayescrowd.decisions.arguments import check_interval, check_seed
from bayescrowd.errors import EngineError, LabelError, count_of
from bayescrowd.results.tree import ids, n_labels_of, values

__all__ = ["Calibration", "calibration"]

_FROM_BINS = ("reliability", "resolution", "within_bins", "calibration_error")
_SHARES = ("accuracy", "confidently_wrong", "recall", "precision")
_COLUMNS = ("recall", "precision", "log_loss", "brier", "calibration_error", "confidently_wrong")


def calibration(
    tree: xr.DataTree, truth: Any = None, *, bins: int = 10, interval: float = 0.89, seed: int = 0
) -> Calibration:
    """Score the class probabilities of a result against known classes.

    Items whose gold the fit used are left out: it was told their class.

    - ``log_loss``: mean of -log P(true class), in nats; probabilities below 1e-15 count as 1e-15.
    - ``brier``: mean over items of the squared errors summed over classes, 0 to 2. It is split class by class (each
      class against the rest, in bins of its own probability) and summed over classes, so that exactly
      ``brier = reliability - resolution + uncertainty + within_bins``: how far the classes' shares in the bins are from
      the probabilities; how much those shares differ from bin to bin; what the shares of the classes alone leave open;
      and what the bins hide (Stephenson's within-bin variance minus covariance).
    - ``calibration_error``: mean distance between confidence and accuracy over the bins of the reliability curve.
    - ``accuracy``, ``confidence`` (mean probability of the leading class) and their difference, ``overconfidence``.
      Where several classes lead, each has an equal share in the answer.
    - ``confidently_wrong``: share of the items with a probability above .95 for a class that is not the true one.

    Bins hold as many items each as ties allow. Intervals are Wilson's for shares of items (``accuracy``,
    ``confidently_wrong``, recall, precision) and otherwise from 2000 bootstrap resamples of the items. A resample adds
    scatter between bins, so the intervals of scores from bins are moved back by what it adds. Fewer than 10 items
    cannot be resampled: these intervals are NaN then, and there is no verdict. Even right
    probabilities scatter: compare such scores with their ``expected``.

    Parameters
    ----------
    tree : DataTree
        A result.
    truth : Series or mapping, optional
        Item -> class; by default the truth that came with the labels.
    bins : int
        Number of bins.
    interval : float
        Probability of the intervals.
    seed : int
        Seed of the resampling.

    Returns
    -------
    Calibration
        Prints as plain words; tables for programs.

    Raises
    ------
    LabelError
        Where no class is known, listing unknown items and classes, and for arguments that cannot be used.
    EngineError
        Where the fit failed and has no probabilities.

    References
    ----------
    Murphy (1973), A new vector partition of the probability score. Stephenson, Coelho, Jolliffe (2008), Two extra
    components in the Brier score decomposition. Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural
    networks.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), n_items=200, n_workers=6)
    >>> found = calibration(bc.fit(crowd.labels).idata)
    >>> found.n_items
    200
    >>> parts = found.scores["value"]
    >>> abs(parts.reliability - parts.resolution + parts.uncertainty + parts.within_bins - parts.brier) < 1e-12
    np.True_
    """
    bins = _check_bins(bins)
    interval, seed = check_interval(interval), check_seed(seed)
    code, notes = known_classes(tree, truth)
    gold = (code >= 0) & (values(tree, "observed_data", "gold_index") >= 0)
    if gold.any():
        notes.append(f"{count_of(int(gold.sum()), 'gold item')} left out: the fit was told their class.")
    scored = (code >= 0) & ~gold
    if not scored.any():
        why = "every item with a known class is gold, which the fit was told" if gold.any() else "it is empty"
        raise LabelError(f"cannot score against this truth: {why}; give the class of further items with truth=")
    silent = int((n_labels_of(tree, "item")[scored] == 0).sum())
    if silent:
        notes.append(f"{count_of(silent, 'item')} without labels scored by the shares of the classes.")
    probability = values(tree, "latent", "class_probability").astype(float)[scored]
    if not np.isfinite(probability).all():
        raise EngineError(f"the fit failed and has no class probabilities: {tree.attrs['status_sentence']}")
    probability /= probability.sum(axis=1, keepdims=True)
    found = Forecasts.of(probability, code[scored], bins)
    items, classes = ids(tree, "item")[scored], ids(tree, "class")

    random = np.random.default_rng(seed)
    unit = units(len(probability), random)
    sums = sums_of_items(found, unit)
    chance = by_chance(found, random)
    temperature = temper(found, unit)
    replicates: list[tuple[Sums, Sums]] = []
    temperatures = []
    for weights in weights_of_resamples(len(sums["n"]), random):
        replicates.append(scores({name: np.tensordot(weights, part, 1) for name, part in sums.items()}))
        temperatures.append(temperature.resampled(weights))
    value = scores({name: part.sum(axis=0, keepdims=True) for name, part in sums.items()})
    overall = _table(value[0], [part for part, _ in replicates], found, interval, chance)
    by_class = _by_class(value[1], [part for _, part in replicates], found, interval, chance, classes)
    lower, upper = _temperatures(np.concatenate(temperatures), temperature.value, len(items), interval)
    result = Calibration(
        scores=overall,
        by_class=by_class,
        curve=_curve(found, interval),
        n_items=len(items),
        interval=interval,
        temperature=temperature.value,
        temperature_lower=lower,
        temperature_upper=upper,
        log_loss_tempered=temperature.log_loss,
        n_clipped=int((probability[np.arange(len(items)), found.truth] < SMALLEST).sum()),
        sure_mistakes=_mistakes(found, items, classes),
        sentences=(),
        verdict=verdict_on(float(overall["value"].to_numpy()[overall.index.get_loc("accuracy")]), chance, len(items)),
    )
    return dataclasses.replace(result, sentences=sentences(tree, result, chance, notes))


def _check_bins(bins: Any) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise LabelError(f"bins must be a whole number of at least 1 (10 is usual), not {bins!r}")
    return int(bins)


def _bounds(
    name: str, value: np.ndarray, replicates: np.ndarray, n: np.ndarray, n_items: int, interval: float
) -> tuple[np.ndarray, np.ndarray]:
    """Interval of one score; ``value`` [...], ``replicates`` [resample, ...], ``n`` what a share is a share of."""
    if name in _SHARES:
        return wilson(np.where(n > 0, value, 0.0) * n, n, interval)
    if n_items < FEWEST:
        return np.full_like(value, np.nan), np.full_like(value, np.nan)
    if name in _FROM_BINS:
        replicates = replicates - (replicates.mean(axis=0) - value)
        if name != "within_bins":
            replicates = np.maximum(replicates, 0.0)
    low, high = (1 - interval) / 2, (1 + interval) / 2
    lower, upper = np.quantile(replicates, [low, high], axis=0)
    return lower, upper


def _table(value: Sums, replicates: list[Sums], found: Forecasts, interval: float, chance: Chance) -> pd.DataFrame:
    rows = {}
    n = np.array([float(len(found.truth))])
    for name, one in value.items():
        every = np.concatenate([part[name] for part in replicates])[:, None]
        lower, upper = _bounds(name, one, every, n, len(found.truth), interval)
        rows[name] = (one[0], lower[0], upper[0], chance.overall[name])
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "lower", "upper", "expected"])
    return table.rename_axis("score")


def _by_class(
    value: Sums, replicates: list[Sums], found: Forecasts, interval: float, chance: Chance, classes: pd.Index
) -> pd.DataFrame:
    n_true = np.bincount(found.truth, minlength=len(classes))
    n_called = (found.leads / found.leads.sum(axis=1, keepdims=True)).sum(axis=0)
    everything = np.full(len(classes), float(len(found.truth)))
    of_what = {"recall": n_true.astype(float), "precision": n_called}
    columns: dict[str, np.ndarray] = {"n_items": n_true}
    columns |= {name: value[name][0] for name in ("prevalence", "prevalence_expected")}
    for name in _COLUMNS:
        every = np.concatenate([part[name] for part in replicates])
        of = of_what.get(name, everything)
        lower, upper = _bounds(name, value[name][0], every, of, len(found.truth), interval)
        columns |= {name: value[name][0], f"{name}_lower": lower, f"{name}_upper": upper}
        if name == "calibration_error":
            columns["calibration_error_expected"] = chance.calibration_error
    return pd.DataFrame(columns, index=classes)


def _curve(found: Forecasts, interval: float) -> pd.DataFrame:
    size = np.bincount(found.top_bin)
    hits = np.bincount(found.top_bin, found.hit)
    ordered = pd.Series(found.confidence).groupby(found.top_bin)
    lower, upper = wilson(hits, size, interval)
    return pd.DataFrame(
        {
            "lower": ordered.min(),
            "upper": ordered.max(),
            "n_items": size,
            "confidence": np.bincount(found.top_bin, found.confidence) / size,
            "accuracy": hits / size,
            "accuracy_lower": lower,
            "accuracy_upper": upper,
        }
    ).rename_axis("bin")


def _mistakes(found: Forecasts, items: pd.Index, classes: pd.Index) -> pd.DataFrame:
    said = found.probability.argmax(axis=1)
    wrong = np.flatnonzero((found.confidence > SURE) & (said != found.truth))
    wrong = wrong[np.argsort(-found.confidence[wrong], kind="stable")]
    return pd.DataFrame(
        {
            "class": classes.take(said[wrong]),
            "probability": found.confidence[wrong],
            "truth": classes.take(found.truth[wrong]),
        },
        index=items[wrong],
    )


def _temperatures(replicates: np.ndarray, value: float, n_items: int, interval: float) -> tuple[float, float]:
    if np.isnan(value) or n_items < FEWEST:
        return np.nan, np.nan
    smallest, largest = TEMPERATURES
    bounds = []
    for bound in np.quantile(replicates, [(1 - interval) / 2, (1 + interval) / 2]):
        at_edge = 0.0 if bound <= smallest * 1.001 else np.inf
        bounds.append(float(bound) if smallest * 1.001 < bound < largest / 1.001 else at_edge)
    return bounds[0], bounds[1]
