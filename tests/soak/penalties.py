"""Random penalties and spectral terms, with their values in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from soak.kit import Kit, Matrix, Part, Random, nuclear_norm

from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, SignedL1, Zero
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

KINDS = ("none", "l1", "net", "rows", "columns", "signed", "max", "sum", "multiple", "max-sum",
         "zero-weight")  # fmt: skip


def penalty(rng: Random, shape: tuple[int, int], size: float, kit: Kit, lam: float) -> Part:
    """R with weights of about `lam`, in units of the gradient of G."""
    kind = str(rng.choice(KINDS))
    lam = float(lam * 10.0 ** rng.uniform(-2, 0.5))
    if kind == "none":
        return Part(Zero(), lambda X: 0.0, kind)
    if kind == "zero-weight":
        return Part(L1(0.0), lambda X: 0.0, kind)
    if kind == "l1":
        return Part(L1(lam), lambda X: lam * np.abs(X).sum(), kind)
    if kind == "net":
        curve = float(10.0 ** rng.uniform(-2, 1))

        def net(X: Matrix) -> Any:
            return lam * np.abs(X).sum() + curve * (X**2).sum()

        return Part(ElasticNet(lam, curve), net, kind)
    if kind in ("rows", "columns"):
        axis = 1 if kind == "rows" else 0
        group = GroupL2(lam, kind)
        return Part(group, lambda X: lam * np.sqrt((X**2).sum(axis)).sum(), kind)
    if kind == "signed":
        below, curve = float(lam * rng.choice([0.0, 1.0, 100.0])), float(rng.choice([0.0, 0.3]))

        def prices(X: Matrix) -> Any:
            up, down = X.clip(0.0, None).sum(), -X.clip(None, 0.0).sum()
            return lam * up + below * down + curve * (X**2).sum()

        return Part(SignedL1(lam, below, curve), prices, kind)
    if kind == "max":
        return _max_affine(rng, shape, size, kit)
    if kind == "multiple":
        part = penalty(rng, shape, size, kit, lam)
        factor = float(rng.uniform(0.1, 3.0))
        if kit.single:
            factor = 2.0 ** round(np.log2(factor))  # rounds no piece of a maximum
        return Part(factor * part.ours, lambda X: factor * part.value(X), f"k*{part.name}")
    first = penalty(rng, shape, size, kit, lam)
    if kind == "max-sum":
        second = _max_affine(rng, shape, size, kit)
    else:
        second = penalty(rng, shape, size, kit, lam)
    name = f"({first.name}+{second.name})"
    return Part(first.ours + second.ours, lambda X: first.value(X) + second.value(X), name)


def _max_affine(rng: Random, shape: tuple[int, int], size: float, kit: Kit) -> Part:
    n = int(rng.choice([1, 2, 5, 12]))
    A = 10.0 ** rng.uniform(-1, 1) * rng.standard_normal((n, *shape))
    b = rng.standard_normal(n)
    how = rng.integers(0, 5)
    if how == 0:
        A[: n // 2 + 1], b[: n // 2 + 1] = A[0], b[0]  # the same piece more than once
    elif how == 1:
        A[-1], b[-1] = 0.0, 0.0
    if kit.single and not 1e-15 < size < 1e15:
        b[:] = 0.0  # its unit is that of f, which float32 does not hold
    A, b = kit.rounded(size * A), kit.rounded(size**2 * b)
    flat = A.reshape(n, -1)
    ours = MaxAffine(kit.give(A), kit.give(b))
    return Part(ours, lambda X: (flat @ X.ravel() - b).max(), f"max{n}")


def spectral(rng: Random, C: Matrix, size: float, kind: str, kit: Kit, extreme: float) -> Part:
    """h, binding or not; `value` is the relative distance from the set (h for the norm)."""
    nuclear, zero = nuclear_norm(C) or size, size
    size = float(nuclear * rng.choice([0.01, 0.3, 0.9, 1.0, 2.0, 100.0]) * extreme)
    if kind == "norm":
        lam = float(size / min(C.shape) / 3)
        return Part(NuclearNorm(lam), lambda X: lam * nuclear_norm(X), kind)
    if kind == "ball":
        return Part(NuclearBall(size), lambda X: nuclear_norm(X) / size - 1.0, kind)
    if kind == "psd":

        def excess(X: Matrix) -> float:
            scale = float(np.abs(X).max()) or 1.0
            least = scale * float(np.linalg.eigvalsh(((X + X.T) / 2 / scale).astype(float))[0])
            skew = float(np.abs(X - X.T).max())
            return max(float(np.trace(X)) / size - 1.0, -least / size, skew / size)

        return Part(TracePSD(size), excess, kind)
    limit = float((np.abs(C).max() or zero) * rng.choice([0.1, 0.7, 2.0]))
    slack = 1e-5 if kit.single else 1e-9
    ours = Exact(
        prox=lambda A, weight: A.clip(-limit, limit),
        value_of=lambda X: 0.0 if float(abs(X).max()) <= limit * (1 + slack) else np.inf,
        conjugate_of=lambda U: limit * float(abs(U).sum()),
    )
    return Part(ours, lambda X: float(np.abs(X).max()) / limit - 1.0, kind)
