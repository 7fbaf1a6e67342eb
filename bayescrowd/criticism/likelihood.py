"""Log-likelihood by item, by annotation and by worker, and the log prior: draw by draw, states summed out."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from bayescrowd.criticism._refit_pieces import by_item, by_pairs, check_by, in_chunks, lay_out, piece_of_row
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, count_of, shorten
from bayescrowd.inference import names as engine_names
from bayescrowd.kernels import density
from bayescrowd.model import Model, Sizes
from bayescrowd.results.tree import ids, json_attribute, labels_of, model_of, parameter_group, samples_of, sizes_of

__all__ = ["MAX_BYTES", "log_likelihood", "log_prior", "pieces_by_draw", "require_draws", "total_log_likelihood"]

MAX_BYTES = 512 * 2**20
"""A log-likelihood by draw and piece above this size is refused."""

_SHOWN = 5


def log_likelihood(tree: xr.DataTree, *, by: str = "item") -> xr.DataArray:
    r"""Compute the log-likelihood of the labels piece by piece, true classes and difficulties summed out.

    By item it is :math:`\log p(x_i \mid \theta)`, as sampling engines store it; a gold class counts as observed. By
    annotation it is :math:`\log p(x_n \mid \text{other labels of the item}, \theta)`, by worker the log probability of
    all labels of the worker given those of the others. A label of weight 2 counts twice. By item the pieces add up to
    the log-likelihood of the whole table; by annotation or worker they do not, and need not: taking a piece out of the
    posterior divides it by just this factor, which is what leave-one-out estimates rest on.

    Parameters
    ----------
    tree : DataTree
        A result (``fit.idata``).
    by : {"item", "annotation", "worker"}
        The pieces.

    Returns
    -------
    DataArray [chain, draw, piece]
        Nats, in float64, with the ids of the tree; without chains and draws for a point estimate.

    Raises
    ------
    LabelError
        For an unknown ``by``.
    ModelError
        For methods without a model.
    EngineError
        Where the result would not fit into memory.

    Examples
    --------
    What does each worker's set of labels weigh in the likelihood of the anaesthesia data?

    >>> import bayescrowd as bc
    >>> from bayescrowd.criticism.likelihood import log_likelihood
    >>> tree = bc.fit(bc.datasets.load("anesthesia"), engine="em").idata
    >>> log_likelihood(tree, by="worker").round(1).to_series().to_dict()
    {1: -61.3, 2: -23.6, 3: -19.9, 4: -19.8, 5: -20.5}
    >>> bool(log_likelihood(tree, by="annotation").sum() > log_likelihood(tree).sum())
    True
    """
    check_by(by)
    model = model_of(tree)
    stored = _stored(tree) if by == "item" else None
    if stored is not None:
        return stored.copy().rename("log_likelihood")
    labels = labels_of(tree)
    samples, lead = samples_of(tree, model)
    n_pieces = count_pieces(labels, by)
    _check_size(lead, n_pieces, by)
    whole = np.concatenate([np.zeros((0, n_pieces)), *pieces_by_draw(model, samples, labels, by)])
    return as_array(tree, whole.reshape(*lead, n_pieces), by, "log_likelihood")


def log_prior(tree: xr.DataTree) -> xr.DataArray:
    """Compute the log prior density of the parameter sites, draw by draw.

    Parameters
    ----------
    tree : DataTree
        A result with draws.

    Returns
    -------
    DataArray [chain, draw]
        Nats: the sum over all parameter sites of the model, as it declares them.

    Raises
    ------
    ModelError
        For methods without a model.
    EngineError
        For results without draws.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.criticism.likelihood import log_prior
    >>> log_prior(bc.fit(bc.datasets.load("anesthesia"), engine="vb", draws=50).idata).sizes["draw"]
    50
    """
    model = model_of(tree)
    require_draws(tree, "the log prior is computed from")
    samples, lead = samples_of(tree, model)
    sizes = sizes_of(tree)
    n_numbers = sum(math.prod(value.shape[1:]) for value in samples.values())
    parts = list(in_chunks(lambda part: _log_priors(model, part, sizes=sizes), samples, n_numbers))
    value = np.concatenate(parts).reshape(lead)
    return xr.DataArray(value, dims=("chain", "draw"), coords=_sample_coords(tree), name="log_prior")


def total_log_likelihood(tree: xr.DataTree, draws: slice = slice(None)) -> xr.DataArray:
    """Compute the log-likelihood of all labels together, without ever holding it by draw and item.

    Parameters
    ----------
    tree : DataTree
        A result with draws.
    draws : slice
        The draws of each chain to look at.

    Returns
    -------
    DataArray [chain, draw]
        Nats.

    Raises
    ------
    ModelError
        For methods without a model.
    EngineError
        For results without draws.
    """
    model = model_of(tree)
    require_draws(tree, "the log-likelihood of all labels is computed from")
    stored = _stored(tree)
    if stored is not None:
        return stored.isel(draw=draws).sum("item").rename("log_likelihood")
    some = tree["posterior"].to_dataset().isel(draw=draws)
    samples, lead = samples_of(tree, model)
    position = np.arange(math.prod(lead)).reshape(lead)[:, draws]
    few = {name: value[position.reshape(-1)] for name, value in samples.items()}
    total = np.concatenate([part.sum(axis=1) for part in by_item(model, few, labels_of(tree))])
    return xr.DataArray(
        total.reshape(position.shape),
        dims=("chain", "draw"),
        coords={dim: some[dim].to_numpy() for dim in ("chain", "draw")},
        name="log_likelihood",
    )


def require_draws(tree: xr.DataTree, what: str, instead: str = "") -> None:
    """Refuse results without draws of the parameters, and say how to get some.

    Parameters
    ----------
    tree : DataTree
        A result.
    what : str
        What asks, up to its verb: "leave-one-out needs".
    instead : str
        What else would do, such as "use fit.kfold(), or ".

    Raises
    ------
    EngineError
        Where there are none.
    """
    if parameter_group(tree) == "posterior":
        return
    # Samplers that keep no draws keep the standard deviations of all their sweeps.
    engine = str(tree.attrs["engine"])
    if engine not in engine_names():
        # Refits, which other remedies ask for, need an engine.
        instead = ""
        why, remedy = f"{engine} left a point estimate", "fit a model, bc.fit(labels, engine='gibbs')"
    elif "point_deviation" in tree.children or json_attribute(tree, "settings", {}).get("keep") == 0:
        why, remedy = "none were kept (keep=0)", "fit again with keep=1000"
    else:
        why, remedy = f"engine {engine!r} left a point estimate", "fit with engine='gibbs'"
    raise EngineError(f"{what} draws of the parameters, and {why}: {instead}{remedy}")


def pieces_by_draw(
    model: Model, samples: Mapping[str, np.ndarray], labels: CrowdLabels, by: str
) -> Iterator[np.ndarray]:
    """Compute the log probability of each piece given the rest, from parameters that have seen all labels.

    Parameters
    ----------
    model : Model
        Any model.
    samples : dict
        Site -> array [sample, ...].
    labels : CrowdLabels
        The label table.
    by : str
        Kind of piece.

    Yields
    ------
    array [sample, piece]
        A chunk of samples at a time.
    """
    if by == "item":
        return by_item(model, samples, labels)
    pairs = lay_out(labels, piece_of_row(labels, by), count_pieces(labels, by), left_out=False)
    return by_pairs(model, samples, pairs)


def count_pieces(labels: CrowdLabels, by: str) -> int:
    """Count the pieces of a kind.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    by : str
        Kind of piece.

    Returns
    -------
    int
        Items or workers without labels count too.
    """
    return {"item": labels.n_items, "annotation": labels.n_annotations, "worker": labels.n_workers}[by]


def as_array(tree: xr.DataTree, value: np.ndarray, by: str, name: str) -> xr.DataArray:
    """Name the axes of numbers by piece, and give them the ids of the tree.

    Parameters
    ----------
    tree : DataTree
        A result.
    value : array [piece] or [chain, draw, piece]
        The numbers.
    by : str
        Kind of piece.
    name : str
        Name of the variable.

    Returns
    -------
    DataArray
        With coordinates.
    """
    coords: dict[str, Any] = {by: tree["observed_data"].dataset[by].to_numpy()}
    if value.ndim == 1:
        return xr.DataArray(value, dims=(by,), coords=coords, name=name)
    return xr.DataArray(value, dims=("chain", "draw", by), coords=_sample_coords(tree) | coords, name=name)


def name_pieces(tree: xr.DataTree, by: str, pieces: np.ndarray) -> str:
    """List pieces by id, the first few only; an annotation by its item and worker.

    Parameters
    ----------
    tree : DataTree
        A result.
    by : str
        Kind of piece.
    pieces : int array
        Positions.

    Returns
    -------
    str
        For a sentence.
    """
    if by != "annotation":
        return shorten(ids(tree, by).take(pieces))
    observed = tree["observed_data"].dataset
    shown = pieces if len(pieces) <= _SHOWN + 1 else pieces[:_SHOWN]
    items, workers = (ids(tree, dim).take(observed[f"{dim}_index"].to_numpy()[shown]) for dim in ("item", "worker"))
    text = ", ".join(f"{item!r} by {worker!r}" for item, worker in zip(items.tolist(), workers.tolist(), strict=True))
    hidden = len(pieces) - len(shown)
    return f"{text} and {hidden} more" if hidden else text


@partial(jax.jit, static_argnames="sizes")
def _log_priors(model: Model, draws: dict[str, Any], *, sizes: Sizes) -> Any:
    return jax.lax.map(lambda parameters: density.log_prior(model, sizes, parameters), draws)


def _stored(tree: xr.DataTree) -> xr.DataArray | None:
    """Log-likelihood by draw and item as the engine left it, where it did."""
    return tree["log_likelihood"].dataset.get("labels_of_item") if "log_likelihood" in tree.children else None


def _sample_coords(tree: xr.DataTree) -> dict[str, Any]:
    posterior = tree["posterior"].dataset
    return {dim: posterior[dim].to_numpy() for dim in ("chain", "draw")}


def _check_size(lead: tuple[int, ...], n_pieces: int, by: str) -> None:
    size = 8 * math.prod(lead) * n_pieces
    if size > MAX_BYTES:
        also = "" if by == "item" else " or ask for by='item'"
        raise EngineError(
            f"the log-likelihood of {count_of(n_pieces, by)} under {count_of(math.prod(lead), 'draw')} would take "
            f"{size / 2**20:,.0f} MB, more than {MAX_BYTES / 2**20:,.0f} MB: fit again with fewer draws (draws="
            f"{max(MAX_BYTES // (8 * n_pieces * lead[0]), 1)}){also}"
        )
