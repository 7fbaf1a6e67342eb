"""How good the workers are: accuracies with intervals, sorted, with those marked that one should look at."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bayescrowd.decisions.workers import SPAMMER_BITS, roles, scores, workers
from bayescrowd.errors import count_of
from bayescrowd.plots._colours import ACCENT, FAINT, MAIN, MUTED, SECOND
from bayescrowd.plots._shared import Picture, ci_of, interval_of, percent_axis, plain_axes, tree_of
from bayescrowd.plots._text import percent, readable, say
from bayescrowd.results.tree import has_chains, ids, parameter_group, title

__all__ = ["plot_workers"]

_MOST_NAMED = 60
_EXTREMES = 6
_ROLES = {"worker": (MAIN, "o"), "spammer": (ACCENT, "s"), "adversary": (SECOND, "v")}


def plot_workers(
    fit: Any,
    *,
    bootstrap: int | None = None,
    seed: int = 0,
    ci_prob: float | None = None,
    ci_kind: str | None = None,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show how good each worker is: accuracies with intervals, the best on top.

    Workers whose labels say next to nothing of the class (P(spammer) > 1/2) and workers who are rather wrong than right
    (P(adversary) > 1/2) are marked by colour and shape; a worker who is both says nothing, and counts as a spammer. A
    narrow panel has the numbers of labels. Up to 60 workers bear their names, of more only the best and the worst.

    Parameters
    ----------
    fit : Fit or DataTree
        A result.
    bootstrap : int, optional
        For engines without draws: number of refits to resampled items from which (equal-tailed) intervals come.
    seed : int
        Seed of the resampling.
    ci_prob : float, optional
        Probability of the intervals; ArviZ's ``stats.ci_prob`` (.89) by default.
    ci_kind : {"eti", "hdi"}, optional
        Kind of the intervals; ArviZ's ``stats.ci_kind`` ("eti") by default.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for ``column`` "forest" and one for "labels".
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``interval``,
        ``accuracy``, ``chance``, ``n_labels``, ``n_labels_text``, ``names``, ``title``, ``subtitle``, ``note``,
        ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` are the numbers, workers in the order of the picture from top to bottom.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_workers
    >>> picture = plot_workers(bc.fit(bc.datasets.load("anesthesia")))
    >>> picture.viz["title"].item().get_text()
    'No worker looks like a spammer; accuracies from 66\xa0% to 86\xa0%'
    """
    tree = tree_of(fit)
    prob, kind = ci_of(ci_prob, ci_kind)
    table = _table(tree, prob, kind, bootstrap, seed)
    n, named = len(table), len(table) <= _MOST_NAMED
    data = _data(table)
    picture = Picture(
        data.expand_dims(column=["forest", "labels"]),
        (7.5, min(14.0, 1.9 + 0.22 * n) if named else 8.0),
        ["interval", "accuracy", "chance", "n_labels", "n_labels_text", "names"],
        cols=["column"],
        width_ratios=[5, 1],
        sharey=True,
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    forest, right = picture.axes(column="forest"), picture.axes(column="labels")
    plain_axes(forest, "x")
    plain_axes(right)
    here: dict[str, Any] = {"coords": {"column": "forest"}}
    chance = 1 / tree["observed_data"].dataset.sizes["class"]
    shown = [role for role in _ROLES if (table["role"] == role).any()]
    ends = data[["lower", "accuracy", "upper"]].to_dataarray("statistic", name="accuracy")
    picture.draw("chance", _chance, xr.DataArray(chance, name="chance"), **here, color=MUTED, linestyle=(0, (4, 3)))
    picture.draw(
        "interval",
        _intervals,
        ends,
        **here,
        roles=table["role"],
        linewidths=2.4 if named else max(0.2, 250 / n),
        alpha=0.5,
    )
    picture.draw(
        "accuracy",
        _points,
        ends,
        **here,
        artist_dims={"role": len(shown)},
        roles=table["role"],
        shown=shown,
        s=26 if named else 9,
    )
    there: dict[str, Any] = {"coords": {"column": "labels"}}
    count = data["n_labels"]
    picture.draw("n_labels", _bars, count, **there, color=FAINT)
    if named:
        picture.draw("n_labels_text", _numbers, count, **there, artist_dims={"text": n}, fontsize=8, color=MUTED)
        right.set_xticks([])
    else:
        right.xaxis.set_major_locator(MaxNLocator(2, integer=True, min_n_ticks=1))
    right.spines[["left", "bottom"]].set_visible(False)
    right.tick_params(left=False, labelleft=False)
    names = picture.options("names", fontsize=8 if n <= 40 else 7)
    if names is not None and named:
        forest.set_yticks(range(n)[::-1], readable(table.index), **names)
    else:
        forest.set_yticks([])
        if names is not None:
            _name_extremes(forest, table, names)
    _limits(forest, ends, chance)
    forest.set_ylim(-0.6, n - 0.4) if named else forest.set_ylim(-2, n + 1)
    forest.set_xlabel("accuracy: how often a label is right", fontsize=9)
    right.set_xlabel("labels", fontsize=9)
    note = _note(tree, table, bootstrap)
    return picture.finish(_finding(table), _subtitle(tree, table, prob, kind), note, _legend(shown, chance))


def _table(tree: xr.DataTree, prob: float, kind: str, bootstrap: int | None, seed: int) -> pd.DataFrame:
    """Take the report on workers, best first, with a role for each."""
    table = workers(tree, interval=prob, bootstrap=bootstrap, seed=seed)
    attributes = table.attrs
    if kind == "hdi" and parameter_group(tree) == "posterior" and table["accuracy_lower"].notna().any():
        table["accuracy_lower"], table["accuracy_upper"] = interval_of(scores(tree).accuracy, prob, kind)
    table["role"] = roles(table)
    table.index = ids(tree, "worker")
    table = table.iloc[np.argsort(-table["accuracy"].to_numpy(), kind="stable")]
    table.attrs = attributes
    return table


def _data(table: pd.DataFrame) -> xr.Dataset:
    rank = np.arange(len(table))
    columns = {"accuracy": "accuracy", "lower": "accuracy_lower", "upper": "accuracy_upper", "n_labels": "n_labels"}
    variables = {name: ("rank", table[column].to_numpy()) for name, column in columns.items()}
    variables |= {
        "role": ("rank", table["role"].to_numpy(object)),
        "worker": ("rank", np.array(readable(table.index), object)),
    }
    return xr.Dataset(variables, coords={"rank": rank})


def _chance(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.axvline(da.item(), **{"linewidth": 1.2, "zorder": 1} | options)


def _intervals(da: xr.DataArray, target: Any, *, roles: pd.Series, **options: Any) -> Any:
    lower, upper = da.sel(statistic="lower").to_numpy(), da.sel(statistic="upper").to_numpy()
    height = np.arange(len(lower))[::-1]
    known = np.isfinite(lower)
    lines = np.stack([np.stack([lower, height], -1), np.stack([upper, height], -1)], axis=1)[known]
    colours = [_ROLES[role][0] for role in roles[known]]
    # Unsnapped: on whole pixels, many thin lines make a pattern of their own.
    look: dict[str, Any] = {"colors": colours, "zorder": 2, "snap": False}
    artist = LineCollection(list(lines), **look | options)
    target.add_collection(artist)
    return artist


def _points(da: xr.DataArray, target: Any, *, roles: pd.Series, shown: list[str], **options: Any) -> Any:
    accuracy = da.sel(statistic="accuracy").to_numpy()
    height = np.arange(len(accuracy))[::-1]
    artists = np.empty(len(shown), object)
    for position, role in enumerate(shown):
        rows = (roles == role).to_numpy()
        colour, marker = _ROLES[role]
        look = {"color": colour, "marker": marker, "linewidths": 0, "zorder": 3 + (role != "worker")}
        if role != "worker":
            look["s"] = 1.6 * options.get("s", 20)
        artists[position] = target.scatter(accuracy[rows], height[rows], **options | look)
    return artists


def _bars(da: xr.DataArray, target: Any, **options: Any) -> Any:
    count = da.to_numpy()
    height = np.arange(len(count))[::-1]
    lines = np.stack([np.stack([np.zeros(len(count)), height], -1), np.stack([count, height], -1)], axis=1)
    thick = 7.0 if len(count) <= _MOST_NAMED else max(0.2, 300 / len(count))
    artist = LineCollection(
        list(lines), **{"colors": options.pop("color", FAINT), "linewidths": thick, "snap": False} | options
    )
    target.add_collection(artist)
    target.set_xlim(0, max(1, count.max(initial=0)) * 1.05)
    return artist


def _numbers(da: xr.DataArray, target: Any, **options: Any) -> Any:
    artists = np.empty(da.size, object)
    for position, count in enumerate(da.to_numpy()):
        at = (0, da.size - 1 - position)
        artists[position] = target.annotate(
            f"{count:,}", at, xytext=(3, 0), textcoords="offset points", va="center", **options
        )
    return artists


def _name_extremes(forest: Axes, table: pd.DataFrame, look: dict[str, Any]) -> None:
    """Names of the best and the worst beside the panel, each with a line to its row."""
    n = len(table)
    texts = readable(table.index)
    for rows, start, step in ((range(_EXTREMES), 1.0, -0.027), (range(n - 1, n - 1 - _EXTREMES, -1), 0.0, 0.027)):
        for count, row in enumerate(rows):
            at = start + count * step
            colour = _ROLES[table["role"].iloc[row]][0]
            level = (n - 1 - row + 2) / (n + 3)
            forest.plot([-0.02, 0], [at, level], color=FAINT, linewidth=0.8, transform=forest.transAxes, clip_on=False)
            place: dict[str, Any] = {"ha": "right", "va": "center", "color": colour, "transform": forest.transAxes}
            forest.text(-0.025, at, texts[row], **place | look)


def _limits(forest: Axes, ends: xr.DataArray, chance: float) -> None:
    shown = np.append(ends.to_numpy().ravel(), chance)
    shown = shown[np.isfinite(shown)]
    margin = 0.04 * max(0.2, float(np.ptp(shown)))
    forest.set_xlim(max(-0.01, shown.min() - margin), min(1.01, shown.max() + margin))
    percent_axis(forest, "x")


def _finding(table: pd.DataFrame) -> str:
    n, accuracy = len(table), table["accuracy"].dropna()
    if accuracy.empty:
        return "Nothing is known of the workers"
    found = {role: int((table["role"] == role).sum()) for role in ("spammer", "adversary")}
    if found["spammer"] and found["adversary"]:
        many = found["adversary"]
        return f"{_look(n, found['spammer'], 'spammer')}, {many} like {'an adversary' if many == 1 else 'adversaries'}"
    for role, many in found.items():
        if many:
            return _look(n, many, role)
    low, high = percent(accuracy.min()), percent(accuracy.max())
    reach = f"accuracies from {low} to {high}" if low != high else f"accuracy {low}"
    if table["p_spammer"].isna().all():
        return reach[0].upper() + reach[1:]
    return f"No worker looks like a spammer; {reach}"


def _look(n: int, many: int, role: str) -> str:
    if many == 1:
        return f"1 of {count_of(n, 'worker')} looks like {'an adversary' if role == 'adversary' else 'a spammer'}"
    return f"{many} of {n:,} workers look like {'adversaries' if role == 'adversary' else 'spammers'}"


def _subtitle(tree: xr.DataTree, table: pd.DataFrame, prob: float, kind: str) -> str:
    what = f"{count_of(len(table), 'worker')}, best first; {say(title(tree))}"
    if table["accuracy_lower"].isna().all():
        return f"{what}. No intervals: {say(table.attrs['intervals'])}"
    if parameter_group(tree) != "posterior":
        return f"{what}. Intervals: {say(table.attrs['intervals'])}"
    word = "equal-tailed" if kind == "eti" else "highest-density"
    return f"{what}. Posterior means with {word} intervals of {100 * prob:g}\u00a0%"


def _note(tree: xr.DataTree, table: pd.DataFrame, bootstrap: int | None) -> str:
    words = []
    if table["p_spammer"].notna().any():
        words.append(
            f"Spammer: a label probably tells less than {SPAMMER_BITS:g} bit about the class. Adversary: accuracy is "
            "probably below chance. (Probably: with more than 50\u00a0%.)"
        )
    drawn = parameter_group(tree) == "posterior" and table["accuracy_lower"].notna().any()
    if drawn and not has_chains(tree):
        words.append(
            'Intervals are from an approximation, which tends to be too narrow; engine="gibbs" gives wider ones.'
        )
    if drawn and bootstrap is not None:
        words.append(f"bootstrap={bootstrap} was not needed: draws say more than refits.")
    if "accuracy" in table.attrs:
        words.append(f"Accuracy here: {say(table.attrs['accuracy'])}.")
    return " ".join(words)


def _legend(shown: list[str], chance: float) -> list[Line2D]:
    plural = {"worker": "worker", "spammer": "looks like a spammer", "adversary": "looks like an adversary"}
    handles = [
        Line2D([], [], color=_ROLES[role][0], marker=_ROLES[role][1], linestyle="", markersize=5, label=plural[role])
        for role in shown
    ]
    dashed: Any = (0, (4, 3))
    return [*handles, Line2D([], [], color=MUTED, linestyle=dashed, label=f"chance ({percent(chance)})")]
