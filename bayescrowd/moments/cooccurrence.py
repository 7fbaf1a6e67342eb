r"""How often two workers say what of the same item: the pair statistics that all moment estimators start from.

For workers m and l who both labelled an item, :math:`R_{ml}[a, b] = P(x_m = a, x_l = b) = \sum_k d_k A_m[a, k] A_l[b,
k]` (labels are independent given the class). Its estimate is the share of their common items with labels a and b. Only
pairs with common items are stored; no table of items by workers is ever formed.

A worker's labels of one item count as one answer: repeats are averaged, with the square root of their total weight, so
that a pair of workers who labelled an item w times each counts w times, and weights that all labels of an item share
count as that many items.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences, NeurIPS, eq. (4). Ibrahim, Fu (2021),
Crowdsourcing via annotator co-occurrence imputation, ICML, eq. (3).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayescrowd.data.arrays import Table
from bayescrowd.errors import EngineError

__all__ = ["Cooccurrence", "cooccurrence"]

_MOST_VALUES = 80_000_000
"""Most numbers that the blocks of all pairs may hold."""

_MOST_PRODUCTS = 400_000_000
"""Most pairs of labels of one item, where distinct, that are formed at once."""

_DENSE_FACTOR = 64
"""A product of dense rows does about as many times more multiplications per second than one of sparse rows."""

_MOST_DENSE = 8000
"""Columns up to which a dense product fits in memory."""

_ROWS = 4096


@dataclass(frozen=True)
class Cooccurrence:
    """Counts of the labels that pairs of workers gave to the same items.

    Parameters
    ----------
    first, second : int array [pair]
        The workers of each pair, ``first < second``; pairs are sorted, and only those with common items are listed.
    count : array [pair, label, label]
        Items with these two labels, the first worker's on the rows; fractional with weights or repeats.
    label_count : array [worker, label]
        Labels of each worker, by weight.
    n_classes : int
        The first so many label values are the classes.
    n_dropped : int
        Pairs left out because they have fewer common items than was asked for.
    """

    first: np.ndarray
    second: np.ndarray
    count: np.ndarray
    label_count: np.ndarray
    n_classes: int
    n_dropped: int = 0

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self.label_count)

    @property
    def n_labels(self) -> int:
        """Number of label values."""
        return int(self.label_count.shape[1])

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.first)

    @property
    def total(self) -> np.ndarray:
        """Common items of each pair, array [pair]."""
        return np.asarray(self.count.sum(axis=(1, 2)))

    @property
    def median_common(self) -> float:
        """Median of the common items of the pairs; 0 where there are none."""
        return float(np.median(self.total)) if self.n_pairs else 0.0

    @property
    def rate(self) -> np.ndarray:
        """Estimate of R for each pair, array [pair, label, label]; each sums to one."""
        return np.asarray(self.count / self.total[:, None, None])

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of `rate`, array [pair, label, label]: items are drawn, so each cell is a binomial share.

        Computed from shares shrunk by one item spread evenly, or a cell that was never seen would be certain.
        """
        total = self.total[:, None, None]
        rate = (self.count + 1 / self.n_labels**2) / (total + 1)
        return np.sqrt(rate * (1 - rate) / total)

    @property
    def marginal(self) -> np.ndarray:
        """Share of each label among a worker's labels, array [worker, label]; even shares without labels."""
        total = self.label_count.sum(axis=1, keepdims=True)
        return np.where(total > 0, self.label_count / np.where(total > 0, total, 1.0), 1 / self.n_labels)

    def degree(self, least: float = 0.0) -> np.ndarray:
        """Count the partners of each worker.

        Parameters
        ----------
        least : float
            Pairs with fewer common items do not count.

        Returns
        -------
        int array [worker]
        """
        kept = self.total >= least
        both = np.concatenate([self.first[kept], self.second[kept]])
        return np.bincount(both, minlength=self.n_workers)


def cooccurrence(labels: Table, *, least: float = 0.0) -> Cooccurrence:
    """Count what pairs of workers said of the same items.

    Parameters
    ----------
    labels : CrowdLabels
        The label table. Labels that are no class count as labels of their own.
    least : float
        Pairs with fewer common items are left out.

    Returns
    -------
    Cooccurrence
        Time and memory are proportional to the sum over items of squared numbers of labels (at worst to all pairs).

    Raises
    ------
    EngineError
        Where the counts of all pairs would not fit in memory; it says how many common items to ask for.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> pairs = cooccurrence(bc.datasets.load("anesthesia"))
    >>> pairs.n_pairs, pairs.total.round(1).max()
    (10, np.float64(77.9))
    """
    n_workers, n_labels = labels.n_workers, len(labels.label_values)
    products = float((np.bincount(labels.item_code).astype(float) ** 2).sum())
    if min(products, float(n_workers * n_labels) ** 2) > _MOST_PRODUCTS:
        raise EngineError(
            f"pair statistics of {n_workers:,} workers would take {products:,.0f} products, more than fit in memory: "
            "some items have very many labels. Use engine='em', 'vb' or 'gibbs', and init='majority'"
        )
    table = _answers(labels)
    gram = _gram(table)
    row_worker, column_worker = gram.row // n_labels, gram.col // n_labels
    kept = row_worker < column_worker
    row, column, value = gram.row[kept], gram.col[kept], gram.data[kept]
    key = row_worker[kept].astype(np.int64) * n_workers + column_worker[kept]
    pairs, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, value, len(pairs))
    wanted = total >= least
    most = _MOST_VALUES // n_labels**2
    if wanted.sum() > most:
        enough = float(np.sort(total)[-most])
        raise EngineError(
            f"{wanted.sum():,} pairs of workers with {n_labels} label values are more than fit in memory "
            f"({most:,}); leave out pairs with few common items, for example those with fewer than "
            f"{np.ceil(enough) + 1:.0f}, or use engine='em', 'vb' or 'gibbs', and init='majority'"
        )
    new = np.cumsum(wanted) - 1
    inside = wanted[place]
    cell = (new[place[inside]] * n_labels + row[inside] % n_labels) * n_labels + column[inside] % n_labels
    count = np.bincount(cell, value[inside], int(wanted.sum()) * n_labels**2).reshape(-1, n_labels, n_labels)
    weight = None if labels.weight is None else labels.weight
    own = labels.worker_code.astype(np.int64) * n_labels + labels.label_code
    return Cooccurrence(
        first=(pairs[wanted] // n_workers).astype(np.int32),
        second=(pairs[wanted] % n_workers).astype(np.int32),
        count=count.astype(float),
        label_count=np.bincount(own, weight, n_workers * n_labels).reshape(n_workers, n_labels).astype(float),
        n_classes=len(labels.classes),
        n_dropped=int((~wanted).sum()),
    )


def _answers(labels: Table) -> sparse.csr_array:
    """Items by (worker, label): share of a label in a worker's answers on an item, times the root of their weight."""
    n_workers, n_labels = labels.n_workers, len(labels.label_values)
    weight = np.ones(len(labels.item_code)) if labels.weight is None else np.asarray(labels.weight, float)
    item, worker = labels.item_code.astype(np.int64), labels.worker_code.astype(np.int64)
    answer, place = np.unique(item * n_workers + worker, return_inverse=True)
    whole = np.bincount(place, weight, len(answer))[place]
    value = weight / np.sqrt(np.where(whole > 0, whole, 1.0))
    shape = (labels.n_items, n_workers * n_labels)
    return sparse.coo_array((value, (item, worker * n_labels + labels.label_code)), shape=shape).tocsr()


def _gram(table: sparse.csr_array) -> sparse.coo_array:
    """Product of a sparse table's transpose with itself; items with very many labels go through dense products."""
    per_item = np.diff(table.indptr).astype(float)
    n_columns = table.shape[1]
    heavy = (_DENSE_FACTOR * per_item**2 > float(n_columns) ** 2) & (n_columns <= _MOST_DENSE)
    light = table[np.flatnonzero(~heavy)] if heavy.any() else table
    gram = (light.T @ light).tocoo()
    rows = np.flatnonzero(heavy)
    if not len(rows):
        return gram
    dense = gram.toarray()
    for begin in range(0, len(rows), _ROWS):
        part = table[rows[begin : begin + _ROWS]].toarray()
        dense += part.T @ part
    return sparse.coo_array(dense)
