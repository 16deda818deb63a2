"""Singular values and eigenvalues of dense matrices; all LAPACK calls for them are here.

LAPACK's iterations can fail on finite matrices. Each function here tries the fastest routine
first and slower ones only after a failure. For singular values these are ``gesdd``, ``gesvd``,
and the eigenvectors of the Gram matrix, refined by Jacobi rotations. For symmetric matrices
they are ``syevd``, ``syevr``, ``syev`` and Jacobi rotations. The result of any of them has an
error of at most `svd_error` or `eigh_error` units of rounding of the largest value. A matrix
that contains NaN or infinity, or on which all routines fail, raises `DecompositionError`.

Success is checked from the values alone, without a pass over the matrix. Arrays of other
namespaces stay on their device as long as their own routines succeed. Otherwise they are
decomposed on the host in float64.
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

# The public `eigh` computes in float64 for every dtype, its ufunc does not. SciPy's routine
# belongs to another copy of OpenBLAS, whose threads would compete with those of NumPy. The
# ufunc is private, so it may not exist in all versions: decompositions are in float64 then.
eigh_lo: Any
try:
    from numpy.linalg._umath_linalg import eigh_lo
except ImportError:  # pragma: no cover
    eigh_lo = None

Matrix = np.ndarray[Any, np.dtype[Any]]
Triplets = tuple[Array, Array, Array]

SMALL = 64  # rows up to which NumPy's overhead exceeds the time spent in LAPACK
# For pairs far above the others: least block, largest block as a share of all columns, number
# of products from a random and from a near block, and ratio to the mean of the other values.
FAR_COLUMNS, FAR_SHARE, FAR_STEPS, FAR_STEPS_NEAR, FAR = 32, 0.3, 4, 2, 30.0
CLEAR = 3e-3  # the same, for columns that become orthonormal to 1e-10
DEPENDENT = 1e-5  # squaring a block loses columns that are less independent
TINY = float(np.finfo(float).tiny)
SWEEPS = 40  # limit on Jacobi sweeps; they converge quadratically, in about ten
# Exceptions of the routines: LinAlgError (NumPy, SciPy) or RuntimeError (torch).
FAILURES = (np.linalg.LinAlgError, RuntimeError)


def svd_error(n: int) -> float:
    """Backward error of an SVD with n singular values, in units of eps times the largest.

    LAPACK guarantees a modestly growing function of n. Divide and conquer deflates at 64 units
    of its own rounding. The largest error observed was 57 eps, for n up to 250 on six OpenBLAS
    kernels.
    """
    return 96.0 + 4.0 * math.sqrt(n)


def eigh_error(n: int) -> float:
    """Backward error of a symmetric eigendecomposition with n rows, in the same units.

    The largest error observed was 13.
    """
    return 16.0 + 4.0 * math.sqrt(n)


def svd(A: Array) -> Triplets:
    """Thin decomposition A = U diag(s) Vt, values in descending order."""
    found = _quickly(A, "svd", 1, full_matrices=False)
    U, s, Vt = found or _carefully(A, "singular values", _svd_routines(A))
    return U, s, Vt


def svdvals(A: Array) -> Array:
    """Singular values in descending order."""
    s = _quickly(A, "svdvals")
    return _carefully(A, "singular values", _svd_routines(A))[1] if s is None else s


def eigh(A: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues and eigenvectors of a symmetric matrix (reads its lower half)."""
    values, V = _quickly(A, "eigh", 0) or _carefully(A, "eigenvalues", EIGH_ROUTINES)
    return values, V


def rough_eigh(
    A: Matrix, near: Callable[[int], Matrix] | None = None, width: int = FAR_COLUMNS
) -> tuple[Matrix, Matrix, Matrix] | None:
    """Eigenpairs of a positive semidefinite matrix on the host, by LAPACK in single precision.

    Return all values in descending order, the vectors of the first few, and the others in
    float32. It takes about half the time of `eigh`. Errors are relative to the largest value,
    so pairs far above the others are computed in float64 and removed first. `near(k)` is an
    approximation of the first k vectors, if there is one, and `width` the number of columns
    that are likely to show all of these pairs. None if the far pairs are too many,
    or if a routine fails or does not exist.
    """
    if eigh_lo is None:
        return None
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            values, V, AV = _far_pairs(A, near, width)
            half = AV - 0.5 * V * values
            rest = A - np.hstack([half, V]) @ np.vstack([V.T, half.T]) if len(values) else A
            below, others = eigh_lo(rest.astype(np.float32), signature="f->ff")
    except (np.linalg.LinAlgError, DecompositionError):
        return None
    far = len(values)
    if not _fine(below):
        return None
    return np.concatenate([values, below[far:][::-1]]), V, others[:, far:][:, ::-1]


def _far_pairs(
    A: Matrix, near: Callable[[int], Matrix] | None, width: int
) -> tuple[Matrix, ...]:
    """Values far above the mean of the others, their vectors V, and A V."""
    n = len(A)
    while width <= FAR_SHARE * n:
        if near is None:
            Q, steps = np.random.default_rng(0).standard_normal((n, width)), FAR_STEPS
        else:
            Q, steps = near(width), FAR_STEPS_NEAR
        for _ in range(steps):
            Q = _orthonormal(A @ Q)
        B = A @ Q
        values, W = eigh(Q.T @ B)
        values, W = values[::-1], W[:, ::-1]
        others = max(0.0, float(np.trace(A)) - float(values.sum())) / (n - width)
        far = int((values > FAR * others).sum())
        if far < width:
            return values[:far], Q @ W[:, :far], B @ W[:, :far]
        width *= 2
    raise np.linalg.LinAlgError


def _orthonormal(Y: Matrix) -> Matrix:
    """Orthonormal columns; by Cholesky QR, which takes less time, if it is accurate."""
    turn = orthonormaliser(Y.T @ Y, CLEAR)
    return np.linalg.qr(Y)[0] if turn is None else Y @ turn


def eigvalsh(A: Array) -> Array:
    """Eigenvalues of a symmetric matrix in ascending order."""
    values = _quickly(A, "eigvalsh")
    return _carefully(A, "eigenvalues", EIGH_ROUTINES)[0] if values is None else values


def _quickly(A: Array, name: str, at: int | None = None, **options: Any) -> Any:
    """Result of the namespace's own routine, None if it fails; the values are in place `at`."""
    try:
        found = getattr(namespace(A).linalg, name)(A, **options)
        return found if _fine(found if at is None else found[at]) else None
    except FAILURES as failure:
        _unless_memory(failure)
        return None


def eigvals(A: Matrix) -> Matrix:
    """Unordered eigenvalues of a square matrix; of its transpose if the routine fails."""
    mean = float(np.trace(A)) / len(A)
    shift = mean + float(np.abs(A).max())
    for B, back in ((A, 0.0), (A.T, 0.0), (A - shift * np.eye(len(A)), shift)):
        try:
            return np.asarray(np.linalg.eigvals(B)) + back
        except np.linalg.LinAlgError:
            continue
    raise _refusal(A, "eigenvalues")


def lowest_eigenpairs(A: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """The smallest eigenvalues of a symmetric matrix on the host, ascending, and vectors."""
    try:
        values, V = scipy.linalg.eigh(A, subset_by_index=[0, count - 1])
    except np.linalg.LinAlgError:
        values, V = eigh(A)
    return np.asarray(values[:count]), np.asarray(V[:, :count])


def small_eigh(A: Array) -> tuple[Array, Array]:
    """`eigh` of a matrix in float64, with little overhead for a few rows on the host.

    Large matrices are passed to NumPy, since a direct call to LAPACK would block other threads.
    """
    if len(A) > SMALL or not isinstance(A, np.ndarray):
        return eigh(A)
    values, V, failed = lapack.dsyevd(A, lower=1)
    if failed or not _fine(values):
        values, V = _carefully(A, "eigenvalues", EIGH_ROUTINES)
    return values, V


def small_cholesky(A: Array) -> Array | None:
    """`cholesky` of a matrix in float64, likewise."""
    if not isinstance(A, np.ndarray):
        return cholesky(A)
    if len(A) <= SMALL:
        root, failed = lapack.dpotrf(A, lower=1)
        return None if failed else root
    try:
        return np.asarray(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        return None


def cholesky(A: Array) -> Array | None:
    """Lower factor of an array of any namespace; None if it is not positive definite."""
    try:
        root = namespace(A).linalg.cholesky(A)
    except FAILURES as failure:
        _unless_memory(failure)
        return None
    return root if _fine(namespace(A).linalg.diagonal(root)) else None


def lower_inverse(root: Array) -> Array:
    """Inverse of a lower triangular array of any namespace."""
    xp = namespace(root)
    solve = getattr(xp.linalg, "solve_triangular", None)  # torch's; SciPy's is slower than inv
    if solve is None:
        return xp.linalg.inv(root)
    one = xp.eye(int(root.shape[0]), dtype=root.dtype, device=root.device)
    return solve(root, one, upper=False)


def small_inverse(root: Array) -> Array:
    """`lower_inverse` of a matrix in float64, likewise."""
    if not isinstance(root, np.ndarray):
        return lower_inverse(root)
    if len(root) <= SMALL:
        return np.asarray(lapack.dtrtri(root, lower=1)[0])
    return np.asarray(np.linalg.inv(root))


def inverse(root: Matrix) -> Matrix:
    """Inverse of the matrix with this lower Cholesky factor, a NumPy array in float64."""
    lower = lapack.dpotri(root, lower=1)[0]
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def orthonormaliser(G: Array, least: float = DEPENDENT) -> Array | None:
    """The matrix that orthonormalises columns with Gram matrix G; None if they are dependent.

    This is the case if less than the share `least` of a column's length is left after its
    projection on the previous ones is subtracted.
    """
    scale = G.diagonal().clip(TINY) ** -0.5
    root = small_cholesky(G * scale * scale[:, None])
    if root is None or not root.diagonal().min() > least:
        return None
    return small_inverse(root).T * scale[:, None]


def lstsq(A: Matrix, B: Matrix) -> Matrix:
    """Least-squares solution X of A X = B with minimal norm, on the host."""
    try:
        return np.asarray(np.linalg.lstsq(A, B, rcond=None)[0])
    except np.linalg.LinAlgError:
        U, s, Vt = svd(A)
    kept = s > max(A.shape) * np.finfo(s.dtype).eps * s[0]
    return np.asarray((Vt[kept].T / s[kept]) @ (U[:, kept].T @ B))


def _svd_routines(A: Array) -> list[Callable[[Any], Any]]:
    """Routines to try after the first has failed on A."""
    if getattr(A, "is_cuda", False):
        return [_gesvd_on_device, _gram]
    return [_gesvd, _gram]


def _gesvd(A: Matrix) -> Any:
    return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd", check_finite=False)


def _gesvd_on_device(A: Array) -> Any:
    return namespace(A).linalg.svd(A, full_matrices=False, driver="gesvd")


ON_DEVICE = (_gesvd_on_device,)  # routines whose arrays stay on their device


def _gram(A: Matrix) -> Any:
    """Triplets from the eigenvectors of the Gram matrix, in float64.

    Squaring loses values below the square root of eps relative to the largest. The vectors
    are therefore only the start of a one-sided Jacobi method, which does not square anything.
    Its values are at least as accurate as those of the other routines.
    """
    m, n = A.shape
    if m < n:
        U, s, Vt = _gram(A.T)
        return Vt.T, s, U.T
    size = float(np.abs(A).max(initial=0.0)) or 1.0
    B = np.asarray(A, dtype=float) / size  # squares neither overflow nor underflow
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
    """Rotate the rows until they are orthogonal, and apply the rotations to the basis.

    Each round pairs every row with one other, so the rotations of a round are independent.
    """
    n, m = rows.shape
    tol = math.sqrt(m) * float(np.finfo(float).eps)
    ring = np.arange(n + n % 2)  # with an odd number of rows, one is left out of each round
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
    """Make each row of `one` orthogonal to its partner; return the largest cosine before."""
    if not one.size:
        return 0.0
    X, Y = rows[one], rows[two]
    xx, yy, xy = (np.einsum("ij,ij->i", *pair) for pair in ((X, X), (Y, Y), (X, Y)))
    size = np.sqrt(xx) * np.sqrt(yy)
    cosine = np.divide(np.abs(xy), size, out=np.zeros_like(xy), where=size > 0.0)
    if not np.isfinite(cosine).all():
        raise np.linalg.LinAlgError("Jacobi rotations overflowed or underflowed")
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
    # one Newton step, since its vectors may be dozens of roundings away from orthonormal
    return values, 1.5 * V - V @ (0.5 * (V.T @ V))


def _syev(A: Matrix) -> Any:
    return scipy.linalg.eigh(A, driver="ev", check_finite=False)


def _jacobi(A: Matrix) -> Any:
    """Eigenpairs by a one-sided Jacobi method on A, shifted to be positive definite."""
    S = np.tril(np.asarray(A, dtype=float))
    S = S + np.tril(S, -1).T
    size = float(np.abs(S).max(initial=0.0)) or 1.0
    S = S / size
    shift = float(np.abs(S).sum(axis=0).max())  # all eigenvalues are at least -shift
    rows = S + 2.0 * shift * np.eye(len(S))
    V = _rotated(rows, np.eye(len(S)))[1]
    # Rayleigh quotients with A itself are free of the rounding error of the shift
    values = np.einsum("ij,ij->i", V @ S, V)
    order = np.argsort(values, kind="stable")
    return values[order] * size, V[order].T


EIGH_ROUTINES: list[Callable[[Any], Any]] = [_syevr, _syev, _jacobi]


def _carefully(A: Array, what: str, routines: list[Callable[[Any], Any]]) -> Any:
    """Result of the first routine that succeeds, on A's device."""
    if not all_finite(A):
        raise _refusal(A, what)
    host: Matrix | None = None
    for routine in routines:
        stays = routine in ON_DEVICE
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
    """Return True if a decomposition has succeeded; some routines fail without raising."""
    return math.isfinite(float(values.sum()))


def _unless_memory(failure: BaseException) -> None:
    """Raise errors for which another routine would not help."""
    if type(failure).__name__ in ("OutOfMemoryError", "RecursionError", "NotImplementedError"):
        raise failure


def _refusal(A: Array, what: str) -> DecompositionError:
    shape = " x ".join(str(int(n)) for n in A.shape)
    if not all_finite(A):
        return DecompositionError(
            f"{what} of a {shape} matrix that contains NaN or infinite entries do not exist; "
            "wanted a matrix of finite numbers."
        )
    return DecompositionError(
        f"{what} of a {shape} matrix were found neither by LAPACK's routines nor by Jacobi "
        "rotations."
    )
