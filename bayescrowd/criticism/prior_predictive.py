"""Prior predictive check: what labels does a model expect before it has seen any."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import jax
import numpy as np
import pandas as pd
from numpyro import handlers

from bayescrowd.criticism._check_words import ARROW
from bayescrowd.criticism._checked import (
    INTERVAL,
    PredictiveCheck,
    PredictiveChecks,
    nothing_to_check,
    rows_shown,
    table_of,
)
from bayescrowd.criticism._discrepancy import compare
from bayescrowd.criticism._replicator import Replicator
from bayescrowd.criticism.predictive import check_draws
from bayescrowd.criticism.statistics import NAMES, Shares, Splits, Statistic, statistic_of
from bayescrowd.data.required import require_labels
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import count_of, shorten
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels import tables
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import Model, Sizes
from bayescrowd.models import resolve
from bayescrowd.sites import TRACING

__all__ = ["prior_predictive"]

_FEWEST = 20
_CHUNK = 2**20
"""Parameters that are drawn in one go."""

_RARE = 0.01
_MOST_LABELS = 4
_SAME = 1e-9

_WORKERS = (
    "the prior expects other workers: put more on the diagonal of confusion_prior for better ones, such as "
    "bc.diagonal(8, 1), less for worse ones"
)
_REMEDY = {
    "agreement": _WORKERS,
    "splits": _WORKERS,
    "shares": "let prevalence_prior and confusion_prior expect these labels more, or less, often",
}


def prior_predictive(labels: Any, model: Any, *, draws: int = 200, seed: int = 0) -> PredictiveChecks:
    """Compare the labels with what a model expects before it has seen any.

    Parameters are drawn from the prior, then classes and labels on the same items, workers and rows (the class of gold
    items is their gold). A prior that puts the labels far outside what it expects should be changed before the fit; one
    under which nearly any labels are to be expected says little, which large tables mend and small ones do not.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    model : Model, its class or its name
        Which model, with its priors (a class or a name has the default ones); here none is chosen by the labels.
    draws : int
        Number of replications, each with parameters of its own; at least 20.
    seed : int
        Seed of the replications.

    Returns
    -------
    PredictiveChecks
        ``"agreement"``, ``"splits"`` and ``"shares"``, with the tables of `fit.predictive_checks`. Here the p-value is
        the share of replications whose discrepancy is as large (Box 1980), which is uniform where the model is right;
        ``ppp`` is NaN.

    Raises
    ------
    LabelError
        For labels, numbers of draws or seeds that are none.
    ModelError
        For models that are none, and priors that do not fit the labels.

    References
    ----------
    Box (1980), Sampling and Bayes' inference in scientific modelling and robustness, Journal of the Royal Statistical
    Society A 143.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> checks = bc.prior_predictive(bc.datasets.load("anesthesia"), bc.DawidSkene())
    >>> list(checks)
    ['agreement', 'splits', 'shares']
    """
    require_labels(labels, "prior_predictive")
    draws, random = check_draws(draws, _FEWEST), np.random.default_rng(check_seed(seed))
    chosen = resolve(model)
    sizes = sizes_of(labels)
    chosen.check(sizes)
    made = {name: statistic_of(name, labels, None) for name in NAMES}
    found = {name: np.empty((draws, len(statistic.rows)), statistic.dtype) for name, statistic in made.items()}
    replicator = Replicator(chosen, labels)
    some = _from_prior(chosen, sizes, draws, random)
    for number, one in enumerate(chain.from_iterable(map(replicator.tables, some))):
        label_code = replicator.draw(one, random)[0]
        for name, statistic in made.items():
            found[name][number] = statistic(label_code)
    checks = {}
    for name, statistic in made.items():
        observed = statistic(labels.label_code)
        result = compare(found[name][None], observed)
        table, _ = table_of(statistic, found[name], observed)
        sentence = _sentence(statistic, table, found[name], observed, result.p_value)
        checks[name] = PredictiveCheck(
            name,
            table,
            result.discrepancy,
            result.replicated,
            result.p_value,
            sentence,
            n_values=len(observed),
        )
    headline = (
        f"Prior predictive checks of {chosen.name}: {count_of(draws, 'replication')} of "
        f"{count_of(labels.n_annotations, 'label')}; parameters are draws from the prior."
    )
    return PredictiveChecks(headline, checks, tuple(note for statistic in made.values() for note in statistic.notes))


def _from_prior(model: Model, sizes: Sizes, draws: int, random: np.random.Generator) -> Iterator[dict[str, np.ndarray]]:
    """Draw the parameters, a few draws at a time (along the first axis)."""
    # With routes all tables are: the model was checked.
    if model.has_routes or _is_plain(model, sizes):
        # NumPy's gamma needs no compiling, which for JAX's takes seconds.
        with double_precision():
            layout = tables.tables_of(model, sizes)
            alpha = np.asarray(tables.concentration(model, sizes))
        chunk = max(_CHUNK // len(alpha), 1)
        for first in range(0, draws, chunk):
            some = [tables.draw(random, alpha, layout) for _ in range(min(chunk, draws - first))]
            yield layout.unflatten(np.stack(some))
        return

    @jax.jit
    def sample(key: Any) -> dict[str, Any]:
        with TRACING:
            trace = handlers.trace(handlers.seed(model.parameters, key)).get_trace(sizes)
        return {
            name: node["value"] for name, node in trace.items() if node["type"] == "sample" and not node["is_observed"]
        }

    for number in random.integers(2**31, size=draws):
        with double_precision():
            drawn = sample(jax.random.key(int(number)))
        yield {name: np.asarray(value)[None] for name, value in drawn.items()}


def _is_plain(model: Model, sizes: Sizes) -> bool:
    """Say whether all parameters are Dirichlet or Beta distributed whatever the values of the others."""
    with double_precision():
        sites, again = model.sites(sizes), model.sites(sizes, spread=1)
    return all(
        site.kind != "other" and np.array_equal(site.concentration, again[name].concentration)
        for name, site in sites.items()
    )


def _sentence(
    statistic: Statistic, table: pd.DataFrame, replicated: np.ndarray, observed: np.ndarray, p_value: float
) -> str:
    if np.isnan(p_value):
        return nothing_to_check(statistic, table)
    kept = rows_shown(statistic, replicated, observed)
    scale = np.broadcast_to(np.asarray(statistic.scale, float), observed.shape)[kept]
    shares, seen = replicated[:, kept] / scale, observed[kept] / scale
    if isinstance(statistic, Shares):
        text, inside = _of_labels(table["label"].tolist()[: statistic.n_labels], shares, seen)
    elif isinstance(statistic, Splits):
        unanimous = statistic.unanimous[kept]
        interval, found, inside = _compared(
            shares[:, unanimous].sum(axis=1) / shares.sum(axis=1), seen[unanimous].sum(keepdims=True) / seen.sum()
        )
        text = f"a priori all labels of an item would agree on {interval} of items; observed {found}"
    else:
        interval, found, inside = _compared(shares, seen)
        text = f"a priori 95 % of pairs of workers would agree on {interval} of their common items; observed {found}"
    word = "outside" if not inside else "inside" if p_value >= _RARE else "inside, yet together improbable"
    shown = f"{statistic.name}: {text}: {word} (prior predictive p = {p_value:.3f})."
    return shown if word == "inside" else f"{shown}{ARROW}{_REMEDY[statistic.name]}"


def _of_labels(labels: list[Any], replicated: np.ndarray, observed: np.ndarray) -> tuple[str, bool]:
    n_labels = len(labels)
    found = [
        (f"{shorten([label])} in {interval}, observed {seen}", inside)
        for code, label in enumerate(labels)
        for interval, seen, inside in [_compared(replicated[:, code::n_labels], observed[code::n_labels])]
    ]
    # Those outside first; the first few of many labels say enough.
    found.sort(key=lambda entry: entry[1])
    more = f"; and {count_of(n_labels - _MOST_LABELS, 'label')} more" if n_labels > _MOST_LABELS else ""
    listed = "; ".join(text for text, _ in found[:_MOST_LABELS])
    return f"a priori 95 % of workers would say {listed}{more}", all(inside for _, inside in found)


def _compared(replicated: np.ndarray, observed: np.ndarray) -> tuple[str, str, bool]:
    """Interval of replicated shares, of observed ones, and whether the one holds the middle of the others."""
    tails = [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]
    low, high = np.quantile(replicated, tails)
    least, most = np.quantile(observed, tails)
    inside = bool(low - _SAME <= np.median(observed) <= high + _SAME)
    seen = f"{100 * most:.0f} %" if f"{100 * least:.0f}" == f"{100 * most:.0f}" else _range(least, most)
    return _range(low, high), seen, inside


def _range(low: float, high: float) -> str:
    return f"{100 * low:.0f} to {100 * high:.0f} %"
