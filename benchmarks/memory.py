"""Arrays that each solver holds at its peak, measured, beside what `weakprox.plan` says.

Each run is a process of its own, on Linux: the kernel records its peak (VmHWM), which does not
depend on the load of the machine and can be reset. With glibc's own settings: an allocator that
gives memory back at once (MALLOC_TRIM_THRESHOLD_) holds less.

    python benchmarks/memory.py [solver ...]   # a loose and a tight run of each
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

SIZE, RANK = 1200, 3
RUNS = {"loose": (1e-3, 20.0), "tight": (1e-9, 20.0)}  # accuracy, seconds at most
RATIO = 1.25  # between plan and measurement


def problem_for(name: str, d: int = SIZE):
    """An instance that the solver suits, with symmetric data in memory."""
    import weakprox as wp

    rng = np.random.default_rng(0)
    Y = rng.integers(1, 10, (d, RANK)) * (rng.random((d, RANK)) < 0.1) * 1.0
    M = Y @ Y.T
    M += rng.standard_normal((d, d))
    penalty, loss = wp.penalties.L1(2.0), wp.losses.Denoising(M)
    if name == "DualAscent":
        penalty = wp.penalties.MaxAffine(rng.standard_normal((2, d, d)), np.zeros(2))
    if name == "ADMM":
        loss = wp.losses.Denoising(M, weights=rng.uniform(1.0, 2.0, (d, d)))
    if name == "SampleAverage":

        def draw(rng, k):
            return M + 0.1 * rng.standard_normal((k, d, d))

        loss = wp.losses.Denoising(sampler=draw, shape=(d, d), sigma=0.1 * d)
    return wp.Problem(loss, penalty, wp.spectral.NuclearBall(0.5 * float(np.sum(Y * Y))))


def measured(name: str, accuracy: float, seconds: float) -> dict[str, object]:
    """Peak above the start of the run, in this process, and what the plan says."""
    import weakprox as wp
    from weakprox.resources.memory import peak, resident
    from weakprox.solvers import LeanSplitting

    LeanSplitting.affordable = staticmethod(lambda problem: False)  # it is to stay itself
    problem = problem_for(name)
    solver = getattr(wp.solvers, name)
    solver = solver(rank=RANK) if "SVRGCG" in name else solver()
    plan = wp.plan(problem, solver)
    wp.minimize(problem_for(name, 60), solver, eps=1e9, max_seconds=1.0, progress=False)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = resident()
    stored = name not in ("SampleAverage", "ADMM")
    reference = problem.loss.target if stored else problem.loss.reference
    eps = accuracy * 0.5 * float(np.sum(reference**2))
    # a proof that is kept holds one array more
    found = wp.minimize(
        problem, solver, eps=eps, max_seconds=seconds, progress=False, proof=False
    )
    took = peak() - before
    need = plan[name]
    early = found.counts.svds <= 16
    said = (need.first if early else need.work) + need.proof
    return {
        "took": (took - need.factors) / plan.array,
        "said": said,
        "ratio": took / (said * plan.array + need.factors),
        "svds": found.counts.svds,
        "status": found.status.name,
    }


def main() -> int:
    """Measure all, or those named; 1 if one is further off than RATIO."""
    from weakprox.solvers.base import ARRAYS

    off = 0
    print(f"{'solver':<22}{'run':<7}{'SVDs':>6}{'measured':>10}{'plan':>7}{'ratio':>7}")
    for name in sys.argv[1:] or ARRAYS:
        for kind, (accuracy, seconds) in RUNS.items():
            command = [sys.executable, __file__, "--one", name, str(accuracy), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(name, kind, done.stderr[-300:])
                off += 1
                continue
            found = json.loads(done.stdout)
            off += not 1 / RATIO <= found["ratio"] <= RATIO
            print(
                f"{name:<22}{kind:<7}{found['svds']:>6}{found['took']:>10.1f}"
                f"{found['said']:>7.1f}{found['ratio']:>7.2f}  {found['status'].lower()}",
                flush=True,
            )
    return int(off > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measured(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))
    else:
        sys.exit(main())
