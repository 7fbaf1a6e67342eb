from __future__ import annotations

import datetime
import json

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


def test_ids_that_no_file_can_hold_become_text_with_a_note() -> None:
    index = pd.Index([("a", 1), ("b", 2)], tupleize_cols=False)
    made = coordinate(index, "worker")
    assert made.values.tolist() == ["('a', 1)", "('b', 2)"]
    assert made.note is not None
    assert "2 worker ids of type tuple" in made.note
    assert original_ids(made.values, made.originals).tolist() == ["('a', 1)", "('b', 2)"]
    assert coordinate(pd.Index([datetime.date(2024, 1, 2)], dtype=object), "item").values.tolist() == ["2024-01-02"]


def test_originals_are_json() -> None:
    made = coordinate([1, "1"], "item")
    assert made.originals is not None
    assert [json.loads(text) for text in made.originals] == [1, "1"]
