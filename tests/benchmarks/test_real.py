"""Models and engines on real sets: scores by hand, and a tiny set from files to the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import bayes, real, real_cell, real_page, runner, tables
from benchmarks.measure import Clock

TINY = {"items": 30, "workers": 4, "classes": 2, "per_item": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with one tiny set, one without truth and one of numbers."""
    table = tables.simulate(**TINY)
    rows = zip(table.item.tolist(), table.worker.tolist(), table.label.tolist(), strict=True)
    truth = "item,label\n" + "".join(f"i{item},{code}\n" for item, code in enumerate(table.truth.tolist()))
    lines = "item,worker,label\n" + "".join(f"i{item},w{worker},{label}\n" for item, worker, label in rows)
    numeric = "item,worker,label\n" + "".join(f"i{n},w,{n}\n" for n in range(50))
    for name, labels, known in (
        ("tiny", lines, truth),
        ("unknown", lines, "item,label\n"),
        ("numeric", numeric, truth),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels.csv").write_text(labels)
        (tmp_path / name / "truth.csv").write_text(known)
    return tmp_path


def test_scores_by_hand() -> None:
    probability = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [1.0, 0.0], [0.3, 0.7]])
    found = real_cell.scores(probability, np.array([0, 0, 0, -2, -1]))
    assert found["error"] == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    expected = -(np.log(0.5) + np.log(0.9) + np.log(0.2) + np.log(real_cell.FLOOR)) / 4
    assert found["log_loss"] == pytest.approx(expected)
    assert found["brier"] == pytest.approx((0.5 + 0.02 + 1.28 + 1) / 4)
    assert found["calibration_error"] == pytest.approx((0 + 0.1 + 0.8 + 1) / 4)


def test_the_plan_keeps_its_limits() -> None:
    sets = {"small": 4000, "middle": 25_000, "large": 200_000}
    planned = real.plan(sets)
    assert len({runner.mark(cell) for cell in planned}) == len(planned)
    tools = {size: {cell.tool for cell in planned if cell.size == size} for size in sets}
    assert "idbla / nuts" in tools["small"]
    assert "idbla / gibbs" in tools["middle"] - {"idbla / nuts", "idbla / svi"}
    assert {"dawid-skene / em", "idbla / vb", "fixed-idbla / collapsed-vi"} <= tools["large"]
    assert not any(engine in tool for tool in tools["large"] for engine in ("gibbs", "svi", "nuts"))
    sweeps = real.settings("collapsed-gibbs", 25_000)
    assert sum(sweeps.values()) < 1500
    assert real.settings("gibbs", 1000) == {}


def test_a_peer_that_was_cut_off_is_not_tried_on_larger_sets() -> None:
    planned = real.plan({"small": 100, "large": 200})
    cell = next(cell for cell in planned if cell.size == "large" and cell.tool == real.peer("MACE"))
    cut = {"tool": cell.tool, "size": "small", "capped": True}
    assert real.given_up(cell, [cut], {"small": 100, "large": 200}) == "small"
    assert real.given_up(cell, [cut | {"capped": False}], {"small": 100, "large": 200}) is None


@pytest.mark.slow
def test_a_set_is_judged_resumed_and_reported(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "state", lambda cell: f"ours: {cell.ours}")  # whoever edits the code meanwhile
    sets = real.found_sets(folder)
    assert sets == {"tiny": 90}
    wanted = (real.MAJORITY, "dawid-skene / em", "idbla / gibbs", "fixed-idbla / em", "dawid-skene / svi")
    by_tool = {cell.tool: cell for cell in real.plan(sets)}
    short = {"kind": "ours", "model": "idbla", "engine": "gibbs", "options": real.SHORT["gibbs"]}
    plan = []
    for tool in wanted:
        how = vars(by_tool[tool])
        how |= {"idbla / gibbs": {"arguments": short}, "fixed-idbla / em": {"cap": 0.2}}.get(tool, {})
        if tool == "dawid-skene / svi":
            how |= {"arguments": how["arguments"] | {"options": {"no_such": 1}}}
        plan.append(runner.Cell(**how))
    said: list[str] = []
    records = real.run(plan, tmp_path / "out", folder, say=said.append)
    found = {tool: record for (_, _, tool), record in records.items()}
    assert 0 <= found["dawid-skene / em"]["error"] < 0.5, found
    assert found[real.MAJORITY]["n_truth"] == 30
    assert found["idbla / gibbs"]["smallest_ess"] > 0
    assert found["fixed-idbla / em"]["capped"] is True
    assert "no_such" in found["dawid-skene / svi"]["failed"] or "options" in found["dawid-skene / svi"]["failed"]

    def processed_again(*_: Any) -> int:
        raise AssertionError("all of this is on record")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "_process", processed_again)
        real.run(plan[:4], tmp_path / "out", folder, say=said.append)
    page = real_page.page(runner.recorded(plan, tmp_path / "out"), plan)
    assert "| tiny, fixed-idbla | cut |" in page
    assert "- tiny, dawid-skene / svi: failed" in page
    assert "| tiny | 30 | 4 | 90 | 2 | 30 |" in page


@pytest.mark.slow
def test_passes_and_sweeps_are_timed(tmp_path: Path) -> None:
    clock = lambda: Clock(str(tmp_path / "record.json"), 100)
    table = tables.simulate(**TINY)
    passes = bayes.passes(clock(), table, engine="vb", few=2, many=4, repeats=1)
    assert set(passes) == {"seconds_per_pass", "labels_per_second"}
    sweeps = bayes.sweeps_plain(clock(), table, few=1, many=200, repeats=1)
    assert sweeps["us_per_update"] > 0
