"""BCC, Bayesian classifier combination: Dawid and Skene's model with Dirichlet priors, by the library's own engines."""

import time
import warnings
from pathlib import Path
from typing import Any

import xarray as xr

from bayescrowd.baselines._options import check_whole, check_word
from bayescrowd.choice import choose
from bayescrowd.criticism.convergence import diagnose, vanished_classes
from bayescrowd.criticism.evidence import silent_classes
from bayescrowd.data.required import require_labels
from bayescrowd.errors import ConvergenceWarning
from bayescrowd.fit import Fit
from bayescrowd.inference.base import Job, sizes_of
from bayescrowd.inference.progress import reporter
from bayescrowd.inference.starts import resolve
from bayescrowd.kernels.precision import double_precision
from bayescrowd.models.dawid_skene import DawidSkene
from bayescrowd.priors import Prior, diagonal
from bayescrowd.results.build import build_tree
from bayescrowd.results.tree import has_chains, title

__all__ = ["bcc"]

_ENGINES = ("gibbs", "collapsed-gibbs", "vb", "collapsed-vi")
_PRIOR = diagonal(4.0, 1.0)
_PACKAGE = str(Path(__file__).parents[1])


def bcc(
    labels: Any,
    *,
    engine: str = "gibbs",
    confusion_prior: Prior = _PRIOR,
    prevalence_prior: Prior = 1.0,
    init: Any = None,
    seed: int = 0,
    **options: Any,
) -> Fit:
    r"""Combine labels by the Bayesian model of independent confusion matrices (IBCC).

    .. math:: \alpha \sim \mathrm{Dirichlet}(\gamma), \quad \pi^{(m)}_{c \cdot} \sim \mathrm{Dirichlet}(\omega_c), \quad
              T_i \sim \alpha, \quad x_{im} \sim \pi^{(m)}_{T_i \cdot} .

    This is another name for ``bc.fit(labels, bc.DawidSkene(...), engine=...)``, with the priors of a published
    implementation: four pseudo-counts on the diagonal and one elsewhere. With many classes and few labels of a worker
    that says too much of errors: on set ``web`` a concentration of 1 everywhere does better by far. Kim and Ghahramani
    draw the concentrations as well, from exponential distributions; here, as in Simpson et al., they are fixed.

    Parameters
    ----------
    labels : CrowdLabels
        The labels.
    engine : {"gibbs", "collapsed-gibbs", "vb", "collapsed-vi"}
        How to infer: as in `bayescrowd.fit`. The paper samples; iBCC-VB is ``"vb"``.
    confusion_prior : Diagonal, float or array
        Dirichlet concentration of the rows of the confusion matrices.
    prevalence_prior : float or array [class]
        Dirichlet concentration of the class shares.
    init : str, Fit or array, optional
        Start, as in `bayescrowd.fit`; by default the soft vote.
    seed : int
        Seed of all randomness.
    **options
        Options of the engine, such as ``draws=2000`` or ``moments="zero"``.

    Returns
    -------
    Fit
        Of model ``"dawid-skene"`` by that engine, with all that such a fit can do.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    ModelError
        For priors that do not fit the labels.
    EngineError
        For an engine that is none of these, and for options or a start that it cannot use.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.bcc(bc.datasets.load("anesthesia"), engine="vb")
    >>> fit.model.confusion_prior, fit.engine, fit.converged
    (Diagonal(on=4.0, off=1.0), 'vb', True)

    References
    ----------
    Kim, Ghahramani (2012), Bayesian classifier combination, AISTATS. Simpson, Roberts, Psorakis, Smith
    (2013), Dynamic Bayesian combination of multiple imperfect classifiers, for variational Bayes. Li, Rubinstein, Cohn
    (2019), Exploiting worker correlation for label aggregation in crowdsourcing, ICML, for the priors.
    """
    require_labels(labels, "baselines.bcc")
    check_word("engine", engine, _ENGINES)
    check_whole("seed", seed, 0)
    model = DawidSkene(prevalence_prior=prevalence_prior, confusion_prior=confusion_prior)
    choice = choose(model, engine=engine, seed=seed, labels=labels, **options)
    with double_precision():
        model.check(sizes_of(labels))
    begun, notes = time.perf_counter(), list[str]()
    start = resolve(init, labels, model, notes=notes)
    with reporter(None) as report:
        run = choice.engine.run(Job(model, labels, start, choice.settings, choice.seed, report))
    run = run._replace(warnings=(*notes, *run.warnings))
    tree = build_tree(labels, model, engine, choice.settings, run, choice.seed, time.perf_counter() - begun)
    tree.attrs["choice"] = ["Model and priors are those of BCC (bc.baselines.bcc)."]
    _judge(tree)
    fit = Fit(tree)
    if fit.converged is False:
        codes = ("r-hat", str(tree.attrs["status"]))
        reasons = [finding for finding in diagnose(tree).problems if finding.code in codes and finding.remedy]
        why = " ".join(f"{finding.text} Remedy: {finding.remedy}." for finding in reasons)
        sentence = f"bcc ({title(tree)}) did not converge. {why or tree.attrs['status_sentence']}"
        warnings.warn(f"{sentence} fit.diagnose() says more", ConvergenceWarning, skip_file_prefixes=(_PACKAGE,))
    return fit


def _judge(tree: xr.DataTree) -> None:
    """Say in the tree whether the chains of a sampler agree, and what is suspicious of the classes."""
    found = [finding.text for finding in vanished_classes(tree) + silent_classes(tree) if finding.severity != "note"]
    if has_chains(tree):
        diagnosis = diagnose(tree)
        tree.attrs["converged"] = {True: "yes", False: "no", None: "unknown"}[diagnosis.converged]
        found += [finding.text for finding in diagnosis.problems if finding.code != "vanished-class"]
    tree.attrs["warnings"] = [*tree.attrs["warnings"], *found]
