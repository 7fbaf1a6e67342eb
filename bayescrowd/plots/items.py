"""How sure one may be of each item's class, and how difficult the items are."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from bayescrowd.decisions.consensus import consensus
from bayescrowd.errors import LabelError, count_of
from bayescrowd.plots._colours import ACCENT, FAINT, MAIN, MUTED, SECOND
from bayescrowd.plots._shared import Picture, percent_axis, plain_axes, tree_of
from bayescrowd.plots._text import percent, readable, say
from bayescrowd.results.tree import ids, labels_of, title, values

__all__ = ["plot_items"]

_SURE = 0.95
_MOST_NAMED = 60
_MOST_LINEAR = 300
_MOST_DOTS = 1000
_LOOKS = {
    "agrees": (MAIN, "o", 2),
    "tied": ("#7d8590", "X", 3),
    "differs": (ACCENT, "D", 4),
    "gold": (SECOND, "*", 3),
}
_WORDS = {
    "majority": {
        "agrees": "as the majority vote",
        "tied": "majority tied, or no vote",
        "differs": "other than the majority",
        "gold": "gold: class was given",
    },
    "truth": {
        "agrees": "right",
        "tied": "truth not known",
        "differs": "wrong",
        "gold": "gold: class was given",
    },
}


def plot_items(
    fit: Any,
    *,
    against: str = "majority",
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show how sure the class of each item is: its probability, the least certain items first.

    Items whose class differs from the majority vote (or from the truth) are marked. Where the model has levels of
    difficulty, a second panel has their probabilities for the same items. From 300 items on the axis of items is
    logarithmic, so that the doubtful ones keep their room; from 1000 on a panel with shares stands for the marks.

    Parameters
    ----------
    fit : Fit or DataTree
        A result.
    against : {"majority", "truth"}
        What the classes are compared with: the majority vote, or the truth that the labels bring (no fit reads it).
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for ``panel`` "certainty", one for "agreement" where there are more than
        1000 items, and one for "difficulty" where there are levels.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``curve``, ``item``,
        ``sure``, ``agreement``, ``difficulty``, ``names``, ``title``, ``subtitle``, ``note``, ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.grid`, e.g. ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` are the numbers, items in the order of the picture from left to right.

    Raises
    ------
    LabelError
        For another ``against``, and for labels without truth.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_items
    >>> picture = plot_items(bc.fit(bc.datasets.load("anesthesia")))
    >>> picture.data.sizes["rank"]
    45
    """
    tree = tree_of(fit)
    data = _data(tree, against)
    n = data.sizes["rank"]
    kinds = [kind for kind in _LOOKS if (data["kind"].to_numpy() == kind).any()]
    # Panel -> its height; points where there is room for them, shares of many.
    panels = {"certainty": 3.0}
    panels |= {"agreement": 1.2} if n > _MOST_DOTS else {}
    panels |= {"difficulty": 1.6} if "difficulty" in data.data_vars else {}
    ratios: dict[str, Any] = {"height_ratios": list(panels.values())} if len(panels) > 1 else {}
    picture = Picture(
        data.expand_dims(panel=list(panels)),
        (8.0, 1.4 + sum(panels.values())),
        ["curve", "item", "sure", "agreement", "difficulty", "names"],
        rows=["panel"],
        sharex=True,
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
        **ratios,
    )
    top = picture.axes(panel="certainty")
    here: dict[str, Any] = {"coords": {"panel": "certainty"}}
    plain_axes(top, "y")
    probability = data["probability"]
    picture.draw("sure", _sure, xr.DataArray(_SURE, name="sure"), **here, color=MUTED, linestyle=(0, (4, 3)))
    bare = n > _MOST_DOTS
    picture.draw(
        "curve", _curve, probability, **here, color=MAIN, alpha=1 if bare else 0.6, linewidth=1.6 if bare else 1
    )
    if not bare:
        rows = {kind: np.flatnonzero(data["kind"].to_numpy() == kind) for kind in kinds}
        size = 22 if n <= _MOST_NAMED else 12
        picture.draw("item", _dots, probability, **here, artist_dims={"kind": len(kinds)}, rows=rows, s=size)
    chance = 1 / tree["observed_data"].dataset.sizes["class"]
    low = min(float(probability.min()) if n else chance, _SURE - 0.05)
    top.set_ylim(max(-0.02, low - 0.05), 1.02)
    top.set_ylabel("probability of the class", fontsize=9)
    percent_axis(top, "y")
    if bare:
        is_kind = np.stack([data["kind"].to_numpy() == kind for kind in kinds]).astype(float)
        colours = [_LOOKS[kind][0] for kind in kinds]
        _shares(picture, "agreement", xr.DataArray(is_kind, dims=("kind", "rank")), colours)
    if "difficulty" in panels:
        _shares(picture, "difficulty", data["difficulty"], _shades(data.sizes["level"]))
    _number_items(picture, [picture.axes(panel=panel) for panel in panels], data, tree)
    subtitle = f"{count_of(n, 'item')}{', the least certain first' if n > 1 else ''}; {say(title(tree))}"
    return picture.finish(_finding(data, against), subtitle, _note(n, list(panels)), _legend(kinds, against, data))


def _data(tree: xr.DataTree, against: str) -> xr.Dataset:
    """Probability and kind of every item, the least certain first."""
    if against not in _WORDS:
        raise LabelError(f"against must be 'majority' or 'truth', not {against!r}")
    table = consensus(tree)
    found = table["class"].to_numpy(object)
    other = table["majority"].to_numpy(object)
    unknown = table["majority"].isna().to_numpy() | table["tie"].to_numpy()
    if against == "truth":
        truth = labels_of(tree).truth
        if truth is None:
            raise LabelError(
                "against='truth': these labels bring no truth to compare with; leave the argument out, or give truth "
                "to CrowdLabels"
            )
        known: pd.Series = truth.reindex(table.index)
        other, unknown = known.to_numpy(object), known.isna().to_numpy()
    same = np.array([bool(a == b) if not no else False for a, b, no in zip(found, other, unknown, strict=True)], bool)
    kind = np.where(unknown, "tied", np.where(same, "agrees", "differs")).astype(object)
    if against == "majority":
        kind[values(tree, "observed_data", "gold_index") >= 0] = "gold"
    order = np.argsort(table["probability"].to_numpy(), kind="stable")
    variables: dict[str, Any] = {
        "probability": ("rank", table["probability"].to_numpy()[order]),
        "kind": ("rank", kind[order]),
        "position": ("rank", order),
    }
    coords: dict[str, Any] = {"rank": np.arange(1, len(order) + 1)}
    if "difficulty_probability" in tree["latent"].dataset:
        levels = values(tree, "latent", "difficulty_probability").astype(float)
        variables["difficulty"] = (("level", "rank"), levels[order].T)
        coords["level"] = [str(name) for name in ids(tree, "difficulty")]
    return xr.Dataset(variables, coords=coords)


def _sure(da: xr.DataArray, target: Any, **options: Any) -> Any:
    return target.axhline(da.item(), **{"linewidth": 1, "zorder": 1} | options)


def _curve(da: xr.DataArray, target: Any, **options: Any) -> Any:
    n = da.sizes["rank"]
    shown = np.arange(n)
    if n > 4 * _MOST_DOTS:
        shown = np.unique(np.geomspace(1, n, 4 * _MOST_DOTS).astype(int)) - 1
    return target.plot(da["rank"].to_numpy()[shown], da.to_numpy()[shown], **{"zorder": 1.5} | options)[0]


def _dots(da: xr.DataArray, target: Any, *, rows: dict[str, np.ndarray], **options: Any) -> Any:
    rank, probability = da["rank"].to_numpy(), da.to_numpy()
    artists = np.empty(len(rows), object)
    for position, (kind, chosen) in enumerate(rows.items()):
        colour, marker, order = _LOOKS[kind]
        look = {"color": colour, "marker": marker, "zorder": order, "linewidths": 0}
        if kind != "agrees":
            look["s"] = 1.5 * options.get("s", 20)
        artists[position] = target.scatter(rank[chosen], probability[chosen], **options | look)
    return artists


def _shades(n: int) -> list[str]:
    """Colours of the levels: easy is light, hard is dark."""
    light, dark = np.array(to_rgb("#dfe8ef")), np.array(to_rgb("#173a56"))
    return [to_hex(light + (dark - light) * (level / max(1, n - 1))) for level in range(n)]


def _shares(picture: Picture, name: str, shares: xr.DataArray, colours: list[str]) -> None:
    """Draw one above the other what shares the items have, in a panel of its own."""
    axes = picture.axes(panel=name)
    plain_axes(axes)
    picture.draw(
        name,
        _stack,
        shares,
        coords={"panel": name},
        artist_dims={str(shares.dims[0]): len(shares)},
        colours=colours,
        linewidth=0,
    )
    axes.set(ylim=(0, 1))
    axes.set_ylabel(name, fontsize=9)
    percent_axis(axes, "y")


def _stack(da: xr.DataArray, target: Any, *, colours: list[str], **options: Any) -> Any:
    shares = da.to_numpy()
    n = shares.shape[1]
    edges = np.arange(n + 1)
    if n > _MOST_LINEAR:  # means over neighbours, as many as the logarithmic axis has room for
        edges = np.unique(np.concatenate([np.arange(21), np.geomspace(20, n, 120).astype(int), [n]]))
    mean = np.add.reduceat(shares, edges[:-1], axis=1) / np.diff(edges)
    above = np.cumsum(np.concatenate([np.zeros((1, mean.shape[1])), mean]), axis=0)
    above = np.concatenate([above, above[:, -1:]], axis=1)
    artists = np.empty(len(shares), object)
    for row, colour in enumerate(colours):
        artists[row] = target.fill_between(
            edges + 0.5, above[row], above[row + 1], step="post", **{"color": colour} | options
        )
    return artists


def _number_items(picture: Picture, panels: list[Axes], data: xr.Dataset, tree: xr.DataTree) -> None:
    """Write on the axis of items their names where there are few, else how many are less certain."""
    n, lowest = data.sizes["rank"], panels[-1]
    names = readable(ids(tree, "item")[data["position"].to_numpy()], 18) if n <= _MOST_NAMED else []
    wide = sum(map(len, names)) > 90 or n > 20
    look = picture.options("names", fontsize=6.5 if n > 20 else 8, rotation=90 if wide else 0)
    # All panels, since those of a collection of the caller need not share their axes.
    for axes in panels:
        axes.set_xscale("log" if n > _MOST_LINEAR else "linear")
        axes.set_xlim((0.4, n + 0.6) if names else (0.8, n * 1.15) if n > _MOST_LINEAR else (0, n + 1))
    if names:
        lowest.set_xticks(range(1, n + 1) if look is not None else [], names if look is not None else [], **look or {})
        lowest.set_xlabel("item", fontsize=9)
        return
    lowest.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    lowest.set_xlabel("items, the least certain first", fontsize=9)


def _finding(data: xr.Dataset, against: str) -> str:
    n, kind = data.sizes["rank"], data["kind"].to_numpy()
    sure = data["probability"].to_numpy() >= _SURE
    many = int((kind == "differs").sum())
    if n == 1:
        return f"The class of the one item is {percent(float(data['probability'].max()))} certain"
    start = f"{int(sure.sum()):,} of {n:,} items are certain (at least {percent(_SURE)})"
    if against == "majority":
        end = "none differs" if not many else f"{many:,} {'differs' if many == 1 else 'differ'}"
        return f"{start}; {end} from the majority vote"
    known = int((kind != "tied").sum())
    sadly = int((sure & (kind == "differs")).sum())
    verb = "is" if many == 1 else "are"
    return f"{start}; {many:,} of {known:,} with known truth {verb} wrong, {sadly:,} of them certain"


def _note(n: int, panels: list[str]) -> str:
    words = [f"Dashed: {percent(_SURE)}, from which an item counts as certain."]
    if n > _MOST_LINEAR:
        words.append("The axis of items is logarithmic.")
    below = {"agreement": "how many agree", "difficulty": "probability of each level of difficulty"}
    named = [below[panel] for panel in panels[1:]]
    if named:
        words.append(f"Below: {', and '.join(named)}{', averaged over neighbours' if n > _MOST_LINEAR else ''}.")
    return " ".join(words)


def _legend(kinds: list[str], against: str, data: xr.Dataset) -> list[Any]:
    count = {kind: int((data["kind"].to_numpy() == kind).sum()) for kind in kinds}
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=_LOOKS[kind][0],
            marker=_LOOKS[kind][1],
            linestyle="",
            markersize=5,
            label=f"{_WORDS[against][kind]} ({count[kind]:,})",
        )
        for kind in kinds
    ]
    if "level" in data.coords:
        names = readable(data["level"].to_numpy().tolist(), 14)
        shades = _shades(len(names))
        handles += [
            Patch(facecolor=shade, edgecolor=FAINT, label=f"difficulty {name}")
            for shade, name in zip(shades, names, strict=True)
        ]
    return handles
