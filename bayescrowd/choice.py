"""Which model and which engine: what the user named, checked; or what the labels can bear, with the reason."""

import dataclasses
import difflib
import types
import typing
from typing import Any, NamedTuple

import numpy as np

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, count_of, no_such, problems_message, shorten
from bayescrowd.inference import get as get_engine
from bayescrowd.inference import names as engine_names
from bayescrowd.inference.base import Engine, whole_weights
from bayescrowd.model import At, Model, Sizes, diagonal
from bayescrowd.models import get as get_model
from bayescrowd.models import resolve

__all__ = ["Choice", "choose"]

_ITEMS_FOR_LEVELS = 200
"""With fewer items the shares and the matrices of difficulty levels are mostly prior."""

_LABELS_FOR_LEVELS = 10
"""The same with fewer labels than this of a worker per class, on average."""

_LARGE = 300_000
"""Labels times states above which the fastest approximation of expectations is taken."""

_SMALL_FOR_NUTS = 10_000
"""Most labels for which a model without count tables is sampled by default."""


class Choice(NamedTuple):
    """What `bayescrowd.fit` was asked for, or chose, checked as far as it can be.

    Parameters
    ----------
    model : Model
        The model, priors included.
    engine : Engine
        The engine.
    settings : dataclass
        Its options, defaults included.
    seed : int
        The seed.
    reasons : tuple of str
        What was chosen by default, and why.
    """

    model: Model
    engine: Engine
    settings: Any
    seed: int
    reasons: tuple[str, ...]


def choose(
    model: Any = None, *, engine: str | None = None, seed: int = 0, labels: CrowdLabels | None = None, **options: Any
) -> Choice:
    """Check model, engine, options and seed of a fit; choose what was left open.

    Without a model, the labels decide. Difficulty levels need enough items, and enough labels of every worker for each
    class and level: with at least 200 items and 10 labels per worker and class IDBLA with its defaults is taken, else
    Dawid-Skene with a prior that favours the diagonal more, as there is less to learn it from (and for
    engines that know no priors, such as ``"em"``, plain Dawid-Skene). No truth is looked at.
    Without an engine, collapsed variational inference is taken where the model has one route from class to label
    (exact expectations up to a size, the quickest ones above it).

    Parameters
    ----------
    model, engine, seed, **options
        As for `bayescrowd.fit`.
    labels : CrowdLabels, optional
        The labels; without them the model is not final, but everything else is checked.

    Returns
    -------
    Choice
        What `bayescrowd.fit` uses.

    Raises
    ------
    ModelError, EngineError
        As `bayescrowd.fit` raises them.
    """
    reasons = []
    if model is None:
        chosen_model, reason = _model_for(labels, engine)
        reasons.append(reason)
    else:
        chosen_model = resolve(model)
    if engine is None:
        chosen, defaults, reason = _engine_for(chosen_model, labels)
        options = {name: value for name, value in defaults.items() if name not in options} | options
        reasons.append(reason)
    else:
        chosen = _engine(engine)
        if chosen.name == "collapsed-vi" and "moments" not in options and not (labels is None or whole_weights(labels)):
            options |= {"moments": "zero"}
            reasons.append("Option moments='zero' was chosen by default: weights are not whole numbers.")
    settings = _settings(chosen, options)
    _check_pair(chosen, chosen_model, settings)
    return Choice(chosen_model, chosen, settings, _seed(seed), tuple(reasons) if labels is not None else ())


def _model_for(labels: CrowdLabels | None, engine: str | None) -> tuple[Model, str]:
    levels, plain = get_model("idbla"), get_model("dawid-skene")
    if engine in engine_names() and not get_engine(engine).priors:
        return plain(), (
            f"Model 'dawid-skene' was chosen by default: engine {engine!r} knows no priors, without which difficulty "
            "levels fit chance."
        )
    if labels is None:
        return levels(), ""
    n_items = int(np.count_nonzero(np.bincount(labels.item_code)))
    n_workers = int(np.count_nonzero(np.bincount(labels.worker_code)))
    per_class = labels.n_annotations / max(n_workers * labels.n_classes, 1)
    if n_items >= _ITEMS_FOR_LEVELS and per_class >= _LABELS_FOR_LEVELS:
        return levels(), (
            f"Model 'idbla' was chosen by default: {n_items:,} items, and {per_class:.0f} labels per worker and class "
            f"on average, are enough to tell difficulty levels apart."
        )
    why = (
        f"{count_of(n_items, 'item')} (fewer than {_ITEMS_FOR_LEVELS}) {'is' if n_items == 1 else 'are'}"
        if n_items < _ITEMS_FOR_LEVELS
        else f"{per_class:.1f} labels per worker and class on average (fewer than {_LABELS_FOR_LEVELS}) are"
    )
    prior = diagonal(2.0, 0.5)
    return plain(confusion_prior=prior), (  # type: ignore[call-arg]
        f"Model 'dawid-skene' with confusion_prior=bc.diagonal(2, 0.5) was chosen by default: {why} too few to "
        f"tell difficulty levels apart."
    )


def _engine_for(model: Model, labels: CrowdLabels | None) -> tuple[Engine, dict[str, Any], str]:
    size = 0 if labels is None else labels.n_annotations
    if not model.has_routes:
        small = size <= _SMALL_FOR_NUTS
        name = "nuts" if small else "svi"
        return (
            get_engine(name),
            {},
            (
                f"Engine {name!r} was chosen by default: model {model.name!r} has no count tables, and "
                f"{count_of(size, 'label')} {'is' if size == 1 else 'are'} "
                f"{'few enough to sample' if small else 'many'}."
            ),
        )
    if _n_routes(model) > 1:
        return (
            get_engine("vb"),
            {},
            (f"Engine 'vb' was chosen by default: under model {model.name!r} a label comes about in several ways."),
        )
    fractional = labels is not None and not whole_weights(labels)
    n_states = model.n_levels * (1 if labels is None else labels.n_classes)
    if fractional or size * n_states > _LARGE:
        why = "weights are not whole numbers" if fractional else f"{size:,} labels are many"
        return (
            get_engine("collapsed-vi"),
            {"moments": "zero"},
            (
                f"Engine 'collapsed-vi' with moments='zero' was chosen by default: it is fast and deterministic, and "
                f"{why}. engine='gibbs' samples the posterior itself."
            ),
        )
    return (
        get_engine("collapsed-vi"),
        {},
        (
            "Engine 'collapsed-vi' was chosen by default: it is fast, deterministic and close to the posterior; "
            "engine='collapsed-gibbs' samples the posterior itself."
        ),
    )


def _n_routes(model: Model) -> int:
    at = At(np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), Sizes(1, 1, 2, 2))
    return len(model.routes(at) or [])


def _engine(engine: Any) -> Engine:
    names = engine_names()
    if engine not in names:
        raise EngineError(no_such("engine", engine, names))
    return get_engine(engine)


def _settings(engine: Engine, options: dict[str, Any]) -> Any:
    fields = _options(engine)
    unknown = [name for name in options if name not in fields]
    if unknown:
        elsewhere = {
            name: [other for other in engine_names() if name in _options(get_engine(other))] for name in unknown
        }
        problems = []
        for name in unknown:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            hint = f"; it is an option of {shorten(elsewhere[name])}" if elsewhere[name] else hint
            problems.append(f"unknown option {name!r}{hint}")
        valid = ", ".join(f"{name}={field.default!r}" for name, field in fields.items())
        raise EngineError(problems_message(f"engine {engine.name!r} takes {valid or 'no options'}", problems))
    return engine.settings(**_typed(engine, options))


def _typed(engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    """Check the types of options by the annotations of the settings; NumPy's numbers become Python's."""
    hints = typing.get_type_hints(engine.settings)
    found, problems = {}, []
    for name, value in options.items():
        plain = value.item() if isinstance(value, np.generic) else value
        found[name] = plain
        if not _is(plain, hints.get(name, Any)):
            problems.append(f"{name}={value!r} must be {_kind(hints[name])}, not {type(value).__name__}")
    if problems:
        raise EngineError(problems_message(f"engine {engine.name!r} cannot use these options", problems))
    return found


def _is(value: Any, hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_is(value, part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    if hint in (int, float):
        return not isinstance(value, bool) and isinstance(value, int if hint is int else int | float)
    return not isinstance(hint, type) or isinstance(value, hint)


def _kind(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "text", type(None): "None"}
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join(_kind(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def _options(engine: Engine) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(engine.settings)}


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise EngineError(f"seed must be a whole number from 0 to 4294967295, not {seed!r}")
    return int(seed)


def _check_pair(engine: Engine, model: Model, settings: Any) -> None:
    """Let the engine object to the model; then say which engines do not."""
    try:
        engine.check(model, settings)
    except EngineError as error:
        fitting = []
        for name in engine_names():
            other = get_engine(name)
            if name == engine.name:
                continue
            try:
                other.check(model, other.settings())
            except EngineError:
                continue
            fitting.append(name)
        raise EngineError(f"{error}; engines that fit model {model.name!r}: {shorten(fitting, 20)}") from error
