r"""MultiSPA: confusion matrices from pair statistics by successive projection.

For worker m every other worker l gives :math:`R_{ml}`, whose columns, made to sum to one, are mixtures of the columns
of :math:`A_m`: column j is :math:`A_m h`, :math:`h_k = P(class = k \mid x_l = j)`. Where for every class some partner
has a label that is (nearly) given for that class alone, the vertices of these columns are the columns of :math:`A_m`,
and successive projection finds them. Each worker's classes come in an order of their own and are named afterwards.

Successive projection takes the longest column, and a column counted on one item is as long as a probability vector can
be. So columns of few items are left out, and the others are shrunk towards the worker's own shares of labels.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS, algorithm 1. With
``compat="released"`` the rules of the authors' published code.
"""

from typing import NamedTuple

import numpy as np

from bayescrowd.data.arrays import Table, bucket
from bayescrowd.data.votes import shares
from bayescrowd.errors import EngineError
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.cooccurrence import Cooccurrence, cooccurrence
from bayescrowd.moments.estimate import Estimate, counts_given, decode, floored, smoothed_confusion
from bayescrowd.moments.permutation import align_each, align_together, chain_orders
from bayescrowd.moments.simplex import prevalence_from_marginals
from bayescrowd.moments.spa import successive_projection
from bayescrowd.moments.voted import on_voted_classes

__all__ = ["ALIGNMENTS", "COLUMNS", "Columns", "columns_of", "multispa", "vertices"]

ALIGNMENTS = ("mv", "diagonal", "cooccurrence")
COLUMNS = ("shrunk", "full-rank")

_RELEASED_COLUMNS = 7
"""The published code estimates a worker with more than this many columns per class."""


class Columns(NamedTuple):
    """The normalised columns of every worker's blocks, worker by worker.

    Parameters
    ----------
    points : array [column, label]
        Each sums to one.
    owner : int array [column]
        Whose column, in rising order.
    n_items : array [column]
        Common items it is counted on.
    """

    points: np.ndarray
    owner: np.ndarray
    n_items: np.ndarray


def columns_of(pairs: Cooccurrence, *, least: float = 3.0, shrink: float = 2.0) -> Columns:
    """Collect the columns of all blocks, both ways of every pair.

    Parameters
    ----------
    pairs : Cooccurrence
        The pair statistics.
    least : float
        Columns counted on fewer items are left out.
    shrink : float
        Items' worth of the worker's own shares of labels mixed into each column.

    Returns
    -------
    Columns
    """
    both = np.concatenate([np.swapaxes(pairs.count, 1, 2), pairs.count])  # [way, column, label of the owner]
    owner = np.repeat(np.concatenate([pairs.first, pairs.second]), pairs.n_labels)
    table = both.reshape(-1, pairs.n_labels)
    count = table.sum(axis=1)
    kept = (count >= least) & (count > 0)
    order = np.flatnonzero(kept)[np.argsort(owner[kept], kind="stable")]
    owner, table, count = owner[order], table[order], count[order]
    points = (table + shrink * pairs.marginal[owner]) / (count + shrink)[:, None]
    return Columns(points, owner, count)


def vertices(columns: Columns, n_workers: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the vertices of each worker's columns.

    Parameters
    ----------
    columns : Columns
        All columns.
    n_workers, n_classes : int
        Numbers of workers and classes.

    Returns
    -------
    tuple of array
        Vertices [worker, pick, label] (zeros where there is none), whether a worker has one for every class [worker],
        and the squared length left at each pick as a share of the first [worker, pick].
    """
    n_points, n_labels = columns.points.shape
    # Sizes are rounded up so that similar tables share compiled code; the padding belongs to a worker who is cut off.
    n_padded, n_owners = bucket(max(n_points, 1), 256), bucket(n_workers + 1, 16)
    points = np.zeros((n_padded, n_labels))
    points[:n_points] = columns.points
    owner = np.full(n_padded, n_workers)
    owner[:n_points] = columns.owner
    with double_precision():
        picked, left = successive_projection(points, owner, n_owners=n_owners, n_picks=n_classes)
    picked, left = np.asarray(picked)[:n_workers], np.asarray(left)[:n_workers]
    there = picked < n_points
    found = np.where(there[:, :, None], points[np.minimum(picked, n_padded - 1)], 0.0)
    return found, there.all(axis=1), left


@on_voted_classes
def multispa(
    labels: Table,
    *,
    align: str = "mv",
    rounds: int = 2,
    least: float = 3.0,
    shrink: float = 2.0,
    prevalence: str = "marginals",
    columns: str = "shrunk",
    compat: str | None = None,
    pairs: Cooccurrence | None = None,
) -> Estimate:
    """Estimate confusion matrices and prevalence by successive projection.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    align : {"mv", "diagonal", "cooccurrence"}
        How classes get their names: by the soft majority vote (and gold), worker by worker; by the most probable
        diagonal; or workers among themselves by what they said of the same items, then all by the majority vote.
    rounds : int
        For ``"mv"``: how often names are given; after the first time by the estimate's own probabilities.
    least, shrink : float
        As in `columns_of`.
    prevalence : {"marginals", "uniform"}
        From the shares of labels, or equal.
    columns : {"shrunk", "full-rank"}
        Which columns to search: all with enough items, shrunk; or, as the published code does, all columns of blocks of
        full rank as they are, and only workers with more than seven such columns per class.
    compat : {"released"}, optional
        The published code's rules: columns of full rank, its way to name classes (which may take a column twice), equal
        prevalence.
    pairs : Cooccurrence, optional
        The pair statistics, where they are at hand.

    Returns
    -------
    Estimate
        Workers that cannot be estimated have the confusion that the soft majority vote gives them.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> estimate = multispa(bc.datasets.load("anesthesia"))
    >>> estimate.estimated.tolist()
    [True, True, True, True, True]
    """
    if pairs is None:
        try:
            pairs = cooccurrence(labels)
        except EngineError:
            # Pairs with fewer common items than a column needs have no column that counts.
            pairs = cooccurrence(labels, least=0.0 if compat == "released" else least)
    released, strict = compat == "released", compat == "released" or columns == "full-rank"
    n_workers, n_classes = pairs.n_workers, pairs.n_classes
    cloud = (
        columns_of(_of_full_rank(pairs), least=0.0, shrink=0.0)
        if strict
        else columns_of(pairs, least=least, shrink=shrink)
    )
    found, estimated, left = vertices(cloud, n_workers, n_classes)
    n_columns = np.bincount(cloud.owner, minlength=n_workers)
    if strict:
        estimated &= n_columns > _RELEASED_COLUMNS * n_classes
    vote = shares(labels)
    confusion = smoothed_confusion(counts_given(labels, vote))
    confusion[estimated] = floored(found[estimated])
    if released:
        confusion[estimated] = floored(_rows_first(confusion[estimated]))
    else:
        confusion = _named(labels, confusion, pairs, vote, estimated, align, rounds, prevalence)
    return Estimate(
        confusion,
        _prevalence(confusion, pairs, estimated, "uniform" if released else prevalence),
        estimated,
        notes=_notes(estimated),
        details={
            "residual": left,
            "n_columns": n_columns,
            "median_common": pairs.median_common,
        },
    )


def _named(
    labels: Table,
    confusion: np.ndarray,
    pairs: Cooccurrence,
    vote: np.ndarray,
    estimated: np.ndarray,
    align: str,
    rounds: int,
    prevalence: str,
) -> np.ndarray:
    """Put every estimated worker's classes in order."""
    which = np.flatnonzero(estimated)
    if align == "diagonal":
        return _reordered(confusion, which, align_each(confusion[which]))
    counts = counts_given(labels, vote)
    if align == "cooccurrence":
        order, part = chain_orders(confusion, pairs, estimated)
        confusion = _reordered(confusion, which, order[which])
        for number in range(part.max(initial=-1) + 1):
            members = np.flatnonzero(part == number)
            together = align_together(confusion[members], counts[members])
            confusion = _reordered(confusion, members, np.tile(together, (len(members), 1)))
        return confusion
    for turn in range(max(rounds, 1)):
        if turn:
            share = _prevalence(confusion, pairs, estimated, prevalence)
            counts = counts_given(labels, decode(labels, Estimate(confusion, share, estimated)))
        confusion = _reordered(confusion, which, align_each(confusion[which], counts[which]))
    return confusion


def _reordered(confusion: np.ndarray, which: np.ndarray, order: np.ndarray) -> np.ndarray:
    out = confusion.copy()
    out[which] = np.take_along_axis(confusion[which], order[:, :, None], axis=1)
    return out


def _prevalence(confusion: np.ndarray, pairs: Cooccurrence, estimated: np.ndarray, how: str) -> np.ndarray:
    if how == "uniform" or not estimated.any():
        return np.full(pairs.n_classes, 1 / pairs.n_classes)
    weight = pairs.label_count.sum(axis=1) * estimated
    return prevalence_from_marginals(confusion, pairs.marginal, weight)


def _of_full_rank(pairs: Cooccurrence) -> Cooccurrence:
    """Keep the pairs whose block has numerically full rank, as the published code does."""
    full = np.linalg.matrix_rank(pairs.rate) >= pairs.n_classes if pairs.n_pairs else np.zeros(0, bool)
    return Cooccurrence(pairs.first[full], pairs.second[full], pairs.count[full], pairs.label_count, pairs.n_classes)


def _rows_first(confusion: np.ndarray) -> np.ndarray:
    """Name classes as the published code does: row by row the column with the largest entry, taken or not."""
    n_classes = confusion.shape[1]
    best = confusion[:, :, :n_classes].argmax(axis=1)  # for each label, the estimated column where it is largest
    return np.take_along_axis(confusion, best[:, :, None], axis=1)


def _notes(estimated: np.ndarray) -> tuple[str, ...]:
    missing = int((~estimated).sum())
    if not missing:
        return ()
    return (
        f"The moments do not determine the confusion of {missing} of {len(estimated)} workers (too few common items, "
        "or labels that tell nothing of the class): for them it is what the soft majority vote says.",
    )
