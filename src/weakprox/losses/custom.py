"""A loss defined by user functions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from weakprox.arguments import is_integer, number, refuse_foreign
from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array
from weakprox.losses.empirical import curvature
from weakprox.losses.inputs import as_shape, call_sampler, chunk_of, constant, positioned
from weakprox.protocols import LossCapabilities

PILOT_TERMS = 32
WRONG = 1e-4  # relative error from which a gradient is wrong; more in single precision
SPREADS = 1.0, 1.0, 0.1  # spreads of the random points at which the gradient is checked
DIRECTIONS = 2  # random ones at each point
ORDINARY = 1e-4, 1e4  # range of gradient sizes without risk of overflow or underflow


class Custom:
    """G from callables, in one of three forms.

    Deterministic: `value(X)`, `grad(X)`. Finite sum: `n_terms` is given, and `value(X, i)` and
    `grad(X, i)` return means over the terms in the index array i. Sampled: `sampler` is
    given, and both take the return value of `sampler(rng, k)` instead of i.

    Parameters
    ----------
    shape : (int, int)
        Shape of X.
    value, grad : callable
        As above; `grad` returns an array of that shape, which may be overwritten.
    n_terms : int, optional
        Number of terms of a finite sum.
    sampler : callable, optional
        `sampler(rng, k)` returns any batch of k samples.
    strong_convexity : float
        Strong convexity of G, 0 if none. It cannot be estimated safely; give it if known.
    smoothness, term_smoothness : float, optional
        Estimated from gradient differences (power iteration) when not given.
    sigma : float, optional
        Gradient noise; estimated by sampling when not given.
    samples_cancel : bool
        Whether grad g(X) - grad g(Y) is the same for every sample.
    infimum : float, optional
        A lower bound on every term of G, such as 0 for a sum of squares. With `NuclearNorm`
        and no strong convexity, a certificate needs it.
    like : array, optional
        An array with the namespace, dtype and device for X; NumPy float64 if None.
    """

    # Subclasses whose gradient is known to be correct skip its check, which takes 21 values.
    # Models make such a loss for every candidate and fold.
    _trusted: ClassVar[bool] = False

    def __init__(
        self,
        shape: tuple[int, int],
        *,
        value: Callable[..., float],
        grad: Callable[..., Array],
        n_terms: int | None = None,
        sampler: Callable[[np.random.Generator, int], Any] | None = None,
        strong_convexity: float = 0.0,
        smoothness: float | None = None,
        term_smoothness: float | None = None,
        sigma: float | None = None,
        samples_cancel: bool = False,
        infimum: float | None = None,
        like: Array | None = None,
    ) -> None:
        self.shape = as_shape(shape)
        for name, function in (("value", value), ("grad", grad)):
            if not callable(function):
                raise InputError(name, type(function).__name__, "a callable")
        alone = sampler is None and is_integer(n_terms)
        if n_terms is not None and (not alone or n_terms < 1):
            came = f"{n_terms!r}{'' if sampler is None else ' and a sampler'}"
            raise InputError("n_terms", came, "an integer >= 1, and no sampler with it")
        refuse_foreign("like", like)
        if like is not None and not (arrays.is_array(like) and arrays.is_floating(like)):
            raise InputError("like", type(like).__name__, "a floating-point array, or None")
        self._value, self._grad, self._sampler = value, grad, sampler
        self.pilot_samples = 0  # drawn to estimate constants that were not given
        self._deterministic = n_terms is None and sampler is None
        self.n_terms = 1 if n_terms is None else int(n_terms)
        self.is_finite_sum = sampler is None
        self.samples_cancel = samples_cancel or self._deterministic
        wanted = "a finite number, or None"
        self.infimum = None if infimum is None else number("infimum", infimum, wanted)
        self.strong_convexity = constant("strong_convexity", strong_convexity) or 0.0
        self._smoothness = constant("smoothness", smoothness)
        self._term_smoothness = constant("term_smoothness", term_smoothness)
        given = constant("sigma", sigma)
        self.sigma = 0.0 if self._deterministic else given
        self.reference = np.zeros(self.shape) if like is None else like[:0]
        if not self._trusted:
            self._check_gradient(batches=n_terms is not None)

    def _check_gradient(self, *, batches: bool) -> None:
        """Call each function at random points, which finds errors before any work.

        These points must differ from any data that the user drew with seed 0.
        """
        rng = np.random.default_rng([0, 8])
        batch = self.draw(np.random.default_rng(0), 1)
        for k, spread in enumerate(SPREADS):
            X = spread * arrays.gaussian(rng, self.shape, self.reference)
            if k and batches:  # terms from the first to the last
                batch = np.unique(np.linspace(0, self.n_terms - 1, PILOT_TERMS).astype(int))
            try:
                wrong = self._wrong_slope(X, batch, rng)
            except (ArithmeticError, ValueError):
                if k == 0:
                    raise
                continue  # the functions may not be defined there
            if wrong is not None:
                came = "slope {:.6g} in a direction where the values have slope {:.6g}"
                how = "weakprox.checks.check_gradient(loss) compares them"
                raise InputError("grad", came.format(*wrong), f"the gradient of value; {how}")

    def _wrong_slope(
        self, X: Array, batch: Any, rng: np.random.Generator
    ) -> tuple[float, float] | None:
        """Slopes of gradient and values in a direction in which they differ; None if none.

        Certificates rest on the gradient: one of twice the size would prove false bounds.
        The directions are that of the gradient, which best reveals a wrong factor, and random
        ones. Points at which the value is not finite are not conclusive, nor are differences
        that rounding could explain.
        """
        grad, value, eps = self.grad(X, batch) * 1.0, self.value(X, batch), arrays.eps_of(X)
        size, n = arrays.norm(grad), math.prod(self.shape)
        step = eps ** (1 / 3) * max(1.0, arrays.norm(X))
        rounding = 64 * math.sqrt(n) * eps * abs(value) / step
        directions = [arrays.gaussian(rng, self.shape, X) for _ in range(DIRECTIONS)]
        for D in [grad, *directions] if size > 0.0 else directions:
            D = D * (1.0 / arrays.norm(D))
            claimed = arrays.inner(grad, D)
            try:
                ends = [self.value(X + sign * step * D, batch) for sign in (1.0, -1.0)]
            except (InputError, ArithmeticError):
                continue
            # both differences, so that a kink between the points does not count
            slopes = (ends[0] - value) / step, (value - ends[1]) / step
            low, high = min(slopes) - rounding, max(slopes) + rounding
            # a random direction has a share of about 1/sqrt(n) of the gradient
            usual = max(abs(low), abs(high), size / math.sqrt(n))
            slack = max(WRONG, 2 * eps ** (1 / 3)) * usual
            if not low - slack <= claimed <= high + slack:
                return claimed, sum(slopes) / 2
        return None

    @property
    def capabilities(self) -> LossCapabilities:
        """The lower bound that was given, if any."""
        return LossCapabilities(
            infimum=self.infimum,
            in_unit=self.in_unit,
            size=lambda: self.size,
            pilot_samples=lambda: self.pilot_samples,
            stream=positioned(self._sampler),
        )

    @cached_property
    def size(self) -> float:
        """Approximate size of the entries of X where the gradient vanishes; 0 if unknown.

        It takes one gradient at zero and, if its size is extreme, one more in its direction.
        """
        if self._sampler is not None:
            return 0.0
        zero, batch = arrays.zeros(self.shape, self.reference), self.everything()
        try:
            with np.errstate(all="ignore"):
                slope = self.grad(zero, batch)
                size = arrays.largest(slope)
                if size == 0.0 or ORDINARY[0] <= size <= ORDINARY[1]:
                    return size
                bent = arrays.largest(self.grad(slope * 1.0, batch) - slope)
        except (InputError, ArithmeticError):  # the function is not defined there
            return 0.0
        return size * (size / bent) if bent > 0.0 else size

    def in_unit(self, unit: float) -> Custom:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        other, value, grad = copy.copy(self), self._value, self._grad
        other._value = lambda X, *batch: value(X * unit, *batch) / unit**2
        other._grad = lambda X, *batch: grad(X * unit, *batch) / unit
        other.sigma = self.sigma and self.sigma / unit
        other.infimum = self.infimum and self.infimum / unit**2
        return other

    def __repr__(self) -> str:
        return f"Custom({self.shape[0]} x {self.shape[1]}, {counted(self.n_terms, 'term')})"

    @property
    def chunk(self) -> int:
        """Assume that one sample is about as large as X."""
        return chunk_of(8 * self.shape[0] * self.shape[1])

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Indices of terms, or the return value of the user's sampler."""
        if self._sampler is not None:
            return call_sampler(self._sampler, rng, size)
        return rng.integers(0, self.n_terms, size)

    def everything(self) -> Any:
        """All indices."""
        return np.arange(self.n_terms)

    def value(self, X: Array, batch: Any) -> float:
        """The user's value."""
        found = self._value(X) if self._deterministic else self._value(X, batch)
        return number("value", found, "a function that returns a finite number")

    def grad(self, X: Array, batch: Any) -> Array:
        """The user's gradient, checked at every call since it may fail at any X."""
        found = self._grad(X) if self._deterministic else self._grad(X, batch)
        refuse_foreign("grad", found)
        if not arrays.is_array(found) or tuple(found.shape) != self.shape:
            given = getattr(found, "shape", type(found).__name__)
            raise ShapeError("grad", f"a return value of shape {given}", f"{self.shape}")
        if found.dtype != X.dtype:
            raise InputError("grad", f"a return value of {found.dtype}", f"{X.dtype}, like X")
        if not arrays.all_finite(found):
            raise InputError("grad", "NaN or infinite entries", "finite numbers")
        return found

    def spread(self, X: Array, batch: Any) -> float:
        """Sample variance of single-sample gradients (fresh draws for a sampler)."""
        if self._deterministic:
            return 0.0
        rng = np.random.default_rng(4)
        grads = [self.grad(X, self.draw(rng, 1)) for _ in range(PILOT_TERMS)]
        mean = sum(grads[1:], start=grads[0]) / len(grads)
        return sum(arrays.sqnorm(g - mean) for g in grads) / (len(grads) - 1)

    @cached_property
    def _whole(self) -> Any:
        if self.is_finite_sum:
            return self.everything()
        self.pilot_samples += 256
        return self.draw(np.random.default_rng(5), 256)

    def _curvature(self, batch: Any, sweeps: int = 30) -> float:
        """Largest curvature by power iteration on gradient differences, plus 5 %."""
        grad = lambda X: self.grad(X, batch)  # noqa: E731
        return 1.05 * curvature(grad, self.shape, self.reference, seed=6, sweeps=sweeps)[0]

    @property
    def smoothness(self) -> float:
        """Smoothness of G: given, or estimated."""
        if self._smoothness is None:
            self._smoothness = self._curvature(self._whole)
        return self._smoothness

    @property
    def term_smoothness(self) -> float:
        """Smoothness of the worst term: given, or the largest of some drawn terms."""
        if self._term_smoothness is None:
            rng = np.random.default_rng(7)
            count = 1 if self._deterministic else PILOT_TERMS
            drawn = [self.draw(rng, 1) for _ in range(count)]
            self.pilot_samples += 0 if self.is_finite_sum else count
            worst = max(self._curvature(batch, sweeps=10) for batch in drawn)
            self._term_smoothness = max(worst, self.smoothness)
        return self._term_smoothness
