"""The part of `Fit` that answers: classes of items, reports on workers, predictions."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
import xarray as xr

from bayescrowd.decisions.consensus import class_probabilities, consensus
from bayescrowd.decisions.explanation import explain
from bayescrowd.decisions.items import items
from bayescrowd.decisions.prediction import predict
from bayescrowd.decisions.workers import confusion, workers

__all__ = ["Answers"]


class Answers:
    """What a result says of items and workers."""

    __slots__ = ()

    _tree: xr.DataTree

    def consensus(
        self,
        *,
        by: str = "item",
        ties: str = "first",
        seed: int = 0,
    ) -> pd.DataFrame:
        """Give the most probable class of each item.

        Parameters
        ----------
        by : {"item", "pattern"}
            One row per item, or one per response pattern (for labels from `CrowdLabels.from_counts`).
        ties : {"first", "abstain", "random"}
            What ``class`` and ``majority`` say where several classes lead equally: the first of them in the order of
            the classes (so the order of rows never matters), ``pandas.NA``, or one at random by ``seed`` and item id.
        seed : int
            For ``ties="random"``.

        Returns
        -------
        DataFrame by item
            ``class``, ``probability`` (of that class), ``entropy`` (nats), ``n_labels``, ``majority`` (what most votes
            say; NA without votes), ``tie`` (True where the majority vote is tied).

        Raises
        ------
        LabelError
            For ``by="pattern"`` without patterns, an unknown option, or a seed that is none.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> table = bc.fit(bc.datasets.load("anesthesia"), engine="em").consensus()
        >>> table.loc[2, ["class", "majority", "tie"]].to_dict()
        {'class': 4, 'majority': 3, 'tie': False}
        """
        return consensus(self._tree, by=by, ties=ties, seed=seed)

    def class_probabilities(self, *, by: str = "item") -> pd.DataFrame:
        """Give the posterior probability of each class for each item.

        Parameters
        ----------
        by : {"item", "pattern"}
            One row per item, or one per response pattern.

        Returns
        -------
        DataFrame [item, class]
            Rows (items) and columns (classes) bear the user's ids, in the order of the labels; rows sum to one.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> bc.fit(bc.datasets.load("anesthesia")).class_probabilities().loc[3].round(3).to_dict()
        {1: 0.365, 2: 0.635, 3: 0.0, 4: 0.0}
        """
        return class_probabilities(self._tree, by=by)

    def items(self, *, by: str = "item") -> pd.DataFrame:
        """Report how difficult each item is: the posterior probability of each difficulty level.

        Parameters
        ----------
        by : {"item", "pattern"}
            One row per item, or one per response pattern.

        Returns
        -------
        DataFrame by item
            A column per level (its probability), ``difficulty`` (most probable level; the first where several lead),
            ``probability`` (of that level), ``entropy`` (nats), ``n_labels`` and ``agreement`` (share of the votes for
            the leading class). For a model without levels only the last two (and what a method such as GLAD estimates
            of items), and ``attrs["difficulty"]`` says so.

        Raises
        ------
        LabelError
            For ``by="pattern"`` without patterns, or an unknown ``by``.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> table = bc.fit(bc.datasets.load("anesthesia"), bc.IDBLA(n_levels=2), engine="em").items()
        >>> table[["1", "2"]].sum(axis=1).round(6).unique().tolist()
        [1.0]
        """
        return items(self._tree, by=by)

    def workers(self, *, interval: float = 0.89, bootstrap: int | None = None, seed: int = 0) -> pd.DataFrame:
        """Report how good each worker is, and how sure one may be of that.

        Parameters
        ----------
        interval : float
            Probability of the equal-tailed intervals.
        bootstrap : int, optional
            For engines without draws: number of refits to resampled items from which intervals and probabilities come.
            Draws need none: there ``attrs["intervals"]`` notes that it was not used.
        seed : int
            Seed of the resampling.

        Returns
        -------
        DataFrame by worker
            ``n_labels``, ``accuracy``, ``accuracy_lower``, ``accuracy_upper``, ``informativeness`` (bits that a label
            tells about the class), ``p_spammer`` (P(informativeness < .05), one worker in ten being taken to label at
            random before any label is seen), ``p_adversary`` (P(accuracy < chance)). Without draws the intervals are
            NaN and ``attrs["intervals"]`` says why.

        Raises
        ------
        LabelError
            For an interval that is no probability, or a seed that is none.
        EngineError
            For a number of refits that is none, or a method without confusion matrices.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> bc.fit(bc.datasets.load("anesthesia")).workers()["n_labels"].tolist()
        [135, 45, 45, 45, 45]
        """
        return workers(self._tree, interval=interval, bootstrap=bootstrap, seed=seed)

    def explain(self, item: Hashable) -> pd.DataFrame:
        """Tell why an item got its class: the evidence that the prevalence and every label bring, in log-odds.

        Parameters
        ----------
        item : hashable
            The item's id.

        Returns
        -------
        DataFrame
            A row for the prevalence and one for every label: ``worker``, ``label``, ``weight``, and per class the log
            probability of that label minus its average over classes.

        Raises
        ------
        LabelError
            For an unknown item.
        ModelError
            For models without confusion matrices.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> bc.fit(bc.datasets.load("anesthesia")).explain(3)["worker"].tolist()
        [None, 1, 1, 1, 2, 3, 4, 5]
        """
        return explain(self._tree, item)

    def confusion(
        self, worker: Hashable, *, interval: float | None = None, difficulty: str | None = None
    ) -> pd.DataFrame:
        """Give the confusion matrix of a worker: P(label | class).

        Parameters
        ----------
        worker : hashable
            The worker's id.
        interval : float, optional
            Also give equal-tailed intervals of this probability (for engines with draws).
        difficulty : str, optional
            A level of difficulty; by default the levels are averaged by their share.

        Returns
        -------
        DataFrame [class, label]
            Rows sum to one.

        Raises
        ------
        LabelError
            For an unknown worker or level, or an interval that is no probability.

        Examples
        --------
        >>> import bayescrowd as bc
        >>> bc.fit(bc.datasets.load("anesthesia")).confusion(1).shape
        (4, 4)
        """
        return confusion(self._tree, worker, interval=interval, difficulty=difficulty)

    def predict(self, new_labels: Any, *, seed: int = 0) -> pd.DataFrame:
        """Give class probabilities of new items from what known and unknown workers say about them.

        Parameters
        ----------
        new_labels : CrowdLabels or DataFrame
            New labels; a DataFrame needs columns ``item``, ``worker``, ``label`` and may have ``weight`` and ``gold``.
            Every item counts as new and is judged by these labels alone, even if the fit knows an item of that id.
            Workers that the fit does not know answer as the prior expects.
        seed : int
            Seed of the draws for unknown workers.

        Returns
        -------
        DataFrame [item, class]
            Rows sum to one.

        Raises
        ------
        LabelError
            Listing label values that the fit does not know, missing columns, and weights or gold that cannot be used.

        Examples
        --------
        >>> import bayescrowd as bc, pandas as pd
        >>> fit = bc.fit(bc.datasets.load("anesthesia"))
        >>> new = pd.DataFrame({"item": ["p46", "p46"], "worker": [1, 2], "label": [3, 3]})
        >>> fit.predict(new).idxmax(axis=1).tolist()
        [3]
        """
        return predict(self._tree, new_labels, seed=seed)
