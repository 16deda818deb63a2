"""Upper bounds on singular values and eigenvalues, with explicit allowances.

LAPACK's values are those of a matrix within 10 max(m, d) u |c|_F of c, so each is wrong by at
most that. Matrices up to FULL on their shorter side are decomposed in full; those too large to
store, by the eigenvalues of a Gram matrix that is summed over blocks.

Larger ones are bounded with random vectors. Let Q be orthonormal, c Q = P S by a QR
factorisation, R = P'c(I - QQ') and T = (I - PP') c (I - QQ'). In the bases (P, its
complement) and (Q, its complement), c is the block matrix [[S, R], [0, T]], so

    c c' = diag(SS', TT') + [[RR', RT'], [TR', 0]],

and the eigenvalues of c c' exceed those of the first matrix by r (r + t) at most, r = |R|_F,
t = |T|_2. For Gaussian vectors w_1, ..., w_p and v the leading right singular vector of T,
|(T'T)^k w_j| >= t^(2k) |<v, w_j>|, and all |<v, w_j>| are below x with probability at most
(x sqrt(2/pi))^p. With p = 12 and x = 0.1 sqrt(pi/2) that is 1e-12, whatever k is:

    t <= (max_j |(T'T)^k w_j| / x)^(1/2k) for all k at once, except with probability 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from weakprox.verifier.sparse import largest_value
from weakprox.verifier.sums import Dense, Matrix, Reader, U, blocks, norm

FULL = 3000  # shorter side up to which decompositions are complete
HELD = 1 << 27  # largest number of entries of a matrix that is stored as a whole
PROBES, SMALLEST = 12, 0.1 * math.sqrt(math.pi / 2)
POWERS = 64
EXTRA = 8  # columns beyond the rank


@dataclass(frozen=True)
class Slope:
    """The matrix c, read by rows, within `error` (Frobenius) of the exact one.

    If it is sparse, it need not be read, and `start` are columns near its leading right
    singular vectors.
    """

    rows: Reader
    shape: tuple[int, int]
    error: float
    sparse: Any = None
    start: Matrix | None = None

    def whole(self) -> Matrix:
        found = np.empty(self.shape)
        for first, last in blocks(*self.shape):
            found[first:last] = self.rows(first, last)
        return found


@dataclass(frozen=True)
class Values:
    """Upper bounds: of the leading values one by one, of all others `tail` and `energy`.

    The others are at most `tail` each, and their squares sum to at most `energy`.
    """

    leading: Matrix
    tail: float = 0.0
    energy: float = 0.0
    error: float = 0.0  # distance of the bounds of a complete decomposition from the values
    sure: bool = True  # False: except with probability 1e-12

    @property
    def largest(self) -> float:
        """Bound on all of them."""
        return max(float(self.leading.max(initial=0.0)), self.tail)

    def beyond(self, t: float) -> float:
        """Upper bound on the sum of (value - t)_+^2."""
        excess = np.maximum(self.leading - t, 0.0)
        found = math.fsum((excess * excess).tolist())
        if self.tail > t:
            found += (1.0 - t / self.tail) ** 2 * self.energy
        return found * (1 + 16 * U)


def singular_values(c: Slope, rank: int, enough: Callable[[Matrix], float]) -> Values:
    """Bounds on the singular values of c; `enough(leading)` is a sufficient tail bound."""
    m, d = c.shape
    if c.sparse is not None and c.start is not None:
        level = enough(np.zeros(1))
        most, error, sure = largest_value(c.sparse, c.start, level - c.error)
        return Values(np.array([most + c.error]), error=error + c.error, sure=sure)
    if min(m, d) > FULL:
        return _probed(c, min(rank + EXTRA, min(m, d)), enough)
    if m * d > HELD:
        return _by_gram(c)
    whole = c.whole()
    try:
        values: Matrix = np.linalg.svd(whole, compute_uv=False)
    except np.linalg.LinAlgError:
        return _by_gram(c)
    error = c.error + 10 * max(m, d) * U * norm(whole)
    return Values(values + error, error=error)


def eigenvalues(c: Slope) -> Values:
    """Bounds on the positive eigenvalues of -(c + c')/2."""
    whole = c.whole()
    whole = -(whole + whole.T) / 2
    error = c.error + (10 * len(whole) + 2) * U * norm(whole)
    return Values(np.maximum(np.linalg.eigvalsh(whole) + error, 0.0), error=error)


def _by_gram(c: Slope) -> Values:
    """Bounds by the eigenvalues of c'c or c c', whichever is smaller."""
    m, d = c.shape
    least, size = min(m, d), 0.0
    gram = np.zeros((least, least))
    if d <= m:
        for first, last in blocks(m, d):
            part = c.rows(first, last)
            gram += part.T @ part
            size = math.hypot(size, norm(part))
    else:
        width = max(1, HELD // m)
        for left in range(0, d, width):
            parts = [c.rows(*rows)[:, left : left + width] for rows in blocks(m, d)]
            panel = np.concatenate(parts)
            gram += panel @ panel.T
            size = math.hypot(size, norm(panel))
    allowed = (max(m, d) + 10 * least + 4) * U * size**2
    found = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0) + allowed)
    return Values(found[::-1] + c.error, error=c.error + math.sqrt(allowed))


def _probed(c: Slope, width: int, enough: Callable[[Matrix], float]) -> Values:
    """The randomised bound, with new random vectors in every call."""
    (m, d), rng = c.shape, np.random.default_rng()
    read, parts = c.rows, blocks(m, d)
    if m * d <= HELD:
        read, parts = Dense(c.whole()).rows, [(0, m)]

    def times(W: Matrix) -> Matrix:
        return np.concatenate([read(i, j) @ W for i, j in parts])

    def back(W: Matrix) -> Matrix:
        """The product c' W."""
        return reduce(add, (read(i, j).T @ W[i:j] for i, j in parts))

    Q = rng.standard_normal((d, width))
    for _ in range(POWERS):
        Q = np.linalg.qr(back(times(Q)))[0]
    P, S = np.linalg.qr(times(Q))
    W, kept, Zt = np.linalg.svd(S)
    # values below the level do not affect the bound, and their vectors converge slowest
    level = enough(kept)
    count = max(1, int((kept > level).sum()))
    P, kept, Q = P @ W[:, :count], kept[:count], Q @ Zt[:count].T
    R = back(P).T
    R -= (R @ Q) @ Q.T
    size = math.hypot(*(norm(read(i, j)) for i, j in parts))
    rounding = 100 * (m + d) * U * size
    r = norm(R) + rounding
    energy = max(0.0, size**2 - float(kept @ kept)) + rounding * size
    W = rng.standard_normal((d, PROBES))
    tail, logs, goal = math.sqrt(energy), 0.0, 0.99 * level
    for k in range(1, POWERS + 1):
        W = W - Q @ (Q.T @ W)
        Z = times(W)
        Z = Z - P @ (P.T @ Z)
        W = back(Z)
        W = W - Q @ (Q.T @ W)
        longest = float(np.linalg.norm(W, axis=0).max())
        if longest == 0.0:
            tail = 0.0
            break
        logs += math.log(longest)
        W = W / longest
        tail = min(tail, math.exp((logs - math.log(SMALLEST)) / (2 * k)) * (1 + 1e-6))
        if tail <= goal:
            break
    tail += rounding
    square = r * (r + tail)
    leading = np.sqrt(np.maximum(kept + rounding, tail) ** 2 + square) + c.error
    others = math.sqrt(tail**2 + square) + c.error, (math.sqrt(energy) + c.error) ** 2
    return Values(leading, *others, c.error, sure=False)
