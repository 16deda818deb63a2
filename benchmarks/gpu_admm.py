"""A plain alternative in torch: ADMM with full decompositions, on the same device.

The splitting is that of `peers/splittings.py`, over-relaxed: quadratic and l1 norm in one
block, the ball in the other. Its penalty is the best of a grid, found off the clock. Two
projections on the ball are tried: by a full SVD, and by the eigenvectors of A'A, which are
cheaper but have half the digits. The clock stops while f is computed, and the run ends at the
first point within the accuracy of a lower bound that weakprox has proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

PENALTIES = (30.0, 100.0, 10.0, 300.0)  # the likeliest first
LAM, RELAX = 2.0, 1.8
MOST = 400  # iterations


def soft(A: torch.Tensor, t: float) -> torch.Tensor:
    """Entries moved towards zero by t."""
    return A - torch.clip(A, -t, t)


def shrunk(s: torch.Tensor, tau: float) -> torch.Tensor:
    """Values, sorted downwards, projected on those that sum to at most tau."""
    ranks = torch.arange(1, s.numel() + 1, device=s.device)
    theta = torch.clip((torch.cumsum(s, 0) - tau) / ranks, 0.0)
    active = torch.clip((s > theta).sum(), 1)
    return torch.clip(s - theta[active - 1], 0.0)


def by_svd(A: torch.Tensor, tau: float) -> torch.Tensor:
    """Nearest point of the ball, by a full SVD."""
    U, s, Vt = torch.linalg.svd(A, full_matrices=False)
    return (U * shrunk(s.double(), tau).to(A.dtype)) @ Vt


def by_gram(A: torch.Tensor, tau: float) -> torch.Tensor:
    """Nearest point of the ball, by the eigenvectors of A'A in float64."""
    w, V = torch.linalg.eigh(A.double().T @ A.double())
    s = torch.sqrt(torch.clip(w.flip(0), 0.0))
    V = V.flip(1)
    scale = shrunk(s, tau) / torch.clip(s, torch.finfo(torch.float64).tiny)
    return (((A.double() @ V) * scale) @ V.T).to(A.dtype)


PROJECTIONS = {"full SVD": by_svd, "eigenvectors of A'A": by_gram}


def value(X: torch.Tensor, M: torch.Tensor) -> float:
    """f(X), summed in float64."""
    half = 0.5 * torch.sum((X - M) ** 2, dtype=torch.float64)
    return float(half + LAM * torch.sum(torch.abs(X), dtype=torch.float64))


def admm(
    M: torch.Tensor, tau: float, goal: float, rho: float, project: Callable, limit: float
) -> dict:
    """Seconds and iterations until f is at most `goal`; none if `limit` seconds pass first."""
    wait = torch.cuda.synchronize if M.is_cuda else lambda: None
    spent, iterations, best = 0.0, 0, float("inf")
    wait()
    begin = time.perf_counter()
    X = soft(M, LAM)
    Z = project(X, tau)
    U = (X - Z) / rho
    while True:
        wait()
        spent += time.perf_counter() - begin
        iterations += 1
        best = min(best, value(Z, M))
        reached = best <= goal
        if reached or spent > limit or iterations >= MOST:
            break
        begin = time.perf_counter()
        X = soft((M + rho * (Z - U)) / (1 + rho), LAM / (1 + rho))
        A = RELAX * X + (1 - RELAX) * Z + U
        Z = project(A, tau)
        U = A - Z
    return {
        "seconds": spent if reached else None,
        "tried_for": spent,
        "iterations": iterations,
        "rho": rho,
        "value": best,
    }


def race(M: torch.Tensor, tau: float, goal: float, seconds: float = 240.0) -> list[dict]:
    """The best setting for each projection; the cheaper one chooses the penalty."""
    times = {}
    for name, project in PROJECTIONS.items():
        project(M[:200, :200].contiguous(), tau)  # loads the library
        begin = time.perf_counter()
        float(project(M, tau).sum())
        times[name] = time.perf_counter() - begin
    found, grid = [], PENALTIES
    for name in sorted(times, key=times.__getitem__):
        runs, left = [], seconds
        for rho in grid:
            run = admm(M, tau, goal, rho, PROJECTIONS[name], left)
            runs.append({"projection": name, **run})
            if run["seconds"] is not None:
                left = min(left, run["seconds"])  # a slower setting need not end
        runs.sort(key=lambda run: run["seconds"] or float("inf"))
        found.append(runs[0])
        grid = (runs[0]["rho"],)
    return found
