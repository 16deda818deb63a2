"""Base of methods that stop when their gap proves the accuracy, or stops shrinking."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from weakprox.arguments import optional_counts
from weakprox.certificates.split import FixedDual, SplitDual
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, gaussian, inner, namespace, zeros
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thick_svd import SMALLEST
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Dual, DualPoint, OwnBound, Tolerance, WeakProx
from weakprox.solvers.base import Method, Tools, replace, undeclared
from weakprox.spectral.singular import gram_is_cheaper

STRETCH = 16  # iterations of one outer step
SHARE = 1e-3  # allowed cost of an inexact decomposition, as a share of the gap
PATIENCE = 400  # iterations without progress after which the gap has stalled
FIRST_RANK = 12
GROWTH = 4  # factor for the rank if it is too small
SOON = 3.0  # multiple of the accuracy at which a proof is near
MANY = 24  # triplets from which one power step with a wider block costs less than accuracy
RANDOM = 4  # random vectors, in addition to those of X, for the norm of a dual point
SPARE = 3  # extra triplets, so that the next decomposition need not be repeated


class TooWide(Exception):  # noqa: N818 (a signal, not an error)
    """The proximal points are not low-rank, or the gap falls slowly: use the fallback.

    `target` is the point z to continue from, for the step size `gamma`, and `basis` spans its
    leading right singular vectors. `inside` says that the ball is expected to contain z.
    """

    def __init__(
        self,
        target: Any = None,
        gamma: float = 0.0,
        basis: Any = None,
        *,
        inside: bool = False,
    ) -> None:
        super().__init__("the proximal points are not low-rank, or the gap falls slowly")
        self.target, self.gamma, self.basis, self.inside = target, gamma, basis, inside


class Contradicted(Exception):  # noqa: N818 (a signal, not an error)
    """Gradients contradict the declared strong convexity; the run restates the loss."""

    def __init__(self, strong_convexity: float) -> None:
        super().__init__(f"strong convexity is at most {strong_convexity:.3g}")
        self.strong_convexity = strong_convexity


@dataclass(frozen=True)
class GapParameters:
    """Constants of a run: accuracy, strong convexity, smoothness of the smooth part."""

    eps: float
    alpha: float
    beta: float


@dataclass(frozen=True, kw_only=True)
class GapMemory:
    """State that these methods share."""

    X: Array
    V: LowRank | None
    h: float
    rank: int
    parameters: GapParameters
    epoch: int = 0
    done: int = 0
    basis: Array | None = None
    cut: bool = False  # whether the cap on the rank discarded more than allowed
    y: Dual | None = None  # dual point of R
    last: float | None = None  # f at X, if it is known
    value: float = math.inf  # best value seen
    bound: float = -math.inf  # best estimate of a lower bound seen
    dual: SplitDual | FixedDual | None = None  # dual point of that bound
    gap: float = math.inf  # the method's own estimate
    progress: int = 0  # iteration that last improved the gap by a hundredth
    powers: int = 1  # power steps of a decomposition that is inexact


class InFactors:
    """Base of the state of methods whose point is a matrix in factors."""

    V: LowRank
    cut: bool = False
    dual: SplitDual | FixedDual | None = None  # the point determines it

    @property
    def X(self) -> LowRank:
        """The point."""
        return self.V


State = TypeVar("State", bound=GapMemory)


class GapDriven(Method):
    """A method without a guarantee in advance, whose accuracy is shown by a certificate."""

    rank: int | None

    answer: ClassVar[Literal["low_rank"]] = "low_rank"
    relative: ClassVar[bool] = True  # supports an accuracy relative to f
    matrices: ClassVar[tuple[str, ...]] = ("X", "V")
    patience: ClassVar[int] = PATIENCE
    # the problems to which it `applies`, in words; "" if the method checks them itself
    suits: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()  # capabilities of terms, such as "loss.centre"

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return True

    def check(self, problem: Problem) -> None:
        """Raise on invalid settings, and on a problem without the required form."""
        if self.suits and not self.applies(problem):
            wanted = "; ".join([self.suits, *undeclared(problem, *self.needs)])
            raise InputError("problem", repr(problem), wanted)
        optional_counts(rank=self.rank)

    def first(
        self, problem: Problem, X: Array | None, reference: Array, tools: Tools
    ) -> tuple[LowRank | None, float]:
        """The user's first point truncated to the allowed rank, and h there."""
        if X is None:
            return None, problem.spectral.value(LowRank.zero(problem.shape, reference))
        cut = tools.compressed(X, capped(min(problem.shape), problem.shape, self.rank))
        h = problem.spectral.value(tools.compressed(X))
        return cut.trimmed(1e-14 * float(cut.s[0])), h

    def candidate(self, memory: Any) -> Candidate:
        """The last proximal point, and the best dual point."""
        about = {"gap": memory.value - memory.bound, "dual": memory.dual, "value": memory.last}
        about["powers"] = memory.powers
        return Candidate(memory.X, memory.V, memory.h, memory.epoch, 0, **about)

    def dual(self, problem: Problem, memory: Any) -> DualPoint | OwnBound:
        """The dual points of the best bound."""
        return memory.dual or FixedDual(problem.penalty, memory.y)

    def is_cut(self, memory: Any) -> bool:
        return bool(memory.cut)

    def in_float64(self, memory: Any, problem: Problem) -> Any:
        if memory.dual is None:
            return memory
        # in a file, a dual point has the penalty of the problem given
        return replace(memory, dual=replace(memory.dual, penalty=problem.penalty))

    def stretch(
        self, memory: State, tools: Tools, iteration: Callable[[State, int], State]
    ) -> State:
        """Run `iteration(state, k)` for a stretch of k, and report each."""
        state = replace(memory, epoch=memory.epoch + 1)
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            state = replace(iteration(state, k), done=k)
            tools.tick(replace(self.candidate(state), step=k))
        return state

    def finished(self, memory: Any) -> bool:
        """Return True if the gap has stalled, because of rounding or the cap on the rank."""
        return self.stalled(memory) >= self.patience

    def stalled(self, memory: Any) -> int:
        return int(memory.done - memory.progress)


def start_at(problem: Problem, X: Array | None) -> Array:
    """The user's first point, or a broadcast zero matrix."""
    if X is not None:
        return X
    one = zeros((1, 1), problem.loss.reference)
    return namespace(one).broadcast_to(one, problem.shape)


def judged(state: State, value: float, bound: float, dual: Any, k: int) -> State:
    """Update the best value, the best estimated bound with its dual point, and the progress."""
    after: dict[str, Any] = {"value": min(value, state.value)}  # one `replace`, as it is slow
    if state.bound < bound < math.inf:  # infinite if a custom term is
        after |= {"bound": bound, "dual": dual}
    # may be negative by rounding
    gap = max(0.0, after["value"] - after.get("bound", state.bound))
    if gap < 0.99 * state.gap:
        after |= {"progress": k, "gap": gap}
    return replace(state, **after)


def rough_conjugate(
    problem: Problem, U: Array, V: LowRank, reached: float, rng: np.random.Generator
) -> float:
    """Estimate h*(U), or the part of it that is relevant at points with the value `reached`.

    U is near the dual point of V.
    """
    rough = problem.of_spectral.rough_conjugate
    if rough is None:
        return problem.spectral.conjugate(U, rng)
    random = gaussian(rng, (int(U.shape[1]), RANDOM), U)
    block = namespace(U).concat([V.Vt.T, random], axis=1)
    return float(rough(U, block, problem.radius(reached)))


def smooth_value(problem: Problem, X: Array, gradient: Array | None) -> float:
    """G(X), from its gradient if the loss is quadratic and provides `origin`."""
    origin = problem.of_loss.origin
    if origin is None or gradient is None:
        return problem.loss.value(X, problem.loss.everything())
    value, slope = origin()
    return float(value) + 0.5 * (inner(X, gradient) + inner(X, slope))


def capped(rank: int, shape: tuple[int, int], cap: int | None) -> int:
    """Limit the rank to at least 1 and at most the shape and the user's cap."""
    return max(1, min(rank, *shape, rank if cap is None else cap))


def adaptive_prox(
    tools: Tools,
    A: Array,
    state: State,
    *,
    weight: float,
    guess: float,
    cap: int | None,
    rng: np.random.Generator,
    powers: int | None = None,
    careful: bool = False,
) -> tuple[WeakProx, State]:
    """Proximal point of h at A, and the state with the rank and the basis to start with next.

    The rank grows until the truncation costs at most a share of the gap, or of the accuracy
    for `careful` methods (by the oracle's own estimate), or until it reaches the cap. It
    decreases slowly, since a rank that is too small costs a second decomposition. The guess
    replaces the value of f while there is none. Many triplets come from `powers` power steps,
    or from a full decomposition if it is 0.
    """
    gap, rank, start = state.value - state.bound, state.rank, state.basis
    error = tools.accuracy(state.value, guess)
    allowed = SHARE * (error if careful or math.isinf(gap) else max(error, gap))
    shape, last = tools.problem.shape, (3 * rank) // 4
    offered = powers is not None and cap is None and min(shape) >= SMALLEST
    offered = offered and tools.problem.of_spectral.form is not None
    while True:
        many = offered and start is not None and rank >= MANY
        tolerance = Tolerance(2 * allowed / weight, powers=(powers or 0) if many else 0)
        if (many and powers == 0) or gram_is_cheaper(shape, rank, start is not None):
            rank = capped(min(shape), shape, cap)  # a full decomposition costs the same
        prox = tools.spectral.weak_prox(
            A, weight=weight, rank=rank, tolerance=tolerance, start=start, rng=rng
        )
        enough = prox.V.rank < rank or prox.delta_estimate <= tolerance.delta1
        larger = capped(GROWTH * rank, shape, cap)
        if enough or larger <= rank:
            after = capped(max(prox.V.rank + SPARE, last), shape, cap)
            at_cap = cap is not None and prox.V.rank >= cap
            cut = at_cap and prox.delta_estimate > 0.0
            return prox, replace(state, basis=prox.basis, rank=after, cut=cut)
        rank, start = larger, prox.basis
