"""Which way labels deviate from what a fitted model expects: more agreement, less, or both at once."""

from typing import Literal

import numpy as np
import pandas as pd

from bayescrowd.criticism._checked import INTERVAL
from bayescrowd.criticism.statistics import Splits, Statistic

__all__ = ["Direction", "direction_of"]

type Direction = Literal["more", "less", "lumpy", ""]

_FAR = 5.0
"""Standard deviations of the total agreement up to which replications tell how the splits go with it."""

_DIVIDED = 7
"""Groups of splits below this one, with up to 70 % of the labels for the leading one, count as divided."""


def direction_of(statistic: Statistic, replicated: np.ndarray, observed: np.ndarray) -> Direction:
    """Tell on which side of its replications the agreement of the labels lies.

    Parameters
    ----------
    statistic : Statistic
        Which.
    replicated : array [draw, replication, number]
        Of the replications; each is compared with what its own draw of the parameters expects, as the p-values do.
    observed : array [number]
        Of the labels.

    Returns
    -------
    str
        ``"more"``: the total of agreement, or the number of items on which all agree, is above its interval.
        ``"less"``: the total is below, or more items are divided than its interval holds. ``"lumpy"``: more items than
        expected are of one mind, and more are divided too, or more than go with that much agreement. Empty: none
        of these.
    """
    if statistic.name == "agreement":
        side = _side(replicated, observed)
        return "more" if side > 0 else "less" if side < 0 else ""
    if not isinstance(statistic, Splits):
        return ""
    divided, unanimous = _divided(statistic), statistic.unanimous
    united = _side(replicated[..., unanimous], observed[unanimous])
    split = _side(replicated[..., divided], observed[divided])
    if united > 0:
        return "lumpy" if split > 0 or _lumpy(replicated, observed, _alike(statistic), divided) else "more"
    return "less" if split > 0 else ""


def _lumpy(replicated: np.ndarray, observed: np.ndarray, alike: np.ndarray, divided: np.ndarray) -> bool:
    """Say whether more items are divided than is to be expected where labels agree as much as they do."""
    total, seen = _scaled((replicated * alike).sum(axis=2), float(observed @ alike))
    # Far from all replications none of them tells how many items would be divided.
    if not abs(seen) < _FAR:
        return False
    number, found = _scaled(replicated[..., divided].sum(axis=2, dtype=float), float(observed[divided].sum()))
    slope = float((number * total).mean())
    return bool(found - slope * seen > np.quantile(number - slope * total, (1 + INTERVAL) / 2))


def _scaled(value: np.ndarray, observed: float) -> tuple[np.ndarray, float]:
    """Deviations from what each draw expects, and the mean one of the labels, in standard deviations."""
    own = value - value.mean(axis=1, keepdims=True)
    deviation = float(own.std()) or 1.0
    return own / deviation, (observed - float(value.mean())) / deviation


def _side(replicated: np.ndarray, observed: np.ndarray) -> int:
    """1 where the observed sum is further above what draws expect than replications are, -1 below, 0 neither."""
    sums = replicated.sum(axis=2, dtype=float)
    expected = sums.mean(axis=1, keepdims=True)
    n_each = sums.shape[1]
    own = (sums - expected) * np.sqrt((n_each + 1) / (n_each - 1))  # their mean holds each of them
    lower, upper = np.quantile(own, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    gap = float(observed.sum() - expected.mean())
    return int(gap > upper) - int(gap < lower)


def _alike(statistic: Splits) -> np.ndarray:
    """Share of the pairs of labels of an item that are alike, by split; where splits are grouped, about that."""
    if statistic.pooled:
        leading = np.append(np.arange(0.05, 1, 0.1), 1.0)
        return leading**2
    parts = [np.array(name.split("-"), float) for name in statistic.rows["split"]]
    return np.array([(part * (part - 1)).sum() / (part.sum() * (part.sum() - 1)) for part in parts])


def _divided(statistic: Splits) -> np.ndarray:
    """Mark the lower half, by the agreement of two labels, of the splits that so many votes can have."""
    if statistic.pooled:
        return np.arange(len(statistic.rows)) < _DIVIDED
    number = statistic.rows["n_labels"].to_numpy(int)
    rank = pd.Series(_alike(statistic)).where(~statistic.unanimous).groupby(number).rank(pct=True)
    return np.asarray(rank <= np.maximum(0.5, rank.groupby(number).transform("min")))
