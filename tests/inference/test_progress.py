"""Where progress goes."""

from __future__ import annotations

import sys

import pytest

from bayescrowd.inference.progress import reporter


def test_silence_says_nothing(capsys):
    with reporter(False) as report:
        report.start("work", 10)
        report.update(5, "half")
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "")


def test_nobody_looks_nothing_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with reporter(None) as report:
        report.start("work", 10)
        report.update(5)
    assert capsys.readouterr().err == ""


def test_a_bar_goes_to_the_error_stream_alone(capsys):
    with reporter(True) as report:
        report.start("first", 10)
        report.update(3, "[not markup]")
        report.start("second", 4)
        report.update(4)
    assert capsys.readouterr().out == ""


def test_a_bar_is_taken_away_after_an_error():
    def work():
        with reporter(True) as report:
            report.start("work", 10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()


def test_P90_a_notebook_without_ipywidgets_is_left_in_peace(capsys, monkeypatch):
    """Rich would warn on every bar, and draw none."""
    from bayescrowd.inference import progress

    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with reporter(None) as report:
        report.start("work", 10)
        report.update(5)
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "")
