"""How much do the conclusions hang on the prior, and how much on the labels: power-scaling."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._power_scaling import Components, Scaling, components
from bayescrowd.criticism.likelihood import require_draws
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import EngineError, LabelError, count_of, problems_message, shorten
from bayescrowd.results.tree import has_chains, ids, model_of, n_labels_of

__all__ = ["CONFLICT", "PRIOR_DRIVEN", "sensitivity"]

CONFLICT = "prior-data conflict"
"""Diagnosis of a quantity that moves with the prior and with the labels."""

PRIOR_DRIVEN = "strong prior / weak likelihood"
"""Diagnosis of a quantity that moves with the prior only."""

_UNCLEAR, _CONSTANT, _FINE = "unclear", "constant", "-"
_MOST_WORKERS = 20
_FEWEST_DRAWS = 100


class _Quantity(NamedTuple):
    """Draws [chain, draw] of a number, and the groups of rows that it is computed from."""

    name: str
    value: np.ndarray
    read: np.ndarray


def sensitivity(
    tree: xr.DataTree,
    *,
    threshold: float = 0.05,
    quantities: str | Iterable[str] | Mapping[str, xr.DataArray] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Say how much conclusions move when the prior, or the likelihood, counts a little more or less.

    The prior density (or the likelihood of all labels) is raised to a power near 1 by reweighting the draws; the
    sensitivity is how fast the posterior of a quantity moves away, per doubling of the power. A prior of concentration
    c raised to the power :math:`\alpha` is one of concentration :math:`1 + \alpha (c - 1)`: a flat prior, c = 1, does
    not move at all, and has sensitivity 0 even where it says more than the labels.

    Of a worker's accuracy, and of anything else that is computed from some of the tables, what the priors and labels of
    the *other* tables add to the noise is taken off, for models whose labels come about in one way (all of ours): plain
    power-scaling of hundreds of confusion matrices shows sensitivities where there are none.

    Parameters
    ----------
    tree : DataTree
        A result with Markov chains.
    threshold : float
        Sensitivities from here on count.
    quantities : str, list of str, or mapping, optional
        Names of variables of the posterior, or ``"accuracy"`` (of every worker); or name -> DataArray (chain, draw,
        ...) computed from them. By default what is shared by all items and workers (prevalence, shares of difficulty
        levels) and the accuracy of each worker, at most the 20 with the most labels; ``attrs["workers"]`` says so.
    seed : int
        Seed of the states of items that are drawn along, and of the noise.

    Returns
    -------
    DataFrame by quantity
        ``prior`` and ``likelihood`` (sensitivities), ``prior_SITE`` for each parameter site (to its prior alone),
        ``prior_noise`` and ``likelihood_noise`` (what chance alone can show with these draws), ``diagnosis``
        ("prior-data conflict": moves with both; "strong prior / weak likelihood": moves with the prior alone; "-";
        "unclear" where noise might explain it; "constant"), ``remedy``.

    Raises
    ------
    EngineError
        For results without Markov chains, or with too few draws.
    ModelError
        For methods without a model.
    LabelError
        For unknown quantities, draws of another shape, or a threshold that is none.

    References
    ----------
    Kallioinen, Paananen, Buerkner, Vehtari (2023), Detecting and diagnosing prior and likelihood sensitivity with
    power-scaling, Statistics and Computing 34, 57.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"), engine="gibbs", progress=False)
    >>> table = sensitivity(fit.idata)
    >>> table.loc["prevalence[1]", "diagnosis"]
    '-'
    """
    threshold = _check_threshold(threshold)
    random = np.random.default_rng(check_seed(seed))
    _check(tree)
    chosen, workers = _chosen(tree, quantities)
    found = components(tree, random)
    of_user = isinstance(quantities, Mapping)
    wanted = [part for name, value in chosen for part in _entries(tree, found, name, value, of_user=of_user)]
    scalings: dict[bytes, dict[str, Scaling]] = {}
    rows = []
    for quantity in wanted:
        key = quantity.read.tobytes()
        if key not in scalings:
            parts = {"prior": found.log_prior(quantity.read), "likelihood": found.log_likelihood(quantity.read)}
            parts |= {f"prior_{site}": found.log_prior(quantity.read, site) for site in found.sites}
            scalings[key] = {name: Scaling.of(part) for name, part in parts.items()}
        rows.append(_row(quantity.value, scalings[key], threshold, random))
    table = pd.DataFrame(rows, index=pd.Index([quantity.name for quantity in wanted], name="quantity"))
    table.attrs = {"threshold": threshold, "workers": workers, "draws": _of_the_draws(tree, found)}
    return table


def _check_threshold(threshold: Any) -> float:
    number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if not number or not 0 < threshold < np.inf:
        raise LabelError(f"threshold must be a positive number such as 0.05, not {threshold!r}")
    return float(threshold)


def _check(tree: xr.DataTree) -> None:
    model_of(tree)
    engine = str(tree.attrs["engine"])
    again = 'fit again with engine="gibbs" (or "nuts")'
    require_draws(tree, "sensitivity reweights")
    if not has_chains(tree):
        raise EngineError(
            f"{engine} gives draws from an approximation of the posterior, in which tables and classes do not move "
            f"together: reweighted, they would tell how that approximation bends, not the posterior: {again}"
        )
    sizes = tree["posterior"].sizes
    if sizes["chain"] * sizes["draw"] < _FEWEST_DRAWS:
        raise EngineError(
            f"{count_of(sizes['chain'] * sizes['draw'], 'draw')} are too few to reweight: at least {_FEWEST_DRAWS}, "
            "better some thousands: fit again with draws=1000"
        )
    bad = [str(name) for name, value in tree["posterior"].data_vars.items() if not np.isfinite(value.to_numpy()).all()]
    if bad:
        raise EngineError(f"the draws of {shorten(bad)} are not finite, the fit failed: {again}")


def _chosen(tree: xr.DataTree, quantities: Any) -> tuple[list[tuple[str, xr.DataArray]], str]:
    """Variables to look at, and which workers they cover."""
    posterior = tree["posterior"].dataset
    if isinstance(quantities, Mapping):
        problems = []
        for name, value in quantities.items():
            sizes = {str(dim): size for dim, size in getattr(value, "sizes", {}).items()}
            if any(sizes.get(dim) != posterior.sizes[dim] for dim in ("chain", "draw")):
                wanted = ", ".join(f"{dim} ({posterior.sizes[dim]})" for dim in ("chain", "draw"))
                problems.append(f"{name!r} must be a DataArray with dims {wanted}, computed from fit.idata.posterior.")
        if problems:
            raise LabelError(problems_message("cannot use these quantities", problems))
        return [(str(name), value.transpose("chain", "draw", ...)) for name, value in quantities.items()], ""
    accuracy = _accuracy(tree)
    known = {str(name): value for name, value in posterior.data_vars.items()}
    if accuracy is not None:
        known["accuracy"] = accuracy
    if quantities is not None:
        names = [quantities] if isinstance(quantities, str) else list(quantities)
        strange = [name for name in names if name not in known]
        if strange:
            raise LabelError(f"there are no quantities {shorten(strange)}; this result has {shorten(known, 10)}")
        return [(name, known[name]) for name in names], ""
    shared = [name for name, value in known.items() if not {"worker", "item"} & set(value.dims)]
    chosen = [(name, known[name]) for name in shared]
    if accuracy is None:
        return chosen, ""
    n_workers = accuracy.sizes["worker"]
    most = np.sort(np.argsort(-n_labels_of(tree, "worker"), kind="stable")[:_MOST_WORKERS])
    said = f"all {n_workers}" if n_workers <= _MOST_WORKERS else f"the {_MOST_WORKERS} of {n_workers} with most labels"
    return [*chosen, ("accuracy", accuracy.isel(worker=most))], f'{said}; quantities="accuracy" gives every worker'


def _accuracy(tree: xr.DataTree) -> xr.DataArray | None:
    """Probability that a label of a worker equals the class of a random item, by draw."""
    posterior = tree["posterior"].dataset
    if "confusion" not in posterior or "prevalence" not in posterior:
        return None
    if "difficulty" in posterior["confusion"].dims and "difficulty_prevalence" not in posterior:
        return None
    same = xr.DataArray(np.arange(posterior.sizes["class"]), dims="same")
    right = posterior["confusion"].isel({"class": same, "label": same})
    if "difficulty" in right.dims:
        right = right.weighted(posterior["difficulty_prevalence"]).mean("difficulty")
    shares = posterior["prevalence"].rename({"class": "same"}).drop_vars("same")
    return (right.drop_vars(["class", "label"]) * shares).sum("same").transpose("chain", "draw", "worker")


def _entries(tree: xr.DataTree, found: Components, name: str, value: xr.DataArray, *, of_user: bool) -> list[_Quantity]:
    """Give every entry of a variable, with the tables that it is computed from."""
    draws = value.isel(draw=found.draws).to_numpy().astype(float)
    dims = [str(dim) for dim in value.dims[2:]]
    said = [_ids(tree, value, dim) for dim in dims]
    sites: tuple[str, ...] | None = (name,) if name in found.sites and not of_user else None
    of_workers = dims.index("worker") if "worker" in dims and not of_user else None
    workers = None if of_workers is None else ids(tree, "worker").get_indexer(said[of_workers])
    out = []
    for index in np.ndindex(*value.shape[2:]):
        worker = -1 if workers is None or of_workers is None else int(workers[index[of_workers]])
        place = ", ".join(str(known[at]) for known, at in zip(said, index, strict=True))
        read = found.groups(sites, worker)
        out.append(_Quantity(f"{name}[{place}]" if dims else name, draws[(slice(None), slice(None), *index)], read))
    return out


def _ids(tree: xr.DataTree, value: xr.DataArray, dim: str) -> pd.Index:
    """Give the user's ids along a dim of a variable, which may hold some of them only."""
    if dim not in value.coords:
        return pd.RangeIndex(value.sizes[dim])
    known = next((node.dataset for node in tree.subtree if dim in node.dataset.coords), None)
    if known is None:
        return pd.Index(value[dim].to_numpy())
    place = pd.Index(known[dim].to_numpy()).get_indexer(pd.Index(value[dim].to_numpy()))
    return ids(tree, dim)[place] if (place >= 0).all() else pd.Index(value[dim].to_numpy())


def _row(
    value: np.ndarray, scalings: Mapping[str, Scaling], threshold: float, random: np.random.Generator
) -> dict[str, Any]:
    names = ["prior", "likelihood", *(name for name in scalings if name not in ("prior", "likelihood"))]
    if np.ptp(value) < 1e-12:
        blank = dict.fromkeys([*names, "prior_noise", "likelihood_noise"], np.nan)
        return blank | {"diagnosis": _CONSTANT, "remedy": "the same in every draw: nothing to be moved"}
    row: dict[str, Any] = {name: scalings[name].sensitivity(value) for name in names}
    row |= {f"{name}_noise": scalings[name].noise(value, random) for name in ("prior", "likelihood")}
    moves = {name: row[name] >= threshold for name in ("prior", "likelihood")}
    noisy = {name: moves[name] and row[name] <= row[f"{name}_noise"] for name in moves}
    sites = {name: row[name] for name in names[2:]}
    if not moves["prior"]:
        diagnosis, remedy = _FINE, ""
    elif noisy["prior"]:
        diagnosis, remedy = _UNCLEAR, "more draws, for example four times as many: chance alone may show as much"
    else:
        strongest = max(sites, key=lambda name: sites[name]).removeprefix("prior_")
        prior = f"the prior of {strongest}"
        if moves["likelihood"] and not noisy["likelihood"]:
            diagnosis = CONFLICT
            remedy = f"see whether {prior} says what you believe; compare with a weaker one, or give gold"
        else:
            diagnosis = PRIOR_DRIVEN
            remedy = (
                f"more labels, or gold, would let the labels speak; until then {prior} speaks: state the one you mean"
            )
    return row | {"diagnosis": diagnosis, "remedy": remedy}


def _of_the_draws(tree: xr.DataTree, found: Components) -> str:
    n_chains, n_draws = found.shape
    said = f"{count_of(n_chains, 'chain')} of {count_of(n_draws, 'draw')}"
    if n_draws < tree["posterior"].sizes["draw"]:
        said += f", evenly spaced among {tree['posterior'].sizes['draw']:,}"
    if tree.attrs["converged"] == "no":
        said += "; the chains have not converged, so the sensitivities are rough"
    return said
