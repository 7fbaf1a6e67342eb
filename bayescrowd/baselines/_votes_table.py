"""The votes of a table as a table of their own: what the moment estimators and the passes of EM compute with."""

import numpy as np

from bayescrowd.baselines._result import Votes

__all__ = ["VotesTable", "with_other_labels"]


class VotesTable:
    """A label table of the labels that are classes, and of nothing else.

    Parameters
    ----------
    votes : Votes
        The votes.
    """

    def __init__(self, votes: Votes) -> None:
        self.item_code = votes.item
        self.worker_code = votes.worker
        self.label_code = votes.label
        self.weight = None if (votes.weight == 1).all() else votes.weight
        self.gold_code = votes.gold
        self.n_items, self.n_workers = votes.n_items, votes.n_workers
        self.classes = list(range(votes.n_classes))
        self.label_values = self.classes


def with_other_labels(confusion: np.ndarray, n_labels: int) -> np.ndarray:
    """Add the label values that are no class, which nobody is believed to give.

    Parameters
    ----------
    confusion : array [worker, class, class]
        Confusion matrices.
    n_labels : int
        Number of label values.

    Returns
    -------
    array [worker, class, label]
        Zero in the further columns.
    """
    return np.pad(confusion, ((0, 0), (0, 0), (0, n_labels - confusion.shape[2])))
