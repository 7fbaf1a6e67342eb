"""Files are written together, and never over a file that is not ours."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayescrowd.cli import folder


def _writer(text: str):
    return lambda path: path.write_text(text)


def test_writes_and_writes_again(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    for text in ("one", "two"):
        folder.check(out, ["x.csv"])
        assert folder.write(out, {"x.csv": _writer(text)}) == [out / "x.csv"]
        assert (out / "x.csv").read_text() == text
    assert sorted(path.name for path in out.iterdir()) == [folder.RECORD, "x.csv"]


def test_leaves_a_foreign_file_alone(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("mine")
    with pytest.raises(click.UsageError, match="x.csv.*not written by bayescrowd"):
        folder.check(tmp_path, ["x.csv", "y.csv"])
    assert (tmp_path / "x.csv").read_text() == "mine"


def test_leaves_a_file_alone_that_was_edited_since(tmp_path: Path) -> None:
    folder.write(tmp_path, {"x.csv": _writer("one")})
    (tmp_path / "x.csv").write_text("one, edited")
    with pytest.raises(click.UsageError, match="changed since"):
        folder.check(tmp_path, ["x.csv"])


def test_leaves_a_folder_of_that_name_alone(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(click.UsageError):
        folder.check(tmp_path, ["x.csv"])


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', "{"])
def test_an_unreadable_record_claims_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / folder.RECORD).write_text(text)
    (tmp_path / "x.csv").write_text("mine")
    with pytest.raises(click.UsageError):
        folder.check(tmp_path, ["x.csv"])


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(click.UsageError, match="cannot write to"):
        folder.check(tmp_path / "out", ["x.csv"])


def test_nothing_is_replaced_if_one_writer_fails(tmp_path: Path) -> None:
    folder.write(tmp_path, {"x.csv": _writer("old")})

    def fails(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        folder.write(tmp_path, {"x.csv": _writer("new"), "y.csv": fails})
    assert (tmp_path / "x.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.RECORD, "x.csv"]
    folder.check(tmp_path, ["x.csv", "y.csv"])
