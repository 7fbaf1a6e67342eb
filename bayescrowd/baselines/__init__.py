"""The other estimators that the field and our papers compare with, each a function that takes labels and gives a `Fit`.

A file holds one method. Functions are loaded when they are first used.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescrowd.baselines.majority_vote import majority_vote, soft_vote

__all__ = [
    "bcc",
    "eigen_ratio",
    "ghosh_svd",
    "glad",
    "kos",
    "m_msr",
    "mace",
    "majority_vote",
    "minimax_entropy",
    "mv_dawid_skene",
    "one_coin",
    "pgd",
    "soft_vote",
    "spectral_dawid_skene",
    "tensor_admm",
    "wawa",
    "zero_based_skill",
]

_FILES = {"soft_vote": "majority_vote"}
"""Functions that live in the file of another one."""


def __getattr__(name: str) -> Any:
    """Load a method on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'bayescrowd.baselines' has no attribute {name!r}; there are {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"bayescrowd.baselines.{_FILES.get(name, name)}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the methods."""
    return sorted(__all__)


class _Package(types.ModuleType):
    """The package keeps its functions when the modules of the same names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
