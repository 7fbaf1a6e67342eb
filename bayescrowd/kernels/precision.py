"""The precision in which kernels compute."""

from typing import Any

import jax

__all__ = ["double_precision"]


def double_precision() -> Any:
    """Open a context in which JAX computes in float64; the global setting is left alone.

    Returns
    -------
    context manager
        For the current thread only.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with double_precision():
    ...     str(jnp.ones(1).dtype)
    'float64'
    """
    return jax.enable_x64(True)
