"""The cases: which cells there are, in their usual and in their tiny sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.runner import PEER_CAP, Cell

FIT = """
import bayescrowd as bc
labels = bc.datasets.load("anesthesia")
bc.fit(labels{options}).consensus()
"""

PEER = {"needs": "crowd-kit", "ours": False, "cap": PEER_CAP}
EVEN = {"classes": 5, "per_item": 5}


def em_pass(*, quick: bool) -> list[Cell]:
    """One EM pass over 1M labels, after compile."""
    items, workers, size = (400, 20, "2k") if quick else (200_000, 1000, "1M")
    table = EVEN | {"items": items, "workers": workers}
    few: dict[str, Any] = {"few": 2, "many": 8, "repeats": 1} if quick else {}
    reference = {"ours": False, "cap": PEER_CAP}
    double = few | {"double": True}
    return [
        Cell("em-pass", size, "bayescrowd", "em:pass_bayescrowd", table, few | {"acceleration": "none"}),
        Cell("em-pass", size, "bayescrowd, SQUAREM", "em:pass_bayescrowd", table, few),
        Cell("em-pass", size, "plain JAX scatter, float32", "em:pass_scatter", table, few, **reference),
        Cell("em-pass", size, "plain JAX scatter, float64", "em:pass_scatter", table, double, **reference),
        Cell("em-pass", size, "crowd-kit", "em:pass_crowdkit", table, **PEER),
    ]


def em_fit(*, quick: bool) -> list[Cell]:
    """EM to convergence, cold process, from a DataFrame in memory to class probabilities."""
    sizes = {"10k": (2000, 10), "100k": (20_000, 100), "1M": (200_000, 1000), "5M": (1_000_000, 5000)}
    sizes = {"2k": (400, 10)} if quick else sizes
    cells = []
    for size, (items, workers) in sizes.items():
        table = EVEN | {"items": items, "workers": workers}
        small = size in ("10k", "100k")
        cells.append(Cell("em-fit", size, "bayescrowd", "em:fit_bayescrowd", table, repeats=1 if quick else 3))
        if size in ("2k", "5M"):
            cells.append(Cell("em-fit", size, "bayescrowd, text ids", "em:fit_bayescrowd", table, {"text": True}))
        cells.append(Cell("em-fit", size, "crowd-kit", "em:fit_crowdkit", table, repeats=3 if small else 1, **PEER))
        if small:
            longer = {"n_iter": 1000, "tol": 1e-9}
            cells.append(Cell("em-fit", size, "crowd-kit, tol=1e-9", "em:fit_crowdkit", table, longer, **PEER))
    return cells


def nuts(*, quick: bool) -> list[Cell]:
    """NUTS and Gibbs sampling of Dawid-Skene on small tables: smallest effective sample size per second."""
    likeness = {"items": 800, "workers": 164, "classes": 2, "per_item": 10}
    tables = {"rte": {"dataset": "rte"}, "rte look-alike": likeness, "anesthesia": {"dataset": "anesthesia"}}
    if quick:
        tables = {"tiny": {"items": 30, "workers": 6, "classes": 2, "per_item": 5}}
    short: dict[str, Any] = {"chains": 2, "warmup": 20, "draws": 20} if quick else {}
    peer = {"ours": False, "cap": PEER_CAP}
    cells = []
    for size, table in tables.items():

        def add(tool: str, name: str, arguments: dict[str, Any], at: str = size, data: Any = table, **how: Any) -> None:
            cells.append(Cell("nuts", at, tool, f"sampling:{name}", data, arguments | short, **how))

        add("bayescrowd", "nuts_bayescrowd", {}, repeats=1 if quick else 2)
        longer = {"chains": 2, "draws": 4000, "keep": 4000}
        for engine in ("gibbs", "collapsed-gibbs"):
            how = {"engine": engine}
            add(f"bayescrowd, {engine}", "gibbs_bayescrowd", how, repeats=1 if quick else 2)
            if not quick:
                add(f"bayescrowd, {engine}, 2 chains of 4000", "gibbs_bayescrowd", how | longer, repeats=2)
        if not quick:
            add("bayescrowd, 2 chains of 2000", "nuts_bayescrowd", {"chains": 2, "draws": 2000}, repeats=2)
            add("NumPyro, 1 chain", "nuts_numpyro", {"chains": 1, "near_majority": True}, **peer)
            add("NumPyro", "nuts_numpyro", {"near_majority": True}, **peer)
            # One chain a core, and few draws: as many as ours would not come to an end before the cap.
            few = {"chains": 2, "warmup": 150, "draws": 150}
            add("Stan, 2 chains of 150", "nuts_stan", few, needs="pystan", **peer)
        add("NumPyro, vectorized", "nuts_numpyro", {"method": "vectorized", "near_majority": True}, **peer)
        if size == "anesthesia" or quick:
            add("NumPyro, vectorized, default start", "nuts_numpyro", {"method": "vectorized"}, **peer)
    return cells


def start(*, quick: bool) -> list[Cell]:
    """Whole processes, from nothing."""
    codes = {
        "import bayescrowd": "import bayescrowd",
        "bayescrowd --version": "--version",
        "bc.fit(labels), anesthesia": FIT.format(options=""),
        "bc.fit(labels, engine='nuts'), anesthesia": FIT.format(options=", engine='nuts', progress=False"),
    }
    cells = []
    for name, code in list(codes.items())[: 3 if quick else None]:
        repeats = 1 if quick else 2 if "nuts" in name else 5
        cells.append(Cell("start", "", name, "starting:process", None, {"code": code, "repeats": repeats}))
    return cells


def recompile(*, quick: bool) -> list[Cell]:
    """Many small tables in one process."""
    fits = 3 if quick else 50
    cells = [Cell("recompile", "50 x 5", "em", "starting:recompile", None, {"fits": fits})]
    if not quick:
        options = {"fits": 5, "engine": "nuts", "chains": 2, "warmup": 100, "draws": 100}
        cells.append(Cell("recompile", "50 x 5", "nuts", "starting:recompile", None, options))
    return cells


def memory(*, quick: bool) -> list[Cell]:
    """Peak memory against labels and states."""
    half = 40 if quick else 20_000
    cells = []
    for size, items, workers, classes in (
        ("100k labels, 10 classes", half, 500, 10),
        ("500k labels, 10 classes", 5 * half, 500, 10),
        ("500k labels, 2 classes", 5 * half, 500, 2),
        ("2M labels, 10 classes", 20 * half, 500, 10),
        ("500k labels, 10 classes, 20k workers", 5 * half, 20_000, 10),
    ):
        table = {"items": items, "workers": workers, "classes": classes, "per_item": 5}
        cells.append(Cell("memory", size, "em", "starting:peak", table, {"max_iter": 20}))
    table = {"items": 5 * half, "workers": 500, "classes": 10, "per_item": 5}
    options = {"engine": "nuts", "chains": 2, "warmup": 10, "draws": 20, "max_tree_depth": 3}
    cells.append(Cell("memory", "500k labels, 10 classes", "nuts", "starting:peak", table, options))
    # As many draws as by default, on few items: what is kept of the draws.
    small = {"items": 1000, "workers": 500, "classes": 10, "per_item": 5}
    many = {"engine": "nuts", "chains": 4, "warmup": 10, "draws": 1000, "max_tree_depth": 1}
    cells.append(
        Cell("memory", "5k labels, 500 workers, 10 classes, 4 x 1000 draws", "nuts", "starting:peak", small, many)
    )
    return cells[1:2] if quick else cells


def skewed(*, quick: bool) -> list[Cell]:
    """Passes over tables whose labels are unevenly spread."""
    items, extra, workers = (400, 1000, 20) if quick else (200_000, 500_000, 1000)
    base = EVEN | {"workers": workers}
    pairs = base | {"per_item": 2, "items": items * 5 // 2}
    tables = {
        "1.5M labels, 5 on each item": base | {"items": items * 3 // 2},
        "1.5M labels, 500k of them on one item": base | {"items": items, "shape": "one-item", "extra": extra},
        "1M labels, 2 on each item": pairs,
        "1M labels, half of them by one worker": pairs | {"shape": "one-worker"},
    }
    few: dict[str, Any] = {"acceleration": "none"} | ({"few": 2, "many": 8, "repeats": 1} if quick else {"many": 32})
    return [Cell("skewed", size, "bayescrowd", "em:pass_bayescrowd", table, few) for size, table in tables.items()]


def vi_pass(*, quick: bool) -> list[Cell]:
    """One variational pass of Dawid-Skene over 1M labels, after compile."""
    items, workers, size = (400, 20, "2k") if quick else (200_000, 1000, "1M")
    table = EVEN | {"items": items, "workers": workers}
    few: dict[str, Any] = {"few": 2, "many": 8, "repeats": 1} if quick else {}

    def cell(tool: str, name: str, arguments: dict[str, Any], **how: Any) -> Cell:
        return Cell("vi-pass", size, tool, name, table, few | arguments, **how)

    cells = [cell("collapsed-vi, zero", "bayes:passes", {"engine": "collapsed-vi", "moments": "zero"})]
    cells += [
        cell(f"collapsed-vi, {moments}", "bayes:passes", {"engine": "collapsed-vi", "moments": moments})
        for moments in ("zero-split", "second")
    ]
    cells += [cell("vb", "bayes:passes", {"engine": "vb"})]
    cells += [cell("em, no acceleration", "em:pass_bayescrowd", {"acceleration": "none"})]
    return [*cells, cell("plain JAX scatter of EM, float32", "em:pass_scatter", {}, ours=False, cap=PEER_CAP)]


def gibbs(*, quick: bool) -> list[Cell]:
    """Collapsed Gibbs sampling of IDBLA: 3 classes, 3 levels, 10 labels per item, after compile."""
    sizes = {"100": (100, 20)} if quick else {"1,000": (1000, 100), "10,000": (10_000, 1000)}
    few: dict[str, Any] = {"few": 2, "many": 8, "repeats": 1} if quick else {}
    cells = []
    for size, (items, workers) in sizes.items():
        table = {"items": items, "workers": workers, "classes": 3, "per_item": 10}
        short = few or ({"few": 20, "many": 60} if items > 1000 else {})
        warm = short | {"warmup": 5 if quick else 100 if items <= 1000 else 40}
        size = f"{size} items"
        plain: dict[str, Any] = {"ours": False, "cap": PEER_CAP}
        cells.append(Cell("gibbs", size, "collapsed-gibbs, 4 chains", "bayes:sweeps", table, warm))
        if not quick:
            cells.append(Cell("gibbs", size, "collapsed-gibbs, 2 chains", "bayes:sweeps", table, warm | {"chains": 2}))
        cells.append(Cell("gibbs", size, "plain JAX scan, 1 chain", "bayes:sweeps_plain", table, short, **plain))
        if not quick:
            four = short | {"chains": 4}
            cells.append(Cell("gibbs", size, "plain JAX scan, 4 chains", "bayes:sweeps_plain", table, four, **plain))
            uncollapsed = warm | {"engine": "gibbs"}
            cells.append(Cell("gibbs", size, "gibbs (blocked), 4 chains", "bayes:sweeps", table, uncollapsed))
    return cells


def gibbs_memory(*, quick: bool) -> list[Cell]:
    """Peak memory of collapsed Gibbs sampling of IDBLA against draws (100 items, 50 workers, 4 chains)."""
    table = {"items": 100, "workers": 50, "classes": 3, "per_item": 10}
    cells = []
    for draws in (20, 40) if quick else (1000, 20_000):
        for tool, keep in (("keep=0", {"keep": 0}), ("keep=1000, the default", {})):
            options = {"draws": draws, "warmup": 10 if quick else 100} | keep
            cells.append(Cell("gibbs-memory", f"{draws:,} draws", tool, "bayes:peak", table, options))
    return cells


def moments(*, quick: bool) -> list[Cell]:
    """Pair statistics of workers and the moment estimators on them, from labels in memory."""
    items, workers, size = (400, 20, "2k labels") if quick else (200_000, 1000, "1M labels, 1000 workers, 5 classes")
    tables: dict[str, dict[str, Any]] = {size: EVEN | {"items": items, "workers": workers}}
    if not quick:
        tables = {"trec": {"dataset": "trec"}} | tables
    cells = []
    for name, table in tables.items():
        cells.append(Cell("moments", name, "pair statistics", "pairs:count", table))
        for engine in ("multispa", "multispa-kl", "symnmf"):
            cells.append(Cell("moments", name, engine, "pairs:estimate", table, {"engine": engine}))
    return cells


CASES: dict[str, Callable[..., list[Cell]]] = {
    "em-pass": em_pass,
    "em-fit": em_fit,
    "vi-pass": vi_pass,
    "gibbs": gibbs,
    "gibbs-memory": gibbs_memory,
    "nuts": nuts,
    "moments": moments,
    "start": start,
    "recompile": recompile,
    "memory": memory,
    "skewed": skewed,
}
