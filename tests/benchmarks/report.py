"""The page of results: what must hold, what was measured, and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.runner import Record, Records

QUOTED_STAN = 4.8
KEPT_DRAWS = "5k labels, 500 workers, 10 classes, 4 x 1000 draws"

HEAD = """# Benchmarks

Written by `python tests/benchmarks` (`make bench`); do not edit. Every figure comes from a fresh process; of repeated
processes the fastest counts. Peers and plain references run on the same machine and read the same tables; a peer is
ended after 120 s. Log likelihoods are computed from each tool's parameters by one plain NumPy function. CPU seconds are
those of the process with all its threads: far below the wall seconds, the machine was busy otherwise.
"""


def page(records: Records, cases: dict[str, Callable[..., Any]]) -> str:
    """The whole page as Markdown."""
    parts = [HEAD, conditions(records), "## Budgets\n", _budgets(records)]
    for case in cases:
        chosen = {key[1:]: record for key, record in records.items() if key[0] == case}
        if chosen:
            parts += [f"## {case}\n", f"{(cases[case].__doc__ or '').strip()}\n"]
            parts += [_TABLES[case](chosen)]
    return "\n".join(parts)


def conditions(records: Records) -> str:
    if not records:
        return "Nothing is on record.\n"
    machine = Counter(record["machine"] for record in records.values()).most_common(1)[0][0]
    dates = sorted({record["date"] for record in records.values()})
    found: dict[str, set[str]] = {}
    for record in records.values():
        for name, version in record["versions"].items():
            found.setdefault(name, set()).add(version)
    listed = ", ".join(f"{name} {' and '.join(sorted(versions))}" for name, versions in found.items())
    loads = [record["load_before"] for record in records.values() if record.get("load_before") is not None]
    busy = f" Load of the machine before a cell: {min(loads):.1f} to {max(loads):.1f}." if loads else ""
    stale = sum(record.get("stale", False) for record in records.values())
    busy += f" {stale} of {len(records)} records are older than the last change of code or versions." if stale else ""
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{when}. Machine: {machine}, no accelerator.{busy} Versions: {listed}.\n"


def number(value: Any, digits: int = 3) -> str:
    if value is None:
        return ""
    value = float(value)
    if value != value:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def table(header: str, rows: Iterable[Iterable[str]]) -> str:
    columns = header.split(" | ")
    lines = [f"| {header} |", "|" + "|".join(["---"] + ["---:"] * (len(columns) - 1)) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _seconds(record: Record) -> str:
    if "failed" in record:
        return "failed"
    return f"> {record['seconds']:.0f}" if record.get("capped") else number(record["seconds"])


def _budgets(records: Records) -> str:
    rows = []

    def add(work: str, must: str, measured: str, *, holds: bool | None) -> None:
        rows.append([work, must, measured, {True: "yes", False: "**no**", None: "not measured"}[holds]])

    def get(case: str, size: str, tool: str, value: str) -> float | None:
        record = records.get((case, size, tool), {})
        return None if record.get("capped") or "failed" in record else record.get(value)

    rate = get("em-pass", "1M", "bayescrowd", "labels_per_second")
    plain = get("em-pass", "1M", "plain JAX scatter, float32", "labels_per_second")
    peer = get("em-pass", "1M", "crowd-kit", "labels_per_second")
    if rate is not None:
        others = (("plain JAX", plain), ("crowd-kit", peer))
        against = [f"{rate / value:.1f} x {name}" for name, value in others if value]
        add(
            "one EM pass, 5 classes, 1M labels",
            ">= 30M labels/s",
            f"{rate / 1e6:.0f}M labels/s" + (f" ({', '.join(against)})" if against else ""),
            holds=rate >= 30e6,
        )
    add_rate = [get("vi-pass", "1M", f"collapsed-vi, {name}", "labels_per_second") for name in ("zero", "zero-split")]
    if add_rate[0] is not None:
        split = f"; zero-split {add_rate[1] / 1e6:.0f}M" if add_rate[1] else ""
        add(
            "one collapsed VI pass (moments zero), 5 classes, 1M labels",
            ">= 30M labels/s",
            f"{add_rate[0] / 1e6:.0f}M labels/s{split}",
            holds=add_rate[0] >= 30e6,
        )
    update = get("gibbs", "1,000 items", "collapsed-gibbs, 4 chains", "us_per_update")
    plain = get("gibbs", "1,000 items", "plain JAX scan, 1 chain", "us_per_update")
    if update is not None:
        beside = f" (plain JAX scan, 1 chain: {plain:.2f})" if plain else ""
        work = "collapsed Gibbs, an item update (10 labels, 3 classes, 3 levels)"
        add(work, "<= 3 us", f"{update:.2f} us{beside}", holds=update <= 3)
    used = [get("gibbs-memory", f"{draws} draws", "keep=0", "peak_mb") for draws in ("1,000", "20,000")]
    if used[0] is not None and used[1] is not None:
        text = f"{used[0]:,.0f} MB and {used[1]:,.0f} MB"
        work = "collapsed Gibbs, memory of 1,000 and of 20,000 draws, keep=0"
        add(work, "the same (to 5 %)", text, holds=used[1] <= 1.05 * used[0])
    seconds, peak = (get("em-fit", "5M", "bayescrowd", name) for name in ("seconds", "peak_mb"))
    if seconds is not None and peak is not None:
        add("5M labels, cold, DataFrame to classes", "< 15 s", f"{seconds:.1f} s", holds=seconds < 15)
        add("", "< 2 GB", f"{peak / 1000:.2f} GB", holds=peak < 2000)
    for size in ("rte", "rte look-alike"):
        rate = get("nuts", size, "bayescrowd", "ess_per_second")
        if rate is not None:
            stan = get("nuts", size, "Stan, 2 chains of 150", "ess_per_second")
            beside = f"; {rate / stan:.0f} x Stan here" if stan else "; Stan was ended or not run here"
            add(
                f"NUTS on {size}, smallest ESS per second",
                f">= 10 x {QUOTED_STAN} (Stan, quoted)",
                f"{rate:.0f}/s = {rate / QUOTED_STAN:.1f} x the quoted figure{beside}",
                holds=rate >= 10 * QUOTED_STAN,
            )
    rate = get("nuts", "rte", "bayescrowd, collapsed-gibbs", "ess_per_second")
    if rate is not None:
        longer = get("nuts", "rte", "bayescrowd, collapsed-gibbs, 2 chains of 4000", "ess_per_second")
        more = f"; 2 chains of 4000: {longer:.0f}/s = {longer / QUOTED_STAN:.0f} x" if longer else ""
        add(
            "collapsed Gibbs on rte, smallest ESS per second",
            f">= 60 x {QUOTED_STAN} (Stan, quoted)",
            f"{rate:.0f}/s = {rate / QUOTED_STAN:.0f} x the quoted figure{more}",
            holds=rate >= 60 * QUOTED_STAN,
        )
    for name, most in (("bc.fit(labels), anesthesia", 10.0),):
        taken = get("start", "", name, "process_seconds")
        if taken is not None:
            add(f"`{name}`, cold process", f"< {most:.0f} s", f"{taken:.1f} s", holds=taken < most)
    second, largest = (get("recompile", "50 x 5", "em", name) for name in ("median_later", "largest_later"))
    if second is not None and largest is not None:
        add(
            "every later fit of a similar size, EM, 50 x 5",
            "< .2 s",
            f"{second:.3f} s (median of 49; largest {largest:.3f})",
            holds=largest < 0.2,
        )
    for size, tool, name in (
        ("500k labels, 10 classes", "em", "100k items, 500 workers, 10 classes, 500k labels, em"),
        ("500k labels, 10 classes", "nuts", "the same, nuts, 2 chains of 20 draws"),
        (KEPT_DRAWS, "nuts", "1000 items, 500 workers, 10 classes, nuts, 4 chains of 1000 draws"),
    ):
        used = get("memory", size, tool, "peak_mb")
        if used is not None:
            add(name, "< 2 GB", f"{used / 1000:.2f} GB", holds=used < 2000)
    return table("work | must | measured | holds", rows) if rows else "Nothing is on record.\n"


def _pass_table(records: dict[tuple[str, str], Record]) -> str:
    ours = next((r.get("labels_per_second") for (_, tool), r in records.items() if tool == "bayescrowd"), None)
    rows = []
    for (size, tool), record in records.items():
        rate = record.get("labels_per_second")
        if rate is None:
            rows.append([tool, size, _seconds(record), "", ""])
            continue
        rows.append([tool, size, f"{1e3 * record['seconds_per_pass']:.1f}", f"{rate / 1e6:.1f}", _ratio(ours, rate)])
    return table("tool | labels | ms per pass | M labels/s | ours / this", rows)


def _ratio(top: float | None, bottom: float | None) -> str:
    return f"{top / bottom:.2g}" if top and bottom else ""


def _fit_table(records: dict[tuple[str, str], Record]) -> str:
    rows = []
    for (size, tool), record in records.items():
        laps = record.get("laps", {})
        ours = records.get((size, "bayescrowd"), {})
        passes = number(record.get("passes"))
        likelihood = record.get("log_likelihood")
        ratio = ">" * bool(record.get("capped")) + _ratio(record.get("seconds"), ours.get("seconds"))
        accuracy = record.get("accuracy")
        rows.append(
            [
                f"{size}, {tool}",
                _seconds(record),
                number(record.get("cpu_seconds")),
                number(laps.get("import"), 2),
                passes,
                number(record.get("peak_mb")),
                "" if likelihood is None else f"{likelihood:,.2f}",
                "" if accuracy is None else f"{accuracy:.4f}",
                ratio,
            ]
        )
    lines = table(
        "labels, tool | s | CPU s | of it import, s | passes | peak MB | log likelihood | accuracy | time / ours", rows
    )
    notes = []
    for (size, tool), record in records.items():
        trace, peer = record.get("objective"), records.get((size, "crowd-kit"), {}).get("log_likelihood")
        if tool == "bayescrowd" and trace and peer is not None:
            passed = next((index + 1 for index, value in enumerate(trace) if value >= peer), None)
            if passed is not None:
                notes.append(f"at {size} labels ours is past crowd-kit in pass {passed} of {len(trace)}")
    said = f"\n{'; '.join(notes)}.\n".replace("\na", "\nA", 1) if notes else ""
    laps = []
    for (size, tool), record in records.items():
        if tool.startswith("bayescrowd") and "laps" in record:
            parts = [record["laps"].get(name) for name in ("import", "labels", "fit", "probabilities")]
            parts += [record.get("compile_seconds"), record.get("compilations")]
            laps.append([f"{size}, {tool}", *map(number, parts)])
    header = "where the time goes, s | import | CrowdLabels | fit | probabilities | of it compiling | programs compiled"
    return lines + said + ("\n" + table(header, laps) if laps else "")


def _nuts_table(records: dict[tuple[str, str], Record]) -> str:
    rows = []
    for (size, tool), record in records.items():
        ours = records.get((size, "bayescrowd"), {}).get("ess_per_second")
        rate = record.get("ess_per_second")
        rows.append(
            [
                f"{size}, {tool}",
                _seconds(record),
                "" if tool.startswith("Stan") else number(record.get("cpu_seconds")),  # its chains are other processes
                number(record.get("smallest_ess")),
                "" if record.get("largest_rhat") is None else f"{record['largest_rhat']:.3f}",
                number(record.get("mean_steps")),
                number(rate),
                _ratio(ours, rate),
            ]
        )
    notes = f"""
Seconds include compiling but for Stan, whose C++ compile is left out, and exclude imports. 4 chains of 1000 draws after
500 of warmup, default priors, by nuts, unless said otherwise; NumPyro runs the model's own program with true classes
enumerated (float32), from a good start unless said otherwise; ESS is the smallest bulk ESS of all parameters. Stan's
figure quoted for two cores: {QUOTED_STAN}/s on rte.
"""
    return (
        table("data, tool | s | CPU s | smallest ESS | largest R-hat | leapfrog steps | ESS/s | ours / this", rows)
        + notes
    )


def _vi_table(records: dict[tuple[str, str], Record]) -> str:
    rates = {tool: record.get("labels_per_second") for (_, tool), record in records.items()}
    ours = next((rate for tool, rate in rates.items() if tool == "em, no acceleration"), None)
    rows = []
    for (size, tool), record in records.items():
        rate = rates[tool]
        if rate is None:
            rows.append([tool, size, _seconds(record), "", ""])
            continue
        milliseconds = f"{1e3 * record['seconds_per_pass']:.1f}"
        rows.append([tool, size, milliseconds, f"{rate / 1e6:.1f}", _ratio(ours, rate)])
    return table("tool | labels | ms per pass | M labels/s | EM's passes in the time of one", rows)


def _gibbs_table(records: dict[tuple[str, str], Record]) -> str:
    rows = []
    for (size, tool), record in records.items():
        if "us_per_update" not in record:
            rows.append([f"{size}, {tool}", _seconds(record), "", ""])
            continue
        plain = records.get((size, "plain JAX scan, 1 chain"), {}).get("us_per_update")
        update = record["us_per_update"]
        milliseconds = number(1e3 * record["seconds_per_sweep"])
        rows.append([f"{size}, {tool}", milliseconds, f"{update:.2f}", _ratio(update, plain)])
    header = "table, tool | ms per sweep of all chains | us per item update | of the plain scan's, 1 chain"
    return table(header, rows) + "\nAn item update is wall time / (items x sweeps x chains).\n"


def _gibbs_memory_table(records: dict[tuple[str, str], Record]) -> str:
    names = ("peak_mb", "base_mb")
    rows = [
        [f"{size}, {tool}", _seconds(record), *(number(record.get(name)) for name in names)]
        for (size, tool), record in records.items()
    ]
    return table("draws, kept | s | peak MB | of it before the fit", rows)


def _moments_table(records: dict[tuple[str, str], Record]) -> str:
    published = {("trec", "multispa"): 50.7, ("trec", "multispa-kl"): 537}
    rows = []
    for (size, tool), record in records.items():
        values = [number(record.get(name)) for name in ("first_seconds", "second_seconds", "peak_mb")]
        accuracy = record.get("accuracy")
        values.append("" if accuracy is None else f"{accuracy:.4f}")
        rows.append([f"{size}, {tool}", *values, number(published.get((size, tool)))])
    header = "table, what | first, s | second, s | peak MB | accuracy | published (MATLAB), s"
    return table(header, rows) + "\nThe first includes compiling. Published: NeurIPS 2019, table 2.\n"


def _start_table(records: dict[tuple[str, str], Record]) -> str:
    rows = [
        [f"`{tool}`", number(record.get("process_seconds")), number(record.get("bare_seconds"))]
        for (_, tool), record in records.items()
    ]
    return table("process | s | of it Python's own start", rows)


def _recompile_table(records: dict[tuple[str, str], Record]) -> str:
    names = ["first_seconds", "second_seconds", "median_later", "largest_later"]
    names += ["compilations_first", "compilations_later"]
    rows = []
    for (size, tool), record in records.items():
        rows.append([f"{size}, {tool}", *(number(record.get(name)) for name in names)])
    header = "tables, engine | first fit, s | second | median later | largest later | programs, first | all later"
    return table(header, rows)


def _memory_table(records: dict[tuple[str, str], Record]) -> str:
    first = next(iter(records.values()))
    rows = []
    for (size, tool), record in records.items():
        if "cells" not in record:
            rows.append([f"{size}, {tool}", _seconds(record), "", "", ""])
            continue
        more = record["cells"] - first.get("cells", 0)
        above = record["peak_mb"] - first.get("peak_mb", 0.0)
        per_cell = number(1e6 * above / more) if tool == "em" and more > 0 else ""
        parts = [number(record["peak_mb"]), number(record["base_mb"]), per_cell]
        rows.append([f"{size}, {tool}", _seconds(record), *parts])
    notes = """
A cell is a (label or item) x state, or an entry of a confusion matrix; bytes are counted against the first row, most of
which is the compiler's. Dense enumeration, items x workers x states, would take 4,000 MB at 500k labels and 10 classes.
"""
    header = "table, engine | s | peak MB | of it before the fit | bytes per cell more"
    return table(header, rows) + notes


def _skewed_table(records: dict[tuple[str, str], Record]) -> str:
    rows = [
        [size, f"{1e3 * record['seconds_per_pass']:.1f}", f"{record['labels_per_second'] / 1e6:.1f}"]
        if "labels_per_second" in record
        else [size, _seconds(record), ""]
        for (size, _), record in records.items()
    ]
    return table("table | ms per pass | M labels/s", rows)


_TABLES: dict[str, Callable[[dict[tuple[str, str], Record]], str]] = {
    "em-pass": _pass_table,
    "em-fit": _fit_table,
    "vi-pass": _vi_table,
    "gibbs": _gibbs_table,
    "gibbs-memory": _gibbs_memory_table,
    "nuts": _nuts_table,
    "moments": _moments_table,
    "start": _start_table,
    "recompile": _recompile_table,
    "memory": _memory_table,
    "skewed": _skewed_table,
}
