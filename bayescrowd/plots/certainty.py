"""How many labels it takes to be sure: certainty of the items against their numbers of labels."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bayescrowd.decisions.arguments import check_seed
from bayescrowd.decisions.consensus import consensus
from bayescrowd.errors import LabelError, count_of
from bayescrowd.plots._colours import ACCENT, MAIN
from bayescrowd.plots._shared import Picture, ci_of, percent_axis, plain_axes, tree_of
from bayescrowd.plots._text import percent, say
from bayescrowd.results.tree import title

__all__ = ["plot_certainty"]

_MOST_POINTS = 5000
_MOST_GROUPS = 25
_MOST_CELLS = 60
_SURE = 0.95


def plot_certainty(
    fit: Any,
    *,
    measure: str = "probability",
    seed: int = 0,
    ci_prob: float | None = None,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show how sure the classes are by the number of labels: a point per item, medians, and a band of most items.

    Parameters
    ----------
    fit : Fit or DataTree
        A result.
    measure : {"probability", "entropy"}
        Probability of the leading class, or entropy of the class probabilities in nats (0 = sure).
    seed : int
        Seed of the jitter that keeps points apart.
    ci_prob : float, optional
        Share of the items in the band; ArviZ's ``stats.ci_prob`` (.89) by default.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs one panel.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``item`` (points; of
        more than 5000 items, how many there are in each cell), ``median``, ``band``, ``title``, ``subtitle``, ``note``,
        ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` hold ``n_labels``, ``median``, ``lower``, ``upper`` and ``n_items`` by group of items with equal
        (or, of many different, similar) numbers of labels.

    Raises
    ------
    LabelError
        For another ``measure``, a seed that is none, and a ``ci_prob`` that is no probability.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_certainty
    >>> picture = plot_certainty(bc.fit(bc.datasets.load("anesthesia")))
    >>> picture.data["n_items"].values.tolist()
    [45]
    """
    tree = tree_of(fit)
    prob, _ = ci_of(ci_prob, None)
    seed = check_seed(seed)
    if measure not in ("probability", "entropy"):
        raise LabelError(f"measure must be 'probability' or 'entropy', not {measure!r}")
    table = consensus(tree)
    count, value = table["n_labels"].to_numpy(), table[measure].to_numpy(float)
    data = _groups(count, value, prob)
    picture = Picture(
        data,
        (7.0, 4.6),
        ["item", "median", "band"],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    axes = picture.axes()
    plain_axes(axes, "y")
    items = xr.DataArray(np.stack([count, value]), dims=("axis", "item"), name="item")
    crowded = len(count) > _MOST_POINTS
    n_classes = tree["observed_data"].dataset.sizes["class"]
    ends = (1 / n_classes, 1.0) if measure == "probability" else (0.0, float(np.log(max(n_classes, 2))))
    if crowded:
        picture.draw("item", _cells, items, ends=ends)
    else:
        size = 18 if len(count) <= 500 else 8
        picture.draw("item", _points, items, seed=seed, s=size, color=MAIN, alpha=0.45, linewidths=0)
    band = data[["n_labels", "lower", "median", "upper"]].to_dataarray("statistic", name="band")
    picture.draw("band", _band, band, **_look(crowded))
    picture.draw("median", _median, band, color=ACCENT, linewidth=1.8, marker="o", markersize=4)
    low, high = (int(count.min()), int(count.max())) if len(count) else (0, 1)
    axes.set_xlim(low - 0.6, high + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, min_n_ticks=1))
    axes.set_xlabel("labels of an item", fontsize=9)
    margin = 0.03 * (ends[1] - ends[0])
    axes.set_ylim(ends[0] - margin, ends[1] + margin)
    if measure == "probability":
        percent_axis(axes, "y")
        axes.set_ylabel("probability of the class", fontsize=9)
    else:
        axes.set_ylabel("entropy, nats (0 = sure)", fontsize=9)
    subtitle = f"{count_of(len(count), 'item')} by number of labels; {say(title(tree))}"
    note = (
        "Each cell is shaded by its number of items (logarithmic)."
        if crowded
        else "A point per item; points are moved a little sideways so that they can be told apart."
    )
    if len(np.unique(count)) > data.sizes["group"]:
        note += " Medians are of groups with similar numbers of labels."
    return picture.finish(_finding(data, measure), subtitle, note, _legend(prob, crowded))


def _groups(count: np.ndarray, value: np.ndarray, prob: float) -> xr.Dataset:
    """Median and band by number of labels; where there are many numbers, by groups of about as many items each."""
    numbers = np.unique(count)
    if len(numbers) <= _MOST_GROUPS:
        of_item = np.searchsorted(numbers, count)
    else:
        edges = np.unique(np.quantile(count, np.linspace(0, 1, _MOST_GROUPS + 1)))
        of_item = np.clip(np.searchsorted(edges, count, side="right") - 1, 0, len(edges) - 2)
    members = [np.flatnonzero(of_item == group) for group in np.unique(of_item)]
    tails = [(1 - prob) / 2, 0.5, (1 + prob) / 2]
    ends = np.array([np.quantile(value[rows], tails) for rows in members]).reshape(-1, 3)
    return xr.Dataset(
        {
            "n_labels": ("group", np.array([count[rows].mean() for rows in members], float)),
            "lower": ("group", ends[:, 0]),
            "median": ("group", ends[:, 1]),
            "upper": ("group", ends[:, 2]),
            "n_items": ("group", np.array([len(rows) for rows in members], int)),
        },
        coords={"group": np.arange(len(members))},
    )


def _points(da: xr.DataArray, target: Any, *, seed: int, **options: Any) -> Any:
    count, value = da.to_numpy()
    aside = np.random.default_rng(seed).uniform(-0.28, 0.28, len(count))
    return target.scatter(count + aside, value, **{"zorder": 1.5, "rasterized": len(count) > 1000} | options)


def _cells(da: xr.DataArray, target: Any, *, ends: tuple[float, float], **options: Any) -> Any:
    count, value = da.to_numpy()
    low, high = count.min(), count.max()
    # Cells hold whole numbers of labels, equally many each, so that none is darker for holding one more.
    step = -(-int(high - low + 1) // _MOST_CELLS)
    edges = np.arange(low - 0.5, high + step, step), np.linspace(*ends, 41)
    number, *_ = np.histogram2d(count, value, bins=edges)
    shades = LinearSegmentedColormap.from_list("items", ["#e9f0f5", MAIN, "#10293d"])
    shown = np.where(number > 0, number, np.nan).T
    look = {"cmap": shades, "norm": LogNorm(1, max(2.0, number.max())), "zorder": 1, "linewidth": 0, "rasterized": True}
    mesh = target.pcolormesh(*edges, shown, **look | options)
    bar: Any = target.figure.colorbar(mesh, ax=target, shrink=0.7, aspect=25, pad=0.02)
    bar.set_label("items", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    bar.outline.set_visible(False)
    return mesh


def _band(da: xr.DataArray, target: Any, **options: Any) -> Any:
    x, low, high = (da.sel(statistic=name).to_numpy() for name in ("n_labels", "lower", "upper"))
    if len(x) == 1:  # a band of one number of labels needs a width
        x, low, high = np.array([x[0] - 0.3, x[0] + 0.3]), low.repeat(2), high.repeat(2)
    return target.fill_between(x, low, high, **{"zorder": 2} | options)


def _median(da: xr.DataArray, target: Any, **options: Any) -> Any:
    x, y = (da.sel(statistic=name).to_numpy() for name in ("n_labels", "median"))
    return target.plot(x, y, **{"zorder": 3} | options)[0]


def _finding(data: xr.Dataset, measure: str) -> str:
    x, y = data["n_labels"].to_numpy(), data["median"].to_numpy()
    if measure == "entropy":
        if len(x) == 1:
            return f"With {_labels(x[0])} the median entropy is {y[0]:.2f} nats"
        return f"Median entropy: {y[0]:.2f} nats with {_labels(x[0])}, {y[-1]:.2f} with {_labels(x[-1])}"
    if len(x) == 1:
        return f"With {_labels(x[0])} the median certainty is {percent(y[0])}"
    enough = np.flatnonzero(np.minimum.accumulate(y[::-1])[::-1] >= _SURE)
    if len(enough):
        return f"From {_labels(x[enough[0]])} on, half of the items are at least {percent(_SURE)} certain"
    return f"Median certainty: {percent(y[0])} with {_labels(x[0])}, {percent(y[-1])} with {_labels(x[-1])}"


def _labels(number: float) -> str:
    return count_of(round(float(number)), "label")


def _legend(prob: float, crowded: bool) -> list[Any]:
    handles: list[Any] = [Line2D([], [], color=ACCENT, marker="o", markersize=4, label="median")]
    if not crowded:
        handles.insert(0, Line2D([], [], color=MAIN, marker="o", linestyle="", markersize=4, alpha=0.6, label="item"))
    handles.append(Patch(label=f"{100 * prob:g}\u00a0% of the items", **_look(crowded)))
    return handles


def _look(crowded: bool) -> dict[str, Any]:
    """Tint the band over points, outline it over shaded cells."""
    if crowded:
        return {"facecolor": "none", "edgecolor": ACCENT, "linewidth": 1, "linestyle": ":"}
    return {"facecolor": ACCENT, "alpha": 0.15, "linewidth": 0}
