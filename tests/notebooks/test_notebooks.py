"""The notebooks: what is committed is clean and from real data, and they still run where there is none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
PATHS = sorted(FOLDER.glob("[0-9]*.ipynb"))
_SECONDS = 300
"""For a notebook in fast mode; it takes a tenth of that on two quiet cores."""


def _runner() -> Any:
    """`notebooks/run.py`, which is a script beside the package."""
    spec = importlib.util.spec_from_file_location("notebooks_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runner() -> Any:
    return _runner()


def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks():
    assert {path.stem[0] for path in PATHS} >= {"1", "3", "5"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_committed_notebook_has_clean_outputs(path, runner):
    book = _read(path)
    nbformat.validate(book)
    assert runner.faults(book) == []
    # Nothing in it that a new run would change, or that tells who ran it.
    text = path.read_text(encoding="utf-8")
    assert nbformat.writes(runner.cleaned(book)) + "\n" == text
    assert len(text.encode()) < runner.MOST_BYTES
    ids = [cell.id for cell in book.cells]
    assert len(set(ids)) == len(ids)
    shown = "".join(runner.text_of(output) for cell in book.cells for output in cell.get("outputs", []))
    assert "cannot be had" not in shown, "outputs that are kept come from real data"
    assert any("image/png" in output.get("data", {}) for cell in book.cells for output in cell.get("outputs", []))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_answers_and_what_was_learned(path):
    book = _read(path)
    first, last = book.cells[0], book.cells[-1]
    assert first.cell_type == last.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "learned" in last.source.splitlines()[0].lower()
    assert path.name in (FOLDER / "README.md").read_text(encoding="utf-8")
    for cell in book.cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 45, "a reader loses the thread"


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_fast_mode(path):
    # Nothing downloaded, no folder of data: with real sets they run where their outputs are made.
    environment = {name: value for name, value in os.environ.items() if name != "BAYESCROWD_DATA"}
    environment["BAYESCROWD_FAST"] = "1"
    before = path.read_bytes()
    command = [sys.executable, str(FOLDER / "run.py"), path.stem, "--check"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert path.read_bytes() == before


def test_fast_outputs_are_not_kept(tmp_path):
    environment = os.environ | {"BAYESCROWD_FAST": "1"}
    command = [sys.executable, str(FOLDER / "run.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "--check" in ended.stderr


def _book(*outputs: Any) -> Any:
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=1, outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[cell])


def _stream(text: str, name: str = "stdout") -> Any:
    return nbformat.v4.new_output("stream", name=name, text=text)


def _shown(**data: str) -> Any:
    return nbformat.v4.new_output("display_data", data={kind.replace("_", "/"): text for kind, text in data.items()})


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (_stream("x", "stderr"), "warns"),
        (_stream("/a/b.py:3: UserWarning: look out"), "warns"),
        (nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "fails: ValueError: no"),
        (_stream("saved to /home/ann/fit.nc"), "/home/"),
        (_shown(text_plain="<object at 0x7f21a9e0b0d0>"), "0x7f21a9e0b0d0"),
        (_shown(text_html="<p>/tmp/x1/fit.nc</p>"), "/tmp/"),
        (_stream(str(ROOT)), str(ROOT)),
        (_shown(text_html="<div class='xr-wrap'></div>"), "print it"),
    ],
)
def test_the_runner_sees_what_must_not_be_kept(runner, output, says):
    (fault,) = runner.faults(_book(output))[:1]
    assert says in fault
    assert "code cell 1 ('1 + 1')" in fault


def test_the_runner_sees_cells_that_were_not_run(runner):
    book = _book(_stream("2"))
    assert runner.faults(book) == []
    book.cells[0].execution_count = 3
    assert "not run in order" in runner.faults(book)[0]
    assert runner.faults(_book()) == ["there are no outputs"]


def test_cleaning_takes_out_machine_and_progress(runner):
    bar = _shown(text_plain="")
    widget = nbformat.v4.new_output("display_data", data={"application/vnd.jupyter.widget-view+json": {}})
    picture = nbformat.v4.new_output("display_data", data={"image/png": "", "text/plain": ""}, metadata={"needs": "x"})
    book = _book(bar, widget, picture, _stream("2"))
    book.metadata = {"kernelspec": {"name": "mine"}, "widgets": {}}
    book.cells[0].metadata = {"execution": {"iopub.execute_input": "2026-01-01"}, "tags": ["kept"]}
    runner.cleaned(book)
    assert [output.output_type for output in book.cells[0].outputs] == ["display_data", "stream"]
    assert book.cells[0].outputs[0].metadata == {}
    assert book.cells[0].metadata == {"tags": ["kept"]}
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert book.metadata.kernelspec.name == "python3"


def test_notebooks_are_found_by_number_name_and_path(runner):
    by_number = runner.notebooks(["1"])
    assert by_number == runner.notebooks(["1_first_fit"]) == runner.notebooks(["notebooks/1_first_fit.ipynb"])
    assert runner.notebooks() == PATHS
    with pytest.raises(SystemExit, match="no notebook 'x'"):
        runner.notebooks(["x"])


def _run_in(folder: Path, *arguments: str) -> Any:
    """Run the script on the notebooks of another folder."""
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(FOLDER)!r}); import run; "
        f"run.HERE = pathlib.Path({str(folder)!r}); raise SystemExit(run.main(sys.argv[1:]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "BAYESCROWD_FAST"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def _write(folder: Path, name: str, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(source, id=f"cell{number}") for number, source in enumerate(sources)]
    path = folder / name
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.mark.slow
def test_outputs_are_kept_and_the_same_again(tmp_path):
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    where = "import os\nfrom pathlib import Path\nprint(os.listdir(), Path('x').write_text('y'))"
    path = _write(tmp_path, "1_good.ipynb", where, draw)
    first = _run_in(tmp_path, "--pictures", str(tmp_path / "pictures"))
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stderr == ""
    assert (tmp_path / "pictures" / "1_good" / "02_0.png").read_bytes().startswith(b"\x89PNG")
    kept = path.read_bytes()
    assert b"[] 1" in kept, "every run begins in an empty folder"
    assert b"Software" not in kept
    assert _run_in(tmp_path, "1").returncode == 0
    assert path.read_bytes() == kept


@pytest.mark.slow
def test_a_notebook_that_fails_is_left_alone(tmp_path):
    path = _write(
        tmp_path, "1_bad.ipynb", "1 + 1", "import warnings\nwarnings.warn('look out')", "raise KeyError('gone')"
    )
    before = path.read_bytes()
    ended = _run_in(tmp_path)
    assert ended.returncode == 1
    assert "KeyError" in ended.stdout
    assert "\x1b[" not in ended.stdout
    assert path.read_bytes() == before
    _write(tmp_path, "1_bad.ipynb", "import warnings\nwarnings.warn('look out')")
    ended = _run_in(tmp_path)
    assert ended.returncode == 1
    assert "UserWarning: look out" in ended.stdout
