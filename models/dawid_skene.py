r"""Dawid-Skene: each worker has a confusion matrix of their own.

The story
---------
1. Class shares: :math:`\alpha \sim \mathrm{Dirichlet}(\gamma)`.
2. For every worker k and class t, a row of label probabilities:
   :math:`\pi^{(k)}_{t,\cdot} \sim \mathrm{Dirichlet}(\omega_{t,\cdot})`.
3. For every item i, its true class: :math:`T_i \sim \mathrm{Categorical}(\alpha)`.
4. For every annotation of item i by worker k, the label:
   :math:`L_{ik} \sim \mathrm{Categorical}(\pi^{(k)}_{T_i,\cdot})`.

====================  ====================  ======================
symbol                name in the code      dims
====================  ====================  ======================
:math:`\alpha`        ``prevalence``        class
:math:`\gamma`        ``prevalence_prior``  class
:math:`\pi`           ``confusion``         worker, class, label
:math:`\omega`        ``confusion_prior``   (worker,) class, label
:math:`T`             ``true_class``        item
:math:`L`             ``labels``            item, annotation
====================  ====================  ======================

What identifies it
------------------
The likelihood does not change when the classes are renamed. What ties a class to its name is the prior (a confusion
prior that favours the diagonal), gold items, or, for point estimates, a start from the majority vote. With a prior that
treats all labels alike every class has the same posterior probability in theory, and a sampler shows one naming of
many.

Departures from the paper
-------------------------
The 1979 paper maximises the likelihood by EM (``engine="em"``); the Dirichlet priors make the posterior proper. The
default priors favour the diagonal weakly, 1.5 against .5.

References
----------
Dawid, Skene (1979), Maximum likelihood estimation of observer error-rates using the EM algorithm, Journal of the Royal
Statistical Society C 28(1), equations (2.1) to (2.5). Kim, Ghahramani (2012), Bayesian classifier combination, AISTATS.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.model import At, Diagonal, Model, Parameters, Prior, Route, annotations, diagonal, observe_gold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DawidSkene(Model):
    """Dawid-Skene: a confusion matrix per worker, one class per item.

    Parameters
    ----------
    prevalence_prior : float or array [class]
        Dirichlet concentration (pseudo-counts) of the class shares.
    confusion_prior : Diagonal, float or array
        Dirichlet concentration of the rows of the confusion matrices: ``bc.diagonal(on, off)``, one number for all
        labels alike (then nothing names the classes), an array class x label, or worker x class x label. Past counts
        of a worker may simply be added to it.

    Examples
    --------
    The program is an ordinary NumPyro model, so NumPyro's own sampler runs it, the true classes summed out:

    >>> import jax
    >>> from numpyro.infer import MCMC, NUTS
    >>> import bayescrowd as bc
    >>> labels = bc.datasets.load("anesthesia")
    >>> mcmc = MCMC(NUTS(bc.DawidSkene().program), num_warmup=20, num_samples=10, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), labels.padded())
    >>> mcmc.get_samples()["confusion"].shape
    (10, 5, 4, 4)

    `bayescrowd.fit` adds a start in the right mode, diagnostics and probabilities of the classes:

    >>> bc.fit(labels, bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))).confusion(1).shape
    (4, 4)
    """

    prevalence_prior: Prior = 1.0
    confusion_prior: Prior = field(default=diagonal(1.5, 0.5))

    name = "dawid-skene"

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample prevalence and confusion matrices.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            ``prevalence`` [class] and ``confusion`` [worker, class, label].
        """
        prior = self.confusion_prior
        prior = prior.table(sizes.n_classes, sizes.n_labels) if isinstance(prior, Diagonal) else jnp.asarray(prior)
        shape = (sizes.n_workers, sizes.n_classes, sizes.n_labels)
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(jnp.broadcast_to(prior.astype(float), shape))
            confusion = numpyro.sample("confusion", rows, infer={"event_dims": ["label"]})
        return {"prevalence": prevalence, "confusion": confusion}

    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Give log P(label | worker, class), the logarithm of a confusion entry.

        Parameters
        ----------
        parameters : dict
            ``confusion`` [worker, class, label].
        at : At
            Workers, classes and labels.

        Returns
        -------
        array
            Of the shape that the indices broadcast to.
        """
        return jnp.log(parameters["confusion"])[at.worker, at.true_class, at.label]

    def program(self, table: PaddedLabels) -> None:
        """Tell the story above as a NumPyro function; the true classes are enumerated.

        Parameters
        ----------
        table : PaddedLabels
            Who labelled what (``labels.padded()``).
        """
        sizes = table.sizes
        parameters = self.parameters(sizes)
        with numpyro.plate("item", sizes.n_items, dim=-2):
            classes = dist.Categorical(parameters["prevalence"])
            true_class = numpyro.sample("true_class", classes, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            with annotations(table):
                every_label = jnp.arange(sizes.n_labels)
                at = At(table.worker[..., None], true_class[..., None], 0, every_label, None, sizes)
                response = dist.Categorical(logits=self.log_response(parameters, at))
                numpyro.sample("labels", response, obs=table.label)

    def routes(self, at: At) -> list[Route]:
        """Name the one way in which a label comes about: an entry of the worker's confusion matrix.

        Parameters
        ----------
        at : At
            Workers, classes and labels.

        Returns
        -------
        list of Route
            A single route.
        """
        return [Route({"confusion": (at.worker, at.true_class, at.label)})]
