"""Proof from a dual point with one number for each observed entry; X is never stored.

With S the sparse matrix of the dual point q, f* >= min over X of G(X) - <S, X>, less h*(S).
The first is a sum of conjugates. The second needs an upper bound on the largest singular value
of S. If most entries are observed and the shorter side is not long, it comes from the Gram
matrix of S. Otherwise a randomised bound is taken. At a solution that value is repeated as
often as the rank, so the triplets near it are deflated first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weakprox.certificates.evidence import OnEntries
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, gram, namespace
from weakprox.linalg.bounds import chebyshev_bound, norm_bound
from weakprox.linalg.decompositions import eigvalsh
from weakprox.linalg.filtered import chebyshev
from weakprox.linalg.gram_svd import gram_error, squared
from weakprox.linalg.operators import Products
from weakprox.linalg.threads import all_threads
from weakprox.losses.filled import SHORT
from weakprox.losses.observed import Effects, Observed
from weakprox.passes import ValueForm
from weakprox.passes.ritz import refined, spanned, whitened
from weakprox.protocols import Bound, OwnBound

CLOSE = 0.93  # triplets with values above this share of the largest are deflated
BETWEEN = 0.975  # share of the largest value at which a bound on the rest is sharp enough
ROUNDS = 8  # rounds in which more triplets are deflated
FILTER = 6  # degree of the polynomial that finds further triplets; 8 finds no more of them
APART = 0.05  # sine of the angle from which a direction counts as different
VECTORS = 16  # random vectors of the bound; more if further triplets must be deflated
DEGREE = 120  # largest number of products of the bound on the rest of S
SKEW = 1e-9  # largest distance from orthonormal vectors that allows a conclusion
TINY = 1e-140  # norms below this are bounded by the largest entry
UNSCALED = 1e60  # sizes up to which, and down to whose inverse, squares keep their digits
TRIALS = 12  # values of the dual function that are computed to choose the length of q
Vector = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Triplets:
    """S V = U diag(s), with orthonormal columns of U and of V."""

    U: Array
    s: Vector
    V: Array

    def above(self, least: float) -> Triplets:
        """The triplets with values of at least this size."""
        count = max(1, int((self.s >= least).sum()))
        return Triplets(self.U[:, :count], self.s[:count], self.V[:, :count])


def beside(V: Array, W: Array) -> Array:
    """The orthonormal columns of V and what the columns of W add to them."""
    xp = namespace(V)
    lengths = xp.linalg.vector_norm(W, axis=0)
    W = W / xp.where(lengths > 0.0, lengths, 1.0)
    # once is enough: the directions kept below are much longer than rounding errors
    W = W - V @ (V.T @ W)
    far = np.flatnonzero(host(xp.linalg.vector_norm(W, axis=0)) > APART)
    most = int(V.shape[0]) - int(V.shape[1])
    index = far[:most]
    if not arrays.is_numpy(W):
        index = xp.asarray(index, device=arrays.device_of(W))
    return xp.concat([V, W[:, index]], axis=1) if len(far) else V


def filtered(data: Observed, q: Array, W: Array, least: float) -> Array:
    """T(2 S'S/a^2 - I) W with a Chebyshev polynomial T, which amplifies values above a."""

    def square(B: Array) -> Array:
        return data.transpose_times(q, data.times(q, B))

    if least < TINY:  # no value is truncated, for example because the ball has no effect
        return square(W)
    return chebyshev(square, W, least, FILTER)


def triplets(data: Observed, q: Array, V: Array, powers: int = 1) -> Triplets:
    """Ritz triplets of S after `powers` steps with S'S from a block of columns.

    The last step needs no orthonormal columns: a generalised eigenproblem takes their place.
    """
    S = Products(data.shape, partial(data.times, q), partial(data.transpose_times, q), V, None)
    start = V
    for _ in range(powers - 1):
        V = whitened(S.left(whitened(S.right(V), rounds=1)), rounds=1)
    found = spanned(S, S.left(S.right(V))) or refined(S, start, powers=powers)
    return Triplets(found.U, found.s, found.V)


@dataclass(frozen=True, eq=False)
class ObservedDual(OwnBound):
    """A dual point q on the observed entries, with triplets of its matrix S.

    The triplets may be None if S is an array (`exact`).
    """

    data: Observed
    q: Array
    form: ValueForm
    found: Triplets | None
    effects: Effects
    known: float | None = None  # upper bound on the norm of S, if there is one already

    @property
    def exact(self) -> bool:
        """True if the norm of S comes from all of its singular values."""
        return self.data.is_full() and min(self.data.shape) <= SHORT

    @property
    def rests_on(self) -> str:
        """The basis of the bound, as in `Certificate.rests_on`."""
        return "exact" if self.exact else "high-probability"

    @property
    def estimate(self) -> float:
        """Estimate of the lower bound: Ritz values are at most the singular values."""
        kept: dict[str, float] = vars(self)  # cached_property blocks other runs in Python 3.11
        if "_estimate" not in kept:
            norm = self._whole_norm() if self.found is None else float(self.found.s[0])
            kept["_estimate"] = self.best(norm)[0]
        return kept["_estimate"]

    def proof(self, rng: np.random.Generator) -> Bound:
        """Return the bound, proved by the best multiple of q.

        If the norm of S was known, q is the caller's own, and is overwritten by its multiple.
        """
        norm = self.norm(rng)
        lower, length = self.best(norm)
        if self.known is None or not arrays.is_numpy(self.q):
            return Bound(lower, self.rests_on, OnEntries(length * self.q, length * norm))
        np.multiply(self.q, length, out=self.q)
        vars(self)["known"] = length * norm * (1.0 + 4 * arrays.DOUBLE)
        return Bound(lower, self.rests_on, OnEntries(self.q, length * norm))

    def norm(self, rng: np.random.Generator) -> float:
        """Upper bound on the largest singular value of S.

        If the rest of S is not clearly smaller than its deflated part, the vectors that show
        it are deflated as well.
        """
        data, q, found = self.data, self.q, self.found
        if found is None or self.exact:
            return self._whole_norm()
        # the Frobenius norm is at most this; squares of smaller numbers would underflow
        unit = math.prod(
            float(namespace(x).max(x)) for x in (data.left, data.right) if x is not None
        )
        whole = unit * float(namespace(q).max(namespace(q).abs(q))) * math.sqrt(data.size)
        if whole < TINY:
            return whole
        if float(found.s[0]) < TINY:
            return min(whole, unit * self._cancelled())
        best = math.inf
        for k in range(ROUNDS):
            kept = found.above(CLOSE * float(found.s[0]))
            tail, W = self._tail(kept, rng, max(VECTORS, k and len(found.s) // 4))
            best = min(best, self._combined(kept, tail))
            shown = tail <= self._enough(found) or len(found.s) >= min(data.shape)
            if shown and best < math.inf:  # it is infinite if the vectors are too skew
                break
            found = triplets(data, q, beside(found.V, W))
        # rounding of products: sums of as many terms as a row or column has entries
        longest = int(max(data.pattern.row_counts.max(), data.pattern.column_counts.max()))
        size = math.sqrt(float(namespace(q).sum(q * q)))
        return best + 4 * arrays.eps_of(q) * math.sqrt(longest) * size

    def _cancelled(self) -> float:
        """Upper bound on the norm of S without scalings, if observations of an entry cancel."""
        xp, q = namespace(self.q), self.q
        most, least, places = self.data.pattern.repeated(q)
        rounding = arrays.eps_of(q) * (self.data.size - places) * arrays.total(xp.abs(q))
        return max(most, -least) * math.sqrt(places) + rounding

    def _whole_norm(self) -> float:
        """Upper bound on the norm of S as an array."""
        return whole_norm(self.data.full(self.q)) if self.known is None else self.known

    def _enough(self, found: Triplets) -> float:
        """A sufficiently sharp bound on the rest of S: all norms below lam are equivalent."""
        lam = self.form.lam if math.isinf(self.form.tau) else 0.0
        return BETWEEN * max(float(found.s[0]), lam)

    def _tail(self, kept: Triplets, rng: Any, vectors: int) -> tuple[float, Array]:
        """Upper bound on the norm of S outside of these triplets, and vectors that show it."""
        data, q, U, V = self.data, self.q, kept.U, kept.V
        if len(kept.s) >= min(data.shape):
            return 0.0, V
        products = partial(data.times, q), partial(data.transpose_times, q)
        limits: Any = {"enough": self._enough(kept), "degree": DEGREE, "vectors": vectors}
        return chebyshev_bound(*products, U, V, rng, **limits)

    def _combined(self, kept: Triplets, tail: float) -> float:
        """Upper bound on the norm of S from its triplets and a bound on the rest."""
        U, s, V = kept.U, kept.s, kept.V
        one = np.eye(len(s))
        off = max(float(np.abs(gram(F) - one).max()) * len(s) for F in (U, V))
        if not off <= SKEW:
            return math.inf
        R = self.data.transpose_times(self.q, U) - V * arrays.like(s, V)
        return norm_bound(s, gram(R), tail) * (1 + 2 * off)

    def best(self, norm: float) -> tuple[float, float]:
        """Return the best bound from a multiple t q, given the norm of S, and t."""
        from scipy.optimize import minimize_scalar  # slow to import

        form = self.form
        if not math.isfinite(norm):
            return -math.inf, 1.0
        most = math.inf
        if math.isinf(form.tau):
            most = form.lam / norm * (1 - 4 * 2.0**-52) if norm > 0.0 else math.inf

        def at(t: float) -> float:
            found, allowance = self.data.bound(self.q, self.effects, t)
            return found - form.conjugate(t * norm)[0] - allowance

        first = min(1.0, most)
        # rounding may have taken q out of the domain of a conjugate
        trials = (first * (1.0 - less) for less in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0))
        best = next(pair for t in trials if math.isfinite((pair := (at(t), t))[0]) or not t)
        if first < 1.0 and not math.isfinite(form.tau) and norm > 0.0 and most > 0.9:
            return best  # q is a gradient: the dual function grows up to t = 1
        high = min(most, 2.0)
        options = {"maxiter": TRIALS}
        with np.errstate(invalid="ignore"):  # values may be infinite
            bounded: Any = {"bounds": (0.0, high), "method": "bounded", "options": options}
            found = minimize_scalar(lambda t: -at(t), **bounded)
        return max(best, (-float(found.fun), float(found.x)))


def whole_norm(S: Vector) -> float:
    """Upper bound on the norm of an array from the eigenvalues of its Gram matrix."""
    unit = max(float(S.max(initial=0.0)), -float(S.min(initial=0.0)))
    if not unit > 0.0:
        return 0.0
    if not 1.0 / UNSCALED < unit < UNSCALED:  # squares may underflow or overflow
        return unit * whole_norm(S / unit)
    B = S if S.shape[0] >= S.shape[1] else S.T
    with all_threads(int(B.shape[1])):
        squares = np.maximum(eigvalsh(squared(B))[::-1], 0.0)
    largest = float(squares[0]) + gram_error(int(B.shape[0]), squares)
    return math.sqrt(largest) * (1 + 8 * arrays.DOUBLE)


def host(x: Array) -> Vector:
    """The array in host memory, in float64."""
    return np.asarray(arrays.to_numpy(x), dtype=float)
