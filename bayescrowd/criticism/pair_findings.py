"""What the pair statistics of workers tell and leave open, in words; `identifiability` has the numbers."""

import numpy as np
import pandas as pd

from bayescrowd.criticism.report import Finding
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import shorten
from bayescrowd.moments.cooccurrence import Cooccurrence
from bayescrowd.moments.graph import Components
from bayescrowd.results.words import count_of

__all__ = [
    "ENOUGH",
    "of_certificates",
    "of_common_items",
    "of_interval",
    "of_scattering",
    "of_spammers",
    "of_the_graph",
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


def of_the_graph(labels: CrowdLabels, pairs: Cooccurrence, graph: Components) -> list[Finding]:
    """Find workers, and groups of workers, whose pair statistics cannot be completed.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    pairs : Cooccurrence
        Its pair statistics.
    graph : Components
        Components of its co-label graph.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    findings = []
    names = np.asarray(labels.workers, object)
    size = pairs.label_count.sum(axis=1)
    degree = pairs.degree()
    alone = np.flatnonzero((degree == 0) & (size > 0))
    if len(alone) and len(names) > 1:
        busiest = names[int(np.argmax(np.where(degree > 0, size, -1)))]
        findings.append(
            Finding(
                "caution",
                "no-common-items",
                f"{count_of(len(alone), 'worker')} shared no item with anybody ({shorten(names[alone])}): nothing "
                "tells how good they are but the prior and the prevalence.",
                f"let somebody else, such as {busiest!r}, label some of their items",
            )
        )
    findings += _of_bipartite(names, size, pairs, graph)
    parts = [number for number in range(graph.n) if (graph.of_worker == number).sum() > 1]
    if len(parts) > 1:
        heads = [names[np.flatnonzero(graph.of_worker == n)[np.argmax(size[graph.of_worker == n])]] for n in parts[:2]]
        findings.append(
            Finding(
                "note",
                "components",
                f"Workers fall into {len(parts)} groups without common items; the names of the classes are matched "
                "between them by the majority vote alone.",
                f"let {heads[0]!r} and {heads[1]!r} label common items, or give gold in every group",
            )
        )
    return findings


def _of_bipartite(names: np.ndarray, size: np.ndarray, pairs: Cooccurrence, graph: Components) -> list[Finding]:
    """Say that some components cannot be completed, the largest by name."""
    count = np.bincount(graph.of_worker, minlength=graph.n)
    numbers = np.flatnonzero(graph.bipartite & (count > 1))
    if not len(numbers):
        return []
    largest = numbers[np.argmax(count[numbers])]
    members = np.flatnonzero(graph.of_worker == largest)
    others = f"; so are {len(numbers) - 1} smaller groups" if len(numbers) > 1 else ""
    if len(members) == 2:
        return [
            Finding(
                "caution",
                "bipartite",
                f"Only two workers ({shorten(names[members])}) share these items{others}: two do not determine each "
                "other's confusion.",
                "let a third worker label items of both",
            )
        ]
    side = _same_side(pairs, members)
    who = names[side[np.argsort(-size[side], kind="stable")][:2]]
    pair = f", such as {who[0]!r} and {who[1]!r}" if len(who) == 2 else ""
    return [
        Finding(
            "caution",
            "bipartite",
            f"{count_of(len(members), 'worker')} ({shorten(names[members])}) fall into two sides that only meet each "
            f"other{others}: their pair statistics leave a whole matrix undetermined, and moment estimators cannot use "
            "them.",
            f"let two workers of one side{pair}, label common items",
        )
    ]


def _same_side(pairs: Cooccurrence, members: np.ndarray) -> np.ndarray:
    """Find the larger side of a bipartite component."""
    colour = {int(members[0]): 0}
    stack = [int(members[0])]
    neighbours: dict[int, list[int]] = {}
    of_members = np.isin(pairs.first, members)
    for one, other in zip(pairs.first[of_members].tolist(), pairs.second[of_members].tolist(), strict=True):
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    while stack:
        worker = stack.pop()
        for other in neighbours.get(worker, []):
            if other not in colour:
                colour[other] = 1 - colour[worker]
                stack.append(other)
    sides = [np.asarray([worker for worker, side in colour.items() if side == which], int) for which in (0, 1)]
    return max(sides, key=len)


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
    text = (
        f"{count_of(pairs.n_pairs, 'pair')} of workers share items, in the median {median:.3g}; "
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
    flat = workers.index[(workers["rank_one"] < _SPAMMER) & (workers["n_labels"] > 0)]
    if not len(flat):
        return []
    return [
        Finding(
            "note",
            "rank-one",
            f"{count_of(len(flat), 'worker')} answer almost regardless of the class ({shorten(flat)}): they "
            "help to find nobody's confusion, and successive projection cannot find theirs.",
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
    if weak.empty:
        return []
    said = ", ".join(f"{name!r} {value:.2f}" for name, value in zip(weak.index[:5], weak["certificate"], strict=False))
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


def of_interval(interval: tuple[float, float] | None, labels: CrowdLabels) -> list[Finding]:
    """Say what second moments leave open with two classes.

    Parameters
    ----------
    interval : tuple of float or None
        Prevalences of the first class that second moments leave possible.
    labels : CrowdLabels
        The label table.

    Returns
    -------
    list of Finding
        Each says what labels would help, where any would.
    """
    if interval is None:
        return []
    low, high = interval
    text = (
        f"From pair statistics alone the prevalence of {labels.classes[0]!r} could be anything from {low:.3f} to "
        f"{high:.3f}, and the confusions shift with it; all labels of an item together (and the prior) decide."
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
