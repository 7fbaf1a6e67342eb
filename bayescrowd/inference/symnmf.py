r"""SymNMF: Dawid and Skene's parameters from the completed matrix of co-occurrences, by nonnegative factorisation.

Blocks of pairs without common items, and the diagonal blocks that no data show, are filled in first. See
`bayescrowd.moments.symnmf` and `bayescrowd.moments.imputation` for the methods. Priors do not count.

References
----------
Ibrahim, Fu (2021), Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization, ICML.
"""

from dataclasses import dataclass
from typing import Any

from bayescrowd.errors import shorten
from bayescrowd.inference import _moments
from bayescrowd.inference.base import Engine, Job, Run, check_numbers, check_whole, require
from bayescrowd.moments.imputation import LOSSES
from bayescrowd.moments.multispa_kl import WEIGHTS
from bayescrowd.moments.symnmf import IMPUTATIONS, symnmf

__all__ = ["ENGINE", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="symnmf"``.

    Parameters
    ----------
    imputation : str
        ``"robust"``: one factor fitted to all observed blocks; ``"designated"``: block by block through workers with
        whom others share items.
    designated : list or None
        For ``"designated"``: ids of the workers to pass through where possible; by default the best for every block.
    loss : str
        For ``"robust"``: ``"absolute"``, norms of the blocks' residuals, or ``"squared"``.
    weights : str
        For ``"robust"``: ``"count"``, blocks by their common items, or ``"uniform"``.
    min_count : float
        Pairs with fewer common items do not count.
    threshold, decay : float
        The factor is kept above ``threshold * decay**iteration``.
    max_iter : int
        Most iterations of the factorisation.
    tolerance : float
        It stops when its objective falls by less than this fraction.
    restarts : int
        Rotations to begin with; their spread tells what second moments leave open.
    sweeps : int
        Most sweeps of the robust imputation.
    decode : str
        Classes of items with the prevalence (``"map"``) or as if classes were equally frequent (``"ml"``).
    polish : int
        Passes of EM over all labels from the estimate.
    polish_prevalence : str
        In these passes: ``"estimated"`` or ``"uniform"``.
    """

    imputation: str = "robust"
    designated: list | tuple | None = None  # type: ignore[type-arg]
    loss: str = "absolute"
    weights: str = "count"
    min_count: float = 0.0
    threshold: float = 0.0
    decay: float = 0.8
    max_iter: int = 500
    tolerance: float = 1e-12
    restarts: int = 10
    sweeps: int = 100
    decode: str = "map"
    polish: int = 0
    polish_prevalence: str = "estimated"

    def __post_init__(self) -> None:
        """Check the values.

        Raises
        ------
        EngineError
            Where one is out of range.
        """
        _moments.check_choices(self, imputation=IMPUTATIONS, loss=LOSSES, weights=WEIGHTS)
        check_whole(self, max_iter=1, restarts=1, sweeps=1)
        _moments.check_most(self, max_iter=100_000, restarts=1000, sweeps=100_000)
        check_numbers(self, "min_count", "threshold", "tolerance", "decay")
        designated = self.imputation == "designated"
        _moments.check_unused(self, designated, "imputation='designated'", "loss", "weights", "sweeps")
        require(self.decay <= 1, f"decay must be at most 1, not {self.decay!r}")
        require(
            self.designated is None or self.imputation == "designated",
            "designated workers are for imputation='designated'",
        )
        require(self.designated is None or len(self.designated) > 0, "designated names nobody; leave it out")
        _moments.check_shared(self)


def run(job: Job) -> Run:
    """Estimate.

    Parameters
    ----------
    job : Job
        What to do; its start is not used.

    Returns
    -------
    Run
        A point estimate.
    """
    settings: Settings = job.settings
    estimate = symnmf(
        job.labels,
        imputation=settings.imputation,
        designated=_codes(job),
        loss=settings.loss,
        weights=settings.weights,
        least=settings.min_count,
        threshold=settings.threshold,
        decay=settings.decay,
        max_iter=settings.max_iter,
        tolerance=settings.tolerance,
        restarts=settings.restarts,
        sweeps=settings.sweeps,
        seed=job.seed,
    )
    return _moments.finish(job, estimate)


def _codes(job: Job) -> tuple[int, ...] | None:
    wanted = job.settings.designated
    if wanted is None:
        return None
    labels: Any = job.labels
    # Settings that were stored have ids as text or lists.
    known = {str(value): code for code, value in enumerate(labels.workers.tolist())}
    names = [str(tuple(value)) if isinstance(value, list) else str(value) for value in wanted]
    missing = [value for value, name in zip(wanted, names, strict=True) if name not in known]
    require(not missing, f"designated names workers that gave no labels: {shorten(missing)}")
    return tuple(known[name] for name in names)


ENGINE = Engine(
    "symnmf",
    Settings,
    run,
    samples=False,
    check=lambda model, _: _moments.check_model("symnmf", model),
    priors=False,
    starts=False,
)
