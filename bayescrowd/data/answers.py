"""How the answers in a text file become values."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from bayescrowd.data.files import is_integer, numbers_of_text
from bayescrowd.data.validate import as_list

__all__ = ["answer_reader"]


def answer_reader(columns: list[pd.Series], said: Mapping[str, Any]) -> Callable[[pd.Series], pd.Series]:
    """How to read the answers (labels, gold, truth) of a text file.

    ``columns`` (labels and gold) decide together whether answers are integers. A text that ``str`` of a declared
    value or missing marker gives is that value, so that classes False and True, or .5, are found in the text.
    """
    named: dict[str, object] = {str(marker): marker for marker in as_list(said.get("missing"))}
    declared = [*_declared(said.get("labels")), *_declared(said.get("classes"))]
    texts = {str(text) for column in columns for text in column.unique()} - set(named)
    named |= {str(value): value for value in declared}
    if declared:
        integers = all(type(value) is int for value in declared)
    else:
        integers = all(is_integer(text) for text in texts if text.strip())

    def read(column: pd.Series) -> pd.Series:
        if integers and not named:
            whole = numbers_of_text(column)
            if whole is not column:
                return whole
        codes, found = pd.factorize(column)
        texts = [str(text) for text in found]
        values: list[object] = []
        for text in texts:
            if text in named:
                values.append(named[text])
            else:
                values.append(int(text) if integers and is_integer(text) else text)
        if all(isinstance(value, str) for value in values):
            return column
        box = pd.Series(values, dtype=object).array
        return pd.Series(box.take(codes), index=column.index, name=column.name)

    return read


def _declared(values: object) -> list[object]:
    if isinstance(values, pd.CategoricalDtype):
        values = values.categories
    return as_list(values)
