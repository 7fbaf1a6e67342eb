"""How well classes and difficulty levels of simulated items are found again."""

from __future__ import annotations

import numpy as np
import running

import bayescrowd as bc


def recovery(model, engine, labels_per_item, seed=0, **options):
    """Shares of classes and of levels that are right."""
    made = bc.simulate(model, n_items=160, n_workers=16, classes=3, labels_per_item=labels_per_item, seed=seed)
    assert made.difficulty.shape == (160,)
    assert set(np.unique(made.difficulty)) <= set(range(model.n_levels))
    truth = np.array([made.labels.classes.get_loc(value) for value in made.labels.truth])
    run = running.run(made.labels, model, engine, **options)
    by_level = run.state_probability.reshape(160, model.n_levels, 3)
    return (by_level.sum(1).argmax(1) == truth).mean(), (by_level.sum(2).argmax(1) == made.difficulty).mean()
