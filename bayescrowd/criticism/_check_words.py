"""Predictive checks in words: what was seen, what was expected, and what to do."""

import numpy as np
import pandas as pd

from bayescrowd.criticism.statistics import Statistic
from bayescrowd.errors import shorten
from bayescrowd.results.words import count_of

__all__ = ["ARROW", "describe", "remedy", "verdict"]

ARROW = " -> "
"""Stands between what was found and what to do."""

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


def verdict(p_value: float, n_replicates: int, rejected: float, doubtful: float) -> str:
    """Say what a p-value means.

    Parameters
    ----------
    p_value : float
        The p-value.
    n_replicates : int
        Number of replications.
    rejected, doubtful : float
        Thresholds.

    Returns
    -------
    str
        A sentence.
    """
    least = p_value <= 1.05 / (n_replicates + 1)
    shown = f"p = {p_value:.3f}" + (f", the least that {n_replicates} replications can show" if least else "")
    if p_value < rejected:
        return f"The model is rejected ({shown})."
    if p_value < doubtful:
        return f"The model is doubtful ({shown})."
    return f"No sign of misfit ({shown})."


def remedy(name: str, n_levels: int) -> str:
    """Say what to do where the model does not reproduce a statistic.

    Parameters
    ----------
    name : str
        Name of the statistic.
    n_levels : int
        Number of difficulty levels of the model.

    Returns
    -------
    str
    """
    harder = (
        "let items differ in difficulty, bc.fit(labels, bc.IDBLA())"
        if n_levels == 1
        else f"try more levels of difficulty, n_levels={n_levels + 1}"
    )
    together = "see with fit.dependence() whether workers err together"
    return {
        "agreement": f"{together}; {harder}; where workers have few labels, see bc.prior_predictive(labels, model)",
        "splits": f"{harder}; {together}; until then take probabilities for too sure, or check them with gold items",
        "shares": "look at these workers with fit.confusion(worker): a strong prior, few labels, or a fit that has not "
        "converged (fit.diagnose()) keeps the model from their labels",
    }.get(name, f"{harder}; {together}")


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
