"""Least squares on linear measurements of X (Example 3 of the paper)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal

import numpy as np

from weakprox.arguments import one_of
from weakprox.distributed import is_dask
from weakprox.distributed.terms import Measured
from weakprox.errors import InputError, SamplerError, ShapeError
from weakprox.linalg.arrays import Array, device_of, like, namespace, sqnorm, to_numpy, wide
from weakprox.losses import inputs, measurements, quadratic
from weakprox.losses.measurements import DenseMeasurements, Odds
from weakprox.protocols import LossCapabilities, StatedLoss

PILOT = 64  # samples drawn to estimate constants of a sampled loss
QUICK_FLOPS = 1e9  # limit for a Gram matrix that is formed only to check a declared constant


class Sensing:
    r"""Measured inner products, :math:`G(X) = \mathbb{E}\,\tfrac12(\langle A, X\rangle - b)^2`.

    Parameters
    ----------
    A : array (n, m, d), pair of arrays ((n, m), (n, d)), or SciPy sparse (n, m d)
        The measurement matrices: dense (memory-mapped or zarr), rank-one u_i v_i', or the
        rows of a sparse matrix over X in C order. Gradients use each form's structure.
        Dask arrays, alone or in a pair, stay on their workers; X does not.
    b : array of shape (n,)
        The measured values.
    shape : (int, int), optional
        Shape of X; needed with sparse `A` and with `sampler`.
    sampler : callable, optional
        Instead of A and b: `sampler(rng, k)` returns (A (k, m, d), b (k,)).
    smoothness, term_smoothness, strong_convexity, sigma : float, optional
        Constants, if known; otherwise computed (finite data) or estimated (sampler).
    sampling : {"uniform", "importance"}
        How terms of a finite sum are drawn: uniformly, or with probability proportional to
        |A_i|_F^2 and reweighted, which leaves the mean unchanged. `term_smoothness` is then
        the mean of |A_i|_F^2 instead of the largest, which allows smaller batches for uneven
        data.
    """

    samples_cancel = False
    n_terms = 0
    pilot_samples = 0  # drawn to estimate constants that were not given
    _terms: Any = None  # the measurements, unless they are drawn

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
        sampling: Literal["uniform", "importance"] = "uniform",
    ) -> None:
        self.sampling = one_of("sampling", sampling, ("uniform", "importance"))
        if sampler is not None and sampling == "importance":
            wanted = "'uniform': a sampler draws by its own distribution"
            raise InputError("sampling", repr(sampling), wanted)
        self._given = {
            "smoothness": inputs.constant("smoothness", smoothness),
            "term_smoothness": inputs.constant("term_smoothness", term_smoothness),
            "strong_convexity": inputs.constant("strong_convexity", strong_convexity),
        }
        self.sigma = inputs.constant("sigma", sigma)
        self._sampler, self.is_finite_sum = sampler, sampler is None
        self._unit = 1.0  # divisor of a sampler's b
        if sampler is not None:
            if A is not None or b is not None:
                raise InputError("sampler", "a sampler and A, b", "either a sampler or A and b")
            if not callable(sampler):
                raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
            self.shape = inputs.as_shape(shape, ", with a sampler")
            self._trial, b = self.draw(np.random.default_rng(0), 1)
            self._size, self.reference = float(abs(b[0])), self._trial.A[0] * 0.0
            return
        if A is None or b is None:
            raise InputError("A, b", "none", "both, or a sampler")
        self._terms, self.shape = measurements.measurements(A, shape)
        self.n_terms = self._terms.count
        self._b, self._size = inputs.as_sized("b", b.compute() if is_dask(b) else b, 1)
        if tuple(self._b.shape) != (self.n_terms,):
            raise ShapeError("b", f"shape {tuple(self._b.shape)}", f"({self.n_terms},)")
        first = self._terms.take(slice(0, 1))
        self.reference = first.adjoint(first.sqnorms() * 0.0)
        kind, xp = self.reference.dtype, namespace(self.reference)
        if kind != self._b.dtype:
            if self._size > float(xp.finfo(kind).max):
                raise InputError("b", f"entries up to {self._size:.1e}", f"{kind}, like A")
            self._b = xp.asarray(self._b, dtype=kind, device=device_of(self.reference))

    @property
    def capabilities(self) -> LossCapabilities:
        """A quadratic whose constants can be computed from its measurements."""
        finite = self._sampler is None
        return LossCapabilities(
            origin=(lambda: self.origin) if finite else None,
            prox=self.prox if finite and self._decomposable else None,
            furthest=self.furthest,
            infimum=0.0,
            true_strong_convexity=self.true_strong_convexity,
            check_constants=self.check_constants,
            in_float64=self.in_float64,
            in_unit=self.in_unit,
            size=lambda: self.size,
            data=self.data,
            pilot_samples=lambda: self.pilot_samples,
            stream=inputs.positioned(self._sampler),
            stated=self._stated,
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it."""
        numbers, arrays = ({}, {}) if self._sampler else self._terms.stated()
        return StatedLoss("Sensing", numbers, lambda: {**arrays, "b": self._b})

    def __repr__(self) -> str:
        kind = "sampler" if self._sampler else f"{self.n_terms} measurements"
        kind += ", drawn by importance" if self.sampling == "importance" else ""
        return f"Sensing({kind}, {self.shape[0]} x {self.shape[1]})"

    @property
    def size(self) -> float:
        """Approximate size of the entries of an X with measurements like these."""
        some = self._trial if self._sampler else self._terms.take(slice(0, PILOT))
        square = float(to_numpy(some.sqnorms()).max())
        return self._size / math.sqrt(square) if square > 0.0 else 0.0

    def in_unit(self, unit: float) -> Sensing:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        other = copy.copy(self)
        other._size, other.sigma = self._size / unit, self.sigma and self.sigma / unit
        if self._sampler is None:
            other._b = self._b / unit
        other._unit = self._unit * unit
        other.__dict__.pop("origin", None)
        return other

    def in_float64(self) -> Sensing | None:
        """The same loss computed in float64; None if the measurements are not in memory."""
        terms = self._terms.in_float64() if self._sampler is None else None
        if terms is None:
            return None
        other = copy.copy(self)
        for name, member in vars(Sensing).items():
            if isinstance(member, cached_property):  # computed from the original data
                other.__dict__.pop(name, None)
        other._terms, other._b = terms, wide(self._b)
        other.reference = wide(self.reference)
        return other

    @property
    def chunk(self) -> int:
        """Number of measurements held at once."""
        if self._sampler is None:
            return inputs.chunk_of(self._terms.bytes_each)
        return inputs.chunk_of(8 * self.shape[0] * self.shape[1])

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Any, Array]:
        """Independent measurements (with replacement from a finite sum).

        A term drawn by importance has A and b divided by sqrt(n p_i), so that its value,
        gradient and spread are those of g_i / (n p_i).
        """
        if self._sampler is None:
            odds = self._odds
            if odds is None:
                picked = rng.integers(0, self.n_terms, size)
                return self._terms.take(picked), self._b[picked]
            picked = np.searchsorted(odds.cumulated, rng.random(size), side="right")
            factors = like(odds.factors[picked], self.reference)
            return self._terms.take(picked).scaled(factors), self._b[picked] * factors
        drawn = inputs.call_sampler(self._sampler, rng, size)
        if not isinstance(drawn, tuple) or len(drawn) != 2:
            raise SamplerError("sampler", type(drawn).__name__, "a pair (A, b)")
        A = inputs.checked_draw(drawn[0], (size, *self.shape), "sampler's A")
        b = inputs.checked_draw(drawn[1], (size,), "sampler's b") / self._unit
        return DenseMeasurements(A), b

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        return () if self._sampler is not None else (self._terms, self._b)

    def everything(self) -> tuple[Any, Array]:
        """All measurements."""
        return self._terms, self._b

    def value(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Mean of the half squared residuals."""
        squares = sum(0.5 * sqnorm(part.apply(X) - b) for part, b in self._parts(batch))
        return squares / int(batch[1].shape[0])

    def grad(self, X: Array, batch: tuple[Any, Array]) -> Array:
        """Mean of (<A_i, X> - b_i) A_i; from the Gram matrix of all terms if available."""
        whole = batch[0] is self._terms
        if whole and self.__dict__.get("_gram") is not None:
            return namespace(X).reshape(self._gram @ X.reshape(-1), X.shape) + self.origin[1]
        size, parts = int(batch[1].shape[0]), self._parts(batch)
        return reduce(add, (part.adjoint((part.apply(X) - b) / size) for part, b in parts))

    def spread(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Sample variance of one term's gradient at X."""
        size = int(batch[1].shape[0])
        second = 0.0
        for part, b in self._parts(batch):
            r = part.apply(X) - b
            second += float((r * r) @ part.sqnorms())
        centred = second / size - sqnorm(self.grad(X, batch))
        return max(0.0, centred) * size / max(1, size - 1)

    def furthest(self, X: Array, batch: tuple[Any, Array], gradient: Array) -> float:
        """Largest distance of one measurement's gradient at X to `gradient`."""
        most, square = 0.0, sqnorm(gradient)
        for part, b in self._parts(batch):
            r = part.apply(X) - b
            apart = r * r * part.sqnorms() - 2.0 * r * part.apply(gradient)
            most = max(most, float(namespace(apart).max(apart)) + square)
        return math.sqrt(most)

    def _parts(self, batch: tuple[Any, Array]) -> Any:
        """The batch in chunks, so that memory-mapped data are never copied whole."""
        terms, b = batch
        step = inputs.chunk_of(terms.bytes_each)
        if terms.count <= step:
            return [(terms, b)]
        places = (slice(i, i + step) for i in range(0, terms.count, step))
        return ((terms.take(rows), b[rows]) for rows in places)

    @property
    def _whole(self) -> Any:
        return self._terms if self._sampler is None else self._many

    @cached_property
    def _wide_gram(self) -> Any:
        return measurements.mean_gram(self._whole, math.prod(self.shape))

    @cached_property
    def _gram(self) -> Array | None:
        """The Hessian of the mean as a matrix, if it is smaller than the data."""
        if self._sampler is not None or self._wide_gram is None:
            return None
        return like(self._wide_gram, self.reference)

    @property
    def _decomposable(self) -> bool:
        """Return True if the Hessian, or the Gram matrix of the terms, can be decomposed."""
        unknowns = math.prod(self.shape)
        if isinstance(self._terms, Measured):
            return False
        few = self.n_terms <= quadratic.LARGEST and self.n_terms * unknowns <= quadratic.FLAT
        return few or unknowns <= min(quadratic.LARGEST, 2 * self.n_terms)

    def prox(self) -> quadratic.QuadraticProx:
        """The proximal map, from the Gram matrix of the unknowns or of the measurements."""
        slope, unknowns = self.origin[1], math.prod(self.shape)
        gram = None
        if unknowns <= self.n_terms or self.n_terms * unknowns > quadratic.FLAT:
            gram = measurements.mean_gram(self._terms, unknowns)
        if gram is not None:
            return quadratic.of_hessian(gram, slope)
        return quadratic.of_terms(measurements.flat_in_float64(self._terms), slope)

    @cached_property
    def origin(self) -> tuple[float, Array]:
        """Value and gradient at zero, from which a gradient gives the value at any point.

        Since G is quadratic, G(X) = G(0) + <X, grad G(X) + grad G(0)>/2.
        """
        parts = self._parts(self.everything())
        slope = reduce(add, (part.adjoint(b / -self.n_terms) for part, b in parts))
        return 0.5 * sqnorm(self._b) / self.n_terms, slope

    @cached_property
    def _extremes(self) -> tuple[float, float]:
        """Largest and smallest eigenvalue of the mean of vec(A) vec(A)'."""
        found = measurements.extremes(self._whole, self.shape, self._wide_gram)
        if self._sampler is None:
            _ = self._gram  # from now on, gradients are products with it
            self.__dict__.pop("_wide_gram", None)
        return found

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
        if self._flat:
            return self._extremes[0] if given is None else given
        return self._constants[0]

    @cached_property
    def _constants(self) -> tuple[float, float]:
        """Smoothness and strong convexity of a finite sum.

        Given values are corrected if they contradict each other or a value that is quick to
        compute.
        """
        largest, smallest = self._given["smoothness"], self._given["strong_convexity"]
        if largest is not None and smallest is not None and smallest <= largest:
            true = self.true_strong_convexity() if smallest and self._quick else None
            return largest, smallest if true is None else min(smallest, true)
        found = self._extremes
        most = found[0] if largest is None else max(largest, found[0])
        return most, found[1] if smallest is None else min(smallest, found[1])

    @property
    def _quick(self) -> bool:
        """Return True if the Gram matrix is cheap enough to form only to check a constant."""
        return self.n_terms * math.prod(self.shape) ** 2 <= QUICK_FLOPS

    @property
    def _flat(self) -> bool:
        """Return True if the smallest eigenvalue would be zero, or a pilot's without proof."""
        return self._sampler is not None or self.n_terms < math.prod(self.shape)

    @cached_property
    def _sizes(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """|A_i|_F^2 of all terms, or of a pilot draw."""
        terms = self._whole
        parts = self._parts((terms, np.zeros(terms.count)))
        return np.concatenate([to_numpy(part.sqnorms()) for part, _ in parts]).astype(float)

    @cached_property
    def _odds(self) -> Odds | None:
        """Probabilities for importance sampling; None if they make no difference."""
        return None if self.sampling == "uniform" else Odds.of(self._sizes)

    @property
    def term_smoothness(self) -> float:
        """Largest |A_i|_F^2 (of a pilot draw for a sampler); mean if by importance."""
        given = self._given["term_smoothness"]
        if given is not None:
            return given
        sizes = self._sizes
        return float(sizes.mean() if self._odds is not None else sizes.max())

    def true_strong_convexity(self, *, symmetric: bool = False) -> float | None:
        """The computed strong convexity, whatever was declared; None if it is too expensive.

        With `symmetric`, the strong convexity on symmetric matrices. The result is not stored,
        since gradients must not change their bits during a run.
        """
        if self._sampler is not None:
            return None
        if self.n_terms < _dimension(self.shape, symmetric):
            return 0.0
        gram = measurements.mean_gram(self._terms, math.prod(self.shape))
        if gram is None:
            return None
        if symmetric:
            gram = measurements.on_symmetric(gram, self.shape[0])
        return measurements.smallest_eigenvalue(gram, self.n_terms)

    def check_constants(self, *, symmetric: bool) -> None:
        """Raise if the declared strong convexity exceeds that of the measurements.

        With fewer measurements than unknowns, G is flat in some direction. If all points
        are `symmetric`, curvature on symmetric matrices is enough; it is computed if that
        is quick. With more measurements, `strong_convexity` itself is corrected.
        """
        declared = self._given["strong_convexity"]
        if not declared or not self._flat or self._sampler is not None:
            return
        unknowns = _dimension(self.shape, symmetric)
        if self.n_terms >= unknowns and not self._quick:
            return
        true = self.true_strong_convexity(symmetric=symmetric)
        if true is None or declared <= true * (1 + 1e-6):
            return
        wanted = f"at most {true:.6g}, the smallest curvature of these measurements"
        if self.n_terms < unknowns:
            wanted = f"0, or none: {self.n_terms} measurements of {unknowns} unknowns"
        raise InputError("strong_convexity", f"{declared:g}", wanted)

    @property
    def strong_convexity(self) -> float:
        """Smallest eigenvalue of the mean of vec(A) vec(A)', if computed.

        For a sampler only a given value is used, since an eigenvalue of a pilot is not a bound.
        """
        return self._given["strong_convexity"] or 0.0 if self._flat else self._constants[1]


def _dimension(shape: tuple[int, int], symmetric: bool) -> int:
    """Number of free entries of X."""
    return shape[0] * (shape[0] + 1) // 2 if symmetric else math.prod(shape)
