"""Small models that exist in the tests alone, one for each thing that the contract allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.ops.indexing import Vindex

from bayescrowd.model import At, Diagonal, Model, Route, annotations, diagonal, observe_gold


def _table(prior: Any, sizes: Any) -> Any:
    return prior.table(sizes.n_classes, sizes.n_labels) if isinstance(prior, Diagonal) else jnp.asarray(prior, float)


def _shares(prior: Any, n: int) -> Any:
    return dist.Dirichlet(jnp.broadcast_to(jnp.asarray(prior, float), (n,)))


def _respond(model: Model, table: Any, parameters: Any, true_class: Any, difficulty: Any, item: Any = None) -> None:
    """The annotation plate that all these programs share."""
    with annotations(table):
        at = At(table.worker[..., None], true_class, difficulty, jnp.arange(table.sizes.n_labels), item, table.sizes)
        numpyro.sample("labels", dist.Categorical(logits=model.log_response(parameters, at)), obs=table.label)


class _OneLevel(Model):
    """The program of a model whose items differ in class alone."""

    def program(self, table: Any) -> None:
        parameters = self.parameters(table.sizes)
        with numpyro.plate("item", table.sizes.n_items, dim=-2):
            item = jnp.arange(table.sizes.n_items)[:, None]
            at = At(None, jnp.arange(table.sizes.n_classes), 0, None, item[..., None], table.sizes)
            logits = self.log_state(parameters, at)
            true_class = numpyro.sample("true_class", dist.Categorical(logits=logits), infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            _respond(self, table, parameters, true_class[..., None], 0, item[..., None] if self.uses_item else None)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoLevels(Model):
    """A confusion matrix per worker and difficulty level."""

    prevalence_prior: Any = 1.0
    difficulty_prior: Any = 1.0
    confusion_prior: Any = field(default=diagonal(3.0, 1.0))
    n_levels: int = field(default=2, metadata={"static": True})

    name = "two-levels"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        values = {
            "prevalence": numpyro.sample(
                "prevalence", _shares(self.prevalence_prior, sizes.n_classes), infer={"event_dims": ["class"]}
            ),
            "difficulty_prevalence": numpyro.sample(
                "difficulty_prevalence",
                _shares(self.difficulty_prior, self.n_levels),
                infer={"event_dims": ["difficulty"]},
            ),
        }
        shape = (sizes.n_workers, self.n_levels, sizes.n_classes, sizes.n_labels)
        worker = numpyro.plate("worker", sizes.n_workers, dim=-3)
        level = numpyro.plate("difficulty", self.n_levels, dim=-2)
        with worker, level, numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
            values["confusion"] = numpyro.sample("confusion", rows, infer={"event_dims": ["label"]})
        return values

    def log_response(self, parameters: Any, at: At) -> Any:
        return jnp.log(parameters["confusion"])[at.worker, at.difficulty, at.true_class, at.label]

    def program(self, table: Any) -> None:
        parameters = self.parameters(table.sizes)
        with numpyro.plate("item", table.sizes.n_items, dim=-2):
            classes = dist.Categorical(parameters["prevalence"])
            true_class = numpyro.sample("true_class", classes, infer={"enumerate": "parallel"})
            levels = dist.Categorical(parameters["difficulty_prevalence"])
            difficulty = numpyro.sample("item_difficulty", levels, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            _respond(self, table, parameters, true_class[..., None], difficulty[..., None])

    def routes(self, at: At) -> list[Route]:
        return [Route({"confusion": (at.worker, at.difficulty, at.true_class, at.label)})]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Subtypes(TwoLevels):
    """The same, but class and difficulty are drawn together from one table class x difficulty."""

    name = "subtypes"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        n_states = sizes.n_classes * self.n_levels
        flat = numpyro.sample("subtype", _shares(self.prevalence_prior, n_states), infer={"event_dims": ["subtype"]})
        shape = (sizes.n_workers, self.n_levels, sizes.n_classes, sizes.n_labels)
        worker = numpyro.plate("worker", sizes.n_workers, dim=-3)
        level = numpyro.plate("difficulty", self.n_levels, dim=-2)
        with worker, level, numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
            confusion = numpyro.sample("confusion", rows, infer={"event_dims": ["label"]})
        return {"subtype": flat, "confusion": confusion}

    def state_cells(self, at: At) -> dict[str, tuple[Any, ...]]:
        return {"subtype": (at.difficulty * at.sizes.n_classes + at.true_class,)}

    def program(self, table: Any) -> None:
        parameters = self.parameters(table.sizes)
        by_level = parameters["subtype"].reshape(self.n_levels, table.sizes.n_classes)
        with numpyro.plate("item", table.sizes.n_items, dim=-2):
            true_class = numpyro.sample(
                "true_class", dist.Categorical(by_level.sum(0)), infer={"enumerate": "parallel"}
            )
            levels = dist.Categorical(Vindex((by_level / by_level.sum(0)).T)[true_class])
            difficulty = numpyro.sample("item_difficulty", levels, infer={"enumerate": "parallel"})
            observe_gold(true_class, table.gold)
            _respond(self, table, parameters, true_class[..., None], difficulty[..., None])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FixedLevels(TwoLevels):
    """One free level, then an easy one and a hard one whose error rates are given."""

    easy_error: Any = 0.1
    hard_error: Any = 0.5
    n_levels: int = field(default=3, metadata={"static": True})

    name = "fixed-levels"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        n_free = self.n_levels - 2
        values = {
            "prevalence": numpyro.sample(
                "prevalence", _shares(self.prevalence_prior, sizes.n_classes), infer={"event_dims": ["class"]}
            ),
            "difficulty_prevalence": numpyro.sample(
                "difficulty_prevalence",
                _shares(self.difficulty_prior, self.n_levels),
                infer={"event_dims": ["difficulty"]},
            ),
        }
        shape = (sizes.n_workers, n_free, sizes.n_classes, sizes.n_labels)
        worker = numpyro.plate("worker", sizes.n_workers, dim=-3)
        level = numpyro.plate("free_difficulty", n_free, dim=-2)
        with worker, level, numpyro.plate("class", sizes.n_classes, dim=-1):
            rows = dist.Dirichlet(jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
            values["free_confusion"] = numpyro.sample("free_confusion", rows, infer={"event_dims": ["label"]})
        return values

    def _fixed(self, at: At) -> Any:
        error = jnp.where(at.difficulty == self.n_levels - 2, self.easy_error, self.hard_error)
        return jnp.where(at.label == at.true_class, jnp.log1p(-error), jnp.log(error) - np.log(at.sizes.n_labels - 1))

    def log_response(self, parameters: Any, at: At) -> Any:
        free = jnp.minimum(at.difficulty, self.n_levels - 3)
        table = jnp.log(parameters["free_confusion"])[at.worker, free, at.true_class, at.label]
        return jnp.where(at.difficulty < self.n_levels - 2, table, self._fixed(at))

    def routes(self, at: At) -> list[Route]:
        counted = at.difficulty < self.n_levels - 2
        cells = (at.worker, jnp.minimum(at.difficulty, self.n_levels - 3), at.true_class, at.label)
        return [Route({"free_confusion": cells}, jnp.where(counted, 0.0, self._fixed(at)), counted)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Guessing(_OneLevel):
    """With a given rate a worker guesses evenly instead of looking: two routes to a label."""

    prevalence_prior: Any = 1.0
    confusion_prior: Any = field(default=diagonal(3.0, 1.0))
    guess_rate: Any = 0.2

    name = "guessing"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = _shares(self.prevalence_prior, sizes.n_classes)
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
            shape = (sizes.n_workers, sizes.n_classes, sizes.n_labels)
            rows = dist.Dirichlet(jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
            seen = numpyro.sample("seen", rows, infer={"event_dims": ["label"]})
        return {"prevalence": prevalence, "seen": seen}

    def log_response(self, parameters: Any, at: At) -> Any:
        seen = parameters["seen"][at.worker, at.true_class, at.label]
        return jnp.log((1 - self.guess_rate) * seen + self.guess_rate / at.sizes.n_labels)

    def routes(self, at: At) -> list[Route]:
        return [
            Route({"seen": (at.worker, at.true_class, at.label)}, jnp.log1p(-self.guess_rate)),
            Route({}, jnp.log(self.guess_rate / at.sizes.n_labels)),
        ]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Groups(_OneLevel):
    """Dawid-Skene with class shares of their own for even and odd items."""

    prevalence_prior: Any = 1.0
    confusion_prior: Any = field(default=diagonal(3.0, 1.0))

    name = "groups"

    def parameters(self, sizes: Any) -> dict[str, Any]:
        with numpyro.plate("group", 2, dim=-1):
            shares = _shares(self.prevalence_prior, sizes.n_classes)
            by_group = numpyro.sample("group_prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-2), numpyro.plate("class", sizes.n_classes, dim=-1):
            shape = (sizes.n_workers, sizes.n_classes, sizes.n_labels)
            rows = dist.Dirichlet(jnp.broadcast_to(_table(self.confusion_prior, sizes), shape))
            confusion = numpyro.sample("confusion", rows, infer={"event_dims": ["label"]})
        return {"group_prevalence": by_group, "confusion": confusion}

    def state_cells(self, at: At) -> dict[str, tuple[Any, ...]]:
        return {"group_prevalence": (at.item % 2, at.true_class)}

    def log_response(self, parameters: Any, at: At) -> Any:
        return jnp.log(parameters["confusion"])[at.worker, at.true_class, at.label]

    def routes(self, at: At) -> list[Route]:
        return [Route({"confusion": (at.worker, at.true_class, at.label)})]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ability(_OneLevel):
    """A logistic ability per worker, mistakes even: nothing conjugate about it."""

    prevalence_prior: Any = 1.0
    mean: Any = 1.0
    spread: Any = 1.0

    name = "ability"
    has_mode = True

    def parameters(self, sizes: Any) -> dict[str, Any]:
        shares = _shares(self.prevalence_prior, sizes.n_classes)
        prevalence = numpyro.sample("prevalence", shares, infer={"event_dims": ["class"]})
        with numpyro.plate("worker", sizes.n_workers, dim=-1):
            ability = numpyro.sample("ability", dist.Normal(self.mean, self.spread))
        return {"prevalence": prevalence, "ability": ability}

    def _slope(self, parameters: Any, at: At) -> Any:
        return parameters["ability"][at.worker]

    def log_response(self, parameters: Any, at: At) -> Any:
        slope = self._slope(parameters, at)
        wrong = jax.nn.log_sigmoid(-slope) - np.log(max(at.sizes.n_labels - 1, 1))
        return jnp.where(at.label == at.true_class, jax.nn.log_sigmoid(slope), wrong)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ease(Ability):
    """Ability times an ease of the item itself, so that cells are single annotations."""

    name = "ease"
    uses_item = True

    def parameters(self, sizes: Any) -> dict[str, Any]:
        values = Ability.parameters(self, sizes)
        with numpyro.plate("item_of_ease", sizes.n_items, dim=-1):
            values["ease"] = numpyro.sample("ease", dist.LogNormal(0.0, 0.5))
        return values

    def _slope(self, parameters: Any, at: At) -> Any:
        return parameters["ability"][at.worker] * parameters["ease"][at.item]


TOYS = (TwoLevels(), Subtypes(), FixedLevels(), Guessing(), Groups(), Ability(), Ease())
