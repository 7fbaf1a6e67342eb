"""What `dependence` found, in words."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from bayescrowd.criticism._pairs import FEWEST_COMMON, Meetings, PairScores
from bayescrowd.criticism._panel import Panel
from bayescrowd.criticism._worth import Worth, effective_size
from bayescrowd.criticism.report import Finding
from bayescrowd.errors import count_of, shorten

__all__ = [
    "TOO_LARGE",
    "copy_sentences",
    "findings",
    "of_little_gold",
    "of_part",
    "of_skipped",
    "pair_sentences",
    "remedies",
    "worth_sentences",
]

_MUCH = 0.8
"""A panel that is worth less than this part of its number calls for a remedy."""

TOO_LARGE = "the confusion matrices of so many workers, classes and labels would not fit in memory"

_FEW_ITEMS = 30
_ENOUGH_ITEMS = 50
_MISSES = (
    "Without known classes the interval misses now and then: on 30 real sets with known classes it held the value by "
    "these in 25, and missed it by less than a tenth in 5."
)
_FEWEST_SHARED = 2
_SHOWN = 5
_IN_SHORT = 3
_GOLD = "Give the true class of some 50 items, chosen at random, as gold or to fit.dependence(truth): that measures it."
_OVERLAP = "Let two or more workers label the same items: errors can only be compared there."
_MORE_KNOWN = "Give the true class of more items: errors may show there."


def worth_sentences(basis: str, whole: Panel, worth: Worth, interval: float, extra: Sequence[Hashable]) -> list[str]:
    """Say what the panel is worth.

    Parameters
    ----------
    basis : str
        ``"truth"``, ``"gold"`` or ``"labels"``.
    whole : Panel
        All labels.
    worth : Worth
        Its worth.
    interval : float
        Probability of the interval.
    extra : sequence
        Labels that are no class.

    Returns
    -------
    list of str
        The headline first.
    """
    if worth.why_not:
        return [f"Whether workers err together cannot be told: {worth.why_not}.", *_way_out(basis, whole, worth)]
    if basis == "labels":
        said = _by_labels(whole.size, worth, interval)
    else:
        said = [*_measured(basis, whole.size, worth, interval), *_caveats(basis, whole.n_items, worth)]
    if extra:
        verb = "is" if len(extra) == 1 else "are"
        said.append(f"Labels that are no class ({shorten(extra)} {verb} none) count as errors.")
    return said


def remedies(basis: str, size: float, worth: Worth, has_levels: bool) -> list[str]:
    """Say what to do about errors that workers share.

    Parameters
    ----------
    basis, worth
        As `worth_sentences`.
    size : float
        Labels per item.
    has_levels : bool
        Whether the model knows that some items are harder.

    Returns
    -------
    list of str
        Empty where there is nothing to do.
    """
    if worth.why_not:
        return []
    said = [_GOLD] if basis == "labels" else []
    effective = effective_size(size, worth.correlation)
    if effective >= _MUCH * size:
        return said
    if _short(effective_size(size, worth.lower)) == _short(size):
        if basis != "labels":
            enough = " (50 or more)" if worth.n_items < _ENOUGH_ITEMS else ""
            said.append(
                f"The whole panel is within the interval: give more known classes{enough} before anything is weighed "
                "down."
            )
        return said
    model = "" if has_levels else "; or let the model know that some items are harder, bc.IDBLA()"
    by = "If that estimate is right, class" if basis == "labels" else "Class"
    said.append(
        f"{by} probabilities that count every label in full are too sure. Ask workers who err on other items "
        "(other people, other models, other instructions) rather than more of the same; give every label the "
        f"weight {effective / size:.2g} ({_short(effective)} / {_short(size)}), so that {_short(size)} labels "
        f"count as {_short(effective)}, in fit.predict(labels with that weight), not in the fit itself, which "
        f"would then learn less of the workers{model}."
    )
    return said


def copy_sentences(
    workers: pd.Index, groups: Sequence[np.ndarray], meetings: Meetings, scores: PairScores
) -> list[str]:
    """Name the groups that copy.

    Parameters
    ----------
    workers : Index
        Ids of the workers.
    groups : sequence of int array
        Workers of each group.
    meetings : Meetings
        Pairs.
    scores : PairScores
        Their scores.

    Returns
    -------
    list of str
        One sentence per group, the first few only.
    """
    said = []
    for group in groups[:_SHOWN]:
        inside = np.isin(meetings.first, group) & np.isin(meetings.second, group)
        found = scores.correlation[inside & np.isfinite(scores.correlation)]
        # Of pairs that share too few items here, found by other labels, only the bound is known.
        alike = float(np.clip(found.mean(), 0.5, 1.0)) if len(found) else 1.0
        how = f" (correlation {found.mean():.2f}{' on average' if len(found) > 1 else ''})" if len(found) else ""
        said.append(
            f"{shorten(workers[group])} say the same far more often than the class explains, and than others do{how}: "
            "they copy each other, or a common source, such as one model behind several judges. Keep one of them, or "
            f"give their labels the weight {1 / (1 + (len(group) - 1) * alike):.2g} in fit.predict, not in the fit."
        )
    if len(groups) > _SHOWN:
        said.append(f"{count_of(len(groups) - _SHOWN, 'further group')} of workers copy: see groups.")
    return said


def pair_sentences(meetings: Meetings, scores: PairScores, any_copies: bool, basis: str) -> list[str]:
    """Say which pairs were judged.

    Parameters
    ----------
    meetings : Meetings
        Pairs.
    scores : PairScores
        Their scores; NaN for pairs that were not judged.
    any_copies : bool
        Whether any group copies.
    basis : str
        ``"truth"``, ``"gold"`` or ``"labels"``.

    Returns
    -------
    list of str
        What was left out included.
    """
    kind = "common items" if basis == "labels" else "common items of known class"
    if not meetings.n_pairs:
        return [f"No two workers have {kind}: who copies whom cannot be told."]
    n_judged = int(np.isfinite(scores.excess).sum())
    if len(meetings.one) and not n_judged:
        return [
            "Pairs are judged by the labels of others: whether two workers copy takes the labels of a third, or known "
            "classes."
        ]
    few = int((meetings.n_common < FEWEST_COMMON).sum())
    said = []
    if few == len(meetings.first) and not any_copies:
        said.append(f"No two workers have {FEWEST_COMMON} {kind}: who copies whom cannot be told.")
    elif n_judged == 1 and not any_copies:
        said.append("The one pair that could be judged does not stand out as copying.")
    elif not any_copies:
        said.append(f"None of {n_judged:,} pairs that could be judged stands out as copying.")
    if few and n_judged:
        said.append(f"{count_of(few, 'pair')} with fewer than {FEWEST_COMMON} {kind} could not be judged.")
    rest = len(meetings.first) - few - n_judged
    if rest:
        said.append(
            f"{count_of(rest, 'pair')} with fewer {kind} {'was' if rest == 1 else 'were'} not judged, to save time."
        )
    part = int((np.isfinite(scores.excess) & (meetings.n_met < meetings.n_common)).sum())
    if part:
        were = "was" if part == 1 else "were"
        said.append(f"{count_of(part, 'pair')} {were} judged on part of their {kind} only, to save time.")
    if meetings.n_pairs > len(meetings.first):
        said.append(f"Of {meetings.n_pairs:,} pairs the {len(meetings.first):,} with the most {kind} are listed.")
    return said


def findings(
    workers: pd.Index,
    groups: Sequence[np.ndarray],
    basis: str,
    worth: Worth | None,
    size: float,
    interval: float,
) -> list[Finding]:
    """Put what a diagnosis should say into findings.

    Parameters
    ----------
    workers, groups
        As `copy_sentences`.
    basis : str
        ``"gold"`` or ``"labels"``.
    worth : Worth or None
        By gold, where there is enough.
    size : float
        Labels per item.
    interval : float
        Probability of the interval of the worth.

    Returns
    -------
    list of Finding
        Cautions.
    """
    found = []
    if groups:
        text = _copies_in_short(workers, groups, basis)
        what = "keep one worker of each group, or weigh its labels down; fit.dependence() has groups, weights and pairs"
        found.append(Finding("caution", "copying", text, what))
    # Even the upper end of the interval is less than half of the panel.
    if worth is not None and effective_size(size, worth.lower) < size / 2:
        text = " ".join(_measured("gold", size, worth, interval))
        what = "class probabilities are too sure: " + (
            "ask workers who err on other items, weigh labels down, or fit bc.IDBLA(); fit.dependence() says more"
        )
        found.append(Finding("caution", "dependence", text, what))
    return found


def of_skipped(n_labels: int, is_small: bool) -> Finding:
    """Say that a diagnosis did not look at pairs of workers."""
    unseen = "Whether workers copy was not looked at: "
    if not is_small:
        remedy = "fit.dependence(truth), or gold, tells at least whether workers err together"
        return Finding("note", "dependence-skipped", f"{unseen}{TOO_LARGE}.", remedy)
    text = f"{unseen}with {count_of(n_labels, 'label')} that takes a while."
    return Finding("note", "dependence-skipped", text, "fit.dependence() does it all the same")


def of_little_gold(n_gold: int, enough: int) -> str:
    """Say that there is gold, but too little to measure by."""
    return (
        f"{count_of(n_gold, 'gold item')} with labels of two workers {'is' if n_gold == 1 else 'are'} too few to "
        f"measure by ({enough} would be enough); what is gold is kept in its class."
    )


def of_part(part: Panel, whole: Panel, basis: str) -> str:
    """Say that not all labels were used."""
    what = "Computed from" if basis == "labels" else "Copies beyond the items of known class were looked for in"
    return (
        f"{what} {part.n_items:,} of {count_of(whole.n_items, 'item')}, drawn at random, to save time "
        f"({count_of(len(part.item), 'label')})."
    )


def _copies_in_short(workers: pd.Index, groups: Sequence[np.ndarray], basis: str) -> str:
    """Name a few members of a few groups."""
    by = "by the labels alone" if basis == "labels" else "by gold and labels"
    who = ", ".join(f"({shorten(workers[group], _IN_SHORT)})" for group in groups[:_IN_SHORT])
    if len(groups) > _IN_SHORT:
        who += f" and {count_of(len(groups) - _IN_SHORT, 'further group')}"
    who = f"{len(groups)} groups of workers, {who}," if len(groups) > 1 else who[1:-1]
    return (
        f"{who} say the same far more often than the class explains, and than others do ({by}): they copy each other, "
        "or a common source."
    )


def _way_out(basis: str, whole: Panel, worth: Worth) -> list[str]:
    """Say what would let it be told; empty where nothing would."""
    n_shared = int((whole.n_answers > 1).sum())
    if n_shared < _FEWEST_SHARED:
        return [_OVERLAP]
    if basis == "labels" or worth.n_items < _FEWEST_SHARED:
        return [_GOLD]
    return [_MORE_KNOWN] if worth.n_items < n_shared else []


def _measured(basis: str, size: float, worth: Worth, interval: float) -> list[str]:
    """Give the effective size and the correlation by known classes, in two sentences."""
    kind = "gold item" if basis == "gold" else "item"
    by = f"by {count_of(worth.n_items, kind)}" + ("" if basis == "gold" else " of known class")
    effective, least, most = _sizes(size, worth)
    level = f"{100 * interval:g} %"
    if worth.correlation <= 0:
        but = ", but so few items cannot rule it out" if least < _MUCH * size else ""
        said = [
            f"Workers show no sign of erring together{but}: {_labels(size)} worth as many independent ones (at least "
            f"{_short(least)}, {level} interval), {by}."
        ]
    else:
        said = [
            f"{_labels(size)} worth about {_short(effective)} independent {_ones(effective)} ({_short(least)} to "
            f"{_short(most)}, {level} interval), {by}."
        ]
    chance = ", which may be chance" if worth.lower <= 0 < worth.correlation else ""
    said.append(
        f"Given the class, the errors of two workers on the same item are correlated by {_two(worth.correlation)} "
        f"({_two(worth.lower)} to {_two(worth.upper)}){chance}."
    )
    return said


def _caveats(basis: str, n_items: int, worth: Worth) -> list[str]:
    """Say what limits what known classes tell."""
    said = []
    if worth.n_items < _FEW_ITEMS:
        said.append("So few items say little: 50 or more would.")
    if worth.n_items < n_items:
        chosen = "gold" if basis == "gold" else "known classes"
        said.append(f"It holds for all items as far as those with {chosen} are like the others, and not the easy ones.")
    return said


def _by_labels(size: float, worth: Worth, interval: float) -> list[str]:
    effective, least, most = _sizes(size, worth)
    one = (
        "If workers share what misleads them so far that all labels of an item tell no more than one of them, the "
        f"panel is worth {_short(effective_size(size, worth.as_one))}."
    )
    unseen = "Errors that all workers always make alike leave no trace in labels."
    said = [
        f"By the labels alone, {_labels(size)} worth something between {_short(least)} and {_short(most)} independent "
        f"ones ({100 * interval:g} % interval). About {_short(effective)} is what a prior makes of it: labels cannot "
        "tell."
    ]
    if worth.hard is None:
        said += [
            "No kind of items shows on which labels agree much less than on others. That is no sign that workers err "
            "independently: errors that they make alike look like right answers.",
            f"{one} {unseen}",
            "The estimate takes the classes that labels lead to for right.",
        ]
    else:
        share, agree = (f"{100 * part:.0f} %" for part in (worth.hard.hard_share, worth.agreement))
        right, fewest, largest = (
            _short(effective_size(size, value)) for value in (worth.right, worth.most, worth.least)
        )
        said += [
            f"On about {share} of the items labels agree much less than on the others: {agree} of them name the class "
            f"that is taken for true. If that is always right, the panel is worth {right}; if not, workers err "
            f"together there, and the panel is worth {fewest} to {largest}, by how often it is wrong. The labels look "
            "the same.",
            f"{one} {unseen}",
            "The estimate takes the class of such items to be wrong as often as a single label differs from it: "
            f"{100 * (1 - worth.agreement):.0f} %.",
        ]
    return [*said, _MISSES]


def _sizes(size: float, worth: Worth) -> tuple[float, float, float]:
    """Effective size and its lower and upper bound."""
    effective, least, most = (effective_size(size, value) for value in (worth.correlation, worth.upper, worth.lower))
    return effective, least, most


def _labels(size: float) -> str:
    return "1 label per item is" if _short(size) == "1" else f"{_short(size)} labels per item are"


def _ones(number: float) -> str:
    return "one" if _short(number) == "1" else "ones"


def _short(number: float) -> str:
    """Two digits, or all before the point."""
    text = f"{number:.0f}" if number >= 9.95 else f"{number:.1f}"
    return text.removesuffix(".0")


def _two(number: float) -> str:
    """Two digits after the point, and no minus zero."""
    return f"{round(number, 2) + 0.0:.2f}"
