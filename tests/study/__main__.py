"""`python tests/study`: how well moment estimators do, on simulated and on real labels; writes docs/moments.md."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

# The repository root stays off the path, or `models` would be a second copy.
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
sys.path[:] = [str(_HERE.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() not in (_HERE, _ROOT))]

_SIZES = (500, 1000, 2000, 5000, 10_000, 20_000)
_RATE_SIZES = (1000, 2000, 5000, 10_000, 20_000)
_SETS = ("bluebird", "rte", "dog", "web", "trec")

_REAL: dict[str, dict[str, Any]] = {
    "multispa, released rules": {"engine": "multispa", "compat": "released"},
    "the same + 10 passes of EM, equal prevalence": {
        "engine": "multispa",
        "compat": "released",
        "polish": 10,
        "polish_prevalence": "uniform",
    },
    "multispa": {"engine": "multispa"},
    "multispa-kl, no prior": {"engine": "multispa-kl", "prior": 0.0},
    "multispa-kl": {"engine": "multispa-kl"},
    "symnmf": {"engine": "symnmf"},
    "symnmf + 10 passes of EM": {"engine": "symnmf", "polish": 10},
    "em from majority": {"engine": "em"},
}
_PUBLISHED = {
    "multispa, released rules": ("13.88 (30 workers)", "8.75", "17.09 (52 workers)", "15.22", "31.47"),
    "the same + 10 passes of EM, equal prevalence": ("12.03 (30)", "7.12", "16.11 (52)", "15.11", "29.84"),
    "multispa-kl, no prior": ("11.11 (30)", "7.12", "15.48 (52)", "14.58", "29.23"),
}
"""NeurIPS 2019, table 2: bluebird with the first 30 workers, dog with the 52 most active ones."""

_HEAD = """# Moment estimators, measured

Written by `make study` on {date}: {versions}.

"""


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _versions() -> str:
    names = ("bayescrowd", "jax", "numpy", "scipy")
    known = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([*known, f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"])


def _recovery(trials: int, picture: Path) -> str:
    from study import recovery

    found = {size: recovery.errors(size, trials, say=_say) for size in _SIZES}
    half = recovery.errors(5000, trials, half=True, say=_say)
    lines = [
        "## Recovery of simulated parameters\n",
        "25 workers, three classes, one good worker, the others with random confusions; everybody labels 30 % of the "
        "items, two workers 80 %. Mean squared error of all confusion entries and the prevalence after one permutation "
        f"of the classes, {trials} crowds each (means; in the last column medians). In brackets: an independent "
        f"prototype, on other crowds.\n",
        "| | 1000 items | 5000 | 20 000 | 5000, half of the pairs missing | slope of log error against log items |",
        "|---|---|---|---|---|---|",
    ]
    for name in found[_SIZES[0]]:
        known = recovery.PUBLISHED[name]
        cells = [f"{found[size][name].mean():.1e} ({known[str(size)]:.1e})" for size in (1000, 5000, 20_000)]
        cells.append(f"{np.median(half[name]):.1e} ({known['half']:.1e})")
        cells.append(f"{recovery.slope(_SIZES, [found[size][name] for size in _SIZES]):.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    _draw(found, picture)
    return "\n".join([*lines, f"\n![Error against number of items]({picture.name})\n"])


def _rates(trials: int) -> str:
    from study import recovery

    lines = [
        "### Other crowds\n",
        "How the error falls for methods that are run to the end: the slope of its logarithm (median of "
        f"{trials} crowds) against the logarithm of the number of items, from {_RATE_SIZES[0]:,} to "
        f"{_RATE_SIZES[-1]:,}, which is -1 for an efficient estimator; in brackets the error at "
        f"{_RATE_SIZES[-1]:,} items. Maximum likelihood (em) and the posterior mean (vb), with flat priors, have it "
        "everywhere. KL has it for two classes and where some confusions are zero: elsewhere second moments leave a "
        "rotation open, along which the objective stays the same, and where KL ends depends on its start. The "
        "likelihood closes the gap: polish with a few passes of EM.\n",
        "| | multispa-kl, to the end | em | vb |",
        "|---|---|---|---|",
    ]
    for name, setting in recovery.SETTINGS.items():
        row = []
        for errors in recovery.rates(setting, _RATE_SIZES, trials).values():
            row.append(f"{recovery.slope(_RATE_SIZES, errors):.2f} ({np.median(errors[-1]):.1e})")
        lines.append(f"| {name} | {' | '.join(row)} |")
        _say(f"rates: {name}")
    return "\n".join([*lines, ""])


def _draw(found: dict[int, dict[str, np.ndarray]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True, facecolor="white")
    for number, name in enumerate(found[_SIZES[0]]):
        middle = [np.median(found[size][name]) for size in _SIZES]
        axes.loglog(_SIZES, middle, "o-", color=f"C{number}", label=name, markersize=4)
    guide = np.median(found[_SIZES[0]]["any + 10 passes of EM"]) * _SIZES[0] / np.asarray(_SIZES)
    axes.loglog(_SIZES, 0.5 * guide, ":", color="0.5", label="1 / items")
    axes.set(xlabel="items", ylabel="mean squared error", title="Confusions and prevalence from moments")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _real() -> str:
    import os

    from scoring import hits

    import bayescrowd as bc

    folder = Path(os.environ.get("BAYESCROWD_DATA", _ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        return ""
    rows: dict[str, list[str]] = {}
    for name in _SETS:
        raw = bc.datasets.load(name, folder=folder)
        truth = raw.truth.dropna()
        frame = raw.to_frame()[["item", "worker", "label"]]
        labels = bc.CrowdLabels.from_long(
            frame.assign(truth=frame["item"].map(truth[truth.isin(raw.classes)])),
            item="item",
            worker="worker",
            label="label",
            truth="truth",
            classes=raw.classes,
            duplicates="drop-identical",
        )
        for method, how in _REAL.items():
            seconds = []
            for _ in range(2):
                begun = time.perf_counter()
                fit = bc.fit(labels, "dawid-skene", progress=False, **how)
                seconds.append(time.perf_counter() - begun)
            wrong = 100 * (1 - hits(fit.class_probabilities(), labels.truth.dropna()))
            rows.setdefault(method, []).append(f"{wrong:.2f}, {seconds[0]:.1f} s ({seconds[1]:.2f} s)")
        _say(f"real data: {name}")
    lines = [
        "## Real data\n",
        "Percent of the items with truth that are wrong (ties shared), and seconds of the first fit in a process that "
        "has compiled for other sizes only (in brackets: of a second one). All workers.\n",
        f"| | {' | '.join(_SETS)} |",
        "|---" * (len(_SETS) + 1) + "|",
    ]
    for method, cells in rows.items():
        lines.append(f"| {method} | {' | '.join(cells)} |")
        if method in _PUBLISHED:
            lines.append(f"| *published* | {' | '.join(_PUBLISHED[method])} |")
    return "\n".join([*lines, ""])


def _starts(seeds: int) -> str:
    from study import starts

    found = {kind: starts.compare(seeds, kind, say=_say) for kind in starts.KINDS}
    vote = {kind: next(iter(table.values()))["vote"] for kind, table in found.items()}
    lines = [
        "## As starts of EM\n",
        f"{seeds} simulated crowds of {starts.N_WORKERS} workers each, most of whom take the third class for the "
        f"second: the majority vote is right on {100 * vote['mild']:.0f} % of that class in the mild case, on "
        f"{100 * vote['hard']:.0f} % in the hard one. How often EM reaches the highest likelihood that any start "
        "reached, and its accuracy. In the hard case the likelihood itself has several optima of nearly the same "
        "height, and no start finds the best one always: take the best of several.\n",
        "| start | mild: reaches the best | accuracy | hard: reaches the best | accuracy |",
        "|---|---|---|---|---|",
    ]
    for name in starts.STARTS:
        cells = [f"{table[name]['reached']:.0f} of {seeds} | {table[name]['accuracy']:.3f}" for table in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _classifiers(trials: int) -> str:
    from study import classifiers

    if importlib.util.find_spec("sklearn") is None:
        return ""
    lines = [
        "## Classifiers as workers\n",
        "Ten classifiers of scikit-learn, trained on 20 % of the data, label the rest; each label is kept with "
        f"probability p. Percent wrong, {trials} trials.\n",
    ]
    for name, table in classifiers.compare(trials, say=_say).items():
        lines += [f"| {name} | {' | '.join(f'p = {kept}' for kept in classifiers.KEPT)} |", "|---|---|---|---|"]
        for method, row in table.items():
            lines.append(f"| {method} | {' | '.join(f'{row[kept]:.2f}' for kept in classifiers.KEPT)} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/study", description="Moment estimators, measured.")
    parser.add_argument("--trials", type=int, default=6, help="simulated crowds per size")
    parser.add_argument("--seeds", type=int, default=20, help="simulated crowds of the comparison of starts")
    parser.add_argument("--repeats", type=int, default=10, help="trials of the experiment with classifiers")
    parser.add_argument("--page", type=Path, default=_ROOT / "docs" / "moments.md", help="page to write")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    date = datetime.datetime.now(datetime.UTC).date()
    parts = [
        _HEAD.format(date=date, versions=_versions()),
        _recovery(given.trials, given.page.with_suffix(".png")),
        _rates(given.trials),
        _real(),
        _starts(given.seeds),
        _classifiers(given.repeats),
    ]
    given.page.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
