"""Predictive checks in words: what was seen, what was expected, and what to do."""

import numpy as np
import pandas as pd

from bayescrowd.criticism._direction import Direction
from bayescrowd.criticism.statistics import Statistic
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import count_of, shorten
from bayescrowd.model import Model

__all__ = ["ARROW", "describe", "remedy", "verdict"]

ARROW = " -> "
"""Stands between what was found and what to do."""

_MOST_ON = 50
"""Largest concentration that is named for the diagonal of a prior."""

_ODD = 3.0
"""Standard deviations from which on a single pair or worker is worth naming."""


def describe(statistic: Statistic, table: pd.DataFrame, total: tuple[float, float, float, float]) -> str:
    """Say what was seen and what replications show.

    Parameters
    ----------
    statistic : Statistic
        Which.
    table : DataFrame
        Its table.
    total : tuple of float
        Observed total, mean, lower and upper end of the interval of the replicated ones.

    Returns
    -------
    str
        Without a full stop at the end.
    """
    if statistic.name == "agreement":
        return _agreement(table, total, len(statistic.rows))
    if statistic.name == "splits":
        return _splits(table)
    return _shares(table) if statistic.name == "shares" else _custom(statistic.name, table)


def verdict(
    p_value: float,
    n_replicates: int,
    rejected: float,
    borderline: float,
    *,
    direction: Direction = "",
    strayed: bool = False,
    within: bool = False,
) -> str:
    """Say what a p-value means.

    Parameters
    ----------
    p_value : float
        The p-value.
    n_replicates : int
        Number of replications.
    rejected, borderline : float
        Thresholds.
    direction : str
        From `direction_of`.
    strayed, within : bool
        Whether a total that the sentence shows lies outside its interval, or within.

    Returns
    -------
    str
        A sentence.
    """
    least = p_value <= 1.05 / (n_replicates + 1)
    shown = f"p = {p_value:.{3 if p_value >= 0.001 else 4}f}" + (
        f", the least that {n_replicates} replications can show" if least else ""
    )
    if p_value >= borderline and strayed:
        return f"Borderline: the total is outside its interval, but pairs and total together are not rare ({shown})."
    if p_value >= borderline:
        return f"No sign of misfit ({shown})."
    reason = _REASON[direction].format(_AMONG if within else "")
    if not reason and within:
        reason = ", as the labels are compared with single draws of its parameters; the interval holds all draws"
    if p_value < rejected:
        return f"The model is rejected ({shown}){reason}."
    return f"Borderline: rare for labels of such a model, yet it happens ({shown}){reason}."


_AMONG = " from any one draw of its parameters, while the interval holds all draws"

_REASON: dict[Direction, str] = {
    "more": ": the labels agree more than the fitted model expects{}, as its prior expects worse workers than these",
    "less": ": the labels agree less than the fitted model expects{}",
    "lumpy": ": more items are of one mind than the fitted model expects, and more are divided than go with that",
    "": "",
}


def remedy(name: str, model: Model, labels: CrowdLabels, direction: Direction = "") -> str:
    """Say what to do where the model does not reproduce a statistic.

    Parameters
    ----------
    name : str
        Name of the statistic.
    model : Model
        The model.
    labels : CrowdLabels
        What was labelled.
    direction : str
        From `direction_of`.

    Returns
    -------
    str
    """
    if direction == "more":
        return (
            f"expect better workers, {_better(model, labels)}; bc.prior_predictive(labels, model) "
            "shows what a prior expects of these labels before the fit"
        )
    harder = (
        "let items differ in difficulty, bc.fit(labels, bc.IDBLA())"
        if model.n_levels == 1
        else f"try more levels of difficulty, n_levels={model.n_levels + 1}"
    )
    together = "see with fit.dependence() whether workers err together"
    return {
        "agreement": f"{together}; {harder}; where workers have few labels, see bc.prior_predictive(labels, model)",
        "splits": f"{harder}; {together}; until then take probabilities for too sure, or check them with gold items",
        "shares": "look at these workers with fit.confusion(worker): a strong prior, few labels, or a fit that has not "
        "converged (fit.diagnose()) keeps the model from their labels",
    }.get(name, f"{harder}; {together}")


def _better(model: Model, labels: CrowdLabels) -> str:
    """Name a prior of better workers than the model's: such as would agree as often, were all of them alike."""
    n_labels = len(labels.label_values)
    cell, votes = np.unique(labels.item_code.astype(np.int64) * n_labels + labels.label_code, return_counts=True)
    on_item = np.bincount(cell // n_labels, weights=votes)
    # Two workers of accuracy a agree with probability a^2 + (1 - a)^2 / others.
    agree, others = float((votes * (votes - 1)).sum() / max((on_item * (on_item - 1)).sum(), 1)), n_labels - 1
    accuracy = (1 + np.sqrt(max((agree * n_labels - 1) * others, 0.0))) / n_labels
    on = min(max(8, round(others * accuracy / max(1 - accuracy, 1e-3))), _MOST_ON)
    prior = getattr(model, "confusion_prior", None)
    had, off = getattr(prior, "on", None), getattr(prior, "off", None)
    if isinstance(had, int | float) and isinstance(off, int | float) and had >= on * off > 0:
        return f"confusion_prior=bc.diagonal({2 * had:g}, {off:g})"
    return f"confusion_prior=bc.diagonal({on:g}, 1)"


def _agreement(table: pd.DataFrame, total: tuple[float, float, float, float], n_pairs: int) -> str:
    seen, mean, lower, upper = (100 * value for value in total)
    text = (
        f"agreement: workers agree on {seen:.1f} % of the labels of common items, {mean:.1f} % ({lower:.1f} to "
        f"{upper:.1f} %) expected; {_outside(table, n_pairs)}"
    )
    row = _furthest(table)
    if row is None:
        return text
    pair = f"{shorten([table['worker'].iloc[row]])} and {shorten([table['other'].iloc[row]])}"
    return (
        f"{text}, furthest {pair}, who agree on {_percent(table['observed'].iloc[row])} of "
        f"{table['n_common'].iloc[row]:,}, {_percent(table['expected'].iloc[row])} expected"
    )


def _splits(table: pd.DataFrame) -> str:
    row = table.iloc[int(np.argmax(table["z"].abs()))]
    split = str(row["split"])
    what = "unanimous labels" if split == "all agree" else f"{split} splits"
    if split.endswith("%"):
        what = f"{split} of the labels for the leading one"
    seen = "1 item" if row["observed"] == 1 else f"{row['observed']:,.0f} items"
    return f"splits: {what} on {seen}, {row['expected']:,.0f} ({row['lower']:,.0f} to {row['upper']:,.0f}) expected" + (
        ", which is the largest deviation" if len(table) > 1 else ""
    )


def _shares(table: pd.DataFrame) -> str:
    text = f"shares: {_outside(table, len(table), 'share')} of labels by worker"
    row = _furthest(table)
    if row is None:
        return text
    return (
        f"{text}, furthest that of {shorten([table['label'].iloc[row]])} by {shorten([table['worker'].iloc[row]])}: "
        f"{_percent(table['observed'].iloc[row])}, {_percent(table['expected'].iloc[row])} expected"
    )


def _custom(name: str, table: pd.DataFrame) -> str:
    row = table.iloc[int(np.argmax(table["z"].abs()))]
    which = f" number {row['value']:.0f} is" if len(table) > 1 else ""
    interval = f"{row['lower']:.4g} to {row['upper']:.4g}"
    return f"{name}:{which} {row['observed']:.4g}, {row['expected']:.4g} ({interval}) expected"


def _outside(table: pd.DataFrame, n_all: int, noun: str = "pair") -> str:
    outside = int(table["outside"].sum())
    of = count_of(len(table), noun)
    if n_all > len(table):
        of = f"the {of} with most common items (there are {n_all:,})"
    return f"outside their 95 % intervals {'lies' if outside == 1 else 'lie'} {outside:,} of {of}"


def _furthest(table: pd.DataFrame) -> int | None:
    size = table["z"].abs().to_numpy()
    return int(np.argmax(size)) if len(size) and size.max() >= _ODD else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
