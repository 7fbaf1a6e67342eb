from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from panels import p41, tree_of

from bayescrowd.criticism.calibration import calibration
from bayescrowd.criticism.known import known_classes
from bayescrowd.errors import LabelError


@pytest.mark.parametrize("yes", [True, np.True_, None])
def test_true_is_the_truth_of_the_labels(yes: Any) -> None:
    z, said = p41(n=60)
    tree = tree_of(said, truth=pd.Series(z[:50]))
    code, notes = known_classes(tree, yes)
    assert code.tolist() == [*z[:50].tolist(), *[-1] * 10]
    assert notes == []
    pd.testing.assert_frame_equal(calibration(tree, yes).scores, calibration(tree).scores)
    with pytest.raises(LabelError, match="no class is known"):
        known_classes(tree_of(said), yes)


@pytest.mark.parametrize("no", [False, np.False_])
def test_false_is_no_truth(no: Any) -> None:
    z, said = p41(n=60)
    tree = tree_of(said, truth=pd.Series(z))
    for look in (known_classes, calibration):
        with pytest.raises(LabelError, match="True for labels.truth, not False"):
            look(tree, no)
