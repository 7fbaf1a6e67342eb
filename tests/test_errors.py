import numpy as np
import pytest

from bayescrowd import errors


def test_all_errors_are_value_errors_and_warnings_user_warnings():
    for name in ("LabelError", "ModelError", "EngineError", "DatasetError"):
        assert issubclass(getattr(errors, name), errors.BayescrowdError)
    assert issubclass(errors.BayescrowdError, ValueError)
    assert issubclass(errors.ConvergenceWarning, errors.BayescrowdWarning)
    assert issubclass(errors.BayescrowdWarning, UserWarning)


def test_problems_message_lists_all():
    assert errors.problems_message("no", []) == "no"
    assert errors.problems_message("no", ["a."]) == "no: a."
    assert errors.problems_message("no", ["a.", "b."]) == "no (2 problems):\n- a.\n- b."
    assert "(2 remarks)" in errors.problems_message("no", ["a.", "b."], "remark")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "none"),
        ([1, "a"], "1, 'a'"),
        (range(6), "0, 1, 2, 3, 4, 5"),
        (range(7), "0, 1, 2, 3, 4 and 2 more"),
        (np.array([1.5, 2.5]), "1.5, 2.5"),
        ((value for value in "ab"), "'a', 'b'"),
    ],
)
def test_shorten(values, text):
    assert errors.shorten(values) == text


def test_shorten_cuts_long_values():
    assert len(errors.shorten(["x" * 1000])) <= 60
