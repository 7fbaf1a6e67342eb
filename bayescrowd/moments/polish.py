"""A few passes of EM over all labels, from a moment estimate: what the second moments leave open, the labels settle.

The engine ``"em"`` does the same for any model, to the end and accelerated; here are the plain passes that the papers
append to their estimates (MultiSPA-D&S), with the prevalence held equal where wanted.
"""

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.moments.estimate import FLOOR, Estimate, counts_given, decode, floored

__all__ = ["given_classes", "polished"]


def polished(labels: Table, estimate: Estimate, passes: int, *, prevalence: str = "estimated") -> Estimate:
    """Run EM passes from an estimate.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    estimate : Estimate
        Where to begin.
    passes : int
        How many.
    prevalence : {"estimated", "uniform"}
        Equal class frequencies, as the papers have them, or estimated ones.

    Returns
    -------
    Estimate
        Every worker with labels is estimated.
    """
    for _ in range(passes):
        probability = decode(labels, estimate, rule="ml" if prevalence == "uniform" else "map")
        estimate = given_classes(labels, probability, estimate, prevalence=prevalence)
    return estimate


def given_classes(
    labels: Table, probability: np.ndarray, estimate: Estimate, *, prevalence: str = "estimated"
) -> Estimate:
    """Re-estimate the parameters from probabilities of the items' classes: the second half of a pass of EM.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    probability : array [item, class]
        Rows sum to one.
    estimate : Estimate
        Rows of confusion matrices for which there are no labels stay as they are here; so do classes that take no part.
    prevalence : {"estimated", "uniform"}
        As in `polished`.

    Returns
    -------
    Estimate
        Every worker with labels is estimated.
    """
    counts = counts_given(labels, probability)
    total = counts.sum(axis=2, keepdims=True)
    confusion = np.where(total > 0, counts / np.where(total > 0, total, 1.0), estimate.confusion)
    labelled = np.bincount(labels.item_code, minlength=labels.n_items) > 0
    named = estimate.prevalence > 0
    even = named / max(int(named.sum()), 1)
    return estimate._replace(
        confusion=floored(confusion, FLOOR),
        prevalence=even if prevalence == "uniform" else probability[labelled].mean(axis=0),
        estimated=estimate.estimated | (np.bincount(labels.worker_code, minlength=labels.n_workers) > 0),
        floor=FLOOR,
    )
