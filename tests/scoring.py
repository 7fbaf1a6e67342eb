"""How often a fit is right on labels with truth."""

from __future__ import annotations

import pandas as pd

import bayescrowd as bc


def hits(table: pd.DataFrame, truth: pd.Series) -> float:
    """Share of the items with truth that the leading class gets right; ties are shared."""
    values = table.loc[truth.index].to_numpy()
    leads = values >= values.max(axis=1, keepdims=True) - 1e-9
    right = table.columns.to_numpy()[None] == truth.to_numpy()[:, None]
    return float(((leads & right).sum(axis=1) / leads.sum(axis=1)).mean())


def accuracy(fit: bc.Fit) -> float:
    return hits(fit.class_probabilities(), fit.labels.truth.dropna())
