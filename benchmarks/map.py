"""A map of the cost of `minimize`: one cell per problem; slow and uncertified cells are red.

    python benchmarks/map.py --d 1000                    # all panels, NumPy
    python benchmarks/map.py --d 8000 --device cuda      # on a CUDA device, in float32
    python benchmarks/map.py --d 300 --panel ranks --budget 120
    python benchmarks/map.py --cell rank=50,d=8000 spectral=norm --device cuda
    python benchmarks/map.py --draw                      # the picture from the JSON alone
    python benchmarks/map.py --bars                      # which bars the stored cells meet
    python benchmarks/map.py --quick                     # small cells: counts only, for CI

A panel varies two of form, radius, rank, shape, dtype and tolerance; the others keep the values
of the central cell (l1 norm, nuclear ball, radius 0.9 of the signal's nuclear norm, rank 10,
square, tol 1e-4). The signal is Y W' with nonnegative sparse factors (a tenth of the entries,
uniform on 1, ..., 10), the noise N(0, 1). The weight of a nuclear norm is the cut-off that
gives the thresholded data the nuclear norm of the corresponding ball.

Each cell compares `minimize` at its defaults with all of our solvers that apply and with two
peers, tuned off the clock: over-relaxed ADMM whose projections use the eigenvectors of the Gram
matrix, and accelerated dual ascent with a warm block. A peer stops at its first point within
the accuracy of the bound that `minimize` has proved; it need not prove anything. Cells that
do not fit in `--budget` seconds are left out and listed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

import weakprox as wp

OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "map"
LAM = 2.0  # of the l1 norm, in units of the noise
DENSITY = 0.1
ROWS = 2048  # of a matrix, made at once
PENALTIES = ("l1", "signed", "elastic", "rows", "l1 + rows", "none")
SPECTRAL = ("ball", "norm", "psd")
FACTORS = (0.5, 0.8, 0.9, 0.95, 0.97, 1.0, 1.05)
RANKS = (1, 5, 10, 30, 50, 64, 100, 200)
TOLS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
RHOS = (30.0, 100.0, 10.0)  # of ADMM, the likeliest first
SOLVERS = ("lean-splitting", "davis-yin")
PATIENCE = 3.0  # a rival is stopped at this multiple of our time ...
AGAIN = 8.0  # seconds of a first call up to which it is repeated
BRIEF = 1.0  # seconds of a first call up to which it is repeated twice
LEAST = 2.0  # ... or after this many seconds, whichever is later
STEEP, SPARE = 4.0, 8  # times the median of a panel, and more, that a count may be
RED, GREEN, GREY = "#c0392b", "#dfeee3", "#eef1f6"
CLIFF = 8.0  # times the fastest cell of low rank, from which another one is red


@dataclass(frozen=True)
class Cell:
    """One problem and the accuracy asked for."""

    penalty: str = "l1"
    spectral: str = "ball"
    factor: float = 0.9
    rank: int = 10
    shape: tuple[int, int] = (1000, 1000)
    dtype: str = "float64"
    tol: float = 1e-4

    def __str__(self) -> str:
        m, d = self.shape
        about = f"{self.penalty} + {self.spectral} x {self.factor:g}, rank {self.rank}"
        return f"{about}, {m} x {d}, {self.dtype}, tol {self.tol:g}"


@dataclass(frozen=True)
class Instance:
    """The data of a cell, and the weight or radius of its spectral term."""

    M: Any
    size: float


def drawn(cell: Cell, device: str, seed: int = 0) -> Instance:
    """Return the data of a cell; cells that differ only in other respects share them."""
    m, d = cell.shape
    rng = np.random.default_rng([seed, m, d, cell.rank])

    def factor(rows: int) -> Any:
        kept = rng.random((rows, cell.rank)) < DENSITY
        return np.where(kept, rng.integers(1, 11, (rows, cell.rank)), 0).astype(float)

    Y = factor(m)
    W = Y if cell.spectral == "psd" else factor(d)
    left, right = (np.linalg.qr(F, mode="r") for F in (Y, W))
    nuclear = float(np.linalg.svd(left @ right.T, compute_uv=False).sum())
    if device == "cpu":
        M = rng.standard_normal((m, d), dtype=np.float32)
    else:
        import torch

        torch.manual_seed(seed)
        M = torch.randn((m, d), device=device)
        Y, W = (torch.asarray(F, dtype=torch.float32, device=device) for F in (Y, W))
    if cell.spectral == "psd":
        M = (M + M.T) / math.sqrt(2.0)
    for i in range(0, m, ROWS):  # nothing else of the size of M
        M[i : i + ROWS] += Y[i : i + ROWS] @ W.T
    xp = array_api_compat.array_namespace(M)
    M = xp.astype(M, getattr(xp, cell.dtype), copy=False)
    size = cell.factor * nuclear
    if cell.spectral == "norm":
        size = cut_off(soft(M, LAM) if cell.penalty in ("l1", "signed") else M, size)
    return Instance(M, size)


def cut_off(A: Any, nuclear: float) -> float:
    """Return the threshold at which the singular values of A have this sum."""
    xp = array_api_compat.array_namespace(A)
    A = xp.astype(A if A.shape[0] <= A.shape[1] else A.T, xp.float64)
    squares = on_host(xp.linalg.eigvalsh(A @ A.T))[::-1]
    s = np.sqrt(np.maximum(squares, 0.0))
    return max(threshold(s, nuclear), 1e-3 * float(s[0]))


def on_host(x: Any) -> Any:
    """The array in NumPy, in float64."""
    return np.asarray(x if is_numpy(x) else x.cpu(), dtype=float)


def threshold(s: Any, total: float) -> float:
    """Return the theta >= 0 with sum of (s - theta)_+ = total, for s in descending order."""
    if s.sum() <= total:
        return 0.0
    theta = (np.cumsum(s) - total) / np.arange(1, s.size + 1)
    return float(theta[np.flatnonzero(s > theta)[-1]])


def group(cell: Cell) -> float:
    """Return the weight of the norms of rows: half the norm of a row of noise."""
    return 0.5 * math.sqrt(cell.shape[1])


def problem(cell: Cell, one: Instance) -> wp.Problem:
    """Return the problem as a user writes it."""
    p, s = wp.penalties, wp.spectral
    terms = {
        "l1": p.L1(LAM), "signed": p.SignedL1(LAM, 2 * LAM), "elastic": p.ElasticNet(1.0, 0.1),
        "rows": p.GroupL2(group(cell)), "none": None,
        "l1 + rows": p.L1(LAM) + p.GroupL2(group(cell)),
    }  # fmt: skip
    kinds = {"ball": s.NuclearBall, "norm": s.NuclearNorm, "psd": s.TracePSD}
    loss = wp.losses.Denoising(one.M)
    return wp.Problem(loss, terms[cell.penalty], kinds[cell.spectral](one.size))


# ---------------------------------------------------------------------------------- peers


def soft(A: Any, t: float) -> Any:
    """Entries moved towards zero by t."""
    return A - array_api_compat.array_namespace(A).clip(A, -t, t)


def _slopes(cell: Cell) -> tuple[float, float, float, float]:
    """Slopes above and below zero, weight of the norms of rows, and curvature."""
    return {
        "l1": (LAM, LAM, 0.0, 0.0), "signed": (LAM, 2 * LAM, 0.0, 0.0),
        "elastic": (1.0, 1.0, 0.0, 0.2), "rows": (0.0, 0.0, group(cell), 0.0),
        "l1 + rows": (LAM, LAM, group(cell), 0.0), "none": (0.0, 0.0, 0.0, 0.0),
    }[cell.penalty]  # fmt: skip


def prox_r(cell: Cell, A: Any, t: float) -> Any:
    """Proximal point of t R at A."""
    xp = array_api_compat.array_namespace(A)
    above, below, rows, curvature = _slopes(cell)
    A = A - xp.clip(A, -t * below, t * above)
    if rows:
        norms = xp.linalg.vector_norm(A, axis=1, keepdims=True)
        A = A * xp.clip(1.0 - t * rows / xp.where(norms > 0, norms, 1.0), 0.0, None)
    return A / (1.0 + t * curvature)


def value(cell: Cell, one: Instance, X: Any, nuclear: float) -> float:
    """f(X) in float64."""
    xp = array_api_compat.array_namespace(X)
    total = lambda x: float(xp.sum(x, dtype=xp.float64))  # noqa: E731
    above, below, rows, curvature = _slopes(cell)
    found = 0.5 * total((X - one.M) ** 2) + 0.5 * curvature * total(X * X)
    found += above * total(xp.clip(X, 0.0, None)) - below * total(xp.clip(X, None, 0.0))
    if rows:
        found += rows * total(xp.linalg.vector_norm(X, axis=1))
    return found + (one.size * nuclear if cell.spectral == "norm" else 0.0)


def shrink(cell: Cell, one: Instance, s: Any, t: float) -> Any:
    """Values of the proximal point of t h, on the host; s is in descending order."""
    if cell.spectral == "norm":
        return np.maximum(s - t * one.size, 0.0)
    return np.maximum(np.maximum(s, 0.0) - threshold(np.maximum(s, 0.0), one.size), 0.0)


class Gram:
    """Proximal points of h by the eigenvectors of A'A, or of A if it is symmetric."""

    def __init__(self, cell: Cell, one: Instance) -> None:
        self.cell, self.one = cell, one

    def __call__(self, A: Any, t: float) -> tuple[Any, float]:
        """Return the point and its nuclear norm."""
        if A.shape[0] < A.shape[1]:
            X, nuclear = self(A.T, t)
            return X.T, nuclear
        xp = array_api_compat.array_namespace(A)
        psd = self.cell.spectral == "psd"
        w, V = xp.linalg.eigh(0.5 * (A + A.T) if psd else A.T @ A)
        w = on_host(w)[::-1]
        s = w if psd else np.sqrt(np.maximum(w, 0.0))
        p = shrink(self.cell, self.one, s, t)
        k = int(np.count_nonzero(p))
        V = xp.flip(V, axis=1)[:, :k]
        scale = xp.asarray(p[:k] if psd else p[:k] / s[:k], dtype=A.dtype, device=A.device)
        return ((V if psd else A @ V) * scale) @ V.T, float(p.sum())


class Block:
    """The same by a warm block of vectors, which grows until its last value is cut off."""

    def __init__(self, cell: Cell, one: Instance) -> None:
        self.cell, self.one, self.full = cell, one, Gram(cell, one)
        self.Q: Any = None

    def __call__(self, A: Any, t: float) -> tuple[Any, float]:
        """Return the point and its nuclear norm."""
        xp = array_api_compat.array_namespace(A)
        if self.Q is None:
            self.Q = self.random(A, self.cell.rank + 10)
        while self.Q.shape[1] < 0.3 * min(A.shape):
            for _ in range(2):
                P, _ = xp.linalg.qr(A @ self.Q)
                self.Q, R = xp.linalg.qr(A.T @ P)
            u, s, vt = xp.linalg.svd(R.T)
            p = shrink(self.cell, self.one, on_host(s), t)
            k = int(np.count_nonzero(p))
            if k <= len(p) - 2:
                scale = xp.asarray(p[:k], dtype=A.dtype, device=A.device)
                X = ((P @ u[:, :k]) * scale) @ (vt[:k] @ self.Q.T)
                return X, float(p.sum())
            more = self.random(A, int(1.4 * self.Q.shape[1]) + 8)
            self.Q, _ = xp.linalg.qr(xp.concat([self.Q, more[:, self.Q.shape[1] :]], axis=1))
        return self.full(A, t)

    def random(self, A: Any, width: int) -> Any:
        """A Gaussian block."""
        xp = array_api_compat.array_namespace(A)
        Q = np.random.default_rng(1).standard_normal((A.shape[1], min(width, *A.shape)))
        return xp.asarray(Q, dtype=A.dtype, device=A.device)


def is_numpy(x: Any) -> bool:
    """Whether an array is on the host."""
    return isinstance(x, np.ndarray)


def admm(cell: Cell, one: Instance, rho: float) -> Iterator[tuple[Any, float]]:
    """Feasible points of over-relaxed ADMM: G and R in one block, h in the other."""
    M, project = one.M, Gram(cell, one)
    scale = 1.0 + rho
    X = prox_r(cell, M, 1.0)
    Z, nuclear = project(X, 1.0 / rho)
    U = (X - Z) / rho
    while True:
        yield Z, nuclear
        X = prox_r(cell, (M + rho * (Z - U)) / scale, 1.0 / scale)
        A = 1.8 * X - 0.8 * Z + U
        Z, nuclear = project(A, 1.0 / rho)
        U = A - Z


def dual_ascent(cell: Cell, one: Instance, rho: float) -> Iterator[tuple[Any, float]]:
    """Points of accelerated dual ascent with restarts."""
    M, project = one.M, Block(cell, one)
    S = last = M * 0.0
    t = 1.0
    while True:
        X, nuclear = project(M - S, 1.0)
        yield X, nuclear
        A = S + X
        new = A - prox_r(cell, A, 1.0)
        xp = array_api_compat.array_namespace(M)
        if float(xp.sum((S - new) * (new - last))) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        S, last, t = new + ((t - 1.0) / after) * (new - last), new, after


PEERS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "ADMM, Gram": (admm, RHOS),
    "dual ascent, block": (dual_ascent, (0.0,)),
}


def wait(M: Any) -> None:
    """Wait for the device."""
    if getattr(M, "is_cuda", False):
        import torch

        torch.cuda.synchronize()


def raced(cell: Cell, one: Instance, goal: float, limit: float) -> dict[str, Any]:
    """Return the least seconds of each peer to a value of `goal`; None if over the limit."""
    found: dict[str, Any] = {}
    for name, (method, settings) in PEERS.items():
        best = None
        for setting in settings:
            least = limit if best is None else best
            spent, points = 0.0, method(cell, one, setting)
            wait(one.M)
            while spent <= least:
                begun = time.perf_counter()
                X, nuclear = next(points)
                wait(one.M)
                spent += time.perf_counter() - begun
                if value(cell, one, X, nuclear) <= goal:  # not timed
                    best = spent if best is None else min(best, spent)
                    break
        found[name] = best
    return found


# ---------------------------------------------------------------------------------- cells


def solved(asked: wp.Problem, cell: Cell, limit: float, solver: str | None = None) -> Any:
    """Return seconds and the result of one call."""
    wait(asked.loss.reference)
    begun = time.perf_counter()
    found = wp.minimize(asked, solver, tol=cell.tol, max_seconds=limit, progress=False)
    wait(asked.loss.reference)
    return time.perf_counter() - begun, found


def measured(
    cell: Cell, device: str, limit: float, *, rivals: bool, patience: float | None = None
) -> dict[str, Any]:
    """Return what `minimize`, our other solvers and the peers take for a cell.

    With `patience`, rivals are stopped at this multiple of our time, however short.
    """
    one = drawn(cell, device)
    asked = problem(cell, one)
    first, found = seconds, _ = solved(asked, cell, limit)
    if seconds < AGAIN:  # the first call may have compiled
        tries = (solved(asked, cell, limit) for _ in range(2 if first < BRIEF else 1))
        seconds, found = min(tries, key=lambda x: x[0])
    row: dict[str, Any] = asdict(cell) | {
        "seconds": seconds,
        "first": first,
        "status": found.status.name,
        "gap": found.gap / abs(found.value) if math.isfinite(found.gap) else None,
        "answer": found.low_rank.rank,
        "svds": found.counts.svds,
        "solver": found.solver,
    }
    if not rivals:
        return row
    most = max(LEAST, PATIENCE * seconds) if patience is None else patience * seconds
    most = min(limit, most)
    own = {}
    for name in SOLVERS:
        try:
            spent, other = solved(asked, cell, most, name)
        except wp.errors.InputError:
            continue
        own[name] = spent if other.status.reached else None
    goal = found.certificate.lower_bound + cell.tol * abs(found.value)
    peers = raced(cell, one, goal, most) if math.isfinite(goal) else {}
    return row | {"solvers": own, "peers": peers}


def panels(d: int, device: str) -> dict[str, tuple[str, str, list[Cell]]]:
    """Return the cells of each panel, with the names of its two axes."""
    base = Cell(shape=(d, d), dtype="float64" if device == "cpu" else "float32")
    third, ranks = d // 3, [r for r in RANKS if r <= d // 4]
    side = d - d % (128 if d >= 256 else 32)
    sides = [side, side + 8, side + 32, side + 5]
    shapes = [*((n, n) for n in sides), (d, third), (third, d), (d - 1, third + 1)]
    return {
        "forms": ("penalty", "spectral", [
            replace(base, penalty=p, spectral=s)
            for p, s in itertools.product(PENALTIES, SPECTRAL) if s != "psd" or "rows" not in p
        ]),
        "ranks": ("rank", "factor", [
            replace(base, rank=r, factor=f) for r, f in itertools.product(ranks, FACTORS)
        ]),
        "norms": ("rank", "factor", [
            replace(base, rank=r, factor=f, spectral="norm")
            for r, f in itertools.product(ranks[::2], FACTORS)
        ]),
        "cones": ("rank", "factor", [
            replace(base, rank=r, factor=f, spectral="psd")
            for r, f in itertools.product(ranks[::2], FACTORS)
        ]),
        "radii": ("penalty", "factor", [
            replace(base, penalty=p, factor=f)
            for p, f in itertools.product(PENALTIES[1:], FACTORS)
        ]),
        "shapes": ("shape", "dtype", [
            replace(base, shape=s, dtype=t)
            for s, t in itertools.product(shapes, ("float64", "float32"))
        ]),
        "tolerances": ("tol", "dtype", [
            replace(base, tol=tol, dtype=t)
            for tol, t in itertools.product(TOLS, ("float64", "float32"))
        ]),
        "single": ("rank", "factor", [
            replace(base, rank=r, factor=f, dtype="float32")
            for r, f in itertools.product(ranks[::2], FACTORS)
        ] if device == "cpu" else []),
    }  # fmt: skip


def swept(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the cells of the panels asked for, and print a line for each."""
    begun, rows, missed = time.perf_counter(), [], 0
    chosen = panels(args.d, args.device)
    if args.cell:
        base = next(iter(chosen["ranks"][2]))
        chosen = {"cells": ("", "", [parsed(text, base) for text in args.cell])}
    asked = [
        (name, cell)
        for name, (_, _, cells) in chosen.items()
        for cell in cells
        if not args.panel or name in args.panel
    ]
    asked.sort(key=lambda one: one[1].factor >= 1.0)  # large radii last, as they take longest
    for name, cell in asked:
        if time.perf_counter() - begun > args.budget:
            missed += 1
            continue
        how = {"rivals": not args.alone, "patience": args.patience}
        row = measured(cell, args.device, args.limit, **how)
        rows.append({"panel": name, "device": args.device, "d": args.d} | row)
        rivals = {**row.get("solvers", {}), **row.get("peers", {})}
        told = ", ".join(f"{k} {v:.3f}" if v else f"{k} -" for k, v in rivals.items())
        gap = "-" if row["gap"] is None else f"{row['gap']:.1e}"
        print(
            f"{name}: {cell}: {row['seconds']:.3f} s (first {row['first']:.2f}), "
            f"{row['status']}, gap {gap}, "
            f"answer of rank {row['answer']}, {row['svds']} SVDs, {row['solver']} | {told}",
            flush=True,
        )
    print(f"{len(rows)} cells in {time.perf_counter() - begun:.0f} s, {missed} left out")
    return rows


def parsed(text: str, base: Cell) -> Cell:
    """Return the central cell with changes such as "rank=50,d=8000,spectral=norm"."""
    asked = dict(part.split("=") for part in text.split(","))
    shape = tuple(int(n) for n in asked.pop("d", "0").split("x"))
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(base)}
    base = replace(base, factor=0.9, rank=10, shape=(shape * 2)[:2] if shape[0] else base.shape)
    return replace(base, **{name: kinds[name](value) for name, value in asked.items()})


def judged(rows: list[dict[str, Any]]) -> None:
    """Print how many cells are certified, within the bounds of the map, and behind a rival."""
    fast = [row["seconds"] for row in rows if low(row)]
    least = min(fast, default=math.inf)
    certified = sum(row["status"] == "CERTIFIED" for row in rows)
    print(f"certified: {certified} of {len(rows)}")
    slow = [row for row in rows if low(row) and row["seconds"] > CLIFF * least]
    worst = max(fast, default=0.0) / least
    print(
        f"low rank: {len(fast)} cells, {len(slow)} above {CLIFF:g} times the fastest, "
        f"at most {worst:.1f} times"
    )
    for kind in ("solvers", "peers"):
        both = [(row["seconds"], best_of(row, kind)) for row in rows]
        both = [(ours, other) for ours, other in both if other is not None]
        ratios = sorted(ours / other for ours, other in both)
        if ratios:
            print(
                f"against the best of {kind}: {len(ratios)} cells, median ratio "
                f"{ratios[len(ratios) // 2]:.2f}, worst {ratios[-1]:.2f}, "
                f"{sum(r > 1.5 for r in ratios)} above 1.5, "
                f"{sum(r > 1 for r in ratios)} above 1"
            )


def low(row: dict[str, Any]) -> bool:
    """Whether the answer has at most 2 % of full rank, or rank 10."""
    return bool(row["answer"] <= max(10, 0.02 * min(row["shape"])))


def best_of(row: dict[str, Any], kind: str) -> float | None:
    """Return the least seconds of the rivals of this kind that reached the accuracy."""
    return min((x for x in row.get(kind, {}).values() if x), default=None)


def quick(d: int = 120) -> list[dict[str, Any]]:
    """Solve every third cell of the panels at a small size, without rivals."""
    found = []
    for name, (_, _, cells) in panels(d, "cpu").items():
        for cell in cells[::3]:
            _, result = solved(problem(cell, drawn(cell, "cpu")), cell, 60.0)
            counted = {"status": result.status.name, "svds": result.counts.svds}
            found.append({"panel": name} | asdict(cell) | counted)
    return found


def cliffs(rows: list[dict[str, Any]]) -> list[str]:
    """Return the cells that are not certified, or need far more decompositions than most."""
    found = []
    for name in dict.fromkeys(row["panel"] for row in rows):
        some = [row for row in rows if row["panel"] == name]
        usual = sorted(row["svds"] for row in some)[len(some) // 2]
        for row in some:
            if row["status"] != "CERTIFIED" or row["svds"] > STEEP * usual + SPARE:
                cell = Cell(**{field: row[field] for field in Cell.__dataclass_fields__})
                found.append(f"{name}: {cell}: {row['status']}, {row['svds']} decompositions")
    return found


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw one grid of cells for each panel: seconds, and red where the map falls off."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = {(row["device"], row["d"], row["panel"]): [] for row in rows}
    for row in rows:
        groups[row["device"], row["d"], row["panel"]].append(row)
    columns = 2
    figure, axes = plt.subplots(
        -(-len(groups) // columns), columns, figsize=(12, 3.2 * -(-len(groups) // columns)),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    for ax, ((device, d, name), some) in zip(axes.flat, groups.items(), strict=False):
        across, down, _ = panels(d, device)[name]
        same = [r for r in rows if (r["device"], r["d"]) == (device, d) and low(r)]
        least = min((r["seconds"] for r in same), default=math.inf)
        xs, ys = (
            list(dict.fromkeys(str(row[axis]) for row in some)) for axis in (across, down)
        )
        ax.set_xlim(0, len(xs))
        ax.set_ylim(len(ys), 0)
        for row in some:
            x, y = xs.index(str(row[across])), ys.index(str(row[down]))
            peer = best_of(row, "peers")
            failed = row["status"] != "CERTIFIED"
            cliff = low(row) and row["seconds"] > CLIFF * least
            behind = peer is not None and row["seconds"] > peer
            colour = RED if failed or cliff or behind else GREEN if low(row) else GREY
            ax.add_patch(plt.Rectangle((x, y), 1, 1, fc=colour, ec="white"))
            text = f"{row['seconds']:.2g}" if not failed else f"{row['gap'] or math.nan:.0e}"
            ink = "white" if colour == RED else "black"
            ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=8, color=ink)
        ax.set_xticks([i + 0.5 for i in range(len(xs))], xs, fontsize=8)
        ax.set_yticks([i + 0.5 for i in range(len(ys))], ys, fontsize=8)
        ax.set_title(f"{name}: {across} and {down} ({device}, d = {d})", fontsize=9)
        ax.tick_params(length=0)
        ax.set_frame_on(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Sweep, print, and write the JSON and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--panel", nargs="+")
    parser.add_argument("--cell", nargs="+", help='such as "rank=50,d=8000,spectral=norm"')
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds in all")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of one call")
    parser.add_argument("--alone", action="store_true", help="no other solvers and peers")
    parser.add_argument("--patience", type=float, help="stop rivals at this share of our time")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--draw", action="store_true", help="only draw what is stored")
    parser.add_argument("--bars", action="store_true", help="only judge what is stored")
    parser.add_argument("--quick", action="store_true", help="small cells, counts only")
    args = parser.parse_args()
    if args.quick:
        rows = quick()
        print(*cliffs(rows), f"{len(rows)} cells", sep="\n")
        raise SystemExit(bool(cliffs(rows)))
    stored = args.out.with_suffix(".json")
    rows = json.loads(stored.read_text())["cells"] if stored.exists() else []
    if args.bars:
        for size in dict.fromkeys((row["device"], row["d"]) for row in rows):
            print("{}, d = {}".format(*size))
            judged([row for row in rows if (row["device"], row["d"]) == size])
        return
    if not args.draw:
        new = swept(args)
        judged(new)
        if args.cell:  # single cells are not part of the map
            return
        again = {(row["device"], row["d"], row["panel"]) for row in new}
        rows = [row for row in rows if (row["device"], row["d"], row["panel"]) not in again]
        rows += new
        stored.write_text(json.dumps({"cells": rows}, indent=0) + "\n")
    draw(rows, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
