"""Real label sets with known truth: every model under every engine, beside majority vote and crowd-kit's methods.

One process per set does one method after another and hands over a record after each, so that what does not depend on
the method (imports, reading) is done once. Records are kept as those of the other benchmarks are: a run that was
stopped goes on with the next method. Like `runner`, this module stays light: no NumPy, no JAX.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import runner
from benchmarks.runner import Cell, Record, Records

CASE = "models"
MODELS = ("dawid-skene", "idbla", "fixed-idbla")
ENGINES = ("em", "vb", "collapsed-vi", "gibbs", "collapsed-gibbs", "svi", "nuts")
LARGEST = {"nuts": 10_000, "svi": 10_000, "collapsed-gibbs": 30_000, "gibbs": 30_000}
"""Most labels of a set that an engine is run on; the others run on all sets."""

CHAINS = 4
LABEL_UPDATES = {"collapsed-gibbs": 16e6, "gibbs": 40e6}
"""Labels x sweeps x chains that a sampler may take; sets that would need more get fewer sweeps."""

PEERS = ("MajorityVote", "DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE")
LARGEST_OF_PEERS = {"GLAD": 15_000, "MACE": 15_000}
"""The same for methods of crowd-kit; these two would take minutes a set."""

MAJORITY, DEFAULT = "majority vote", "bc.fit(labels)"
CAP = 45.0
"""Seconds after which a fit of ours is interrupted; engines then give what they have."""

CAPS = {"nuts": 20.0, "svi": 20.0}
"""The same for engines that would otherwise take most of the hour."""

CAP_OF_DEFAULT = 120.0
"""The same for `bc.fit(labels)`, which should have a result on every set."""

GRACE = 30.0
"""Seconds it may take them to do so; then the process is ended."""

MOST_CLASSES = 30
MINUTES = 60.0
SHORT: dict[str, dict[str, Any]] = {
    "gibbs": {"chains": 2, "warmup": 20, "draws": 20},
    "collapsed-gibbs": {"chains": 2, "warmup": 20, "draws": 20},
}


def peer(name: str) -> str:
    """How a method of crowd-kit is called on the page."""
    return f"crowd-kit {name}"


def tool_of(model: str, engine: str) -> str:
    """How a model under an engine is called in the records."""
    return f"{model} / {engine}"


def settings(engine: str, n_labels: int) -> dict[str, Any]:
    """Options other than the default ones: fewer sweeps where a default run would take too long."""
    if engine == "nuts":
        return {"chains": 2, "warmup": 200, "draws": 200}
    if engine not in LABEL_UPDATES:
        return {}
    sweeps = int(LABEL_UPDATES[engine] / (CHAINS * n_labels))
    if sweeps >= 1500:
        return {}
    warmup = max(sweeps // 3 // 10 * 10, 50)
    return {"warmup": warmup, "draws": 2 * warmup}


def found_sets(folder: Path) -> dict[str, int]:
    """Sets with known truth and their numbers of labels, the smallest first; numeric ones are left out."""
    sizes = {}
    for place in sorted(folder.iterdir()):
        labels, truth = place / "labels.csv", place / "truth.csv"
        if not (labels.is_file() and truth.is_file()):
            continue
        with truth.open(encoding="utf-8", newline="") as file:
            if not any(True for _ in csv.DictReader(file)):
                continue
        with labels.open(encoding="utf-8", newline="") as file:
            values = [row["label"] for row in csv.DictReader(file)]
        if len(set(values)) <= MOST_CLASSES:
            sizes[place.name] = len(values)
    return dict(sorted(sizes.items(), key=lambda pair: (pair[1], pair[0])))


def plan(sets: dict[str, int], *, quick: bool = False) -> list[Cell]:
    """All cells, set by set; the cheap methods of a set first."""
    cells = []
    for name, n_labels in sets.items():
        table = {"dataset": name, "n_labels": n_labels}

        def add(tool: str, arguments: dict[str, Any], at: str = name, data: Any = table, **how: Any) -> None:
            cells.append(Cell(CASE, at, tool, "real_cell:judge", data, arguments, **({"cap": CAP} | how)))

        add(MAJORITY, {"kind": "majority"})
        add(DEFAULT, {"kind": "ours"}, cap=CAP_OF_DEFAULT)
        for engine in ENGINES[:5] if quick else ENGINES:
            if n_labels > LARGEST.get(engine, n_labels):
                continue
            for model in MODELS[:1] if quick and engine != "collapsed-gibbs" else MODELS:
                options = SHORT.get(engine, {}) if quick else settings(engine, n_labels)
                how = {"kind": "ours", "model": model, "engine": engine, "options": options}
                add(tool_of(model, engine), how, cap=CAPS.get(engine, CAP))
        for method in PEERS[:1] if quick else PEERS:
            if n_labels > LARGEST_OF_PEERS.get(method, n_labels):
                continue
            how = {"needs": "crowd-kit", "ours": False, "cap": runner.PEER_CAP}
            add(peer(method), {"kind": "peer", "method": method}, **how)
    return cells


def given_up(cell: Cell, records: Iterable[Record], n_labels: dict[str, int]) -> str | None:
    """The smaller set on which this method of a peer was cut off; it is not tried on larger ones."""
    if cell.arguments["kind"] != "peer":
        return None
    for record in records:
        if record["tool"] == cell.tool and record.get("capped"):
            here = record["size"]
            if n_labels.get(here, 0) < n_labels[cell.size]:
                return here
    return None


def run(
    cells: list[Cell],
    folder: Path,
    data: Path,
    *,
    fresh: bool = False,
    minutes: float = MINUTES,
    say: Callable[[str], None] = print,
) -> Records:
    """Measure the cells that have no valid record yet, in one process per set; returns all records."""
    results = runner.Results(folder)
    begun = time.monotonic()
    n_labels = {cell.size: cell.table["n_labels"] for cell in cells if cell.table}
    # Read once: the code does not change under a run.
    states = {ours: runner.state(next(c for c in cells if c.ours == ours)) for ours in {c.ours for c in cells}}
    records: Records = {}
    installed = runner.versions()
    for name in n_labels:
        pending = []
        for cell in (cell for cell in cells if cell.size == name):
            record = results.by_mark.get(runner.mark(cell))
            if fresh or record is None or record["state"] != states[cell.ours] or "failed" in record:
                pending.append(cell)
            else:
                records[cell.case, cell.size, cell.tool] = record
        pending = [cell for cell in pending if cell.needs is None or cell.needs in installed]
        pending = [cell for cell in pending if given_up(cell, records.values(), n_labels) is None]
        if pending:
            say(f"{name}, {n_labels[name]:,} labels: {len(pending)} methods")
        while pending:
            if time.monotonic() - begun > 60 * minutes:
                say(f"  stopped after {minutes:g} minutes; the same command goes on from here")
                return records

            def keep(cell: Cell, record: Record) -> None:
                names = {"case": cell.case, "size": cell.size, "tool": cell.tool}
                stamped = {"mark": runner.mark(cell), "state": states[cell.ours], **names, **runner.stamp(record)}
                results.add(stamped)
                records[cell.case, cell.size, cell.tool] = stamped
                say(f"  {cell.tool}: {_short(record)}")

            n_done = _process(pending, data, keep, begun + 60 * minutes)
            pending = pending[n_done:]
    return records


def _process(cells: list[Cell], data: Path, keep: Callable[[Cell, Record], None], until: float) -> int:
    """One process for some methods of one set; how many are done, the one that ended it among them."""
    at = cells[0].table or {}
    which = {"folder": str(data / at["dataset"]), "subset": at.get("subset")}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as said:
        out = Path(place) / "records.jsonl"
        out.touch()
        jobs = [cell.arguments | {"cap": cell.cap} for cell in cells]
        job = {"function": "real_cell:work", **which, "out": str(out), "jobs": jobs, "grace": GRACE}
        process = subprocess.Popen(
            [sys.executable, str(runner.MAIN), "--worker", json.dumps(job)],
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        done, problem, last = 0, None, time.monotonic()

        def collect() -> int:
            lines = out.read_text(encoding="utf-8").split("\n")[:-1]
            for cell, line in list(zip(cells, lines, strict=False))[done:]:
                keep(cell, json.loads(line) | {"load_before": load})
            return len(lines)

        try:
            while process.poll() is None:
                time.sleep(0.1)
                now = collect()
                if now > done:
                    done, last = now, time.monotonic()
                    if last > until:
                        return done
                elif done < len(cells) and time.monotonic() - last > cells[done].cap + GRACE + runner.SLACK:
                    problem = f"ended after {time.monotonic() - last:.0f} s"
                    break
        finally:
            runner.end(process)
        now = collect()
        if now == done < len(cells) and (process.returncode or problem):
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            keep(cells[done], {"failed": problem or (lines[-1][:300] if lines else f"exit {process.returncode}")})
            now += 1
        return max(now, done)


def _short(record: Record) -> str:
    if "failed" in record:
        return f"failed: {record['failed']}"
    if "refused" in record:
        return f"refused: {record['refused']}"
    if record.get("capped"):
        return f"cut off after {record['seconds']:.0f} s"
    more = ", interrupted" * bool(record.get("interrupted")) + ", not converged" * (record.get("converged") is False)
    return f"error {100 * record['error']:.1f} %, {record['seconds']:.3g} s{more}"


def parser_of(word: str, description: str, page: str) -> argparse.ArgumentParser:
    """The options of a benchmark of real sets that keeps its records and goes on where it was stopped."""
    parser = argparse.ArgumentParser(prog=f"python tests/benchmarks {word}", description=description)
    folder, page_at = runner.ROOT / "build" / f"benchmarks-{word}", runner.ROOT / "docs" / page
    parser.add_argument("set", nargs="*", help="sets to run, by default all that are found")
    parser.add_argument("--fresh", action="store_true", help="measure again what is on record")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the page from what is on record")
    parser.add_argument(
        "--tool", action="append", default=[], help="only methods whose name holds this (or another), as 'idbla / nuts'"
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin nothing new after this time")
    parser.add_argument("--folder", type=Path, default=folder, help="for records")
    parser.add_argument("--page", type=Path, default=page_at, help="the page to write")
    return parser


def main(arguments: list[str]) -> int:
    """`python tests/benchmarks models`: measure, print and write docs/models.md."""
    from benchmarks import real_page

    parser = parser_of("models", "Models x engines, real sets.", "models.md")
    parser.add_argument("--quick", action="store_true", help="the smallest set, few methods; writes no page")
    given = parser.parse_args(arguments)
    data = runner.data_folder()
    if data is None:
        print("no real data here: set BAYESCROWD_DATA to a folder with NAME/labels.csv and NAME/truth.csv")
        return 0
    sets = found_sets(data)
    unknown = [name for name in given.set if name not in sets]
    if unknown:
        parser.error(f"not found: {', '.join(unknown)}; the sets with truth are {', '.join(sets)}")
    if given.quick:
        sets = dict([*((name, sets[name]) for name in given.set or list(sets))][:1])
    folder = given.folder / "quick" if given.quick else given.folder
    planned = plan(sets, quick=given.quick)
    wanted = [cell for cell in planned if not given.set or cell.size in given.set]
    wanted = [cell for cell in wanted if not given.tool or any(part in cell.tool for part in given.tool)]
    ran: Records = {}
    if not given.report:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process at work is ended too
        print(f"{len(wanted)} cells, records in {folder}", flush=True)
        how: dict[str, Any] = {"fresh": given.fresh, "minutes": given.minutes}
        ran = run(wanted, folder, data, say=lambda text: print(text, flush=True), **how)
    page = real_page.page(runner.recorded(planned, folder), planned)
    if given.quick:
        print(page)
    else:
        given.page.parent.mkdir(parents=True, exist_ok=True)
        given.page.write_text(page, encoding="utf-8")
        print(f"wrote {given.page}")
    return int(any("failed" in record for record in ran.values()))
