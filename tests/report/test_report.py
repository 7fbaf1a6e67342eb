"""The page about a result: everything on it, nothing that runs or is fetched, ids of strangers as plain text."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fitted
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import bayescrowd as bc
from bayescrowd.cli import main
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import BayescrowdError, LabelError
from bayescrowd.report import markup
from bayescrowd.report.page import compose

EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$\\frac{1}{0}$ & <b>bold</b>", "日本 ü"]


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def evil_labels() -> CrowdLabels:
    random = np.random.default_rng(3)
    item, worker = (part.ravel() for part in np.meshgrid(np.arange(30), np.arange(4), indexing="ij"))
    truth = random.integers(2, size=30)
    label = np.where(random.random(120) < 0.8, truth[item], 1 - truth[item])
    items = pd.Index([f"{EVIL[n % 4]} {n}" for n in range(30)])
    return CrowdLabels.from_codes(item, worker, label, items=items, workers=EVIL, classes=["<i>no</i>", "yes & </td>"])


@functools.cache
def evil_page() -> Page:
    return Page(compose(bc.fit(evil_labels(), bc.DawidSkene(), engine="em").idata))


def test_ids_of_strangers_are_shown_not_run() -> None:
    page = evil_page()
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "section", "h1", "h2", "div", "p", "b", "span"}
    allowed |= {"strong", "em", "ul", "li", "details", "summary", "figure", "img"}
    allowed |= {"table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in page.tags} <= allowed
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("href", "action", "srcdoc")]
        if "src" in attributes:
            assert tag == "img"
            assert str(attributes["src"]).startswith("data:image/png;base64,")
    for worker in EVIL:
        assert " ".join(worker.split()) in page.words
    assert page.open == []


def test_nothing_is_fetched_and_nothing_may_be() -> None:
    page = evil_page()
    policy = [a for tag, a in page.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policy) == 1
    assert "default-src 'none'" in str(policy[0]["content"])
    assert "script-src" not in str(policy[0]["content"])
    assert not re.search(r"url\(|@import", markup.STYLE)


def test_figures_on_the_page_are_those_of_the_fit() -> None:
    labels = bc.datasets.load("anesthesia")
    fit = bc.fit(labels, bc.DawidSkene(), engine="em")
    page = Page(compose(fit.idata))
    words = page.words
    assert "315 labels by 5 workers on 45 items, 4 classes" in words
    for worker, row in fit.workers().iterrows():
        assert re.search(
            rf"{worker} {int(row['n_labels'])} {100 * row['accuracy']:.0f} % – to – {row['informativeness']:.2f}", words
        )
    top = fit.class_probabilities().max(axis=1)
    assert f"{100 * (top > 0.95).mean():.0f} % of the items are sure" in words
    for finding in fit.diagnose().findings:
        if finding.severity != "note":
            assert " ".join(finding.text.split()) in words
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) >= 6
    assert all(attributes["alt"] for attributes in pictures)
    assert "Against known classes" not in words


def test_known_classes_are_scored() -> None:
    crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(6, 1)), n_items=60, n_workers=5, seed=2)
    fit = bc.fit(crowd.labels, engine="em")
    scores = fit.calibration().scores
    words = Page(compose(fit.idata)).words
    assert "Against known classes" in words
    assert f"log loss {scores.loc['log_loss', 'value']:.3f}" in words


def test_five_hundred_workers_and_a_large_crowd() -> None:
    random = np.random.default_rng(0)
    worker = np.repeat(np.arange(500), 6)
    labels = CrowdLabels.from_codes(
        random.integers(300, size=3000), worker, random.integers(3, size=3000), items=300, workers=500, classes=3
    )
    tree = fitted.tree_of(labels, bc.DawidSkene(), fitted.made_run(labels, bc.DawidSkene(), draws=20))
    page = Page(compose(tree))
    assert "The 50 least accurate of 500" in page.words
    rows = sum(tag == "tr" for tag, _ in page.tags)
    assert rows < 200


def test_methods_without_a_model_say_what_cannot_be_shown() -> None:
    page = Page(compose(bc.baselines.majority_vote(fitted.d1()).idata))
    assert "Not shown:" in page.words
    assert "least sure" in page.words


def test_a_fit_that_failed_says_so_first() -> None:
    with pytest.warns(bc.ConvergenceWarning):
        fit = bc.fit(fitted.d1(), bc.DawidSkene(), engine="em", max_iter=2)
    words = Page(compose(fit.idata)).words
    assert words.index("Do not use this result as it is") < words.index("In short")


def test_writing(tmp_path: Path) -> None:
    fit = fitted.em()
    for bad, message in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "report.html", "there is no folder"),
        ("", "give the name of a file"),
    ):
        with pytest.raises(BayescrowdError, match=message):
            fit.report(bad)
    place = tmp_path / "report.html"
    place.write_text("old")
    fit.report(place)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = place.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    fit.report(place)
    assert place.read_text(encoding="utf-8") == text  # same result, same page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"truth": {"zz": 1}}, "the fit has no items 'zz'"),
        ({"truth": pd.DataFrame({"item": ["a"], "truth": [1]})}, "truth must be a Series or dict"),
        ({"truth": "of the first item"}, "none of the fit"),
        ({"truth": {}}, "truth names no class"),
        ({"truth": True}, "no class is known"),
        ({"truth": False}, "not False"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**32}, "seed must be a whole number"),
    ],
)
def test_arguments_are_checked_before_anything_is_computed(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayescrowd.report.page.sections.replications", lambda *_: pytest.fail("it was computed"))
    fit = fitted.em()
    if message == "none of the fit":
        arguments = {"truth": {fit.labels.items[0]: "purple"}}
    with pytest.raises(LabelError, match=message):
        fit.report(tmp_path / "report.html", **arguments)
    assert not list(tmp_path.iterdir())


def _small(**more: Any) -> Any:
    labels = CrowdLabels.from_codes(
        [0, 0, 1, 1, 2, 2], [0, 1] * 3, [0, 0, 1, 1, 0, 1], items=["a", "b", "c"], workers=2, classes=["n", "y"], **more
    )
    return fitted.tree_of(labels, bc.DawidSkene(), fitted.made_run(labels, bc.DawidSkene()))


def test_what_is_not_shown_is_said_in_words_for_those_without_python() -> None:
    pages = [
        Page(compose(_small(gold_code=[0, 1, -1], truth={"a": "n", "b": "y"}))).words,
        Page(compose(_small(truth={"a": "purple"}))).words,
        Page(compose(bc.baselines.majority_vote(fitted.d1()).idata)).words,
    ]
    assert "the fit was told the class of every item whose class is known" in pages[0]
    assert "known classes that the fit does not have ('purple')" in pages[1]
    assert "without a model of the labels" in pages[2]
    for words in pages:
        for said in re.findall(r"Not shown:.{120}", words):
            assert not re.search(r"truth=|truth\[|fit\.|bc\.", said)


def test_both_seeds_are_named() -> None:
    words = Page(compose(_small(), seed=12)).words
    assert "seed of the fit 0" in words
    assert "seed of this page (replications and resampling) 12" in words


def test_on_the_command_line(tmp_path: Path) -> None:
    fitted.em().save(tmp_path / "fit.nc")
    runner = CliRunner()
    done = runner.invoke(main, ["report", str(tmp_path / "fit.nc")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "fit.html").stat().st_size > 10_000
    wrong = runner.invoke(main, ["report", str(tmp_path / "fit.nc"), "--out", str(tmp_path / "report.pdf")])
    assert wrong.exit_code == 2
    assert "name the file report.html" in wrong.output
    nothing = runner.invoke(main, ["report", str(tmp_path / "no.nc")])
    assert nothing.exit_code == 2


def _report(*arguments: Any, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["report", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def test_the_command_names_a_page_for_each_form_and_replaces_only_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayescrowd.report.page.compose", lambda *_, **__: "a page")
    fit = fitted.em()
    fit.save(tmp_path / "x.nc")
    fit.save(tmp_path / "x.zarr")
    for _ in range(2):  # again: they are its own
        _report(tmp_path / "x.nc")
        _report(tmp_path / "x.zarr")
    assert {"x.html", "x.zarr.html"} <= {path.name for path in tmp_path.iterdir()}
    (tmp_path / "x.html").write_text("mine")
    assert "add --force" in _report(tmp_path / "x.nc", code=2)
    assert (tmp_path / "x.html").read_text() == "mine"
    _report(tmp_path / "x.nc", "--force")
    assert (tmp_path / "x.html").read_text() == "a page"
    assert "seed must be a whole number" in _report(tmp_path / "x.nc", "--seed", -3, code=2)


def test_the_command_takes_known_classes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("bayescrowd.report.page.compose", lambda tree, *, truth, seed: given.append(truth) or "page")
    fit = bc.fit(fitted.anesthesia(), engine="em")
    fit.save(tmp_path / "x.nc")
    table = tmp_path / "truth.csv"
    for heads in ("item,label", "Item,class", "item,truth"):
        table.write_text(f"{heads}\n1,4\n2,1\n3,\n")
        _report(tmp_path / "x.nc", "--truth", table)
        assert given.pop() == {1: 4, 2: 1}
    for text, message in (
        ("item,label\nzz,1\n", "the fit has no items 'zz'"),
        ("item,label\n1,purple\n", "the fit has no classes 'purple'"),
        ("item,label\n1,1\n1,2\n", "more than one class for '1'"),
        ("item,note\n1,1\n", "needs one column 'item' and one column 'truth'"),
        ("item,label\n1,\n", "it names no class"),
    ):
        table.write_text(text)
        assert message in _report(tmp_path / "x.nc", "--truth", table, code=2)
    assert not given


def test_no_picture_stays_open() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    compose(fitted.em().idata)
    assert plt.get_fignums() == before


def test_markup_escapes_everything_but_markup() -> None:
    assert markup.element("p", "<b>", class_='"x"') == '<p class="&quot;x&quot;">&lt;b&gt;</p>'
    assert markup.element("p", markup.element("b", "&")) == "<p><b>&amp;</b></p>"
    table = markup.table(["a", "b"], [("x", markup.number(1.5)), ("y" * 50, markup.number(float("nan")))])
    assert '<td class="number">1.50</td>' in table
    assert '<td class="number">–</td>' in table
    assert f'title="{"y" * 50}"' in table


def test_the_title_is_escaped() -> None:
    text = markup.document("<title>", markup.element("p", "ü"))
    assert "<title>&lt;title&gt;</title>" in text


def test_truth_that_came_with_the_labels_tells_of_errors_in_common() -> None:
    crowd = bc.simulate(bc.DawidSkene(confusion_prior=bc.diagonal(6, 1)), n_items=60, n_workers=5, seed=2)
    words = Page(compose(bc.fit(crowd.labels, engine="em").idata)).words
    for sentence in bc.fit(crowd.labels, engine="em").dependence(True).sentences:
        assert " ".join(sentence.split()) in words


def test_a_card_of_one_thing_is_in_the_singular() -> None:
    assert markup.counted(1, "item") == ("1", "item")
    assert markup.counted(1200, "item", "differ from the vote") == ("1,200", "items differ from the vote")
