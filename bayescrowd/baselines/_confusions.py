"""Confusion matrices in the shape of a result: those of coins, and columns for label values that are no class."""

import numpy as np

__all__ = ["coins", "with_other_labels"]


def with_other_labels(confusion: np.ndarray, n_labels: int) -> np.ndarray:
    """Add the label values that are no class, which nobody is believed to give.

    Parameters
    ----------
    confusion : array [worker, class, class]
        Confusion matrices.
    n_labels : int
        Number of label values.

    Returns
    -------
    array [worker, class, label]
        Zero in the further columns.
    """
    return np.pad(confusion, ((0, 0), (0, 0), (0, n_labels - confusion.shape[2])))


def coins(right: np.ndarray, n_classes: int, n_labels: int) -> np.ndarray:
    """Write out the confusion matrices of workers who err alike in every direction.

    Parameters
    ----------
    right : array [worker]
        Probability of being right.
    n_classes, n_labels : int
        Numbers of classes and label values.

    Returns
    -------
    array [worker, class, label]
        Rows sum to one; labels that are no class are never given.
    """
    wrong = (1 - right) / max(n_classes - 1, 1)
    table = np.tile(wrong[:, None, None], (1, n_classes, n_classes))
    own = np.arange(n_classes)
    table[:, own, own] = right[:, None]
    return with_other_labels(table, n_labels)
