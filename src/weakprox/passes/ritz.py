"""Leading singular triplets and eigenpairs by a few power steps from a good start.

All factorisations are of small square matrices in float64, on the host unless a device holds
the blocks and they are not narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import (
    Array,
    alongside,
    gram,
    is_numpy,
    like,
    namespace,
    squares_of,
    to_numpy,
    wide,
)
from weakprox.linalg.decompositions import (
    eigh,
    orthonormaliser,
    small_cholesky,
    small_eigh,
    small_inverse,
    svd,
)
from weakprox.linalg.gram_svd import product
from weakprox.linalg.operators import Products

TINY = float(np.finfo(float).tiny)
Vector = np.ndarray[Any, np.dtype[np.float64]]

# Squaring a block loses values smaller than this share of the largest.
GRADED = 1e-3
CLEAR = 3e-3  # least pivot of columns that must become orthonormal to 1e-10
LEAST = 1e-6  # share of the largest value that can be recovered from the squares
SHIFT = 1e-11  # of Gram matrices of unit columns; above their rounding errors
SLIGHTLY = 1e-5  # as GRADED, for columns that need not be orthogonal to the last digits
ASKEW = 2e-6  # as GRADED, for columns that only need to span a space
STRAIGHTENED = 64  # columns from which straightening in each iteration would take too long


@dataclass(frozen=True)
class Ritz:
    """A V = U diag(s): Ritz triplets of a matrix in float64, in descending order.

    For a symmetric matrix these may be eigenpairs: U is V, values may be negative, and
    A V = U diag(s) holds up to a residual orthogonal to V. `exact` tells whether the products
    with A were also in float64 and U is orthonormal to full precision. `damping` is 1/s^2 on
    the device of U, if it is already there.
    """

    U: Array
    s: Vector
    V: Array
    exact: bool = False
    damping: Array | None = None
    residuals: Vector | None = None  # |A v - s v| of eigenpairs

    def excess(self, kept: int, shift: float) -> float:
        """Estimate of how far the largest eigenvalue of A - X is above the shift.

        X has the first `kept` pairs, their values reduced by the shift. The estimate is of
        second order in their residuals. It is 0 for triplets, whose residuals do not affect X.
        """
        if self.residuals is None or kept >= len(self.s):
            return 0.0
        square = float(np.sum(self.residuals[:kept] ** 2))
        beside = 0.5 * (shift - max(0.0, float(self.s[kept])))
        return math.hypot(beside, math.sqrt(square)) - abs(beside)

    def leading(self, count: int) -> Ritz:
        """The first `count` triplets."""
        return Ritz(self.U[:, :count], self.s[:count], self.V[:, :count], self.exact)

    def with_last(self, count: int, last: int) -> Ritz:
        """The first `count` and the last `last` triplets."""
        if not last:
            return self.leading(count)
        xp, end = namespace(self.V), len(self.s) - last
        V = xp.concat([self.V[:, :count], self.V[:, end:]], axis=1)
        return Ritz(V, np.concatenate([self.s[:count], self.s[end:]]), V, self.exact)


def refined(A: Products, start: Array, product: Array | None = None, powers: int = 1) -> Ritz:
    """Ritz triplets after `powers` steps with A'A from a right block; `product` is A start.

    Blocks are orthonormalised once after each step, as long as that loses no accuracy: on a
    device, the number of transfers to the host dominates the cost.
    """
    Q, B = start, product
    for _ in range(powers):
        B = wide(A.right(Q) if B is None else B)
        xp = namespace(B)
        size = xp.max(xp.abs(B))  # stays on the device; dividing by it avoids overflow
        Y, B = wide(A.left(B / xp.where(size > 0, size, 1.0))), None
        turn = orthonormaliser(*squares_of(Y))
        if turn is None:
            return _carefully(A, start, product, powers)
        Q = Y @ alongside(turn, Y)
    B = wide(A.right(Q))
    found = _triplets(A, Q, B, squares_of(B, Q), orthonormal=True)
    return found or _carefully(A, start, product, powers)


def stepped(
    A: Products, near: Ritz, product: Array, needed: int | None = None, powers: int = 1
) -> Ritz:
    """Power steps from triplets of a nearby matrix; `product` is A V.

    A'A V is then nearly V s^2: the columns only need scaling, and a generalised eigenproblem
    does the rest, so there is one transfer to the host. Otherwise it falls back to careful
    steps. Only the first `needed` columns of U must be orthonormal to full precision.
    """
    last = near
    for step in range(powers):
        found = None
        if last.s[-1] > LEAST * last.s[0]:
            image = wide(product) if step == 0 else last.U * like(last.s, last.U)
            damping = like(1.0 / last.s**2, image) if last.damping is None else last.damping
            Y = wide(A.left(image * damping))
            B = wide(A.right(Y))
            found = _triplets(A, Y, B, squares_of(B, Y), needed) or _straightly(A, Y, needed)
        if found is None:
            return _carefully(A, near.V, product, powers)
        last = found
    return last


def eigenpairs(
    A: Products, start: Array, product: Array | None = None, powers: int = 1
) -> Ritz:
    """Ritz pairs of a symmetric A after two products with it for each of the `powers`.

    `product` is A start. They are sorted by value and include both ends of the spectrum.
    """
    Q, B = start, product
    for _ in range(2 * powers):
        Q, B = whitened(wide(A.right(Q) if B is None else B)), None
    return eigen(A.right(Q), Q, exact=A.exact)


def eigen(B: Array, Q: Array, *, exact: bool) -> Ritz:
    """Eigenpairs of a symmetric A in the span of an orthonormal Q, from B = A Q."""
    B, Q = wide(B), wide(Q)
    inside = np.asarray(to_numpy(Q.T @ B), dtype=float)
    values, W = eigh(0.5 * (inside + inside.T))
    W, values = np.ascontiguousarray(W[:, ::-1]), np.ascontiguousarray(values[::-1])
    turn = like(W, Q)
    V = Q @ turn
    off = B @ turn - V * like(values, V)
    residuals = np.sqrt(np.asarray(to_numpy((off * off).sum(0)), dtype=float))
    return Ritz(V, values, V, exact, residuals=residuals)


def spanned(A: Products, Y: Array, needed: int | None = None) -> Ritz | None:
    """Triplets of A in the span of any Y, with one more product if Y is badly conditioned."""
    B = wide(A.right(Y))
    return _triplets(A, Y, B, squares_of(B, Y), needed) or _straightly(A, Y, needed)


def _straightly(A: Products, Y: Array, needed: int | None) -> Ritz | None:
    """Triplets of A in the span of Y, made orthonormal first if that is possible."""
    Q = _whitened_once(Y)
    if Q is None:
        return None
    B = wide(A.right(Q))
    return _triplets(A, Q, B, squares_of(B, Q), needed, orthonormal=True)


def _triplets(
    A: Products,
    Y: Array,
    B: Array,
    squares: Any,
    needed: int | None = None,
    *,
    orthonormal: bool = False,
) -> Ritz | None:
    """Triplets of A in the span of Y, from B = A Y and the squares of both.

    Return None if the columns of Y are not clearly independent, or if many columns should be
    made `orthonormal` first, which takes less time than to straighten them afterwards.
    """
    solved = turned(squares[0], squares[1], needed)
    if solved is None:
        return None
    s, W, upright, nearly = solved
    k = len(s)
    if is_numpy(W) and not is_numpy(B):
        packed = like(np.hstack([W, 1.0 / s[:, None]]), B)  # in one transfer
        W, inverse = packed[:, :k], packed[:, k]
    else:
        inverse = like(1.0 / s, B)
    U, V = B @ (W * inverse), Y @ W
    if upright or (nearly and k > STRAIGHTENED):
        return Ritz(U, s, V, A.exact and upright, inverse * inverse)
    if k > STRAIGHTENED and not orthonormal:
        return None
    again = straightened(gram(U), s)
    if again is None:
        return None
    s, left, right = again
    packed = like(np.hstack([left, right]), U)
    return Ritz(U @ packed[:, :k], s, V @ packed[:, k:], A.exact)


def turned(
    squares: Any, norms: Any, needed: int | None = None
) -> tuple[Vector, Any, bool, bool] | None:
    """Singular values s and W with Y W orthonormal, (A Y W)'(A Y W) = s^2, from squares.

    `squares` is (AY)'(AY) and `norms` is Y'Y; W is on their device. Return None if the columns
    of Y are not clearly independent, or if the values differ too much for their squares.

    Squares lose values that are small relative to the largest, and more if Y is skew. The third
    part of the result tells whether the columns of A Y W / s are orthogonal in spite of that:
    the first `needed` (all if None) to 1e-10, the others to 1e-4. Otherwise they must be
    `straightened`. The fourth tells whether the first are orthogonal to 1e-6, which suffices
    for iterations but not for proofs.
    """
    root = orthonormaliser(norms, CLEAR)
    if root is None:
        return None
    inside = root.T @ squares @ root
    if not math.isfinite(float(inside.sum())):  # the squares overflow
        return None
    values, W = small_eigh(inside)
    values = np.asarray(to_numpy(values), dtype=float)
    if not values[0] > LEAST**2 * values[-1]:
        return None
    # methods that NumPy and torch share: those of a namespace take longer than the arithmetic
    s, W = np.sqrt(values[::-1]), root @ (W[:, ::-1] if is_numpy(W) else W.flip(1))
    scaled = W * (norms.diagonal() ** 0.5)[:, None]
    skew = to_numpy((scaled * scaled).sum(0) ** 0.5)  # 1 if orthonormal
    kept = s / (skew * s[0])
    least, span = kept[:needed].min(), bool(kept.min() > ASKEW)
    return s, W, bool(span and least > GRADED), bool(span and least > SLIGHTLY)


def straightened(G: Vector, s: Vector) -> tuple[Vector, Vector, Vector] | None:
    """Better values, and rotations of U and V, for A V = U diag(s) with U'U = G near I.

    Squaring loses small values and the orthogonality of their vectors. They are recomputed
    from a factor of G, which is not squared.
    """
    root = small_cholesky(G)
    if root is None:
        return None
    P, values, Rt = svd(root.T * s)
    return values, np.linalg.solve(root.T, P), np.ascontiguousarray(Rt.T)


def _carefully(A: Products, start: Array, product: Array | None, powers: int) -> Ritz:
    """As `refined`, with orthonormal blocks throughout, for values of very different size."""
    Q = start
    for _ in range(powers):
        B = wide(A.right(Q) if product is None else product)
        Q, product = whitened(wide(A.left(whitened(B, rounds=1)))), None
    return ritz(A.right(Q), Q, exact=A.exact)


def ritz(B: Array, Q: Array, *, exact: bool) -> Ritz:
    """Triplets of A in the span of an orthonormal Q, from B = A Q."""
    B, Q = wide(B), wide(Q)
    squares, W = eigh(*squares_of(B))
    squares = np.asarray(to_numpy(squares), dtype=float)
    if not squares[0] > GRADED**2 * squares[-1]:  # squaring has lost the small values
        P = whitened(B)
        left, s, Wt = svd(np.asarray(to_numpy(product(P, B)), dtype=float))
        return Ritz(P @ like(left, P), s, Q @ like(Wt.T, Q), exact)
    s, turned = np.sqrt(squares[::-1]), alongside(namespace(W).flip(W, axis=1), B)
    return Ritz(B @ (turned / like(s, B)), s, Q @ turned, exact)


def whitened(Y: Array, rounds: int = 2) -> Array:
    """Orthonormal columns whose span contains that of Y, by Cholesky QR if that is safe."""
    for _ in range(rounds):
        found = _whitened_once(Y)
        if found is None:
            found = _shifted(Y)
        if found is None:
            xp = namespace(Y)
            largest = float(xp.max(xp.abs(Y))) or 1.0
            return xp.linalg.qr(wide(Y) / largest)[0]
        Y = found
    return Y


def _shifted(Y: Array) -> Array | None:
    """Orthonormal columns by shifted Cholesky QR, for columns that are nearly dependent.

    Fukaya et al., "Shifted Cholesky QR for computing the QR factorization of ill-conditioned
    matrices", SIAM Journal on Scientific Computing 42(1), 2020. On devices it takes a small
    share of the time of Householder's method.
    """
    Y = wide(Y)
    G = gram(Y)
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(G), TINY))
    G = G * scale * scale[:, None]
    root = small_cholesky(G + SHIFT * np.eye(len(G)))
    if root is None:
        return None
    first = Y @ like(small_inverse(root).T * scale[:, None], Y)
    found = _whitened_once(first)
    return None if found is None else _whitened_once(found)


def _whitened_once(Y: Array) -> Array | None:
    """Y with nearly orthonormal columns, if they are clearly independent."""
    turn = orthonormaliser(*squares_of(Y))
    return None if turn is None else Y @ alongside(turn, Y)
