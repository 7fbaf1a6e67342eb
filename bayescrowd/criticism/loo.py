"""Leave-one-out by importance sampling (PSIS) through ArviZ, exact refits where it fails, and advice in words."""

import dataclasses
import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats as _array_stats  # type: ignore[attr-defined]
from scipy.special import gammaln, logsumexp, xlogy

from bayescrowd.criticism._refit import FEWEST_EFFECTIVE, Refits, caveats
from bayescrowd.criticism._refit_pieces import check_by, pieces_to_judge
from bayescrowd.criticism._refit_tables import fingerprint
from bayescrowd.criticism.likelihood import (
    as_array,
    log_likelihood,
    log_prior,
    name_pieces,
    require_draws,
    total_log_likelihood,
)
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import BayescrowdWarning, EngineError, LabelError, count_of
from bayescrowd.inference.progress import Reporter, check_progress, reporter
from bayescrowd.results.tree import has_chains, ids, labels_of, model_of, n_labels_of

__all__ = ["ARVIZ_WARNING", "Loo", "estimate", "loo", "unreliable"]

ARVIZ_WARNING = "\n\nThere has been a warning during the calculation. Please check the results."
"""What ArviZ prints where the advice says more."""

_arviz: Any = arviz_stats  # its functions are not typed
_statistics: Any = _array_stats
_PACKAGE = str(Path(__file__).parents[1])
_FEWEST_DRAWS = 25
_MANY = 0.1
_CONSTANT = 1e-10
"""A log-likelihood that varies by less is the same under all draws."""


@dataclass(kw_only=True, repr=False)
class Loo(arviz_stats.ELPDDataLOO):
    """Leave-one-out, as ArviZ has it, with advice in words; print it.

    ``az.compare``, ``az.plot_khat`` and everything else of ArviZ that takes an ``ELPDDataLOO`` takes it.

    Parameters
    ----------
    advice : list of str
        What to know before the numbers are used, and what to do.
    refitted : list
        Ids of the pieces that were left out by fitting again.
    by : str
        What was left out at a time.
    table : dict
        Digests of the label table, which `bayescrowd.compare` checks.
    """

    advice: list[str] = field(default_factory=list)
    refitted: list[Any] = field(default_factory=list)
    by: str = "item"
    table: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say what ArviZ says, and the advice: ArviZ's "there has been a warning" does not say which."""
        table = _arviz.ELPDDataLOO.__str__(self).replace(ARVIZ_WARNING, "").rstrip("\n")
        refitted = f"\n\n{count_of(len(self.refitted), 'exact refit')}." if self.refitted else ""
        return f"{table}{refitted}" + "".join(f"\n- {sentence}" for sentence in self.advice)


def loo(
    tree: xr.DataTree, *, by: str = "item", refit: bool = False, seed: int = 0, progress: bool | None = None
) -> Loo:
    r"""Estimate how well the model predicts labels that it has not seen, leaving each piece out in turn.

    :math:`\sum_i \log p(x_i \mid x_{-i})`, by Pareto-smoothed importance sampling from the draws of the fit, true
    classes and difficulties summed out. The Pareto k of a piece tells whether the draws can be reweighted to what they
    would be without it. Draws from an approximation (collapsed-vi, vb) are weighted by posterior over approximation as
    well.

    Parameters
    ----------
    tree : DataTree
        A result with draws.
    by : {"item", "annotation", "worker"}
        What is left out at a time: an item with all its labels (and its gold), one label, or a worker with all labels,
        whose confusion matrices then come from the prior.
    refit : bool
        Fit again, by the same engine and settings, without each piece whose Pareto k is too high, and take the value
        found there. After an approximation this is the value that the approximation gives.
    seed : int
        Seed of the refits.
    progress : bool, optional
        Show a progress bar; by default where somebody looks.

    Returns
    -------
    Loo
        ``elpd``, ``se``, ``p`` (effective number of parameters), ``elpd_i`` and ``pareto_k`` by piece, ``advice``.

    Raises
    ------
    LabelError
        For an unknown ``by``, or a seed that is none.
    EngineError
        For results without draws, with too few, or from an approximation without a density (svi), and where there is
        but one piece.
    ModelError
        For methods without a model.

    Warns
    -----
    BayescrowdWarning
        Where Pareto k is too high for more than a tenth of the pieces, or above 1 for any. Fewer are named in
        ``advice`` alone.

    References
    ----------
    Vehtari, Gelman, Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
    Statistics and Computing 27(5). Vehtari, Simpson, Gelman, Yao, Gabry (2024), Pareto smoothed importance sampling,
    Journal of Machine Learning Research 25(72). Magnusson, Andersen, Jonasson, Vehtari (2019), Bayesian leave-one-out
    cross-validation for large data, ICML.

    Examples
    --------
    How well are the grades of a patient predicted from those of the other patients?

    >>> import bayescrowd as bc
    >>> from bayescrowd.criticism.loo import loo
    >>> model = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
    >>> found = loo(bc.fit(bc.datasets.load("anesthesia"), model, engine="gibbs").idata)
    >>> -245 < found.elpd < -235, found.elpd_i.dims
    (True, ('item',))
    """
    found = estimate(tree, by=by, refit=refit, seed=seed, progress=progress)
    bad = _bad(found)
    if unreliable(found):
        warnings.warn(
            f"Pareto k is too high for {int(bad.sum()):,} of {count_of(len(bad), by)} "
            f"({name_pieces(tree, by, np.flatnonzero(bad))}): their values, and so the "
            "sum, cannot be relied on; .advice says what to do",
            BayescrowdWarning,
            skip_file_prefixes=(_PACKAGE,),
        )
    return found


def estimate(tree: xr.DataTree, *, by: Any, refit: Any = False, seed: Any = 0, progress: Any = None) -> Loo:
    """Do what `loo` does without a warning: what is to be said stands in ``advice``.

    Parameters
    ----------
    tree : DataTree
        A result with draws.
    by, refit, seed, progress
        As in `loo`.

    Returns
    -------
    Loo
        The result.
    """
    check_by(by)
    seed = check_seed(seed)
    check_progress(progress)
    if not isinstance(refit, bool | np.bool_):
        raise LabelError(f"refit must be True or False, not {refit!r}")
    model_of(tree)
    again = "" if by == "item" else f"by={by!r}"
    require_draws(tree, "leave-one-out reweights", f"use fit.kfold({again}), or ")
    pieces_to_judge(labels_of(tree), by)
    n_draws = math.prod(tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if n_draws < _FEWEST_DRAWS:
        raise EngineError(f"leave-one-out needs at least {_FEWEST_DRAWS} draws, not {n_draws}: fit with more draws")
    if not has_chains(tree):
        _require_density(tree)
    likelihood = log_likelihood(tree, by=by)
    correction = None
    if not has_chains(tree):
        correction = _correction(tree, likelihood.sum(by) if by == "item" else total_log_likelihood(tree))
    with reporter(progress) as report:
        if correction is None:
            found = _reweighted(likelihood, by, report)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what ArviZ would say stands in the advice
                data = xr.DataTree.from_dict({"log_likelihood": likelihood.to_dataset(name="labels")})
                found = _arviz.loo_approximate_posterior(data, *correction, pointwise=True)
        result = _ours(found, tree, by, likelihood)
        if refit:
            _refit(result, tree, seed, report)
    result.warning = bool(_bad(result).any())
    result.advice += _advice(result, tree, None if correction is None else correction[0] - correction[1])
    return result


def _reweighted(likelihood: xr.DataArray, by: str, report: Reporter) -> Any:
    """PSIS of every piece, with the effective number of draws of that piece's own likelihood."""
    value = likelihood.transpose(by, "chain", "draw").to_numpy()
    n_pieces, n_chains, n_draws = value.shape
    weights = np.full(value.shape, -math.log(n_chains * n_draws))
    k = np.zeros(n_pieces)
    report.start(f"leaving out each {by}", n_pieces)
    with np.errstate(all="ignore"):
        for piece, logs in enumerate(value):
            # An item without labels is equally likely under all draws.
            if np.ptp(logs) > _CONSTANT:
                effective = float(_statistics.ess(np.exp(logs - logs.max()), chain_axis=0, draw_axis=1, method="mean"))
                relative = effective / logs.size
                relative = relative if n_chains > 1 and np.isfinite(relative) and relative > 0 else 1.0
                weights[piece], k[piece] = _statistics.psislw(logs, r_eff=relative, axis=(0, 1))
            if piece % 100 == 0:
                report.update(piece)
    k = np.where(np.isnan(k), np.inf, k)  # a tail like no Pareto distribution is not a good one
    coords = likelihood.coords
    dims = (by, "chain", "draw")
    data = xr.DataTree.from_dict({"log_likelihood": likelihood.to_dataset(name="labels")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what ArviZ would say stands in the advice
        return _arviz.loo(
            data,
            pointwise=True,
            reff=1.0,  # not read: the weights are there
            log_weights=xr.DataArray(weights, dims=dims, coords={dim: coords[dim] for dim in dims}),
            pareto_k=xr.DataArray(k, dims=(by,), coords={by: coords[by]}),
        )


def _require_density(tree: xr.DataTree) -> None:
    engine = str(tree.attrs["engine"])
    if "variational" not in tree.children:
        raise EngineError(
            f"engine {engine!r} does not keep the density of its approximation, by which its draws would have to be "
            "weighted: use fit.kfold(), or fit with engine='gibbs'"
        )


def _correction(tree: xr.DataTree, total: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Log density of posterior (not normalised) and approximation at its draws; ``total`` is the log-likelihood."""
    variational, posterior = tree["variational"].dataset, tree["posterior"].dataset
    prior = log_prior(tree)
    log_q = xr.zeros_like(prior)
    for name, alpha in variational.data_vars.items():
        value = posterior[str(name).removesuffix("_concentration")]
        if "outcome" in alpha.dims:
            value = xr.concat([value, 1 - value], dim="outcome")
        value = value.transpose("chain", "draw", *alpha.dims).to_numpy()
        numbers = alpha.to_numpy()
        constant = (gammaln(numbers.sum(-1)) - gammaln(numbers).sum(-1)).sum()
        log_q = log_q + constant + xlogy(numbers - 1, value).reshape(*value.shape[:2], -1).sum(-1)
    return prior + total, log_q


def _ours(found: Any, tree: xr.DataTree, by: str, likelihood: xr.DataArray) -> Loo:
    n_samples = likelihood.sizes["chain"] * likelihood.sizes["draw"]
    in_sample = logsumexp(likelihood.transpose("chain", "draw", by).to_numpy(), axis=(0, 1)) - math.log(n_samples)
    result = Loo(
        **{part.name: _plain(getattr(found, part.name)) for part in dataclasses.fields(found)},
        by=by,
        table=fingerprint(labels_of(tree), by),
    )
    result.elpd_i = as_array(tree, found.elpd_i.to_numpy().astype(float), by, "elpd_i")
    result.pareto_k = as_array(tree, found.pareto_k.to_numpy().astype(float), by, "pareto_k")
    result.p_loo_i = as_array(tree, in_sample - result.elpd_i.to_numpy(), by, "p_loo_i")
    return result


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def unreliable(result: Any) -> bool:
    """Say whether Pareto k is too high for so many pieces, or so much too high, that the sum cannot be relied on.

    Parameters
    ----------
    result : Loo
        From `estimate`.

    Returns
    -------
    bool
        A few a little above the threshold are usual, and the advice names them.
    """
    return bool(_bad(result).mean() > _MANY or (result.pareto_k.to_numpy() > 1).any())


def _bad(result: Any) -> np.ndarray:
    bad: np.ndarray = result.pareto_k.to_numpy() > result.good_k
    return bad


def _refit(result: Loo, tree: xr.DataTree, seed: int, report: Reporter) -> None:
    """Put exact values where importance sampling failed."""
    bad = np.flatnonzero(_bad(result))
    if not len(bad):
        return
    refits = Refits(tree, result.by, seed)
    names = ids(tree, result.by) if result.by != "annotation" else pd.RangeIndex(len(result.pareto_k))
    report.start("fitting again", len(bad))
    unsettled, rough, done = [], [], []
    value, k, p = (array.to_numpy().copy() for array in (result.elpd_i, result.pareto_k, result.p_loo_i))
    try:
        for count, piece in enumerate(bad):
            report.update(count, f"without {result.by} {name_pieces(tree, result.by, np.array([piece]))}")
            held = refits.without(np.array([piece]), int(piece))
            p[piece] += value[piece] - held.log_mean[0]
            value[piece], k[piece] = held.log_mean[0], 0.0
            done.append(piece)
            unsettled += [] if held.settled else [piece]
            rough += [piece] if held.effective[0] < FEWEST_EFFECTIVE else []
    except KeyboardInterrupt:
        result.advice.append(f"Interrupted: {count_of(len(bad) - len(done), result.by)} were not refitted.")
    for name, array in (("elpd_i", value), ("pareto_k", k), ("p_loo_i", p)):
        setattr(result, name, as_array(tree, array, result.by, name))
    result.refitted = names.take(done).tolist()
    result.elpd, result.p = float(value.sum()), float(p.sum())
    result.se = float(np.sqrt(len(value) * value.var(ddof=1))) if len(value) > 1 else 0.0
    weights: Any = result.log_weights
    if weights is not None and done:
        result.log_weights = weights.copy()
        result.log_weights[{result.by: done}] = np.nan
    without = f"{result.by} {name_pieces(tree, result.by, np.array(unsettled, int))}"
    result.advice += caveats(tree, result.by, len(unsettled), without, np.array(rough, int))


def _advice(result: Loo, tree: xr.DataTree, ratio: xr.DataArray | None) -> list[str]:
    """Say what the numbers are worth, and what to do."""
    found = []
    if tree.attrs["converged"] == "no":
        found.append("The fit did not converge (fit.diagnose()), so these numbers say little about the model.")
    bad = _bad(result)
    if not bad.any():
        return found
    by, k = result.by, result.pareto_k.to_numpy()
    which = f"Pareto k is above {result.good_k:.2f} for {int(bad.sum()):,} of {count_of(len(k), by)} "
    which += f"({name_pieces(tree, by, np.argsort(-k, kind='stable')[: int(bad.sum())])}; up to {k.max():.2f}"
    argument = "" if by == "item" else f"by={by!r}"
    kfold = f"fit.kfold({argument})"
    if ratio is not None:
        with np.errstate(all="ignore"):
            _, of_all = _statistics.psislw(-ratio.to_numpy(), r_eff=1.0, axis=(0, 1))
        parts = "as is usual with many parameters" if of_all > result.good_k else "and leaving something out adds to it"
        found.append(
            f"{which}). The draws are from an approximation that is some way from the posterior (Pareto k "
            f"{of_all:.2f} before anything is left out), {parts}: fit with engine='gibbs', or use {kfold}, which "
            "judges the approximation as it predicts."
        )
        return found
    if by != "annotation":
        n_labels = n_labels_of(tree, by)
        which += f"; they carry {np.median(n_labels[bad]):.0f} labels in the median"
        which += "" if bad.all() else f", the others {np.median(n_labels[~bad]):.0f}"
    why = (
        "Leaving out a whole worker changes the posterior so much that this is usual, and that values with a lower k "
        "tend to be too high as well"
        if by == "worker"
        else "Without them the posterior would be too different for the draws to be reweighted"
    )
    again = f"fit.loo({argument + ', ' if argument else ''}refit=True)"
    found.append(
        f"{which}). {why}: {again} fits again without each of them ({count_of(int(bad.sum()), 'fit')}), {kfold} judges "
        "all in a few fits."
    )
    return found
