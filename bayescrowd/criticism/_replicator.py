"""Draws of classes, difficulties and labels from any model, through its contract."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import ModelError
from bayescrowd.inference.base import sizes_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.model import At, Model, Sizes

__all__ = ["Replicator", "Tables", "tabulate"]

_CHUNK = 2**20
"""Numbers that are computed in one go."""


class Tables(NamedTuple):
    """Probabilities that labels are drawn from.

    Parameters
    ----------
    state : array [item or 1, state]
        Prior probability of each state.
    response : array [worker, state, label - 1] or dict
        Cumulated label probabilities; the parameters where the response depends on the item.
    """

    state: np.ndarray
    response: Any


class Replicator:
    """Draws classes, difficulties and labels of a label table from a model with given parameters.

    Parameters
    ----------
    model : Model
        Any model.
    labels : CrowdLabels
        Who labels what, and gold; the labels themselves are not looked at.
    """

    def __init__(self, model: Model, labels: CrowdLabels) -> None:
        self._model, self._labels = model, labels
        self._sizes = sizes_of(labels)
        state = np.arange(model.n_levels * self._sizes.n_classes)
        self._class, self._level = state % self._sizes.n_classes, state // self._sizes.n_classes
        self.dtype = np.min_scalar_type(-max(self._sizes.n_labels, 2))

    def tables(self, parameters: Mapping[str, np.ndarray]) -> Iterator[Tables]:
        """Prepare what `draw` needs, for one set of parameters after the other.

        Parameters
        ----------
        parameters : dict
            Site -> array [draw, ...].

        Yields
        ------
        Tables
            For `draw`, any number of times.
        """
        # Axis order worker, difficulty, class: state = difficulty * n_classes + class, like everywhere.
        shape = (self._sizes.n_workers, len(self._class), self._sizes.n_labels)
        matrices: Iterable[np.ndarray | None] = repeat(None)
        if not self._model.uses_item:
            matrices = tabulate(self._model, parameters, self._sizes)
        for number, (state, matrix) in enumerate(zip(self._state_probabilities(parameters), matrices, strict=False)):
            if matrix is None:
                with double_precision():
                    response: Any = {name: jnp.asarray(value[number], float) for name, value in parameters.items()}
            else:
                response = _cumulated(np.asarray(matrix, float).reshape(shape))
            if not (np.isfinite(state).all() and (matrix is None or np.isfinite(response).all())):
                raise ModelError(
                    "the parameters of this fit are not finite numbers, so no labels can be drawn from them"
                )
            yield Tables(state, response)

    def _state_probabilities(self, parameters: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
        first = {name: value[:1] for name, value in parameters.items()}
        with double_precision():
            one = jax.eval_shape(partial(_of_states, sizes=self._sizes), self._model, _in_double(first))
        # All draws at once, but for the rare model in which every item has a prior of its own.
        for some in _chunks(parameters, one.size):
            with double_precision():
                found = np.asarray(_of_states(self._model, _in_double(some), sizes=self._sizes))
            yield from np.broadcast_to(found, (*found.shape[:2], len(self._class)))

    def draw(self, tables: Tables, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw a state for every item, and a label for every row.

        Parameters
        ----------
        tables : Tables
            From `tables`.
        random : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        label_code : int array [annotation]
            Index of each label.
        state : int array [item]
            ``difficulty * n_classes + class``; the class of gold items is their gold.
        """
        probability, response = tables
        state = self._states(probability, random)
        label = np.empty(self._labels.n_annotations, self.dtype)
        chunk = max(_CHUNK // self._sizes.n_labels, 1)
        for first in range(0, len(label), chunk):
            rows = slice(first, first + chunk)
            item, worker = self._labels.item_code[rows], self._labels.worker_code[rows]
            if isinstance(response, dict):
                table = self._respond(response, item, worker, state[item])
            else:
                table = response[worker, state[item]]
            # Inverse of the distribution function: how many labels lie wholly below a uniform number.
            label[rows] = (random.random(len(item))[:, None] >= table).sum(axis=1)
        return label, state

    def _states(self, probability: np.ndarray, random: np.random.Generator) -> np.ndarray:
        gold = self._labels.gold_code
        state = np.empty(self._sizes.n_items, np.int64)
        for known in np.unique(gold):
            rows = np.flatnonzero(gold == known)
            allowed = np.where((known < 0) | (self._class == known), probability, 0.0)
            # A point estimate may rule out the class of a gold item; its levels are then alike.
            nowhere = allowed.sum(axis=1, keepdims=True) <= 0
            allowed = np.where(nowhere, (self._class == known) | (known < 0), allowed)
            below = _cumulated(allowed)
            uniform = random.random(len(rows))
            if len(below) == 1:
                state[rows] = np.searchsorted(below[0], uniform, side="right")
            else:
                state[rows] = (uniform[:, None] >= below[rows]).sum(axis=1)
        return state

    def _respond(self, parameters: Any, item: np.ndarray, worker: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Cumulated label probabilities of rows whose response depends on the item itself."""
        with double_precision():
            found = _label_probabilities(
                self._model, parameters, item, worker, self._class[state], self._level[state], self._sizes
            )
        return _cumulated(np.asarray(found))


def tabulate(model: Model, parameters: Mapping[str, np.ndarray], sizes: Sizes) -> Iterator[np.ndarray]:
    """Tabulate confusion matrices, for one set of parameters after the other.

    Parameters
    ----------
    model : Model
        A model whose response does not depend on the item.
    parameters : dict
        Site -> array [draw, ...].
    sizes : Sizes
        Their sizes.

    Yields
    ------
    array [worker, (difficulty,) class, label]
    """
    cells = sizes.n_workers * model.n_levels * sizes.n_classes * sizes.n_labels
    for some in _chunks(parameters, cells):
        with double_precision():
            found = np.asarray(_tabulate(model, _in_double(some), sizes=sizes))
        yield from found


def _chunks(parameters: Mapping[str, np.ndarray], entries: int) -> Iterator[dict[str, np.ndarray]]:
    """Give a few draws at a time, so few that what is computed of them (entries per draw) stays small."""
    n_draws = len(next(iter(parameters.values())))
    step = max(_CHUNK // max(entries, 1), 1)
    for first in range(0, n_draws, step):
        yield {name: value[first : first + step] for name, value in parameters.items()}


@partial(jax.jit, static_argnames="sizes")
def _of_states(model: Model, draws: dict[str, Any], sizes: Sizes) -> Any:
    """Prior probabilities of the states by draw [draw, item or 1, state]."""
    state = np.arange(model.n_levels * sizes.n_classes)
    item = np.arange(sizes.n_items)[:, None]
    at = At(None, state % sizes.n_classes, state // sizes.n_classes, None, item, sizes)
    return jax.vmap(lambda one: jnp.atleast_2d(jnp.exp(model.log_state(one, at))))(draws)


@partial(jax.jit, static_argnames="sizes")
def _tabulate(model: Model, draws: dict[str, Any], sizes: Sizes) -> Any:
    return jax.vmap(lambda one: model.confusion(one, sizes))(draws)


@partial(jax.jit, static_argnames="sizes")
def _label_probabilities(
    model: Model, parameters: dict[str, Any], item: Any, worker: Any, true_class: Any, level: Any, sizes: Sizes
) -> Any:
    """P(label) of each row [row, label], given its item's class and difficulty."""
    label = np.arange(sizes.n_labels)
    at = At(worker[:, None], true_class[:, None], level[:, None], label, item[:, None], sizes)
    return jnp.broadcast_to(jnp.exp(model.log_response(parameters, at)), (item.shape[0], sizes.n_labels))


def _in_double(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: jnp.asarray(value, float) for name, value in parameters.items()}


def _cumulated(table: np.ndarray) -> np.ndarray:
    """Distribution function along the last axis, its last value (one) left out."""
    below = np.cumsum(table, axis=-1)
    return np.asarray(below[..., :-1] / below[..., -1:])
