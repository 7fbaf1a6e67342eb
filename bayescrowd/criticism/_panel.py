"""Who said what, laid out for questions about several workers at once: one answer per worker and item.

What a worker says of an item several times (repeats, weights) is one answer: the average of these labels. So a label of
weight 2 is the same as a label that stands there twice.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy import sparse
from scipy.special import ndtri

from bayescrowd.criticism._scoring import units
from bayescrowd.results.tree import sizes_of, values

__all__ = [
    "Panel",
    "SharedErrors",
    "correlation_interval",
    "correlation_of",
    "correlations_of",
    "error_rates",
    "fits_in_memory",
    "log_effect",
    "panel_of",
    "shared_errors",
]

_RESAMPLES = 1000

_PSEUDO = 2.0
"""Labels by which an error rate is pulled towards that of the class and of the worker."""

_MOST_CELLS = 40_000_000
_LEAST_EFFECT = 0.05
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Panel:
    """The answers to a set of items.

    Parameters
    ----------
    item : int array [answer]
        Item of each answer, an index into `items`; sorted.
    worker : int array [answer]
        Who gave it.
    shares : sparse array [answer, label]
        What it says; rows sum to one.
    weight : array [answer]
        Sum of the weights of its labels.
    items : int array [item]
        Which items of the result these are.
    known : int array [item]
        Their known class, -1 where there is none.
    probability : array [item, class]
        Class probabilities of the result.
    n_workers, n_classes, n_labels : int
        Sizes.
    """

    item: np.ndarray
    worker: np.ndarray
    shares: sparse.csr_array
    weight: np.ndarray
    items: np.ndarray
    known: np.ndarray
    probability: np.ndarray
    n_workers: int
    n_classes: int
    n_labels: int

    @property
    def n_items(self) -> int:
        """Number of items, each with at least one answer."""
        return len(self.items)

    @functools.cached_property
    def n_answers(self) -> np.ndarray:
        """Answers per item, array [item]."""
        return np.bincount(self.item, minlength=self.n_items)

    @functools.cached_property
    def n_by_worker(self) -> np.ndarray:
        """Answers of each worker, array [worker]."""
        return np.bincount(self.worker, minlength=self.n_workers).astype(float)

    @property
    def is_small(self) -> bool:
        """Whether confusion matrices of all workers fit in memory."""
        return fits_in_memory(self.n_workers, self.n_classes, self.n_labels)

    @property
    def size(self) -> float:
        """Mean number of answers per item; NaN without items."""
        return len(self.item) / self.n_items if self.n_items else float("nan")

    def only(self, kept: np.ndarray) -> "Panel":
        """Leave out items.

        Parameters
        ----------
        kept : bool array [item]
            Which stay.

        Returns
        -------
        Panel
        """
        rows = np.flatnonzero(kept[self.item])
        new = np.cumsum(kept) - 1
        return replace(
            self,
            item=new[self.item[rows]],
            worker=self.worker[rows],
            shares=self.shares[rows],
            weight=self.weight[rows],
            items=self.items[kept],
            known=self.known[kept],
            probability=self.probability[kept],
        )

    def some(self, most_labels: int, random: np.random.Generator) -> "Panel":
        """Take random items that hold no more than so many answers together.

        Parameters
        ----------
        most_labels : int
            How many.
        random : Generator
            Source of chance.

        Returns
        -------
        Panel
            The same where it is small enough.
        """
        if len(self.item) <= most_labels:
            return self
        order = random.permutation(self.n_items)
        kept = np.zeros(self.n_items, bool)
        kept[order[np.cumsum(self.n_answers[order]) <= most_labels]] = True
        return self.only(kept)

    @functools.cached_property
    def by_label(self) -> sparse.csr_array:
        """The answers as items by (worker, label), each label with its weight: sparse [item, worker x label]."""
        table = self.shares.tocoo()
        column = self.worker[table.row].astype(np.int64) * self.n_labels + table.col
        shape = (self.n_items, self.n_workers * self.n_labels)
        weight = table.data * self.weight[table.row]
        return sparse.coo_array((weight, (self.item[table.row], column)), shape=shape).tocsr()

    @functools.cached_property
    def by_label_transposed(self) -> sparse.csr_array:
        """The same, sparse [worker x label, item]."""
        return self.by_label.T.tocsr()

    @functools.cached_property
    def used(self) -> np.ndarray:
        """Labels that somebody used, bool array [label]."""
        return np.bincount(self.shares.indices, minlength=self.n_labels) > 0

    def votes(self) -> np.ndarray:
        """Add up the labels of each item, array [item, label]."""
        table = self.shares.tocoo()
        cell = self.item[table.row] * self.n_labels + table.col
        return np.bincount(cell, table.data * self.weight[table.row], self.n_items * self.n_labels).reshape(
            self.n_items, self.n_labels
        )

    def known_probability(self) -> np.ndarray:
        """Class probabilities of one and zero for items whose class is known; zeros for the others."""
        table = np.zeros((self.n_items, self.n_classes))
        there = np.flatnonzero(self.known >= 0)
        table[there, self.known[there]] = 1.0
        return table


@dataclass(frozen=True)
class SharedErrors:
    """Per item, what the correlation of errors is made of: its sum over items of `shared` over that of `own`.

    Parameters
    ----------
    shared : array [item]
        Products of the errors of two workers, less their expectation, summed over ordered pairs.
    own : array [item]
        Squares likewise.
    """

    shared: np.ndarray
    own: np.ndarray


def fits_in_memory(n_workers: int, n_classes: int, n_labels: int) -> bool:
    """Say whether confusion matrices of so many workers are not too many."""
    return n_workers * n_classes * n_labels <= _MOST_CELLS


def panel_of(tree: xr.DataTree, known: np.ndarray) -> Panel:
    """Lay out the labels of a result.

    Parameters
    ----------
    tree : DataTree
        A result.
    known : int array [item]
        Known class of each item, -1 for none.

    Returns
    -------
    Panel
        Items without labels are left out.
    """
    sizes = sizes_of(tree)
    observed = tree["observed_data"].dataset
    item, worker, label = (observed[f"{name}_index"].to_numpy() for name in ("item", "worker", "label"))
    weight = observed["weight"].to_numpy().astype(float) if "weight" in observed else np.ones(len(item))
    key, place = np.unique(item.astype(np.int64) * sizes.n_workers + worker, return_inverse=True)
    total = np.bincount(place, weight, len(key))
    shares = sparse.coo_array((weight / total[place], (place, label)), shape=(len(key), sizes.n_labels)).tocsr()
    items, position = np.unique(key // sizes.n_workers, return_inverse=True)
    return Panel(
        item=position,
        worker=(key % sizes.n_workers).astype(np.int64),
        shares=shares,
        weight=total,
        items=items,
        known=np.asarray(known)[items],
        probability=values(tree, "latent", "class_probability").astype(float)[items],
        n_workers=sizes.n_workers,
        n_classes=sizes.n_classes,
        n_labels=sizes.n_labels,
    )


def error_rates(panel: Panel, probability: np.ndarray) -> np.ndarray:
    """Share of a worker's answers that are wrong, by class.

    Where a worker has few answers in a class, the share is pulled towards what the worker's errors in general and
    everybody's errors in that class let expect.

    Parameters
    ----------
    panel : Panel
        The answers.
    probability : array [item, class]
        Probabilities of the classes.

    Returns
    -------
    array [worker, class]
    """
    n = np.empty((panel.n_workers, panel.n_classes))
    wrong = np.empty_like(n)
    columns = panel.shares.tocsc()
    for code in range(panel.n_classes):
        p = probability[panel.item, code]
        n[:, code] = np.bincount(panel.worker, p, panel.n_workers)
        wrong[:, code] = np.bincount(panel.worker, p * (1 - _column(columns, code)), panel.n_workers)
    overall = wrong.sum() / max(n.sum(), _TINY)
    pull = _PSEUDO * overall
    of_class = (wrong.sum(axis=0) + pull) / (n.sum(axis=0) + _PSEUDO)
    of_worker = (wrong.sum(axis=1) + pull) / (n.sum(axis=1) + _PSEUDO)
    expected = np.clip(of_class[None] + of_worker[:, None] - overall, 0.0, 1.0)
    return np.asarray((wrong + _PSEUDO * expected) / (n + _PSEUDO))


def shared_errors(panel: Panel, probability: np.ndarray) -> SharedErrors:
    """Sum up, item by item, how workers err together beyond their error rates in the class.

    Parameters
    ----------
    panel : Panel
        The answers.
    probability : array [item, class]
        Probabilities of the classes; ones and zeros where they are known. A row of zeros leaves an item out.

    Returns
    -------
    SharedErrors
        Expected values where the classes are uncertain. An item with one answer adds nothing.
    """
    rate = error_rates(panel, probability)
    n_pairs = panel.n_answers - 1.0
    shared, own = np.zeros(panel.n_items), np.zeros(panel.n_items)
    columns = panel.shares.tocsc()
    for code in range(panel.n_classes):
        p = probability[:, code]
        rows = np.flatnonzero(p[panel.item] > _TINY)
        residual = 1 - _column(columns, code)[rows] - rate[panel.worker[rows], code]
        item = panel.item[rows]
        total = np.bincount(item, residual, panel.n_items)
        squares = np.bincount(item, residual**2, panel.n_items)
        shared += p * (total**2 - squares)
        own += p * n_pairs * squares
    return SharedErrors(shared, own)


def correlation_of(errors: SharedErrors) -> float:
    """Correlation of errors of two random answers to one item.

    Parameters
    ----------
    errors : SharedErrors
        Its parts by item.

    Returns
    -------
    float
        NaN where nobody errs, or nobody is ever right.
    """
    own = float(errors.own.sum())
    return float(errors.shared.sum()) / own if own > _TINY * max(len(errors.own), 1) else float("nan")


def correlation_interval(
    errors: SharedErrors, size: float, interval: float, random: np.random.Generator
) -> tuple[float, float]:
    """Interval of the correlation by a bootstrap over items.

    Resampled items are studentised (bootstrap-t) on the scale of the logarithm of 1 + (size - 1) x correlation, on
    which the sampling distribution is close to symmetric; plain quantiles of resamples are too narrow for few items.

    Parameters
    ----------
    errors : SharedErrors
        The parts of the correlation by item.
    size : float
        Answers per item.
    interval : float
        Probability of the interval.
    random : Generator
        Source of chance.

    Returns
    -------
    tuple of float
        Lower and upper bound, NaN for fewer than two items.
    """
    used = np.flatnonzero(errors.own > 0)
    if len(used) < 2:
        return float("nan"), float("nan")
    unit = units(len(used), random)
    shared, own = np.bincount(unit, errors.shared[used]), np.bincount(unit, errors.own[used])
    n = len(shared)
    effect, error = _effect_of_items(np.full((1, n), 1 / n), shared, own, size)
    resampled, its_error = _effect_of_items(random.multinomial(n, np.full(n, 1 / n), _RESAMPLES) / n, shared, own, size)
    ok = (its_error > 0) & np.isfinite(resampled)
    studentised = np.append((resampled[ok] - effect[0]) / its_error[ok], 0.0)
    low, high = np.quantile(studentised, [(1 - interval) / 2, (1 + interval) / 2])
    # With few units the resampled ratios are too few to trust: never narrower than the normal interval.
    z = float(ndtri((1 + interval) / 2))
    low, high = min(float(low), -z), max(float(high), z)
    lower, upper = correlations_of(effect[0] - error[0] * np.array([high, low]), size)
    return float(lower), float(upper)


def log_effect(correlation: np.ndarray, size: float) -> np.ndarray:
    """Logarithm of the design effect of correlations, kept finite."""
    return np.log(np.maximum(1 + (size - 1) * correlation, _LEAST_EFFECT))


def correlations_of(effect: np.ndarray, size: float) -> np.ndarray:
    """Correlations, from -1 to 1, of logarithms of design effects; the inverse of `log_effect`."""
    # Few items have standard errors without limit: one that is beyond the whole panel is enough.
    effect = np.minimum(effect, np.log(size) + 1.0)
    return np.asarray(np.clip((np.exp(effect) - 1) / (size - 1), -1.0, 1.0))


def _effect_of_items(
    share: np.ndarray, shared: np.ndarray, own: np.ndarray, size: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log design effect for each row of item shares, and its standard error from the items' influences."""
    total, below = share @ shared, share @ own
    below = np.where(below > 0, below, np.nan)
    ratio = total / below
    effect = log_effect(ratio, size)
    spread = share @ shared**2 - 2 * ratio * (share @ (shared * own)) + ratio**2 * (share @ own**2)
    error = (size - 1) * np.sqrt(np.maximum(spread, 0.0) / len(shared)) / below / np.exp(effect)
    return effect, np.nan_to_num(error)


def _column(columns: sparse.csc_array, code: int) -> np.ndarray:
    """One column of a sparse table, spelled out."""
    out = np.zeros(columns.shape[0])
    part = slice(columns.indptr[code], columns.indptr[code + 1])
    out[columns.indices[part]] = columns.data[part]
    return out
