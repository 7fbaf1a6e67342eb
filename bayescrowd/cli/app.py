"""The group of commands, and what becomes of an error: one message on standard error and a non-zero exit.

Exit codes: 0 done; 1 something failed that is not the user's doing; 2 the command or the data cannot be used;
130 interrupted before there was anything to keep.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bayescrowd.cli import console
from bayescrowd.cli.data_commands import datasets_command, simulate_command, summary_command
from bayescrowd.cli.fit_command import fit_command
from bayescrowd.cli.report_command import report_command
from bayescrowd.errors import BayescrowdError, BayescrowdWarning, ConvergenceWarning

#: Set this environment variable to see where an unexpected error came from.
TRACEBACK = "BAYESCROWD_TRACEBACK"


class Unusable(click.ClickException):
    """The command or the data cannot be used."""

    exit_code = 2


class Failed(click.ClickException):
    """Something failed that is not the user's doing."""

    exit_code = 1


class Interrupted(click.ClickException):
    """The user ended the command before there was anything to keep."""

    exit_code = 130


class Commands(click.Group):
    """A group whose commands never end in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn whatever it raises into one message."""
        try:
            with _warnings_as_notes():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            raise Interrupted("interrupted; nothing was written") from None
        except BayescrowdError as error:
            raise Unusable(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has gone; click ends quietly
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise Unusable(f"{where}{error.strerror or error}") from error
        except ImportError as error:
            raise Failed(f"{error}; installing bayescrowd again may help") from error
        except MemoryError as error:
            raise Failed("not enough memory") from error
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            raise Failed(
                f"unexpected {type(error).__name__}: {error}\nThis is a fault of bayescrowd; please report it with "
                f"what {TRACEBACK}=1 in the environment shows."
            ) from error


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show our warnings as sentences, each once, instead of a file name and a line of source."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = str(message)
        if text in shown:
            return
        shown.add(text)
        prefix = category.__name__
        if issubclass(category, BayescrowdWarning):
            prefix = "Warning" if issubclass(category, ConvergenceWarning) else "Note"
        console.paragraph(console.messages(), f"{prefix}: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", BayescrowdWarning)
        warnings.showwarning = show
        yield


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:3]))
    parts = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpyro"))
    click.echo(f"bayescrowd {version('bayescrowd')} (Python {python}, {parts})")
    ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show versions and exit."
)
def main() -> None:
    """Aggregate crowdsourced labels: who was right, how good each worker is, how sure one may be."""


main.add_command(fit_command)
main.add_command(summary_command)
main.add_command(datasets_command)
main.add_command(simulate_command)
main.add_command(report_command)
