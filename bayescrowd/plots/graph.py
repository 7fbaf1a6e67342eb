"""Who labelled the same items as whom: workers as nodes, common items as edges."""

from typing import Any

import matplotlib.patheffects as effects
import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from scipy import sparse

from bayescrowd.decisions.workers import workers
from bayescrowd.errors import count_of
from bayescrowd.plots._colours import ACCENT, MAIN, MUTED
from bayescrowd.plots._layout import ALIKE, components, groups, places, strongest
from bayescrowd.plots._shared import Picture, percent_axis, tree_of
from bayescrowd.plots._text import readable, say
from bayescrowd.results.tree import ids, title

__all__ = ["plot_graph"]

_MOST_WORKERS = 600
_MOST_EDGES = 1200
_MOST_NAMED = 30
_NAMED_OF_MANY = 8


def plot_graph(
    fit: Any,
    *,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show which workers labelled the same items: only through them can workers be compared.

    Workers are dots, the larger the more labels, coloured by accuracy; lines join those with common items, the thicker
    the more. Groups without common items lie apart. Of many pairs only those with most common items are drawn (by lot
    among pairs with about as many) and what holds a group together, of more than 600 workers those with most labels;
    the picture says so.

    Parameters
    ----------
    fit : Fit or DataTree
        A result.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs one panel.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``edge``, ``node``,
        ``name``, ``colorbar``, ``title``, ``subtitle``, ``note``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` hold ``x``, ``y``, ``accuracy``, ``n_labels`` and ``group`` (of all workers, the largest is 0) by
        worker, and ``first``, ``second`` and ``common`` by edge drawn.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_graph
    >>> picture = plot_graph(bc.fit(bc.datasets.load("anesthesia")))
    >>> picture.viz["title"].item().get_text()
    'Every two of the 5 workers have items in common'
    """
    tree = tree_of(fit)
    table = workers(tree)
    rows = np.sort(np.argsort(-table["n_labels"].to_numpy(), kind="stable")[:_MOST_WORKERS])
    common = _common(tree, rows)
    observed = tree["observed_data"].dataset
    item, worker = observed["item_index"].to_numpy(), observed["worker_index"].to_numpy()
    part = groups(item, worker, observed.sizes["item"], observed.sizes["worker"])
    apart = components(common)  # of the workers that are drawn: others may join them
    first, second, n_edges = strongest(common, _MOST_EDGES)
    # Where most pairs are joined, a choice of edges would pull workers to places that mean nothing.
    dense = n_edges > len(rows) * (len(rows) - 1) / 4
    every = np.nonzero(np.triu(common, 1))
    spots = places(common, apart, (every[0], every[1]) if dense else (first, second))
    data = xr.Dataset(
        {
            "x": ("node", spots[:, 0]),
            "y": ("node", spots[:, 1]),
            "accuracy": ("node", table["accuracy"].to_numpy(float)[rows]),
            "n_labels": ("node", table["n_labels"].to_numpy()[rows]),
            "group": ("node", part[rows]),
            "first": ("edge", first),
            "second": ("edge", second),
            "common": ("edge", common[first, second]),
        }
    )
    picture = Picture(
        data,
        (7.6, 6.6) if len(rows) > 12 else (6.4, 5.2),
        ["edge", "node", "name", "colorbar"],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    axes = picture.axes()
    axes.set_axis_off()
    axes.set_aspect("equal")
    _frame(axes, spots)
    chance = 1 / tree["observed_data"].dataset.sizes["class"]
    nodes = data[["x", "y", "accuracy", "n_labels"]].to_dataarray("statistic", name="node")
    ends = np.stack([spots[first], spots[second]], axis=1)
    picture.draw("edge", _edges, data["common"], ends=ends, colors=MUTED, alpha=0.35 if len(first) < 300 else 0.2)
    low = min(chance, float(data["accuracy"].min(skipna=True)))
    picture.draw("node", _nodes, nodes, low=low, linewidths=0.8 if len(rows) <= 200 else 0.4)
    names, named = _names(tree, rows, apart, data)
    look: dict[str, Any] = {"fontsize": 8 if len(rows) <= _MOST_NAMED else 7}
    picture.draw("name", _write, nodes, artist_dims={"named": len(named)}, names=names, named=named, **look)
    bar = picture.options("colorbar", shrink=0.55, aspect=22, pad=0.02)
    drawn = picture.collection.viz.get("node")
    if bar is not None and drawn is not None:
        made: Any = picture.figure.colorbar(picture.collection.get_viz("node"), ax=axes, **bar)
        made.set_label("accuracy", fontsize=8)
        made.ax.tick_params(labelsize=7)
        made.outline.set_visible(False)
        percent_axis(made.ax, "y")
        picture.keep("colorbar", made)
    note = _note(data, common, n_edges, len(named) < len(rows))
    if len(np.unique(apart)) > len(np.unique(part[rows])):
        note += " Workers that are not drawn join some of those that lie apart."
    return picture.finish(_finding(part, len(rows), n_edges), _subtitle(tree, table, rows), note)


def _common(tree: xr.DataTree, rows: np.ndarray) -> np.ndarray:
    """Numbers of common items [worker, worker] of some workers, 0 on the diagonal."""
    observed = tree["observed_data"].dataset
    place = np.full(observed.sizes["worker"], -1)
    place[rows] = np.arange(len(rows))
    worker = place[observed["worker_index"].to_numpy()]
    item = observed["item_index"].to_numpy()[worker >= 0]
    worker = worker[worker >= 0]
    met = sparse.csr_array((np.ones(len(item)), (worker, item)), shape=(len(rows), observed.sizes["item"]))
    met.data[:] = 1.0  # repeats of a worker on an item are summed before this, and count once
    common = np.asarray((met @ met.T).todense())
    np.fill_diagonal(common, 0)
    return common


def _frame(axes: Axes, spots: np.ndarray) -> None:
    low, high = spots.min(0), spots.max(0)
    room = 0.08 * max(float((high - low).max()), 1.0) + 0.2
    axes.set(xlim=(low[0] - room, high[0] + room), ylim=(low[1] - room, high[1] + room))


def _edges(da: xr.DataArray, target: Any, *, ends: np.ndarray, **options: Any) -> Any:
    common = da.to_numpy()
    width = 0.4 + 3.2 * common / max(1.0, common.max(initial=0.0))
    if len(common) > 300:
        # Many lines that are all as thick would hide the dots.
        width = np.full(len(common), 0.5) if np.log(common.max() / common.min()) <= ALIKE else 0.5 * width
    artist = LineCollection(list(ends), **{"linewidths": width, "zorder": 1} | options)
    target.add_collection(artist)
    return artist


def _nodes(da: xr.DataArray, target: Any, *, low: float, **options: Any) -> Any:
    x, y, accuracy, count = (da.sel(statistic=name).to_numpy() for name in ("x", "y", "accuracy", "n_labels"))
    ramp = LinearSegmentedColormap.from_list("accuracy", [ACCENT, "#e9c7a8", "#a9c4d6", MAIN, "#12344d"])
    shades = ramp.with_extremes(bad="#9aa0a6")  # where a method gives no accuracy
    look = {
        "s": _area(count),
        "c": accuracy,
        "cmap": shades,
        "vmin": low,
        "vmax": 1.0,
        "edgecolors": "white",
        "zorder": 2,
    }
    return target.scatter(x, y, plotnonfinite=True, **look | options)


def _area(count: np.ndarray) -> np.ndarray:
    """Area of the dots, in square points: smaller where there are many, but never too small to see."""
    most = float(np.clip(9000 / max(len(count), 1), 60, 420))
    least = max(0.12 * most, 14.0)
    area: np.ndarray = least + (most - least) * count / max(1, count.max(initial=0))
    return area


def _names(tree: xr.DataTree, rows: np.ndarray, part: np.ndarray, data: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """Names, and which of them there is room for: all of few; of many the busiest, and somebody of each small group."""
    names = readable(ids(tree, "worker")[rows], 18)
    if len(rows) <= _MOST_NAMED:
        return names, np.arange(len(rows))
    busiest = np.argsort(-data["n_labels"].to_numpy(), kind="stable")
    groups = range(1, min(int(part.max()) + 1, _NAMED_OF_MANY))
    wanted = [next(row for row in busiest if part[row] == number) for number in groups]
    spots = np.stack([data["x"].to_numpy(), data["y"].to_numpy()], -1)
    room = np.array([0.16, 0.05]) * float(np.ptp(spots, axis=0).max())
    chosen: list[int] = []
    for row in [*wanted, *busiest[: 4 * _NAMED_OF_MANY]]:
        clear = all((np.abs(spots[row] - spots[other]) > room).any() for other in chosen)
        if clear and len(chosen) < _NAMED_OF_MANY + len(wanted):
            chosen.append(int(row))
    return names, np.unique(chosen)


def _write(da: xr.DataArray, target: Any, *, names: list[str], named: np.ndarray, **options: Any) -> Any:
    x, y, count = (da.sel(statistic=name).to_numpy() for name in ("x", "y", "n_labels"))
    below = np.sqrt(_area(count)) / 2 + 1.5
    artists = np.empty(len(named), object)
    halo = [effects.withStroke(linewidth=2.2, foreground=target.figure.get_facecolor())]
    for position, row in enumerate(named):
        look = {"ha": "center", "va": "top", "path_effects": halo, "zorder": 3}
        artists[position] = target.annotate(
            names[row], (x[row], y[row]), xytext=(0, -below[row]), textcoords="offset points", **look | options
        )
    return artists


def _finding(part: np.ndarray, n_drawn: int, n_edges: int) -> str:
    """Say how all workers hang together, whether they are drawn or not."""
    n, size = len(part), np.bincount(part)
    joined, alone = size[size > 1], int((size == 1).sum())
    if n == 1:
        return "There is one worker, and nobody to compare with"
    if not len(joined):
        return f"No two of the {n:,} workers have an item in common"
    lonely = f"{count_of(alone, 'worker')} share{'s' if alone == 1 else ''} no item with anybody"
    if len(joined) > 1:
        listed = ", ".join(f"{count:,}" for count in joined[:4]) + (", ..." if len(joined) > 4 else "")
        start = f"The workers fall into {len(joined)} groups without common items ({listed} workers)"
        return f"{start}; {lonely}" if alone else start
    if alone:
        return f"{lonely}; the other {joined[0]:,} workers are connected"
    if n_drawn < n:
        return f"All {n:,} workers are connected"
    pairs = n * (n - 1) // 2
    if n_edges == pairs:
        return (
            f"Every two of the {n:,} workers have items in common" if n > 2 else "The two workers have items in common"
        )
    return f"All {n:,} workers are connected; {100 * n_edges / pairs:.0f}\u00a0% of the pairs have items in common"


def _subtitle(tree: xr.DataTree, table: pd.DataFrame, rows: np.ndarray) -> str:
    if len(rows) < len(table):
        return f"{len(rows):,} of {len(table):,} workers, those with the most labels; {say(title(tree))}"
    return f"{count_of(len(table), 'worker')}; {say(title(tree))}"


def _note(data: xr.Dataset, common: np.ndarray, n_edges: int, some: bool) -> str:
    drawn, most = data.sizes["edge"], int(data["n_labels"].max()) if data.sizes["node"] else 0
    words = [f"Larger dots: more labels (up to {most:,})."]
    if drawn:
        words.append(f"Thicker lines: more common items (up to {int(data['common'].max()):,}).")
    if drawn < n_edges:
        least, highest = int(common[common > 0].min()), int(common.max())
        if np.log(highest / least) <= ALIKE:
            reach = f"{least:,}" if least == highest else f"{least:,} to {highest:,}"
            words.append(f"Of {n_edges:,} pairs, all with {reach} common items, {drawn:,} are drawn by lot.")
        else:
            words.append(
                f"Of {n_edges:,} pairs with common items, {drawn:,} of those with most are drawn (by lot among pairs "
                "with about as many)."
            )
    if some:
        words.append("Names: some of the workers with most labels.")
    return " ".join(words)
