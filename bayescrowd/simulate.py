"""Labels with known truth, simulated by a model's own program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpyro import handlers

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import ModelError, problems_message, shorten
from bayescrowd.model import Model, Site
from bayescrowd.sites import TRACING

__all__ = ["Simulation", "simulate"]

_TINY, _EPSILON = 1e-300, 2.0**-53


@dataclass(frozen=True)
class Simulation:
    """Simulated labels and everything that they came from.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; ``labels.truth`` holds the true class of each item.
    parameters : dict
        Parameter site -> true value (``prevalence``, ``confusion``, ...).
    difficulty : array [item] or None
        Difficulty level of each item, counted from 0, for models that have it.
    workers : DataFrame
        By worker: ``role`` ("worker", "spammer" or "adversary") and ``n_labels``.
    """

    labels: CrowdLabels
    parameters: Mapping[str, np.ndarray]
    difficulty: np.ndarray | None = None
    workers: pd.DataFrame = field(default_factory=pd.DataFrame)


def simulate(
    model: Model,
    *,
    n_items: int,
    n_workers: int,
    classes: int | Sequence[Any] = 2,
    labels: Sequence[Any] | None = None,
    labels_per_item: int | tuple[int, int] | Sequence[int] | None = None,
    labels_per_worker: int | Sequence[int] | None = None,
    spammers: int | float = 0,
    adversaries: int | float = 0,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Simulation:
    """Simulate labels with known truth by running a model's program.

    Parameters
    ----------
    model : Model
        Its priors give the parameters, its program the classes and labels. Priors decide how good the workers are:
        ``bc.DawidSkene(confusion_prior=bc.diagonal(8, 1))`` makes a good crowd.
    n_items, n_workers : int
        How many.
    classes : int or sequence
        How many classes (then named 0, 1, ...), or their values.
    labels : sequence, optional
        Label values where workers can say more than the classes; the classes come first.
    labels_per_item : int, (low, high), or sequence of int, optional
        How many different workers label each item: the same number for all, a range to draw from evenly, or one number
        per item. By default 5, or all workers where there are fewer.
    labels_per_worker : int or sequence of int, optional
        Instead: how many different items each worker labels.
    spammers, adversaries : int or float
        How many workers (a whole number), or which share of them (a fraction below 1), answer without regard to the
        class, and mistake each class for another one. They are the last workers.
    parameters : dict, optional
        Parameter site -> value, for sites that are not to be drawn from the prior.
    seed : int
        Same seed, same labels.

    Returns
    -------
    Simulation
        ``labels`` (with ``labels.truth``), ``parameters``, ``difficulty``, ``workers``.

    Raises
    ------
    ModelError
        Listing every argument that does not fit.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(8, 1)), n_items=100, n_workers=9, classes=3,
    ...                     labels_per_item=(2, 5), spammers=1, seed=1)
    >>> crowd.labels.n_items, crowd.parameters["confusion"].shape
    (100, (9, 3, 3))
    """
    class_values = _values(classes, "classes")
    label_values = list(labels) if labels is not None else class_values
    _check_kinds(model, n_items=n_items, n_workers=n_workers, seed=seed, spammers=spammers, adversaries=adversaries)
    random = np.random.default_rng(seed)
    counts = {"spammers": _count(spammers, n_workers), "adversaries": _count(adversaries, n_workers)}
    _check(n_items, n_workers, class_values, label_values, counts, labels_per_item, labels_per_worker)
    sizes = Sizes(n_items, n_workers, len(class_values), len(label_values))
    model.check(sizes)
    item, worker = _design(n_items, n_workers, labels_per_item, labels_per_worker, random)

    key_parameters, key_labels = jax.random.split(jax.random.key(seed))
    with jax.enable_x64(True):
        fixed = {name: jnp.asarray(value, float) for name, value in (parameters or {}).items()}
        values = _parameters(model, sizes, fixed, key_parameters)
        sites = model.sites(sizes)
        values = _odd_workers(sites, values, counts, set(fixed), random)
        table, row, position = _table(item, worker, sizes)
        inside = {name: _off_the_edge(value, sites[name].kind) for name, value in values.items()}
        program = handlers.seed(handlers.substitute(model.program, data=inside), key_labels)
        with TRACING:
            trace = handlers.trace(program).get_trace(table)
    label = np.asarray(trace["labels"]["value"])[row, position]
    true_class = np.asarray(trace["true_class"]["value"]).reshape(-1)
    difficulty = trace.get("item_difficulty")
    items, workers = _ids("item", n_items), _ids("worker", n_workers)
    crowd = CrowdLabels.from_codes(
        row,
        worker,
        label,
        items=items,
        workers=workers,
        classes=class_values,
        label_values=label_values,
        truth=pd.Series([class_values[code] for code in true_class], index=items),
        notes=[f"simulated from model {model.name!r} with seed {seed}"],
    )
    ordinary = n_workers - counts["spammers"] - counts["adversaries"]
    roles = ["worker"] * ordinary + ["spammer"] * counts["spammers"] + ["adversary"] * counts["adversaries"]
    people = pd.DataFrame({"role": roles, "n_labels": np.bincount(worker, minlength=n_workers)}, index=workers)
    return Simulation(
        labels=crowd,
        parameters={name: np.asarray(value) for name, value in values.items()},
        difficulty=None if difficulty is None else np.asarray(difficulty["value"]).reshape(-1),
        workers=people.rename_axis("worker"),
    )


def _values(classes: int | Sequence[Any], name: str) -> list[Any]:
    if isinstance(classes, int | np.integer):
        return list(range(int(classes)))
    if isinstance(classes, str):
        raise ModelError(f"{name} must be a number or a sequence of values, not the text {classes!r}")
    return list(classes)


def _count(value: float, n_workers: int) -> int:
    return round(value * n_workers) if 0 < value < 1 else int(value)


def _check_kinds(model: Any, *, spammers: Any, adversaries: Any, **whole: Any) -> None:
    if not isinstance(model, Model):
        raise ModelError(f"simulate takes a model such as bc.DawidSkene() first, not {_kind(model)}")
    problems = [
        f"{name} must be a whole number of at least 0, not {value!r}"
        for name, value in whole.items()
        if not _whole(value)
    ]
    for name, value in (("spammers", spammers), ("adversaries", adversaries)):
        if not (_whole(value) or (isinstance(value, float) and 0 <= value < 1)):
            problems.append(f"{name} must be a whole number of workers or a share below 1, not {value!r}")
    if problems:
        raise ModelError(problems_message("these labels cannot be simulated", problems))


def _kind(value: Any) -> str:
    return f"the class {value.__name__}: call it" if isinstance(value, type) else f"a {type(value).__name__}"


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def _check(
    n_items: int,
    n_workers: int,
    classes: list[Any],
    labels: list[Any],
    counts: dict[str, int],
    per_item: Any,
    per_worker: Any,
) -> None:
    problems = []
    if n_items < 1 or n_workers < 1:
        problems.append(f"n_items={n_items} and n_workers={n_workers} must be at least 1")
    if len(classes) < 1 or len(set(classes)) < len(classes):
        problems.append(f"classes must be at least one, without repeats; got {shorten(classes)}")
    if labels[: len(classes)] != classes:
        problems.append(f"labels must begin with the classes {shorten(classes)}; got {shorten(labels)}")
    if min(counts.values()) < 0 or sum(counts.values()) > n_workers:
        problems.append(f"{counts['spammers']} spammers and {counts['adversaries']} adversaries of {n_workers} workers")
    if counts["adversaries"] and len(classes) < 2:
        problems.append("adversaries need at least two classes")
    if per_item is not None and per_worker is not None:
        problems.append("pass labels_per_item or labels_per_worker, not both")
    for name, value, n, most in (
        ("labels_per_item", per_item, n_items, n_workers),
        ("labels_per_worker", per_worker, n_workers, n_items),
    ):
        if value is None:
            continue
        numbers = np.atleast_1d(np.asarray(value))
        if numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0 or numbers.max(initial=0) > most:
            problems.append(f"{name} must be whole numbers between 0 and {most}; got {shorten(numbers.tolist())}")
        elif isinstance(value, tuple) and numbers.size == 2 and numbers[0] > numbers[1]:
            problems.append(f"{name}={value} is a range from more to less")
        elif numbers.ndim > 1 or (numbers.size not in (1, n) and not (isinstance(value, tuple) and numbers.size == 2)):
            problems.append(f"{name} has {numbers.size} values for {n}")
    if problems:
        raise ModelError(problems_message("these labels cannot be simulated", problems))


def _design(
    n_items: int, n_workers: int, per_item: Any, per_worker: Any, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Who labels what: item and worker of each annotation, by item, each pair at most once."""
    if per_worker is not None:
        numbers = np.broadcast_to(np.asarray(per_worker), n_workers)
        worker, item = _choose(numbers, n_items, random)
        order = np.lexsort((worker, item))
        return item[order], worker[order]
    if per_item is None:
        numbers = np.full(n_items, min(5, n_workers))
    elif isinstance(per_item, tuple) and len(per_item) == 2 and n_items != 2:
        numbers = random.integers(per_item[0], per_item[1] + 1, n_items)
    else:
        numbers = np.broadcast_to(np.asarray(per_item), n_items)
    return _choose(numbers, n_workers, random)


def _choose(numbers: np.ndarray, n_others: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For each row choose so many different columns; returns rows and columns, sorted by row."""
    row = np.repeat(np.arange(len(numbers)), numbers)
    if numbers.size and numbers.max() * 3 > n_others:
        every = [random.permutation(n_others)[:n] for n in numbers]
        return row, np.concatenate(every) if every else np.zeros(0, int)
    column = random.integers(0, n_others, len(row))
    while True:
        # Few repeats where rows are short: redraw only those.
        pair = row * n_others + column
        _, first = np.unique(pair, return_index=True)
        again = np.ones(len(row), bool)
        again[first] = False
        if not again.any():
            return row, column
        column[again] = random.integers(0, n_others, int(again.sum()))


def _table(item: np.ndarray, worker: np.ndarray, sizes: Sizes) -> tuple[PaddedLabels, np.ndarray, np.ndarray]:
    degree = np.bincount(item, minlength=sizes.n_items)
    first = np.concatenate([[0], np.cumsum(degree)])
    position = np.arange(len(item)) - first[item]
    shape = (sizes.n_items, max(int(degree.max(initial=0)), 1))
    who, mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
    who[item, position], mask[item, position] = worker, True
    return PaddedLabels(worker=who, label=None, mask=mask, weight=None, gold=None, sizes=sizes), item, position


def _parameters(model: Model, sizes: Sizes, fixed: dict[str, Any], key: Any) -> dict[str, Any]:
    seeded = handlers.seed(handlers.substitute(model.parameters, data=fixed), key)
    with TRACING:
        trace = handlers.trace(seeded).get_trace(sizes)
    sites = {name: node for name, node in trace.items() if node["type"] == "sample"}
    problems = [
        f"model {model.name!r} has no parameter {name!r}; it has {shorten(sites)}"
        for name in fixed
        if name not in sites
    ]
    for name in set(fixed) & set(sites):
        shape = sites[name]["fn"].shape()
        if np.shape(fixed[name]) != shape:
            problems.append(f"parameter {name!r} must have shape {shape}, not {np.shape(fixed[name])}")
        elif not bool(jnp.all(sites[name]["fn"].support(fixed[name]))):
            problems.append(f"parameter {name!r} is not in its support (probabilities must sum to one)")
    if problems:
        raise ModelError(problems_message("these parameters cannot be used", problems))
    return {name: node["value"] for name, node in sites.items()}


def _odd_workers(
    sites: dict[str, Site], values: dict[str, Any], counts: dict[str, int], fixed: set[str], random: np.random.Generator
) -> dict[str, Any]:
    """Overwrite the confusion matrices of the last workers by those of spammers and adversaries."""
    if not any(counts.values()):
        return values
    wanted = {"worker", "class", "label"}
    tables = [name for name, site in sites.items() if site.kind == "dirichlet" and wanted <= set(site.dims)]
    if not tables:
        raise ModelError("spammers and adversaries need a model with a confusion matrix per worker")
    if set(tables) & fixed:
        raise ModelError(f"spammers and adversaries would overwrite the parameters given as {shorten(tables)}")
    values = dict(values)
    for name in tables:
        dims = sites[name].dims
        table = np.moveaxis(np.array(values[name]), dims.index("worker"), 0)
        n_labels = table.shape[-1]
        class_axis = [dim for dim in dims if dim != "worker"].index("class")
        first_adversary = len(table) - counts["adversaries"]
        for worker in range(first_adversary - counts["spammers"], first_adversary):
            table[worker] = random.dirichlet(np.ones(n_labels))
        for worker in range(first_adversary, len(table)):
            # The row of each class becomes that of the next one: good at being wrong.
            table[worker] = np.roll(table[worker], 1, axis=class_axis)
        values[name] = jnp.asarray(np.moveaxis(table, 0, dims.index("worker")))
    return values


def _off_the_edge(value: Any, kind: str) -> Any:
    """Keep probabilities of zero (a worker who is never wrong) away from the logarithm; no draw ever shows it."""
    return value if kind == "other" else jnp.clip(value, _TINY, 1.0 if kind == "dirichlet" else 1 - _EPSILON)


def _ids(word: str, n: int) -> list[str]:
    width = len(str(n))
    return [f"{word}{index + 1:0{width}d}" for index in range(n)]
