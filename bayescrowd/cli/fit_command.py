"""`bayescrowd fit`: labels in; consensus, workers and the whole posterior out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayescrowd.cli import console, folder, values
from bayescrowd.cli.labels import labels_options, read
from bayescrowd.cli.models import make_model

if TYPE_CHECKING:
    import pandas as pd

    from bayescrowd.data.labels import CrowdLabels
    from bayescrowd.fit import Fit

FILES = ("consensus.csv", "workers.csv", "fit.nc")
_ALL, _FIRST, _UNSURE, _WORKERS = 50, 8, 5, 20
_RUN = ("seed", "chains", "draws", "warmup")


@click.command("fit", short_help="Fit a model to labels.")
@labels_options
@click.option("--model", metavar="NAME", help="The model: dawid-skene, idbla or fixed-idbla; default: a sensible one.")
@click.option(
    "--engine",
    metavar="NAME",
    help="How to fit it, for example collapsed-vi, gibbs, nuts or em; default: a sensible one.",
)
@click.option("--out", type=click.Path(path_type=Path), help=f"Folder for {', '.join(FILES)}; default: only print.")
@click.option("--init", metavar="START", help="Start: majority, ability, multispa, multispa-kl, symnmf, or a fit.nc.")
@click.option("--seed", type=int, help="Seed of the random numbers; same seed, same numbers. Default 0.")
@click.option("--chains", type=int, help="Chains of a sampler.")
@click.option("--warmup", type=int, help="Draws of each chain that are thrown away.")
@click.option("--draws", type=int, help="Draws of each chain that are kept.")
@click.option(
    "--prior", "priors", metavar="KEY=VALUE", multiple=True, help="For example confusion_prior=diagonal(3,1)."
)
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="Any setting of the engine.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors; no progress bar.")
def fit_command(
    model: str | None,
    engine: str | None,
    out: Path | None,
    init: str | None,
    priors: tuple[str, ...],
    options: tuple[str, ...],
    quiet: bool,
    **others: Any,
) -> None:
    """Fit a model to LABELS (csv, tsv, parquet, json, jsonl) or to a named data set.

    Prints the labels, the consensus, the workers and a diagnosis. With --out DIR it also writes consensus.csv (a row
    per item), workers.csv (a row per worker) and fit.nc (the whole result, for `bayescrowd.load`). A file of that
    name which bayescrowd did not write, or which was changed since, is never overwritten.

    Ctrl-C while sampling keeps the draws made so far; they are printed and written like those of a whole run.
    """
    settings = {name: value for name in _RUN if (value := others.pop(name)) is not None}
    given = values.pairs("--option", options)
    twice = sorted(settings.keys() & given.keys())
    if twice:
        raise click.UsageError(f"{', '.join(twice)}: given both by its own option and by --option")
    settings |= given
    prior_values = values.pairs("--prior", priors)
    if prior_values and model is None:
        raise click.UsageError("--prior needs --model: the names of priors are the model's")
    if quiet and out is None:
        raise click.UsageError("--quiet without --out would do the work and show nothing")
    arguments = _arguments(model, engine, init, prior_values, settings)
    if out is not None:
        folder.check(out, list(FILES))

    labels = read(**others)
    _check_sizes(arguments, labels)
    if not quiet:
        show_labels(labels)
    fit = _fit(labels, arguments, progress=not quiet and sys.stderr.isatty())
    if not quiet:
        show_fit(fit, labels)
    if out is not None:
        _save(fit, out)
        if not quiet:
            names = ", ".join(FILES[:-1])
            console.heading(console.output(), "Files")
            console.paragraph(
                console.output(),
                f"{names} and {FILES[-1]} in {out}; in Python: bayescrowd.load({str(out / FILES[-1])!r})",
            )
    if fit.idata.attrs.get("status") == "interrupted":
        kept = "what is printed" if out is None else f"the files in {out}"
        console.paragraph(console.messages(), f"The fit was interrupted: {kept} rests on what was done until then.")


def _arguments(
    model: str | None, engine: str | None, init: str | None, priors: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of `bayescrowd.fit`, checked as far as they can be without labels."""
    import bayescrowd as bc
    from bayescrowd.choice import choose
    from bayescrowd.inference.starts import resolve

    arguments: dict[str, Any] = dict(settings)
    if model is not None:
        arguments["model"] = make_model(model, priors)
    if engine is not None:
        arguments["engine"] = engine
    used = choose(**arguments).model
    if init is not None:
        # An earlier fit is named by its file.
        arguments["init"] = bc.load(init) if init.endswith(".nc") else init
        if isinstance(arguments["init"], str):
            # any labels will do to see whether there is such a start
            resolve(init, bc.CrowdLabels.from_codes([0], [0], [0], classes=2), used)
    return arguments


def _check_sizes(arguments: dict[str, Any], labels: CrowdLabels) -> None:
    """Refuse priors of a shape that the labels do not have."""
    from bayescrowd.inference.base import sizes_of
    from bayescrowd.kernels.precision import double_precision

    if "model" in arguments:
        with double_precision():  # as the fit will do it, so that nothing is compiled twice
            arguments["model"].check(sizes_of(labels))


def _fit(labels: CrowdLabels, arguments: dict[str, Any], progress: bool) -> Fit:
    import bayescrowd as bc

    return bc.fit(labels, progress=progress, **arguments)


def _save(fit: Fit, out: Path) -> None:
    def table(frame: pd.DataFrame) -> Callable[[Path], object]:
        return lambda path: frame.to_csv(path, lineterminator="\n", encoding="utf-8")

    writers = (table(fit.consensus()), table(fit.workers()), fit.save)
    folder.write(out, dict(zip(FILES, writers, strict=True)))


def show_labels(labels: CrowdLabels) -> None:
    """Print what the labels are like."""
    out = console.output()
    console.heading(out, "Labels")
    console.paragraph(out, labels.summary())


def show_fit(fit: Fit, labels: CrowdLabels) -> None:
    """Print the consensus, the workers and the diagnosis of a fit."""
    from bayescrowd.errors import count_of

    out = console.output()
    consensus = fit.consensus()
    shown = len(consensus) if len(consensus) <= _ALL else _FIRST
    console.heading(
        out,
        f"Consensus ({shown} of {count_of(len(consensus), 'item')}; model {_name(fit.model)}, "
        f"engine {_name(fit.engine)})",
    )
    console.show_frame(out, consensus.iloc[:shown], index="item")
    if len(consensus) > _FIRST:
        unsure = consensus.sort_values("probability", kind="stable").iloc[:_UNSURE]
        console.heading(out, f"The {len(unsure)} least certain items")
        console.show_frame(out, unsure, index="item")
    _show_score(consensus, labels)

    # What an engine cannot say (a point estimate has no intervals) is left out here and stays empty in workers.csv.
    workers = fit.workers().dropna(axis="columns", how="all")
    if len(workers) <= _WORKERS:
        console.heading(out, f"Workers ({len(workers)})")
        console.show_frame(out, workers, index="worker")
    else:
        busiest = workers.sort_values("n_labels", ascending=False, kind="stable").iloc[:_WORKERS]
        console.heading(out, f"Workers (the {_WORKERS} with most labels of {len(workers)})")
        console.show_frame(out, busiest, index="worker")

    console.heading(out, "Diagnosis")
    console.paragraph(out, fit.diagnose())


def _show_score(consensus: pd.DataFrame, labels: CrowdLabels) -> None:
    """Print the share of items whose truth came along that the consensus gets right."""
    from bayescrowd.errors import count_of

    if labels.truth is None:
        return
    known = labels.truth.dropna()
    known = known[known.index.isin(consensus.index)]
    if not len(known):
        return
    right = (consensus["class"].loc[known.index].astype(object) == known.astype(object)).mean()
    console.paragraph(
        console.output(),
        f"The consensus agrees with the truth on {100 * right:.1f} % of the {count_of(len(known), 'item')} with "
        "truth (no fit reads it).",
    )


def _name(thing: object) -> str:
    return str(getattr(thing, "name", thing))
