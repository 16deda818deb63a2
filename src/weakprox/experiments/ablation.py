"""The paper's central claim: weak or exact prox, with variance reduction or without.

Four arms share parameters, epochs and accuracy; they differ in one thing each. On the
instances of Figures 1 and 2 samples cancel, so that variance reduction draws nothing
inside an epoch; Example 3 (sensing with an elastic net) is the case where they do not,
once with little and once with much noise in the measurements. The claim: without
variance reduction more samples are needed, and the weak oracle is called no more often
than an exact one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox import theory
from weakprox._minimize import minimize
from weakprox.experiments.base import ORDER, Experiment, Job, Record
from weakprox.experiments.figures import LAM, NOISE
from weakprox.experiments.instances import Matrix, instance
from weakprox.experiments.noisy import NoisyCopies, seconds_per_sample
from weakprox.experiments.optimum import optimum
from weakprox.experiments.race import Watch, race
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.problem import Problem
from weakprox.result import Status
from weakprox.solvers import FISTA, SVRGCG
from weakprox.spectral import NuclearBall

ARMS: dict[str, Record] = {
    "weak, reduced": {"oracle": "weak", "variance_reduction": True},
    "weak, plain": {"oracle": "weak", "variance_reduction": False},
    "exact, reduced": {"oracle": "exact", "variance_reduction": True},
    "exact, plain": {"oracle": "exact", "variance_reduction": False},
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


def work(job: Job) -> Record:
    """One arm on one instance to one accuracy."""
    name, arm = job["instance"], ARMS[job["arm"]]
    seeds = [job["seed"], ORDER.index("ablation") + 1, job["run"]]
    if name in NOISE_TO_SIGNAL:
        made = _sensing(RANK[name], job["accuracy"], NOISE_TO_SIGNAL[name], seeds)
    else:
        made = _denoising(RANK[name], job["accuracy"], seeds)
    problem, watch, settings = made
    solver = SVRGCG(rank=RANK[name], answer="iterate", **settings, **arm)
    seed = 1000 * job["seed"] + job["run"]
    found = race(problem, solver, watch, seed=seed, cap=job["cap"])
    p = theory.parameters(problem, watch.targets[-1], seed=seed, **settings)
    plain = p.pilot + sum(p.inner * p.k_fresh(s) for s in range(1, p.S))
    promised = p.predicted_samples if arm["variance_reduction"] else plain
    return {**found, "theory_samples": promised}  # had the theorem's epochs all been run


def _denoising(r: int, accuracy: float, seeds: list[int]) -> tuple[Problem, Watch, Record]:
    """An instance of the figures, with the settings used there."""
    M, tau, size = instance(D, r, seeds)
    eps, h, R = accuracy * size, NuclearBall(tau), L1(LAM)
    best = optimum(M, LAM, h, gap=0.05 * eps, max_steps=2000)
    exact, mu = Problem(Denoising(M), R, h), eps / D**2
    watch = Watch(exact.smooth_value, best.lower_bound, [eps], seconds_per_sample((D, D)))
    C0 = theory.parameters(exact, eps, mu=mu).C0
    settings = {"mu": mu, "C0": C0, "constants": "paper"}
    sampled = NoisyCopies(M, NOISE)
    watch.unbilled = lambda: sampled.seconds_drawing
    return Problem(sampled, R, h), watch, settings


def _sensing(
    r: int, accuracy: float, relative: float, seeds: list[int]
) -> tuple[Problem, Watch, Record]:
    """Example 3: b = <A, X0> + noise with standard Gaussian A, drawn as they are needed.

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

    loss = Sensing(
        sampler=sampler,
        shape=(d, d),
        smoothness=1.0,
        strong_convexity=1.0,
        term_smoothness=d * d + 2.0,
    )
    watch = Watch(exact.smooth_value, best.certificate.lower_bound, [eps])
    return Problem(loss, R, h), watch, {}


def summarise(jobs: list[Job], results: list[Record]) -> Record:
    """Mean samples, rank-one SVDs and oracle calls per instance, accuracy and arm."""
    rows: list[Record] = []
    for name, accuracies in ACCURACIES.items():
        for accuracy in accuracies:
            for arm in ARMS:
                mine = [
                    result
                    for job, result in zip(jobs, results, strict=True)
                    if (job["instance"], job["accuracy"], job["arm"]) == (name, accuracy, arm)
                ]
                if mine:
                    rows.append(
                        {"instance": name, "accuracy": accuracy, "arm": arm, **_mean(mine)}
                    )
    first = jobs[0]
    return {
        "rows": rows,
        "verdicts": _verdicts(rows),
        "settings": {
            "d": D,
            "runs": 1 + max(job["run"] for job in jobs),
            "caps_on_oracle_calls": {job["instance"]: job["cap"] for job in jobs},
            "example 3": {**SENSED, "noise_to_signal": NOISE_TO_SIGNAL},
            "seed": first["seed"],
        },
    }


def _mean(runs: list[Record]) -> Record:
    there = [run["X"][0] for run in runs if run["X"][0] is not None]
    names = ("samples", "gradients", "rank_one_svds", "calls", "seconds")
    means: dict[str, Any] = dict.fromkeys(names)
    if len(there) == len(runs):  # a mean over only those that got there would flatter
        means = {name: float(np.mean([hit[name] for hit in there])) for name in names}
    promised = float(np.mean([run["theory_samples"] for run in runs]))
    counted = {"reached": len(there), "runs": len(runs)}
    return {**means, "theory_samples": promised, **counted}


def _verdicts(rows: list[Record]) -> list[Record]:
    """For each instance and accuracy, what each half of the claim comes to."""
    found = []
    places = dict.fromkeys((row["instance"], row["accuracy"]) for row in rows)
    for name, accuracy in places:
        arms = {
            row["arm"]: row
            for row in rows
            if (row["instance"], row["accuracy"]) == (name, accuracy)
        }
        ours = arms["weak, reduced"]
        found.append(
            {
                "instance": name,
                "accuracy": accuracy,
                "samples_plain_over_reduced": _ratio(arms["weak, plain"], ours, "samples"),
                "theory_samples_plain_over_reduced": _ratio(
                    arms["weak, plain"], ours, "theory_samples"
                ),
                "calls_weak_over_exact": _ratio(ours, arms["exact, reduced"], "calls"),
                "rank_one_svds_exact_over_weak": _ratio(
                    arms["exact, reduced"], ours, "rank_one_svds"
                ),
            }
        )
    return found


def _ratio(above: Record, below: Record, name: str) -> float | None:
    if above[name] is None or not below[name]:
        return None
    return float(above[name] / below[name])


EXPERIMENT = Experiment(
    "ablation",
    "Weak or exact prox, variance reduction or not",
    jobs,
    work,
    summarise,
    verdicts=("verdicts",),
)
