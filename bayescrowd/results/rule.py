"""A method that assumes no probability model, such as a vote, in the shape that a result tree needs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax

from bayescrowd.data.arrays import PaddedLabels, Sizes
from bayescrowd.errors import ModelError
from bayescrowd.model import At, Model, Parameters

__all__ = ["Rule"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rule(Model):
    """No model: there are no parameters, and labels have no probability."""

    name: ClassVar[str] = "no model"
    uses_item: ClassVar[bool] = True

    def parameters(self, sizes: Sizes) -> dict[str, Any]:
        """Sample nothing."""
        return {}

    def log_response(self, parameters: Parameters, at: At) -> Any:
        """Refuse."""
        raise ModelError("a voting rule gives labels no probability")

    def program(self, table: PaddedLabels) -> None:
        """Refuse."""
        raise ModelError("a voting rule tells no generative story")
