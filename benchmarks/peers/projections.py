"""Projections on the nuclear ball, for the verifier and for the methods written here.

Nothing in this folder uses weakprox's own numerical code, except to run it.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

Matrix = np.ndarray


def threshold(s: Matrix, tau: float) -> float:
    """The theta >= 0 with sum of (s - theta)_+ = tau; 0 if the sum of s is below tau."""
    if s.sum() <= tau:
        return 0.0
    s = np.sort(s)[::-1]
    theta = (np.cumsum(s) - tau) / np.arange(1, s.size + 1)
    return float(theta[np.flatnonzero(s > theta)[-1]])


def soft(A: Matrix, t: float) -> Matrix:
    """Entries moved towards zero by t."""
    return A - np.clip(A, -t, t)


def into_ball(X: Matrix, tau: float) -> Matrix:
    """X, divided by as much as its nuclear norm exceeds tau."""
    norm = float(np.linalg.svd(X, compute_uv=False).sum())
    return X if norm <= tau else X * (tau / norm)


class Full:
    """Projection by LAPACK's SVD of the whole matrix."""

    def __init__(self, tau: float) -> None:
        self.tau, self.calls = tau, 0

    def __call__(self, A: Matrix) -> Matrix:
        """Nearest point of the ball."""
        self.calls += 1
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        p = np.maximum(s - threshold(s, self.tau), 0.0)
        k = int(np.count_nonzero(p))
        return (U[:, :k] * p[:k]) @ Vt[:k]


class Gram:
    """Projection by the eigenvectors of A'A: cheaper, but half the digits are lost.

    Where the threshold is too small a share of the largest value for that, a full SVD.
    """

    def __init__(self, tau: float) -> None:
        self.tau, self.full = tau, Full(tau)

    @property
    def calls(self) -> int:
        """Projections so far."""
        return self.full.calls

    def __call__(self, A: Matrix) -> Matrix:
        """Nearest point of the ball."""
        if A.shape[0] < A.shape[1]:
            return self(A.T).T
        w, V = np.linalg.eigh(A.T @ A)
        s = np.sqrt(np.maximum(w, 0.0))
        theta = threshold(s, self.tau)
        if theta < 1e-5 * s[-1]:
            return self.full(A)
        self.full.calls += 1
        kept = s > theta
        return ((A @ V[:, kept]) * (1.0 - theta / s[kept])) @ V[:, kept].T


class Partial:
    """Projection by a block of singular vectors that starts from the last call's.

    Each pass multiplies the block by A and A' and orthonormalises it. The block grows
    until its smallest value is below the threshold, so that nothing outside should count,
    and shrinks to a margin above the active ones. What comes out has orthonormal factors
    and nuclear norm tau, so it is feasible however rough the block. From a block of
    `dense` times d on, a full SVD is cheaper.
    """

    def __init__(self, tau: float, passes: int = 1, dense: float = 0.45) -> None:
        self.tau, self.passes, self.dense = tau, passes, dense
        self.calls, self.block = 0, None
        self._rng, self._full = np.random.default_rng(1), Full(tau)

    def __call__(self, A: Matrix, tol: float = 0.0) -> Matrix:
        """Nearly nearest point of the ball; `tol` ends the passes early."""
        self.calls += 1
        if self.block is None:
            self._widen(A.shape[1], 24)
        done = 0
        while self.block.shape[1] <= self.dense * min(A.shape):
            U, s, V = self._refine(A)
            done += 1
            theta = threshold(s, self.tau)
            active = int(np.count_nonzero(s > theta))
            if active >= s.size - 1:
                self._widen(A.shape[1], int(1.35 * s.size) + 8)
                done = 0
                continue
            if done < self.passes and self._residual(A, U, s, V, active) > tol:
                continue
            margin = active + max(8, active // 8)
            if s.size > 1.25 * margin:
                self.block = V[:, :margin]
            return (U[:, :active] * (s[:active] - theta)) @ V[:, :active].T
        return self._full(A)

    def _refine(self, A: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """One pass: better singular triplets, the block replaced by the right ones."""
        Q = _orthonormal(A @ self.block)
        P, R = scipy.linalg.qr(A.T @ Q, mode="economic", check_finite=False)
        u, s, vt = np.linalg.svd(R.T)
        self.block = P @ vt.T
        return Q @ u, s, self.block

    @staticmethod
    def _residual(A: Matrix, U: Matrix, s: Matrix, V: Matrix, k: int) -> float:
        return float(np.linalg.norm(A @ V[:, :k] - U[:, :k] * s[:k]))

    def _widen(self, d: int, width: int) -> None:
        width = min(d, width)
        old = np.empty((d, 0)) if self.block is None else self.block
        new = self._rng.standard_normal((d, width - old.shape[1]))
        self.block = np.linalg.qr(np.hstack([old, new]))[0]


def _orthonormal(B: Matrix) -> Matrix:
    """Cholesky QR, twice; Householder where that breaks down."""
    try:
        for _ in range(2):
            L = np.linalg.cholesky(B.T @ B)
            B = scipy.linalg.solve_triangular(L, B.T, lower=True, check_finite=False).T
    except np.linalg.LinAlgError:
        return scipy.linalg.qr(B, mode="economic", check_finite=False)[0]
    return B
