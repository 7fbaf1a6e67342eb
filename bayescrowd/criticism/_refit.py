"""Fit again without some pieces, by the same engine and settings, and judge these pieces by what comes out."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from bayescrowd.criticism._refit_pieces import by_item, by_pairs, lay_out, piece_of_row
from bayescrowd.criticism._refit_worker import has_closed_form, new_worker
from bayescrowd.criticism.chains import R_HAT_KEY, r_hat
from bayescrowd.criticism.likelihood import name_pieces
from bayescrowd.data.labels import CrowdLabels
from bayescrowd.errors import EngineError, ModelError, count_of
from bayescrowd.inference import get as get_engine
from bayescrowd.inference import names as engine_names
from bayescrowd.inference.base import Job, Run, sizes_of
from bayescrowd.inference.progress import reporter
from bayescrowd.model import Model
from bayescrowd.results.tree import json_attribute, labels_of, model_of, start_of

__all__ = ["FEWEST_EFFECTIVE", "Held", "Refits", "caveats"]

FEWEST_EFFECTIVE = 25
"""An average that rests on fewer effective draws is rough."""

_PARTICLES = 1000
"""Imputations where there is one point estimate instead of draws."""

_KEEP = 1000


class Held(NamedTuple):
    """What a refit says of the pieces that it has not seen.

    Parameters
    ----------
    log_mean : array [piece]
        Log of the average over draws of the probability of the piece's labels.
    effective : array [piece]
        Number of draws that this average rests on; infinite for a point estimate that is plugged in.
    n_samples : int
        How many draws there were.
    settled : bool
        False where the engine did not converge or the chains disagree.
    """

    log_mean: np.ndarray
    effective: np.ndarray
    n_samples: int
    settled: bool


class Refits:
    """Fits of the same labels without some pieces.

    Parameters
    ----------
    tree : DataTree
        A result.
    by : str
        Kind of piece.
    seed : int
        Seed of all refits.

    Raises
    ------
    EngineError
        Where the result is not from an engine.
    """

    def __init__(self, tree: xr.DataTree, by: str, seed: int) -> None:
        name = str(tree.attrs["engine"])
        if name not in engine_names():
            raise EngineError(
                f"{name} is no engine, so it cannot be fitted again without some labels: fit a model, bc.fit(labels)"
            )
        self._engine = get_engine(name)
        options = json_attribute(tree, "settings")
        # One start is enough: it is the optimum that the fit found. Draws are needed here even where none were kept.
        if "starts" in options:
            options["starts"] = 1
        if options.get("keep") == 0:
            options["keep"] = min(options["draws"], _KEEP)
        self._settings = self._engine.settings(**options)
        self._tree = tree
        self._by = by
        self._seed = seed
        self.model: Model = model_of(tree)
        self.labels: CrowdLabels = labels_of(tree)
        self._start = start_of(tree)
        self._drops_items = _items_can_go(self.model, self.labels)
        self._closed = by == "worker" and has_closed_form(self.model, sizes_of(self.labels))

    def without(self, pieces: np.ndarray, key: int) -> Held:
        """Fit without some pieces and judge each of them.

        Parameters
        ----------
        pieces : int array
            Positions of the pieces, ascending.
        key : int
            Tells the randomness of this refit from that of others.

        Returns
        -------
        Held
            By piece.

        Raises
        ------
        EngineError
            Where the engine cannot fit what is left, or fails.
        KeyboardInterrupt
            Where the refit was interrupted.
        """
        random = np.random.default_rng([self._seed, key])
        run = self._fit(pieces, int(random.integers(2**31)))
        if run.status.code == "interrupted":  # engines keep what they have; half a refit is of no use here
            raise KeyboardInterrupt
        if run.status.code == "failed":
            raise EngineError(f"the fit without {self._named(pieces)} failed: {run.status.sentence}")
        if run.draws is not None:
            lead = next(iter(run.draws.values())).shape[:2]
            samples = {name: value.reshape(-1, *value.shape[2:]) for name, value in run.draws.items()}
        else:
            lead = ()
            samples = {name: np.asarray(value)[None] for name, value in (run.points or {}).items()}
        plugged_in = not lead
        log_sum = np.full(len(pieces), -np.inf)
        log_square = np.full(len(pieces), -np.inf)
        totals = []
        for part in self._judge(samples, pieces, random, _PARTICLES if plugged_in else 1):
            log_sum = np.logaddexp(log_sum, np.logaddexp.reduce(part, axis=0))
            log_square = np.logaddexp(log_square, np.logaddexp.reduce(2 * part, axis=0))
            totals.append(part.sum(axis=1))
        total = np.concatenate(totals)
        n_samples = len(total)
        possible = np.isfinite(log_sum)
        effective = np.exp(np.where(possible, 2 * np.where(possible, log_sum, 0.0) - log_square, 0.0))
        settled = run.status.converged is not False and (not lead or run.independent or _agree(total.reshape(lead)))
        return Held(
            log_sum - np.log(n_samples),
            np.full(len(pieces), np.inf) if plugged_in and not self._closed else effective,
            1 if plugged_in else n_samples,
            settled,
        )

    def _fit(self, pieces: np.ndarray, seed: int) -> Run:
        labels, start = self.labels, self._start
        out = np.isin(piece_of_row(labels, self._by), pieces)
        has_labels = np.bincount(labels.item_code, minlength=labels.n_items) > 0
        left = np.bincount(labels.item_code[~out], minlength=labels.n_items) > 0
        if self._by == "item":
            gone = np.zeros(labels.n_items, bool)
            gone[pieces] = True
        else:
            gone = has_labels & ~left & (labels.gold_code < 0)
        if not left.any():
            remedy = ": use more folds" if len(pieces) > 1 else ", so it cannot be left out"
            raise EngineError(f"without {self._named(pieces)} no label is left to fit{remedy}")
        if self._drops_items:
            # An item without labels adds nothing to a posterior, but in an approximation it passes for evidence.
            labels, start = take(labels, ~out, np.flatnonzero(~gone)), start[~gone]
        else:
            labels = dataclasses.replace(
                take(labels, ~out), gold_code=np.where(gone, -1, labels.gold_code).astype(np.int32)
            )
            start = np.where(gone[:, None], start.mean(axis=0), start)
        try:
            with reporter(False) as silent:
                return self._engine.run(Job(self.model, labels, start, self._settings, seed, silent))
        except (EngineError, ModelError) as error:
            raise EngineError(f"the fit without {self._named(pieces)} failed: {error}") from error

    def _judge(
        self, samples: Mapping[str, np.ndarray], pieces: np.ndarray, random: np.random.Generator, particles: int
    ) -> Iterator[np.ndarray]:
        """Log probability [sample, piece] of the pieces' labels given all others, chunk after chunk."""
        labels = self.labels
        of_row = piece_of_row(labels, self._by)
        out = np.isin(of_row, pieces)
        if self._by == "item":
            if self._drops_items:
                yield from by_item(self.model, samples, take(labels, out, pieces))
            else:
                for part in by_item(self.model, samples, take(labels, out)):
                    yield part[:, pieces]
        elif self._closed:
            columns = []
            for worker in pieces:
                table = take(labels, ~out | (of_row == worker))
                parts = new_worker(self.model, samples, table, int(worker), random, particles)
                columns.append(np.concatenate(list(parts)))
            yield np.stack(columns, axis=1)
        else:
            piece = np.where(out, np.searchsorted(pieces, of_row), -1)
            yield from by_pairs(self.model, samples, lay_out(labels, piece, len(pieces), left_out=True))

    def _named(self, pieces: np.ndarray) -> str:
        return f"{self._by} {name_pieces(self._tree, self._by, pieces)}"


def caveats(tree: xr.DataTree, by: str, unsettled: int, without: str, rough: np.ndarray) -> list[str]:
    """Say which refits cannot be relied on.

    Parameters
    ----------
    tree : DataTree
        The result that was fitted again.
    by : str
        Kind of piece.
    unsettled : int
        How many refits did not settle.
    without : str
        What these had left out.
    rough : int array
        Positions of the pieces whose values rest on too few effective draws.

    Returns
    -------
    list of str
        Sentences; none where all is well.
    """
    found = []
    if unsettled:
        found.append(
            f"{count_of(unsettled, 'fit')} did not converge, without {without}: fit again with more passes, or more "
            "warmup and draws, and ask again."
        )
    if len(rough):
        found.append(
            f"The values of {count_of(len(rough), by)} ({name_pieces(tree, by, rough)}) rest on fewer than "
            f"{FEWEST_EFFECTIVE} effective draws: they are rough, and probably too low; more draws help."
        )
    return found


def take(labels: CrowdLabels, rows: np.ndarray, items: np.ndarray | None = None) -> CrowdLabels:
    """Take some annotations, and some items; classes, label values and workers stay known.

    Parameters
    ----------
    labels : CrowdLabels
        The label table.
    rows : bool array [annotation]
        Which annotations; none of other items than those taken.
    items : int array, optional
        Positions of the items, ascending; by default all.

    Returns
    -------
    CrowdLabels
        Without truth, patterns and notes.
    """
    chosen = np.arange(labels.n_items) if items is None else items
    code = np.zeros(labels.n_items, np.int32)
    code[chosen] = np.arange(len(chosen))
    return dataclasses.replace(
        labels,
        items=labels.items.take(chosen),
        item_code=code[labels.item_code[rows]],
        worker_code=labels.worker_code[rows],
        label_code=labels.label_code[rows],
        weight=None if labels.weight is None else labels.weight[rows],
        gold_code=labels.gold_code[chosen],
        truth=None,
        patterns=None,
        notes=(),
    )


def _items_can_go(model: Model, labels: CrowdLabels) -> bool:
    """Say whether items are exchangeable to the model: none has parameters or constants of its own."""
    sites = model.sites(sizes_of(labels), values=False).values()
    own = any("item" in site.dims for site in sites)
    kind = type(model)
    alike = kind.log_state is Model.log_state and kind.state_cells is Model.state_cells
    return alike and not own and not model.uses_item


def _agree(total: np.ndarray) -> bool:
    """Say whether chains agree about log probabilities [chain, draw]; too few draws do not disagree."""
    if not np.isfinite(total).all() or np.ptp(total) < 1e-12:
        return True
    return not r_hat(total[..., None])[0] > R_HAT_KEY
