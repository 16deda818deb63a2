"""Block covariance from few samples (Richard, Savalle & Vayatis 2012): both terms or one.

Sigma is block diagonal, every block v v' with v uniform on [-1, 1]; N samples of N(0, Sigma)
with some noise give a sample covariance S. "l1 + trace" and "trace only" are the nearest
positive semidefinite matrices under their terms, "l1 only" is soft thresholding of S. Weights
and radii are chosen by folds of the samples, over the same grid for all. The paper's tables
could not be retrieved, so this has their shape and not their numbers.
"""

from __future__ import annotations

import time

import numpy as np
from common import Row

import weakprox as wp
from weakprox.selection import Copies, Grid, held_out, regularization_path

NAME, NOISE, FOLDS = "block covariance, simulated", 0.6, 5
BOTH, TRACE, ENTRIES = "l1 + trace (ours)", "trace only", "l1 only"


def covariance(d: int, blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Block diagonal, each block of rank one and random size."""
    ends = np.sort(rng.choice(np.arange(1, d), blocks - 1, replace=False))
    sigma = np.zeros((d, d))
    for rows in np.split(np.arange(d), ends):
        v = rng.uniform(-1.0, 1.0, rows.size)
        sigma[np.ix_(rows, rows)] = np.outer(v, v)
    return sigma


def samples(sigma: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian samples with this covariance, and noise in every variable."""
    values, vectors = np.linalg.eigh(sigma)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    d = sigma.shape[0]
    clean = rng.standard_normal((count, d)) @ root.T
    return clean + NOISE * rng.standard_normal((count, d))


def fold_covariances(X: np.ndarray, folds: int) -> Copies:
    """Sample covariances of disjoint groups, the known variance of the noise taken off."""
    groups = [X[k::folds] for k in range(folds)]
    away = NOISE**2 * np.eye(X.shape[1])
    means = np.array([group.T @ group / len(group) - away for group in groups])
    return Copies(means, np.array([float(len(group)) for group in groups]))


def grid_for(S: np.ndarray, n_lams: int, n_taus: int) -> Grid:
    """Weights down to zero, and traces up to one that has no effect."""
    off = np.abs(S - np.diag(np.diag(S))).max()
    lams = np.append(np.geomspace(0.7 * off, 0.02 * off, n_lams - 1), 0.0)
    trace = float(np.maximum(np.linalg.eigvalsh(S), 0.0).sum())
    taus = np.append(np.linspace(0.2, 1.0, n_taus - 1) * float(np.trace(S)), 4.0 * trace)
    return Grid(lams, np.tile(np.sort(taus), (n_lams, 1)))


def soft(S: np.ndarray, lam: float) -> np.ndarray:
    """Soft thresholding."""
    return np.sign(S) * np.maximum(np.abs(S) - lam, 0.0)


def thresholded(copies: Copies, lams: np.ndarray) -> np.ndarray:
    """Soft thresholding with the weight that folds choose."""
    errors = [
        np.mean(
            [
                np.sum((soft(copies.without(k), copies.louder(k) * lam) - Z) ** 2)
                for k, Z in enumerate(copies.means)
            ]
        )
        for lam in lams
    ]
    return soft(copies.mean(), lams[int(np.argmin(errors))])


def estimates(X: np.ndarray, folds: int, n_lams: int, n_taus: int) -> dict[str, np.ndarray]:
    """What each method makes of the samples."""
    copies = fold_covariances(X, min(folds, len(X)))
    S = copies.mean()
    grid = grid_for(S, n_lams, n_taus)
    psd = wp.spectral.TracePSD
    errors = held_out(copies, grid, spectral=psd).errors(debias=False)
    path = regularization_path(
        wp.losses.Denoising(S), grid.lams, grid.taus, spectral=psd, tol=1e-3
    )
    without_penalty = np.zeros(grid.shape, bool)
    without_penalty[-1] = True
    found = {"sample covariance": S, ENTRIES: thresholded(copies, grid.lams)}
    for method, scores in ((TRACE, np.where(without_penalty, errors, np.inf)), (BOTH, errors)):
        i, j = path.best(scores)[:2]
        found[method] = path.answers[i][j].dense()
    return found


def rows(quick: bool = False) -> list[Row]:
    """Mean relative errors over seeds, for each number of samples."""
    d, blocks, seeds = (40, 4, 3) if quick else (60, 5, 5)
    counts = (20, 100) if quick else (10, 50, 100, 200)
    sizes = (7, 5) if quick else (8, 6)
    table = []
    for count in counts:
        errors: dict[str, list[float]] = {}
        seconds = []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, count])
            sigma = covariance(d, blocks, rng)
            X = samples(sigma, count, rng)
            begin = time.process_time()
            found = estimates(X, FOLDS, *sizes)
            seconds.append(time.process_time() - begin)
            for method, estimate in found.items():
                error = np.linalg.norm(estimate - sigma) / np.linalg.norm(sigma)
                errors.setdefault(method, []).append(float(error))
        metric = f"relative error, N = {count}, d = {d}, {seeds} seeds"
        for method, values in errors.items():
            table.append(
                Row(
                    NAME,
                    metric,
                    method,
                    float(np.mean(values)),
                    float(np.std(values)),
                    float(np.median(seconds)),
                    better="lower",
                    ours=method == BOTH,
                    note="time: the whole search" if method == BOTH else "",
                )
            )
    return table


if __name__ == "__main__":
    for row in rows():
        print(f"{row.metric:45} {row.method:20} {row.score:.3f} ± {row.spread:.3f}")
