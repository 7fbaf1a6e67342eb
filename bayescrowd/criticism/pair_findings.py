"""What the pair statistics of workers tell and leave open, in words; `identifiability` has the numbers."""

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from bayescrowd.criticism.report import Finding
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import count_of, shorten
from bayescrowd.moments.cooccurrence import Cooccurrence

__all__ = [
    "ENOUGH",
    "of_certificates",
    "of_common_items",
    "of_independence",
    "of_interval",
    "of_scattering",
    "of_spammers",
]

ENOUGH = 20.0
"""Common items from which on a pair's statistics are of use by themselves."""

_SPAMMER = 0.1
"""Second singular value over the first below which a confusion matrix counts as rank one."""

_WEAK = 0.4
"""A class has no certificate worth the name where no label makes it more probable than one minus this."""

_WIDE = 0.1
"""Width of the interval of a prevalence worth a caution."""

_SCATTERED = 1e-6

_BY_CHANCE = 1e-3
"""Probability under independence from which on agreement is called chance."""


def of_common_items(pairs: Cooccurrence) -> list[Finding]:
    """Say how many items pairs of workers share.

    Parameters
    ----------
    pairs : Cooccurrence
        Its pair statistics.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    if not pairs.n_pairs:
        return []
    total = pairs.total
    median = float(np.median(total))
    shown = f"{median:,.0f}" if median >= 100 else f"{median:.3g}"
    share = "shares" if pairs.n_pairs == 1 else "share"
    text = (
        f"{count_of(pairs.n_pairs, 'pair')} of workers {share} items, in the median {shown}; "
        f"{100 * float((total >= ENOUGH).mean()):.0f} % share {ENOUGH:.0f} or more."
    )
    if median >= ENOUGH:
        return [Finding("note", "common-items", text)]
    return [
        Finding(
            "note",
            "common-items",
            f"{text} So few say little pair by pair; fits that weigh pairs by their items, and likelihood engines, "
            "cope.",
        )
    ]


def of_independence(pairs: Cooccurrence) -> list[Finding]:
    """Find out whether workers agree more than they would by chance at all.

    Parameters
    ----------
    pairs : Cooccurrence
        Pair statistics.

    Returns
    -------
    list of Finding
        A problem where no pair's labels depend on each other (chi-square tests of independence, all pairs together).
    """
    kept = pairs.total >= ENOUGH
    if not kept.any():
        return []
    count = pairs.count[kept]
    rows, columns = count.sum(axis=2), count.sum(axis=1)
    expected = rows[:, :, None] * columns[:, None, :] / count.sum(axis=(1, 2))[:, None, None]
    statistic = np.where(expected > 0, (count - expected) ** 2 / np.where(expected > 0, expected, 1.0), 0.0).sum()
    freedom = (np.maximum((rows > 0).sum(axis=1) - 1, 0) * np.maximum((columns > 0).sum(axis=1) - 1, 0)).sum()
    if freedom == 0 or chdtrc(freedom, statistic) < _BY_CHANCE:
        return []
    return [
        Finding(
            "problem",
            "independent",
            "Workers agree no more than by chance: their labels of the same items look independent of each other, so "
            "nothing in the table tells the classes of items.",
            "check that items, workers and labels are the right columns; give gold items, or ask other workers",
        )
    ]


def of_spammers(workers: pd.DataFrame) -> list[Finding]:
    """Name workers who answer almost regardless of the class.

    Parameters
    ----------
    workers : DataFrame by worker
        As `Identifiability.workers`.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    # With few labels a confusion is mostly prior, or chance.
    seen = (workers["n_labels"] >= ENOUGH) & (workers["n_partners"] > 0)
    flat = workers.index[(workers["rank_one"] < _SPAMMER) & seen]
    answer = "answers" if len(flat) == 1 else "answer"
    if not len(flat):
        return []
    return [
        Finding(
            "note",
            "rank-one",
            f"{count_of(len(flat), 'worker')} {answer} almost regardless of the class ({shorten(flat)}), which helps "
            "to find nobody's confusion; successive projection cannot find theirs.",
        )
    ]


def of_certificates(classes: pd.DataFrame) -> list[Finding]:
    """Name classes that no label is given for alone.

    Parameters
    ----------
    classes : DataFrame by class
        As `Identifiability.classes`.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    weak = classes[classes["certificate"] < 1 - _WEAK]
    if classes["certificate"].isna().all():
        return [
            Finding(
                "note",
                "few-labels",
                "Nobody gave any label often enough to tell what it means by itself; only all workers together do.",
            )
        ]
    if weak.empty:
        return []
    said = "; ".join(f"{name!r}, {value:.2f}" for name, value in zip(weak.index[:5], weak["certificate"], strict=False))
    return [
        Finding(
            "caution",
            "no-certificate",
            f"No worker's label is given for {'these classes' if len(weak) > 1 else 'this class'} alone; the most that "
            f"one label makes {'each of them' if len(weak) > 1 else 'it'} probable is: {said}. Successive projection "
            "(multispa) cannot find what such labels mean.",
            "use a likelihood engine, give gold items of these classes, or ask workers who know them",
        )
    ]


def of_interval(interval: tuple[float, float] | None, labels: CrowdLabels, error: float) -> list[Finding]:
    """Say what second moments leave open with two classes.

    Parameters
    ----------
    interval : tuple of float or None
        Prevalences of the first class that second moments leave possible.
    labels : CrowdLabels
        The label table.
    error : float
        Standard error of a prevalence by chance alone.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    if interval is None:
        return []
    low, high = interval
    text = (
        f"From pair statistics alone the prevalence of {shorten(labels.classes[:1])} could be anything from {low:.3f} "
        f"to {high:.3f} (and {2 * error:.2g} beyond either end by chance), and the confusions shift with it; all "
        "labels of an item together (and the prior) decide."
    )
    if high - low < _WIDE:
        return [Finding("note", "interval", text)]
    return [
        Finding(
            "caution",
            "interval",
            text,
            "trust moment estimates of the prevalence only as far as that; polish=10 or a likelihood engine goes "
            "further, gold of either class settles it",
        )
    ]


def of_scattering(scattered: tuple[float, float] | None, outside: int) -> list[Finding]:
    """Say whether two groups of workers are sufficiently scattered.

    Parameters
    ----------
    scattered : tuple of float or None
        Lengths of the two sides' longest dual vectors.
    outside : int
        Workers who share no items with either side, or whose confusion is not of full rank.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    if scattered is None:
        return []
    if max(scattered) <= 1 + _SCATTERED:
        return [
            Finding(
                "note",
                "scattered",
                "Two groups of workers with common items are each sufficiently scattered, as far as a search can see: "
                "the coupled factorisation has one solution"
                + (f", but for {count_of(outside, 'worker')} out of their reach." if outside else "."),
            )
        ]
    return [
        Finding(
            "note",
            "not-scattered",
            "No two groups of workers were found that are both sufficiently scattered (their confusions have few "
            "entries near zero): pair statistics may leave a rotation open, which the likelihood of all labels "
            "settles.",
        )
    ]
