"""The other estimators that the field and our papers compare with, each a function that takes labels and gives a `Fit`.

A file holds one method. Functions are loaded when they are first used.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescrowd.baselines.bcc import bcc
    from bayescrowd.baselines.eigen_ratio import eigen_ratio
    from bayescrowd.baselines.ghosh_svd import ghosh_svd
    from bayescrowd.baselines.glad import glad
    from bayescrowd.baselines.kos import kos
    from bayescrowd.baselines.m_msr import m_msr
    from bayescrowd.baselines.mace import mace
    from bayescrowd.baselines.majority_vote import majority_vote, soft_vote
    from bayescrowd.baselines.minimax_entropy import minimax_entropy
    from bayescrowd.baselines.mv_dawid_skene import mv_dawid_skene
    from bayescrowd.baselines.one_coin import one_coin
    from bayescrowd.baselines.pgd import pgd
    from bayescrowd.baselines.spectral_dawid_skene import spectral_dawid_skene
    from bayescrowd.baselines.tensor_admm import tensor_admm
    from bayescrowd.baselines.wawa import wawa
    from bayescrowd.baselines.zero_based_skill import zero_based_skill

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
