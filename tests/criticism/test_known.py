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


def test_a_table_is_told_how_to_become_a_series() -> None:
    z, said = p41(n=60)
    tree = tree_of(said)
    tables = {
        "truth.set_index('item')['label']": pd.DataFrame({"item": np.arange(60), "label": z}),
        "truth.set_index('task')['truth']": pd.DataFrame({"truth": z, "n": 1, "task": np.arange(60)}),
        "truth['answer']": pd.DataFrame({"answer": z}),
    }
    for remedy, truth in tables.items():
        with pytest.raises(LabelError) as caught:
            known_classes(tree, truth)
        assert str(caught.value).endswith(f"not a DataFrame: pass {remedy}")
        assert known_classes(tree, eval(remedy, {"truth": truth}))[0].tolist() == z.tolist()


def test_grammar_of_two_classes() -> None:
    tree = tree_of(p41(n=60)[1])
    with pytest.raises(LabelError, match="1 item has two classes: 0. Keep one"):
        known_classes(tree, pd.Series([1, 0], index=[0, 0]))
    with pytest.raises(LabelError, match="2 items have two classes: 0, 1. Keep one"):
        known_classes(tree, pd.Series([1, 0, 0, 1], index=[0, 0, 1, 1]))


@pytest.mark.parametrize("no", [False, np.False_])
def test_false_is_no_truth(no: Any) -> None:
    z, said = p41(n=60)
    tree = tree_of(said, truth=pd.Series(z))
    for look in (known_classes, calibration):
        with pytest.raises(LabelError, match="True for labels.truth, not False"):
            look(tree, no)
