"""Least squares on linear measurements of X (Example 3 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from weakprox.errors import InputError, SamplerError, ShapeError
from weakprox.linalg.arrays import (
    Array,
    all_finite,
    device_of,
    is_real,
    namespace,
    sqnorm,
)
from weakprox.losses.gram import extremes
from weakprox.losses.inputs import (
    as_array,
    as_real,
    as_shape,
    call_sampler,
    checked_draw,
    chunk_of,
    constant,
)
from weakprox.losses.measurements import (
    DenseMeasurements,
    Measurements,
    RankOneMeasurements,
    SparseMeasurements,
)

PILOT = 64  # samples drawn to estimate constants of a sampled loss


class Sensing:
    r"""Measured inner products, :math:`G(X) = \mathbb{E}\,\tfrac12(\langle A, X\rangle - b)^2`.

    Parameters
    ----------
    A : array (n, m, d), pair of arrays ((n, m), (n, d)), or SciPy sparse (n, m d)
        The measurement matrices: dense (or memory-mapped), rank-one u_i v_i', or the
        rows of a sparse matrix over X in C order. Gradients use each form's structure.
    b : array of shape (n,)
        What was measured.
    shape : (int, int), optional
        Shape of X; needed with sparse `A` and with `sampler`.
    sampler : callable, optional
        Instead of A and b: `sampler(rng, k)` returns (A (k, m, d), b (k,)).
    smoothness, term_smoothness, strong_convexity, sigma : float, optional
        Constants, if known; otherwise computed (finite data) or estimated (sampler).
    """

    samples_cancel = False
    n_terms = 0
    pilot_samples = 0  # drawn to find constants that were not given

    def __init__(
        self,
        A: Any = None,
        b: Array | None = None,
        *,
        shape: tuple[int, int] | None = None,
        sampler: Callable[[np.random.Generator, int], Any] | None = None,
        smoothness: float | None = None,
        term_smoothness: float | None = None,
        strong_convexity: float | None = None,
        sigma: float | None = None,
    ) -> None:
        self._given = {
            "smoothness": constant("smoothness", smoothness),
            "term_smoothness": constant("term_smoothness", term_smoothness),
            "strong_convexity": constant("strong_convexity", strong_convexity),
        }
        self.sigma = constant("sigma", sigma)
        self._sampler = sampler
        if sampler is not None:
            if A is not None or b is not None:
                raise InputError("sampler", "a sampler and A, b", "one or the other")
            self._prepare_sampler(shape)
            return
        if A is None or b is None:
            raise InputError("A, b", "none", "both, or a sampler")
        self._terms, self.shape = _measurements(A, shape)
        self.n_terms = self._terms.count
        self._b = as_real("b", b, 1)
        if tuple(self._b.shape) != (self.n_terms,):
            raise ShapeError("b", f"shape {tuple(self._b.shape)}", f"({self.n_terms},)")
        self.reference = self._like()

    def _like(self) -> Array:
        first = self._terms.take(slice(0, 1))
        one = first.adjoint(first.sqnorms() * 0.0)
        if one.dtype != self._b.dtype:
            xp = namespace(one)
            self._b = xp.asarray(self._b, dtype=one.dtype, device=device_of(one))
        return one

    def _prepare_sampler(self, shape: tuple[int, int] | None) -> None:
        if not callable(self._sampler):
            given = type(self._sampler).__name__
            raise InputError("sampler", given, "a callable f(rng, k)")
        self.shape = as_shape(shape, ", with a sampler")
        trial, _ = self.draw(np.random.default_rng(0), 1)
        self.reference = trial.A[0] * 0.0

    def __repr__(self) -> str:
        kind = "sampler" if self._sampler else f"{self.n_terms} measurements"
        return f"Sensing({kind}, {self.shape[0]} x {self.shape[1]})"

    @property
    def is_finite_sum(self) -> bool:
        """Whether the whole sum can be listed."""
        return self._sampler is None

    @property
    def chunk(self) -> int:
        """Measurements held at once."""
        if self._sampler is None:
            return chunk_of(self._terms.bytes_each)
        return chunk_of(8 * self.shape[0] * self.shape[1])

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Any, Array]:
        """Independent measurements (with replacement from a finite sum)."""
        if self._sampler is None:
            picked = rng.integers(0, self.n_terms, size)
            return self._terms.take(picked), self._b[picked]
        drawn = call_sampler(self._sampler, rng, size)
        if not isinstance(drawn, tuple) or len(drawn) != 2:
            raise SamplerError("sampler", type(drawn).__name__, "a pair (A, b)")
        A = checked_draw(drawn[0], (size, *self.shape), "sampler's A")
        b = checked_draw(drawn[1], (size,), "sampler's b")
        return DenseMeasurements(A), b

    def everything(self) -> tuple[Any, Array]:
        """All measurements."""
        return self._terms, self._b

    def value(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Mean of the half squared residuals."""
        return sum(0.5 * sqnorm(part.apply(X) - b) for part, b in self._parts(batch)) / int(
            batch[1].shape[0]
        )

    def grad(self, X: Array, batch: tuple[Any, Array]) -> Array:
        """Mean of (<A_i, X> - b_i) A_i."""
        total = None
        for part, b in self._parts(batch):
            piece = part.adjoint((part.apply(X) - b) / int(batch[1].shape[0]))
            total = piece if total is None else total + piece
        return total

    def spread(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Sample variance of one term's gradient at X."""
        size = int(batch[1].shape[0])
        second = 0.0
        for part, b in self._parts(batch):
            r = part.apply(X) - b
            second += float((r * r) @ part.sqnorms())
        centred = second / size - sqnorm(self.grad(X, batch))
        return max(0.0, centred) * size / max(1, size - 1)

    def _parts(self, batch: tuple[Any, Array]) -> Any:
        """The batch in chunks, so that memory-mapped data is never copied whole."""
        terms, b = batch
        step = chunk_of(terms.bytes_each)
        if terms.count <= step:
            return [(terms, b)]
        return (
            (terms.take(slice(i, i + step)), b[i : i + step])
            for i in range(0, terms.count, step)
        )

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Largest and smallest eigenvalue of the mean of vec(A) vec(A)'."""
        return extremes(self._terms if self._sampler is None else self._many, self.shape)

    @cached_property
    def _many(self) -> DenseMeasurements:
        md = self.shape[0] * self.shape[1]
        size = max(PILOT, min(4 * md, self.chunk))
        self.pilot_samples += size
        return self.draw(np.random.default_rng(2), size)[0]  # type: ignore[no-any-return]

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue of E vec(A) vec(A)' (estimated for a sampler)."""
        given = self._given["smoothness"]
        return self._extremes[0] if given is None else given

    @cached_property
    def _largest(self) -> float:
        terms = self._terms if self._sampler is None else self._many
        step = chunk_of(terms.bytes_each)
        return max(
            float(namespace(q).max(q))
            for q in (
                terms.take(slice(i, i + step)).sqnorms() for i in range(0, terms.count, step)
            )
        )

    @property
    def term_smoothness(self) -> float:
        """Largest |A_i|_F^2 (of a pilot draw for a sampler)."""
        given = self._given["term_smoothness"]
        return self._largest if given is None else given

    @property
    def strong_convexity(self) -> float:
        """Smallest eigenvalue of the mean of vec(A) vec(A)' where it was computed.

        For a sampler only a given value counts: a pilot's eigenvalue is no bound.
        """
        given = self._given["strong_convexity"]
        if given is not None:
            return given
        if self._sampler is not None or self.n_terms < math.prod(self.shape):
            return 0.0
        return self._extremes[1]


def _measurements(
    A: Any, shape: tuple[int, int] | None
) -> tuple[Measurements, tuple[int, int]]:
    """Sort the user's A into one of the forms."""
    if issparse(A):
        shape = as_shape(shape, ", with a sparse A")
        if shape[0] * shape[1] != A.shape[1]:
            raise ShapeError("shape", shape, f"(m, d) with m d = {A.shape[1]} columns")
        if not is_real(A.data):
            raise InputError("A", f"dtype {A.dtype}", "real numbers")
        if not np.all(np.isfinite(A.data)):
            raise InputError("A", "NaN or infinite entries", "finite numbers")
        A = csr_array(A)
        if not np.issubdtype(A.dtype, np.floating):
            A = A.astype(float)
        return SparseMeasurements(A, shape), shape
    if isinstance(A, tuple):
        if len(A) != 2:
            raise InputError("A", f"a tuple of {len(A)}", "a pair (U, V)")
        U, V = as_real("A[0]", A[0], 2), as_real("A[1]", A[1], 2)
        if U.dtype != V.dtype:
            raise InputError("A", f"{U.dtype} and {V.dtype}", "a pair of one kind")
        if U.shape[0] != V.shape[0]:
            raise ShapeError("A", f"{U.shape[0]} and {V.shape[0]} rows", "equally many")
        found: Measurements = RankOneMeasurements(U, V)
        size = (int(U.shape[1]), int(V.shape[1]))
    else:
        A = as_array("A", A, 3)
        found, size = DenseMeasurements(A), (int(A.shape[1]), int(A.shape[2]))
        step = chunk_of(found.bytes_each)
        if not all(all_finite(A[i : i + step]) for i in range(0, found.count, step)):
            raise InputError("A", "NaN or infinite entries", "finite numbers")
    if shape is not None and as_shape(shape) != size:
        raise ShapeError("shape", tuple(shape), f"{size}, that of A")
    return found, size
