"""Posterior predictive checks: what of the labels would the fitted model hardly ever produce."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._check_words import ARROW, describe, remedy, verdict
from bayescrowd.criticism._checked import PredictiveCheck, PredictiveChecks, nothing_to_check, table_of
from bayescrowd.criticism._direction import Direction, direction_of
from bayescrowd.criticism._discrepancy import Compared, compare
from bayescrowd.criticism._replicator import Replicator
from bayescrowd.criticism.predictive import check_draws, fitted_parameters
from bayescrowd.criticism.report import Finding
from bayescrowd.criticism.statistics import NAMES, Statistic, statistic_of
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import LabelError, count_of, shorten
from bayescrowd.model import Model
from bayescrowd.results.tree import labels_of, model_of, title

__all__ = [
    "PredictiveCheck",
    "PredictiveChecks",
    "of_misfit",
    "predictive_checks",
]

REJECTED, _BORDERLINE = 0.01, 0.1
"""P-values below which a model counts as rejected, and as borderline. Three statistics are looked at, and labels of a
right model still give a p-value below .01 once in a hundred times each. Between the two a p-value depends on the draws
and replications that it is computed from, so that words there must not say one thing or the other."""

_PER_DRAW = 10
"""Replications of each draw of the parameters, from which the mean that this draw expects is computed."""

_FEWEST = 2 * _PER_DRAW

_USUAL, _MOST = 200, 2000
"""Replications by default: as many of a small table as take no time, since a p-value varies less with more."""

_BUDGET = 10**6
"""Labels, or numbers of a statistic, in all these replications."""


def predictive_checks(
    tree: xr.DataTree,
    statistics: Any = NAMES,
    *,
    draws: int | None = None,
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
    that into account. On 100 tables of 45 items by 5 workers with 4 classes simulated from the model, 2 to
    7 % of these p-values were below .05 and 0 to 1 % below .01 (with 2 classes, about 1 %); of
    ``ppp`` hardly any. Point estimates have one "draw", the estimate, that the labels have shaped: their
    p-values are too large, so that a small one can be trusted and a large one says little.

    Of agreement the p-value tests the pairs and their total together (the larger of both discrepancies, on a common
    scale): where workers share few items no pair stands out, and all of them may agree too often.

    *What is tested is the model with its prior.* The p-value is uniform for labels whose workers are drawn from that
    prior. Other workers, say all of them good where the prior expects accuracies all over the place, are estimated
    well where each has many labels, and hardly matter then. Where each has few, the prior speaks for them: the model
    expects less agreement than there is and is rejected, rightly as far as its prior goes, though Dawid-Skene with a
    prior that expects such workers would be right. The default ``bc.diagonal(2, 0.5)`` expects an accuracy of .80, .67,
    .57 and .50 with 2, 3, 4 and 5 classes. The sentence says so where labels agree more than the model expects, and
    names a prior, not a richer model. A weight does not make several labels of a row: each row is one label in all
    statistics.

    Parameters
    ----------
    tree : DataTree
        A result.
    statistics : str, callable, or sequence of them
        ``"agreement"`` (of every pair of workers on the items that both label), ``"splits"`` (number of items whose
        votes are split 5-4, 9-0, ..., whichever label leads), ``"shares"`` (of each label among those of each worker;
        most models can fit any), or functions ``f(label_code, tree)`` that give a number or an array.
    draws : int, optional
        Number of replications, at least 20; by default 200, up to 2000 for small tables, whose p-values would else
        depend on the seed. The smallest p-value is 1 / (draws + 1), so that fewer than 100 can reject nothing.
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
    draws = None if draws is None else check_draws(draws, _FEWEST)
    random = np.random.default_rng(check_seed(seed))
    model, labels = model_of(tree), labels_of(tree)
    made = _named(statistics, lambda wanted: statistic_of(wanted, labels, tree))
    if draws is None:
        work = labels.n_annotations + sum(len(statistic.rows) for statistic in made.values())
        draws = int(np.clip(_BUDGET // max(work, 1), _USUAL, _MOST))
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
    seen = {name: statistic(labels.label_code) for name, statistic in made.items()}
    ways = {name: direction_of(statistic, found[name], seen[name]) for name, statistic in made.items()}
    if "lumpy" in ways.values():
        # Agreement alone does not show whether it is spread evenly over the items; splits do.
        ways = {name: "lumpy" if way == "more" else way for name, way in ways.items()}
    for name, statistic in made.items():
        observed = seen[name]
        flat = found[name].reshape(n_replicates, -1)
        result = compare(found[name], observed, total=statistic.has_total)
        table, total = table_of(statistic, flat, observed)
        sentence = _sentence(statistic, table, total, result, ways[name], model, labels)
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
    of all its certainty, cannot be taken at their word, though the classes may be right all the same. Below .1 it is a
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
        if check.p_value < _BORDERLINE:
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
    direction: Direction,
    model: Model,
    labels: CrowdLabels,
) -> str:
    p_value = result.p_value
    if np.isnan(p_value):
        return nothing_to_check(statistic, table)
    inside = total[2] <= total[0] <= total[3]
    told = verdict(
        p_value,
        len(result.replicated),
        REJECTED,
        _BORDERLINE,
        direction=direction,
        strayed=statistic.has_total and not inside,
        within=statistic.has_total and inside,
    )
    text = f"{describe(statistic, table, total)}. {told}"
    return text if p_value >= _BORDERLINE else f"{text}{ARROW}{remedy(statistic.name, model, labels, direction)}"
