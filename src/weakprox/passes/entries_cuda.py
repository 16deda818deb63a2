"""Triton kernels for products with a sparse matrix and sampled products, in float64.

A program of a product sums the entries of one row, so the order of additions is fixed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

WIDTH = 64  # columns of a block that one program processes
ENTRIES = 32  # entries that it reads at once
Tensor = Any


@triton.jit
def sampled_kernel(
    rows, columns, U, V, out, n, k, K: tl.constexpr, E: tl.constexpr
):  # fmt: skip
    e = tl.program_id(0).to(tl.int64) * E + tl.arange(0, E)
    here = e < n
    i = tl.load(rows + e, mask=here, other=0).to(tl.int64)
    j = tl.load(columns + e, mask=here, other=0).to(tl.int64)
    found = tl.zeros((E,), tl.float64)
    for start in range(0, k, K):
        r = start + tl.arange(0, K)
        known = here[:, None] & (r < k)[None, :]
        u = tl.load(U + i[:, None] * k + r[None, :], mask=known, other=0.0)
        v = tl.load(V + j[:, None] * k + r[None, :], mask=known, other=0.0)
        found += tl.sum(u * v, axis=1)
    tl.store(out + e, found, mask=here)


@triton.jit
def product_kernel(
    pointers, columns, positions, values, B, out, k,
    gathered: tl.constexpr, K: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    r = tl.program_id(1) * K + tl.arange(0, K)
    low, high = tl.load(pointers + i), tl.load(pointers + i + 1)
    found = tl.zeros((E, K), tl.float64)
    for start in range(low, high, E):
        e = start + tl.arange(0, E)
        here = e < high
        j = tl.load(columns + e, mask=here, other=0).to(tl.int64)
        at = tl.load(positions + e, mask=here, other=0).to(tl.int64) if gathered else e
        value = tl.load(values + at, mask=here, other=0.0)
        known = here[:, None] & (r < k)[None, :]
        found += value[:, None] * tl.load(
            B + j[:, None] * k + r[None, :], mask=known, other=0.0
        )
    tl.store(out + i * k + r, tl.sum(found, axis=0), mask=r < k)


def sampled(P: Any, U: Tensor, V: Tensor) -> Tensor:
    """Entries of U V' at the positions of a pattern."""
    out = torch.empty(P.size, dtype=torch.float64, device=U.device)
    grid = (triton.cdiv(P.size, ENTRIES),)
    K = min(WIDTH, max(16, triton.next_power_of_2(int(U.shape[1]))))
    sampled_kernel[grid](P.rows, P.columns, U, V, out, P.size, int(U.shape[1]), K, ENTRIES)
    return out


def product(
    pointers: Tensor, columns: Tensor, positions: Tensor | None, values: Tensor, B: Tensor
) -> Tensor:
    """Product of a matrix in compressed rows; `positions` are those of its values."""
    m, k = int(pointers.shape[0]) - 1, int(B.shape[1])
    out = torch.empty((m, k), dtype=torch.float64, device=B.device)
    K = min(WIDTH, max(16, triton.next_power_of_2(k)))
    gathered = positions is not None
    where = positions if gathered else columns
    grid = (m, triton.cdiv(k, K))
    product_kernel[grid](pointers, columns, where, values, B, out, k, gathered, K, ENTRIES)
    return out
