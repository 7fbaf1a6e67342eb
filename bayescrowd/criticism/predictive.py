"""Labels as the fitted model would have them: replications of the label table on the same items, workers and rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayescrowd.criticism._replicator import Replicator
from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import LabelError, count_of
from bayescrowd.results.tree import has_chains, ids, labels_of, model_of, samples_of

__all__ = [
    "VARIABLE",
    "Fitted",
    "Replicates",
    "check_draws",
    "fitted_parameters",
    "posterior_predictive",
    "replicate",
]

VARIABLE = "label_code"
"""Name of the labels in ``posterior_predictive`` and ``observed_data``: a variable must not bear the name of a dim."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """Replications of a label table.

    Parameters
    ----------
    label_code : int array [replicate, annotation]
        Index of the label of each row, in the smallest type that holds it. Rows are those of the label table.
    chain, draw : int array [replicate]
        Coordinates of the draw of the parameters that each replication comes from; 0 and the number of the replication
        for point estimates.
    basis : str
        ``"posterior"``, ``"approximation"`` or ``"estimate"``.
    sentence : str
        What the parameters were, in words.
    """

    label_code: np.ndarray
    chain: np.ndarray
    draw: np.ndarray
    basis: str
    sentence: str

    def __repr__(self) -> str:
        n_replicates, n_annotations = self.label_code.shape
        return f"Replicates: {count_of(n_replicates, 'replication')} of {count_of(n_annotations, 'label')}."


class Fitted(NamedTuple):
    """Some values of a fit's parameters.

    Parameters
    ----------
    parameters : dict
        Site -> array [draw, ...].
    chain, draw : int array [draw]
        Coordinates of the draws.
    basis : str
        ``"posterior"``, ``"approximation"`` or ``"estimate"``.
    sentence : str
        What they are, in words.
    """

    parameters: dict[str, np.ndarray]
    chain: np.ndarray
    draw: np.ndarray
    basis: str
    sentence: str


def replicate(tree: xr.DataTree, *, draws: int = 200, seed: int = 0) -> Replicates:
    """Draw replications of the label table from the fitted model, one for each of some draws of its parameters.

    Items, workers and rows stay as they are, repeats of a worker on an item included, each with a label of its own. The
    true class (and difficulty) of every item is drawn anew from the model's shares, not from what its labels say; the
    class of gold items is their gold. Labels then come from the confusion matrices. A weight does not make several
    labels of a row: a row of weight 2 counts twice in the fit, and is one label here.

    Parameters
    ----------
    tree : DataTree
        A result.
    draws : int
        At most so many replications, of draws spread evenly over all chains; fewer where the fit kept fewer draws.
        Approximations give draws of their own distribution, which is a little too narrow. Point estimates give exactly
        so many, all with the estimated parameters (a parametric bootstrap without refits).
    seed : int
        Seed of the replications.

    Returns
    -------
    Replicates
        Labels by replication and row, and the draws that they come from.

    Raises
    ------
    LabelError
        For numbers of draws or seeds that are none.
    ModelError
        For methods without a model.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> from bayescrowd.criticism.predictive import replicate
    >>> replicate(bc.fit(bc.datasets.load("anesthesia")).idata, draws=20)
    Replicates: 20 replications of 315 labels.
    """
    draws, random = check_draws(draws), np.random.default_rng(check_seed(seed))
    model, labels = model_of(tree), labels_of(tree)
    fitted = fitted_parameters(tree, draws, by_chain=True)
    replicator = Replicator(model, labels)
    point = fitted.basis == "estimate"
    n_replicates = draws if point else len(fitted.draw)
    label_code = np.empty((n_replicates, labels.n_annotations), replicator.dtype)
    row = 0
    for tables in replicator.tables(fitted.parameters):
        for _ in range(draws if point else 1):
            label_code[row] = replicator.draw(tables, random)[0]
            row += 1
    number = np.arange(n_replicates)
    return Replicates(
        label_code,
        np.zeros_like(number) if point else fitted.chain,
        number if point else fitted.draw,
        fitted.basis,
        fitted.sentence,
    )


def posterior_predictive(tree: xr.DataTree, *, draws: int = 200, seed: int = 0) -> xr.DataTree:
    """Give the result with replications of the labels, as ArviZ's ``plot_ppc_*`` take it.

    Group ``posterior_predictive`` holds ``label_code (chain, draw, annotation)`` at the coordinates of the draws used.
    Group ``observed_data`` is replaced by the observed ``label_code (annotation)``, as ArviZ compares all that it finds
    there. Codes count from 0 in the order of the label values, their attribute ``label_values``. Labels are discrete:
    ``az.plot_ppc_rootogram`` shows how often each is given, and ``az.plot_ppc_dist`` wants ``kind="ecdf"``.

    Parameters
    ----------
    tree : DataTree
        A result.
    draws : int
        At most so many replications, equally many of each chain; as for `replicate`.
    seed : int
        Seed of the replications.

    Returns
    -------
    DataTree
        A new tree; the given one is left as it is. Point estimates have one chain of replications.

    Raises
    ------
    LabelError
        For numbers of draws or seeds that are none.
    ModelError
        For methods without a model.

    Examples
    --------
    >>> import bayescrowd as bc
    >>> found = bc.fit(bc.datasets.load("anesthesia")).posterior_predictive(draws=20)
    >>> dict(found["posterior_predictive"].sizes)
    {'chain': 1, 'draw': 20, 'annotation': 315}
    """
    replicates = replicate(tree, draws=draws, seed=seed)
    chains, draws_used = np.unique(replicates.chain), replicates.draw[replicates.chain == replicates.chain[0]]
    observed = tree["observed_data"].dataset
    codes = replicates.label_code.reshape(len(chains), len(draws_used), -1)
    about: dict[str, Any] = {
        "label_values": [str(value) for value in ids(tree, "label")],
        "replicates_are": replicates.sentence,
    }
    annotation = {"annotation": observed["annotation"]}
    predictive = xr.Dataset(
        {VARIABLE: (("chain", "draw", "annotation"), codes, about)},
        coords={"chain": chains, "draw": draws_used} | annotation,
    )
    seen = observed["label_index"].to_numpy().astype(replicates.label_code.dtype)
    out = tree.copy()
    out["posterior_predictive"] = xr.DataTree(predictive)
    out["observed_data"] = xr.DataTree(xr.Dataset({VARIABLE: (("annotation",), seen, about)}, coords=annotation))
    return out


def fitted_parameters(tree: xr.DataTree, draws: int, *, by_chain: bool = False) -> Fitted:
    """Take some draws of a fit's parameters, spread evenly; the estimate where there are no draws.

    Parameters
    ----------
    tree : DataTree
        A result.
    draws : int
        At most so many.
    by_chain : bool
        The same draws of each chain, so that they form a rectangle; otherwise spread over all chains together.

    Returns
    -------
    Fitted
        Parameters and coordinates.
    """
    samples, lead = samples_of(tree, model_of(tree))
    engine, settled = str(tree.attrs["engine"]), str(tree.attrs["converged"]) != "no"
    if not lead:
        zero = np.zeros(1, int)
        return Fitted(samples, zero, zero, "estimate", _words("estimate", engine, settled=settled))
    n_chains, n_draws = lead
    chain, draw = _spread(n_chains, n_draws, draws, by_chain=by_chain)
    basis = "posterior" if has_chains(tree) else "approximation"
    dataset = tree["posterior"].dataset
    return Fitted(
        {name: value[chain * n_draws + draw] for name, value in samples.items()},
        dataset["chain"].to_numpy()[chain],
        dataset["draw"].to_numpy()[draw],
        basis,
        _words(basis, engine, settled=settled),
    )


def check_draws(draws: Any, least: int = 1) -> int:
    """Check a number of replications.

    Parameters
    ----------
    draws : int
        The number.
    least : int
        The smallest that will do.

    Returns
    -------
    int
        The same.
    """
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < least:
        raise LabelError(
            f"draws must be a whole number of replications, at least {least} (200 is usual), not {draws!r}"
        )
    return int(draws)


def _spread(n_chains: int, n_draws: int, wanted: int, *, by_chain: bool) -> tuple[np.ndarray, np.ndarray]:
    """Positions of draws that lie evenly in the chains."""
    if not by_chain:
        total = n_chains * n_draws
        position = _evenly(total, min(wanted, total))
        return position // n_draws, position % n_draws
    chains = _evenly(n_chains, min(n_chains, wanted))
    draws = _evenly(n_draws, min(n_draws, max(wanted // len(chains), 1)))
    return np.repeat(chains, len(draws)), np.tile(draws, len(chains))


def _evenly(total: int, wanted: int) -> np.ndarray:
    return ((np.arange(wanted) + 0.5) * total / wanted).astype(int)


def _words(basis: str, engine: str, *, settled: bool) -> str:
    if basis == "posterior" and not settled:
        return f"parameters are draws of {engine} whose chains did not converge: they are no draws from the posterior"
    words = {
        "posterior": f"parameters are draws from the posterior, by {engine}",
        "approximation": f"parameters are draws from the approximation of {engine}, which vary a little too little",
        "estimate": f"parameters are fixed at the estimate of {engine} (a parametric bootstrap without refits)",
    }[basis]
    return words if settled else f"{words}; the fit did not converge"
