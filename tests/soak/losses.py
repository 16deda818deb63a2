"""Random losses around a matrix, with their values in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from soak.kit import WIDE, Kit, Matrix, Part, Random

from weakprox.losses import Completion, Custom, Denoising, Huber, Sensing

KINDS = ("matrix", "samples", "dense", "rank-one", "sparse", "sum", "mean", "holes", "custom",
         "terms")  # fmt: skip

LARGE = 500  # entries


def loss(rng: Random, M: Matrix, size: float, symmetric: bool, kit: Kit) -> Part:
    """G around size * M: the optimum of G alone is of that size."""
    kind = str(rng.choice(KINDS))
    kind = "dense" if kit.torch and kind == "sparse" else kind  # SciPy's are NumPy's
    if M.size > LARGE and kind in ("dense", "rank-one", "sparse"):
        kind = "matrix"  # as many measurements as entries, each as large as X
    C = kit.rounded(size * M)
    if kind == "matrix":
        return Part(Denoising(kit.give(C)), lambda X: ((X - C) ** 2).sum() / 2, kind)
    if kind == "samples":
        N = rng.standard_normal((3, *M.shape))
        N = (N + N.transpose(0, 2, 1)) / 2 if symmetric else N
        S = kit.rounded(size * (M + 0.3 * N))
        mean = kit.rounded(S.mean(axis=0))  # held in the dtype of the samples
        ours = Denoising(samples=kit.give(S))
        return Part(ours, lambda X: ((X - mean) ** 2).sum() / 2, kind)
    if kind in ("dense", "rank-one", "sparse"):
        return _sensing(rng, M, size, kit, kind)
    if kind in ("sum", "mean", "holes"):
        return _completion(rng, M, size, kit, kind)
    if kind == "custom":
        return _weighted(rng, C, kit)
    return _terms(rng, M, size, kit)


def _sensing(rng: Random, M: Matrix, size: float, kit: Kit, kind: str) -> Part:
    m, d = M.shape
    n = int(rng.choice([m * d // 2 + 1, m * d, 2 * m * d]))
    left, right = rng.standard_normal((n, m)), rng.standard_normal((n, d))
    if kind == "rank-one":
        left, right = kit.rounded(left), kit.rounded(right)
        A = np.einsum("ni,nj->nij", left, right)
        given: Any = (kit.give(left), kit.give(right))
    else:
        A = rng.standard_normal((n, m, d))
        if kind == "sparse":
            A = np.where(np.abs(A) > 1.0, A, 0.0)
        elif rng.random() < 0.2:  # columns of very different length: ill-conditioned
            A = A * 10.0 ** rng.uniform(-4, 0, d)
        A = kit.rounded(A)
        given = kit.give(A)
        if kind == "sparse":
            given = scipy.sparse.csr_array(A.astype(kit.dtype).reshape(n, -1))
    noisy = (A.astype(float) * M).sum((1, 2)) + 0.1 * rng.standard_normal(n)
    b, flat = kit.rounded(size * noisy), A.reshape(n, -1)
    claims = np.random.default_rng(n)  # a constant that may be far too large
    claimed = float(10.0 ** claims.uniform(-3, 1)) if claims.random() < 0.3 else 0.0
    constants = {"strong_convexity": claimed} if claimed and n >= m * d else {}
    ours = Sensing(given, kit.give(b), shape=M.shape, **constants)
    return Part(ours, lambda X: ((flat @ X.ravel() - b) ** 2).mean() / 2, kind)


def _completion(rng: Random, M: Matrix, size: float, kit: Kit, kind: str) -> Part:
    share = float(rng.choice([0.4, 0.8, 1.0]))
    rows, cols = np.nonzero(rng.random(M.shape) < share)
    if rows.size == 0:
        rows, cols = np.array([0]), np.array([0])
    noisy = M[rows, cols] + 0.1 * rng.standard_normal(rows.size)
    other = np.random.default_rng([rows.size, *M.shape, int(rows.sum())])
    if kind != "holes" and other.random() < 0.5:
        return _entries(other, M.shape, rows, cols, noisy, size, kit, kind)
    values = kit.rounded(size * noisy)
    if kind == "holes":
        holes = np.full(M.shape, np.nan)
        holes[rows, cols] = values
        ours = Completion.from_dense(kit.give(holes))
    else:
        ours = Completion(rows, cols, kit.give(values), M.shape, reduction=kind)
    n = rows.size if kind == "mean" else 1
    return Part(ours, lambda X: ((X[rows, cols] - values) ** 2).sum() / (2 * n), kind)


def _entries(
    rng: Random, shape: Any, rows: Any, cols: Any, noisy: Any, size: float, kit: Kit, kind: str
) -> Part:
    """Other losses of entries, with weights; squares with intercepts, too."""
    name = str(rng.choice(["squared", "huber", "logistic"]))
    if not 1e-3 < size < 10.0 and name == "logistic":
        name = "huber"  # exponentials of X would overflow
    weights = kit.rounded(rng.uniform(0.5, 2.0, rows.size))
    options: dict[str, Any] = {"weights": kit.give(weights), "reduction": kind, "loss": name}
    n = rows.size if kind == "mean" else 1
    each = weights.astype(float).astype(WIDE) * (1.0 / n)  # as the library rounds it
    values, k = kit.rounded(size * noisy), float(0.5 * size)
    if name == "logistic":
        values = kit.rounded(np.where(noisy > 0, 1.0, 0.0))
    elif name == "huber":
        options["loss"] = Huber(k)
    design = np.zeros((rows.size, 0))
    fits = rows.size <= 2 * sum(shape) or min(shape) < 3  # intercepts alone, perhaps
    if name == "squared" and rng.random() < 0.5 and not fits:
        options["intercepts"] = "both"
        sides = [np.eye(m)[index] for m, index in zip(shape, (rows, cols), strict=True)]
        design = np.concatenate(sides, axis=1)
    root = np.sqrt(each.astype(float))

    def value(X: Matrix) -> Any:
        z = X[rows, cols].astype(WIDE)
        for _ in range(3 if design.size else 0):  # the best intercepts, refined
            r = values - z
            scale = WIDE(np.abs(r).max()) or WIDE(1)
            fit = np.linalg.lstsq(root[:, None] * design, root * (r / scale).astype(float))[0]
            z = z + scale * (design @ fit.astype(WIDE))
        r = z - values
        if name == "logistic":
            terms = np.logaddexp(WIDE(0), np.where(values > 0.5, -z, z))
        elif name == "huber":
            inside = np.clip(r, -k, k)
            terms = inside * (r - inside / 2)
        else:
            terms = r * r / 2
        return (each * terms).sum()

    ours = Completion(rows, cols, kit.give(values), shape, **options)
    return Part(ours, value, f"{kind}-{name}{'-intercepts' if design.size else ''}")


def _weighted(rng: Random, C: Matrix, kit: Kit) -> Part:
    """A user's own function, careful about the range of float32 as users must be."""
    weights = kit.rounded(rng.uniform(0.2, 2.0, C.shape))
    near, factor, wide = kit.give(C), kit.give(weights), Kit(np.float64, kit.torch)
    wide_near, wide_factor = wide.give(C), wide.give(weights)

    def value(X: Any) -> float:
        return 0.5 * float((wide_factor * (wide.give(X) - wide_near) ** 2).sum())

    ours = Custom(
        C.shape,
        value=value,
        grad=lambda X: factor * (X - near),
        strong_convexity=float(weights.min()),
        smoothness=float(weights.max()),
        infimum=0.0,
        like=near,
    )
    return Part(ours, lambda X: (weights * (X - C) ** 2).sum() / 2, "custom")


def _terms(rng: Random, M: Matrix, size: float, kit: Kit) -> Part:
    """A finite sum of a user's own terms."""
    shift = kit.rounded(size * (M + rng.standard_normal((4, *M.shape))))
    factor = np.array([0.5, 1.0, 1.5, 2.0], dtype=WIDE)
    wide = Kit(np.float64, kit.torch)
    shifts, factors = wide.give(shift), wide.give(factor)

    def value(X: Any, i: Any) -> float:
        each = factors[i] / 2 * ((wide.give(X) - shifts[i]) ** 2).sum((1, 2))
        return float(each.mean())

    def grad(X: Any, i: Any) -> Any:
        return kit.give((factors[i][:, None, None] * (wide.give(X) - shifts[i])).mean(0))

    ours = Custom(
        M.shape,
        value=value,
        grad=grad,
        n_terms=4,
        strong_convexity=1.25,
        smoothness=1.25,
        term_smoothness=2.0,
        like=kit.give(shift[0]),
    )

    def mean(X: Matrix) -> Any:
        return (factor / 2 * ((X - shift) ** 2).sum((1, 2))).mean()

    return Part(ours, mean, "terms")
