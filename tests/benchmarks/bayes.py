"""Variational passes and Gibbs sweeps: seconds after compile, beside a plain JAX scan; memory against draws."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from benchmarks.em import per_pass
from benchmarks.measure import Clock
from benchmarks.tables import LabelTable


def _labels(table: LabelTable) -> Any:
    import bayescrowd as bc

    return bc.CrowdLabels.from_codes(table.item, table.worker, table.label, classes=table.n_classes)


def passes(
    clock: Clock, table: LabelTable, *, engine: str, few: int = 4, many: int = 24, repeats: int = 3, **options: Any
) -> dict[str, Any]:
    """Passes of a variational engine of `bayescrowd.fit`, after compile."""
    import bayescrowd as bc

    labels = _labels(table)
    endless = {"tolerance": 0.0} | ({"change_tolerance": 0.0} if engine == "vb" else {})
    done = set()

    def run(count: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how = endless | options
            fit = bc.fit(
                labels, "dawid-skene", engine=engine, max_iter=count, draws=1, init="majority", progress=False, **how
            )
        done.add((count, int(json.loads(fit.idata.attrs["details"])["n_passes"])))

    with clock:
        seconds = per_pass(run, few, many, repeats)
    if any(asked != got for asked, got in done):
        raise RuntimeError(f"passes asked and made: {sorted(done)}")
    return {"seconds_per_pass": seconds, "labels_per_second": len(table.item) / seconds}


def sweeps(
    clock: Clock,
    table: LabelTable,
    *,
    levels: int = 3,
    chains: int = 4,
    warmup: int = 100,
    few: int = 100,
    many: int = 500,
    repeats: int = 2,
    engine: str = "collapsed-gibbs",
) -> dict[str, Any]:
    """Sweeps of a Gibbs sampler of `bayescrowd.fit`, after compile, no draws of tables kept."""
    import bayescrowd as bc

    labels = _labels(table)

    def run(count: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how: dict[str, Any] = {"chains": chains, "warmup": warmup, "draws": count, "keep": 0}
            bc.fit(labels, bc.IDBLA(n_levels=levels), engine=engine, progress=False, **how)

    with clock:
        seconds = per_pass(run, few, many, repeats)
    updates = len(table.truth) * chains
    return {"seconds_per_sweep": seconds, "us_per_update": 1e6 * seconds / updates}


def sweeps_plain(
    clock: Clock,
    table: LabelTable,
    *,
    levels: int = 3,
    chains: int = 1,
    few: int = 20,
    many: int = 120,
    repeats: int = 2,
) -> dict[str, Any]:
    """Sweeps written the plain way: one scan over items of the same number of labels each, counts in float32."""
    import jax
    import jax.numpy as jnp

    n_items, n_classes, n_workers = len(table.truth), table.n_classes, int(table.worker.max()) + 1
    order = np.argsort(table.item, kind="stable")
    worker = jnp.asarray(table.worker[order].reshape(n_items, -1))
    label = jnp.asarray(table.label[order].reshape(n_items, -1))
    omega = jnp.asarray(np.full((n_classes, n_classes), 0.5) + np.eye(n_classes), jnp.float32)
    row_prior = omega.sum(axis=1)

    def one_item(counts: Any, at: Any) -> Any:
        cells, rows, classes, difficulties = counts
        who, said, state, noise = at

        def put(counts: Any, state: Any, sign: float) -> Any:
            cells, rows, classes, difficulties = counts
            level, true = state // n_classes, state % n_classes
            return (
                cells.at[who, said, level, true].add(sign),
                rows.at[who, level, true].add(sign),
                classes.at[true].add(sign),
                difficulties.at[level].add(sign),
            )

        cells, rows, classes, difficulties = counts = put(counts, state, -1.0)
        top = jnp.log(cells[who, said] + omega.T[said][:, None]).sum(axis=0)
        below = jnp.log(rows[who] + row_prior).sum(axis=0)
        logits = top - below + jnp.log(classes + 1.0) + jnp.log(difficulties + 1.0)[:, None]
        weights = jnp.exp(logits - logits.max()).ravel()
        edges = jnp.cumsum(weights)
        state = jnp.sum(noise * edges[-1] >= edges[:-1]).astype(jnp.int32)
        return put(counts, state, 1.0), state

    def sweep(_: Any, carry: Any) -> Any:
        key, counts, state = carry
        key, used = jax.random.split(key)
        noise = jax.random.uniform(used, (n_items,))
        counts, state = jax.lax.scan(one_item, counts, (worker, label, state, noise))
        return key, counts, state

    def chain(key: Any, count: Any) -> Any:
        state = jax.random.randint(key, (n_items,), 0, levels * n_classes)
        level, true = state // n_classes, state % n_classes
        spread = (n_items, worker.shape[1])
        wide = [jnp.broadcast_to(codes[:, None], spread) for codes in (level, true)]
        counts = (
            jnp.zeros((n_workers, n_classes, levels, n_classes)).at[worker, label, wide[0], wide[1]].add(1.0),
            jnp.zeros((n_workers, levels, n_classes)).at[worker, wide[0], wide[1]].add(1.0),
            jnp.zeros(n_classes).at[true].add(1.0),
            jnp.zeros(levels).at[level].add(1.0),
        )
        return jax.lax.fori_loop(0, count, sweep, (key, counts, state))[2]

    keys = jax.random.split(jax.random.key(0), chains)
    go = jax.jit(chain) if chains == 1 else jax.jit(jax.vmap(chain, in_axes=(0, None)))
    with clock:
        seconds = per_pass(
            lambda count: go(keys[0] if chains == 1 else keys, count).block_until_ready(), few, many, repeats
        )
    return {"seconds_per_sweep": seconds, "us_per_update": 1e6 * seconds / (n_items * chains)}


def peak(clock: Clock, table: LabelTable, **options: Any) -> dict[str, Any]:
    """Peak memory of collapsed Gibbs sampling of IDBLA."""
    import bayescrowd as bc

    labels = _labels(table)
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit(labels, bc.IDBLA(), engine="collapsed-gibbs", progress=False, **options)
        fit.class_probabilities()
    return {"converged": fit.converged}
