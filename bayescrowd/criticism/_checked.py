"""What predictive checks return: sentences, and tables of observed and expected numbers."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bayescrowd.criticism.statistics import Statistic
from bayescrowd.errors import LabelError, shorten

__all__ = ["INTERVAL", "PredictiveCheck", "PredictiveChecks", "nothing_to_check", "rows_shown", "table_of"]

INTERVAL = 0.95
"""Probability of the intervals."""

_MOST_ROWS = 2000
"""Pairs of workers above which only those with most common items are listed in the table."""

_SAME = 1e-12

_HAIR = 1e-9
"""So little outside an interval is rounding, not misfit."""


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """One statistic of the labels, observed and as the model would have it.

    Parameters
    ----------
    name : str
        Name of the statistic.
    table : DataFrame
        A row for each pair of workers (``worker``, ``other``, ``n_common``), vote split (``split``, ``n_labels``) or
        worker and label (``worker``, ``label``), with ``observed``, ``expected`` (mean of the replications), ``lower``
        and ``upper`` (equal-tailed 95 % interval of the replications), ``z`` (deviation in standard deviations of
        the replications) and ``outside`` (whether it was observed outside that interval). Agreement and shares are
        proportions, splits are numbers of items.
    discrepancy : float
        Mean squared standardised deviation of the observed numbers, averaged over draws of the parameters; about 1
        where the model fits.
    replicated : array [replication]
        The same of every replication.
    p_value : float
        Calibrated: about uniform where the model is right, see `predictive_checks`. NaN where there is nothing to
        compare.
    sentence : str
        What was seen and expected, whether the model is rejected, and what to do.
    ppp : float
        The usual posterior predictive p-value of the same discrepancy; too near to one half where the model could
        adapt to the labels, so that it rejects too little.
    n_values : int
        How many numbers were compared; the table may list fewer.
    """

    name: str
    table: pd.DataFrame = field(repr=False)
    discrepancy: float
    replicated: np.ndarray = field(repr=False)
    p_value: float
    sentence: str
    ppp: float = float("nan")
    n_values: int = 0

    @property
    def is_prior(self) -> bool:
        """Whether the parameters were drawn from the prior: such a check has a p-value, and no ``ppp``."""
        return bool(np.isfinite(self.p_value) and np.isnan(self.ppp))

    def __str__(self) -> str:
        """Say it in plain words."""
        return self.sentence

    def _repr_html_(self) -> str:
        """For notebooks: the sentence, and the rows that stand out most."""
        worst = self.table.reindex(self.table["z"].abs().sort_values(ascending=False, kind="stable").index[:10])
        return f"<div><p>{html.escape(self.sentence)}</p>{worst.round(3).to_html(index=False)}</div>"


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveChecks(Mapping[str, PredictiveCheck]):
    """Checks by name; print them.

    Parameters
    ----------
    headline : str
        What was replicated, and how.
    checks : dict
        Name -> `PredictiveCheck`.
    notes : tuple of str
        What was left out or put together, and how far p-values can be trusted.
    """

    headline: str
    checks: Mapping[str, PredictiveCheck]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> PredictiveCheck:
        if name not in self.checks:
            raise LabelError(f"there is no check {name!r} here; there are {shorten(self.checks)}")
        return self.checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def __contains__(self, name: object) -> bool:
        return name in self.checks

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence or two for each check, then the notes."""
        return (*(check.sentence for check in self.checks.values()), *self.notes)

    def __str__(self) -> str:
        """Say everything in plain words, a line for each check."""
        return "\n".join([self.headline, *(f"  {sentence}" for sentence in self.sentences)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        return f"<div><p>{html.escape(self.headline)}</p><ul>{rows}</ul></div>"


def rows_shown(statistic: Statistic, replicated: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Choose the rows of a table: those with most common items where there are very many, and splits that occur.

    Parameters
    ----------
    statistic : Statistic
        Whose numbers they are.
    replicated : array [replication, number]
        Of the replications.
    observed : array [number]
        Of the labels.

    Returns
    -------
    int array
        Positions, in order.
    """
    if "n_common" in statistic.rows and len(observed) > _MOST_ROWS:
        return np.sort(np.argsort(-statistic.rows["n_common"].to_numpy(), kind="stable")[:_MOST_ROWS])
    if statistic.name == "splits":
        return np.flatnonzero((observed > 0) | (replicated > 0).any(axis=0))
    return np.arange(len(observed))


def table_of(
    statistic: Statistic, replicated: np.ndarray, observed: np.ndarray
) -> tuple[pd.DataFrame, tuple[float, float, float, float]]:
    """Lay observed and replicated numbers out as a table.

    Parameters
    ----------
    statistic : Statistic
        Whose numbers they are.
    replicated : array [replication, number]
        Of the replications.
    observed : array [number]
        Of the labels.

    Returns
    -------
    DataFrame
        As `PredictiveCheck.table`.
    tuple of float
        Observed total, and mean, lower and upper end of the interval of the replicated ones.
    """
    kept = rows_shown(statistic, replicated, observed)
    whole = np.broadcast_to(np.asarray(statistic.scale, float), observed.shape)
    part, seen = replicated[:, kept] / whole[kept], observed[kept] / whole[kept]
    tails = [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]
    lower, upper = np.quantile(part, tails, axis=0) if len(kept) else np.zeros((2, 0))
    mean, deviation = part.mean(axis=0), part.std(axis=0, ddof=1)
    gap = seen - mean
    # Where replications never vary, the labels count as one more set that does.
    deviation = np.where(deviation > 0, deviation, np.abs(gap) / np.sqrt(len(part) + 1))
    z = np.where(np.abs(gap) < _SAME, 0.0, gap / np.where(deviation > 0, deviation, 1.0))
    table = statistic.rows.iloc[kept].reset_index(drop=True)
    outside = (seen < lower - _HAIR) | (seen > upper + _HAIR)
    table = table.assign(observed=seen, expected=mean, lower=lower, upper=upper, z=z, outside=outside)
    total = max(float(whole.sum()), 1.0)
    totals = replicated.sum(axis=1, dtype=float) / total
    ends = np.quantile(totals, tails)
    return table, (float(observed.sum()) / total, float(totals.mean()), float(ends[0]), float(ends[1]))


def nothing_to_check(statistic: Statistic, table: pd.DataFrame) -> str:
    """Say why a statistic cannot be checked.

    Parameters
    ----------
    statistic : Statistic
        Which.
    table : DataFrame
        Its table.

    Returns
    -------
    str
        A sentence.
    """
    why = "replications always show what was observed"
    if not len(table):
        none = {"agreement": "no two workers label the same item", "splits": "no item has two labels"}
        why = none.get(statistic.name, "there are no numbers")
    return f"{statistic.name}: nothing to check, as {why}."
