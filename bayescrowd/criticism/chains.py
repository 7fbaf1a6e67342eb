"""Do the chains of a sampler agree: rank-normalised R-hat and effective sample sizes, also of what names cannot touch.

The prevalence, the log density, the log-likelihood and the sum of squared class shares come first: everything hangs
on them, and but for the prevalence they do not change when classes swap names. Of the confusion matrices up to
`MAX_ENTRIES` entries are checked, spread over the workers.

References
----------
Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), Rank-normalization, folding, and localization: an improved R-hat,
Bayesian Analysis 16(2).
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

__all__ = [
    "FEWEST_EFFECTIVE",
    "MAX_ENTRIES",
    "R_HAT_CAUTION",
    "R_HAT_ENTRY",
    "R_HAT_KEY",
    "agree",
    "check_chains",
    "r_hat",
    "too_few",
]

MAX_ENTRIES = 300
"""Most confusion entries that are checked."""

R_HAT_CAUTION = 1.01
"""Above this more draws are wanted."""

R_HAT_KEY = 1.05
"""Above this a key quantity has not converged."""

R_HAT_ENTRY = 1.1
"""Above this a single confusion entry has not converged; of hundreds of entries some exceed 1.05 by chance."""

FEWEST_EFFECTIVE = 100
"""With fewer effective draws of the prevalence or the log-likelihood nothing is called converged."""

_FEWEST_DRAWS = 8


def check_chains(tree: xr.DataTree) -> pd.DataFrame:
    """Compute R-hat and effective sample sizes.

    Parameters
    ----------
    tree : DataTree
        A result with draws.

    Returns
    -------
    DataFrame by quantity
        ``r_hat``, ``ess_bulk``, ``ess_tail``, ``key`` (a quantity that everything hangs on), ``invariant`` (swapping
        the names of classes does not change it); largest R-hat first. Constant quantities are left out.
    """
    names: list[str] = []
    arrays: list[np.ndarray] = []
    flags: list[tuple[bool, bool]] = []
    for name, value, key, invariant in _quantities(tree):
        spread = np.ptp(value.reshape(-1, value.shape[-1]), axis=0)
        for index in np.flatnonzero(np.isfinite(spread) & (spread > 1e-12)):
            names.append(name[index])
            arrays.append(value[..., index])
            flags.append((key, invariant))
    columns = ["r_hat", "ess_bulk", "ess_tail"]
    numbers = _statistics(np.stack(arrays, axis=-1)) if arrays else np.zeros((0, 3))
    table = pd.DataFrame(numbers, index=pd.Index(names, name="quantity"), columns=columns)
    table[["key", "invariant"]] = np.array(flags, bool).reshape(-1, 2)
    return table.dropna(subset=["r_hat"]).sort_values("r_hat", ascending=False, kind="stable")


def agree(table: pd.DataFrame, n_draws: int) -> bool | None:
    """Judge from `check_chains` whether the chains agree.

    Parameters
    ----------
    table : DataFrame
        From `check_chains`.
    n_draws : int
        Draws per chain.

    Returns
    -------
    bool or None
        None where there are too few draws, or too few effective draws, to call it agreement.
    """
    if n_draws < _FEWEST_DRAWS:
        return None
    limit = np.where(table["key"], R_HAT_KEY, R_HAT_ENTRY)
    if (table["r_hat"].to_numpy() > limit).any():
        return False
    return True if too_few(table).empty else None


def r_hat(draws: np.ndarray) -> np.ndarray:
    """Compute rank-normalised R-hat; a single chain is compared with itself, half against half.

    Parameters
    ----------
    draws : array [chain, draw, quantity]
        Draws of some quantities.

    Returns
    -------
    array [quantity]
        NaN where there are too few draws to tell.
    """
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    statistics: Any = array_stats
    if draws.shape[1] < _FEWEST_DRAWS:
        return np.full(draws.shape[-1], np.nan)
    halves = draws[0, : draws.shape[1] // 2 * 2].reshape(2, -1, draws.shape[-1]) if len(draws) == 1 else draws
    with np.errstate(all="ignore"):
        return np.asarray(statistics.rhat(halves, chain_axis=0, draw_axis=1, method="rank"), float)


def too_few(table: pd.DataFrame) -> pd.DataFrame:
    """Find in `check_chains` the class shares and the log-likelihood where they have too few effective draws.

    Parameters
    ----------
    table : DataFrame
        From `check_chains`.

    Returns
    -------
    DataFrame by quantity
        The rows with fewer than `FEWEST_EFFECTIVE`, the fewest first.
    """
    names = table.index.to_numpy().tolist()
    central = np.array([name.startswith("prevalence") or name == "log likelihood" for name in names], bool)
    # Too few draws to tell the number of effective ones are too few as well.
    short = table[central & ~(table["ess_bulk"].to_numpy() >= FEWEST_EFFECTIVE)]
    return short.sort_values("ess_bulk", kind="stable")


def _quantities(tree: xr.DataTree) -> list[tuple[list[str], np.ndarray, bool, bool]]:
    """Names, draws [chain, draw, n], whether key, whether invariant."""
    posterior = tree["posterior"].dataset
    found: list[tuple[list[str], np.ndarray, bool, bool]] = []
    n_entries = 0
    for name, variable in posterior.data_vars.items():
        if {"worker", "item"} & set(variable.dims):
            n_entries += 1
            continue
        value = variable.to_numpy()
        found.append((_labels(str(name), variable), value.reshape(*value.shape[:2], -1), True, False))
    if "prevalence" in posterior:
        prevalence = posterior["prevalence"].to_numpy()
        squares = (prevalence.reshape(*prevalence.shape[:2], -1) ** 2).sum(axis=-1, keepdims=True)
        found.append((["sum of squared prevalence"], squares, True, True))
    if "sample_stats" in tree.children and "lp" in tree["sample_stats"].dataset:
        found.append((["log density"], tree["sample_stats"].dataset["lp"].to_numpy()[..., None], True, True))
    if "log_likelihood" in tree.children:
        total = tree["log_likelihood"].dataset["labels_of_item"].sum("item").to_numpy()
        found.append((["log likelihood"], total[..., None], True, True))
    for name, variable in posterior.data_vars.items():
        if {"worker", "item"} & set(variable.dims):
            value = _independent(variable, MAX_ENTRIES // n_entries)
            found.append((_labels(str(name), value), value.to_numpy().reshape(*value.shape[:2], -1), False, False))
    return found


def _independent(variable: xr.DataArray, limit: int) -> xr.DataArray:
    """Leave out the last label (rows sum to one) and all but some workers or items."""
    if "label" in variable.dims and variable.sizes["label"] > 1:
        variable = variable.isel(label=slice(None, -1))
    unit = "worker" if "worker" in variable.dims else "item"
    per_unit = int(np.prod([size for dim, size in variable.sizes.items() if dim not in ("chain", "draw", unit)]))
    n_units = max(1, min(variable.sizes[unit], limit // max(per_unit, 1)))
    chosen = np.unique(np.linspace(0, variable.sizes[unit] - 1, n_units).round().astype(int))
    return variable.isel({unit: chosen})


def _labels(name: str, variable: xr.DataArray) -> list[str]:
    dims = [str(dim) for dim in variable.dims if dim not in ("chain", "draw")]
    if not dims:
        return [name]
    coords: list[Any] = [variable[dim].to_numpy().tolist() for dim in dims]
    product = pd.MultiIndex.from_product(coords) if len(coords) > 1 else [(value,) for value in coords[0]]
    return [f"{name}[{', '.join(str(part) for part in parts)}]" for parts in product]


def _statistics(draws: np.ndarray) -> np.ndarray:
    """R-hat, bulk and tail effective sample size of each column."""
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    statistics: Any = array_stats
    if draws.shape[1] < _FEWEST_DRAWS:
        return np.full((draws.shape[-1], 3), np.nan)
    with np.errstate(all="ignore"):
        return np.stack(
            [
                r_hat(draws),
                statistics.ess(draws, chain_axis=0, draw_axis=1, method="bulk"),
                statistics.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=0.89),
            ],
            axis=-1,
        )
