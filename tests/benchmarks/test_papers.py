"""The papers' tables: their parts of the sets, the plan, and the page from records."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import bayescrowd as bc
from benchmarks import papers, papers_page, published, real, real_cell, runner


def test_the_plan_asks_only_for_what_there_is() -> None:
    sets = {
        "two": {"dataset": "two", "subset": None, "n_labels": 100},
        "part": {"dataset": "many", "subset": "first 30 workers", "n_labels": 50_000},
    }
    planned = papers.plan(sets, {"two": 2, "many": 5})
    assert len({runner.mark(cell) for cell in planned}) == len(planned)
    for cell in planned:
        if "baseline" in cell.arguments:
            taken = inspect.signature(getattr(bc.baselines, cell.arguments["baseline"])).parameters
            assert set(cell.arguments["options"]) <= set(taken)
            assert cell.arguments["seeds"] is None or "seed" in taken
    tools = {size: {cell.tool for cell in planned if cell.size == size} for size in sets}
    assert real.peer("KOS") in tools["two"]
    assert not any(tool.startswith(real.peer("")) for tool in tools["part"])  # the whole set has them
    assert not papers.MAIN_ONLY & (tools["two"] | tools["part"])
    ordered = {cell.size for cell in planned if cell.arguments.get("options", {}).get("ordered")}
    assert ordered == {"part"}
    named = {method.name for method in papers.METHODS}
    assert {name for table in published.PUBLISHED.values() for name in table} <= named
    assert set(papers.TWINS.values()) <= named
    assert {name for _, name in [*published.WHY, *published.PRINTED]} <= named


def test_every_function_of_baselines_has_a_row() -> None:
    rows = {method.how.get("baseline") for method in papers.METHODS}
    assert set(bc.baselines.__all__) - rows == {"soft_vote"}  # it leads where majority_vote leads


def test_parts_of_sets(tmp_path: Path) -> None:
    rows = [(f"i{n % 40}", f"w{n // 40:02d}", n % 2) for n in range(40 * 60)]
    rows = [row for row in rows if not (row[1] >= "w50" and int(row[0][1:]) > 5)]
    (tmp_path / "labels.csv").write_text("item,worker,label\n" + "".join(f"{i},{w},{k}\n" for i, w, k in rows))
    (tmp_path / "truth.csv").write_text("item,label\n" + "".join(f"i{n},{n % 2}\n" for n in range(35)))
    assert real_cell.read(tmp_path).labels.n_workers == 60
    first = real_cell.read(tmp_path, "first 30 workers").labels
    assert sorted(first.workers) == [f"w{n:02d}" for n in range(30)]
    busy = real_cell.read(tmp_path, "52 busiest workers").labels
    assert set(busy.workers) >= {f"w{n:02d}" for n in range(50)}
    assert busy.n_workers == 52
    with_truth = real_cell.read(tmp_path, "workers with 30 labels or more on items with truth").labels
    assert (with_truth.n_items, with_truth.n_workers) == (35, 50)


def test_a_row_has_an_interval_and_its_seeds() -> None:
    data = real_cell.Judged(bc.datasets.load("anesthesia"), np.arange(45) % 4)
    record = real_cell.judge(data, {"kind": "table", "baseline": "kos", "options": {"ordered": True}, "seeds": [0, 1]})
    assert len(record["errors"]) == 2
    assert record["error_low"] <= record["error"] <= record["error_high"]
    refused = real_cell.judge(data, {"kind": "table", "baseline": "kos", "options": {"ordered": False}})
    assert "two classes" in refused["refused"]
    ours = real_cell.judge(data, {"kind": "table", "model": "dawid-skene", "options": {"engine": "em"}})
    assert ours["seconds_again"] > 0
    assert len(ours["errors"]) == 1


def test_the_page_shows_printed_figures_and_what_went_wrong() -> None:
    stamp = {"machine": "m", "date": "d", "versions": {}}
    good = {
        "error": 0.2407,
        "error_low": 0.2,
        "error_high": 0.3,
        "errors": [0.2407],
        "seconds": 1.0,
        "seconds_again": 0.5,
    }
    records = {
        (papers.CASE, "bluebird, first 30 workers", "majority vote"): stamp | good,
        (papers.CASE, "bluebird, first 30 workers", "KOS, message passing"): stamp | good | {"errors": [0.2, 0.3]},
        (papers.CASE, "food", "TensorADMM"): stamp | {"refused": "too many", "seconds": 0.1},
        (papers.CASE, "food", "majority vote"): stamp | good,
        (papers.CASE, "food", real.peer("GLAD")): stamp | {"capped": True, "seconds": 120.0},
    }
    sets = {
        "bluebird, first 30 workers": {"dataset": "bluebird", "subset": "first 30 workers", "n_labels": 4212},
        "food": {"dataset": "food", "subset": None, "n_labels": 1192},
    }
    page = papers_page.page(records, sets)
    assert (
        "| majority vote | 24.07 (20.0 to 30.0) |  | 1 | 0.5 | 21.29 (Ibrahim et al. 2019, table 2) | not explained |"
        in page
    )
    assert "20.00 to 30.00" in page
    assert "- food, TensorADMM: too many" in page
    assert "cut off after 120 s" in page


@pytest.mark.parametrize("name", published.PUBLISHED)
def test_printed_figures_are_percentages(name: str) -> None:
    assert all(0 < value < 60 for value, _ in published.PUBLISHED[name].values())
