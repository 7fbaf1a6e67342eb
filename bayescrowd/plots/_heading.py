"""The words around a picture: title, subtitle and legend above its panels, a note below."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from matplotlib.figure import Figure
from matplotlib.text import Text

from bayescrowd.plots._colours import MUTED
from bayescrowd.plots._text import families

__all__ = ["Heading", "Page", "mend_fonts"]

_EDGE, _GAP = 0.12, 0.07  # inches


class Page(Protocol):
    """What a heading is written on."""

    @property
    def figure(self) -> Figure:
        """The figure."""
        ...

    def options(self, name: str, **defaults: Any) -> dict[str, Any] | None:
        """Keyword arguments of a visual, None where it is not wanted."""
        ...

    def keep(self, name: str, artist: Any) -> None:
        """Store an artist under the name of its visual."""
        ...


class Heading:
    """Title, subtitle and legend above the panels, a note below, each as high as its text.

    Parameters
    ----------
    page : Page
        Whose figure.
    texts : dict
        ``title``, ``subtitle`` and ``note``; empty ones take no room.
    legend : sequence of artists
        With labels.
    """

    def __init__(self, page: Page, texts: Mapping[str, str], legend: Sequence[Any]) -> None:
        self.page, self.figure, self.texts, self.legend = page, page.figure, texts, list(legend)
        self.width, self.height = self.figure.get_size_inches()

    def write(self, *, free: bool) -> None:
        """Write it.

        Parameters
        ----------
        free : bool
            Make room for it between the edges of the figure and the panels.
        """
        top, bottom = self._above(), self._below()
        if free:
            room = 1 - (top + bottom) / self.height
            engine: Any = self.figure.get_layout_engine()
            # A small figure keeps its panels, whatever is written around them.
            side = _EDGE / 2 / self.width
            engine.set(rect=(side, bottom / self.height if room > 0.3 else 0, 1 - 2 * side, max(room, 0.3)))

    def _above(self) -> float:
        used = _EDGE
        for name, look in (("title", {"fontsize": 12, "fontweight": "bold"}), ("subtitle", {"color": MUTED})):
            text = self._text(name, self.height - used, "top", **{"fontsize": 9} | look)
            used += 0 if text is None else self._extent(text)[1] + _GAP
        options = self.page.options("legend", fontsize=8, frameon=False)
        if self.legend and options is not None:
            legend = self._legend(used, options)
            self.page.keep("legend", legend)
            used += self._extent(legend)[1] + _GAP
        return used + _GAP

    def _legend(self, used: float, options: dict[str, Any]) -> Any:
        """As many columns as the width holds."""
        where = (_EDGE / self.width, 1 - used / self.height)
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": where, "borderaxespad": 0, "borderpad": 0}
        columns = int(options.get("ncols", min(len(self.legend), 8)))
        while True:
            # matplotlib fills columns; people read rows.
            ordered = [handle for column in range(columns) for handle in self.legend[column::columns]]
            legend: Any = self.figure.legend(handles=ordered, **place | {"ncols": columns} | options)
            if columns == 1 or "ncols" in options or self._extent(legend)[0] <= self.width - 2 * _EDGE:
                return legend
            legend.remove()
            columns -= 1

    def _below(self) -> float:
        text = self._text("note", _EDGE, "bottom", fontsize=7.5, color=MUTED)
        return _EDGE / 2 if text is None else _EDGE + self._extent(text)[1] + _GAP

    def _text(self, name: str, at: float, va: str, **look: Any) -> Text | None:
        options = self.page.options(name, va=va, ha="left", **look)
        if options is None or not self.texts[name]:
            return None
        text: Text = self.figure.text(_EDGE / self.width, at / self.height, self.texts[name], **options)
        words = self.texts[name]
        for _ in range(4):
            longest = self._extent(text)[0] / (0.98 * self.width - 2 * _EDGE)
            if longest <= 1:
                break
            most = max(len(line) for line in text.get_text().splitlines())
            lines = [
                textwrap.fill(part, max(20, int(most / longest)), break_long_words=False, break_on_hyphens=False)
                for part in words.splitlines()
            ]
            text.set_text("\n".join(lines))
        self.page.keep(name, text)
        return text

    def _extent(self, artist: Any) -> tuple[float, float]:
        box = artist.get_window_extent()
        return box.width / self.figure.dpi, box.height / self.figure.dpi


def mend_fonts(figure: Figure) -> None:
    """Give texts with characters that the usual font lacks a font that has them.

    Parameters
    ----------
    figure : Figure
        With everything drawn.
    """
    texts: Any = figure.findobj(Text)
    fixed = [seq for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for seq in _fixed_labels(axis)]
    needed = families([*(text.get_text() for text in texts), *fixed])
    if needed:
        for text in texts:
            text.set_fontfamily(needed)
        for axes in figure.axes:
            axes.tick_params(labelfontfamily=needed)


def _fixed_labels(axis: Any) -> list[str]:
    return [str(text) for text in getattr(axis.get_major_formatter(), "seq", ())]
