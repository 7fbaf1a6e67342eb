"""How probable it is that a worker's labels have nothing to do with the classes."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit, logit

from bayescrowd.decisions.confusions import averaged, parameters_of
from bayescrowd.kernels.precision import double_precision
from bayescrowd.kernels.tables import TINY
from bayescrowd.results.tree import model_of, sizes_of

__all__ = ["SHARE", "spammer_evidence", "with_spammers"]

SHARE = 0.1
"""Share of workers who label at random, before any label is seen."""

_CHUNK_WORKERS = 2_000
_LOOK = 50
_DECIDED = 100.0
"""Evidence (nats) that no further labels are looked at to confirm, of either sign; one looks every 50 labels."""


def with_spammers(little: np.ndarray, evidence: np.ndarray | None) -> np.ndarray:
    """Combine what the draws say with the possibility that a worker labels at random.

    Parameters
    ----------
    little : array [worker]
        Share of the draws in which the worker's labels say next to nothing about the class.
    evidence : array [worker] or None
        From `spammer_evidence`.

    Returns
    -------
    array [worker]
        Probability that the worker is a spammer.

    Examples
    --------
    >>> with_spammers(np.array([0.0, 0.5]), np.array([0.0, 10.0])).round(2).tolist()
    [0.1, 1.0]
    """
    if evidence is None:
        return little
    random = expit(logit(SHARE) + evidence)
    return random + (1 - random) * little


def spammer_evidence(tree: xr.DataTree) -> np.ndarray | None:
    r"""Compare, for every worker, labels that do not depend on the class with the confusion matrices of the prior.

    Independent rows of a confusion matrix are as good as never alike, so that with three classes and more draws of them
    hardly ever call anybody a spammer, whatever the labels say. So the case that all rows are one is looked at by
    itself: its evidence, of one row with the Dirichlet prior :math:`\bar\alpha` (the prior's rows averaged by
    prevalence), against that of the model's prior :math:`\alpha`,

    .. math:: \sum_n \log \frac{\bar\alpha_{x_n} + m_{x_n}}{\sum_l \bar\alpha_l + m_l} -
        \log \sum_k q_n(k) \frac{\alpha_{k x_n} + M_{k x_n}}{\sum_l \alpha_{kl} + M_{kl}},

    one label after the other, where :math:`q_n` are the probabilities of the item's class without this worker's labels
    on it, and :math:`m, M` the counts of the labels before, those of M divided among the classes by their
    probabilities given also the label itself. Labels on items that others leave least doubt about come first, as there
    the division is sure.

    Parameters
    ----------
    tree : DataTree
        A result.

    Returns
    -------
    array [worker] or None
        Log evidence ratio (nats), positive for labels at random, 0 for a worker without labels; beyond 100 either way
        not all labels may have been looked at. None where the model has no Dirichlet prior of confusion matrices.

    References
    ----------
    The division of counts is the online form of assumed-density filtering: Minka (2001), Expectation propagation for
    approximate Bayesian inference, UAI, section 3.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> evidence = spammer_evidence(bc.fit(bc.datasets.load("anesthesia")).idata)
    >>> bool((evidence < -5).all())
    True
    """
    if "observed_data" not in tree.children:
        return None
    alpha = _prior(tree)
    if alpha is None:
        return None
    steps = _Steps(tree)
    n_workers = sizes_of(tree).n_workers
    out = np.zeros(n_workers)
    for first in range(0, n_workers, _CHUNK_WORKERS):
        chunk = slice(first, min(first + _CHUNK_WORKERS, n_workers))
        out[chunk] = steps.evidence(alpha[chunk] if len(alpha) > 1 else alpha, chunk)
    return out


class _Steps:
    """The labels of each worker in their order, with what the others say of the item's class."""

    def __init__(self, tree: xr.DataTree) -> None:
        """Lay the labels out, worker after worker."""
        observed = tree["observed_data"].dataset
        item, worker, label = (observed[f"{name}_index"].to_numpy().astype(np.int64) for name in _CODES)
        weight = observed["weight"].to_numpy().astype(float) if "weight" in observed else np.ones(len(item))
        whole = tree["latent"].dataset["class_probability"].to_numpy().astype(float)
        table, shares, prevalence = parameters_of(tree, slice(None))
        log_confusion = np.log(np.maximum(averaged(table, shares).mean(axis=0), TINY))
        self._prevalence = prevalence.mean(axis=0)
        pair, of_label = np.unique(item * (int(worker.max(initial=0)) + 1) + worker, return_inverse=True)
        own = np.zeros((len(pair), whole.shape[1]))
        np.add.at(own, of_label, weight[:, None] * log_confusion[worker, :, label])
        others = np.log(np.maximum(whole[item], TINY)) - own[of_label]
        others = np.exp(others - others.max(axis=1, keepdims=True))
        others /= others.sum(axis=1, keepdims=True)
        doubt = -(others * np.log(np.maximum(others, TINY))).sum(axis=1)
        order = np.lexsort((np.arange(len(item)), doubt.round(9), worker))
        self._worker, self._label, self._weight = worker[order], label[order], weight[order]
        self._others = others[order]
        count = np.bincount(worker, minlength=observed.sizes["worker"])
        self._first = np.concatenate([[0], np.cumsum(count)])

    def evidence(self, alpha: np.ndarray, chunk: slice) -> np.ndarray:
        """Give the log evidence ratio of some workers, the t-th label of each at once."""
        first, last = self._first[chunk.start : chunk.stop], self._first[chunk.start + 1 : chunk.stop + 1]
        n_workers = len(first)
        table = np.broadcast_to(alpha, (n_workers, *alpha.shape[1:])).copy()
        row = np.einsum("k,wkl->wl", self._prevalence, table)
        table_total, row_total = table.sum(axis=2), row.sum(axis=1)
        out = np.zeros(n_workers)
        # Those with the most labels first, so that the ones still at work are always at the front.
        order = np.argsort(first - last, kind="stable")
        length = (last - first)[order]
        for step in range(int(length.max(initial=0))):
            if step % _LOOK == 0:
                open_ = np.abs(out[order]) < _DECIDED
                order, length = order[open_], length[open_]
            at_work = order[: np.searchsorted(-length, -step, side="left")]
            if not len(at_work):
                break
            now = first[at_work] + step
            label, weight = self._label[now], self._weight[now]
            of_class = table[at_work, :, label] / table_total[at_work] * self._others[now]
            likely = of_class.sum(axis=1)
            alone = row[at_work, label] / row_total[at_work]
            out[at_work] += weight * (np.log(alone) - np.log(np.maximum(likely, TINY)))
            share = weight[:, None] * of_class / np.maximum(likely, TINY)[:, None]
            table[at_work, :, label] += share
            table_total[at_work] += share
            row[at_work, label] += weight
            row_total[at_work] += weight
        return out


_CODES = ("item", "worker", "label")


def _prior(tree: xr.DataTree) -> np.ndarray | None:
    """Concentrations [worker or 1, class, label] of a worker's rows, levels of difficulty averaged."""
    model, sizes = model_of(tree), sizes_of(tree)
    with double_precision():
        site: Any = model.sites(sizes).get("confusion")
        if site is None or site.kind != "dirichlet":
            return None
        alpha = np.asarray(site.concentration, float)
    dims = list(site.dims)
    if set(dims) - {"difficulty"} != {"worker", "class", "label"} and set(dims) - {"difficulty"} != {"class", "label"}:
        return None
    if "difficulty" in dims:
        alpha = alpha.mean(axis=dims.index("difficulty"))
        dims.remove("difficulty")
    if "worker" not in dims:
        alpha, dims = alpha[None], ["worker", *dims]
    return alpha.transpose([dims.index(name) for name in ("worker", "class", "label")])
