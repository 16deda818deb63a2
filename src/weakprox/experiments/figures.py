"""Objective against samples, rank-one SVDs and seconds, method by method.

Figures 1 and 2 have the paper's instances and settings (Section 5): d = 300, rank(Y) = 1
and 10, lam = 2, tau = tr(YY'), samples with noise 5 per entry, accuracy eps = 1 % of
|YY'|_F^2 and mu = eps / d^2. Beyond the paper: accuracies 1e-3 and 1e-4, and four more
methods.

At the paper's accuracy SVRGCG ends inside its first epoch. "epochs" is not in the paper:
the same methods on a smaller instance, at accuracies that take three epochs or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from weakprox import theory
from weakprox.experiments import instances
from weakprox.experiments.base import Experiment, Job, Record, matching, mean, stream_seed
from weakprox.experiments.instances import FiniteCopies, Matrix, NoisyCopies
from weakprox.experiments.race import MEASURES, Watch, banded, methods, race, thinned
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.spectral import NuclearBall

D, LAM, NOISE = 300, 2.0, 5.0
OURS, LOW_RANK = "SVRGCG", "SVRGCG, low-rank point"
METHODS = (OURS, "SCG", "SCGS", "SCGS convex", "STORC", "HCGM", "SHCGM")
COPIES = 10**6  # name of the random stream of finite sums
FINITE = ("STORC", "HCGM")  # need full gradients


@dataclass(frozen=True)
class Setup:
    """The instance of a figure, and by accuracy its runs and caps on oracle calls."""

    d: int
    rank: int  # of Y
    oracle_rank: int
    runs: dict[float, int]
    cap: dict[float, int]
    quick_runs: dict[float, int]
    quick_cap: dict[float, int]
    cost: float = 10.0  # of a run, in those of a run at 1 %


RUNS = {0.01: 30, 0.001: 6, 0.0001: 3}
CAP = {0.01: 5000, 0.001: 5000, 0.0001: 2000}
QUICK_RUNS, QUICK_CAP = {0.01: 2, 0.001: 1}, {0.01: 600, 0.001: 200}
SETUPS = {
    "figure1": Setup(D, 1, 1, RUNS, CAP, QUICK_RUNS, QUICK_CAP),
    "figure2": Setup(D, 10, 10, RUNS, CAP, QUICK_RUNS, QUICK_CAP),
    # With an oracle of rank 10, the rank of Y, SVRGCG stalls before the finer accuracy.
    # The caps let the others spend as many rank-one SVDs as SVRGCG needs, and more.
    "epochs": Setup(
        d=100,
        rank=10,
        oracle_rank=20,
        runs={0.0004: 10, 0.0002: 3},
        cap={0.0004: 10_000, 0.0002: 30_000},
        quick_runs={0.0004: 1},
        quick_cap={0.0004: 600},
        cost=20.0,
    ),
}


def jobs(name: str, quick: bool, seed: int) -> list[Job]:
    """One job per accuracy, run and method."""
    setup = SETUPS[name]
    runs, cap = (setup.quick_runs, setup.quick_cap) if quick else (setup.runs, setup.cap)
    return [
        {
            "figure": name,
            "accuracy": accuracy,
            "run": run,
            "method": method,
            "cap": cap[accuracy],
            "seed": seed,
            "cost": 1.0 if accuracy == 0.01 else setup.cost,
        }
        for accuracy in runs
        for run in range(runs[accuracy])
        for method in METHODS
    ]


class Case(NamedTuple):
    """An instance of the figures as a problem with samples, and its exact constants."""

    problem: Problem
    watch: Watch
    M: Matrix
    size: float  # |YY'|_F^2, the unit of accuracies
    optimum_gap: float
    mu: float
    C0: float


def denoising(d: int, rank: int, accuracy: float, seeds: list[int]) -> Case:
    """Return an instance with the paper's settings; the watch ends runs at the accuracy."""
    M, tau, size = instances.instance(d, rank, seeds)
    eps, h, R = accuracy * size, NuclearBall(tau), L1(LAM)
    best = instances.optimum(M, LAM, h, gap=0.05 * eps, max_steps=2000)
    exact, mu = Problem(Denoising(M), R, h), eps / d**2
    per_sample = instances.seconds_per_sample((d, d))
    watch = Watch(exact.smooth_value, best.lower_bound, [eps], per_sample)
    sampled = NoisyCopies(M, NOISE)
    watch.unbilled = lambda: sampled.seconds_drawing
    C0 = theory.parameters(exact, eps, mu=mu).C0
    return Case(Problem(sampled, R, h), watch, M, size, best.gap, mu, C0)


def work(job: Job) -> Record:
    """Run one method on one instance to one accuracy."""
    name, method, setup = job["figure"], job["method"], SETUPS[job["figure"]]
    seeds = stream_seed(name, job["seed"], job["run"])
    case = denoising(setup.d, setup.rank, job["accuracy"], seeds)
    problem, watch, mu, C0 = case.problem, case.watch, case.mu, case.C0
    eps = watch.targets[-1]
    k_1 = theory.parameters(problem, eps, constants="paper", mu=mu, C0=C0).k_s(1)
    if method in FINITE:  # n samples: their own optimum is within eps/2 in expectation
        assert problem.loss.sigma is not None
        watch.drawn = n = math.ceil(problem.loss.sigma**2 / eps)
        copies = FiniteCopies(case.M, NOISE, n, np.random.default_rng([*seeds, COPIES]))
        problem = Problem(copies, problem.penalty, problem.spectral)
    solver = methods(setup.oracle_rank, mu, C0, max_inner=setup.d)[method]  # as the paper
    seed = 1000 * job["seed"] + job["run"]
    found = race(problem, solver, watch, seed=seed, cap=job["cap"])
    return {
        **found,
        "k_1": k_1,
        "size": case.size,
        "optimum_gap": case.optimum_gap / case.size,
        "curve": [[*row[:-1], row[-1] / case.size] for row in thinned(watch.curve)],
    }


def summarise(jobs: list[Job], results: list[Record]) -> Record:
    """Return mean work per method and accuracy, its ratio to SVRGCG's, curves, and the claim.

    "claim" is judged at the coarsest accuracy, which is the paper's in its figures. "epochs"
    counts the epochs that SVRGCG began, and the samples of the first.
    """
    accuracies = sorted({job["accuracy"] for job in jobs}, reverse=True)
    spent: Record = {method: {} for method in (OURS, LOW_RANK, *METHODS[1:])}
    curves: Record = {}
    epochs: Record = {}
    for accuracy in accuracies:
        key = f"{accuracy:g}"
        curves[key] = {}
        for method in METHODS:
            mine = matching(jobs, results, accuracy=accuracy, method=method)
            spent[method][key] = mean_work(mine, "X")
            if method == OURS:
                spent[LOW_RANK][key] = mean_work(mine, "V")
                epochs[key] = epochs_run(mine)
            curves[key][method] = {
                measure: banded([run["curve"] for run in mine], column)
                for column, measure in enumerate(MEASURES)
            }
        ours = spent[OURS][key]
        for entry in (entries[key] for entries in spent.values() if ours["exact"]):
            # too small if the entry is not exact
            ratios = {m: entry[m] / ours[m] if ours[m] else None for m in MEASURES}
            entry["ratio_to_SVRGCG"] = ratios
    first = jobs[0]
    setup, sizes = SETUPS[first["figure"]], sorted(result["size"] for result in results)
    return {
        "methods": {
            method: {key: entry if entry["exact"] else None for key, entry in entries.items()}
            for method, entries in spent.items()
        },
        "spent": spent,
        "claim": claim(spent, f"{accuracies[0]:g}"),
        "epochs": epochs,
        "curves": curves,
        "settings": {
            **{name: getattr(setup, name) for name in ("d", "rank", "oracle_rank")},
            "lam": LAM,
            "noise": NOISE,
            "runs": {f"{j['accuracy']:g}": j["run"] + 1 for j in jobs},  # the last one counts
            "caps_on_oracle_calls": {f"{j['accuracy']:g}": j["cap"] for j in jobs},
            "seed": first["seed"],
            "sizes": {"least": sizes[0], "median": float(np.median(sizes)), "most": sizes[-1]},
        },
    }


def mean_work(runs: list[Record], point: str) -> Record:
    """Return the mean work of all runs; one that fell short counts with what it spent.

    The means are then too small, and `exact` is False. `point` is "X" or "V".
    """
    there = [run[point][0] for run in runs if run[point][0] is not None]
    work = [run["spent"] if run[point][0] is None else run[point][0] for run in runs]
    means = {name: mean(work, name) for name in MEASURES}
    more = ("calls", "gradients", "full_gradients", "seconds_sampling")
    exact = len(there) == len(runs)
    if exact:
        means |= {name: mean(there, name) for name in more}
    return {**means, "exact": exact, "reached": len(there), "runs": len(runs)}


def epochs_run(runs: list[Record]) -> Record:
    """Return how many epochs SVRGCG began until X was accurate or it was stopped, and k_1."""
    begun, means = [run["epochs"] for run in runs], (mean(runs, "epochs"), mean(runs, "k_1"))
    return {"least": min(begun), "most": max(begun), "mean": means[0], "k_1": means[1]}


def claim(spent: Record, key: str) -> Record:
    """Check the paper's claim at one accuracy: less of everything than SCG and SCGS.

    None if undecided: runs of the rival were stopped before they reached the accuracy, and
    had not yet spent more than ours needed.
    """
    ours = spent[OURS][key]
    verdict: Record = {measure: {} for measure in MEASURES}
    for measure, rival in product(MEASURES, ("SCG", "SCGS", "SCGS convex")):
        theirs = spent[rival][key]
        fewer = ours["exact"] and ours[measure] < theirs[measure]
        undecided = ours["exact"] and not fewer and not theirs["exact"]
        verdict[measure][rival] = None if undecided else fewer
    return verdict


EXPERIMENTS = [
    Experiment(name, title, partial(jobs, name), work, summarise, verdicts=("claim",))
    for name, title in (
        ("figure1", "Figure 1: the methods, rank(Y) = 1"),
        ("figure2", "Figure 2: the methods, rank(Y) = 10"),
        ("epochs", "Beyond the paper: accuracies that take several epochs"),
    )
]
