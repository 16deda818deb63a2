"""The passes as Triton kernels, for float32 on CUDA.

A program owns a block of rows, so that its sums and its rows of z Q stay in registers
while it walks along the columns. `look`, on which proofs rest, computes in float64; the
sums of `advance` are estimates in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from weakprox.linalg.arrays import Array
from weakprox.linalg.fused.formulas import Step, Sums
from weakprox.linalg.lowrank import LowRank

TERMS = tl.constexpr(5)  # sums over entries, in the order of Sums
NARROWEST = 16  # tensor cores take no narrower blocks
# rows, columns, warps, stages
SHAPES = ((64, 32, 4, 3), (32, 32, 4, 4), (32, 64, 4, 3), (16, 64, 4, 1), (64, 128, 4, 1))
CONFIGS = [
    triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s) for m, n, w, s in SHAPES
]


@triton.jit
def _clip(x, bound):
    return tl.minimum(tl.maximum(x, -bound), bound)


# Trials of other shapes leave sums behind, so `out` is cleared before each.
@triton.autotune(CONFIGS, key=["m", "n", "R", "whole"], reset_to_zero=["out"])
@triton.jit
def _look(
    C, Z, U, Vt, out, m, n, row, gamma, beta, curvature, lam,
    whole: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r = tl.arange(0, R)
    here = i < m
    u = tl.load(U + i[:, None] * R + r[None, :], mask=here[:, None], other=0.0)
    distance = tl.zeros((BM, BN), tl.float64)
    absolute = tl.zeros((BM, BN), tl.float64)
    along = tl.zeros((BM, BN), tl.float64)
    across = tl.zeros((BM, BN), tl.float64)
    rest = tl.zeros((BM, BN), tl.float64)
    step = 1.0 / gamma
    base = i.to(tl.int64)[:, None] * row
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        v = tl.load(Vt + r[:, None] * n + j[None, :], mask=(j < n)[None, :], other=0.0)
        X = tl.dot(u, v, out_dtype=tl.float64)
        c = tl.load(C + base + j[None, :], mask=inside, other=0.0).to(tl.float64)
        far = X - c
        distance += far * far
        absolute += tl.abs(X)
        if whole:
            z = tl.load(Z + base + j[None, :], mask=inside, other=0.0).to(tl.float64)
            t = (2.0 - gamma * (beta + curvature)) * X + gamma * beta * c - z
            s = _clip(t * step, lam)
            w = (z - X) * step
            q = beta * far + curvature * X + s + w
            along += s * X
            across += w * X
            rest += q * q
    out += tl.program_id(0) * TERMS
    tl.store(out, tl.sum(distance))
    tl.store(out + 1, tl.sum(absolute))
    tl.store(out + 2, tl.sum(along))
    tl.store(out + 3, tl.sum(across))
    tl.store(out + 4, tl.sum(rest))


@triton.autotune(
    CONFIGS, key=["m", "n", "R", "W", "begin"], restore_value=["Z"], reset_to_zero=["out"]
)
@triton.jit
def _advance(
    C, Z, U, Vt, Q, B, out, m, n, row, gamma, beta, curvature, lam, change,
    begin: tl.constexpr, R: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r, w = tl.arange(0, R), tl.arange(0, W)
    here = i < m
    u = tl.load(U + i[:, None] * R + r[None, :], mask=here[:, None], other=0.0)
    distance = tl.zeros((BM, BN), tl.float32)
    absolute = tl.zeros((BM, BN), tl.float32)
    along = tl.zeros((BM, BN), tl.float32)
    rest = tl.zeros((BM, BN), tl.float32)
    step = 1.0 / gamma
    product = tl.zeros((BM, W), tl.float32)
    base = i.to(tl.int64)[:, None] * row
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        c = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        if begin:
            t = gamma * beta * c
            after = t - _clip(t, gamma * lam)
        else:
            v = tl.load(Vt + r[:, None] * n + j[None, :], mask=(j < n)[None, :], other=0.0)
            X = tl.dot(u, v, input_precision="tf32x3")
            z = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
            t = (2.0 - gamma * (beta + curvature)) * X + gamma * beta * c - z
            s = _clip(t * step, lam)
            far = X - c
            move = t - gamma * s - X
            distance += far * far
            absolute += tl.abs(X)
            along += s * X
            rest += move * move
            after = change * z + (1.0 - change) * X + move
        tl.store(Z + base + j[None, :], after, mask=inside)
        q = tl.load(Q + j[:, None] * W + w[None, :], mask=(j < n)[:, None], other=0.0)
        product = tl.dot(after, q, product, input_precision="tf32")
    tl.store(B + i[:, None] * W + w[None, :], product, mask=here[:, None])
    out += tl.program_id(0) * TERMS
    tl.store(out, tl.sum(tl.sum(distance, axis=1).to(tl.float64)))
    tl.store(out + 1, tl.sum(tl.sum(absolute, axis=1).to(tl.float64)))
    tl.store(out + 2, tl.sum(tl.sum(along, axis=1).to(tl.float64)))
    tl.store(out + 4, tl.sum(tl.sum(rest, axis=1).to(tl.float64)) * step * step)


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """As `reference.first`."""
    none = torch.zeros((1, NARROWEST), device=C.device)
    nothing = LowRank(none.expand(C.shape[0], -1), none[0], none.T.expand(-1, C.shape[1]))
    return _pass(C, z, nothing, k, 1.0, Q, begin=True)[1]


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """As `reference.look`."""
    m, n = C.shape
    whole = z is not None
    z = C if z is None else z
    left, right = _factors(X, torch.float64)
    out = torch.zeros((triton.cdiv(m, 16), 5), device=C.device, dtype=torch.float64)
    _look[_grid(m)](C, z, left, right, out, m, n, C.stride(0), *k, whole, left.shape[1])
    return _sums(out, X)


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance`."""
    out, B = _pass(C, z, X, k, change, Q, begin=False)
    return _sums(out, X), B


def _pass(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None, *, begin: bool
) -> tuple[Any, Array | None]:
    m, n = C.shape
    left, right = _factors(X, torch.float32)
    wanted = NARROWEST if Q is None else _power(int(Q.shape[1]))
    block = torch.zeros((n, wanted), device=C.device)
    if Q is not None:
        block[:, : Q.shape[1]] = Q
    B = torch.empty((m, wanted), device=C.device)
    out = torch.zeros((triton.cdiv(m, 16), 5), device=C.device, dtype=torch.float64)
    _advance[_grid(m)](
        C, z, left, right, block, B, out, m, n, C.stride(0), *k, change,
        begin, left.shape[1], wanted,
    )  # fmt: skip
    return out, None if Q is None else B[:, : Q.shape[1]]


def _sums(out: Any, X: LowRank) -> Sums:
    found = torch.cat([out.sum(0), X.s.double().square().sum()[None]])  # one trip to the host
    return Sums(*found.tolist())


def _grid(m: int) -> Any:
    return lambda meta: (triton.cdiv(m, meta["BM"]),)


def _power(width: int) -> int:
    """The next power of two, as tiles have it."""
    return max(NARROWEST, 1 << (width - 1).bit_length())


def _factors(X: LowRank, dtype: Any) -> tuple[Array, Array]:
    """U diag(s) and Vt, filled up with zeros to a width that tiles can have."""
    rank = int(X.s.shape[0])
    wide = _power(rank)
    left = torch.zeros((X.U.shape[0], wide), device=X.U.device, dtype=dtype)
    right = torch.zeros((wide, X.Vt.shape[1]), device=X.U.device, dtype=dtype)
    left[:, :rank] = X.U.to(dtype) * X.s
    right[:rank] = X.Vt
    return left, right


@triton.autotune(CONFIGS, key=["m", "n", "W", "transposed"])
@triton.jit
def _narrow(
    Z, V, B, m, n, row, transposed: tl.constexpr,
    W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    here = i < m
    product = tl.zeros((BM, W), tl.float64)
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        inside = (j < n)[:, None]
        if transposed:
            across = inside & here[None, :]
            place = Z + j.to(tl.int64)[:, None] * row + i[None, :]
            z = tl.trans(tl.load(place, mask=across, other=0.0))
        else:
            across = here[:, None] & (j < n)[None, :]
            z = tl.load(Z + i.to(tl.int64)[:, None] * row + j[None, :], mask=across, other=0.0)
        v = tl.load(V + j[:, None] * W + w[None, :], mask=inside, other=0.0)
        product = tl.dot(z.to(tl.float64), v, product, out_dtype=tl.float64)
    tl.store(B + i[:, None] * W + w[None, :], product, mask=here[:, None])


def times(z: Array, V: Array) -> Array:
    """As `reference.times`."""
    return _product(z, V, transposed=False)


def transpose_times(z: Array, U: Array) -> Array:
    """As `reference.transpose_times`."""
    return _product(z, U, transposed=True)


# These kernels are faster than the library's products in float32, and in float64.
quick_times, quick_transpose_times = times, transpose_times


def quick_is_exact(z: Array) -> bool:
    """Always here."""
    return True


def _product(z: Array, V: Array, *, transposed: bool) -> Array:
    m, n = z.shape[::-1] if transposed else z.shape
    width = int(V.shape[1])
    block = torch.zeros((n, _power(width)), device=z.device, dtype=torch.float64)
    block[:, :width] = V
    B = torch.empty((m, block.shape[1]), device=z.device, dtype=torch.float64)
    _narrow[_grid(m)](z, block, B, m, n, z.stride(0), transposed, block.shape[1])
    return B[:, :width]
