"""MACE: a worker either knows the class of an item or spams, with labels drawn from habit."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, digamma, gammaln

from bayescrowd.baselines._confusions import with_other_labels
from bayescrowd.baselines._options import check_number, check_whole, check_word
from bayescrowd.baselines._passes import TINY, Padded, classes_given, padded
from bayescrowd.baselines._result import Found, begin, finish, votes_of
from bayescrowd.fit import Fit
from bayescrowd.kernels.precision import double_precision

__all__ = ["mace"]

_AT_ONCE = 400_000
"""Most votes times starts that are worked on at the same time."""


def mace(
    labels: Any,
    *,
    method: str = "vb",
    alpha: float = 0.5,
    beta: float = 0.5,
    strategy_prior: float = 10.0,
    smoothing: float = 0.01,
    restarts: int = 10,
    passes: int = 50,
    seed: int = 0,
) -> Fit:
    r"""Estimate how far each worker can be trusted, and what those who spam say.

    Of each item a worker knows the class with probability :math:`\theta_m`, and else answers without looking, by a
    habit :math:`\xi_m`; all classes are equally frequent:

    .. math:: P(x_{im} = a \mid T_i = c) = \theta_m 1(a = c) + (1 - \theta_m) \xi_{ma} .

    A pass finds the probabilities of the classes, and of each label having been known,

    .. math:: q_i(c) \propto \prod_m P(x_{im} \mid c), \qquad
              k_{im} = q_i(x_{im}) \frac{\theta_m}{\theta_m + (1 - \theta_m) \xi_{m x_{im}}},

    and from them the parameters: ``method="em"`` takes expected shares, ``"vb"`` the distributions
    :math:`\theta_m \sim \mathrm{Beta}(\alpha + \sum_i k_{im}, \beta + \sum_i (1 - k_{im}))` and
    :math:`\xi_m \sim \mathrm{Dirichlet}`, whose expected logarithms (digamma functions) stand for the parameters in the
    next pass. The prior :math:`\mathrm{Beta}(1/2, 1/2)` favours workers who are either trusted or not. Of all starts
    the one with the best objective is kept: the lower bound of the evidence, or the likelihood with the part of the
    smoothing. Neither ever falls.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of votes. Labels that are no class are left out.
    method : {"vb", "em"}
        Variational Bayes or expectation maximisation.
    alpha, beta : float
        The Beta prior of trust, for ``"vb"``.
    strategy_prior : float
        Dirichlet concentration of each label in a habit, for ``"vb"``.
    smoothing : float
        Pseudo-count of each kind of label in ``"em"``, times the number of classes.
    restarts : int
        Number of random starts.
    passes : int
        Passes of each.
    seed : int
        Seed of the starts.

    Returns
    -------
    Fit
        With confusion matrices, :math:`\theta_m I + (1 - \theta_m) 1 \xi_m^\top`, equal prevalence, and ``trust`` of
        the workers (:math:`\theta_m`) beside them in ``idata["point_estimate"]``; of VB they are posterior means. A
        worker's accuracy is :math:`\theta_m + (1 - \theta_m) / C`.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, or no label is a class.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.mace(bc.datasets.load("anesthesia"))
    >>> fit.idata["point_estimate"]["trust"].values.round(2).tolist()
    [0.83, 0.62, 0.74, 0.81, 0.76]

    References
    ----------
    Hovy, Berg-Kirkpatrick, Vaswani, Hovy (2013), Learning whom to trust with MACE, NAACL-HLT. The defaults are those of
    crowd-kit's ``MACE``: 10 starts of 50 passes, a prior of 10 for each label of a habit, smoothing .01 / C. Published
    programs choose between starts by the labels' likelihood; this is the bound itself.
    """
    priors = {"alpha": alpha, "beta": beta, "strategy_prior": strategy_prior}
    call = begin(
        "mace", labels, method=method, **priors, smoothing=smoothing, restarts=restarts, passes=passes, seed=seed
    )
    check_word("method", method, ("vb", "em"))
    for name, value in priors.items():
        check_number(name, value)
    check_number("smoothing", smoothing, positive=False)
    check_whole("restarts", restarts, 1)
    check_whole("passes", passes, 1)
    check_whole("seed", seed, 0)
    votes = votes_of(call)
    prior = _Prior(float(alpha), float(beta), float(strategy_prior), float(smoothing) / votes.n_classes)
    with double_precision():
        laid = padded(votes)
        run = _run(
            laid,
            _starts(laid, votes.n_workers, int(restarts), int(seed)),
            prior,
            int(passes),
            variational=method == "vb",
            at_once=max(1, min(int(restarts), _AT_ONCE // len(laid.item))),
        )
        objective, best, trust, habit, probability, change = (np.asarray(value) for value in run)
    trust, habit = trust[: votes.n_workers], habit[: votes.n_workers]
    by_habit = ((1 - trust)[:, None] * habit)[:, None, :]
    confusion = trust[:, None, None] * np.eye(votes.n_classes) + by_habit
    found = Found(
        probability[: votes.n_items],
        confusion=with_other_labels(confusion, len(labels.label_values)),
        prevalence=np.full(votes.n_classes, 1 / votes.n_classes),
        by_worker={"trust": trust},
        objective=objective[best],
        sentence=(
            f"Ended after {passes} passes from each of {restarts} starts, as asked for; the last pass of the best "
            f"changed class probabilities by up to {change:.2g}."
        ),
        details={"objective_of_start": objective[:, -1].tolist(), "last_change": float(change)},
    )
    return finish(call, found)


class _Prior(NamedTuple):
    alpha: Any
    beta: Any
    strategy: Any
    smoothing: Any


class _Counts(NamedTuple):
    """Expected numbers of labels that were known [worker], and that were spam [worker, label]."""

    known: Any
    spam: Any


class _Terms(NamedTuple):
    """What stands for the logarithms of the parameters in a pass, and the part of the objective that goes with it."""

    log_trust: Any
    log_distrust: Any
    log_habit: Any
    objective: Any


class _Found(NamedTuple):
    """Objectives of all starts [start, pass], and what the best one found."""

    objective: Any
    best: Any
    trust: Any
    habit: Any
    probability: Any
    change: Any


def _starts(votes: Padded, n_workers: int, n_starts: int, seed: int) -> _Counts:
    """Draw shares of known labels and habits, near enough to even for classes to keep their names."""
    random = np.random.default_rng(seed)
    n_padded, n_classes = len(votes.n_votes), len(votes.class_share)
    share = np.full((n_starts, n_padded), 0.5)
    habit = np.ones((n_starts, n_padded, n_classes))
    share[:, :n_workers] = random.uniform(0.3, 0.7, (n_starts, n_workers))
    habit[:, :n_workers] = random.uniform(1.0, 2.5, (n_starts, n_workers, n_classes))
    habit /= habit.sum(axis=2, keepdims=True)
    known = share * votes.n_votes
    return _Counts(known, (votes.n_votes - known)[:, :, None] * habit)


def _variational(counts: _Counts, prior: _Prior) -> _Terms:
    """Take expected logarithms; the objective's part is minus the divergence of the distributions from the priors."""
    spam = jnp.sum(counts.spam, axis=1)
    n_classes = counts.spam.shape[1]
    a, b, c = prior.alpha + counts.known, prior.beta + spam, prior.strategy + counts.spam
    total, total_c = digamma(a + b), digamma(jnp.sum(c, axis=1))
    log_trust, log_distrust = digamma(a) - total, digamma(b) - total
    log_habit = digamma(c) - total_c[:, None]
    divergence = betaln(prior.alpha, prior.beta) - betaln(a, b) + counts.known * log_trust + spam * log_distrust
    divergence += gammaln(jnp.sum(c, axis=1)) - jnp.sum(gammaln(c), axis=1)
    divergence += n_classes * gammaln(prior.strategy) - gammaln(n_classes * prior.strategy)
    divergence += jnp.sum(counts.spam * log_habit, axis=1)
    return _Terms(log_trust, log_distrust, log_habit, -jnp.sum(divergence))


def _maximising(counts: _Counts, prior: _Prior) -> _Terms:
    """Take logarithms of smoothed shares; the objective's part is the pseudo-counts' likelihood."""
    trust, habit = _shares(counts, _Prior(prior.smoothing, prior.smoothing, prior.smoothing, 0.0))
    log_trust, log_distrust, log_habit = (jnp.log(jnp.maximum(value, TINY)) for value in (trust, 1 - trust, habit))
    voted = counts.known + jnp.sum(counts.spam, axis=1) > 0
    of_worker = jnp.where(voted, log_trust + log_distrust + jnp.sum(log_habit, axis=1), 0.0)
    return _Terms(log_trust, log_distrust, log_habit, prior.smoothing * jnp.sum(of_worker))


def _shares(counts: _Counts, prior: _Prior) -> tuple[Any, Any]:
    """Give trust and habit as shares of the counts, the prior's added; even where there are none."""
    spam = prior.strategy + counts.spam
    total = prior.alpha + counts.known + prior.beta + jnp.sum(counts.spam, axis=1)
    total_spam = jnp.sum(spam, axis=1, keepdims=True)
    trust = jnp.where(total > 0, (prior.alpha + counts.known) / jnp.where(total > 0, total, 1.0), 0.5)
    even = 1 / spam.shape[1]
    habit = jnp.where(total_spam > 0, spam / jnp.where(total_spam > 0, total_spam, 1.0), even)
    return jnp.clip(trust, 0.0, 1.0), habit


def _counted(values: Any, votes: Padded) -> Any:
    """Add up over the votes by worker and label."""
    n_workers, n_classes = votes.n_votes.shape[0], votes.class_share.shape[0]
    cell = votes.worker * n_classes + votes.label
    return jax.ops.segment_sum(votes.weight * values, cell, n_workers * n_classes).reshape(n_workers, n_classes)


def _pass(terms: _Terms, n_labels: Any, votes: Padded) -> tuple[_Counts, Any, Any]:
    """Give expected counts, class probabilities and objective, given the terms."""
    # What a label says depends on the worker and the label alone.
    wrong = jnp.maximum(terms.log_distrust[:, None] + terms.log_habit, jnp.log(TINY))
    right = jnp.logaddexp(terms.log_trust[:, None], wrong)
    probability, total = classes_given((right - wrong)[votes.worker, votes.label], jnp.log(votes.class_share), votes)
    objective = jnp.sum(jnp.where(votes.counts, total, 0.0)) + jnp.sum(n_labels * wrong) + terms.objective
    known = _counted(probability[votes.item, votes.label], votes) * jnp.exp(terms.log_trust[:, None] - right)
    return _Counts(jnp.sum(known, axis=1), jnp.maximum(n_labels - known, 0.0)), probability, objective


@partial(jax.jit, static_argnames=("passes", "variational", "at_once"))
def _run(votes: Padded, starts: _Counts, prior: _Prior, passes: int, *, variational: bool, at_once: int) -> _Found:
    terms_of = _variational if variational else _maximising
    n_labels = _counted(jnp.ones_like(votes.weight), votes)
    # The point behind EM's terms is that of a prior which adds the smoothing alone.
    added = prior if variational else _Prior(prior.smoothing, prior.smoothing, prior.smoothing, 0.0)

    def one(start: _Counts) -> tuple[Any, _Counts, Any]:
        def step(carry: tuple[_Counts, _Counts, Any, Any], _: None) -> tuple[tuple[_Counts, _Counts, Any, Any], Any]:
            counts, before = carry[0], carry[2]
            after, probability, objective = _pass(terms_of(counts, prior), n_labels, votes)
            return (after, counts, probability, jnp.max(jnp.abs(probability - before))), objective

        even = jnp.broadcast_to(votes.class_share, (votes.gold.shape[0], votes.class_share.shape[0]))
        # One more: the last one shows what the counts of the last pass say of the classes.
        (_, counts, _, change), trace = jax.lax.scan(step, (start, start, even, 0.0), None, length=passes + 1)
        return trace, counts, change

    objective, counts, change = jax.lax.map(one, starts, batch_size=at_once)
    best = jnp.argmax(objective[:, -1])
    # Classes of the best start only: those of all would fill the memory where there are many items.
    of_best = jax.tree.map(lambda value: value[best], counts)
    _, probability, _ = _pass(terms_of(of_best, prior), n_labels, votes)
    trust, habit = _shares(of_best, added)
    return _Found(objective, best, trust, habit, probability, change[best])
