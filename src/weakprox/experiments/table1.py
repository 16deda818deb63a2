"""Table 1: what the l1 norm adds to low rank when a sparse rank-one matrix is estimated.

M = yy' + noise is denoised by its best rank-one approximation, by projection on
{X PSD, tr X <= tau}, and by the l1 problem on that set. The paper leaves open tau, lam,
what counts as zero, and how N ~ N(0, I_n) is meant; every choice is made explicit here,
and the summary shows what each of them changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.experiments.base import Experiment, Job, Record, stream
from weakprox.experiments.instances import Matrix, table1_signal
from weakprox.experiments.optimum import optimum, project
from weakprox.experiments.table1_choices import (
    LAMS,
    LEVELS,
    NNZ_TOLERANCES,
    RANK_TOLERANCES,
    TAUS,
    certified_gap,
)
from weakprox.experiments.table1_summary import summarise
from weakprox.linalg import decompositions
from weakprox.spectral import TracePSD

N = 50
DRAWS, QUICK_DRAWS = 50, 10


def jobs(quick: bool, seed: int) -> list[Job]:
    """One job per way to read the noise, noise level and draw."""
    common = {"n": N, "taus": list(TAUS)[:1] if quick else list(TAUS), "quick": quick}
    return [
        {"noise": noise, "c": c, "draw": draw, "seed": seed, **common}
        for noise in ("matrix", "vector")
        for c in LEVELS
        for draw in range(QUICK_DRAWS if quick else DRAWS)
    ]


def work(job: Job) -> Record:
    """All methods on one draw; both ways to read the noise see the same y."""
    c = job["c"]
    rng = stream("table1", job["seed"], LEVELS.index(c), job["draw"])
    M, y = table1_signal(job["n"], c, rng, job["noise"])
    taus = {rule: _tau(rule, M, y) for rule in job["taus"]}
    return {
        "nonzeros_of_y": int(np.count_nonzero(y)),
        "low_rank": measured(_best_rank_one(M), y),
        "projection": {
            rule: measured(project(M, TracePSD(tau)), y) for rule, tau in taus.items()
        },
        "low_rank_sparse": {
            rule: {
                str(q): _l1(M, y, tau, q * c, certified_gap(rule, q, job["quick"]))
                for q in LAMS
            }
            for rule, tau in taus.items()
        },
    }


def measured(X: Matrix, y: Matrix) -> dict[str, Any]:
    """Error, nonzeros and rank of an estimate of yy', at every tolerance."""
    Y = np.outer(y, y)
    trace = float(y @ y)
    size, eigenvalues = np.abs(X), decompositions.eigvalsh(X)
    largest = float(size.max())
    nonzeros = np.count_nonzero(Y)
    return {
        "error": float(np.sum((X - Y) ** 2)) / trace**2,
        "nnz": {
            name: np.count_nonzero(size > (tol * largest if relative else tol)) / nonzeros
            for name, (tol, relative) in NNZ_TOLERANCES.items()
        },
        "rank": {
            name: np.count_nonzero(eigenvalues > tol * trace)
            for name, tol in RANK_TOLERANCES.items()
        },
    }


def _l1(M: Matrix, y: Matrix, tau: float, lam: float, gap: float) -> dict[str, Any]:
    """The l1 problem, and how well it was solved."""
    unit = 0.5 * float(np.sum(M * M))  # the value at X = 0
    found = optimum(M, lam, TracePSD(tau), gap=gap * unit, max_steps=20_000)
    return {**measured(found.X, y), "gap": found.gap / unit, "steps": found.steps}


def _best_rank_one(M: Matrix) -> Matrix:
    """The nearest PSD matrix of rank at most one (the paper's 1-SVD)."""
    w, V = decompositions.eigh(M)
    return max(0.0, float(w[-1])) * np.outer(V[:, -1], V[:, -1])


def _tau(rule: str, M: Matrix, y: Matrix) -> float:
    if rule == "tr M":  # what one can know without y; |y|^2 >= 1, the trace of M need not be
        return max(1.0, float(np.trace(M)))
    return TAUS[rule] * float(y @ y)


EXPERIMENT = Experiment(
    "table1",
    "Table 1: low rank, with and without l1",
    jobs,
    work,
    summarise,
    verdicts=("orderings", "closest"),
)
