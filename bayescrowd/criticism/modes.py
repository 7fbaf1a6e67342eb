"""One random start: it finds the mode that a result is in, another one, or a better one."""

import numpy as np
import xarray as xr

from bayescrowd.criticism.report import Finding
from bayescrowd.criticism.sampling import identify
from bayescrowd.errors import EngineError, ModelError, count_of, shorten
from bayescrowd.inference import get, names
from bayescrowd.inference.base import Engine, Job
from bayescrowd.inference.progress import reporter
from bayescrowd.inference.starts import perturbed
from bayescrowd.model import Model
from bayescrowd.results.align import find_switches
from bayescrowd.results.tree import ids, labels_of, model_of, n_labels_of, sizes_of, start_of, values

__all__ = ["LARGEST", "random_mode", "takes_starts"]

LARGEST = 500_000
"""Labels x states above which no random start is tried."""

_ENGINE = "vb"
_SEED = 20_170_617
_MAX_PASSES = 1000
_ANOTHER = 0.25
"""Total variation distance from which on an item's class probabilities count as different."""

_NEARLY_ALL = 0.02
_EQUAL = 1.0
"""Bounds nearer to each other than this (nats) do not say which mode is better."""


def random_mode(tree: xr.DataTree) -> list[Finding]:
    """Compare where variational Bayes ends from this result and from a random start.

    Both runs are of the same engine under the model of the result, so that their bounds can be compared. Numbers of
    difficulty levels do not matter: class probabilities are summed over them.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    list of Finding
        One finding; none for models that the engine does not fit.
    """
    engine, sizes = get(_ENGINE), sizes_of(tree)
    try:
        model = model_of(tree)
        engine.check(model, engine.settings())
    except (EngineError, ModelError):
        return []
    if sizes.n_classes < 2 or not np.isfinite(values(tree, "latent", "class_probability")).all():
        return []
    work = tree["observed_data"].sizes["annotation"] * sizes.n_classes * model.n_levels
    if work > LARGEST:
        text = f"No random start was tried: {work:,} labels x states are more than {LARGEST:,}."
        return [Finding("note", "random-start", text)]
    try:
        (own, own_bound), (other, other_bound) = _ends(tree, engine, model)
    except (EngineError, ModelError) as error:
        return [Finding("note", "random-start", f"No random start could be tried: {error}.")]
    labelled = n_labels_of(tree, "item") > 0
    differ = labelled & (np.abs(own - other).sum(axis=1) / 2 > _ANOTHER)
    gain = other_bound - own_bound
    by = f"bound of {_ENGINE} {'higher' if gain > 0 else 'lower'} by {abs(gain):.3g}"
    if differ.sum() <= max(1, _NEARLY_ALL * labelled.sum()):
        if gain > _EQUAL and model.n_levels > 1:
            what = f"A random start put nearly all items into the same classes, but used the levels better ({by})."
            return [Finding("caution", "random-start", what, _elsewhere(tree))]
        return [Finding("note", "random-start", "A random start found the same mode.")]
    where = f"it differs on {differ.sum():,} of {count_of(int(labelled.sum()), 'item')}"
    switch = find_switches(np.stack([own, other]), 0).get(1)
    if switch is not None:
        classes = ids(tree, "class")
        pairs = ", ".join(f"{classes[b]!s} for {classes[a]!s}" for a, b in enumerate(switch) if a != b)
        where += f", with classes in other parts: {shorten([pairs])}"
    if gain > _EQUAL:
        text = f"A random start ended in another mode, and a BETTER one ({by}; {where})."
        return [Finding("caution", "random-start", text, _elsewhere(tree))]
    if gain < -_EQUAL:
        text = f"A random start ended in another, worse mode ({by}; {where}): starts matter, and this one was good."
        return [Finding("note", "random-start", text)]
    text = f"A random start ended in another mode that is as good ({by}; {where}): the labels do not tell them apart."
    return [Finding("caution", "random-start", text, identify(tree))]


def takes_starts(tree: xr.DataTree) -> bool:
    """Say whether a result came from an engine that takes starts.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    bool
        False for baselines and for engines that need none.
    """
    own = str(tree.attrs["engine"])
    return own in names() and get(own).starts


def _elsewhere(tree: xr.DataTree) -> str:
    if not takes_starts(tree):
        return f"fit with engine='em' or {_ENGINE!r}, which take starts, and starts=10"
    return f"start elsewhere: engine={_ENGINE!r} with starts=10, and pass that fit as init; or {identify(tree)}"


def _ends(tree: xr.DataTree, engine: Engine, model: Model) -> list[tuple[np.ndarray, float]]:
    """Class probabilities and bound at the end of a run from the result, and of one from a random start."""
    labels = labels_of(tree)
    start = start_of(tree)
    start = start / start.sum(axis=1, keepdims=True)
    settings = engine.settings(max_iter=_MAX_PASSES, draws=1)
    ends = []
    for begin in (start, perturbed(start, labels, np.random.default_rng(_SEED), share=1.0)):
        with reporter(False) as quiet:
            run = engine.run(Job(model, labels, begin, settings, _SEED, quiet))
        by_class = run.state_probability.reshape(len(start), -1, start.shape[1] // model.n_levels).sum(axis=1)
        bound = np.nan if run.objective is None or not len(run.objective) else float(run.objective[-1])
        ends.append((by_class, bound))
    return ends
