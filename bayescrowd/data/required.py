"""What functions of a label table say to those who pass something else."""

from pathlib import Path

import numpy as np
import pandas as pd

from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import LabelError, shorten

__all__ = ["require_labels"]


def require_labels(labels: object, function: str = "fit") -> None:
    """Refuse what is no label table, or an empty one, with the line to write instead.

    Parameters
    ----------
    labels : object
        What the user passed.
    function : str
        To which function.

    Raises
    ------
    LabelError
        Where it cannot be used.
    """
    if isinstance(labels, CrowdLabels):
        if labels.n_items == 0 or labels.n_annotations == 0:
            raise LabelError("there are no labels to fit: the table has no rows")
        return
    if isinstance(labels, pd.DataFrame):
        columns = [str(column) for column in labels.columns]
        raise LabelError(
            f"{function} takes a CrowdLabels, not a DataFrame (its columns: {shorten(columns, 10)}). Write\n"
            f'    labels = bc.CrowdLabels.from_long(df, item="...", worker="...", label="...")\n'
            f'    labels = bc.CrowdLabels.from_wide(df, items="rows")\n'
            f"and pass that"
        )
    if isinstance(labels, str | Path):
        raise LabelError(
            f"{function} takes a CrowdLabels, not a path. Write\n    bc.{function}(bc.read_labels({str(labels)!r}))"
        )
    if isinstance(labels, np.ndarray):
        raise LabelError(
            f"{function} takes a CrowdLabels, not an array. Write\n"
            f'    labels = bc.CrowdLabels.from_wide(array, items="rows")\nand pass that'
        )
    raise LabelError(
        f"{function} takes a CrowdLabels, not a {type(labels).__name__}; make one with bc.read_labels(path) or "
        f"bc.CrowdLabels.from_long(df, item=..., worker=..., label=...)"
    )
