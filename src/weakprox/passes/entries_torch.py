"""Products with a sparse matrix and sampled products for torch tensors, in float64.

On CUDA devices these are Triton kernels, elsewhere torch's own operations.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

PIECE = 1 << 22  # entries of the temporaries of a sampled product
Tensor = Any


def sampled(P: Any, U: Tensor, V: Tensor) -> Tensor:
    """Entries of U V' at the positions of a pattern."""
    U, V = U.double().contiguous(), V.double().contiguous()
    if U.is_cuda:
        from weakprox.passes import entries_cuda

        return entries_cuda.sampled(P, U, V)
    out = torch.empty(P.size, dtype=torch.float64)
    step = max(1, PIECE // max(1, int(U.shape[1])))
    for low in range(0, P.size, step):
        part = slice(low, low + step)
        out[part] = (U[P.rows[part]] * V[P.columns[part]]).sum(1)
    return out


def times(P: Any, values: Tensor, B: Tensor) -> Tensor:
    """S B, S the sparse matrix with these values."""
    return _product(P.pointers, P.columns, None, values, B, P.shape)


def transpose_times(P: Any, values: Tensor, B: Tensor) -> Tensor:
    """S' B."""
    shape = (P.shape[1], P.shape[0])
    return _product(P.column_pointers, P.rows_by_column, P.by_column, values, B, shape)


def row_sums(P: Any, values: Tensor) -> Tensor:
    """Sums of the values in each row."""
    one = torch.ones((P.shape[1], 1), dtype=torch.float64, device=values.device)
    return times(P, values, one)[:, 0]


def column_sums(P: Any, values: Tensor) -> Tensor:
    """Sums of the values in each column."""
    one = torch.ones((P.shape[0], 1), dtype=torch.float64, device=values.device)
    return transpose_times(P, values, one)[:, 0]


def effects(P: Any, left: Tensor, right: Tensor) -> Tensor:
    """left_i + right_j at the positions of a pattern."""
    return left[P.rows] + right[P.columns]


def _product(
    pointers: Tensor,
    columns: Tensor,
    positions: Tensor | None,
    values: Tensor,
    B: Tensor,
    shape: tuple[int, int],
) -> Tensor:
    """Product of a matrix in compressed rows; `positions` are those of its values."""
    values, B = values.double(), B.double().contiguous()
    if B.is_cuda:
        from weakprox.passes import entries_cuda

        return entries_cuda.product(pointers, columns, positions, values, B)
    values = values if positions is None else values[positions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # such tensors are new in torch
        S = torch.sparse_csr_tensor(
            pointers, columns.long(), values, shape, check_invariants=False
        )
    return S @ B
