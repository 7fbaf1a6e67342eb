"""The contract between a generative model and the engines: one model, one file, all engines.

A model states its continuous parameters as NumPyro sample sites (`Model.parameters`), the probability of one label
given worker, class, difficulty and item (`Model.log_response`), and, where labels come about as products of table
entries, the ways in which they do (`Model.routes`). Everything that engines need is derived from these three; nothing
is stated twice.
"""

import abc
import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.errors import ModelError, problems_message
from bayescrowd.plates import annotations, observe_gold
from bayescrowd.priors import Diagonal, Prior, diagonal, from_plain, misfits, plain, prior_problems
from bayescrowd.sites import Site, hang_together, sites_of, trace_sites

__all__ = [
    "At",
    "Diagonal",
    "Model",
    "Parameters",
    "Prior",
    "Route",
    "Site",
    "Sizes",
    "annotations",
    "diagonal",
    "observe_gold",
]

type Parameters = Mapping[str, Any]


class At(NamedTuple):
    """Where to evaluate: integer index arrays that broadcast against each other.

    Parameters
    ----------
    worker, true_class, difficulty, label, item : int array or None
        Indices; None where the caller does not vary them (``item`` for models that do not use it).
    sizes : Sizes
        Sizes of the parameters.
    """

    worker: Any
    true_class: Any
    difficulty: Any
    label: Any
    item: Any
    sizes: Sizes


class Route(NamedTuple):
    """One way in which a label can come about: a product of table entries times a constant.

    Parameters
    ----------
    cells : dict
        Name of a table -> index tuple, the column (outcome) last; an empty dict is a pure constant.
    log_constant : array
        Logarithm of the given constants (a guess rate, a fixed row).
    counted : bool array
        False where the cells take no part and only the constant counts.
    """

    cells: dict[str, tuple[Any, ...]]
    log_constant: Any = 0.0
    counted: Any = True


class Model(abc.ABC):
    """Base of every generative model.

    A model is a frozen dataclass of its priors, registered as a pytree: priors are leaves, sizes such as ``n_levels``
    are static, so that new priors reuse compiled code.
    """

    name: ClassVar[str]
    uses_item: ClassVar[bool] = False
    """True where the response depends on the item itself (not only on its class and difficulty)."""
    has_mode: ClassVar[bool] = False
    """True where a model without routes vouches that its posterior density is bounded and so has a mode."""

    n_levels: int = 1
    """Number of difficulty levels of an item; models with difficulty make it a static field."""

    @abc.abstractmethod
    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample the continuous parameters as NumPyro sites, in plates that carry the names of the dims.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            Name of each site -> its value.
        """

    @abc.abstractmethod
    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Give the log probability of a label given worker, class, difficulty and item.

        Parameters
        ----------
        parameters : dict
            Values of the parameter sites.
        at : At
            Where; ``label`` is an index like the others, not an axis.

        Returns
        -------
        array
            Log probabilities, of the shape that the indices broadcast to.
        """

    @abc.abstractmethod
    def program(self, table: PaddedLabels) -> None:
        """Tell the whole generative story as a NumPyro function that NumPyro's own engines run.

        Parameters
        ----------
        table : PaddedLabels
            Design, labels and gold; with ``label=None`` labels are simulated.
        """

    def routes(self, at: At) -> list[Route] | None:
        """Say how a label comes about as products of table entries; None where it does not.

        Parameters
        ----------
        at : At
            Where.

        Returns
        -------
        list of Route or None
            The alternatives; their probabilities add up to the exponential of `log_response`.
        """
        del at
        return None

    @property
    def has_routes(self) -> bool:
        """True where the model states its routes, and so allows closed-form updates."""
        return type(self).routes is not Model.routes

    def state_cells(self, at: At) -> dict[str, tuple[Any, ...]]:
        """Name the table entries whose product is the prior probability of an item's state.

        Parameters
        ----------
        at : At
            Class and difficulty of each state.

        Returns
        -------
        dict
            Name of a table -> index tuple.
        """
        cells: dict[str, tuple[Any, ...]] = {"prevalence": (at.true_class,)}
        if self.n_levels > 1:
            cells["difficulty_prevalence"] = (at.difficulty,)
        return cells

    def log_state(self, parameters: Parameters, at: At) -> Any:
        """Give the log prior probability of an item's state.

        Parameters
        ----------
        parameters : dict
            Values of the parameter sites.
        at : At
            Class and difficulty of each state.

        Returns
        -------
        array
            Log probabilities.
        """
        return sum(jnp.log(parameters[table])[index] for table, index in self.state_cells(at).items())

    def difficulty_names(self) -> list[str]:
        """Name the difficulty levels, easiest first where their priors are alike.

        Returns
        -------
        list of str
        """
        return [str(level + 1) for level in range(self.n_levels)]

    def levels_from_easy(self) -> list[int]:
        """List the difficulty levels from the easiest to the hardest, as starts should fill them.

        Returns
        -------
        list of int
        """
        return list(range(self.n_levels))

    def confusion(self, parameters: Parameters, sizes: Sizes) -> Any:
        """Tabulate P(label | worker, difficulty, class) from one draw of the parameters.

        Parameters
        ----------
        parameters : dict
            Values of the parameter sites.
        sizes : Sizes
            Their sizes.

        Returns
        -------
        array [worker, class, label] or [worker, difficulty, class, label]
            Rows sum to one over ``label``.

        Raises
        ------
        ModelError
            For models whose response depends on the item.
        """
        if self.uses_item:
            raise ModelError(f"model {self.name!r} has no confusion matrices: its response depends on the item")
        at = At(
            worker=np.arange(sizes.n_workers)[:, None, None, None],
            difficulty=np.arange(self.n_levels)[:, None, None],
            true_class=np.arange(sizes.n_classes)[:, None],
            label=np.arange(sizes.n_labels),
            item=None,
            sizes=sizes,
        )
        shape = (sizes.n_workers, self.n_levels, sizes.n_classes, sizes.n_labels)
        table = jnp.exp(jnp.broadcast_to(self.log_response(parameters, at), shape))
        return table if self.n_levels > 1 else table[:, 0]

    def sites(self, sizes: Sizes, *, spread: int | None = None, values: bool = True) -> dict[str, Site]:
        """Read the parameter sites, their dims and their priors off the trace of `parameters`.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.
        spread : int, optional
            Seed of the values that the sites take during the trace; without it, a neutral point of their support.
        values : bool
            False leaves the concentrations as shapes, which needs (and compiles) no arithmetic.

        Returns
        -------
        dict
            Name -> `Site`, in the order of sampling.
        """
        return sites_of(self, sizes, spread, values=values)

    def neutral_point(self, sizes: Sizes) -> dict[str, Any]:
        """Give every parameter site a neutral value of its support (even shares, zero, one).

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            Site -> value.
        """
        nodes = trace_sites(partial(self.parameters, sizes), None)
        return {name: node["value"] for name, node in nodes.items()}

    def check(self, sizes: Sizes) -> None:
        """Check the priors against the data's sizes; on the host, before any engine runs.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Raises
        ------
        ModelError
            Listing every prior that is not positive or does not fit the sizes, and every site that routes rule out.
        """
        if any(leaf is self for leaf in jax.tree.leaves(self)):
            raise ModelError(f"decorate the class {type(self).__name__} with @jax.tree_util.register_dataclass")
        problems = [text for field in _fields(self) for text in prior_problems(field.name, getattr(self, field.name))]
        problems = problems or misfits(self, sizes)
        if not problems and self.has_routes:
            problems = [
                f"site {name!r} is neither a Dirichlet nor a Beta, so the model cannot have routes"
                for name, site in self.sites(sizes, values=False).items()
                if site.kind == "other"
            ]
            if hang_together(self, sizes):
                problems += self._hanging(sizes)
        if problems:
            raise ModelError(problems_message(f"the priors of model {self.name!r} cannot be used", problems))

    def _hanging(self, sizes: Sizes) -> list[str]:
        """List the sites whose concentrations change with the values of others, not only might."""
        # What depends on what does not depend on the sizes: one small case serves (and compiles for) all.
        small = dataclasses.replace(sizes, n_items=1, n_workers=1)
        small = sizes if misfits(self, small) else small
        again = self.sites(small, spread=1)
        return [
            f"the concentration of site {name!r} depends on another site, so the model cannot have routes"
            for name, site in self.sites(small).items()
            if not np.array_equal(site.concentration, again[name].concentration)
        ]

    def describe(self) -> dict[str, Any]:
        """Write the priors and settings down as plain numbers and lists.

        Returns
        -------
        dict
            What `from_description` takes back; safe for JSON.
        """
        return {field.name: plain(getattr(self, field.name)) for field in _fields(self)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Rebuild a model from what `describe` wrote.

        Parameters
        ----------
        description : dict
            Priors and settings by name.

        Returns
        -------
        Model
            Equal to the model described.
        """
        return cls(**{name: from_plain(value) for name, value in description.items()})


def _fields(model: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(model)
