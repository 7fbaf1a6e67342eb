"""EM: seconds per pass and to convergence, ours, a plain JAX scatter's, and crowd-kit's."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import Clock, Compilations, log_likelihood
from benchmarks.tables import LabelTable


def fit_bayescrowd(clock: Clock, table: LabelTable, *, text: bool = False, **options: Any) -> dict[str, Any]:
    """Cold, from a DataFrame in memory to class probabilities."""
    frame = table.frame(text=text)
    with clock:
        import bayescrowd as bc

        bc.fit  # noqa: B018 - names are loaded lazily
        compilations = Compilations()
        clock.lap("import")
        labels = bc.CrowdLabels.from_long(frame, item="task", worker="worker", label="label", duplicates="keep")
        clock.lap("labels")
        fit = bc.fit(labels, engine="em", progress=False, **options)
        clock.lap("fit")
        probabilities = fit.class_probabilities()
        clock.lap("probabilities")
    facts = {"compilations": compilations.count, "compile_seconds": compilations.seconds, "converged": fit.converged}
    if text:
        return facts
    item, worker, klass = (ids.to_numpy() for ids in (labels.items, labels.workers, labels.classes))
    point = fit.idata["point_estimate"]
    confusion = np.zeros((int(table.worker.max()) + 1, table.n_classes, table.n_classes))
    confusion[np.ix_(worker, klass, labels.label_values.to_numpy())] = point["confusion"].to_numpy()
    prevalence = np.zeros(table.n_classes)
    prevalence[klass] = point["prevalence"].to_numpy()
    predicted = np.full(len(table.truth), -1)
    predicted[item] = probabilities.columns.to_numpy()[probabilities.to_numpy().argmax(axis=1)]
    return facts | {
        "passes": len(fit.idata["optimization"]["objective"]),
        "objective": np.asarray(fit.idata["optimization"]["objective"]).tolist(),
        "log_likelihood": log_likelihood(table.item, table.worker, table.label, prevalence, confusion),
        "accuracy": table.accuracy(predicted),
    }


def fit_crowdkit(clock: Clock, table: LabelTable, *, n_iter: int = 100, tol: float = 1e-5) -> dict[str, Any]:
    """The same by crowd-kit."""
    frame = table.frame()
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about crowd-kit's own calls
        from crowdkit.aggregation import DawidSkene

        clock.lap("import")
        peer = DawidSkene(n_iter=n_iter, tol=tol)
        clock.known_when_capped = lambda: {"passes": len(getattr(peer, "loss_history_", []))}
        probabilities = peer.fit_predict_proba(frame)
        clock.lap("fit")
    classes = table.n_classes
    confusion = np.zeros((int(table.worker.max()) + 1, classes, classes))
    errors = peer.errors_.reset_index()
    columns = peer.errors_.columns.to_numpy(int)
    at = (errors["worker"].to_numpy()[:, None], columns, errors["label"].to_numpy()[:, None])
    confusion[at] = errors[list(columns)]
    prevalence = np.zeros(classes)
    prevalence[peer.priors_.index.to_numpy(int)] = peer.priors_.to_numpy()
    best = probabilities.to_numpy().argmax(axis=1)
    predicted = np.full(len(table.truth), -1)
    predicted[probabilities.index.to_numpy()] = probabilities.columns.to_numpy()[best]
    return {
        "passes": len(peer.loss_history_),
        "converged": len(peer.loss_history_) < n_iter,
        "log_likelihood": log_likelihood(table.item, table.worker, table.label, prevalence, confusion),
        "accuracy": table.accuracy(predicted),
    }


def per_pass(run: Callable[[int], Any], few: int, many: int, repeats: int) -> float:
    """Seconds of one pass: the fastest run of many passes less the fastest run of few, after both ran once."""
    seconds: dict[int, list[float]] = {few: [], many: []}
    for passes in (few, many):
        run(passes)
    for _ in range(repeats):
        for passes, taken in seconds.items():
            begun = time.perf_counter()
            run(passes)
            taken.append(time.perf_counter() - begun)
    return (min(seconds[many]) - min(seconds[few])) / (many - few)


def pass_bayescrowd(
    clock: Clock, table: LabelTable, *, few: int = 8, many: int = 64, repeats: int = 3, **options: Any
) -> dict[str, Any]:
    """EM passes of `bayescrowd.fit`, after compile."""
    import bayescrowd as bc

    codes = (table.item, table.worker, table.label)
    labels = bc.CrowdLabels.from_codes(*codes, classes=table.n_classes)
    done = set()

    def run(passes: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bc.ConvergenceWarning)
            fit = bc.fit(
                labels, engine="em", max_iter=passes, tolerance=0.0, change_tolerance=0.0, progress=False, **options
            )
        done.add((passes, len(fit.idata["optimization"]["objective"])))

    with clock:
        seconds = per_pass(run, few, many, repeats)
    if any(asked != got for asked, got in done):
        raise RuntimeError(f"passes asked and made: {sorted(done)}")
    return {"seconds_per_pass": seconds, "labels_per_second": len(table.item) / seconds}


def pass_scatter(
    clock: Clock, table: LabelTable, *, double: bool = False, few: int = 2, many: int = 12, repeats: int = 3
) -> dict[str, Any]:
    """EM passes written the plain way: gather, scatter-add by item, softmax, scatter-add by (worker, label)."""
    import jax
    import jax.numpy as jnp

    n_items, n_workers, n_classes = len(table.truth), int(table.worker.max()) + 1, table.n_classes
    with jax.enable_x64(double):
        item, worker, label = (jnp.asarray(codes) for codes in (table.item, table.worker, table.label))
        cell = worker * n_classes + label
        votes = jnp.zeros((n_items, n_classes)).at[item, label].add(1.0)
        start = votes / jnp.maximum(votes.sum(axis=1, keepdims=True), 1)

        @jax.jit
        def passes(rows: Any, item: Any, cell: Any, count: Any) -> Any:
            def one(_: Any, rows: Any) -> Any:
                used = jnp.zeros((n_workers * n_classes, n_classes), rows.dtype).at[cell].add(rows[item])
                table = used.reshape(n_workers, n_classes, n_classes)
                confusion = table / jnp.maximum(table.sum(axis=1, keepdims=True), 1e-30)
                logs = jnp.log(jnp.maximum(confusion, 1e-30)).reshape(-1, n_classes)
                joint = jnp.broadcast_to(jnp.log(rows.mean(axis=0)), rows.shape).at[item].add(logs[cell])
                return jax.nn.softmax(joint, axis=1)

            return jax.lax.fori_loop(0, count, one, rows)

        with clock:
            seconds = per_pass(lambda count: passes(start, item, cell, count).block_until_ready(), few, many, repeats)
    return {"seconds_per_pass": seconds, "labels_per_second": len(table.item) / seconds}


def pass_crowdkit(clock: Clock, table: LabelTable, *, few: int = 1, many: int = 4) -> dict[str, Any]:
    """EM passes of crowd-kit (each with its lower bound, by which it stops)."""
    from crowdkit.aggregation import DawidSkene

    frame = table.frame()
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = per_pass(lambda count: DawidSkene(n_iter=count, tol=-1.0).fit(frame), few, many, 1)
    return {"seconds_per_pass": seconds, "labels_per_second": len(table.item) / seconds}
