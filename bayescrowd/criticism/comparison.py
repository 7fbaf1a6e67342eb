"""Which model predicts labels better: ArviZ's comparison of leave-one-out results, and what it says in words."""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._refit_pieces import check_by
from bayescrowd.criticism._refit_tables import differences
from bayescrowd.criticism.kfold import KFold
from bayescrowd.criticism.loo import Loo, estimate, unreliable
from bayescrowd.errors import BayescrowdError, BayescrowdWarning, count_of, problems_message, shorten

__all__ = ["SMALL", "compare", "told_apart"]

_arviz: Any = arviz_stats  # its functions are not typed
_PACKAGE = str(Path(__file__).parents[1])
_METHODS = ("stacking", "bb-pseudo-bma", "pseudo-bma")
_FEW = 100
"""Below so many pieces the normal approximation to a difference is rough."""

SMALL = 4.0
"""Smaller differences (in nats) are not worth a preference, whatever their standard error."""


def compare(fits: Mapping[str, Any], *, by: str = "item", method: str = "stacking") -> pd.DataFrame:
    """Compare fits of the same labels by how well each predicts labels that it has not seen.

    Parameters
    ----------
    fits : dict
        Name -> `Fit`, its ``idata``, or what `Fit.loo` or `Fit.kfold` gave (which come from one kind of piece and one
        way of leaving out, and k-folds from the same folds). Point estimates have no draws: give ``fit.kfold()``.
    by : {"item", "annotation", "worker"}
        What is left out at a time, for the fits given as such.
    method : {"stacking", "bb-pseudo-bma", "pseudo-bma"}
        How the weights are found.

    Returns
    -------
    DataFrame by name
        ArviZ's table, not rounded, the best first: ``rank``, ``elpd_diff`` and ``dse`` (difference to the best and its
        standard error), ``p_worse``, ``p``, ``elpd``, ``se``, ``weight``, ``diag_diff``, ``diag_elpd``.
        ``attrs["advice"]`` says in sentences which predicts better, which cannot be told apart, and what not to rely
        on; ``attrs["by"]`` what was left out.

    Raises
    ------
    BayescrowdError
        For fewer than two fits, fits of different labels, results that cannot be compared with each other, or an
        unknown method.
    EngineError
        For fits without draws.

    Warns
    -----
    BayescrowdWarning
        Where Pareto k of fits is too high to rely on their place in the table, as `loo` warns.

    References
    ----------
    Yao, Vehtari, Simpson, Gelman (2018), Using stacking to average Bayesian predictive distributions, Bayesian Analysis
    13(3). Sivula, Magnusson, Matamoros, Vehtari (2025), Uncertainty in Bayesian leave-one-out cross-validation based
    model comparison, Bayesian Analysis.

    Examples
    --------
    Does it help to let confusion depend on the difficulty of the patient?

    >>> import bayescrowd as bc
    >>> labels = bc.datasets.load("anesthesia")
    >>> prior = bc.diagonal(3, 1)
    >>> plain = bc.fit(labels, bc.DawidSkene(confusion_prior=prior), engine="gibbs")
    >>> levels = bc.fit(labels, bc.FixedIDBLA(confusion_prior=prior), engine="gibbs")
    >>> table = bc.compare({"dawid-skene": plain, "fixed-idbla": levels})
    >>> table.columns[:3].tolist()
    ['rank', 'elpd_diff', 'dse']
    >>> len(table.attrs["advice"]) > 0
    True
    """
    check_by(by)
    if str(method).lower() not in _METHODS:
        raise BayescrowdError(f"method must be one of {', '.join(map(repr, _METHODS))}, not {method!r}")
    results = _results(fits, by)
    _check(results)
    given = {name: _light(result) for name, result in results.items()}
    if method.lower() == "stacking":
        given = _levelled(given)
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        # ArviZ would round by standard errors: 194 +- 17 to 190.
        table: pd.DataFrame = _arviz.compare(given, method=method, round_to="none")
    table.attrs["by"] = _kind(next(iter(results.values())))
    chance = any("due to chance" in str(warning.message) for warning in noticed)
    table.attrs["advice"] = _advice(table, results, table.attrs["by"], chance=chance)
    # Whoever gives the result of fit.loo() was warned by it.
    _warn([name for name, result in results.items() if result is not fits[name] and unreliable(result)], by)
    return table


def told_apart(difference: float, error: float) -> bool:
    """Say whether a difference is more than chance would show: more than two standard errors.

    Parameters
    ----------
    difference, error : float
        ``elpd_diff`` and ``dse`` of `compare`, in nats.

    Returns
    -------
    bool
        Whether it matters is another question: see `SMALL`.
    """
    return bool(abs(difference) > 2 * error)


def _warn(names: list[str], by: str) -> None:
    if names:
        argument = "" if by == "item" else f"by={by!r}"
        warnings.warn(
            f"Pareto k is too high for {shorten(names)}: these values, and the places in the table, cannot be relied "
            f"on. Compare the results of fit.kfold({argument}) of all fits instead; .attrs['advice'] says more",
            BayescrowdWarning,
            skip_file_prefixes=(_PACKAGE,),
        )


def _results(fits: Any, by: str) -> dict[str, Any]:
    if not isinstance(fits, Mapping):
        raise BayescrowdError(
            'compare takes a dict of names and fits, such as {"ds": fit1, "idbla": fit2}, not a '
            f"{type(fits).__name__}"
        )
    if len(fits) < 2:
        raise BayescrowdError(f"compare needs at least two fits, not {len(fits)}")
    found: dict[str, Any] = {}
    for name, given in fits.items():
        if not isinstance(name, str) or not name.strip():
            raise BayescrowdError(f"the names of the fits must be text, not {name!r}")
        tree = getattr(given, "idata", given)
        if isinstance(given, arviz_stats.ELPDData):
            found[name] = given
        elif isinstance(tree, xr.DataTree):
            try:
                found[name] = estimate(tree, by=by)
            except BayescrowdError as error:
                raise type(error)(f"{name!r}: {error}") from error
        else:
            raise BayescrowdError(
                f"{name!r} is a {type(given).__name__}; compare takes fits, their idata, or what fit.loo() and "
                f"fit.kfold() gave"
            )
    return found


def _kind(result: Any) -> str:
    return str(getattr(result, "by", None) or result.elpd_i.dims[0])


def _check(results: Mapping[str, Any]) -> None:
    """Refuse what cannot be compared."""
    short = [name for name, result in results.items() if result.elpd_i is None]
    if short:
        raise BayescrowdError(f"{shorten(short)} has no values by piece: compute it with pointwise=True")
    kinds = {name: _kind(result) for name, result in results.items()}
    ways = {name: str(result.kind) for name, result in results.items()}
    first, reference = next(iter(results.items()))
    problems = []
    for name, result in results.items():
        if kinds[name] != kinds[first]:
            problems.append(
                f"{first!r} leaves out by {kinds[first]}, {name!r} by {kinds[name]}: give all of them the same by."
            )
        elif ways[name] != ways[first]:
            problems.append(f"{first!r} is from {_way(reference)}, {name!r} from {_way(result)}: take one for all.")
        elif isinstance(result, KFold) and isinstance(reference, KFold) and not result.fold.equals(reference.fold):
            problems.append(f"{first!r} and {name!r} have other folds: give kfold the same folds and seed.")
        else:
            other = _other_table(reference, result)
            if other:
                problems.append(f"{first!r} and {name!r} are of different labels: {other} differ.")
        impossible = int((~np.isfinite(result.elpd_i.to_numpy())).sum())
        if impossible:
            problems.append(
                f"{name!r} gives probability 0 to the labels of {count_of(impossible, kinds[name])}, and nothing is "
                "worse: fit by an engine that averages over the posterior."
            )
    if problems:
        raise BayescrowdError(problems_message("these results cannot be compared", problems))


def _way(result: Any) -> str:
    return "k-fold cross-validation" if "kfold" in str(result.kind) else "leave-one-out"


def _other_table(first: Any, second: Any) -> str:
    """Say in which parts two label tables differ; empty where they do not, as far as that can be told."""
    one, other = (getattr(result, "table", None) for result in (first, second))
    if one and other:
        return " and ".join(differences(one, other))
    same = first.elpd_i.sizes == second.elpd_i.sizes
    for dim in first.elpd_i.dims if same else ():
        same = same and np.array_equal(first.elpd_i[dim].to_numpy(), second.elpd_i[dim].to_numpy())
    return "" if same else f"{_kind(first)}s"


def _light(result: Any) -> Any:
    """Leave out the weights of all draws, which comparing copies and does not read."""
    return dataclasses.replace(result, log_weights=None) if hasattr(result, "log_weights") else result


def _levelled(results: Mapping[str, Any]) -> dict[str, Any]:
    """Take the best value of each piece away: stacking weights and differences stay, exponentials do not underflow."""
    best = np.max([result.elpd_i.to_numpy() for result in results.values()], axis=0)
    return {name: dataclasses.replace(result, elpd_i=result.elpd_i - best) for name, result in results.items()}


def _advice(table: pd.DataFrame, results: Mapping[str, Any], by: str, *, chance: bool) -> list[str]:
    best = str(table.index[0])
    found = []
    for name in table.index[1:]:
        difference, error = abs(float(table.loc[name, "elpd_diff"])), float(table.loc[name, "dse"])
        text = f"{difference:.1f} +- {error:.1f} nats"
        if not told_apart(difference, error):
            found.append(f"{best} and {name} cannot be told apart: {text}, within two standard errors.")
        elif difference < SMALL:
            found.append(f"{best} predicts labels better than {name} by {text}: too little to matter.")
        else:
            found.append(f"{best} predicts labels better than {name} by {text}.")
    n_pieces = int(np.size(results[best].elpd_i))
    if n_pieces < _FEW:
        found.append(f"With {count_of(n_pieces, by)} only, standard errors are rough: they may be much too small.")
    if chance:
        found.append("Among so many models the best may lead by chance: prefer the weights to the ranks.")
    for name, result in results.items():
        own = list(result.advice) if isinstance(result, Loo | KFold) else []
        if not own and result.pareto_k is not None and (result.pareto_k.to_numpy() > result.good_k).any():
            n_bad = int((result.pareto_k.to_numpy() > result.good_k).sum())
            own = [f"Pareto k is above {result.good_k:.2f} for {count_of(n_bad, by)}."]
        found += [f"{name}: {sentence}" for sentence in own]
    return found
