"""Fits in several threads: NumPyro's handlers are global, our tracing is not allowed to collide."""

import threading

import numpy as np
import pytest

import bayescrowd as bc


def in_threads(n, work):
    found, errors = [None] * n, []

    def one(index):
        try:
            found[index] = work(index)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must see it
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return found


@pytest.mark.slow
def test_em_in_threads_gives_what_one_thread_gives():
    # Sizes that nothing else uses, so that every thread finds nothing compiled.
    crowds = [
        bc.simulate(bc.DawidSkene(), n_items=70 + 30 * i, n_workers=6 + i, classes=3, seed=i).labels for i in range(4)
    ]
    fits = in_threads(4, lambda index: bc.fit(crowds[index], progress=False, engine="em").class_probabilities())
    for crowd, fit in zip(crowds, fits, strict=True):
        np.testing.assert_array_equal(fit, bc.fit(crowd, progress=False, engine="em").class_probabilities())


@pytest.mark.slow
def test_nuts_in_threads():
    labels = bc.simulate(bc.DawidSkene(), n_items=33, n_workers=4, seed=5).labels
    options = {"engine": "nuts", "chains": 2, "warmup": 150, "draws": 200, "progress": False}
    fits = in_threads(2, lambda index: bc.fit(labels, seed=index, **options).class_probabilities().to_numpy())
    np.testing.assert_array_equal(fits[1], bc.fit(labels, seed=1, **options).class_probabilities())
