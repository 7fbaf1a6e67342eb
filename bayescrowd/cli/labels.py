"""The options that say which labels to read, shared by the commands that read labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayescrowd.cli import values

if TYPE_CHECKING:
    import bayescrowd.data.labels

DUPLICATES = ("warn", "keep", "first", "last", "drop-identical", "error")
_COLUMNS = ("item", "worker", "label", "weight", "gold", "truth")

_OPTIONS = (
    click.argument("file", metavar="[LABELS]", required=False, type=click.Path(path_type=Path)),
    click.option("--dataset", metavar="NAME", help="A named data set instead of a file; see `bayescrowd datasets`."),
    click.option(
        "--folder",
        type=click.Path(path_type=Path),
        help="Folder of data sets (NAME/labels.csv) to look in before downloading; default: BAYESCROWD_DATA.",
    ),
    click.option("--item", metavar="COLUMN", help="Column of the items; usual names are recognised."),
    click.option("--worker", metavar="COLUMN", help="Column of the workers."),
    click.option("--label", metavar="COLUMN", help="Column of the labels."),
    click.option("--weight", metavar="COLUMN", help="Column of weights or counts."),
    click.option("--gold", metavar="COLUMN", help="Column of known classes that the fit uses."),
    click.option("--truth", metavar="COLUMN", help="Column of known classes that no fit reads, for scoring."),
    click.option("--classes", metavar="A,B,C", help="The classes, in order; default: the labels that occur."),
    click.option(
        "--labels", "label_values", metavar="A,B,C", help="Every label value, if there are more than classes."
    ),
    click.option("--missing", metavar="A,B", help="Label values that mean no label, for example NA,-1."),
    click.option("--duplicates", type=click.Choice(DUPLICATES), help="What to do with repeated item and worker pairs."),
)


def labels_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `read` takes to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read(
    file: Path | None,
    dataset: str | None,
    folder: Path | None,
    classes: str | None,
    label_values: str | None,
    missing: str | None,
    duplicates: str | None,
    **columns: str | None,
) -> bayescrowd.data.labels.CrowdLabels:
    """Return the labels that the options ask for.

    Parameters
    ----------
    file, dataset : pathlib.Path or str, optional
        One of the two.
    folder : pathlib.Path, optional
        Where to look for a data set before downloading it.
    classes, label_values, missing : str, optional
        Comma-separated values.
    duplicates : str, optional
        One of `DUPLICATES`.
    **columns : str, optional
        Names of the columns item, worker, label, weight, gold and truth.

    Returns
    -------
    CrowdLabels
        As `bayescrowd.read_labels` or `bayescrowd.datasets.load` returns them.
    """
    import bayescrowd as bc

    about_a_file = {name: column for name, column in columns.items() if column is not None} | {
        name: value
        for name, value in {
            "classes": values.names(classes),
            "labels": values.names(label_values),
            "missing": values.names(missing),
            "duplicates": duplicates,
        }.items()
        if value is not None
    }
    if (file is None) == (dataset is None):
        raise click.UsageError("give either a file of labels or --dataset NAME (`bayescrowd datasets` lists them)")
    if dataset is not None:
        if about_a_file:
            options = ", ".join(f"--{name}" for name in about_a_file)
            raise click.UsageError(f"{options}: only for a file; a named data set has its own columns")
        return bc.datasets.load(dataset) if folder is None else bc.datasets.load(dataset, folder=folder)
    if folder is not None:
        raise click.UsageError("--folder goes with --dataset")
    return bc.read_labels(file, **about_a_file)
