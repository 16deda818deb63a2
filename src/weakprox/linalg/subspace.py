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


@dataclass(frozen=True)
class Ritz:
    """A V = U diag(s): Ritz triplets of a matrix, from the largest value down."""

    U: Array
    s: Vector
    V: Array


def refined(A: Array, start: Array, product: Array | None = None, powers: int = 1) -> Ritz:
    """Ritz triplets after `powers` steps with A'A from a right block; `product` is A start."""
    Q, passes = start, passes_for(A)
    for _ in range(powers):
        B = passes.quick_times(A, Q) if product is None else product
        Q, product = whitened(passes.quick_transpose_times(A, whitened(B, rounds=1))), None
    return ritz(passes.quick_times(A, Q), Q)


def stepped(A: Array, near: Ritz, product: Array) -> Ritz:
    """One power step from triplets of a nearby matrix; `product` is A V.

    A'A V is nearly V s^2 then: columns that only need scaling, and the rest is left to a
    generalised eigenproblem, so that there is one trip to the host. Falls back on `refined`
    where that is not so.
    """
    passes = passes_for(A)
    Y = passes.quick_transpose_times(A, product * like(1.0 / near.s**2, product))
    B = passes.quick_times(A, Y)
    both = to_numpy(_grams(B, Y))
    squares, norms = np.asarray(both[0], dtype=float), np.asarray(both[1], dtype=float)
    sizes = np.sqrt(np.maximum(np.diagonal(norms), np.finfo(float).tiny))
    try:
        root = np.linalg.cholesky(norms / (sizes[:, None] * sizes[None, :]))
    except np.linalg.LinAlgError:
        return refined(A, near.V, product)
    if np.diagonal(root).min() < 0.03:
        return refined(A, near.V, product)
    turn = np.linalg.inv(root) / sizes
    values, W = np.linalg.eigh(turn @ squares @ turn.T)
    s = np.sqrt(np.maximum(values[::-1], np.finfo(float).tiny))
    W = np.ascontiguousarray(turn.T @ W[:, ::-1])
    return Ritz(B @ like(W / s, B), s, Y @ like(W, Y))


def _grams(B: Array, Y: Array) -> Array:
    B, Y = wide(B), wide(Y)
    return namespace(B).stack([B.T @ B, Y.T @ Y])


def ritz(B: Array, Q: Array) -> Ritz:
    """Triplets of A in the span of an orthonormal Q, from B = A Q."""
    squares, W = np.linalg.eigh(gram(B))
    s = np.sqrt(np.maximum(squares[::-1], np.finfo(float).tiny))
    turned = np.ascontiguousarray(W[:, ::-1])
    return Ritz(B @ like(turned / s, B), s, Q @ like(turned, Q))


def whitened(Y: Array, rounds: int = 2) -> Array:
    """Orthonormal columns with the span of Y, by Cholesky QR."""
    for _ in range(rounds):
        G = gram(Y)
        sizes = np.sqrt(np.maximum(np.diagonal(G), np.finfo(float).tiny))
        scaled = G / (sizes[:, None] * sizes[None, :])
        try:
            root = np.linalg.cholesky(scaled + 1e-14 * np.eye(len(G)))
            turn = np.linalg.inv(root).T
        except np.linalg.LinAlgError:  # dependent columns: the directions that are there
            values, W = np.linalg.eigh(scaled)
            turn = W / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
        Y = Y @ like(turn / sizes[:, None], Y)
    return Y


def gram(Y: Array) -> Vector:
    """Y'Y on the host, summed in float64."""
    Y = wide(Y)
    return np.asarray(to_numpy(Y.T @ Y), dtype=float)
