"""A wheel and an sdist of the working tree, built once, and an installation of the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_IGNORE = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: what an earlier build left behind must not reach the wheel."""
    copy = tmp_path_factory.mktemp("source") / "bayescrowd"
    shutil.copytree(ROOT, copy, ignore=_IGNORE)
    return copy


@pytest.fixture(scope="session")
def distributions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist, by the build backend itself: no isolation, so no network."""
    out = tmp_path_factory.mktemp("dist")
    code = (
        "import sys; out = sys.argv[1]; from setuptools import build_meta as b; b.build_sdist(out); b.build_wheel(out)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="session")
def installed(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel installed into a folder of its own; everything it needs comes from the running environment."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    done = subprocess.run([*pip, str(distributions[0])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return target


@pytest.fixture(scope="session")
def run_installed(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_installed("-m", "bayescrowd", ...)`: Python with the installed wheel, in an empty folder."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYTHONPATH": str(installed),
            "PYTHONWARNINGS": "error::DeprecationWarning:bayescrowd",
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
