"""Helpers for arrays of any namespace (NumPy, torch, ...).

Mathematics elsewhere is written against the array API standard. This module contains what the
standard lacks: moving numbers to a device, sums in float64, products with narrow blocks, and
passes over blocks of rows. An inner step is limited by memory traffic, so passes work in place
on blocks that stay in cache. Arrays in files are read block by block, and their pages released.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, TypeAlias

import array_api_compat as compat
import array_api_compat.numpy as compat_numpy
import numpy as np

from weakprox.errors import InputError
from weakprox.linalg import threads
from weakprox.resources.memory import let_go, on_disk, scratch

Array: TypeAlias = Any  # an array of any namespace that follows the array API standard

# A block of rows this large stays in a core's cache, so several element-wise operations on
# it cost about one trip to main memory. Smaller blocks lose more to Python's overhead.
BLOCK_BYTES = 1 << 20
TILE_BYTES = 1 << 18  # of such a block, for a product
DEVICE_BYTES = 1 << 28  # on an accelerator, where only the memory for temporaries counts
DOUBLE = float(np.finfo(np.float64).eps)
PRODUCTS = 8  # parts of a product shared among threads: bits do not depend on their number
FLIPPED_FROM = 1500  # rows from which (Q'A')' is faster than A Q
CHAIN = 1024  # products in float32 that may be summed without accounting for rounding
PIECE = 1 << 16  # largest number of float64 products that BLAS sums in any order
ASIDE_FROM = 1 << 26  # bytes from which an array is moved to a file
ON_HOST = 64  # columns up to which transfers take less time than a device's own routines
KEPT_BYTES = 1 << 28  # bytes kept for reuse between runs: a quarter of a gigabyte
SHARE = 0.75  # share of the free memory for one array: tiles and factors need the rest


# one entry per array type; the general lookup is slow enough to matter on small matrices
_known: dict[type, Any] = {np.ndarray: compat_numpy}


def namespace(x: Array) -> Any:
    """Array-API namespace of the array."""
    found = _known.get(type(x))
    if found is None:
        found = compat.array_namespace(x)
        if compat.is_torch_array(x):
            _known[type(x)] = found
    return found


def is_array(x: object) -> bool:
    """Return True if x is an array of a supported namespace."""
    return bool(compat.is_array_api_obj(x))


def device_of(x: Array) -> Any:
    """Device the array lives on."""
    return compat.device(x)


def is_numpy(x: Array) -> bool:
    """Return True if x is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_floating(x: Array) -> bool:
    """Return True if the entries are real floating-point numbers."""
    xp = namespace(x)
    return bool(xp.isdtype(x.dtype, "real floating"))


def is_real(x: Array) -> bool:
    """True if the entries are real numbers that LAPACK supports: floats of 32 or 64 bits.

    Integers and booleans also count, since they are converted to such floats.
    """
    if is_floating(x):
        return x.dtype.itemsize in (4, 8)
    return bool(namespace(x).isdtype(x.dtype, ("integral", "bool")))


def on_cpu(x: Array) -> bool:
    """Return True if the entries are in host memory."""
    return is_numpy(x) or str(device_of(x)).startswith("cpu")


def eps_of(x: Array) -> float:
    """Machine epsilon of the array's dtype."""
    if x.dtype == np.float64:
        return DOUBLE
    return float(namespace(x).finfo(x.dtype).eps)


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
    if not is_numpy(A):
        return A @ Q
    if _shared(A):
        return _shared_product(Q.T, A.T)
    return (Q.T @ A.T).T if A.shape[0] >= FLIPPED_FROM else A @ Q


def block_times(Q: Array, A: Array) -> Array:
    """A' Q, likewise."""
    if not is_numpy(A):
        return A.T @ Q
    return _shared_product(Q.T, A) if _shared(A) else (Q.T @ A).T


def _shared(A: Array) -> bool:
    """Return True if passes over an array of this size are shared among threads."""
    return int(A.size) >= threads.SHARED_FROM and threads.can_share()


def _shared_product(P: Array, A: Array) -> Array:
    """(P A)', by threads that multiply some columns of A each."""
    out = np.empty((P.shape[0], A.shape[1]), np.result_type(P, A))
    edges = np.linspace(0, A.shape[1], PRODUCTS + 1).astype(int).tolist()
    columns = [slice(*edges[i : i + 2]) for i in range(PRODUCTS)]

    def multiply(some: slice) -> None:
        np.matmul(P, A[:, some], out=out[:, some])

    threads.share_each(columns, multiply)
    return out.T


def times_tiles(A: Array, Q: Array, out: Array) -> None:
    """A Q written over `out`, for a block of rows in cache.

    BLAS multiplies small matrices without copying them first.
    """
    step = max(1, TILE_BYTES // (int(A.shape[1]) * A.dtype.itemsize))
    for first in range(0, int(A.shape[0]), step):
        np.matmul(A[first : first + step], Q, out=out[first : first + step])


def times_by_rows(A: Any, Q: Array) -> Array:
    """A Q, by blocks of rows."""
    return np.concatenate([A[rows] @ Q for rows in row_blocks(A)])


def transpose_times_by_rows(A: Any, Q: Array) -> Array:
    """A' Q, by blocks of rows."""
    return sum(A[rows].T @ Q[rows] for rows in row_blocks(A))


def quick_times(A: Array, Q: Array) -> Array:
    """A Q for a narrow block, in the dtype of A."""
    Q = namespace(Q).astype(Q, A.dtype, copy=False)
    return times_by_rows(A, Q) if in_file(A) else times_block(A, Q)


def quick_transpose_times(A: Array, Q: Array) -> Array:
    """A' Q, likewise."""
    Q = namespace(Q).astype(Q, A.dtype, copy=False)
    return transpose_times_by_rows(A, Q) if in_file(A) else block_times(Q, A)


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
        return square, square_error(length) * square
    square = sqnorm(X)
    return square, 64 * eps_of(X) * square


def square_error(terms: int) -> float:
    """Relative rounding error of sums of so many squares in float64, in any order.

    It is half an eps for each product and sum. The sums themselves are added by `math.fsum`.
    """
    return DOUBLE * (2 + terms / 2)


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
    if compat.is_torch_array(X) and X.dtype == Y.dtype == namespace(X).float64:
        return float(X.reshape(-1) @ Y.reshape(-1))  # without a product of their size
    return inner(X, Y)


def abs_sum(X: Array) -> float:
    """Sum of absolute values, block by block."""
    xp = namespace(X)
    return math.fsum(total(xp.abs(X[rows])) for rows in row_blocks(X))


def norm(X: Array) -> float:
    """Frobenius norm as a Python float."""
    return math.sqrt(max(sqnorm(X), 0.0))


def all_finite(X: Array) -> bool:
    """Return True if no entry is NaN or infinite (row blocks, so no second copy)."""
    xp = namespace(X)
    flat = X.ndim < 2
    return all(bool(xp.all(xp.isfinite(X if flat else X[rows]))) for rows in row_blocks(X))


def contiguous(x: Array) -> Array:
    """x itself, or a copy with contiguous rows if its device requires that."""
    return x.contiguous() if getattr(x, "is_cuda", False) else x


def slopes(X: Array, above: float, below: float) -> float:
    """Sum of above x_+ + below x_- over the entries; X may be overwritten."""
    if above != below:
        clip = namespace(X).clip
        return above * total(clip(X, 0.0, None)) - below * total(clip(X, None, 0.0))
    if not above:
        return 0.0
    if is_numpy(X):
        return above * float(np.abs(X, out=X).sum())
    return above * total(namespace(X).abs(X))


def largest(X: Array) -> float:
    """Largest absolute value of an entry, without a second copy."""
    parts = (X[rows] for rows in row_blocks(X))
    if is_numpy(X):
        return max(max(float(part.max()), -float(part.min())) for part in parts)
    return max(float(namespace(part).max(namespace(part).abs(part))) for part in parts)


def gram(Y: Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Y'Y of a narrow block on the host, in float64."""
    return np.asarray(to_numpy(wide(Y).T @ wide(Y)), dtype=float)


def squares_of(*blocks: Array) -> Any:
    """Y'Y of blocks in float64, on the host by one transfer if the blocks are narrow."""
    squares = [Y.T @ Y for Y in map(wide, blocks)]
    if is_numpy(squares[0]):
        return squares
    found = squares[0][None] if len(squares) == 1 else namespace(squares[0]).stack(squares)
    narrow = on_cpu(found) or int(blocks[0].shape[1]) <= ON_HOST
    return np.asarray(to_numpy(found), dtype=float) if narrow else found


def alongside(small: Array, Y: Array) -> Array:
    """A small matrix, moved to the device of Y if necessary."""
    return like(small, Y) if is_numpy(small) else small


def row_blocks(*arrays: Any) -> Iterable[slice]:
    """Row slices, of cache size on the CPU, of arrays of one shape; None is ignored.

    Element-wise formulas evaluated block by block keep their temporaries in cache:
    NumPy then pays one memory pass per formula rather than one per operator. Pages of
    memory maps are released after each block.
    """
    present = [x for x in arrays if x is not None]
    X, rows = present[0], int(present[0].shape[0])
    if X.ndim < 2:
        return [slice(0, rows)]
    row_bytes = max(1, math.prod(X.shape[1:]) * X.dtype.itemsize)
    step = max(1, (BLOCK_BYTES if on_cpu(X) else DEVICE_BYTES) // row_bytes)
    for x in reversed(present):  # tiled matrices declare their own block size
        step = getattr(x, "block_rows", step)
    blocks = [slice(first, min(rows, first + step)) for first in range(0, rows, step)]
    mapped = [x for x in present if _maybe_mapped(x)]
    return _releasing(blocks, mapped) if mapped else blocks


def each_block(work: Callable[[slice], None], *arrays: Any) -> None:
    """Call `work` on each of `row_blocks`, in several threads where they make it faster.

    The blocks are the same then, so that the bits do not depend on the number of threads.
    """
    blocks = row_blocks(*arrays)
    if isinstance(blocks, list) and is_numpy(arrays[0]) and _shared(arrays[0]):
        threads.share_each(blocks, work)
    else:
        for rows in blocks:
            work(rows)


def _releasing(blocks: list[slice], mapped: list[Any]) -> Iterator[slice]:
    for block in blocks:
        yield block
        for x in mapped:
            let_go(x)


def _maybe_mapped(x: Any) -> bool:
    """Return True if x may be a view of a memory map; a quick test that is mostly False."""
    return not isinstance(x, np.ndarray) or x.base is not None


def in_file(x: Any) -> bool:
    """True if the entries are stored in a file; quick for arrays that own their memory."""
    return _maybe_mapped(x) and on_disk(x)


def in_memory(x: Any) -> bool:
    """Return True for NumPy arrays whose entries are in memory."""
    return is_numpy(x) and not in_file(x)


def copied(source: Array, out: Array) -> None:
    """Copy `source` to `out`; both may be on disk or on a device."""
    if hasattr(out, "take_over"):
        out.take_over(source)
    elif not on_disk(out) and not on_disk(source):
        out[...] = source
    else:
        for rows in row_blocks(out, source):
            out[rows] = source[rows]


def set_aside(z: Array) -> Array:
    """Copy a large array to a scratch file, so that its memory can be reused."""
    if z.nbytes < ASIDE_FROM or on_disk(z):
        return z
    try:
        found = scratch(z.shape, z.dtype)
    except InputError:  # no disk space: it stays in memory
        return z
    copied(z, found)
    return found


def multiply(A: Array, B: Array, out: Array) -> Array:
    """A B written over `out`."""
    if is_numpy(out):
        return np.matmul(A, B, out=out)
    out[...] = A @ B
    return out


def clipped(X: Array, scale: float, bound: float, shift: Array | None = None) -> Array:
    """clip(shift + scale X, -bound, bound) as a new array."""
    out = empty(X.shape, X)
    for rows in row_blocks(X):
        part = out[rows]
        _scale(X[rows], scale, part)
        if shift is not None:
            part += shift[rows]
        clip_into(part, -bound, bound)
    return out


def clip_into(X: Array, low: float, high: float) -> None:
    """Clip the entries of X in place."""
    if is_numpy(X):
        np.clip(X, low, high, out=X)
    else:
        X[...] = namespace(X).clip(X, low, high)


def add_scaled(Y: Array, scale: float, X: Array) -> None:
    """Y += scale X."""
    if is_numpy(Y):
        for rows in row_blocks(Y):
            Y[rows] += X[rows] if scale == 1.0 else scale * X[rows]
    else:
        Y += scale * X


def subtract(X: Array, Y: Array, out: Array) -> Array:
    """X - Y written over `out`."""
    if is_numpy(out):
        return np.subtract(X, Y, out=out)
    out[...] = X - Y
    return out


def scaled_into(X: Array, scale: float, out: Array) -> None:
    """Overwrite `out` by scale X, without a temporary array where the namespace can."""
    if is_numpy(out):
        np.multiply(X, out.dtype.type(scale), out=out)
    else:
        out[...] = X
        out *= scale


def difference(X: Array, a: float, Y: Array, b: float, out: Array) -> None:
    """a X - b Y, written over `out`."""
    X = X if a == 1.0 else a * X
    Y = Y if b == 1.0 else b * Y
    subtract(X, Y, out)


def reflect(Y: Array, scale: float, X: Array, keep: float) -> None:
    """Overwrite Y by keep X - scale Y."""
    if scale != 1.0:
        Y *= scale
    if is_numpy(Y):
        np.subtract(X if keep == 1.0 else keep * X, Y, out=Y)
    else:  # without a temporary array if `keep` is 1
        Y *= -1.0
        Y += X if keep == 1.0 else keep * X


def scaled(X: Array, scale: float) -> Array:
    """Return scale X as a new array, for any step size; overflow gives infinity."""
    out = empty(X.shape, X)
    _scale(X, scale, out)
    return out


def _scale(X: Array, scale: float, out: Array) -> None:
    scale = min(scale, float(namespace(X).finfo(X.dtype).max))  # infinity times 0 is NaN
    if is_numpy(X):
        with np.errstate(over="ignore"):
            np.multiply(X, X.dtype.type(scale), out=out)
    else:
        out[...] = scale * X


def _references(arrays: list[Any]) -> int:
    """Number of references to the first of some arrays, counted as in `Arena.like`."""
    for array in arrays:
        return sys.getrefcount(array)
    return 0


# Number of references to an array that only the arena holds: list, loop and argument.
# Python 3.14 no longer counts all of them.
HELD_BY_US = _references([np.empty(0)])


class Arena:
    """Pool of arrays that reuses those without any other reference.

    The operating system clears every fresh page of memory. For arrays of a few megabytes
    this takes several times as long as writing to them. An array is reused only when all
    other references to it (and to its views) are gone, so arrays in use keep their contents.
    The allocators of namespaces other than NumPy already do this.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._lock = Lock()

    def like(self, reference: Array, shape: tuple[int, ...] | None = None) -> Array:
        """Return an array of the reference's kind and this shape with arbitrary contents."""
        fresh = getattr(reference, "fresh", None)
        if fresh is not None:  # an array that lives elsewhere
            return fresh()
        shape = tuple(reference.shape) if shape is None else shape
        if hasattr(reference, "new_empty"):  # a torch tensor
            return reference.new_empty(shape)
        with self._lock:
            for array in self._arrays:
                fits = array.shape == shape and array.dtype == reference.dtype
                if fits and sys.getrefcount(array) == HELD_BY_US:
                    return array
            self._arrays.append(self._new(shape, reference.dtype))
            return self._arrays[-1]

    def _new(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        return np.empty(shape, dtype)

    def trim(self, most: int = KEPT_BYTES) -> None:
        """Release the oldest arrays until the rest take at most `most` bytes."""
        with self._lock:
            while sum(array.nbytes for array in self._arrays) > most:
                self._arrays.pop(0)


class DiskArena(Arena):
    """Arena of a run with a memory budget: arrays that do not fit are kept in files.

    `room()` returns the number of bytes still available.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        super().__init__()
        self._room = room

    def _new(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        fits = size <= SHARE * self._room()
        return np.empty(shape, dtype) if fits else scratch(shape, dtype)


SHARED = Arena()
"""The arena of all runs in this process, trimmed at the end of each."""
