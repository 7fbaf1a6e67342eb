"""EM for models without routes: the maximisation step climbs the expected log joint by its gradient."""

from typing import Any

import jax
import numpy as np

from bayescrowd.data.arrays import build_arrays
from bayescrowd.inference.base import Job, Run, Status, sizes_of
from bayescrowd.inference.points import climb, expect
from bayescrowd.kernels.density import constrain, unconstrain
from bayescrowd.kernels.precision import double_precision

__all__ = ["run"]

_STEPS = 30


def run(job: Job, starts: list[np.ndarray]) -> Run:
    """Run EM from one or several starts.

    Parameters
    ----------
    job : Job
        What to do; its settings are those of ``engine="em"``.
    starts : list of array [item, state]
        Where to begin.

    Returns
    -------
    Run
        The best point found.
    """
    exact = sizes_of(job.labels)
    with double_precision():
        arrays = jax.device_put(build_arrays(job.labels, pad=False, by_annotation=job.model.uses_item))
        ends = []
        for index, start in enumerate(starts):
            rows = np.zeros((arrays.n_rows, start.shape[1]))
            rows[np.asarray(arrays.row_of_item)[: exact.n_items]] = start
            ends.append(_climb(job, arrays, rows, index, len(starts)))
            if ends[-1][3].code == "interrupted":
                break
        objectives = [trace[-1] for _, _, trace, _ in ends]
        best = int(np.nanargmax(objectives)) if np.isfinite(objectives).any() else 0
        position, rows, trace, status = ends[best]
        points = {name: np.asarray(value) for name, value in constrain(job.model, exact, position).items()}
        log_likelihood, _ = expect(job.model, arrays, position, posterior=False)
    return Run(
        points=points,
        draws=None,
        state_probability=np.asarray(rows)[np.asarray(arrays.row_of_item)[: exact.n_items]],
        state_probability_by_chain=None,
        log_likelihood=None,
        sample_stats=None,
        objective=np.asarray(trace),
        status=ends[-1][3] if ends[-1][3].code == "interrupted" else status,
        extra={
            "n_passes": len(trace),
            "log_likelihood_at_point": float(log_likelihood),
            "best_start": best,
            "objective_by_start": objectives,
        },
    )


def _climb(job: Job, arrays: Any, rows: Any, index: int, n_starts: int) -> tuple[Any, Any, list[float], Status]:
    settings = job.settings
    posterior = settings.objective == "posterior"
    density = "declared" if posterior else "none"
    job.reporter.start("EM" if n_starts == 1 else f"EM, start {index + 1} of {n_starts}", settings.max_iter)
    trace: list[float] = []
    position = unconstrain(job.model, arrays.sizes, job.model.neutral_point(arrays.sizes))
    try:
        position = climb(job.model, arrays, rows, position, density=density, steps=10 * _STEPS)
        while True:
            before = np.asarray(rows)
            objective, rows = expect(job.model, arrays, position, posterior=posterior)
            trace.append(float(objective))
            job.reporter.update(len(trace), f"objective {trace[-1]:.4f}")
            change = float(np.max(np.abs(np.asarray(rows) - before)))
            if not np.isfinite(trace[-1]):
                sentence = "The objective is no longer finite; check priors and weights."
                return position, rows, trace, Status("failed", sentence, False)
            gain = trace[-1] - trace[-2] if len(trace) > 1 else np.inf
            if gain <= settings.tolerance * (1 + abs(trace[-1])) and change <= settings.change_tolerance:
                return position, rows, trace, Status("converged", f"Converged after {len(trace)} passes.", True)
            if len(trace) >= settings.max_iter:
                sentence = f"Stopped at {len(trace)} passes before converging; raise max_iter or tolerance."
                return position, rows, trace, Status("max-iterations", sentence, False)
            position = climb(job.model, arrays, rows, position, density=density, steps=_STEPS)
    except KeyboardInterrupt:
        if not trace:
            raise
        sentence = f"Interrupted after {len(trace)} passes; the estimate so far is kept."
        return position, rows, trace, Status("interrupted", sentence, False)
