"""Any table in: usable labels or a clear error out, and every row accounted for."""

import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdWarning, LabelError

ID = st.one_of(st.integers(0, 4), st.sampled_from(["a", "b", "A ", "", "1"]), st.none(), st.just(np.nan), st.booleans())
WILD = st.one_of(
    st.integers(-2, 3),
    st.sampled_from(["yes", "no", "Yes ", "None", "", "1", " "]),
    st.sampled_from(
        [None, np.nan, pd.NA, pd.NaT, True, False, 1.0, 0.5, np.inf, np.int8(1), np.float32(2), Decimal(1)]
    ),
    st.sampled_from(
        [["a"], {"a"}, ("a", 1), {}, pd.Timestamp(0), np.datetime64("NaT", "ns"), 1j, b"x", 2**70, Decimal("NaN")]
    ),
    st.text(max_size=3),
)
TAME = st.sampled_from([0, 1, 2, None, "a", "b"])
WEIGHT = st.one_of(st.sampled_from([0, 1, 2, 0.5, True, "2"]), st.sampled_from([-1, np.nan, np.inf, "x", None, [1]]))


def _rows(note: str) -> int:
    found = re.search(r"left out: ([\d,]+)|; ([\d,]+) (?:identical )?left out", note)
    return 0 if found is None else int((found.group(1) or found.group(2)).replace(",", ""))


def check(labels: CrowdLabels, n_rows: int) -> None:
    dropped = sum(_rows(note) for note in labels.notes if note.startswith("rows "))
    assert labels.n_annotations + dropped == n_rows
    assert labels.n_annotations > 0
    for code, ids in (
        (labels.item_code, labels.items),
        (labels.worker_code, labels.workers),
        (labels.label_code, labels.label_values),
    ):
        assert code.dtype == np.int32
        assert code.min() >= 0
        assert code.max() < len(ids)
        assert len(set(ids.tolist())) == len(ids)
        assert not any(value is None or value is pd.NA or value is pd.NaT for value in ids)
    assert labels.label_values[: labels.n_classes].tolist() == labels.classes.tolist()
    assert labels.gold_code.shape == (labels.n_items,)
    assert labels.weight is None or (labels.weight > 0).all()
    str(labels), labels.summary()._repr_html_(), labels.to_frame()


@settings(max_examples=300, deadline=None)
@given(data=st.data(), messy=st.booleans(), n_rows=st.integers(0, 12))
def test_any_long_table(data, messy, n_rows):
    def column(values):
        return pd.Series(data.draw(st.lists(values, min_size=n_rows, max_size=n_rows)), dtype=object)

    table = pd.DataFrame(
        {
            "item": column(ID if messy else st.integers(0, 3)),
            "worker": column(ID if messy else st.sampled_from("xyz")),
            "label": column(WILD if messy else TAME),
            "weight": column(WEIGHT if messy else st.sampled_from([0, 1, 2])),
            "gold": column(st.none() if not messy else TAME),
        }
    )
    if data.draw(st.booleans()):
        table = table.infer_objects()
    arguments = {
        "weight": data.draw(st.sampled_from([None, "weight"])),
        "gold": data.draw(st.sampled_from([None, "gold", {0: 1, "a": "yes"}])),
        "truth": data.draw(st.sampled_from([None, "gold"])),
        "classes": data.draw(st.sampled_from([None, None, [0, 1, 2, "a", "b"], ["yes", "no"]])),
        "labels": data.draw(st.sampled_from([None, None, [0, 1, 2, "a", "b", "c"]])),
        "missing": data.draw(st.sampled_from([None, 0, "no", [2, "None"]])),
        "duplicates": data.draw(st.sampled_from(["warn", "keep", "first", "last", "drop-identical", "error"])),
    }
    before = table.copy(deep=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayescrowdWarning)
        try:
            labels = CrowdLabels.from_long(table, **arguments)
        except LabelError:
            pass
        else:
            check(labels, n_rows)
    pd.testing.assert_frame_equal(table, before)


@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.lists(st.one_of(TAME, WILD), min_size=3, max_size=3), max_size=5),
    items=st.sampled_from(["rows", "columns"]),
    counts=st.lists(st.sampled_from([0, 1, 3, 2.0, -1, None, "2", 0.5]), min_size=5, max_size=5),
)
def test_any_wide_table_and_any_counts(cells, items, counts):
    frame = pd.DataFrame(cells, columns=["x", "y", "z"], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayescrowdWarning)
        try:
            labels = CrowdLabels.from_wide(frame, items=items)
        except LabelError:
            pass
        else:
            check(labels, frame.size)
        try:
            labels = CrowdLabels.from_counts(frame.assign(n=counts[: len(frame)]))
        except LabelError:
            pass
        else:
            check(labels, 3 * labels.n_items)
            assert len(labels.patterns) == labels.n_items


@settings(max_examples=50, deadline=None)
@given(order=st.permutations(list(range(12))))
def test_shuffled_rows_are_the_same_table(order):
    rows = [(item, worker, (item * worker) % 3) for item in range(4) for worker in range(3)]
    original = CrowdLabels.from_long(rows)
    shuffled = CrowdLabels.from_long([rows[position] for position in order])
    assert shuffled.classes.tolist() == original.classes.tolist()
    key = ["item", "worker"]
    assert (
        shuffled.to_frame().sort_values(key).to_numpy().tolist()
        == original.to_frame().sort_values(key).to_numpy().tolist()
    )
