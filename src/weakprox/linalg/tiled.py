"""Matrices that are read one block of rows at a time and never stored as a whole.

A sparse or low-rank matrix, a zarr array or a function that computes rows on demand can
replace an array in a pass, since a pass reads `C[rows]` and discards it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import BLOCK_BYTES, Array, inner, largest, row_blocks
from weakprox.linalg.lowrank import LowRank

Tile = np.ndarray[Any, np.dtype[Any]]

READ = 1 << 14  # number of entries up to which all are read to find the largest


class Tiled(ABC):
    """A matrix defined by its shape, its dtype and dense tiles of its rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ndim = 2
    device = "cpu"
    factored: ClassVar[bool] = False  # whether products cost less than reading the entries

    @abstractmethod
    def __getitem__(self, rows: slice) -> Tile:
        """Return these rows as a new dense array."""

    @abstractmethod
    def check_finite(self) -> bool:
        """Return True if no entry is NaN or infinite."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held in memory."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def largest(self) -> float:
        """Size of the largest entry, or a bound on it if reading all would take long."""
        return largest(self)

    @property
    def block_rows(self) -> int:
        """Number of rows that are best read together."""
        return max(1, BLOCK_BYTES // (self.shape[1] * self.dtype.itemsize))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Tile:
        return self.dense() if dtype is None else self.dense().astype(dtype, copy=False)

    def __truediv__(self, unit: float) -> Tiled:
        return RowsOnDemand(
            lambda rows: self[rows] / unit, self.shape, self.dtype, self.block_rows, self.nbytes
        )

    def dense(self) -> Tile:
        """The whole matrix as an array, for methods that need one."""
        out = np.empty(self.shape, self.dtype)
        for rows in row_blocks(self):
            out[rows] = self[rows]
        return out


class Factored(Tiled):
    """A matrix whose products with thin blocks need none of its dense entries."""

    factored = True

    @abstractmethod
    def times(self, Q: Tile) -> Tile:
        """A Q."""

    @abstractmethod
    def transpose_times(self, Q: Tile) -> Tile:
        """A' Q."""

    @property
    @abstractmethod
    def sqnorm(self) -> float:
        """Squared Frobenius norm, in float64."""

    @abstractmethod
    def in_float64(self) -> Factored:
        """The same matrix with its parts in float64."""


class LowRankPlusSparse(Factored):
    """The matrix U diag(s) Vt + S, stored as its parts.

    Parameters
    ----------
    U : array of shape (m, r)
        Left factor; its columns need not be orthonormal.
    s : array of shape (r,)
        Weights of the triplets.
    Vt : array of shape (r, d)
        Right factor.
    S : SciPy sparse array or matrix of shape (m, d), optional
        Matrix that is added; zero by default.
    """

    def __init__(self, U: Array, s: Array, Vt: Array, S: Any = None) -> None:
        parts = [np.asarray(part) for part in (U, s, Vt)]
        for name, part, axes in zip(("U", "s", "Vt"), parts, (2, 1, 2), strict=True):
            if part.ndim != axes or 0 in part.shape:
                raise ShapeError(name, f"shape {part.shape}", f"{axes} axes, none empty")
        m, d = parts[0].shape[0], parts[2].shape[1]
        if not parts[0].shape[1] == parts[1].shape[0] == parts[2].shape[0]:
            given = " and ".join(str(part.shape) for part in parts)
            raise ShapeError("U, s, Vt", given, "(m, r), (r,) and (r, d)")
        self.shape = (int(m), int(d))
        self.S = _csr("S", csr_array(self.shape, dtype=np.float32) if S is None else S)
        if self.S.shape != self.shape:
            raise ShapeError("S", f"shape {self.S.shape}", f"{self.shape}")
        self.dtype = _common("U, s, Vt, S", [*parts, self.S])
        self.U, self.s, self.Vt = (part.astype(self.dtype, copy=False) for part in parts)
        self._left = self.U * self.s

    def __getitem__(self, rows: slice) -> Tile:
        return np.asarray(self._left[rows] @ self.Vt + self.S[rows].toarray())

    def __truediv__(self, unit: float) -> LowRankPlusSparse:
        return LowRankPlusSparse(self.U, self.s / unit, self.Vt, self.S / unit)

    def times(self, Q: Tile) -> Tile:
        return np.asarray(self._left @ (self.Vt @ Q) + self.S @ Q)

    def transpose_times(self, Q: Tile) -> Tile:
        return np.asarray(self.Vt.T @ (self._left.T @ Q) + self.S.T @ Q)

    @property
    def sqnorm(self) -> float:
        left, right = self._left.astype(float), self.Vt.astype(float)
        found = float(np.sum((left.T @ left) * (right @ right.T)))
        S = self.S.astype(float)
        return found + 2.0 * inner(left, S @ right.T) + float(S.data @ S.data)

    def in_float64(self) -> LowRankPlusSparse:
        """The same matrix with its parts in float64."""
        if self.dtype == np.float64:
            return self
        parts = (part.astype(float) for part in (self.U, self.s, self.Vt, self.S))
        return LowRankPlusSparse(*parts)

    def largest(self) -> float:
        """Size of the largest entry, or a bound on it from the parts if there are many."""
        if self.size <= READ:
            return super().largest()
        left, right = np.linalg.norm(self._left, axis=1), np.linalg.norm(self.Vt, axis=0)
        return float(left.max()) * float(right.max()) + _largest(self.S)

    def check_finite(self) -> bool:
        return all(bool(np.isfinite(x).all()) for x in (self._left, self.Vt, self.S.data))

    @property
    def nbytes(self) -> int:
        dense = sum(x.nbytes for x in (self.U, self.s, self.Vt, self._left))
        return dense + _sparse_bytes(self.S)


class SparseTiles(Factored):
    """A SciPy sparse matrix, stored by rows."""

    def __init__(self, S: Any, name: str = "M") -> None:
        self.S = _csr(name, S)
        self.shape = (int(S.shape[0]), int(S.shape[1]))
        self.dtype = _common(name, [self.S])

    def __truediv__(self, unit: float) -> SparseTiles:
        return SparseTiles(self.S.astype(self.dtype) / unit)

    def times(self, Q: Tile) -> Tile:
        return np.asarray(self.S @ Q)

    def transpose_times(self, Q: Tile) -> Tile:
        return np.asarray(self.S.T @ Q)

    @property
    def sqnorm(self) -> float:
        found = self.S.data.astype(float)
        return float(found @ found)

    def in_float64(self) -> SparseTiles:
        return self if self.S.dtype == np.float64 else SparseTiles(self.S.astype(float))

    def largest(self) -> float:
        return _largest(self.S)

    def __getitem__(self, rows: slice) -> Tile:
        return np.asarray(self.S[rows].toarray().astype(self.dtype, copy=False))

    def check_finite(self) -> bool:
        return bool(np.isfinite(self.S.data).all())

    @property
    def nbytes(self) -> int:
        """Bytes of the stored entries and their indices."""
        return _sparse_bytes(self.S)


class RowsOnDemand(Tiled):
    """Any source of rows: `read(slice)` returns them; `step` rows are best read together."""

    def __init__(
        self, read: Any, shape: tuple[int, int], dtype: Any, step: int = 1, held: int = 0
    ) -> None:
        self._read, self._step, self._held = read, step, held
        self.shape = shape
        self.dtype = _common("M", [np.empty(0, dtype)])

    def __getitem__(self, rows: slice) -> Tile:
        first, last, _ = rows.indices(self.shape[0])
        tile = np.asarray(self._read(slice(first, last)))
        if tile.shape != (last - first, self.shape[1]):
            wanted = f"({last - first}, {self.shape[1]}), as its own shape says"
            raise ShapeError("M", f"rows {first} to {last} of shape {tile.shape}", wanted)
        return tile.astype(self.dtype, copy=False)

    def check_finite(self) -> bool:
        """Return True if all entries are finite; takes one pass."""
        return all(bool(np.isfinite(self[rows]).all()) for rows in row_blocks(self))

    @property
    def block_rows(self) -> int:
        """A multiple of the source's own blocks."""
        usual = super().block_rows
        return max(self._step, usual - usual % self._step)

    @property
    def nbytes(self) -> int:
        """Bytes that the source reports to be in memory."""
        return self._held


def as_tiled(M: Any) -> Tiled | None:
    """M as a tiled matrix if it is of a supported kind other than an array, else None."""
    if isinstance(M, Tiled):
        return M
    if issparse(M):
        return SparseTiles(M)
    if isinstance(M, LowRank) and all(isinstance(x, np.ndarray) for x in (M.U, M.s, M.Vt)):
        return LowRankPlusSparse(M.U, M.s, M.Vt)
    if callable(getattr(M, "rows", None)) and hasattr(M, "shape") and hasattr(M, "dtype"):
        held = getattr(M, "nbytes", 0)
        return RowsOnDemand(M.rows, _two(M.shape), M.dtype, held=int(held))
    if is_chunked(M) and len(M.shape) == 2:
        return RowsOnDemand(lambda rows: M[rows], _two(M.shape), M.dtype, int(M.chunks[0]))
    return None


def is_chunked(M: Any) -> bool:
    """Return True for a zarr array (zarr need not be installed)."""
    return type(M).__module__.partition(".")[0] == "zarr" and hasattr(M, "chunks")


def _csr(name: str, S: Any) -> Any:
    """Convert a sparse matrix to CSR and check the dtype of its entries."""
    if not issparse(S) or S.ndim != 2:
        raise InputError(name, type(S).__name__, "a SciPy sparse matrix")
    if 0 in S.shape:
        raise ShapeError(name, f"shape {S.shape}", "2 axes, none of them empty")
    found = csr_array(S)
    if not found.has_canonical_format:  # repeated entries are summed
        found = found.copy()
        found.sum_duplicates()
    return found


def _common(name: str, parts: list[Any]) -> np.dtype[Any]:
    """float32 if all parts are, otherwise float64."""
    for part in parts:
        if part.dtype.kind not in "fiub" or part.dtype.itemsize > 8:
            raise InputError(name, f"dtype {part.dtype}", "float32, float64 or integers")
    single = all(part.dtype == np.float32 for part in parts)
    return np.dtype(np.float32 if single else np.float64)


def _largest(S: Any) -> float:
    return float(np.abs(S.data).max()) if S.nnz else 0.0


def _sparse_bytes(S: Any) -> int:
    return int(S.data.nbytes + S.indices.nbytes + S.indptr.nbytes)


def _two(shape: Any) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 1:
        raise ShapeError("M", f"shape {tuple(shape)}", "2 axes, none of them empty")
    return int(shape[0]), int(shape[1])
