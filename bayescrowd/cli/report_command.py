"""`bayescrowd report`: a page about a saved fit."""

from __future__ import annotations

from pathlib import Path

import click

from bayescrowd.cli import console


@click.command("report", short_help="Write a page about a saved fit, for a browser.")
@click.argument("fit_file", metavar="FIT", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="HTML file to write; by default FIT.html.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of replications and resampling.")
def report_command(fit_file: Path, out: Path | None, seed: int) -> None:
    """Write one self-contained HTML page about FIT, a file that `bayescrowd fit` or fit.save() wrote.

    It holds the verdict, tables and pictures, and needs neither Python nor a network to be read.
    """
    target = fit_file.with_suffix(".html") if out is None else out
    if target.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--out {str(target)!r}: a page is written; name the file {target.stem}.html")
    import bayescrowd as bc
    from bayescrowd.report.page import check_target

    check_target(target)
    bc.load(fit_file).report(target, seed=seed)
    console.paragraph(console.output(), f"The report is in {target}")
