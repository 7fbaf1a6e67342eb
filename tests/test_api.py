from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import fitted
import numpy as np
import pandas as pd
import pytest
from conformance.toys import Guessing

import bayescrowd as bc
from bayescrowd import api, choice
from bayescrowd.choice import choose
from bayescrowd.errors import EngineError, LabelError, ModelError
from bayescrowd.inference.base import Engine, Status


def test_the_plain_call_names_what_it_did() -> None:
    fit = bc.fit(fitted.d1())
    assert fit.engine == "collapsed-vi"
    assert fit.model == bc.DawidSkene(confusion_prior=bc.diagonal(2, 0.5))
    model, engine = fit.idata.attrs["choice"]
    assert "'dawid-skene'" in model
    assert "5 items (fewer than 200)" in model
    assert "Engine 'collapsed-vi' was chosen by default" in engine
    assert "chosen by default" in str(fit.diagnose(random_start=False))
    assert fit.idata.attrs["seed"] == 0


def choice_for(n_items: int, n_workers: int, n_classes: int = 2, engine: str | None = None, **more: Any) -> Any:
    """What is chosen for a full table."""
    item, worker = (part.ravel() for part in np.mgrid[:n_items, :n_workers])
    labels = bc.CrowdLabels.from_codes(item, worker, (item + worker) % n_classes, classes=n_classes, **more)
    return choose(labels=labels, engine=engine)


def test_size_and_data_choose_the_model() -> None:
    assert choice_for(200, 3).model == bc.IDBLA()
    assert "200 items, and 100 labels per worker and class" in choice_for(200, 3).reasons[0]
    assert choice_for(199, 3).model == bc.DawidSkene(confusion_prior=bc.diagonal(2, 0.5))
    few = choice_for(200, 3, n_classes=40)
    assert few.model == bc.DawidSkene(confusion_prior=bc.diagonal(2, 0.5))
    assert "5.0 labels per worker and class" in few.reasons[0]
    assert choose(labels=fitted.d1(), engine="em").model == bc.DawidSkene()


def test_size_and_weights_choose_how_expectations_are_approximated() -> None:
    assert choice_for(200, 3).settings.moments == "zero-split"
    fractional = choice_for(200, 3, weight=np.full(600, 0.5))
    assert fractional.settings.moments == "zero"
    assert "weights are not whole" in fractional.reasons[1]
    named = choice_for(200, 3, weight=np.full(600, 0.5), engine="collapsed-vi")
    assert named.settings.moments == "zero"
    assert "weights are not whole" in named.reasons[1]
    assert choice_for(300_000, 3).settings.moments == "zero"
    item = np.arange(600) // 3
    labels = bc.CrowdLabels.from_codes(item, np.arange(600) % 3, item % 2, classes=2)
    assert choose(labels=labels, moments="second").settings.moments == "second"


def test_the_models_own_kind_chooses_the_engine() -> None:
    assert choose(fitted.OneCoin(), labels=fitted.d1()).engine.name == "nuts"
    assert choose(Guessing(), labels=fitted.d1()).engine.name == "vb"


@pytest.mark.parametrize("model", ["dawid-skene", bc.DawidSkene, bc.DawidSkene()])
def test_a_model_by_name_class_or_instance(model: object) -> None:
    assert bc.fit(fitted.d1(), model).model == bc.DawidSkene()


def test_a_model_of_the_users_own() -> None:
    fit = bc.fit(fitted.d1(), fitted.OneCoin(), engine="em")
    assert fit.model == fitted.OneCoin()
    assert fit.workers()["accuracy"].between(0, 1).all()


def test_a_table_gets_the_line_to_write() -> None:
    with pytest.raises(
        LabelError, match=r"not a DataFrame \(its columns: 'item', 'worker', 'label'\)(.|\n)*from_long\(df, item="
    ):
        bc.fit(fitted.frame())
    with pytest.raises(LabelError, match=r"bc\.fit\(bc\.read_labels\('labels\.csv'\)\)"):
        bc.fit("labels.csv")
    with pytest.raises(LabelError, match=r"bc\.fit\(bc\.read_labels\('labels\.csv'\)\)"):
        bc.fit(Path("labels.csv"))
    with pytest.raises(LabelError, match="from_wide"):
        bc.fit(np.zeros((3, 2)))
    with pytest.raises(LabelError, match="not a list"):
        bc.fit([("a", "w", 1)])


def test_P17_nothing_to_fit() -> None:
    empty = bc.CrowdLabels.from_codes([], [], [], items=0, workers=0, classes=2)
    with pytest.raises(LabelError, match="no labels to fit"):
        bc.fit(empty)


def test_unknown_names_get_a_hint() -> None:
    labels = fitted.d1()
    with pytest.raises(ModelError, match="there is no model 'dawid_skene'; did you mean 'dawid-skene'"):
        bc.fit(labels, "dawid_skene")
    with pytest.raises(ModelError, match="there is no model 'xyz'; The models are|there is no model 'xyz'"):
        bc.fit(labels, "xyz")
    with pytest.raises(ModelError, match="model must be a model, its class or its name"):
        bc.fit(labels, 3)
    with pytest.raises(EngineError, match="there is no engine 'NUT'; did you mean 'nuts'"):
        bc.fit(labels, engine="NUT")


def test_unknown_options_get_the_list() -> None:
    with pytest.raises(
        EngineError,
        match=r"engine 'em' takes objective='likelihood'.*unknown option 'max_iters'; did you mean 'max_iter'",
    ):
        bc.fit(fitted.d1(), max_iters=3, engine="em")
    with pytest.raises(EngineError) as caught:
        bc.fit(fitted.d1(), chains=4, tolerence=1, engine="em")
    assert "2 problems" in str(caught.value)
    assert "'chains'; it is an option of 'collapsed-gibbs', 'gibbs', 'nuts'" in str(caught.value)


def test_options_of_wrong_types_are_listed() -> None:
    with pytest.raises(EngineError) as caught:
        bc.fit(fitted.d1(), tolerance="x", max_iter=2.5, starts=True, objective=1, engine="em")
    text = str(caught.value)
    assert "engine 'em' cannot use these options (4 problems)" in text
    assert "tolerance='x' must be a number, not str" in text
    assert "max_iter=2.5 must be a whole number, not float" in text
    assert "starts=True must be a whole number, not bool" in text
    assert "objective=1 must be text, not int" in text
    with pytest.raises(EngineError, match="target_accept=None must be a number, not NoneType"):
        bc.fit(fitted.d1(), engine="nuts", target_accept=None)
    fit = bc.fit(fitted.d1(), max_iter=np.int64(500), tolerance=0, engine="em")
    assert (fit.settings["max_iter"], fit.settings["tolerance"]) == (500, 0)


def test_options_with_other_annotations() -> None:
    assert choice._is(None, int | None)
    assert choice._is("a", Literal["a", "b"])
    assert not choice._is("c", Literal["a", "b"])
    assert not choice._is("a", int | None)
    assert choice._is([1], list[int])
    assert choice._kind(int | None) == "a whole number or None"
    assert choice._kind(Literal["a", "b"]) == "'a' or 'b'"


def test_bad_arguments() -> None:
    with pytest.raises(EngineError, match="seed must be a whole number"):
        bc.fit(fitted.d1(), seed=-1)
    with pytest.raises(EngineError, match="on_failure must be"):
        bc.fit(fitted.d1(), on_failure="ignore")
    with pytest.raises(EngineError, match="there is no start 'best'"):
        bc.fit(fitted.d1(), init="best")
    with pytest.raises(ModelError, match="confusion_prior"):
        bc.fit(fitted.d1(), bc.DawidSkene(confusion_prior=-1.0))
    with pytest.raises(ModelError):
        bc.fit(fitted.d1(), bc.DawidSkene(prevalence_prior=[1.0, 2.0, 3.0]))


def test_P94_a_fit_that_did_not_converge_warns_once_or_raises() -> None:
    labels = fitted.anesthesia()
    with pytest.warns(bc.ConvergenceWarning) as caught:
        fit = bc.fit(labels, max_iter=2, engine="em")
    assert len(caught) == 1
    assert "bayescrowd" not in Path(caught[0].filename).parts  # the user's line, not ours
    assert fit.converged is False
    assert "fit.diagnose()" in str(caught[0].message)
    with pytest.raises(
        EngineError, match=r"did not converge.*Remedy: raise max_iter, for example max_iter=4"
    ) as raised:
        bc.fit(labels, max_iter=2, on_failure="raise", engine="em")
    assert "fit.diagnose" not in str(raised.value)  # there is no fit


def test_samplers_are_judged_by_their_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        shift: float = 0.0

    def run(job: object) -> object:
        made = fitted.made_run(job.labels, job.model, chains=4, draws=500)
        if job.settings.shift:
            made.draws["prevalence"][0] = made.draws["prevalence"][0] * 0.1 + [0.9, 0.0]
        return made

    monkeypatch.setattr(choice, "engine_names", lambda: ["fake"])
    monkeypatch.setattr(choice, "get_engine", lambda name: Engine("fake", Settings, run, samples=True))
    assert bc.fit(fitted.d1(), fitted.r31(), engine="fake").converged is True
    with pytest.warns(bc.ConvergenceWarning, match=r"did not converge\. The chains disagree: R-hat") as caught:
        fit = bc.fit(fitted.d1(), fitted.r31(), engine="fake", shift=1.0)
    assert len(caught) == 1
    assert fit.converged is False
    assert any("The chains disagree" in text for text in fit.warnings)


def test_an_engine_that_does_not_fit_a_model_says_which_do(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        pass

    def refuse(model: object, settings: object) -> None:
        raise EngineError(f"engine 'picky' needs routes, and model {model.name!r} has none")

    engines = {
        "picky": Engine("picky", Settings, lambda job: None, samples=True, check=refuse),
        "open": Engine("open", Settings, lambda job: None, samples=True),
    }
    monkeypatch.setattr(choice, "engine_names", lambda: list(engines))
    monkeypatch.setattr(choice, "get_engine", engines.get)
    with pytest.raises(EngineError, match=r"needs routes.*; engines that fit model 'dawid-skene': 'open'"):
        bc.fit(fitted.d1(), engine="picky")


def test_P88_same_seed_same_numbers() -> None:
    fits = [bc.fit(fitted.d1(), starts=3, seed=5, engine="em") for _ in range(2)]
    pd.testing.assert_frame_equal(*(fit.class_probabilities() for fit in fits))
    assert fits[0].idata.attrs["details"] == fits[1].idata.attrs["details"]


def test_P94_vanished_classes_are_in_the_warnings() -> None:
    labels = fitted.d1()
    run = fitted.made_point(labels, fitted.r31(), status=Status("converged", "Converged.", True))
    tree = fitted.tree_of(labels, fitted.r31(), run._replace(state_probability=np.array([[0.95, 0.05]] * 5)))
    api._judge(tree)
    assert any("Fewer than one item is expected in class 'yes'" in text for text in tree.attrs["warnings"])
