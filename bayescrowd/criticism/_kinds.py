"""What labels alone tell of errors that workers make together: ordinary items, and a hard kind of items.

On ordinary items worker w says l of class c with probability :math:`C_w[c, l]`, independently of the others (Dawid and
Skene). On hard items a label is, with a probability that all share, a guess at random among the labels in use, and else
as on ordinary items. Both kinds are fitted by EM. The labels show how many items are of the hard kind and how far
labels agree there, but not whether what most labels say there is *right*: swapping the class of a hard item with the
one that its labels name next leaves every probability of labels as it was. So there are readings, from "always right"
to "always wrong", and they differ in how far workers err together. Nor do labels show how much many of them tell beyond
one: where workers share what misleads them, all labels of an item may count as a single one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from bayescrowd.criticism._panel import Panel, correlation_of, shared_errors

__all__ = [
    "Consensus",
    "confusion_of",
    "consensus_of",
    "is_established",
    "reading",
    "with_hard_kind",
]

_SMOOTH = 1.0
"""Labels in each row of a confusion matrix that come from all workers together."""

_MAX_PASSES = 400
_TOLERANCE = 1e-4
_START_SHARE, _START_GUESS = 0.2, 0.5
_TINY = 1e-300

_DOUBT = 0.01
"""Upper tail of the chi-square beyond which a likelihood ratio establishes a hard kind."""


@dataclass(frozen=True, eq=False)
class Consensus:
    """One or two kinds of items, fitted to answers.

    Parameters
    ----------
    ordinary, hard : array [item, class]
        Probability of each class together with that kind; both kinds of an item sum to one.
    share : array [kind, class]
        Share of each kind and class among the items; one row without a hard kind.
    confusion : array [worker, class, label]
        Confusion matrices on ordinary items.
    guess : float
        Probability of a guess on hard items; 0 without a hard kind.
    guesses : array [class, label]
        Probabilities of the labels where one is guessed: that of the class as often as by chance, others as they come.
    log_likelihood : float
        Of all answers.
    """

    ordinary: np.ndarray
    hard: np.ndarray
    share: np.ndarray
    confusion: np.ndarray
    guess: float
    guesses: np.ndarray
    log_likelihood: float

    @property
    def hard_share(self) -> float:
        """Share of hard items."""
        return float(self.share[1:].sum())

    @property
    def probability(self) -> np.ndarray:
        """Class probabilities where what most labels say of hard items is taken as right."""
        return self.ordinary + self.hard

    def hard_confusion(self, weight: np.ndarray) -> np.ndarray:
        """Average confusion matrix on hard items, array [class, label].

        Parameters
        ----------
        weight : array [worker]
            Answers of each worker.

        Returns
        -------
        array [class, label]
        """
        average = np.tensordot(weight / weight.sum(), self.confusion, 1)
        return np.asarray((1 - self.guess) * average + self.guess * self.guesses)


def consensus_of(
    panel: Panel,
    start: np.ndarray,
    *,
    item_weight: np.ndarray | None = None,
    passes: int = _MAX_PASSES,
) -> Consensus:
    """Fit one kind of items: the model of Dawid and Skene.

    Parameters
    ----------
    panel : Panel
        The answers, each raised to the power of its weight; known classes are kept.
    start : array [item, class]
        Class probabilities to start from.
    item_weight : array [item], optional
        How often each item counts.
    passes : int
        Most passes.

    Returns
    -------
    Consensus
    """
    state = _clamped(start, panel)[:, None]
    return _em(panel, state, 0.0, None, None, item_weight, passes)


def with_hard_kind(
    panel: Panel,
    before: Consensus,
    *,
    item_weight: np.ndarray | None = None,
    passes: int = _MAX_PASSES,
) -> Consensus:
    """Fit two kinds of items.

    Parameters
    ----------
    panel, item_weight, passes
        As `consensus_of`.
    before : Consensus
        Where to start: one kind, or two.

    Returns
    -------
    Consensus
    """
    if before.hard_share:
        state, guess = np.stack([before.ordinary, before.hard], axis=1), before.guess
    else:
        parts = [(1 - _START_SHARE) * before.ordinary, _START_SHARE * before.ordinary]
        state, guess = np.stack(parts, axis=1), _START_GUESS
    return _em(panel, state, guess, before.confusion, before.guesses, item_weight, passes)


def confusion_of(panel: Panel, probability: np.ndarray) -> np.ndarray:
    """Estimate confusion matrices where the classes are known.

    Parameters
    ----------
    panel : Panel
        The answers.
    probability : array [item, class]
        Probabilities of the classes.

    Returns
    -------
    array [worker, class, label]
    """
    return _confusion(panel.by_label_transposed @ probability, panel)


def is_established(one: Consensus, two: Consensus) -> bool:
    """Say whether the labels show a hard kind of items beyond chance.

    Parameters
    ----------
    one, two : Consensus
        Without and with it.

    Returns
    -------
    bool
        A likelihood ratio beyond the chi-square with a degree of freedom per further parameter. That is a cautious
        limit and no exact test, since without a hard kind parameters lie on an edge: 30 simulated panels of independent
        workers gave at most one false alarm.
    """
    n_classes, n_used = one.ordinary.shape[1], int((two.guesses > 0).any(axis=0).sum())
    further = n_classes + 1 + n_classes * max(n_used - 2, 0)
    return bool(2 * (two.log_likelihood - one.log_likelihood) > chdtri(further, _DOUBT))


def as_one_label(panel: Panel, consensus: Consensus, item_weight: np.ndarray | None = None) -> float:
    """Compute the correlation of errors if the labels of an item tell as much of its class as one drawn from them.

    Parameters
    ----------
    panel : Panel
        The answers.
    consensus : Consensus
        Its confusion matrices and shares are used.
    item_weight : array [item], optional
        How often each item counts.

    Returns
    -------
    float
    """
    logs, _ = _log_tables(consensus.confusion, 0.0, consensus.guesses)
    by_label = logs[:, : panel.n_classes] + np.log(np.maximum(consensus.share.sum(axis=0), _TINY))
    by_label = np.exp(by_label - by_label.max(axis=1, keepdims=True))
    by_label /= by_label.sum(axis=1, keepdims=True)
    probability = np.where(_allowed(panel), panel.by_label @ by_label + _TINY, 0.0)
    probability /= probability.sum(axis=1, keepdims=True)
    if item_weight is not None:
        probability = probability * item_weight[:, None]
    return correlation_of(shared_errors(panel, probability))


def reading(
    panel: Panel, consensus: Consensus, wrong: np.ndarray | float, item_weight: np.ndarray | None = None
) -> float:
    """Compute the correlation of errors if what is taken for true of hard items is wrong in a given share of them.

    Parameters
    ----------
    panel : Panel
        The answers.
    consensus : Consensus
        Two kinds of items.
    wrong : float or array [class]
        That share, for each class that may be taken for true; where it is wrong, the class that labels of hard items
        name next is right. A known class is never wrong.
    item_weight : array [item], optional
        How often each item counts.

    Returns
    -------
    float
    """
    n_classes = panel.n_classes
    moved = consensus.hard * np.where(panel.known[:, None] >= 0, 0.0, np.broadcast_to(wrong, n_classes))
    square = consensus.hard_confusion(panel.n_by_worker)[:, :n_classes].copy()
    square[np.arange(n_classes), np.arange(n_classes)] = -1.0
    probability = consensus.probability - moved
    np.add.at(probability.T, square.argmax(axis=1), moved.T)
    if item_weight is not None:
        probability = probability * item_weight[:, None]
    return correlation_of(shared_errors(panel, probability))


def _em(
    panel: Panel,
    state: np.ndarray,
    guess: float,
    confusion_before: np.ndarray | None,
    guesses_before: np.ndarray | None,
    item_weight: np.ndarray | None,
    passes: int,
) -> Consensus:
    """EM over states kind x class; confusion matrices are drawn a little to their average over workers."""
    n_kinds, n_classes, n_labels = state.shape[1], panel.n_classes, panel.n_labels
    weight = np.ones(panel.n_items) if item_weight is None else item_weight
    table, transposed, used = panel.by_label, panel.by_label_transposed, panel.used
    closed = np.tile(np.where(_allowed(panel), 0.0, -np.inf), n_kinds)
    flat = state.reshape(panel.n_items, -1)
    own = np.ones((panel.n_workers * n_labels, n_classes))
    guesses = _guesses(np.zeros((n_classes, n_labels)), used) if guesses_before is None else guesses_before
    confusion = np.zeros((0, n_classes, n_labels))
    if confusion_before is not None and n_kinds == 2:
        own = _log_tables(confusion_before, guess, guesses)[1]
    last, total = -np.inf, -np.inf
    for done in range(max(passes, 1)):
        weighted = flat * weight[:, None]
        counts = transposed @ weighted
        if n_kinds == 2:
            hard_counts = counts[:, n_classes:]
            counts = counts[:, :n_classes] + hard_counts * own
            guessed = hard_counts * (1 - own)
            if done:
                guess = float((guessed.sum() + 0.5) / (hard_counts.sum() + 1.0))
                guesses = _guesses(guessed.reshape(-1, n_labels, n_classes).sum(axis=0).T, used)
        confusion = _confusion(counts, panel)
        share = weighted.sum(axis=0) + 0.5 / n_classes
        share = share / share.sum()
        logs, own = _log_tables(confusion, guess, guesses)
        flat = table @ logs[:, : n_kinds * n_classes] + np.log(share) + closed
        top = flat.max(axis=1, keepdims=True)
        flat = np.exp(flat - top)
        below = flat.sum(axis=1, keepdims=True)
        flat /= below
        last, total = total, float(weight @ (top + np.log(below))[:, 0])
        if abs(total - last) < _TOLERANCE:
            break
    assigned = flat.reshape(panel.n_items, n_kinds, n_classes)
    hard = assigned[:, 1] if n_kinds == 2 else np.zeros_like(assigned[:, 0])
    if n_kinds == 1:  # errors on hard items, were there any, would be of the usual kind
        guesses = _guesses(counts.reshape(-1, n_labels, n_classes).sum(axis=0).T, used)
    by_kind = share.reshape(n_kinds, n_classes)
    return Consensus(assigned[:, 0], hard, by_kind, confusion, guess if n_kinds == 2 else 0.0, guesses, total)


def _guesses(counts: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Spread guesses over labels: that of the class with the probability of chance, others as they were counted."""
    chance = 1 / max(int(used.sum()), 1)
    others = counts + 0.5 * used
    codes = np.arange(len(counts))
    others[codes, codes] = 0.0
    total = others.sum(axis=1, keepdims=True)
    guesses = np.divide((1 - chance) * others, total, out=np.zeros_like(others), where=total > 0)
    guesses[codes, codes] = 1 - guesses.sum(axis=1)
    return guesses


def _confusion(counts: np.ndarray, panel: Panel) -> np.ndarray:
    counts = counts.reshape(panel.n_workers, panel.n_labels, panel.n_classes).transpose(0, 2, 1)
    pooled = counts.sum(axis=0) + 0.5 * panel.used / panel.used.sum()
    pooled = pooled / pooled.sum(axis=1, keepdims=True)
    return np.asarray((counts + _SMOOTH * pooled) / (counts.sum(axis=2, keepdims=True) + _SMOOTH))


def _log_tables(confusion: np.ndarray, guess: float, guesses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities [worker x label, kind x class]; share of hard labels not guessed [worker x label, class]."""
    plain = confusion.transpose(0, 2, 1).reshape(-1, confusion.shape[1])
    mixed = np.maximum((1 - guess) * plain + guess * np.tile(guesses.T, (len(confusion), 1)), _TINY)
    both = np.concatenate([np.maximum(plain, _TINY), mixed], axis=1)
    return np.log(both), (1 - guess) * plain / mixed


def _allowed(panel: Panel) -> np.ndarray:
    """Classes that an item can have, bool array [item, class]."""
    return (panel.known[:, None] < 0) | (panel.known[:, None] == np.arange(panel.n_classes))


def _clamped(start: np.ndarray, panel: Panel) -> np.ndarray:
    table = np.where(_allowed(panel), np.clip(start, 1e-6, None), 0.0)
    return np.asarray(table / table.sum(axis=1, keepdims=True))
