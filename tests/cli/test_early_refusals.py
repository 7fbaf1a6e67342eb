"""What cannot be done is said before anything is printed, read or written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import bayescrowd as bc
from bayescrowd.cli import main

LABELS = "item,worker,label\na,x,0\na,y,1\na,z,1\nb,x,0\nb,y,0\nb,z,1\n"


def run(*arguments: object, code: int = 0):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="bayescrowd")
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def labels_csv(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(LABELS)
    return path


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--model", "dawid-skeen"), "dawid-skene"),
        (("--engine", "mm"), "no engine 'mm'"),
        (("--option", "tolerence=1"), "tolerence"),
        (("--engine", "nuts", "--chains", "-1"), "chains"),
        (("--init", "majorty"), "majority"),
        (("--init", "none.nc"), "none.nc"),
        (("--seed", "-1"), "seed"),
        (("--model", "dawid-skene", "--prior", "confusion_prior=[[1,1,1],[1,1,1]]"), "confusion_prior"),
    ],
)
def test_misspelt_settings_come_before_the_labels(
    labels_csv: Path, tmp_path: Path, options: tuple[str, ...], part: str
) -> None:
    result = run("fit", labels_csv, *options, "--out", tmp_path / "out", code=2)
    assert result.stdout == ""
    assert part in result.stderr
    assert not (tmp_path / "out").exists()


def test_no_folder_is_left_where_the_labels_cannot_be_read(tmp_path: Path) -> None:
    run("fit", tmp_path / "nowhere.csv", "--out", tmp_path / "new" / "out", code=2)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["x.parquet", "x.tsv", "x.csv.gz", "x"])
def test_simulate_writes_csv_and_nothing_else(tmp_path: Path, name: str) -> None:
    result = run("simulate", "--items", 3, "--workers", 2, "--out", tmp_path / name, code=2)
    assert "name the file x" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_simulate_makes_no_folder(tmp_path: Path) -> None:
    result = run("simulate", "--items", 3, "--workers", 2, "--out", tmp_path / "no" / "x.csv", code=2)
    assert "there is no folder" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_simulate_counts_in_words_and_takes_a_number_of_classes(tmp_path: Path) -> None:
    result = run("simulate", "--items", 1, "--workers", 1, "--classes", 3, "--out", tmp_path / "x.csv")
    assert "1 label of 1 item by 1 worker, with truth" in result.stdout
    run("simulate", "--items", 200, "--workers", 3, "--classes", 3, "--out", tmp_path / "y.csv")
    frame = pd.read_csv(tmp_path / "y.csv")
    assert set(frame["truth"]) == {0, 1, 2}
    assert len(frame) == 600  # all three workers
    assert "default 5, or all" in " ".join(run("simulate", "--help").stdout.split())


class Impatient:
    """A reporter that stands for a user who presses Ctrl-C once draws are being kept."""

    def __init__(self) -> None:
        self.total, self.done = 0, False

    def start(self, task: str, total: int) -> None:
        self.total = total

    def update(self, done: int, note: str = "") -> None:
        if done > 0.2 * self.total and not self.done:
            self.done = True
            raise KeyboardInterrupt

    def __enter__(self) -> Impatient:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def test_an_interrupted_fit_is_written_and_said_to_be_so(
    labels_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayescrowd.api.reporter", lambda progress: Impatient())
    sizes = ("--chains", 1, "--warmup", 50, "--draws", 3000)
    result = run("fit", labels_csv, "--engine", "nuts", *sizes, "--out", tmp_path / "out")
    assert f"The fit was interrupted: the files in {tmp_path / 'out'}" in result.stderr
    posterior = bc.load(tmp_path / "out" / "fit.nc").idata["posterior"].dataset
    assert 0 < posterior.sizes["draw"] < 3000
    assert len(pd.read_csv(tmp_path / "out" / "consensus.csv")) == 2
