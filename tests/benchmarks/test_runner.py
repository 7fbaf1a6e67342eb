"""The benchmark runner stays alive: tiny cells, no assertion on time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cells, measure, report, runner, tables

TINY = {"items": 30, "workers": 4, "classes": 2, "per_item": 3}


def test_simulated_tables_have_the_shape_asked_for() -> None:
    even = tables.simulate(**TINY)
    assert len(even.item) == 90
    assert len({*zip(even.item.tolist(), even.worker.tolist(), strict=True)}) == 90
    heavy = tables.simulate(**TINY, shape="one-item", extra=50)
    assert np.bincount(heavy.item)[0] == 53
    half = tables.simulate(**(TINY | {"per_item": 2}), shape="one-worker")
    assert np.bincount(half.worker)[0] == 30


def test_the_common_log_likelihood_is_the_sum_over_classes() -> None:
    prevalence = np.array([0.3, 0.7])
    confusion = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]]])
    found = measure.log_likelihood(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 1, 1]), prevalence, confusion)
    by_hand = np.log(0.3 * 0.9 * 0.4 + 0.7 * 0.2 * 0.5) + np.log(0.3 * 0.1 + 0.7 * 0.8)
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_every_case_has_cells_with_names_of_their_own() -> None:
    for quick in (False, True):
        planned = [cell for case in cells.CASES.values() for cell in case(quick=quick)]
        assert len({(cell.case, cell.size, cell.tool) for cell in planned}) == len(planned)
        assert len({runner.mark(cell) for cell in planned}) == len(planned)
        for cell in planned:
            json.dumps(cell.arguments)


def test_a_run_measures_resumes_caps_and_reports(tmp_path: Path) -> None:
    said: list[str] = []
    plan = [
        runner.Cell("em-fit", "tiny", "bayescrowd", "em:fit_bayescrowd", TINY),
        runner.Cell(
            "em-pass", "tiny", "plain JAX scatter, float64", "em:pass_scatter", TINY, {"double": True, "repeats": 1}
        ),
        runner.Cell("em-pass", "tiny", "capped", "em:pass_scatter", TINY, cap=1e-3),
        runner.Cell("em-pass", "tiny", "broken", "em:no_such_function", TINY),
        runner.Cell("em-pass", "tiny", "absent", "em:pass_scatter", TINY, needs="no-such-distribution"),
    ]
    records = runner.run_cells(plan, tmp_path, say=said.append)
    fit = records["em-fit", "tiny", "bayescrowd"]
    assert fit.get("converged") is True, fit
    assert fit["peak_mb"] >= fit["base_mb"] > 0
    assert sum(fit["laps"].values()) == pytest.approx(fit["seconds"], rel=0.05)
    assert fit["log_likelihood"] == pytest.approx(fit["objective"][-1], abs=1e-2)
    assert records["em-pass", "tiny", "capped"]["capped"] is True
    assert "no_such_function" in records["em-pass", "tiny", "broken"]["failed"]
    assert ("em-pass", "tiny", "absent") not in records

    def measured_again(cell: Any, folder: Path) -> dict[str, Any]:
        raise AssertionError(f"{cell.name} is on record in {folder}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_measure", measured_again)
        runner.run_cells(plan[:2], tmp_path, say=said.append)
    page = report.page(runner.recorded(plan, tmp_path), cells.CASES)
    assert "| tiny, bayescrowd |" in page
    assert "| capped | tiny | > 0 |" in page
    assert "| broken | tiny | failed |" in page


def test_a_page_says_which_budgets_hold() -> None:
    stamp = {"date": "2000-01-01", "versions": {}, "machine": "2 cores", "seconds": 9.0, "peak_mb": 900.0}
    records = {
        ("em-fit", "5M", "bayescrowd"): stamp | {"laps": {}},
        ("em-fit", "5M", "crowd-kit"): stamp | {"laps": {}, "capped": True, "seconds": 120.0},
        ("em-pass", "1M", "bayescrowd"): stamp | {"labels_per_second": 1e6, "seconds_per_pass": 1.0},
    }
    page = report.page(records, cells.CASES)
    assert "| 5M labels, cold, DataFrame to classes | < 15 s | 9.0 s | yes |" in page
    assert "| one EM pass, 5 classes, 1M labels | >= 30M labels/s | 1M labels/s | **no** |" in page
    assert "| 5M, crowd-kit | > 120 |" in page
