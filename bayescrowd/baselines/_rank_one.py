r"""Agreement of pairs of workers, corrected for chance: what PGD and M-MSR fit by a table of rank one.

A one-coin worker m is right with probability :math:`p_m`, and names any other class alike. With K classes and the skill
:math:`s_m = (K p_m - 1) / (K - 1)`, which is 1 for a worker who is always right, 0 for one who guesses and
:math:`-1 / (K - 1)` for one who is never right, two workers agree on an item with probability :math:`\rho_{ml}`, and

.. math:: C_{ml} = \frac{K \rho_{ml} - 1}{K - 1} = s_m s_l .

C is estimated from the share of common items with the same label. Only pairs with common items are known.

References
----------
Ma, Olshevsky, Saligrama, Szepesvari (2020), Gradient descent for sparse rank-one matrix completion for crowd-sourced
aggregation of sparsely interacting workers, JMLR 21(133). Ma, Olshevsky (2020), Adversarial crowdsourcing through
robust rank-one matrix completion, NeurIPS.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayescrowd.baselines._agreement import ENOUGH_GOLD, GOLD_DECIDES_SIGNS, agreement
from bayescrowd.baselines._binary import top_eigenvector
from bayescrowd.baselines._confusions import coins
from bayescrowd.baselines._ids import natural_order
from bayescrowd.baselines._options import check_word
from bayescrowd.baselines._result import Call, Found, Votes
from bayescrowd.errors import EngineError, shorten
from bayescrowd.moments.cooccurrence import cooccurrence
from bayescrowd.moments.estimate import Estimate, decode
from bayescrowd.moments.graph import components
from bayescrowd.results.votes import leading

__all__ = ["Pairs", "by_skill", "limits", "pairs_of", "signs_of"]

_TINY = 1e-12
"""Far below what `limits` leave of a probability of being wrong; labels that are no class have it in every class."""

_BALANCED = 1e-9
"""Two sides of a crowd whose sizes differ by less than this share are equally large."""


class Pairs(NamedTuple):
    """Chance-corrected agreement of pairs of workers; every pair stands here twice, once for each order.

    Parameters
    ----------
    row, column : int array [entry]
        The workers; sorted by row.
    common : array [entry]
        Common items, by weight.
    correlation : array [entry]
        C of the pair: 1 where they always agree, 0 where they agree as often as by chance.
    part : int array [worker]
        Workers linked by common items, directly or by way of others, bear the same number.
    open_parts : int
        Number of parts of two or more workers without a cycle of odd length: there only products of skills are known.
    n_workers : int
        Size.
    """

    row: np.ndarray
    column: np.ndarray
    common: np.ndarray
    correlation: np.ndarray
    part: np.ndarray
    open_parts: int
    n_workers: int

    @property
    def degree(self) -> np.ndarray:
        """Number of partners of each worker, int array [worker]."""
        return np.bincount(self.row, minlength=self.n_workers)

    def table(self, value: np.ndarray) -> sparse.csr_array:
        """Put values of the entries into a sparse symmetric table.

        Parameters
        ----------
        value : array [entry]
            The values.

        Returns
        -------
        csr_array [worker, worker]
        """
        start = np.searchsorted(self.row, np.arange(self.n_workers + 1))
        return sparse.csr_array((value, self.column, start), shape=(self.n_workers, self.n_workers))


def pairs_of(call: Call, votes: Votes, signs: Any) -> Pairs:
    """Compute the agreement of all pairs of workers with common items.

    Parameters
    ----------
    call : Call
        The call.
    votes : Votes
        Its votes.
    signs : str
        The option of that name, which is checked here.

    Returns
    -------
    Pairs

    Raises
    ------
    EngineError
        Where there is but one class, the pairs do not fit in memory, or the option is unknown.
    """
    check_word("signs", signs, ("estimated", "positive"))
    if votes.n_classes < 2:
        raise EngineError(f"{call.method} compares agreement with chance, and with one class there is no chance")
    found = cooccurrence(call.labels)
    both = found.count[:, : votes.n_classes, : votes.n_classes]
    common, same = both.sum(axis=(1, 2)), np.trace(both, axis1=1, axis2=2)
    kept = common > 0  # others have only labels in common that are no class
    found = replace(found, first=found.first[kept], second=found.second[kept], count=found.count[kept])
    common, same = common[kept], same[kept]
    correlation = (votes.n_classes * np.minimum(same / common, 1.0) - 1) / (votes.n_classes - 1)
    row, column = np.concatenate([found.first, found.second]), np.concatenate([found.second, found.first])
    order = np.lexsort((column, row))
    parts = components(found)
    size = np.bincount(parts.of_worker, minlength=parts.n)
    return Pairs(
        row[order].astype(np.int64),
        column[order].astype(np.int64),
        np.tile(common, 2)[order],
        np.tile(correlation, 2)[order],
        parts.of_worker,
        int((parts.bipartite & (size > 1)).sum()),
        votes.n_workers,
    )


def limits(votes: Votes) -> tuple[float, float]:
    """Give the interval that skills are held in, so that no worker has infinite weight.

    Parameters
    ----------
    votes : Votes
        The votes.

    Returns
    -------
    tuple
        -1 / (K - 1) and 1, each by 1 / sqrt(items with votes) inside, but at most by 1 / K.
    """
    inside = min(1 / np.sqrt(len(np.unique(votes.item))), 1 / votes.n_classes)
    return -1 / (votes.n_classes - 1) + inside, 1 - inside


def signs_of(call: Call, pairs: Pairs) -> tuple[np.ndarray, dict[int, int]]:
    r"""Find who is below chance.

    The sign of :math:`C_{ml}` is the product of two workers' signs. The signs that fit most agreement, :math:`\max_z
    \sum n_{ml} C_{ml} z_m z_l` for common items :math:`n_{ml}`, are relaxed to the leading eigenvector of the table
    scaled by its absolute row sums. Only products are known, so that in each part of linked workers the sign is the one
    that leaves most agreement above chance. Where both leave as much, the first of the workers in the order of ids is
    taken to be above chance.

    Parameters
    ----------
    call : Call
        The call.
    pairs : Pairs
        The agreement.

    Returns
    -------
    tuple
        1 or -1, array [worker]; and the parts whose sign is open, each with the worker taken to be above chance.
    """
    value = pairs.common * pairs.correlation
    size = np.bincount(pairs.row, np.abs(value), pairs.n_workers)
    root = np.sqrt(np.where(size > 0, size, 1.0))
    table = pairs.table(value / (root[pairs.row] * root[pairs.column]))
    sign = np.ones(pairs.n_workers)
    undecided: dict[int, int] = {}
    place = np.argsort(natural_order(call.labels.workers))
    for part in np.unique(pairs.part[pairs.row[value < 0]]):
        workers = np.flatnonzero(pairs.part == part)
        _, vector = top_eigenvector(table[workers][:, workers])
        leaning = float(root[workers] @ vector)
        if abs(leaning) <= _BALANCED * float(root[workers] @ np.abs(vector)):
            sided = np.flatnonzero(vector)
            first = sided[place[workers[sided]].argmin()]
            undecided[int(part)], leaning = int(workers[first]), float(vector[first])
        vector = vector if leaning >= 0 else -vector
        sign[workers] = np.where(vector < 0, -1.0, 1.0)
    return sign, undecided


def by_skill(
    call: Call, votes: Votes, pairs: Pairs, skill: np.ndarray, undecided: dict[int, int], **rest: Any
) -> Found:
    r"""Decide by the vote that skills call for.

    A label weighs :math:`\log ((K - 1) p_m / (1 - p_m))`, which gives the probabilities of classes that are equally
    frequent beforehand.

    Parameters
    ----------
    call : Call
        The call.
    votes : Votes
        Its votes.
    pairs : Pairs
        Its pairs of workers.
    skill : array [worker]
        Skills of the workers; of those who share no item with others, anything.
    undecided : dict
        From `signs_of`.
    **rest
        Further fields of `Found`.

    Returns
    -------
    Found
        Workers who share no item with others are taken to be like the average of the others. With ``signs="estimated"``
        skills of a part of linked workers are turned where its gold calls for the other sign.
    """
    low, high = limits(votes)
    linked = pairs.degree > 0
    reservations = []
    if (votes.gold >= 0).any() and call.settings["signs"] == "estimated":
        reservations.append(GOLD_DECIDES_SIGNS)
        skill, undecided = _turned(votes, pairs, skill, undecided)
    elif (votes.gold >= 0).any():
        reservations.append('Gold decides its own items only: skills are estimated without it, and signs="positive".')
    if undecided:
        taken = [call.labels.workers[worker] for worker in undecided.values()]
        reservations.append(
            "As many labels speak for one side as for the other where these workers are taken to be above chance, as "
            f"the first of their part by id: {shorten(taken, 10)}. All classes there may be the wrong way round: gold "
            "for a few items decides."
        )
    usual = float(skill[linked].mean()) if linked.any() else high / 2
    skill = np.clip(np.where(linked, skill, usual), low, high)
    n_classes = votes.n_classes
    right = (skill * (n_classes - 1) + 1) / n_classes
    confusion = coins(right, n_classes, len(call.labels.label_values))
    even = np.full(n_classes, 1 / n_classes)
    return Found(
        decode(call.labels, Estimate(confusion, even, linked, floor=_TINY), rule="ml"),
        confusion=confusion,
        prevalence=even,
        by_worker={"skill": skill},
        warnings=(*_reservations(votes, pairs, linked), *reservations),
        **rest,
    )


def _turned(
    votes: Votes, pairs: Pairs, skill: np.ndarray, undecided: dict[int, int]
) -> tuple[np.ndarray, dict[int, int]]:
    """Turn the skills of the parts whose gold items the opposite would match better; leave what is open then."""
    low, high = limits(votes)
    n_classes = votes.n_classes
    table = agreement(votes)
    known = np.flatnonzero((votes.gold >= 0) & (np.bincount(votes.item, minlength=votes.n_items) > 0))
    part = np.zeros(votes.n_items, np.int64)
    part[votes.item] = pairs.part[votes.worker]  # those who label one item are linked
    n_votes = np.bincount(votes.item, minlength=votes.n_items)[known]
    weight = np.bincount(votes.item, votes.weight, votes.n_items)[known] / n_votes

    def hits(sign: int) -> np.ndarray:
        right = (np.clip(sign * skill, low, high) * (n_classes - 1) + 1) / n_classes
        says = np.where(pairs.degree > 0, np.log((n_classes - 1) * right / (1 - right)), 0.0)
        count = table.tally(says)[known]
        leads = leading(count - count.min(axis=1, keepdims=True))
        return np.asarray(leads[np.arange(len(known)), votes.gold[known]] & (leads.sum(axis=1) == 1))

    gain = np.bincount(part[known], weight * (hits(-1).astype(float) - hits(1)), int(pairs.part.max()) + 1)
    turn = gain >= ENOUGH_GOLD
    turn[[one for one in undecided if gain[one] > 0]] = True
    left = {one: worker for one, worker in undecided.items() if gain[one] == 0}
    return np.where(turn[pairs.part], -skill, skill), left


def _reservations(votes: Votes, pairs: Pairs, linked: np.ndarray) -> tuple[str, ...]:
    """Say what the pairs leave open."""
    said = []
    alone = len(np.setdiff1d(votes.worker, np.flatnonzero(linked)))
    if alone:
        said.append(
            f"Workers who share no item with others ({alone}) are taken to be like the others' average."
            if linked.any()
            else "No two workers share an item: all are taken to be equally good."
        )
    if pairs.open_parts:
        said.append(
            f"Parts of the crowd where no odd number of workers is linked in a ring ({pairs.open_parts}) tell only "
            "products of skills: workers on two sides are taken to be alike."
        )
    return tuple(said)
