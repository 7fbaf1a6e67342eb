"""The contract: what is read off a model, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from conformance.toys import Ability, Ease, FixedLevels, Groups, Guessing, Subtypes, TwoLevels
from numpyro import distributions as dist

import bayescrowd as bc
from bayescrowd.data.arrays import Sizes
from bayescrowd.errors import ModelError
from bayescrowd.model import At, Diagonal, Model, Route
from bayescrowd.sites import hang_together

SIZES = Sizes(6, 3, 2, 4)


# ---- sites


def test_sites_of_dawid_skene():
    sites = bc.DawidSkene(prevalence_prior=[1.0, 2.0], confusion_prior=bc.diagonal(3, 1)).sites(SIZES)
    assert list(sites) == ["prevalence", "confusion"]
    prevalence, confusion = sites["prevalence"], sites["confusion"]
    assert (prevalence.dims, prevalence.shape, prevalence.kind) == (("class",), (2,), "dirichlet")
    assert (confusion.dims, confusion.shape, confusion.kind) == (("worker", "class", "label"), (3, 2, 4), "dirichlet")
    np.testing.assert_array_equal(prevalence.concentration, [1, 2])
    np.testing.assert_array_equal(confusion.concentration[2], [[3, 1, 1, 1], [1, 3, 1, 1]])


@pytest.mark.parametrize(
    ("prior", "row"),
    [
        (2.0, [[2, 2, 2, 2], [2, 2, 2, 2]]),
        (np.arange(1.0, 9).reshape(2, 4), [[1, 2, 3, 4], [5, 6, 7, 8]]),
        (np.arange(1.0, 25).reshape(3, 2, 4), [[9, 10, 11, 12], [13, 14, 15, 16]]),
        (np.array([1.0, 2, 3, 4]), [[1, 2, 3, 4], [1, 2, 3, 4]]),
    ],
    ids=["number", "class x label", "worker x class x label", "label"],
)
def test_priors_broadcast(prior, row):
    site = bc.DawidSkene(confusion_prior=prior).sites(SIZES)["confusion"]
    np.testing.assert_array_equal(site.concentration[1], row)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            TwoLevels(),
            {
                "prevalence": ("class",),
                "difficulty_prevalence": ("difficulty",),
                "confusion": ("worker", "difficulty", "class", "label"),
            },
        ),
        (Subtypes(), {"subtype": ("subtype",), "confusion": ("worker", "difficulty", "class", "label")}),
        (Groups(), {"group_prevalence": ("group", "class"), "confusion": ("worker", "class", "label")}),
        (Guessing(), {"prevalence": ("class",), "seen": ("worker", "class", "label")}),
        (Ability(), {"prevalence": ("class",), "ability": ("worker",)}),
        (Ease(), {"prevalence": ("class",), "ability": ("worker",), "ease": ("item_of_ease",)}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_dims_come_from_the_plates(model, expected):
    assert {name: site.dims for name, site in model.sites(SIZES).items()} == expected


def test_sites_that_are_no_table():
    site = Ability().sites(SIZES)["ability"]
    assert (site.kind, site.concentration) == ("other", None)
    assert Ease().sites(SIZES)["ease"].shape == (6,)


def test_a_trace_of_spread_values_shows_the_same_priors():
    for model in (bc.DawidSkene(), TwoLevels()):
        for name, site in model.sites(SIZES).items():
            np.testing.assert_array_equal(site.concentration, model.sites(SIZES, spread=3)[name].concentration)


def test_reading_sites_needs_no_random_key_and_changes_none():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    bc.DawidSkene().sites(SIZES, spread=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# ---- Diagonal


@pytest.mark.parametrize(("n_classes", "n_labels"), [(1, 1), (2, 2), (2, 5), (4, 4)])
def test_a_diagonal_prior_takes_the_shape_of_the_data(n_classes, n_labels):
    table = np.asarray(bc.diagonal(3, 0.5).table(n_classes, n_labels))
    assert table.shape == (n_classes, n_labels)
    for c in range(n_classes):
        for y in range(n_labels):
            assert table[c, y] == (3 if c == y else 0.5)


@pytest.mark.parametrize(("on", "off"), [(0, 1), (1, -1), (np.inf, 1), (np.nan, 1), (True, 1)])
def test_a_diagonal_of_no_concentrations(on, off):
    with pytest.raises(ModelError, match="positive number"):
        bc.diagonal(on, off)


WRONG_TYPES = """
import numpy as np
import bayescrowd as bc
good = bc.DawidSkene()
for call in (
    lambda: bc.diagonal("3", 1),
    lambda: bc.diagonal(None, 1),
    lambda: bc.simulate("dawid-skene", n_items=3, n_workers=2),
    lambda: bc.simulate(good, n_items=3, n_workers=2, labels_per_item=2.5),
    lambda: bc.simulate(good, n_items=3, n_workers=2, labels_per_item="2"),
    lambda: bc.fit([["a", "b", 1]]),
):
    try:
        call()
    except bc.BayescrowdError as error:
        print("ours:", str(error).splitlines()[0])
    else:
        print("no error")
"""


@pytest.mark.slow
def test_wrong_types_are_our_errors_too():
    """In a process of its own, as the tests' own check of annotations would speak first."""
    out = subprocess.run([sys.executable, "-c", WRONG_TYPES], capture_output=True, text=True, check=False)
    lines = out.stdout.splitlines()
    assert len(lines) == 6, out.stderr
    assert all(line.startswith("ours:") for line in lines), out.stdout


def test_both_problems_of_a_diagonal_are_told():
    with pytest.raises(ModelError) as caught:
        bc.diagonal(-1, 0)
    assert "on=-1" in str(caught.value)
    assert "off=0" in str(caught.value)


# ---- check


def test_good_priors_pass():
    for model in (bc.DawidSkene(), TwoLevels(), Guessing(), Ability(), Ease(), FixedLevels(), Groups(), Subtypes()):
        model.check(SIZES)


def test_every_problem_is_listed():
    model = bc.DawidSkene(prevalence_prior=[1.0, -2.0], confusion_prior=np.array([[1.0, 0, 1, 1], [1, 1, 1, 1]]))
    with pytest.raises(ModelError) as caught:
        model.check(SIZES)
    message = str(caught.value)
    assert "prevalence_prior" in message
    assert "-2" in message
    assert "confusion_prior" in message
    assert "(0, 1)" in message


@pytest.mark.parametrize(
    ("priors", "words"),
    [
        ({"prevalence_prior": 0}, "prevalence_prior"),
        ({"prevalence_prior": np.nan}, "finite"),
        ({"prevalence_prior": np.inf}, "finite"),
        ({"prevalence_prior": "flat"}, "prevalence_prior"),
        ({"confusion_prior": {"diagonal": 3}}, "confusion_prior"),
        ({"confusion_prior": Diagonal(-1.0, 1.0)}, "confusion_prior"),
        ({"confusion_prior": np.ones((3, 3))}, "does not broadcast"),
        ({"confusion_prior": np.ones((2, 2, 4))}, "does not broadcast"),
        ({"prevalence_prior": [1.0, 1.0, 1.0]}, "does not broadcast"),
    ],
)
def test_priors_that_are_refused(priors, words):
    with pytest.raises(ModelError, match=words):
        bc.DawidSkene(**priors).check(SIZES)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chained(Model):
    """A Dirichlet whose concentration is another site: closed-form updates would be wrong."""

    spread_prior: Any = 1.0

    name = "chained"

    def parameters(self, sizes):
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.ones(sizes.n_classes)))
        strength = numpyro.sample("strength", dist.Beta(self.spread_prior, 1.0))
        with numpyro.plate("worker", sizes.n_workers), numpyro.plate("class", sizes.n_classes):
            rows = numpyro.sample("confusion", dist.Dirichlet(strength * jnp.ones(sizes.n_labels)))
        return {"prevalence": prevalence, "strength": strength, "confusion": rows}

    def log_response(self, parameters, at):
        return jnp.log(parameters["confusion"])[at.worker, at.true_class, at.label]

    def program(self, table):
        raise NotImplementedError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ChainedRoutes(Chained):
    """The same with routes."""

    name = "chained-routes"

    def routes(self, at):
        return [Route({"confusion": (at.worker, at.true_class, at.label)})]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AbilityRoutes(Ability):
    """Routes over a site that is no table."""

    name = "ability-routes"

    def routes(self, at):
        return [Route({"ability": (at.worker, 0)})]


def test_routes_need_priors_of_their_own():
    Chained().check(SIZES)
    with pytest.raises(ModelError, match="'confusion' depends on another site"):
        ChainedRoutes().check(SIZES)
    with pytest.raises(ModelError, match="'ability' is neither a Dirichlet nor a Beta"):
        AbilityRoutes().check(SIZES)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SeeminglyChained(ChainedRoutes):
    """A concentration in which another site stands, but does not count."""

    name = "seemingly-chained"

    def parameters(self, sizes):
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(jnp.ones(sizes.n_classes)))
        with numpyro.plate("worker", sizes.n_workers), numpyro.plate("class", sizes.n_classes):
            rows = numpyro.sample("confusion", dist.Dirichlet(0.0 * prevalence[0] + jnp.ones(sizes.n_labels)))
        return {"prevalence": prevalence, "confusion": rows}


def test_the_trace_shows_what_may_depend_on_what():
    assert not any(hang_together(model, SIZES) for model in (bc.DawidSkene(), bc.IDBLA(), bc.FixedIDBLA(), Groups()))
    assert hang_together(ChainedRoutes(), SIZES)
    assert hang_together(SeeminglyChained(), SIZES)
    SeeminglyChained().check(SIZES)  # looked at more closely, it does not


def test_a_model_says_whether_it_has_routes():
    assert bc.DawidSkene().has_routes
    assert FixedLevels().has_routes
    assert not Ability().has_routes
    assert Ability().routes(At(0, 0, 0, 0, None, SIZES)) is None


# ---- describe


@pytest.mark.parametrize(
    "model",
    [
        bc.DawidSkene(),
        bc.DawidSkene(prevalence_prior=2.0, confusion_prior=0.5),
        bc.DawidSkene(prevalence_prior=np.array([1.0, 2.0]), confusion_prior=np.arange(1.0, 9).reshape(2, 4)),
        TwoLevels(n_levels=3, confusion_prior=bc.diagonal(2, 1)),
        Ability(mean=0.5),
    ],
    ids=["default", "numbers", "arrays", "levels", "ability"],
)
def test_a_description_is_plain_and_can_be_read_back(model):
    text = json.dumps(model.describe())
    again = type(model).from_description(json.loads(text))
    assert jax.tree.structure(again) == jax.tree.structure(model)
    for one, other in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.n_levels == model.n_levels
    assert again.describe() == model.describe()


def test_priors_are_leaves_and_levels_are_static():
    assert len(jax.tree.leaves(bc.DawidSkene())) == 3
    assert len(jax.tree.leaves(TwoLevels())) == 4
    assert jax.tree.structure(TwoLevels(n_levels=2)) != jax.tree.structure(TwoLevels(n_levels=3))
    assert jax.tree.structure(bc.DawidSkene(confusion_prior=bc.diagonal(3, 1))) == jax.tree.structure(bc.DawidSkene())


def test_levels_have_names():
    assert TwoLevels(n_levels=3).difficulty_names() == ["1", "2", "3"]
    assert bc.DawidSkene().difficulty_names() == ["1"]


def test_a_model_must_have_its_parts():
    @dataclass(frozen=True)
    class Half(Model):
        n_levels: int = field(default=1)

        name = "half"

        def parameters(self, sizes):
            return {}

    with pytest.raises(TypeError, match="abstract"):
        Half()
