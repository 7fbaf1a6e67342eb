r"""SymNMF: the completed matrix of pair statistics as a symmetric product of nonnegative factors.

With all blocks at hand, :math:`X = H H^T`, :math:`H = [A_1; \ldots; A_M] D^{1/2} \ge 0`. Any square root is
:math:`U = H Q^T` with an orthogonal Q, and the Q that makes :math:`U Q` nonnegative is found by turns:

.. math:: H \leftarrow \max(U Q, \alpha_t), \qquad W \Sigma V^T = H^T U, \qquad Q \leftarrow V W^T.

For thresholds :math:`\alpha_t` that do not rise, :math:`\lVert H - U Q \rVert` never rises. The columns of :math:`A_m`
sum to one, so the column sums of every block :math:`H_m` are the roots of the prevalence, and dividing by them gives
:math:`A_m`.

Second moments fix H only up to rotations that keep it nonnegative. Zeros in the confusions leave no such rotation;
where there are few, several restarts reach the same objective with different confusions, and their spread says how much
is left open. For two classes see `bayescrowd.moments.binary`. The likelihood knows more than the second moments: a few
passes of EM from here (``polish``) settle it.

References
----------
Ibrahim, Fu (2021), Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization, ICML, eq. (12), (13) and proposition 1. Huang, Sidiropoulos, Swami (2014), Non-negative matrix
factorization revisited, for constant thresholds of 0.
"""

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.data.votes import shares
from bayescrowd.errors import EngineError
from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.estimate import Estimate, counts_given, floored, smoothed_confusion
from bayescrowd.moments.factorisation import Rotated, extract, nonnegative
from bayescrowd.moments.graph import Components, components
from bayescrowd.moments.imputation import designated_blocks, factor_of_blocks, robust_factor
from bayescrowd.moments.permutation import align_together, best_order
from bayescrowd.moments.voted import on_voted_classes

__all__ = ["IMPUTATIONS", "symnmf"]

IMPUTATIONS = ("robust", "designated")

_AS_GOOD = 0.05
"""Restarts whose objective is within this fraction of the best one's are as good."""

_BELIEVED = 1e-3
"""The factor's zeros are where rounding and noise cut it off: less than this is believed of nobody."""

_ZERO = 1e-15
"""Objectives below this share of the squared length of U are zero."""


@on_voted_classes
def symnmf(
    labels: Table,
    *,
    imputation: str = "robust",
    designated: tuple[int, ...] | None = None,
    loss: str = "absolute",
    weights: str = "count",
    least: float = 0.0,
    threshold: float = 0.0,
    decay: float = 0.8,
    max_iter: int = 500,
    tolerance: float = 1e-12,
    restarts: int = 10,
    sweeps: int = 100,
    seed: int = 0,
    pairs: Cooccurrence | None = None,
) -> Estimate:
    """Estimate confusion matrices and prevalence by symmetric nonnegative factorisation.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    imputation : {"robust", "designated"}
        How missing blocks are filled in.
    designated : tuple of int, optional
        For ``"designated"``: codes of the workers to pass through; by default the best ones for every block.
    loss, weights : str
        As in `robust_factor`.
    least : float
        Pairs with fewer common items do not count.
    threshold, decay : float
        ``alpha_t = threshold * decay**t``.
    max_iter : int
        Most iterations of the factorisation.
    tolerance : float
        It stops when the objective falls by less than this fraction.
    restarts : int
        Rotations to begin with: none, one from successive projection, and random ones.
    sweeps : int
        Most sweeps of the robust imputation.
    seed : int
        Seed of the random rotations.
    pairs : Cooccurrence, optional
        The pair statistics, where they are at hand.

    Returns
    -------
    Estimate
        Workers of bipartite components, and workers without partners, have the confusion that the soft majority vote
        gives them. ``details["rotation_spread"]`` is the largest difference of a confusion entry (of workers with at
        least a median number of labels) among restarts that are as good as the best one.

    Raises
    ------
    EngineError
        Where every component of the co-label graph is bipartite: two groups of workers, none of whom shares an item
        with another of the same group.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> estimate = symnmf(bc.datasets.load("anesthesia"))
    >>> estimate.confusion.shape, bool(estimate.estimated.all())
    ((5, 4, 4), True)
    """
    pairs = cooccurrence(labels, least=least) if pairs is None else pairs
    graph = components(pairs, least=least)
    if graph.bipartite.all():
        if least > 0 and not components(cooccurrence(labels)).bipartite.all():
            raise EngineError(
                f"no three workers are joined in a ring by pairs with {least:g} or more common items: lower min_count"
            )
        raise EngineError(bipartite_message(pairs, graph))
    vote = shares(labels)
    counts = counts_given(labels, vote)
    fallback = smoothed_confusion(counts)
    size = pairs.label_count.sum(axis=1)
    inside = np.flatnonzero(~graph.bipartite[graph.of_worker])
    n_missing = 0
    if imputation == "robust":
        share = vote[np.bincount(labels.item_code, minlength=labels.n_items) > 0].mean(axis=0)
        start = np.swapaxes(fallback, 1, 2) * np.sqrt(np.maximum(share, 1e-3))
        kept = _at_least(pairs, least)
        root, trace = robust_factor(kept, start, loss=loss, weights=weights, max_iter=sweeps)
    else:
        blocks, filled = designated_blocks(pairs, least=least, designated=designated)
        n_missing = int((~filled[np.ix_(inside, inside)]).sum())
        root, trace = _roots(blocks, filled, graph, pairs.n_classes), np.zeros(0)
    confusion, estimated = fallback.copy(), np.zeros(len(fallback), bool)
    roots, weight, spread, dispersion = np.zeros(pairs.n_classes), 0.0, 0.0, 0.0
    objective = np.zeros(0)
    random = np.random.default_rng(seed)
    for number in np.flatnonzero(~graph.bipartite):
        members = np.flatnonzero(graph.of_worker == number)
        ended = nonnegative(
            root[members],
            (threshold, decay),
            restarts=restarts,
            max_iter=max_iter,
            tolerance=tolerance,
            random=random,
        )
        best = _chosen(ended, root[members]) if imputation == "robust" else int(np.argmin(ended.objective))
        found, root_prevalence, spread_of_sums = extract(ended.factor[best], size[members])
        order = align_together(floored(found), counts[members])
        confusion[members] = floored(found)[:, order]
        estimated[members] = True
        spread = max(spread, _spread(ended, best, root[members], size[members]))
        dispersion = max(dispersion, spread_of_sums)
        share = size[members].sum()
        roots, weight = roots + share * root_prevalence[order], weight + share
        objective = ended.traces[best] if not len(objective) else objective
    prevalence = (roots / weight) ** 2
    return Estimate(
        confusion,
        prevalence / prevalence.sum(),
        estimated,
        objective=objective,
        notes=_notes(estimated, graph, n_missing),
        details={
            "rotation_spread": spread,
            "dispersion_of_sums": dispersion,
            "imputation_objective": trace.tolist(),
            "n_components": graph.n,
            "n_blocks_missing": n_missing,
            "median_common": pairs.median_common,
        },
        floor=_BELIEVED,
    )


def _chosen(ended: Rotated, root: np.ndarray) -> int:
    """Take the first restart that is as good as the best: the one nearest to the frame of the majority vote."""
    return int(np.flatnonzero(ended.objective <= _limit(ended, root))[0])


def _limit(ended: Rotated, root: np.ndarray) -> float:
    return (1 + _AS_GOOD) * float(ended.objective.min()) + _ZERO * float((root**2).sum())


def _spread(ended: Rotated, best: int, root: np.ndarray, weight: np.ndarray) -> float:
    """Largest difference of a confusion entry between the best restart and others as good, classes matched."""
    found, _, _ = extract(ended.factor[best], weight)
    limit = _limit(ended, root)
    largest = 0.0
    for other in np.flatnonzero(ended.objective <= limit):
        if other == best:
            continue
        table, _, _ = extract(ended.factor[other], weight)
        order = best_order(np.einsum("w,wkl,wcl->kc", weight, found, table))
        busy = weight >= np.median(weight)
        largest = max(largest, float(np.abs(found - table[:, order])[busy].max()))
    return largest


def _at_least(pairs: Cooccurrence, least: float) -> Cooccurrence:
    kept = pairs.total >= least
    if kept.all():
        return pairs
    return Cooccurrence(pairs.first[kept], pairs.second[kept], pairs.count[kept], pairs.label_count, pairs.n_classes)


def _roots(blocks: np.ndarray, filled: np.ndarray, graph: Components, n_classes: int) -> np.ndarray:
    """Square root of each component's part of the completed matrix; what is still missing counts as independent."""
    n_workers, _, n_labels, _ = blocks.shape
    out = np.zeros((n_workers, n_labels, n_classes))
    for number in np.flatnonzero(~graph.bipartite):
        members = np.flatnonzero(graph.of_worker == number)
        part = blocks[np.ix_(members, members)]
        known = filled[np.ix_(members, members)]
        marginal = part.sum(axis=3)
        mean = np.where(known[:, :, None], marginal, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)[:, None]
        independent = np.einsum("ma,nb->mnab", mean, mean)
        out[members] = factor_of_blocks(np.where(known[:, :, None, None], part, independent), n_classes)
    return out


def bipartite_message(pairs: Cooccurrence, graph: Components) -> str:
    """Say why no block can be filled in.

    Parameters
    ----------
    pairs : Cooccurrence
        The pair statistics.
    graph : Components
        Its components, all bipartite.

    Returns
    -------
    str
    """
    if pairs.n_workers < 3:
        return (
            f"pair statistics of {pairs.n_workers} worker{'s' * (pairs.n_workers != 1)} do not determine confusion "
            "matrices: at least three workers must have items in common; use engine='em' or a sampler with priors"
        )
    return (
        "pair statistics cannot be completed: no three workers are joined in a ring by common items (the co-label "
        f"graph of {pairs.n_workers} workers in {graph.n} components is bipartite), which leaves their confusion "
        "matrices undetermined; let some workers of the same group label the same items, or use engine='em' or a "
        "sampler"
    )


def _notes(estimated: np.ndarray, graph: Components, n_missing: int) -> tuple[str, ...]:
    missing = int((~estimated).sum())
    unfilled = (
        f"{n_missing} blocks of pair statistics could not be filled in and count as if the workers answered "
        "independently: use imputation='robust'.",
    )
    found = unfilled if n_missing else ()
    if not missing:
        return found
    return (
        *found,
        f"Pair statistics do not determine the confusion of {missing} of {len(estimated)} workers, who are in "
        f"bipartite components of the co-label graph ({int(graph.bipartite.sum())} of {graph.n}): for them it is what "
        "the soft majority vote says.",
    )
