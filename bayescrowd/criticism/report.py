"""What a diagnosis looks like: findings in plain words, each with what to do."""

import html
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

__all__ = ["Diagnosis", "Finding"]

type Severity = Literal["problem", "caution", "note"]

_RANK = {"problem": 0, "caution": 1, "note": 2}


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a result.

    Parameters
    ----------
    severity : str
        ``"problem"`` (do not use the result as it is), ``"caution"`` (know this when you use it) or ``"note"``.
    code : str
        A short fixed name, for programs.
    text : str
        What was found, in words.
    remedy : str
        What to do about it; empty where nothing is to be done.
    """

    severity: Severity
    code: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """Say it in one or two lines."""
        return f"{self.severity}: {self.text}" + (f"\n    -> {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; print it.

    Parameters
    ----------
    headline : str
        What was fitted, and whether it converged.
    converged : bool or None
        None where that cannot be told.
    findings : tuple of Finding
        Problems first.
    r_hat : float or None
        Largest rank-normalised R-hat; None without draws.
    ess_bulk, ess_tail : float or None
        Smallest effective sample sizes of bulk and tails.
    n_divergent : int or None
        Number of divergent transitions.
    n_changed : int
        Number of items whose consensus differs from a majority vote that is not tied.
    quantities : DataFrame or None
        R-hat and effective sample sizes of everything that was checked, worst first.
    """

    headline: str
    converged: bool | None
    findings: tuple[Finding, ...]
    r_hat: float | None = None
    ess_bulk: float | None = None
    ess_tail: float | None = None
    n_divergent: int | None = None
    n_changed: int = 0
    quantities: pd.DataFrame | None = field(default=None, repr=False)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings of severity ``"problem"``."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")

    def __str__(self) -> str:
        """Say everything in plain words."""
        return "\n".join([self.headline, *(f"  {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        """For notebooks."""
        colour = {"problem": "#b3261e", "caution": "#9a6700", "note": "#57606a"}
        rows = "".join(
            f"<li><b style='color:{colour[finding.severity]}'>{finding.severity}</b> {html.escape(finding.text)}"
            + (f"<br><i>{html.escape(finding.remedy)}</i>" if finding.remedy else "")
            + "</li>"
            for finding in self.findings
        )
        return f"<div><p>{html.escape(self.headline)}</p><ul>{rows}</ul></div>"


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings, problems first.

    Parameters
    ----------
    findings : list of Finding
        In any order.

    Returns
    -------
    tuple of Finding
        Sorted; the order within a severity is kept.
    """
    return tuple(sorted(findings, key=lambda finding: _RANK[finding.severity]))
