"""Simulation-based calibration: is the rank of the truth among posterior draws uniform?

Truth and labels are drawn by NumPy, apart from the package. A sampler's ranks are uniform, on average over data from
the prior, if it targets the posterior of that prior. Talts, Betancourt, Simpson, Vehtari, Gelman (2018),
arXiv:1804.06788; Modrak et al. (2023), arXiv:2211.02383, for why the log likelihood belongs to the quantities.

All replicates share who labelled what, and only label tables in which every worker uses every label are taken: arrays
then have the same shapes and nothing is compiled twice. To choose among data sets by the data alone changes no
posterior, so the ranks stay uniform.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import running
import scipy.special
import scipy.stats
from running import of_rows

import bayescrowd as bc
from bayescrowd import inference
from bayescrowd.inference.base import Job
from bayescrowd.inference.starts import resolve
from bayescrowd.model import Model

N_ITEMS, N_WORKERS, N_LABELS = 15, 4, 42
BINS = 10

type Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model and its priors, again as plain arrays: class shares, level shares, confusion [level, class, label]."""

    model: Model
    shares: np.ndarray
    levels: np.ndarray
    rows: np.ndarray
    given: np.ndarray | None = None  # error rates of the fixed levels, which come last

    @property
    def n_free(self) -> int:
        return len(self.rows)

    @property
    def n_levels(self) -> int:
        return len(self.levels)


_SHARES = np.array([3.0, 2.0])
_ROWS = np.array([[4.0, 1.5], [1.0, 3.0]])
_BY_LEVEL = np.array([[[6.0, 1.0], [1.2, 5.0]], [[2.5, 1.5], [1.0, 2.0]]])

CASES = {
    "dawid-skene": Case(
        bc.DawidSkene(prevalence_prior=_SHARES, confusion_prior=_ROWS), _SHARES, np.array([1.0]), _ROWS[None]
    ),
    "idbla": Case(
        bc.IDBLA(
            n_levels=2, prevalence_prior=_SHARES, difficulty_prior=np.array([1.2, 0.6]), confusion_prior=_BY_LEVEL
        ),
        _SHARES,
        np.array([1.2, 0.6]),
        _BY_LEVEL,
    ),
    "fixed-idbla": Case(
        bc.FixedIDBLA(
            n_levels=3,
            prevalence_prior=_SHARES,
            difficulty_prior=np.array([0.8, 0.6, 1.0]),
            confusion_prior=_ROWS,
            easy_error=0.1,
            hard_error=0.5,
        ),
        _SHARES,
        np.array([0.8, 0.6, 1.0]),
        _ROWS[None],
        np.array([0.1, 0.5]),
    ),
}


def _who_labels_what() -> tuple[np.ndarray, np.ndarray]:
    """Items and workers of 70 % of all pairs, every item at least once."""
    rng = np.random.default_rng(7)
    while True:
        pair = np.sort(rng.choice(N_ITEMS * N_WORKERS, N_LABELS, replace=False))
        item, worker = np.divmod(pair, N_WORKERS)
        if len(np.unique(item)) == N_ITEMS:
            return item, worker


ITEM, WORKER = _who_labels_what()
_OF_ITEM = (np.arange(N_ITEMS)[:, None] == ITEM).astype(float)


def simulate(case: Case, rng: np.random.Generator) -> tuple[Values, np.ndarray]:
    """Parameters and latents from the prior, and the labels [annotation]."""
    while True:
        shares, levels = rng.dirichlet(case.shares), rng.dirichlet(case.levels)
        gamma = rng.standard_gamma(np.broadcast_to(case.rows, (N_WORKERS, *case.rows.shape)))
        free = gamma / gamma.sum(-1, keepdims=True)
        true_class = rng.choice(2, N_ITEMS, p=shares)
        level = rng.choice(case.n_levels, N_ITEMS, p=levels)
        confusion = whole(case, free[None])[0]
        label = (rng.random(N_LABELS) < confusion[WORKER, level[ITEM], true_class[ITEM], 1]).astype(int)
        if len(np.unique(WORKER * 2 + label)) == 2 * N_WORKERS:
            return {"shares": shares, "levels": levels, "free": free, "class": true_class, "level": level}, label


def whole(case: Case, free: np.ndarray) -> np.ndarray:
    """Confusion of all levels [draw, worker, level, class, label]."""
    if case.given is None:
        return free
    given = np.stack([np.array([[1 - e, e], [e, 1 - e]]) for e in case.given])
    return np.concatenate([free, np.broadcast_to(given, (*free.shape[:2], *given.shape))], axis=2)


def parameters_of(case: Case, draws: Values) -> Values:
    """Draws [draw, ...] of an engine, under the names used here."""
    n = len(draws["prevalence"])
    free = draws["free_confusion"] if case.given is not None else draws["confusion"]
    levels = draws.get("difficulty_prevalence", np.ones((n, 1)))
    return {"shares": draws["prevalence"], "levels": levels, "free": free.reshape(n, N_WORKERS, case.n_free, 2, 2)}


def _log_prior(values: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return ((alpha - 1) * np.log(values)).reshape(len(values), -1).sum(1)


def _agreements(true_class: np.ndarray) -> np.ndarray:
    ones = true_class.sum(-1)
    return (ones * (ones - 1) + (N_ITEMS - ones) * (N_ITEMS - ones - 1)) / 2


def quantities(
    case: Case, parameters: Values, label: np.ndarray, rng: np.random.Generator, latents: Values | None = None
) -> dict[str, np.ndarray]:
    """What is ranked, for every draw. The items' states are drawn given the parameters unless they are known."""
    shares, levels, free = (parameters[name] for name in ("shares", "levels", "free"))
    n = len(shares)
    log_confusion = np.log(whole(case, free))
    response = log_confusion[:, WORKER, :, :, label].reshape(N_LABELS, n, -1)
    log_state = (np.log(levels)[:, :, None] + np.log(shares)[:, None]).reshape(n, -1)
    table = np.einsum("in,nds->dis", _OF_ITEM, response) + log_state[:, None]
    by_item = scipy.special.logsumexp(table, axis=2)
    if latents is None:
        edges = np.cumsum(np.exp(table - by_item[..., None]), axis=2)
        state = (rng.random((n, N_ITEMS, 1)) * edges[..., -1:] >= edges[..., :-1]).sum(2)
        latents = {"class": state % 2, "level": state // 2}
    log_likelihood = by_item.sum(1)
    prior = _log_prior(shares, case.shares) + _log_prior(free, case.rows)
    found = {
        "prevalence": shares[:, 0],
        "confusion of the first worker": free[:, 0, 0, 0, 0],
        "confusion of the last worker": free[:, -1, -1, 1, 1],
        "mean diagonal": np.einsum("dkhcc->d", free),
        "agreeing pairs": _agreements(latents["class"]),
        "items of the first class": (latents["class"] == 0).sum(1),
        "log likelihood": log_likelihood,
        "log joint": log_likelihood + prior,
    }
    if case.n_levels > 1:
        found["log joint"] = found["log joint"] + _log_prior(levels, case.levels)
        found["difficulty share"] = levels[:, 0]
        found["items on the first level"] = (latents["level"] == 0).sum(1)
    return found


@contextlib.contextmanager
def _sites_once(model: Model) -> Iterator[None]:
    """Trace the model's sites once for all replicates: nearly half the time of such short runs."""
    original, known = Model.sites, {}

    def sites(self: Model, sizes: Any, **more: Any) -> Any:
        if self is not model:  # within compiled functions
            return original(self, sizes, **more)
        key = (sizes, *more.items())
        if key not in known:
            known[key] = original(self, sizes, **more)
        return known[key]

    with mock.patch.object(Model, "sites", sites):
        yield


def ranks(
    case: Case,
    engine: str,
    replicates: int,
    *,
    kept: int,
    thin: int,
    seed: int = 20240229,
    fitted: Model | None = None,
    change: Callable[[Values], Values] | None = None,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Rank of the truth among the kept draws by replicate, ties broken at random.

    ``fitted`` is fitted in place of the case's model, ``change`` alters the draws: mutants to be caught.
    """
    rng = np.random.default_rng(seed)
    chosen, model = inference.get(engine), fitted or case.model
    settings = chosen.settings(chains=1, draws=thin * kept, **options)
    found: dict[str, list[int]] = {}
    with _sites_once(model):
        for replicate in range(replicates):
            truth, label = simulate(case, rng)
            labels = of_rows(np.stack([ITEM, WORKER, label], axis=1))
            start = resolve("majority", labels, model)
            run = chosen.run(Job(model, labels, start, settings, replicate, running.Recorder()))
            draws = {name: value[0] for name, value in run.draws.items()}
            if len(draws["prevalence"]) > kept:  # engines that keep every draw
                draws = {name: value[thin - 1 :: thin] for name, value in draws.items()}
            parameters = parameters_of(case, change(draws) if change else draws)
            drawn = quantities(case, parameters, label, rng)
            true = {name: value[None] for name, value in truth.items()}
            for name, value in quantities(case, true, label, rng, latents=true).items():
                # Differences in the last bits are ties.
                below = (drawn[name] < value - 1e-10).sum()
                equal = (np.abs(drawn[name] - value) <= 1e-10).sum()
                found.setdefault(name, []).append(int(below + rng.integers(0, equal + 1)))
    return {name: np.array(values) for name, values in found.items()}


def p_values(found: dict[str, np.ndarray], kept: int) -> dict[str, float]:
    """Chi-square p-value of the ranks of each quantity, in ten bins."""
    assert (kept + 1) % BINS == 0
    counts = {name: np.bincount(rank * BINS // (kept + 1), minlength=BINS) for name, rank in found.items()}
    return {name: float(scipy.stats.chisquare(count).pvalue) for name, count in counts.items()}


def envelope(found: dict[str, np.ndarray], kept: int) -> dict[str, float]:
    """p-value of the largest distance of the ranks' distribution function from the diagonal."""
    result = {}
    for name, rank in found.items():
        uniform = (rank + np.random.default_rng(0).random(len(rank))) / (kept + 1)
        result[name] = float(scipy.stats.kstest(uniform, "uniform").pvalue)
    return result
