"""From a column of values to integer codes and the list of distinct values.

One rule for values throughout: values that Python calls equal are one value. So 1, 1.0 and True are one; where a
column mixes them, the integer is shown. Everything else keeps the type that the caller gave it.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from bayescrowd.data.validate import Report
from bayescrowd.errors import count_of, shorten

__all__ = ["Encoded", "as_index", "as_plain", "declare", "encode", "near_duplicates", "order_values", "written_missing"]

_COLLECTIONS = (list, set, frozenset, dict, tuple, np.ndarray, pd.Series, pd.Index)
# What other software writes for "nothing here". Kept as values, because "NA" may be Namibia, but pointed out.
_WRITTEN_MISSING = frozenset({"none", "nan", "n/a", "na", "<na>", "null", "nat", "#n/a"})


@dataclass(frozen=True)
class Encoded:
    """A column as codes.

    Attributes
    ----------
    codes : int32 array [N]
        Position in ``values``; -1 where nothing was said.
    values : Index [U]
        Distinct values, in first-appearance, category or declared order.
    fixed : bool
        The order of ``values`` was given by the caller (categories or declared).
    ordered : bool
        The values are ordinal, lowest first.
    n_marked : int
        Rows that are missing because they hold a marker passed as ``missing``.
    """

    codes: np.ndarray
    values: pd.Index
    fixed: bool = False
    ordered: bool = False
    n_marked: int = 0


def encode(
    column: pd.Series,
    name: Hashable,
    report: Report,
    *,
    missing: Sequence[object] = (),
    many_labels: bool = False,
) -> Encoded:
    """Code a column; None, NaN, NA, NaT, blank text and the markers in ``missing`` become -1.

    Parameters
    ----------
    column : Series [N]
        Any dtype.
    name : hashable
        What to call the column in messages.
    report : Report
        Takes problems and notes.
    missing : sequence
        Values that stand for "did not say".
    many_labels : bool
        The column holds labels, so that a collection in a cell means several labels at once.

    Returns
    -------
    Encoded
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.asarray(column.cat.codes)
        uniques: pd.Index = column.cat.categories
        fixed, ordered, kinds = True, bool(column.cat.ordered), {type(value) for value in uniques}
    else:
        fixed, ordered = False, False
        kinds = _kinds(column)
        bad = [kind for kind in kinds if issubclass(kind, _COLLECTIONS) and (many_labels or kind is not tuple)]
        if bad:
            _report_collections(column, tuple(bad), name, report, many_labels)
            return Encoded(np.full(len(column), -1, dtype=np.int32), pd.Index([], dtype=object))
        try:
            codes, found = pd.factorize(_array(column))
        except (TypeError, ValueError) as error:
            report.problems.append(
                f"column {name!r} holds values that cannot be told apart ({error}); use text or numbers."
            )
            return Encoded(np.full(len(column), -1, dtype=np.int32), pd.Index([], dtype=object))
        uniques = pd.Index(found, tupleize_cols=False)
    gaps = bool((codes < 0).any())
    values, blank = _plain(uniques, kinds, gaps, name, report)
    return _settle(codes, values, blank, missing, fixed=fixed, ordered=ordered)


def _array(column: pd.Series) -> Any:
    values = column.array
    if isinstance(column.dtype, np.dtype):
        plain = column.to_numpy()
        # pandas has no index of half or extended floats
        return plain.astype(np.float64) if plain.dtype in (np.float16, np.longdouble) else plain
    return values


def _kinds(column: pd.Series) -> set[type]:
    """Types of the values of an object column (others hold one type); float only where a number, not NaN, is one."""
    if column.dtype != object:
        return set()
    values = column.to_numpy()
    kinds = set(map(type, values))
    for kind in [kind for kind in kinds if issubclass(kind, (float, np.floating))]:
        if not any(type(value) is kind and value == value for value in values):
            kinds.discard(kind)
    return kinds


def _report_collections(column: pd.Series, bad: tuple[type, ...], name: Hashable, report: Report, labels: bool) -> None:
    rows = np.flatnonzero([isinstance(value, bad) for value in column.to_numpy()])
    found = f"column {name!r} holds a {type(column.iloc[rows[0]]).__name__} in {report.where(rows)}"
    if labels:
        report.problems.append(
            f"{found}: several labels at once. Fit one binary problem per label instead: for each label, 1 if the "
            "worker gave it and 0 if the worker saw the item and did not."
        )
    else:
        report.problems.append(f"{found}; an id is one text or number.")


def _plain(
    uniques: pd.Index, kinds: set[type], gaps: bool, name: Hashable, report: Report
) -> tuple[pd.Index, np.ndarray]:
    """Distinct values with plain types, and which of them are no values at all (blank text, stray NA)."""
    dtype = uniques.dtype
    if isinstance(dtype, pd.StringDtype) or isinstance(dtype, pd.ArrowDtype) and pd.api.types.is_string_dtype(dtype):
        uniques = uniques.astype("str")
        return uniques, np.asarray(uniques.str.strip() == "", dtype=bool)
    if pd.api.types.is_extension_array_dtype(dtype) and pd.api.types.is_any_real_numeric_dtype(dtype):
        uniques = pd.Index(uniques.to_numpy())
    elif pd.api.types.is_extension_array_dtype(dtype) and pd.api.types.is_bool_dtype(dtype):
        uniques = pd.Index(uniques.to_numpy(dtype=bool))
    if uniques.dtype != object:
        if pd.api.types.is_signed_integer_dtype(uniques.dtype) or uniques.dtype in (np.uint8, np.uint16, np.uint32):
            uniques = uniques.astype(np.int64)
        if gaps and pd.api.types.is_float_dtype(uniques.dtype):
            # pandas stores integers with gaps as floats; give the integers back
            numbers = uniques.to_numpy()
            if bool((np.abs(numbers) < 2**53).all()) and bool((numbers == np.floor(numbers)).all()):
                uniques = uniques.astype(np.int64)
        return uniques, np.asarray(uniques.isna())
    values = [value.item() if isinstance(value, np.generic) else value for value in uniques]
    exact = {type(value) for value in values if isinstance(value, (Decimal, Fraction))}
    if exact:
        # files hold no such type: what is saved would not come back as it was
        values = [as_plain(value) for value in values]
        listed = " and ".join(sorted(kind.__name__ for kind in exact))
        report.notes.append(f"column {name!r} holds {listed} values: whole ones are read as int, others as float.")
        kinds = {type(value) for value in values if value == value}
    families = {family for family in (bool, int, float) if any(_family(kind) is family for kind in kinds)}
    if len(families) > 1:
        values = [
            int(v) if isinstance(v, (bool, float)) and v == v and abs(v) < 2**53 and v == int(v) else v for v in values
        ]
        names = ", ".join(sorted(family.__name__ for family in families))
        report.notes.append(f"column {name!r} mixes {names}: equal values are one value, whole numbers shown as int.")
    blank = [
        (isinstance(v, str) and not v.strip()) or (not isinstance(v, tuple) and pd.isna(v) is True) for v in values
    ]
    return as_index(values), np.asarray(blank, dtype=bool)


def as_plain(value: object) -> object:
    """Plain Python instead of numpy scalars, ``Decimal`` and ``Fraction``.

    Examples
    --------
    >>> as_plain(Decimal("2.0")), as_plain(Decimal("2.5"))
    (2, 2.5)
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Decimal) and not value.is_finite():
        return None if value.is_nan() else float(value)
    if isinstance(value, (Decimal, Fraction)):
        return int(value) if value == int(value) else float(value)
    return value


def _family(kind: type) -> type | None:
    if issubclass(kind, (bool, np.bool_)):
        return bool
    if issubclass(kind, (int, np.integer)):
        return int
    return float if issubclass(kind, (float, np.floating)) else None


def _settle(
    codes: np.ndarray, values: pd.Index, blank: np.ndarray, missing: Sequence[object], *, fixed: bool, ordered: bool
) -> Encoded:
    """Merge equal values, drop those that are no values, and renumber the codes."""
    n_marked = 0
    drop = blank
    if len(missing):
        markers = {marker for marker in missing if pd.api.types.is_hashable(marker)}
        marked = np.fromiter((value in markers for value in values), dtype=bool, count=len(values))
        if marked.any():
            n_marked = int(np.bincount(codes[codes >= 0], minlength=len(values))[marked].sum())
            drop = drop | marked
    renumber = np.arange(len(values) + 1)
    renumber[-1] = -1  # code -1 reads the last entry
    if not values.is_unique:  # pandas may tell apart what Python calls equal
        first: dict[object, int] = {}
        renumber[:-1] = [first.setdefault(value, position) for position, value in enumerate(values)]
    keep = ~drop & (renumber[:-1] == np.arange(len(values)))
    if not keep.all():
        position = np.where(keep, np.cumsum(keep) - 1, -1)
        renumber[:-1] = np.where(drop, -1, position[renumber[:-1]])
        values = values[keep]
        codes = renumber[codes]
    return Encoded(codes.astype(np.int32, copy=False), values, fixed, ordered, n_marked)


def as_index(values: Sequence[Any], name: str | None = None) -> pd.Index:
    """Index of Python values that keeps their types: True stays True, 1 stays 1, tuples stay tuples.

    Examples
    --------
    >>> as_index([1, "a"]).tolist(), as_index([True, False]).dtype
    ([1, 'a'], dtype('bool'))
    """
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return pd.Index(values, dtype=bool, name=name)
    if kinds == {str}:
        return pd.Index(values, dtype="str", name=name)
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values if isinstance(value, int)):
        return pd.Index(values, dtype=np.int64, name=name)
    if kinds == {float}:
        return pd.Index(values, dtype=np.float64, name=name)
    if kinds and all(issubclass(kind, (pd.Timestamp, pd.Timedelta, pd.Period)) for kind in kinds):
        return pd.Index(values, name=name)
    box = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        box[position] = value
    return pd.Index(box, dtype=object, name=name, tupleize_cols=False)


def declare(found: Encoded, declared: Sequence[object], name: Hashable, argument: str, report: Report) -> Encoded:
    """Recode to a declared list of values; a value outside it is a problem."""
    position = {value: code for code, value in enumerate(declared)}
    values = found.values.tolist()
    renumber = np.empty(len(values) + 1, dtype=np.int32)
    renumber[:-1] = [position.get(value, -1) for value in values]
    renumber[-1] = -1
    codes = renumber[found.codes]
    if found.codes.size:
        rows = np.flatnonzero((codes < 0) & (found.codes >= 0))
        if len(rows):
            outside = [values[code] for code in pd.unique(found.codes[rows])]
            text = {str(value) for value in declared}
            hint = (
                " (the same text but another type: text and numbers differ)"
                if any(str(value) in text for value in outside)
                else ""
            )
            report.problems.append(
                f"column {name!r} holds {shorten(outside)} outside {argument}={list(declared)!r:.200}{hint}; "
                f"{count_of(len(rows), 'row')}: {report.where(rows)}. Add them to {argument} or mark them as missing."
            )
    return replace(found, codes=codes, values=as_index(list(declared)), fixed=True)


def order_values(values: Iterable[object]) -> list[object]:
    """Sort values of any types: numbers first, then text, then the rest by type.

    Examples
    --------
    >>> order_values(["b", 2, "a", 1.5])
    [1.5, 2, 'a', 'b']
    """
    listed = list(values)

    def by_kind(value: object) -> tuple[int, str]:
        if isinstance(value, (bool, int, float)):
            return 0, ""
        return (1, "") if isinstance(value, str) else (2, type(value).__name__)

    ordered: list[object] = []
    for kind in sorted({by_kind(value) for value in listed}):
        group = [value for value in listed if by_kind(value) == kind]
        try:
            ordered += sorted(group)  # type: ignore[type-var]
        except TypeError:
            ordered += sorted(group, key=str)
    return ordered


def near_duplicates(values: pd.Index) -> list[list[object]]:
    """Group values that differ only by case, spaces or type.

    Examples
    --------
    >>> near_duplicates(pd.Index(["yes", "no", "Yes "]))
    [['yes', 'Yes ']]
    """
    if not (values.dtype == object or isinstance(values.dtype, pd.StringDtype)):
        return []
    keys = [_key(value) for value in values.tolist()]
    if len(set(keys)) == len(keys):
        return []
    groups: dict[str, list[object]] = {}
    for key, value in zip(keys, values.tolist(), strict=True):
        groups.setdefault(key, []).append(value)
    return [group for group in groups.values() if len(group) > 1]


def _key(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).casefold()


def written_missing(values: pd.Index) -> list[object]:
    """Text values that look like a missing one written out, such as "None" or "nan"."""
    if not (values.dtype == object or isinstance(values.dtype, pd.StringDtype)):
        return []
    return [
        value
        for value in values.tolist()
        if isinstance(value, str) and len(value) < 9 and _key(value) in _WRITTEN_MISSING
    ]
