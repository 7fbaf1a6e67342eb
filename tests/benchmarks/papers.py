"""The tables of the papers: every method that they name on the real sets, with ours and crowd-kit's beside it.

One process per set; records are kept and resumed as those of the other benchmarks are. Stays light, like `real`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import real, runner
from benchmarks.runner import Cell

CASE = "papers"
CAP = 120.0
SEEDS = [0, 1, 2, 3, 4]

MAIN = {
    "bluebird": ("bluebird", None),
    "bluebird, first 30 workers": ("bluebird", "first 30 workers"),
    "rte": ("rte", None),
    "trec": ("trec", None),
    "web": ("web", None),
    "web, 76 workers": ("web", "workers with 30 labels or more on items with truth"),
    "dog": ("dog", None),
    "dog, 52 busiest workers": ("dog", "52 busiest workers"),
}
"""The papers' own sets: title -> folder, and which part of it."""


class Method(NamedTuple):
    """A row of the tables."""

    name: str
    how: dict[str, Any]
    random: bool = False
    ordered: bool = False
    """Takes more than two classes only if they are called ordered, as the papers do."""
    largest: int | None = None
    """Most labels."""


def _baseline(name: str, function: str, *, random: bool = False, ordered: bool = False, **options: Any) -> Method:
    return Method(name, {"baseline": function, "options": options}, random, ordered)


def _ours(
    name: str, model: str | dict[str, Any] | None = "dawid-skene", *, random: bool = False, **options: Any
) -> Method:
    return Method(name, {"model": model, "options": options}, random)


_FLAT_GIBBS = {"engine": "gibbs", "confusion_prior": 1.0}
_FLAT_IDBLA = {"class": "IDBLA", "priors": {"confusion_prior": 1.0, "n_levels": 2}}
_FLAT_FIXED = {"class": "FixedIDBLA", "priors": {"confusion_prior": 1.0}}

METHODS = [
    _baseline("majority vote", "majority_vote"),
    _baseline("MV-D&S", "mv_dawid_skene"),
    _ours("Dawid-Skene, EM to the end", engine="em"),
    _baseline("one-coin EM", "one_coin"),
    _baseline("Spectral-D&S", "spectral_dawid_skene", random=True),
    _baseline("TensorADMM", "tensor_admm", random=True),
    _baseline("KOS-SVD", "kos", ordered=True, method="svd"),
    _baseline("KOS, message passing", "kos", random=True, ordered=True, method="message-passing"),
    _baseline("GhoshSVD", "ghosh_svd", ordered=True),
    _baseline("EigenRatio", "eigen_ratio", ordered=True),
    _baseline("minimax entropy", "minimax_entropy"),
    _baseline("GLAD", "glad"),
    _baseline("BCC (VB)", "bcc", engine="vb"),
    Method("BCC (Gibbs)", {"baseline": "bcc", "options": {"engine": "gibbs"}}, random=True, largest=30_000),
    Method("BCC (Gibbs), flat priors", {"baseline": "bcc", "options": _FLAT_GIBBS}, random=True, largest=30_000),
    _baseline("MACE", "mace", random=True),
    _baseline("PGD", "pgd"),
    _baseline("M-MSR", "m_msr"),
    _baseline("Wawa", "wawa"),
    _baseline("zero-based skill", "zero_based_skill"),
    _ours("MultiSPA", engine="multispa", compat="released"),
    _ours("MultiSPA-D&S", engine="multispa", compat="released", polish=10, polish_prevalence="uniform"),
    _ours("MultiSPA-KL", engine="multispa-kl", prior=0.0),
    _ours("SymNMF", engine="symnmf"),
    _ours("SymNMF + 10 passes of EM", engine="symnmf", polish=10),
    _ours("IDBLA, two levels, flat priors", _FLAT_IDBLA, engine="collapsed-vi", moments="zero"),
    _ours("Fixed-IDBLA, flat priors", _FLAT_FIXED, engine="collapsed-vi"),
    _ours("IDBLA", "idbla", engine="collapsed-vi"),
    _ours("Fixed-IDBLA", "fixed-idbla", engine="collapsed-vi"),
    _ours("bc.fit(labels)", None),
]

MAIN_ONLY = {
    "BCC (Gibbs)",
    "BCC (Gibbs), flat priors",
    "IDBLA, two levels, flat priors",
    "Fixed-IDBLA, flat priors",
    "IDBLA",
    "Fixed-IDBLA",
    "SymNMF + 10 passes of EM",
    "bc.fit(labels)",
}
"""Rows of the papers' own sets alone: docs/models.md has these models, under every engine, on all others."""

PEERS = ("MajorityVote", "DawidSkene", "OneCoinDawidSkene", "MMSR", "KOS", "MACE", "GLAD")
TWINS = {
    "DawidSkene": "Dawid-Skene, EM to the end",
    "OneCoinDawidSkene": "one-coin EM",
    "MMSR": "M-MSR",
    "KOS": "KOS, message passing",
    "MACE": "MACE",
    "GLAD": "GLAD",
}
"""Methods of crowd-kit, and which row of ours is the same method."""

BINARY_PEERS = ("KOS",)


def found_sets(data: Path) -> dict[str, dict[str, Any]]:
    """Title -> table of the papers' own sets and of all others, the smallest first."""
    sizes = real.found_sets(data)
    parts = {title: at for title, at in MAIN.items() if at[0] in sizes}
    parts |= {name: (name, None) for name in sizes if name not in MAIN}
    return {title: {"dataset": at[0], "subset": at[1], "n_labels": sizes[at[0]]} for title, at in parts.items()}


def n_classes(folder: Path) -> int:
    import csv

    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        return len({row["label"] for row in csv.DictReader(file)})


def plan(sets: dict[str, dict[str, Any]], classes: dict[str, int]) -> list[Cell]:
    """All cells, set by set."""
    cells = []
    for title, table in sets.items():
        binary = classes[table["dataset"]] == 2
        for method in METHODS:
            if table["n_labels"] > (method.largest or table["n_labels"]):
                continue
            if method.name in MAIN_ONLY and title not in MAIN:
                continue
            options = dict(method.how["options"])
            if method.ordered and not binary:
                options["ordered"] = True
            how = {"kind": "table", **method.how, "options": options, "seeds": SEEDS if method.random else None}
            if title not in MAIN:
                # The methods that crowd-kit has too are run again, without compiling.
                how |= {"seeds": SEEDS[:1] if method.random else None, "once": method.name not in TWINS.values()}
            cells.append(Cell(CASE, title, method.name, "real_cell:judge", table, how, cap=CAP))
        if table["subset"] is not None:
            continue
        for peer in PEERS:
            if peer in BINARY_PEERS and not binary:
                continue
            how = {"kind": "peer", "method": peer}
            tool = real.peer(peer)
            cells.append(
                Cell(
                    CASE, title, tool, "real_cell:judge", table, how, needs="crowd-kit", ours=False, cap=runner.PEER_CAP
                )
            )
    return cells


def main(arguments: list[str]) -> int:
    """`python tests/benchmarks papers`: measure, print and write docs/paper-tables.md."""
    from benchmarks import papers_page

    parser = real.parser_of("papers", "The papers' tables.", "paper-tables.md")
    given = parser.parse_args(arguments)
    data = runner.data_folder()
    if data is None:
        print("no real data here: set BAYESCROWD_DATA to a folder with NAME/labels.csv and NAME/truth.csv")
        return 0
    sets = found_sets(data)
    unknown = [name for name in given.set if name not in sets]
    if unknown:
        parser.error(f"not found: {', '.join(unknown)}; the sets are {'; '.join(sets)}")
    classes = {table["dataset"]: n_classes(data / table["dataset"]) for table in sets.values()}
    planned = plan(sets, classes)
    wanted = [cell for cell in planned if not given.set or cell.size in given.set]
    wanted = [cell for cell in wanted if not given.tool or any(part in cell.tool for part in given.tool)]
    ran: runner.Records = {}
    if not given.report:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process at work is ended too
        print(f"{len(wanted)} cells, records in {given.folder}", flush=True)
        how: dict[str, Any] = {"fresh": given.fresh, "minutes": given.minutes}
        ran = real.run(wanted, given.folder, data, say=lambda text: print(text, flush=True), **how)
    page = papers_page.page(runner.recorded(planned, given.folder), sets)
    given.page.parent.mkdir(parents=True, exist_ok=True)
    given.page.write_text(page, encoding="utf-8")
    print(page)
    print(f"wrote {given.page}")
    return int(any("failed" in record for record in ran.values()))
