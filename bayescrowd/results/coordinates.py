"""The coordinates of a result tree: ids of the user along every dim."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.model import Model, Site
from bayescrowd.results import levels
from bayescrowd.results.ids import coordinate

__all__ = ["Coordinates", "Variables"]

type Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]


class Coordinates:
    """All coordinates of a tree; hands each dataset the ones that its dims need.

    Parameters
    ----------
    labels : CrowdLabels
        What was fitted.
    model : Model
        With which model.
    sites : dict
        Its sites, for dims of their own.
    """

    def __init__(self, labels: CrowdLabels, model: Model, sites: Mapping[str, Site]) -> None:
        self.notes: list[str] = []
        self.originals: Variables = {}
        self.draw = np.arange(0)
        self._values: dict[str, np.ndarray] = {}
        for dim, ids in (
            ("item", labels.items),
            ("worker", labels.workers),
            ("class", labels.classes),
            ("label", labels.label_values),
        ):
            self.add(dim, ids)
        names = model.difficulty_names()
        self.add("difficulty", names)
        # Sites of the first levels only, such as the free ones.
        for site in sites.values():
            for dim, size in zip(site.dims, site.shape, strict=True):
                if levels.is_of_levels(dim) and dim not in self._values and size <= len(names):
                    self.add(dim, names[:size])

    def add(self, dim: str, ids: Sequence[Any] | pd.Index) -> None:
        """Add ids along a dim.

        Parameters
        ----------
        dim : str
            The dim.
        ids : sequence
            The user's ids.
        """
        made = coordinate(ids, dim)
        self._values[dim] = made.values
        if made.note is not None:
            self.notes.append(made.note)
        if made.originals is not None:
            self.originals[f"{dim}_json"] = ((dim,), made.originals)

    def dataset(self, variables: Variables, also: Sequence[str] = ()) -> xr.Dataset:
        """Put variables into a dataset with the coordinates of their dims.

        Parameters
        ----------
        variables : dict
            Name -> dims and values.
        also : sequence of str
            Further dims whose coordinates to add.

        Returns
        -------
        Dataset
        """
        lengths = {dim: size for dims, value in variables.values() for dim, size in zip(dims, value.shape, strict=True)}
        coords = {}
        for dim in [*lengths, *(dim for dim in also if dim not in lengths)]:
            values = self.draw if dim == "draw" else self._values.get(dim)
            if values is None or len(values) != lengths.get(dim, len(values)):
                values = np.arange(lengths[dim], dtype=np.int32 if dim == "annotation" else np.int64)
            coords[dim] = values
        return xr.Dataset(variables, coords=coords)
