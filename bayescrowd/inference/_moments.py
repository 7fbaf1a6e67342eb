"""What the engines that estimate from moments share: which models they fit, and how an estimate becomes a run."""

import dataclasses
from typing import Any

import numpy as np

from bayescrowd.errors import shorten
from bayescrowd.inference.base import Job, Run, Status, check_whole, require
from bayescrowd.model import At, Model, Sizes
from bayescrowd.moments.estimate import LEAST_COMMON, Estimate, decode, floored
from bayescrowd.moments.polish import polished

__all__ = ["DECODINGS", "check_choices", "check_model", "check_most", "check_shared", "check_unused", "finish"]

DECODINGS = ("map", "ml")
PREVALENCES = ("estimated", "uniform")


def check_model(name: str, model: Model) -> None:
    """Refuse models other than one prevalence and one confusion matrix per worker.

    Parameters
    ----------
    name : str
        The engine's.
    model : Model
        The model.

    Raises
    ------
    EngineError
        Where labels do not come about as entries of the workers' confusion matrices alone.
    """
    worker, true_class, label = np.arange(2), np.arange(2) + 2, np.arange(2) + 4
    at = At(worker, true_class, np.zeros(2, int), label, np.zeros(2, int), Sizes(8, 8, 8, 8))
    routes = model.routes(at) if model.has_routes and model.n_levels == 1 else None
    plain = routes is not None and len(routes) == 1 and list(routes[0].cells) == ["confusion"]
    if plain and routes is not None:
        cells = routes[0].cells["confusion"]
        same = len(cells) == 3 and all(
            found is wanted for found, wanted in zip(cells, (worker, true_class, label), strict=True)
        )
        plain = same and bool(np.all(np.asarray(routes[0].log_constant) == 0)) and bool(np.all(routes[0].counted))
        plain = plain and list(model.state_cells(at)) == ["prevalence"]
    require(
        plain,
        f"engine {name!r} estimates the model of Dawid and Skene, a prevalence and one confusion matrix per worker; "
        f"model {model.name!r} is another. Use it as a start, init={name!r}",
    )


def check_choices(settings: Any, **allowed: tuple[Any, ...]) -> None:
    """Check that settings have one of their values.

    Parameters
    ----------
    settings : dataclass
        The settings.
    **allowed : tuple
        Field -> values.

    Raises
    ------
    EngineError
        Where one has not.
    """
    for name, values in allowed.items():
        value = getattr(settings, name)
        listed = ", ".join(map(repr, values[:-1]))
        require(value in values, f"{name} must be {listed} or {values[-1]!r}, not {value!r}")


def check_most(settings: Any, **most: int) -> None:
    """Check that numbers of passes are not beyond what memory and patience hold.

    Parameters
    ----------
    settings : dataclass
        The settings.
    **most : int
        Field -> largest value allowed.

    Raises
    ------
    EngineError
        Where one is larger.
    """
    for name, largest in most.items():
        value = getattr(settings, name)
        require(value is None or value <= largest, f"{name} must be at most {largest:,}, not {value!r}")


def check_unused(settings: Any, condition: bool, because: str, *names: str) -> None:
    """Refuse options that would have no effect beside another one.

    Parameters
    ----------
    settings : dataclass
        The settings.
    condition : bool
        Whether the other option is there.
    because : str
        The other option, as the user writes it.
    *names : str
        Fields that it leaves without effect.

    Raises
    ------
    EngineError
        Naming those that differ from their defaults.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    given = [name for name in names if condition and getattr(settings, name) != defaults[name]]
    require(not given, f"with {because} these options have no effect: {', '.join(given)}; leave them out")


def check_shared(settings: Any) -> None:
    """Check the settings that all these engines have.

    Parameters
    ----------
    settings : dataclass
        With fields ``decode``, ``polish`` and ``polish_prevalence``.

    Raises
    ------
    EngineError
        Where one is out of range.
    """
    check_choices(settings, decode=DECODINGS, polish_prevalence=PREVALENCES)
    check_whole(settings, polish=0)
    check_most(settings, polish=100_000)


def finish(job: Job, estimate: Estimate, *, left_out: bool = False, objective_sign: float = -1.0) -> Run:
    """Turn an estimate into a run: polish it, decode the classes.

    Parameters
    ----------
    job : Job
        What was asked for.
    estimate : Estimate
        What was found.
    left_out : bool
        Whether workers that could not be estimated have no say in the classes.
    objective_sign : float
        Turns the estimate's objective into one that rises.

    Returns
    -------
    Run
        Without draws.
    """
    settings, labels = job.settings, job.labels
    raw = estimate
    require(
        raw.estimated.any() or not left_out or settings.polish,
        "compat='released' estimates workers with more than seven partners only, and nobody here has so many; leave it "
        "out, or take engine='multispa-kl'",
    )
    if settings.polish:
        estimate = polished(labels, estimate, settings.polish, prevalence=settings.polish_prevalence)
    confusion = floored(estimate.confusion, estimate.floor)
    if left_out and not settings.polish:
        confusion[~estimate.estimated] = 1 / confusion.shape[2]
    estimate = estimate._replace(confusion=confusion)
    details = {name: _plain(value) for name, value in estimate.details.items()}
    return Run(
        points={"prevalence": estimate.prevalence, "confusion": estimate.confusion},
        draws=None,
        state_probability=decode(labels, estimate, rule=settings.decode),
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=None if estimate.objective is None else objective_sign * np.asarray(estimate.objective),
        status=Status("estimated", _sentence(details, settings.polish), True),
        warnings=(*_few_common(raw), *_named(job, raw, left_out=left_out and not settings.polish)),
        extra=details | {"not_estimated": np.flatnonzero(~raw.estimated).tolist()},
    )


def _sentence(details: dict[str, Any], polish: int) -> str:
    """Say how the estimate came about."""
    said = "Estimated from the moments of pairs of workers"
    n_passes = details.get("n_passes")
    if n_passes is not None:
        said += f", {n_passes} {'pass' if n_passes == 1 else 'passes'}"
        said += "" if details["settled"] else " (stopped before the end, which suits few labels per worker)"
    return said + (f" and {polish} passes of EM." if polish else ".")


def _few_common(estimate: Estimate) -> tuple[str, ...]:
    """Warn where pairs tell next to nothing."""
    common = estimate.details["median_common"]
    if common >= LEAST_COMMON:
        return ()
    return (
        f"Pairs of workers have {common:.3g} {'item' if common == 1 else 'items'} in common in the median, too few to "
        "learn from pair by pair: the estimate may be worse than the majority vote. Use engine='em' or a sampler.",
    )


def _named(job: Job, estimate: Estimate, *, left_out: bool) -> tuple[str, ...]:
    """Add the ids of the workers who could not be estimated to what the estimator says of them."""
    notes = estimate.notes
    if estimate.estimated.all() or not notes:
        return notes
    labels: Any = job.labels
    who = shorten([worker for worker, known in zip(labels.workers, estimate.estimated, strict=True) if not known])
    more = " By compat='released' they have no say in the classes." if left_out else ""
    return (*notes[:-1], f"{notes[-1]} They are {who}.{more}")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
