"""A few passes of EM over all labels, from a moment estimate: what the second moments leave open, the labels settle.

The engine ``"em"`` does the same for any model, to the end and accelerated; here are the plain passes that the papers
append to their estimates (MultiSPA-D&S), with the prevalence held equal where wanted.
"""

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.moments.estimate import FLOOR, Estimate, counts_given, decode, floored

__all__ = ["polished"]


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
    n_labels = np.bincount(labels.worker_code, minlength=labels.n_workers)
    named = estimate.prevalence > 0
    flat = named / max(int(named.sum()), 1)
    for _ in range(passes):
        probability = decode(labels, estimate, rule="ml" if prevalence == "uniform" else "map")
        counts = counts_given(labels, probability)
        total = counts.sum(axis=2, keepdims=True)
        confusion = np.where(total > 0, counts / np.where(total > 0, total, 1.0), estimate.confusion)
        share = probability[np.bincount(labels.item_code, minlength=labels.n_items) > 0].mean(axis=0)
        estimate = estimate._replace(
            confusion=floored(confusion, FLOOR),
            prevalence=flat if prevalence == "uniform" else share,
            estimated=estimate.estimated | (n_labels > 0),
            floor=FLOOR,
        )
    return estimate
