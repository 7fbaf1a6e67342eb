"""What a label table looks like before any fit: sizes, shares, agreement, connectivity, suspicions."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.validate import repeating_rows
from bayescrowd.errors import count_of, shorten

__all__ = ["LabelSummary", "Spread", "summarize"]


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest of some counts; NaN if there are none."""

    minimum: float
    median: float
    maximum: float

    def __str__(self) -> str:
        """``min / median / max``."""
        return " / ".join(f"{value:,.4g}" for value in (self.minimum, self.median, self.maximum))


@dataclass(frozen=True, repr=False)
class LabelSummary:
    """Numbers and words about a label table; prints as text, shows as HTML in a notebook.

    Attributes
    ----------
    n_items, n_workers, n_annotations, n_classes, n_labels : int
        Sizes; items and workers without labels count.
    labels_per_item, labels_per_worker : Spread
        Numbers of labels, over all items and over all workers.
    label_shares : Series [L]
        Share of each label value among the annotations (weighted where weights are given).
    raw_agreement : float
        Share of agreeing pairs among the pairs of labels that different workers gave to one item; NaN if there is no
        such pair.
    n_ties : int
        Items on which a majority vote of the classes is tied.
    n_components : int
        Parts of the item-worker graph that no label joins.
    component_sizes : DataFrame
        Items, workers and labels of each part, largest first.
    n_repeats : int
        Rows that repeat an item-worker pair.
    n_gold, n_truth : int
        Items with gold and with truth.
    workers_one_label, workers_one_value : Index
        Workers with a single label; workers with several labels who always say the same.
    workers_silent, items_silent : Index
        Workers and items without labels.
    labels_unused : Index
        Label values that nobody used.
    suspicions : tuple of str
        What limits what can be learned, in words.
    notes : tuple of str
        What was noticed or done when the table was read.
    """

    n_items: int
    n_workers: int
    n_annotations: int
    n_classes: int
    n_labels: int
    labels_per_item: Spread
    labels_per_worker: Spread
    label_shares: pd.Series
    raw_agreement: float
    n_ties: int
    n_components: int
    component_sizes: pd.DataFrame
    n_repeats: int
    n_gold: int
    n_truth: int
    workers_one_label: pd.Index
    workers_one_value: pd.Index
    workers_silent: pd.Index
    items_silent: pd.Index
    labels_unused: pd.Index
    suspicions: tuple[str, ...]
    notes: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """List what is shown as text and HTML: what, and its value in words."""
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.label_shares.head(12).items())
        more = f" and {self.n_labels - 12} more" if self.n_labels > 12 else ""
        agreement = "no pair of workers shares an item" if np.isnan(self.raw_agreement) else f"{self.raw_agreement:.1%}"
        table = [
            ("items", f"{self.n_items:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("labels", f"{self.n_annotations:,}"),
            (
                "classes",
                f"{self.n_classes:,}"
                + ("" if self.n_labels == self.n_classes else f" of {self.n_labels:,} label values"),
            ),
            ("labels per item", f"{self.labels_per_item} (min / median / max)"),
            ("labels per worker", f"{self.labels_per_worker} (min / median / max)"),
            ("label shares", shares + more),
            ("raw agreement", agreement),
            ("majority ties", count_of(self.n_ties, "item")),
            ("connected", "yes" if self.n_components <= 1 else f"no, {self.n_components:,} separate parts"),
        ]
        if self.n_repeats:
            table.append(("repeats", f"{count_of(self.n_repeats, 'row')} of an item-worker pair seen before"))
        if self.n_gold or self.n_truth:
            table.append(("gold / truth", f"{count_of(self.n_gold, 'item')} / {count_of(self.n_truth, 'item')}"))
        return table

    def __str__(self) -> str:
        """Aligned text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        for title, points in (("look at", self.suspicions), ("notes", self.notes)):
            if points:
                lines += ["", f"{title}:", *(f"- {point}" for point in points)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Table and lists for notebooks."""
        body = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self.rows()
        )
        parts = [f"<table><tbody>{body}</tbody></table>"]
        for title, points in (("Look at", self.suspicions), ("Notes", self.notes)):
            if points:
                parts.append(
                    f"<p><b>{title}</b></p><ul>{''.join(f'<li>{escape(point)}</li>' for point in points)}</ul>"
                )
        return "".join(parts)


def summarize(labels: CrowdLabels) -> LabelSummary:
    """Describe a label table; see :meth:`CrowdLabels.summary`.

    Parameters
    ----------
    labels : CrowdLabels

    Returns
    -------
    LabelSummary

    Examples
    --------
    >>> labels = CrowdLabels.from_long([("a", "x", 0), ("a", "y", 1), ("b", "z", 1)])
    >>> summarize(labels).n_components
    2
    """
    item, worker, label = labels.item_code, labels.worker_code, labels.label_code
    n_items, n_workers, n_labels = labels.n_items, labels.n_workers, len(labels.label_values)
    by_item = np.bincount(item, minlength=n_items)
    by_worker = np.bincount(worker, minlength=n_workers)
    by_label = np.bincount(label, weights=labels.weight, minlength=n_labels)
    total = by_label.sum()
    repeating, pair = repeating_rows(item, worker, n_workers)
    varied = _says_several(worker, label, n_workers)
    part_of_item, sizes = _components(item, worker, n_items, n_workers)
    fields = {
        "labels_unused": labels.label_values[by_label == 0],
        "workers_silent": labels.workers[by_worker == 0],
        "items_silent": labels.items[by_item == 0],
        "workers_one_label": labels.workers[by_worker == 1],
        "workers_one_value": labels.workers[(by_worker > 1) & ~varied],
    }
    suspicions = _words(fields, int(n_workers - (by_worker == 0).sum()), sizes, labels.items, part_of_item)
    return LabelSummary(
        n_items=n_items,
        n_workers=n_workers,
        n_annotations=len(item),
        n_classes=labels.n_classes,
        n_labels=n_labels,
        labels_per_item=_spread(by_item),
        labels_per_worker=_spread(by_worker),
        label_shares=pd.Series(by_label / total if total else by_label, index=labels.label_values, name="share"),
        raw_agreement=_agreement(labels),
        n_ties=_ties(labels),
        n_components=len(sizes),
        component_sizes=sizes,
        n_repeats=len(repeating) - len(np.unique(pair)),
        n_gold=int((labels.gold_code >= 0).sum()),
        n_truth=0 if labels.truth is None else len(labels.truth),
        suspicions=tuple(suspicions),
        notes=labels.notes,
        **fields,
    )


def _spread(counts: np.ndarray) -> Spread:
    if not len(counts):
        return Spread(np.nan, np.nan, np.nan)
    return Spread(float(counts.min()), float(np.median(counts)), float(counts.max()))


def _group(key: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys in order, and how many rows, or how much weight, each has."""
    order = None if weight is None else np.argsort(key, kind="stable")
    ordered = np.sort(key) if order is None else key[order]
    starts = _starts(ordered)
    if weight is None or order is None:
        return ordered[starts], np.diff(starts, append=len(ordered)).astype(np.float64)
    return ordered[starts], np.add.reduceat(weight[order], starts) if len(starts) else np.zeros(0)


def _starts(ordered: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate([np.ones(min(len(ordered), 1), dtype=bool), ordered[1:] != ordered[:-1]]))


def _agreement(labels: CrowdLabels) -> float:
    """Share of agreeing pairs by counting: all pairs of an item minus the pairs within one worker."""
    item, label, weight = labels.item_code, labels.label_code, labels.weight
    n_labels = len(labels.label_values)
    _, said = _group(item.astype(np.int64) * n_labels + label, weight)
    by_item = np.bincount(item, weights=weight, minlength=labels.n_items).astype(np.float64)
    # without repeats a worker's own pairs are just the rows with themselves
    own = own_same = float(len(item)) if weight is None else float((weight**2).sum())
    rows, key = repeating_rows(item, labels.worker_code, labels.n_workers)
    if len(rows):
        pair = pd.factorize(key)[0].astype(np.int64)
        some = None if weight is None else weight[rows]
        single = float(len(rows)) if some is None else float((some**2).sum())
        own += float((_group(pair, some)[1] ** 2).sum()) - single
        own_same += float((_group(pair * n_labels + label[rows], some)[1] ** 2).sum()) - single
    pairs = float((by_item**2).sum()) - own
    # less than this is rounding: no item was labelled by two workers
    if pairs <= 1e-9 * own:
        return float("nan")
    return (float((said**2).sum()) - own_same) / pairs


def _ties(labels: CrowdLabels) -> int:
    """Items whose highest count of a class is shared by several classes."""
    votes = labels.label_code < labels.n_classes
    weight = None if labels.weight is None else labels.weight[votes]
    keys, said = _group(labels.item_code[votes].astype(np.int64) * labels.n_classes + labels.label_code[votes], weight)
    if not len(keys):
        return 0
    owner = keys // labels.n_classes
    starts = _starts(owner)
    highest = np.repeat(np.maximum.reduceat(said, starts), np.diff(starts, append=len(owner)))
    return int((np.add.reduceat(np.isclose(said, highest).astype(np.int64), starts) > 1).sum())


def _says_several(worker: np.ndarray, label: np.ndarray, n_workers: int) -> np.ndarray:
    low = np.full(n_workers, np.iinfo(np.int32).max, dtype=np.int32)
    high = np.full(n_workers, -1, dtype=np.int32)
    np.minimum.at(low, worker, label)
    np.maximum.at(high, worker, label)
    return high > low


def _components(item: np.ndarray, worker: np.ndarray, n_items: int, n_workers: int) -> tuple[np.ndarray, pd.DataFrame]:
    """Part of each item (-1 without labels), and the sizes of the parts, largest first."""
    nodes = n_items + n_workers
    graph = coo_matrix((np.ones(len(item), dtype=np.int8), (item, worker + n_items)), shape=(nodes, nodes))
    _, part = connected_components(graph, directed=False)
    used, labels_in = np.unique(part[item], return_counts=True)
    order = np.argsort(-labels_in, kind="stable")
    rank = np.full(int(part.max(initial=-1)) + 1, -1)
    rank[used[order]] = np.arange(len(used))
    numbered = rank[part]
    of_item, of_worker = numbered[:n_items], numbered[n_items:]
    count = len(used)
    sizes = pd.DataFrame(
        {
            "items": np.bincount(of_item[of_item >= 0], minlength=count),
            "workers": np.bincount(of_worker[of_worker >= 0], minlength=count),
            "labels": labels_in[order],
        }
    )
    return of_item, sizes


def _words(
    found: dict[str, pd.Index], n_talkers: int, sizes: pd.DataFrame, items: pd.Index, part_of_item: np.ndarray
) -> list[str]:
    points: list[str] = []
    if len(sizes) > 1:
        examples = [items[int(np.argmax(part_of_item == part))] for part in range(min(len(sizes), 3))]
        shown = "; ".join(
            f"{count_of(n_items, 'item')} with {count_of(n_workers, 'worker')} (such as item {shorten([example])})"
            for example, n_items, n_workers in zip(examples, sizes["items"], sizes["workers"], strict=False)
        )
        points.append(
            f"the labels fall into {len(sizes):,} parts that share no worker and no item: {shown}. Workers of "
            "different parts can only be compared through the prior."
        )
    texts: Sequence[tuple[str, str, str]] = (
        ("workers_one_value", "worker", "with several labels that are all the same, which says little about any item"),
        ("workers_one_label", "worker", "with a single label; what is said of them is mostly the prior"),
        ("workers_silent", "worker", "without labels"),
        ("items_silent", "item", "without labels"),
        ("labels_unused", "label value", "that nobody used"),
    )
    for name, noun, sentence in texts:
        if len(found[name]):
            points.append(f"{count_of(len(found[name]), noun)} {sentence}: {shorten(found[name])}.")
    if n_talkers == 1:
        points.append("only one worker labelled: a worker's accuracy is not identified without others.")
    return points
