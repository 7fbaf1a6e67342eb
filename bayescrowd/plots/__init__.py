"""Pictures of a result, by the conventions of ArviZ; needs the extra ``plots``.

Every function takes a `Fit` (or its ``idata``) or what a method of a fit returns, draws with matplotlib into an
`arviz_plots.PlotCollection` and returns it: ``.savefig("picture.png")`` writes it, ``.viz["figure"].item()`` is the
matplotlib figure, ``visuals={"note": False}`` leaves a part out.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescrowd.plots.agreement import plot_agreement
    from bayescrowd.plots.certainty import plot_certainty
    from bayescrowd.plots.comparison import plot_comparison
    from bayescrowd.plots.confusion import plot_confusion
    from bayescrowd.plots.explanation import plot_explanation
    from bayescrowd.plots.graph import plot_graph
    from bayescrowd.plots.items import plot_items
    from bayescrowd.plots.reliability import plot_reliability
    from bayescrowd.plots.workers import plot_workers

__all__ = [
    "plot_agreement",
    "plot_certainty",
    "plot_comparison",
    "plot_confusion",
    "plot_explanation",
    "plot_graph",
    "plot_items",
    "plot_reliability",
    "plot_workers",
]

_EXTRA = ("arviz_plots", "matplotlib")


def __getattr__(name: str) -> Any:
    """Load a picture on first use: matplotlib takes a while, and is not everywhere."""
    if name not in __all__:
        raise AttributeError(f"module 'bayescrowd.plots' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"bayescrowd.plots.{name.removeprefix('plot_')}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f'{error.name} is not installed, and pictures need it: pip install "bayescrowd[plots]"', name=error.name
        ) from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the pictures."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
