"""Run the notebooks: ``python notebooks/run.py [NAME ...] [--check]``.

Each notebook runs in a fresh kernel of this interpreter, in an empty folder, without anybody's IPython settings, and is
saved with its outputs: nothing in them tells where or when they were made, so diffs stay small. ``--check`` runs,
judges and saves nothing. With BAYESCROWD_FAST=1 notebooks take fewer draws and download nothing: for checks alone.
"""

import argparse
import base64
import os
import re
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent
FAST = "BAYESCROWD_FAST"
MOST_BYTES = 2_000_000
_CELL_SECONDS = 900

_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# The version of matplotlib in every picture would change all pictures with it.
_SETTINGS = """c.InlineBackend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Software": None}}\n"""
_PLACES = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|private|var|opt|mnt|work)/|[A-Z]:\\Users|site-packages")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PICTURE = ("image/png", "image/svg+xml", "image/jpeg")


def notebooks(names: list[str] | None = None) -> list[Path]:
    """Find the notebooks by number, name or path; all of them by default."""
    every = sorted(HERE.glob("[0-9]*.ipynb"))
    if not names:
        return every
    found = []
    for name in names:
        stem = Path(name).stem
        hits = [path for path in every if path.stem == stem or path.stem.split("_")[0] == stem]
        if len(hits) != 1:
            known = ", ".join(path.stem for path in every)
            raise SystemExit(f"there is no notebook {name!r}; there are {known}")
        found += hits
    return found


def execute(path: Path) -> tuple[NotebookNode, list[str]]:
    """Run a notebook from the top; returns it, cleaned, and what is wrong with it."""
    book = nbformat.read(path, as_version=4)
    trouble = []
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        home, away = Path(folder, "s"), Path(folder, "w")
        profile = home / "profile_default"
        profile.mkdir(parents=True)
        away.mkdir()
        (profile / "ipython_kernel_config.py").write_text(_SETTINGS, encoding="utf-8")
        # No folder of kernels: what is left is the kernel of this interpreter.
        manager = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            connection_file=str(home / "k.json"),
            # Sockets in a folder of ours, where there are such: no port to be taken by another, nothing on the net.
            transport="tcp" if sys.platform == "win32" else "ipc",
        )
        client = NotebookClient(
            book,
            km=manager,
            timeout=_CELL_SECONDS,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(away)}},
        )
        client.owns_km = True  # it ends the kernel
        try:
            client.execute(env=_environment(home))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            trouble = [_COLOUR.sub("", str(error)).strip()]
    return cleaned(book), trouble or faults(book)


def _environment(home: Path) -> dict[str, str]:
    """Give the kernel our variables, but no settings of anybody's notebooks."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "PYTHONSTARTUP")}
    # tqdm and rich remark at the first import, in a kernel, that the package ipywidgets is missing.
    quiet = "ignore:IProgress not found,ignore:install"
    # A fast run is mostly the compiler's: it may hurry.
    hurry = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"} if os.environ.get(FAST) else {}
    ours = {"IPYTHONDIR": str(home), "PYTHONHASHSEED": "0", "PYTHONWARNINGS": quiet}
    return {"JAX_PLATFORMS": "cpu"} | hurry | kept | ours


def cleaned(book: NotebookNode) -> NotebookNode:
    """Take out of a notebook, in place, what tells of the machine, the day or the program that ran it."""
    book.metadata = nbformat.from_dict(_KERNEL)
    for cell in book.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_progress(output)]
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = nbformat.from_dict({})
    return book


def _is_progress(output: NotebookNode) -> bool:
    """Tell the display of a progress bar, or what is left of it, which is nothing."""
    data = output.get("data")
    if data is None or output.output_type != "display_data":
        return False
    if any("widget" in kind for kind in data):
        return True
    return not any(kind in data for kind in _PICTURE) and not str(data.get("text/plain", "")).strip()


def faults(book: NotebookNode) -> list[str]:
    """Say what must not stand in a notebook that was run: errors, warnings, local paths, missing outputs."""
    found = []
    local = {str(HERE.parent), str(Path.cwd()), str(Path.home()), os.environ.get("BAYESCROWD_DATA"), _host()}
    local = {name for name in local if name and len(name) > 3}
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, start=1):
        where = f"code cell {number} ({cell.source.strip().splitlines()[0][:60] if cell.source.strip() else 'empty'!r})"
        if cell.execution_count != number:
            found.append(f"{where} was not run in order: its count is {cell.execution_count}")
        for output in cell.outputs:
            text = text_of(output)
            if output.output_type == "error":
                found.append(f"{where} fails: {output.ename}: {output.evalue}")
                continue
            if output.get("name") == "stderr" or re.search(r"\b\w*Warning: ", text):
                found.append(f"{where} warns: {text.strip()[:500]}")
            if "xr-wrap" in text:
                found.append(f"{where} shows xarray's HTML, whose ids are new every time: print it")
            hits = [name for name in local if name in text]
            hits += [match.group() for pattern in (_PLACES, _ADDRESS) if (match := pattern.search(text))]
            if hits:
                found.append(f"{where} shows something of this machine: {', '.join(sorted(hits))}")
    if not any(cell.outputs for cell in code):
        found.append("there are no outputs")
    return found


def _host() -> str:
    """Name of this machine, unless it is a word that a notebook might use."""
    name = socket.gethostname()
    return name if re.search(r"[\d.-]", name) else ""


def text_of(output: NotebookNode) -> str:
    """All text of an output; pictures are left out."""
    data: dict[str, Any] = output.get("data", {})
    parts = [str(output.get("text", ""))]
    parts += ["".join(value) for kind, value in data.items() if kind.startswith("text/") or kind.endswith("svg+xml")]
    return "\n".join(parts)


def pictures(book: NotebookNode, folder: Path) -> list[Path]:
    """Write every picture of a notebook to a folder, to be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, cell in enumerate((cell for cell in book.cells if cell.cell_type == "code"), start=1):
        for index, output in enumerate(cell.outputs):
            if "image/png" in output.get("data", {}):
                path = folder / f"{number:02d}_{index}.png"
                path.write_bytes(base64.b64decode(output.data["image/png"]))
                paths.append(path)
    return paths


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the result is 1 where a notebook has a fault."""
    about = "Run the notebooks, keep their outputs."
    parser = argparse.ArgumentParser(prog="python notebooks/run.py", description=about)
    parser.add_argument("names", nargs="*", help="numbers or names of notebooks, by default all")
    parser.add_argument("--check", action="store_true", help="run and judge them, save nothing")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write their pictures there, to look at")
    given = parser.parse_args(arguments)
    if os.environ.get(FAST) and not given.check:
        parser.error(f"{FAST} is set: outputs to be kept come from full runs; use --check, or unset it")
    import matplotlib.font_manager  # noqa: F401  - makes the list of fonts now, so that no kernel tells of it

    failed = 0
    for path in notebooks(given.names):
        begun = time.perf_counter()
        book, wrong = execute(path)
        seconds = time.perf_counter() - begun
        if given.pictures:
            pictures(book, given.pictures / path.stem)
        text = nbformat.writes(book) + "\n"
        if len(text.encode()) > MOST_BYTES:
            wrong.append(f"it has {len(text.encode()) / 1e6:.1f} MB: make pictures fewer or smaller")
        if not wrong and not given.check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.stem}: {'failed' if wrong else 'ran'} in {seconds:.0f} s", flush=True)
        for fault in wrong:
            print(f"  {fault}", flush=True)
        failed += bool(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
