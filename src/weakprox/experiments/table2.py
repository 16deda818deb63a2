"""Table 2, measured: how samples and SVDs grow as the requested accuracy gets finer.

A small instance of the figures' kind, so that methods that are far too slow at d = 300
can be followed over a range of accuracies. At fixed mu accuracy refers to the smoothed
objective; with mu tied to eps, mu = eps / (2 gamma), to the original one. The exponent p of a
method is the least-squares slope of log(work) against log(1/eps).

SVRGCG is run with an oracle of the rank of Y, as in the paper's figures, and with one of
full rank, which covers the optimum.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from weakprox import theory
from weakprox.experiments import instances
from weakprox.experiments.base import Experiment, Job, Record, mean, stream_seed
from weakprox.experiments.figures import COPIES
from weakprox.experiments.instances import FiniteCopies, Matrix, NoisyCopies
from weakprox.experiments.race import Watch, methods, race
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.spectral import NuclearBall

D, R, LAM, NOISE, TERMS = 40, 2, 2.0, 5.0, 1000
MU = 0.2  # of the runs at fixed mu: L = 1 + lam/mu = 11
ACCURACIES = (0.02, 0.01, 0.005, 0.0025, 0.00125, 0.000625)  # of |YY'|_F^2
RUNS, CAP = 5, 20_000
QUICK_RUNS, QUICK_CAP, QUICK_ACCURACIES = 1, 2000, ACCURACIES[:4]

# Exponents of 1/eps that the theory predicts, leading terms: (samples, SVDs) at fixed mu
# and with mu tied to eps. 0 stands for a logarithm. For the methods on a finite sum the
# first is that of full gradients.
THEORY: dict[str, Any] = {
    "SVRGCG": {"fixed": (1, 0), "tied": (1, 1)},
    "SVRGCG, full rank": {"fixed": (1, 0), "tied": (1, 1)},
    "SCG": {"fixed": (3, 1), "tied": (4, 2)},
    "SCGS": {"fixed": (1, 1), "tied": (1, 2)},
    "SCGS convex": {"fixed": (2, 1), "tied": (2, 2)},
    "SVRGCG finite": {"fixed": (0, 0), "tied": (0, 1)},
    "SVRGCG finite, full rank": {"fixed": (0, 0), "tied": (0, 1)},
    "STORC": {"fixed": (0, 1), "tied": (0, 2)},
    "SVRF": {"fixed": (0, 1), "tied": (0, 2)},
    "HCGM": {"fixed": None, "tied": (2, 2)},  # its smoothing is its own
    "SHCGM": {"fixed": None, "tied": (3, 3)},
}
ORACLE_RANK = {"SVRGCG": R, "SVRGCG finite": R}  # of the others, for linear subproblems: 1
ORACLE_RANK |= {f"{method}, full rank": D for method in ORACLE_RANK}
FINITE = ("SVRGCG finite", "SVRGCG finite, full rank", "STORC", "SVRF", "HCGM")


def jobs(quick: bool, seed: int) -> list[Job]:
    """One job per method, run, and accuracy; at fixed mu one run serves all accuracies."""
    runs, cap = (QUICK_RUNS, QUICK_CAP) if quick else (RUNS, CAP)
    accuracies = list(QUICK_ACCURACIES if quick else ACCURACIES)
    return [
        {"method": method, "mu": mu, "run": run, "seed": seed, "cap": cap, "accuracies": part}
        for method, predicted in THEORY.items()
        for mu in ("fixed", "tied")
        if predicted[mu] is not None
        for run in range(runs)
        for part in ([accuracies] if mu == "fixed" else [[a] for a in accuracies])
    ]


def work(job: Job) -> Record:
    """Run one method on one instance; return the work to each accuracy of the job."""
    seeds = stream_seed("table2", job["seed"], job["run"])
    M, tau, size = instances.instance(D, R, seeds)
    h, penalty = NuclearBall(tau), L1(LAM)
    targets = [a * size for a in job["accuracies"]]
    mu = MU if job["mu"] == "fixed" else targets[-1] / (LAM * D**2)
    if job["method"] in FINITE:  # the finite sum is a separate problem, with its own optimum
        loss: Denoising = FiniteCopies(M, NOISE, TERMS, np.random.default_rng([*seeds, COPIES]))
        M = loss.everything().mean
    else:
        loss = NoisyCopies(M, NOISE)
    exact = Problem(Denoising(M), penalty, h)
    gap = 0.02 * targets[-1]
    best = instances.optimum(M, LAM, h, gap=gap, mu=mu if job["mu"] == "fixed" else 0.0)
    smooth = Smoothed.of(penalty, mu, (D, D))

    def value(X: Matrix) -> float:
        if job["mu"] == "fixed":
            return exact.loss.value(X, exact.loss.everything()) + smooth.value(X)
        return exact.smooth_value(X)

    watch = Watch(value, best.lower_bound, targets)
    C0 = theory.parameters(exact, targets[-1], mu=mu).C0
    rank = ORACLE_RANK.get(job["method"], 1)
    solver = methods(rank, mu, C0)[job["method"].removesuffix(", full rank")]
    seed, problem = 1000 * job["seed"] + job["run"], Problem(loss, penalty, h)
    return race(problem, solver, watch, seed=seed, cap=job["cap"])


def summarise(jobs: list[Job], results: list[Record]) -> Record:
    """Return exponents with standard errors beside the theory's, and the means behind them."""
    rows = []
    for method, mu in product(THEORY, ("fixed", "tied")):
        if THEORY[method][mu] is None:
            continue
        hits: dict[float, list[Any]] = {}  # None for a run that fell short
        for job, result in zip(jobs, results, strict=True):
            if (job["method"], job["mu"]) == (method, mu):
                for accuracy, hit in zip(job["accuracies"], result["X"], strict=True):
                    hits.setdefault(accuracy, []).append(hit)
        # means over successful runs alone would bend the line
        whole = sorted((a for a in hits if None not in hits[a]), reverse=True)
        units = ["full_gradients" if method in FINITE else "samples", "calls"]
        row: Record = {"method": method, "mu": mu, "sample_unit": units[0], "accuracies": whole}
        row["oracle_rank"] = ORACLE_RANK.get(method, 1)
        for i, name in enumerate(("samples", "svds")):
            row[name] = _fit(whole, hits, units[i])
            row[f"theory_{name}"] = THEORY[method][mu][i]
            row[f"mean_{name}"] = [mean(hits[a], units[i]) for a in whole]
        rows.append(row)
    first = jobs[0]
    settings = {"d": D, "rank": R, "lam": LAM, "noise": NOISE, "terms": TERMS, "fixed_mu": MU}
    caps = {"cap_on_oracle_calls": first["cap"], "runs": 1 + max(j["run"] for j in jobs)}
    return {"rows": rows, "settings": {**settings, **caps, "seed": first["seed"]}}


def _fit(accuracies: list[float], hits: dict[float, list[Record]], unit: str) -> Record | None:
    """Fit log(mean work) to log(1/eps): slope and standard error; None under 3 points."""
    if len(accuracies) < 3:
        return None
    from scipy.stats import linregress  # slow to import

    work = [max(mean(hits[a], unit), 1.0) for a in accuracies]
    line = linregress(-np.log(accuracies), np.log(work))
    return {"exponent": float(line.slope), "standard_error": float(line.stderr)}


EXPERIMENT = Experiment("table2", "Table 2, measured: exponents", jobs, work, summarise)
