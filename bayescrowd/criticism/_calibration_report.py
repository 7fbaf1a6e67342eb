"""What `calibration` returns: scores, curve and classes, and all of it in plain words."""

import html
import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.criticism._scoring import SMALLEST, SURE
from bayescrowd.criticism._scoring_references import Chance
from bayescrowd.errors import count_of, shorten
from bayescrowd.results.tree import parameter_group

__all__ = ["FEWEST", "Calibration", "sentences", "verdict_on"]

FEWEST = 10
"""Fewer items than this cannot be resampled, nor judged by."""

_FEW = 100
_SLIGHT = 0.02
_TAIL = 0.025
"""A verdict needs an accuracy that right probabilities would give with less than this probability on that side."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What `calibration` found; print it.

    Parameters
    ----------
    scores : DataFrame
        By score: ``value``, ``lower``, ``upper`` (equal-tailed interval; with fewer than 10 items NaN but for shares of
        items), ``expected`` (what the value would be if every class occurred exactly as often as the probabilities
        say).
    by_class : DataFrame by class
        Each class against the rest: ``n_items`` (truly in it), ``prevalence`` and ``prevalence_expected``, ``recall``,
        ``precision``, ``log_loss``, ``brier``, ``calibration_error``, ``confidently_wrong``, each of the last six with
        ``_lower`` and ``_upper``; ``calibration_error_expected``.
    curve : DataFrame
        Reliability curve of the leading class, a row per bin: ``lower`` and ``upper`` (smallest and largest confidence
        in the bin), ``n_items``, ``confidence`` (mean), ``accuracy``, ``accuracy_lower``, ``accuracy_upper`` (Wilson).
    n_items : int
        How many items were scored.
    interval : float
        Probability of the intervals.
    temperature, temperature_lower, temperature_upper : float
        T such that probabilities raised to the power 1 / T have the lowest log loss on these items: above 1 the fit is
        too sure, below 1 not sure enough. 0 where it could not be too sure, infinity where equal probabilities are
        better than any, NaN where all probabilities are equal. Its bounds are NaN with fewer than 10 items.
    log_loss_tempered : float
        Log loss at that temperature.
    n_clipped : int
        Number of true classes whose probability was below 1e-15, which counts as 1e-15 in the log loss.
    sure_mistakes : DataFrame by item
        The items that are confidently wrong, the surest first: ``class``, ``probability``, ``truth``.
    sentences : tuple of str
        All of it in plain words.
    verdict : int
        1 where the fit is too sure, -1 where it is not sure enough, 0 where these items cannot tell: right
        probabilities would be right about as often, or there are fewer than 10 items.
    """

    scores: pd.DataFrame
    by_class: pd.DataFrame = field(repr=False)
    curve: pd.DataFrame = field(repr=False)
    n_items: int
    interval: float
    temperature: float
    temperature_lower: float
    temperature_upper: float
    log_loss_tempered: float
    n_clipped: int
    sure_mistakes: pd.DataFrame = field(repr=False)
    sentences: tuple[str, ...]
    verdict: int = 0

    def __str__(self) -> str:
        """Say everything in plain words, with the scores."""
        lines = [self.sentences[0], *(f"  {sentence}" for sentence in self.sentences[1:])]
        return "\n".join([*lines, "", self.scores.round(3).to_string()])

    def _repr_html_(self) -> str:
        """For notebooks."""
        words = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences[1:])
        tables = "".join(
            f"<p>{title}</p>{table.round(3).to_html()}"
            for title, table in (("Scores", self.scores), ("By class", self.by_class), ("Curve", self.curve))
        )
        return f"<div><p><b>{html.escape(self.sentences[0])}</b></p><ul>{words}</ul>{tables}</div>"


def verdict_on(accuracy: float, chance: Chance, n_items: int) -> int:
    """Compare the accuracy with what right probabilities would have shown.

    Parameters
    ----------
    accuracy : float
        Of the leading classes.
    chance : Chance
        What right probabilities would have shown.
    n_items : int
        How many items were scored.

    Returns
    -------
    int
        As `Calibration.verdict`.
    """
    if n_items < FEWEST:
        return 0
    low, high = np.quantile(chance.accuracy, [_TAIL, 1 - _TAIL])
    return int(accuracy < low - 1e-9) - int(accuracy > high + 1e-9)


def sentences(tree: xr.DataTree, found: Calibration, chance: Chance, notes: list[str]) -> tuple[str, ...]:
    """Say what was found.

    Parameters
    ----------
    tree : DataTree
        The result that was scored.
    found : Calibration
        Its numbers.
    chance : Chance
        What right probabilities would have shown.
    notes : list of str
        What was left out.

    Returns
    -------
    tuple of str
        The verdict first.
    """
    said = [_headline(found), f"Scored on {count_of(found.n_items, 'item')} with a known class.", *notes]
    if found.n_items < _FEW:
        wide = "intervals are wide" if found.n_items >= FEWEST else "most intervals cannot be told"
        said.append(
            f"So few items say little: {wide}, and a bin of the curve holds "
            f"{count_of(round(found.n_items / len(found.curve)), 'item')} on average. A few hundred known classes "
            "would say more."
        )
    said += _log_loss(found) + [_curve(found, chance), _mistakes(found)] + _classes(found)
    if found.n_items >= FEWEST:
        said += _temperature(found) + _remedy(tree, found)
    return tuple(said)


def _row(found: Calibration, score: str) -> list[float]:
    """Value, lower, upper, expected."""
    return [float(number) for number in found.scores.loc[score].to_numpy()]


def _headline(found: Calibration) -> str:
    value = found.scores["value"]
    _, lower, upper, _ = _row(found, "accuracy")
    how = "slightly " if abs(value["overconfidence"]) < _SLIGHT else ""
    word = {
        1: f"{how}overconfident",
        -1: f"{how}not confident enough",
        0: "no more and no less confident than it should be, as far as these items tell",
    }[found.verdict]
    if found.n_items < FEWEST:
        word = f"{_too_few(found.n_items)} whether it is too sure"
    return (
        f"The fit says {value['confidence']:.1%} on average and is right on {value['accuracy']:.1%} "
        f"({lower:.1%} to {upper:.1%}): {word}."
    )


def _log_loss(found: Calibration) -> list[str]:
    value, lower, upper, _ = _row(found, "log_loss")
    n_classes = len(found.by_class)
    if n_classes < 2:
        return ["There is one class only: nothing can be wrong, and every score is that of certainty."]
    blind = math.log(n_classes)
    rival = "a coin, which has" if n_classes == 2 else f"equal probabilities for all {n_classes} classes, which have"
    how = "worse than" if lower > blind else "better than" if upper < blind else "not clearly better than"
    if found.n_items < FEWEST:
        said = [f"Log loss {value:.3f} nats: {_too_few(found.n_items)} if that is better than {rival} {blind:.3f}."]
    else:
        said = [f"Log loss {value:.3f} nats ({lower:.3f} to {upper:.3f}): {how} {rival} {blind:.3f}."]
    if found.n_clipped:
        said.append(
            f"{count_of(found.n_clipped, 'true class')} had a probability below {SMALLEST:g}, which counts as that: "
            f"{-math.log(SMALLEST):.1f} nats each."
        )
    return said


def _curve(found: Calibration, chance: Chance) -> str:
    value, lower, upper, expected = _row(found, "calibration_error")
    if found.n_items < FEWEST:
        return (
            f"Calibration error {value:.3f}, and {_too_few(found.n_items)} what is chance in it: right probabilities "
            f"would show {expected:.3f} on so many items."
        )
    off = value > np.quantile(chance.calibration_errors, 1 - _TAIL) + 1e-9
    how = "more than chance explains" if off else "no more than chance explains"
    return (
        f"Calibration error {value:.3f} ({lower:.3f} to {upper:.3f}), {how}: right probabilities would show "
        f"{expected:.3f} on so many items."
    )


def _mistakes(found: Calibration) -> str:
    share, lower, upper, expected = _row(found, "confidently_wrong")
    meaning = f"P > {SURE:g} for another class than the true one"
    if not len(found.sure_mistakes):
        return f"No item is confidently wrong ({meaning}); {expected:.1%} (at most {upper:.1%}) would be expected."
    are = "is" if len(found.sure_mistakes) == 1 else "are"
    return (
        f"{count_of(len(found.sure_mistakes), 'item')} {are} confidently wrong ({meaning}), {share:.1%} "
        f"({lower:.1%} to {upper:.1%}) where right probabilities would have {expected:.1%}: "
        f"{shorten(found.sure_mistakes.index)}."
    )


def _classes(found: Calibration) -> list[str]:
    """Name the class that is found least often, where that is clearly less often than the others."""
    table = found.by_class
    clear = table[table["recall_upper"] < found.scores.at["accuracy", "value"]]
    if not len(clear):
        return []
    place = int(clear["recall"].to_numpy().argmin())
    row = clear.iloc[place]
    return [
        f"Least often found is class {shorten([clear.index[place]])}: {row['recall']:.1%} "
        f"({row['recall_lower']:.1%} to {row['recall_upper']:.1%}) of its {count_of(int(row['n_items']), 'item')}."
    ]


def _too_few(n_items: int) -> str:
    return f"{count_of(n_items, 'item')} {'is' if n_items == 1 else 'are'} too few to tell"


def _helps(found: Calibration) -> bool:
    """Say whether a temperature would clearly help."""
    return not found.temperature_lower <= 1 <= found.temperature_upper


def _temperature(found: Calibration) -> list[str]:
    value, lower, upper = found.temperature, found.temperature_lower, found.temperature_upper
    if math.isnan(value) or len(found.by_class) < 2:
        return []
    if value == 0:
        return ["The leading classes are all right: no temperature can be told from these items."]
    between = f"T = {value:.2f} ({lower:.2f} to {upper:.2f})"
    if not _helps(found):
        return [f"No temperature would clearly help: {between} has the lowest log loss, and 1 changes nothing."]
    if math.isinf(value):
        return ["Equal probabilities for all classes would score better than these at any temperature."]
    return [
        f"Probabilities raised to the power 1/T, and normalised, would have the lowest log loss, "
        f"{found.log_loss_tempered:.3f}, with {between}."
    ]


def _remedy(tree: xr.DataTree, found: Calibration) -> list[str]:
    if found.verdict == 0:
        return []
    if found.verdict < 0:
        sharper = "; or sharpen with the temperature" if found.temperature > 0 and _helps(found) else ""
        return [f"What to do: look at fit.sensitivity(), a weaker prior may do{sharper}."]
    ways = ["see in fit.dependence() whether workers repeat each other's mistakes"]
    if "difficulty_probability" not in tree["latent"].dataset:
        ways.append("let items differ in difficulty, bc.fit(labels, bc.IDBLA())")
    if parameter_group(tree) == "point_estimate":
        ways.append('let the uncertainty of the parameters count, engine="gibbs"')
    if found.temperature > 1 and math.isfinite(found.temperature) and _helps(found):
        ways.append(f"or flatten the probabilities with the temperature, p ** (1 / {found.temperature:.2f})")
    return [f"What to do: {'; '.join(ways)}."]
