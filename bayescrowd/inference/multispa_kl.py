r"""MultiSPA-KL: Dawid and Skene's parameters fitted to the co-occurrences of all pairs of workers at once.

See `bayescrowd.moments.multispa_kl` for the method. It begins from MultiSPA and stops early on purpose; priors do not
count.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences: identifiability and algorithms, NeurIPS.
"""

from dataclasses import dataclass

from bayescrowd.inference import _moments
from bayescrowd.inference.base import Engine, Job, Run, check_numbers, check_whole
from bayescrowd.moments.multispa_kl import SOLVERS, WEIGHTS, multispa_kl

__all__ = ["ENGINE", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="multispa-kl"``.

    Parameters
    ----------
    solver : str
        ``"em"`` (monotone, no step size) or ``"mirror"`` (the paper's).
    weights : str
        ``"count"``: pairs by their common items; ``"uniform"``: all alike (the paper's).
    max_iter : int or None
        Passes; by default 10, and 500 where pairs of workers share 300 items or more in the median. Few are better
        where workers have few labels.
    tolerance : float
        Stops when a pass changes the objective by less than this fraction.
    prior : float
        For ``"em"``: labels per class that the average worker's confusion is worth.
    min_count : float
        Pairs with fewer common items do not count.
    decode : str
        Classes of items with the prevalence (``"map"``) or as if classes were equally frequent (``"ml"``).
    polish : int
        Passes of EM over all labels from the estimate.
    polish_prevalence : str
        In these passes: ``"estimated"`` or ``"uniform"``.
    """

    solver: str = "em"
    weights: str = "count"
    max_iter: int | None = None
    tolerance: float = 1e-7
    prior: float = 0.5
    min_count: float = 0.0
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
        _moments.check_choices(self, solver=SOLVERS, weights=WEIGHTS)
        if self.max_iter is not None:
            check_whole(self, max_iter=1)
        _moments.check_most(self, max_iter=1_000_000)
        check_numbers(self, "tolerance", "prior", "min_count")
        _moments.check_unused(self, self.solver == "mirror", "solver='mirror'", "prior")
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
    estimate = multispa_kl(
        job.labels,
        solver=settings.solver,
        weights=settings.weights,
        max_iter=settings.max_iter,
        tolerance=settings.tolerance,
        prior=settings.prior,
        least=settings.min_count,
    )
    return _moments.finish(job, estimate)


ENGINE = Engine(
    "multispa-kl",
    Settings,
    run,
    samples=False,
    check=lambda model, _: _moments.check_model("multispa-kl", model),
    priors=False,
    starts=False,
)
