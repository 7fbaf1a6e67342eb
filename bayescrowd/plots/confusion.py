"""Who mistakes what for what: the confusion matrices of the workers, with their uncertainty."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from bayescrowd.decisions.confusions import confusion_draws, position_of
from bayescrowd.errors import LabelError, count_of, shorten
from bayescrowd.plots._colours import ACCENT, FAINT, MAIN, MUTED
from bayescrowd.plots._shared import Picture, ci_of, interval_of, tree_of
from bayescrowd.plots._text import percent, quoted, readable, say
from bayescrowd.results.tree import ids, n_labels_of, parameter_group, title

__all__ = ["plot_confusion"]

_MOST_PANELS = 40
_MOST_WITH_NUMBERS = 8
_MOST_WITH_NAMES = 30


def plot_confusion(
    fit: Any,
    workers: Hashable | Iterable[Hashable] | None = None,
    *,
    difficulty: str | None = None,
    ci_prob: float | None = None,
    ci_kind: str | None = None,
    backend: str | None = None,
    plot_collection: Any = None,
    visuals: Any = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Show the confusion matrices of workers: what they say (columns) where the class is such and such (rows).

    Right answers are blue, wrong ones vermilion, labels that are no class grey; the darker, the more probable. Up to 8
    labels each cell says how many percent and, where the engine gives draws, the interval; of more labels, a cell is
    the smaller the wider its interval is.

    Parameters
    ----------
    fit : Fit or DataTree
        A result with confusion matrices.
    workers : id or list-like of ids, optional
        The workers to show, in this order (at most 40), such as ``fit.workers().index[:3]``. By default the 12 with
        most labels; with more than 8 labels 6, with more than 20 labels 4.
    difficulty : str, optional
        A level of difficulty; by default the levels are averaged by their share.
    ci_prob : float, optional
        Probability of the intervals; ArviZ's ``stats.ci_prob`` (.89) by default.
    ci_kind : {"eti", "hdi"}, optional
        Kind of the intervals; ArviZ's ``stats.ci_kind`` ("eti") by default.
    backend : {"matplotlib"}, optional
        The one that there is.
    plot_collection : PlotCollection, optional
        Draw into this one; it needs a panel for each ``worker`` shown.
    visuals : dict, optional
        What to leave out (False) or to draw otherwise (a dict of matplotlib's keyword arguments): ``cell``,
        ``probability``, ``interval``, ``panel_title``, ``names``, ``title``, ``subtitle``, ``note``, ``legend``.
    **pc_kwargs
        For `arviz_plots.PlotCollection.wrap`, e.g. ``col_wrap=2`` or ``figure_kwargs={"figsize": (8, 6)}``.

    Returns
    -------
    PlotCollection
        Its ``data`` hold ``confusion``, ``lower`` and ``upper`` (worker, class, label).

    Raises
    ------
    LabelError
        For unknown workers or levels, and for more workers than can be read at once.
    ModelError
        For a method without confusion matrices.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.plots import plot_confusion
    >>> picture = plot_confusion(bc.fit(bc.datasets.load("anesthesia")), workers=[2, 3])
    >>> picture.data["confusion"].sizes["worker"]
    2
    """
    tree = tree_of(fit)
    prob, kind = ci_of(ci_prob, ci_kind)
    rows, which = _chosen(tree, workers)
    data = _data(tree, rows, difficulty, prob, kind)
    n_classes, n_labels = data.sizes["class"], data.sizes["label"]
    numbered = n_labels <= _MOST_WITH_NUMBERS
    columns = len(rows) if len(rows) <= 3 else 3 if len(rows) <= 6 else 4
    cell = 0.62 if numbered else min(0.3, max(0.11, 3.6 / n_labels))
    panel = (max(1.5, cell * n_labels), max(1.1, 0.8 * cell * n_classes))
    lines = -(-len(rows) // columns)
    names = {dim: readable(ids(tree, dim), 16) for dim in ("class", "label")}
    wide = 0.075 * max(map(len, names["class"])) + 0.5
    picture = Picture(
        data,
        (max(5.6, columns * (panel[0] + 0.25) + wide), lines * (panel[1] + 0.5) + 2.0),
        ["cell", "probability", "interval", "panel_title", "names"],
        cols=["worker"],
        col_wrap=columns,
        sharex=True,
        sharey=True,
        backend=backend,
        plot_collection=plot_collection,
        visuals=visuals,
        pc_kwargs=pc_kwargs,
    )
    known = bool(np.isfinite(data["lower"]).all())
    table = data[["confusion", "lower", "upper"]].to_dataarray("statistic", name="confusion")
    picture.draw("cell", _cells, table, sized=known and not numbered, linewidths=0)
    if numbered:
        grid = {"class": n_classes, "label": n_labels}
        picture.draw("probability", _numbers, table, artist_dims=grid, above=known, fontsize=9)
        if known:
            picture.draw("interval", _ends, table, artist_dims=grid, fontsize=6.5)
    room = max(10, int(14 * panel[0]) - 12)
    shown = readable(ids(tree, "worker")[rows], None)
    if max(map(len, shown)) > room:  # the count of labels gets a line of its own
        shown = [f"{name}\n" for name in readable(ids(tree, "worker")[rows], max(16, int(14 * panel[0])))]
    who = dict(zip(data["worker"].to_numpy().tolist(), shown, strict=True))
    counts = dict(zip(data["worker"].to_numpy().tolist(), n_labels_of(tree, "worker")[rows].tolist(), strict=True))
    picture.draw("panel_title", _heads, table.isel(statistic=0), who=who, counts=counts, fontsize=8.5, loc="left")
    _dress(picture, data, names)
    return picture.finish(
        _finding(tree, None if workers is None else rows, difficulty),
        _subtitle(tree, which, difficulty),
        _note(tree, known, numbered, prob, kind),
        _legend(data),
    )


def _chosen(tree: xr.DataTree, workers: Any) -> tuple[np.ndarray, str]:
    """Rows of the workers to show, and which they are in words."""
    known = ids(tree, "worker")
    n_labels = n_labels_of(tree, "worker")
    if workers is None:
        n_values = tree["observed_data"].dataset.sizes["label"]
        most = 12 if n_values <= _MOST_WITH_NUMBERS else 6 if n_values <= 20 else 4
        rows = np.argsort(-n_labels, kind="stable")[:most]
        if len(rows) == len(known):
            return rows, f"{count_of(len(known), 'worker')}, by number of labels"
        return rows, f"{len(rows)} of {len(known):,} workers, those with the most labels"
    # A tuple may be the id of one worker.
    one = isinstance(workers, str) or not isinstance(workers, Iterable)
    one = one or (isinstance(workers, tuple) and workers in known.tolist())
    asked = [workers] if one else list(workers)
    if not 0 < len(asked) <= _MOST_PANELS:
        raise LabelError(
            f"workers must name 1 to {_MOST_PANELS} workers, since no more can be read at once, not {len(asked)}: draw "
            "the others in a second picture"
        )
    rows = np.array([position_of(known, worker) for worker in asked])
    twice = [worker for n, worker in enumerate(asked) if rows[n] in rows[:n]]
    if twice:
        raise LabelError(f"workers names {shorten(twice)} more than once")
    return rows, f"{len(rows)} of {count_of(len(known), 'worker')}, as chosen"


def _data(tree: xr.DataTree, rows: np.ndarray, difficulty: str | None, prob: float, kind: str) -> xr.Dataset:
    draws = confusion_draws(tree, rows, difficulty)
    means = draws.mean(axis=0)
    dims = ("worker", "class", "label")
    lower = upper = np.full(means.shape, np.nan)
    if len(draws) > 1:
        lower, upper = interval_of(draws, prob, kind)
    table = tree[parameter_group(tree)].dataset["confusion"]
    return xr.Dataset(
        {"confusion": (dims, means), "lower": (dims, lower), "upper": (dims, upper)},
        coords={"worker": table["worker"].to_numpy()[rows], "class": table["class"], "label": table["label"]},
    )


def _shades(share: np.ndarray) -> np.ndarray:
    """Colours of the cells [class, label, rgb]: right ones blue, wrong ones vermilion, what is no class grey."""
    n_classes, n_labels = share.shape
    full = np.empty((n_classes, n_labels, 3))
    full[:] = to_rgb(ACCENT)
    full[:, n_classes:] = to_rgb(MUTED)
    right = np.arange(min(n_classes, n_labels))
    full[right, right] = to_rgb(MAIN)
    depth = np.clip(share, 0, 1)[..., None] ** 0.8
    return 1 - depth * (1 - full)


def _cells(da: xr.DataArray, target: Any, *, sized: bool, **options: Any) -> Any:
    share = da.sel(statistic="confusion").to_numpy()
    half = np.full(share.shape, 0.5)
    if sized:
        width = (da.sel(statistic="upper") - da.sel(statistic="lower")).to_numpy()
        half = 0.5 * np.clip(1 - width, 0.25, 1)
    row, column = np.indices(share.shape)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    centre = np.stack([column, row], -1).reshape(-1, 1, 2)
    squares = centre + half.reshape(-1, 1, 1) * corners
    look: dict[str, Any] = {"facecolors": _shades(share).reshape(-1, 3), "zorder": 1}
    artist = PolyCollection(list(squares), **look | options)
    target.add_collection(artist)
    return artist


def _write(target: Any, share: np.ndarray, words: np.ndarray, shift: float, options: dict[str, Any]) -> np.ndarray:
    artists = np.empty(share.shape, object)
    light = _shades(share) @ np.array([0.299, 0.587, 0.114])
    for place in np.ndindex(share.shape):
        look = {"color": "white" if light[place] < 0.52 else "#222222", "ha": "center", "va": "center"}
        artists[place] = target.text(place[1], place[0] + shift, words[place], **look | options)
    return artists


def _numbers(da: xr.DataArray, target: Any, *, above: bool, **options: Any) -> Any:
    share = da.sel(statistic="confusion").to_numpy()
    words = np.array([[percent(value).split("\u00a0")[0] for value in row] for row in share], object)
    return _write(target, share, words, -0.14 if above else 0.0, options)


def _ends(da: xr.DataArray, target: Any, **options: Any) -> Any:
    share, lower, upper = (da.sel(statistic=name).to_numpy() for name in ("confusion", "lower", "upper"))
    words = np.array(
        [
            [f"{100 * a:.0f}\u2013{100 * b:.0f}" for a, b in zip(*pair, strict=True)]
            for pair in zip(lower, upper, strict=True)
        ],
        object,
    )
    return _write(target, share, words, 0.24, options)


def _heads(da: xr.DataArray, target: Any, *, who: dict[Any, str], counts: dict[Any, int], **options: Any) -> Any:
    worker = da["worker"].item()
    name, count = who[worker], count_of(int(counts[worker]), "label")
    between = "" if name.endswith("\n") else " · "
    return target.set_title(f"{name}{between}{count}", **{"pad": 4} | options)


def _dress(picture: Picture, data: xr.Dataset, names: dict[str, list[str]]) -> None:
    """Axes of every panel: names of classes and labels, no frame, a thin line between cells."""
    n_classes, n_labels = data.sizes["class"], data.sizes["label"]
    look = picture.options("names", fontsize=8 if n_labels <= _MOST_WITH_NUMBERS else 6)
    steps = {dim: -(-len(names[dim]) // _MOST_WITH_NAMES) for dim in names}
    wordy = sum(map(len, names["label"])) > (7 if n_labels <= _MOST_WITH_NUMBERS else 2.5) * n_labels
    panels = [picture.axes(worker=worker) for worker in data["worker"].to_numpy().tolist()]
    columns = {place.colspan.start for axes in panels if (place := axes.get_subplotspec()) is not None}
    for position, axes in enumerate(panels):
        axes.set(xlim=(-0.5, n_labels - 0.5), ylim=(n_classes - 0.5, -0.5))
        axes.spines[:].set_color(FAINT)
        axes.tick_params(length=0)
        for edge in range(1, n_labels):
            axes.axvline(edge - 0.5, color="white", linewidth=1 if edge != n_classes else 3, zorder=2)
        for edge in range(1, n_classes):
            axes.axhline(edge - 0.5, color="white", linewidth=1, zorder=2)
        if look is None:
            axes.set(xticks=[], yticks=[])
            continue
        across, down = range(0, n_labels, steps["label"]), range(0, n_classes, steps["class"])
        turned = (
            {"rotation": 90}
            if n_labels > _MOST_WITH_NUMBERS
            else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
        )
        axes.set_xticks(across, names["label"][:: steps["label"]], **(turned if wordy else {}) | look)
        axes.set_yticks(down, names["class"][:: steps["class"]], **look)
        place = axes.get_subplotspec()
        if place is not None and place.is_first_col():
            axes.set_ylabel("class", fontsize=8, color=MUTED)
        if position >= len(panels) - len(columns):  # nothing below it
            axes.set_xlabel("label", fontsize=8, color=MUTED)
            axes.tick_params(labelbottom=True)


def _finding(tree: xr.DataTree, chosen: np.ndarray | None, difficulty: str | None) -> str:
    """Name the commonest mistake, of all workers or of those chosen: by labels, not by what they would say."""
    classes = ids(tree, "class")
    if len(classes) < 2:
        return "There is one class, and nothing to mistake"
    count = _expected_labels(tree, chosen, difficulty)
    wrong = count.copy()
    right = np.arange(min(wrong.shape))
    wrong[right, right] = 0.0
    whose = "all labels" if chosen is None else "the labels of these workers"
    if difficulty is not None:
        whose += " on such items"
    if wrong.sum() < 0.5:  # nobody errs, or nobody says anything
        return f"Next to none of {whose} is expected to be wrong" if count.sum() else "There are no labels to be wrong"
    true, said = np.unravel_index(int(wrong.argmax()), wrong.shape)
    names = quoted(ids(tree, "label")[int(said)]), quoted(classes[int(true)])
    share = percent(wrong[true, said] / count.sum())
    return f"Commonest mistake: {share} of {whose} say {names[0]} where the class is {names[1]}"


def _expected_labels(tree: xr.DataTree, chosen: np.ndarray | None, difficulty: str | None) -> np.ndarray:
    """Count the labels [class, label] that are expected of some workers, counted by their weights."""
    observed, latent = tree["observed_data"].dataset, tree["latent"].dataset
    item, label = observed["item_index"].to_numpy(), observed["label_index"].to_numpy()
    heavy = observed["weight"].to_numpy().astype(float) if "weight" in observed else np.ones(len(item))
    if chosen is not None:
        heavy = heavy * np.isin(observed["worker_index"].to_numpy(), chosen)
    if difficulty is not None:
        level = ids(tree, "difficulty").get_loc(difficulty)
        heavy = heavy * latent["difficulty_probability"].to_numpy()[item, level]
    share = latent["class_probability"].to_numpy().astype(float)[item] * heavy[:, None]
    return np.array([np.bincount(label, column, observed.sizes["label"]) for column in share.T])


def _subtitle(tree: xr.DataTree, which: str, difficulty: str | None) -> str:
    level = "" if difficulty is None else f", items of difficulty {say(difficulty)}"
    averaged = difficulty is None and "difficulty" in tree[parameter_group(tree)].dataset["confusion"].dims
    return f"{which}{level}{', levels of difficulty averaged' if averaged else ''}; {say(title(tree))}"


def _note(tree: xr.DataTree, known: bool, numbered: bool, prob: float, kind: str) -> str:
    read = "Rows sum to 100\u00a0%: what a worker says where the class is such and such."
    if not known:
        keep = (
            ""
            if parameter_group(tree) == "posterior"
            else f" {say(tree.attrs['engine'])} gives no draws, so no intervals."
        )
        return ("Percent. " if numbered else "") + read + keep
    word = "equal-tailed" if kind == "eti" else "highest-density"
    if numbered:
        return f"Percent: posterior mean, below it the {word} interval of {100 * prob:g}\u00a0%. {read}"
    return f"{read} The smaller a cell, the wider its {word} interval of {100 * prob:g}\u00a0%."


def _legend(data: xr.Dataset) -> list[Patch]:
    handles = [Patch(color=MAIN, label="right"), Patch(color=ACCENT, label="wrong")]
    if data.sizes["label"] > data.sizes["class"]:
        handles.append(Patch(color=MUTED, label="no class"))
    return handles
