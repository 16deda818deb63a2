"""Davis-Yin steps on stored arrays: X, its gradient and z, for any terms.

Anderson acceleration of the iteration z <- z + F(z) combines the last points so that their
moves nearly cancel: Walker & Ni, "Anderson acceleration for fixed-point iterations", SIAM
Journal on Numerical Analysis 49(4), 2011. The constants that a loss declares are compared
with the curvature of its gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from weakprox.certificates.split import SplitDual, ValuesDual, reflected_dual
from weakprox.linalg.arrays import (
    DOUBLE,
    Arena,
    Array,
    eps_of,
    inner,
    norm,
    on_cpu,
    rough_inner,
    row_blocks,
    sqnorm,
    zeros,
)
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.linalg.simplex import ValueForm
from weakprox.linalg.thick_svd import LARGEST, SMALLEST
from weakprox.linalg.whole import whole_within
from weakprox.penalties.proximal import proximal_dual
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Dual, OwnBound, Penalty, WeakProx
from weakprox.solvers._gap_driven import (
    SOON,
    Contradicted,
    adaptive_prox,
    judged,
    rough_conjugate,
    smooth_value,
)
from weakprox.solvers._sparse_point import nuclear_norm, scale_within, scaled
from weakprox.solvers.base import Tools, replace

if TYPE_CHECKING:
    from weakprox.solvers.davis_yin import Memory

APART = 4.0  # largest ratio of the halves of the gap
# Limits for taking Y as the answer: size of the problem (in smaller ones, a low rank is worth
# the additional steps); rank of X relative to its size; gap at X relative to the accuracy; gap
# at Y relative to that at X; and after a failed proof, the next gap at Y relative to the last.
LARGE, LONG, HIGH, DISTANT, SMALLER, AGAIN = 1000, 20, 0.1, 10.0, 1 / 3, 0.7
STALLING = 8  # iterations without progress after which decompositions are more accurate
NEXT = 1.2  # multiple of the accuracy up to which an expected gap may reach it
FULL = 3  # power steps from which full decompositions are in float64
POWERS = 5  # power steps from which decompositions are exact
STEADY = 0.01  # relative change below which two moves count as equal
LONGEST = 2.0**16  # largest stride, in moves
UNMOVED = 1e3  # units of rounding below which a move counts as zero
RIDGE = 1e-10  # relative regularisation for moves that hardly differ
WORSE = 0.5  # relative increase of f above its least value after which a combination is dropped
LONGER = 10.0  # growth of a move after which it is dropped, too
WILDEST = 1e4  # combinations with larger weights are noise
FEW = 8  # differences needed before a declared smoothness is considered far too large
LOOSE = 4.0  # ratio to the largest curvature seen above which it is far too large
MARGIN = 1.5  # factor on the largest curvature seen, for directions not seen yet
VISIBLE = 1e-6  # relative length below which a difference is mostly rounding
ROUNDING = 32  # units of rounding in a gradient
CLEAR = 1e-3  # relative excess that contradicts a declared constant beyond rounding
TOO_LONG = 4.0  # curvature times gamma above which a step that is tried is taken back
SHORTEST, SHORTER = 1 / 64, 1 / 4  # range of the change of gamma after such a step


@dataclass(frozen=True)
class Curvature:
    """Smallest and largest curvature of G between iterates so far, and the last gradient."""

    X: Array
    gradient: Array
    least: float = math.inf
    most: float = 0.0
    seen: int = 0

    def then(self, X: Array, gradient: Array) -> Curvature:
        """Return the curvature updated by another iterate."""
        move, turn = X - self.X, gradient - self.gradient
        length, along = sqnorm(move), inner(turn, move)
        if not (along > 0.0 and length > VISIBLE**2 * sqnorm(X)):
            return Curvature(X, gradient, self.least, self.most, self.seen)
        # near zero, differences of iterates are small compared with the rounding of gradients
        noise = ROUNDING * eps_of(X) * norm(gradient) * math.sqrt(length)
        least, most = min(self.least, (along + noise) / length), self.most
        if along > noise / CLEAR:
            most = max(most, sqnorm(turn) / along)
        return Curvature(X, gradient, least, most, self.seen + 1)

    def smoothness(self, declared: float) -> float:
        """Return the declared smoothness, unless it is contradicted or far too large."""
        if self.most > (1 + CLEAR) * declared:
            return MARGIN * self.most
        if self.seen >= FEW and declared > LOOSE * MARGIN * self.most > 0.0:
            return MARGIN * self.most
        return declared

    def check(self, declared: float) -> None:
        """Raise if the curvature is below the declared strong convexity."""
        if self.least < (1 - CLEAR) * declared:
            raise Contradicted(0.5 * self.least)


@dataclass(frozen=True)
class Tried:
    """The last point that was accepted, if steps are tried: a loss of unbounded curvature.

    Such a loss has no step size that is short enough everywhere. If the curvature between two
    points shows that the step to the second one was too long, the iteration continues from the
    first one with a smaller gamma. Pedregosa & Gidel, "Adaptive Three Operator Splitting",
    2018, do the same with another condition.
    """

    X: Array
    V: LowRank | None
    h: float
    z: Array
    gradient: Array
    count: int = 0  # accepted points before

    def bend(self, X: Array, gradient: Array) -> float:
        """Curvature of G from this point to X; infinite or NaN if it is too large."""
        move, turn = X - self.X, gradient - self.gradient
        with np.errstate(over="ignore", invalid="ignore"):
            length, along, turned = sqnorm(move), inner(turn, move), sqnorm(turn)
        if not math.isfinite(turned):
            return math.inf
        visible = length > VISIBLE**2 * sqnorm(X) and along > 0.0
        return turned / along if visible else 0.0


@dataclass(frozen=True)
class History:
    """The last moves F and their end points z + F, oldest first."""

    moves: tuple[Array, ...] = ()
    ends: tuple[Array, ...] = ()

    def extended(self, z: Array, move: Array, most: int, arena: Arena) -> tuple[History, Array]:
        """The history with this move from z, and the next point.

        That point may be part of the history, so it must not be overwritten.
        There are three passes in blocks of rows: for z + F, for inner products of differences
        of moves, and for the combination of end points.
        """
        end = arena.like(z)
        for rows in row_blocks(z):
            end[rows] = z[rows] + move[rows]
        if most == 0:
            return self, end
        moves, ends = (*self.moves, move)[-most - 1 :], (*self.ends, end)[-most - 1 :]
        history = History(moves, ends)
        if len(moves) < 2:
            return history, end
        weights = _weights(moves)
        if weights is None:
            return History(moves[-1:], ends[-1:]), end
        # end - sum of w_i (end_{i+1} - end_i), collected by end points
        shares = np.concatenate([weights, [0.0]]) - np.concatenate([[0.0], weights])
        shares[-1] += 1.0
        point = arena.like(end)
        for rows in row_blocks(end):
            part = point[rows]
            part[...] = float(shares[0]) * ends[0][rows]
            for share, other in zip(shares[1:], ends[1:], strict=True):
                part += float(share) * other[rows]
        return history, point


def _weights(moves: tuple[Array, ...]) -> Any:
    """Weights with which the differences of moves best approximate the last move."""
    size = len(moves) - 1
    gram, right = np.zeros((size, size)), np.zeros(size)
    for rows in row_blocks(moves[-1]):
        last = moves[-1][rows]
        steps = [later[rows] - sooner[rows] for sooner, later in pairwise(moves)]
        for i, a in enumerate(steps):
            right[i] += rough_inner(a, last)
            for j in range(i + 1):
                gram[i, j] += rough_inner(a, steps[j])
    gram = gram + np.tril(gram, -1).T
    gram += RIDGE * float(np.trace(gram)) * np.eye(size)
    try:
        weights = np.linalg.solve(gram, right)
    except np.linalg.LinAlgError:
        return None
    fine = np.all(np.isfinite(weights)) and float(np.abs(weights).max()) <= WILDEST
    return weights if fine else None


class Stored:
    """Steps of one problem on arrays of the size of X."""

    def __init__(
        self, problem: Problem, tools: Tools, *, rank: int | None = None, memory: int = 2
    ) -> None:
        self.problem, self.tools = problem, tools
        self.cap, self.memory = rank, memory
        self._prox: WeakProx | None = None
        self._move: Array = None
        self._shorter: float | None = None  # change of gamma, if the step is taken back

    def project(self, state: Memory, k: int) -> Memory:
        """The proximal point of z, by a decomposition of the necessary rank."""
        z, gamma, tools = state.z, state.gamma, self.tools
        self._prox = self._inside(z) if state.inside else None
        if self._prox is None:
            guess = rough_inner(z, z) / (2 * gamma) if math.isinf(state.value) else 0.0
            steps = self._powers(state, tools.accuracy(state.value, guess), k)
            powers = steps if steps < POWERS else 0
            if steps > state.powers:  # the estimates of bounds so far may have been too large
                again = {"powers": steps, "bound": -math.inf, "gap": math.inf, "dual": None}
                state = replace(state, **again)
            how: Any = {"weight": 1.0 / gamma, "guess": guess, "cap": self.cap}
            how |= {"powers": powers, "rng": tools.rng(k)}
            self._prox, state = adaptive_prox(tools, z, replace(state, inside=False), **how)
        V = self._prox.V
        X, h = dense(V, tools.arena.like(z)), self.problem.spectral.value(V)
        return replace(state, X=X, V=V, h=h)

    def _inside(self, z: Any) -> WeakProx | None:
        """The proximal step at z if a ball is proved to contain z, without vectors."""
        form = self.problem.of_spectral.form
        assert form is not None
        if not on_cpu(z) or eps_of(z) > DOUBLE:
            return None
        self.tools.spectral.counted(min(self.problem.shape), 1)
        V = whole_within(z * 1.0, form.tau)
        if V is None:
            return None
        return WeakProx(V, 0.0, 0.0, 0.0, 0.0, None, 0, "exact", conjugate=0.0)

    def _powers(self, state: Memory, aim: float, k: int) -> int:
        """Power steps of the next decomposition: few, unless a proof is near or has failed."""
        if min(self.problem.shape) < SMALLEST:  # decompositions are accurate anyway
            return state.powers
        if k - state.progress > STALLING:
            return max(state.powers, POWERS - 1)
        if state.gap <= aim:  # but it was not proved
            return min(POWERS, state.powers + 1)
        if state.gap * state.ratio <= NEXT * aim and self._is_full(state):
            return max(state.powers, FULL)
        return max(state.powers, 2) if state.gap <= SOON * aim else state.powers

    def _is_full(self, state: Memory) -> bool:
        """Return True if the next decomposition is full; fewer powers make it less accurate."""
        basis = state.basis
        least = min(self.problem.shape)
        return basis is not None and int(basis.shape[1]) > LARGEST * least and on_cpu(basis)

    def prove(self, state: Memory, k: int) -> tuple[Memory, None]:
        """Return the state unchanged: z is stored, so the loop may prove later."""
        return state, None

    def advance(
        self, state: Memory, k: int, dual: OwnBound | None
    ) -> tuple[Memory, float, float]:
        """Return the state at X and the two halves of its gap; z does not move yet."""
        problem, tools, prox = self.problem, self.tools, self._prox
        assert prox is not None
        X, z, gamma = state.X, state.z, state.gamma
        gradient = tools.loss.grad(X, tools.loss.everything(), out=tools.arena.like(z))
        if problem.of_loss.smoothness_at is not None:
            state = self._judged_by_trial(state, gradient)
            if self._shorter is not None:
                return state, 1.0, 1.0
        else:
            state = _watched(problem, state, X, gradient)
        smooth = smooth_value(problem, X, gradient)
        parts = split(problem.penalty, X, z, gradient, gamma, state.y)
        near, self._move = max(0.0, parts.near), parts.move
        value = smooth + parts.value + state.h
        if state.parameters.alpha > 0.0:
            far = parts.length / (2 * state.parameters.alpha * gamma**2)
        else:
            far = self._flat_half(state, prox.V, min(value, state.value), tools.rng(k, 1))
        point = SplitDual(problem.penalty, z, 1.0 / gamma, prox, parts.y)
        lost = near + far + prox.delta_estimate / (2 * gamma)
        before = state.gap
        state = judged(replace(state, y=parts.y, last=value), value, value - lost, point, k)
        state = replace(state, ratio=state.gap / before if 0.0 < before < math.inf else 1.0)
        if self._sparse_pays(state, near > APART * far, k):
            state = self._at_sparse(state, math.sqrt(parts.length), k)
            near = max(0.0, state.sparse_gap - far) if math.isfinite(state.spread) else near
        return state, near, far

    def _judged_by_trial(self, state: Memory, gradient: Array) -> Memory:
        """Accept X and update the smoothness near it, or return to the last point."""
        tried, self._shorter = state.tried, None
        found = Tried(state.X, state.V, state.h, cast(Array, state.z), gradient * 1.0)
        if tried is None:
            return replace(state, tried=found)
        steep = self.problem.penalty.curvature
        relative = state.gamma * (tried.bend(state.X, gradient) + steep)
        if not relative <= TOO_LONG:
            self._shorter = max(SHORTEST, min(SHORTER, 1.0 / relative))
            return replace(state, X=tried.X, V=tried.V, h=tried.h)
        beta = self._local_smoothness(state.X, tried.count) + steep
        found = replace(found, count=tried.count + 1)
        return replace(state, tried=found, parameters=replace(state.parameters, beta=beta))

    def _local_smoothness(self, X: Array, count: int) -> float:
        """Smoothness near X: the typical one, unless it is too small or far too large."""
        assert self.problem.of_loss.smoothness_at is not None
        there, typical = self.problem.of_loss.smoothness_at(X), self.problem.loss.smoothness
        if count >= FEW and typical > LOOSE * MARGIN * there > 0.0:
            return MARGIN * there
        return max(there, typical)

    def _sparse_pays(self, state: Memory, uneven: bool, k: int) -> bool:
        """Return True if f may be much smaller at Y: X is not low-rank and far from optimal."""
        form, least = self.problem.of_spectral.form, min(self.problem.shape)
        if form is None or form.symmetric or self.cap is not None or least < SMALLEST:
            return False
        if not (state.parameters.alpha > 0.0 and math.isfinite(state.bound)):
            return False
        z = cast(Array, state.z)
        if not on_cpu(z):  # full decompositions cost more than the steps saved
            return False
        if z.dtype.itemsize == 4:  # it would be copied to float64
            return False
        if not math.isnan(state.spread):
            return math.isfinite(state.spread)
        if least < LARGE and k <= LONG:
            return False
        assert state.V is not None
        distant = state.gap > DISTANT * self.tools.accuracy(state.value, 0.0)
        return uneven and distant and state.V.most > HIGH * least

    def _at_sparse(self, state: Memory, apart: float, k: int) -> Memory:
        """Estimate the gap at Y, scaled into the domain of h; offer Y if it is small enough.

        The nuclear norm of Y exceeds that of X by about `spread` times their distance, `apart`.
        """
        problem, tools, form = self.problem, self.tools, self.problem.of_spectral.form
        assert form is not None
        assert state.V is not None
        Y, spread, size = state.X + self._move, state.spread, state.V.nuclear_norm
        if math.isnan(spread):
            tools.spectral.counted(min(problem.shape), 1)
            spread = (nuclear_norm(Y) / size - 1.0) / apart
        larger = size * (1.0 + spread * apart)
        share = scale_within(form, larger)
        Y *= share
        gap = problem.smooth_value(Y) + form.lam * share * larger - state.bound
        share = SMALLER if math.isnan(state.spread) else 1.0
        if gap > share * (cast(float, state.last) - state.bound):
            return replace(state, spread=math.inf)
        state = replace(state, spread=spread, sparse_gap=gap)
        aim = tools.accuracy(state.value, 0.0)
        if gap > min(aim, state.offer_below):
            return state
        Y /= share
        found, larger = self._offered(state, Y, form, k)
        # if it was small enough, the proof failed: repeat it for a much smaller gap only
        below = AGAIN * found if found <= aim else math.inf
        spread = (larger / size - 1.0) / apart if apart > 0.0 else spread
        return replace(state, spread=spread, sparse_gap=found, offer_below=below)

    def _offered(self, state: Memory, Y: Array, form: ValueForm, k: int) -> tuple[float, float]:
        """Offer Y, scaled into the domain of h, to the loop; return its gap and |Y|_*."""
        problem, tools, V = self.problem, self.tools, state.V
        assert V is not None
        tools.spectral.counted(min(problem.shape), 1)
        point, size = scaled(Y, V, form)
        X, h = dense(point, tools.arena.like(Y)), problem.spectral.value(point)
        value = problem.smooth_value(X) + h
        y = state.y
        if y is None:
            G = tools.loss.grad(state.X, tools.loss.everything(), out=tools.arena.like(Y))
            y = reflected_dual(problem.penalty, state.X, G, state.z, 1.0 / state.gamma)
        assert self._prox is not None
        split = SplitDual(problem.penalty, state.z, 1.0 / state.gamma, self._prox, state.y)
        gap, dual = value - state.bound, ValuesDual(problem.penalty, y, V, split)
        tools.tick(Candidate(X, point, h, state.epoch, k, gap=gap, dual=dual, value=value))
        return gap, size

    def _flat_half(self, state: Memory, V: LowRank, reached: float, rng: Any) -> float:
        """Estimate h(X) + h*(U) - <U, X>, U = -(grad G + s), which is `far` if alpha = 0."""
        U: Array = state.z  # an array here
        U, h = U - state.X, self.problem.spectral
        U += self._move
        U *= 1.0 / state.gamma
        dual = rough_conjugate(self.problem, U, V, reached, rng)
        return max(0.0, h.value(V) + dual - inner(U, state.X))

    def rebalance(self, state: Memory, change: float) -> Memory:
        """Move z by an accelerated step, or by a plain step if gamma changes."""
        z: Any = state.z
        X: Any = state.X
        move, arena = self._move, self.tools.arena
        if self._shorter is not None:
            return self._back(state, self._shorter)
        stride = _stride(state, move)
        if change == 1.0 and stride > 1.0:
            after = arena.like(z)
            for rows in row_blocks(z):
                after[rows] = z[rows] + stride * move[rows]
            history = History((move,), (after,))
            return replace(state, z=after, history=history, stride=stride)
        if change == 1.0 and _has_diverged(state, move):
            return replace(state, z=state.history.ends[-1])
        if change == 1.0:
            history, z = state.history.extended(z, move, self.memory, arena)
            return replace(state, z=z, history=history, stride=1.0)
        # keep u, and continue from Y, which becomes the next X
        after = arena.like(z)
        for rows in row_blocks(z):
            after[rows] = change * z[rows] + (1.0 - change) * X[rows]
            after[rows] += move[rows]
        gamma = state.gamma * change
        return replace(state, z=after, gamma=gamma, history=History(), stride=1.0)

    def _back(self, state: Memory, change: float) -> Memory:
        """Return to the last accepted point and its dual point u, with a smaller gamma."""
        tried: Any = state.tried
        after = self.tools.arena.like(tried.z)
        for rows in row_blocks(after):
            after[rows] = change * tried.z[rows] + (1.0 - change) * tried.X[rows]
        gamma = state.gamma * change
        tried = replace(tried, z=after)
        return replace(state, z=after, gamma=gamma, tried=tried, history=History(), stride=1.0)


@dataclass(frozen=True)
class Split:
    """Result of a step: its move Y - X, R(X), the halves of the gap, and a dual point.

    `near` is R(X) - <s, X> + phi and `length` is the squared norm of the move. The dual point
    is None if the penalty is separable, since recomputing it is cheaper than storing it.
    """

    move: Array
    value: float
    near: float
    length: float
    y: Dual | None


def split(
    penalty: Penalty, X: Array, z: Array, gradient: Array, gamma: float, start: Dual | None
) -> Split:
    """Compute Y = prox_{gamma R}(2X - z - gamma (gradient + curvature X)) and its `Split`.

    Penalties that act on rows are evaluated in blocks of rows that stay in cache. The
    move overwrites the gradient.
    """
    if not (penalty.rowwise and penalty.separable):
        return _part(penalty, X, z, gradient, gamma, start)
    value = near = length = 0.0
    for rows in row_blocks(X):
        part = _part(penalty, X[rows], z[rows], gradient[rows], gamma, None)
        value, near, length = value + part.value, near + part.near, length + part.length
    return Split(gradient, value, near, length, None)


def _part(penalty: Penalty, X: Array, z: Array, G: Array, gamma: float, start: Any) -> Split:
    """The split for some of the rows."""
    G *= -gamma
    G += (2.0 - gamma * penalty.curvature) * X
    G -= z
    y = proximal_dual(penalty, G, gamma, start)
    s = penalty.pull(y)
    value = penalty.value(X)
    near = value - rough_inner(s, X) + penalty.dual_value(y)
    if penalty.curvature:
        near -= 0.5 * penalty.curvature * rough_inner(X, X)
    G -= gamma * s
    G -= X
    return Split(G, value, near, rough_inner(G, G), None if penalty.separable else y)


def _stride(state: Memory, move: Array) -> float:
    """Length of the next step: twice the last one while moves repeat and alpha = 0.

    If G is flat, z drifts by the same small move for thousands of iterations. The
    acceleration does not detect this, since it combines differences of moves.
    """
    if state.parameters.alpha > 0.0 or not state.history.moves:
        return 1.0
    last, target = state.history.moves[-1], cast(Array, state.z)
    apart = size = length = 0.0
    for rows in row_blocks(move):
        turn, z = move[rows] - last[rows], target[rows]
        apart += rough_inner(turn, turn)
        size += rough_inner(move[rows], move[rows])
        length += rough_inner(z, z)
    visible = size > (UNMOVED * eps_of(move)) ** 2 * length
    steady = visible and apart <= STEADY**2 * size
    return min(2.0 * state.stride, LONGEST) if steady else 1.0


def _has_diverged(state: Memory, move: Array) -> bool:
    """Return True if the last combination of moves led far from a solution.

    Where G becomes flat, such as a logistic loss far from zero, moves hardly depend on z, and
    their combinations may be longer and longer steps in a wrong direction. Plain steps cannot
    lengthen the moves, so the last step is then repeated without a combination.
    """
    moves, ends = state.history.moves, state.history.ends
    if state.parameters.alpha > 0.0 or len(moves) < 2 or state.stride > 1.0:
        return False
    before, after = sqnorm(moves[-1]), sqnorm(move)
    worse = cast(float, state.last) > state.value + WORSE * abs(state.value)
    if not (worse and after > before) and not after > LONGER**2 * before:
        return False
    return bool((cast(Array, state.z) != ends[-1]).any())


def first_target(tools: Tools, gamma: float, z: Array) -> None:
    """Overwrite z by prox_{gamma R}(-gamma grad G(0))."""
    loss, R = tools.loss, tools.problem.penalty
    batch = loss.everything()
    if loss.has_centre:  # avoids a pass over a matrix of zeros
        C = loss.centre(batch, counted=True)
        for rows in row_blocks(z):
            z[rows] = (gamma * loss.smoothness) * C[rows]
    else:
        z[...] = loss.grad(zeros(tools.problem.shape, z), batch)
        z *= -gamma
    for rows in row_blocks(z) if R.rowwise and R.separable else [slice(None)]:
        part = z[rows]
        part -= gamma * R.pull(proximal_dual(R, part, gamma))


def _watched(problem: Problem, state: Memory, X: Array, gradient: Array) -> Memory:
    """Update the constants so that the gradients so far do not contradict them."""
    if problem.of_loss.centre is not None:  # its constants are exact
        return state
    gradient = gradient * 1.0  # the step will overwrite it
    if state.curvature is None:
        return replace(state, curvature=Curvature(X, gradient))
    seen = state.curvature.then(X, gradient)
    seen.check(problem.loss.strong_convexity)
    beta = seen.smoothness(problem.loss.smoothness) + problem.penalty.curvature or 1.0
    return replace(state, curvature=seen, parameters=replace(state.parameters, beta=beta))
