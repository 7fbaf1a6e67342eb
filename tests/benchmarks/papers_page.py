"""The page with the papers' tables."""

from __future__ import annotations

from typing import Any

from benchmarks import papers, published, real
from benchmarks.report import conditions, number, table
from benchmarks.runner import Records

LARGE = 20_000
"""Number of labels above which a set counts as large."""

HEAD = f"""# The papers' tables, recomputed

Written by `make paper-tables`; do not edit. Every method that the papers name, on their sets and on the other real sets
with known truth, next to the figures that they print.

- *Error*: percent of the items with known truth whose leading class is another one; ties share it evenly. In brackets
  95 % of 2000 resamples of these items (bootstrap). Methods that draw random numbers are run with {len(papers.SEEDS)}
  seeds on the papers' sets: the mean, and the smallest and largest of them; on the other sets with one.
- *Seconds*: wall time from labels to class probabilities in memory, first with everything that compiles, then again.
- Rows that repeat an earlier one (item, worker and label) are dropped for all methods.
- KOS, GhoshSVD and EigenRatio are for two classes. Where there are more, they are asked whether the class is above each
  threshold of an order of the classes, as the papers did, even where classes have no order.
- IDBLA, Fixed-IDBLA and the samplers on the other sets: [models.md](models.md).
- Methods are ended after {papers.CAP:.0f} s. `refused`: the method says itself that it cannot do this set.

The printed tables are not all comparable: of bluebird the 2019 paper used the first 30 of 39 workers in the order of
the file, of dog the 52 busiest of 109 (their majority votes are reproduced exactly by these parts). Its "KOS" is the
variant by singular vectors, not message passing, whose failures on rte are those of that variant on batches in which
few workers meet. The web part with 76 workers is the one of the IDBLA paper: items with truth, and workers with at
least 30 labels on them.
"""

FAR = 0.3
"""Points from which on a difference to a printed figure is explained."""


def page(records: Records, sets: dict[str, dict[str, Any]]) -> str:
    """The whole page as Markdown."""
    found = {(size, tool): record for (_, size, tool), record in records.items()}
    if not found:
        return "\n".join([HEAD, "Nothing is on record.\n"])
    parts = [HEAD, conditions(records)]
    for title in papers.MAIN:
        if title in sets and any(size == title for size, _ in found):
            parts += [f"## {title}\n", _main(found, title)]
    others = [title for title in sets if title not in papers.MAIN and any(size == title for size, _ in found)]
    parts += ["## Other real sets: error, %\n", _others(found, others, "error")]
    parts += ["## Other real sets: seconds of the first run\n", _others(found, others, "seconds")]
    parts += ["## Beside crowd-kit\n", _beside(found, sets)]
    parts += ["## Refused, cut off and failed\n", _troubles(found)]
    return "\n".join(parts)


def _main(found: dict[tuple[str, str], Any], title: str) -> str:
    rows = []
    for method in papers.METHODS:
        record = found.get((title, method.name))
        if record is None:
            continue
        printed = published.PUBLISHED.get(title, {}).get(method.name)
        shown = "" if printed is None else f"{printed[0]:.2f} ({printed[1]})"
        remarks = [published.PRINTED.get((title, method.name), "")]
        if "error" not in record:
            word = "refused" if "refused" in record else "failed" if "failed" in record else "cut off"
            rows.append([method.name, word, "", number(record.get("seconds")), "", shown, ""])
            continue
        if printed is not None and abs(100 * record["error"] - printed[0]) > FAR:
            remarks.append(
                published.WHY.get((title, method.name), published.WHY.get(("*", method.name), "not explained"))
            )
        if record.get("converged") is False:
            remarks.append("did not converge")
        errors = [100 * value for value in record["errors"]]
        spread = f"{min(errors):.2f} to {max(errors):.2f}" if len(errors) > 1 else ""
        interval = f"{100 * record['error']:.2f} ({100 * record['error_low']:.1f} to {100 * record['error_high']:.1f})"
        times = [number(record["seconds"]), number(record["seconds_again"])]
        rows.append([method.name, interval, spread, *times, shown, "; ".join(text for text in remarks if text)])
    return table("method | error, % | of seeds | seconds | again | printed | remark", rows)


def _others(found: dict[tuple[str, str], Any], titles: list[str], name: str) -> str:
    rows = []
    for method in papers.METHODS:
        entries = []
        for title in titles:
            record = found.get((title, method.name), {})
            value = record.get(name) if "error" in record else None
            if value is None:
                known = {"refused": "refused", "failed": "failed", "capped": "cut"}
                entries.append(next((word for key, word in known.items() if record.get(key)), ""))
                continue
            entry = f"{100 * value:.2f}" if name == "error" else number(value, 2)
            printed = published.PUBLISHED.get(title, {}).get(method.name) if name == "error" else None
            entries.append(entry if printed is None else f"{entry} (printed {printed[0]:.2f})")
        rows.append([method.name, *entries])
    return table(" | ".join(["method", *titles]), rows)


def _beside(found: dict[tuple[str, str], Any], sets: dict[str, dict[str, Any]]) -> str:
    """Error and seconds of the same methods here and in crowd-kit."""
    text = (
        "Error in percent and seconds, here / crowd-kit 1.4.2, sets from the smallest on. In brackets: seconds of a "
        "second run here, when everything is compiled (crowd-kit compiles nothing).\n"
    )
    whole = sorted((name for name in sets if sets[name]["subset"] is None), key=lambda name: sets[name]["n_labels"])
    rows = []
    for title in whole:
        entries = []
        for peer, ours in papers.TWINS.items():
            mine, other = found.get((title, ours), {}), found.get((title, real.peer(peer)), {})
            entries.append("" if not other and not mine else f"{_both(mine)} / {_both(other)}")
        rows.append([f"{title}, {sets[title]['n_labels']:,} labels", *entries])
    return f"{text}\n{_claim(found, sets, whole)}\n{table(' | '.join(['set', *papers.TWINS]), rows)}"


def _claim(found: dict[tuple[str, str], Any], sets: dict[str, dict[str, Any]], whole: list[str]) -> str:
    """Count on how many large sets ours is faster, in a cold process and when everything is compiled."""
    lines = []
    for peer, ours in papers.TWINS.items():
        pairs = [
            (found.get((title, ours), {}), found.get((title, real.peer(peer)), {}))
            for title in whole
            if sets[title]["n_labels"] > LARGE
        ]
        # A peer that was cut off had taken at least that long.
        ran = [(mine, other) for mine, other in pairs if "error" in mine and ("error" in other or other.get("capped"))]
        cold = sum(mine["seconds"] < other["seconds"] for mine, other in ran)
        warm = [(mine["seconds_again"], other["seconds"]) for mine, other in ran if mine.get("seconds_again")]
        again = sum(mine < other for mine, other in warm)
        lines.append(f"| {ours} | {peer} | {cold} of {len(ran)} | {again} of {len(warm)} |")
    head = "| here | crowd-kit | faster in a new process | faster at the second call |\n|---|---|---:|---:|"
    what = f"Sets above {LARGE:,} labels on which both ran (a peer that was cut off counts as slower):"
    return "\n".join([what, "", head, *lines, ""])


def _both(record: dict[str, Any]) -> str:
    if record.get("capped"):
        return f"cut off after {record['seconds']:.0f} s"
    if "error" not in record:
        return "refused" if "refused" in record else "failed" if "failed" in record else "-"
    again = "" if record.get("seconds_again") is None else f" ({number(record['seconds_again'], 2)})"
    return f"{100 * record['error']:.1f}, {number(record['seconds'], 2)}{again} s"


def _troubles(found: dict[tuple[str, str], Any]) -> str:
    lines = []
    for (size, tool), record in found.items():
        if "refused" in record:
            lines.append(f"- {size}, {tool}: {record['refused']}")
        elif "failed" in record:
            lines.append(f"- {size}, {tool}: failed, {record['failed']}")
        elif record.get("capped"):
            lines.append(f"- {size}, {tool}: cut off after {record['seconds']:.0f} s")
    return "\n".join([*lines, ""]) if lines else "None.\n"
