"""A map over losses: `minimize` on Regression, Sensing, Completion and Denoising with weights.

    python benchmarks/losses.py                      # all cells
    python benchmarks/losses.py --loss regression --d 600
    python benchmarks/losses.py --alone              # without our other solvers and the peers

Features and measurements have singular values that fall geometrically to 1/condition. Each cell
compares `minimize` at its defaults with our other solvers that apply, and with two peers that a
user could write, tuned off the clock: ADMM with a proximal step for each term and full SVDs
(penalty parameters of a grid), and, without a penalty, accelerated proximal gradient steps
with restarts. A peer stops at its first point within the accuracy of the bound that `minimize`
has proved; it need not prove anything. Times are of the processor.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import weakprox as wp

OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "losses"
TOL = 1e-4
SHARES = (1e-3, 1e-2, 1e-1, 1.0)  # penalty parameters of ADMM, over the smoothness
SOLVERS = ("davis-yin", "admm")
PENALTIES = ("none", "l1", "rows", "elastic")
SPECTRAL = ("ball", "norm", "psd")
LOSSES = {
    "regression 1": 1.0, "regression 10": 1e1, "regression 100": 1e2, "regression 1000": 1e3,
    "sensing 1": 1.0, "sensing 100": 1e2, "completion": 1.0, "completion, Huber": 1.0,
    "Huber": 1.0, "weights": 1.0,
}  # fmt: skip


def graded(rows: int, columns: int, condition: float, rng: np.random.Generator) -> Any:
    """A matrix with these singular values, times the root of the number of rows."""
    k = min(rows, columns)
    U, V = (np.linalg.qr(rng.standard_normal((n, k)))[0] for n in (rows, columns))
    return math.sqrt(rows) * (U * np.geomspace(1.0, 1.0 / condition, k)) @ V.T


def drawn(name: str, psd: bool, d: int, seed: int = 0) -> tuple[Any, Any, Callable[..., Any]]:
    """The loss, the signal, and the proximal map of the loss as a peer computes it."""
    rng, condition = np.random.default_rng(seed), LOSSES[name]
    kind = name.split(" ")[0].rstrip(",")
    if kind == "regression":
        n, p, q = 2 * d, d // 2, d // 3
        T = rng.standard_normal((p, 5)) @ rng.standard_normal((5, q))
        X = graded(n, p, condition, rng)
        Y = X @ T + 0.3 * rng.standard_normal((n, q))
        w, Q = np.linalg.eigh(X.T @ X / n)
        B = X.T @ Y / n
        return wp.losses.Regression(X, Y), T, lambda A, t: _solved(w, Q, B + t * A, t)
    if kind == "sensing":
        n = max(10, d // 10)
        N, F = n * n // 2, rng.standard_normal((n, 3))
        T = F @ (F if psd else rng.standard_normal((n, 3))).T
        A = graded(N, n * n, condition, rng)
        b = A @ T.ravel() + 0.1 * rng.standard_normal(N)
        w, Q = np.linalg.eigh(A.T @ A / N)
        c = A.T @ b / N

        def prox(Z: Any, t: float) -> Any:
            return _solved(w, Q, (c + t * Z.ravel())[:, None], t).reshape(n, n)

        return wp.losses.Sensing(A.reshape(N, n, n), b), T, prox
    F = np.where(rng.random((d, 5)) < 0.1, rng.integers(1, 11, (d, 5)), 0.0)
    G = F if psd else np.where(rng.random((d, 5)) < 0.1, rng.integers(1, 11, (d, 5)), 0.0)
    T, noise = F @ G.T, rng.standard_normal((d, d))
    M = T + ((noise + noise.T) / math.sqrt(2.0) if psd else noise)
    k = 2.0 if "Huber" in name else math.inf
    W = np.ones((d, d))
    if kind == "completion":
        W = (rng.random((d, d)) < 0.2) * 1.0
    elif kind == "weights":
        W = rng.uniform(0.01, 2.0, (d, d))
        W = (W + W.T) / 2 if psd else W
    elif psd:
        far = np.triu(rng.random((d, d)) < 0.05)
        M = M + 30.0 * (far | far.T)
    else:
        M = M + 30.0 * (rng.random((d, d)) < 0.05)
    entry: Any = "squared" if math.isinf(k) else wp.losses.Huber(k)
    if kind == "completion":
        i, j = np.nonzero(W)
        loss: Any = wp.losses.Completion(i, j, M[i, j], (d, d), loss=entry)
    else:
        loss = wp.losses.Denoising(M, loss=entry, weights=W if kind == "weights" else None)

    def moved(A: Any, t: float) -> Any:
        return A - (W / t) * np.clip((A - M) / (1.0 + W / t), -k, k)

    return loss, T, moved


def _solved(w: Any, Q: Any, R: Any, t: float) -> Any:
    return Q @ ((Q.T @ R) / (w + t)[:, None])


def posed(name: str, penalty: str, spectral: str, d: int) -> dict[str, Any] | None:
    """The problem of a cell, and what its peers need; None if there is none."""
    psd = spectral == "psd"
    if psd and (name.startswith("regression") or penalty == "rows"):
        return None
    loss, T, prox = drawn(name, psd, d)
    g = loss.grad(np.zeros(loss.shape), loss.everything())
    lam = min(0.1 * np.abs(g).max(), 3.0 * float(np.median(np.abs(g[g != 0.0]))))
    lam = 0.1 * lam if name[:3] in ("reg", "sen") else lam
    p, s = wp.penalties, wp.spectral
    ridge = 0.05 * loss.smoothness
    terms = {
        "none": None, "l1": p.L1(lam), "rows": p.GroupL2(lam),
        "elastic": p.ElasticNet(lam, ridge),
    }  # fmt: skip
    nuclear = float(np.linalg.svd(T, compute_uv=False).sum())
    size = 0.02 * float(np.linalg.norm(g, 2)) if spectral == "norm" else 0.8 * nuclear
    kinds = {"ball": s.NuclearBall, "norm": s.NuclearNorm, "psd": s.TracePSD}
    problem = wp.Problem(loss, terms[penalty], kinds[spectral](size))
    return {
        "problem": problem, "prox": prox, "penalty": penalty, "lam": lam, "ridge": 2.0 * ridge,
        "spectral": spectral, "size": size,
    }  # fmt: skip


# ---------------------------------------------------------------------------------- peers


def shrunk(cell: dict[str, Any], A: Any, t: float) -> tuple[Any, float]:
    """Proximal point of t h and its nuclear norm, by a full decomposition."""
    psd = cell["spectral"] == "psd"
    if psd:
        s, U = np.linalg.eigh(0.5 * (A + A.T))
        s, U = np.maximum(s[::-1], 0.0), U[:, ::-1]
        Vt = U.T
    else:
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
    if cell["spectral"] == "norm":
        p = np.maximum(s - t * cell["size"], 0.0)
    elif s.sum() <= cell["size"]:
        p = s
    else:
        theta = (np.cumsum(s) - cell["size"]) / np.arange(1, s.size + 1)
        p = np.maximum(s - theta[np.flatnonzero(s > theta)[-1]], 0.0)
    k = int(np.count_nonzero(p))
    return (U[:, :k] * p[:k]) @ Vt[:k], float(p.sum())


def prox_r(cell: dict[str, Any], A: Any, t: float) -> Any:
    """Proximal point of t R."""
    lam = cell["lam"]
    if cell["penalty"] == "rows":
        norms = np.linalg.norm(A, axis=1, keepdims=True)
        return A * np.maximum(1.0 - t * lam / np.maximum(norms, 1e-300), 0.0)
    A = A - np.clip(A, -t * lam, t * lam)
    return A / (1.0 + t * cell["ridge"]) if cell["penalty"] == "elastic" else A


def admm(cell: dict[str, Any], share: float) -> Iterator[Any]:
    """Points of over-relaxed ADMM with a fixed penalty parameter."""
    rho = share * cell["problem"].loss.smoothness
    two = cell["penalty"] != "none"
    W = Y = u = s = np.zeros(cell["problem"].shape)
    while True:
        pulled = W - u + (Y - s if two else 0.0)
        X = cell["prox"](pulled / (1 + two), (1 + two) * rho)
        A = 1.6 * X - 0.6 * W + u
        W, _ = shrunk(cell, A, 1.0 / rho)
        u = A - W
        if two:
            A = 1.6 * X - 0.6 * Y + s
            Y = prox_r(cell, A, 1.0 / rho)
            s = A - Y
        yield W


def accelerated(cell: dict[str, Any], _: float) -> Iterator[Any]:
    """Points of accelerated proximal gradient steps with restarts, without a penalty."""
    loss = cell["problem"].loss
    step, X = 1.0 / loss.smoothness, np.zeros(loss.shape)
    Z, t = X, 1.0
    while True:
        new, _ = shrunk(cell, Z - step * loss.grad(Z, loss.everything()), step)
        if np.sum((Z - new) * (new - X)) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        Z, X, t = new + ((t - 1.0) / after) * (new - X), new, after
        yield X


def raced(cell: dict[str, Any], goal: float, limit: float) -> dict[str, Any]:
    """Seconds and steps of each peer to a value of `goal`; None if over the limit."""
    problem, found = cell["problem"], {}
    peers: dict[str, Any] = {"ADMM": (admm, SHARES)}
    if cell["penalty"] == "none":
        peers["accelerated"] = (accelerated, (0.0,))
    for name, (method, settings) in peers.items():
        best = None
        for setting in settings:
            least, spent, steps = limit if best is None else best[0], 0.0, 0
            points = method(cell, setting)
            while spent <= least:
                begun = time.process_time()
                X = next(points)
                spent, steps = spent + time.process_time() - begun, steps + 1
                if problem.value(X) <= goal:  # not timed
                    best = (spent, steps)
                    break
        found[name] = best
    return found


# ---------------------------------------------------------------------------------- cells


def solved(problem: wp.Problem, limit: float, solver: str | None = None) -> tuple[float, Any]:
    """Seconds of the processor, and the result."""
    begun = time.process_time()
    found = wp.minimize(problem, solver, tol=TOL, max_seconds=limit, progress=False)
    return time.process_time() - begun, found


def measured(cell: dict[str, Any], limit: float, *, rivals: bool) -> dict[str, Any]:
    """What `minimize`, our other solvers and the peers take for a cell."""
    problem = cell["problem"]
    seconds, found = min((solved(problem, limit) for _ in range(2)), key=lambda x: x[0])
    row = {
        "seconds": seconds, "svds": found.counts.svds, "status": found.status.name,
        "solver": found.solver, "rank": found.low_rank.rank,
        "gap": found.gap / abs(found.value) if math.isfinite(found.gap) else None,
    }  # fmt: skip
    if not rivals:
        return row
    most = min(limit, max(1.0, 3.0 * seconds))
    own = {}
    for name in SOLVERS:
        try:
            spent, other = solved(problem, most, name)
        except wp.errors.InputError:
            continue
        own[name] = (spent, other.counts.svds) if other.status.reached else None
    goal = found.certificate.lower_bound + TOL * abs(found.value)
    return row | {"solvers": own, "peers": raced(cell, goal, most)}


def told(rivals: dict[str, Any]) -> str:
    """Times and decompositions of rivals."""
    return ", ".join(
        f"{k} -" if v is None else f"{k} {v[0]:.3f} ({v[1]})" for k, v in rivals.items()
    )


def table(rows: list[dict[str, Any]]) -> str:
    """The cells as a table of the documentation."""
    lines = [
        "| loss | penalty, h | seconds | SVDs | solver | best of our solvers | best peer |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        others = [
            min((v for v in row[kind].values() if v), default=None)
            for kind in ("solvers", "peers")
        ]
        shown = ["-" if v is None else f"{v[0]:.3g} ({v[1]})" for v in others]
        certified = row["status"] == "CERTIFIED"
        ours = f"{row['seconds']:.3g}" if certified else f"**gap {row['gap']:.0e}**"
        lines.append(
            f"| {row['loss']} | {row['penalty']}, {row['spectral']} | {ours} | {row['svds']} | "
            f"{row['solver']} | {' | '.join(shown)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the cells, print them, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=200)
    parser.add_argument("--loss", nargs="+", help="beginnings of the names of losses")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of one call")
    parser.add_argument("--alone", action="store_true", help="no other solvers and peers")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    rows = []
    for name in LOSSES:
        if args.loss and not any(name.startswith(one) for one in args.loss):
            continue
        for penalty in PENALTIES:
            for spectral in SPECTRAL:
                cell = posed(name, penalty, spectral, args.d)
                if cell is None:
                    continue
                about = {"loss": name, "penalty": penalty, "spectral": spectral, "d": args.d}
                row = about | measured(cell, args.limit, rivals=not args.alone)
                rows.append(row)
                how = (
                    f"{row['svds']} SVDs, {row['status']}, rank {row['rank']}, {row['solver']}"
                )
                own, peers = told(row.get("solvers", {})), told(row.get("peers", {}))
                where = f"{name}, {penalty}, {spectral}"
                print(f"{where}: {row['seconds']:.3f} s, {how} | {own} | {peers}", flush=True)
    certified = sum(row["status"] == "CERTIFIED" for row in rows)
    print(f"certified: {certified} of {len(rows)}")
    if args.alone:
        return
    for kind in ("solvers", "peers"):
        both = [(r["seconds"], min((v[0] for v in r[kind].values() if v), default=None))
                for r in rows]  # fmt: skip
        ratios = sorted(ours / other for ours, other in both if other)
        if ratios:
            middle, worst = ratios[len(ratios) // 2], ratios[-1]
            above = ", ".join(f"{sum(r > x for r in ratios)} above {x}" for x in (1.5, 1.0))
            print(
                f"against the best of {kind}: {len(ratios)} cells, median ratio {middle:.2f}, "
                f"worst {worst:.2f}, {above}"
            )
    if not args.loss:
        args.out.with_suffix(".json").write_text(json.dumps({"cells": rows}, indent=0) + "\n")
        args.out.with_suffix(".inc").write_text(table(rows))


if __name__ == "__main__":
    main()
