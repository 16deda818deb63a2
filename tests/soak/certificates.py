"""Random problems of every kind, solved by random methods: no certificate may be wrong.

`check(seed)` solves the problem of that seed several times and lists everything that is
not true. From the root of the repository, `python tests/soak/certificates.py 0 10000` checks
these seeds in two processes or more; any other range continues from there. Every
`SAMPLED`-th problem is known through samples only (`soak.sampled`): what is proved about
those holds at a confidence, so that misses are counted and compared with it at the end.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from soak import sampled
from soak.instances import Instance, instance

import weakprox as wp
from weakprox.errors import InputError
from weakprox.solvers import (
    ADMM,
    FISTA,
    HCGM,
    SCG,
    SCGS,
    SHCGM,
    STORC,
    SVRF,
    DavisYin,
    DualAscent,
    Extragradient,
    LeanSplitting,
    ProjectedSubgradient,
)
from weakprox.spectral import Exact

LIMIT = 150  # decompositions of the long run
SECONDS = 1.0  # of any run: a guard, which the limits on decompositions come before
SAMPLED = 20  # every so many seeds, a problem that is known through samples
CHUNK = 25  # seeds that a process takes at a time
SAMPLES = (SHCGM, SCG, SCGS, STORC, SVRF, wp.SVRGCG, wp.solvers.AdaptiveSVRGCG)
STOCHASTIC = (SHCGM, SCG, SCGS, STORC, SVRF, ProjectedSubgradient)  # in expectation only


def solvers(rng: np.random.Generator, case: Instance) -> list[tuple[Any, dict[str, Any]]]:
    """Random methods for it, with the accuracy and the limits to ask for."""
    problem = case.problem
    cap = int(rng.integers(1, min(problem.shape) + 1))
    size = abs(case.best) or case.scale or case.size**2
    deterministic: list[Any] = [None, DavisYin(), DavisYin(rank=cap)]
    if ADMM.applies(problem):
        deterministic += [ADMM(), ADMM(rank=cap)]
    if DualAscent.applies(problem):
        deterministic += [DualAscent(rank=cap), DavisYin()]
    first = deterministic[int(rng.integers(0, len(deterministic)))]
    limit = 60 if problem.penalty.separable else 20
    options = {"tol": _tol(rng, case, -10, -2), "max_svds": limit}
    if first is None and rng.random() < 0.3:
        options["rank"] = cap
    others = [
        (wp.solvers.AdaptiveSVRGCG(rank=cap), 25),
        (wp.SVRGCG(rank=cap), 25),
        (Extragradient(), 40),
        (FISTA(), 25),
        *((method(), 25) for method in (HCGM, SHCGM, SCG, SCGS, STORC, SVRF)),
        (ProjectedSubgradient(), 25),
    ]
    eps = float(size * 10.0 ** rng.uniform(-6, -1))
    chosen: list[Any] = [(first, options)]
    for index in rng.permutation(len(others)):
        other, limit = others[int(index)]
        if _applies(other, problem):
            chosen.append((other, {"eps": eps, "max_svds": limit}))
            break
    if LeanSplitting.applies(problem):
        lean = {"tol": _tol(rng, case, -8, -1), "max_svds": int(rng.integers(1, 40))}
        chosen.append((LeanSplitting(rank=cap if rng.random() < 0.3 else None), lean))
    return chosen


def _tol(rng: np.random.Generator, case: Instance, low: float, high: float) -> float:
    """Any accuracy that the dtype can show."""
    least = 1.2e-7 if case.dtype is np.float32 else 0.0
    return max(least, float(10.0 ** rng.uniform(low, high)))


def _applies(solver: Any, problem: wp.Problem) -> bool:
    """Whether the method itself says that it is made for such problems."""
    if getattr(problem.loss, "intercepts", "none") != "none" and isinstance(solver, SAMPLES):
        return False  # intercepts are fitted to all observations
    if problem.loss.smoothness == 0.0:
        return False  # nothing was measured: conditional gradients are not made for that
    try:
        solver.check(problem)
    except InputError:
        return False
    return True


def verify(case: Instance, result: wp.Result, label: str, options: dict[str, Any]) -> None:
    """Everything a result says about itself that can be computed again."""

    def need(true: bool, what: str) -> None:
        if not true:
            case.found.append(f"{label}: {what}")

    X = np.asarray(result.X)
    value, scale = case.value(X)
    excess, single = float(case.excess(X.astype(np.longdouble))), case.dtype is np.float32
    need(bool(np.isfinite(X).all()) and np.isfinite(value), f"value {value}")
    need(excess <= (1e-4 if single else 1e-8), f"outside the set by {excess:.1e}")
    need(0.0 <= result.violation <= (1e-4 if single else 1e-8), f"off {result.violation:.1e}")
    off, blur = abs(result.value - value), scale + case.cancelled(X)
    need(off <= 256 * case.eps * blur, f"value {result.value!r} is {value!r}")
    over = value - result.value - result.certificate.rounding
    need(over <= 1024 * np.finfo(float).eps * blur, f"rounding adds {over:.1e} to {value!r}")
    size = 0.5 * case.problem.loss.smoothness * float((X.astype(np.longdouble) ** 2).sum())
    reached = max(abs(result.value), 1e-5 * size)
    allowed = options["tol"] * reached if "tol" in options else options["eps"]
    need(abs(result.eps - allowed) <= 1e-5 * allowed, f"eps {result.eps} is {allowed}")
    lower = result.certificate.lower_bound
    need(not np.isnan(lower) and lower < np.inf, f"bound {lower}")
    need(lower <= result.value, f"bound {lower!r} > value {value!r}")
    need((result.gap <= result.eps) == (result.status is wp.Status.CERTIFIED),
         f"{result.status.name} with gap {result.gap:.3e}, eps {result.eps:.3e}")  # fmt: skip
    cap = options.get("rank")
    need(cap is None or result.rank <= cap, f"rank {result.rank} > {cap}")
    value, scale = case.value(case.inside(X))
    if value < case.best:
        case.best, case.scale = value, scale


def check(seed: int, limit: int = LIMIT) -> list[str]:
    """What is not true about runs on this seed's instance."""
    case = instance(seed)
    rng = np.random.default_rng([seed, 419])
    done: list[tuple[str, Any, wp.Result]] = []

    def run(solver: Any, options: dict[str, Any]) -> None:
        label = f"{'default' if solver is None else solver} {options}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = wp.minimize(
                    case.problem, solver, progress=False, max_seconds=SECONDS, **options
                )
                str(result), result.explain()
        except Exception as failure:  # whatever it is, it is a finding
            frames = traceback.extract_tb(failure.__traceback__)
            place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-6:-1])
            case.found.append(f"{label}: raised {failure!r} in {place}")
            return
        cap = options.get("rank", getattr(solver, "rank", None))
        if isinstance(case.problem.spectral, Exact):
            cap = None  # which says that it ignores ranks
        verify(case, result, label, {**options, "rank": cap})
        done.append((label, solver, result))

    if not case.problem.penalty.separable:
        limit //= 5  # proximal maps of sums and maxima are iterations themselves
    run(None, {"tol": 1e-6 if case.dtype is np.float32 else 1e-9, "max_svds": limit})
    for solver, options in solvers(rng, case):
        run(solver, options)
    for label, solver, result in done:
        lower, slack = result.certificate.lower_bound, case.rounding()
        if lower > case.best + slack:
            over = (lower - case.best) / case.scale
            case.found.append(f"{label}: bound {over:.1e} above the best value {case.best!r}")
        sure = result.status.reached and not isinstance(solver, STOCHASTIC)
        if sure and result.value > case.best + result.eps + slack:
            case.found.append(
                f"{label}: {result.status.name} but {result.value - case.best:.3e} off"
            )
    return [f"seed {seed} ({case.name}) {text}" for text in case.found]


def check_range(seeds: range) -> tuple[int, list[str], int, int]:
    """Problems done, what is wrong about them, and statements at a confidence: made, missed."""
    found, made, missed = [], 0, 0
    for seed in seeds:
        try:
            if seed % SAMPLED == SAMPLED - 1:
                wrong, statement, miss = sampled.check(seed)
                made, missed = made + statement, missed + miss
            else:
                wrong = check(seed)
        except Exception as failure:  # of the problem's own making
            wrong = [f"seed {seed}: raised {failure!r} outside a run"]
        found += wrong
    return len(seeds), found, made, missed


def main(argv: list[str]) -> int:
    """Check the seeds from one number to another, in two processes or more."""
    first, last = (int(text) for text in argv[:2]) if argv else (0, 10_000)
    processes = max(2, os.cpu_count() or 2)
    parts = [range(at, min(at + CHUNK, last)) for at in range(first, last, CHUNK)]
    begun, done, wrong, made, missed = time.perf_counter(), 0, 0, 0, 0
    with ProcessPoolExecutor(processes) as pool:
        for job in as_completed([pool.submit(check_range, part) for part in parts]):
            count, found, statements, misses = job.result()
            before, done = done, done + count
            wrong += len({text.split(" (")[0].split(":")[0] for text in found})
            made, missed = made + statements, missed + misses
            for text in found:
                print(text, flush=True)
            if done // 100 > before // 100:
                seconds = time.perf_counter() - begun
                print(f"{done} problems, {wrong} wrong, {seconds:.0f} s", flush=True)
    if sampled.too_many(made, missed):
        share = f"{sampled.CONFIDENCE:.0%}"
        print(f"{missed} of {made} statements at {share} confidence were wrong")
        wrong += 1
    print(f"{done} random problems, {wrong} with a statement that is not true")
    print(
        f"RESULT certificates instances={done} violations={wrong} sampled={made} "
        f"sampled_misses={missed} failures={wrong}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
