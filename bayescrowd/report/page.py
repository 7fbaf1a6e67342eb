"""The page about one result: from the verdict to how it was made."""

import os
from pathlib import Path
from typing import Any

import xarray as xr

from bayescrowd.decisions.arguments import check_seed
from bayescrowd.errors import BayescrowdError
from bayescrowd.report import method, sections
from bayescrowd.report.known import known
from bayescrowd.report.markup import Markup, document, element, join
from bayescrowd.results.tree import title

__all__ = ["compose", "write"]


def write(tree: xr.DataTree, path: str | Path, *, truth: Any = None, seed: int = 0) -> None:
    """Write a self-contained page about a result.

    Parameters
    ----------
    tree : DataTree
        The result.
    path : str or Path
        Name of the HTML file; an existing one is replaced.
    truth : Series or dict, optional
        Item -> true class, for the parts on calibration and on errors in common; by default the truth of the labels.
    seed : int
        Seed of replications and resampling.

    Raises
    ------
    BayescrowdError
        Where the folder does not exist or the file cannot be written.
    LabelError
        For a truth or a seed that cannot be used.
    ModuleNotFoundError
        Where the extra ``plots`` is not installed.

    Examples
    --------
    >>> import bayescrowd as bc, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> write(bc.fit(bc.datasets.load("anesthesia")).idata, path)
    >>> os.path.getsize(path) > 10_000
    True
    """
    target = check_target(path)
    page = compose(tree, truth=truth, seed=seed)
    # Written beside the target first, so that a failure never leaves half a page in its place.
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(page, encoding="utf-8", errors="replace", newline="\n")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise BayescrowdError(
            f"cannot write {str(target)!r} ({error}): choose a folder that you may write to and that has room"
        ) from error


def check_target(path: Any) -> Path:
    """See whether a page can be written there, before any work is done.

    Parameters
    ----------
    path : str or Path
        Name of the file.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    BayescrowdError
        Where it is no name, a folder, or in a folder that does not exist.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise BayescrowdError(f"cannot write a report to {path!r}: give the name of a file, e.g. 'report.html'")
    target = Path(path).expanduser()
    if target.is_dir():
        raise BayescrowdError(f"cannot write {str(target)!r}: it is a folder; give a file name, e.g. 'report.html'")
    if not target.parent.is_dir():
        raise BayescrowdError(
            f"cannot write {str(target)!r}: there is no folder {str(target.parent)!r}; create it first"
        )
    return target


def compose(tree: xr.DataTree, *, truth: Any = None, seed: int = 0) -> str:
    """Make the page.

    Parameters
    ----------
    tree : DataTree
        The result.
    truth : Series or dict, optional
        Item -> true class; by default the truth of the labels.
    seed : int
        Seed of replications and resampling.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    LabelError
        For a truth that is none, or that names items or classes that the fit does not have, and for a seed that is
        none: before anything is computed.
    ModuleNotFoundError
        Where the extra ``plots`` is not installed.
    """
    seed = check_seed(seed)
    scored = known(tree, truth)
    compared = sections.replications(tree, seed)
    parts: list[tuple[str, Markup | None]] = [
        ("", sections.verdict(tree, compared)),
        ("In short", sections.figures(tree)),
        ("Classes", sections.classes(tree)),
        ("Workers", sections.workers(tree)),
        ("Items", sections.items(tree)),
        ("Why an item got its class", sections.explanations(tree)),
        ("Can the model be believed?", sections.checks(compared)),
        ("Do workers err together?", sections.dependence(tree, scored, seed)),
        ("Against known classes", sections.calibration(tree, scored, seed)),
        ("How this was made", method.how(tree, seed)),
        ("Words", method.words()),
    ]
    body = [method.heading(tree)]
    for name, content in parts:
        if content is not None:
            body.append(element("section", *([element("h2", name)] if name else []), content))
    return document(f"Labels: {title(tree)}", join(body))
