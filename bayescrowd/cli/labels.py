"""The options that say which labels to read, shared by the commands that read labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayescrowd.cli import values

if TYPE_CHECKING:
    from bayescrowd.data.labels import CrowdLabels

LAYOUTS = ("long", "wide", "counts")
OPTIONAL = ("weight", "gold", "truth")
DUPLICATES = ("warn", "keep", "first", "last", "drop-identical", "error")

_OPTIONS = (
    click.argument("file", metavar="[LABELS]", required=False, type=click.Path(path_type=Path)),
    click.option("--dataset", metavar="NAME", help="A named data set instead of a file; see `bayescrowd datasets`."),
    click.option(
        "--folder",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder of data sets (NAME/labels.csv) to look in before downloading; default: BAYESCROWD_DATA.",
    ),
    click.option("--item", metavar="COLUMN", help="Column of the items; usual names are recognised."),
    click.option("--worker", metavar="COLUMN", help="Column of the workers."),
    click.option("--label", metavar="COLUMN", help="Column of the labels."),
    click.option(
        "--layout", type=click.Choice(LAYOUTS), help="A row per label (default), items x workers, or patterns."
    ),
    click.option("--items", type=click.Choice(["rows", "columns"]), help="Where the items of a wide table are."),
    click.option("--count", metavar="COLUMN", help="Column of counts in a table of response patterns."),
    click.option("--weight", metavar="COLUMN", help="Column of weights or counts."),
    click.option("--gold", metavar="COLUMN", help="Column of known classes that the fit uses."),
    click.option("--truth", metavar="COLUMN", help="Column of known classes that no fit reads, for scoring."),
    click.option(
        "--ignore", type=click.Choice(OPTIONAL), multiple=True, help="Leave a column unused that would be recognised."
    ),
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
    ignore: tuple[str, ...],
    **others: str | None,
) -> CrowdLabels:
    """Return the labels that the options ask for.

    Parameters
    ----------
    file, dataset : pathlib.Path or str, optional
        One of the two.
    folder : pathlib.Path, optional
        Where to look for a data set before downloading it.
    classes, label_values, missing : str, optional
        Comma-separated values.
    ignore : tuple of str
        Which of `OPTIONAL` stay unused even if there is a column of such a name.
    **others : str, optional
        Names of columns (item, worker, label, weight, gold, truth, count), layout, items, duplicates.

    Returns
    -------
    CrowdLabels
        As `bayescrowd.read_labels` or `bayescrowd.datasets.load` returns them.
    """
    import bayescrowd as bc

    about_a_file: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    about_a_file |= _lists(classes, label_values, missing)
    twice = [name for name in ignore if name in about_a_file]
    if twice:
        raise click.UsageError("; ".join(f"--{name} and --ignore {name} exclude each other" for name in twice))
    if file is not None and dataset is None:
        if folder is not None:
            raise click.UsageError("--folder goes with --dataset")
        return bc.read_labels(file, **about_a_file | dict.fromkeys(ignore, False))
    if dataset is None or file is not None:
        raise click.UsageError("give either a file of labels or --dataset NAME (`bayescrowd datasets` lists them)")
    about = [*about_a_file, *(["ignore"] if ignore else [])]
    if about:
        options = ", ".join(f"--{name}" for name in about)
        raise click.UsageError(f"{options}: only for a file; a named data set has its own columns")
    return bc.datasets.load(dataset) if folder is None else bc.datasets.load(dataset, folder=folder)


def _lists(classes: str | None, label_values: str | None, missing: str | None) -> dict[str, list[Any]]:
    """Return the values listed in options, as numbers where the column they are about would be read as numbers."""
    declared = {"classes": values.names(classes), "labels": values.names(label_values)}
    together = [text for texts in declared.values() for text in texts or []]
    numbers = dict(zip(together, values.whole(together), strict=True))
    result: dict[str, list[Any]] = {
        name: [numbers[text] for text in texts] for name, texts in declared.items() if texts is not None
    }
    markers = values.names(missing)
    if markers is not None:
        # -1 marks a missing label both in a column of numbers and in a column of text.
        result["missing"] = list(dict.fromkeys([*markers, *(values.whole([text])[0] for text in markers)]))
    return result
