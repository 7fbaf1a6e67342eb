"""What the labels show against what the model expects: agreement of pairs, vote splits, shares of labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bayescrowd.errors import BayescrowdError, count_of
from bayescrowd.plots._colours import ACCENT, FAINT, MAIN, MUTED
from bayescrowd.plots._shared import Picture, percent_axis, plain_axes
from bayescrowd.plots._text import people, readable, say

__all__ = ["plot_agreement"]

_MOST_INTERVALS = 400
_MOST_POINTS = 4000
_MOST_MARKED = 1000
_MOST_WORST = 10
_MOST_SPLITS = 30


def plot_agreement(
    check: Any,
    *,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show a predictive check: what was observed against what the model expects, and where they differ most.

    For the check ``"agreement"`` a point is a pair of workers, for ``"shares"`` a worker and a label; those outside
    their intervals are marked, and the worst are named in a second panel. For ``"splits"`` bars are what was observed,
    points with intervals what is expected.

    Parameters
    ----------
    check : PredictiveCheck
        One of ``fit.predictive_checks()`` or `bayescrowd.prior_predictive`, such as
        ``fit.predictive_checks()["agreement"]``.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for ``panel`` "all" and, but for splits, one for "worst".
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``diagonal``,
        ``interval``, ``inside``, ``outside``, ``worst_interval``, ``worst``, ``names``, ``observed`` (splits),
        ``expected`` (splits), ``title``, ``subtitle``, ``note``, ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` are the numbers, the worst first.

    Raises
    ------
    BayescrowdError
        For anything but one check.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_agreement
    >>> checks = bc.fit(bc.datasets.load("caries"), bc.DawidSkene()).predictive_checks()
    >>> picture = plot_agreement(checks["splits"])
    >>> picture.viz["title"].item().get_text()
    '2 vote splits unlike what the model expects (p < 0.01)'
    """
    table = _table_of(check)
    if "split" in table.columns:
        return _splits(check, table, backend, plot_collection, visuals, pc_kwargs)
    data, names = _data(table), _names(table)
    n, n_worst = len(table), min(len(table), _MOST_WORST)
    picture = Picture(
        data.expand_dims(panel=["all", "worst"]),
        (9.6, 5.2),
        ["diagonal", "interval", "inside", "outside", "worst_interval", "worst", "names"],
        cols=["panel"],
        width_ratios=[1.25, 1],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    left, right = picture.axes(panel="all"), picture.axes(panel="worst")
    plain_axes(left, "both")
    plain_axes(right, "x")
    here: dict[str, Any] = {"coords": {"panel": "all"}}
    there: dict[str, Any] = {"coords": {"panel": "worst"}}
    table_ = data.to_dataarray("statistic", name="check")
    crowded = n > _MOST_POINTS
    ends = _ends(data)
    picture.draw("diagonal", _diagonal, xr.DataArray(list(ends), dims="end", name="diagonal"), **here, color=MUTED)
    if n <= _MOST_INTERVALS:
        picture.draw("interval", _intervals, table_, **here, alpha=0.35)
    picture.draw(
        "inside", _cells if crowded else _inside, table_, **here, **({"ends": ends} if crowded else {"color": MAIN})
    )
    picture.draw("outside", _outside, table_, **here, color=ACCENT, marker="D")
    picture.draw("worst_interval", _worst_intervals, table_, **there, n=n_worst, color=MUTED, alpha=0.4, linewidth=5)
    picture.draw("worst", _worst, table_, **there, artist_dims={"row": n_worst}, n=n_worst, s=34)
    look = picture.options("names", fontsize=8)
    right.set_yticks(range(n_worst)[::-1] if look is not None else [], names if look is not None else [], **look or {})
    right.set_ylim((n_worst - 1) / 2 - max(n_worst, 3) / 2 - 0.1, (n_worst - 1) / 2 + max(n_worst, 3) / 2 + 0.1)
    for axes in (left, right):
        percent_axis(axes, "x")
    percent_axis(left, "y")
    left.set(xlim=ends, ylim=ends)
    what = "agreement" if "other" in table.columns else "share of the label"
    left.set_xlabel(f"{what} that the model expects", fontsize=9)
    left.set_ylabel(f"{what} observed", fontsize=9)
    right.xaxis.set_major_locator(MaxNLocator(5))
    right.set_xlabel(what, fontsize=9)
    right.set_title("farthest from what is expected", fontsize=9, loc="left", color=MUTED)
    out = int(data["outside"].sum())
    return picture.finish(
        _finding(check, table, out), _subtitle(check, table, out), _note(check, n, out), _legend(table, out, crowded)
    )


def _table_of(check: Any) -> pd.DataFrame:
    table = getattr(check, "table", None)
    if not isinstance(table, pd.DataFrame):
        one = f", such as [{next(iter(check))!r}]" if isinstance(check, Mapping) and len(check) else ""
        raise BayescrowdError(
            f"this picture takes one check of fit.predictive_checks(){one}, not {type(check).__name__}"
        )
    missing = [name for name in ("observed", "expected", "lower", "upper", "outside") if name not in table.columns]
    known = "split" in table.columns or {"worker", "other"} <= set(table) or {"worker", "label"} <= set(table)
    if missing or not known:
        raise BayescrowdError(
            f"check {getattr(check, 'name', '?')!r} has columns {', '.join(map(str, table.columns))}; this picture "
            "draws pairs of workers, vote splits, and shares of labels"
        )
    table = table[np.isfinite(table[["observed", "expected", "lower", "upper"]].to_numpy(float)).all(axis=1)]
    if not len(table):
        raise BayescrowdError(f"check {getattr(check, 'name', '?')!r} is empty: there is nothing to draw")
    if "split" in table.columns or "z" not in table.columns:
        return table
    return table.iloc[np.argsort(-table["z"].abs().to_numpy(float), kind="stable")]


def _data(table: pd.DataFrame) -> xr.Dataset:
    columns = {name: table[name].to_numpy(float) for name in ("observed", "expected", "lower", "upper", "outside")}
    columns["n"] = table["n_common"].to_numpy(float) if "n_common" in table.columns else np.ones(len(table))
    return xr.Dataset(
        {name: ("row", column) for name, column in columns.items()}, coords={"row": np.arange(len(table))}
    )


def _names(table: pd.DataFrame) -> list[str]:
    """Who the worst are."""
    worst = table.iloc[:_MOST_WORST]
    if "other" in table.columns:
        # Together, so that one worker has one name whether he is first or second.
        both = readable([*worst["worker"], *worst["other"]], 16)
        names = [f"{a} & {b}" for a, b in zip(both[: len(worst)], both[len(worst) :], strict=True)]
        if "n_common" in table.columns:
            names = [f"{name} ({count:,.0f})" for name, count in zip(names, worst["n_common"], strict=True)]
        return names
    return [f"{a} says {b}" for a, b in zip(people(worst["worker"], 16), readable(worst["label"], 16), strict=True)]


def _ends(data: xr.Dataset) -> tuple[float, float]:
    shown = np.concatenate([data[name].to_numpy() for name in ("observed", "expected", "lower", "upper")])
    margin = 0.04 * max(0.1, float(np.ptp(shown)))
    return max(-0.02, float(shown.min()) - margin), min(1.02, float(shown.max()) + margin)


def _diagonal(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.plot(da.to_numpy(), da.to_numpy(), **{"linewidth": 1, "linestyle": "--", "zorder": 1} | options)[0]


def _size(da: xr.DataArray) -> np.ndarray:
    """Area of the points: pairs with more common items weigh more."""
    n = da.sel(statistic="n").to_numpy()
    most = 60 if len(n) <= _MOST_INTERVALS else 16
    return most * (0.25 + 0.75 * n / max(1.0, n.max()))


def _rows(da: xr.DataArray, *, outside: bool) -> np.ndarray:
    return np.flatnonzero((da.sel(statistic="outside").to_numpy() > 0) == outside)


def _intervals(da: xr.DataArray, target: Any, **options: Any) -> Any:
    x, low, high = (da.sel(statistic=name).to_numpy() for name in ("expected", "lower", "upper"))
    lines = np.stack([np.stack([x, low], -1), np.stack([x, high], -1)], axis=1)
    colours = np.where(da.sel(statistic="outside").to_numpy() > 0, ACCENT, MAIN)
    look: dict[str, Any] = {"colors": list(colours), "linewidths": 1.4, "zorder": 2}
    artist = LineCollection(list(lines), **look | options)
    target.add_collection(artist)
    return artist


def _inside(da: xr.DataArray, target: Any, **options: Any) -> Any:
    rows = _rows(da, outside=False)
    x, y = (da.sel(statistic=name).to_numpy()[rows] for name in ("expected", "observed"))
    look = {"linewidths": 0, "alpha": 0.75, "zorder": 3, "s": _size(da)[rows], "rasterized": len(rows) > 1000}
    return target.scatter(x, y, **look | options)


def _cells(da: xr.DataArray, target: Any, *, ends: tuple[float, float], **options: Any) -> Any:
    x, y = (da.sel(statistic=name).to_numpy() for name in ("expected", "observed"))
    shades = LinearSegmentedColormap.from_list("pairs", ["#e3ecf2", MAIN, "#10293d"])
    look = {"bins": "log", "cmap": shades, "gridsize": 45, "mincnt": 1, "linewidths": 0, "zorder": 1.5}
    return target.hexbin(x, y, extent=(*ends, *ends), **look | options)


def _outside(da: xr.DataArray, target: Any, **options: Any) -> Any:
    rows = _rows(da, outside=True)[:_MOST_MARKED]  # the worst come first
    x, y = (da.sel(statistic=name).to_numpy()[rows] for name in ("expected", "observed"))
    look = {"linewidths": 0, "alpha": 0.8, "zorder": 4, "s": _size(da)[rows]}
    return target.scatter(x, y, **look | options)


def _worst_intervals(da: xr.DataArray, target: Any, *, n: int, **options: Any) -> Any:
    low, high = (da.sel(statistic=name).to_numpy()[:n] for name in ("lower", "upper"))
    return target.hlines(np.arange(n)[::-1], low, high, **{"zorder": 2} | options)


def _worst(da: xr.DataArray, target: Any, *, n: int, **options: Any) -> Any:
    observed, outside = (da.sel(statistic=name).to_numpy()[:n] for name in ("observed", "outside"))
    artists = np.empty(n, object)
    for row in range(n):
        look = {"color": ACCENT, "marker": "D"} if outside[row] else {"color": MAIN, "marker": "o"}
        artists[row] = target.scatter([observed[row]], [n - 1 - row], **{"linewidths": 0, "zorder": 3} | look | options)
    return artists


def _p(check: Any) -> str:
    p = float(getattr(check, "p_value", np.nan))
    return "" if not np.isfinite(p) else " (p < 0.01)" if p < 0.01 else f" (p = {p:.2f})"


def _finding(check: Any, table: pd.DataFrame, out: int) -> str:
    pairs = "other" in table.columns
    fits = not float(getattr(check, "p_value", np.nan)) < 0.05
    if fits:
        return f"{'Workers agree' if pairs else 'Workers use the labels'} as the model expects{_p(check)}"
    if pairs and out:
        verb = "agrees" if out == 1 else "agree"
        many = f"{out:,} pair{'' if out == 1 else 's'}" if len(table) == out else f"{out:,} of {len(table):,} pairs"
        return f"{many} of workers {verb} unlike what the model expects{_p(check)}"
    return f"Workers {'agree' if pairs else 'use the labels'} unlike what the model expects{_p(check)}"


def _subtitle(check: Any, table: pd.DataFrame, out: int) -> str:
    sentence = _sentence(check)
    kind = "pair of workers" if "other" in table.columns else "worker and label"
    counted = f"{out:,} of {count_of(len(table), 'point')} outside; a point is a {kind}"
    return sentence or counted


def _sentence(check: Any) -> str:
    """Take what the check says, without its name and without what to do about it: that is for the report."""
    words = str(getattr(check, "sentence", "") or "").partition(" -> ")[0].strip()
    words = words.removeprefix(f"{getattr(check, 'name', '')}: ")
    return say(words[:1].upper() + words[1:]) if words else ""


def _drawn_from(check: Any) -> str:
    return "the model before it has seen any labels" if getattr(check, "is_prior", False) else "the fitted model"


def _note(check: Any, n: int, out: int) -> str:
    words = [
        f"Intervals hold what labels drawn from {_drawn_from(check)} show; some points lie outside by chance alone."
    ]
    n_all = int(getattr(check, "n_values", 0))
    if "n_common" in check.table.columns and n_all > len(check.table):
        words.append(f"Of {n_all:,} pairs, the {len(check.table):,} with most common items are shown.")
    if n > _MOST_INTERVALS:
        words.append("Intervals of single points are left out of the left panel.")
    if out > _MOST_MARKED:
        words.append(f"Of {out:,} points outside the {_MOST_MARKED:,} worst are marked.")
    return " ".join(words)


def _legend(table: pd.DataFrame, out: int, crowded: bool) -> list[Any]:
    size = "; larger: more common items" if "n_common" in table.columns and not crowded else ""
    handles: list[Any] = [
        Patch(color=MAIN, label="number of points")
        if crowded
        else Line2D([], [], color=MAIN, marker="o", linestyle="", markersize=5, label=f"inside its interval{size}")
    ]
    if out:
        handles.append(Line2D([], [], color=ACCENT, marker="D", linestyle="", markersize=5, label=f"outside ({out:,})"))
    handles.append(Line2D([], [], color=MUTED, linewidth=5, alpha=0.4, label="interval of what is expected"))
    return handles


def _splits(
    check: Any, table: pd.DataFrame, backend: Any, plot_collection: Any, visuals: Any, pc_kwargs: Mapping[str, Any]
) -> PlotCollection:
    """Bars of how often the votes fell so and so, and what the model expects."""
    n_all, out = len(table), int(table["outside"].sum())
    largest = np.argsort(-table[["observed", "expected"]].max(axis=1).to_numpy(float), kind="stable")
    table = table.iloc[np.sort(largest[:_MOST_SPLITS])]
    data, n = _data(table), len(table)
    picture = Picture(
        data.expand_dims(panel=["all"]),
        (max(5.6, min(12.0, 2.0 + 0.42 * n)), 4.6),
        ["observed", "expected", "names"],
        cols=["panel"],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    axes = picture.axes(panel="all")
    plain_axes(axes, "y")
    numbers = data.to_dataarray("statistic", name="check")
    picture.draw("observed", _bars, numbers, artist_dims={"row": n}, width=0.72)
    picture.draw("expected", _expected, numbers, color="#1f2937", markersize=4, linewidth=1.4)
    names = readable(table["split"], 18)
    look = picture.options("names", fontsize=8, rotation=90 if sum(map(len, names)) > 60 else 0)
    axes.set_xticks(range(n) if look is not None else [], names if look is not None else [], **look or {})
    axes.set_xlim(-0.6, n - 0.4)
    if "n_labels" in table.columns and table["n_labels"].notna().all():
        count = table["n_labels"].to_numpy()
        for edge in np.flatnonzero(np.diff(count) != 0):
            axes.axvline(edge + 0.5, color=FAINT, linewidth=1, zorder=0)
    axes.set_xlabel("votes of an item: how they split", fontsize=9)
    axes.set_ylabel("items", fontsize=9)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    fits = not float(getattr(check, "p_value", np.nan)) < 0.05
    start = (
        "Votes split as" if fits else f"{count_of(out, 'vote split')} unlike what" if out else "Votes split unlike what"
    )
    title = f"{start} the model expects{_p(check)}"
    note = f"Intervals hold what labels drawn from {_drawn_from(check)} show."
    if n < n_all:
        note += f" The {n} commonest of {n_all:,} splits are shown."
    handles: list[Any] = [Patch(color=MAIN, label="observed")]
    shown = int(data["outside"].sum())
    if shown:
        handles.append(Patch(color=ACCENT, label=f"observed, outside the interval ({shown})"))
    handles.append(Line2D([], [], color="#1f2937", marker="o", markersize=4, label="expected, with interval"))
    return picture.finish(title, _sentence(check), note, handles)


def _bars(da: xr.DataArray, target: Any, **options: Any) -> Any:
    height = da.sel(statistic="observed").to_numpy()
    colours = np.where(da.sel(statistic="outside").to_numpy() > 0, ACCENT, MAIN)
    look = {"color": list(colours), "alpha": 0.7, "zorder": 2}
    return np.array(list(target.bar(np.arange(len(height)), height, **look | options)), object)


def _expected(da: xr.DataArray, target: Any, **options: Any) -> Any:
    middle, low, high = (da.sel(statistic=name).to_numpy() for name in ("expected", "lower", "upper"))
    place = np.arange(len(middle))
    target.vlines(place, low, high, color=options.get("color"), linewidth=options.get("linewidth"), zorder=3)
    return target.plot(place, middle, **{"marker": "o", "zorder": 4} | options | {"linestyle": ""})[0]
