"""What every engine takes and gives: `Engine`, `Run`, `Status`, and the conditional probabilities of states.

An engine is one file that defines ``ENGINE``; it is found by looking. It takes a label table and a model's parts, never
a particular model, and returns host arrays of exact sizes in the caller's order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import LabelArrays, Sizes, Table, build_arrays
from bayescrowd.errors import EngineError
from bayescrowd.inference.progress import Reporter
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.states import joint, marginal, responsibilities
from bayescrowd.model import Model
from bayescrowd.priors import misfits

__all__ = [
    "DRAWS_LIMIT",
    "LOG_LIKELIHOOD_LIMIT",
    "Engine",
    "Job",
    "Run",
    "Status",
    "check_numbers",
    "check_whole",
    "conditional",
    "joint_by_draw",
    "padded_arrays",
    "require",
    "require_routes",
    "sizes_of",
    "trim",
    "whole_weights",
]

DRAWS_LIMIT = 384 * 2**20
"""Bytes of parameter draws above which fewer are kept, or drawn."""

LOG_LIKELIHOOD_LIMIT = 32_000_000
"""Values above which the log likelihood of each item and draw is not kept."""


@dataclass(frozen=True)
class Status:
    """How a run ended.

    Parameters
    ----------
    code : str
        ``"converged"``, ``"max-iterations"``, ``"interrupted"``, ``"failed"``, ``"sampled"`` or ``"estimated"``.
    sentence : str
        The same in words, with what to do.
    converged : bool or None
        None where only the draws can tell (samplers).
    """

    code: str
    sentence: str
    converged: bool | None


class Run(NamedTuple):
    """What an engine found, as host arrays of exact sizes in the caller's order of items and workers.

    Parameters
    ----------
    points : dict or None
        Parameter site -> estimate, for engines without draws.
    draws : dict or None
        Parameter site -> array [chain, draw, ...], for samplers.
    state_probability : array [item, state]
        Posterior probability of each state (``state = difficulty * n_classes + class``).
    state_probability_by_chain : array [chain, item, state] or None
        The same by chain.
    log_likelihood : array [chain, draw, item] or None
        Log likelihood of each item's labels, states summed out; None where too large to keep.
    sample_stats : dict or None
        Name -> array [chain, draw].
    objective : array [iteration] or None
        What the engine maximises, by iteration.
    status : Status
        How the run ended.
    warnings : tuple of str
        What the user should know.
    extra : dict
        Further numbers (passes, objective of each start).
    concentrations : dict or None
        Parameter site -> Dirichlet concentrations of its posterior, for engines that approximate it by Dirichlets (with
        a last axis of two, value and complement, for a Beta).
    deviations : dict or None
        Parameter site -> posterior standard deviation, of samplers that stream it over all sweeps; ``points`` are then
        posterior means, streamed likewise.
    independent : bool
        True where the draws are independent draws from an approximation, so that chains cannot disagree.
    """

    points: dict[str, np.ndarray] | None
    draws: dict[str, np.ndarray] | None
    state_probability: np.ndarray
    state_probability_by_chain: np.ndarray | None
    log_likelihood: np.ndarray | None
    sample_stats: dict[str, np.ndarray] | None
    objective: np.ndarray | None
    status: Status
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = {}
    concentrations: dict[str, np.ndarray] | None = None
    deviations: dict[str, np.ndarray] | None = None
    independent: bool = False


class Job(NamedTuple):
    """What an engine is asked to do.

    Parameters
    ----------
    model : Model
        Its parts are used, not its name.
    labels : CrowdLabels
        The label table.
    start : array [item, state]
        Start of the state probabilities.
    settings : dataclass
        The engine's own.
    seed : int
        Seed of all randomness of the run.
    reporter : Reporter
        Where progress is told.
    """

    model: Model
    labels: Table
    start: np.ndarray
    settings: Any
    seed: int
    reporter: Reporter


@dataclass(frozen=True)
class Engine:
    """One way to infer.

    Parameters
    ----------
    name : str
        As the user types it.
    settings : type
        Frozen dataclass of its options.
    run : callable
        Job -> Run.
    samples : bool
        True where it gives draws.
    check : callable, optional
        (model, settings) -> None; raises `EngineError` where the two do not go together.
    priors, starts : bool
        False where it takes no notice of the model's priors, or of a start.
    """

    name: str
    settings: type
    run: Callable[[Job], Run]
    samples: bool
    check: Callable[[Model, Any], None] = lambda model, settings: None
    priors: bool = True
    starts: bool = True


def sizes_of(labels: Table) -> Sizes:
    """Exact sizes of the parameters for a label table.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.

    Returns
    -------
    Sizes
        Without padding.
    """
    return Sizes(labels.n_items, labels.n_workers, len(labels.classes), len(labels.label_values))


def trim(values: Mapping[str, Any], model: Model, padded: Sizes, exact: Sizes) -> dict[str, np.ndarray]:
    """Cut the padding off the values of the parameter sites.

    Parameters
    ----------
    values : dict
        Site -> value with padded workers and items; axes before the site's own (chains, draws) are kept.
    model : Model
        Its sites name the axes.
    padded, exact : Sizes
        Sizes with and without padding.

    Returns
    -------
    dict
        Site -> host array of exact size.
    """
    length = {"worker": exact.n_workers, "item": exact.n_items}
    sites = model.sites(padded, values=False)
    return {
        name: np.asarray(value)[(..., *(slice(length.get(dim)) for dim in sites[name].dims))]
        for name, value in values.items()
    }


def conditional(
    model: Model, points: Mapping[str, np.ndarray], labels: Table, *, arrays: LabelArrays | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the probabilities of the states given one set of parameters.

    Parameters
    ----------
    model : Model
        Any model.
    points : dict
        Parameter site -> value of exact size.
    labels : CrowdLabels
        The label table.
    arrays : LabelArrays, optional
        Its layout, where it is at hand (unpadded sizes).

    Returns
    -------
    tuple of array
        State probabilities [item, state] and log likelihood of the items' labels [item].
    """
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item) if arrays is None else arrays
        probability, log_likelihood = _conditional(model, dict(points), arrays)
    rows = np.asarray(arrays.row_of_item)[: labels.n_items]
    return np.asarray(probability)[rows], np.asarray(log_likelihood)[rows]


def joint_by_draw(model: Model, draws: Mapping[str, np.ndarray], labels: Table) -> np.ndarray:
    """Compute the average over draws of P(labels of the item, state | parameters), in logs.

    Parameters
    ----------
    model : Model
        Any model.
    draws : dict
        Parameter site -> array [sample, ...] of exact size.
    labels : CrowdLabels
        The label table.

    Returns
    -------
    array [item, state]
        Log of the mean over samples; normalised over states it is the posterior predictive for new items.
    """
    with double_precision():
        arrays = build_arrays(labels, pad=False, by_annotation=model.uses_item)
        log_mean = _joint_by_draw(model, {name: jnp.asarray(value, float) for name, value in draws.items()}, arrays)
    return np.asarray(log_mean)[np.asarray(arrays.row_of_item)[: labels.n_items]]


@jax.jit
def _conditional(model: Model, points: dict[str, Any], arrays: LabelArrays) -> tuple[Any, Any]:
    table = joint(model, points, arrays)
    return responsibilities(table, arrays), marginal(table, arrays)


@jax.jit
def _joint_by_draw(model: Model, draws: dict[str, Any], arrays: LabelArrays) -> Any:
    n_states = model.n_levels * arrays.sizes.n_classes
    n_draws = jax.tree.leaves(draws)[0].shape[0]

    def add(total: Any, parameters: dict[str, Any]) -> tuple[Any, None]:
        return jnp.logaddexp(total, joint(model, parameters, arrays)), None

    total, _ = jax.lax.scan(add, jnp.full((arrays.n_rows, n_states), -jnp.inf), draws)
    return total - jnp.log(n_draws)


def require(condition: object, message: str) -> None:
    """Raise an `EngineError` unless a condition holds.

    Parameters
    ----------
    condition : bool
        What must be true.
    message : str
        What to say otherwise.

    Raises
    ------
    EngineError
        Where it is not.
    """
    if not condition:
        raise EngineError(message)


def require_routes(name: str, model: Model) -> None:
    """Refuse models without routes, for engines that count table entries.

    Parameters
    ----------
    name : str
        The engine's.
    model : Model
        The model.

    Raises
    ------
    EngineError
        Naming the engines that need none.
    """
    require(
        model.has_routes,
        f"engine {name!r} needs a model whose labels come about as products of table entries (routes); model "
        f"{model.name!r} states none; use engine='nuts', 'svi' or 'em', which need none",
    )


def check_whole(settings: Any, **least: int) -> None:
    """Check that settings are whole numbers.

    Parameters
    ----------
    settings : dataclass
        The settings.
    **least : int
        Field -> smallest value allowed.

    Raises
    ------
    EngineError
        Where one is out of range.
    """
    for name, smallest in least.items():
        value = getattr(settings, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole and value >= smallest, f"{name} must be a whole number of at least {smallest}, not {value!r}")


def check_numbers(settings: Any, *names: str) -> None:
    """Check that settings are finite numbers of at least 0.

    Parameters
    ----------
    settings : dataclass
        The settings.
    *names : str
        Fields.

    Raises
    ------
    EngineError
        Where one is out of range.
    """
    for name in names:
        value = getattr(settings, name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < np.inf
        require(number, f"{name} must be a number of at least 0, not {value!r}")


def whole_weights(labels: Table) -> bool:
    """Say whether labels can be counted: no weights, or whole ones.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.

    Returns
    -------
    bool
    """
    return labels.weight is None or bool((labels.weight == np.round(labels.weight)).all())


def padded_arrays(labels: Table, model: Model) -> LabelArrays:
    """Lay a table out with sizes rounded up, so that similar tables share compiled code, as far as the priors allow.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    model : Model
        A prior of one value per worker (or item) goes with the exact sizes only.

    Returns
    -------
    LabelArrays
        On the host.
    """
    arrays = build_arrays(labels, by_annotation=model.uses_item)
    if misfits(model, arrays.sizes):
        arrays = build_arrays(labels, pad_sizes=False, by_annotation=model.uses_item)
    return arrays
