"""`bayescrowd summary`, `datasets` and `simulate`: labels without a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayescrowd.cli import console, values
from bayescrowd.cli import folder as files
from bayescrowd.cli.labels import labels_options, read
from bayescrowd.cli.models import make_model


@click.command("summary", short_help="Describe labels without fitting anything.")
@labels_options
def summary_command(**options: Any) -> None:
    """Describe LABELS: sizes, labels per item and worker, agreement, and everything suspicious."""
    console.paragraph(console.output(), read(**options).summary())


@click.command("datasets", short_help="List the named data sets.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Also the sets NAME/labels.csv in this folder.",
)
def datasets_command(folder: Path | None) -> None:
    """List the data sets that `--dataset NAME` takes."""
    import bayescrowd as bc

    console.show_frame(console.output(), bc.datasets.list(folder).set_index("name"))


@click.command("simulate", short_help="Make labels with known truth.")
@click.option("--model", metavar="NAME", default="dawid-skene", show_default=True, help="The model to draw from.")
@click.option("--items", type=click.IntRange(min=1), required=True, help="Number of items.")
@click.option("--workers", type=click.IntRange(min=1), required=True, help="Number of workers.")
@click.option("--classes", metavar="N or A,B,C", default="2", show_default=True, help="Number or names of the classes.")
@click.option(
    "--labels-per-item",
    metavar="N",
    type=click.IntRange(min=1),
    help="Workers for each item; default 5, or all where there are fewer.",
)
@click.option("--labels-per-worker", metavar="N", type=click.IntRange(min=1), help="Instead of --labels-per-item.")
@click.option("--spammers", metavar="N", type=click.IntRange(min=0), default=0, help="Workers who label at random.")
@click.option("--adversaries", metavar="N", type=click.IntRange(min=0), default=0, help="Workers who mislead.")
@click.option("--prior", "priors", metavar="KEY=VALUE", multiple=True, help="As in `bayescrowd fit`.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="CSV file to write, .csv.")
def simulate_command(
    model: str, items: int, workers: int, classes: str, priors: tuple[str, ...], out: Path, **others: Any
) -> None:
    """Draw labels from a model and write them, with the truth of each item, to a CSV file.

    The file has the columns item, worker, label and truth, which `bayescrowd fit` recognises; no fit reads the truth.
    """
    prior_values = values.pairs("--prior", priors)
    if out.suffix.lower() != ".csv":
        raise click.UsageError(f"--out {str(out)!r}: the labels are written as CSV; name the file {out.stem}.csv")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {str(out)!r}: there is no folder {str(out.parent)!r}")
    files.check(out.parent, [out.name])
    import bayescrowd as bc
    from bayescrowd.errors import count_of

    named = values.names(classes) or []
    if len(named) == 1 and not named[0].isdecimal():
        raise click.UsageError(f"--classes {classes}: give a number of classes, or their names separated by commas")
    others["classes"] = int(named[0]) if len(named) == 1 else named
    given = {name: value for name, value in others.items() if value is not None}
    simulation = bc.simulate(make_model(model, prior_values), n_items=items, n_workers=workers, **given)
    frame = simulation.labels.to_frame()
    files.write(out.parent, {out.name: lambda path: frame.to_csv(path, index=False, lineterminator="\n")})
    console.paragraph(
        console.output(),
        f"{count_of(len(frame), 'label')} of {count_of(items, 'item')} by {count_of(workers, 'worker')}, with truth, "
        f"in {out}",
    )
