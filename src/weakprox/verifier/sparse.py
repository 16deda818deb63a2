"""Upper bounds on the largest singular value of a sparse matrix S.

Small matrices are decomposed in full. For others no array of their size is formed. Let P and Q
be orthonormal with S'P = Q diag(s), R = S Q - P diag(s), and t the norm of
T = (I - PP') S (I - QQ'). For every x > 0,

    |S|^2 <= max(|diag(s^2) + (1 + 1/x) R'R|, (1 + x) t^2),

since the cross term 2 t |R a| |b| is at most x t^2 |b|^2 + |R a|^2 / x. The triplets with
values near the largest are kept, so that t is below it, and the bound exceeds the largest
value by a term that is quadratic in R.

With T_k the Chebyshev polynomial, w a Gaussian vector and v the leading right singular
vector of T, |T_k(2 T'T/c^2 - I) w| >= T_k(2 t^2/c^2 - 1) |<v, w>| if t >= c. All of the
sixteen |<v, w_j>| are below x = 0.1 sqrt(pi/2) with probability at most 1e-16, whatever k
is, so the longest of these vectors bounds t. At most `TRIALS` sets of vectors are drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakprox.verifier.sums import Matrix, U, norm

HELD, FULL = 1 << 24, 3000  # entries, and the shorter side, of a matrix decomposed in full
PROBES, SMALLEST = 16, 0.1 * math.sqrt(math.pi / 2)
CLOSE = 0.9  # values above this share of the largest are kept
LEVEL, BETWEEN = 0.93, 0.97  # shares of the largest value: c above, and a sufficient bound on t
TRIALS, SWEEPS, DEGREE = 3, 40, 80
FIRST = 6  # sweeps before the first trial, since random columns start anywhere
SHARP = 1e-10  # relative distance of the bound from the largest value that is sharp enough
# columns in addition to those of the start, and largest number of columns
EXTRA, WIDEST = 8, 1000


def largest_value(S: Any, start: Matrix, enough: float) -> tuple[float, float, bool]:
    """Return a bound on |S|_2, the rounding in it, and False if it is randomised.

    `start` are columns near the leading right singular vectors; a bound of at most
    `enough` need not be sharp.
    """
    m, d = S.shape
    size = norm(S.data)
    if m * d <= HELD and min(m, d) <= FULL:
        error = 10 * max(m, d) * U * size
        return float(np.linalg.norm(S.toarray(), 2)) + error, error, True
    if not size > 1e-290:
        return size, size, True
    return *Iteration(S, start).bound(enough), False


class Iteration:
    """Subspace iteration, and the bound that its triplets give."""

    def __init__(self, S: Any, start: Matrix) -> None:
        self.S, self.St = S, S.T.tocsr()
        self.size = norm(S.data)
        self.longest = int(max(np.diff(self.S.indptr).max(), np.diff(self.St.indptr).max()))
        self.rng = np.random.default_rng()
        width = min(start.shape[1] + EXTRA, WIDEST, *S.shape)
        self.Q = self._widened(start[:, :width], width)
        self.P, self.s, self.R = np.empty((S.shape[0], 0)), np.empty(0), np.empty((0, 0))
        self.error = math.inf

    def _widened(self, Q: Matrix, width: int) -> Matrix:
        """An orthonormal basis of these and of random columns."""
        scale = norm(Q) / math.sqrt(Q.size) if Q.size else 1.0
        more = self.rng.standard_normal((self.S.shape[1], width - Q.shape[1]))
        return np.linalg.qr(np.concatenate([Q, scale * more], axis=1))[0]

    def sweep(self) -> None:
        """One step with S and S', and the triplets it shows."""
        P = np.linalg.qr(self.S @ self.Q)[0]
        Z = self.St @ P
        Q, C = np.linalg.qr(Z)
        left, s, turn = np.linalg.svd(C)
        self.P, self.s, self.Q = P @ turn.T, s, Q @ left
        self.R = self.S @ self.Q - self.P * s
        far = norm(Z @ turn.T - self.Q * s)
        # sums of products in S'P, in P times the rotation, and in S Q
        sums = 2 * self.longest + 2 * len(s) + 12
        self.error = far + sums * U * self.size * math.sqrt(len(s))

    def _skew(self, F: Matrix) -> float:
        """A bound on |F'F - I|."""
        rounding = F.shape[0] * F.shape[1] * U
        return float(norm(F.T @ F - np.eye(F.shape[1])) + rounding)

    def bound(self, enough: float) -> tuple[float, float]:
        """The least bound of a few trials, and the rounding in it."""
        best, rounding = math.inf, 0.0
        for trial in range(TRIALS):
            for sweep in range(SWEEPS):
                self.sweep()
                kept, width = self._kept(), len(self.s)
                if kept == width and width < min(WIDEST, *self.S.shape):
                    more = min(width + max(16, width // 2), WIDEST, *self.S.shape)
                    self.Q = self._widened(self.Q, more)
                    continue
                near = self._norm(kept, BETWEEN * self.s[0])
                sharp = near <= max(enough, self.s[0] * (1 + SHARP))
                if sharp and (trial or sweep >= FIRST):
                    break
            kept = self._kept()
            skew = max(self._skew(F[:, :kept]) for F in (self.P, self.Q))
            tail = self._rest(kept)
            found = self._norm(kept, tail + 8 * skew * self.s[0])
            lost = self.error + 8 * skew * found
            if found + lost < best:
                best, rounding = found + lost, lost
            if tail <= BETWEEN * self.s[0] or best <= enough:
                break
        return best * (1 + 64 * U), rounding

    def _kept(self) -> int:
        return max(1, int((self.s >= CLOSE * self.s[0]).sum()))

    def _norm(self, kept: int, tail: float) -> float:
        """The bound on |S|, given one on |T|."""
        s, R = self.s[:kept], self.R[:, :kept]
        square, gram = tail * tail, R.T @ R
        if not math.isfinite(square):
            return math.inf
        most = math.sqrt(float(np.trace(gram))) / tail if tail > 0.0 else 1e-12
        x = max(float(s[0]) ** 2 / square - 1.0, most, 1e-12) if square > 0.0 else 1e12
        inside = np.diag(s * s) + (1.0 + 1.0 / x) * (gram + gram.T) / 2
        first = float(np.linalg.eigvalsh(inside)[-1]) * (1 + 20 * kept * U)
        return math.sqrt(max(first, (1.0 + x) * square)) * (1 + 8 * U)

    def _rest(self, kept: int) -> float:
        """A bound on |T|, with new random vectors."""
        P, Q = self.P[:, :kept], self.Q[:, :kept]
        d, c = self.S.shape[1], LEVEL * float(self.s[0])

        def square(W: Matrix) -> Matrix:
            Y = self.S @ W
            Z = self.St @ (Y - P @ (P.T @ Y))
            return np.asarray(Z - Q @ (Q.T @ Z))

        W = self.rng.standard_normal((d, PROBES))
        W -= Q @ (Q.T @ W)
        # rounding of one product relative to its argument; errors grow like k^2
        local = (4 * self.longest + 8 * kept + 40) * U * (1 + (self.size / c) ** 2)
        before, longest, best = W, float(np.linalg.norm(W, axis=0).max()), math.inf
        for k in range(1, DEGREE + 1):
            product = square(W) * (2.0 / (c * c)) - W
            W, before = (product, W) if k == 1 else (2.0 * product - before, W)
            length = float(np.linalg.norm(W, axis=0).max())
            if not math.isfinite(length):
                break
            longest = max(longest, length)
            large = (length + k * k * local * longest) / SMALLEST
            grown = math.cosh(math.acosh(max(1.0, large)) / k)
            best = min(best, c * math.sqrt(0.5 * (1.0 + grown)) * (1 + 64 * U))
            if best <= BETWEEN * self.s[0]:
                break
        return best
