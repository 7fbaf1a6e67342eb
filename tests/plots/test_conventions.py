"""What all pictures have in common: arguments, what they return and leave alone; and that all can be drawn."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import fitted
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from matplotlib.text import Text

import bayescrowd as bc
from bayescrowd import plots
from bayescrowd.errors import BayescrowdError, EngineError, LabelError, ModelError
from bayescrowd.plots._shared import ci_of

NAMES = tuple(plots.__all__)
OF_FITS = ("plot_workers", "plot_items", "plot_certainty", "plot_graph", "plot_confusion", "plot_explanation")


@pytest.mark.parametrize("name", NAMES)
def test_returns_a_plot_collection_that_can_be_drawn(drawn: Any, name: str) -> None:
    picture = drawn.calls()[name](backend="matplotlib")
    assert isinstance(picture, PlotCollection)
    assert picture.backend == "matplotlib"
    figure = drawn.well_drawn(picture)
    assert picture.viz["title"].item().get_text()
    assert isinstance(picture.data, xr.Dataset)
    assert len(picture.data)
    assert figure.get_size_inches()[0] > 5


@pytest.mark.parametrize("name", NAMES)
def test_other_backends_are_refused_in_words(drawn: Any, name: str) -> None:
    with pytest.raises(BayescrowdError, match=r"backend='bokeh': these pictures are drawn by matplotlib alone"):
        drawn.calls()[name](backend="bokeh")


@pytest.mark.parametrize("name", NAMES)
def test_false_removes_each_visual_and_the_docstring_lists_them(drawn: Any, name: str) -> None:
    call = drawn.calls()[name]
    with pytest.raises(BayescrowdError, match="visuals has no 'nonsense' here") as caught:
        call(visuals={"nonsense": False})
    known = str(caught.value).partition("there are ")[2].split(", ")
    documented = re.search(r"visuals : dict(.*?)\*\*pc_kwargs", getattr(plots, name).__doc__, re.DOTALL)
    assert documented is not None
    assert set(known) - {"legend"} <= set(re.findall(r"``(\w+)``", documented[1]))

    whole, bare = call(), call(visuals=dict.fromkeys(known, False))
    assert {"title", "note"} <= set(whole.viz) & set(known)
    assert not set(bare.viz) & set(known)
    figure = drawn.well_drawn(bare)
    assert not figure.texts
    assert not figure.legends
    # What is left of a picture without its visuals is axes: nothing of the data.
    assert sum(len(axes.collections) + len(axes.patches) for axes in figure.axes) == 0


@pytest.mark.parametrize("name", NAMES)
def test_visuals_and_figure_size_are_honoured(drawn: Any, name: str) -> None:
    picture = drawn.calls()[name](
        visuals={"title": {"fontsize": 17, "color": "red"}, "note": True}, figure_kwargs={"figsize": (9.5, 7.5)}
    )
    assert picture.viz["figure"].item().get_size_inches().tolist() == [9.5, 7.5]
    title = picture.viz["title"].item()
    assert (title.get_fontsize(), title.get_color()) == (17, "red")
    drawn.well_drawn(picture)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [3, "title", ["title"], False])
def test_visuals_that_are_no_mapping_are_refused(drawn: Any, name: str, wrong: Any) -> None:
    with pytest.raises(BayescrowdError, match=re.escape(f"keyword arguments, not {wrong!r}")) as caught:
        drawn.calls()[name](visuals=wrong)
    assert str(caught.value).startswith("visuals must be a dict such as {'")


def test_wrong_visuals_are_refused(drawn: Any) -> None:
    with pytest.raises(BayescrowdError, match=r"visuals\['note'\] must be False .* not 'no'"):
        drawn.calls()["plot_workers"](visuals={"note": "no"})


@pytest.mark.parametrize("name", OF_FITS)
def test_takes_a_fit_or_its_tree_and_nothing_else(drawn: Any, name: str) -> None:
    fit, call = drawn.crowd("2 workers"), getattr(plots, name)
    more = (1,) if name == "plot_explanation" else ()
    one, two = call(fit, *more), call(fit.idata, *more)
    xr.testing.assert_identical(one.data, two.data)
    for wrong in (None, "fit", fit.labels):
        with pytest.raises(BayescrowdError, match=f"takes a Fit, or its idata .* not {type(wrong).__name__}"):
            call(wrong, *more)


@pytest.mark.parametrize("name", OF_FITS)
def test_a_fit_that_failed_is_refused_in_words(drawn: Any, name: str) -> None:
    labels = drawn.random_labels(4, 3, "ab", (2, 3))
    run = fitted.made_point(labels, bc.DawidSkene(), state_probability=np.full((4, 2), np.nan))
    fit = fitted.tree_of(labels, bc.DawidSkene(), run)
    more = ("item0000",) if name == "plot_explanation" else ()
    with pytest.raises(EngineError, match="the fit failed and has nothing to show: "):
        getattr(plots, name)(fit, *more)


@pytest.mark.parametrize("name", NAMES)
def test_draws_into_a_collection_of_the_caller(drawn: Any, name: str) -> None:
    call = drawn.calls()[name]
    first = call(visuals={"title": False})
    dims = first.facet_dims
    coords = {str(dim): first.viz[dim].to_numpy() for dim in dims}
    given = PlotCollection.grid(
        xr.Dataset({"nothing": (tuple(coords), np.zeros([len(value) for value in coords.values()]))}, coords),
        cols=list(coords),
        backend="matplotlib",
    )
    mine, panels, figures = given.viz["figure"].item(), list(given.viz["figure"].item().axes), plt.get_fignums()
    assert not any(axes.has_data() for axes in panels)
    again = call(plot_collection=given)
    assert again is given
    assert again.viz["figure"].item() is mine
    assert plt.get_fignums() == figures  # no figure but the caller's
    assert mine.axes[: len(panels)] == panels
    assert len(mine.axes) - len(panels) == (name == "plot_graph")  # the one with a colour bar
    assert all(axes.has_data() for axes in panels)
    assert not mine.texts
    assert again.viz["title"].item().get_text() == panels[0].get_title(loc="left") != ""
    mine.canvas.draw()
    with pytest.raises(BayescrowdError, match="plot_collection brings its own"):
        call(plot_collection=given, figure_kwargs={"figsize": (3, 3)})
    wrong = PlotCollection.grid(xr.Dataset({"a": ("odd", [1.0, 2.0])}, {"odd": [0, 1]}), cols=["odd"])
    with pytest.raises(BayescrowdError, match="needs a plot_collection with .* this one has panels by odd"):
        call(plot_collection=wrong)
    with pytest.raises(BayescrowdError, match="must be an arviz_plots.PlotCollection"):
        call(plot_collection="mine")


def test_settings_of_intervals_are_checked_and_default_to_arviz(drawn: Any) -> None:
    import arviz_base

    fit = drawn.crowd("anesthesia-gibbs")
    for wrong in (0, 1, 1.5, "most", True):
        with pytest.raises(BayescrowdError, match="ci_prob must be a probability between 0 and 1"):
            ci_of(wrong, None)
    with pytest.raises(BayescrowdError, match="ci_prob must be a probability between 0 and 1"):
        plots.plot_workers(fit, ci_prob=1.5)
    with pytest.raises(BayescrowdError, match="ci_kind must be 'eti' .* or 'hdi'"):
        plots.plot_confusion(fit, ci_kind="wide")
    with arviz_base.rc_context({"stats.ci_prob": 0.5, "stats.ci_kind": "hdi"}):
        picture = plots.plot_workers(fit)
    assert "highest-density intervals of 50" in picture.viz["subtitle"].item().get_text()
    named = plots.plot_workers(fit, ci_prob=0.5, ci_kind="hdi")
    xr.testing.assert_equal(picture.data, named.data)
    usual = plots.plot_workers(fit)
    assert "equal-tailed intervals of 89" in usual.viz["subtitle"].item().get_text()


CROWDS: dict[str, tuple[str, ...]] = {
    "anesthesia-em": OF_FITS,
    "anesthesia-collapsed-vi": ("plot_workers", "plot_confusion", "plot_explanation"),
    "levels": OF_FITS,
    "500 workers": OF_FITS,
    "2 workers": OF_FITS,
    "1 worker": ("plot_workers", "plot_graph", "plot_confusion", "plot_explanation"),
    "hostile": OF_FITS,
    "20 classes": ("plot_confusion", "plot_items"),
    "odd": OF_FITS,
    "islands": ("plot_graph",),
    "trouble": ("plot_workers", "plot_graph"),
    "majority vote": OF_FITS,
}


@pytest.mark.parametrize(("crowd", "name"), [(crowd, name) for crowd, names in CROWDS.items() for name in names])
def test_every_crowd_can_be_drawn(drawn: Any, crowd: str, name: str) -> None:
    fit, call = drawn.crowd(crowd), getattr(plots, name)
    more = (fit.labels.items[0],) if name == "plot_explanation" else ()
    if crowd == "majority vote" and name in ("plot_confusion", "plot_explanation"):
        with pytest.raises(ModelError, match="majority-vote gives no confusion matrices"):
            call(fit, *more)
        return
    figure = drawn.well_drawn(call(fit, *more))
    words = [text.get_text() for text in figure.findobj(Text)]
    assert set(words) >= {text.get_text() for text in figure.texts}
    assert not [text for text in words if re.search(r"\b(nan|NaN|inf|None|NaT)\b", text)]


@pytest.mark.parametrize("size", [(3, 2), (4.5, 3), (14, 12)])
def test_any_size_of_figure_leaves_room_for_the_panels(drawn: Any, size: tuple[float, float]) -> None:
    picture = plots.plot_workers(drawn.crowd("trouble"), figure_kwargs={"figsize": size})
    figure = picture.viz["figure"].item()
    figure.canvas.draw()
    box = figure.axes[0].get_position()
    assert box.height > 0.02
    assert box.width > 0.2


def test_long_headings_are_broken_into_lines(drawn: Any) -> None:
    check = drawn.check_of(5, sentence="agreement: " + "a sentence that goes on and on " * 12)
    picture = plots.plot_agreement(check)
    drawn.well_drawn(picture)
    assert picture.viz["subtitle"].item().get_text().count("\n") >= 2


def test_a_layout_of_the_caller_stays(drawn: Any) -> None:
    picture = plots.plot_workers(drawn.crowd("trouble"), figure_kwargs={"layout": "none"})
    assert picture.viz["figure"].item().get_layout_engine() is None


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light_and_what_is_missing_is_named() -> None:
    code = """
import sys
import bayescrowd.plots as plots
assert not {"matplotlib", "arviz_plots", "jax", "pandas"} & set(sys.modules)
assert set(plots.__all__) <= set(dir(plots))
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("matplotlib", "arviz_plots"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
try:
    from bayescrowd.plots import plot_workers
except ModuleNotFoundError as error:
    print(error)
try:
    plots.plot_nonsense
except AttributeError as error:
    print(error)
"""
    missing, unknown = _python(code).splitlines()
    assert 'is not installed, and pictures need it: pip install "bayescrowd[plots]"' in missing
    assert unknown == "module 'bayescrowd.plots' has no attribute 'plot_nonsense'"


def test_a_module_of_ours_that_is_missing_is_no_missing_extra() -> None:
    code = """
import sys
import bayescrowd.plots as plots
sys.modules["bayescrowd.plots.workers"] = None
try:
    plots.plot_workers
except ModuleNotFoundError as error:
    print("[plots]" in str(error))
"""
    assert _python(code).strip() == "False"


def test_errors_of_arguments_name_the_remedy(drawn: Any) -> None:
    with pytest.raises(LabelError, match="against must be 'majority' or 'truth'"):
        plots.plot_items(drawn.crowd("levels"), against="gold")
    with pytest.raises(LabelError, match="bring no truth to compare with"):
        plots.plot_items(drawn.crowd("2 workers"), against="truth")
    for seed in (-1, 2**32):
        with pytest.raises(LabelError, match=r"seed must be a whole number from 0 to 4294967295"):
            plots.plot_certainty(drawn.crowd("levels"), seed=seed)
    with pytest.raises(LabelError, match="measure must be 'probability' or 'entropy'"):
        plots.plot_certainty(drawn.crowd("levels"), measure="doubt")
    with pytest.raises(BayescrowdError, match=r"takes what fit.calibration\(\) returns, not int"):
        plots.plot_reliability(3)
    with pytest.raises(BayescrowdError, match="takes the table that bayescrowd.compare returns"):
        plots.plot_comparison({"a": 1})
    with pytest.raises(BayescrowdError, match=r"takes one check of fit.predictive_checks\(\), such as \['agreement'\]"):
        plots.plot_agreement({"agreement": drawn.check_of(4)})


@pytest.mark.parametrize("name", NAMES)
def test_unknown_arguments_are_refused_with_the_remedy(drawn: Any, name: str) -> None:
    call = drawn.calls()[name]
    with pytest.raises(BayescrowdError, match=re.escape("figure_kwargs={'figsize': (3, 3)}")):
        call(figsize=(3, 3))
    with pytest.raises(BayescrowdError, match="has no argument 'nonsense'.*takes figure_kwargs"):
        call(nonsense=1)
    with pytest.raises(BayescrowdError, match="figure_kwargs must be a dict"):
        call(figure_kwargs=3)


def test_panels_in_a_row_are_checked(drawn: Any) -> None:
    with pytest.raises(BayescrowdError, match="col_wrap must be a whole number"):
        drawn.calls()["plot_confusion"](col_wrap=0)
    with pytest.raises(BayescrowdError, match="no argument 'col_wrap'"):
        drawn.calls()["plot_workers"](col_wrap=2)
