"""The Triton kernels of the passes.

A program owns a tile of rows and a stretch of columns along which it walks, so that its
sums and its rows of z Q stay in registers. `look`, on which proofs rest, computes in
float64; the sums of `advance` are estimates in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

TERMS = tl.constexpr(6)  # sums over entries, in the order of Sums


@triton.jit
def _clip(x, bound):
    return tl.minimum(tl.maximum(x, -bound), bound)


@triton.jit
def _factor(U, s, i, r, m, rank, row, kind: tl.constexpr):
    """Rows i of U diag(s), filled up with zeros to a width that tiles can have."""
    inside = (i < m)[:, None] & (r < rank)[None, :]
    u = tl.load(U + i.to(tl.int64)[:, None] * row + r[None, :], mask=inside, other=0.0)
    return u.to(kind) * tl.load(s + r, mask=r < rank, other=0.0).to(kind)[None, :]


@triton.jit
def _square_once(s, r, rank):
    """The sum of s^2, in the first program only."""
    values = tl.load(s + r, mask=r < rank, other=0.0).to(tl.float64)
    is_first = (tl.program_id(0) == 0) & (tl.program_id(1) == 0)
    return tl.where(is_first, tl.sum(values * values), 0.0)


@triton.jit
def look_kernel(
    C, Z, U, s, Vt, numbers, out, m, n, row, rank, row_u, row_v, per,
    whole: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r = tl.arange(0, R)
    here = i < m
    u = _factor(U, s, i, r, m, rank, row_u, tl.float64)
    gamma, beta = tl.load(numbers), tl.load(numbers + 1)
    curvature, lam = tl.load(numbers + 2), tl.load(numbers + 3)
    step = 1.0 / gamma
    weight = beta + curvature - step  # of X in the rest
    ahead = (2.0 - gamma * (beta + curvature)).to(tl.float32)
    toward, size = (gamma * beta).to(tl.float32), lam.to(tl.float32)
    steep = step.to(tl.float32)
    size = tl.where(size.to(tl.float64) > lam, size * (1.0 - 1.2e-7), size)
    distance = tl.zeros((BM, BN), tl.float64)
    absolute = tl.zeros((BM, BN), tl.float64)
    along = tl.zeros((BM, BN), tl.float64)
    rest = tl.zeros((BM, BN), tl.float64)
    base = i.to(tl.int64)[:, None] * row
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        known = (r < rank)[:, None] & (j < n)[None, :]
        v = tl.load(Vt + r[:, None] * row_v + j[None, :], mask=known, other=0.0)
        X = tl.dot(u, v.to(tl.float64), out_dtype=tl.float64)
        near = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        c = near.to(tl.float64)
        far = X - c
        distance += far * far
        absolute += tl.abs(X)
        if whole:
            target = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
            # any s will do that is no longer than lam, so it is made in float32
            t = ahead * X.to(tl.float32) + toward * near - target
            pull = _clip(t * steep, size).to(tl.float64)
            q = weight * X + pull + step * target.to(tl.float64) - beta * c
            along += pull * X
            rest += q * q
    out += (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * TERMS
    tl.store(out, tl.sum(distance))
    tl.store(out + 1, tl.sum(absolute))
    tl.store(out + 2, tl.sum(along))
    tl.store(out + 3, float("nan"))  # follows from triplets, and another sum is dear
    tl.store(out + 4, tl.sum(rest))
    tl.store(out + 5, _square_once(s, r, rank))


@triton.jit
def advance_kernel(
    C, Z, U, s, Vt, Q, B, numbers, out, m, n, row, rank, width, row_u, row_v, row_q, per,
    begin: tl.constexpr, precise: tl.constexpr,
    R: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r, w = tl.arange(0, R), tl.arange(0, W)
    here = i < m
    gamma, beta = tl.load(numbers).to(tl.float32), tl.load(numbers + 1).to(tl.float32)
    curvature, lam = tl.load(numbers + 2).to(tl.float32), tl.load(numbers + 3).to(tl.float32)
    change = tl.load(numbers + 4).to(tl.float32)
    if not begin:
        u = _factor(U, s, i, r, m, rank, row_u, tl.float32)
    distance = tl.zeros((BM, BN), tl.float32)
    absolute = tl.zeros((BM, BN), tl.float32)
    along = tl.zeros((BM, BN), tl.float32)
    rest = tl.zeros((BM, BN), tl.float32)
    step = 1.0 / gamma
    product = tl.zeros((BM, W), tl.float32)
    base = i.to(tl.int64)[:, None] * row
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        c = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        if begin:
            t = gamma * beta * c
            after = t - _clip(t, gamma * lam)
        else:
            known = (r < rank)[:, None] & (j < n)[None, :]
            v = tl.load(Vt + r[:, None] * row_v + j[None, :], mask=known, other=0.0)
            X = tl.dot(u, v, input_precision="tf32x3")
            z = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
            t = (2.0 - gamma * (beta + curvature)) * X + gamma * beta * c - z
            pull = _clip(t * step, lam)
            far = X - c
            move = t - gamma * pull - X
            distance += far * far
            absolute += tl.abs(X)
            along += pull * X
            rest += move * move
            after = change * z + (1.0 - change) * X + move
        tl.store(Z + base + j[None, :], after, mask=inside)
        wanted = (j < n)[:, None] & (w < width)[None, :]
        q = tl.load(Q + j[:, None] * row_q + w[None, :], mask=wanted, other=0.0)
        if precise:
            product = tl.dot(after, q.to(tl.float32), product, input_precision="tf32x3")
        else:
            product = tl.dot(after, q.to(tl.float32), product, input_precision="tf32")
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i[:, None] * W + w[None, :], product, mask=here[:, None])
    out += (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * TERMS
    tl.store(out, tl.sum(tl.sum(distance, axis=1).to(tl.float64)))
    tl.store(out + 1, tl.sum(tl.sum(absolute, axis=1).to(tl.float64)))
    tl.store(out + 2, tl.sum(tl.sum(along, axis=1).to(tl.float64)))
    tl.store(out + 3, 0.0)
    tl.store(out + 4, tl.sum(tl.sum(rest, axis=1).to(tl.float64)) * step * step)
    tl.store(out + 5, _square_once(s, r, rank))


@triton.jit
def times_kernel(
    Z, V, B, m, n, row, width, row_v, per,
    W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    here = i < m
    product = tl.zeros((BM, W), tl.float64)
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        known = (j < n)[:, None] & (w < width)[None, :]
        v = tl.load(V + j.to(tl.int64)[:, None] * row_v + w[None, :], mask=known, other=0.0)
        inside = here[:, None] & (j < n)[None, :]
        z = tl.load(Z + i.to(tl.int64)[:, None] * row + j[None, :], mask=inside, other=0.0)
        product = tl.dot(z.to(tl.float64), v.to(tl.float64), product, out_dtype=tl.float64)
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i.to(tl.int64)[:, None] * W + w[None, :], product, mask=here[:, None])


@triton.jit
def transpose_times_kernel(
    Z, V, B, m, n, row, width, row_v, per,
    W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    # as (V'Z)', so that only the narrow block is read across its rows
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    here = i < m
    product = tl.zeros((W, BM), tl.float64)
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        known = (j < n)[None, :] & (w < width)[:, None]
        v = tl.load(V + j.to(tl.int64)[None, :] * row_v + w[:, None], mask=known, other=0.0)
        inside = (j < n)[:, None] & here[None, :]
        z = tl.load(Z + j.to(tl.int64)[:, None] * row + i[None, :], mask=inside, other=0.0)
        product = tl.dot(v.to(tl.float64), z.to(tl.float64), product, out_dtype=tl.float64)
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i.to(tl.int64)[None, :] * W + w[:, None], product, mask=here[None, :])


@triton.jit
def whitening_kernel(G, T, least, W: tl.constexpr):
    # Cholesky factor of G, scaled, and its inverse, a column and a row at a time
    i = tl.arange(0, W)
    row, column = i[:, None], i[None, :]
    left = tl.load(G + row * W + column)
    sizes = tl.sum(tl.where(row == column, left, 0.0), axis=0)
    scale = 1.0 / tl.sqrt(tl.maximum(sizes, 2.3e-308))
    left = left * scale[:, None] * scale[None, :]
    inverse = tl.where(row == column, 1.0, 0.0).to(tl.float64)
    smallest = tl.sum(tl.where(i == 0, 1.0, 0.0).to(tl.float64))
    for k in range(W):
        below = tl.sum(tl.where(column == k, left, 0.0), axis=1)
        square = tl.sum(tl.where(i == k, below, 0.0))
        pivot = tl.sqrt(tl.where(square > 0.0, square, 1.0))
        smallest = tl.where(square > 0.0, tl.minimum(smallest, pivot), 0.0)
        below = tl.where(i >= k, below, 0.0) / pivot
        left -= below[:, None] * below[None, :]
        done = tl.sum(tl.where(row == k, inverse, 0.0), axis=0) / pivot
        rest = inverse - tl.where(i > k, below, 0.0)[:, None] * done[None, :]
        inverse = tl.where(row == k, done[None, :], rest)
    tl.store(T + column * W + row, inverse * scale[None, :])
    tl.store(least, smallest)
