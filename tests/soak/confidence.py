"""How often statements at a confidence are false, for many laws of noise.

From the root of the repository, `python tests/soak/confidence.py` makes 200 runs for each law
and setting and prints a table; a number makes that many. A run counts as false if its answer
is further from the optimum than the gap it shows, whatever its status. The optimum is known:
the expectation of every loss here is 1/2 |X - C|^2 and a constant. `--price` prints how many
samples Gaussian noise takes instead.
"""

from __future__ import annotations

import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from soak.kit import Matrix
from soak.laws import LAWS

import weakprox as wp
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import L1
from weakprox.solvers import SampleAverage
from weakprox.spectral import NuclearBall

CONFIDENCE = 0.95
SHAPE = (6, 5)
RUNS = 200
MOST = 40_000  # samples of one run


@dataclass(frozen=True)
class Setting:
    """A kind of problem and run.

    `samples` is how many the accuracy takes in the mean, which makes it coarse or fine.
    """

    name: str
    samples: float
    sensing: bool = False
    plain: bool = True  # no penalty and an inactive ball: the error is |e|^2/2, no less
    svrgcg: bool = False


SETTINGS = (
    Setting("coarse", 10),
    Setting("fine", 600),
    Setting("L1, ball", 200, plain=False),
    Setting("SVRGCG", 10, svrgcg=True, plain=False),
    Setting("sensing", 20, sensing=True),
)
SENSED = (  # laws for which measurements are made, which take ten times longer
    "Gaussian",
    "t3",
    "shift of 10 in 1 %",
    "shift of 2 in 5 %",
)


@dataclass
class Tally:
    """Runs, those that ended as CONFIDENT, gaps shown and false ones, and samples drawn."""

    runs: int = 0
    confident: int = 0
    stated: int = 0
    false: int = 0
    samples: int = 0


@cache
def variance(law: str, *, sensing: bool) -> float:
    """Of one sample's gradient at the optimum, from many draws."""
    rng = np.random.default_rng(7)
    N = LAWS[law](rng, 40_000, SHAPE)
    if sensing:
        A = rng.standard_normal(N.shape)
        N = A * (A * N).sum((1, 2), keepdims=True)
    return float((N**2).sum((1, 2)).mean())


@cache
def truth(index: int) -> tuple[Matrix, wp.Problem, float]:
    """A matrix, the problem with an active ball around it, and its optimal value."""
    rng = np.random.default_rng([15, index])
    C = rng.standard_normal((SHAPE[0], 2)) @ rng.standard_normal((2, SHAPE[1]))
    ball = NuclearBall(0.8 * float(np.linalg.norm(C, "nuc")))
    problem = wp.Problem(Denoising(C), L1(0.05), ball)
    return C, problem, wp.minimize(problem, tol=1e-10, progress=False).value


def run(law: str, setting: Setting, seed: int) -> tuple[bool, bool, bool, int]:
    """Whether the run ended as CONFIDENT, showed a gap, and a false one; its samples."""
    C, exact, best = truth(seed % 10)

    def copies(rng: np.random.Generator, k: int) -> Matrix:
        return C + LAWS[law](rng, k, SHAPE)

    def measured(rng: np.random.Generator, k: int) -> tuple[Matrix, Matrix]:
        A = rng.standard_normal((k, *SHAPE))
        return A, (A * copies(rng, k)).sum((1, 2))

    loss = Denoising(sampler=copies, shape=SHAPE)
    if setting.sensing:
        constants = {"smoothness": 1.0, "strong_convexity": 1.0}
        loss = Sensing(sampler=measured, shape=SHAPE, **constants)
    if setting.plain:
        exact, best = wp.Problem(Denoising(C), None, NuclearBall(1e3)), 0.0
    problem = wp.Problem(loss, exact.penalty, exact.spectral)
    solver = wp.SVRGCG(rank=min(SHAPE)) if setting.svrgcg else SampleAverage()
    eps = variance(law, sensing=setting.sensing) / (2 * setting.samples)
    result = wp.minimize(problem, solver, eps=eps, seed=seed, max_samples=MOST, progress=False)
    excess = exact.value(result.low_rank) - best
    shown = result.certificate.proves
    false = shown and excess > result.gap + 1e-9 * (1.0 + abs(best))
    return result.status is wp.Status.CONFIDENT, shown, false, result.counts.samples


def tally(law: str, setting: Setting, seeds: range) -> Tally:
    """The runs of these seeds."""
    found = Tally()
    for seed in seeds:
        confident, shown, false, samples = run(law, setting, seed)
        found.runs += 1
        found.confident += confident
        found.stated += shown
        found.false += false
        found.samples += samples
    return found


def allowed(runs: int) -> float:
    """False statements that the confidence allows in so many runs, with two deviations."""
    chance = 1.0 - CONFIDENCE
    return chance * runs + 2.0 * math.sqrt(chance * CONFIDENCE * runs)


def price() -> None:
    """Print the samples drawn for Gaussian noise beside those that the mean error takes."""
    print("| shape | sigma^2 / (2 eps) | samples |")
    print("| --- | --- | --- |")
    for d in (20, 100):
        rng = np.random.default_rng(0)
        C = rng.standard_normal((d, 2)) @ rng.standard_normal((2, d))
        ball = NuclearBall(0.8 * float(np.linalg.norm(C, "nuc")))

        def copies(rng: np.random.Generator, k: int, C: Matrix = C) -> Matrix:
            return C + rng.standard_normal((k, *C.shape))

        problem = wp.Problem(Denoising(sampler=copies, shape=(d, d)), L1(0.05), ball)
        for limit in (150, 600, 4000):
            eps = d * d / (2 * limit)
            drawn = [
                wp.minimize(problem, eps=eps, seed=seed, progress=False).counts.samples
                for seed in range(3)
            ]
            print(f"| {d} x {d} | {limit} | {sum(drawn) / 3:.0f} |", flush=True)


def main(argv: list[str]) -> int:
    """Print the table; 1 if some law and setting has too many false statements."""
    if argv == ["--price"]:
        price()
        return 0
    runs = int(argv[0]) if argv else RUNS
    print(f"| law | {' | '.join(setting.name for setting in SETTINGS)} |")
    print("| --- " * (len(SETTINGS) + 1) + "|")
    total, worst, failures = Tally(), 0.0, 0
    pairs = [(law, setting) for law in LAWS for setting in SETTINGS]
    pairs = [(law, setting) for law, setting in pairs if not setting.sensing or law in SENSED]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {pair: pool.submit(tally, *pair, range(runs)) for pair in pairs}
        tallies = {pair: job.result() for pair, job in jobs.items()}
    for law in LAWS:
        cells = []
        for setting in SETTINGS:
            if (law, setting) not in tallies:
                cells.append("")
                continue
            found = tallies[law, setting]
            total.runs += found.runs
            total.stated += found.stated
            total.false += found.false
            worst = max(worst, found.false / runs)
            failures += found.false > allowed(runs)
            share = f"{100 * found.false / runs:.1f} %"
            cells.append(f"{share} ({100 * found.confident / runs:.0f} %, "
                         f"{found.samples / runs:.0f})")  # fmt: skip
        print(f"| {law} | {' | '.join(cells)} |", flush=True)
    print(f"Each cell: false statements of {runs} runs (CONFIDENT, samples in the mean).")
    print(
        f"RESULT coverage runs={total.runs} statements={total.stated} false={total.false} "
        f"worst_percent={100 * worst:.1f} failures={failures}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
