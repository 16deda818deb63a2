"""A loss of observed entries plus a penalty on the same entries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from weakprox.arguments import nonnegative, positive
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, namespace
from weakprox.losses.entry_losses import EntryLoss, entry_loss

DOUBLINGS, HALVINGS = 60, 60  # of an interval around the maximiser of a conjugate


@dataclass(frozen=True)
class Penalised:
    r"""A loss of an entry plus a penalty on it, :math:`\ell(y, x) + r(x)`.

    .. math::
        r(x) = \lambda\, h(x) + \tfrac{c}{2} x^2, \quad
        h(x) = \begin{cases} x^2 / (2 w) & |x| \le w \\ |x| - w/2 & \text{else.} \end{cases}

    It pulls observed entries towards zero and leaves the others to the nuclear norm. Penalties
    of a `Problem` act on all entries instead. With intercepts, x is the prediction, which
    includes them. The penalty differs from :math:`\lambda |x|` by at most :math:`\lambda w / 2`
    and is below it, so a lower bound that is proved holds for :math:`\lambda |x|`, too.

    Parameters
    ----------
    loss : {"squared", "logistic", "poisson"} or EntryLoss
        The loss :math:`\ell`.
    l1 : float
        The weight :math:`\lambda \ge 0`.
    ridge : float
        The weight :math:`c \ge 0`.
    width : float
        The width w > 0 of the smooth part of h. The smoothness is that of the loss plus
        :math:`\lambda / w + c`, so runs with a small w take more steps.
    """

    loss: Any
    l1: float = 0.0
    ridge: float = 0.0
    width: float = 1.0

    def __post_init__(self) -> None:
        found: EntryLoss = entry_loss(self.loss)
        object.__setattr__(self, "loss", found)
        for name in ("l1", "ridge"):
            object.__setattr__(self, name, nonnegative(name, getattr(self, name)))
        object.__setattr__(self, "width", positive("width", self.width))
        if not self.l1 and not self.ridge:
            raise InputError("l1", "0, with ridge=0", "a positive weight, or the loss itself")

    @property
    def smoothness(self) -> float | None:
        """Bound on the second derivative in x; None if there is none."""
        bend: float | None = self.loss.smoothness
        return None if bend is None else bend + self._steep

    @property
    def _steep(self) -> float:
        """Largest second derivative of the penalty."""
        return self.ridge + self.l1 / self.width

    def check(self, values: Array) -> Array:
        """As the loss does."""
        return self.loss.check(values)

    def value(self, y: Array, x: Array) -> Array:
        """l(y, x) + r(x)."""
        return self.loss.value(y, x) + self._penalty(x)

    def derivative(self, y: Array, x: Array) -> Array:
        """Derivative in x."""
        return self.loss.derivative(y, x) + self._slope(x)

    def curvature(self, y: Array, x: Array) -> Array:
        """Second derivative in x."""
        xp = namespace(x)
        inside = xp.where(xp.abs(x) <= self.width, self._steep, self.ridge)
        return self.loss.curvature(y, x) + inside

    def conjugate(self, y: Array, s: Array) -> Array:
        """Return an upper bound on the conjugate, exact up to rounding.

        It is the least l*(y, s - t) + r*(t) over all t, and any t gives an upper bound. The
        best one is the slope of r at the x where l(y, .) + r has the slope s.
        """
        xp = namespace(s)
        low = -1.0 * xp.ones_like(s)
        high = -1.0 * low
        for _ in range(DOUBLINGS):
            low = xp.where(self.derivative(y, low) > s, 2.0 * low, low)
            high = xp.where(self.derivative(y, high) < s, 2.0 * high, high)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            above = self.derivative(y, middle) > s
            low, high = xp.where(above, low, middle), xp.where(above, middle, high)
        x = 0.5 * (low + high)
        # by rounding, one of the two may be outside of its domain
        t, rest = self._slope(x), self.loss.derivative(y, x)
        return xp.minimum(
            self.loss.conjugate(y, s - t) + self._penalty_conjugate(t),
            self.loss.conjugate(y, rest) + self._penalty_conjugate(s - rest),
        )

    def mean(self, x: Array) -> Array:
        """Expected observation at the prediction x."""
        return self.loss.mean(x)

    def _penalty(self, x: Array) -> Array:
        inside = namespace(x).clip(x, -self.width, self.width)
        return self.l1 / self.width * inside * (x - 0.5 * inside) + 0.5 * self.ridge * x * x

    def _slope(self, x: Array) -> Array:
        inside = namespace(x).clip(x, -self.width, self.width)
        return self.l1 * (inside / self.width) + self.ridge * x

    def _penalty_conjugate(self, t: Array) -> Array:
        xp = namespace(t)
        size = xp.abs(t)
        edge = self._steep * self.width  # slope at the end of the smooth part
        inside = 0.5 * t * t / self._steep
        if not self.ridge:  # slopes are at most l1
            return xp.where(size <= self.l1, inside, math.inf)
        x = (size - self.l1) / self.ridge
        outside = size * x - self.l1 * (x - 0.5 * self.width) - 0.5 * self.ridge * x * x
        return xp.where(size <= edge, inside, outside)
