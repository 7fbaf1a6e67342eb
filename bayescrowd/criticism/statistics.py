"""Statistics of a label table by which a model is checked: agreement of pairs, vote splits, shares of labels."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError, count_of, shorten

__all__ = ["NAMES", "Agreement", "Custom", "Shares", "Splits", "Statistic", "statistic_of"]

NAMES = ("agreement", "splits", "shares")
"""The statistics that have names."""

_MOST_PAIRS = 500_000
"""Pairs of workers above which only those with most common items are looked at."""

_MOST_SPLITS = 40
"""Possible vote splits above which items are grouped by the share of their leading label."""
_MOST_COMPARISONS = 2_000_000
"""Comparisons of two labels above which they are not listed one by one."""
_DENSE = 0.25
"""Share of items that workers label on average from which on a plain matrix product is faster than a sparse one."""


class Statistic(abc.ABC):
    """A vector of numbers that is computed from the labels of a table and compared with those of its replications.

    Parameters
    ----------
    rows : DataFrame
        What each number belongs to (ids of workers, a vote split, a label).
    scale : array or float
        What the numbers are divided by before they are shown.
    largest : int or None
        Largest number that can occur; None where numbers need not be whole.
    notes : tuple of str
        What was left out or put together, in words.
    """

    name: str = ""
    has_total: bool = False  # whether the sum of the numbers says something

    def __init__(self, rows: pd.DataFrame, scale: Any, largest: int | None, notes: tuple[str, ...] = ()) -> None:
        self.rows, self.scale, self.notes = rows, scale, notes
        self.dtype = np.dtype(float) if largest is None else np.min_scalar_type(largest)

    @abc.abstractmethod
    def __call__(self, label_code: np.ndarray) -> np.ndarray:
        """Compute the numbers, before they are divided by ``scale``.

        Parameters
        ----------
        label_code : int array [annotation]
            Labels of the rows of the table.

        Returns
        -------
        array [number]
        """


class Agreement(Statistic):
    """How many labels of the items that two workers share are the same, for every pair of workers.

    Every label of one worker is compared with every label of the other on the same item, so that a repeat counts for
    itself; ``n_common`` is the number of these comparisons, which without repeats is the number of common items.

    Parameters
    ----------
    labels : CrowdLabels
        Who labelled what.
    """

    name = "agreement"
    has_total = True

    def __init__(self, labels: CrowdLabels) -> None:
        order = np.argsort(labels.item_code, kind="stable")
        degree = np.bincount(labels.item_code, minlength=labels.n_items)
        shared = degree > 1
        self._order = order[shared[labels.item_code[order]]]
        self._first = np.concatenate([[0], np.cumsum(degree[shared])])
        present, self._worker = np.unique(labels.worker_code[self._order], return_inverse=True)
        self._n_workers = len(present)
        self._listed: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        size = degree[shared].astype(np.int64)
        if int((size * (size - 1) // 2).sum()) <= _MOST_COMPARISONS:
            one, other, key = self._comparisons(size)
            self._key, pair, common = _numbered(key, self._n_workers**2)
            self._listed = one, other, pair
        else:
            self._key, common = self._products(np.ones(len(self._order), bool))
        notes: tuple[str, ...] = ()
        if len(common) > _MOST_PAIRS:
            notes = (
                f"Agreement is checked for the {_MOST_PAIRS:,} pairs of workers with most common items, of "
                f"{count_of(len(common), 'pair')}.",
            )
        self._kept = np.sort(np.argsort(-common, kind="stable")[:_MOST_PAIRS])
        common = common[self._kept]
        pairs = np.divmod(self._key[self._kept], max(self._n_workers, 1))
        first, second = (labels.workers.take(present[side]) for side in pairs)
        rows = pd.DataFrame({"worker": first, "other": second, "n_common": common})
        super().__init__(rows, common, int(common.max(initial=0)), notes)

    def __call__(self, label_code: np.ndarray) -> np.ndarray:
        """Count the agreements of each pair.

        Parameters
        ----------
        label_code : int array [annotation]
            Labels of the rows of the table.

        Returns
        -------
        array [pair]
        """
        said = label_code[self._order]
        if self._listed is not None:
            one, other, pair = self._listed
            return np.bincount(pair[said[one] == said[other]], minlength=len(self._key))[self._kept]
        total = np.zeros(len(self._key), np.int64)
        for label in np.unique(said):
            key, number = self._products(said == label)
            total[np.searchsorted(self._key, key)] += number
        return total[self._kept]

    def _comparisons(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List all pairs of labels that two workers gave the same item, and the key of the two workers."""
        position = np.arange(len(self._order))
        later = np.repeat(self._first[1:], size) - position - 1
        one = np.repeat(position, later)
        other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(later) - later, later)
        low = np.minimum(self._worker[one], self._worker[other])
        high = np.maximum(self._worker[one], self._worker[other])
        kept = low < high
        key = low.astype(np.int64) * self._n_workers + high
        return one[kept].astype(np.int32), other[kept].astype(np.int32), key[kept]

    def _products(self, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Count, among some labels, the pairs that two workers gave the same item: keys of the workers, numbers."""
        first = np.concatenate([[0], np.cumsum(kept)])[self._first]
        worker = self._worker[kept]
        shape = (len(self._first) - 1, self._n_workers)
        table = sparse.csr_array((np.ones(len(worker)), worker, first), shape=shape)
        if len(self._order) > _DENSE * shape[0] * shape[1]:
            plain = table.toarray()
            gram = sparse.coo_array(np.triu(plain.T @ plain, 1))
        else:
            gram = sparse.triu(table.T @ table, 1).tocoo()
        row, column = gram.coords
        key = row.astype(np.int64) * self._n_workers + column
        order = np.argsort(key)
        return key[order], np.rint(gram.data[order]).astype(np.int64)


class Splits(Statistic):
    """How many items have each split of their votes, such as 5-4; which label leads does not matter.

    Where items have too many possible splits, they are grouped by the share of their leading label.

    Parameters
    ----------
    labels : CrowdLabels
        Who labelled what. Items with a single label have no split and are left out.

    Attributes
    ----------
    unanimous : bool array [split]
        The splits in which all labels of an item agree.
    """

    name = "splits"

    def __init__(self, labels: CrowdLabels) -> None:
        self._n_items, self._n_labels = labels.n_items, len(labels.label_values)
        self._cell = labels.item_code.astype(np.int64) * self._n_labels
        degree = np.bincount(labels.item_code, minlength=labels.n_items)
        self._items = np.flatnonzero(degree > 1)
        self._degree = degree[self._items]
        notes = []
        n_single = int((degree == 1).sum())
        if n_single and len(self._items):
            notes.append(f"Splits leave out {count_of(n_single, 'item')} with a single label.")
        sizes = np.unique(self._degree).tolist()
        self.pooled = sum(_n_splits(size, self._n_labels) for size in sizes) > _MOST_SPLITS
        if self.pooled:
            notes.append(
                "Items have too many possible splits of their votes, so they are grouped by the share of their leading "
                "label."
            )
            self.unanimous = np.arange(len(_BINS)) == len(_BINS) - 1
            rows = pd.DataFrame({"split": _BINS, "n_labels": pd.array([pd.NA] * len(_BINS), dtype="Int64")})
        else:
            most = int(self._degree.max(initial=1))
            # One number per split: so few splits have few votes, or few labels, and fit into int64.
            self._power = (most + 1) ** np.arange(min(self._n_labels, most), dtype=np.int64)
            splits = [split for size in sizes for split in _splits(size, len(self._power))]
            codes = np.array(splits, np.int64).reshape(len(splits), len(self._power)) @ self._power
            self._by_code = np.argsort(codes)
            self._codes = codes[self._by_code]
            self.unanimous = np.array([not any(split[1:]) for split in splits], bool)
            names = [_name(split) for split in splits]
            rows = pd.DataFrame({"split": names, "n_labels": pd.array([sum(s) for s in splits], dtype="Int64")})
        super().__init__(rows, 1.0, len(self._items), tuple(notes))

    def __call__(self, label_code: np.ndarray) -> np.ndarray:
        """Count the items of each split.

        Parameters
        ----------
        label_code : int array [annotation]
            Labels of the rows of the table.

        Returns
        -------
        array [split]
        """
        votes = np.bincount(self._cell + label_code, minlength=self._n_items * self._n_labels)
        votes = votes.reshape(self._n_items, self._n_labels)[self._items]
        if self.pooled:
            return np.bincount(_bin(votes.max(axis=1, initial=0), self._degree), minlength=len(self.rows))
        split = np.sort(votes, axis=1)[:, ::-1][:, : len(self._power)]
        found = np.searchsorted(self._codes, split @ self._power)
        return np.bincount(self._by_code[found], minlength=len(self.rows))


class Shares(Statistic):
    """How often each worker gives each label.

    Parameters
    ----------
    labels : CrowdLabels
        Who labelled what. Workers without labels are left out.
    """

    name = "shares"

    def __init__(self, labels: CrowdLabels) -> None:
        self.n_labels = len(labels.label_values)
        number = np.bincount(labels.worker_code, minlength=labels.n_workers)
        present = np.flatnonzero(number)
        new = np.zeros(labels.n_workers, np.int64)
        new[present] = np.arange(len(present))
        self._cell = new[labels.worker_code] * self.n_labels
        self._n_cells = len(present) * self.n_labels
        rows = pd.DataFrame(
            {
                "worker": labels.workers.take(np.repeat(present, self.n_labels)),
                "label": labels.label_values.take(np.tile(np.arange(self.n_labels), len(present))),
            }
        )
        super().__init__(rows, np.repeat(number[present], self.n_labels), int(number.max(initial=0)))

    def __call__(self, label_code: np.ndarray) -> np.ndarray:
        """Count each worker's labels by value.

        Parameters
        ----------
        label_code : int array [annotation]
            Labels of the rows of the table.

        Returns
        -------
        array [worker and label]
        """
        return np.bincount(self._cell + label_code, minlength=self._n_cells)


class Custom(Statistic):
    """A statistic of the user's own.

    Parameters
    ----------
    function : callable
        ``function(label_code, tree)`` gives a number, or an array of always the same length.
    name : str
        What to call it.
    tree : DataTree
        What to pass as the second argument.
    observed : int array [annotation]
        The labels of the table.
    """

    def __init__(self, function: Callable[..., Any], name: str, tree: Any, observed: np.ndarray) -> None:
        self._function, self._tree, self._length = function, tree, -1
        self.name = name
        self._length = len(self(observed))
        super().__init__(pd.DataFrame({"value": np.arange(self._length)}), 1.0, None)

    def __call__(self, label_code: np.ndarray) -> np.ndarray:
        """Call the user's function and check what it gives.

        Parameters
        ----------
        label_code : int array [annotation]
            Labels of the rows of the table.

        Returns
        -------
        array [number]
        """
        try:
            # Codes in int64: sums of the small type that they are kept in would overflow.
            found = np.asarray(self._function(label_code.astype(np.int64), self._tree), float).ravel()
        except (TypeError, ValueError) as error:
            raise LabelError(
                f"statistic {self.name!r} failed: {error}. It is called as {self.name}(label_code, tree) with the code "
                "of the label of each row, and must return a number or an array of numbers"
            ) from error
        if not np.isfinite(found).all():
            raise LabelError(f"statistic {self.name!r} gave numbers that are not finite")
        if self._length not in (-1, len(found)):
            raise LabelError(
                f"statistic {self.name!r} gave {self._length} numbers for the observed labels and {len(found)} for "
                "replicated ones; it must always give the same number of them"
            )
        return found


def statistic_of(wanted: Any, labels: CrowdLabels, tree: Any) -> Statistic:
    """Make a statistic of what the user named.

    Parameters
    ----------
    wanted : str or callable
        One of `NAMES`, or a function of the label codes and the tree.
    labels : CrowdLabels
        Who labelled what.
    tree : DataTree
        Passed on to a function.

    Returns
    -------
    Statistic

    Raises
    ------
    LabelError
        For anything else.
    """
    known: dict[str, Callable[[CrowdLabels], Statistic]] = {"agreement": Agreement, "splits": Splits, "shares": Shares}
    if isinstance(wanted, str) and wanted in known:
        return known[wanted](labels)
    if callable(wanted):
        name = str(getattr(wanted, "__name__", type(wanted).__name__))
        return Custom(wanted, name, tree, labels.label_code)
    raise LabelError(
        f"there is no statistic {wanted!r}; the statistics are {shorten(NAMES)}, or a function f(label_code, tree)"
    )


_BINS = [*(f"{10 * tenth}-{10 * tenth + 10} %" for tenth in range(9)), "over 90 %", "all agree"]


def _bin(leading: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """Tenth that the leading label's share lies in, upper ends included; unanimous items have a bin of their own."""
    return np.where(leading == degree, 10, -(-10 * leading // degree) - 1)


def _n_splits(size: int, most_parts: int) -> int:
    """Count the splits of so many votes into at most so many parts; stops counting where there are too many."""
    if size > 2 * _MOST_SPLITS and most_parts > 1:
        return _MOST_SPLITS + 1
    ways = [1] + [0] * size
    for part in range(1, min(most_parts, size) + 1):
        for total in range(part, size + 1):
            ways[total] += ways[total - part]
    return ways[size]


def _splits(size: int, most_parts: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """List the splits, most unequal first, each with zeros up to the number of parts."""
    if most_parts == 0:
        return [()] if size == 0 else []
    top = min(size, size if largest is None else largest)
    return [(lead, *rest) for lead in range(top, -1, -1) for rest in _splits(size - lead, most_parts - 1, lead)]


def _name(split: tuple[int, ...]) -> str:
    """Write 5-4, 9-0 or 5-3-1: no zeros beyond the second place."""
    shown = [count for position, count in enumerate(split) if count or position < 2]
    return "-".join(map(str, shown))


def _numbered(key: np.ndarray, n_keys: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorted distinct keys, the position of each key among them, and how often each occurs."""
    if n_keys > 4 * _MOST_COMPARISONS:
        return np.unique(key, return_inverse=True, return_counts=True)
    number = np.bincount(key, minlength=n_keys)
    distinct = np.flatnonzero(number)
    position = np.zeros(n_keys, np.int32)
    position[distinct] = np.arange(len(distinct))
    return distinct, position[key], number[distinct]
