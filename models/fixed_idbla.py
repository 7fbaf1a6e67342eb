r"""Fixed-IDBLA: IDBLA whose easiest and hardest level are given, so that the levels have a meaning.

The story
---------
1. Class shares: :math:`\alpha \sim \mathrm{Dirichlet}(\gamma_\alpha)`.
2. Shares of the difficulty levels: :math:`\beta \sim \mathrm{Dirichlet}(\gamma_\beta)`. The levels are ``free1``, ...,
   ``easy``, ``hard``: H of them, H - 2 free.
3. For every worker k, *free* level h and class t, a row of label probabilities:
   :math:`\pi^{(k,h)}_{t,\cdot} \sim \mathrm{Dirichlet}(\omega_{h,t,\cdot})`. On the other two levels everybody alike is
   wrong with a given probability, e = :math:`\nu` (easy) or :math:`\delta` (hard), all wrong labels alike:
   :math:`\pi_{t,t} = 1 - e`, :math:`\pi_{t,c} = e / (L - 1)` for the other L - 1 labels c.
4. For every item i, its true class :math:`T_i \sim \mathrm{Categorical}(\alpha)` and its difficulty
   :math:`Q_i \sim \mathrm{Categorical}(\beta)`.
5. For every annotation of item i by worker k, the label:
   :math:`L_{ik} \sim \mathrm{Categorical}(\pi^{(k,Q_i)}_{T_i,\cdot})`.

====================== ========================== =========================================
symbol                 name in the code           dims
====================== ========================== =========================================
:math:`\alpha`         ``prevalence``             class
:math:`\gamma_\alpha`  ``prevalence_prior``       class
:math:`\beta`          ``difficulty_prevalence``  difficulty
:math:`\gamma_\beta`   ``difficulty_prior``       difficulty
:math:`\pi`, free      ``free_confusion``         worker, free_difficulty, class, label
:math:`\omega`         ``confusion_prior``        (worker,) (free_difficulty,) class, label
:math:`\nu`            ``easy_error``
:math:`\delta`         ``hard_error``
:math:`T`              ``true_class``             item
:math:`Q`              ``item_difficulty``        item
:math:`L`              ``labels``                 item, annotation
====================== ========================== =========================================

Results hold ``confusion`` of every level, the fixed ones included.

What identifies it
------------------
The easy level names the classes: a label there is right with probability :math:`1 - \nu`. So even with symmetric priors
the classes cannot swap names altogether. A free level may still permute its own classes against the others (the
prevalence reacts weakly), and several free levels may swap names: of the :math:`(C!)^H` nearly equal modes of `IDBLA`
:math:`(C!)^{H-2}` remain, times (H - 2)!. The default prior, which favours the diagonal, and the start
``init="ability"`` lead to the mode that a reader expects. With a hard level of pure guessing,
:math:`\delta = (C - 1) / C`, a label on a hard item tells nothing; with a larger one a label is evidence *against*
itself (of two classes it names the other), which is rarely meant: a warning says so.

Departures from the paper
-------------------------
The paper leaves :math:`\nu` and :math:`\delta` open ("very low correct rate" on hard items); here .1 and pure guessing.
It also leaves open what becomes of the integrals over the fixed matrices in the collapsed methods: they contribute
their given probabilities, and no counts.

References
----------
Generative models for learning from crowds, arXiv:1706.03930, the paragraph on fixed difficulty levels.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.errors import BayescrowdWarning, ModelError, problems_message
from bayescrowd.model import At, Diagonal, Model, Parameters, Prior, Route, annotations, diagonal, observe_gold


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FixedIDBLA(Model):
    """Fixed-IDBLA: free difficulty levels beside an easy and a hard one with given error rates.

    Parameters
    ----------
    prevalence_prior : float or array [class]
        Dirichlet concentration (pseudo-counts) of the class shares.
    difficulty_prior : float or array [difficulty]
        Dirichlet concentration of the shares of the levels, in the order free levels, easy, hard.
    confusion_prior : Diagonal, float or array
        Dirichlet concentration of the rows of the free levels' confusion matrices: ``bc.diagonal(on, off)``, one number
        for all labels alike (the paper's choice), or an array class x label, free level x class x label or worker x
        free level x class x label.
    easy_error : float
        Probability that a label on an easy item is wrong.
    hard_error : float, optional
        The same on a hard item; by default pure guessing: all labels alike, (C - 1) / C for as many labels as classes.
    n_levels : int
        Number of levels, at least 3.

    Examples
    --------
    The program is an ordinary NumPyro model, so NumPyro's own sampler runs it, classes and levels summed out:

    >>> import jax
    >>> from numpyro.infer import MCMC, NUTS
    >>> import bayescrowd as bc
    >>> labels = bc.datasets.load("anesthesia")
    >>> mcmc = MCMC(NUTS(bc.FixedIDBLA().program), num_warmup=5, num_samples=5, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), labels.padded())
    >>> mcmc.get_samples()["difficulty_prevalence"].shape
    (5, 3)

    `bayescrowd.fit` adds a start in the right mode, diagnostics and probabilities of classes and levels:

    >>> fit = bc.fit(labels, bc.FixedIDBLA(easy_error=0.05), engine="vb")
    >>> fit.confusion(1, difficulty="easy").round(4).loc[2].tolist()
    [0.0167, 0.95, 0.0167, 0.0167]
    """

    prevalence_prior: Prior = 1.0
    difficulty_prior: Prior = 1.0
    confusion_prior: Prior = field(default=diagonal(1.5, 0.5))
    easy_error: Any = 0.1
    hard_error: Any = None
    n_levels: int = field(default=3, metadata={"static": True})

    name = "fixed-idbla"

    def check(self, sizes: Sizes) -> None:
        """Check number of levels, error rates and priors against the data's sizes.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Raises
        ------
        ModelError
            Listing what does not fit.

        Warns
        -----
        BayescrowdWarning
            Where a label on a hard item would be evidence against itself.
        """
        problems = []
        n_levels: Any = self.n_levels
        if not isinstance(n_levels, int) or isinstance(n_levels, bool) or n_levels < 3:
            problems.append(
                f"n_levels must be a whole number of at least 3 (one free level, easy and hard), not {self.n_levels!r}"
                f"; for fewer levels use IDBLA"
            )
        given = {"easy_error": self.easy_error} | ({} if self.hard_error is None else {"hard_error": self.hard_error})
        for name, value in given.items():
            if value is None or np.ndim(value) or isinstance(value, str | bool) or not 0 < float(value) < 1:
                problems.append(f"{name} must be a probability between 0 and 1, not {value!r}")
        guessing = 1 - 1 / sizes.n_labels
        if not problems and sizes.n_labels > 1:
            easy, hard = float(self.easy_error), guessing if self.hard_error is None else float(self.hard_error)
            if easy >= hard:
                problems.append(f"easy_error={easy:g} must be smaller than hard_error={hard:g}")
            elif hard > guessing + 1e-9:
                warnings.warn(
                    f"hard_error={hard:g} is above {guessing:g}, the error of pure guessing among {sizes.n_labels} "
                    f"labels: on hard items a label is then evidence against its own class. Pass hard_error=None for "
                    f"pure guessing",
                    BayescrowdWarning,
                    stacklevel=2,
                )
        if problems:
            raise ModelError(problems_message(f"model {self.name!r} cannot be used", problems))
        super().check(sizes)

    def difficulty_names(self) -> list[str]:
        """Name the levels: ``free1``, ..., ``easy``, ``hard``.

        Returns
        -------
        list of str
        """
        return [*(f"free{level + 1}" for level in range(self.n_levels - 2)), "easy", "hard"]

    def levels_from_easy(self) -> list[int]:
        """List the levels from the easiest to the hardest: easy, the free ones, hard.

        Returns
        -------
        list of int
        """
        return [self.n_levels - 2, *range(self.n_levels - 2), self.n_levels - 1]

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample prevalence, shares of the levels and the confusion matrices of the free levels.

        Parameters
        ----------
        sizes : Sizes
            Numbers of items, workers, classes and label values.

        Returns
        -------
        dict
            ``prevalence`` [class], ``difficulty_prevalence`` [difficulty] and ``free_confusion`` [worker,
            free_difficulty, class, label].
        """
        prior = self.confusion_prior
        prior = prior.table(sizes.n_classes, sizes.n_labels) if isinstance(prior, Diagonal) else jnp.asarray(prior)
        shares = jnp.broadcast_to(jnp.asarray(self.prevalence_prior, float), (sizes.n_classes,))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(shares), infer={"event_dims": ["class"]})
        levels = jnp.broadcast_to(jnp.asarray(self.difficulty_prior, float), (self.n_levels,))
        of_levels = dist.Dirichlet(levels)
        difficulty_prevalence = numpyro.sample("difficulty_prevalence", of_levels, infer={"event_dims": ["difficulty"]})
        shape = (sizes.n_workers, self.n_levels - 2, sizes.n_classes, sizes.n_labels)
        rows = jnp.broadcast_to(prior.astype(float), shape)
        worker = numpyro.plate("worker", sizes.n_workers, dim=-3)
        free = numpyro.plate("free_difficulty", self.n_levels - 2, dim=-2)
        with worker, free, numpyro.plate("class", sizes.n_classes, dim=-1):
            confusion = numpyro.sample("free_confusion", dist.Dirichlet(rows), infer={"event_dims": ["label"]})
        return {
            "prevalence": prevalence,
            "difficulty_prevalence": difficulty_prevalence,
            "free_confusion": confusion,
        }

    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Give log P(label | worker, difficulty, class): an entry of a free level's matrix, or a given probability.

        Parameters
        ----------
        parameters : dict
            ``free_confusion`` [worker, free_difficulty, class, label].
        at : At
            Workers, levels, classes and labels.

        Returns
        -------
        array
            Of the shape that the indices broadcast to.
        """
        free = jnp.log(parameters["free_confusion"])[self._entry(at)]
        return jnp.where(self._is_free(at), free, self._given(at))

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
            levels = dist.Categorical(parameters["difficulty_prevalence"])
            difficulty = numpyro.sample("item_difficulty", levels, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            with annotations(table):
                every_label = jnp.arange(sizes.n_labels)
                at = At(table.worker[..., None], true_class[..., None], difficulty[..., None], every_label, None, sizes)
                response = dist.Categorical(logits=self.log_response(parameters, at))
                numpyro.sample("labels", response, obs=table.label)

    def routes(self, at: At) -> list[Route]:
        """Name the one way in which a label comes about: a free level's entry, or on fixed levels a constant.

        Parameters
        ----------
        at : At
            Workers, levels, classes and labels.

        Returns
        -------
        list of Route
            A single route, not counted on the fixed levels.
        """
        is_free = self._is_free(at)
        constant = jnp.where(is_free, 0.0, self._given(at))
        return [Route({"free_confusion": self._entry(at)}, constant, is_free)]

    def _is_free(self, at: At) -> Any:
        return at.difficulty < self.n_levels - 2

    def _entry(self, at: At) -> tuple[Any, ...]:
        return (at.worker, jnp.minimum(at.difficulty, self.n_levels - 3), at.true_class, at.label)

    def _given(self, at: At) -> Any:
        """Log probability of the label on the easy and the hard level."""
        n_labels = at.sizes.n_labels
        if n_labels == 1:
            return jnp.zeros(())
        hard = 1 - 1 / n_labels if self.hard_error is None else self.hard_error
        error = jnp.where(at.difficulty == self.n_levels - 2, self.easy_error, hard)
        return jnp.where(at.label == at.true_class, jnp.log1p(-error), jnp.log(error) - np.log(n_labels - 1))
