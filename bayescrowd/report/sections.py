"""The parts of a page about a result; each is left out, or says why, where there is nothing to show."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd import plots
from bayescrowd.criticism import calibration as calibrating
from bayescrowd.criticism import dependence as depending
from bayescrowd.criticism.checks import PredictiveChecks, predictive_checks
from bayescrowd.criticism.convergence import MOST_CHECKED, diagnose
from bayescrowd.criticism.report import Diagnosis
from bayescrowd.decisions.consensus import consensus
from bayescrowd.decisions.workers import roles
from bayescrowd.decisions.workers import workers as worker_table
from bayescrowd.errors import BayescrowdError, count_of
from bayescrowd.report.known import Known
from bayescrowd.report.markup import Markup, bullet_list, cards, counted, element, join, number, percent, picture, table
from bayescrowd.results.tree import ids, n_labels_of, title, values
from bayescrowd.results.votes import vote_shares

__all__ = [
    "calibration",
    "checks",
    "classes",
    "dependence",
    "explanations",
    "figures",
    "items",
    "replications",
    "verdict",
    "workers",
]

_SURE, _SURE_TEXT = 0.95, "95 %"
_MOST_WORKERS = 50
_MOST_ITEMS, _LEAST_ITEMS = 25, 5
_EXPLAINED = 3


def _or_why(section: Callable[..., Markup | None]) -> Callable[..., Markup | None]:
    """Let a part that cannot be made say why, in its place."""

    @functools.wraps(section)
    def made(*arguments: Any, **options: Any) -> Markup | None:
        try:
            return section(*arguments, **options)
        except BayescrowdError as error:
            return _not_shown(error)

    return made


def _not_shown(why: object) -> Markup:
    return element("p", f"Not shown: {why}", class_="soft")


def replications(tree: xr.DataTree, seed: int) -> PredictiveChecks | Markup:
    """Compare the labels with replications by the fitted model, once for all parts of the page.

    Parameters
    ----------
    tree : DataTree
        A result.
    seed : int
        Of the replications.

    Returns
    -------
    PredictiveChecks or Markup
        Or why there are none.
    """
    if tree["observed_data"].sizes["annotation"] > MOST_CHECKED:
        return element(
            "p", f"Left out: with more than {MOST_CHECKED:,} labels it would take too long for a page.", class_="soft"
        )
    if not tree.attrs["model_class"]:
        return _not_shown(
            f"{title(tree)} gives classes without a model of the labels that they could be compared with."
        )
    try:
        return predictive_checks(tree, seed=seed)
    except BayescrowdError as error:
        return _not_shown(error)


def verdict(tree: xr.DataTree, compared: PredictiveChecks | Markup) -> Markup:
    """Say whether the result can be used, and everything that was found.

    Parameters
    ----------
    tree : DataTree
        A result.
    compared : PredictiveChecks or Markup
        From `replications`.

    Returns
    -------
    Markup
        The verdict, and the findings with what to do.
    """
    found = diagnose(tree, random_start=True, checks=compared if isinstance(compared, PredictiveChecks) else True)
    problems = len(found.problems)
    cautions = sum(finding.severity == "caution" for finding in found.findings)
    if problems:
        kind, text = "bad", f"Do not use this result as it is: {count_of(problems, 'problem')}."
    elif cautions:
        kind, text = "care", f"Usable with care: {count_of(cautions, 'thing')} to know."
    else:
        kind, text = "good", "Nothing speaks against using this result."
    return join([element("div", element("strong", text), class_=f"verdict {kind}"), _findings(found)])


def _findings(found: Diagnosis) -> Markup:
    def shown(finding: Any) -> Markup:
        remedy = [element("em", f"What to do: {finding.remedy}")] if finding.remedy else []
        tag = element("span", finding.severity, class_="tag")
        return element("li", tag, finding.text, *remedy, class_=finding.severity)

    urgent = [finding for finding in found.findings if finding.severity != "note"]
    notes = [finding for finding in found.findings if finding.severity == "note"]
    parts: list[object] = [element("ul", *map(shown, urgent), class_="findings")] if urgent else []
    if notes:
        listed = element("ul", *map(shown, notes), class_="findings")
        parts.append(element("details", element("summary", count_of(len(notes), "note")), listed))
    return join(parts)


def figures(tree: xr.DataTree) -> Markup:
    """Show the few numbers that matter.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup
        Cards.
    """
    top = _probability(tree).max(axis=1)
    sizes = tree["observed_data"].dataset.sizes
    answer = consensus(tree)
    differs = (answer["class"] != answer["majority"]) & answer["majority"].notna() & ~answer["tie"]
    n_differ = int(differs.sum())
    return cards(
        [
            counted(sizes["item"], "item"),
            counted(sizes["worker"], "worker"),
            (number(sizes["annotation"] / max(sizes["item"], 1), 1), "labels per item"),
            (percent(float(top.mean())), "of the classes are right, by the model's own account"),
            (percent(float((top > _SURE).mean())), f"of the items are sure (above {_SURE_TEXT})"),
            counted(n_differ, "item", f"{'differs' if n_differ == 1 else 'differ'} from a clear majority vote"),
        ]
    )


def classes(tree: xr.DataTree) -> Markup:
    """Compare the shares of the classes with those of the votes.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup
        A table.
    """
    probability = _probability(tree)
    voted = n_labels_of(tree, "item") > 0
    votes = vote_shares(tree)[voted].mean(axis=0) if voted.any() else np.full(probability.shape[1], np.nan)
    first = np.bincount(probability.argmax(axis=1), minlength=probability.shape[1])
    rows = [
        (name, percent(votes[code], 1), percent(share, 1), number(float(first[code]), 0))
        for code, (name, share) in enumerate(zip(ids(tree, "class"), probability.mean(axis=0), strict=True))
    ]
    return table(("class", "share of the votes", "share by the model", "items where it leads"), rows)


@_or_why
def workers(tree: xr.DataTree) -> Markup:
    """Report on the workers, those to look at first.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup
        Picture and table.
    """
    frame = worker_table(tree)
    role = pd.Series(roles(frame), frame.index)
    spam, against = role == "spammer", role == "adversary"
    said = f"By the odds {_look(spam, 'a spammer')}; {_look(against, 'an adversary')}."
    if frame[["p_spammer", "p_adversary"]].isna().all(axis=None):
        said = str(frame.attrs.get("intervals", "This method gives no probabilities that a worker is a spammer."))
    order = frame.sort_values("accuracy", kind="stable").index
    chosen = frame.loc[order[:_MOST_WORKERS]]
    rows = [
        (
            name,
            number(float(row["n_labels"]), 0),
            percent(row["accuracy"]),
            f"{percent(row['accuracy_lower'])} to {percent(row['accuracy_upper'])}",
            number(row["informativeness"]),
            percent(row["p_spammer"]),
            percent(row["p_adversary"]),
        )
        for name, row in chosen.iterrows()
    ]
    mark = {"adversary": "bad", "spammer": "care"}
    marks = [mark.get(kind) for kind in role.loc[chosen.index]]
    heads = ("worker", "labels", "accuracy", "between (89 %)", "bits per label", "P(spammer)", "P(adversary)")
    which = "All workers" if len(frame) <= _MOST_WORKERS else f"The {_MOST_WORKERS} least accurate of {len(frame):,}"
    shown = _picture(plots.plot_workers(tree), "Accuracy of the workers, with intervals where the method gives them.")
    return join([element("p", said), shown, element("p", f"{which}:", class_="soft"), table(heads, rows, marks=marks)])


@_or_why
def items(tree: xr.DataTree) -> Markup:
    """Report on the items, the least sure ones by name.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup
        Pictures and table.
    """
    answer = consensus(tree)
    ranked = answer.sort_values("probability", kind="stable")
    unsure = int((ranked["probability"] < _SURE).sum())
    order = ranked.index[: min(max(unsure, _LEAST_ITEMS), _MOST_ITEMS)]
    rows = [
        (
            name,
            row["class"],
            percent(row["probability"]),
            "none" if pd.isna(row["majority"]) else f"{row['majority']}{' (tied)' if row['tie'] else ''}",
            number(float(row["n_labels"]), 0),
        )
        for name, row in answer.loc[order].iterrows()
    ]
    few = unsure - len(rows)
    lead = (
        f"{count_of(unsure, 'item')} below {_SURE_TEXT}{f', {few:,} of them not shown' if few > 0 else ''}. The least "
    )
    lead += "sure are worth another label or a look:"
    # Where all items have as many labels there is nothing to see.
    varied = answer["n_labels"].nunique() > 1
    return join(
        [
            _picture(plots.plot_items(tree), "How sure the class of each item is."),
            _picture(plots.plot_certainty(tree), "Certainty against the number of labels.") if varied else Markup(),
            element("p", lead, class_="soft"),
            table(("item", "class", "probability", "majority vote", "labels"), rows),
        ]
    )


@_or_why
def explanations(tree: xr.DataTree) -> Markup | None:
    """Explain the classes of a few items: those that differ from the vote first, then the least sure.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Markup or None
        Pictures; None without items that have labels.
    """
    answer = consensus(tree)
    differs = (answer["class"] != answer["majority"]) & answer["majority"].notna()
    ranked = (
        answer.assign(differs=~differs).query("n_labels > 0").sort_values(["differs", "probability"], kind="stable")
    )
    if ranked.empty:
        return None
    shown = [
        _picture(plots.plot_explanation(tree, name), f"Item {name}: what speaks for each class.")
        for name in ranked.index[:_EXPLAINED]
    ]
    return join(shown)


def checks(compared: PredictiveChecks | Markup) -> Markup:
    """Compare the labels with what the fitted model would have said.

    Parameters
    ----------
    compared : PredictiveChecks or Markup
        From `replications`.

    Returns
    -------
    Markup
        Sentences and pictures.
    """
    if isinstance(compared, Markup):
        return compared
    shown = [
        _picture(plots.plot_agreement(check), f"Observed and expected {name}.")
        for name, check in compared.items()
        if len(check.table) and name != "shares"
    ]
    return join([bullet_list(check.sentence for check in compared.values()), *shown])


@_or_why
def dependence(tree: xr.DataTree, scored: Known, seed: int) -> Markup:
    """Tell whether workers err together.

    Parameters
    ----------
    tree : DataTree
        A result.
    scored : Known
        From `known`.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Markup
        Sentences.
    """
    return bullet_list(depending.dependence(tree, scored.truth, seed=seed).sentences)


@_or_why
def calibration(tree: xr.DataTree, scored: Known, seed: int) -> Markup | None:
    """Score the probabilities against known classes.

    Parameters
    ----------
    tree : DataTree
        A result.
    scored : Known
        From `known`.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Markup or None
        Sentences, picture, table; None where no class is known.
    """
    if scored.unusable:
        return _not_shown(scored.unusable)
    if scored.truth is None:
        return None
    if not scored.to_score:
        return _not_shown(
            "the fit was told the class of every item whose class is known, so it cannot be scored by them."
        )
    found = calibrating.calibration(tree, scored.truth, seed=seed)
    rows = [
        (str(name).replace("_", " "), *(number(row[column], 3) for column in ("value", "lower", "upper")))
        for name, row in found.scores.iterrows()
    ]
    shown = _picture(plots.plot_reliability(found), "How often the leading class is right, by how sure it was.")
    return join([bullet_list(found.sentences), shown, table(("score", "value", "from (89 %)", "to"), rows)])


def _probability(tree: xr.DataTree) -> np.ndarray:
    return values(tree, "latent", "class_probability").astype(float)


def _look(marked: pd.Series, kind: str) -> str:
    number = int(marked.sum())
    if not number:
        return f"no worker looks like {kind}"
    return f"{count_of(number, 'worker')} {'looks' if number == 1 else 'look'} like {kind}"


def _picture(collection: Any, text: str) -> Markup:
    import matplotlib.pyplot as plt

    figure = collection.viz["figure"].item()
    try:
        return picture(figure, text)
    finally:
        plt.close(figure)
