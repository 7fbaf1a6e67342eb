"""Which fit predicts labels better: differences of expected log predictive density, with standard errors."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection

from bayescrowd.criticism.comparison import SMALL, told_apart
from bayescrowd.errors import BayescrowdError, count_of
from bayescrowd.plots._colours import FAINT, MAIN, MUTED
from bayescrowd.plots._shared import Picture, percent_axis, plain_axes
from bayescrowd.plots._text import percent, quoted, readable

__all__ = ["plot_comparison"]


def plot_comparison(
    table: Any,
    *,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show how much worse than the best each fit predicts labels, and which weights an average would give them.

    As `arviz_plots.plot_compare`, whose visuals have the same names, with one and two standard errors, room for long
    names, and the weights.

    Parameters
    ----------
    table : DataFrame
        What ``bc.compare`` returns.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for ``panel`` "difference", and one for "weight" where the table has them.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``point_estimate``,
        ``error_bar``, ``ref_line``, ``similar_line``, ``weight``, ``weight_text``, ``ticklabels``, ``title``,
        ``subtitle``, ``note``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` are the numbers, the best fit first.

    Raises
    ------
    BayescrowdError
        For another table.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescrowd.plots import plot_comparison
    >>> table = pd.DataFrame({"elpd_diff": [0.0, -21.0], "dse": [0.0, 5.0]}, index=["idbla", "dawid-skene"])
    >>> plot_comparison(table).viz["title"].item().get_text()
    '“idbla” predicts labels best; “dawid-skene” is worse by 21.0 ± 5.0 nats'
    """
    if not isinstance(table, pd.DataFrame) or not {"elpd_diff", "dse"} <= set(table.columns) or not len(table):
        raise BayescrowdError(
            "this picture takes the table that bayescrowd.compare returns (columns elpd_diff, dse), not "
            f"{type(table).__name__}: call plot_comparison(bc.compare({{'a': fit, 'b': other}}))"
        )
    table = table.iloc[np.argsort(-table["elpd_diff"].to_numpy(float), kind="stable")]
    weighted = "weight" in table.columns
    data = xr.Dataset(
        {
            name: ("rank", table[name].to_numpy(float))
            for name in ("elpd_diff", "dse", *(["weight"] if weighted else []))
        },
        coords={"rank": np.arange(len(table))},
    )
    n = len(table)
    panels = ["difference", "weight"] if weighted else ["difference"]
    ratios: dict[str, Any] = {"width_ratios": [4, 1]} if weighted else {}
    picture = Picture(
        data.expand_dims(panel=panels),
        (7.5, 1.9 + 0.3 * n),
        ["point_estimate", "error_bar", "ref_line", "similar_line", "weight", "weight_text", "ticklabels"],
        cols=["panel"],
        sharey=True,
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
        **ratios,
    )
    left = picture.axes(panel="difference")
    plain_axes(left, "x")
    here: dict[str, Any] = {"coords": {"panel": "difference"}}
    both = data[["elpd_diff", "dse"]].to_dataarray("statistic", name="elpd_diff")
    picture.draw("similar_line", _line, xr.DataArray(-SMALL, name="similar"), **here, color=FAINT, linestyle=":")
    picture.draw("ref_line", _line, xr.DataArray(0.0, name="best"), **here, color=MUTED, linestyle=(0, (4, 3)))
    picture.draw("error_bar", _errors, both, **here, artist_dims={"width": 2}, color=MAIN, alpha=0.5)
    picture.draw("point_estimate", _points, both, **here, color=MAIN, s=34, linewidths=0)
    if weighted:
        right = picture.axes(panel="weight")
        plain_axes(right)
        there: dict[str, Any] = {"coords": {"panel": "weight"}}
        picture.draw("weight", _bars, data["weight"], **there, artist_dims={"row": n}, color=FAINT, height=0.5)
        picture.draw("weight_text", _numbers, data["weight"], **there, artist_dims={"row": n}, fontsize=8, color=MUTED)
        right.set(xlim=(0, 1.25), xticks=[])
        percent_axis(right, "x")
        right.spines[["left", "bottom"]].set_visible(False)
        right.tick_params(left=False, labelleft=False)
        right.set_xlabel("weight", fontsize=9)
    names = picture.options("ticklabels", fontsize=8)
    shown = readable(table.index, 28)
    left.set_yticks(range(n)[::-1] if names is not None else [], shown if names is not None else [], **names or {})
    left.set_ylim(-0.6, n - 0.4)
    left.set_xlabel("difference to the best, nats (higher is better)", fontsize=9)
    left_out = {"worker": "workers left out", "annotation": "one label at a time left out"}
    how = left_out.get(str(table.attrs.get("by", "item")), "items left out")
    return picture.finish(
        _finding(table),
        f"{count_of(n, 'fit')}, by how well {'each predicts' if n > 1 else 'it predicts'} labels, {how}",
        "Thick lines are one standard error of the difference, thin ones two. "
        f"Dotted: {SMALL:g} nats, below which a difference is no reason to prefer a model."
        + (" Weight: share in the average that predicts best." if weighted else ""),
    )


def _line(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.axvline(da.item(), **{"linewidth": 1.1, "zorder": 1} | options)


def _errors(da: xr.DataArray, target: Any, **options: Any) -> Any:
    middle, error = da.sel(statistic="elpd_diff").to_numpy(), da.sel(statistic="dse").to_numpy()
    height = np.arange(len(middle))[::-1]
    artists = np.empty(2, object)
    for position, (times, width) in enumerate(((2, 1.2), (1, 3.2))):
        low, high = middle - times * error, middle + times * error
        artists[position] = target.hlines(height, low, high, **{"linewidth": width, "zorder": 2} | options)
    return artists


def _points(da: xr.DataArray, target: Any, **options: Any) -> Any:
    middle = da.sel(statistic="elpd_diff").to_numpy()
    return target.scatter(middle, np.arange(len(middle))[::-1], **{"zorder": 3} | options)


def _bars(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return np.array(list(target.barh(np.arange(da.size)[::-1], da.to_numpy(), **options)), object)


def _numbers(da: xr.DataArray, target: Any, **options: Any) -> Any:
    artists = np.empty(da.size, object)
    for row, share in enumerate(da.to_numpy()):
        at = (share, da.size - 1 - row)
        artists[row] = target.annotate(
            percent(share), at, xytext=(3, 0), textcoords="offset points", va="center", **options
        )
    return artists


def _finding(table: pd.DataFrame) -> str:
    names = list(table.index)
    best = quoted(names[0])
    if len(names) == 1:
        return f"Only {best}, and nothing to compare it with"
    gap, error = -table["elpd_diff"].to_numpy(float)[1:], table["dse"].to_numpy(float)[1:]
    others = list(zip(names[1:], gap, error, strict=True))
    close = [name for name, far, wide in others if not told_apart(far, wide)]
    if close:
        which = quoted(close[0]) if len(close) == 1 else f"{len(close)} others"
        return f"{best} and {which} cannot be told apart"
    near = [name for name, far, _ in others if far < SMALL]
    if near:
        which = quoted(near[0]) if len(near) == 1 else f"{len(near)} others"
        return f"{best} predicts labels hardly better than {which}: by less than {SMALL:g} nats"
    return f"{best} predicts labels best; {quoted(names[1])} is worse by {gap[0]:.1f} ± {error[0]:.1f} nats"
