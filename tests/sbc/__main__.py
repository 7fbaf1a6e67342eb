"""`python tests/sbc`: simulation-based calibration of every sampler on every model; writes docs/calibration.md."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import sys
import time
from pathlib import Path
from typing import Any

# The repository root stays off the path, or `models` would be a second copy.
_HERE = Path(__file__).resolve().parent
_AWAY = (_HERE, _HERE.parents[1])
sys.path[:] = [str(_HERE.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() not in _AWAY)]

_KEPT = 19
_KEEP = {"warmup": 50, "keep": _KEPT}
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gibbs, blocked": ("gibbs", {"thin": 15} | _KEEP),
    "gibbs, single": ("gibbs", {"scheme": "single", "thin": 20} | _KEEP),
    "collapsed-gibbs, joint": ("collapsed-gibbs", {"thin": 10} | _KEEP),
    "collapsed-gibbs, single": ("collapsed-gibbs", {"scheme": "single", "thin": 15} | _KEEP),
    "nuts": ("nuts", {"thin": 6, "warmup": 200}),
}
"""Sampler -> engine and options; ``thin`` is the number of sweeps from one kept draw to the next."""

_INTRODUCTION = """# Calibration of the samplers

Written by `make sbc` on {date}: {versions}.

If parameters are drawn from the prior and labels given them, the true value of every quantity is one more draw from the
posterior: its rank among a sampler's draws is uniform. Whatever is wrong in the sampler shows in some rank
(simulation-based calibration: [Talts et al. 2018](https://arxiv.org/abs/1804.06788); [Modrak et al.
2023](https://arxiv.org/abs/2211.02383)). Every row below stands for {replicates} data sets of {n_items} items,
{n_workers} workers, two classes and {n_labels} labels, with priors that tell classes and levels apart, and for {kept}
thinned draws of one chain each. Class and difficulty of every item are drawn given each draw of the parameters. The
first p-values are of chi-square tests of the ranks in ten bins, the others of the largest distance of the ranks'
distribution function from the diagonal (Kolmogorov-Smirnov). A row passes if no p-value falls below .01 divided by the
number of its tests. Variational engines are not here: their approximations are too narrow, and this test would rightly
say so.

| model | sampler | smallest chi-square p | of | smallest other p | passes |
|---|---|---|---|---|---|
"""


_EVERY = "\n\n## Every quantity (chi-square p-values)\n"


def _versions() -> str:
    names = ("bayescrowd", "jax", "numpyro", "numpy")
    known = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([*known, f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"])


def main(arguments: list[str] | None = None) -> int:
    from conformance import calibration

    parser = argparse.ArgumentParser(prog="python tests/sbc", description="Simulation-based calibration.")
    parser.add_argument("model", nargs="*", help=f"models, by default all: {', '.join(calibration.CASES)}")
    parser.add_argument("--sampler", help="only samplers whose name holds this")
    parser.add_argument("--replicates", type=int, default=400, help="data sets per model and sampler")
    parser.add_argument("--page", type=Path, default=_HERE.parents[1] / "docs" / "calibration.md", help="page to write")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.model if name not in calibration.CASES]
    if unknown:
        parser.error(f"there is no model {', '.join(unknown)}; the models are {', '.join(calibration.CASES)}")
    rows, details, failed = [], [], 0
    for name, case in calibration.CASES.items():
        table: dict[str, dict[str, float]] = {}
        for sampler, (engine, options) in SAMPLERS.items():
            one_level = case.n_levels == 1 and options.get("scheme") == "single"
            if one_level or (given.model and name not in given.model) or (given.sampler or "") not in sampler:
                continue
            begin = time.perf_counter()
            ranks = calibration.ranks(case, engine, given.replicates, kept=_KEPT, seed=20261130, **options)
            p, envelope = calibration.p_values(ranks, _KEPT), calibration.envelope(ranks, _KEPT)
            least = min(p, key=lambda quantity: p[quantity])
            passes = min(p[least], min(envelope.values())) > 0.01 / (2 * len(p))
            failed += not passes
            table[sampler] = p
            verdict = "yes" if passes else "NO"
            rows.append(f"| {name} | {sampler} | {p[least]:.3f} | {least} | {min(envelope.values()):.3f} | {verdict} |")
            print(rows[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)  # noqa: T201
        if table:
            details.append(_detail(name, table))
    if not given.model and not given.sampler:
        text = _INTRODUCTION.format(
            date=datetime.datetime.now(datetime.UTC).date(),
            versions=_versions(),
            replicates=given.replicates,
            kept=_KEPT,
            n_items=calibration.N_ITEMS,
            n_workers=calibration.N_WORKERS,
            n_labels=calibration.N_LABELS,
        )
        given.page.write_text(text + "\n".join(rows) + _EVERY + "\n".join(details), encoding="utf-8")
    return int(failed > 0)


def _detail(name: str, table: dict[str, dict[str, float]]) -> str:
    samplers = list(table)
    lines = [f"\n### {name}\n", f"| quantity | {' | '.join(samplers)} |", "|---" * (len(samplers) + 1) + "|"]
    for quantity in next(iter(table.values())):
        values = " | ".join(f"{table[sampler][quantity]:.3f}" for sampler in samplers)
        lines.append(f"| {quantity} | {values} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
