"""Upper bounds on singular values that a truncated decomposition does not compute.

Ritz values bound singular values from below, so they cannot be used directly in a lower bound
on an optimum. Let e be at least the norm of A deflated on both sides, and R the residual of
the kept triplets. Then the true values lie below `raised`. The bound e itself comes from a few
products with fresh Gaussian vectors and is wrong with probability at most `FAILURE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import Vector, independent, orthonormal, thin_svd
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    device_of,
    eps_of,
    gaussian,
    gram,
    like,
    namespace,
    sqnorm,
    to_numpy,
    wide,
)
from weakprox.linalg.gram_svd import product_error, squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import Products, products
from weakprox.linalg.threads import all_threads

# Failure probability of one randomised bound. A run that keeps the best of a hundred proofs is
# then wrong with probability at most 1e-10.
FAILURE = 1e-12
# Sharp bounds: the relative distance from the largest Ritz value at which a bound is sharp,
# the deflated values relative to the largest, the accuracy of their triplets, the limits on
# sweeps and on the share of all triplets, and the power steps for the rest.
SHARP, CLOSE, SHARP_RESIDUAL = 1e-9, 0.95, 1e-7
SHARP_SWEEPS, SHARP_SHARE, SHARP_POWERS = 20, 0.1, 40
THOROUGH = 2000  # size up to which a full decomposition is faster than a sharp bound
# share of the value that a bound must reach, from which Chebyshev polynomials grow
BELOW = 0.9875
GROWING = 4  # steps over which the growth of vectors is measured
LARGEST = 1e12  # length of a vector at which a bound cannot become much smaller
TINY = 1e-280
DIRECT = 48  # size up to which estimates come from all eigenvalues
EXACT_BELOW = 600  # size up to which one full decomposition per certificate is cheap


def power_bound(
    times: Callable[[Array], Array],
    transpose_times: Callable[[Array], Array],
    columns: int,
    reference: Array,
    rng: np.random.Generator,
    *,
    powers: int = 3,
    vectors: int = 16,
    enough: float = 0.0,
    level: float = 0.0,
    kept: LowRank | None = None,
    hopeful: bool = False,
) -> float:
    """Upper bound on the norm s of E from |T_k(E/a) W|, W Gaussian, k up to 2 `powers` + 1.

    E is the matrix of the products or, with `kept` triplets U, V, (I - UU') E (I - VV').
    T_k is the Chebyshev polynomial for singular values up to a, the `level`, which should be
    about the norm; if it is 0, T_k is the power. Every k takes one product, with E or E'.

    If s > a, the norm of that block is at least T_k(s/a) |W'v|, v the singular vector of s,
    and W'v is a standard normal vector. It is therefore safe to divide by a length that it
    exceeds with probability 1 - FAILURE. All k rely on this one event, so the first bound
    below `enough` is returned. With `hopeful`, also stop as soon as the growth of the blocks
    shows that none will be.
    """
    sure, best, log_scale, logs = log_length(vectors), math.inf, 0.0, list[float]()
    eps, most = eps_of(reference), 2 * powers + 1
    level = min(level, 0.9 * enough) if enough else level
    before: Any = None
    W = gaussian(rng, (columns, vectors), reference)
    W = W if kept is None else W - kept.Vt.T @ (kept.Vt @ W)
    for k in range(1, most + 1):
        # the result of one product is deflated, so the next need not deflate it again
        if k % 2:
            Y = times(W)
            Y = Y if kept is None else Y - kept.U @ (kept.U.T @ Y)
        else:
            Y = transpose_times(W)
            Y = Y if kept is None else Y - kept.Vt.T @ (kept.Vt @ Y)
        if level and k > 1:  # monic polynomials: those of degree 0 and 1 are 1 and x
            Y = Y - ((0.5 if k == 2 else 0.25) * level * level) * before
        length = _norm_of_block(Y)
        if length == 0.0:
            return min(best, level)
        log_scale += math.log(length)
        logs.append(log_scale - sure)
        best = min(best, _norm_at(logs[-1], k, level) * (1 + 100 * k * eps))
        if k == most or best <= enough:
            break
        if hopeful and _hopeless(logs, level, enough, most):
            break
        # avoids overflow in float32
        W, before = Y * (1.0 / length), W * (1.0 / length) if level else None
    return best


def _norm_of_block(Y: Array) -> float:
    """The norm of a narrow block, or a bound if squares underflow."""
    square = float(decompositions.small_eigh(gram(Y))[0][-1])
    if square > TINY:
        return math.sqrt(square)
    return math.sqrt(math.prod(Y.shape)) * float(namespace(Y).max(namespace(Y).abs(Y)))


def _norm_at(log_length: float, k: int, level: float) -> float:
    """The number at which the monic polynomial of degree k has this logarithm, or the level."""
    if not level:
        return math.exp(log_length / k)
    height = log_length + (k - 1) * math.log(2.0) - k * math.log(level)
    # acosh(x) is at most log(2 x)
    angle = math.acosh(max(1.0, math.exp(height))) if height < 30.0 else height + math.log(2.0)
    return level * math.cosh(angle / k)


def _hopeless(logs: list[float], level: float, enough: float, most: int) -> bool:
    """Return True if no later bound of `power_bound` is expected to be small enough.

    Powers grow by a factor that only increases. So do polynomials in the end, if s is above
    the level.
    """
    k, over = len(logs), GROWING if level else 1
    if k <= over or k < 3 or not enough > 0.0:
        return False
    growth = (logs[-1] - logs[-1 - over]) / over
    return _norm_at(logs[-1] + (most - k) * growth, most, level) > enough


def least_bound(logs: float, growth: float, q: int, powers: int) -> float:
    """The least `power_bound` to expect after `powers` steps, from those after q steps.

    `logs` is the logarithm whose share 1/(2q + 1) gives the bound after q steps, and `growth`
    the factor by which the last product has lengthened every vector. That factor only
    increases.
    """
    ahead = 2 * (powers - q) * math.log(growth) if growth > 0.0 else -math.inf
    return math.exp((logs + ahead) / (2 * powers + 1))


def log_exceeded(vectors: int) -> float:
    """Logarithm of a bound that the largest of some normal numbers almost surely exceeds."""
    return math.log(FAILURE ** (1.0 / vectors) * math.sqrt(math.pi / 2))


def log_length(size: int) -> float:
    """Logarithm of a bound that the length of a normal vector almost surely exceeds.

    Its density is at most (2 pi)^(-size/2).
    """
    return 0.5 * math.log(2.0) + (math.log(FAILURE) + math.lgamma(0.5 * size + 1.0)) / size


def chebyshev_bound(
    times: Callable[[Array], Array],
    transpose_times: Callable[[Array], Array],
    U: Array,
    V: Array,
    rng: np.random.Generator,
    *,
    enough: float,
    degree: int = 40,
    vectors: int = 16,
    below: float = BELOW,
    hopeful: bool = False,
) -> tuple[float, Array]:
    """Upper bound on the norm s of E from |T_q(2 E'E/a^2 - I) w|, w Gaussian, a < `enough`.

    E is (I - UU') A (I - VV'), A the matrix of the products, U and V orthonormal. a is the
    share `below` of `enough`; s should not be much larger than a. Also return these vectors:
    if the bound is not small enough, they show the directions in which E is large.

    T_q is a Chebyshev polynomial, and the longest vector is compared with a length that
    |<w, v>| exceeds. T_q stays below one for singular values up to a and grows much faster
    beyond, so that few products show that s is not much larger than a. Stop as soon as the
    bound is below `enough`. With `hopeful`, also stop as soon as the vectors grow so fast that
    it will never be.
    """
    xp = namespace(V)
    W = gaussian(rng, (int(V.shape[0]), vectors), V)
    W = W - V @ (V.T @ W)
    a = below * enough
    x = FAILURE ** (1.0 / vectors) * math.sqrt(math.pi / 2)
    before, best, lengths = W, math.inf, list[float]()
    for q in range(1, degree + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # s may be far above a
            Y = times(W)
            Y = transpose_times(Y - U @ (U.T @ Y))
            product = (Y - V @ (V.T @ Y)) * (2.0 / (a * a)) - W
            W, before = (product, W) if q == 1 else (2.0 * product - before, W)
            length = float(xp.max(xp.linalg.vector_norm(W, axis=0)))
        if not math.isfinite(length):
            return best, before
        if length > LARGEST:
            break
        largest = math.cosh(math.acosh(max(1.0, length / x)) / q)
        best = min(best, a * math.sqrt(0.5 * (1.0 + largest)) * (1 + 100 * q * eps_of(W)))
        if best <= enough:
            break
        lengths.append(length)
        if hopeful and q > 2 * GROWING:  # the rate of growth only increases
            rate = math.log(length / lengths[-1 - GROWING]) / GROWING
            if rate > 0.0 and a * math.cosh(0.5 * rate) > enough:
                break
    return best, W


def norm_bound(s: Vector, gram: Vector, tail: float) -> float:
    """Upper bound on the norm of A, given A V = U diag(s) for orthonormal U and V.

    `gram` is R'R with R = A'U - V s, and `tail` bounds the norm t of A outside U and V. Then
    |A|^2 <= max(|s^2 + (1 + 1/x) R'R|, (1 + x) t^2) for every x > 0: the cross term between
    both parts, 2 t |R a| |b|, is at most x t^2 |b|^2 + |R a|^2 / x.
    """
    if not math.isfinite(tail):
        return math.inf
    top, rest = float(s.max()), math.sqrt(max(0.0, float(np.trace(gram))))
    square = tail * tail
    trials = [max(top * top / square - 1.0, rest / tail, 1e-12) if tail > 0.0 else 1e12]
    worst = float(decompositions.eigvalsh(gram)[-1])
    if tail > 0.0 and worst > 0.0:  # where top^2 + (1 + 1/x) |R'R| = (1 + x) t^2
        b = square - top * top - worst
        trials.append((math.sqrt(b * b + 4.0 * square * worst) - b) / (2.0 * square))
    best = math.inf
    for x in trials:
        inside = np.diag(s * s) + (1.0 + 1.0 / max(x, 1e-12)) * gram
        first = float(decompositions.eigvalsh(0.5 * (inside + inside.T))[-1])
        best = min(best, max(first, (1.0 + max(x, 1e-12)) * square))
    return math.sqrt(best) * (1 + (64 + len(s)) * DOUBLE)


def deflated_norm(A: Any, kept: LowRank, rng: np.random.Generator, **limits: Any) -> float:
    """Upper bound on |(I - UU') A (I - VV')|_2 for the kept triplets; see `power_bound`."""
    ops = A if isinstance(A, Products) else products(A)
    shape, like = ops.shape, ops.reference
    return power_bound(ops.right, ops.left, shape[1], like, rng, kept=kept, **limits)


def factored_bound(D: Array, levels: Iterable[float], *, symmetric: bool = False) -> float:
    """The first of some levels that is an upper bound on the norm of D; infinite if none is.

    A Cholesky factorisation of t^2 I - D'D that succeeds proves |D|_2 <= t, up to the rounding
    errors of the product and of the factorisation (Higham, "Accuracy and Stability of Numerical
    Algorithms", theorem 10.3), which are subtracted first. It takes a small share of the time
    of a decomposition, and values close together do no harm. If `symmetric`, bound the largest
    eigenvalue of a symmetric D by a factorisation of t I - D.
    """
    D = wide(D)
    n, size = min(int(D.shape[0]), int(D.shape[1])), sqnorm(D)
    if symmetric:
        G, size = 0.5 * (D + D.T), math.sqrt(size)
        error = DOUBLE * size
        size *= math.sqrt(n)  # a bound on the absolute value of the trace
    else:
        with all_threads(n):
            G = squared(D if D.shape[0] >= D.shape[1] else D.T)
        error = product_error(max(int(D.shape[0]), int(D.shape[1])), size)
    G *= -1.0
    diagonal = namespace(G).linalg.diagonal(G) * 1.0
    for level in levels:
        top = level if symmetric else level * level
        # the trace of the matrix is at most n top + size
        margin = error + (n + 2) * DOUBLE * (n * top + size)
        if not top > max(margin, TINY):  # squares of smaller numbers underflow
            continue
        with all_threads(n):
            if (
                decompositions.cholesky(_with_diagonal(G, diagonal + (top - margin)))
                is not None
            ):
                return level
    return math.inf


def _with_diagonal(G: Array, diagonal: Array) -> Array:
    """G itself with another diagonal."""
    index = namespace(G).arange(int(G.shape[0]), device=device_of(G))
    G[index, index] = diagonal
    return G


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


def spectral_norm_bound(
    A: Any, rng: np.random.Generator, *, powers: int = 3, sharp: bool = False
) -> float:
    """Upper bound on the largest singular value: exact if A is small, else randomised.

    Each of the `powers` costs two products and makes the bound tighter. With `sharp`, the
    bound is nearly equal to the largest Ritz value. At the solution of a low-rank problem,
    that value is repeated as often as the rank.
    """
    ops = products(A)
    if ops.is_dense and min(ops.shape) <= (THOROUGH if sharp else EXACT_BELOW):
        with all_threads(min(ops.shape)):
            largest = float(decompositions.svdvals(A)[0])
        return largest * (1 + decompositions.svd_error(min(ops.shape)) * eps_of(A))
    if sharp:
        return _sharp_bound(ops, A, rng)
    direct = power_bound(
        ops.times, ops.transpose_times, ops.shape[1], ops.reference, rng, powers=powers
    )
    found = thin_svd(A, 2, tol=1e-3, rng=rng, strict=False).triplets
    # a well-separated Ritz value is nearly exact; otherwise `direct` is better
    return min(direct, _deflated_bound(ops, found, rng, powers))


def _deflated_bound(
    ops: Products, found: LowRank, rng: np.random.Generator, powers: int, enough: float = 0.0
) -> float:
    """Upper bound on the largest singular value from triplets and a bound on the rest."""
    R = ops.transpose_times(found.U) - found.Vt.T * found.s
    residual = float(namespace(R).linalg.vector_norm(R))
    tail = deflated_norm(ops, found, rng, powers=powers, enough=enough)
    bound = max(float(raised(found.s, residual, tail)[0]), tail)
    return bound * (1 + 64 * eps_of(found.s))  # rounding of the Ritz values


def _sharp_bound(ops: Products, A: Any, rng: np.random.Generator) -> float:
    """Upper bound obtained by deflating every triplet with a value close to the largest."""

    def settled(s: Vector, residuals: Vector, after: float) -> bool:
        """Return True if all values close to the largest have been found and are accurate."""
        close = s >= CLOSE * s[0]
        return bool(not close[-1] and residuals[close].max() <= SHARP_RESIDUAL * s[0])

    best, rank, basis = math.inf, 8, None
    while rank <= SHARP_SHARE * min(ops.shape):
        svd = thin_svd(
            A,
            rank,
            start=basis,
            tol=SHARP_RESIDUAL,
            rng=rng,
            max_sweeps=SHARP_SWEEPS,
            strict=False,
            accept=settled,
        )
        values = np.asarray(to_numpy(svd.triplets.s), dtype=float)
        close = int((values >= CLOSE * values[0]).sum())
        if close < rank:
            kept, top = svd.triplets.leading(close), float(values[0])
            best = min(best, _deflated_bound(ops, kept, rng, SHARP_POWERS, 0.995 * top))
            if best <= (1 + SHARP) * top:
                return best
        rank, basis = 3 * rank, svd.basis
    if math.isfinite(best):
        return best
    return power_bound(
        ops.times, ops.transpose_times, ops.shape[1], ops.reference, rng, powers=SHARP_POWERS
    )


def norm_estimate(A: Array, start: Array) -> float:
    """Estimate from below of the largest singular value: one power step from a block.

    Small matrices, and blocks of many columns, cost more than the eigenvalues of A'A.
    """
    m, n, width = int(A.shape[0]), int(A.shape[1]), int(start.shape[1])
    B = A if m >= n else A.T
    if min(m, n) > max(DIRECT, 2 * width):
        B = A.T @ independent(A @ start)
    if int(B.shape[1]) == 0:  # A maps the block to zero
        return 0.0
    return math.sqrt(max(0.0, float(decompositions.eigvalsh(B.T @ B)[-1])))


def largest_eigenvalue_estimate(A: Array, start: Array) -> float:
    """Estimate from below of the largest eigenvalue of a symmetric matrix, from a block."""
    xp = namespace(A)
    if int(A.shape[0]) <= max(2 * DIRECT, 2 * int(start.shape[1])):
        return float(decompositions.eigvalsh(A)[-1])
    W = orthonormal(start)
    Q = orthonormal(xp.concat([W, independent(A @ W - W @ (W.T @ (A @ W)))], axis=1))
    H = Q.T @ (A @ Q)
    return float(decompositions.eigvalsh((H + H.T) / 2)[-1])
