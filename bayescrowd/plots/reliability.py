"""Is 90 % sure right in 90 % of cases? Accuracy against confidence."""

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.lines import Line2D

from bayescrowd.errors import BayescrowdError, count_of
from bayescrowd.plots._colours import FAINT, MAIN, MUTED
from bayescrowd.plots._shared import Picture, percent_axis, plain_axes
from bayescrowd.plots._text import percent

__all__ = ["plot_reliability"]

_HEADLINES = (
    ("log_loss", "log loss"),
    ("brier", "Brier score"),
    ("calibration_error", "calibration error"),
    ("confidently_wrong", "confidently wrong"),
)


def plot_reliability(
    calibration: Any,
    *,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show whether the probabilities can be taken at their word: accuracy against confidence, with intervals.

    Below the diagonal the fit is surer than it should be; the heading has the verdict of the calibration. A second
    panel has the number of items by confidence.

    Parameters
    ----------
    calibration : Calibration
        What ``fit.calibration()`` returns.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for ``panel`` "accuracy" and one for "items".
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``diagonal``,
        ``interval``, ``accuracy``, ``n_items``, ``scores``, ``title``, ``subtitle``, ``note``, ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (5, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` are the curve.

    Raises
    ------
    BayescrowdError
        For anything but a calibration.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_reliability
    >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), n_items=200, n_workers=6)
    >>> picture = plot_reliability(bc.fit(crowd.labels).calibration())
    >>> picture.viz["title"].item().get_text().partition(":")[0]
    'As sure as right, as far as these items tell'
    """
    parts = ("curve", "scores", "by_class", "verdict")
    if any(getattr(calibration, name, None) is None for name in parts):
        raise BayescrowdError(
            f"this picture takes what fit.calibration() returns, not {type(calibration).__name__}: call "
            "plot_reliability(fit.calibration(truth))"
        )
    curve, scores, by_class, verdict = (getattr(calibration, name) for name in parts)
    curve = curve[curve["n_items"] > 0].reset_index(drop=True)
    names = ("lower", "upper", "n_items", "confidence", "accuracy", "accuracy_lower", "accuracy_upper")
    data = xr.Dataset({name: ("bin", curve[name].to_numpy(float)) for name in names}, {"bin": np.arange(len(curve))})
    picture = Picture(
        data.expand_dims(panel=["accuracy", "items"]),
        (5.6, 6.6),
        ["diagonal", "interval", "accuracy", "n_items", "scores"],
        rows=["panel"],
        sharex=True,
        height_ratios=[4, 1],
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    top, bottom = picture.axes(panel="accuracy"), picture.axes(panel="items")
    plain_axes(top, "both")
    plain_axes(bottom, "y")
    here: dict[str, Any] = {"coords": {"panel": "accuracy"}}
    table = data.to_dataarray("statistic", name="curve")
    # No leading class is less probable than chance; accuracies may be lower.
    left = max(1 / max(len(by_class), 1), _rounded_down(data["lower"]))
    low = min(left, _rounded_down(data["accuracy_lower"]), _rounded_down(data["accuracy"]))
    picture.draw("diagonal", _diagonal, xr.DataArray(left, name="diagonal"), **here, color=MUTED, linestyle=(0, (4, 3)))
    picture.draw("interval", _intervals, table, **here, color=MAIN, linewidth=2, alpha=0.5)
    picture.draw("accuracy", _curve, table, **here, color=MAIN, linewidth=1.2)
    picture.draw("n_items", _bars, table, coords={"panel": "items"}, color=MAIN, alpha=0.55, linewidth=5)
    picture.draw("scores", _scores, xr.DataArray(0.0, name="scores"), **here, scores=scores, fontsize=8)
    margin = 0.02 * (1 - left) + 1e-3
    top.set(xlim=(left - margin, 1 + margin), ylim=(low - 0.02 * (1 - low) - 1e-3, 1 + 0.02 * (1 - low) + 1e-3))
    top.set_ylabel("accuracy: how often right", fontsize=9)
    bottom.set_ylabel("items", fontsize=9)
    bottom.set_xlabel("confidence: probability of the leading class", fontsize=9)
    percent_axis(top, "y")
    percent_axis(bottom, "x")
    n = int(data["n_items"].sum())
    return picture.finish(
        _finding(scores, verdict),
        f"{count_of(n, 'item')} with known class, in {count_of(len(curve), 'bin')} by confidence",
        "Points below the diagonal: surer than right. Lines: intervals of the accuracy; below, the width of each bin.",
        [
            Line2D([], [], color=MAIN, marker="o", markersize=5, label="found, with interval"),
            Line2D([], [], color=MUTED, linestyle="--", label="as sure as right"),
        ],
    )


def _rounded_down(part: xr.DataArray) -> float:
    """Smallest value, down to the next twentieth."""
    return float(np.floor(part.min().item() * 20 + 1e-9) / 20) if part.size else 1.0


def _diagonal(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.plot([da.item(), 1], [da.item(), 1], **{"linewidth": 1.2, "zorder": 1} | options)[0]


def _intervals(da: xr.DataArray, target: Any, **options: Any) -> Any:
    x, low, high = (da.sel(statistic=name).to_numpy() for name in ("confidence", "accuracy_lower", "accuracy_upper"))
    return target.vlines(x, low, high, **{"zorder": 2} | options)


def _curve(da: xr.DataArray, target: Any, **options: Any) -> Any:
    x, y = (da.sel(statistic=name).to_numpy() for name in ("confidence", "accuracy"))
    return target.plot(x, y, **{"marker": "o", "markersize": 6, "zorder": 3} | options)[0]


def _bars(da: xr.DataArray, target: Any, **options: Any) -> Any:
    """Draw a bar at the mean confidence of each bin, and on its top a line as wide as the bin."""
    low, high, mean, count = (da.sel(statistic=name).to_numpy() for name in ("lower", "upper", "confidence", "n_items"))
    target.hlines(count, low, high, color=options.get("color", MAIN), linewidth=1, zorder=2)
    target.set_ylim(0, 1.12 * max(1.0, count.max(initial=1)))
    return target.vlines(mean, 0, count, **{"zorder": 2} | options)


def _scores(da: xr.DataArray, target: Any, *, scores: Any, **options: Any) -> Any:
    lines = []
    for name, words in _HEADLINES:
        if name in scores.index:
            row = scores.loc[name]
            show = percent if name in ("confidently_wrong", "calibration_error") else lambda value: f"{value:.3f}"
            between = ""
            if "lower" in row and np.isfinite(row["lower"]):
                between = f" ({show(row['lower'])} to {show(row['upper'])})"
            if name == "calibration_error" and "expected" in row and np.isfinite(row["expected"]):
                between += f"; by chance {show(row['expected'])}"
            lines.append(f"{words} {show(row['value'])}{between}")
    box = {"facecolor": target.get_facecolor(), "edgecolor": FAINT, "alpha": 0.9, "boxstyle": "round"}
    place = {"transform": target.transAxes, "va": "top", "ha": "left", "linespacing": 1.5, "bbox": box, "zorder": 4}
    return target.text(0.03, 0.97, "\n".join(lines), **place | options)


def _finding(scores: Any, verdict: int) -> str:
    confidence, accuracy = (float(scores.loc[name, "value"]) for name in ("confidence", "accuracy"))
    word = {1: "Overconfident", -1: "Underconfident", 0: "As sure as right, as far as these items tell"}[verdict]
    return f"{word}: {percent(confidence)} sure, {percent(accuracy)} right"
