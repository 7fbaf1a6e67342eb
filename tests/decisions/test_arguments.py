from __future__ import annotations

import subprocess
import sys
import textwrap

import fitted
import numpy as np
import pytest

from bayescrowd.decisions.arguments import check_interval, check_refits, check_seed
from bayescrowd.decisions.workers import confusion, workers
from bayescrowd.errors import EngineError, LabelError


@pytest.mark.parametrize("seed", ["x", 1.5, -1, True, 2**32, None])
def test_bad_seeds(seed: object) -> None:
    with pytest.raises(LabelError, match="seed must be a whole number from 0"):
        check_seed(seed)


@pytest.mark.parametrize("interval", ["a", True, 0, 1, 89, float("nan"), None, [0.5]])
def test_bad_intervals(interval: object) -> None:
    with pytest.raises(LabelError, match="interval must be a probability between 0 and 1"):
        check_interval(interval)


@pytest.mark.parametrize("bootstrap", [2.5, "3", 1, 0, -4, True])
def test_bad_numbers_of_refits(bootstrap: object) -> None:
    with pytest.raises(EngineError, match="bootstrap must be a whole number of refits"):
        check_refits(bootstrap)


def test_good_arguments_of_numpy() -> None:
    assert (check_seed(np.int64(3)), check_interval(np.float64(0.5)), check_refits(np.int32(7))) == (3, 0.5, 7)


def test_bootstrap_on_draws_is_checked_and_said_to_be_unneeded() -> None:
    tree = fitted.nuts().idata
    assert "bootstrap=50 was not needed" in workers(tree, bootstrap=50).attrs["intervals"]
    with pytest.raises(EngineError, match="bootstrap must be"):
        workers(tree, bootstrap=1)


def test_difficulty_of_a_model_without_levels() -> None:
    with pytest.raises(LabelError, match=r"difficulty='hard': model 'dawid-skene' has no levels"):
        confusion(fitted.em().idata, "w1", difficulty="hard")


def test_arguments_of_wrong_types_get_a_sentence() -> None:
    # In a process of its own: here annotations are checked before our checks are reached.
    program = textwrap.dedent(
        """
        import bayescrowd as bc
        labels = bc.datasets.load("anesthesia")
        fit = bc.fit(labels)
        calls = {
            "interval must be": lambda: fit.workers(interval="a"),
            "interval must": lambda: fit.confusion(1, interval="a"),
            "bootstrap must be": lambda: fit.workers(bootstrap=2.5),
            "seed must be a whole": lambda: fit.workers(bootstrap=3, seed="x"),
            "seed must be": lambda: fit.consensus(ties="random", seed=-1),
            "seed must": lambda: fit.consensus(seed="x"),
            "seed": lambda: fit.predict(labels, seed=None),
            "cannot load from None: give the name of a file": lambda: bc.load(None),
            "cannot save to None: give the name of a file": lambda: fit.save(None),
            "progress must be True, False or None": lambda: bc.fit(labels, progress="yes"),
        }
        for expected, call in calls.items():
            try:
                call()
            except bc.BayescrowdError as error:
                if expected not in str(error):
                    raise SystemExit(f"{expected}: {error}")
            else:
                raise SystemExit(f"{expected}: no error")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
