"""The largest of n affine functions of X (Example 2 of the paper)."""

from __future__ import annotations

import functools
import math
import operator
from functools import cached_property

import numpy as np

from weakprox.arguments import nonnegative, refuse_foreign
from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, namespace, wide
from weakprox.linalg.bounds import spectral_norm_bound
from weakprox.linalg.simplex import project_simplex, quadratic_over_simplex
from weakprox.penalties.base import Combinable
from weakprox.protocols import Geometry, PenaltyCapabilities, Smoothability, Stated

COLUMNS = 1 << 16  # columns of the pieces that are converted to float64 at a time


class MaxAffine(Combinable):
    r"""Largest of affine pieces, :math:`R(X) = \max_i \langle A_i, X\rangle - b_i`.

    In max form over the probability simplex, phi(p) = <p, b>. The paper's smoothing is
    mu log((1/n) sum exp(z_i/mu)), evaluated after subtracting the largest z_i: gamma =
    log n, theta = min(|A|^2 / 2, max_i |A_i|_F^2). Dual methods use a Euclidean geometry
    instead. To penalise only violated constraints, add a pair (0, 0).

    Parameters
    ----------
    A : array of shape (n, m, d)
        The matrices A_i of the pieces.
    b : array of shape (n,), optional
        Offsets, zero by default.
    """

    curvature = 0.0
    separable = False
    rowwise = False

    def __init__(self, A: Array, b: Array | None = None) -> None:
        refuse_foreign("A", A)
        refuse_foreign("b", b)
        if not arrays.is_array(A) or A.ndim != 3 or min(A.shape) < 1:
            given = getattr(A, "shape", type(A).__name__)
            raise ShapeError("A", given, "an array (n, m, d), n >= 1")
        if not arrays.is_real(A):
            raise InputError("A", f"dtype {A.dtype}", "real numbers")
        if not arrays.is_floating(A):
            xp = namespace(A)
            A = xp.astype(A, xp.float64)
        if not arrays.all_finite(A):
            raise InputError("A", "NaN or infinite entries", "finite numbers")
        if b is None:
            b = arrays.like(np.zeros(A.shape[0]), A)
        elif not arrays.is_array(b) or tuple(b.shape) != (A.shape[0],):
            given = getattr(b, "shape", type(b).__name__)
            raise ShapeError("b", given, f"an array of shape ({A.shape[0]},)")
        elif not arrays.is_real(b):
            raise InputError("b", f"dtype {b.dtype}", "real numbers")
        b = namespace(A).asarray(b, dtype=A.dtype, device=arrays.device_of(A))
        if not arrays.all_finite(b):
            raise InputError("b", "NaN or infinite entries", "finite numbers")
        self.A = A
        self.b = b
        self._flat = namespace(A).reshape(A, (A.shape[0], -1))

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A function of few pieces; affine functions have no lower bound."""
        size = lambda: max(arrays.largest(part) for part in self.A)  # noqa: E731
        pieces = {"A": self.A, "b": self.b}
        return PenaltyCapabilities(
            proximal=self.proximal,
            pieces=self.pieces,
            in_unit=self.in_unit,
            in_float64=lambda: MaxAffine(wide(self.A), wide(self.b)),
            size=size,
            stated=Stated("largest", {"count": int(self.A.shape[0])}, lambda: pieces),
        )

    def in_unit(self, unit: float) -> MaxAffine:
        """R/unit^2 of X/unit."""
        return MaxAffine(self.A / unit, self.b / unit / unit)

    def __repr__(self) -> str:
        n, m, d = self.A.shape
        return f"MaxAffine({counted(n, 'piece')} on {m} x {d} matrices)"

    def __rmul__(self, factor: float) -> MaxAffine:
        """Positive multiple: multiply all pieces by the factor."""
        factor = nonnegative("factor", factor)
        return MaxAffine(factor * self.A, factor * self.b)

    __mul__ = __rmul__

    @cached_property
    def sqnorm(self) -> float:
        """Upper bound on |A|^2, the squared norm of X -> (<A_i, X>)_i."""
        return spectral_norm_bound(self.gram, np.random.default_rng(0))

    @cached_property
    def _theta(self) -> float:
        if self.A.shape[0] == 1:
            return 0.0  # a single affine piece is already smooth
        longest = float(namespace(self.gram).linalg.diagonal(self.gram).max())
        return min(self.sqnorm / 2, longest)

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(min(|A|^2/2, max |A_i|^2), log n, 0)."""
        return Smoothability(self._theta, math.log(self.A.shape[0]), 0.0)

    def pieces(self, X: Array) -> Array:
        """The n values <A_i, X> - b_i."""
        return self._flat @ namespace(X).reshape(X, (-1,)) - self.b

    def value(self, X: Array) -> float:
        """The largest piece."""
        return float(namespace(X).max(self.pieces(X)))

    def pull(self, y: Array) -> Array:
        """Sum of y_i A_i."""
        return namespace(y).reshape(y @ self._flat, tuple(self.A.shape[1:]))

    def dual_value(self, y: Array) -> float:
        """<y, b>."""
        return float(y @ self.b)

    def feasible(self, y: Array) -> Array:
        """Projection on the probability simplex."""
        return project_simplex(y)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """Softmax step (entropy, the paper's) or projected step (Euclidean)."""
        xp = namespace(X)
        n = self.A.shape[0]
        z = self.pieces(X)
        if geometry == "euclidean":
            base = xp.ones_like(z) / n if y is None else y
            step = t / self.sqnorm if self.sqnorm > 0.0 else 0.0
            return project_simplex(base + step * z)
        if self._theta == 0.0:
            return xp.ones_like(z) / n
        z = wide(z) * (t / self._theta)
        if y is not None:
            z = z + xp.log(xp.clip(wide(y), 1e-300, None))
        weights = xp.exp(z - xp.max(z))  # shifted: the largest exponent is 0
        return xp.astype(weights / xp.sum(weights), X.dtype)

    @cached_property
    def gram(self) -> Array:
        """Inner products <A_i, A_j> in float64, since squares may overflow in float32."""
        if self._flat.dtype.itemsize == 8:
            return self._flat @ self._flat.T
        firsts = range(0, int(self._flat.shape[1]), COLUMNS)
        parts = (wide(self._flat[:, i : i + COLUMNS]) for i in firsts)
        return functools.reduce(operator.add, (part @ part.T for part in parts))

    def proximal(self, v: Array, step: float, start: Array | None = None) -> Array:
        """Dual point of the proximal map: a quadratic programme over the simplex.

        Its matrix is n x n for any size of X, so it costs one product with the pieces and
        many cheap iterations.
        """
        return quadratic_over_simplex(step * self.gram, self.pieces(v), start)

    def distance(self, y: Array) -> float:
        """Relative entropy to the uniform weights."""
        xp = namespace(y)
        logs = xp.log(xp.where(y > 0, y, xp.ones_like(y)))
        return max(0.0, float(xp.sum(y * logs)) + math.log(self.A.shape[0]))

    def check(self, shape: tuple[int, int]) -> None:
        """Check that the pieces have the shape of X."""
        if tuple(self.A.shape[1:]) != tuple(shape):
            given = f"pieces of shape {tuple(self.A.shape[1:])}"
            raise ShapeError("penalty", given, f"{shape}")
