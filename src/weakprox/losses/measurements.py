"""Linear measurements <A_i, X> in several forms, each of which exploits its structure.

All have `count` and `bytes_each`, bytes of one A_i, and these methods: `apply(X)` returns the
vector of <A_i, X>, `adjoint(weights)` the sum of weights_i A_i, `sqnorms()` the |A_i|_F^2,
`flat()` the n x md matrix, `take(indices)` a selection in the order of the indices,
`scaled(factors)` the factors_i A_i, `in_float64()` the same in float64, or None, and
`stated()` numbers and arrays that state them in a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.linalg import LinearOperator

from weakprox.distributed import is_dask
from weakprox.distributed.terms import Measured
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays, decompositions
from weakprox.linalg.arrays import Array, namespace, to_numpy, wide
from weakprox.linalg.bounds import spectral_norm_bound
from weakprox.linalg.tiled import is_chunked
from weakprox.losses.inputs import as_shape, as_sized, as_stack, chunk_of, chunks_of, floating
from weakprox.resources.memory import let_go, on_disk

EIGEN_BELOW = 2000  # Gram matrices up to this size are formed and decomposed exactly
FLAT_ENTRIES = 1 << 25  # n x md matrices up to this many entries may be formed


@dataclass(frozen=True)
class DenseMeasurements:
    """A as an (n, m, d) array or memory map; integers are converted chunk by chunk."""

    A: Array

    @property
    def count(self) -> int:
        return int(self.A.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of one A_i, as floats."""
        width = self.A.dtype.itemsize if "float" in str(self.A.dtype) else 8
        return int(self.A.shape[1] * self.A.shape[2]) * width

    def flat(self) -> Array:
        """View as n x md (a copy if A holds integers)."""
        return namespace(self.A).reshape(floating(self.A), (self.count, -1))

    def apply(self, X: Array) -> Array:
        return self.flat() @ namespace(X).reshape(X, (-1,))

    def adjoint(self, weights: Array) -> Array:
        return namespace(weights).reshape(weights @ self.flat(), tuple(self.A.shape[1:]))

    def sqnorms(self) -> Array:
        flat = self.flat()
        return namespace(flat).sum(flat * flat, axis=1)

    def in_float64(self) -> DenseMeasurements | None:
        return DenseMeasurements(wide(floating(self.A)))

    def take(self, indices: Any) -> DenseMeasurements:
        return DenseMeasurements(self.A[indices])

    def scaled(self, factors: Array) -> DenseMeasurements:
        return DenseMeasurements(floating(self.A) * factors[:, None, None])

    def stated(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"A": self.A}


class DiskMeasurements(DenseMeasurements):
    """A as an (n, m, d) memory map or zarr array; a selection of it is held in memory."""

    def _parts(self) -> Iterator[tuple[slice, Array]]:
        """Rows of the flat matrix in chunks, which are released one after the other."""
        step = chunk_of(self.bytes_each)
        for i in range(0, self.count, step):
            rows = slice(i, min(self.count, i + step))
            yield rows, floating(self.A[rows]).reshape(rows.stop - i, -1)
            let_go(self.A)

    def flat(self) -> Array:
        """The whole matrix, in memory."""
        return floating(np.asarray(self.A)).reshape(self.count, -1)

    def apply(self, X: Array) -> Array:
        return np.concatenate([flat @ X.reshape(-1) for _, flat in self._parts()])

    def adjoint(self, weights: Array) -> Array:
        total = sum(weights[rows] @ flat for rows, flat in self._parts())
        return np.reshape(total, self.A.shape[1:])

    def sqnorms(self) -> Array:
        return np.concatenate([np.vecdot(flat, flat) for _, flat in self._parts()])

    def in_float64(self) -> None:
        """Return None: they may not fit in memory."""

    def take(self, indices: Any) -> DenseMeasurements:
        found = np.array(self.A[indices])
        let_go(self.A)
        return DenseMeasurements(found)

    def scaled(self, factors: Array) -> DenseMeasurements:
        return self.take(slice(None)).scaled(factors)


@dataclass(frozen=True)
class RankOneMeasurements:
    """A_i = u_i v_i' stored as the rows of U (n, m) and V (n, d): O(n(m+d)) memory."""

    U: Array
    V: Array

    @property
    def count(self) -> int:
        return int(self.U.shape[0])

    @property
    def bytes_each(self) -> int:
        return int((self.U.shape[1] + self.V.shape[1]) * self.U.dtype.itemsize)

    def flat(self) -> Array:
        """Rows u_i kron v_i."""
        xp = namespace(self.U)
        full = xp.expand_dims(self.U, axis=2) * xp.expand_dims(self.V, axis=1)
        return xp.reshape(full, (self.count, -1))

    def apply(self, X: Array) -> Array:
        """u_i' X v_i for all i by one product."""
        return namespace(X).sum((self.U @ X) * self.V, axis=1)

    def adjoint(self, weights: Array) -> Array:
        """U' diag(weights) V by one product."""
        return (self.U.T * weights) @ self.V

    def sqnorms(self) -> Array:
        xp = namespace(self.U)
        return xp.sum(self.U * self.U, axis=1) * xp.sum(self.V * self.V, axis=1)

    def in_float64(self) -> RankOneMeasurements:
        return RankOneMeasurements(wide(self.U), wide(self.V))

    def take(self, indices: Any) -> RankOneMeasurements:
        return RankOneMeasurements(self.U[indices], self.V[indices])

    def scaled(self, factors: Array) -> RankOneMeasurements:
        """Scale u_i by the factors."""
        return RankOneMeasurements(self.U * factors[:, None], self.V)

    def stated(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"U": self.U, "V": self.V}


@dataclass(frozen=True)
class SparseMeasurements:
    """A as a SciPy CSR matrix of shape (n, m d), rows in C order of X."""

    A: csr_array
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        return int(self.A.shape[0])

    @property
    def bytes_each(self) -> int:
        """Bytes of an average row."""
        return max(16, 16 * int(self.A.nnz) // max(1, self.count))

    def flat(self) -> csr_array:
        return self.A

    def apply(self, X: Array) -> Array:
        return self.A @ np.reshape(X, (-1,))

    def adjoint(self, weights: Array) -> Array:
        return np.reshape(self.A.T @ weights, self.shape)

    def sqnorms(self) -> Array:
        return np.asarray(self.A.multiply(self.A).sum(axis=1)).ravel()

    def in_float64(self) -> SparseMeasurements:
        return SparseMeasurements(self.A.astype(float), self.shape)

    def take(self, indices: Any) -> SparseMeasurements:
        return SparseMeasurements(self.A[indices], self.shape)

    def scaled(self, factors: Array) -> SparseMeasurements:
        """Multiply by a diagonal matrix from the left."""
        return SparseMeasurements(csr_array(diags_array(factors) @ self.A), self.shape)

    def stated(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return by_rows(self.A)


def by_rows(A: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers and arrays that state a sparse matrix in a proof."""
    return {"form": "sparse"}, {"data": A.data, "indices": A.indices, "indptr": A.indptr}


Measurements: TypeAlias = (
    DenseMeasurements | RankOneMeasurements | SparseMeasurements | Measured
)


def measurements(A: Any, shape: tuple[int, int] | None) -> tuple[Measurements, tuple[int, int]]:
    """Convert the user's A to one of the forms."""
    if issparse(A):
        shape = as_shape(shape, ", with a sparse A")
        if shape[0] * shape[1] != A.shape[1]:
            raise ShapeError("shape", shape, f"(m, d) with m d = {A.shape[1]} columns")
        if not arrays.is_real(A.data):
            raise InputError("A", f"dtype {A.dtype}", "real numbers")
        if not np.all(np.isfinite(A.data)):
            raise InputError("A", "NaN or infinite entries", "finite numbers")
        A = csr_array(A)
        if not np.issubdtype(A.dtype, np.floating):
            A = A.astype(float)
        return SparseMeasurements(A, shape), shape
    pair = isinstance(A, tuple)
    if pair and len(A) != 2:
        raise InputError("A", f"a tuple of {len(A)}", "a pair (U, V)")
    remote = [is_dask(part) for part in (A if pair else (A,))]
    found: Measurements
    if any(remote):  # they stay on dask's workers
        if not all(remote):
            raise InputError("A", "one dask array and one other array", "two dask arrays")
        form, parts = (RankOneMeasurements, A) if pair else (DenseMeasurements, (A,))
        found, size = Measured.of(form, "A", *parts)
    elif pair:
        U, V = (as_sized(f"A[{i}]", A[i], 2)[0] for i in (0, 1))
        if U.dtype != V.dtype:
            raise InputError("A", f"{U.dtype} and {V.dtype}", "two arrays of one dtype")
        if U.shape[0] != V.shape[0]:
            raise ShapeError("A", f"{U.shape[0]} and {V.shape[0]} rows", "equally many")
        found = RankOneMeasurements(U, V)
        size = (int(U.shape[1]), int(V.shape[1]))
    else:
        A = as_stack("A", A)
        found = (DiskMeasurements if is_chunked(A) or on_disk(A) else DenseMeasurements)(A)
        size, step = (int(A.shape[1]), int(A.shape[2])), chunk_of(found.bytes_each)
        parts = (slice(i, i + step) for i in range(0, found.count, step))
        if not all(arrays.all_finite(part) for part in chunks_of(A, parts)):
            raise InputError("A", "NaN or infinite entries", "finite numbers")
    if shape is not None and as_shape(shape) != size:
        raise ShapeError("shape", tuple(shape), f"{size}, that of A")
    return found, size


def mean_gram(terms: Measurements, md: int) -> Any | None:
    """Mean of vec(A_i) vec(A_i)' in float64 if it is smaller than the data, else None."""
    if md > min(EIGEN_BELOW, 2 * terms.count):
        return None
    if isinstance(terms, Measured):
        return terms.gram() / terms.count
    step = max(1, FLAT_ENTRIES // (8 * md))
    total: Any = None
    for i in range(0, terms.count, step):
        flat = _double(terms.take(slice(i, i + step)).flat())
        part = _dense(flat.T @ flat)
        total = part if total is None else np.add(total, part, out=total)
    return np.divide(total, terms.count, out=total)


def flat_in_float64(terms: Measurements) -> Any:
    """The n x md matrix of all terms as a NumPy array."""
    return _dense(_double(terms.flat()))


def extremes(
    terms: Measurements, shape: tuple[int, int], gram: Any | None
) -> tuple[float, float]:
    """Upper bound on the largest and lower bound on the smallest eigenvalue of `gram`.

    They are exact up to rounding if a Gram matrix is small enough. Otherwise the largest is
    bounded by the randomised power bound and the smallest by 0.
    """
    n, md = terms.count, shape[0] * shape[1]
    if gram is None:
        if not (n <= EIGEN_BELOW and n * md <= FLAT_ENTRIES):
            rng = np.random.default_rng(3)
            return spectral_norm_bound(_operator(terms, shape), rng, powers=10) ** 2 / n, 0.0
        flat = _double(terms.flat())
        gram = _dense(flat @ flat.T) / n
    values = decompositions.eigvalsh(gram)
    rounding = _rounding(values, n, md)
    smallest = max(0.0, float(values[0]) - rounding) if md <= n else 0.0
    return float(values[-1]) + rounding, smallest


def smallest_eigenvalue(gram: Any, n: int) -> float:
    """Lower bound on the smallest eigenvalue of a mean over n terms."""
    values = decompositions.eigvalsh(gram)
    return max(0.0, float(values[0]) - _rounding(values, n, len(values)))


def on_symmetric(gram: Any, d: int) -> Any:
    """The quadratic form of `gram` in an orthonormal basis of the symmetric d x d matrices."""
    i, j = np.triu_indices(d)
    basis = np.zeros((d * d, len(i)))
    columns = np.arange(len(i))
    basis[i * d + j, columns] = np.where(i == j, 0.5, np.sqrt(0.5))
    basis[j * d + i, columns] += np.where(i == j, 0.5, np.sqrt(0.5))
    return basis.T @ gram @ basis


def _rounding(values: Any, n: int, size: int) -> float:
    """Bound on the error of computed eigenvalues of a Gram matrix of n terms."""
    return 4 * max(n, size) * float(np.finfo(float).eps) * float(values[-1])


def _double(flat: Any) -> Any:
    """Convert to float64: in float32 the smallest eigenvalue would be rounding noise."""
    return flat.astype(float) if issparse(flat) else wide(flat)


def _dense(gram: Any) -> Any:
    """A small product of any kind as a float64 NumPy array."""
    return np.asarray(gram.toarray() if issparse(gram) else to_numpy(gram), dtype=float)


def _operator(terms: Measurements, shape: tuple[int, int]) -> LinearOperator:
    """The map X -> (<A_i, X>)_i as a SciPy operator (host arrays)."""
    first = terms.take(slice(0, 1))
    ref = first.adjoint(first.sqnorms() * 0.0)
    xp = namespace(ref)

    def forward(x: Any) -> Any:
        X = xp.asarray(np.reshape(x, shape), dtype=ref.dtype, device=arrays.device_of(ref))
        return to_numpy(terms.apply(X))

    def backward(y: Any) -> Any:
        w = xp.asarray(np.ravel(y), dtype=ref.dtype, device=arrays.device_of(ref))
        return np.ravel(to_numpy(terms.adjoint(w)))

    size = (terms.count, shape[0] * shape[1])
    return LinearOperator(size, matvec=forward, rmatvec=backward, dtype=float)


@dataclass(frozen=True)
class Odds:
    """Probabilities p_i proportional to sizes, in the form that draws use."""

    cumulated: np.ndarray[Any, np.dtype[np.float64]]
    factors: np.ndarray[Any, np.dtype[np.float64]]  # 1 / sqrt(n p_i)

    @classmethod
    def of(cls, sizes: np.ndarray[Any, np.dtype[np.float64]]) -> Odds | None:
        """Odds for these sizes, or None if all sizes are equal."""
        if sizes.max() - sizes.min() <= 1e-12 * sizes.max():
            return None
        cumulated = np.cumsum(sizes)
        last = int(np.flatnonzero(sizes)[-1])
        cumulated[last:] = np.inf  # rounding must not select a term beyond the last nonzero one
        cumulated[:last] /= sizes.sum()
        positive = np.where(sizes > 0, sizes, 1.0)  # terms of size 0 are never drawn
        return cls(cumulated, np.sqrt(sizes.mean() / positive))
