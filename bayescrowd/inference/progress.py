"""Progress of long work: one bar, only where somebody looks at it."""

import sys
from importlib.util import find_spec
from typing import Any, Protocol, Self

import numpy as np

from bayescrowd.errors import EngineError

__all__ = ["Reporter", "check_progress", "reporter"]


class Reporter(Protocol):
    """Where an engine tells how far it is."""

    def start(self, task: str, total: int) -> None:
        """Begin a task.

        Parameters
        ----------
        task : str
            What is being done.
        total : int
            How many steps at most.
        """

    def update(self, done: int, note: str = "") -> None:
        """Tell how many steps are done.

        Parameters
        ----------
        done : int
            Steps so far.
        note : str
            A few words to show beside the bar.
        """

    def __enter__(self) -> Self:
        """Show the bar."""

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""


class _Silent:
    def start(self, task: str, total: int) -> None:
        """Say nothing."""

    def update(self, done: int, note: str = "") -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class _Bar:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def start(self, task: str, total: int) -> None:
        """Show a new bar in place of the last one."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(task, total=total, note="")

    def update(self, done: int, note: str = "") -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, note=note)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


def check_progress(progress: Any) -> None:
    """Check the argument that shows or hides a progress bar.

    Parameters
    ----------
    progress : bool or None
        The argument.

    Raises
    ------
    EngineError
        Where it is anything else.
    """
    if progress is not None and not isinstance(progress, bool | np.bool_):
        raise EngineError(f"progress must be True, False or None (a bar where somebody looks), not {progress!r}")


def reporter(progress: bool | None) -> Reporter:
    """Choose where progress goes.

    Parameters
    ----------
    progress : bool or None
        True shows a bar, False nothing; None shows one in a terminal or a notebook.

    Returns
    -------
    Reporter
        A context manager.
    """
    notebook = "ipykernel" in sys.modules
    show = (sys.stderr.isatty() or notebook) if progress is None else progress
    # Rich draws bars in notebooks by ipywidgets, and warns on every bar where it is missing.
    able = not notebook or find_spec("ipywidgets") is not None
    return _Bar() if show and able else _Silent()
