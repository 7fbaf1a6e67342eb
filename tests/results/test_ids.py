from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescrowd.results.ids import coordinate, original_ids


def _there_and_back(values: list[object]) -> list[object]:
    made = coordinate(pd.Index(values, dtype=object), "item")
    assert len(set(made.values.tolist())) == len(values)
    return original_ids(made.values, made.originals).tolist()


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [0, 1, 2],
        [False, True],
        [0.5, 2.0],
        [1, "1"],
        [True, "b", 2],
        ["1", 1, "'1'"],
        [2**70, 1],
        ["a\0b", "c"],
        ["lone \ud800", "fine"],
        [""],
        ["ü", "日本"],
        [pd.Timestamp("2024-01-02 03:04"), "x"],
    ],
)
def test_ids_survive_with_their_types(values: list[object]) -> None:
    again = _there_and_back(values)
    assert again == values
    assert [type(a) for a in again] == [type(v) for v in values]


@given(st.lists(st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False)), unique_by=repr))
def test_any_mixture_of_plain_ids_survives(values: list[object]) -> None:
    # Values that Python calls equal (1 and True) are one id; labels never hold both.
    distinct = list(dict.fromkeys(values))
    again = _there_and_back(distinct)
    assert again == distinct
    assert [type(a) for a in again] == [type(v) for v in distinct]


def test_pandas_types_become_plain() -> None:
    assert coordinate(pd.Index([1, 2], dtype="Int64"), "item").values.dtype == np.int64
    assert coordinate(pd.CategoricalIndex(["b", "a"]), "item").values.tolist() == ["b", "a"]
    assert coordinate(pd.Index([True, False], dtype="boolean"), "class").values.dtype == bool
    assert coordinate(pd.RangeIndex(3), "item").values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        [("a", 1), ("b", (2, Decimal("1.50")))],
        [Decimal("1.50"), Decimal("-0.1")],
        [datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5, 6), datetime.time(3, 4)],
        [datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(days=-1, microseconds=3)],
        [pd.Timestamp("2024-01-02", tz="Europe/Berlin"), pd.Timestamp("2024-01-02 00:00:00.000000001")],
        [pd.Timedelta("1D 3us"), pd.Timedelta("5ns"), pd.Period("2024-03", freq="M")],
        [Fraction(1, 3), 1 + 2j, b"\x00\xff", uuid.UUID(int=7)],
    ],
)
def test_ids_of_less_usual_types_survive(values: list[object]) -> None:
    made = coordinate(pd.Index(values, dtype=object, tupleize_cols=False), "worker")
    assert made.note is None
    assert all(isinstance(text, str) for text in made.originals)
    again = original_ids(made.values, made.originals).tolist()
    assert again == values
    assert [type(a) for a in again] == [type(v) for v in values]


def test_columns_of_dates_survive() -> None:
    for index in (pd.date_range("2024-01-01", periods=3), pd.timedelta_range("1D", periods=2)):
        made = coordinate(index, "item")
        assert original_ids(made.values, made.originals).tolist() == index.tolist()


def test_ids_that_no_file_can_hold_work_in_memory_with_a_note() -> None:
    ids = [frozenset({1}), frozenset({2})]
    made = coordinate(pd.Index(ids, dtype=object), "worker")
    assert made.note is not None
    assert "2 worker ids of type frozenset (first: frozenset({1})) cannot be saved" in made.note
    assert original_ids(made.values, made.originals).tolist() == ids


def test_originals_are_json() -> None:
    made = coordinate([1, "1"], "item")
    assert made.originals is not None
    assert [json.loads(text) for text in made.originals] == [1, "1"]
