"""One iteration of a splitting on large arrays: a step of z, and the triplets of the new z.

Let X = U diag(s) Vt be given in factors, C the centre of a squared distance and z the target
of the splitting. An iteration needs z and sums over entries of functions of C, z and X. So X
is computed tile by tile, used and discarded, by the fastest passes for such arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import (
    DOUBLE,
    Array,
    eps_of,
    in_file,
    is_array,
    like,
    namespace,
    norm,
    rough_sqnorm,
    set_aside,
    squares_of,
    to_numpy,
    wide,
)
from weakprox.linalg.bounds import EXACT_BELOW, deflated_norm, factored_bound
from weakprox.linalg.lowrank import LowRank, Projection
from weakprox.linalg.operators import Products
from weakprox.linalg.tiled import Tiled
from weakprox.passes import compiling, reference
from weakprox.passes.interface import Passes
from weakprox.passes.mirrored import Mirrored
from weakprox.passes.reference import Step, Sums
from weakprox.passes.ritz import (
    Ritz,
    Vector,
    eigen,
    eigenpairs,
    refined,
    ritz,
    stepped,
    whitened,
)

POWERS = 10  # limit for a randomised bound, which stops as soon as it is small enough
# its random vectors in host memory, where the time of a product is about proportional to them
FEW = 8
DIGITS = 1e-8  # largest relative error of sums that follow from squares


def passes_for(z: Array, *others: Array) -> Passes:
    """The fastest passes for such arrays.

    Operators and arrays in files are read tile by tile by `reference`. Arrays stored
    elsewhere provide their own passes as an attribute `passes`.
    """
    own: Passes | None = getattr(z, "passes", None)
    if own is not None:
        return own
    for x in (z, *others):
        if isinstance(x, Tiled) or in_file(x):
            return reference
    if isinstance(z, np.ndarray):
        large = z.size >= compiling.COMPILED_FROM and all(_plain(x) for x in (z, *others))
        run: Passes | None = None
        if large and compiling.current():
            run = compiling.module(compiling.DENSE)
        return run or reference
    if not getattr(z, "is_cuda", False) or z.element_size() not in (4, 8):
        return reference
    if not all(x.is_contiguous() for x in (z, *others)):
        return reference
    try:
        from weakprox.passes import cuda
    except ImportError:  # torch without Triton
        return reference
    return cuda


def blend_into(X: Array, V: LowRank, step: float, scratch: Array | None = None) -> None:
    """Overwrite X by (1 - step) X + step V; `scratch`, like X, may be overwritten too."""
    passes_for(X).blend_into(X, V, step, scratch)


def _plain(x: Array) -> bool:
    return isinstance(x, np.ndarray) and bool(x.flags.c_contiguous) and x.dtype in ("f4", "f8")


def products_for(z: Array, passes: Passes | None = None) -> Products:
    """Products of z with narrow blocks, by these passes or the fastest for it."""
    passes = passes or passes_for(z)
    exact = passes.IN_FLOAT64 or z.dtype.itemsize == 8
    right, left = partial(passes.quick_times, z), partial(passes.quick_transpose_times, z)
    return Products((int(z.shape[0]), int(z.shape[1])), right, left, z, z, exact)


class Engine:
    """Holds the data C and the target z, updates z and computes what proofs need.

    Parameters
    ----------
    C, z : arrays of shape (m, d)
        z is overwritten.
    symmetric : bool
        Whether C is symmetric, so that eigenpairs of z are computed.
    mirrored : bool
        Whether z need not be symmetric all the same, so that its symmetric part is decomposed.
    beside : array beside C, optional
        That of the steps, from which a z that is not stored is recomputed.
    """

    def __init__(
        self,
        C: Array,
        z: Array,
        *,
        symmetric: bool = False,
        mirrored: bool = False,
        beside: Any = None,
    ) -> None:
        self.C, self.z, self.symmetric = C, z, symmetric
        self._same = False  # whether z is equal to C
        self._whole: tuple[float, float] | None = None
        if isinstance(z, reference.Replayed):
            z.beside = beside
        passes = passes_for(z, C)
        self._passes: Passes = Mirrored(passes) if mirrored else passes
        self.eps, self._cast = eps_of(z), namespace(z).astype
        self.products = products_for(z, self._passes)
        self._decompose = partial(eigenpairs if symmetric else refined, self.products)

    def ritz(self, block: Array, product: Array | None = None, powers: int = 1) -> Ritz:
        """Triplets or eigenpairs of z from a block; `product` is z times it, if known."""
        return self._decompose(block, product, powers)

    def in_float64(self, found: Ritz) -> Ritz:
        """The triplets recomputed with products in float64."""
        Q = whitened(wide(found.V))
        B = self._passes.times(self.z, Q)
        return eigen(B, Q, exact=True) if self.symmetric else ritz(B, Q, exact=True)

    def begin(self, k: Step, block: Array, powers: int) -> Ritz:
        """The first target, and its triplets from a random block."""
        product = self._passes.first(self.C, self.z, k, block)
        self._same = k.free and k.gamma * k.beta == 1.0
        return self._decompose(block, product, powers)

    def advance(
        self, X: LowRank | None, values: Vector, k: Step, change: float, near: Ritz, powers: int
    ) -> tuple[LowRank, Sums, Callable[[], Ritz]]:
        """Update z; return X, estimates there, and a function for the new target's triplets.

        X is the proximal point of z, computed from its triplets `near` if None; `values` are
        the singular values of X.
        """
        X, self._same = X or self.rounded(near, values), False
        sums, product = self._passes.advance(self.C, self.z, X, k, change, near.V)
        if not self.symmetric:
            known = self.products, near, product, len(values), powers
            return X, sums, partial(stepped, *known)
        return X, sums, partial(self.ritz, near.V, product, powers)

    def rounded(self, found: Ritz, values: Vector) -> LowRank:
        """The point with these values and vectors, in the dtype of z."""
        r, z, cast = len(values), self.z, self._cast
        U, V = cast(found.U[:, :r], z.dtype), cast(found.V[:, :r], z.dtype)
        s = values if isinstance(z, np.ndarray) else like(values, z)
        return Projection(U, s, V.T, found.s[:r])

    def look(self, found: Ritz, values: Vector, k: Step, allowed: float = 0.0) -> Sums:
        """The sums in float64 at the point with these values and vectors.

        They may follow from squares if the value has at most the `allowed` error then, and many
        correct digits.
        """
        X = LowRank(found.U, like(values, found.U), found.V.T)
        whole = self.whole if allowed else None
        if whole is not None:
            quick = self._from_squares(found, X, k, *whole)
            if quick.rounding(k, DOUBLE, X.shape) <= min(allowed, DIGITS * quick.value(k)):
                return quick
        sums: Sums = self._passes.look(self.C, self.z, X, k)
        return sums

    @property
    def whole(self) -> tuple[float, float] | None:
        """|C|^2 and a bound on its rounding error, if z is C, in memory and float64."""
        here = is_array(self.C) and getattr(self.z, "passes", None) is None
        if not (self._same and here and self.eps == DOUBLE):
            return None
        if self._whole is None:
            self._whole = rough_sqnorm(self.C)
        return self._whole

    def _from_squares(
        self, found: Ritz, X: LowRank, k: Step, whole: float, lost: float
    ) -> Sums:
        """The sums if z is C and R is zero: C V = U s is known, and u = beta (C - X)."""
        p = np.asarray(to_numpy(X.s), dtype=float)
        squares = squares_of(found.U, found.V)
        left, right = (np.asarray(to_numpy(square), dtype=float) for square in squares)
        square, across = float(p @ (left * right) @ p), float((p * found.s) @ np.diagonal(left))
        distance = max(0.0, whole - 2.0 * across + square)
        # an inner product u'Cv has an error of up to that many roundings of |u| |C| |v|
        size = math.sqrt(whole) + float(p.sum())
        error = lost + (64 + sum(self.z.shape)) * DOUBLE * size * size
        if self.symmetric:  # V'C V = diag(s) if V is orthonormal
            off = float(np.abs(left - np.eye(len(p))).max())
            error += 4.0 * len(p) * off * float(np.abs(found.s).max() * p.sum())
        u = k.beta * (across - square)
        return Sums(distance, 0.0, 0.0, u, 0.0, square, error=error)

    def squares(self, found: Ritz, rng: np.random.Generator) -> Vector:
        """R'R for the residual R = z'U - V s, U'U, V'V, and V'R.

        `tail` may be called next with this rng: its first product can be computed here.
        """
        U, V = found.U, found.V
        R = self._passes.transpose_times(self.z, U) - V * like(found.s, V)
        stacked = namespace(R).stack([R.T @ R, U.T @ U, V.T @ V, V.T @ R])
        return np.asarray(to_numpy(stacked), dtype=float)  # one transfer to the host

    def tail(
        self, found: Ritz, rng: np.random.Generator, enough: float, level: float = 0.0
    ) -> float:
        """Upper bound on |(I - UU') z (I - VV')|_2; refinement stops once it is `enough`.

        It also stops if no bound can be that small. `level` is an estimate of that norm.
        For symmetric z, it may bound the largest eigenvalue alone.
        """
        A, dtype, cast = self.products, self.z.dtype, self._cast
        kept = LowRank(cast(found.U, dtype), like(found.s, self.z), cast(found.V, dtype).T)
        if A.exact and dtype.itemsize == 4:  # kernels return their sums in float64
            right, left = A.right, A.left
            A = replace(A, right=lambda Q: cast(right(Q), dtype))
            A = replace(A, left=lambda Q: cast(left(Q), dtype))
        how: Any = {"powers": POWERS, "enough": enough, "level": level, "hopeful": True}
        if isinstance(self.z, np.ndarray):
            how["vectors"] = FEW
        bound = deflated_norm(A, kept, rng, **how)
        return min(bound, self._exact_tail(found)) if bound > enough else bound

    def factored_norm(self, found: Ritz, values: Vector, levels: Iterable[float]) -> float:
        """The first of some levels that bounds |z - X|_2, or its largest eigenvalue.

        X has these vectors and values. The bound is by a Cholesky factorisation, for arrays in
        this process only.
        """
        if getattr(self.z, "passes", None) is not None or not is_array(self.z):
            return math.inf
        D = wide(self.z) - LowRank(found.U, like(values, found.U), found.V.T).dense()
        size = norm(D) + float(np.abs(found.s).max())
        rounding = max(16, len(values)) * eps_of(D) * (size + float(values.sum()))
        return factored_bound(D, levels, symmetric=self.symmetric) + rounding

    def _exact_tail(self, found: Ritz) -> float:
        """The norm by a full decomposition for small matrices; infinity for others.

        Randomised bounds do not separate values that are close together.
        """
        z = self.z
        elsewhere = getattr(z, "passes", None) is not None
        if elsewhere or not is_array(z) or min(z.shape) > EXACT_BELOW:
            return math.inf
        Z, U, V = wide(z), found.U, found.V
        Z = Z - U @ (U.T @ Z)
        Z = Z - (Z @ V) @ V.T
        least = min(z.shape)
        if self.symmetric:  # only the largest eigenvalue matters
            largest = max(0.0, float(decompositions.eigvalsh(0.5 * (Z + Z.T))[-1]))
            allowed = decompositions.eigh_error(least) * eps_of(Z)
        else:
            largest = float(decompositions.svdvals(Z)[0])
            allowed = decompositions.svd_error(least) * eps_of(Z)
        size = float(np.abs(found.s).max()) + norm(Z)
        return largest + (64 * eps_of(Z) + allowed) * size

    def kept(self) -> Array:
        """The target, in an array that the engine does not overwrite."""
        return set_aside(self.z) if isinstance(self.C, Tiled) else self.z

    def adopt(self, found: Ritz) -> Ritz:
        """Triplets of z from another source, converted to the engine's arrays."""
        return found

    def own(self, found: Ritz) -> Ritz:
        """The triplets in arrays that the engine does not overwrite."""
        return found


@contextmanager
def engine_for(
    C: Array,
    arena: Any,
    width: int,
    k: Step,
    *,
    symmetric: bool = False,
    mirrored: bool = False,
) -> Iterator[Engine]:
    """The fastest engine for such data and steps, for one run at a time."""
    if getattr(C, "is_cuda", False):
        from weakprox.passes import device_engine

        C = C.contiguous()
        if k.has_kernel and not symmetric and device_engine.applies(C, width):
            with device_engine.lent(C, arena, k) as engine:
                yield engine
            return
    how: Any = {"symmetric": symmetric, "mirrored": mirrored, "beside": k.beside}
    yield Engine(C, arena.like(C), **how)
