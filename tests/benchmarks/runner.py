"""Runs cells, each in a fresh process; keeps their records as JSON lines, so that a run resumes where it stopped.

A cell is one case x size x tool. This module stays light (no NumPy, no JAX): on Linux a child's peak memory is never
below that of the process that started it.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAIN = Path(__file__).with_name("__main__.py")
LIBRARIES = ("bayescrowd", "jax", "numpyro", "numpy", "pandas", "crowd-kit", "pystan")
PEER_CAP = 120.0
SLACK = 180.0
"""Seconds that a process may take beyond its cap, to read its table and to judge its result."""

type Record = dict[str, Any]
type Records = dict[tuple[str, str, str], Record]


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Parameters
    ----------
    case, size, tool
        Where its record belongs in the report.
    function
        "module:name" of this package; called as `function(clock, table, **arguments)`.
    table
        What `tables.prepare` makes, or None.
    arguments
        Passed on.
    needs
        Distribution without which the cell is skipped.
    ours
        Measures our code, so that its record is void once that code changes.
    cap
        Seconds after which it is ended.
    repeats
        Processes; the fastest one's record is kept.
    """

    case: str
    size: str
    tool: str
    function: str
    table: dict[str, Any] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    needs: str | None = None
    ours: bool = True
    cap: float = 600.0
    repeats: int = 1

    @property
    def name(self) -> str:
        return f"{self.case} / {self.size} / {self.tool}"


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that matter; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The machine in words."""
    cores = os.cpu_count() or 1
    try:
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
    except (AttributeError, ValueError, OSError):
        memory = ""
    return f"{cores} {'core' if cores == 1 else 'cores'} ({platform.system()}, {platform.machine()}){memory}"


def mark(cell: Cell) -> str:
    """Hash of what a cell asks for; the report shows the latest record with it."""
    return _hash([asdict(cell), machine()])


def state(cell: Cell) -> str:
    """Hash of everything else that a record depends on: versions and, for our own cells, our code."""
    files = sorted([*(ROOT / "bayescrowd").rglob("*.py"), *(ROOT / "models").glob("*.py")]) if cell.ours else []
    return _hash([versions(), [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Results:
    """Records on file; the latest one of each cell counts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.jsonl"
        self.by_mark: dict[str, Record] = {}
        if self.path.is_file():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # a line cut off by an interrupt
                self.by_mark[record["mark"]] = record

    def add(self, record: Record) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.by_mark[record["mark"]] = record


def run_cells(
    cells: Iterable[Cell], folder: Path, *, fresh: bool = False, say: Callable[[str], None] = print
) -> Records:
    """Run the cells that have no valid record yet; returns the records by case, size and tool."""
    results = Results(folder)
    records: Records = {}
    for cell in cells:
        asked, now = mark(cell), state(cell)
        record = results.by_mark.get(asked)
        if fresh or record is None or record["state"] != now or "failed" in record:
            reason = _missing(cell)
            if reason:
                say(f"  {cell.name}: skipped, {reason}")
                continue
            names = {"case": cell.case, "size": cell.size, "tool": cell.tool}
            record = {"mark": asked, "state": now, **names, **_measure(cell, folder)}
            results.add(record)
        records[cell.case, cell.size, cell.tool] = record
        say(f"  {cell.name}: {_short(record)}")
    return records


def recorded(cells: Iterable[Cell], folder: Path) -> Records:
    """The latest record of each cell; `stale` tells whether code or versions have changed since."""
    by_mark = Results(folder).by_mark
    now: dict[bool, str] = {}
    found: Records = {}
    for cell in cells:
        record = by_mark.get(mark(cell))
        if record is not None:
            now[cell.ours] = now.get(cell.ours) or state(cell)
            found[cell.case, cell.size, cell.tool] = {**record, "stale": record["state"] != now[cell.ours]}
    return found


def data_folder() -> Path | None:
    """Folder of real data sets, or None."""
    folder = Path(os.environ.get("BAYESCROWD_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def run_worker(text: str) -> None:
    """Do what a JSON text asks of a function of this package; runs in its own process."""
    job = json.loads(text)
    module, _, name = job.pop("function").partition(":")
    getattr(importlib.import_module(f"benchmarks.{module}"), name)(job)


def run_cell(text: str) -> None:
    """Measure one cell; runs in its own process."""
    job = json.loads(text)
    from benchmarks import measure, tables

    folder = Path(job["folder"])
    if job["prepare"]:
        tables.prepare(job["table"], folder)
        return
    module, _, name = job["function"].partition(":")
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    table = None if job["table"] is None else tables.load(job["table"], folder)
    clock = measure.Clock(job["out"], job["cap"])
    clock.write(**function(clock, table, **job["arguments"]))


def _missing(cell: Cell) -> str | None:
    if cell.needs is not None and cell.needs not in versions():
        return f"{cell.needs} is not installed"
    name = None if cell.table is None else cell.table.get("dataset")
    if name is not None:
        folder = data_folder()
        if folder is None or not (folder / name / "labels.csv").is_file():
            return f"data set {name!r} is not here: set BAYESCROWD_DATA"
    return None


def _measure(cell: Cell, folder: Path) -> dict[str, Any]:
    if cell.table is not None:
        problem = _process(cell, folder, None)
        if problem is not None:
            return stamp({"failed": problem})
    best: dict[str, Any] | None = None
    every = []
    for _ in range(cell.repeats):
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "record.json"
            problem = _process(cell, folder, out)
            record = (
                json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"failed": problem or "no record"}
            )
        record["load_before"] = load
        every.append(record.get("seconds"))
        if best is None or record.get("seconds", float("inf")) < best.get("seconds", float("inf")):
            best = record
        if "failed" in record or record.get("capped"):
            break
    return stamp({**(best or {}), "all_seconds": every})


def stamp(record: dict[str, Any]) -> dict[str, Any]:
    """Add date, versions and machine."""
    now = datetime.datetime.now(tz=datetime.UTC)
    return {**record, "date": now.date().isoformat(), "versions": versions(), "machine": machine()}


def _process(cell: Cell, folder: Path, out: Path | None) -> str | None:
    """Start one process and wait for it; what went wrong, or None."""
    job = {**asdict(cell), "folder": str(folder / "tables"), "prepare": out is None, "out": str(out)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, str(MAIN), "--cell", json.dumps(job)],
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(cell.cap + SLACK)
        except subprocess.TimeoutExpired:
            return f"ended after {cell.cap + SLACK:.0f} s"
        finally:
            end(process)
        if process.returncode == 0:
            return None
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else f"exit status {process.returncode}"


def end(process: subprocess.Popen[bytes]) -> None:
    """End a cell's process and all that it started (Stan's chains outlive it otherwise)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _short(record: dict[str, Any]) -> str:
    if "failed" in record:
        return f"failed: {record['failed']}"
    sign = "> " if record.get("capped") else ""
    return f"{sign}{record['seconds']:.3g} s, peak {record.get('peak_mb', float('nan')):.0f} MB"
