"""bayescrowd: true classes, worker confusions and their uncertainty, from the labels of many.

Every public name is loaded when it is first used, so ``import bayescrowd`` is quick and pulls in no numerical library.
"""

import importlib
import importlib.metadata
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import bayescrowd.baselines as baselines
    import bayescrowd.plots as plots
    from bayescrowd.api import fit, item_difficulty, load
    from bayescrowd.criticism.comparison import compare
    from bayescrowd.criticism.identifiability import identifiability
    from bayescrowd.criticism.prior_predictive import prior_predictive
    from bayescrowd.data import datasets
    from bayescrowd.data.labels import CrowdLabels
    from bayescrowd.data.read import read_labels
    from bayescrowd.errors import (
        BayescrowdError,
        BayescrowdWarning,
        ConvergenceWarning,
        DatasetError,
        EngineError,
        LabelError,
        ModelError,
    )
    from bayescrowd.fit import Fit
    from bayescrowd.model import diagonal
    from bayescrowd.models.dawid_skene import DawidSkene
    from bayescrowd.models.fixed_idbla import FixedIDBLA
    from bayescrowd.models.idbla import IDBLA
    from bayescrowd.simulate import simulate

__all__ = [
    "IDBLA",
    "BayescrowdError",
    "BayescrowdWarning",
    "ConvergenceWarning",
    "CrowdLabels",
    "DatasetError",
    "DawidSkene",
    "EngineError",
    "Fit",
    "FixedIDBLA",
    "LabelError",
    "ModelError",
    "baselines",
    "compare",
    "datasets",
    "diagonal",
    "fit",
    "identifiability",
    "item_difficulty",
    "load",
    "plots",
    "prior_predictive",
    "read_labels",
    "simulate",
]

_HOMES = {
    "BayescrowdError": "bayescrowd.errors",
    "BayescrowdWarning": "bayescrowd.errors",
    "ConvergenceWarning": "bayescrowd.errors",
    "CrowdLabels": "bayescrowd.data.labels",
    "DatasetError": "bayescrowd.errors",
    "EngineError": "bayescrowd.errors",
    "Fit": "bayescrowd.fit",
    "LabelError": "bayescrowd.errors",
    "ModelError": "bayescrowd.errors",
    "compare": "bayescrowd.criticism.comparison",
    "diagonal": "bayescrowd.model",
    "fit": "bayescrowd.api",
    "identifiability": "bayescrowd.criticism.identifiability",
    "item_difficulty": "bayescrowd.api",
    "load": "bayescrowd.api",
    "prior_predictive": "bayescrowd.criticism.prior_predictive",
    "read_labels": "bayescrowd.data.read",
    "simulate": "bayescrowd.simulate",
}
_MODULES = {
    "baselines": "bayescrowd.baselines",
    "datasets": "bayescrowd.data.datasets",
    "plots": "bayescrowd.plots",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name == "__version__":
        return importlib.metadata.version("bayescrowd")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        value = _model_class(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})


def _model_class(name: str) -> Any:
    """Find a model class in the reading room; its file is named like it (``DawidSkene`` in ``dawid_skene.py``)."""
    if name[:1].isupper():
        models = importlib.import_module("bayescrowd.models")
        for known in models.names():
            model = models.get(known)
            if model.__name__ == name:
                return model
    raise AttributeError(f"module 'bayescrowd' has no attribute {name!r}")


class _Package(types.ModuleType):
    """The package keeps its functions `fit` and `simulate` when the modules of the same names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
