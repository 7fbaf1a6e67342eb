"""One accommodation for ArviZ 1.3: results have an axis called ``label``, a name that `arviz.summary` wants for itself.

`arviz.summary` stacks all parameters along a temporary axis that it calls ``label``, and fails with "cannot create a
new dimension with the same name as an existing dimension" for data that has such an axis. Here its stacking step is
told to call the temporary axis something else *where the data has a* ``label`` *axis*, that is where it would fail;
everything else is passed through untouched.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["let_arviz_have_a_label_axis"]


def let_arviz_have_a_label_axis() -> None:
    """Make `arviz.summary` work on data with an axis called ``label``; done once, harmless to repeat."""
    import arviz_stats  # noqa: F401

    # The function `arviz_stats.summary` hides its module of the same name.
    module = sys.modules.get("arviz_stats.summary")
    original = getattr(module, "dataset_to_dataframe", None)
    if module is not None and original is not None and not hasattr(original, "takes_label_axis"):
        module.dataset_to_dataframe = _renaming(original)  # type: ignore[attr-defined]


def _renaming(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def dataset_to_dataframe(ds: Any, *args: Any, **options: Any) -> Any:
        if "label" in ds.dims and len(args) < 4:
            options.setdefault("new_dim", "parameter_label")
            # Values are stacked in the order of the dataset's dims but named in that of each variable's: make them one.
            ds = ds.transpose(*ds.dims)
        return original(ds, *args, **options)

    dataset_to_dataframe.takes_label_axis = True  # type: ignore[attr-defined]
    return dataset_to_dataframe
