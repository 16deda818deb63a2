"""Causal panels: certified fits beside the iteration that other packages run.

python benchmarks/panel.py           2,000 x 300, 30 % missing: time to the same objective
python benchmarks/panel.py --large   10,000 x 1,000: time and memory

The other iteration is that of MC-NNM (Athey et al., 2021), which causaltensor, mlsynth and
lightweight-mcnnm share: means of residuals for unit and time effects in turns, then a full SVD
of the completed matrix and soft thresholding. It is written here without their overhead, and it
stops when its objective is that of our certified answer, or after `--limit` seconds.

Panels have eight factors that are random walks, of strengths 8, 4, 2, ..., unit and time
effects and white noise. About 30 % of the cells are missing at random, or in the manner of
panels: 60 % of units adopt a treatment at different times. The weight is 0.8 times the norm of
the noise, which is about what cross-validation chooses.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import weakprox as wp

FACTORS, SHARE, MISSING = 8, 0.8, 0.3


def panel(shape, noise, kind, seed=0):
    """Outcomes, and which cells are treated or missing."""
    m, d = shape
    rng = np.random.default_rng(seed)
    trend = np.cumsum(rng.standard_normal((FACTORS, d)), axis=1) / np.sqrt(d)
    load = rng.standard_normal((m, FACTORS)) * 8.0 * 2.0 ** -np.arange(FACTORS)
    Y = load @ trend + rng.standard_normal((m, 1)) + rng.standard_normal(d)
    Y += noise * rng.standard_normal(shape)
    if kind == "random":
        return Y, rng.random(shape) < MISSING
    adopts = rng.random(m) < 2 * MISSING
    first = np.where(adopts, rng.integers(d // 10, 9 * d // 10, m), d)
    return Y, np.arange(d) >= first[:, None]


def weight(shape, noise):
    return SHARE * noise * (np.sqrt(shape[0]) + np.sqrt(shape[1])) * np.sqrt(1.0 - MISSING)


def soft_impute(Y, seen, lam, value, limit):
    """Iterations, seconds and objective of the peers' iteration, down to this value."""
    rows, columns = seen.sum(axis=1, keepdims=True), seen.sum(axis=0)
    L, b, found = np.zeros(Y.shape), np.zeros(Y.shape[1]), np.inf
    begun, steps = time.perf_counter(), 0
    while found > value and time.perf_counter() - begun < limit:
        a = np.where(seen, Y - L - b, 0.0).sum(axis=1, keepdims=True) / rows
        b = np.where(seen, Y - L - a, 0.0).sum(axis=0) / columns
        U, s, Vt = np.linalg.svd(np.where(seen, Y - a - b, L), full_matrices=False)
        s = np.maximum(s - lam, 0.0)
        L = (U * s) @ Vt
        found = 0.5 * np.sum(np.where(seen, Y - L - a - b, 0.0) ** 2) + lam * s.sum()
        steps += 1
    return steps, time.perf_counter() - begun, found


def race(limit):
    shape = (2000, 300)
    print(f"{shape[0]} x {shape[1]}; seconds to the objective of the certified answer")
    print("missing     noise  tol    rank  ours s  soft-impute s (steps)  ratio")
    for kind, noise in (("random", 0.5), ("staggered", 0.5), ("staggered", 0.1)):
        Y, gone = panel(shape, noise, kind)
        lam = weight(shape, noise)
        model = wp.MatrixCompletionPanel(lam, random_state=0)
        model.set_params(tol=1e-2).fit(Y, gone)  # compiles
        for tol in (1e-3, 1e-4):
            begun = time.perf_counter()
            model.set_params(tol=tol).fit(Y, gone)
            ours = time.perf_counter() - begun
            assert model.result_.certified
            # the value of the problem of the model, within rounding
            value = model.result_.value * (1.0 + 1e-9)
            steps, theirs, found = soft_impute(Y, ~gone, lam, value, limit)
            more = "" if found <= value else f" (stopped {found / value - 1:.0e} above)"
            print(
                f"{kind:10} {noise:6} {tol:6.0e} {model.rank_:5} {ours:7.2f}"
                f" {theirs:12.2f} ({steps:4})      {theirs / ours:6.1f}{more}",
                flush=True,
            )


def large():
    shape, noise = (10_000, 1000), 0.5
    Y, gone = panel(shape, noise, "staggered")
    cells = int((~gone).sum())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    model = wp.MatrixCompletionPanel(weight(shape, noise), tol=1e-3, random_state=0)
    model.fit(Y, gone)
    seconds = time.perf_counter() - begun
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(
        f"{shape[0]} x {shape[1]}, {cells} untreated cells: {seconds:.0f} s, rank {model.rank_}"
    )
    print(f"{peak / 1e9:.2f} GB beside the data, {peak / cells:.0f} bytes per untreated cell")
    print(model.certificate_)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds of soft-impute")
    options = parser.parse_args()
    if options.large:
        large()
    else:
        race(options.limit)
