r"""MultiSPA: Dawid and Skene's parameters from the co-occurrences of pairs of workers, by successive projection.

Fast (one look at the labels), without start and without iterations; as accurate as the pair statistics are. See
`bayescrowd.moments.multispa` for the method. Priors do not count.

References
----------
Ibrahim, Fu, Kargas, Huang (2019), Crowdsourcing via pairwise co-occurrences: identifiability and algorithms, NeurIPS.
"""

from dataclasses import dataclass

from bayescrowd.inference import _moments
from bayescrowd.inference.base import Engine, Job, Run, check_numbers, check_whole, require
from bayescrowd.moments.multispa import ALIGNMENTS, COLUMNS, multispa

__all__ = ["ENGINE", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of ``engine="multispa"``.

    Parameters
    ----------
    align : str
        How each worker's classes get their names: ``"mv"``, by the soft majority vote; ``"diagonal"``, everybody is
        right more often than not; ``"cooccurrence"``, workers among themselves by their common items (needs about 100
        per pair), then all by the majority vote.
    rounds : int
        For ``"mv"``: how often names are given, from the second time on by the estimate's own probabilities.
    min_count : float
        Columns of pair statistics counted on fewer items are left out.
    shrink : float
        Items' worth of the worker's own shares of labels mixed into each column.
    prevalence : str
        ``"marginals"``, from the shares of labels; ``"uniform"``, equal.
    columns : str
        ``"shrunk"``: all columns, as the two settings above say; ``"full-rank"``: columns of blocks of full rank as
        they are, and only workers with more than seven of them per class.
    compat : str or None
        ``"released"``: the rules of the authors' published code instead of the above.
    decode : str
        Classes of items with the prevalence (``"map"``) or as if classes were equally frequent (``"ml"``).
    polish : int
        Passes of EM from the estimate (the papers' MultiSPA-D&S takes 10).
    polish_prevalence : str
        In these passes: ``"estimated"`` or ``"uniform"`` (the papers).
    """

    align: str = "mv"
    rounds: int = 2
    min_count: float = 3.0
    shrink: float = 2.0
    prevalence: str = "marginals"
    columns: str = "shrunk"
    compat: str | None = None
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
        _moments.check_choices(self, align=ALIGNMENTS, prevalence=("marginals", "uniform"), columns=COLUMNS)
        require(self.compat in (None, "released"), f"compat must be None or 'released', not {self.compat!r}")
        check_whole(self, rounds=1)
        _moments.check_most(self, rounds=1000)
        check_numbers(self, "min_count", "shrink")
        rules = ("align", "rounds", "min_count", "shrink", "prevalence", "columns")
        _moments.check_unused(self, self.compat is not None, "compat='released'", *rules)
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
    estimate = multispa(
        job.labels,
        align=settings.align,
        rounds=settings.rounds,
        least=settings.min_count,
        shrink=settings.shrink,
        prevalence=settings.prevalence,
        columns=settings.columns,
        compat=settings.compat,
    )
    return _moments.finish(job, estimate, left_out=settings.compat == "released")


ENGINE = Engine(
    "multispa",
    Settings,
    run,
    samples=False,
    check=lambda model, _: _moments.check_model("multispa", model),
    priors=False,
    starts=False,
)
