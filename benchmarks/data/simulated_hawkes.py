"""Simulated Hawkes processes in the manner of Zhou, Zha & Song (2013), in shape.

A = U V' from overlapping blocks, spectral radius 0.8, exponential kernel. Each row's
estimated infectivities are ranked against the true ones (Kendall's tau, mean over rows):
the l1 price and the nuclear bound together, each alone, and neither; whatever is not
fixed is chosen on the training record. They used 1000 nodes; here there are fewer.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from common import Row, Tally
from scipy.stats import kendalltau

from weakprox.estimators import HawkesInfectivity
from weakprox.estimators._hawkes_process import Kernel, simulate

RANK, RADIUS, DECAY = 9, 0.8, 1.0
METHODS = {
    "both": {},
    "l1 alone": {"tau": None},
    "nuclear alone": {"lam": 0.0},
    "neither": {"lam": 0.0, "tau": None},
}


def truth(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Infectivity with overlapping blocks, and baselines."""
    U, V, step = np.zeros((count, RANK)), np.zeros((count, RANK)), count // (RANK + 1)
    for k in range(RANK):
        rows = slice(k * step, (k + 2) * step)
        U[rows, k], V[rows, k] = rng.uniform(0.0, 0.1, (2, 2 * step))
    A = U @ V.T
    return A * (RADIUS / np.abs(np.linalg.eigvals(A)).max()), rng.uniform(0.0, 1e-3, count)


def correlation(A: np.ndarray, model: HawkesInfectivity) -> float:
    """Mean over rows of Kendall's tau; a row without any differences counts as 0.

    Nodes that had no event in the record have no estimate: zeros.
    """
    found, seen = np.zeros_like(A), model.nodes_.astype(int)
    found[np.ix_(seen, seen)] = model.infectivity_
    rows = [
        kendalltau(a, b).statistic if np.ptp(b) > 0 else 0.0
        for a, b in zip(A, found, strict=True)
    ]
    return float(np.mean(rows))


def rows(quick: bool = False) -> list[Row]:
    """Means over records of about 50 events per node."""
    count, seeds = (40, 1) if quick else (60, 3)
    tally, kernel = Tally(), Kernel(np.array([DECAY]), np.ones(1))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        A, baseline = truth(count, rng)
        rate = np.linalg.solve(np.eye(count) - A, baseline).sum()
        horizon = 50 * count / rate
        events = simulate(baseline, A, kernel, horizon, rng)
        X = np.column_stack([events.times, events.nodes])
        for name, settings in METHODS.items():
            model = HawkesInfectivity(**settings, random_state=0)
            fit = partial(model.fit, X, period=(0.0, horizon))
            tally.add(name, fit, partial(correlation, A))
    metric = f"rank correlation, {count} nodes, {seeds} records"
    return tally.rows("simulated Hawkes", metric, ours="both")


if __name__ == "__main__":
    for row in rows():
        print(row)
