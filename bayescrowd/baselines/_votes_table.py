"""The votes of a table as a table of their own: what the moment estimators and the passes of EM compute with."""

from bayescrowd.baselines._result import Votes

__all__ = ["VotesTable"]


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
