"""Why an item got its class: what the prevalence and every label say for the leading class against the next."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from bayescrowd.decisions.explanation import explain
from bayescrowd.errors import LabelError, count_of
from bayescrowd.plots._colours import ACCENT, MAIN, MUTED
from bayescrowd.plots._shared import Picture, plain_axes, tree_of
from bayescrowd.plots._text import people, percent, quoted, readable, say
from bayescrowd.results.tree import ids, title, values
from bayescrowd.results.votes import leading

__all__ = ["plot_explanation"]

_MOST_BARS = 30
_LONGEST = 12.0
"""Log-odds of one bar, as drawn: a label that a point estimate calls impossible would flatten all others."""

_IMPOSSIBLE = 100.0
"""Log-odds of which nobody wants to know the number."""


def plot_explanation(
    fit: Any,
    item: Hashable,
    *,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show why an item got its class: how its labels add up to log-odds of the leading class against the next one.

    Each bar begins where the one above it ends. Blue bars speak for the leading class, vermilion ones for the next; the
    last bar is the sum.

    Parameters
    ----------
    fit : Fit or DataTree
        A result with confusion matrices.
    item : hashable
        The item's id.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs one panel.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``bar``, ``step``,
        ``value``, ``zero``, ``names``, ``title``, ``subtitle``, ``note``, ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` hold ``evidence``: the log-odds of each bar, in the order of the picture from top to bottom; the
        prevalence is first, the sum is last.

    Raises
    ------
    LabelError
        For an item that the fit does not know, and where there is one class only.
    ModelError
        For a method without confusion matrices.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_explanation
    >>> picture = plot_explanation(bc.fit(bc.datasets.load("anesthesia")), 3)
    >>> picture.viz["title"].item().get_text()
    'Item 3: class 2 (63\xa0%) rather than 1 (36\xa0%)'
    """
    tree = tree_of(fit)
    table = explain(tree, item)
    lead, other = _leaders(tree, item, table)
    bars = _bars_of(table, lead, other)
    n = len(bars)
    data = xr.Dataset(
        {"evidence": ("bar", bars["evidence"].to_numpy()), "end": ("bar", bars["end"].to_numpy())},
        coords={"bar": np.arange(n)},
    )
    picture = Picture(
        data,
        (7.5, 1.9 + 0.25 * n),
        ["bar", "step", "value", "zero", "names"],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    axes = picture.axes()
    plain_axes(axes, "x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    evidence = data["evidence"]
    begin, end = bars["begin"].to_numpy(), bars["end"].to_numpy()
    picture.draw("zero", _zero, xr.DataArray(0.0, name="zero"), color=MUTED, linewidth=1)
    picture.draw("step", _steps, evidence, end=end, colors=MUTED, linewidths=0.7)
    picture.draw("bar", _draw_bars, evidence, begin=begin, end=end, artist_dims={"row": n}, height=0.62)
    picture.draw("value", _values, evidence, end=end, artist_dims={"row": n}, fontsize=8, color=MUTED)
    names = picture.options("names", fontsize=8)
    axes.set_yticks(
        range(n)[::-1] if names is not None else [], bars["name"] if names is not None else [], **names or {}
    )
    axes.set_ylim(-0.6, n - 0.4)
    reach = np.append(np.concatenate([begin, end]), 0.0)
    room = 0.12 * max(1.0, float(np.ptp(reach)))
    axes.set_xlim(reach.min() - room, reach.max() + room)
    classes = ids(tree, "class")
    one, two = quoted(classes[lead]), quoted(classes[other])
    axes.set_xlabel("log-odds (+1 makes the odds 2.7 times as high)", fontsize=9)
    return picture.finish(
        *_words(tree, item, table, bars, (lead, other)),
        [Patch(color=MAIN, label=f"speaks for {one}"), Patch(color=ACCENT, label=f"speaks for {two}")],
    )


def _leaders(tree: xr.DataTree, item: Hashable, table: pd.DataFrame) -> tuple[int, int]:
    """Index of the leading class and of the next one; where probabilities tell no next one, the evidence does."""
    n_classes = len(ids(tree, "class"))
    if n_classes < 2:
        raise LabelError("there is one class only, so nothing is to be explained")
    probability = values(tree, "latent", "class_probability")[_row(tree, item)].astype(float)
    total = table.iloc[:, 3:].to_numpy(float).sum(axis=0)
    lead = int(leading(probability[None])[0].argmax())  # the first of those that are as good as tied, as `consensus`
    others = [code for code in range(n_classes) if code != lead]
    return lead, max(others, key=lambda code: (round(float(probability[code]), 9), total[code]))


def _row(tree: xr.DataTree, item: Hashable) -> int:
    return int(ids(tree, "item").get_indexer(pd.Index([item], tupleize_cols=False))[0])


def _bars_of(table: pd.DataFrame, lead: int, other: int) -> pd.DataFrame:
    """One bar for the prevalence, one for each label, the strongest first, and one for the sum."""
    columns = table.iloc[:, 3:].to_numpy(float)
    evidence = columns[:, lead] - columns[:, other]
    workers, labels = people(table["worker"].iloc[1:], 24), readable(table["label"].iloc[1:], 18)
    heavy = table["weight"].to_numpy(float)
    names = [
        f"{worker} said {label}" + (f" (weight {weight:g})" if weight != 1 else "")
        for worker, label, weight in zip(workers, labels, heavy[1:], strict=True)
    ]
    rows = [("how common the classes are", evidence[0])]
    order = 1 + np.argsort(-evidence[1:], kind="stable")
    if len(order) > _MOST_BARS:
        strong = set((1 + np.argsort(-np.abs(evidence[1:]), kind="stable"))[: _MOST_BARS - 1])
        left = [code for code in order if code not in strong]
        rows += [(names[code - 1], evidence[code]) for code in order if code in strong]
        rows.append((f"{count_of(len(left), 'weaker label')} together", evidence[left].sum()))
    else:
        rows += [(names[code - 1], evidence[code]) for code in order]
    frame = pd.DataFrame(rows, columns=["name", "evidence"])
    frame["drawn"] = frame["evidence"].clip(-_LONGEST, _LONGEST)
    frame["end"] = frame["drawn"].cumsum()
    frame["begin"] = frame["end"] - frame["drawn"]
    total = {"name": "together", "evidence": evidence.sum(), "drawn": 0.0, "begin": 0.0, "end": frame["end"].iloc[-1]}
    return pd.concat([frame, pd.DataFrame([total])], ignore_index=True)


def _zero(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.axvline(da.item(), **{"zorder": 1} | options)


def _steps(da: xr.DataArray, target: Any, *, end: np.ndarray, **options: Any) -> Any:
    """Lines from the end of a bar down to the beginning of the next."""
    height = np.arange(da.size)[::-1]
    lines = [[(x, y), (x, y - 1)] for x, y in zip(end[:-1], height[:-1], strict=True)]
    artist = LineCollection(lines, **{"zorder": 1.5} | options)
    target.add_collection(artist)
    return artist


def _draw_bars(da: xr.DataArray, target: Any, *, begin: np.ndarray, end: np.ndarray, **options: Any) -> Any:
    height = np.arange(da.size)[::-1]
    depth = [0.7] * (da.size - 1) + [1.0]
    colours = [to_rgba(MAIN if value >= 0 else ACCENT, alpha) for value, alpha in zip(end - begin, depth, strict=True)]
    bars = target.barh(height, end - begin, **{"left": begin, "color": colours, "zorder": 2} | options)
    return np.array(list(bars), object)


def _values(da: xr.DataArray, target: Any, *, end: np.ndarray, **options: Any) -> Any:
    artists = np.empty(da.size, object)
    ground = {"facecolor": target.get_facecolor(), "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
    for row, value in enumerate(da.to_numpy()):
        side = 1 if value >= 0 else -1
        last = row == da.size - 1
        text = f"{value:+.1f}".replace("-0.0", "+0.0") if abs(value) < _IMPOSSIBLE else "rules it out"
        look: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "center", "bbox": ground, "zorder": 3}
        look["fontweight"] = "bold" if last else "normal"
        artists[row] = target.annotate(
            text.replace("-", "\u2212"),
            (end[row], da.size - 1 - row),
            xytext=(4 * side, 0),
            textcoords="offset points",
            **look | options,
        )
    return artists


def _words(
    tree: xr.DataTree, item: Hashable, table: pd.DataFrame, bars: pd.DataFrame, leaders: tuple[int, int]
) -> tuple[str, str, str]:
    row, classes = _row(tree, item), ids(tree, "class")
    probability = values(tree, "latent", "class_probability")[row].astype(float)
    lead, other = leaders
    heading = (
        f"Item {quoted(item)}: class {quoted(classes[lead])} ({percent(probability[lead])}) rather than "
        f"{quoted(classes[other])} ({percent(probability[other])})"
    )
    n = len(table) - 1
    subtitle = f"{count_of(n, 'label')}; {say(title(tree))}"
    notes = [
        "Bars add up from top to bottom, at the mean confusion matrices; the percentages average over their draws."
    ]
    if "posterior" not in tree.children:
        notes = ["Bars add up from top to bottom."]
    if values(tree, "observed_data", "gold_index")[row] >= 0:
        notes.append("This item is gold: its class was given, whatever the labels say.")
    shortened = bars["evidence"].abs().iloc[:-1] > _LONGEST
    if shortened.any():
        notes.append(f"Bars longer than {_LONGEST:g} are cut there, so the last one is too; the numbers are not.")
    return heading, subtitle, " ".join(notes)
