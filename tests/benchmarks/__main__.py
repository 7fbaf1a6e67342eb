"""`python tests/benchmarks [case ...]`: measure, print and write docs/benchmarks.md.

With `models` as the first word it writes docs/models.md, with `papers` docs/paper-tables.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

# Run as a folder or as a module, the package is `benchmarks`; the repository root stays off the path, or `models`
# would be a second copy.
_HERE = Path(__file__).resolve().parent
_AWAY = (_HERE, _HERE.parents[1])
sys.path[:] = [str(_HERE.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() not in _AWAY)]


def main(arguments: list[str] | None = None) -> int:
    from benchmarks import cells, papers, real, report, runner

    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["models"]:
        return real.main(arguments[1:])
    if arguments[:1] == ["papers"]:
        return papers.main(arguments[1:])

    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description="Benchmarks of bayescrowd.")
    parser.add_argument("case", nargs="*", help=f"cases to run, by default all: {', '.join(cells.CASES)}")
    parser.add_argument("--fresh", action="store_true", help="measure again what is on record")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs; writes no page")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the page from what is on record")
    parser.add_argument("--tool", help="only tools whose name holds this")
    parser.add_argument("--folder", type=Path, default=runner.ROOT / "build" / "benchmarks", help="where records go")
    parser.add_argument("--page", type=Path, default=runner.ROOT / "docs" / "benchmarks.md", help="the page to write")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker is not None:
        runner.run_worker(given.worker)
        return 0
    if given.cell is not None:
        runner.run_cell(given.cell)
        return 0
    unknown = [case for case in given.case if case not in cells.CASES]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; the cases are {', '.join(cells.CASES)}")
    folder = given.folder / "quick" if given.quick else given.folder
    planned = [cell for case in cells.CASES for cell in cells.CASES[case](quick=given.quick)]
    wanted = [cell for cell in planned if not given.case or cell.case in given.case]
    if given.tool:
        wanted = [cell for cell in wanted if given.tool in cell.tool]
    ran = {}
    if not given.report:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cell at work is ended too
        print(f"{len(wanted)} cells, records in {folder}", flush=True)
        ran = runner.run_cells(wanted, folder, fresh=given.fresh, say=lambda text: print(text, flush=True))
    page = report.page(runner.recorded(planned, folder), cells.CASES)
    print(page)
    if not given.quick:
        given.page.parent.mkdir(parents=True, exist_ok=True)
        given.page.write_text(page, encoding="utf-8")
    return int(any("failed" in record for record in ran.values()))


if __name__ == "__main__":
    sys.exit(main())
