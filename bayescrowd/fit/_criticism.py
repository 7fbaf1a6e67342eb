"""The part of `Fit` that criticises: can the result be believed, how does it compare, what does it miss."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

if TYPE_CHECKING:
    from bayescrowd.criticism.calibration import Calibration
    from bayescrowd.criticism.checks import PredictiveChecks
    from bayescrowd.criticism.dependence import Dependence
    from bayescrowd.criticism.kfold import KFold
    from bayescrowd.criticism.loo import Loo
    from bayescrowd.criticism.report import Diagnosis

__all__ = ["Criticism"]


class Criticism:
    """What speaks for a result and what against it; everything heavy is imported where it is asked for."""

    __slots__ = ()

    _tree: xr.DataTree

    def diagnose(self, *, random_start: bool = True, checks: "bool | PredictiveChecks" = True) -> "Diagnosis":
        """Say in plain words whether the result can be trusted, and what to do where it cannot.

        Parameters
        ----------
        random_start : bool
            Also see whether one random start of engine ``"vb"`` finds the mode that this result is in. Left out for
            large tables, and for models that this engine does not fit.
        checks : bool or PredictiveChecks
            Also compare the labels with replications by the fitted model (`predictive_checks`; left out for large
            tables), and look for workers that err together (`dependence`). What `predictive_checks` gave is taken too.

        Returns
        -------
        Diagnosis
            Print it, or read its fields and findings.

        Raises
        ------
        LabelError
            For arguments that are neither True nor False.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> print(bc.fit(bc.datasets.load("anesthesia")).diagnose().headline)
        dawid-skene by collapsed-vi on 315 labels (45 items, 5 workers, 4 classes): converged.
        """
        from bayescrowd.criticism.convergence import diagnose

        return diagnose(self._tree, random_start=random_start, checks=checks)

    def log_likelihood(self, *, by: str = "item") -> xr.DataArray:
        """Compute the log-likelihood of the labels, piece by piece, with true classes and difficulties summed out.

        Parameters
        ----------
        by : {"item", "annotation", "worker"}
            The pieces: all labels of an item; one label given the others of its item; all labels of a worker given
            those of the others.

        Returns
        -------
        DataArray [chain, draw, piece]
            Nats. Point estimates have no chains and draws.

        Raises
        ------
        LabelError
            For an unknown ``by``.
        ModelError
            For methods without a model.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> fit = bc.fit(bc.datasets.load("anesthesia"), engine="em")
        >>> round(float(fit.log_likelihood().sum()), 3)
        -192.891
        """
        from bayescrowd.criticism.likelihood import log_likelihood

        return log_likelihood(self._tree, by=by)

    def loo(self, *, by: str = "item", refit: bool = False, seed: int = 0, progress: bool | None = None) -> "Loo":
        """Estimate how well the model predicts labels that it has not seen, by leaving each piece out.

        Parameters
        ----------
        by : {"item", "annotation", "worker"}
            What is left out at a time.
        refit : bool
            Fit again without each piece for which importance sampling is not reliable (Pareto k too high), and take
            the exact value there. By worker, values with a lower k tend to be too high as well:
            ``fit.kfold(by="worker")`` is exact.
        seed : int
            Seed of the refits.
        progress : bool, optional
            Show a progress bar of the refits; by default where somebody looks.

        Returns
        -------
        Loo
            ArviZ's result (``elpd``, ``se``, ``elpd_i``, ``pareto_k``), with ``advice`` in words.

        Raises
        ------
        EngineError
            For engines without draws; `kfold` does those.

        Warns
        -----
        BayescrowdWarning
            Where Pareto k is too high for more than a tenth of the pieces, or above 1 for any. Fewer are named in
            ``advice``.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> model = bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))
        >>> fit = bc.fit(bc.datasets.load("anesthesia"), model, engine="gibbs")
        >>> -245 < fit.loo().elpd < -235
        True
        """
        from bayescrowd.criticism.loo import loo

        return loo(self._tree, by=by, refit=refit, seed=seed, progress=progress)

    def kfold(
        self, *, folds: int | None = None, by: str = "item", seed: int = 0, progress: bool | None = None
    ) -> "KFold":
        """Estimate how well the model predicts labels that it has not seen, by fitting again without each fold.

        Works for every engine that fits a model, point estimates too.

        Parameters
        ----------
        folds : int, optional
            Number of parts into which the pieces are cut at random; so many fits are made. By default 10, or as many
            as there are pieces where these are fewer.
        by : {"item", "annotation", "worker"}
            What the pieces are.
        seed : int
            Seed of the folds and of the fits.
        progress : bool, optional
            Show a progress bar; by default where somebody looks.

        Returns
        -------
        KFold
            ArviZ's result (``elpd``, ``se``, ``elpd_i``), with ``advice`` in words.

        Raises
        ------
        EngineError
            For methods that are no engine, such as majority vote.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> -270 < bc.fit(bc.datasets.load("anesthesia")).kfold(folds=3).elpd < -220
        True
        """
        from bayescrowd.criticism.kfold import kfold

        return kfold(self._tree, folds=folds, by=by, seed=seed, progress=progress)

    def posterior_predictive(self, *, draws: int = 200, seed: int = 0) -> xr.DataTree:
        """Draw labels as the fitted model would have them, for ArviZ's ``plot_ppc_*``.

        Parameters
        ----------
        draws : int
            At most so many replications of the label table, equally many of each chain.
        seed : int
            Seed of the replications.

        Returns
        -------
        DataTree
            The result with ``posterior_predictive`` {label_code (chain, draw, annotation)} and ``observed_data``
            {label_code}: ``az.plot_ppc_rootogram(tree)``, ``az.plot_ppc_dist(tree, kind="ecdf")``.

        Raises
        ------
        ModelError
            For methods without a model.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> fit = bc.fit(bc.datasets.load("anesthesia"))
        >>> "posterior_predictive" in fit.posterior_predictive(draws=20).children
        True
        """
        from bayescrowd.criticism.predictive import posterior_predictive

        return posterior_predictive(self._tree, draws=draws, seed=seed)

    def predictive_checks(
        self,
        statistics: Any = ("agreement", "splits", "shares"),
        *,
        draws: int | None = None,
        seed: int = 0,
    ) -> "PredictiveChecks":
        """Compare the labels with replications by the fitted model: what it fails to reproduce.

        Parameters
        ----------
        statistics : sequence of str or callable
            ``"agreement"`` of every pair of workers, ``"splits"`` of the votes on an item (5-4, 9-0, ...), ``"shares"``
            of the labels of every worker (most models can fit any); or functions ``f(label_code, tree)`` that give a
            number or an array.
        draws : int, optional
            How many replications, at least 20 (by default 200, up to 2000 for small tables); the smallest p-value is
            1 / (draws + 1).
        seed : int
            Seed of the replications.

        Returns
        -------
        PredictiveChecks
            Name -> check: table of observed and expected values, discrepancy and a sentence. ``p_value`` is calibrated
            (about uniform where the model is right), ``ppp`` the usual posterior predictive p-value. Print it.

        Raises
        ------
        ModelError
            For methods without a model.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> checks = bc.fit(bc.datasets.load("caries"), bc.DawidSkene()).predictive_checks()
        >>> checks["agreement"].p_value < .05
        True
        """
        from bayescrowd.criticism.checks import predictive_checks

        return predictive_checks(self._tree, statistics, draws=draws, seed=seed)

    def dependence(self, truth: Any = None, *, interval: float = 0.89, seed: int = 0) -> "Dependence":
        """Tell whether workers err together, and how many independent workers the panel is worth.

        Parameters
        ----------
        truth : Series, dict or True, optional
            Item -> true class; True takes ``labels.truth``. Without it gold is used, and without gold the labels
            alone, which bound the answer by what one assumes (``prior_driven``).
        interval : float
            Probability of the intervals.
        seed : int
            Seed of the bootstrap.

        Returns
        -------
        Dependence
            Print it; ``effective`` panel size with interval, ``pairs``, ``groups`` of workers that copy.

        Raises
        ------
        LabelError
            For items and classes of ``truth`` that the fit does not know.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> found = bc.fit(bc.datasets.load("anesthesia")).dependence()
        >>> found.prior_driven
        True
        """
        from bayescrowd.criticism.dependence import dependence

        return dependence(self._tree, truth, interval=interval, seed=seed)

    def calibration(self, truth: Any = None, *, bins: int = 10, interval: float = 0.89, seed: int = 0) -> "Calibration":
        """Score the class probabilities against known classes: whether they mean what they say.

        Parameters
        ----------
        truth : Series or mapping, optional
            Item -> class; by default ``labels.truth``. Items whose gold the fit used are left out.
        bins : int
            Number of equal-mass bins.
        interval : float
            Probability of the intervals.
        seed : int
            Seed of the resampling.

        Returns
        -------
        Calibration
            Print it; ``scores``, ``by_class``, ``curve``, ``temperature`` and ``sure_mistakes`` for programs.

        Raises
        ------
        LabelError
            Where no class is known, listing unknown items and classes.
        EngineError
            Where the fit failed and has no probabilities.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(4, 1)), n_items=200, n_workers=6)
        >>> bc.fit(crowd.labels).calibration().n_items
        200
        """
        from bayescrowd.criticism.calibration import calibration

        return calibration(self._tree, truth, bins=bins, interval=interval, seed=seed)

    def sensitivity(self, *, threshold: float = 0.05, quantities: Any = None, seed: int = 0) -> pd.DataFrame:
        """Say how much conclusions move when the prior, or the labels, count a little more or less (power-scaling).

        Parameters
        ----------
        threshold : float
            Sensitivities from here on count.
        quantities : str, list of str, or mapping, optional
            Variables of the posterior, ``"accuracy"`` (every worker), or name -> DataArray (chain, draw, ...). By
            default prevalence, level shares and the accuracy of the 20 workers with the most labels.
        seed : int
            Seed of the items' states that are drawn along.

        Returns
        -------
        DataFrame by quantity
            ``prior``, ``likelihood``, ``prior_SITE``, ``prior_noise``, ``likelihood_noise``, ``diagnosis``, ``remedy``.

        Raises
        ------
        EngineError
            For results without Markov chains, or with too few draws.
        ModelError
            For methods without a model.
        LabelError
            For unknown quantities, draws of another shape, or a threshold that is none.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> fit = bc.fit(bc.datasets.load("anesthesia"), engine="gibbs", progress=False)
        >>> fit.sensitivity().loc["prevalence[1]", "diagnosis"]
        '-'
        """
        from bayescrowd.criticism.sensitivity import sensitivity

        return sensitivity(self._tree, threshold=threshold, quantities=quantities, seed=seed)

    def report(self, path: str | Path, *, truth: Any = None, seed: int = 0) -> None:
        """Write one self-contained page: verdict, tables and pictures, for people without Python.

        Parameters
        ----------
        path : str or Path
            Name of the HTML file; an existing one is replaced.
        truth : Series or dict, optional
            Item -> true class, for the parts on calibration and on errors in common; by default ``labels.truth``
            where there is one.
        seed : int
            Seed of replications and resampling.

        Raises
        ------
        BayescrowdError
            Where the folder does not exist or cannot be written to.
        LabelError
            For a truth that is none, or that names items or classes that the fit does not have, and for a seed that is
            none; before anything is computed.
        ModuleNotFoundError
            Where the extra ``plots`` is not installed.

        Examples
        --------
        >>> import bayescrowd as bc, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> bc.fit(bc.datasets.load("anesthesia")).report(path)
        >>> path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        True
        """
        from bayescrowd.report.page import write

        write(self._tree, path, truth=truth, seed=seed)
