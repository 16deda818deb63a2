"""The paper's central claim: weak or exact prox, with variance reduction or without.

Four arms have the same parameters, epochs and accuracy, and differ in one respect each. On the
instances of Figures 1 and 2 samples cancel, so that variance reduction draws nothing
inside an epoch. In Example 3 (sensing with an elastic net) they do not; it is run with
little and with much noise in the measurements. The claim: without variance reduction more
samples are needed, and the weak oracle is called no more often than an exact one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from weakprox import theory
from weakprox._minimize import minimize
from weakprox.arguments import flag, one_of
from weakprox.experiments.base import Experiment, Job, Record, matching, mean, stream_seed
from weakprox.experiments.figures import denoising
from weakprox.experiments.instances import Matrix
from weakprox.experiments.race import Watch, race
from weakprox.linalg.arrays import Array
from weakprox.linalg.pending import Pending
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import ElasticNet
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.result import Status
from weakprox.solvers import FISTA, SVRGCG
from weakprox.solvers.base import Tools
from weakprox.solvers.paper.svrgcg import Memory
from weakprox.spectral import NuclearBall
from weakprox.theory._theorems import FRESH, SNAPSHOT
from weakprox.theory.gradients import Snapshot

ARMS: dict[str, Record] = {
    f"{oracle}, {word}": {"oracle": oracle, "variance_reduction": word == "reduced"}
    for oracle, word in product(("weak", "exact"), ("reduced", "plain"))
}
D = 300
RANK = {"figure 1": 1, "figure 2": 10, "example 3": 2, "example 3, noisy": 2}
ACCURACIES = {
    "figure 1": (0.01, 0.003),  # finer takes minutes per run of exact prox
    "figure 2": (0.01, 0.003, 0.001),
    "example 3": (0.1, 0.03, 0.01, 0.003),
    "example 3, noisy": (0.1, 0.03, 0.01, 0.003),
}
RUNS, CAP = 3, 4000
SENSED = {"d": 12, "lam1": 0.1, "lam2": 0.05}  # Example 3
NOISE_TO_SIGNAL = {"example 3": 0.1, "example 3, noisy": 3.0}  # noise over |X0|_F


def jobs(quick: bool, seed: int) -> list[Job]:
    """One job per instance, accuracy, run and arm."""
    return [
        {
            "instance": name,
            "accuracy": accuracy,
            "run": run,
            "arm": arm,
            "seed": seed,
            "cap": 60 if quick and name not in NOISE_TO_SIGNAL else CAP,
            "cost": 0.01 / accuracy * (20 if name == "figure 1" else 2),
        }
        for name, accuracies in ACCURACIES.items()
        for accuracy in (accuracies[:1] if quick else accuracies)
        for run in range(1 if quick else RUNS)
        for arm in ARMS
    ]


@dataclass(frozen=True)
class Arm(SVRGCG):
    """`SVRGCG` with an exact oracle, without variance reduction, or both.

    The exact oracle takes exact proximal gradient steps of weight 2 beta (a full
    decomposition each): the paper's step with eta = 1 and full rank. The theorem still holds,
    since the step minimises the model over all points, the paper's being one of them. Without
    variance reduction, fresh samples are drawn for every step, as many as the same bound
    needs (`Parameters.k_fresh`, or `k_s` if given; all terms of a finite sum).
    """

    oracle: Literal["weak", "exact"] = "weak"
    variance_reduction: bool = True

    def check(self, problem: Problem) -> None:
        one_of("oracle", self.oracle, ("weak", "exact"))
        flag("variance_reduction", self.variance_reduction)
        super().check(problem)

    def _step_size(self, default: float, epoch: int, step: int) -> float:
        return 1.0 if self.oracle == "exact" else super()._step_size(default, epoch, step)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch, with the rank and the batch of the arm."""
        rank, p = memory.rank, memory.parameters
        if self.oracle == "exact":
            rank = min(problem.shape)
        if not self.variance_reduction:
            p = replace(p, first_batch=FRESH / SNAPSHOT * p.first_batch)  # k_s is k_fresh
        after = super().step(problem, replace(memory, rank=rank, parameters=p), tools)
        return replace(after, rank=memory.rank, parameters=memory.parameters)

    def _snapshot(
        self, loss: Any, X: Array, rng: np.random.Generator, k_s: int | None
    ) -> Snapshot:
        """Return the epoch's source of gradients."""
        if self.variance_reduction:
            return super()._snapshot(loss, X, rng, k_s)
        return Fresh(X, None, None, size=k_s)


@dataclass(frozen=True)
class Fresh(Snapshot):
    """Gradients from fresh samples at every step, in place of a snapshot's."""

    size: int | None = None

    def target(
        self, loss: Any, X: Array, R: Smoothed, weight: float, rng: Any, *rest: Any, **how: Any
    ) -> Array | Pending:
        """Return the proximal target of a snapshot taken at X."""
        snapshot = Snapshot.take(loss, X, rng, self.size)
        return snapshot.target(loss, X, R, weight, rng, *rest, **{**how, "first": True})


def work(job: Job) -> Record:
    """Run one arm on one instance to one accuracy."""
    name, arm = job["instance"], ARMS[job["arm"]]
    seeds = stream_seed("ablation", job["seed"], job["run"])
    settings: Record = {}
    if name in NOISE_TO_SIGNAL:
        problem, watch = _sensing(RANK[name], job["accuracy"], NOISE_TO_SIGNAL[name], seeds)
    else:
        case = denoising(D, RANK[name], job["accuracy"], seeds)
        problem, watch = case.problem, case.watch
        settings = {"mu": case.mu, "C0": case.C0, "constants": "paper"}
    solver = Arm(rank=RANK[name], answer="iterate", **settings, **arm)
    seed = 1000 * job["seed"] + job["run"]
    found = race(problem, solver, watch, seed=seed, cap=job["cap"])
    p = theory.parameters(problem, watch.targets[-1], seed=seed, **settings)
    plain = p.pilot + sum(p.inner * p.k_fresh(s) for s in range(1, p.S))
    promised = p.predicted_samples if arm["variance_reduction"] else plain
    return {**found, "theory_samples": promised}  # for all of the theorem's epochs


def _sensing(
    r: int, accuracy: float, relative: float, seeds: list[int]
) -> tuple[Problem, Watch]:
    """Return Example 3: b = <A, X0> + noise with standard Gaussian A, drawn when needed.

    E g(X) is 1/2 |X - X0|^2 and a constant, so the exact objective is known. Smoothness
    of a term in the sense that the linear batch size needs is m d + 2.
    """
    d = int(SENSED["d"])
    rng = np.random.default_rng([*seeds, d, r])
    Y = rng.standard_normal((d, r)) * (rng.random((d, r)) < 0.5)
    X0: Matrix = 2.0 * Y @ Y.T
    tau, size = 0.9 * float(np.trace(X0)), float(np.sum(X0**2))
    noise = relative * float(np.sqrt(size))
    R, h, eps = ElasticNet(SENSED["lam1"], SENSED["lam2"]), NuclearBall(tau), accuracy * size
    exact = Problem(Denoising(X0), R, h)
    best = minimize(exact, FISTA(), eps=0.02 * eps, progress=False)
    if best.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    assert best.certificate is not None

    def sampler(rng: np.random.Generator, k: int) -> tuple[Matrix, Matrix]:
        A = rng.standard_normal((k, d, d))
        return A, np.tensordot(A, X0, 2) + noise * rng.standard_normal(k)

    known: Any = {"smoothness": 1.0, "strong_convexity": 1.0, "term_smoothness": d * d + 2.0}
    loss = Sensing(sampler=sampler, shape=(d, d), **known)
    watch = Watch(exact.smooth_value, best.certificate.lower_bound, [eps])
    return Problem(loss, R, h), watch


def summarise(jobs: list[Job], results: list[Record]) -> Record:
    """Mean samples, rank-one SVDs and oracle calls per instance, accuracy and arm."""
    rows: list[Record] = []
    places = [
        (name, a, arm) for name, every in ACCURACIES.items() for a in every for arm in ARMS
    ]
    for name, accuracy, arm in places:
        place = {"instance": name, "accuracy": accuracy, "arm": arm}
        if mine := matching(jobs, results, **place):
            rows.append({**place, **_mean(mine)})
    return {
        "rows": rows,
        "verdicts": _verdicts(rows),
        "settings": {
            "d": D,
            "runs": 1 + max(job["run"] for job in jobs),
            "caps_on_oracle_calls": {job["instance"]: job["cap"] for job in jobs},
            "example 3": {**SENSED, "noise_to_signal": NOISE_TO_SIGNAL},
            "seed": jobs[0]["seed"],
        },
    }


def _mean(runs: list[Record]) -> Record:
    there = [run["X"][0] for run in runs if run["X"][0] is not None]
    names = ("samples", "gradients", "rank_one_svds", "calls", "seconds")
    whole = len(there) == len(runs)  # a mean over successful runs alone would be too small
    means = {name: mean(there, name) if whole else None for name in names}
    counted = {"reached": len(there), "runs": len(runs)}
    return {**means, "theory_samples": mean(runs, "theory_samples"), **counted}


def _verdicts(rows: list[Record]) -> list[Record]:
    """Return the ratios to which each half of the claim refers."""
    at: dict[tuple[str, float], Record] = {}
    for row in rows:
        at.setdefault((row["instance"], row["accuracy"]), {})[row["arm"]] = row
    found = []
    for (name, accuracy), arms in at.items():
        ours, plain, exact = (arms[arm] for arm in list(ARMS)[:3])
        verdict = {
            "samples_plain_over_reduced": _ratio(plain, ours, "samples"),
            "theory_samples_plain_over_reduced": _ratio(plain, ours, "theory_samples"),
            "calls_weak_over_exact": _ratio(ours, exact, "calls"),
            "rank_one_svds_exact_over_weak": _ratio(exact, ours, "rank_one_svds"),
        }
        found.append({"instance": name, "accuracy": accuracy, **verdict})
    return found


def _ratio(above: Record, below: Record, name: str) -> float | None:
    if above[name] is None or not below[name]:
        return None
    return float(above[name] / below[name])


TITLE = "Weak or exact prox, variance reduction or not"
EXPERIMENT = Experiment("ablation", TITLE, jobs, work, summarise, verdicts=("verdicts",))
