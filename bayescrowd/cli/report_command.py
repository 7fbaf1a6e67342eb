"""`bayescrowd report`: a page about a saved fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayescrowd.cli import console, folder

if TYPE_CHECKING:
    from bayescrowd.fit import Fit


@click.command("report", short_help="Write a page about a saved fit, for a browser.")
@click.argument("fit_file", metavar="FIT", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="HTML file to write; by default FIT.html, for a zarr store FIT.zarr.html.",
)
@click.option(
    "--truth",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with columns item and truth (or label, class): known classes to score the fit against; by default the "
    "truth that came with the labels.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of replications and resampling.")
@click.option("--force", is_flag=True, help="Also replace a file that bayescrowd did not write, or that was changed.")
def report_command(fit_file: Path, out: Path | None, truth: Path | None, seed: int, force: bool) -> None:
    """Write one self-contained HTML page about FIT, a file that `bayescrowd fit` or fit.save() wrote.

    It holds the verdict, tables and pictures, and needs neither Python nor a network to be read. A file of that name
    which these commands did not write, or which was changed since, is only replaced with --force.
    """
    target = _page_of(fit_file) if out is None else out
    if target.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--out {str(target)!r}: a page is written; name the file {target.stem}.html")
    import bayescrowd as bc
    from bayescrowd.decisions.arguments import check_seed
    from bayescrowd.report.page import check_target

    check_target(target)
    check_seed(seed)
    if not force:
        folder.check(target.parent, [target.name], "move it away, name another file with --out, or add --force")
    fit = bc.load(fit_file)
    known = None if truth is None else read_truth(truth, fit)
    folder.write(target.parent, {target.name: lambda part: fit.report(part, truth=known, seed=seed)})
    console.paragraph(console.output(), f"The report is in {target}")


def _page_of(fit_file: Path) -> Path:
    """Name the page of a fit: another one for each form in which the same fit may be saved."""
    if fit_file.suffix.lower() in (".nc", ""):
        return fit_file.with_suffix(".html")
    return fit_file.with_name(f"{fit_file.name}.html")


def read_truth(file: Path, fit: Fit) -> dict[object, object]:
    """Read known classes, as items and classes of a fit.

    Parameters
    ----------
    file : pathlib.Path
        Table with a row per item.
    fit : Fit
        Whose items they are.

    Returns
    -------
    dict
        Item -> class, without rows that leave the class open.

    Raises
    ------
    click.UsageError
        Where a column is missing, an item or a class is none of the fit, or an item has two classes.
    """
    from bayescrowd.data.columns import candidates
    from bayescrowd.data.files import read_table
    from bayescrowd.errors import problems_message, shorten

    frame, _, _ = read_table(file, None)
    found = {role: candidates(role, frame.columns) for role in ("item", "truth", "label")}
    columns = [found["item"], found["truth"] or found["label"]]
    if any(len(hits) != 1 for hits in columns):
        raise click.UsageError(
            f"--truth {str(file)!r}: needs one column 'item' and one column 'truth' (or 'label', 'class'); its columns "
            f"are {shorten(frame.columns)}"
        )
    said = [column.astype(object).where(column.notna(), "").map(str) for column in (frame[hits[0]] for hits in columns)]
    rows = [(item, value) for item, value in zip(*said, strict=True) if value.strip()]
    items, classes = ({str(name): name for name in names} for names in (fit.labels.items, fit.labels.classes))
    given: dict[str, set[str]] = {}
    for item, value in rows:
        given.setdefault(item, set()).add(value)
    problems = []
    strange = [item for item in given if item not in items]
    if strange:
        problems.append(f"the fit has no items {shorten(strange)}, but {shorten(items)}. Take their rows out.")
    other = {value for values in given.values() for value in values} - set(classes)
    if other:
        problems.append(f"the fit has no classes {shorten(sorted(other))}, but {shorten(classes)}. Mend their rows.")
    twice = [item for item, values in given.items() if len(values) > 1]
    if twice:
        problems.append(f"more than one class for {shorten(twice)}. Keep one.")
    if problems or not given:
        raise click.UsageError(
            problems_message(f"--truth {str(file)!r} cannot be used", problems or ["it names no class."])
        )
    return {items[item]: classes[value] for item, value in rows}
