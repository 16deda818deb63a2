"""The interfaces of losses, penalties and spectral terms.

Solvers access the three terms of f = G + R + h only through these Protocols, so a term
defined elsewhere works as soon as it has the members named here.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import SeparableForm, ValueForm

Batch: TypeAlias = Any  # samples of a loss, opaque to everything but the loss that drew them
Dual: TypeAlias = Any  # a dual point y of a penalty: an array, or a tuple of arrays for a sum
Geometry = Literal["paper", "euclidean"]
LossProx: TypeAlias = Callable[[Array, float], Array]  # (A, weight) to a proximal point of G


@dataclass(frozen=True)
class Stated:
    """A term as proofs state it: a kind that the verifier knows, its numbers and its data.

    docs/extend.md lists the kinds. `data()` returns arrays by name.
    """

    kind: str
    numbers: dict[str, Any] = field(default_factory=dict)
    data: Callable[[], dict[str, Any]] = dict


@dataclass(frozen=True)
class StatedLoss(Stated):
    """A loss as proofs state it, and how its dual points are computed."""

    entry: Any = None  # the loss of one entry, if it is a sum of them
    # `dual(X)`: the dual point of X on the entries or outcomes, if proofs use conjugates
    dual: Callable[[Array | LowRank], Any] | None = None
    # `intercepts(X)`: the best mean, and intercepts of rows and columns, if it has any
    intercepts: Callable[[LowRank], tuple[float, Array, Array]] | None = None


@dataclass(frozen=True)
class LossCapabilities:
    """Capabilities of a loss beyond the members of `Loss`; all are optional.

    A loss declares them in its property `capabilities`. Functions that compute something
    are called only when the result is needed. docs/extend.md explains each of them.
    """

    # `centre(batch)`: C, if G is L/2 |X - C|^2 + const, L its smoothness
    centre: Callable[[Batch], Array] | None = None
    # `grad_into(X, batch, out)` writes the gradient over `out`
    grad_into: Callable[[Array, Batch, Array], Array] | None = None
    # `tangent(X)`: value and gradient of an affine function below G that touches it at X, for a
    # G that is a minimum over other variables, which may not have been found exactly
    tangent: Callable[[Array], tuple[float, Array]] | None = None
    origin: Callable[[], tuple[float, Array]] | None = None  # (G(0), grad G(0)), quadratic G
    merged: Callable[[Any], Batch] | None = None  # `merged(batches)`: several batches as one
    # `furthest(X, batch, gradient)`: largest distance of one sample's gradient, or a bound
    furthest: Callable[[Array, Batch, Array], float] | None = None
    # `prox()` prepares the map (A, weight) to the minimiser of G(X) + weight/2 |X - A|^2
    prox: Callable[[], LossProx] | None = None
    infimum: float | None = None  # lower bound on G, for proofs without strong convexity
    # `smoothness_at(X)`: largest curvature at X, if `smoothness` is a typical one and no bound
    smoothness_at: Callable[[Array], float] | None = None
    # the computed strong convexity, or None; takes `symmetric`
    true_strong_convexity: Callable[..., float | None] | None = None
    # raises if the declared constants cannot be true; takes `symmetric`
    check_constants: Callable[..., None] | None = None
    in_float64: Callable[[], Any] | None = None  # the same loss for X in float64, or None
    in_unit: Callable[[float], Any] | None = None  # over unit^2, of X over the unit
    size: Callable[[], float] | None = None  # of the entries of X, about
    data: Callable[[], tuple[Any, ...]] | None = None  # arrays that identify it
    # `losses.observed.Observed` of a loss that depends on some entries of X only
    observed: Callable[[], Any] | None = None
    # `losses.cells.Cells` of a loss that is a sum over the cells of a stored matrix
    cells: Callable[[], Any] | None = None
    target: Any = None  # the matrix that X approximates
    stores: tuple[type, ...] = ()  # classes that move with the target, for checkpoints
    gathered: Callable[[], Any] | None = None  # the same loss with all data in this process
    pending: Callable[[], tuple[int, int]] | None = None  # bytes to keep, and while reading
    pilot_samples: Callable[[], int] | None = None  # drawn to estimate constants
    stream: Any = None  # source of samples with a position: `tell()` and `seek(position)`
    stated: Callable[[], StatedLoss] | None = None  # for proofs, of this very class
    labels: tuple[Any, Any] = (None, None)  # names of the rows and of the columns of X
    # False if the class inherits the record: passes over the data might skip its methods
    own: bool = True


@dataclass(frozen=True)
class Constraint:
    """A constraint of a penalty on entries of X, either `fixed` or `bounds`."""

    with_slope: Callable[[float], Any]  # the penalty with this slope in place of the constraint
    # `fixed(shape)`: which entries are fixed at zero
    fixed: Callable[[tuple[int, int]], Any] | None = None
    bounds: tuple[Any, Any] | None = None  # arrays with two axes that broadcast to the shape
    steepest: float = 0.0  # the largest other slope of an entry


@dataclass(frozen=True)
class PenaltyCapabilities:
    """Capabilities of a penalty beyond the members of `Penalty`; all are optional."""

    form: SeparableForm | None = None  # without its curvature, for passes over tiles
    # (above, below): with the form, `ascend(None, X, t)` is t X clipped to [-below, above]
    clips: tuple[float, float] | None = None
    # `proximal(v, step, start)`: dual point of the proximal map, if not separable
    proximal: Callable[[Array, float, Any], Any] | None = None
    pieces: Callable[[Array], Any] | None = None  # `pieces(X)`: values of few affine pieces
    infimum: float | None = None  # lower bound on R
    in_unit: Callable[[float], Any] | None = None  # as for losses
    in_float64: Callable[[], Any] | None = None  # as for losses; it may return itself
    size: Callable[[], float] | None = None  # of the largest slope
    # R is the sum of these, its dual points are tuples of theirs; empty for R = 0
    parts: tuple[Any, ...] | None = None
    # of a penalty that is infinite somewhere; a `Problem` finds a slope that is steep enough
    constraint: Constraint | None = None
    stated: Stated | None = None  # for proofs


@dataclass(frozen=True)
class SpectralCapabilities:
    """Capabilities of a spectral term beyond the members of `SpectralTerm`; all optional."""

    form: ValueForm | None = None  # h of singular values, for passes over tiles
    diameter: float | None = None  # of a bounded set, in the Frobenius norm
    # the linear oracle `extreme(G, accuracy=, start=, rng=) -> Extreme`, which conditional
    # gradient methods need; <G, V> may exceed its minimum by at most `accuracy`
    extreme: Callable[..., Any] | None = None
    growth: float = 0.0  # h is at least this many times the nuclear norm
    # `conjugate_within(U, radius, rng)`: upper bound on <U, X> - h(X) over all X with nuclear
    # norm up to the radius; `rough_conjugate(U, block, radius)` estimates it
    conjugate_within: Callable[[Array, float, np.random.Generator], float] | None = None
    rough_conjugate: Callable[[Array, Array, float], float] | None = None
    has_conjugate: bool = True  # whether `conjugate` can be finite
    value_of: Callable[[Array], float] | None = None  # h of an array, if not from its factors
    in_unit: Callable[[float], Any] | None = None  # as for losses
    in_float64: Callable[[], Any] | None = None  # as for losses; it may return itself
    stated: Stated | None = None  # for proofs
    forms_targets: bool = False  # whether `weak_prox` accepts a `linalg.pending.Pending`

    @property
    def tau(self) -> float | None:
        """Bound on the sum of singular values, if there is one."""
        return self.form.tau if self.form is not None and self.form.tau < math.inf else None


def loss_capabilities(loss: Any) -> LossCapabilities:
    """Capabilities that a loss declares; empty if none.

    What says which loss it is, for proofs and in another unit, is the class's own: a subclass
    may compute another one.
    """
    own, found = _declares(loss), _declared(loss, LossCapabilities)
    return found if own else replace(found, stated=None, in_unit=None, own=False)


def penalty_capabilities(penalty: Any) -> PenaltyCapabilities:
    """Capabilities that a penalty declares; empty if none.

    Those that say which function it is are the class's own: a subclass that inherits them may
    compute another penalty.
    """
    own, found = _declares(penalty), _declared(penalty, PenaltyCapabilities)
    if own:
        return found
    inherited = replace(found, form=None, parts=None, stated=None)
    return replace(inherited, in_float64=None, in_unit=None)


def spectral_capabilities(spectral: Any) -> SpectralCapabilities:
    """Capabilities that a spectral term declares; empty if none.

    Those that say which function it is are the class's own, as of a penalty.
    """
    own, found = _declares(spectral), _declared(spectral, SpectralCapabilities)
    if own:
        return found
    inherited = replace(found, form=None, in_float64=None, in_unit=None, stated=None)
    return replace(inherited, forms_targets=False)


def _declares(term: Any) -> bool:
    """Whether the class itself declares capabilities: a subclass may override methods."""
    return "capabilities" in vars(type(term))


Declared = TypeVar("Declared", LossCapabilities, PenaltyCapabilities, SpectralCapabilities)


def _declared(term: Any, kind: type[Declared]) -> Declared:
    found = getattr(term, "capabilities", None)
    if found is None:  # members that version 0.1 looked up by name
        names = ("grad_into", "centre", "diameter", "extreme", "infimum")
        known = [x for x in names if x in kind.__dataclass_fields__ and hasattr(term, x)]
        if known:
            text = f"declare {', '.join(known)} of {type(term).__name__} in its `capabilities`"
            warnings.warn(f"{text} (docs/extend.md)", DeprecationWarning, stacklevel=4)
        return kind(**{name: getattr(term, name) for name in known})
    if not isinstance(found, kind):
        given = f"capabilities of {type(term).__name__} that are {type(found).__name__}"
        raise InputError("problem", given, f"{kind.__name__} (see docs/extend.md)")
    return found


class Loss(Protocol):
    """G(X) = E g(X; xi), smooth and convex.

    `smoothness` is that of the mean G and sets step sizes. `term_smoothness` is that of the
    worst g and sets batch sizes. `strong_convexity` is 0.0 if there is none. `sigma`
    bounds the gradient's standard deviation (Frobenius) over dom h, None if unknown.
    `samples_cancel` means that grad g(X) - grad g(Y) is the same for all samples, so
    that a snapshot's samples serve the whole epoch and no inner draws are needed.
    `chunk` is the number of samples that fit comfortably in memory at once. If
    `is_finite_sum` holds, the loss also has `n_terms` and `everything()`.
    """

    shape: tuple[int, int]
    samples_cancel: bool
    n_terms: int
    reference: Array  # sets the namespace, dtype and device of X

    @property
    def smoothness(self) -> float: ...
    @property
    def term_smoothness(self) -> float: ...
    @property
    def strong_convexity(self) -> float: ...
    @property
    def sigma(self) -> float | None: ...
    @property
    def chunk(self) -> int: ...
    @property
    def is_finite_sum(self) -> bool: ...

    def everything(self) -> Batch:
        """All terms of a finite sum, each once."""

    def draw(self, rng: np.random.Generator, size: int) -> Batch:
        """Independent samples."""

    def value(self, X: Array, batch: Batch) -> float:
        """Mean of g over the batch, up to a constant that does not depend on X."""

    def grad(self, X: Array, batch: Batch) -> Array:
        """Mean gradient over the batch, as a new array."""

    def spread(self, X: Array, batch: Batch) -> float:
        """Sample variance (sum over entries) of the gradient of one term at X."""


@dataclass(frozen=True)
class Smoothability:
    """(theta, gamma, K) of Beck & Teboulle: R - gamma mu <= R_mu <= R, bR = K + theta/mu."""

    theta: float
    gamma: float
    K: float

    def smoothness(self, mu: float) -> float:
        """Smoothness of R_mu."""
        return self.K + (self.theta / mu if self.theta > 0 else 0.0)


class Penalty(Protocol):
    """R(X) = curvature/2 |X|^2 + max over y in Y of <y, K X> - phi(y).

    `ascend(y, X, t)` is one dual step after which `pull` is t-Lipschitz in X. From the
    centre (y = None) it is Beck-Teboulle smoothing with t = theta/mu; from the last y it
    is dual ascent. `separable` means that K is the identity, so that
    prox_{g R}(v) follows from ascend(0, v, 1/g). `rowwise` means that rows do not
    interact: ascend, dual_value and distance can be evaluated on blocks of rows.
    """

    @property
    def curvature(self) -> float: ...
    @property
    def separable(self) -> bool: ...
    @property
    def rowwise(self) -> bool: ...

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(theta, gamma, K) on matrices of this shape."""

    def value(self, X: Array) -> float:
        """R(X)."""

    def pull(self, y: Dual) -> Array:
        """K' y, as a matrix."""

    def dual_value(self, y: Dual) -> float:
        """phi(y)."""

    def feasible(self, y: Dual) -> Dual:
        """Nearest point of Y."""

    def ascend(
        self, y: Dual | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Dual:
        """One dual step from y, or from the centre of Y."""

    def distance(self, y: Dual) -> float:
        """Prox function d(y) >= 0 of the smoothing: R_mu = max <y,KX> - phi - mu d."""

    def check(self, shape: tuple[int, int]) -> None:
        """Raise if the penalty does not fit matrices of this shape."""


class DualPoint(Protocol):
    """A dual point y of the penalty, defined by the proximal target that it gives."""

    def target(self, X: Array, G: Array, weight: float) -> float:
        """Overwrite G by X - (G + curvature X + K'y)/weight and return phi(y)."""


@runtime_checkable
class DualPair(DualPoint, Protocol):
    """A dual point with a point of its own, at which G is linearised for the bound."""

    @property
    def at(self) -> LowRank | Array | None: ...


class DualRecord:
    """Base of the dual points of the library; the defaults are right for those of a user."""

    cheap: ClassVar[bool] = True  # a copy costs little beside the decomposition of the bound

    @property
    def large(self) -> tuple[Any, ...]:
        """The large arrays in it."""
        return ()

    @property
    def warm(self) -> Any:
        """The `SplitDual` from which a neighbouring problem can start, if there is one."""
        return None

    def smooth_at(self, X: LowRank) -> tuple[float, float] | None:
        """G + R at X and its rounding error, if the dual point was computed from this X."""
        return None

    def detached(self, *, copy: bool) -> tuple[DualRecord, LowRank] | None:
        """Return a dual point for a proof and its point, in arrays that nothing overwrites.

        None if the dual point itself is in such arrays. With `copy` all large arrays are
        copied, otherwise only those of an engine, which later runs reuse.
        """
        return None


@dataclass(frozen=True)
class Bound:
    """A lower bound on min f, what it rests on, and the dual point that proves it."""

    lower: float
    rests_on: str
    dual: Any
    at: LowRank | Array | None = None  # where G is linearised; None if the dual point has it


class OwnBound(DualRecord, ABC):
    """A dual point that computes its own bound, of its own problem."""

    @abstractmethod
    def proof(self, rng: np.random.Generator) -> Bound:
        """Return the bound."""


@dataclass(frozen=True)
class WeakProx:
    """Result of the weak proximal oracle at A with weight w; psi(V) = |V-A|^2 + (2/w) h(V).

    Attributes
    ----------
    V : LowRank
        Feasible, of at most the requested rank.
    delta : float
        psi(V) <= psi(X) + delta for every feasible X, proved.
    delta_estimate : float
        The same with Ritz values instead of bounds: cheap and close, but not a bound.
    tail : float
        Upper bound on the next singular value (eigenvalue for PSD sets).
    lower : float
        Lower bound on the minimum of w/2 |X-A|^2 + h(X).
    basis : Array
        Start for the next decomposition.
    passes : int
        Products with A or A' spent.
    rests_on : {"exact", "high-probability"}
        What the bounds rest on.
    conjugate, shrink : float
        Upper bound on h*(shrink w (A - V)), the dual point of the proximal step. If h* is
        an indicator, shrink <= 1 makes it feasible. Infinite if unknown.
    """

    V: LowRank
    delta: float
    delta_estimate: float
    tail: float
    lower: float
    basis: Array
    passes: int
    rests_on: Literal["exact", "high-probability"]
    conjugate: float = float("inf")
    shrink: float = 1.0


@dataclass(frozen=True)
class Tolerance:
    """(delta1, delta2) of the paper's Definition 2.

    The oracle guarantees psi(V) <= psi(X~) + delta1 for some feasible X~ whose value is
    within delta2 of the optimum. delta1 sets the accuracy of the SVD. delta2 is the cost of
    the rank: X~ is the best feasible matrix of the requested rank, so a rank below that of
    X* is allowed as long as it costs at most delta2. If `powers` is positive, the caller
    measures what an inexact SVD costs: this many power steps from a good start are enough, and
    the rank may be larger than requested.
    """

    delta1: float = 0.0
    delta2: float = 0.0
    powers: int = 0


@dataclass(frozen=True)
class Extreme:
    """Result of the linear oracle at G: a feasible V with <G, V> near its minimum."""

    V: LowRank
    basis: Array
    passes: int


class SpectralTerm(Protocol):
    """h, the term that makes X low-rank."""

    @property
    def symmetric(self) -> bool: ...

    def value(self, X: LowRank) -> float:
        """h(X); infinite outside the set, up to rounding."""

    def violation(self, X: LowRank) -> float:
        """Relative distance from the set, 0 if h is finite everywhere."""

    def weak_prox(
        self,
        A: Array,
        *,
        weight: float,
        rank: int,
        tolerance: Tolerance = Tolerance(),  # noqa: B008 (frozen)
        start: Array | None = None,
        certify: bool = False,
        rng: np.random.Generator | None = None,
    ) -> WeakProx:
        """Best feasible point of rank at most `rank` for w/2 |V-A|^2 + h(V).

        `certify` spends extra passes on tight upper bounds on the values that the truncated
        decomposition leaves out.
        """

    def conjugate(self, U: Array, rng: np.random.Generator) -> float:
        """Upper bound on h*(U) = max <U, X> - h(X)."""

    def compress(self, X: Array, rank: int, rng: np.random.Generator) -> LowRank:
        """X truncated to the rank without leaving the domain of h."""

    def random_point(
        self, rng: np.random.Generator, shape: tuple[int, int], rank: int, ref: Array
    ) -> LowRank:
        """A random feasible matrix of the given rank (for checks and estimates)."""

    def check(self, shape: tuple[int, int]) -> None:
        """Raise if the term does not fit matrices of this shape."""


@dataclass(frozen=True)
class Candidate:
    """The points that a run evaluates: the iterate X and the latest oracle point V."""

    X: Array
    V: LowRank | None
    h_bound: float  # upper bound on h(X), updated by convexity
    epoch: int
    step: int
    delta_estimate: float = 0.0
    scratch: Array | None = None  # an array like X that may be overwritten
    gap: float = float("inf")  # the method's own estimate; a small one starts a proof
    # dual point of that estimate; None for the solver's `dual`
    dual: DualPoint | OwnBound | None = None
    value: float | None = None  # f, if X is V and the method has computed it
    powers: int = 0  # accuracy of an inexact decomposition: a larger one allows another proof


Tick: TypeAlias = Callable[[Candidate], None]
"""Called by a solver after each inner step; the run may evaluate the candidate or stop."""
