"""What all pictures share: arguments, colours, the figure with its heading, and how visuals are drawn into it."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots.plot_collection import PlotCollection
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bayescrowd.decisions.arguments import check_interval
from bayescrowd.errors import BayescrowdError, EngineError
from bayescrowd.plots._colours import FAINT, MUTED
from bayescrowd.plots._heading import Heading, mend_fonts

__all__ = [
    "Picture",
    "ci_of",
    "interval_of",
    "percent_axis",
    "plain_axes",
    "tree_of",
]

_HEADING = ("title", "subtitle", "note", "legend")
_OF_FIGURES = ("figsize", "dpi", "facecolor", "edgecolor", "layout", "sharex", "sharey", "width_ratios")


def tree_of(fit: Any) -> xr.DataTree:
    """Take a result tree from a fit, or as it is.

    Parameters
    ----------
    fit : Fit or DataTree
        A result.

    Returns
    -------
    DataTree

    Raises
    ------
    BayescrowdError
        Where it is anything else.
    EngineError
        Where the fit failed.
    """
    tree = getattr(fit, "idata", fit)
    if not isinstance(tree, xr.DataTree) or "observed_data" not in tree.children:
        raise BayescrowdError(
            f"this picture takes a Fit, or its idata (an xarray.DataTree), not {type(fit).__name__}: pass what "
            "bayescrowd.fit(labels) returns"
        )
    if not np.isfinite(tree["latent"].dataset["class_probability"].to_numpy()).all():
        raise EngineError(f"the fit failed and has nothing to show: {tree.attrs['status_sentence']}")
    return tree


def ci_of(ci_prob: Any, ci_kind: Any) -> tuple[float, str]:
    """Check the kind and probability of intervals; ArviZ's settings where they are None.

    Parameters
    ----------
    ci_prob : float or None
        Between 0 and 1.
    ci_kind : {"eti", "hdi"} or None
        Equal tails, or highest density.

    Returns
    -------
    tuple of float and str

    Raises
    ------
    BayescrowdError
        For anything else.
    """
    prob = rcParams["stats.ci_prob"] if ci_prob is None else ci_prob
    kind = rcParams["stats.ci_kind"] if ci_kind is None else ci_kind
    prob = check_interval(prob, "ci_prob")
    if kind not in ("eti", "hdi"):
        raise BayescrowdError(f"ci_kind must be 'eti' (equal tails) or 'hdi' (highest density), not {kind!r}")
    return prob, str(kind)


def interval_of(draws: np.ndarray, prob: float, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of intervals over the first axis.

    Parameters
    ----------
    draws : array [sample, ...]
        Draws.
    prob : float
        Probability of the interval.
    kind : str
        ``"eti"`` or ``"hdi"``.

    Returns
    -------
    lower, upper : array [...]
    """
    if kind == "eti":
        lower, upper = np.quantile(draws, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
        return lower, upper
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    statistics: Any = array_stats
    ends = statistics.hdi(draws, prob, axis=0)
    return ends[..., 0], ends[..., 1]


def plain_axes(axes: Axes, grid: str = "") -> None:
    """Quiet axes: no frame but left and below, a light grid behind the data.

    Parameters
    ----------
    axes : Axes
        Where.
    grid : {"", "x", "y", "both"}
        Which lines.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(color=MUTED, labelsize=8)
    axes.set_axisbelow(True)
    for which in ("x", "y"):
        if grid in (which, "both"):
            axes.grid(True, axis=which, color=FAINT, linewidth=0.6)


def percent_axis(axes: Axes, which: str) -> None:
    """Label an axis of shares in percent.

    Parameters
    ----------
    axes : Axes
        Where.
    which : {"x", "y"}
        Which axis.
    """
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}\u00a0%"))


class Picture:
    """A `PlotCollection` in the making.

    Parameters
    ----------
    data : Dataset
        What is shown; kept as the collection's ``data``.
    size : tuple of float
        Inches, unless the caller says otherwise.
    names : sequence of str
        Its visuals, without those of the heading.
    backend, plot_collection, visuals, pc_kwargs
        As the caller passed them.
    cols, rows : sequence of str
        Dims with a panel per value.
    col_wrap : int, optional
        Panels per row; rows then follow one another.
    **figure : object
        Defaults of ``figure_kwargs``.
    """

    def __init__(
        self,
        data: xr.Dataset,
        size: tuple[float, float],
        names: Sequence[str],
        *,
        backend: Any,
        plot_collection: Any,
        visuals: Any,
        pc_kwargs: Mapping[str, Any],
        cols: Sequence[str] = (),
        rows: Sequence[str] = (),
        col_wrap: int | None = None,
        **figure: Any,
    ) -> None:
        _check_backend(backend, plot_collection)
        self.visuals = _check_visuals(visuals, [*names, *_HEADING])
        self.own = plot_collection is None
        facets = [*rows, *cols]
        if plot_collection is not None:
            _check_facets(plot_collection, facets)
            if pc_kwargs:
                raise BayescrowdError(
                    f"{', '.join(pc_kwargs)}: these make a new figure, but plot_collection brings its own; pass one "
                    "or the other"
                )
            self.collection: Any = plot_collection
        else:
            options = _check_options(pc_kwargs, wraps=col_wrap is not None)
            given = dict(options.pop("figure_kwargs", None) or {})
            self.free_layout = "layout" not in given and "constrained_layout" not in given
            options["figure_kwargs"] = {"figsize": size} | figure | ({"layout": "constrained"} | given)
            make: Any = PlotCollection
            if col_wrap is None:
                self.collection = make.grid(data, cols=list(cols), rows=list(rows), backend="matplotlib", **options)
            else:
                options.setdefault("col_wrap", col_wrap)
                self.collection = make.wrap(data, cols=list(cols), backend="matplotlib", **options)

    @property
    def figure(self) -> Figure:
        """The figure."""
        figure: Figure = self.collection.get_viz("figure")
        return figure

    def axes(self, **where: Any) -> Axes:
        """Give the panel of some coordinates.

        Parameters
        ----------
        **where : object
            Dim -> value.

        Returns
        -------
        Axes
        """
        axes: Axes = self.collection.get_target(None, where)
        return axes

    def options(self, name: str, **defaults: Any) -> dict[str, Any] | None:
        """Keyword arguments of a visual.

        Parameters
        ----------
        name : str
            The visual.
        **defaults : object
            What the caller may override.

        Returns
        -------
        dict or None
            None where the caller does not want it.
        """
        given = self.visuals.get(name, {})
        return None if given is False else defaults | ({} if given is True else dict(given))

    def draw(
        self,
        name: str,
        function: Callable[..., Any],
        data: xr.DataArray | xr.Dataset,
        *,
        coords: Mapping[str, Any] | None = None,
        artist_dims: Mapping[str, int] | None = None,
        **defaults: Any,
    ) -> None:
        """Draw a visual into every panel that its data belong to, unless the caller does not want it.

        Parameters
        ----------
        name : str
            The visual; also its name in the collection's ``viz``.
        function : callable
            ``function(data of the panel, target=axes, **options)`` draws and returns the artist, or an array of them.
        data : DataArray or Dataset
            What to draw.
        coords : mapping, optional
            Into which panels only.
        artist_dims : mapping, optional
            Shape of the array of artists.
        **defaults : object
            Options that the caller may override.
        """
        options = self.options(name, **defaults)
        if options is None:
            return
        if isinstance(data, xr.DataArray):
            data = data.to_dataset(name=name if data.name is None else data.name)
        self.collection.map(
            function, name, data=data, coords=coords, ignore_aes="all", artist_dims=artist_dims, **options
        )

    def finish(self, title: str, subtitle: str = "", note: str = "", legend: Sequence[Any] = ()) -> PlotCollection:
        """Write the heading and give the collection.

        Parameters
        ----------
        title : str
            What was found.
        subtitle : str
            What is shown.
        note : str
            How to read it, below the picture.
        legend : sequence of artists
            With labels.

        Returns
        -------
        PlotCollection
        """
        if self.own:
            heading = Heading(self, {"title": title, "subtitle": subtitle, "note": note}, legend)
            heading.write(free=self.free_layout)
        else:
            self._finish_within(title, legend)
        mend_fonts(self.figure)
        collection: PlotCollection = self.collection
        return collection

    def _finish_within(self, title: str, legend: Sequence[Any]) -> None:
        """In a figure of somebody else's nothing is written but into the panels."""
        first: Axes = np.ravel(self.collection.viz["plot"].values)[0]
        options = self.options("title", fontsize=10, loc="left")
        if options is not None:
            self.keep("title", first.set_title(textwrap.fill(title, 60), **options))
        options = self.options("legend", fontsize=8, frameon=False)
        if legend and options is not None:
            self.keep("legend", first.legend(handles=list(legend), **options))

    def keep(self, name: str, artist: Any) -> None:
        """Store an artist of the whole figure in the collection's ``viz``.

        Parameters
        ----------
        name : str
            The visual.
        artist : object
            What was drawn.
        """
        self.collection.viz[name] = xr.DataArray(np.array(artist, dtype=object))


def _check_backend(backend: Any, plot_collection: Any) -> None:
    if backend not in (None, "matplotlib"):
        raise BayescrowdError(
            f"backend={backend!r}: these pictures are drawn by matplotlib alone; leave backend out, or pass "
            "backend='matplotlib'"
        )
    if plot_collection is not None and getattr(plot_collection, "backend", None) != "matplotlib":
        raise BayescrowdError(
            "plot_collection must be an arviz_plots.PlotCollection made with backend='matplotlib', not "
            f"{type(plot_collection).__name__}"
        )


def _check_options(given: Mapping[str, Any], wraps: bool) -> dict[str, Any]:
    """Let through what these pictures know of a `PlotCollection`'s arguments: colours and shapes are their own."""
    known = ["figure_kwargs", *(["col_wrap"] if wraps else [])]
    strange = [name for name in given if name not in known]
    if strange:
        inside = {name: given[name] for name in strange if name in _OF_FIGURES}
        shown = f"figure_kwargs={inside!r}" if inside else 'figure_kwargs={"figsize": (8, 6)}'
        raise BayescrowdError(
            f"this picture has no argument {', '.join(map(repr, strange))}; beside those of its own, listed in its "
            f"help, it takes {' and '.join(known)}. Size and layout of the figure go there: {shown}. What is drawn, "
            "and how, goes into visuals={...}"
        )
    if not isinstance(given.get("figure_kwargs") or {}, Mapping):
        raise BayescrowdError(
            f'figure_kwargs must be a dict such as {{"figsize": (8, 6)}}, not {given["figure_kwargs"]!r}'
        )
    wrap = given.get("col_wrap", 1)
    if isinstance(wrap, bool) or not isinstance(wrap, int | np.integer) or wrap < 1:
        raise BayescrowdError(f"col_wrap must be a whole number of panels in a row, at least 1, not {wrap!r}")
    return dict(given)


def _check_visuals(visuals: Any, names: Sequence[str]) -> dict[str, Any]:
    if visuals is not None and not isinstance(visuals, Mapping):
        raise BayescrowdError(
            f"visuals must be a dict such as {{{names[0]!r}: False}}, from the name of a visual to False or to keyword "
            f"arguments, not {visuals!r}"
        )
    given = dict(visuals or {})
    unknown = [name for name in given if name not in names]
    if unknown:
        raise BayescrowdError(f"visuals has no {unknown[0]!r} here; there are {', '.join(names)}")
    wrong = [name for name, value in given.items() if not isinstance(value, bool | Mapping)]
    if wrong:
        raise BayescrowdError(
            f"visuals[{wrong[0]!r}] must be False (to leave it out) or a dict of keyword arguments, not "
            f"{given[wrong[0]]!r}"
        )
    return given


def _check_facets(plot_collection: Any, facets: Sequence[str]) -> None:
    found = set(plot_collection.facet_dims)
    if found != set(facets):
        wanted = f"a panel for each value of {' and '.join(facets)}" if facets else "one panel"
        raise BayescrowdError(
            f"this picture needs a plot_collection with {wanted}, and this one has panels by "
            f"{', '.join(sorted(map(str, found))) or 'nothing'}"
        )
