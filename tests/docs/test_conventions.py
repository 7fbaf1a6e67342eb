"""The table of groups in docs/conventions.md is true of every engine."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from fitted import d1, r31

import bayescrowd as bc
from bayescrowd import inference
from docs import pages

SHORT: dict[str, dict[str, Any]] = {
    "gibbs": {"chains": 2, "warmup": 10, "draws": 20},
    "collapsed-gibbs": {"chains": 2, "warmup": 10, "draws": 20},
    "nuts": {"chains": 2, "warmup": 20, "draws": 20},
    "svi": {"steps": 100, "draws": 20},
}


@functools.cache
def _tables() -> list[list[list[str]]]:
    """The two tables that begin with a column "group": cells by row."""
    part = pages.parts((pages.DOCS / "conventions.md").read_text(encoding="utf-8"))["the-result"]
    found: list[list[list[str]]] = []
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| group |"):
            found.append([])
        if line.startswith("|") and found:
            found[-1].append(cells)
    return found


def test_every_engine_is_in_the_table() -> None:
    headings = _tables()[0][0][1:]
    assert sorted(name for heading in headings for name in heading.split(", ")) == inference.names()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayescrowd.errors.BayescrowdWarning")
@pytest.mark.parametrize("engine", inference.names())
def test_groups(engine: str) -> None:
    (headings, _, *rows), (_, _, *described) = _tables()
    column = next(index for index, heading in enumerate(headings) if engine in heading.split(", "))
    wanted = {row[0].strip("`") for row in rows if row[column] == "yes"}
    tree = bc.fit(d1(), r31(), engine=engine, progress=False, **SHORT.get(engine, {})).idata
    assert set(tree.children) == wanted
    # Every variable of a group is named where the group is described.
    texts = {row[0].strip("`"): row[1] for row in described}
    for group in wanted - {"constant_data", "variational", "point_estimate", "point_deviation"}:
        for name in map(str, tree[group].dataset.data_vars):
            assert f"`{name}" in texts[group] or name.endswith("_by_chain"), (group, name)
