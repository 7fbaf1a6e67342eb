r"""One coin: every worker is right with a probability of their own. A skeleton to copy for a new model.

Copy this file to ``models/your_model.py``, rename the class and its ``name`` (the file's name with hyphens), change the
five parts below in their order, and run ``pytest tests/conformance -k your-model``. Nothing needs registering: the file
is found, and every engine that its parts allow runs it.

The story
---------
1. Class shares: :math:`\alpha \sim \mathrm{Dirichlet}(\gamma)`.
2. For every worker k, the probability of being right: :math:`a_k \sim \mathrm{Beta}(a, b)`.
3. For every item i, its true class: :math:`T_i \sim \mathrm{Categorical}(\alpha)`.
4. For every annotation of item i by worker k, the label is :math:`T_i` with probability :math:`a_k`, else any other
   label with equal probability.

====================  ====================  ======
symbol                name in the code      dims
====================  ====================  ======
:math:`\alpha`        ``prevalence``        class
:math:`a`             ``ability``           worker
:math:`T`             ``true_class``        item
====================  ====================  ======

What identifies it
------------------
Say here what ties the classes to their names. (In this model: a label counts for the class of the same name, as long as
the workers are better than chance on the whole, which the prior of the ability favours.)

Departures from the paper
-------------------------
Say here where the file differs from its source, and why.

References
----------
Give the paper and its equation numbers.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.model import At, Model, Parameters, Prior, Route, annotations, observe_gold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OneCoin(Model):
    """One coin: an ability per worker, one class per item.

    Parameters
    ----------
    prevalence_prior : float or array [class]
        Dirichlet concentration of the class shares.
    ability_prior : float or array [worker]
        First parameter of the Beta prior of the ability (pseudo-count of right labels); the second is 1.
    """

    # 1. The priors: fields are pytree leaves. Sizes such as n_levels are static:
    #    n_levels: int = field(default=3, metadata={"static": True})
    prevalence_prior: Prior = 1.0
    ability_prior: Prior = 2.0

    name = "one-coin"

    # 2. The continuous parameters: sample sites in plates that carry the names of the dims; infer names event dims.
    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample prevalence and abilities.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            ``prevalence`` [class] and ``ability`` [worker].
        """
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers):
            right = jnp.broadcast_to(jnp.asarray(self.ability_prior, float), (sizes.n_workers,))
            ability = numpyro.sample("ability", dist.Beta(right, 1.0))
        return {"prevalence": prevalence, "ability": ability}

    # 3. The probability of one label, stated once, in logs; `at` holds index arrays, `label` is one of them.
    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Give log P(label | worker, class).

        Parameters
        ----------
        parameters : dict
            ``ability`` [worker].
        at : At
            Workers, classes and labels.

        Returns
        -------
        array
            Of the shape that the indices broadcast to.
        """
        ability = parameters["ability"][at.worker]
        wrong = jnp.log1p(-ability) - jnp.log(max(at.sizes.n_labels - 1, 1))
        return jnp.where(at.label == at.true_class, jnp.log(ability), wrong)

    # 4. The whole story, as a program that NumPyro runs.
    def program(self, table: PaddedLabels) -> None:
        """Tell the story above as a NumPyro function; the true classes are enumerated.

        Parameters
        ----------
        table : PaddedLabels
            Who labelled what.
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

    # 5. Optional: how a label comes about as a product of table entries times a constant, for closed-form engines. A
    #    Beta is a table of two columns: its value and the complement.
    def routes(self, at: At) -> list[Route]:
        """Name the one way in which a label comes about.

        Parameters
        ----------
        at : At
            Workers, classes and labels.

        Returns
        -------
        list of Route
            A single route.
        """
        right = at.label == at.true_class
        log_constant = jnp.where(right, 0.0, -jnp.log(max(at.sizes.n_labels - 1, 1)))
        return [Route({"ability": (at.worker, jnp.where(right, 0, 1))}, log_constant)]
