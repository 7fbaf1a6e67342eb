"""All probability tables of a model in one flat vector, and the Dirichlet maths on it.

Every Dirichlet row and every Beta (two columns: value, complement) of every site lies in one vector of entries; a row
is a run of entries that sum to one. Mode, mean, density and draws are then one line each.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float

from bayescrowd.data.arrays import Sizes
from bayescrowd.model import Model

__all__ = [
    "TINY",
    "Tables",
    "concentration",
    "divergence",
    "draw",
    "expected_log",
    "log_density",
    "log_polya",
    "mean",
    "mode",
    "normalise",
    "tables_of",
]

TINY = 1e-300
"""Floor of a probability in float64: its logarithm is finite, and it changes no sum."""


@dataclass(frozen=True)
class Tables:
    """Where each table's entries lie in the flat vector (static, hashable).

    Parameters
    ----------
    names : tuple of str
        Sites, in order.
    kinds : tuple of str
        ``"dirichlet"`` or ``"beta"``.
    shapes : tuple of tuple of int
        Shape of each table, the column (outcome) last.
    worker_axes : tuple of int
        Axis of the workers in each table, -1 where there is none.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    worker_axes: tuple[int, ...]

    @functools.cached_property
    def offsets(self) -> dict[str, int]:
        """First entry of each table."""
        sizes = [math.prod(shape) for shape in self.shapes]
        return dict(zip(self.names, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))

    @functools.cached_property
    def row_of(self) -> np.ndarray:
        """Row of each entry, int32 [entry]."""
        rows, first = [], 0
        for shape in self.shapes:
            n_rows = math.prod(shape[:-1])
            rows.append(first + np.repeat(np.arange(n_rows), shape[-1]))
            first += n_rows
        return np.concatenate(rows).astype(np.int32)

    @functools.cached_property
    def worker_of(self) -> np.ndarray:
        """Worker of each entry, -1 where the entry belongs to no single worker, int32 [entry]."""
        workers = []
        for shape, axis in zip(self.shapes, self.worker_axes, strict=True):
            index = np.full(shape, -1, np.int32)
            if axis >= 0:
                view = [1] * len(shape)
                view[axis] = shape[axis]
                index[...] = np.arange(shape[axis], dtype=np.int32).reshape(view)
            workers.append(index.ravel())
        return np.concatenate(workers)

    @property
    def n_rows(self) -> int:
        """Number of rows of all tables together."""
        return sum(math.prod(shape[:-1]) for shape in self.shapes)

    def entries(self, name: str, index: tuple[Any, ...]) -> Any:
        """Flat position of table entries.

        Parameters
        ----------
        name : str
            Table.
        index : tuple of int array
            One index array per axis of the table, broadcasting against each other.

        Returns
        -------
        int array
            Positions in the flat vector.
        """
        shape = self.shapes[self.names.index(name)]
        flat: Any = 0
        for size, axis_index in zip(shape, index, strict=True):
            flat = flat * size + axis_index
        return flat + self.offsets[name]

    def unflatten(self, flat: Any) -> dict[str, Any]:
        """Cut flat vectors into the values of the parameter sites.

        Parameters
        ----------
        flat : array [..., entry]
            Probabilities, of NumPy or JAX.

        Returns
        -------
        dict
            Site -> value [..., *shape]; for a Beta its first column.
        """
        values: dict[str, Any] = {}
        for name, kind, shape in zip(self.names, self.kinds, self.shapes, strict=True):
            start = self.offsets[name]
            table = flat[..., start : start + math.prod(shape)].reshape(*flat.shape[:-1], *shape)
            values[name] = table[..., 0] if kind == "beta" else table
        return values

    def flatten(self, values: dict[str, Any]) -> Any:
        """Lay the values of the parameter sites out as the flat vector.

        Parameters
        ----------
        values : dict
            Site -> value.

        Returns
        -------
        array [entry]
            The inverse of `unflatten`.
        """
        parts = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            value = jnp.asarray(values[name])
            parts.append((jnp.stack([value, 1 - value], axis=-1) if kind == "beta" else value).reshape(-1))
        return jnp.concatenate(parts)


def tables_of(model: Model, sizes: Sizes) -> Tables:
    """Lay out the tables of a model.

    Parameters
    ----------
    model : Model
        A model all of whose sites are Dirichlet or Beta.
    sizes : Sizes
        Sizes of its parameters.

    Returns
    -------
    Tables
        The layout.
    """
    sites = model.sites(sizes, values=False)
    return Tables(
        names=tuple(sites),
        kinds=tuple(site.kind for site in sites.values()),
        shapes=tuple(tuple(site.concentration.shape) for site in sites.values()),
        worker_axes=tuple(site.dims.index("worker") if "worker" in site.dims else -1 for site in sites.values()),
    )


def concentration(model: Model, sizes: Sizes) -> Float[Array, " entry"]:
    """Flatten the prior concentrations of all tables.

    Parameters
    ----------
    model : Model
        A model all of whose sites are Dirichlet or Beta.
    sizes : Sizes
        Sizes of its parameters.

    Returns
    -------
    array [entry]
        Dirichlet concentrations.
    """
    return jnp.concatenate([jnp.ravel(site.concentration) for site in model.sites(sizes).values()])


def normalise(values: Float[Array, " entry"], tables: Tables, otherwise: Any) -> Float[Array, " entry"]:
    """Scale every row to sum to one; rows that sum to zero take another value.

    Parameters
    ----------
    values : array [entry]
        Non-negative numbers.
    tables : Tables
        The layout.
    otherwise : array [entry]
        Probabilities for rows without any mass.

    Returns
    -------
    array [entry]
        Probabilities.
    """
    total = jax.ops.segment_sum(values, tables.row_of, tables.n_rows, indices_are_sorted=True)[tables.row_of]
    return jnp.where(total > 0, values / jnp.where(total > 0, total, 1.0), otherwise)


def mean(alpha: Float[Array, " entry"], tables: Tables) -> Float[Array, " entry"]:
    """Mean of the Dirichlet rows.

    Parameters
    ----------
    alpha : array [entry]
        Concentrations.
    tables : Tables
        The layout.

    Returns
    -------
    array [entry]
        Probabilities.
    """
    return normalise(alpha, tables, alpha)


def mode(alpha: Float[Array, " entry"], tables: Tables, otherwise: Any) -> Float[Array, " entry"]:
    """Mode of the Dirichlet rows; concentrations must be at least 1.

    Parameters
    ----------
    alpha : array [entry]
        Concentrations.
    tables : Tables
        The layout.
    otherwise : array [entry]
        Value of flat rows (all concentrations 1), which have no single mode.

    Returns
    -------
    array [entry]
        Probabilities.
    """
    return normalise(alpha - 1.0, tables, otherwise)


def log_density(
    flat: Float[Array, " entry"], alpha: Float[Array, " entry"], tables: Tables, worker_present: Any
) -> Float[Array, ""]:
    """Log density of the Dirichlet rows, rows of padding workers left out.

    Parameters
    ----------
    flat : array [entry]
        Probabilities.
    alpha : array [entry]
        Concentrations.
    tables : Tables
        The layout.
    worker_present : bool array [worker]
        False for padding workers.

    Returns
    -------
    array []
        The sum over rows.
    """
    entry = (alpha - 1.0) * jnp.log(jnp.maximum(flat, TINY)) - gammaln(alpha)
    keep = (tables.worker_of < 0) | jnp.asarray(worker_present)[tables.worker_of]
    total = jax.ops.segment_sum(alpha, tables.row_of, tables.n_rows, indices_are_sorted=True)
    row_keep = jax.ops.segment_max(keep.astype(jnp.int32), tables.row_of, tables.n_rows, indices_are_sorted=True)
    return jnp.sum(jnp.where(keep, entry, 0.0)) + jnp.sum(jnp.where(row_keep > 0, gammaln(total), 0.0))


def draw(random: np.random.Generator, alpha: np.ndarray, tables: Tables) -> np.ndarray:
    """Draw every Dirichlet row once, on the host (NumPy's gamma is far faster than JAX's).

    Parameters
    ----------
    random : numpy.random.Generator
        Source of randomness.
    alpha : array [entry]
        Concentrations.
    tables : Tables
        The layout.

    Returns
    -------
    array [entry]
        Probabilities, floored so that no logarithm is infinite.
    """
    gamma = np.maximum(random.standard_gamma(np.asarray(alpha)), TINY)
    total = np.bincount(tables.row_of, gamma, tables.n_rows)[tables.row_of]
    return np.maximum(gamma / total, TINY)


def expected_log(alpha: Float[Array, " entry"], tables: Tables) -> Float[Array, " entry"]:
    """Give the expected logarithm of every entry under the Dirichlet rows.

    Parameters
    ----------
    alpha : array [entry]
        Concentrations.
    tables : Tables
        The layout.

    Returns
    -------
    array [entry]
        ``digamma(alpha) - digamma(sum of the row)``.
    """
    total = jax.ops.segment_sum(alpha, tables.row_of, tables.n_rows, indices_are_sorted=True)
    return digamma(alpha) - digamma(total)[tables.row_of]


def log_polya(alpha: Float[Array, " entry"], counts: Float[Array, " entry"], tables: Tables) -> Float[Array, ""]:
    """Log probability of counts with the Dirichlet rows integrated out (no multinomial coefficients).

    Parameters
    ----------
    alpha : array [entry]
        Concentrations of the prior.
    counts : array [entry]
        How often each entry was used.
    tables : Tables
        The layout.

    Returns
    -------
    array []
        The sum over rows; rows without counts add nothing.
    """
    total = jax.ops.segment_sum(jnp.stack([alpha, counts], 1), tables.row_of, tables.n_rows, indices_are_sorted=True)
    entries = gammaln(alpha + counts) - gammaln(alpha)
    return jnp.sum(entries) + jnp.sum(gammaln(total[:, 0]) - gammaln(total.sum(1)))


def divergence(alpha: Float[Array, " entry"], prior: Float[Array, " entry"], tables: Tables) -> Float[Array, ""]:
    """Kullback-Leibler divergence of Dirichlet rows from their priors.

    Parameters
    ----------
    alpha : array [entry]
        Concentrations.
    prior : array [entry]
        Concentrations of the priors.
    tables : Tables
        The layout.

    Returns
    -------
    array []
        The sum over rows; rows equal to their priors add nothing.
    """
    total = jax.ops.segment_sum(jnp.stack([alpha, prior], 1), tables.row_of, tables.n_rows, indices_are_sorted=True)
    entries = gammaln(prior) - gammaln(alpha) + (alpha - prior) * expected_log(alpha, tables)
    return jnp.sum(entries) + jnp.sum(gammaln(total[:, 0]) - gammaln(total[:, 1]))
