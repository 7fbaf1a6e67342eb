"""The label table: who said what about which item, as codes and ids."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescrowd.data.codes import code_fields
from bayescrowd.data.counts import counts_fields
from bayescrowd.data.encode import as_index
from bayescrowd.data.frames import long_fields, wide_fields
from bayescrowd.errors import count_of

if TYPE_CHECKING:
    import bayescrowd.data.arrays
    import bayescrowd.data.summary

__all__ = ["CrowdLabels"]


@dataclass(frozen=True, eq=False, repr=False)
class CrowdLabels:
    """Labels that workers gave to items.

    Immutable. Every result lists items, workers and classes in the order they have here. Values that Python calls equal
    are one value (1, 1.0 and True); where a column mixes them the integer is shown, else values keep their type.

    Attributes
    ----------
    items : Index [I]
        Item ids in order of first appearance, category order or declared order. An item without labels is an item.
    workers : Index [K]
        Worker ids, likewise.
    classes : Index [C]
        What can be true of an item: sorted, or in category or declared order.
    label_values : Index [L]
        What a worker can say: the classes, then labels that are no class.
    item_code, worker_code, label_code : int32 arrays [N]
        Annotations in row order: positions in ``items``, ``workers``, ``label_values``.
    weight : float64 array [N] or None
        Weight of each annotation (2 counts as said twice); None when all are 1.
    gold_code : int32 array [I]
        Known class that a fit uses, as a position in ``classes``; -1 = none.
    truth : Series or None
        Item -> known class for scoring. No fit reads it; its values need not be classes.
    patterns : Series or None
        Item -> response pattern, after :meth:`from_counts`.
    ordered : bool
        The classes are ordinal, lowest first.
    notes : tuple of str
        What was noticed or done while reading.

    Examples
    --------
    >>> labels = CrowdLabels.from_long([("a", "x", "no"), ("a", "y", "no"), ("b", "x", "yes")])
    >>> labels.n_items, labels.n_workers, labels.classes.tolist()
    (2, 2, ['no', 'yes'])
    """

    items: pd.Index
    workers: pd.Index
    classes: pd.Index
    label_values: pd.Index
    item_code: np.ndarray
    worker_code: np.ndarray
    label_code: np.ndarray
    weight: np.ndarray | None
    gold_code: np.ndarray
    truth: pd.Series | None = None
    patterns: pd.Series | None = None
    ordered: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for name in ("item_code", "worker_code", "label_code", "weight", "gold_code"):
            array = getattr(self, name)
            if array is not None:
                view = array.view()  # the array itself may be the caller's
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    @classmethod
    def from_long(
        cls,
        table: object,
        item: Hashable = None,
        worker: Hashable = None,
        label: Hashable = None,
        weight: Hashable = None,
        gold: Hashable | Mapping[Any, Any] | pd.Series = None,
        truth: Hashable | Mapping[Any, Any] | pd.Series = None,
        classes: object = None,
        labels: object = None,
        missing: object = None,
        duplicates: str = "warn",
        *,
        items: object = None,
        workers: object = None,
    ) -> "CrowdLabels":
        """Labels from a table with one row per annotation.

        Parameters
        ----------
        table : DataFrame, mapping of columns, list of records, or N x 3 array
            The table; it is not modified. A column may also be a named level of the index.
        item, worker, label : hashable, optional
            Column names. By default ``"item"``, ``"worker"``, ``"label"`` or the one column with another usual name
            ("task", "annotator", "rating", ...). No other column is used unless it is named here.
        weight : hashable, optional
            Column of weights: finite, >= 0, fractions allowed. Weight 2 equals a repeated row; weight 0 leaves it out.
        gold : hashable, mapping or Series, optional
            Known classes that fits use: a column name, or item -> class. Gold values add to the classes unless
            classes are declared.
        truth : hashable, mapping or Series, optional
            Known classes for scoring, which no fit reads; never adds to the classes.
        classes : sequence, optional
            Declared classes in order. A label outside raises.
        labels : sequence, optional
            Declared labels, if workers can say more than the classes ("can't tell").
        missing : scalar or sequence, optional
            Values of label, gold and truth that mean "did not say". None, NaN, NA, NaT and blank text always do.
        duplicates : {"warn", "keep", "first", "last", "drop-identical", "error"}
            What to do where a worker labelled an item more than once: ``keep`` takes the rows as independent repeats
            and ``warn`` does so with a warning.
        items, workers : sequence, optional
            Declared ids in order, so that items and workers without labels are listed. Unused categories of a
            categorical column are listed likewise.

        Returns
        -------
        CrowdLabels

        Raises
        ------
        LabelError
            Listing everything that makes the table unusable.

        Examples
        --------
        >>> table = pd.DataFrame({"task": [1, 1, 2], "worker": ["x", "y", "x"], "label": [0, 1, 1]})
        >>> CrowdLabels.from_long(table, item="task", classes=[0, 1, 2]).n_classes
        3
        """
        return cls(**long_fields(**_arguments(locals())))

    @classmethod
    def from_wide(
        cls,
        table: object,
        *,
        items: str,
        gold: Hashable | Mapping[Any, Any] | pd.Series = None,
        truth: Hashable | Mapping[Any, Any] | pd.Series = None,
        classes: object = None,
        labels: object = None,
        missing: object = None,
        duplicates: str = "warn",
    ) -> "CrowdLabels":
        """Labels from a table of items by workers, or workers by items.

        Parameters
        ----------
        table : DataFrame or two-dimensional array
            A cell is what a worker said on an item, empty for "did not say". Ids are the index and the columns of a
            DataFrame, 0, 1, ... for an array. An empty column is a worker without labels; a repeated id holds repeats.
        items : {"rows", "columns"}
            Where the items are. It is never guessed.
        gold, truth : hashable, mapping or Series, optional
            As in :meth:`from_long`; a name means a column (items in rows) or a row (items in columns) of the table.
        classes, labels, missing, duplicates
            As in :meth:`from_long`.

        Returns
        -------
        CrowdLabels

        Raises
        ------
        LabelError
            Listing everything that makes the table unusable.

        Examples
        --------
        >>> CrowdLabels.from_wide(np.array([[1, 1, np.nan], [0, 1, 0]]), items="rows").n_annotations
        5
        """
        return cls(**wide_fields(**_arguments(locals())))

    @classmethod
    def from_counts(
        cls,
        table: object,
        count: Hashable = "n",
        *,
        workers: Sequence[Hashable] | None = None,
        gold: Hashable = None,
        truth: Hashable = None,
        classes: object = None,
        labels: object = None,
        missing: object = None,
        duplicates: str = "warn",
    ) -> "CrowdLabels":
        """Labels from grouped response patterns: one row per pattern, with how many items show it.

        The patterns are spelled out into items, so that everything that a fit says counts each item; ``patterns``
        tells which item shows which pattern. Patterns are named by the index, or p1, p2, ... if it is just 0, 1, ...;
        items are named ``pattern_number``, or plainly numbered from a million items on, to save memory.

        Parameters
        ----------
        table : DataFrame or mapping of columns
            One column per worker and one of counts.
        count : hashable
            The column of counts, whole numbers >= 0. A pattern that no item shows is left out.
        workers : sequence of hashable, optional
            The workers' columns; by default all columns that are not named otherwise.
        gold, truth : hashable, optional
            Columns with the known class of a pattern's items, as in :meth:`from_long`.
        classes, labels, missing, duplicates
            As in :meth:`from_long`.

        Returns
        -------
        CrowdLabels

        Raises
        ------
        LabelError
            Listing everything that makes the table unusable.

        Examples
        --------
        >>> table = pd.DataFrame({"x": [0, 1], "y": [0, 1], "n": [3, 2]})
        >>> CrowdLabels.from_counts(table).items.tolist()
        ['p1_1', 'p1_2', 'p1_3', 'p2_1', 'p2_2']
        """
        return cls(**counts_fields(**_arguments(locals())))

    @classmethod
    def from_codes(
        cls,
        item_code: Any,
        worker_code: Any,
        label_code: Any,
        *,
        items: Any = None,
        workers: Any = None,
        classes: Any,
        label_values: Any = None,
        weight: Any = None,
        gold_code: Any = None,
        truth: pd.Series | Mapping[Any, Any] | None = None,
        patterns: pd.Series | None = None,
        ordered: bool = False,
        notes: Sequence[str] = (),
    ) -> "CrowdLabels":
        """Labels from integer codes, for programs; nothing is guessed, dropped or warned about.

        Parameters
        ----------
        item_code, worker_code, label_code : int arrays [N]
            Positions in ``items``, ``workers``, ``label_values``. N may be 0.
        items, workers : sequence or int, optional
            Ids, or how many (then numbered from 0); by default as many as the codes need.
        classes : sequence or int
            The classes, or how many.
        label_values : sequence or int, optional
            What workers can say: the classes first. By default the classes.
        weight : float array [N], optional
            Positive weights.
        gold_code : int array [I], optional
            Known classes, -1 = none.
        truth : Series or mapping, optional
            Item -> class.
        patterns, ordered, notes
            As the attributes.

        Returns
        -------
        CrowdLabels

        Raises
        ------
        LabelError
            If a code has no id, or lengths differ.

        Examples
        --------
        >>> CrowdLabels.from_codes([0, 0, 1], [0, 1, 0], [1, 1, 0], classes=["no", "yes"]).to_frame().label.tolist()
        ['yes', 'yes', 'no']
        """
        return cls(**code_fields(**_arguments(locals())))

    @property
    def n_items(self) -> int:
        """Number of items, those without labels included."""
        return len(self.items)

    @property
    def n_workers(self) -> int:
        """Number of workers, those without labels included."""
        return len(self.workers)

    @property
    def n_annotations(self) -> int:
        """Number of rows."""
        return len(self.item_code)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def gold(self) -> pd.Series | None:
        """Item -> class for the items with gold; None if no item has any."""
        return _by_item(self.gold_code, self.classes, self.items, "gold")

    def summary(self) -> "bayescrowd.data.summary.LabelSummary":
        """Describe the labels: sizes, shares, agreement, connectivity, everything suspicious; text, HTML and fields.

        Examples
        --------
        >>> labels = CrowdLabels.from_wide(np.array([[1, 1], [0, 1], [0, 0]]), items="rows")
        >>> round(labels.summary().raw_agreement, 3)
        0.667
        """
        from bayescrowd.data.summary import summarize

        return summarize(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per annotation: item, worker, label, and weight, gold, truth where there are any.

        Examples
        --------
        >>> CrowdLabels.from_wide(np.array([[1, 0]]), items="rows").to_frame().to_dict("list")
        {'item': [0, 0], 'worker': [0, 1], 'label': [1, 0]}
        """
        columns: dict[str, object] = {
            "item": self.items.take(self.item_code),
            "worker": self.workers.take(self.worker_code),
            "label": self.label_values.take(self.label_code),
        }
        if self.weight is not None:
            columns["weight"] = self.weight
        frame = pd.DataFrame(columns)
        for name, known in (("gold", self.gold), ("truth", self.truth)):
            if known is not None:
                frame[name] = known.reindex(self.items).array.take(self.item_code)
        return frame

    def arrays(self, pad: bool = True) -> "bayescrowd.data.arrays.LabelArrays":
        """Arrays that the kernels read; padded to bucketed sizes unless ``pad`` is false."""
        from bayescrowd.data.arrays import build_arrays

        return build_arrays(self, pad=pad)

    def padded(self) -> "bayescrowd.data.arrays.PaddedLabels":
        """Arrays item x position, for models run as NumPyro programs."""
        from bayescrowd.data.arrays import build_padded

        return build_padded(self)

    def __repr__(self) -> str:
        """One line of sizes."""
        more = [] if self.gold is None else [f"{int((self.gold_code >= 0).sum()):,} with gold"]
        more += [] if self.truth is None else [f"{len(self.truth):,} with truth"]
        extra = self.label_values[self.n_classes :]
        said = f" (labels beside them: {_brief(extra)})" if len(extra) else ""
        return (
            f"CrowdLabels: {count_of(self.n_annotations, 'label')} on {count_of(self.n_items, 'item')} by "
            f"{count_of(self.n_workers, 'worker')}; "
            f"{self.n_classes} {'class' if self.n_classes == 1 else 'classes'} {_brief(self.classes)}{said}"
            + "".join(f"; {part}" for part in more)
        )

    def _repr_html_(self) -> str:
        """For notebooks: the summary."""
        return self.summary()._repr_html_()


def _arguments(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if name != "cls"}


def _brief(values: pd.Index) -> str:
    shown = ", ".join(str(value) for value in values[:6])
    return f"{shown}, ..." if len(values) > 6 else shown


def _by_item(code: np.ndarray, values: pd.Index, items: pd.Index, name: str) -> pd.Series | None:
    there = np.flatnonzero(code >= 0)
    if not len(there):
        return None
    return pd.Series(as_index(values.tolist()).take(code[there]), index=items[there], name=name)
