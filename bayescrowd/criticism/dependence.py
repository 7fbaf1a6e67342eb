"""Do workers err together, how many independent workers is the panel worth, and who copies whom."""

import html
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism import _dependence_words as words
from bayescrowd.criticism._copying import Links, Verdict, by_consensus, copies, together
from bayescrowd.criticism._pairs import Meetings, PairScores, by_truth, meetings_of, unknown_scores
from bayescrowd.criticism._panel import Panel, fits_in_memory, panel_of
from bayescrowd.criticism._worth import Worth, by_known_classes, by_labels_alone, effective_size, unknown_worth
from bayescrowd.criticism.known import known_classes
from bayescrowd.criticism.report import Finding
from bayescrowd.decisions.arguments import check_interval, check_seed
from bayescrowd.results.tree import ids, sizes_of, values

__all__ = ["Dependence", "dependence", "of_dependence"]

_FEWEST_GOLD = 10
_MOST_LABELS = 300_000
_MOST_IN_DIAGNOSIS = 100_000
_SHOWN = 10
_INTERVAL = 0.89
"""Probability of the interval of a diagnosis."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """What `dependence` found; print it.

    Parameters
    ----------
    pairs : DataFrame
        Every pair of workers with common items (at most the 10,000 with the most): ``worker``, ``other``, ``n_common``
        (their common items, with ``basis`` "truth" or "gold" those of known class), ``correlation``, ``lower``,
        ``upper``, ``excess`` (agreements per common item beyond those that the class explains) and ``z`` (the same in
        standard errors). NaN for pairs with fewer than 10 common items.
    correlation, correlation_lower, correlation_upper : float
        Correlation of the errors of two workers on the same item, given its class; NaN where it cannot be told.
    panel : float
        Labels per item: mean number of workers who labelled an item.
    effective, effective_lower, effective_upper : float
        How many independent workers that panel is worth: panel / (1 + (panel - 1) correlation), from 1 to panel.
    groups : tuple of tuples
        Workers who copy each other, or a common source.
    basis : str
        Where the classes come from: ``"truth"``, ``"gold"``, or ``"labels"`` alone.
    prior_driven : bool
        True for ``"labels"``: the interval spans what labels cannot tell, the estimate in it is a prior's.
    n_items : int
        Number of items that the correlation comes from.
    interval : float
        Probability of the intervals.
    sentences : tuple of str
        All of it in plain words.
    """

    pairs: pd.DataFrame = field(repr=False)
    correlation: float
    correlation_lower: float
    correlation_upper: float
    panel: float
    effective: float
    effective_lower: float
    effective_upper: float
    groups: tuple[tuple[Hashable, ...], ...]
    basis: str
    prior_driven: bool
    n_items: int
    interval: float
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        """Say everything in plain words."""
        return "\n".join([self.sentences[0], *(f"  {sentence}" for sentence in self.sentences[1:])])

    def _repr_html_(self) -> str:
        """For notebooks: the words, and the pairs that agree the most beyond the class."""
        words = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences[1:])
        head = f"<p><b>{html.escape(self.sentences[0])}</b></p><ul>{words}</ul>"
        judged = self.pairs.dropna(subset="excess").sort_values("excess", ascending=False, kind="stable")
        if judged.empty:
            return f"<div>{head}</div>"
        table = judged.head(_SHOWN).round(3).to_html(index=False, escape=True)
        return f"<div>{head}<p>Pairs with the most agreement beyond the class:</p>{table}</div>"


class _Known(NamedTuple):
    """All labels with the known classes, where these come from, and what to say about them."""

    whole: Panel
    basis: str
    notes: list[str]


class _Pairs(NamedTuple):
    """Pairs, their scores, and the groups that copy."""

    meetings: Meetings
    scores: PairScores
    groups: list[np.ndarray]


def dependence(tree: xr.DataTree, truth: Any = None, *, interval: float = 0.89, seed: int = 0) -> Dependence:
    r"""Tell whether workers err together, and how many independent workers the panel is worth.

    An error is a label that is not the class (labels that are no class, such as "can't tell", always are). Its
    expectation is the worker's own error rate in that class (drawn towards the rates of the worker and of the class
    where the worker has few labels there). What is left of two workers' errors on the same item is correlated by
    :math:`\rho`: products summed over all pairs and items, over squares summed likewise, so that a pair counts by its
    common items, and workers who never err add nothing. The mean of m such errors varies as the mean of
    :math:`m / (1 + (m - 1) \rho)` independent ones: Kish's effective sample size. m is the mean number of workers
    per item. With known classes its interval is a bootstrap over items (bootstrap-t, on the scale of the logarithm of
    :math:`1 + (m - 1) \rho`); those of pairs are Fisher's (inverse hyperbolic tangents of correlations, with standard
    errors from the influence of each item); from labels alone the spread comes from refits to resampled items.

    Without known classes nothing can *measure* that: labels agree because workers are right together or because they
    are wrong together. They do show whether there are items on which labels agree much less than on others (two kinds
    of items fitted by EM beside the workers' confusion matrices). Whether most labels are right on those hard items
    they cannot show, nor how much many labels tell beyond one. So the interval spans readings, with the sampling error
    of its ends: most labels of hard items are always right, ..., always wrong; all labels of an item tell as much as
    one. The estimate in it takes most labels of hard items to be wrong as often as a single one differs from them, and
    the consensus of all others to be right: a prior and no finding (``prior_driven``). Errors that all workers always
    make alike leave no trace in labels and are in no interval.

    Pairs: with known classes ``correlation`` is that of the errors of the two. From labels alone it is that of the
    residuals of their labels (labels as ones and zeros less their probabilities), given class probabilities of each
    item from the labels of all others; with two known classes both are the same. There a pair cannot pull the
    consensus that it is judged by, but where that consensus is wrong the true correlation is higher.

    ``groups`` joins pairs who agree far beyond chance, corrected for the number of pairs, whose correlation is at least
    .5 and far above the usual one of all pairs (or who are nearly identical), and only where independent workers do not
    explain all pairs: what is hard for everybody makes no copyists. Within a group correlations are at least .5 on
    average. Where most workers copy each other, only known classes can show it.

    Parameters
    ----------
    tree : DataTree
        A result of any engine or baseline.
    truth : Series or mapping, optional
        Item -> true class; True takes ``labels.truth``. Without it gold is used, if there are at least 10 gold items
        with labels of two workers, and without gold the labels alone.
    interval : float
        Probability of the intervals.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    Dependence
        Prints as plain words; numbers and the table of pairs for programs.

    Raises
    ------
    LabelError
        Listing items and classes of ``truth`` that the fit does not know, or that have two classes; for True where no
        truth came with the labels; for False and all else that is no mapping; for an ``interval`` that is not between 0
        and 1; and for a ``seed`` that is no whole number from 0.

    References
    ----------
    Kish (1965), Survey Sampling (effective sample size, design effect). Efron, Tibshirani (1993), An Introduction to
    the Bootstrap (bootstrap-t). Fisher (1921), On the "probable error" of a coefficient of correlation deduced from a
    small sample (interval of a correlation). Dawid, Skene (1979), Maximum likelihood
    estimation of observer error-rates using the EM algorithm.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(8, 2)), n_items=300, n_workers=6,
    ...                     labels_per_item=6)
    >>> found = dependence(bc.fit(crowd.labels).idata, crowd.labels.truth)
    >>> found.basis, found.panel, found.groups
    ('truth', 6.0, ())
    >>> bool(found.effective > 5)
    True
    """
    interval, seed = check_interval(interval), check_seed(seed)
    whole, basis, notes = _known(tree, truth)
    random = np.random.default_rng(seed)
    panel = whole.some(_MOST_LABELS, random)
    if whole.is_small and panel is not whole and (basis == "labels" or (panel.known < 0).any()):
        notes = [*notes, words.of_part(panel, whole, basis)]
    if basis == "labels":
        found, worth = _from_labels(panel, whole.size, interval, random)
    else:
        of_known = whole.only(whole.known >= 0)
        worth = by_known_classes(of_known, whole.size, interval, random)
        found = _from_known(of_known, panel, random)
    return _put_together(tree, basis, whole, worth, found, interval, notes)


def of_dependence(tree: xr.DataTree, seed: int = 0) -> list[Finding]:
    """Find workers who copy, and by gold a panel that is worth much less than its number.

    Parameters
    ----------
    tree : DataTree
        A result.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    list of Finding
        Cautions, of the same groups that `dependence` finds without ``truth``. To stay quick it looks at nothing where
        there are more than 100,000 labels; then a note says so.

    Raises
    ------
    LabelError
        For a seed that is none.
    """
    random = np.random.default_rng(check_seed(seed))
    n_labels = tree["observed_data"].dataset.sizes["annotation"]
    sizes = sizes_of(tree)
    is_small = fits_in_memory(sizes.n_workers, sizes.n_classes, sizes.n_labels)
    if n_labels > _MOST_IN_DIAGNOSIS or not is_small:
        return [words.of_skipped(n_labels, is_small)]
    panel, basis, _ = _known(tree, None)
    worth: Worth | None = None
    if basis == "gold":
        of_known = panel.only(panel.known >= 0)
        worth = by_known_classes(of_known, panel.size, _INTERVAL, random)
        found = _from_known(of_known, panel, random)
    else:
        meetings = meetings_of(panel, random)
        found = _judged(panel, meetings, by_consensus(panel, meetings))
    return words.findings(ids(tree, "worker"), found.groups, basis, worth, panel.size, _INTERVAL)


def _known(tree: xr.DataTree, truth: Any) -> _Known:
    """Find known classes: those given, or enough gold; a little gold stays with the labels."""
    if truth is not None:
        code, notes = known_classes(tree, truth)
        return _Known(panel_of(tree, code), "truth", notes)
    gold = values(tree, "observed_data", "gold_index")
    whole = panel_of(tree, gold)
    n_gold = int(((whole.known >= 0) & (whole.n_answers > 1)).sum())
    if n_gold >= _FEWEST_GOLD:
        return _Known(whole, "gold", [])
    notes = [words.of_little_gold(n_gold, _FEWEST_GOLD)] if (gold >= 0).any() else []
    return _Known(whole, "labels", notes)


def _from_labels(panel: Panel, size: float, interval: float, random: np.random.Generator) -> tuple[_Pairs, Worth]:
    meetings = meetings_of(panel, random)
    if not panel.is_small:
        return _Pairs(meetings, unknown_scores(meetings), []), unknown_worth(panel, words.TOO_LARGE)
    verdict = by_consensus(panel, meetings)
    worth = by_labels_alone(verdict.panel, verdict.consensus, size, interval, random)
    return _judged(panel, meetings, verdict), worth


def _judged(panel: Panel, meetings: Meetings, verdict: Verdict) -> _Pairs:
    groups = _groups(panel, [(meetings, verdict.scores.correlation, verdict.copies)])
    return _Pairs(meetings, verdict.scores, groups)


def _from_known(of_known: Panel, panel: Panel, random: np.random.Generator) -> _Pairs:
    """Score pairs on items of known class; look for copies among all labels too, where there are more."""
    meetings = meetings_of(of_known, random)
    if not panel.is_small:
        return _Pairs(meetings, unknown_scores(meetings), [])
    scores = by_truth(of_known, meetings)
    links = [(meetings, scores.correlation, copies(scores))]
    if (panel.known < 0).any():
        every = meetings_of(panel, random)
        verdict = by_consensus(panel, every)
        links.append((every, verdict.scores.correlation, verdict.copies))
    return _Pairs(meetings, scores, _groups(panel, links))


def _groups(panel: Panel, links: list[Links]) -> list[np.ndarray]:
    """List workers who copy, in groups of two or more, the largest first."""
    group = together(panel.n_workers, links)
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []
    return sorted((part for part in parts if len(part) > 1), key=lambda part: (-len(part), part[0]))


def _put_together(
    tree: xr.DataTree, basis: str, whole: Panel, worth: Worth, found: _Pairs, interval: float, notes: list[str]
) -> Dependence:
    workers = ids(tree, "worker")
    lower, upper = found.scores.bounds(interval)
    pairs = pd.DataFrame(
        {
            "worker": workers[found.meetings.first],
            "other": workers[found.meetings.second],
            "n_common": found.meetings.n_common,
            "correlation": found.scores.correlation,
            "lower": lower,
            "upper": upper,
            "excess": found.scores.excess,
            "z": found.scores.z,
        }
    )
    groups = tuple(tuple(workers[group].tolist()) for group in found.groups)
    size = whole.size
    extra = ids(tree, "label")[whole.n_classes :].tolist()
    if whole.is_small:
        of_pairs = words.pair_sentences(found.meetings, found.scores, bool(groups), basis)
    else:  # by labels alone the headline has the reason already
        of_pairs = [f"Pairs of workers are not judged{'' if basis == 'labels' else f': {words.TOO_LARGE}'}."]
    said = [
        *words.worth_sentences(basis, whole, worth, interval, extra),
        *words.copy_sentences(workers, found.groups, found.meetings, found.scores),
        *of_pairs,
        *notes,
        *words.remedies(basis, size, worth, "difficulty_probability" in tree["latent"].dataset),
    ]
    return Dependence(
        pairs=pairs,
        correlation=worth.correlation,
        correlation_lower=worth.lower,
        correlation_upper=worth.upper,
        panel=size,
        effective=effective_size(size, worth.correlation),
        effective_lower=effective_size(size, worth.upper),
        effective_upper=effective_size(size, worth.lower),
        groups=groups,
        basis=basis,
        prior_driven=basis == "labels",
        n_items=worth.n_items,
        interval=interval,
        sentences=tuple(said),
    )
