"""The commands as a user types them: files in, tables and files out, one message where something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import bayescrowd as bc
from bayescrowd.cli import main

LABELS = """item,worker,label
a,w1,yes
a,w2,yes
a,w3,no
b,w1,no
b,w2,no
b,w3,no
c,w1,yes
c,w2,no
c,w3,yes
d,w1,no
d,w2,no
d,w3,yes
"""


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="bayescrowd")
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def labels_csv(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(LABELS)
    return path


def _fails(*arguments: object, code: int = 2) -> str:
    """The message of a command that must fail; it comes on standard error and nothing comes on standard output."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    return " ".join(result.stderr.split())


class TestFit:
    def test_prints_labels_consensus_workers_and_diagnosis(self, labels_csv: Path) -> None:
        out = run("fit", labels_csv, "--model", "dawid-skene", "--engine", "em").stdout
        for part in ("Labels", "Consensus", "dawid-skene", "em", "Workers", "w3", "Diagnosis"):
            assert part in out

    def test_writes_three_files_that_read_back(self, labels_csv: Path, tmp_path: Path) -> None:
        out = tmp_path / "new" / "out"
        run("fit", labels_csv, "--engine", "em", "--out", out)
        consensus = pd.read_csv(out / "consensus.csv")
        assert consensus["item"].tolist() == ["a", "b", "c", "d"]
        assert pd.read_csv(out / "workers.csv")["worker"].tolist() == ["w1", "w2", "w3"]
        loaded = bc.load(out / "fit.nc")
        assert loaded.consensus()["class"].tolist() == consensus["class"].tolist()
        np.testing.assert_allclose(loaded.consensus()["probability"], consensus["probability"])

    def test_quiet_prints_nothing(self, labels_csv: Path, tmp_path: Path) -> None:
        assert run("fit", labels_csv, "--engine", "em", "--out", tmp_path / "out", "-q").stdout == ""

    def test_writes_over_its_own_files_and_over_no_others(self, labels_csv: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        for seed in (0, 1):
            run("fit", labels_csv, "--engine", "em", "--out", out, "--seed", seed, "-q")
        (out / "workers.csv").write_text("my notes")
        message = _fails("fit", labels_csv, "--engine", "em", "--out", out)
        assert "workers.csv" in message
        assert "consensus.csv" not in message
        assert (out / "workers.csv").read_text() == "my notes"

    def test_ids_survive_whatever_they_hold(self, tmp_path: Path) -> None:
        items = ["[red]", "01", "1", 'say "a, b"', "two\nlines", "日本", "NA", "tab\there"]
        frame = pd.DataFrame([(item, f"[/bold]{w}", "[x]" if w else "y") for item in items for w in range(3)])
        frame.columns = ["item", "worker", "label"]
        frame.to_csv(tmp_path / "labels.csv", index=False)
        printed = run("fit", tmp_path / "labels.csv", "--engine", "em", "--out", tmp_path / "out").stdout
        for text in ("[red]", "[/bold]0", "[x]", "two\\nlines", "日本"):
            assert text in printed
        read = pd.read_csv(tmp_path / "out" / "consensus.csv", dtype=str, keep_default_na=False)
        assert read["item"].tolist() == items
        assert set(read["class"]) <= {"[x]", "y"}

    def test_columns_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "odd.csv"
        path.write_text(LABELS.replace("item,worker,label", "x,y,z"))
        out = run("fit", path, "--item", "x", "--worker", "y", "--label", "z", "--engine", "em").stdout
        assert "w3" in out

    def test_declared_classes_keep_their_order(self, labels_csv: Path, tmp_path: Path) -> None:
        run("fit", labels_csv, "--engine", "em", "--classes", "yes,no,maybe", "--out", tmp_path / "out", "-q")
        assert list(bc.load(tmp_path / "out" / "fit.nc").class_probabilities().columns) == ["yes", "no", "maybe"]

    def test_declared_classes_that_are_numbers(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        path.write_text(LABELS.replace("yes", "2").replace("no", "1"))
        run("fit", path, "--engine", "em", "--classes", "1,2,3", "--out", tmp_path / "out", "-q")
        assert list(bc.load(tmp_path / "out" / "fit.nc").class_probabilities().columns) == [1, 2, 3]

    def test_missing_number(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        path.write_text(LABELS.replace("yes", "1").replace("no", "0") + "d,w4,-1\n")
        assert "classes 2" in " ".join(run("summary", path, "--missing", "-1").stdout.split())
        pd.read_csv(path).to_parquet(tmp_path / "labels.parquet")
        assert "classes 2" in " ".join(run("summary", tmp_path / "labels.parquet", "--missing", "-1").stdout.split())

    def test_missing_markers(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        path.write_text(LABELS + "d,w4,NA\n")
        assert "NA" in run("summary", path).stdout
        assert "classes 2" in " ".join(run("summary", path, "--missing", "NA").stdout.split())

    def test_truth_is_scored_and_not_read(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        rows = LABELS.splitlines()
        truth = {"a": "yes", "b": "yes", "c": "yes", "d": "no"}
        path.write_text("\n".join([rows[0] + ",truth", *(f"{row},{truth[row[0]]}" for row in rows[1:])]))
        out = run("fit", path, "--engine", "em", "--out", tmp_path / "with").stdout
        assert "agrees with the truth on" in out
        path.write_text(LABELS)
        run("fit", path, "--engine", "em", "--out", tmp_path / "without", "-q")
        assert (tmp_path / "with/consensus.csv").read_text() == (tmp_path / "without/consensus.csv").read_text()

    def test_priors_and_options_reach_model_and_engine(self, labels_csv: Path, tmp_path: Path) -> None:
        common = (
            "fit",
            labels_csv,
            "--model",
            "dawid-skene",
            "--engine",
            "em",
            "--option",
            "objective=posterior",
            "-q",
        )
        run(
            *common,
            "--prior",
            "confusion_prior=diagonal(3,1)",
            "--prior",
            "prevalence_prior=1.5",
            "--out",
            tmp_path / "a",
        )
        run(
            *common,
            "--prior",
            "confusion_prior=[[3,1],[1,3]]",
            "--prior",
            "prevalence_prior=1.5",
            "--out",
            tmp_path / "b",
        )
        assert (tmp_path / "a/consensus.csv").read_text() == (tmp_path / "b/consensus.csv").read_text()
        assert bc.load(tmp_path / "a/fit.nc").model.prevalence_prior == 1.5

    def test_starts_from_an_earlier_fit(self, labels_csv: Path, tmp_path: Path) -> None:
        run("fit", labels_csv, "--engine", "em", "--out", tmp_path / "a", "-q")
        run("fit", labels_csv, "--engine", "em", "--init", tmp_path / "a" / "fit.nc", "--out", tmp_path / "b", "-q")
        first, second = (bc.load(tmp_path / name / "fit.nc").class_probabilities() for name in "ab")
        np.testing.assert_allclose(first, second, atol=1e-4)

    def test_named_data_set(self) -> None:
        out = run("fit", "--dataset", "anesthesia", "--engine", "em").stdout
        assert "of 45 items" in out
        assert "least certain" in out

    @pytest.mark.slow
    def test_nuts_with_its_options(self, labels_csv: Path, tmp_path: Path) -> None:
        sizes = ("--chains", 2, "--warmup", 60, "--draws", 40, "--seed", 3)
        run("fit", labels_csv, "--model", "dawid-skene", "--engine", "nuts", *sizes, "--out", tmp_path / "out", "-q")
        posterior = bc.load(tmp_path / "out" / "fit.nc").idata["posterior"].dataset
        assert (posterior.sizes["chain"], posterior.sizes["draw"]) == (2, 40)


class TestErrors:
    def test_no_labels(self) -> None:
        assert "give either a file of labels or --dataset" in _fails("fit")

    def test_two_kinds_of_labels(self, labels_csv: Path) -> None:
        assert "give either" in _fails("fit", labels_csv, "--dataset", "anesthesia")

    def test_columns_with_a_data_set(self) -> None:
        assert "--item, --classes: only for a file" in _fails(
            "fit", "--dataset", "caries", "--item", "x", "--classes", "a"
        )

    def test_folder_without_a_data_set(self, labels_csv: Path, tmp_path: Path) -> None:
        assert "--folder goes with --dataset" in _fails("fit", labels_csv, "--folder", tmp_path)

    def test_no_such_file(self, tmp_path: Path) -> None:
        assert "nowhere.csv" in _fails("fit", tmp_path / "nowhere.csv")

    def test_a_folder_instead_of_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "f.csv").mkdir()
        assert "f.csv" in _fails("fit", tmp_path / "f.csv")

    def test_no_such_data_set(self) -> None:
        message = _fails("fit", "--dataset", "anaesthetics")
        assert "anaesthetics" in message
        assert "anesthesia" in message

    def test_no_such_column(self, labels_csv: Path) -> None:
        assert "who" in _fails("fit", labels_csv, "--worker", "who")

    def test_no_such_model(self, labels_csv: Path) -> None:
        assert "dawid-skene" in _engine_error(labels_csv, "--model", "dawid_skeen")

    def test_no_such_engine(self, labels_csv: Path) -> None:
        message = _engine_error(labels_csv, "--engine", "mcmc")
        assert "mcmc" in message
        assert "nuts" in message

    def test_no_such_engine_option(self, labels_csv: Path) -> None:
        message = _engine_error(labels_csv, "--engine", "em", "--option", "dampng=1")
        assert "dampng" in message
        assert "objective" in message

    def test_no_such_prior(self, labels_csv: Path) -> None:
        message = _engine_error(labels_csv, "--model", "dawid-skene", "--prior", "confusion=1")
        assert "confusion_prior" in message

    def test_prior_without_model(self, labels_csv: Path) -> None:
        assert "--prior needs --model" in _fails("fit", labels_csv, "--prior", "prevalence_prior=1")

    def test_a_setting_given_twice(self, labels_csv: Path) -> None:
        assert "draws: given both" in _fails("fit", labels_csv, "--draws", 10, "--option", "draws=20")

    def test_quiet_without_out(self, labels_csv: Path) -> None:
        assert "show nothing" in _fails("fit", labels_csv, "-q")

    def test_out_is_checked_before_the_work(self, labels_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bc, "fit", lambda *_, **__: pytest.fail("the work was done"))
        assert "cannot write to" in _fails("fit", labels_csv, "--out", labels_csv)

    def test_unusable_init(self, labels_csv: Path, tmp_path: Path) -> None:
        assert "none.nc" in _engine_error(labels_csv, "--init", tmp_path / "none.nc")

    def test_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "empty.csv").write_text("")
        assert "empty" in _fails("fit", tmp_path / "empty.csv")

    def test_every_problem_of_a_table_is_listed(self, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text("item,worker,label,weight\na,w1,yes,-1\n,w2,no,1\nb,,no,x\n")
        message = _fails("fit", tmp_path / "bad.csv")
        for part in ("weight", "item", "worker"):
            assert part in message

    def test_markup_in_a_message_is_shown_as_it_is(self, labels_csv: Path) -> None:
        assert "[red]oops" in _fails("fit", labels_csv, "--worker", "[red]oops")

    def test_unexpected_error_is_one_message(self, labels_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def breaks(*_: object, **__: object) -> None:
            raise KeyError("inside")

        monkeypatch.setattr(bc, "read_labels", breaks)
        message = _fails("summary", labels_csv, code=1)
        assert "unexpected KeyError: 'inside'" in message
        assert "BAYESCROWD_TRACEBACK=1" in message

    @pytest.mark.parametrize(
        ("error", "code", "part"),
        [
            (KeyboardInterrupt(), 130, "interrupted"),
            (MemoryError(), 1, "not enough memory"),
            (ImportError("No module named 'pyarrow'"), 1, "pyarrow"),
            (PermissionError(13, "Permission denied", "labels.csv"), 2, "labels.csv: Permission denied"),
        ],
    )
    def test_other_errors(
        self, labels_csv: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, part: str
    ) -> None:
        def breaks(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(bc, "read_labels", breaks)
        assert part in _fails("summary", labels_csv, code=code)

    def test_traceback_on_request(self, labels_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def breaks(*_: object, **__: object) -> None:
            raise KeyError("inside")

        monkeypatch.setenv("BAYESCROWD_TRACEBACK", "1")
        monkeypatch.setattr(bc, "read_labels", breaks)
        result = CliRunner().invoke(main, ["summary", str(labels_csv)])
        assert isinstance(result.exception, KeyError)


def _engine_error(labels_csv: Path, *options: object) -> str:
    """The message of a fit that fails after the labels were read (and described on standard output)."""
    return " ".join(run("fit", labels_csv, *options, code=2).stderr.split())


def test_warnings_are_notes_without_a_source_line(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(LABELS + "a,w1,no\na,w1,no\n")
    result = run("summary", tmp_path / "labels.csv")
    assert result.stderr.startswith("Note: ")
    assert ".py:" not in result.stderr
    assert run("summary", tmp_path / "labels.csv", "--duplicates", "keep").stderr == ""


def test_a_recognised_column_is_left_unused_on_request(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,worker,label,gold\na,w1,x,y\nb,w1,y,x\n")
    assert "gold" in run("summary", tmp_path / "labels.csv").stdout
    out = run("summary", tmp_path / "labels.csv", "--ignore", "gold").stdout
    assert "columns not used: 'gold'" in out
    message = _fails("summary", tmp_path / "labels.csv", "--ignore", "gold", "--gold", "gold")
    assert "exclude each other" in message
    assert "--ignore: only for a file" in _fails("summary", "--dataset", "caries", "--ignore", "gold")


def test_other_layouts(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("item,ann,bob\na,x,y\nb,y,y\n")
    assert "ann" not in run("summary", tmp_path / "wide.csv", "--layout", "wide", "--items", "rows", code=0).stderr
    (tmp_path / "counts.csv").write_text("w1,w2,n\nx,x,3\nx,y,2\n")
    out = " ".join(run("summary", tmp_path / "counts.csv", "--layout", "counts", "--count", "n").stdout.split())
    assert "items 5" in out


def test_summary(labels_csv: Path) -> None:
    out = run("summary", labels_csv).stdout
    for part in ("items", "workers", "agreement"):
        assert part in out


def test_datasets_lists_the_shipped_ones() -> None:
    out = run("datasets").stdout
    for name in ("anesthesia", "caries", "rte"):
        assert name in out


def test_datasets_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "labels.csv").write_text(LABELS)
    assert "mine" in run("datasets", "--folder", tmp_path).stdout
    assert "classes 2" in " ".join(run("summary", "--dataset", "mine", "--folder", tmp_path).stdout.split())
    assert "nowhere" in _fails("datasets", "--folder", tmp_path / "nowhere")


class TestSimulate:
    @pytest.mark.slow
    def test_writes_labels_that_fit_reads(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        message = run("simulate", "--items", 30, "--workers", 8, "--classes", 3, "--labels-per-item", 4, "--out", path)
        assert "120 labels" in message.stdout
        labels = bc.read_labels(path)
        assert (labels.n_items, labels.n_annotations) == (30, 120)
        assert labels.truth is not None
        assert len(labels.truth) == 30
        assert "agrees with the truth" in run("fit", path, "--engine", "em").stdout

    @pytest.mark.slow
    def test_same_seed_same_labels(self, tmp_path: Path) -> None:
        texts = []
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            run("simulate", "--items", 10, "--workers", 4, "--seed", seed, "--out", tmp_path / f"{name}.csv")
            texts.append((tmp_path / f"{name}.csv").read_text())
        assert texts[0] == texts[1] != texts[2]

    def test_named_classes_spammers_and_priors(self, tmp_path: Path) -> None:
        path = tmp_path / "labels.csv"
        options = (
            "--classes",
            "red,green",
            "--spammers",
            1,
            "--adversaries",
            1,
            "--prior",
            "confusion_prior=diagonal(9,1)",
        )
        run("simulate", "--items", 20, "--workers", 5, *options, "--out", path)
        assert set(bc.read_labels(path).classes) == {"red", "green"}

    def test_leaves_a_foreign_file_alone(self, labels_csv: Path) -> None:
        assert "not written by bayescrowd" in _fails("simulate", "--items", 3, "--workers", 2, "--out", labels_csv)
        assert labels_csv.read_text() == LABELS

    @pytest.mark.parametrize(
        ("options", "part"),
        [
            (("--items", 0, "--workers", 3), "--items"),
            (("--items", 3, "--workers", 3, "--classes", "many"), "--classes"),
            (("--items", 3, "--workers", 3, "--model", "x"), "dawid-skene"),
            (("--items", 3, "--workers", 3, "--labels-per-item", 4), "3"),
            (("--items", 3, "--workers", 3, "--spammers", 4), "3"),
        ],
    )
    def test_impossible_requests(self, tmp_path: Path, options: tuple[object, ...], part: str) -> None:
        assert part in _fails("simulate", *options, "--out", tmp_path / "labels.csv")
        assert not (tmp_path / "labels.csv").exists()


def _process(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bayescrowd", *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


class TestProcess:
    def test_an_error_is_one_message_and_a_code(self, tmp_path: Path) -> None:
        done = _process("fit", "nowhere.csv", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "nowhere.csv" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.slow
    def test_p90_no_bar_and_no_device_warning_in_a_file(self, labels_csv: Path) -> None:
        sizes = ("--chains", "2", "--warmup", "20", "--draws", "20")
        done = _process("fit", str(labels_csv), "--engine", "nuts", *sizes, cwd=labels_csv.parent)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "device" not in done.stderr
        assert "\r" not in done.stderr

    @pytest.mark.slow
    def test_a_terminal_that_shows_only_ascii(self, tmp_path: Path) -> None:
        (tmp_path / "labels.csv").write_text(LABELS.replace("a,", "日本,"), encoding="utf-8")
        done = _process("fit", "labels.csv", "--engine", "em", cwd=tmp_path, PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        assert "\\u65e5\\u672c" in done.stdout

    def test_a_reader_that_goes_away(self, tmp_path: Path) -> None:
        command = f"{sys.executable} -m bayescrowd datasets | true"
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr
