"""Robust PCA of a video: certified steps against plain ones and against IALM, in one run.

    python benchmarks/robust.py                    # 12,288 pixels x 265 frames, k = .05 and .02
    python benchmarks/robust.py --frames 60 --k .05 --repeat 1
    python benchmarks/robust.py --device cuda --rows 442368 --columns 795   # ours alone

Solves min over L of the sum of Huber losses of M - L plus lam |L|_*, lam = k sqrt(pixels), for
the frames of examples/data/street_video.npz in [0, 1]:

- ours: `minimize` with its proof, all included;
- plain: accelerated proximal gradient steps from zero with restarts, the Gram matrix and all of
  its eigenvectors in every step, and the gap after every step, which decides when to stop; its
  steps alone, without gaps, are timed too;
- IALM: the inexact augmented Lagrange method of pyrpca and others (Lin, Chen & Ma, 2010) with
  a full SVD in every iteration, for the same objective: L, and the sum of outliers and noise.
  The growth of its penalty is the best of three; it stops when its value is as near to the
  optimum as ours is proved to be. The check of its value is not timed.

Times are the least of `--repeat` runs, taken in turns, after one that compiles. With `--rows`
and `--columns` the video is enlarged (pixels and frames are repeated, with noise of their own),
and our method runs alone, on the `--device`, with the memory that it takes beside the data.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import weakprox as wp

DATA = Path(__file__).resolve().parents[1] / "examples" / "data" / "street_video.npz"
TOL = 1e-4
GROWTHS = (1.0, 1.2, 1.5)  # of the penalty of IALM
MOST = 150  # iterations of a peer
NOISE = 0.01  # of enlarged videos
Found = tuple[float, int]  # seconds and iterations


def video(frames: int) -> Any:
    """The first frames as columns, in [0, 1]."""
    with np.load(DATA, allow_pickle=False) as file:
        found = file["frames"][:frames]
    return np.ascontiguousarray(found.reshape(len(found), -1).T / 255.0)


def value(M: Any, L: Any, k: float, lam: float, nuclear: float) -> float:
    """The objective at L, whose nuclear norm is given."""
    r = M - L
    c = np.clip(r, -k, k)
    return float(np.vdot(c, r - 0.5 * c)) + lam * nuclear


def thresholded(T: Any, level: float) -> tuple[Any, float]:
    """Singular values above the level, less it, by the eigenvectors of T'T."""
    squares, V = np.linalg.eigh(T.T @ T)
    s = np.sqrt(np.maximum(squares, 0.0))
    kept = s > level
    p = s[kept] - level
    return (T @ (V[:, kept] * (p / s[kept]))) @ V[:, kept].T, float(p.sum())


def plain(M: Any, k: float, lam: float, tol: float, steps: int | None = None) -> Found:
    """Plain accelerated steps until the gap is small, or so many without computing gaps."""
    begun = time.perf_counter()
    X = before = np.zeros_like(M)
    momentum, last, count = 1.0, np.inf, 0
    while count < (steps or MOST):
        count += 1
        ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        Y = X + (momentum - 1.0) / ahead * (X - before)
        before = X
        X, nuclear = thresholded(Y + np.clip(M - Y, -k, k), lam)
        f = value(M, X, k, lam, nuclear)
        momentum, last = (1.0 if f > last else ahead), f
        if steps is None:
            q = np.clip(M - X, -k, k)
            norm = np.sqrt(np.linalg.eigvalsh(q.T @ q)[-1])
            q *= min(1.0, lam / norm)
            if f - (np.vdot(q, M) - 0.5 * np.vdot(q, q)) <= tol * f:
                break
    return time.perf_counter() - begun, count


def ialm(M: Any, k: float, lam: float, enough: float, growth: float) -> Found:
    """The inexact augmented Lagrange method, until its value is low enough."""
    begun, aside = time.perf_counter(), 0.0
    mu = 1.0 if growth == 1.0 else 1.25 / np.linalg.norm(M, 2)
    E, Y = np.zeros_like(M), np.zeros_like(M)  # outliers plus noise, and the multiplier
    for count in range(1, MOST + 1):
        U, s, Vt = np.linalg.svd(M - E + Y / mu, full_matrices=False)
        p = np.maximum(s - lam / mu, 0.0)
        kept = p > 0.0
        L = (U[:, kept] * p[kept]) @ Vt[kept]
        paused = time.perf_counter()
        found = value(M, L, k, lam, float(p.sum()))
        aside += time.perf_counter() - paused
        if found <= enough:
            return time.perf_counter() - begun - aside, count
        B = M - L + Y / mu
        E = B - np.clip(B / (1.0 + mu), -k / mu, k / mu)
        Y += mu * (M - L - E)
        mu *= growth
    return np.inf, MOST


def enlarged(M: Any, rows: int, columns: int, device: str) -> Any:
    """The video with this many pixels and frames, in float32; a tensor if on a device."""
    m, d = M.shape
    pixels, frames = np.arange(rows) * m // rows, np.arange(columns) % d
    if device == "cpu":
        rng = np.random.default_rng(0)
        found = M.astype(np.float32)[pixels][:, frames]
        for low in range(0, rows, 4096):  # one array in all
            part = found[low : low + 4096]
            part += np.float32(NOISE) * rng.standard_normal(part.shape, dtype=np.float32)
        return found
    import torch

    made = torch.Generator(device=device).manual_seed(0)
    found = torch.asarray(M, dtype=torch.float32, device=device)
    found = found[torch.asarray(pixels, device=device)][:, torch.asarray(frames, device=device)]
    found += NOISE * torch.randn(rows, columns, device=device, generator=made)
    return found.contiguous()


def alone(M: Any, k: float, repeat: int) -> None:
    """Print seconds and memory of our method, on the device of the data."""
    rows, columns = M.shape
    lam, cuda = k * np.sqrt(rows), not isinstance(M, np.ndarray) and M.device.type == "cuda"

    def solved() -> Any:
        loss = wp.losses.Denoising(M, loss=wp.losses.Huber(k))
        problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(lam))
        return wp.minimize(problem, tol=TOL, progress=False)

    def pause() -> None:
        if cuda:
            import torch

            torch.cuda.synchronize()

    solved()
    seconds = []
    for _ in range(repeat):
        pause()
        begun = time.perf_counter()
        result = solved()
        pause()
        seconds.append(time.perf_counter() - begun)
    size = rows * columns * (4 if "float32" in str(M.dtype) else 8)
    if cuda:
        import torch

        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        solved()
        peak = torch.cuda.max_memory_allocated() - held
    else:
        tracemalloc.start()
        solved()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    print(
        f"\n{rows} x {columns}, k = {k:g}: rank {result.low_rank.rank}, {result.status.name},"
    )
    print(f"gap {result.certificate.gap:.2g} of {result.value:.6g}, {result.counts.svds} steps")
    print(f"{min(seconds):.3f} s; {peak / size:.2f} arrays of the size of the data beside them")


def race(M: Any, k: float, repeat: int) -> None:
    """Print the table for one k."""
    lam = k * np.sqrt(M.shape[0])
    least: dict[str, Found] = {}
    growth = 0.0

    def kept(name: str, found: Found) -> None:
        least[name] = min(least.get(name, (np.inf, 0)), found)

    for turn in range(repeat):
        begun = time.perf_counter()
        problem = wp.Problem(
            wp.losses.Denoising(M, loss=wp.losses.Huber(k)), None, wp.spectral.NuclearNorm(lam)
        )
        result = wp.minimize(problem, tol=TOL, progress=False)
        kept("ours, proved", (time.perf_counter() - begun, result.counts.svds))
        if not result.certified:
            raise SystemExit("our run proved less than it should")
        kept("plain", plain(M, k, lam, TOL))
        steps = least["plain"][1]
        kept("plain, no gaps", plain(M, k, lam, TOL, steps))
        enough = (1.0 + TOL) * result.certificate.lower_bound
        for trial in GROWTHS if not turn else (growth,):
            found = ialm(M, k, lam, enough, trial)
            if found < least.get("IALM", (np.inf, MOST + 1)):
                growth = trial
            kept("IALM", found)
    ours = least["ours, proved"][0]
    print(f"\n{M.shape[0]} x {M.shape[1]}, k = {k:g}: rank {result.low_rank.rank},")
    print(f"gap {result.certificate.gap:.2g} of {result.value:.6g}; IALM grows by {growth:g}")
    print(f"{'method':16} {'seconds':>8} {'iterations':>11} {'times ours':>11}")
    for name, (seconds, count) in least.items():
        print(f"{name:16} {seconds:8.2f} {count:11d} {seconds / ours:11.1f}")


def main() -> None:
    """Read the arguments and race."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=float, nargs="+", default=[0.05, 0.02])
    parser.add_argument("--frames", type=int, default=265)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rows", type=int, help="pixels of an enlarged video")
    parser.add_argument("--columns", type=int, help="frames of an enlarged video")
    parser.add_argument("--device", default="cpu", help='"cpu", or a device of torch')
    options = parser.parse_args()
    os.environ.setdefault("WEAKPROX_COMPILE", "always")
    M = video(options.frames)
    if options.rows or options.columns or options.device != "cpu":
        shape = options.rows or M.shape[0], options.columns or M.shape[1]
        for k in options.k:
            alone(enlarged(M, *shape, options.device), k, options.repeat)
        return
    warm = wp.losses.Denoising(M, loss=wp.losses.Huber(1.0))
    wp.minimize(wp.Problem(warm, None, wp.spectral.NuclearNorm(1e4)), tol=0.1, progress=False)
    for k in options.k:
        race(M, k, options.repeat)


if __name__ == "__main__":
    main()
