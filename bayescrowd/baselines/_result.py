"""What the baselines share: how their findings become a `Fit`, and the votes they start from."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayescrowd.data.arrays import Table
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.required import require_labels
from bayescrowd.errors import ConvergenceWarning, EngineError, count_of, shorten
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Run, Status
from bayescrowd.models.dawid_skene import DawidSkene
from bayescrowd.results.build import build_tree
from bayescrowd.results.coordinates import Variables
from bayescrowd.results.rule import Rule

__all__ = ["Call", "Found", "Votes", "begin", "ending", "finish", "votes_of"]

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Call:
    """One call of a baseline.

    Parameters
    ----------
    method : str
        Name of the public function, with dashes: the ``engine`` of the fit.
    labels : CrowdLabels
        The label table.
    settings : dict
        The call's options.
    begun : float
        When it began.
    """

    method: str
    labels: CrowdLabels
    settings: Mapping[str, Any]
    begun: float = field(default_factory=time.perf_counter)


class Found(NamedTuple):
    """What a baseline found.

    Parameters
    ----------
    probability : array [item, class]
        Probabilities of the classes (or shares, or 0 and 1, where the method gives no more). Rows sum to one.
    confusion : array [worker, class, label] or None
        Confusion matrices, of methods that assume Dawid and Skene's model.
    prevalence : array [class] or None
        With them.
    by_worker : dict
        Name -> array [worker] of what else the method says of workers; ``"accuracy"`` is the probability that a worker
        is right.
    by_item : dict
        Name -> array [item].
    objective : array [iteration] or None
        What it maximises, or minimises.
    converged : bool or None
        None for methods without iterations, or with a fixed number of them.
    sentence : str
        How it ended.
    warnings : tuple of str
        What the user should know.
    details : dict
        Further numbers.
    """

    probability: np.ndarray
    confusion: np.ndarray | None = None
    prevalence: np.ndarray | None = None
    by_worker: Mapping[str, np.ndarray] = {}
    by_item: Mapping[str, np.ndarray] = {}
    objective: np.ndarray | None = None
    converged: bool | None = None
    sentence: str = "Computed without iterations."
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = {}


class Votes(NamedTuple):
    """The labels that are classes, as arrays; what baselines compute with.

    Parameters
    ----------
    item, worker, label : int array [annotation]
        Codes.
    weight : array [annotation]
        Ones without weights.
    gold : int array [item]
        Known class, or -1.
    n_items, n_workers, n_classes : int
        Sizes.
    """

    item: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    gold: np.ndarray
    n_items: int
    n_workers: int
    n_classes: int

    def named(self) -> np.ndarray:
        """Mark the classes that somebody votes for or gold names: the others cannot be found.

        Returns
        -------
        bool array [class]
            All of them where there are neither votes nor gold.
        """
        named = np.bincount(self.label, self.weight, self.n_classes) > 0
        named[self.gold[self.gold >= 0]] = True
        return named if named.any() else np.ones(self.n_classes, bool)

    def clamped(self, probability: np.ndarray) -> np.ndarray:
        """Put gold items at their known class.

        Parameters
        ----------
        probability : array [item, class]
            Probabilities of the classes.

        Returns
        -------
        array [item, class]
            A copy.
        """
        probability = np.array(probability, float)
        known = np.flatnonzero(self.gold >= 0)
        probability[known] = 0.0
        probability[known, self.gold[known]] = 1.0
        return probability


def begin(method: str, labels: Any, /, **settings: Any) -> Call:
    """Open a call: refuse what is no label table.

    Parameters
    ----------
    method : str
        Name of the public function, with dashes.
    labels : CrowdLabels
        What the user passed.
    **settings
        The call's options.

    Returns
    -------
    Call

    Raises
    ------
    LabelError
        Where there is no table, or an empty one.
    """
    require_labels(labels, f"baselines.{method.replace('-', '_')}")
    return Call(method, labels, settings)


def votes_of(call: Call, *, binary: bool = False) -> Votes:
    """Take the labels that are classes.

    Parameters
    ----------
    call : Call
        The call.
    binary : bool
        Refuse tables of more (or less) than two classes.

    Returns
    -------
    Votes

    Raises
    ------
    EngineError
        Where two classes are needed, or no label is a class.
    """
    labels: Table = call.labels
    n_classes = len(labels.classes)
    if binary and n_classes != 2:
        raise EngineError(
            f"{call.method} is for two classes, and these labels have {n_classes}: {shorten(list(labels.classes), 10)}"
        )
    kept = labels.label_code < n_classes
    if not kept.any():
        raise EngineError(f"{call.method} needs labels that are classes, and no label of this table is one")
    weight = np.ones(len(labels.label_code)) if labels.weight is None else np.asarray(labels.weight, float)
    return Votes(
        labels.item_code[kept].astype(np.int64),
        labels.worker_code[kept].astype(np.int64),
        labels.label_code[kept].astype(np.int64),
        weight[kept],
        labels.gold_code,
        labels.n_items,
        labels.n_workers,
        n_classes,
    )


def ending(number: int, converged: bool, goal: str, *, noun: str = "pass", option: str = "max_iter") -> str:
    """Say how iterations ended.

    Parameters
    ----------
    number : int
        How many there were.
    converged : bool
        Whether the goal was reached.
    goal : str
        What converged iterations do, as in ``"a pass changed nothing"``.
    noun : str
        What one iteration is called.
    option : str
        The option to raise for more of them.

    Returns
    -------
    str
        A sentence.
    """
    number_of = count_of(number, noun)
    return (
        f"Converged after {number_of}." if converged else f"Stopped after {number_of}, before {goal}: raise {option}."
    )


def finish(call: Call, found: Found) -> Fit:
    """Turn what a baseline found into a `Fit`.

    Parameters
    ----------
    call : Call
        The call.
    found : Found
        What it found.

    Returns
    -------
    Fit
        With a point estimate; its engine is the method's name.
    """
    model = Rule() if found.confusion is None else DawidSkene()
    points: dict[str, np.ndarray] = {}
    if found.confusion is not None and found.prevalence is not None:
        points = {"confusion": found.confusion, "prevalence": found.prevalence}
    further: Variables = {name: (("worker",), np.asarray(value, float)) for name, value in found.by_worker.items()}
    further |= {name: (("item",), np.asarray(value, float)) for name, value in found.by_item.items()}
    code = {True: "converged", False: "max-iterations", None: "estimated"}[found.converged]
    run = Run(
        points=points,
        draws=None,
        state_probability=found.probability,
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=found.objective,
        status=Status(code, found.sentence, found.converged),
        warnings=found.warnings,
        extra=found.details,
    )
    seconds = time.perf_counter() - call.begun
    settings = dict(call.settings)
    seed = int(settings.pop("seed", 0))
    tree = build_tree(call.labels, model, call.method, settings, run, seed, seconds, further=further)
    if found.converged is False:
        warnings.warn(
            f"{call.method} did not converge. {found.sentence}", ConvergenceWarning, skip_file_prefixes=(_PACKAGE,)
        )
    return Fit(tree)
