"""The front door: `fit`, `item_difficulty` and `load`. It joins the rooms and does nothing else."""

import dataclasses
import difflib
import inspect
import time
import types
import typing
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.items import quick_difficulty
from bayescrowd.errors import ConvergenceWarning, EngineError, LabelError, ModelError, problems_message, shorten
from bayescrowd.fit import Fit
from bayescrowd.inference import get as get_engine
from bayescrowd.inference import names as engine_names
from bayescrowd.inference.base import Engine, Job, sizes_of
from bayescrowd.inference.progress import reporter
from bayescrowd.inference.starts import resolve
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import Model
from bayescrowd.models import get as get_model
from bayescrowd.models import names as model_names
from bayescrowd.results import store
from bayescrowd.results.build import build_tree
from bayescrowd.results.tree import has_chains

__all__ = ["fit", "item_difficulty", "load"]

_DEFAULT_ENGINE = "em"
_PACKAGE = str(Path(__file__).parent)


def fit(
    labels: Any,
    model: Any = "dawid-skene",
    *,
    engine: str | None = None,
    init: Any = None,
    seed: int = 0,
    progress: bool | None = None,
    on_failure: str = "warn",
    **options: Any,
) -> Fit:
    """Infer the true class of every item and the confusion matrix of every worker.

    Parameters
    ----------
    labels : CrowdLabels
        The labels (`bayescrowd.read_labels`, `CrowdLabels.from_long`, ...).
    model : Model, type or str
        A model with priors (``bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))``), its class, or its name.
    engine : str, optional
        How to infer: ``"em"`` (a point estimate, fast) or ``"nuts"`` (draws from the posterior). By default ``"em"``.
    init : str, Fit or array, optional
        Start: ``"majority"``, ``"ability"`` (majority vote, and difficulty levels by how easy items look), an earlier
        fit, or an array item x class of probabilities. By default ``"ability"`` for models with difficulty levels,
        else ``"majority"``. Where a start says nothing about levels, they come from ``"ability"``.
    seed : int
        Seed of all randomness. The same seed gives the same numbers (on one machine, with the same versions).
    progress : bool, optional
        Show a progress bar; by default where somebody looks at a terminal or a notebook.
    on_failure : {"warn", "raise"}
        What to do where the engine did not converge: return the result with a `ConvergenceWarning`, or raise.
    **options
        Options of the engine, e.g. ``chains=4, warmup=500, draws=1000`` of nuts, ``objective="posterior"`` of em.

    Returns
    -------
    Fit
        The result.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    ModelError
        For an unknown model or priors that do not fit the labels.
    EngineError
        For an unknown engine, option or start; or, with ``on_failure="raise"``, where the engine did not converge.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> fit.engine, fit.converged
    ('em', True)
    """
    _check_labels(labels)
    chosen_model, chosen, settings, seed = choose(model, engine=engine, seed=seed, **options)
    if on_failure not in ("warn", "raise"):
        raise EngineError(f"on_failure must be 'warn' or 'raise', not {on_failure!r}")
    if progress is not None and not isinstance(progress, bool | np.bool_):
        raise EngineError(f"progress must be True, False or None (a bar where somebody looks), not {progress!r}")
    with double_precision():  # as the engines: small operations are then compiled once
        chosen_model.check(sizes_of(labels))
    start = resolve(init, labels, chosen_model)
    begun = time.perf_counter()
    with reporter(progress) as report:
        run = chosen.run(Job(chosen_model, labels, start, settings, seed, report))
    seconds = time.perf_counter() - begun
    tree = build_tree(labels, chosen_model, chosen.name, settings, run, seed, seconds)
    if engine is None:
        tree.attrs["notes"] = [*tree.attrs["notes"], f"Engine {chosen.name!r} was chosen by default."]
    _judge(tree)
    result = Fit(tree)
    if result.converged is False:
        sentence = _why(tree)
        if on_failure == "raise":
            raise EngineError(sentence)  # there is no fit to ask: the remedy is in the sentence
        warnings.warn(f"{sentence} fit.diagnose() says more", ConvergenceWarning, skip_file_prefixes=(_PACKAGE,))
    return result


class Choice(NamedTuple):
    """What `fit` was asked for, checked as far as it can be without labels.

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
    """

    model: Model
    engine: Engine
    settings: Any
    seed: int


def choose(model: Any = "dawid-skene", *, engine: str | None = None, seed: int = 0, **options: Any) -> Choice:
    """Check model, engine, options and seed of a fit before there are labels.

    Parameters
    ----------
    model, engine, seed, **options
        As for `fit`.

    Returns
    -------
    Choice
        What `fit` would use.

    Raises
    ------
    ModelError, EngineError
        As `fit` raises them.
    """
    chosen_model, chosen = _model(model), _engine(engine)
    settings = _settings(chosen, options)
    _check_pair(chosen, chosen_model, settings)
    return Choice(chosen_model, chosen, settings, _seed(seed))


def load(path: str | Path) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Fit
        The result, in memory.

    Raises
    ------
    BayescrowdError
        Where there is no such file, it is no result of bayescrowd, or a newer version wrote it.

    Examples
    --------
    >>> import bayescrowd as bc, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.nc")
    >>> bc.fit(bc.datasets.load("anesthesia")).save(path)
    >>> bc.load(path).consensus().shape
    (45, 6)
    """
    return Fit(store.load(path))


def item_difficulty(labels: Any, n_levels: Any = 3) -> pd.DataFrame:
    """Estimate quickly, without a fit, how difficult each item is.

    Workers are judged by their agreement with the majority of the others, then items by how well workers of that
    ability agree on them. `Fit.items`, of a model with difficulty levels, gives probabilities.

    Parameters
    ----------
    labels : CrowdLabels
        The labels.
    n_levels : int
        Number of levels to cut the items into.

    Returns
    -------
    DataFrame by item
        ``easiness`` (1 is middling), ``difficulty`` (1 / easiness), ``level`` (``"1"`` easiest; levels as equal in
        number as ties allow), ``n_labels`` and ``agreement`` (share of the votes for the leading class); NaN and NA
        for an item without labels.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    ModelError
        Where ``n_levels`` is no number of levels.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> table = bc.item_difficulty(bc.datasets.load("anesthesia"))
    >>> table.loc[[1, 3], "level"].tolist()
    ['1', '3']
    """
    _check_labels(labels, "item_difficulty")
    return quick_difficulty(labels, n_levels)


def _check_labels(labels: object, function: str = "fit") -> None:
    if isinstance(labels, CrowdLabels):
        if labels.n_items == 0 or labels.n_annotations == 0:
            raise LabelError("there are no labels to fit: the table has no rows")
        return
    if isinstance(labels, pd.DataFrame):
        columns = [str(column) for column in labels.columns]
        raise LabelError(
            f"{function} takes a CrowdLabels, not a DataFrame (its columns: {shorten(columns, 10)}). Write\n"
            f'    labels = bc.CrowdLabels.from_long(df, item="...", worker="...", label="...")\n'
            f'    labels = bc.CrowdLabels.from_wide(df, items="rows")\n'
            f"and pass that"
        )
    if isinstance(labels, str | Path):
        raise LabelError(
            f"{function} takes a CrowdLabels, not a path. Write\n    bc.{function}(bc.read_labels({str(labels)!r}))"
        )
    if isinstance(labels, np.ndarray):
        raise LabelError(
            f"{function} takes a CrowdLabels, not an array. Write\n"
            f'    labels = bc.CrowdLabels.from_wide(array, items="rows")\nand pass that'
        )
    raise LabelError(
        f"{function} takes a CrowdLabels, not a {type(labels).__name__}; make one with bc.read_labels(path) or "
        f"bc.CrowdLabels.from_long(df, item=..., worker=..., label=...)"
    )


def _model(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, str):
        names = model_names()
        if model not in names:
            raise ModelError(_unknown("model", model, names))
        model = get_model(model)
    if isinstance(model, type) and issubclass(model, Model) and not inspect.isabstract(model):
        try:
            return model()
        except TypeError as error:
            raise ModelError(f"model {model.__name__} needs arguments: {error}") from error
    raise ModelError(f"model must be a model, its class or its name ({shorten(model_names(), 20)}), not {model!r}")


def _engine(engine: Any) -> Engine:
    names = engine_names()
    name = _DEFAULT_ENGINE if engine is None else engine
    if name not in names:
        raise EngineError(_unknown("engine", name, names))
    return get_engine(name)


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


def _judge(tree: xr.DataTree) -> None:
    """Say in the tree whether a sampler's chains agree, and what else should be known without being asked."""
    from bayescrowd.criticism.convergence import vanished_classes
    from bayescrowd.criticism.levels import permuted_levels

    noticed = vanished_classes(tree) + permuted_levels(tree)
    found = [finding.text for finding in noticed if finding.severity != "note"]
    if has_chains(tree):
        from bayescrowd.criticism.convergence import diagnose

        diagnosis = diagnose(tree)
        tree.attrs["converged"] = {True: "yes", False: "no", None: "unknown"}[diagnosis.converged]
        known = {"permuted-mode", "permuted-level", "vanished-class"}
        found += [
            f"{finding.text} Remedy: {finding.remedy}." for finding in diagnosis.problems if finding.code not in known
        ]
    tree.attrs["warnings"] = [*tree.attrs["warnings"], *found]


def _why(tree: xr.DataTree) -> str:
    """One message on a fit that did not converge: why, and what to do."""
    from bayescrowd.criticism.convergence import diagnose

    codes = ("r-hat", str(tree.attrs["status"]))
    reasons = [finding for finding in diagnose(tree).problems if finding.code in codes and finding.remedy]
    sentences = [f"{finding.text} Remedy: {finding.remedy}." for finding in reasons]
    return (
        f"{tree.attrs['model']} by {tree.attrs['engine']} did not converge. "
        f"{' '.join(sentences) or tree.attrs['status_sentence']}"
    )


def _unknown(what: str, name: object, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(name).lower().replace("_", "-"), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no {what} {name!r}; {hint}The {what}s are {', '.join(map(repr, names))}"
