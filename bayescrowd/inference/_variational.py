"""From the ends of a variational engine on Dirichlet tables to a run: probabilities, Dirichlets, draws from them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescrowd.data.arrays import LabelArrays
from bayescrowd.inference._fixpoint import End, best_of, status_of
from bayescrowd.inference.base import DRAWS_LIMIT, Job, Run, sizes_of, trim
from bayescrowd.kernels.tables import Tables, draw

__all__ = ["finish"]


def finish(
    job: Job,
    arrays: LabelArrays,
    tables: Tables,
    ends: Sequence[End],
    finished: Sequence[tuple[Any, Any, Any]],
    *,
    draws: int,
) -> Run:
    """Turn the best end into a run: probabilities of the states, Dirichlets of the tables, draws from them.

    Parameters
    ----------
    job : Job
        What was done.
    arrays : LabelArrays
        The annotations.
    tables : Tables
        Layout of the table entries.
    ends : sequence of End
        Where each start arrived.
    finished : sequence of tuple
        Concentrations [entry], state probabilities [row, state] and bound there.
    draws : int
        How many draws to take from the Dirichlets.

    Returns
    -------
    Run
        Of the start with the highest bound.
    """
    exact = sizes_of(job.labels)
    bounds = [float(bound) for _, _, bound in finished]
    best = best_of(bounds)
    end, (alpha, probability, bound) = ends[best], finished[best]
    alpha = np.asarray(alpha)
    warnings = []
    size = max(alpha.nbytes, 1)
    kept = max(min(draws, DRAWS_LIMIT // size), 1)
    if kept < draws:
        warnings.append(
            f"Drew {kept} times from the approximation, not {draws} times: all draws would exceed "
            f"{DRAWS_LIMIT / 2**20:.0f} MB. Class probabilities do not depend on draws."
        )
    random = np.random.default_rng([job.seed, 1])
    safe = np.where(np.isfinite(alpha) & (alpha > 0), alpha, 1.0)
    flat = np.stack([draw(random, safe, tables) for _ in range(kept)])
    rows = np.asarray(arrays.row_of_item)[: exact.n_items]
    return Run(
        points=None,
        draws=trim(tables.unflatten(flat[None]), job.model, arrays.sizes, exact),
        state_probability=np.asarray(probability)[rows],
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=end.trace,
        status=status_of(end, interrupted=ends[-1].interrupted, objective="bound"),
        warnings=tuple(warnings),
        extra={
            "n_passes": int(end.progress.n_steps),
            "bound": float(bound),
            "best_start": best,
            "objective_by_start": bounds,
        },
        concentrations=_concentrations(job, tables, arrays, alpha),
        independent=True,
    )


def _concentrations(job: Job, tables: Tables, arrays: LabelArrays, alpha: np.ndarray) -> dict[str, np.ndarray]:
    exact = sizes_of(job.labels)
    length = {"worker": exact.n_workers, "item": exact.n_items}
    found = {}
    for name, site in job.model.sites(arrays.sizes, values=False).items():
        shape = tables.shapes[tables.names.index(name)]
        first = tables.offsets[name]
        table = alpha[first : first + int(np.prod(shape))].reshape(shape)
        found[name] = table[tuple(slice(length.get(dim)) for dim in site.dims)]
    return found
