"""Votes weighted by skills, agreement with the classes found, and what gold and the majority say of these."""

from typing import NamedTuple

import numpy as np

from bayescrowd.baselines._result import Votes
from bayescrowd.results.votes import leading

__all__ = ["ENOUGH_GOLD", "GOLD_DECIDES_SIGNS", "Agreement", "agreement", "contradicted"]

ENOUGH_GOLD = 3.0
"""So many more gold items must speak for the other sign: one or two may be items that everybody gets wrong."""

GOLD_DECIDES_SIGNS = (
    "Gold decides the sign only (which side is which class), where it speaks clearly, and its own items: skills are "
    "estimated without it. bc.fit uses gold throughout."
)


class Agreement(NamedTuple):
    """A vote table prepared for weighted votes.

    Parameters
    ----------
    votes : Votes
        The labels that are classes.
    cell : int array [annotation]
        Item and label of each as one number.
    n_votes : array [worker]
        Number of votes of each worker.
    """

    votes: Votes
    cell: np.ndarray
    n_votes: np.ndarray

    def tally(self, skill: np.ndarray) -> np.ndarray:
        """Add up the skills of those who vote for each class.

        Parameters
        ----------
        skill : array [worker]
            What a vote of each worker counts.

        Returns
        -------
        array [item, class]
            Zeros for an item without votes.
        """
        votes = self.votes
        size = votes.n_items * votes.n_classes
        total = np.bincount(self.cell, votes.weight * skill[votes.worker], size)
        return total.reshape(votes.n_items, votes.n_classes)

    def share(self, count: np.ndarray) -> np.ndarray:
        """Divide each item among its classes by their votes.

        Parameters
        ----------
        count : array [item, class]
            From `tally`.

        Returns
        -------
        array [item, class]
            Rows sum to one: equal shares where there are no votes, gold items at their known class.
        """
        total = count.sum(axis=1, keepdims=True)
        even = 1 / self.votes.n_classes
        return self.votes.clamped(np.where(total > 0, count / np.where(total > 0, total, 1.0), even))

    def leading(self, count: np.ndarray) -> np.ndarray:
        """Give each item to its leading class; classes that tie share it equally.

        Parameters
        ----------
        count : array [item, class]
            From `tally`.

        Returns
        -------
        array [item, class]
            Rows sum to one; gold items at their known class.
        """
        leads = leading(self.share(count))
        return np.asarray(leads / leads.sum(axis=1, keepdims=True))

    def rate(self, probability: np.ndarray) -> np.ndarray:
        """Give the share of each worker's votes that agree with the classes.

        Parameters
        ----------
        probability : array [item, class]
            The classes.

        Returns
        -------
        array [worker]
            A worker without votes has the share of all votes together.
        """
        votes = self.votes
        agrees = votes.weight * probability.reshape(-1)[self.cell]
        hits = np.bincount(votes.worker, agrees, votes.n_workers)
        known = self.n_votes > 0
        # Rounding must not lift a share above one.
        rate = np.minimum(hits / np.where(known, self.n_votes, 1.0), 1.0)
        return np.where(known, rate, min(hits.sum() / self.n_votes.sum(), 1.0))


def agreement(votes: Votes) -> Agreement:
    """Prepare votes.

    Parameters
    ----------
    votes : Votes
        The labels that are classes.

    Returns
    -------
    Agreement
    """
    n_votes = np.bincount(votes.worker, votes.weight, votes.n_workers)
    return Agreement(votes, votes.item * votes.n_classes + votes.label, n_votes)


def contradicted(votes: Votes, probability: np.ndarray) -> tuple[int, int]:
    """Count the items whose class is not the one that most votes are for.

    Parameters
    ----------
    votes : Votes
        The labels that are classes.
    probability : array [item, class]
        The classes found, gold items too by their labels alone.

    Returns
    -------
    tuple of int
        Items of another class than the majority's, and items with a clear majority; gold items are left out. Ties
        contradict nothing. (0, 0) where gold speaks for the classes found.
    """
    leads = leading(agreement(votes).tally(np.ones(votes.n_workers)))
    found = leading(probability)
    clear = leads.sum(axis=1) == 1
    single = found.sum(axis=1) == 1
    known = np.flatnonzero((votes.gold >= 0) & clear & single)
    right = found[known, votes.gold[known]]
    if right.sum() - (~right).sum() >= ENOUGH_GOLD:
        return 0, 0
    clear &= votes.gold < 0
    return int((clear & single & ~(leads & found).any(axis=1)).sum()), int(clear.sum())
