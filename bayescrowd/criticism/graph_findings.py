"""What the co-label graph allows: groups without common items, two sides that only meet each other, weak links."""

import numpy as np

from bayescrowd.criticism.pair_findings import ENOUGH
from bayescrowd.criticism.report import Finding
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import count_of, shorten
from bayescrowd.moments.cooccurrence import Cooccurrence
from bayescrowd.moments.graph import Components

__all__ = ["of_the_graph", "of_weak_links"]


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
        helper = "let two or more workers label the same items"
        if (degree > 0).any():
            busiest = names[int(np.argmax(np.where(degree > 0, size, -1)))]
            helper = f"let somebody else, such as {busiest!r}, label some of their items"
        findings.append(
            Finding(
                "caution",
                "no-common-items",
                f"{count_of(len(alone), 'worker')} shared no item with anybody ({shorten(names[alone])}): nothing "
                "tells how good they are but the prior and the prevalence.",
                helper,
            )
        )
    findings += _of_bipartite(names, size, pairs, graph)
    parts = [number for number in range(graph.n) if (graph.of_worker == number).sum() > 1]
    if len(parts) > 1:
        heads = _busiest(names, size, graph, parts[:2])
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


def _busiest(names: np.ndarray, size: np.ndarray, graph: Components, parts: list[int]) -> list[object]:
    """Name the worker with most labels in each of some components."""
    return [names[np.argmax(np.where(graph.of_worker == part, size, -1))] for part in parts]


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
            f"other{others}: their pair statistics leave a whole matrix undetermined, so that multispa-kl and symnmf "
            "cannot find it; multispa can where some labels are given for one class alone.",
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


def of_weak_links(labels: CrowdLabels, pairs: Cooccurrence, graph: Components, strong: Components) -> list[Finding]:
    """Say where the co-label graph hangs together, or closes a ring, by pairs with few common items only.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    pairs : Cooccurrence
        Its pair statistics.
    graph : Components
        Components of its co-label graph.
    strong : Components
        Components where only pairs with enough common items join workers.

    Returns
    -------
    list of Finding
        At most one.
    """
    size = pairs.label_count.sum(axis=1)
    ringless = graph.bipartite[graph.of_worker]
    loose = strong.bipartite[strong.of_worker] & ~ringless
    count = np.bincount(strong.of_worker, minlength=strong.n)
    firm = [int(n) for n in np.flatnonzero(count > 1) if not ringless[strong.of_worker == n].any()]
    within = np.array([graph.of_worker[strong.of_worker == n][0] for n in firm], int)
    broken = np.flatnonzero(np.bincount(within, minlength=graph.n) > 1)
    names = np.asarray(labels.workers, object)
    if len(broken):
        parts = [n for n, component in zip(firm, within, strict=True) if component == broken[0]]
        heads = _busiest(names, size, strong, parts[:2])
        text = f"Workers fall into {len(parts)} groups between which no two share {ENOUGH:.0f} items"
        remedy = f"let {heads[0]!r} and {heads[1]!r} label more common items, or give gold in every group"
    elif loose.any():
        who = names[np.flatnonzero(loose)[np.argsort(-size[loose], kind="stable")][:2]]
        tied = "is" if loose.sum() == 1 else "are"
        text = (
            f"{count_of(int(loose.sum()), 'worker')} ({shorten(names[loose])}) {tied} tied to the others only by pairs "
            f"with fewer than {ENOUGH:.0f} common items, or in a ring that such pairs close"
        )
        both = f"{who[0]!r} and {who[1]!r}" if len(who) == 2 else f"{who[0]!r} and others"
        remedy = f"let {both} label more common items"
    else:
        return []
    return [Finding("caution", "weak-links", f"{text}: what pair statistics say across hangs on chance.", remedy)]
