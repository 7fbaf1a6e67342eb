"""The page on models and engines: what was asked, a summary, and one pair of tables for each quantity."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks import real
from benchmarks.report import conditions, number, table
from benchmarks.runner import PEER_CAP, Cell, Record, Records

FEW = 1000
"""Items with known truth below which two standard errors may be more than a point."""

ENOUGH = 100
"""Items with known truth from which on a set counts in the summary."""

HEAD = f"""# Models and engines on real label sets

Written by `make bench-models`; do not edit. Every model under every engine on each set of the data folder that has
known truth, with default priors and settings and seed 0, beside majority vote and crowd-kit's methods with their
default settings. Rows that repeat an earlier one (item, worker and label) are dropped for all of them.

- *Error*: percent of the items with known truth whose most probable class is another one; ties share it evenly.
- *Log loss* in nats, of the true class; probabilities below 1e-6 count as 1e-6. *Brier score*: squared distance of the
  probabilities from the truth, summed over classes (0 to 2). Majority vote's probabilities are shares of votes.
- *Calibration error*: mean distance between the probability of the most probable class and how often it is right, over
  15 bins, equal in number of items. With few items it is far from 0 even where probabilities are right.
- *Seconds*: wall time from labels to class probabilities in memory, compiling included (every method compiles anew),
  reading and imports not.
- *ESS/s*: smallest bulk effective sample size of prevalences, difficulty proportions and 100 confusion entries
  (levels that could change places sorted or averaged) by those seconds.

Limits: nuts and svi on sets of at most {real.LARGEST["nuts"]:,} labels (nuts with 2 chains of 200 draws after 200 of
warmup), gibbs and collapsed-gibbs on at most {real.LARGEST["gibbs"]:,}; GLAD and MACE on at most
{real.LARGEST_OF_PEERS["GLAD"]:,}. There are fewer sweeps than the default 500 + 1000 where labels x sweeps x
{real.CHAINS} chains would exceed {real.LABEL_UPDATES["collapsed-gibbs"] / 1e6:.0f}M (collapsed-gibbs) or
{real.LABEL_UPDATES["gibbs"] / 1e6:.0f}M (gibbs), but never fewer than 50 + 100. A fit of ours is interrupted after
{real.CAP:.0f} s ({", ".join(f"{name} {cap:.0f} s" for name, cap in real.CAPS.items())}, `bc.fit(labels)`
{real.CAP_OF_DEFAULT:.0f} s) and judged by what it has by then; a peer is ended
after {PEER_CAP:.0f} s and then not tried on larger sets. Numeric sets (more than {real.MOST_CLASSES} label values) are
left out.

In the tables the best of a set is bold. `*`: did not converge (chains disagree, or most passes were reached);
`†`: interrupted, judged by what it had; `cut`: ended without a result; `failed`: see the end of the page; `-`: above
the limits; `no`: not tried, since cut off on a smaller set; empty: not run here.
"""

_EVERYWHERE = ("em", "vb", "collapsed-vi")
"""Engines that have no limit of size."""

SEEN = """- *Difficulty is real in some sets.* On zencrowd_us and zencrowd_all IDBLA by vb or collapsed-vi halves the
  error of Dawid-Skene (9.0 against 17.6 %, 10.6 against 20.6 %) and its log loss. Elsewhere the three models are within
  a point or two of each other.
- *A point estimate is the least honest.* The same model by collapsed-vi has a lower log loss than by em on nearly every
  set (web 0.64 against 1.43, dog 1.35 against 1.78), at about the same error.
- *Fixed-IDBLA is the most careful.* It is seldom the most accurate, but its log loss is the lowest on sp, sp_amt,
  product and zencrowd_in: an item that looks hard is not called certain.
- *All models are surer than they should be.* On the mean of the sets below, shares of the votes have a lower log loss
  and calibration error than any model, though more errors: workers do not err independently of each other.
- *Many classes and few labels defeat everybody.* On politifact, plot and food majority vote is as good as any model.
- *Samplers need more than their defaults on small sets of many workers* (rows with a star); the approximations do not
  tell that the posterior has several modes, `fit.diagnose()` does.
- *On cifar10n*, whose three "workers" are columns of labels from many people, the default used all its passes (75 s)
  without settling.
"""
"""What one sees in the tables, in words: written by hand after a full run."""


def page(records: Records, cells: list[Cell]) -> str:
    """The whole page as Markdown."""
    found = {(size, tool): record for (_, size, tool), record in records.items()}
    sets = {cell.size: cell.table["n_labels"] for cell in cells if cell.table}
    sets = {name: count for name, count in sets.items() if any(size == name for size, _ in found)}
    if not sets:
        return "\n".join([HEAD, "Nothing is on record.\n"])
    said = ["## What one sees\n", SEEN] if SEEN else []
    parts = [
        HEAD,
        conditions(records),
        *said,
        _promise(found, sets),
        "## Summary\n",
        _summary(found, sets),
        "## Sets\n",
        _sets(found, sets),
    ]
    percent = lambda value: f"{100 * value:.2f}"
    for title, name, how in (
        ("Error, %", "error", percent),
        ("Log loss", "log_loss", lambda value: f"{value:.3f}"),
        ("Brier score", "brier", lambda value: f"{value:.3f}"),
        ("Calibration error", "calibration_error", lambda value: f"{value:.3f}"),
        ("Seconds", "seconds", number),
    ):
        best = {size: _best(found, size, name) for size in sets} if name != "seconds" else {}
        parts += [f"## {title}\n", _by_engine(found, sets, name, how, best, real.ENGINES)]
        parts += [_beside(found, sets, name, how, best)]
    samplers = ("gibbs", "collapsed-gibbs", "nuts")
    parts += ["## Smallest effective sample size per second\n"]
    parts += [_by_engine(found, sets, "ess_per_second", number, {}, samplers)]
    return "\n".join([*parts, "## Cut off, interrupted and failed\n", _troubles(found, sets)])


def _promise(found: dict[tuple[str, str], Record], sets: dict[str, int]) -> str:
    """Whether the default is nowhere much worse than majority vote: a point, or two standard errors of few items."""
    compared, worse = [], []
    for size in sets:
        plain, default = found.get((size, real.MAJORITY), {}), found.get((size, real.DEFAULT), {})
        if "error" in plain and "error" in default:
            right, n_truth = 1 - plain["error"], plain["n_truth"]
            chance = 2 * (right * (1 - right) / n_truth) ** 0.5 if n_truth < FEW else 0.0
            compared.append(size)
            worse += [size] if default["error"] - plain["error"] > max(chance, 0.01) else []
    verdict = f"It is so on all but {', '.join(worse)}." if worse else "It is so on all of them."
    return (
        f"*The default's promise*, on {len(compared)} sets: `bc.fit(labels)` is no worse than majority vote by more "
        f"than a point, or than two standard errors of majority vote's accuracy where fewer than {FEW} items have "
        f"known truth. {verdict}\n"
    )


def _best(found: dict[tuple[str, str], Record], size: str, name: str) -> float:
    values = [record[name] for (at, _), record in found.items() if at == size and name in record]
    return min(values, default=float("nan"))


def _entry(record: Record | None, name: str, how: Callable[[Any], str], best: float | None) -> str:
    if record is None:
        return ""
    if "failed" in record:
        return "failed"
    if record.get("capped"):
        return f"> {record['seconds']:.0f}" if name == "seconds" else "cut"
    value = record.get(name)
    if value is None:
        return ""
    text = how(value)
    text = f"**{text}**" if best is not None and text == how(best) else text
    return text + ("†" if record.get("interrupted") else "*" if record.get("converged") is False else "")


def _by_engine(
    found: dict[tuple[str, str], Record],
    sets: dict[str, int],
    name: str,
    how: Callable[[Any], str],
    best: dict[str, float],
    engines: Iterable[str],
) -> str:
    rows = []
    for size, count in sets.items():
        for model in real.MODELS:
            entries = []
            for engine in engines:
                above = count > real.LARGEST.get(engine, count)
                record = found.get((size, real.tool_of(model, engine)))
                entries.append("-" if above else _entry(record, name, how, best.get(size)))
            if any(entry not in ("", "-") for entry in entries):
                rows.append([f"{size}, {model}", *entries])
    return table(" | ".join(["set, model", *engines]), rows)


def _others() -> list[str]:
    return [real.MAJORITY, real.DEFAULT, *map(real.peer, real.PEERS)]


def _beside(
    found: dict[tuple[str, str], Record],
    sets: dict[str, int],
    name: str,
    how: Callable[[Any], str],
    best: dict[str, float],
) -> str:
    rows = []
    for size in sets:
        entries = []
        for tool in _others():
            record = found.get((size, tool))
            earlier = list(sets)[: list(sets).index(size)]
            limit = real.LARGEST_OF_PEERS.get(tool.removeprefix(real.peer("")), sets[size])
            if sets[size] > limit:
                entries.append("-")
                continue
            gone = record is None and any(found.get((other, tool), {}).get("capped") for other in earlier)
            entries.append("no" if gone else _entry(record, name, how, best.get(size)))
        rows.append([size, *entries])
    names = [f"`{tool}`" if tool == real.DEFAULT else tool for tool in _others()]
    return table(" | ".join(["set", *names]), rows)


def _sets(found: dict[tuple[str, str], Record], sets: dict[str, int]) -> str:
    rows = []
    for size in sets:
        plain, default = found.get((size, real.MAJORITY), {}), found.get((size, real.DEFAULT), {})
        names = ("n_items", "n_workers", "n_labels", "n_classes", "n_truth")
        chosen = f"{default['model']} by {default['engine']}" if "engine" in default else ""
        rows.append([size, *("" if plain.get(name) is None else f"{plain[name]:,}" for name in names), chosen])
    header = "set | items | workers | labels | classes | items with truth | what `bc.fit(labels)` chose"
    return table(header, rows)


def _summary(found: dict[tuple[str, str], Record], sets: dict[str, int]) -> str:
    """Every method against majority vote on its sets, and means over the sets that all of ours were run on."""
    large = [size for size in sets if (found.get((size, real.MAJORITY), {}).get("n_truth") or 0) >= ENOUGH]
    our_tools = [real.tool_of(model, engine) for model in real.MODELS for engine in real.ENGINES]
    tools = [real.MAJORITY, real.DEFAULT, *our_tools, *map(real.peer, real.PEERS)]
    judged = lambda size, tool: "error" in found.get((size, tool), {})
    everywhere = [real.tool_of(model, engine) for model in real.MODELS for engine in _EVERYWHERE]
    common = [size for size in large if all(judged(size, tool) for tool in everywhere)]
    rows = []
    for tool in tools:
        here = [size for size in large if judged(size, tool)]
        if not here:
            continue
        more = [found[size, tool]["error"] - found[size, real.MAJORITY]["error"] for size in here]
        better, worse = sum(value < -1e-9 for value in more), sum(value > 1e-9 for value in more)
        seconds = sum(record["seconds"] for (_, other), record in found.items() if other == tool)
        means = []
        for name in ("error", "log_loss", "brier", "calibration_error"):
            values = [found[size, tool][name] for size in common if judged(size, tool)]
            full = len(values) == len(common) > 0
            factor = 100 if name == "error" else 1
            means.append(f"{factor * sum(values) / len(values):.{2 if name == 'error' else 3}f}" if full else "")
        unsettled = sum(found[size, tool].get("converged") is False for size in here)
        change = f"{100 * sum(more) / len(more):+.2f}" if tool != real.MAJORITY else "0"
        shown = f"`{tool}`" if tool == real.DEFAULT else tool
        rows.append([shown, str(len(here)), change, f"{better} / {worse}", *means, str(unsettled), number(seconds)])
    header = (
        "method | sets | error less majority's, points | sets better / worse | error, % | log loss | Brier score | "
        "calibration error | not converged | seconds in all"
    )
    listed = ", ".join(common) if common else "none so far"
    notes = f"""
Sets with at least {ENOUGH} items of known truth ({len(large)} of {len(sets)}). The first columns compare a method with
majority vote on all of these that it was run on, so they go by different sets; error to calibration error are means
over the {len(common)} sets on which every model was run by {", ".join(_EVERYWHERE)}, for the methods that were run on
all of them: {listed}.
"""
    return table(header, rows) + notes


def _troubles(found: dict[tuple[str, str], Record], sets: dict[str, int]) -> str:
    lines = []
    for size in sets:
        for (at, tool), record in found.items():
            if at != size:
                continue
            if "failed" in record:
                lines.append(f"- {size}, {tool}: failed: {record['failed']}")
            elif record.get("capped"):
                lines.append(f"- {size}, {tool}: cut off after {record['seconds']:.0f} s without a result")
            elif record.get("interrupted"):
                lines.append(f"- {size}, {tool}: {record['status']}")
    return "\n".join(lines or ["None."]) + "\n"
