"""Posterior predictive checks: what of the labels would the fitted model hardly ever produce."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._check_words import ARROW, describe, remedy, verdict
from bayescrowd.criticism._checked import PredictiveCheck, PredictiveChecks, nothing_to_check, table_of
from bayescrowd.criticism._discrepancy import Compared, compare
from bayescrowd.criticism._replicator import Replicator
from bayescrowd.criticism.predictive import check_draws, fitted_parameters
from bayescrowd.criticism.report import Finding
from bayescrowd.criticism.statistics import NAMES, Statistic, statistic_of
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import LabelError, shorten
from bayescrowd.model import Model
from bayescrowd.results.tree import labels_of, model_of, title
from bayescrowd.results.words import count_of

__all__ = [
    "PredictiveCheck",
    "PredictiveChecks",
    "of_misfit",
    "predictive_checks",
]

REJECTED, _DOUBTFUL = 0.01, 0.05
"""P-values below which a model counts as rejected, and as doubtful. Three statistics are looked at, and labels of a
right model still give a p-value below .01 once in a hundred times each."""

_PER_DRAW = 10
"""Replications of each draw of the parameters, from which the mean that this draw expects is computed."""

_FEWEST = 2 * _PER_DRAW


def predictive_checks(
    tree: xr.DataTree,
    statistics: Any = NAMES,
    *,
    draws: int = 200,
    seed: int = 0,
) -> PredictiveChecks:
    r"""Compare statistics of the labels with those of replications by the fitted model.

    For each of some draws :math:`\theta_k` of the parameters, labels are drawn anew on the same items, workers and rows
    (`bayescrowd.criticism.predictive.replicate`), ten times each. The discrepancy of labels :math:`y` at a draw is the
    mean over the numbers of a statistic of
    :math:`(T_j(y) - E[T_j \mid \theta_k])^2 / \mathrm{Var}[T_j \mid \theta]`, with mean and variance from replications
    (of a replication, without itself).

    *The p-value.* A posterior predictive p-value (the share of replications, with all their parameters, whose
    discrepancy is as large; here ``ppp``) is not uniform where the model is right: parameters adapt to the labels,
    and it gathers around one half (Gelman, Meng, Stern 1996; Meng 1994), or near one where the discrepancy does not
    take the parameters into account. But given *one* draw from the posterior the p-value is uniform, exactly for
    labels from the prior predictive distribution and in the limit for any (Johnson 2007; Gosselin 2011). It has the
    noise of that draw, so the p-values of all draws are combined: their normal scores are dependent standard normal
    variables, whose correlation shows in how little they vary, and Hartung's (1999) test for dependent p-values takes
    that into account. On 200 tables simulated from the model, of 40 items by 5 workers, 0 to 3.5 % of these p-values
    were below .05 (those of splits uniform, those of shares, which the model can always fit, nearer to one half);
    of ``ppp`` hardly any. Point estimates have one "draw", the estimate, that the labels have shaped: their p-values
    are too large, so that a small one can be trusted and a large one says little.

    What is checked is the model with its prior: with very many workers of few labels each, a prior that is wrong about
    the crowd is rejected too. A weight does not make several labels of a row: each row is one label in all statistics.

    Parameters
    ----------
    tree : DataTree
        A result.
    statistics : str, callable, or sequence of them
        ``"agreement"`` (of every pair of workers on the items that both label), ``"splits"`` (number of items whose
        votes are split 5-4, 9-0, ..., whichever label leads), ``"shares"`` (of each label among those of each worker;
        most models can fit any), or functions ``f(label_code, tree)`` that give a number or an array.
    draws : int
        Number of replications, at least 20. The smallest p-value is 1 / (draws + 1), so that fewer than 100 can reject
        nothing.
    seed : int
        Seed of the replications.

    Returns
    -------
    PredictiveChecks
        Name -> `PredictiveCheck`; prints as one line for each.

    Raises
    ------
    LabelError
        For statistics, numbers of draws or seeds that are none.
    ModelError
        For methods without a model.

    References
    ----------
    Gelman, Meng, Stern (1996), Posterior predictive assessment of model fitness via realized discrepancies, Statistica
    Sinica 6. Meng (1994), Posterior predictive p-values, Annals of Statistics 22. Johnson (2007), Bayesian model
    assessment using pivotal quantities, Bayesian Analysis 2. Gosselin (2011), A new calibrated Bayesian internal
    goodness-of-fit method, PLoS ONE 6. Hartung (1999), A note on combining dependent tests of significance, Biometrical
    Journal 41. Han, Adiguzel, Carpenter (2024), Crowdsourcing with difficulty, arXiv:2405.19521 (votes per item and
    labels per worker, which reject Dawid-Skene on caries and rte).

    Examples
    --------
    >>> import bayescrowd as bc
    >>> checks = bc.fit(bc.datasets.load("caries"), bc.DawidSkene()).predictive_checks()
    >>> round(checks["splits"].p_value, 3)
    0.005
    """
    draws, random = check_draws(draws, _FEWEST), np.random.default_rng(check_seed(seed))
    model, labels = model_of(tree), labels_of(tree)
    made = _named(statistics, lambda wanted: statistic_of(wanted, labels, tree))
    fitted = fitted_parameters(tree, max(draws // _PER_DRAW, 1))
    n_sets = len(fitted.chain)
    per_set = draws // n_sets
    found = {
        name: np.empty((n_sets, per_set, len(statistic.rows)), statistic.dtype) for name, statistic in made.items()
    }
    replicator = Replicator(model, labels)
    for number, tables in enumerate(replicator.tables(fitted.parameters)):
        for again in range(per_set):
            label_code = replicator.draw(tables, random)[0]
            for name, statistic in made.items():
                found[name][number, again] = statistic(label_code)
    n_replicates = n_sets * per_set
    checks = {}
    for name, statistic in made.items():
        observed = statistic(labels.label_code)
        result = compare(found[name], observed)
        table, seen = table_of(statistic, found[name].reshape(n_replicates, -1), observed)
        sentence = _sentence(statistic, table, seen, result, n_replicates, model)
        checks[name] = PredictiveCheck(
            name, table, result.discrepancy, result.replicated, result.p_value, sentence, result.ppp, len(observed)
        )
    headline = (
        f"Posterior predictive checks of {title(tree)}: {count_of(n_replicates, 'replication')} of "
        f"{count_of(labels.n_annotations, 'label')}; {fitted.sentence}."
    )
    notes = [note for statistic in made.values() for note in statistic.notes]
    if fitted.basis == "estimate":
        notes.append(
            "The estimate was fitted to the same labels, so p-values are too large: trust small ones; for others fit "
            "again with engine='gibbs'."
        )
    if labels.weight is not None and (labels.weight != 1).any():
        notes.append("Weights are left out here: every row is one label.")
    return PredictiveChecks(headline, checks, tuple(notes))


def of_misfit(checks: PredictiveChecks) -> list[Finding]:
    """Turn checks into findings of a diagnosis.

    A p-value below .01 is a caution: the labels have something that the model does not, so its probabilities, and most
    of all its certainty, cannot be taken at their word, though the classes may be right all the same. Below .05 it is a
    note, as that happens now and then with three checks of a right model. Where nothing is found one note says so.

    Parameters
    ----------
    checks : PredictiveChecks
        From `predictive_checks`.

    Returns
    -------
    list of Finding
        Worst first.
    """
    findings = []
    known = {name: check for name, check in checks.items() if np.isfinite(check.p_value)}
    for name, check in sorted(known.items(), key=lambda entry: entry[1].p_value):
        if check.p_value < _DOUBTFUL:
            severity: Any = "caution" if check.p_value < REJECTED else "note"
            text, _, what_to_do = check.sentence.partition(ARROW)
            findings.append(Finding(severity, f"misfit-{name}", text, what_to_do))
    if known and not findings:
        values = ", ".join(f"{name} {check.p_value:.2f}" for name, check in known.items())
        text = f"The labels look like replications by the model (p-values of predictive checks: {values})."
        findings.append(Finding("note", "fits", text))
    return findings


def _named(statistics: Any, make: Callable[[Any], Statistic]) -> dict[str, Statistic]:
    wanted = [statistics] if isinstance(statistics, str) or callable(statistics) else list(statistics)
    if not wanted:
        raise LabelError(f"name at least one statistic: {shorten(NAMES)}, or a function f(label_code, tree)")
    made: dict[str, Statistic] = {}
    for one in wanted:
        statistic = make(one)
        if statistic.name in made:
            raise LabelError(f"two statistics are called {statistic.name!r}; give functions names of their own by def")
        made[statistic.name] = statistic
    return made


def _sentence(
    statistic: Statistic,
    table: pd.DataFrame,
    total: tuple[float, float, float, float],
    result: Compared,
    n_replicates: int,
    model: Model,
) -> str:
    if np.isnan(result.p_value):
        return nothing_to_check(statistic, table)
    text = f"{describe(statistic, table, total)}. {verdict(result.p_value, n_replicates, REJECTED, _DOUBTFUL)}"
    return text if result.p_value >= _DOUBTFUL else f"{text}{ARROW}{remedy(statistic.name, model.n_levels)}"
