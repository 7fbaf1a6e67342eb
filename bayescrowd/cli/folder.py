"""Files that the commands write: all or none, and never over a file that is not theirs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click

#: In each folder written to: the name and SHA-256 of every file the commands wrote there.
RECORD = ".bayescrowd.json"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check(folder: Path, names: list[str], remedy: str = "move them away or choose another folder") -> None:
    """Refuse before the work starts if the files could not be written after it.

    Parameters
    ----------
    folder : pathlib.Path
        Need not be there yet; `write` makes it.
    names : list of str
        Files to be written.
    remedy : str
        What to do about files that are not ours.

    Raises
    ------
    click.UsageError
        If the folder cannot be made or written, or a file of that name is there that these commands did not write, or
        that was changed since.
    """
    # A command that fails later should leave no empty folder behind: look whether it could be made.
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        probe = nearest / f".bayescrowd-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    record = _record(folder)
    foreign = [
        name
        for name in names
        if (folder / name).exists() and (not (folder / name).is_file() or record.get(name) != digest(folder / name))
    ]
    if foreign:
        raise click.UsageError(
            f"{', '.join(foreign)} in {str(folder)!r} not written by bayescrowd, or changed since: {remedy}"
        )


def write(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
    """Write files under other names first, then put them in place together.

    Parameters
    ----------
    folder : pathlib.Path
        Checked with `check`.
    writers : mapping of str to callable
        For each file name, what writes it to a given path.

    Returns
    -------
    list of pathlib.Path
        The files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: folder / f".part-{os.getpid()}-{name}" for name in writers}
    try:
        for name, writer in writers.items():
            writer(parts[name])
        record = _record(folder) | {name: digest(part) for name, part in parts.items()}
        (folder / RECORD).write_text(json.dumps({"files": record}, indent=1) + "\n", encoding="utf-8")
        for name, part in parts.items():
            part.replace(folder / name)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return [folder / name for name in writers]


def _record(folder: Path) -> dict[str, str]:
    """Return what the commands wrote into a folder; an unreadable record counts as none."""
    try:
        files = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if isinstance(files, dict) else {}
