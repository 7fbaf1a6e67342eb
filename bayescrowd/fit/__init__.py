"""`Fit`: a thin, stateless view of one result tree."""

import html
from pathlib import Path

import xarray as xr

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import count_of
from bayescrowd.fit._answers import Answers
from bayescrowd.fit._criticism import Criticism
from bayescrowd.model import Model
from bayescrowd.results import store
from bayescrowd.results.arviz_support import let_arviz_have_a_label_axis
from bayescrowd.results.tree import json_attribute, labels_of, model_of, title
from bayescrowd.results.votes import majority_codes

__all__ = ["Fit"]


class Fit(Answers, Criticism):
    """The result of `bayescrowd.fit`: who was right, how sure one may be of it, and how good each worker is.

    Everything is computed from one `xarray.DataTree`, `idata`, which ArviZ takes as it is where the engine gave draws.

    Parameters
    ----------
    tree : DataTree
        A result tree, as `bayescrowd.fit` builds and `bayescrowd.load` reads it.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.fit(bc.datasets.load("anesthesia"))
    >>> fit  # doctest: +ELLIPSIS
    Fit of dawid-skene by collapsed-vi: 45 items, 5 workers, 4 classes, 315 labels. Converged after ... passes.
    >>> int(fit.consensus().loc[3, "class"])
    2
    """

    __slots__ = ("_tree",)

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def __getstate__(self) -> xr.DataTree:
        """For pickle."""
        return self._tree

    def __setstate__(self, state: xr.DataTree) -> None:
        """From pickle."""
        self._tree = state

    @property
    def idata(self) -> xr.DataTree:
        """The whole result as an `xarray.DataTree`, with the groups and names that ArviZ expects.

        Groups: ``posterior`` (or ``point_estimate``), ``latent``, ``log_likelihood``, ``sample_stats`` (or
        ``optimization``), ``observed_data``, ``constant_data``.

        After an engine that samples (nuts, gibbs, collapsed-gibbs) ArviZ takes it as it is. After an approximation
        (collapsed-vi, vb, svi) ``az.summary`` and plots of the draws work, for leave-one-out
        use `loo`, which weights draws of collapsed-vi and vb by the posterior, or `kfold`. A point estimate
        (em) and samplers with ``keep=0`` have no draws, so no ``posterior``: read ``point_estimate`` with xarray.
        """
        let_arviz_have_a_label_axis()
        return self._tree

    @property
    def model(self) -> Model:
        """The model that was fitted, priors included."""
        return model_of(self._tree)

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return str(self._tree.attrs["engine"])

    @property
    def settings(self) -> dict[str, object]:
        """The engine's options, defaults included."""
        settings: dict[str, object] = json_attribute(self._tree, "settings")
        return settings

    @property
    def labels(self) -> CrowdLabels:
        """The label table that was fitted."""
        return labels_of(self._tree)

    @property
    def converged(self) -> bool | None:
        """Whether the engine converged (samplers: whether the chains agree); None where that cannot be told."""
        return {"yes": True, "no": False}.get(str(self._tree.attrs["converged"]))

    @property
    def warnings(self) -> list[str]:
        """What was noticed during the fit; `diagnose` says more."""
        return list(self._tree.attrs["warnings"])

    def save(self, path: str | Path) -> None:
        """Save the result to a NetCDF file, which `bayescrowd.load` reads anywhere.

        Parameters
        ----------
        path : str or Path
            File name, e.g. ``"fit.nc"``; an existing file is replaced.

        Raises
        ------
        BayescrowdError
            Where the folder does not exist, the file cannot be written, or an id has no form in a file.

        Examples
        --------
        >>> import bayescrowd as bc, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "fit.nc")
        >>> bc.fit(bc.datasets.load("anesthesia")).save(path)
        >>> bc.load(path).engine
        'collapsed-vi'
        """
        store.save(self._tree, path)

    def __repr__(self) -> str:
        """One line: what was fitted and how it ended."""
        sizes = self._tree["observed_data"].dataset.sizes
        verdict = " NOT converged." if self.converged is False else ""
        count = len(self.warnings)
        more = f" {count} warning{'s' * (count > 1)}: see fit.warnings and fit.diagnose()." if count else ""
        return (
            f"Fit of {title(self._tree)}: {count_of(sizes['item'], 'item')}, "
            f"{count_of(sizes['worker'], 'worker')}, {count_of(sizes['class'], 'class')}, "
            f"{count_of(sizes['annotation'], 'label')}. "
            f"{self._tree.attrs['status_sentence']}{verdict}{more}"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the same with the shares of the classes and the first items."""
        table = self.consensus()
        majority, _ = majority_codes(self._tree)
        shares = self.class_probabilities().mean().rename("share of items").to_frame().T
        changed = int((table["class"].to_numpy() != table["majority"].to_numpy())[majority >= 0].sum())
        differ = f"{changed:,} of {count_of(len(table), 'item')} {'differs' if len(table) == 1 else 'differ'}"
        return (
            f"<div><p><b>{html.escape(repr(self))}</b><br>{differ} from the majority vote.</p>"
            f"{shares.round(3).to_html()}<p>First items of <code>fit.consensus()</code>:</p>"
            f"{table.head().round(3).to_html()}</div>"
        )
