"""The user's ids as coordinates: what xarray, ArviZ and NetCDF can hold, with a way back to the ids themselves.

Ids of one plain kind (text, int, float, bool) are coordinates as they are. Anything else (mixed kinds, dates, text that
NetCDF cannot hold) becomes text, and the ids themselves ride along, one JSON text per id. Ids that JSON cannot express
(tuples, arbitrary objects) stay text, with a note.
"""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

__all__ = ["Coordinate", "coordinate", "original_ids"]

_PLAIN_KINDS = "biuf"


class Coordinate(NamedTuple):
    """Ids ready for a coordinate.

    Parameters
    ----------
    values : array [id]
        Distinct values of one plain kind.
    originals : array of str [id] or None
        The ids as JSON where ``values`` had to be another thing than the ids; None where they are the ids.
    note : str or None
        What was lost, for the user; None if nothing was.
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
        Values, originals where needed, and a note where ids could only be kept as text.

    Examples
    --------
    >>> coordinate([1, "1"], "item").values.tolist()
    ['1', "'1'"]
    >>> coordinate([False, True], "class").originals is None
    True
    """
    index = ids if isinstance(ids, pd.Index) else pd.Index(list(ids), dtype=object)
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in _PLAIN_KINDS:
        return Coordinate(index.to_numpy(), None, None)
    values = [value.item() if isinstance(value, np.generic) else value for value in index.tolist()]
    kinds = set(map(type, values))
    if kinds <= {str} and not _unsafe("".join(values)):
        return Coordinate(_objects(values), None, None)
    if kinds <= {bool} or kinds <= {float}:
        return Coordinate(np.array(values), None, None)
    if kinds <= {int} and all(-(2**63) <= value < 2**63 for value in values):
        return Coordinate(np.array(values, np.int64), None, None)
    encoded = [_encode(value) for value in values]
    lost = [value for value, text in zip(values, encoded, strict=True) if text is None]
    originals = _objects([json.dumps(str(v)) if t is None else t for v, t in zip(values, encoded, strict=True)])
    note = None
    if lost:
        note = (
            f"{len(lost)} {what} id{'s' if len(lost) > 1 else ''} of type {type(lost[0]).__name__} "
            f"(first: {lost[0]!r}) kept as text."
        )
    return Coordinate(_objects(_distinct(values)), originals, note)


def original_ids(values: np.ndarray, originals: np.ndarray | None = None) -> pd.Index:
    """Give the user's ids back.

    Parameters
    ----------
    values : array [id]
        Coordinate values.
    originals : array of str [id], optional
        What `coordinate` gave along.

    Returns
    -------
    pandas.Index
        The ids, with their types.
    """
    if originals is not None:
        decoded = np.empty(len(originals), object)
        decoded[:] = [_decode(text) for text in originals.tolist()]
        return pd.Index(decoded, dtype=object)
    if values.dtype.kind in "OTU":
        texts = values.astype(object)
        is_text = all(isinstance(value, str) for value in texts.tolist())
        return pd.Index(texts, dtype="str" if is_text else object)
    return pd.Index(values)


def _objects(values: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


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


def _encode(value: Any) -> str | None:
    if isinstance(value, pd.Timestamp):
        return json.dumps({"timestamp": value.isoformat()})
    if isinstance(value, str | bool | int | float):
        return json.dumps(value)
    return None


def _decode(text: str) -> Any:
    value = json.loads(text)
    return pd.Timestamp(value["timestamp"]) if isinstance(value, dict) else value
