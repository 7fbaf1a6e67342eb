"""The sliced layout, the padded layout, and the buckets of sizes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from running import of_rows

from bayescrowd.data.arrays import Sizes, bucket, build_arrays, build_padded


@given(st.integers(0, 10**9), st.sampled_from([1, 4, 8, 64]))
def test_a_bucket_is_the_next_of_four_steps_per_power_of_two(n, smallest):
    size = bucket(n, smallest)
    assert size >= max(n, smallest)
    assert size <= max(smallest, 1.25 * n + 1)
    assert bucket(size, smallest) == size
    if size > smallest:
        assert any(size * 4 == step * 2**power for power in range(40) for step in (4, 5, 6, 7))


def test_buckets_are_few():
    assert len({bucket(n) for n in range(1, 1001)}) < 32
    assert bucket(3) == bucket(8) == 8


@st.composite
def tables(draw):
    n_items, n_workers, n_labels = (draw(st.integers(1, most)) for most in (30, 6, 4))
    n = draw(st.integers(1, 80))
    code = lambda size: st.lists(st.integers(0, size - 1), min_size=n, max_size=n)
    rows = np.stack([draw(code(n_items)), draw(code(n_workers)), draw(code(n_labels))], axis=1)
    if draw(st.booleans()):
        rows[: n // 2, 0] = 0  # one item with far more labels than the others
    weight = draw(st.none() | st.lists(st.floats(0.1, 5), min_size=n, max_size=n))
    gold = {0: 0} if draw(st.booleans()) else None
    ids = {"items": list(range(n_items)), "workers": list(range(n_workers))}
    return {"rows": rows, "classes": n_labels, "weight": weight, "gold": gold, **ids}


def spelled_out(labels, arrays):
    """Every annotation that a layout holds, as (item, worker, label, weight)."""
    item_of_row = {int(row): item for item, row in enumerate(arrays.row_of_item[: labels.n_items])}
    n_slots = arrays.blocks.shape[1]
    found = []
    for block in range(len(arrays.blocks)):
        for slot, cell in enumerate(arrays.blocks[block]):
            if cell < arrays.n_cells:
                weight = 1.0 if arrays.block_weight is None else arrays.block_weight[block, slot]
                row = int(arrays.block_slice[block]) * n_slots + slot
                found.append((item_of_row[row], int(arrays.cell_worker[cell]), int(arrays.cell_label[cell]), weight))
    for index, (row, cell) in enumerate(zip(arrays.loose_row, arrays.loose_cell, strict=True)):
        if cell < arrays.n_cells:
            weight = 1.0 if arrays.loose_weight is None else arrays.loose_weight[index]
            found.append((item_of_row[int(row)], int(arrays.cell_worker[cell]), int(arrays.cell_label[cell]), weight))
    return sorted(found)


@settings(max_examples=60, deadline=None)
@given(tables(), st.booleans(), st.booleans())
def test_a_layout_holds_every_annotation_once(table, pad, by_annotation):
    labels = of_rows(**table)
    arrays = build_arrays(labels, pad=pad, by_annotation=by_annotation)
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    rows = zip(labels.item_code.tolist(), labels.worker_code.tolist(), labels.label_code.tolist(), weight, strict=True)
    assert spelled_out(labels, arrays) == sorted(rows)
    rows = arrays.row_of_item[: labels.n_items]
    assert len(set(rows.tolist())) == labels.n_items
    assert arrays.gold[rows].tolist() == labels.gold_code.tolist()
    assert arrays.item_of_row[rows].tolist() == list(range(labels.n_items))
    assert arrays.present.sum() == labels.n_items
    if by_annotation:
        assert arrays.cell_item is not None
    if not pad:
        exact = Sizes(labels.n_items, labels.n_workers, labels.n_classes, len(labels.label_values))
        assert arrays.sizes == exact
    assert arrays.worker_present.sum() == labels.n_workers


@settings(max_examples=40, deadline=None)
@given(tables())
def test_the_padded_table_holds_every_annotation_once(table):
    labels = of_rows(**table)
    table = build_padded(labels)
    weight = np.ones(labels.n_annotations) if labels.weight is None else labels.weight
    kept = np.nonzero(table.mask)
    weights = np.ones(len(kept[0])) if table.weight is None else table.weight[kept]
    found = zip(kept[0].tolist(), table.worker[kept].tolist(), table.label[kept].tolist(), weights, strict=True)
    rows = zip(labels.item_code.tolist(), labels.worker_code.tolist(), labels.label_code.tolist(), weight, strict=True)
    assert sorted(found) == sorted(rows)
    assert table.n_positions == max(np.bincount(labels.item_code).max(), 1)
    assert (table.gold is None) == (labels.gold is None)


def test_an_item_with_thousands_of_labels_costs_no_rectangle():
    rows = [(0, k % 50, 0) for k in range(5000)] + [(i, 0, 1) for i in range(1, 3000)]
    arrays = build_arrays(of_rows(rows))
    assert arrays.blocks.size + arrays.loose_cell.size < 3 * len(rows)


def test_many_label_values_do_not_blow_up_the_grid():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 500, 2000), rng.integers(0, 300, 2000), rng.integers(0, 1000, 2000)], axis=1)
    labels = of_rows(rows, classes=1000, workers=list(range(300)), items=list(range(500)))
    assert build_arrays(labels).n_cells <= bucket(2000, 64)


def test_tables_of_similar_size_have_equal_shapes():
    rng = np.random.default_rng(1)
    shapes = []
    for n_items in (50, 50, 49):
        rows = [(i, k, int(rng.integers(2))) for i in range(n_items) for k in range(5) if rng.random() < 0.95 or k == 0]
        arrays = build_arrays(of_rows(rows, items=list(range(n_items)), workers=list(range(5))))
        shapes.append((arrays.blocks.shape, arrays.n_rows, arrays.n_cells, arrays.sizes))
    assert len(set(shapes)) <= 2
