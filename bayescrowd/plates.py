"""The parts that programs share: gold inside an item plate, and the plate of an item's annotations."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpyro
from numpyro import handlers

from bayescrowd.data.arrays import PaddedLabels

__all__ = ["annotations", "observe_gold"]


def observe_gold(true_class: Any, gold: Any) -> None:
    """Condition on the known classes of gold items, inside an item plate.

    A factor, not an observation: it keeps the prevalence's log probability and works under enumeration.

    Parameters
    ----------
    true_class : int array
        The (enumerated) class of each item.
    gold : int array [item] or None
        Known classes, -1 where unknown.
    """
    if gold is not None:
        known = gold[:, None]
        numpyro.factor("gold", jnp.where((known < 0) | (known == true_class), 0.0, -jnp.inf))


@contextlib.contextmanager
def annotations(table: PaddedLabels) -> Iterator[None]:
    """Open the plate of an item's annotations: padding masked out, weights applied.

    Parameters
    ----------
    table : PaddedLabels
        The design.

    Yields
    ------
    None
        Inside the item plate.
    """
    with numpyro.plate("annotation", table.n_positions, dim=-1), handlers.mask(mask=table.mask):
        if table.weight is None:
            yield
        else:
            with handlers.scale(scale=table.weight):
                yield
