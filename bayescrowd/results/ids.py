"""The user's ids as coordinates: what xarray, ArviZ and NetCDF can hold, with a way back to the ids themselves.

Ids of one plain kind (text, int, float, bool) are coordinates as they are. Anything else (mixed kinds, dates, decimals,
tuples, text that NetCDF cannot hold) becomes text, and the ids themselves ride along, one JSON text per id. Ids of
types that are not known here ride along as they are: they work in memory, and `bayescrowd.results.store.save` refuses
them.
"""

import datetime
import json
import uuid
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

__all__ = ["Coordinate", "InMemory", "coordinate", "original_ids"]

_PLAIN_KINDS = "biuf"


@dataclass(frozen=True)
class InMemory:
    """An id that no file can hold.

    Parameters
    ----------
    value : hashable
        The id.
    """

    value: Any


class Coordinate(NamedTuple):
    """Ids ready for a coordinate.

    Parameters
    ----------
    values : array [id]
        Distinct values of one plain kind.
    originals : array [id] or None
        Where ``values`` had to be another thing than the ids: the ids as JSON text, or as `InMemory` where JSON cannot
        express them. None where ``values`` are the ids.
    note : str or None
        What cannot be saved, for the user; None if everything can.
    """

    values: np.ndarray
    originals: np.ndarray | None
    note: str | None


def coordinate(ids: Sequence[Hashable] | pd.Index, what: str) -> Coordinate:
    """Turn ids into coordinate values.

    Parameters
    ----------
    ids : sequence
        Distinct ids.
    what : str
        Their dim, for the note.

    Returns
    -------
    Coordinate
        Values, originals where needed, and a note where ids cannot be saved.

    Examples
    --------
    >>> coordinate([1, "1"], "item").values.tolist()
    ['1', "'1'"]
    >>> coordinate([False, True], "class").originals is None
    True
    """
    index = ids if isinstance(ids, pd.Index) else pd.Index(list(ids), dtype=object, tupleize_cols=False)
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in _PLAIN_KINDS:
        return Coordinate(index.to_numpy(), None, None)
    values = [_python(value) for value in index.tolist()]
    kinds = set(map(type, values))
    if kinds <= {str} and not _unsafe("".join(values)):
        return Coordinate(_objects(values), None, None)
    if kinds <= {bool} or kinds <= {float}:
        return Coordinate(np.array(values), None, None)
    if kinds <= {int} and all(-(2**63) <= value < 2**63 for value in values):
        return Coordinate(np.array(values, np.int64), None, None)
    encoded = [_encode(value) for value in values]
    lost = [value for value, text in zip(values, encoded, strict=True) if text is None]
    originals = _objects([InMemory(v) if t is None else t for v, t in zip(values, encoded, strict=True)])
    note = None
    if lost:
        note = (
            f"{len(lost)} {what} id{'s' if len(lost) > 1 else ''} of type {type(lost[0]).__name__} "
            f"(first: {lost[0]!r}) cannot be saved to a file; text, numbers, dates and tuples of them can."
        )
    return Coordinate(_objects(_distinct(values)), originals, note)


def original_ids(values: np.ndarray, originals: np.ndarray | None = None) -> pd.Index:
    """Give the user's ids back.

    Parameters
    ----------
    values : array [id]
        Coordinate values.
    originals : array [id], optional
        What `coordinate` gave along.

    Returns
    -------
    pandas.Index
        The ids, with their types.
    """
    if originals is not None:
        decoded = _objects([_decode(text) if isinstance(text, str) else text.value for text in _listed(originals)])
        return pd.Index(decoded, dtype=object, tupleize_cols=False)
    if values.dtype.kind in "OTU":
        texts = values.astype(object)
        is_text = pd.api.types.infer_dtype(texts, skipna=False) in ("string", "empty")
        return pd.Index(texts, dtype="str" if is_text else object)
    return pd.Index(values)


def _objects(values: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(values), object)
    for position, value in enumerate(values):  # at once, NumPy would spread out tuples
        out[position] = value
    return out


def _listed(values: np.ndarray) -> list[Any]:
    return [values[position] for position in range(len(values))]


def _python(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return pd.Timestamp(value)
    if isinstance(value, np.timedelta64):
        return pd.Timedelta(value)
    return value.item() if isinstance(value, np.generic) else value


def _unsafe(text: str) -> bool:
    """NetCDF keeps neither NUL characters nor lone surrogates."""
    return "\0" in text or not (text.isascii() or _encodes(text))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _distinct(values: Sequence[Any]) -> list[str]:
    texts = [ascii(value)[1:-1] if isinstance(value, str) and _unsafe(value) else str(value) for value in values]
    count = Counter(texts)
    shown: list[str] = []
    seen: Counter[str] = Counter()
    for value, text in zip(values, texts, strict=True):
        name = ascii(value) if count[text] > 1 else text
        seen[name] += 1
        shown.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    # Where a stand-in collides with another id's own text there is no honest short name left: number them all.
    return shown if len(set(shown)) == len(shown) else [f"{position}: {text}" for position, text in enumerate(texts)]


# Exactly these types, not their children: what is read is of the type that was written. (kind, type, to JSON, back).
_CODECS: tuple[tuple[str, type, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("timestamp", pd.Timestamp, lambda v: [v.isoformat(), _zone(v)], lambda v: _timestamp(v)),
    ("timedelta", pd.Timedelta, lambda v: [str(v.asm8.astype("i8")), v.unit], lambda v: _timedelta(v)),
    ("period", pd.Period, lambda v: [str(v), v.freqstr], lambda v: pd.Period(v[0], freq=v[1])),
    ("datetime", datetime.datetime, lambda v: v.isoformat(), datetime.datetime.fromisoformat),
    ("date", datetime.date, lambda v: v.isoformat(), datetime.date.fromisoformat),
    ("time", datetime.time, lambda v: v.isoformat(), datetime.time.fromisoformat),
    (
        "duration",
        datetime.timedelta,
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: datetime.timedelta(*v),
    ),
    ("decimal", Decimal, str, Decimal),
    ("fraction", Fraction, str, Fraction),
    ("complex", complex, lambda v: [v.real, v.imag], lambda v: complex(*v)),
    ("bytes", bytes, lambda v: v.hex(), bytes.fromhex),
    ("uuid", uuid.UUID, str, uuid.UUID),
)
_WRITERS = {kind: (name, write) for name, kind, write, _ in _CODECS}
_READERS = {name: read for name, _, _, read in _CODECS}


def _zone(value: pd.Timestamp) -> str | None:
    return None if value.tz is None else str(value.tz)


def _timestamp(parts: Any) -> Any:
    if isinstance(parts, str):
        return pd.Timestamp(parts)
    stamp, zone = pd.Timestamp(parts[0]), parts[1]
    return stamp if zone is None else stamp.tz_convert(zone)


def _timedelta(parts: Any) -> Any:
    return pd.Timedelta(np.timedelta64(int(parts[0]), parts[1]))


def _encode(value: Any) -> str | None:
    form = _form(value)
    return None if form is None else json.dumps(form[0])


def _form(value: Any) -> tuple[Any] | None:
    """Give what JSON can express, in a tuple of one; None where it cannot express the value."""
    if isinstance(value, np.generic):
        value = _python(value)
    if type(value) in (str, bool, int, float):
        return (value,)
    if type(value) is tuple:
        parts = [_form(part) for part in value]
        return None if None in parts else ({"tuple": [part[0] for part in parts if part is not None]},)
    if type(value) in _WRITERS:
        name, write = _WRITERS[type(value)]
        form = ({name: write(value)},)
        try:
            same = _plain(form[0]) == value
        except (ValueError, TypeError, KeyError, OverflowError):
            same = False
        return form if same else None
    return None


def _decode(text: str) -> Any:
    return _plain(json.loads(text))


def _plain(form: Any) -> Any:
    if not isinstance(form, dict):
        return form
    ((kind, value),) = form.items()
    return tuple(_plain(part) for part in value) if kind == "tuple" else _READERS[kind](value)
