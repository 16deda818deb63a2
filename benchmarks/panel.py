"""Causal panels: certified fits beside other packages.

python benchmarks/panel.py           2,000 x 300, 30 % missing: time to the same objective
python benchmarks/panel.py --shape 500 100 --missing 0.1 --noise 0.5 0.1 0.02   other panels
python benchmarks/panel.py --large   10,000 x 1,000: time and memory
python benchmarks/panel.py --large --auto   the same, with the weight chosen by held-out cells

The other packages are not in the environment of this project:

pip install --no-deps --target PEERS causaltensor mlsynth statsmodels patsy scikit-optimize \
    pyaml pydantic pydantic-core cvxopt
PYTHONPATH=PEERS OPENBLAS_NUM_THREADS=1 python benchmarks/panel.py

causaltensor and mlsynth run the iteration of MC-NNM (Athey et al., 2021) from X = 0: effects of
units and periods are fitted to the residuals by means in turns, the matrix is completed, and
its singular values are thresholded, by the Gram matrix in causaltensor and by a full SVD in
mlsynth. They have no stopping rule for the objective. So the iterations are counted first
(`needed`), up to that whose objective, with the best effects, is that of our certified answer.
Then their own functions run for this number of iterations, and only that is timed, in turns
with ours. If that took more than `--limit` seconds, fewer iterations are timed, and the line
says how many.

lightweight-mcnnm has the same iteration, but its functions store an array with the square of
the number of cells of the panel: 2.9 TB at this size.

Panels have eight factors that are random walks, of strengths 8, 4, 2, ..., unit and time
effects and white noise. About 30 % of the cells are missing at random, or in the manner of
panels: twice as many units adopt a treatment at different times. The weight is 0.8 times the
norm of the noise, which is about what cross-validation chooses.

Memory is the peak of the process less what it holds before the fit: the data, and the libraries
that a first small fit has loaded.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from itertools import product

import numpy as np

import weakprox as wp

FACTORS, SHARE = 8, 0.8
ITERATIONS = 20_000  # counted at most


def panel(shape, noise, kind, missing=0.3, seed=0):
    """Outcomes, and which cells are treated or missing."""
    m, d = shape
    rng = np.random.default_rng(seed)
    trend = np.cumsum(rng.standard_normal((FACTORS, d)), axis=1) / np.sqrt(d)
    load = rng.standard_normal((m, FACTORS)) * 8.0 * 2.0 ** -np.arange(FACTORS)
    Y = load @ trend + rng.standard_normal((m, 1)) + rng.standard_normal(d)
    Y += noise * rng.standard_normal(shape)
    if kind == "random":
        return Y, rng.random(shape) < missing
    adopts = rng.random(m) < 2 * missing
    first = np.where(adopts, rng.integers(d // 10, 9 * d // 10, m), d)
    return Y, np.arange(d) >= first[:, None]


def weight(shape, noise, missing=0.3):
    return SHARE * noise * (np.sqrt(shape[0]) + np.sqrt(shape[1])) * np.sqrt(1.0 - missing)


def needed(Y, seen, lam, values):
    """Iterations of MC-NNM from L = 0 down to each of these values, which fall."""
    data = wp.losses.Completion(*np.nonzero(seen), Y[seen], Y.shape, intercepts="both")
    effects = data.observed().balanced
    L, norm, counts = np.zeros(Y.shape), 0.0, []
    for steps in range(ITERATIONS):
        R = np.where(seen, Y - L, 0.0)
        a, b = effects(R.sum(axis=1), R.sum(axis=0))
        R = np.where(seen, R - a[:, None] - b, 0.0)
        found = 0.5 * np.sum(R * R) + lam * norm
        while len(counts) < len(values) and found <= values[len(counts)]:
            counts.append(steps)
        if len(counts) == len(values):
            return counts
        T = np.where(seen, Y - a[:, None] - b, L)
        squares, V = np.linalg.eigh(T.T @ T)
        s = np.sqrt(np.maximum(squares, 0.0))
        V, s = V[:, s > lam], s[s > lam]
        L, norm = (T @ (V * (1.0 - lam / s))) @ V.T, float(np.sum(s - lam))
    return counts + [ITERATIONS] * (len(values) - len(counts))


def packages():
    """Functions of the installed packages: L after a number of iterations."""
    found = {}
    try:
        from causaltensor.cauest.MCNNM import MCNNMPanelSolver

        def causaltensor(Y, gone, lam, steps):
            solver = MCNNMPanelSolver(Z=gone)
            return solver.solve_with_regularizer(Y, lam, eps=0.0, max_iter=steps).M

        found["causaltensor"] = causaltensor
    except ImportError:
        print("causaltensor is not installed")
    try:
        from mlsynth.utils.mcnnm_helpers.completion import mcnnm_fit

        def mlsynth(Y, gone, lam, steps):
            return mcnnm_fit(Y, 1.0 - gone, lam, max_iter=steps, tol=0.0)["L"]

        found["mlsynth"] = mlsynth
    except ImportError:
        print("mlsynth is not installed")
    return found


def timed(run, *arguments):
    """Seconds of the processor: other work on the machine counts little."""
    begun = time.process_time()
    run(*arguments)
    return time.process_time() - begun


def race(shape, missing, noises, limit):
    peers = packages()
    if not peers:
        return
    print(
        f"{shape[0]} x {shape[1]}, {100 * missing:.0f} % missing; "
        "processor seconds to the same objective"
    )
    print(
        "missing     noise  tol    rank  ours s (steps)  package       seconds (steps)  ratio"
    )
    for kind, noise in product(("random", "staggered"), noises):
        Y, gone = panel(shape, noise, kind, missing)
        lam = weight(shape, noise, missing)
        fits = [wp.MatrixCompletionPanel(lam, tol=tol, random_state=0) for tol in (1e-3, 1e-4)]
        for model in fits:
            assert model.fit(Y, gone).result_.certified
        # values of the problem of the model, within rounding
        values = [model.result_.value * (1.0 + 1e-9) for model in fits]
        for model, steps in zip(fits, needed(Y, ~gone, lam, values), strict=True):
            ours, theirs, counts = [], {}, {}
            for name, run in peers.items():
                ours += [timed(model.fit, Y, gone) for _ in range(3)]
                pace = timed(run, Y, gone, lam, 5) / 5
                counts[name] = min(steps, max(5, int(limit / pace)))
                theirs[name] = timed(run, Y, gone, lam, counts[name])
            head = f"{kind:10} {noise:6} {model.tol:6.0e} {model.rank_:5} {min(ours):7.2f}"
            head = f"{head} ({model.result_.counts.svds:4})"
            for name, seconds in theirs.items():
                whole = seconds * steps / counts[name]
                how = "" if counts[name] == steps else f", from {counts[name]} steps"
                print(
                    f"{head}  {name:13} {whole:7.2f} ({steps:5}) {whole / min(ours):6.1f}{how}",
                    flush=True,
                )


def held():
    """Bytes that the process holds now (Linux)."""
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * resource.getpagesize()


def large(shape, auto):
    noise = 0.5
    Y, gone = panel(shape, noise, "staggered")
    cells = int((~gone).sum())
    small = (200, 50)  # loads what a fit imports, which is not memory for the cells
    wp.MatrixCompletionPanel(weight(small, noise)).fit(*panel(small, noise, "staggered"))
    gc.collect()
    before = held()
    begun = time.perf_counter()
    lam = "auto" if auto else weight(shape, noise)
    model = wp.MatrixCompletionPanel(lam, tol=1e-3, random_state=0)
    model.fit(Y, gone)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    print(
        f"{shape[0]} x {shape[1]}, {cells} untreated cells: {seconds:.0f} s, rank "
        f"{model.rank_}, lam {model.lam_ / weight(shape, noise):.2f} of the formula's"
    )
    print(f"{peak / 1e9:.2f} GB beside the data, {peak / cells:.0f} bytes per untreated cell")
    print(model.certificate_)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--auto", action="store_true", help="choose the weight")
    parser.add_argument("--shape", type=int, nargs=2, help="units and periods")
    parser.add_argument("--missing", type=float, default=0.3, help="share of the cells")
    parser.add_argument("--noise", type=float, nargs="+", default=(0.5, 0.1))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a package")
    options = parser.parse_args()
    if options.large:
        large(tuple(options.shape or (10_000, 1000)), options.auto)
    else:
        shape = tuple(options.shape or (2000, 300))
        race(shape, options.missing, options.noise, options.limit)
