"""Spectral methods meet EM: confusion matrices from third moments of three groups of workers, then passes of EM."""

from typing import Any, NamedTuple

import jax
import numpy as np

from bayescrowd.baselines._agreement import agreement, contradicted
from bayescrowd.baselines._confusions import with_other_labels
from bayescrowd.baselines._ids import natural_order
from bayescrowd.baselines._options import check_whole, check_word
from bayescrowd.baselines._result import Found, Votes, begin, finish, votes_of
from bayescrowd.baselines._tensor_power import tensor_components
from bayescrowd.baselines._votes_table import VotesTable
from bayescrowd.data.arrays import Table
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.data.votes import shares
from bayescrowd.errors import EngineError
from bayescrowd.fit import Fit
from bayescrowd.kernels.precision import double_precision
from bayescrowd.moments.estimate import FLOOR, Estimate, counts_given, decode, floored
from bayescrowd.moments.permutation import best_order
from bayescrowd.moments.polish import polished
from bayescrowd.moments.voted import on_voted_classes
from bayescrowd.results.votes import leading

__all__ = ["spectral_dawid_skene"]

_ARRANGEMENTS = ((1, 2), (2, 0), (0, 1))
"""The two other groups of each group, in cyclic order."""

_CONDITION = 20.0
"""Splits are left for another one where the groups' means are worse conditioned.

On good splits of the public sets it is 2 to 14; from 25 on, errors rose.
"""

_SPLITS = 10
"""Splits that are tried, where the power method does not take long."""

_MOST_STEPS, _STEPS_OF_ALL = 1e12, 2e11
"""Multiplications of the power method that are allowed, and those after which no further split is tried."""

_SINGULAR = 1e-10
"""Singular values below this share of the largest are zero."""


class _Split(NamedTuple):
    """What the moments say for one split of the workers."""

    confusion: np.ndarray
    prevalence: np.ndarray
    condition: float


def spectral_dawid_skene(
    labels: Any,
    *,
    passes: int = 10,
    prevalence: str = "uniform",
    partition: str = "modulo",
    restarts: int = 100,
    iterations: int = 100,
    seed: int = 0,
) -> Fit:
    r"""Start Dawid and Skene's EM from third moments of three groups of workers.

    The workers are split into groups; :math:`x_{gi}` counts the labels that group g gave item i, by class. Given the
    class :math:`k` (of prevalence :math:`d_k`) they are independent with means :math:`\mu_{gk}`. For groups (a, b, c),
    with :math:`C_{gh} = \mathrm{mean}_i\, x_{gi} x_{hi}^T`,

    .. math::

        \tilde x_a = C_{cb} C_{ab}^{-1} x_a, \quad \tilde x_b = C_{ca} C_{ba}^{-1} x_b, \quad
        \mathrm{mean}_i\, \tilde x_a \tilde x_b^T \to \sum_k d_k \mu_{ck} \mu_{ck}^T, \quad
        \mathrm{mean}_i\, \tilde x_a \otimes \tilde x_b \otimes x_c \to \sum_k d_k \mu_{ck}^{\otimes 3}.

    The first whitens the second, whose components (by the tensor power method) are the :math:`\mu_{ck}` and
    :math:`d_k`; the soft majority vote names each group's classes, by assignment. A worker's confusion matrix solves
    :math:`\mathrm{mean}_i\, e_{x_{im}} (x_{ai} + x_{bi})^T = A_m\, \mathrm{diag}(d) (\mu_a + \mu_b)^T`, and passes of
    EM over all labels polish it.

    Third moments of few labels are rough. Where those of a split cannot be inverted well (:math:`C_{gh}` is singular,
    or :math:`\mu_a + \mu_b` has a condition number above 20), up to nine random splits are tried, and the first good
    one or the best is taken, with pseudo-inverses; a warning of the fit says so. Where the classes found contradict the
    majority on more than half of the items with a clear one, they are named anew by the votes (without gold), and a
    warning says so.

    Parameters
    ----------
    labels : CrowdLabels
        The labels; weights are numbers of equal votes. Labels that are no class are left out. At least three workers.
    passes : int
        Passes of EM after the moments.
    prevalence : {"uniform", "estimated"}
        What the passes take the classes' frequencies for: equal, as published, or estimated.
    partition : {"modulo", "random"}
        Every third worker in the order of their ids (numbers within them in the order of numbers) is a group, or groups
        are drawn.
    restarts, iterations : int
        Random starts of the tensor power method, and its steps.
    seed : int
        Seed of starts and splits.

    Returns
    -------
    Fit
        With confusion matrices and prevalence; and the ``group`` of each worker, which is in
        ``fit.idata["point_estimate"]``.

    Raises
    ------
    LabelError
        Where ``labels`` is no `CrowdLabels`.
    EngineError
        Where an option is out of range, fewer than three workers gave labels, or there are so many classes that the
        power method would not end.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> fit = bc.baselines.spectral_dawid_skene(bc.datasets.load("anesthesia"))
    >>> fit.consensus()["class"].loc[[2, 3]].tolist(), fit.confusion(1).shape
    ([3, 2], (4, 4))

    References
    ----------
    Zhang, Chen, Zhou, Jordan (2016), Spectral methods meet EM, JMLR 17(102), algorithm 1. The published computation
    names a class by the largest entry of its mean, and takes the next free class where two clash.
    """
    options = {"passes": passes, "prevalence": prevalence, "partition": partition, "restarts": restarts}
    call = begin("spectral-dawid-skene", labels, **options, iterations=iterations, seed=seed)
    check_whole("passes", passes, 0)
    check_word("prevalence", prevalence, ("uniform", "estimated"))
    check_word("partition", partition, ("modulo", "random"))
    check_whole("restarts", restarts, 1)
    check_whole("iterations", iterations, 1)
    check_whole("seed", seed, 0)
    votes, number = _by_id(votes_of(call), labels)
    table = VotesTable(votes)
    active = np.unique(votes.worker)
    if len(active) < 3:
        raise EngineError(
            f"spectral-dawid-skene splits the workers into three groups, and only {len(active)} gave labels that are "
            "classes; use bc.fit(labels, engine='em')"
        )
    steps = 3.0 * restarts * iterations * float(votes.n_classes) ** 4
    if steps > _MOST_STEPS:
        raise EngineError(
            f"the power method on third moments of {votes.n_classes} classes takes about {steps:.0e} multiplications "
            f"with {restarts} restarts of {iterations} iterations, more than {_MOST_STEPS:.0e}: ask for fewer, or use "
            "bc.fit(labels, engine='em')"
        )
    random = np.random.default_rng(seed)
    first = np.arange(table.n_workers) % 3 if partition == "modulo" else None
    start = _moments(table, active=active, first=first, random=random, restarts=restarts, iterations=iterations)
    estimate = polished(table, start, passes, prevalence=prevalence)
    if prevalence == "uniform":
        named = start.prevalence > 0
        estimate = estimate._replace(prevalence=named / named.sum())
    rule = "ml" if prevalence == "uniform" else "map"
    estimate, naming = _named(votes, estimate, rule)
    estimate = estimate._replace(confusion=estimate.confusion[number])
    found = Found(
        decode(VotesTable(votes_of(call)), estimate, rule=rule),
        confusion=with_other_labels(estimate.confusion, len(labels.label_values)),
        prevalence=estimate.prevalence,
        sentence=f"Moments of three groups of workers, then {passes} passes of EM, as asked for.",
        by_worker={"group": start.details["group"][number] + 1},
        warnings=(*start.notes, *naming),
        details={"condition": start.details["condition"]},
    )
    return finish(call, found)


def _by_id(votes: Votes, labels: CrowdLabels) -> tuple[Votes, np.ndarray]:
    """Give items and workers numbers in the order of ids, and sort: then neither splits nor rounding depend on rows.

    The power method may not settle on rough moments, and then rounding decides where it ends. Also gives the new number
    of each worker.
    """
    items, workers = natural_order(labels.items), natural_order(labels.workers)
    item, worker = np.argsort(items)[votes.item], np.argsort(workers)[votes.worker]
    order = np.lexsort((votes.weight, votes.label, worker, item))
    moved = votes._replace(
        item=item[order],
        worker=worker[order],
        label=votes.label[order],
        weight=votes.weight[order],
        gold=votes.gold[items],
    )
    return moved, np.argsort(workers)


def _named(votes: Votes, estimate: Estimate, rule: str) -> tuple[Estimate, tuple[str, ...]]:
    """Name the classes by the votes where they contradict most of these; say so, and where that does not mend it."""
    blind = votes._replace(gold=np.full(votes.n_items, -1))  # gold items by their labels
    found = decode(VotesTable(blind), estimate, rule=rule)
    other, clear = contradicted(votes, found)
    if 2 * other <= clear:
        return estimate, ()
    leads = leading(agreement(blind).tally(np.ones(votes.n_workers)))
    order = best_order(leads[leads.sum(axis=1) == 1].astype(float).T @ found[leads.sum(axis=1) == 1])
    again = estimate._replace(confusion=estimate.confusion[:, order], prevalence=estimate.prevalence[order])
    left, _ = contradicted(votes, found[:, order])
    said = f"The classes found contradict the majority on {other} of the {clear} items with a clear one. "
    free = (votes.gold < 0).all() and left < other
    if free:
        said += f"As their naming is free, they were named by the votes, which leaves {left}. "
    return again if free else estimate, (
        said + "The spectral start is rough: try another seed, and compare with bc.fit(labels, engine='em').",
    )


@on_voted_classes
def _moments(
    table: Table,
    *,
    active: np.ndarray,
    first: np.ndarray | None,
    random: np.random.Generator,
    restarts: int,
    iterations: int,
) -> Estimate:
    """Estimate by moments, on the first split of the workers whose moments can be inverted."""
    n_classes = len(table.classes)
    starts = random.normal(size=(3, n_classes, restarts, n_classes))
    tried: list[tuple[float, int, np.ndarray, _Split]] = []
    n_splits = int(np.clip(_STEPS_OF_ALL / (3 * starts.size * iterations * n_classes**2), 1, _SPLITS))
    for attempt in range(n_splits):
        by_id = first is not None and attempt == 0
        group = first if first is not None and by_id else _drawn(table.n_workers, active, random)
        split = _on_split(table, group, starts, iterations)
        tried.append((split.condition, attempt, group, split))
        if split.condition <= _CONDITION:
            break
    condition, attempt, group, split = min(tried, key=lambda entry: entry[:2])
    notes = []
    if first is not None and attempt > 0:
        notes.append(
            "The moments of every third worker in the order of ids could not be inverted well (condition number "
            f"{tried[0][0]:,.0f}): a random split of the workers was used (condition number {condition:,.0f})."
        )
    if condition > _CONDITION:
        notes.append(
            f"The moments of the groups can hardly be inverted (condition number {condition:,.0f}), and of {n_splits} "
            "splits of the workers none was better: the start is rough. Compare with bc.fit(labels, engine='em')."
        )
    known = np.isin(np.arange(table.n_workers), active)
    details = {"condition": condition, "group": group}
    confusion = with_other_labels(split.confusion, len(table.label_values))
    return Estimate(confusion, split.prevalence, known, notes=tuple(notes), details=details)


def _drawn(n_workers: int, active: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw groups of equal size among the workers with labels."""
    group = np.zeros(n_workers, np.int64)
    group[random.permutation(active)] = np.arange(len(active)) % 3
    return group


def _on_split(table: Table, group: np.ndarray, starts: np.ndarray, iterations: int) -> _Split:
    n_items, n_workers, n_classes = table.n_items, table.n_workers, len(table.classes)
    weight = np.ones(len(table.item_code)) if table.weight is None else table.weight
    # Label values after the classes are classes that nobody votes for: no annotation has one.
    cell = (group[table.worker_code] * n_classes + table.label_code) * n_items + table.item_code
    x = np.bincount(cell, weight, 3 * n_classes * n_items).reshape(3, n_classes, n_items)
    cross = np.einsum("gai,hbi->ghab", x, x, optimize=True) / n_items

    whiten, back, tensors = [], [], []
    for c, (a, b) in enumerate(_ARRANGEMENTS):
        ahead = cross[c, b] @ _inverse(cross[a, b]) @ x[a]
        beside = cross[c, a] @ _inverse(cross[b, a]) @ x[b]
        left, size, _ = np.linalg.svd(ahead @ beside.T / n_items)
        kept = size > _SINGULAR * max(float(size[0]), 1e-300)
        root = np.sqrt(np.where(kept, size, 1.0))
        whiten.append(np.where(kept, left / root, 0.0))
        back.append(np.where(kept, left * root, 0.0))  # the pseudo-inverse of the former's transpose
        third = np.stack([(row * beside) @ x[c].T for row in ahead]) / n_items
        tensors.append(np.einsum("abc,ad,be,cf->def", third, whiten[c], whiten[c], whiten[c], optimize=True))
    with double_precision():
        found = tensor_components(np.stack(tensors), starts, iterations=iterations)
    size, vector = (np.asarray(part) for part in jax.device_get(found))

    usable = size > FLOOR
    mean = size[:, :, None] * np.einsum("glk,gck->gcl", np.stack(back), vector)  # group, component, label
    share = np.where(usable, 1 / np.where(usable, size, 1.0) ** 2, 0.0)
    counts = counts_given(table, shares(table))[:, :, :n_classes]
    for g in range(3):
        order = best_order(counts[group == g].sum(axis=0) @ np.log(floored(mean[g])).T)
        mean[g], share[g] = mean[g, order], share[g, order]

    # Each worker's labels beside those of the two other groups.
    item_total = x.sum(axis=0)
    other = (item_total[:, table.item_code] - x[group[table.worker_code], :, table.item_code].T) * weight
    own = table.worker_code * n_classes + table.label_code
    joint = np.stack([np.bincount(own, row, n_workers * n_classes).reshape(n_workers, n_classes) for row in other], 2)
    confusion = np.empty((n_workers, n_classes, n_classes))
    worst = 1.0
    for g, (a, b) in enumerate(_ARRANGEMENTS):
        both = mean[a] + mean[b]
        mix = ((share[a] + share[b]) / 2)[:, None] * both
        singular = _condition(cross[a, b]) > 1 / _SINGULAR
        worst = np.inf if singular else max(worst, _condition(both))
        mine = group == g
        confusion[mine] = np.swapaxes(joint[mine] / n_items @ _inverse(mix), 1, 2)
    total = share.sum()
    even = np.full(n_classes, 1 / n_classes)
    prevalence = floored(share.sum(axis=0) / total if total > 0 else even)
    return _Split(floored(confusion), prevalence, worst)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.pinv(matrix, rcond=_SINGULAR))


def _condition(matrix: np.ndarray) -> float:
    size = np.linalg.svd(matrix, compute_uv=False)
    return float(size[0] / size[-1]) if size[-1] > 0 else np.inf
