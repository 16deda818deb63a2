"""Upper bounds on singular values that a truncated decomposition does not show.

Ritz values bound singular values from below, so nothing that claims to be a lower bound
on an optimum may use them as they are. What is proved here: with e at least the norm of
A deflated on both sides and R the residual of the kept triplets, the true values lie
below `raised`; and e itself is bounded by a few products with fresh Gaussian vectors,
wrong with probability at most `FAILURE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, eps_of, gaussian, like, namespace, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import Products, products
from weakprox.linalg.thin_svd import thin_svd

# Probability with which one randomised bound may fail: a run that keeps the best of a
# hundred proofs is then wrong with probability at most 1e-10.
FAILURE = 1e-12
EXACT_BELOW = 600  # a full decomposition once per certificate is cheap up to here


def power_bound(
    apply: Callable[[Array], Array],
    apply_transpose: Callable[[Array], Array],
    columns: int,
    reference: Array,
    rng: np.random.Generator,
    *,
    powers: int = 3,
    vectors: int = 16,
    enough: float = 0.0,
    prepare: Callable[[Array], Array] | None = None,
) -> float:
    """Upper bound on the norm of E from |E (E'E)^q w|, w Gaussian.

    `prepare` may do to w what E does first, if E and its transpose need it done only once.

    That vector is at least s_1^(2q+1) |<w, v_1>| long and the inner product is standard
    normal, so dividing by a number it exceeds with probability 1 - FAILURE is safe. All q
    rest on that one event, so the first bound below `enough` will do.
    """
    xp = namespace(reference)
    W = gaussian(rng, (columns, vectors), reference)
    W = W if prepare is None else prepare(W)
    log_scale, best, size = 0.0, math.inf, None
    for q in range(powers + 1):
        Y = apply(W)
        longest = xp.max(xp.linalg.vector_norm(Y, axis=0))
        read = xp.stack([longest] if size is None else [longest, size])
        length, *scale = (float(number) for number in to_numpy(read))  # one trip to the host
        if 0.0 in (length, *scale):
            return 0.0
        log_scale += math.log(scale[0]) if scale else 0.0
        best = min(best, longest_bound(length, log_scale, q, vectors, eps_of(W)))
        if q == powers or best <= enough:
            break
        W = apply_transpose(Y)
        size = xp.max(xp.abs(W))
        W = W / xp.where(size > 0, size, 1.0)  # keeps float32 away from overflow
    return best


def longest_bound(length: float, log_scale: float, q: int, vectors: int, eps: float) -> float:
    """The bound from the longest of some vectors E (E'E)^q w, e^log_scale taken out of it."""
    x = FAILURE ** (1.0 / vectors) * math.sqrt(math.pi / 2)
    exponent = (math.log(length) + log_scale - math.log(x)) / (2 * q + 1)
    return math.exp(exponent) * (1 + 100 * eps)


def deflated_norm(
    A: Any, kept: LowRank, rng: np.random.Generator, *, powers: int = 3, enough: float = 0.0
) -> float:
    """Upper bound on |(I - UU') A (I - VV')|_2, for the kept triplets U, V."""
    ops = A if isinstance(A, Products) else products(A)

    # What one product leaves outside the kept vectors the next need not remove again.
    def outside(W: Array) -> Array:
        return W - kept.Vt.T @ (kept.Vt @ W)

    def apply(W: Array) -> Array:
        Y = ops.times(W)
        return Y - kept.U @ (kept.U.T @ Y)

    return power_bound(
        apply,
        lambda Y: outside(ops.transpose_times(Y)),
        ops.shape[1],
        ops.reference,
        rng,
        powers=powers,
        enough=enough,
        prepare=outside,
    )


def raised(s: Array, residual: float, tail: float) -> Array:
    """Upper bounds on the leading singular values from Ritz values s.

    Valid when A V = U s, `residual` >= |A'U - V s|_2 and `tail` bounds the deflated norm.
    """
    values = np.asarray(to_numpy(s), dtype=float)
    always = np.sqrt(values**2 + tail**2 + residual**2)
    gap = values**2 - tail**2
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = values * np.sqrt(1 + residual**2 / gap)
    upper = np.where(gap > 0, np.minimum(always, apart), always)
    return like(upper * (1 + 4 * eps_of(s)), s)


def spectral_norm_bound(A: Any, rng: np.random.Generator, *, powers: int = 3) -> float:
    """Upper bound on the largest singular value: exact if small, else randomised.

    More `powers` cost two products each and make the bound tighter.
    """
    ops = products(A)
    if ops.is_dense and min(ops.shape) <= EXACT_BELOW:
        largest = float(decompositions.svdvals(A)[0])
        return largest * (1 + decompositions.svd_error(min(ops.shape)) * eps_of(A))
    direct = power_bound(
        ops.times, ops.transpose_times, ops.shape[1], ops.reference, rng, powers=powers
    )
    found = thin_svd(A, 2, tol=1e-3, rng=rng, strict=False).triplets
    R = ops.transpose_times(found.U) - found.Vt.T * found.s
    residual = float(namespace(R).linalg.vector_norm(R))
    tail = deflated_norm(A, found, rng, powers=powers)
    # far from the rest, the Ritz value is nearly exact; close to it, `direct` is better
    return min(direct, max(float(raised(found.s, residual, tail)[0]), tail))
