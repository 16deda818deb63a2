"""Random problems of every kind and size, in the library's words and in NumPy's.

Half of them are of ordinary size. The others have data from 1e-100 to 1e100 (1e-30 to 1e30
in float32), weights and radii that dwarf the data or vanish beside it, one row or one
column, spectra with ties, of low rank or of all magnitudes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from soak.kit import WIDE, Kit, Matrix, Part, Random, Value
from soak.losses import loss
from soak.penalties import penalty, spectral

import weakprox as wp
from weakprox.penalties import ElasticNet

CHANGE = 1e-6  # relative


@dataclass
class Instance:
    """A problem in the library's words and in NumPy's."""

    name: str
    problem: wp.Problem
    parts: list[Value]  # G, the parts of R, and h where it is finite
    excess: Value  # relative distance from the set
    dtype: Any
    size: float  # of the data
    kind: str  # of h
    best: float = np.inf  # lowest value of a feasible point that any run has found
    scale: float = 1.0  # sizes of the terms that were added up there: their rounding
    found: list[str] = field(default_factory=list)  # violations

    @property
    def eps(self) -> float:
        return float(np.finfo(self.dtype).eps)

    def value(self, X: Matrix) -> tuple[float, float]:
        """f(X) and the sum of the sizes of its terms, summed in more than float64."""
        terms = [part(X.astype(WIDE)) for part in self.parts]
        return float(sum(terms)), float(sum(abs(term) for term in terms))

    def inside(self, X: Matrix) -> Matrix:
        """The point next to X, nearly, that is in the set beyond rounding."""
        X = X.astype(WIDE)
        if self.kind == "psd":
            scale = float(np.abs(X).max()) or 1.0
            values, V = np.linalg.eigh(((X + X.T) / 2 / scale).astype(float))
            X = scale * ((V * np.maximum(values, 0.0)) @ V.T).astype(WIDE)
        over = 0.0 if self.kind == "norm" else max(0.0, float(self.excess(X)))
        return X / (1.0 + over)

    def cancelled(self, X: Matrix) -> float:
        """Sizes of numbers that cancel: in a loss that fits its data well, and in pieces.

        Those of a maximum of affine functions show when entries of X change a little.
        """
        X = X.astype(WIDE)
        signs = np.random.default_rng(0).choice([-CHANGE, CHANGE], X.shape)
        fit, first = self.parts[0](X), self.parts[0](0.0 * X)
        moved = [abs(part(X + signs * X) - part(X)) / CHANGE for part in self.parts]
        return float(np.sqrt(fit * first) + self.eps * first + sum(moved))

    def rounding(self) -> float:
        """Differences of values that mean nothing: 1e-12 of the terms' sizes."""
        return 4096 * float(np.finfo(float).eps) * self.scale


def matrix(rng: Random, shape: tuple[int, int], symmetric: bool) -> Matrix:
    """Of size about one, often degenerate: zeros, ties, rank one, constant, sparse."""
    m, d = shape
    kind = rng.integers(0, 12)
    M = rng.standard_normal(shape)
    if kind == 0:
        M = np.zeros(shape)
    elif kind == 1:
        M = np.eye(m, d)
    elif kind == 2:
        M = np.ones(shape)
    elif kind == 3:
        M = np.outer(rng.standard_normal(m), rng.standard_normal(d))
    elif kind == 4:
        M = np.where(rng.random(shape) < 0.2, np.sign(M), 0.0)
    elif kind == 5:
        r = int(rng.integers(1, min(m, d) + 1))
        M = rng.standard_normal((m, r)) @ rng.standard_normal((r, d)) + 0.1 * M
    elif kind == 6:
        M[: m // 2] = 0.0
    elif kind in (7, 8):  # ill-conditioned, or every value twice
        U, _, Vt = np.linalg.svd(M, full_matrices=False)
        fall = np.arange(min(m, d)) * 8 / min(m, d)
        M = (U * 10.0 ** -(fall if kind == 7 else np.round(fall / 4))) @ Vt
    elif kind == 9:
        M = M * 10.0 ** rng.uniform(-6, 0, shape)  # entries of all magnitudes
    return (M + M.T) / 2 if symmetric else M


def _shape(rng: Random, symmetric: bool) -> tuple[int, int]:
    """Mostly small, sometimes a single row, column or number, rarely larger."""
    m, d = (int(x) for x in rng.integers(2, 31, 2) // rng.choice([1, 1, 3]))
    m, d = max(m, 2), max(d, 2)
    kind = rng.random()
    if kind < 0.12:
        m, d = ((1, d), (m, 1), (1, 1))[int(rng.integers(0, 3))]
    elif kind < 0.13:
        m, d = 5 * m, 5 * d
    return (m, m) if symmetric else (m, d)


def _size(rng: Random, single: bool, extreme: bool) -> float:
    """Of the data."""
    most = (30 if single else 100) if extreme else (3 if single else 6)
    return float(10.0 ** rng.uniform(-most, most))


def _far(rng: Random, single: bool) -> float:
    """One, or sometimes a factor that makes a weight or a radius absurd."""
    most = 8 if single else 25
    return float(10.0 ** rng.uniform(-most, most)) if rng.random() < 0.15 else 1.0


def instance(seed: int) -> Instance:
    """A random problem."""
    rng = np.random.default_rng([seed, 2026])
    kind = str(rng.choice(["ball", "ball", "psd", "norm", "exact"]))
    symmetric, extreme = kind == "psd", bool(rng.random() < 0.5)
    kit = Kit(np.float32 if rng.random() < 0.3 else np.float64, bool(rng.random() < 0.15))
    shape = _shape(rng, symmetric)
    size = _size(rng, kit.single, extreme)
    lam, tau = (_far(rng, kit.single) if extreme else 1.0 for _ in range(2))
    M = matrix(rng, shape, symmetric)
    G = loss(rng, M, size, symmetric, kit)
    R = penalty(rng, shape, size, kit, size * lam)
    curve = 0.0
    if not G.ours.strong_convexity + R.ours.curvature > 0.0:
        curve = float(10.0 ** rng.uniform(-2, 0))
    h = spectral(rng, size * M, size, kind, kit, tau)
    flat = bool(np.random.default_rng([seed, 15]).random() < 0.7)
    if curve and not (flat and _provable(wp.Problem(G.ours, R.ours, h.ours))):
        R = _with_ridge(R, curve)
    elif curve:
        R = Part(R.ours, R.value, f"({R.name} flat)")
    parts = [G.value, R.value, *([h.value] if kind == "norm" else [])]
    excess = (lambda X: 0.0) if kind == "norm" else h.value
    what = f"{G.name} {R.name} {h.name} {shape[0]}x{shape[1]}"
    sizes = f"{size:.0e} lam {lam:.0e} tau {tau:.0e}"
    name = f"{what} {sizes} {kit.dtype.__name__}{' torch' if kit.torch else ''}"
    problem = wp.Problem(G.ours, R.ours, h.ours)
    return Instance(name, problem, parts, excess, kit.dtype, size, kind)


def _provable(problem: wp.Problem) -> bool:
    """Whether the library says that a bound exists."""
    try:
        problem.check_provable()
    except wp.ConvexityError:
        return False
    return True


def _with_ridge(R: Part, curve: float) -> Part:
    """Strongly convex."""

    def value(X: Matrix) -> Any:
        return R.value(X) + curve * (X**2).sum()

    return Part(R.ours + ElasticNet(0.0, curve), value, f"({R.name}+ridge)")
