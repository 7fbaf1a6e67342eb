"""K-fold cross-validation: fit again without each fold, by the same engine, and judge what was left out."""

from dataclasses import dataclass, field
from typing import Any

import arviz_stats
import numpy as np
import xarray as xr

from bayescrowd.criticism._refit import FEWEST_EFFECTIVE, Refits, caveats
from bayescrowd.criticism._refit_pieces import check_by, pieces_to_judge
from bayescrowd.criticism._refit_tables import fingerprint
from bayescrowd.criticism.likelihood import as_array, count_pieces, name_pieces, pieces_by_draw
from bayescrowd.criticism.loo import ARVIZ_WARNING
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import EngineError, count_of, shorten
from bayescrowd.inference.progress import check_progress, reporter
from bayescrowd.results.tree import labels_of, model_of, samples_of

__all__ = ["KFold", "kfold"]

_USUAL = 10


@dataclass(kw_only=True, repr=False)
class KFold(arviz_stats.ELPDDataLOOKFold):
    """K-fold cross-validation, as ArviZ has it, with advice in words; print it.

    Parameters
    ----------
    advice : list of str
        What to know before the numbers are used, and what to do.
    by : str
        What the pieces are.
    fold : DataArray [piece]
        Fold of each piece, from 0; -1 for items or workers without labels, about which nothing is predicted.
    table : dict
        Digests of the label table, which `bayescrowd.compare` checks.
    """

    advice: list[str] = field(default_factory=list)
    by: str = "item"
    fold: Any = None
    table: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say what ArviZ says, of what the folds consist, and the advice."""
        base: Any = arviz_stats.ELPDDataLOOKFold
        table = base.__str__(self).replace(ARVIZ_WARNING, "")
        table = table.replace("cross validation.", f"cross validation by {self.by}.", 1)
        return str(table) + "".join(f"\n- {sentence}" for sentence in self.advice)


def kfold(
    tree: xr.DataTree, *, folds: int | None = None, by: str = "item", seed: int = 0, progress: bool | None = None
) -> KFold:
    r"""Estimate how well the model predicts labels that it has not seen, fitting again without each fold.

    Every piece is judged by a fit to the labels of all folds but its own: by the average over draws of the probability
    of its labels, given what that fit has seen of the same item. A point estimate is plugged in. Where workers are left
    out, their confusion matrices are unknown and come from the prior, integrated out where they are Dirichlet. Classes,
    label values and workers that occur in one fold alone stay known to all fits. With as many folds as pieces this is
    exact leave-one-out.

    Parameters
    ----------
    tree : DataTree
        A result of any engine that fits a model.
    folds : int, optional
        Number of folds, at random, as equal in size as can be; so many fits are made. By default 10, or the number of
        pieces with labels where there are fewer.
    by : {"item", "annotation", "worker"}
        What the pieces are: an item with all its labels (and its gold), one label, or a worker with all labels.
    seed : int
        Seed of the folds and of the fits.
    progress : bool, optional
        Show a progress bar; by default where somebody looks.

    Returns
    -------
    KFold
        ``elpd``, ``se``, ``p`` (effective number of parameters), ``elpd_i`` by piece, ``fold``, ``advice``.

    Raises
    ------
    LabelError
        For an unknown ``by``, or a seed that is none.
    EngineError
        For a number of folds that is none, methods that are no engine, or where the engine cannot fit what is left.
    ModelError
        For methods without a model.

    References
    ----------
    Vehtari, Gelman, Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
    Statistics and Computing 27(5).

    Examples
    --------
    The maximum of the likelihood of the anaesthesia data gives probability 0 to labels that a worker happens never to
    have said. It cannot be surprised without breaking; a fit that averages over what it does not know can:

    >>> import bayescrowd as bc
    >>> from bayescrowd.criticism.kfold import kfold
    >>> labels = bc.datasets.load("anesthesia")
    >>> plugged_in = kfold(bc.fit(labels, engine="em").idata, folds=5)
    >>> averaged = kfold(bc.fit(labels, engine="collapsed-vi").idata, folds=5)
    >>> plugged_in.elpd < averaged.elpd, averaged.elpd_i.sizes["item"]
    (True, 45)
    """
    check_by(by)
    seed = check_seed(seed)
    check_progress(progress)
    model, labels = model_of(tree), labels_of(tree)
    refits = Refits(tree, by, seed)
    fold, folds = _folds(labels, by, folds, seed)
    n_pieces = len(fold)
    value, effective = np.zeros(n_pieces), np.full(n_pieces, np.inf)
    n_samples, unsettled = 1, []
    with reporter(progress) as report:
        report.start(f"{folds} folds", folds)
        for index in range(folds):
            pieces = np.flatnonzero(fold == index)
            held = refits.without(pieces, index)
            value[pieces], effective[pieces] = held.log_mean, held.effective
            n_samples = held.n_samples
            unsettled += [] if held.settled else [index]
            report.update(index + 1)
    samples, _ = samples_of(tree, model)
    in_sample, n_seen = np.full(n_pieces, -np.inf), 0
    for part in pieces_by_draw(model, samples, labels, by):
        in_sample, n_seen = np.logaddexp(in_sample, np.logaddexp.reduce(part, axis=0)), n_seen + len(part)
    with np.errstate(invalid="ignore"):
        change = in_sample - np.log(n_seen) - value
        error = float(np.sqrt(n_pieces * value.var(ddof=1)))
    return KFold(
        elpd=float(value.sum()),
        se=error,
        p=float(change.sum()),
        n_samples=n_samples,
        n_data_points=n_pieces,
        scale="log",
        warning=bool(unsettled or not np.isfinite(value).all()),
        good_k=None,  # type: ignore[arg-type]
        elpd_i=as_array(tree, value, by, "elpd_i"),
        n_folds=folds,
        p_kfold_i=as_array(tree, change, by, "p_kfold_i"),
        advice=_advice(tree, by, value, effective, unsettled),
        by=by,
        fold=as_array(tree, fold, by, "fold"),
        table=fingerprint(labels, by),
    )


def _folds(labels: CrowdLabels, by: str, folds: Any, seed: int) -> tuple[np.ndarray, int]:
    """Deal the pieces that say anything into folds at random, -1 for the others; and say how many folds there are."""
    pieces = pieces_to_judge(labels, by)
    if folds is None:
        folds = min(_USUAL, len(pieces))
    whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if not whole or not 2 <= folds <= len(pieces):
        raise EngineError(
            f"folds must be a whole number from 2 to {len(pieces)}, the number of {by}s with labels, not {folds!r}"
        )
    fold = np.full(count_pieces(labels, by), -1)
    # Another stream than that of the fits.
    fold[np.random.default_rng([seed, 2**32]).permutation(pieces)] = np.arange(len(pieces)) % folds
    return fold, int(folds)


def _advice(tree: xr.DataTree, by: str, value: np.ndarray, effective: np.ndarray, unsettled: list[int]) -> list[str]:
    rough = np.flatnonzero(np.isfinite(value) & (effective < FEWEST_EFFECTIVE))
    found = caveats(tree, by, len(unsettled), f"fold {shorten(unsettled)}", rough)
    impossible = ~np.isfinite(value)
    if impossible.any():
        which = f" ({name_pieces(tree, by, np.flatnonzero(impossible))})"
        found.append(
            f"Labels of {count_of(int(impossible.sum()), by)}{which} have probability 0 under the fit without them, as "
            "maximum likelihood gives to what it has not seen: the sum is minus infinity. Engines that average over "
            "the posterior have no such zeros (engine='collapsed-vi' or 'gibbs'), nor has a posterior mode under "
            "concentrations above 1 (engine='em', objective='posterior')."
        )
    return found
