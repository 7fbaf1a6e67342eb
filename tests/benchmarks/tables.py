"""Label tables for the benchmarks, simulated with plain NumPy and kept in files, the same for every tool."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.runner import data_folder


class LabelTable(NamedTuple):
    """Codes of a label table and the true class of each item (-1 where unknown)."""

    item: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    truth: np.ndarray

    def frame(self, *, text: bool = False) -> Any:
        """The table as a DataFrame, with whole numbers or texts as ids."""
        import pandas as pd

        if not text:
            return pd.DataFrame({"task": self.item, "worker": self.worker, "label": self.label}).astype(np.int64)
        names = {
            "task": ("item{:07d}", self.item),
            "worker": ("w{:05d}", self.worker),
            "label": ("class{}", self.label),
        }
        columns = {}
        for column, (form, codes) in names.items():
            values = pd.Index([form.format(code) for code in range(int(codes.max()) + 1)], dtype="str")
            columns[column] = values.take(codes)
        return pd.DataFrame(columns)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(max(self.label.max(), self.truth.max())) + 1

    def accuracy(self, predicted: np.ndarray) -> float | None:
        """Share of items with known truth whose class is right."""
        known = self.truth >= 0
        return float((predicted[known] == self.truth[known]).mean()) if known.any() else None


def name_of(spec: dict[str, Any]) -> str:
    """File name of a table; it changes with this module."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return "-".join([*(f"{key}={value}" for key, value in sorted(spec.items())), code])


def prepare(spec: dict[str, Any], folder: Path) -> None:
    """Make a table's file, unless it is there."""
    path = folder / f"{name_of(spec)}.npz"
    if path.is_file():
        return
    table = _read(spec["dataset"]) if "dataset" in spec else simulate(**spec)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(path.with_suffix(".part.npz"), **table._asdict())
    path.with_suffix(".part.npz").rename(path)


def load(spec: dict[str, Any], folder: Path) -> LabelTable:
    """Read a table that `prepare` made."""
    with np.load(folder / f"{name_of(spec)}.npz") as file:
        return LabelTable(**{name: file[name] for name in LabelTable._fields})


def simulate(
    items: int, workers: int, classes: int, per_item: int, shape: str = "even", extra: int = 0, seed: int = 0
) -> LabelTable:
    """Simulate labels by workers whose accuracies average .75 (Beta(7.5, 2.5)), errors unevenly spread.

    Shapes: "even" (every item has `per_item` labels by different workers), "one-item" (`extra` more labels, all on
    item 0), "one-worker" (worker 0 gives half of all labels; for two labels per item).
    """
    random = np.random.default_rng(seed)
    prevalence = np.linspace(2.0, 1.0, classes)
    truth = random.choice(classes, size=items, p=prevalence / prevalence.sum()).astype(np.int32)
    accuracy = random.beta(7.5, 2.5, size=(workers, classes))
    errors = random.dirichlet(np.full(classes - 1, 2.0), size=(workers, classes))
    confusion = np.zeros((workers, classes, classes))
    for code in range(classes):
        confusion[:, code, np.arange(classes) != code] = (1 - accuracy[:, code, None]) * errors[:, code]
        confusion[:, code, code] = accuracy[:, code]

    who = _distinct(random, items, workers, per_item)
    if shape == "one-worker":
        who[:, : per_item // 2] = 0
        who[:, per_item // 2 :] = 1 + who[:, per_item // 2 :] % (workers - 1)
    item = np.repeat(np.arange(items, dtype=np.int32), per_item)
    worker = who.ravel().astype(np.int32)
    if shape == "one-item":
        item = np.concatenate([item, np.zeros(extra, np.int32)])
        worker = np.concatenate([worker, random.integers(0, workers, extra).astype(np.int32)])
    edges = np.cumsum(confusion, axis=2)[..., :-1]
    label = np.zeros(len(item), np.int32)
    for part in np.array_split(np.arange(len(item)), max(1, len(item) // 500_000)):
        ladder = edges[worker[part], truth[item[part]]]
        label[part] = (random.random((len(part), 1)) > ladder).sum(axis=1)
    order = random.permutation(len(item))
    return LabelTable(item[order], worker[order], label[order], truth)


def _distinct(random: np.random.Generator, items: int, workers: int, per_item: int) -> np.ndarray:
    """Different workers for each item."""
    who = random.integers(0, workers, (items, per_item))
    bad = np.arange(items)
    while len(bad):
        ordered = np.sort(who[bad], axis=1)
        bad = bad[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        who[bad] = random.integers(0, workers, (len(bad), per_item))
    return who


def _read(name: str) -> LabelTable:
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError(f"data set {name!r} is not here: set BAYESCROWD_DATA")
    with (folder / name / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["item"], row["worker"], row["label"]) for row in csv.DictReader(file)]
    items, workers = (sorted({row[column] for row in rows}) for column in (0, 1))
    labels = sorted({row[2] for row in rows}, key=lambda value: (len(value), value))
    codes = [{value: code for code, value in enumerate(values)} for values in (items, workers, labels)]
    coded = np.array([[code[value] for code, value in zip(codes, row, strict=True)] for row in rows], np.int32)
    truth = np.full(len(items), -1, np.int32)
    known = folder / name / "truth.csv"
    if known.is_file():
        with known.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["item"] in codes[0]:
                    truth[codes[0][row["item"]]] = codes[2].get(row["label"], -1)
    return LabelTable(*coded.T.copy(), truth)
