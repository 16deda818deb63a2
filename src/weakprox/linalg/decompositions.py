"""Singular values and eigenvalues of dense matrices: the only place that calls LAPACK for them.

LAPACK's iterations can fail on finite matrices. Each function here tries its fastest
routine first and slower ones only where that has failed: for singular values ``gesdd``,
then ``gesvd``, then the eigenvectors of the Gram matrix, refined by Jacobi rotations; for
symmetric matrices ``syevd``, then ``syevr``, ``syev`` and Jacobi rotations. What is returned
by any of them has an error of at most `svd_error` or `eigh_error` units of rounding of the
largest value. Matrices that hold NaN or infinity, and those on which all of them fail, raise
`DecompositionError`.

Success costs no look at the matrix, only one at the values. Arrays of other namespaces stay
where they are as long as their own routines succeed; otherwise they pass through the host,
and in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from weakprox.errors import DecompositionError
from weakprox.linalg.arrays import Array, all_finite, is_numpy, like, namespace, to_numpy

Matrix = np.ndarray[Any, np.dtype[Any]]
Triplets = tuple[Array, Array, Array]

SMALL = 64  # rows up to which NumPy takes longer to call LAPACK than that takes
SWEEPS = 40  # of Jacobi rotations at most; they converge quadratically, in about ten
# What the routines raise: LinAlgError (NumPy, SciPy) or RuntimeError (torch).
FAILURES = (np.linalg.LinAlgError, RuntimeError)


def svd_error(n: int) -> float:
    """Backward error of an SVD with n singular values, in units of eps times the largest.

    LAPACK promises a modestly growing function of n. Divide and conquer deflates at 64 units
    of its own rounding; 57 of eps were the most seen for n up to 250, on six OpenBLAS kernels.
    """
    return 96.0 + 4.0 * math.sqrt(n)


def eigh_error(n: int) -> float:
    """The same for eigenvalues of a symmetric matrix of n rows; 13 were the most seen."""
    return 16.0 + 4.0 * math.sqrt(n)


def svd(A: Array) -> Triplets:
    """Thin decomposition A = U diag(s) Vt, values falling."""
    try:
        U, s, Vt = namespace(A).linalg.svd(A, full_matrices=False)
        if _fine(s):
            return U, s, Vt
    except FAILURES as failure:
        _unless_memory(failure)
    U, s, Vt = _carefully(A, "singular values", _svd_routines(A))
    return U, s, Vt


def svdvals(A: Array) -> Array:
    """Singular values, falling."""
    try:
        s = namespace(A).linalg.svdvals(A)
        if _fine(s):
            return s
    except FAILURES as failure:
        _unless_memory(failure)
    return _carefully(A, "singular values", _svd_routines(A))[1]


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors of a symmetric matrix (its lower half is read)."""
    try:
        values, V = namespace(A).linalg.eigh(A)
        if _fine(values):
            return values, V
    except FAILURES as failure:
        _unless_memory(failure)
    values, V = _carefully(A, "eigenvalues", EIGH_ROUTINES)
    return values, V


def eigvalsh(A: Array) -> Array:
    """Eigenvalues of a symmetric matrix, rising."""
    try:
        values = namespace(A).linalg.eigvalsh(A)
        if _fine(values):
            return values
    except FAILURES as failure:
        _unless_memory(failure)
    return _carefully(A, "eigenvalues", EIGH_ROUTINES)[0]


def eigvals(A: Matrix) -> Matrix:
    """Eigenvalues of a square matrix, in no order; of its transpose where those fail."""
    mean = float(np.trace(A)) / len(A)
    shift = mean + float(np.abs(A).max())
    for B, back in ((A, 0.0), (A.T, 0.0), (A - shift * np.eye(len(A)), shift)):
        try:
            return np.asarray(np.linalg.eigvals(B)) + back
        except np.linalg.LinAlgError:
            continue
    raise _refusal(A, "eigenvalues")


def small_eigh(A: Matrix) -> tuple[Matrix, Matrix]:
    """`eigh` of a matrix in float64 on the host, with little overhead for a few rows.

    Large ones go to NumPy: LAPACK called directly would make other threads wait.
    """
    if len(A) > SMALL:
        return eigh(A)
    values, V, failed = lapack.dsyevd(A, lower=1)
    if failed or not _fine(values):
        values, V = _carefully(A, "eigenvalues", EIGH_ROUTINES)
    return values, V


def small_cholesky(A: Matrix) -> Matrix | None:
    """Lower factor of a matrix in float64 on the host; None if it is not positive definite."""
    if len(A) <= SMALL:
        root, failed = lapack.dpotrf(A, lower=1)
        return None if failed else root
    try:
        return np.asarray(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        return None


def small_inverse(root: Matrix) -> Matrix:
    """Inverse of a lower triangular matrix in float64 on the host."""
    if len(root) <= SMALL:
        return np.asarray(lapack.dtrtri(root, lower=1)[0])
    return np.asarray(np.linalg.inv(root))


def lstsq(A: Matrix, B: Matrix) -> Matrix:
    """Least-squares solution X of A X = B of least norm, on the host."""
    try:
        return np.asarray(np.linalg.lstsq(A, B, rcond=None)[0])
    except np.linalg.LinAlgError:
        U, s, Vt = svd(A)
    kept = s > max(A.shape) * np.finfo(s.dtype).eps * s[0]
    return np.asarray((Vt[kept].T / s[kept]) @ (U[:, kept].T @ B))


def _svd_routines(A: Array) -> list[Callable[[Any], Any]]:
    """What to try after the first routine has failed on A."""
    if getattr(A, "is_cuda", False):
        return [_gesvd_on_device, _gram]
    return [_gesvd, _gram]


def _gesvd(A: Matrix) -> Any:
    return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd", check_finite=False)


def _gesvd_on_device(A: Array) -> Any:
    return namespace(A).linalg.svd(A, full_matrices=False, driver="gesvd")


_gesvd_on_device.stays = True  # type: ignore[attr-defined]


def _gram(A: Matrix) -> Any:
    """Triplets from the eigenvectors of the Gram matrix, in float64.

    Squares lose what is below the root of a rounding, so that the vectors only start a
    one-sided Jacobi method, which does not square anything: its values have the accuracy of
    the other routines or better.
    """
    m, n = A.shape
    if m < n:
        U, s, Vt = _gram(A.T)
        return Vt.T, s, U.T
    size = float(np.abs(A).max(initial=0.0)) or 1.0
    B = np.asarray(A, dtype=float) / size  # squares neither overflow nor vanish
    try:
        start = eigh(B.T @ B)[1][:, ::-1]
    except DecompositionError:
        start = np.eye(n)
    left, right = _rotated(np.ascontiguousarray((B @ start).T), np.ascontiguousarray(start.T))
    s = np.sqrt(np.einsum("ij,ij->i", left, left))
    order = np.argsort(-s, kind="stable")
    left, right, s = left[order], right[order], s[order]
    rank = int((s > 0.0).sum())
    U = np.empty((m, n))
    U[:, :rank] = (left[:rank] / s[:rank, None]).T
    if rank < n:  # any vectors that complete the basis
        more = np.random.default_rng(0).standard_normal((m, n - rank))
        U[:, rank:] = np.linalg.qr(np.concatenate([U[:, :rank], more], axis=1))[0][:, rank:]
    return U, s * size, right


def _rotated(rows: Matrix, basis: Matrix) -> tuple[Matrix, Matrix]:
    """Rows turned until they are orthogonal, and the basis turned along with them.

    In each round every row meets one other, so that the rotations of a round are independent.
    """
    n, m = rows.shape
    tol = math.sqrt(m) * float(np.finfo(float).eps)
    ring = np.arange(n + n % 2)  # an odd row out meets nobody
    for _ in range(SWEEPS):
        worst = 0.0
        for _ in range(len(ring) - 1):
            one, two = ring[: len(ring) // 2], ring[: len(ring) // 2 - 1 : -1]
            met = (one < n) & (two < n)
            worst = max(worst, _turn(rows, basis, one[met], two[met], tol))
            ring = np.concatenate([ring[:1], ring[-1:], ring[1:-1]])
        if worst <= tol:
            return rows, basis
    raise np.linalg.LinAlgError("Jacobi rotations did not converge")


def _turn(rows: Matrix, basis: Matrix, one: Matrix, two: Matrix, tol: float) -> float:
    """Make each row of `one` orthogonal to its partner; the largest cosine before."""
    if not one.size:
        return 0.0
    X, Y = rows[one], rows[two]
    xx, yy, xy = (np.einsum("ij,ij->i", *pair) for pair in ((X, X), (Y, Y), (X, Y)))
    size = np.sqrt(xx) * np.sqrt(yy)
    cosine = np.divide(np.abs(xy), size, out=np.zeros_like(xy), where=size > 0.0)
    if not np.isfinite(cosine).all():
        raise np.linalg.LinAlgError("Jacobi rotations lost their range")
    live = cosine > tol
    if live.any():
        one, two, X, Y = one[live], two[live], X[live], Y[live]
        zeta = (yy[live] - xx[live]) / (2.0 * xy[live])
        tangent = np.where(zeta < 0.0, -1.0, 1.0) / (np.abs(zeta) + np.hypot(1.0, zeta))
        c = 1.0 / np.hypot(1.0, tangent)[:, None]
        s = c * tangent[:, None]
        V, W = basis[one], basis[two]
        rows[one], rows[two] = c * X - s * Y, s * X + c * Y
        basis[one], basis[two] = c * V - s * W, s * V + c * W
    return float(cosine.max())


def _syevr(A: Matrix) -> Any:
    values, V = scipy.linalg.eigh(A, driver="evr", check_finite=False)
    # its vectors may be dozens of roundings away from orthonormal: a Newton step
    return values, 1.5 * V - V @ (0.5 * (V.T @ V))


def _syev(A: Matrix) -> Any:
    return scipy.linalg.eigh(A, driver="ev", check_finite=False)


def _jacobi(A: Matrix) -> Any:
    """Eigenpairs by a one-sided Jacobi method on A, shifted to be positive definite."""
    S = np.tril(np.asarray(A, dtype=float))
    S = S + np.tril(S, -1).T
    size = float(np.abs(S).max(initial=0.0)) or 1.0
    S = S / size
    shift = float(np.abs(S).sum(axis=0).max())  # no eigenvalue is below minus this
    rows = S + 2.0 * shift * np.eye(len(S))
    V = _rotated(rows, np.eye(len(S)))[1]
    # quotients with A itself do not carry the rounding of the shift
    values = np.einsum("ij,ij->i", V @ S, V)
    order = np.argsort(values, kind="stable")
    return values[order] * size, V[order].T


EIGH_ROUTINES: list[Callable[[Any], Any]] = [_syevr, _syev, _jacobi]


def _carefully(A: Array, what: str, routines: list[Callable[[Any], Any]]) -> Any:
    """The results of the first routine that does not fail, where A is."""
    if not all_finite(A):
        raise _refusal(A, what)
    host: Matrix | None = None
    for routine in routines:
        stays = getattr(routine, "stays", False)
        if not stays and host is None:
            host = np.asarray(to_numpy(A), dtype=float)
        try:
            found = routine(A if stays else host)
        except FAILURES as failure:
            _unless_memory(failure)
            continue
        if all(all_finite(part) for part in found):
            return tuple(found) if stays else tuple(_back(part, A) for part in found)
    raise _refusal(A, what)


def _back(part: Matrix, A: Array) -> Array:
    """A part of a decomposition in the namespace, dtype and device of A."""
    if not is_numpy(A):
        return like(part, A)
    return part.astype(A.dtype if A.dtype.kind == "f" else float, copy=False)


def _fine(values: Array) -> bool:
    """Whether a decomposition has worked: not all routines raise where they have not."""
    return math.isfinite(
        float(values.sum() if is_numpy(values) else namespace(values).sum(values))
    )


def _unless_memory(failure: BaseException) -> None:
    """Raise again what no other routine could help with."""
    if type(failure).__name__ in ("OutOfMemoryError", "RecursionError", "NotImplementedError"):
        raise failure


def _refusal(A: Array, what: str) -> DecompositionError:
    shape = " x ".join(str(int(n)) for n in A.shape)
    if not all_finite(A):
        return DecompositionError(
            f"{what} of a {shape} matrix that holds NaN or infinite entries do not exist; "
            "wanted a matrix of finite numbers."
        )
    return DecompositionError(
        f"{what} of a {shape} matrix were found by none of LAPACK's routines nor by Jacobi "
        "rotations."
    )
