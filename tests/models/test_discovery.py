"""Models are found by looking into the folder; a file that breaks the rules fails loudly."""

from __future__ import annotations

import sys
import textwrap

import pytest

import bayescrowd.models
from bayescrowd.errors import ModelError
from bayescrowd.model import Model


def test_every_file_is_a_model():
    names = bayescrowd.models.names()
    assert "dawid-skene" in names
    assert names == sorted(names)
    for name in names:
        model = bayescrowd.models.get(name)
        assert issubclass(model, Model)
        assert model.name == name
        assert model.__doc__
        model()  # every prior has a default


def test_files_with_an_underscore_are_no_models():
    assert not any("template" in name for name in bayescrowd.models.names())


@pytest.mark.parametrize("ask", [bayescrowd.models.get, bayescrowd.models.resolve])
def test_an_unknown_name_lists_the_known(ask):
    with pytest.raises(ModelError, match="'dawid-skeen'; did you mean 'dawid-skene'. The models are 'dawid-skene'"):
        ask("dawid-skeen")
    with pytest.raises(ModelError, match="no model 'xyz'; the models are 'dawid-skene'"):
        ask("xyz")


def test_a_model_its_class_and_its_name_are_the_same():
    kind = bayescrowd.models.get("idbla")
    model = kind(n_levels=2)
    assert bayescrowd.models.resolve(model) is model
    assert bayescrowd.models.resolve(kind) == bayescrowd.models.resolve("idbla") == kind()
    for nonsense in (None, 3, Model, int, ["idbla"]):
        with pytest.raises(ModelError, match="model must be a model, its class or its name"):
            bayescrowd.models.resolve(nonsense)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Put a file into the reading room for the time of a test."""
    monkeypatch.setattr(bayescrowd.models, "__path__", [*bayescrowd.models.__path__, str(tmp_path)])

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))

    yield write
    for module in [name for name in sys.modules if name.startswith("bayescrowd.models.odd_")]:
        del sys.modules[module]


def test_a_file_without_a_model_fails_loudly(put):
    put("odd_empty", "x = 1\n")
    assert "odd-empty" in bayescrowd.models.names()
    with pytest.raises(ModelError, match="odd_empty"):
        bayescrowd.models.get("odd-empty")


MODEL = """
from bayescrowd.model import Model


class {name}(Model):
    name = "{label}"

    def parameters(self, sizes):
        return {{}}

    def log_response(self, parameters, at):
        return 0.0

    def program(self, table):
        pass
"""


def test_a_model_under_another_name_fails_loudly(put):
    put("odd_name", MODEL.format(name="Odd", label="even-name"))
    with pytest.raises(ModelError, match="odd-name"):
        bayescrowd.models.get("odd-name")


def test_two_models_in_one_file_fail_loudly(put):
    put("odd_two", MODEL.format(name="One", label="odd-two") + MODEL.format(name="Two", label="odd-two"))
    with pytest.raises(ModelError, match="one Model"):
        bayescrowd.models.get("odd-two")


def test_a_new_file_is_found(put):
    put("odd_good", MODEL.format(name="Good", label="odd-good"))
    assert bayescrowd.models.get("odd-good").name == "odd-good"


def test_a_file_that_breaks_on_import_says_so(put):
    put("odd_broken", "import no_such_module_at_all\n")
    with pytest.raises(ImportError, match="no_such_module_at_all"):
        bayescrowd.models.get("odd-broken")
