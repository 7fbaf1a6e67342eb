r"""IDBLA: a worker's confusion matrix depends on the difficulty of the item.

The story
---------
1. Class shares: :math:`\alpha \sim \mathrm{Dirichlet}(\gamma_\alpha)`.
2. Shares of the difficulty levels: :math:`\beta \sim \mathrm{Dirichlet}(\gamma_\beta)`.
3. For every worker k, level h and class t, a row of label probabilities:
   :math:`\pi^{(k,h)}_{t,\cdot} \sim \mathrm{Dirichlet}(\omega_{h,t,\cdot})`.
4. For every item i, its true class :math:`T_i \sim \mathrm{Categorical}(\alpha)` and its difficulty
   :math:`Q_i \sim \mathrm{Categorical}(\beta)`.
5. For every annotation of item i by worker k, the label:
   :math:`L_{ik} \sim \mathrm{Categorical}(\pi^{(k,Q_i)}_{T_i,\cdot})`.

====================== ========================== ====================================
symbol                 name in the code           dims
====================== ========================== ====================================
:math:`\alpha`         ``prevalence``             class
:math:`\gamma_\alpha`  ``prevalence_prior``       class
:math:`\beta`          ``difficulty_prevalence``  difficulty
:math:`\gamma_\beta`   ``difficulty_prior``       difficulty
:math:`\pi`            ``confusion``              worker, difficulty, class, label
:math:`\omega`         ``confusion_prior``        (worker,) (difficulty,) class, label
:math:`T`              ``true_class``             item
:math:`Q`              ``item_difficulty``        item
:math:`L`              ``labels``                 item, annotation
====================== ========================== ====================================

What identifies it
------------------
Levels share labels only through the class shares. Renaming the classes of the items of one level, and the rows of that
level's confusion matrices with them, leaves P(labels | classes, levels) exactly as it was; only the prior of the
prevalence reacts, and weakly. So with symmetric priors there are :math:`(C!)^H` nearly equal modes, times :math:`H!`
for the names of the levels. What tells them apart is a confusion prior that favours the diagonal (the default), gold,
or fixed levels (`FixedIDBLA`); a start from the majority vote and from estimated difficulty (``init="ability"``, the
default here) leads to the mode that a reader expects. `Fit.diagnose` looks for levels whose classes are permuted.
Levels with equal priors have no names of their own: in results they are ordered easiest first.

Departures from the paper
-------------------------
The paper's priors are symmetric; ``confusion_prior=1.0`` gives them back. Here they favour the diagonal weakly, 1.5
against .5. Of the paper's inference: both latents of an item are drawn (or approximated) together rather than one after
the other, and the expectations of its collapsed variational method, which mix up what does and does not depend on the
item's own class, are replaced by exact ones (`bayescrowd.inference`, engine ``"collapsed-vi"``). With
``n_levels=1`` the model is exactly Dawid-Skene.

References
----------
Generative models for learning from crowds, arXiv:1706.03930: the model, equations (2) and (3); Gibbs sampling, (4) and
(5); collapsed Gibbs sampling, (14) to (16); collapsed variational inference, (17) to (23).
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.errors import ModelError
from bayescrowd.model import At, Diagonal, Model, Parameters, Prior, Route, annotations, diagonal, observe_gold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IDBLA(Model):
    """IDBLA: a confusion matrix per worker and difficulty level, one class and one level per item.

    Parameters
    ----------
    prevalence_prior : float or array [class]
        Dirichlet concentration (pseudo-counts) of the class shares.
    difficulty_prior : float or array [difficulty]
        Dirichlet concentration of the shares of the levels.
    confusion_prior : Diagonal, float or array
        Dirichlet concentration of the rows of the confusion matrices: ``bc.diagonal(on, off)``, one number for all
        labels alike (the paper's choice; then nothing names classes and levels), or an array class x label,
        difficulty x class x label or worker x difficulty x class x label.
    n_levels : int
        Number of difficulty levels; 1 is Dawid-Skene.

    Examples
    --------
    The program is an ordinary NumPyro model, so NumPyro's own sampler runs it, classes and levels summed out:

    >>> import jax
    >>> from numpyro.infer import MCMC, NUTS
    >>> import bayescrowd as bc
    >>> labels = bc.datasets.load("anesthesia")
    >>> mcmc = MCMC(NUTS(bc.IDBLA(n_levels=2).program), num_warmup=5, num_samples=5, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), labels.padded())
    >>> mcmc.get_samples()["confusion"].shape
    (5, 5, 2, 4, 4)

    `bayescrowd.fit` adds a start in the right mode, diagnostics and probabilities of classes and levels:

    >>> bc.fit(labels, bc.IDBLA(n_levels=2), engine="vb").items().shape[0]
    45
    """

    prevalence_prior: Prior = 1.0
    difficulty_prior: Prior = 1.0
    confusion_prior: Prior = field(default=diagonal(1.5, 0.5))
    n_levels: int = field(default=3, metadata={"static": True})

    name = "idbla"

    def check(self, sizes: Sizes) -> None:
        """Check number of levels and priors against the data's sizes.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Raises
        ------
        ModelError
            Where something does not fit.
        """
        n_levels: Any = self.n_levels
        if not isinstance(n_levels, int) or isinstance(n_levels, bool) or n_levels < 1:
            raise ModelError(f"n_levels must be a whole number of at least 1, not {self.n_levels!r}")
        super().check(sizes)

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample prevalence, shares of the levels and confusion matrices.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            ``prevalence`` [class], ``difficulty_prevalence`` [difficulty] and ``confusion`` [worker, difficulty, class,
            label]; with one level as in Dawid-Skene.
        """
        prior = self.confusion_prior
        prior = prior.table(sizes.n_classes, sizes.n_labels) if isinstance(prior, Diagonal) else jnp.asarray(prior)
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        levels = jnp.broadcast_to(jnp.asarray(self.difficulty_prior, float), (self.n_levels,))
        values = {"prevalence": numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})}
        if self.n_levels == 1:
            rows = jnp.broadcast_to(prior.astype(float), (sizes.n_workers, sizes.n_classes, sizes.n_labels))
            with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
                confusion = numpyro.sample("confusion", dist.Dirichlet(rows), infer={"event_dims": ["label"]})
            return values | {"confusion": confusion}
        values["difficulty_prevalence"] = numpyro.sample(
            "difficulty_prevalence", dist.Dirichlet(levels), infer={"event_dims": ["difficulty"]}
        )
        shape = (sizes.n_workers, self.n_levels, sizes.n_classes, sizes.n_labels)
        rows = jnp.broadcast_to(prior.astype(float), shape)
        worker = numpyro.plate("worker", sizes.n_workers, dim=-3)
        difficulty = numpyro.plate("difficulty", self.n_levels, dim=-2)
        with worker, difficulty, numpyro.plate("class", sizes.n_classes, dim=-1):
            values["confusion"] = numpyro.sample("confusion", dist.Dirichlet(rows), infer={"event_dims": ["label"]})
        return values

    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Give log P(label | worker, difficulty, class), the logarithm of a confusion entry.

        Parameters
        ----------
        parameters : dict
            ``confusion`` [worker, difficulty, class, label].
        at : At
            Workers, levels, classes and labels.

        Returns
        -------
        array
            Of the shape that the indices broadcast to.
        """
        return jnp.log(parameters["confusion"])[self._entry(at)]

    def program(self, table: PaddedLabels) -> None:
        """Tell the story above as a NumPyro function; classes and levels of the items are enumerated.

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
            levels = dist.Categorical(parameters.get("difficulty_prevalence", jnp.ones(1)))
            difficulty = numpyro.sample("item_difficulty", levels, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            with annotations(table):
                every_label = jnp.arange(sizes.n_labels)
                at = At(table.worker[..., None], true_class[..., None], difficulty[..., None], every_label, None, sizes)
                response = dist.Categorical(logits=self.log_response(parameters, at))
                numpyro.sample("labels", response, obs=table.label)

    def routes(self, at: At) -> list[Route]:
        """Name the one way in which a label comes about: an entry of the worker's confusion matrix for the level.

        Parameters
        ----------
        at : At
            Workers, levels, classes and labels.

        Returns
        -------
        list of Route
            A single route.
        """
        return [Route({"confusion": self._entry(at)})]

    def _entry(self, at: At) -> tuple[Any, ...]:
        if self.n_levels == 1:
            return (at.worker, at.true_class, at.label)
        return (at.worker, at.difficulty, at.true_class, at.label)
