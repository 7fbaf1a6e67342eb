"""Real data: what `bc.fit(labels)` chooses, against majority vote."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scoring import accuracy, hits

import bayescrowd as bc
from bayescrowd.inference.starts import majority

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::bayescrowd.ConvergenceWarning"),
]

CATEGORICAL = [
    "food",
    "politifact",
    "weather_cf",
    "plot",
    "labelme",
    "music",
    "ws_video",
    "bluebird",
    "temp",
    "barzan",
    "face",
    "weather_amt",
    "rte",
    "dog",
    "sp_amt",
    "zencrowd_in",
    "zencrowd_us",
    "web",
    "color",
]
"""Every categorical set with truth of at most 20,000 labels; docs/models.md has the ten larger ones, too."""


@pytest.mark.parametrize("name", CATEGORICAL)
def test_the_default_is_no_worse_than_majority(name, unrepeated):
    """By more than one point, or, below 1000 items with truth, by two standard errors."""
    labels = unrepeated(name)
    truth = labels.truth.dropna()
    votes = hits(pd.DataFrame(majority(labels), index=labels.items, columns=labels.classes), truth)
    n = len(truth)
    allowed = 2 * np.sqrt(votes * (1 - votes) / n) if n < 1000 else 0.01
    fit = bc.fit(labels, progress=False)
    assert accuracy(fit) >= votes - max(allowed, 0.01 if n < 1000 else 0)
    assert len(fit.idata.attrs["choice"]) == 2
