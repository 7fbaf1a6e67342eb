"""Samplers: smallest effective sample size per second, ours, NumPyro's plain way, and Stan's marginalised program."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.measure import Clock, Compilations, smallest_ess
from benchmarks.tables import LabelTable

STAN_PROGRAM = """
data {
  int<lower=1> C; int<lower=1> N; int<lower=1> I; int<lower=1> K;
  array[N] int item; array[N] int worker; array[N] int label;
  vector<lower=0>[C] prevalence_prior; array[C] vector<lower=0>[C] confusion_prior;
}
parameters { simplex[C] prevalence; array[K, C] simplex[C] confusion; }
model {
  array[K, C] vector[C] by_label;
  array[I] vector[C] joint;
  prevalence ~ dirichlet(prevalence_prior);
  for (k in 1:K) for (c in 1:C) {
    confusion[k, c] ~ dirichlet(confusion_prior[c]);
    for (l in 1:C) by_label[k, l][c] = log(confusion[k, c, l]);
  }
  for (i in 1:I) joint[i] = log(prevalence);
  for (n in 1:N) joint[item[n]] += by_label[worker[n], label[n]];
  for (i in 1:I) target += log_sum_exp(joint[i]);
}
"""


def _labels(table: LabelTable) -> Any:
    import bayescrowd as bc

    return bc.CrowdLabels.from_codes(table.item, table.worker, table.label, classes=table.n_classes)


def _judged(posterior: Any, seconds: float) -> dict[str, Any]:
    ess, hat = smallest_ess(posterior)
    return {"smallest_ess": ess, "largest_rhat": hat, "ess_per_second": ess / seconds}


def nuts_bayescrowd(clock: Clock, table: LabelTable, **options: Any) -> dict[str, Any]:
    """`bayescrowd.fit` in a fresh process, its compile included."""
    import bayescrowd as bc

    labels = _labels(table)
    compilations = Compilations()
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        fit = bc.fit(labels, "dawid-skene", engine="nuts", progress=False, **options)
    steps = fit.idata["sample_stats"]["n_steps"].to_numpy()
    return _judged(fit.idata["posterior"].dataset, clock.seconds) | {
        "compilations": compilations.count,
        "compile_seconds": compilations.seconds,
        "mean_steps": float(steps.mean()),
        "divergences": int(fit.idata["sample_stats"]["diverging"].sum()),
        "accuracy": table.accuracy(fit.class_probabilities().to_numpy().argmax(axis=1)[np.argsort(labels.items)]),
    }


def gibbs_bayescrowd(clock: Clock, table: LabelTable, *, engine: str, **options: Any) -> dict[str, Any]:
    """The same by a Gibbs sampler."""
    import bayescrowd as bc

    labels = _labels(table)
    compilations = Compilations()
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit(labels, "dawid-skene", engine=engine, progress=False, **options)
    return _judged(fit.idata["posterior"].dataset, clock.seconds) | {
        "compilations": compilations.count,
        "compile_seconds": compilations.seconds,
        "accuracy": table.accuracy(fit.class_probabilities().to_numpy().argmax(axis=1)[np.argsort(labels.items)]),
    }


def nuts_numpyro(
    clock: Clock,
    table: LabelTable,
    *,
    method: str = "sequential",
    chains: int = 4,
    warmup: int = 500,
    draws: int = 1000,
    near_majority: bool = False,
) -> dict[str, Any]:
    """The model's own program under NumPyro's MCMC(NUTS), true classes enumerated; its default start or a good one."""
    import arviz_base
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value

    import bayescrowd as bc

    labels = _labels(table)
    start: Any = init_to_uniform
    if near_majority:
        classes = table.n_classes
        confusion = np.full((labels.n_workers, classes, classes), 0.3 / classes) + 0.7 * np.eye(classes)
        start = init_to_value(values={"prevalence": np.full(classes, 1 / classes), "confusion": confusion})
    padded = labels.padded()
    with clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mcmc = MCMC(
            NUTS(bc.DawidSkene().program, init_strategy=start),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method=method,
            progress_bar=False,
        )
        mcmc.run(jax.random.key(0), padded, extra_fields=("num_steps",))
        samples = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    posterior = arviz_base.from_dict({"posterior": samples})["posterior"].dataset
    steps = np.asarray(mcmc.get_extra_fields()["num_steps"])
    return _judged(posterior, clock.seconds) | {"mean_steps": float(steps.mean())}


def nuts_stan(
    clock: Clock, table: LabelTable, *, chains: int = 4, warmup: int = 500, draws: int = 1000
) -> dict[str, Any]:
    """The marginalised program under Stan, same priors; its C++ compile is not counted."""
    import arviz_base
    import stan

    import bayescrowd as bc

    classes = table.n_classes
    prior = np.asarray(bc.DawidSkene().confusion_prior.table(classes, classes))
    data = {
        "C": classes,
        "N": len(table.item),
        "I": len(table.truth),
        "K": int(table.worker.max()) + 1,
        "item": (table.item + 1).tolist(),
        "worker": (table.worker + 1).tolist(),
        "label": (table.label + 1).tolist(),
        "prevalence_prior": [1.0] * classes,
        "confusion_prior": prior.tolist(),
    }
    begun = time.perf_counter()
    program = stan.build(STAN_PROGRAM, data=data, random_seed=1)
    compile_seconds = time.perf_counter() - begun
    good = (np.full((classes, classes), 0.3 / classes) + 0.7 * np.eye(classes)).tolist()
    start = {"prevalence": [1 / classes] * classes, "confusion": [good] * data["K"]}
    with clock:
        fit = program.sample(num_chains=chains, num_warmup=warmup, num_samples=draws, init=[start] * chains)
    samples = {}
    for name in ("prevalence", "confusion"):
        value = fit[name]  # the last axis runs over draws, the chains of one draw side by side
        value = value.reshape(*value.shape[:-1], draws, chains)
        samples[name] = np.moveaxis(value, (-1, -2), (0, 1))
    posterior = arviz_base.from_dict({"posterior": samples})["posterior"].dataset
    return _judged(posterior, clock.seconds) | {"compile_seconds": compile_seconds}
