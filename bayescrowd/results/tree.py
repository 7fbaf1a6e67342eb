"""Readers of a result tree: ids, labels, model and sizes as they were when the tree was built."""

import json
import sys
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import ModelError, shorten
from bayescrowd.model import Model, Sizes
from bayescrowd.models import get as get_model
from bayescrowd.models import names as model_names
from bayescrowd.results.ids import original_ids

__all__ = [
    "class_path",
    "estimates_by",
    "has_chains",
    "ids",
    "json_attribute",
    "labels_of",
    "model_of",
    "n_labels_of",
    "parameter_group",
    "samples_of",
    "sizes_of",
    "start_of",
    "title",
    "values",
]


def ids(tree: xr.DataTree, dim: str) -> pd.Index:
    """Give the user's ids along a dim.

    Parameters
    ----------
    tree : DataTree
        A result.
    dim : str
        ``"item"``, ``"worker"``, ``"class"``, ``"label"``, ...

    Returns
    -------
    pandas.Index
        Named after the dim.
    """
    observed = tree["observed_data"].dataset
    source = (
        observed
        if dim in observed.coords
        else next(node.dataset for node in tree.subtree if dim in node.dataset.coords)
    )
    originals = None
    if "original_ids" in tree.children and f"{dim}_json" in tree["original_ids"].dataset:
        originals = tree["original_ids"].dataset[f"{dim}_json"].to_numpy()
    return original_ids(source[dim].to_numpy(), originals).rename(dim)


def values(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """Read a variable as a NumPy array.

    Parameters
    ----------
    tree : DataTree
        A result.
    group, name : str
        Which variable.

    Returns
    -------
    array
        Its values, not copied.
    """
    return cast(np.ndarray, tree[group].dataset[name].to_numpy())


def parameter_group(tree: xr.DataTree) -> str:
    """Say where the parameters are: ``"posterior"`` for draws, ``"point_estimate"`` otherwise.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    str
        Name of the group.
    """
    return "posterior" if "posterior" in tree.children else "point_estimate"


def samples_of(tree: xr.DataTree, model: Model) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """Read the parameter sites with the axes that the model knows, chains and draws in one axis.

    Parameters
    ----------
    tree : DataTree
        A result.
    model : Model
        Its model.

    Returns
    -------
    dict
        Site -> array [sample, ...]; one sample for a point estimate.
    tuple of int
        Numbers of chains and draws; empty for a point estimate.

    Raises
    ------
    ModelError
        Where the method did not keep them.
    """
    group = parameter_group(tree)
    dataset = tree[group].dataset if group in tree.children else xr.Dataset()
    sites = model.sites(sizes_of(tree), values=False)
    absent = [name for name in sites if name not in dataset]
    if absent:
        raise ModelError(
            f"{tree.attrs['engine']} kept no parameters {shorten(absent)}, which this is computed from: fit a model, "
            "bc.fit(labels)"
        )
    sample_dims = ("chain", "draw") if group == "posterior" else ()
    lead = tuple(dataset.sizes[dim] for dim in sample_dims)
    found = {}
    for name, site in sites.items():
        value = dataset[name].transpose(*sample_dims, *site.dims).to_numpy()
        found[name] = value.reshape(-1, *value.shape[len(sample_dims) :])
    return found, lead


def start_of(tree: xr.DataTree) -> np.ndarray:
    """Give the start of a fit that goes on from a result, and so keeps the names of its classes.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    array [item, state]
        Probabilities of the states: ``state = difficulty * n_classes + class``.
    """
    probability = values(tree, "latent", "class_probability").astype(float)
    if "difficulty_probability" not in tree["latent"].dataset:
        return probability
    levels = values(tree, "latent", "difficulty_probability").astype(float)
    start: np.ndarray = (levels[:, :, None] * probability[:, None, :]).reshape(len(probability), -1)
    return start


def estimates_by(tree: xr.DataTree, dim: str) -> dict[str, np.ndarray]:
    """Read what a method estimates of every worker, or of every item, beside confusion matrices.

    Parameters
    ----------
    tree : DataTree
        A result.
    dim : str
        ``"worker"`` or ``"item"``.

    Returns
    -------
    dict
        Name -> array [worker] or [item]; posterior means where there are draws. Empty without parameters.
    """
    sample_dims = {"chain", "draw"}
    group = parameter_group(tree)
    variables = tree[group].dataset.data_vars if group in tree.children else {}
    return {
        str(name): value.mean([other for other in value.dims if other in sample_dims]).to_numpy()
        for name, value in variables.items()
        if set(value.dims) - sample_dims == {dim}
    }


def has_chains(tree: xr.DataTree) -> bool:
    """Say whether there are Markov chains: draws that may disagree, not independent ones from an approximation.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    bool
        False for point estimates and variational fits.
    """
    return parameter_group(tree) == "posterior" and tree.attrs.get("draws_are", "markov-chains") == "markov-chains"


def json_attribute(tree: xr.DataTree, name: str, default: Any = None) -> Any:
    """Read a root attribute that holds JSON.

    Parameters
    ----------
    tree : DataTree
        A result.
    name : str
        The attribute.
    default : object
        What to return without it.

    Returns
    -------
    object
        The value.
    """
    return json.loads(tree.attrs[name]) if name in tree.attrs else default


def sizes_of(tree: xr.DataTree) -> Sizes:
    """Read the sizes of the model's parameters.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Sizes
        Numbers of items, workers, classes and label values.
    """
    sizes = tree["observed_data"].dataset.sizes
    return Sizes(sizes["item"], sizes["worker"], sizes["class"], sizes["label"])


def n_labels_of(tree: xr.DataTree, dim: str) -> np.ndarray:
    """Count the annotations of each item or worker.

    Parameters
    ----------
    tree : DataTree
        A result.
    dim : str
        ``"item"`` or ``"worker"``.

    Returns
    -------
    int array
        Numbers of rows, whatever their weights.
    """
    observed = tree["observed_data"].dataset
    return np.bincount(observed[f"{dim}_index"].to_numpy(), minlength=observed.sizes[dim])


def labels_of(tree: xr.DataTree) -> CrowdLabels:
    """Rebuild the label table that was fitted.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    CrowdLabels
        Equal to the table that was fitted, gold, weights, truth and notes included.
    """
    observed = tree["observed_data"].dataset
    item_ids = ids(tree, "item")
    truth = patterns = None
    if "truth" in tree.children:
        code = values(tree, "truth", "truth_index")
        known = code >= 0
        truth = pd.Series(_take(ids(tree, "truth_value"), code[known]), index=item_ids[known], name="truth")
    if "pattern_index" in observed:
        code = observed["pattern_index"].to_numpy()
        names = ids(tree, "pattern").rename(None)
        patterns = pd.Series(pd.Categorical.from_codes(code, names), index=item_ids, name="pattern")
    return CrowdLabels.from_codes(
        item_code=observed["item_index"].to_numpy(),
        worker_code=observed["worker_index"].to_numpy(),
        label_code=observed["label_index"].to_numpy(),
        items=item_ids,
        workers=ids(tree, "worker"),
        classes=ids(tree, "class"),
        label_values=ids(tree, "label"),
        weight=observed["weight"].to_numpy() if "weight" in observed else None,
        gold_code=observed["gold_index"].to_numpy(),
        truth=truth,
        patterns=patterns,
        ordered=bool(tree.attrs["ordered"]),
        notes=tuple(tree.attrs["label_notes"]),
    )


def class_path(model: type[Model]) -> str:
    """Name a model class so that it can be found again.

    Parameters
    ----------
    model : type
        The class.

    Returns
    -------
    str
        ``module:qualified name``.
    """
    return f"{model.__module__}:{model.__qualname__}"


def title(tree: xr.DataTree) -> str:
    """Name what was fitted, and how.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    str
        Model and engine; the method alone where it assumes no model.
    """
    engine = str(tree.attrs["engine"])
    return f"{tree.attrs['model']} by {engine}" if tree.attrs["model_class"] else engine


_SEEN: dict[str, type[Model]] = {}


def remember(model: type[Model]) -> None:
    """Keep a model class that this process fitted, so that `model_of` finds classes defined inside functions too.

    Parameters
    ----------
    model : type
        The class.
    """
    _SEEN[class_path(model)] = model


def model_of(tree: xr.DataTree) -> Model:
    """Rebuild the model that was fitted, priors included.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    ModelError
        Where its class is neither one of ours nor known to this process, or the method assumes no model.
    """
    name, path = str(tree.attrs["model"]), str(tree.attrs["model_class"])
    if not path:
        raise ModelError(
            f"{tree.attrs['engine']} gives classes without a probability model of the labels; for what needs one, fit "
            "a model: bc.fit(labels)"
        )
    module, _, qualified = path.partition(":")
    found = _SEEN.get(path)
    if found is None and name in model_names() and class_path(get_model(name)) == path:
        found = get_model(name)
    if found is None:
        # Only modules that are already imported: a file must not decide what code runs.
        here: Any = sys.modules.get(module)
        for part in qualified.split("."):
            here = getattr(here, part, None)
        found = here if isinstance(here, type) and issubclass(here, Model) else None
    if found is None:
        raise ModelError(
            f"this result was fitted with model {name!r}, class {qualified!r} of module {module!r}, which is not known "
            f"here: import that module first, then ask again"
        )
    return found.from_description(json_attribute(tree, "model_description"))


def _take(values: pd.Index, codes: np.ndarray) -> Any:
    return values.take(codes).to_numpy() if values.dtype == object else values.take(codes)
