"""Errors and warnings of bayescrowd, and the one builder of their messages.

Every error here is a ``ValueError`` whose message says what is wrong, where (column, ids, first rows) and what to
do. A message lists *all* problems that were found, so that a table is mended in one go.
"""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice

__all__ = [
    "BayescrowdError",
    "BayescrowdWarning",
    "ConvergenceWarning",
    "DatasetError",
    "EngineError",
    "LabelError",
    "ModelError",
    "count_of",
    "no_such",
    "problems_message",
    "shorten",
]


class BayescrowdError(ValueError):
    """Base of all errors that bayescrowd raises on what a user passed."""


class LabelError(BayescrowdError):
    """A label table that cannot be used."""


class ModelError(BayescrowdError):
    """Priors, or a model that breaks the model contract."""


class EngineError(BayescrowdError):
    """An engine, an engine option or a start that cannot be used."""


class DatasetError(BayescrowdError):
    """A data set that is unknown, incomplete or cannot be fetched."""


class BayescrowdWarning(UserWarning):
    """Something suspicious that can be used all the same."""


class ConvergenceWarning(BayescrowdWarning):
    """A fit that did not converge; it is returned, not thrown away."""


def count_of(number: int, noun: str) -> str:
    """Say ``3 rows`` or ``1 row``.

    Parameters
    ----------
    number : int
        How many.
    noun : str
        In the singular.

    Returns
    -------
    str
        Large numbers with separators.

    Examples
    --------
    >>> count_of(1, "class"), count_of(2, "class"), count_of(1000, "item")
    ('1 class', '2 classes', '1,000 items')
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("ty"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def no_such(what: str, name: object, names: Sequence[str]) -> str:
    """Say that a name is unknown, which one may have been meant, and which there are.

    Parameters
    ----------
    what : str
        What bears such names: ``"model"``.
    name : object
        What was given.
    names : sequence of str
        Those that are known.

    Returns
    -------
    str
        The message.
    """
    near = difflib.get_close_matches(str(name).lower().replace("_", "-"), names, n=1)
    known = f"{what}s are {', '.join(map(repr, names))}"
    return f"there is no {what} {name!r}; " + (f"did you mean {near[0]!r}? The {known}" if near else f"the {known}")


def problems_message(headline: str, problems: Sequence[str], noun: str = "problem") -> str:
    """Build a message: a headline, then one bullet per problem.

    Parameters
    ----------
    headline : str
        What could not be done, without a final full stop.
    problems : sequence of str
        One sentence each: what, where, what to do.
    noun : str
        What to call them in the headline.

    Returns
    -------
    str
        The headline alone if there are no problems; headline and problem on one line if there is one.

    Examples
    --------
    >>> print(problems_message("cannot use these labels", ["no rows.", "column 'item' is missing."]))
    cannot use these labels (2 problems):
    - no rows.
    - column 'item' is missing.
    >>> print(problems_message("cannot use these labels", ["no rows."]))
    cannot use these labels: no rows.
    """
    if not problems:
        return headline
    if len(problems) == 1:
        return f"{headline}: {problems[0]}"
    return "\n".join([f"{headline} ({len(problems)} {noun}s):", *(f"- {problem}" for problem in problems)])


def shorten(values: Iterable[object], limit: int = 5) -> str:
    """List values in words, the first few only.

    Parameters
    ----------
    values : iterable
        What to list; each is shown by ``repr``, numpy scalars as the Python value they hold.
    limit : int
        How many to show before "and N more". A list of one more than this is shown whole: "and 1 more" saves nothing.

    Returns
    -------
    str
        Comma-separated values; ``"none"`` if there are none.

    Examples
    --------
    >>> shorten(["a", "b"])
    "'a', 'b'"
    >>> shorten(range(12))
    '0, 1, 2, 3, 4 and 7 more'
    """
    kept = list(values)
    if not kept:
        return "none"
    shown = kept if len(kept) <= limit + 1 else list(islice(kept, limit))
    text = ", ".join(_show(value) for value in shown)
    hidden = len(kept) - len(shown)
    return f"{text} and {hidden} more" if hidden else text


def _show(value: object, width: int = 60) -> str:
    """``repr`` of a value, without numpy's type around it and never longer than ``width``."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        value = item()
    text = repr(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."
