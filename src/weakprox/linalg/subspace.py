"""Leading triplets by a few power steps from a good start: products, and little else.

All factorisations are of small squares and happen on the host, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.linalg.arrays import Array, like, namespace, to_numpy, wide
from weakprox.linalg.fused import passes_for

Vector = np.ndarray[Any, np.dtype[np.float64]]

# Squaring a block loses what is smaller than this share of its largest column or value.
DEPENDENT, GRADED = 1e-5, 1e-3


@dataclass(frozen=True)
class Ritz:
    """A V = U diag(s): Ritz triplets of a matrix, from the largest value down, in float64.

    `exact` says whether the products with A were in float64, too.
    """

    U: Array
    s: Vector
    V: Array
    exact: bool = False

    def leading(self, count: int) -> Ritz:
        """The first of them."""
        return Ritz(self.U[:, :count], self.s[:count], self.V[:, :count], self.exact)


def refined(A: Array, start: Array, product: Array | None = None, powers: int = 1) -> Ritz:
    """Ritz triplets after `powers` steps with A'A from a right block; `product` is A start."""
    Q, passes = start, passes_for(A)
    for _ in range(powers):
        B = wide(passes.quick_times(A, Q) if product is None else product)
        Y = passes.quick_transpose_times(A, whitened(B, rounds=1))
        Q, product = whitened(wide(Y)), None
    return ritz(passes.quick_times(A, Q), Q, exact=passes.quick_is_exact(A))


def stepped(A: Array, near: Ritz, product: Array) -> Ritz:
    """One power step from triplets of a nearby matrix; `product` is A V.

    A'A V is nearly V s^2 then: columns that only need scaling, and the rest is left to a
    generalised eigenproblem, so that there is one trip to the host. Falls back on `refined`
    where that is not so.
    """
    if not near.s[-1] > GRADED * near.s[0]:
        return refined(A, near.V, product)
    passes = passes_for(A)
    product = wide(product)
    Y = wide(passes.quick_transpose_times(A, product * like(1.0 / near.s**2, product)))
    B = wide(passes.quick_times(A, Y))
    squares, norms = np.asarray(to_numpy(namespace(B).stack([B.T @ B, Y.T @ Y])), dtype=float)
    sizes = np.sqrt(np.maximum(np.diagonal(norms), np.finfo(float).tiny))
    try:
        root = np.linalg.cholesky(norms / (sizes[:, None] * sizes[None, :]))
        turn = np.linalg.inv(root) / sizes
        values, W = np.linalg.eigh(turn @ squares @ turn.T)
    except np.linalg.LinAlgError:
        return refined(A, near.V, product)
    clear = np.diagonal(root).min() > 0.03 and values[0] > GRADED**2 * values[-1]
    if not clear:
        return refined(A, near.V, product)
    s = np.sqrt(values[::-1])
    W = np.ascontiguousarray(turn.T @ W[:, ::-1])
    return Ritz(B @ like(W / s, B), s, Y @ like(W, Y), passes.quick_is_exact(A))


def ritz(B: Array, Q: Array, *, exact: bool) -> Ritz:
    """Triplets of A in the span of an orthonormal Q, from B = A Q."""
    B, Q = wide(B), wide(Q)
    squares, W = np.linalg.eigh(gram(B))
    if not squares[0] > GRADED**2 * squares[-1]:  # squares have lost the small values
        U, s, Wt = namespace(B).linalg.svd(B, full_matrices=False)
        return Ritz(U, np.asarray(to_numpy(s), dtype=float), Q @ Wt.T, exact)
    s = np.sqrt(squares[::-1])
    turned = np.ascontiguousarray(W[:, ::-1])
    return Ritz(B @ like(turned / s, B), s, Q @ like(turned, Q), exact)


def whitened(Y: Array, rounds: int = 2) -> Array:
    """Orthonormal columns whose span holds that of Y, by Cholesky QR where that is safe."""
    for _ in range(rounds):
        G = gram(Y)
        sizes = np.sqrt(np.maximum(np.diagonal(G), np.finfo(float).tiny))
        try:
            root = np.linalg.cholesky(G / (sizes[:, None] * sizes[None, :]))
        except np.linalg.LinAlgError:
            root = np.zeros((1, 1))
        if not np.diagonal(root).min() > DEPENDENT:
            return _householder(Y)
        Y = Y @ like(np.linalg.inv(root).T / sizes[:, None], Y)
    return Y


def _householder(Y: Array) -> Array:
    xp = namespace(Y)
    largest = float(xp.max(xp.abs(Y))) or 1.0
    return xp.linalg.qr(wide(Y) / largest)[0]


def gram(Y: Array) -> Vector:
    """Y'Y on the host, summed in float64."""
    Y = wide(Y)
    return np.asarray(to_numpy(Y.T @ Y), dtype=float)
