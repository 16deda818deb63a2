"""Logistic loss of binary outcomes, given linear measurements of X."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.arguments import flag
from weakprox.display import counted
from weakprox.errors import ShapeError
from weakprox.linalg.arrays import Array, like, namespace, sqnorm, to_numpy, total, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import inputs, measurements
from weakprox.losses.entry_losses import Logistic as OfEntries
from weakprox.protocols import LossCapabilities, StatedLoss

STEPS = 100  # largest number of Newton steps for the intercept, more than required
CURVATURE = 0.25  # largest second derivative of log(1 + e^t)
SURE = 800.0  # log-odds at which the loss of the likely outcome is 0: e^-800 underflows


class Logistic:
    r"""Binary outcomes with log-odds :math:`\langle A_i, X\rangle`,

    .. math:: G(X) = \frac1n \sum_i \log(1 + e^{t_i}) - y_i t_i, \qquad
              t_i = \langle A_i, X\rangle .

    Parameters
    ----------
    A : array (n, m, d), pair of arrays ((n, m), (n, d)), or SciPy sparse (n, m d)
        The measurement matrices, as in `Sensing`.
    y : array of shape (n,)
        The outcomes: two classes, the larger of which counts as 1.
    shape : (int, int), optional
        Shape of X; needed with a sparse `A`.
    intercept : bool
        Whether all log-odds have a common intercept c. G is then the minimum over c, which is
        convex in X too, and counts as one term instead of n.
    """  # noqa: D400 (the formula is part of the sentence)

    is_finite_sum = True
    strong_convexity = 0.0
    sigma = None

    def __init__(
        self,
        A: Any,
        y: Array,
        *,
        shape: tuple[int, int] | None = None,
        intercept: bool = False,
    ) -> None:
        self.with_intercept = flag("intercept", intercept)
        self._terms, self.shape = measurements.measurements(A, shape)
        first = self._terms.take(slice(0, 1))
        self.reference = first.adjoint(first.sqnorms() * 0.0)
        y = inputs.as_sized("y", y, 1)[0]
        if tuple(y.shape) != (self._terms.count,):
            raise ShapeError("y", f"shape {tuple(y.shape)}", f"({self._terms.count},)")
        self._y = like(to_numpy(OfEntries().check(y)), self.reference)

    @property
    def capabilities(self) -> LossCapabilities:
        """The lower bound 0, and the data of checkpoints."""
        return LossCapabilities(
            infimum=0.0, in_float64=self.in_float64, data=self.data, stated=self._stated
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it, with the dual point y - p of all outcomes."""
        numbers, arrays = self._terms.stated()
        none = np.zeros(0)
        return StatedLoss(
            "Logistic",
            {"intercept": self.with_intercept, **numbers},
            lambda: {**arrays, "y": self._y},
            dual=lambda X: self.dual(X.dense() if isinstance(X, LowRank) else X),
            intercepts=(lambda X: (self.intercept(X.dense()), none, none))
            if self.with_intercept
            else None,
        )

    def __repr__(self) -> str:
        of = f"{counted(self._terms.count, 'outcome')}, {self.shape[0]} x {self.shape[1]}"
        return f"Logistic({of}{', intercept' if self.with_intercept else ''})"

    @property
    def n_terms(self) -> int:
        """The number of outcomes, or 1 if they share an intercept."""
        return 1 if self.with_intercept else self._terms.count

    @property
    def samples_cancel(self) -> bool:
        """True if there is only one term."""
        return self.with_intercept

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        return self._terms, self._y

    def in_float64(self) -> Logistic | None:
        """The same loss computed in float64; None if the measurements are not in memory."""
        terms = self._terms.in_float64()
        if terms is None:
            return None
        other = copy.copy(self)
        for name in ("_constants", "_sizes"):  # computed from the original data
            other.__dict__.pop(name, None)
        other._terms, other._y, other.reference = terms, wide(self._y), wide(self.reference)
        return other

    @property
    def chunk(self) -> int:
        """Number of measurements held at once."""
        return inputs.chunk_of(self._terms.bytes_each)

    def everything(self) -> tuple[Any, Array]:
        """All outcomes."""
        return self._terms, self._y

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Any, Array]:
        """Independent outcomes, with replacement; all of them if they share an intercept."""
        if self.with_intercept:
            return self.everything()
        picked = rng.integers(0, self._terms.count, size)
        return self._terms.take(picked), self._y[picked]

    def value(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Mean of the losses."""
        t, y = self._odds(X, batch), batch[1]
        return total(OfEntries().value(y, t)) / int(y.shape[0])

    def grad(self, X: Array, batch: tuple[Any, Array]) -> Array:
        """Mean of (p_i - y_i) A_i; the best intercept adds nothing to it."""
        y = batch[1]
        slopes = OfEntries().derivative(y, self._odds(X, batch))
        return batch[0].adjoint(slopes / int(y.shape[0]))

    def spread(self, X: Array, batch: tuple[Any, Array]) -> float:
        """Sample variance of one term's gradient at X."""
        if self.with_intercept:
            return 0.0
        size = int(batch[1].shape[0])
        slopes = OfEntries().derivative(batch[1], self._odds(X, batch))
        second = float((slopes * slopes) @ batch[0].sqnorms()) / size
        return max(0.0, second - sqnorm(self.grad(X, batch))) * size / max(1, size - 1)

    def dual(self, X: Array) -> np.ndarray[Any, np.dtype[np.float64]]:
        """y_i - p_i for all outcomes, the dual point of X."""
        slopes = OfEntries().derivative(self._y, self._odds(X, self.everything()))
        return np.asarray(-to_numpy(slopes), dtype=np.float64)

    def intercept(self, X: Array) -> float:
        """The intercept at X; 0 without one."""
        if not self.with_intercept:
            return 0.0
        return best_intercept(self._terms.apply(X), self._y)

    def _odds(self, X: Array, batch: tuple[Any, Array]) -> Array:
        """Log-odds of the batch."""
        t = batch[0].apply(X)
        return t + best_intercept(t, batch[1]) if self.with_intercept else t

    @cached_property
    def _constants(self) -> float:
        """Largest eigenvalue of the mean of vec(A) vec(A)'."""
        terms, shape = self._terms, self.shape
        gram = measurements.mean_gram(terms, shape[0] * shape[1])
        return measurements.extremes(terms, shape, gram)[0]

    @cached_property
    def _sizes(self) -> Any:
        """|A_i|_F^2."""
        return to_numpy(self._terms.sqnorms())

    @property
    def smoothness(self) -> float:
        """A quarter of the largest eigenvalue of the mean of vec(A) vec(A)'."""
        return CURVATURE * self._constants

    @property
    def term_smoothness(self) -> float:
        """A quarter of the largest |A_i|_F^2."""
        return self.smoothness if self.with_intercept else CURVATURE * float(self._sizes.max())


def best_intercept(t: Array, y: Array) -> float:
    """The c at which the mean of sigmoid(t + c) is that of y, by Newton's method.

    It lies between -max t and -min t, shifted by the log-odds of the mean. If all outcomes are
    equal, it is infinite and G is 0. Then it is truncated at a value where the computed loss is
    0 as well, since a positive loss would be mistaken for a lower bound.
    """
    t, y = wide(t), wide(y)
    xp = namespace(t)
    mean = float(xp.mean(y))
    if mean in (0.0, 1.0):
        return SURE - float(xp.min(t)) if mean else -SURE - float(xp.max(t))
    odds = float(np.log(mean) - np.log1p(-mean))
    low, high = odds - float(xp.max(t)), odds - float(xp.min(t))
    c = min(max(odds - float(xp.mean(t)), low), high)
    for _ in range(STEPS):
        p = OfEntries().mean(t + c)
        slope = float(xp.mean(p)) - mean
        low, high = (low, c) if slope > 0.0 else (c, high)
        bend = float(xp.mean(p * (1.0 - p)))
        step = c - slope / bend if bend > 0.0 else low
        near = 1e-14 * max(1.0, abs(c))
        if bend > 0.0 and abs(step - c) <= near:  # before the bracket, which may end at c
            break
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - c) <= near:
            break
        c = new
    return c
