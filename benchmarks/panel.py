"""Causal panels: certified fits beside the iteration that other packages run.

python benchmarks/panel.py           2,000 x 300, 30 % missing: time to the same objective
python benchmarks/panel.py --large   10,000 x 1,000: time and memory

The other iteration is that of MC-NNM (Athey et al., 2021), which causaltensor, mlsynth and
lightweight-mcnnm share: means of residuals for unit and time effects in turns, then a full SVD
of the completed matrix and soft thresholding. It stops when its objective is that of our
certified answer, or after `--limit` seconds. It is written here twice, both from X = 0:

- lean: the effects are updated once in an iteration, as in lightweight-mcnnm, without its other
  products;
- refitted: the effects are alternated until they change by less than 1e-7, or 100 times, as
  in mlsynth (causaltensor allows 2,000).

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
SWEEPS = 100  # of effects in an iteration of mlsynth


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


def soft_impute(Y, seen, lam, value, limit, sweeps=1):
    """Iterations, seconds and objective of the peers' iteration, down to this value."""
    rows, columns = seen.sum(axis=1, keepdims=True), seen.sum(axis=0)
    L, b, found = np.zeros(Y.shape), np.zeros(Y.shape[1]), np.inf
    a = np.zeros((Y.shape[0], 1))
    begun, steps = time.perf_counter(), 0
    while found > value and time.perf_counter() - begun < limit:
        R = Y - L
        for _ in range(sweeps):
            before = a, b
            a = np.where(seen, R - b, 0.0).sum(axis=1, keepdims=True) / rows
            b = np.where(seen, R - a, 0.0).sum(axis=0) / columns
            if max(np.abs(a - before[0]).max(), np.abs(b - before[1]).max()) < 1e-7:
                break
        U, s, Vt = np.linalg.svd(np.where(seen, Y - a - b, L), full_matrices=False)
        s = np.maximum(s - lam, 0.0)
        L = (U * s) @ Vt
        found = 0.5 * np.sum(np.where(seen, Y - L - a - b, 0.0) ** 2) + lam * s.sum()
        steps += 1
    return steps, time.perf_counter() - begun, found


def race(limit):
    shape = (2000, 300)
    print(f"{shape[0]} x {shape[1]}; seconds to the objective of the certified answer")
    print("missing     noise  tol    rank  ours s (steps)  peer      seconds (steps)   ratio")
    for kind, noise in (("random", 0.5), ("staggered", 0.5), ("staggered", 0.1)):
        Y, gone = panel(shape, noise, kind)
        lam = weight(shape, noise)
        model = wp.MatrixCompletionPanel(lam, random_state=0)
        model.set_params(tol=1e-2).fit(Y, gone)  # compiles
        for tol in (1e-3, 1e-4):
            ours = np.inf
            for _ in range(3):
                begun = time.perf_counter()
                model.set_params(tol=tol).fit(Y, gone)
                ours = min(ours, time.perf_counter() - begun)
            assert model.result_.certified
            steps = model.result_.counts.svds
            head = f"{kind:10} {noise:6} {tol:6.0e} {model.rank_:5} {ours:7.2f} ({steps:4})"
            # the value of the problem of the model, within rounding
            value = model.result_.value * (1.0 + 1e-9)
            for peer, sweeps in (("lean", 1), ("refitted", SWEEPS)):
                steps, theirs, found = soft_impute(Y, ~gone, lam, value, limit, sweeps)
                more = "" if found <= value else f" (stopped {found / value - 1:.0e} above)"
                print(
                    f"{head}  {peer:9} {theirs:7.2f} ({steps:4}) {theirs / ours:7.1f}{more}",
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
