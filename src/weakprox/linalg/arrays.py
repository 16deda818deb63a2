"""Helpers for arrays of any namespace (NumPy, torch, ...).

Mathematics elsewhere is written against the array API standard. This module holds what the
standard lacks, such as moving random numbers to a device and passes over blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import array_api_compat as compat
import array_api_compat.numpy as compat_numpy
import numpy as np

from weakprox.resources.memory import let_go

Array: TypeAlias = Any  # an array of any namespace that follows the array API
"""An array of any namespace that follows the array API standard."""

# A block of rows this large stays in a core's cache, so several element-wise operations on
# it cost about one trip to main memory. Smaller blocks lose more to Python's overhead.
BLOCK_BYTES = 1 << 20
DEVICE_BYTES = 1 << 28  # on an accelerator only the memory for temporaries counts
DOUBLE = float(np.finfo(np.float64).eps)
FLIPPED_FROM = 1500  # rows from which (Q'A')' is faster than A Q
CHAIN = 1024  # products in float32 that may be summed without accounting for rounding
PIECE = 1 << 16  # largest number of float64 products that BLAS sums in any order


# one entry per array type; the general lookup is slow enough to matter on small matrices
_known: dict[type, Any] = {np.ndarray: compat_numpy}


def namespace(*arrays: Array) -> Any:
    """Array-API namespace shared by the arrays."""
    kind = type(arrays[0])
    if kind in _known and all(type(x) is kind for x in arrays):
        return _known[kind]
    found = compat.array_namespace(*arrays)
    if compat.is_torch_array(arrays[0]) and all(type(x) is kind for x in arrays):
        _known[kind] = found
    return found


def is_array(x: object) -> bool:
    """Whether x is an array of a supported namespace."""
    return bool(compat.is_array_api_obj(x))


def device_of(x: Array) -> Any:
    """Device the array lives on."""
    return compat.device(x)


def is_numpy(x: Array) -> bool:
    """Whether x is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_floating(x: Array) -> bool:
    """Whether the entries are real floating-point numbers."""
    xp = namespace(x)
    return bool(xp.isdtype(x.dtype, "real floating"))


def is_real(x: Array) -> bool:
    """Whether the entries are real numbers that LAPACK supports: floats of 32 or 64 bits.

    Integers and booleans also count, since they are converted to such floats.
    """
    if is_floating(x):
        return itemsize(x) in (4, 8)
    return bool(namespace(x).isdtype(x.dtype, ("integral", "bool")))


def on_cpu(x: Array) -> bool:
    """Whether the entries are in host memory."""
    return is_numpy(x) or str(device_of(x)).startswith("cpu")


def eps_of(x: Array) -> float:
    """Machine epsilon of the array's dtype."""
    if x.dtype == np.float64:
        return DOUBLE
    return float(namespace(x).finfo(x.dtype).eps)


def itemsize(x: Array) -> int:
    """Bytes per entry."""
    return int(namespace(x).finfo(x.dtype).bits) // 8


def like(values: Any, reference: Array) -> Array:
    """Values (NumPy or nested lists) in the namespace, dtype and device of reference."""
    xp = namespace(reference)
    host = np.array(values, order="C")  # a copy: torch does not accept reversed views
    return xp.asarray(host, dtype=reference.dtype, device=device_of(reference))


def zeros(shape: tuple[int, ...], reference: Array) -> Array:
    """Zeros in the namespace, dtype and device of reference."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=reference.dtype, device=device_of(reference))


def empty(shape: tuple[int, ...], reference: Array) -> Array:
    """Uninitialised array in the namespace, dtype and device of reference."""
    xp = namespace(reference)
    return xp.empty(shape, dtype=reference.dtype, device=device_of(reference))


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], reference: Array) -> Array:
    """Standard normal array, fixed by the state of rng.

    The numbers are the same in every namespace except on CUDA devices, which generate their
    own: generating them on the host would take longer than all the other work.
    """
    if getattr(reference, "is_cuda", False):
        xp = namespace(reference)
        source = xp.Generator(device=reference.device)
        source.manual_seed(int(rng.integers(1 << 62)))
        return xp.randn(shape, generator=source, dtype=reference.dtype, device=reference.device)
    return like(rng.standard_normal(shape), reference)


def times_block(A: Array, Q: Array) -> Array:
    """A Q for a narrow block, in the orientation in which BLAS copies less of A."""
    if is_numpy(A) and A.shape[0] >= FLIPPED_FROM:
        return (Q.T @ A.T).T
    return A @ Q


def block_times(Q: Array, A: Array) -> Array:
    """A' Q, likewise."""
    return (Q.T @ A).T if is_numpy(A) else A.T @ Q


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """Copy or view of x in host memory as a NumPy array."""
    if is_numpy(x):
        return np.asarray(x)
    if compat.is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    return np.asarray(x)


def inner(X: Array, Y: Array) -> float:
    """Frobenius inner product as a Python float, summed pairwise in float64.

    Lower bounds rely on such sums, so they use neither float32 nor a long chain of additions
    (as in a BLAS dot product). The error is a few units of float64 rounding.
    """
    if X.ndim < 2:
        return total(wide(X) * wide(Y))
    if is_numpy(X) and X.nbytes <= BLOCK_BYTES and X.dtype == Y.dtype == np.float64:
        return float((X * Y).sum())
    return math.fsum(total(wide(X[rows]) * wide(Y[rows])) for rows in row_blocks(X))


def wide(X: Array) -> Array:
    """X in float64."""
    xp = namespace(X)
    return X if X.dtype == xp.float64 else xp.astype(X, xp.float64)


def total(X: Array) -> float:
    """Sum of all entries, in float64."""
    xp = namespace(X)
    return float(xp.sum(X, dtype=xp.float64))


def sqnorm(X: Array) -> float:
    """Squared Frobenius norm as a Python float, summed as in `inner`."""
    return inner(X, X)


def rough_sqnorm(X: Array) -> tuple[float, float]:
    """Squared Frobenius norm by one fast pass, and a bound on its rounding error."""
    if is_numpy(X) and X.flags.c_contiguous and X.dtype == np.float64:
        x = X.reshape(-1)
        length = max(1, min(PIECE, x.size, max(CHAIN, -(-x.size // 8))))
        pieces = [x[i : i + length] for i in range(0, x.size, length)]
        square = math.fsum(float(np.dot(piece, piece)) for piece in pieces)
        # half an eps for each product and sum, as if they were added one after the other
        return square, DOUBLE * (2 + length / 2) * square
    square = sqnorm(X)
    return square, 64 * eps_of(X) * square


def rough_inner(X: Array, Y: Array) -> float:
    """Inner product by one fast pass, for estimates that no proof uses."""
    if is_numpy(X) and X.flags.c_contiguous and Y.flags.c_contiguous:
        x, y = X.reshape(-1), Y.reshape(-1)
        if x.dtype == np.float64:
            return float(np.dot(x, y))
        # in float32, long chains of additions would lose too much accuracy
        cut = x.size - x.size % CHAIN
        parts = np.vecdot(x[:cut].reshape(-1, CHAIN), y[:cut].reshape(-1, CHAIN))
        return float(parts.sum(dtype=np.float64)) + float(np.dot(x[cut:], y[cut:]))
    return inner(X, Y)


def norm(X: Array) -> float:
    """Frobenius norm as a Python float."""
    return math.sqrt(max(sqnorm(X), 0.0))


def all_finite(X: Array) -> bool:
    """Whether no entry is NaN or infinite (row blocks, so no second copy)."""
    xp = namespace(X)
    flat = X.ndim < 2
    return all(bool(xp.all(xp.isfinite(X if flat else X[rows]))) for rows in row_blocks(X))


def contiguous(x: Array) -> Array:
    """x itself, or a copy with contiguous rows if its device requires that."""
    return x.contiguous() if getattr(x, "is_cuda", False) else x


def positive_part(x: Array) -> Array:
    """x with negative entries replaced by zero."""
    return np.maximum(x, 0.0) if is_numpy(x) else namespace(x).clip(x, 0.0, None)


def largest(X: Array) -> float:
    """Largest absolute value of an entry (row blocks, so no second copy)."""
    parts = (X[rows] for rows in row_blocks(X))
    return max(float(namespace(part).max(namespace(part).abs(part))) for part in parts)


def row_blocks(X: Array) -> Iterator[slice]:
    """Row slices of cache size on the CPU, larger ones on an accelerator.

    Element-wise formulas evaluated block by block keep their temporaries in cache:
    NumPy then pays one memory pass per formula rather than one per operator. Pages of a
    memory map are released after each block.
    """
    rows = int(X.shape[0])
    if X.ndim < 2:
        yield slice(0, rows)
        return
    row_bytes = max(1, math.prod(X.shape[1:]) * X.dtype.itemsize)
    usual = max(1, (BLOCK_BYTES if on_cpu(X) else DEVICE_BYTES) // row_bytes)
    step = getattr(X, "block_rows", usual)  # tiled matrices declare their own block size
    mapped = not is_numpy(X) or X.base is not None  # possibly a view of a memory map
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))
        if mapped:
            let_go(X)
