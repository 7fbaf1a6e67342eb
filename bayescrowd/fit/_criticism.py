"""The part of `Fit` that criticises: can the result be believed, how does it compare, what does it miss."""

from typing import TYPE_CHECKING

import xarray as xr

if TYPE_CHECKING:
    from bayescrowd.criticism.report import Diagnosis

__all__ = ["Criticism"]


class Criticism:
    """What speaks for a result and what against it; everything heavy is imported where it is asked for."""

    __slots__ = ()

    _tree: xr.DataTree

    def diagnose(self, *, random_start: bool = True) -> "Diagnosis":
        """Say in plain words whether the result can be trusted, and what to do where it cannot.

        Parameters
        ----------
        random_start : bool
            Also see whether one random start of engine ``"vb"`` finds the mode that this result is in. Left out for
            large tables, and for models that this engine does not fit.

        Returns
        -------
        Diagnosis
            Print it, or read its fields and findings.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> print(bc.fit(bc.datasets.load("anesthesia")).diagnose().headline)
        dawid-skene by collapsed-vi on 315 labels (45 items, 5 workers, 4 classes): converged.
        """
        from bayescrowd.criticism.convergence import diagnose

        return diagnose(self._tree, random_start=random_start)
