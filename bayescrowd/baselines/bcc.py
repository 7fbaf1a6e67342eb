"""BCC, Bayesian classifier combination: Dawid and Skene's model with Dirichlet priors, by the library's own engines."""

from typing import Any

from bayescrowd.api import fit
from bayescrowd.baselines._options import check_whole, check_word
from bayescrowd.data.required import require_labels
from bayescrowd.fit import Fit
from bayescrowd.models.dawid_skene import DawidSkene
from bayescrowd.priors import Prior, diagonal

__all__ = ["bcc"]

_ENGINES = ("gibbs", "collapsed-gibbs", "vb", "collapsed-vi")
_PRIOR = diagonal(4.0, 1.0)


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
    found = fit(labels, model, engine=engine, init=init, seed=seed, **options)
    found.idata.attrs["choice"] = ["Model and priors are those of BCC (bc.baselines.bcc)."]
    return found
