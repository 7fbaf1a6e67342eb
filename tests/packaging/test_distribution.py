"""What is in the wheel and the sdist, and that an installed wheel works away from the repository."""

from __future__ import annotations

import email
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _modules() -> set[str]:
    """Every Python file of the package, under the path it has when installed."""
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "bayescrowd").rglob("*.py")}
    return ours | {f"bayescrowd/{path.relative_to(ROOT)}" for path in (ROOT / "models").glob("*.py")}


def _tables() -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / "bayescrowd/data/tables").glob("*") if path.is_file()}


def test_every_folder_of_the_package_is_listed() -> None:
    found = {
        str(path.parent.relative_to(ROOT)).replace("/", ".") for path in (ROOT / "bayescrowd").rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found | {"bayescrowd.models"}


def test_no_python_file_lies_in_a_folder_without_init() -> None:
    stray = [path for path in (ROOT / "bayescrowd").rglob("*.py") if not (path.parent / "__init__.py").is_file()]
    assert stray == []


def test_wheel_holds_every_module_and_table(distributions: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(distributions[0]).namelist())
    assert _tables(), "the shipped tables are gone"
    assert _modules() | _tables() | {"bayescrowd/py.typed"} <= names
    assert "bayescrowd/models/__init__.py" in names


def test_wheel_holds_nothing_else(distributions: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(distributions[0]).namelist()
    expected = _modules() | _tables() | {"bayescrowd/py.typed"}
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_sdist_holds_what_a_build_needs(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {name.replace("bayescrowd/models/", "models/") for name in _modules()}
    assert sources | _tables() | {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_metadata_names_licence_and_python(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[0]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.12"
    assert len(licences) == 1


@pytest.mark.parametrize("heavy", ["torch", "transformers", "scikit-learn", "tensorflow", "arviz"])
def test_p96_run_time_dependencies_stay_few(heavy: str) -> None:
    needed = PROJECT["project"]["dependencies"]
    assert not [entry for entry in needed if entry.split(">")[0].split("[")[0].strip() == heavy]
    assert len(needed) <= 15


def test_installed_wheel_is_the_one_imported(run_installed, installed: Path) -> None:
    code = (
        "import bayescrowd, bayescrowd.models.dawid_skene as m; print(bayescrowd.__file__); print(m.__file__);"
        "print(bayescrowd.models.names())"
    )
    done = run_installed("-c", code)
    assert done.returncode == 0, done.stderr
    package, model, names = done.stdout.splitlines()
    assert Path(package).is_relative_to(installed)
    assert Path(model).is_relative_to(installed)
    assert "dawid-skene" in names


def test_installed_wheel_reads_a_shipped_table(run_installed) -> None:
    done = run_installed("-c", "import bayescrowd as bc; print(bc.datasets.load('anesthesia').n_annotations)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "315"


def test_installed_command_line_runs(run_installed) -> None:
    done = run_installed("-m", "bayescrowd", "summary", "--dataset", "anesthesia")
    assert done.returncode == 0, done.stderr
    assert "45" in done.stdout


def test_installed_command_line_has_the_version_of_the_project(run_installed) -> None:
    done = run_installed("-m", "bayescrowd", "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"bayescrowd {PROJECT['project']['version']} ")
