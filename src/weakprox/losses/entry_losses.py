"""Losses of one observed entry: l(y, x) for the observation y and the prediction x.

Each is convex in x with infimum 0, and comes with its derivatives in x and its conjugate
l*(y, s) = max over x of s x - l(y, x), which proofs need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from weakprox.arguments import nonnegative, one_of, positive
from weakprox.errors import InputError
from weakprox.hints import nearest
from weakprox.linalg.arrays import Array, device_of, eps_of, namespace, to_numpy
from weakprox.protocols import Stated

NAMES = ("squared", "logistic", "poisson")
DOUBLINGS, HALVINGS = 60, 60  # of an interval around the maximiser of a conjugate
NEWTON = 200  # limit on the steps of a proximal map, most of which take five
EXTREME = 1e15  # ratio of weights from which products with it may overflow in float32
APART = 1e10  # length of an interval from which its halves differ too much in size
ROUNDINGS = 4  # units of rounding by which its last step may move


class EntryLoss(Protocol):
    """A loss of one entry, evaluated on arrays. A custom one needs these members.

    `smoothness` bounds the second derivative; None if it is unbounded, in which case the step
    size is found by trial. A class may also have a member `stated`, a
    `protocols.Stated`, with which proofs state the loss; it is not inherited.
    """

    @property
    def smoothness(self) -> float | None:
        """Bound on the second derivative in x; None if there is none."""

    def check(self, values: Array) -> Array:
        """Return the observations, perhaps recoded; raise `InputError` on invalid ones."""

    def value(self, y: Array, x: Array) -> Array:
        """l(y, x)."""

    def derivative(self, y: Array, x: Array) -> Array:
        """Derivative in x."""

    def curvature(self, y: Array, x: Array) -> Array:
        """Second derivative in x."""

    def conjugate(self, y: Array, s: Array) -> Array:
        """l*(y, s), infinite outside its domain."""

    def mean(self, x: Array) -> Array:
        """Expected observation at the prediction x."""


@dataclass(frozen=True)
class Squared:
    """Half the squared error."""

    smoothness: ClassVar[float] = 1.0
    stated: ClassVar[Stated] = Stated("squared")

    def check(self, values: Array) -> Array:
        """All numbers are valid."""
        return values

    def value(self, y: Array, x: Array) -> Array:
        """(x - y)^2 / 2."""
        r = x - y
        return 0.5 * r * r

    def derivative(self, y: Array, x: Array) -> Array:
        """Residual x - y."""
        return x - y

    def curvature(self, y: Array, x: Array) -> Array:
        """One."""
        return namespace(x).ones_like(x)

    def conjugate(self, y: Array, s: Array) -> Array:
        """Return s y + s^2 / 2."""
        return s * y + 0.5 * s * s

    def mean(self, x: Array) -> Array:
        """Return x itself."""
        return x


@dataclass(frozen=True)
class Huber:
    """Half the squared error up to a residual of k, and linear beyond it.

    Parameters
    ----------
    k : float
        Residuals larger than this are treated as outliers; positive.
    """

    k: float
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", positive("k", self.k))

    @property
    def stated(self) -> Stated:
        """The loss as proofs state it."""
        return Stated("huber", {"k": self.k})

    def check(self, values: Array) -> Array:
        """All numbers are valid."""
        return values

    def value(self, y: Array, x: Array) -> Array:
        """r^2/2 if |r| <= k, else k |r| - k^2/2."""
        xp, r = namespace(x), x - y
        inside = xp.clip(r, -self.k, self.k)
        return inside * (r - 0.5 * inside)

    def derivative(self, y: Array, x: Array) -> Array:
        """Residual clipped to [-k, k]."""
        return namespace(x).clip(x - y, -self.k, self.k)

    def curvature(self, y: Array, x: Array) -> Array:
        """One where the residual is at most k, else zero."""
        xp = namespace(x)
        return xp.where(xp.abs(x - y) <= self.k, 1.0, 0.0)

    def conjugate(self, y: Array, s: Array) -> Array:
        """Return s y + s^2/2 for |s| <= k."""
        xp = namespace(s)
        return xp.where(xp.abs(s) <= self.k, s * y + 0.5 * s * s, math.inf)

    def mean(self, x: Array) -> Array:
        """Return x itself."""
        return x


@dataclass(frozen=True)
class Logistic:
    """Binary observations with log-odds x; two classes, of which the larger one is 1."""

    smoothness: ClassVar[float] = 0.25
    stated: ClassVar[Stated] = Stated("logistic")

    def check(self, values: Array) -> Array:
        """Recode two classes as 0 and 1."""
        classes = np.unique(to_numpy(values))
        if len(classes) > 2:
            given = f"{len(classes)} different values, with loss='logistic'"
            raise InputError("values", given, "two classes, such as 0 and 1 or -1 and 1")
        xp = namespace(values)
        if len(classes) == 1:  # 0 and -1 are the lower class, by convention
            return xp.full_like(values, 0.0 if classes[0] <= 0 else 1.0)
        larger = values == float(classes[1])
        return xp.where(larger, xp.ones_like(values), xp.zeros_like(values))

    def value(self, y: Array, x: Array) -> Array:
        """log(1 + e^x) - y x."""
        xp = namespace(x)
        return xp.logaddexp(xp.zeros_like(x), x) - y * x

    def derivative(self, y: Array, x: Array) -> Array:
        """Probability minus observation."""
        return self.mean(x) - y

    def curvature(self, y: Array, x: Array) -> Array:
        """p (1 - p)."""
        p = self.mean(x)
        return p * (1.0 - p)

    def conjugate(self, y: Array, s: Array) -> Array:
        """Negative entropy of p = s + y in [0, 1]."""
        xp, p = namespace(s), s + y
        inside = (p >= 0.0) & (p <= 1.0)
        return xp.where(inside, _xlogx(p) + _xlogx(1.0 - p), math.inf)

    def mean(self, x: Array) -> Array:
        """Probability of class 1."""
        return 0.5 * (1.0 + namespace(x).tanh(0.5 * x))


@dataclass(frozen=True)
class Poisson:
    """Counts with logarithm of the mean x; the loss is half the deviance."""

    smoothness: ClassVar[None] = None
    stated: ClassVar[Stated] = Stated("poisson")

    def check(self, values: Array) -> Array:
        """Counts must not be negative."""
        low = float(namespace(values).min(values))
        if low < 0.0:
            given = f"values down to {low:g}, with loss='poisson'"
            raise InputError("values", given, "counts >= 0")
        return values

    def value(self, y: Array, x: Array) -> Array:
        """e^x - y x + y log y - y."""
        return _exp(x) - y * x + _xlogx(y) - y

    def derivative(self, y: Array, x: Array) -> Array:
        """Mean minus observation."""
        return _exp(x) - y

    def curvature(self, y: Array, x: Array) -> Array:
        """The mean."""
        return _exp(x)

    def conjugate(self, y: Array, s: Array) -> Array:
        """Return p log p - p - y log y + y for p = s + y >= 0."""
        xp, p = namespace(s), s + y
        return xp.where(p >= 0.0, _xlogx(p) - p - _xlogx(y) + y, math.inf)

    def mean(self, x: Array) -> Array:
        """Expected count."""
        return _exp(x)


@dataclass(frozen=True)
class Penalised:
    r"""A loss of an entry plus a penalty on it, :math:`\ell(y, x) + r(x)`.

    .. math::
        r(x) = \lambda\, h(x) + \tfrac{c}{2} x^2, \quad
        h(x) = \begin{cases} x^2 / (2 w) & |x| \le w \\ |x| - w/2 & \text{else.} \end{cases}

    It pulls observed entries towards zero and leaves the others to the nuclear norm. Penalties
    of a `Problem` act on all entries instead. With intercepts, x is the prediction, which
    includes them. The penalty differs from :math:`\lambda |x|` by at most :math:`\lambda w / 2`
    and is below it, so a proved lower bound also holds for :math:`\lambda |x|`.

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
        """Check the observations as in the loss."""
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
        # because of rounding, one of the two may be outside its domain
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


def _exp(x: Array) -> Array:
    """e^x, infinite where it overflows: a step that is too long is shortened."""
    with np.errstate(over="ignore"):
        return namespace(x).exp(x)


def _xlogx(p: Array) -> Array:
    xp = namespace(p)
    return xp.where(p > 0.0, p * xp.log(xp.where(p > 0.0, p, 1.0)), 0.0)


def entry_prox(loss: EntryLoss, y: Array, w: Any, a: Array, weight: float) -> Array:
    """Minimiser x of w l(y, x) + weight/2 (x - a)^2 for each entry.

    Squared errors and Huber's loss have a formula. Newton's method finds the others.
    Extreme weights are divided by their sum or the larger one: their ratio may overflow.
    """
    k = threshold_of(loss)
    if k is None:
        return _by_newton(loss, y, w, a, weight)
    xp = namespace(a)
    if _is_ordinary(w, weight, xp):
        share = w / weight
        inside = (a - y) / (1.0 + share)  # the residual, if it is at most k
        return a - share * (inside if k == math.inf else xp.clip(inside, -k, k))
    half = 0.5 * w  # the sum of the weights may overflow
    both = half + 0.5 * weight
    moved, kept = half / both, 0.5 * weight / both
    mean = moved * y + kept * a  # the minimiser, if its residual is at most k
    if k == math.inf:
        return mean
    apart = a - y
    size = xp.abs(kept * apart)
    # k w / weight, the distance from a if the residual is larger
    distance = moved * apart * (k / xp.clip(size, k, None))
    return xp.where(size <= k, mean, a - distance)


@np.errstate(over="ignore", invalid="ignore")  # in steps too long to be accepted
def _by_newton(loss: EntryLoss, y: Array, w: Any, a: Array, weight: float) -> Array:
    """The same for any loss.

    Since the derivative grows with x, the minimiser lies between a and the gradient step from
    a. Steps that leave this interval, or are not half as long as the last one, are replaced by
    bisection. An entry is settled once a step is a rounding error: a bisection would move it
    away again. Few entries need many steps, so settled ones are left out.
    """
    xp, shape = namespace(a), a.shape
    y, w, a = (xp.reshape(v, (-1,)) for v in (y, xp.zeros_like(a) + w, a))
    a = xp.astype(a, w.dtype, copy=False)  # if weights are in float64
    found, left = xp.zeros_like(a), xp.arange(a.shape[0], device=device_of(a))
    ordinary = _is_ordinary(w, weight, xp)
    larger = max(_largest(w, xp), weight) if ordinary else xp.clip(w, weight, None)
    w, own = w / larger, weight / larger
    most = 0.25 * float(xp.finfo(a.dtype).max)
    derivative = xp.where(w > 0.0, loss.derivative(y, a), 0.0)  # infinity times 0 is NaN
    slope, share = w * derivative, xp.clip(w / own, None, most)
    far = xp.clip(a - share * derivative, -most, most)
    low, high, x = xp.minimum(a, far), xp.maximum(a, far), a
    last = 2.0 * (high - low)
    for k in range(NEWTON):
        if k:
            slope = w * loss.derivative(y, x) + own * (x - a)
        low, high = xp.where(slope <= 0.0, x, low), xp.where(slope >= 0.0, x, high)
        steep = w * loss.curvature(y, x) + own
        finite = steep < math.inf
        move = -xp.where(finite, slope, 0.0) / xp.where(finite, steep, 1.0)
        size, rounding = xp.abs(move), ROUNDINGS * eps_of(a) * (xp.abs(x) + xp.abs(a))
        settled = finite & (size <= rounding)
        after = x + move
        accepted = finite & (after >= low) & (after <= high) & (2.0 * size <= last)
        after = xp.where(accepted | settled, after, _middle(low, high, a))
        last, x = xp.abs(after - x), after
        (others,) = xp.nonzero(~settled & (last > rounding))
        if 2 * int(others.shape[0]) <= int(x.shape[0]):
            found[left] = x
            own = own if ordinary else xp.take(own, others, axis=0)
            left, x, y, w, a, low, high, last = (
                xp.take(v, others, axis=0) for v in (left, x, y, w, a, low, high, last)
            )
        if not int(others.shape[0]):
            break
    found[left] = x
    return xp.reshape(found, shape)


def _is_ordinary(w: Any, weight: float, xp: Any) -> bool:
    """Return True if no weight w is so large that products with its ratio may overflow."""
    return _largest(w, xp) / EXTREME <= weight


def _largest(w: Any, xp: Any) -> float:
    shape = getattr(w, "shape", ())
    if not shape:
        return float(w)
    return float(xp.max(w)) if math.prod(shape) else 0.0


def _middle(low: Array, high: Array, a: Array) -> Array:
    """A point between both ends: their mean, or halfway in digits of distances from a."""
    xp, middle = namespace(a), 0.5 * (low + high)
    apart = high - low > APART
    if not bool(xp.any(apart)):
        return middle
    digits = 0.5 * (xp.asinh(low - a) + xp.asinh(high - a))
    return xp.where(apart, a + xp.sinh(digits), middle)


def statement_of(loss: Any) -> Stated | None:
    """Return how proofs state a loss of an entry; None if its class does not declare it."""
    return loss.stated if "stated" in vars(type(loss)) else None


def kind_of(loss: Any) -> str | None:
    """Return the kind of loss that a class or its base declares, such as "logistic", or None.

    It decides how data are read, which a subclass does not change.
    """
    stated: Stated | None = getattr(loss, "stated", None)
    return None if stated is None else stated.kind


def threshold_of(loss: Any) -> float | None:
    """Return the residual beyond which a loss is linear, infinite for squared errors.

    It is None for losses that are not half the squared residual up to there.
    """
    stated = statement_of(loss)
    if stated is None or stated.kind not in ("squared", "huber"):
        return None
    return float(stated.numbers.get("k", math.inf))


def is_squared(loss: Any) -> bool:
    """Return True for half the squared error; a subclass of it may be another loss."""
    return threshold_of(loss) == math.inf


def rescaled(loss: EntryLoss, unit: float) -> EntryLoss:
    """Return the loss of residuals divided by the unit, over unit^2."""
    threshold = threshold_of(loss)
    return loss if threshold in (None, math.inf) else Huber(threshold / unit)


def entry_loss(loss: Any) -> EntryLoss:
    """Return the loss of this name, or the user's own."""
    if isinstance(loss, str):
        if nearest(loss, ("huber",)):
            raise InputError("loss", repr(loss), "losses.Huber(k), with the threshold k")
        named: dict[str, Any] = {"squared": Squared, "logistic": Logistic, "poisson": Poisson}
        found: EntryLoss = named[one_of("loss", loss, NAMES)]()
        return found
    wanted = ("smoothness", "value", "derivative", "curvature", "conjugate", "check", "mean")
    missing = [name for name in wanted if not hasattr(loss, name)]
    if missing or isinstance(loss, type):
        given = repr(loss) if not missing else f"{loss!r}, which has no {', '.join(missing)}"
        names = ", ".join(map(repr, NAMES))
        raise InputError("loss", given, f"{names}, Huber(k), or an object like an EntryLoss")
    own: EntryLoss = loss
    return own
