"""The one-coin model: each worker has one number, the probability of being right, and errs alike in every direction."""

from typing import Any, NamedTuple

import numpy as np

from bayescrowd.baselines._confusions import coins
from bayescrowd.baselines._options import check_number, check_whole, check_word
from bayescrowd.baselines._passes import TINY, little_changed
from bayescrowd.baselines._result import Found, Votes, begin, ending, finish, votes_of
from bayescrowd.data.votes import shares
from bayescrowd.fit import Fit

__all__ = ["one_coin"]


def one_coin(
    labels: Any,
    *,
    prevalence: str = "estimated",
    smoothing: float = 0.01,
    max_iter: int = 3000,
    tolerance: float = 1e-4,
) -> Fit:
    r"""Fit the one-coin model by expectation maximisation, from the soft vote.

    A worker names the class with probability :math:`p_m` and each of the other :math:`C - 1` classes with an equal part
    of the rest. A pass sets, with :math:`q_i(c)` the probability that item i is of class c,

    .. math:: p_m = \frac{\tau + \sum_i q_i(x_{im})}{C \tau + n_m}, \quad d_c \propto \tau + \sum_i q_i(c), \quad
              q_i(c) \propto d_c \prod_{m: x_{im} = c} p_m \prod_{m: x_{im} \ne c} \frac{1 - p_m}{C - 1} .

    Both steps are exact, so that the likelihood (with the pseudo-counts' part) never falls. A worker may be worse than
    chance; such labels then count against the class that they name.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class are left out.
    prevalence : {"estimated", "uniform"}
        Estimate the shares of the classes, or hold them equal.
    smoothing : float
        The pseudo-count :math:`\tau`, of every class and of every label that a worker may give. 0 maximises the
        likelihood.
    max_iter : int
        Most passes.
    tolerance : float
        Converged when two passes in a row change no class probability by more than this.

    Returns
    -------
    Fit
        With confusion matrices and prevalence. A worker without votes has the average worker's.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.one_coin(bc.datasets.load("anesthesia"))
    >>> fit.workers()["accuracy"].round(2).tolist()
    [0.89, 0.7, 0.81, 0.85, 0.81]

    References
    ----------
    Dawid, Skene (1979), Applied Statistics 28, of which it is a special case. Zhang, Chen, Zhou, Jordan (2014),
    Spectral methods meet EM, NIPS, for the name.
    """
    call = begin("one-coin", labels, prevalence=prevalence, smoothing=smoothing, max_iter=max_iter, tolerance=tolerance)
    check_word("prevalence", prevalence, ("estimated", "uniform"))
    check_number("smoothing", smoothing, positive=False)
    check_whole("max_iter", max_iter, 1)
    check_number("tolerance", tolerance, positive=False)
    votes = votes_of(call)
    crowd = _Crowd(votes, votes.item * votes.n_classes + votes.label, float(smoothing), prevalence == "estimated")
    # Items without votes would hold the prevalence back; a known class counts without votes.
    counts = (np.bincount(votes.item, votes.weight, votes.n_items) > 0) | (votes.gold >= 0)
    probability, objectives = np.asarray(shares(labels)), []
    done, before, settled = 0, np.inf, False
    while done < max_iter and not settled:
        right, share = crowd.maximised(probability, counts)
        after, objective = crowd.classes(right, share)
        change = float(np.abs(after - probability).max())
        settled = max(before, change) <= tolerance
        probability, before, done = after, change, done + 1
        objectives.append(objective)
    right, share = crowd.maximised(probability, counts)
    found = Found(
        probability,
        confusion=coins(right, votes.n_classes, len(labels.label_values)),
        prevalence=share,
        objective=np.array(objectives),
        converged=settled,
        sentence=ending(done, settled, little_changed(tolerance)),
        details={"n_passes": done},
    )
    return finish(call, found)


class _Crowd(NamedTuple):
    """Votes, the item and label of each as one number, and what the model takes of prevalence and pseudo-counts."""

    votes: Votes
    cell: np.ndarray
    smoothing: float
    estimated: bool

    def maximised(self, probability: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the probability of being right [worker] and the prevalence [class], given the classes."""
        votes = self.votes
        n_votes = np.bincount(votes.worker, votes.weight, votes.n_workers)
        hits = np.bincount(votes.worker, votes.weight * probability.reshape(-1)[self.cell], votes.n_workers)
        total = n_votes + votes.n_classes * self.smoothing
        known = n_votes > 0
        right = np.where(known, (hits + self.smoothing) / np.where(known, total, 1.0), hits.sum() / n_votes.sum())
        if not self.estimated:
            return np.minimum(right, 1.0), np.full(votes.n_classes, 1 / votes.n_classes)
        share = probability[counts].sum(axis=0) + self.smoothing
        return np.minimum(right, 1.0), share / share.sum()

    def classes(self, right: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, float]:
        """Give the probabilities of the classes, and the objective: log likelihood and the pseudo-counts' part."""
        votes, n_classes = self.votes, self.votes.n_classes
        log_right = np.log(np.maximum(right, TINY))
        log_wrong = np.log(np.maximum((1 - right) / max(n_classes - 1, 1), TINY))
        log_share = np.log(np.maximum(share, TINY))
        # As if all votes were wrong, and what each is worth where it is right.
        worth = votes.weight * (log_right - log_wrong)[votes.worker]
        table = np.bincount(self.cell, worth, votes.n_items * n_classes).reshape(votes.n_items, n_classes) + log_share
        known = np.flatnonzero(votes.gold >= 0)
        given = table[known, votes.gold[known]]
        table[known] = -np.inf
        table[known, votes.gold[known]] = given
        largest = table.max(axis=1, keepdims=True)
        table = np.exp(table - largest)
        total = table.sum(axis=1, keepdims=True)
        n_votes = np.bincount(votes.worker, votes.weight, votes.n_workers)
        pseudo = np.sum((log_right + (n_classes - 1) * log_wrong)[n_votes > 0])
        pseudo += np.sum(log_share) if self.estimated else 0.0
        likelihood = np.sum(largest) + np.sum(np.log(total)) + n_votes @ log_wrong
        return table / total, float(likelihood + self.smoothing * pseudo)
