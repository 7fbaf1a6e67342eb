r"""What the spectral rules for two classes share: the table of answers, eigenvectors, signs, and ordered classes.

With two classes an answer is a number, +1 for the second class and -1 for the first. :math:`A_{im}` is what worker m
said of item i, and 0 where there is no answer. A worker's labels of one item count as one answer: repeats are averaged,
with the square root of their total weight, so that weights that all labels of an item share count as that many items.

More than two classes are decided where they are ordered, lowest first: threshold l asks whether the class is above the
l-th one, each threshold is a problem of two classes, and an item has the first class that it is not above.

References
----------
Karger, Oh, Shah (2013), Efficient crowdsourcing for multi-class labeling, SIGMETRICS, for the thresholds.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from bayescrowd.baselines._agreement import ENOUGH_GOLD, GOLD_DECIDES_SIGNS, contradicted
from bayescrowd.baselines._options import check_flag
from bayescrowd.baselines._result import Call, Found, Votes, votes_of
from bayescrowd.errors import EngineError, shorten

__all__ = [
    "NOISE",
    "Answers",
    "Scores",
    "answers_of",
    "decided",
    "gram_operator",
    "top_eigenvector",
    "turned",
    "upright",
]

NOISE = 1e-10
"""Entries of an eigenvector below this share of its largest one are rounding."""

_TIE = 1e-9
"""Sums below this share of the sizes of their terms are zero."""

_DENSE = 400
"""Symmetric matrices up to this size are decomposed as they are."""


class Answers(NamedTuple):
    """One entry for each item and worker who labelled it.

    Parameters
    ----------
    item, worker : int array [answer]
        Codes; sorted by item, then by worker.
    root : array [answer]
        Square root of the total weight: 1 without weights and repeats.
    net : array [threshold, answer]
        The answer: +1 above the threshold, -1 not above, the mean of repeats between; times ``root``.
    n_items, n_workers : int
        Sizes.
    """

    item: np.ndarray
    worker: np.ndarray
    root: np.ndarray
    net: np.ndarray
    n_items: int
    n_workers: int

    @property
    def voted(self) -> np.ndarray:
        """Whether each item has an answer, bool array [item]."""
        return np.bincount(self.item, minlength=self.n_items) > 0

    def table(self, value: np.ndarray) -> sparse.csr_array:
        """Put values of the answers into a sparse table of items by workers.

        Parameters
        ----------
        value : array [answer]
            The values.

        Returns
        -------
        csr_array [item, worker]
        """
        start = np.searchsorted(self.item, np.arange(self.n_items + 1))
        return sparse.csr_array((value, self.worker, start), shape=(self.n_items, self.n_workers))

    def by_item(self, value: np.ndarray) -> np.ndarray:
        """Sum values of the answers by item.

        Parameters
        ----------
        value : array [answer]
            The values.

        Returns
        -------
        array [item]
        """
        return np.bincount(self.item, value, self.n_items)

    def by_worker(self, value: np.ndarray) -> np.ndarray:
        """Sum values of the answers by worker.

        Parameters
        ----------
        value : array [answer]
            The values.

        Returns
        -------
        array [worker]
        """
        return np.bincount(self.worker, value, self.n_workers)

    def agreement(self, net: np.ndarray, message: np.ndarray) -> np.ndarray:
        """Weigh each worker's agreement with messages.

        Parameters
        ----------
        net : array [answer]
            One row of `net`.
        message : array [answer]
            What the answer is compared with.

        Returns
        -------
        array [worker]
            Between -1 (says the opposite) and 1; 0 for workers without answers.
        """
        product = net * message
        size = self.by_worker(np.abs(product))
        return self.by_worker(product) / np.where(size > 0, size, 1.0)


class Scores(NamedTuple):
    """What a rule finds for one threshold.

    Parameters
    ----------
    item : array [item]
        Positive where the class is above.
    size : array [item]
        Sum of the sizes of the terms that ``item`` is a sum of: what rounding is relative to.
    skill : array [worker]
        From -1 to 1, 0 for a worker who guesses.
    sign : float
        What scores and skills are to be multiplied with: 1, -1, or 0 where nothing tells the sign.
    """

    item: np.ndarray
    size: np.ndarray
    skill: np.ndarray
    sign: float = 1.0

    @property
    def side(self) -> np.ndarray:
        """Signs of the scores as they stand, rounding aside, array [item]."""
        return np.where(np.abs(self.item) <= _TIE * self.size, 0.0, np.sign(self.item))


def answers_of(call: Call, ordered: Any) -> tuple[Call, Votes, Answers]:
    """Take the answers of a table of two classes, or of ordered ones.

    Parameters
    ----------
    call : Call
        The call.
    ordered : bool
        Whether the user says that classes are ordered.

    Returns
    -------
    tuple
        The call, with ``ordered`` as it was used; the votes; and the answers with one row of ``net`` for each
        threshold.

    Raises
    ------
    EngineError
        Where there are more than two classes and nobody says that they are ordered, or fewer than two.
    """
    check_flag("ordered", ordered)
    labels = call.labels
    if len(labels.classes) > 2 and not (ordered or labels.ordered):
        raise EngineError(
            f"{call.method} decides between two classes, and these labels have {len(labels.classes)}: "
            f"{shorten(list(labels.classes), 10)}. Where the classes are ordered, lowest first as they stand here, "
            "ordered=True decides through the thresholds between them"
        )
    votes = votes_of(call, binary=len(labels.classes) < 2)
    key, place = np.unique(votes.item * votes.n_workers + votes.worker, return_inverse=True)
    root = np.sqrt(np.bincount(place, votes.weight, len(key)))
    above = [
        np.bincount(place, np.where(votes.label > threshold, votes.weight, -votes.weight), len(key))
        for threshold in range(votes.n_classes - 1)
    ]
    used = replace(call, settings={**call.settings, "ordered": bool(ordered or labels.ordered)})
    return (
        used,
        votes,
        Answers(
            key // votes.n_workers, key % votes.n_workers, root, np.array(above) / root, votes.n_items, votes.n_workers
        ),
    )


def top_eigenvector(matrix: Any) -> tuple[float, np.ndarray]:
    """Find the largest eigenvalue of a symmetric matrix and its eigenvector.

    Parameters
    ----------
    matrix : array, sparse array or LinearOperator [n, n]
        The matrix.

    Returns
    -------
    tuple
        Eigenvalue, and eigenvector of length 1 with rounding set to zero; it has no sign of its own.

    Raises
    ------
    EngineError
        Where the Lanczos iterations do not settle.
    """
    n = matrix.shape[0]
    if n <= _DENSE:
        dense = matrix @ np.eye(n)
        value, vectors = eigh((dense + dense.T) / 2, subset_by_index=[n - 1, n - 1])
    else:
        # A start of both signs is orthogonal to no eigenvector that one could name; a fixed one repeats results.
        start = np.random.default_rng(0).standard_normal(n)
        try:
            value, vectors = eigsh(matrix, k=1, which="LA", v0=start, ncv=min(n, 40), maxiter=max(3000, 10 * n))
        except ArpackNoConvergence:
            raise EngineError(f"no leading eigenvector was found for the {n} workers of this table") from None
    vector = vectors[:, 0]
    vector[np.abs(vector) < NOISE * np.abs(vector).max()] = 0.0
    return float(value[0]), vector


def gram_operator(table: sparse.csr_array) -> LinearOperator:
    """Give the product of a table's transpose with the table, without forming it.

    Parameters
    ----------
    table : csr_array [item, worker]
        The table.

    Returns
    -------
    LinearOperator [worker, worker]
    """
    back = table.T.tocsr()
    n = table.shape[1]
    multiply = lambda x: back @ (table @ x)
    return LinearOperator((n, n), matvec=multiply, matmat=multiply, dtype=float)


def upright(scores: Scores, agreement: float, size: float) -> Scores:
    """Say which sign a rule's scores are to have.

    Parameters
    ----------
    scores : Scores
        Scores up to a common sign.
    agreement : float
        Negative where the sign is to be turned.
    size : float
        What rounding of ``agreement`` is relative to.

    Returns
    -------
    Scores
        As they are, with their `sign`, for `turned`.
    """
    return scores._replace(sign=0.0 if abs(agreement) <= _TIE * size else float(np.sign(agreement)))


def turned(votes: Votes, answers: Answers, scores: list[Scores]) -> list[Scores]:
    """Turn scores by their signs, or by gold where it says the opposite.

    Parameters
    ----------
    votes : Votes
        The votes.
    answers : Answers
        The answers.
    scores : list of Scores
        One for each threshold.

    Returns
    -------
    list of Scores
        All zero where nothing tells the sign. Gold turns a sign where `ENOUGH_GOLD` more of its items are contradicted
        than matched, and decides one that is open whenever it prefers a side.
    """
    n_answers = answers.by_item(np.ones(len(answers.item)))
    # An item counts as often as its labels do: once without weights.
    weight = np.where(votes.gold >= 0, answers.by_item(answers.root**2) / np.maximum(n_answers, 1), 0.0)
    found = []
    for threshold, score in enumerate(scores):
        matches = float((weight * score.side) @ np.where(votes.gold > threshold, 1.0, -1.0))
        sign = score.sign
        if sign == 0 or sign * matches <= -ENOUGH_GOLD:
            sign = float(np.sign(matches))
        found.append(Scores(sign * score.item, score.size, sign * score.skill))
    return found


def decided(call: Call, votes: Votes, answers: Answers, scores: list[Scores], **rest: Any) -> Found:
    """Decide by the signs of scores.

    Parameters
    ----------
    call : Call
        The call.
    votes : Votes
        Its votes.
    answers : Answers
        Its answers.
    scores : list of Scores
        One for each threshold, from `turned`.
    **rest
        Further fields of `Found`.

    Returns
    -------
    Found
        Probabilities are 0 and 1. Where scores are zero, the classes that the others leave open share the item equally:
        all of them where all scores are zero, as for an item without votes.
    """
    sign = np.empty((len(scores), votes.n_items))
    for threshold, (score, net) in enumerate(zip(scores, answers.net, strict=True)):
        one_sided = bool((net > 0).all() or (net < 0).all())  # nothing to weigh, nor to decompose
        item = answers.by_item(net) if one_sided else score.item
        sign[threshold] = np.sign(item) if one_sided else score.side
    up = (1 + sign) / 2
    reached = np.vstack([np.ones(votes.n_items), np.cumprod(up, axis=0)])
    possible = np.vstack([reached[:-1] * (1 - up), reached[-1:]]).T > 0
    probability = possible / possible.sum(axis=1, keepdims=True)
    voted = answers.voted
    probability[~voted] = 1 / votes.n_classes
    largest = np.abs(scores[0].item[voted]).max(initial=0.0)
    by_item = {"score": np.where(voted, scores[0].item, 0.0) / (largest or 1.0)} if len(scores) == 1 else {}
    undecided = int((voted & (probability.max(axis=1) < 1)).sum())
    said = []
    if undecided:
        said.append(
            f"{call.method} says nothing of {undecided} of the {int(voted.sum())} items with votes: their scores are "
            "zero, and classes share them."
        )
    other, clear = contradicted(votes, probability)
    if 2 * other > clear:
        said.append(
            f"{call.method} contradicts the majority on {other} of the {clear} items with a clear one: its sides may "
            "be the wrong way round, as nothing but chance, or a rule that assumes mostly good workers, tells which is "
            "which. Give gold for a few items, or compare with ghosh_svd, whose sign is the vote's, and with bc.fit."
        )
    if (votes.gold >= 0).any():
        said.append(GOLD_DECIDES_SIGNS)
    return Found(
        votes.clamped(probability),
        by_worker={"skill": np.mean([score.skill for score in scores], axis=0)} | rest.pop("by_worker", {}),
        by_item=by_item,
        warnings=tuple(said),
        **rest,
    )
