"""Accelerated proximal gradient steps with X in factors, for losses of observed entries.

Beck & Teboulle, "A Fast Iterative Shrinkage-Thresholding Algorithm", 2009, with restarts
(O'Donoghue & Candes, 2015): the target of a step is (1+b) X - b X' - grad G / L, an operator
made of two low-rank terms and a sparse matrix S. Its leading triplets come from one power step
with a warm block. Nothing of the size of X is stored.

Such steps find small singular values slowly: where few entries are observed, the gradient
changes by a small share of the change of X. The residual S then keeps singular values above the
weight lam of the nuclear norm, which makes proofs fail. A *correction* takes the triplets
u, s, v of S with s > lam and finds M with

    u' (h . (u M v')) v = diag(s - lam),

h being the curvature of the observed entries, by a few conjugate gradient steps. X + u M v' has
nearly the dual point of a solution: it gives the proof, and the next steps start from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.observed import (
    ObservedDual,
    Triplets,
    beside,
    filtered,
    host,
    triplets,
)
from weakprox.linalg.arrays import Array, gaussian, gram, inner, like, namespace, wide
from weakprox.linalg.decompositions import eigh, svd
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.entry_losses import is_squared, threshold_of
from weakprox.losses.observed import LOOSE, TIGHT, Effects, Observed
from weakprox.passes import ValueForm
from weakprox.passes.blocks import Vector
from weakprox.passes.ritz import ritz, whitened
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers._gap_driven import STRETCH, GapDriven, GapParameters, InFactors, TooWide
from weakprox.solvers.admm import ADMM
from weakprox.solvers.base import ARRAYS, Tools, fits

SHARE = 0.1  # accuracy of intercepts, as a share of the relative gap
NARROW = 0.2  # share of triplets in a block: see _as_array
FIRST_WIDTH = 16  # width of the block of the first decomposition
CONJUGATE = 3  # conjugate gradient steps of a correction; more would fit noise
SPARE, EIGHTH = 16, 8  # random columns of a block: at least 16, and an eighth of the others
WIDEST = 192  # width of the blocks of the first two corrections at most
KEPT = 0.85  # triplets of S with values above this share of the largest are kept
SECOND, FIRST = 2, 7  # steps before the corrections that follow the one at the start
LEAST, MOST = 5, 24  # steps between later ones
UNKNOWNS = 4  # observations required for each unknown of a correction
GROUP = 0.25  # share of the largest excess from which directions count in the first correction
LEFT = 0.2  # share of what the norm of S adds to a gap that a second correction leaves
TENFOLD = 8  # steps that are expected to reduce the gap tenfold
# relative squared residual and curvature below which they are rounding errors
SOLVED, FREE = 1e-20, 1e-12
EARLY, WORTH = 8, 1e-4  # later corrections are kept if they gain this share of the gap
# From this share of all triplets, and this step on, full decompositions of an array with the
# proximal map of G take less time than so many further steps with wide blocks: fewer if the
# map has a formula. Smaller arrays gain nothing.
CROWDED, SETTLED, SMALLEST = 0.32, 8, 100
REMAINING, REMAINING_BY_NEWTON = 18.0, 26.0
LATER = 1.5  # factor of these after that step: the first prediction is too small
OF_MEMORY = 4  # times as much memory must be free
TRIES = 64  # lengths of a step, each half of the one before, if smoothness is unbounded
# largest growth of the loss in a correction, and number of shorter lengths tried
GROWTH, SHORTER = 2.0, 40


@dataclass(frozen=True)
class Memory(InFactors):
    """State between two steps; `x` are the entries of X at the observations."""

    V: LowRank
    x: Array | Vector
    before: LowRank
    x_before: Array | Vector
    effects: Effects
    block: Array
    steep: float  # 1 / step size
    parameters: GapParameters
    rank: int = 0
    momentum: float = 1.0
    level: float = math.inf  # lam, or the multiplier of the ball
    due: int = 0  # the next correction comes before this step
    tried: int = 0  # step of the last correction
    extra: Array | None = None  # directions of the last correction
    epoch: int = 0
    done: int = 0
    value: float = math.inf  # best value seen
    last: float = math.inf  # f at X
    gap: float = math.inf
    progress: int = 0  # step that last improved the gap by a hundredth
    left: float = 0.0  # further steps that the last corrections predict


@dataclass(frozen=True)
class FactoredProximal(GapDriven):
    """Proximal gradient steps with X in factors, for losses of observed entries.

    G is a `Completion` (any loss, with or without intercepts), R is zero, and h is
    `NuclearNorm` or `NuclearBall`. Memory grows with the number of observations and with
    (m + d) times the rank, not with m d. Observations may be in files or on workers, in blocks
    of rows; memory then grows with the size of a block. It is the default for such problems.
    `ADMM` takes over if X is far from low-rank, its arrays take little memory, and many steps
    remain.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the solution.
    """

    rank: int | None = None

    elsewhere: ClassVar[bool] = True  # observations may be in files or on workers
    factored: ClassVar[bool] = True
    double: ClassVar[bool] = True
    suits: ClassVar[str] = (
        "a loss of observed entries, no penalty, and NuclearNorm or NuclearBall"
    )
    needs: ClassVar[tuple[str, ...]] = ("loss.observed", "spectral.form")

    @property
    def fallback(self) -> ADMM:
        """The method for points that are far from low-rank."""
        return ADMM(rank=self.rank)

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return problem.observed is not None

    def start(self, problem: Problem, X: Array | LowRank | None, tools: Tools) -> Memory:
        """Constants, the user's first point or zero, and the best intercepts there."""
        data, form = _terms(problem)
        first = LowRank.zero(data.shape, data.zero().rows)
        if X is not None:
            given = tools.compressed(X, self._cap(data))
            first = LowRank(wide(given.U), wide(given.s), wide(given.Vt))
        x = data.entries(first)
        effects = data.fitted(x)
        steep = data.smoothness
        if steep is None:
            steep = float(namespace(x).max(data.curvature(x, effects)))
        width = min(FIRST_WIDTH, *data.shape)
        block = gaussian(tools.rng(0), (data.shape[1], width), x)
        if first.rank:  # the leading vectors of the residual are near those of X
            known = first.Vt[: first.rank].T * math.sqrt(data.shape[1])
            block = namespace(x).concat([known, block], axis=1)[:, : min(data.shape)]
        parameters = GapParameters(tools.eps, 0.0, steep)
        value = data.value(x, effects) + problem.spectral.value(first)
        level = form.lam if math.isinf(form.tau) else 0.0
        options: dict[str, Any] = {"last": value, "value": value, "rank": first.rank}
        return Memory(
            first, x, first, x, effects, block, steep, parameters, level=level, **options
        )

    def candidate(self, memory: Memory) -> Candidate:
        """The last point."""
        return _candidate(memory, memory.done)

    def dual(self, problem: Problem, memory: Memory) -> ObservedDual:
        """The dual point of a correction at X."""
        steps = Steps(problem, None, self.rank)
        return steps.corrected(memory)[1]

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Make a stretch of steps."""
        steps, state = Steps(problem, tools, self.rank), memory
        dual: ObservedDual | None = None  # of the last correction
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            # the multiplier of a ball is known only after some steps
            if k > max(state.due, 0 if state.level > 0.0 else FIRST):
                state, dual = steps.correct(state, k)
            state = steps.proximal(state)
            tools.tick(_candidate(state, k, dual))
            if k >= SETTLED and steps.crowded(state) and _as_arrays(problem):
                raise TooWide
        return replace(state, epoch=memory.epoch + 1, done=memory.done + STRETCH)

    def _cap(self, data: Observed) -> int:
        return min(*data.shape, self.rank or min(data.shape))


def _as_arrays(problem: Problem) -> bool:
    """Return True if `ADMM` applies, and its arrays take little of the free memory."""
    if not ADMM.applies(problem) or problem.elsewhere or min(problem.shape) < SMALLEST:
        return False
    needed = ARRAYS["ADMM"].most * math.prod(problem.shape) * 8
    return fits(problem, OF_MEMORY * needed)


def _values(W: Array) -> tuple[Any, Any]:
    """Singular values of W, the largest first, and the vectors of its shorter side."""
    squares, turn = eigh(gram(W))
    return np.sqrt(np.maximum(squares[::-1], 0.0)), np.ascontiguousarray(turn[:, ::-1])


def _over(turn: Any, s: Any) -> Any:
    """The vectors over their values."""
    return turn / np.maximum(s, 1e-300 + 1e-14 * float(s[0]))


@dataclass(frozen=True)
class Steps:
    """Steps on one problem."""

    problem: Problem
    tools: Tools | None
    cap: int | None
    most: int | None = None  # width of the blocks of corrections

    data: Observed = field(init=False)
    form: ValueForm = field(init=False)

    def __post_init__(self) -> None:
        """Look up the terms once."""
        data, form = _terms(self.problem)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "form", form)

    @property
    def widest(self) -> int:
        """Largest width of a block."""
        return min(self.data.shape)

    def crowded(self, state: Memory) -> bool:
        """Return True if X has a large share of all triplets, and many steps remain."""
        plain = threshold_of(self.data.loss) is not None
        enough = REMAINING if plain else REMAINING_BY_NEWTON
        enough *= LATER if state.tried > SETTLED else 1.0
        return state.V.rank >= CROWDED * self.widest and state.left >= enough

    def proximal(self, state: Memory) -> Memory:
        """One accelerated step, and a restart if f rises."""
        data, tools = self.data, self.tools
        assert tools is not None
        ahead = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        b = (state.momentum - 1.0) / ahead
        y = state.x + b * (state.x - state.x_before) if b else state.x
        fine = self._fine(state)
        effects = data.fitted(y, state.effects, fine)
        q = data.dual(y, effects)
        steep, tries = state.steep, 0
        while True:
            V, level, block, passes = self._prox(state, q, b, steep)
            tools.spectral.counted(int(block.shape[1]), passes)
            tools.loss.counted(1)
            x = data.entries(V)
            smooth = data.value(x, effects)
            if data.smoothness is not None or tries > TRIES:
                break
            # G must lie below its quadratic model at the new point
            model = data.value(y, effects) - inner(q, x - y)
            model += 0.5 * steep * self._distance(V, state, b)
            if smooth <= model + 1e-10 * abs(model):
                break
            steep, tries = 2.0 * steep, tries + 1
        effects = data.fitted(x, effects, fine)
        value = data.value(x, effects) + self.problem.spectral.value(V)
        rises = value > state.last
        if data.smoothness is None and not tries:
            steep = 0.95 * steep  # perhaps too large by now
        return replace(
            state,
            V=V,
            x=x,
            before=state.V,
            x_before=state.x,
            effects=effects,
            block=block,
            steep=steep,
            rank=V.rank,
            momentum=1.0 if rises else ahead,
            level=level,
            last=value,
            value=min(state.value, value),
        )

    def _fine(self, state: Memory) -> float:
        """Relative accuracy of the intercepts, which limits that of the point.

        Steps that no longer reduce the gap may need better intercepts: steps in a ball that has
        no effect have converged for the given intercepts.
        """
        share = state.gap / abs(state.value) if state.value else 0.0
        idle = max(0, state.tried - state.progress - MOST) / LEAST
        return max(TIGHT, min(LOOSE, SHARE * share) * math.pow(0.1, idle))

    def _prox(
        self, state: Memory, q: Array, b: float, steep: float
    ) -> tuple[LowRank, float, Array, int]:
        """Proximal point of the target, its multiplier, the next block, and the products."""
        data, X, before = self.data, state.V, state.before
        left, right = X.U * X.s, X.Vt.T * X.s
        left_before, right_before = before.U * before.s, before.Vt.T * before.s

        def times(B: Array) -> Array:
            found = data.times(q, B) * (1.0 / steep) + (1.0 + b) * (left @ (X.Vt @ B))
            return found - b * (left_before @ (before.Vt @ B)) if b else found

        def transpose_times(B: Array) -> Array:
            found = data.transpose_times(q, B) * (1.0 / steep)
            found = found + (1.0 + b) * (right @ (X.U.T @ B))
            return found - b * (right_before @ (before.U.T @ B)) if b else found

        V, passes = state.block, 0
        if self._as_array(V):
            target = data.full(q) * (1.0 / steep) + ((1.0 + b) * left) @ X.Vt
            if b:
                target -= (b * left_before) @ before.Vt
            return self._prox_of_array(target, steep)
        for _ in range(8):
            Q = whitened(times(V), rounds=1)
            W = transpose_times(Q)
            passes += 2
            s, turn = _values(W)
            kept, rank = self._kept(s, steep)
            width = len(s)
            if rank < width or width == self.widest:
                break
            V = self._wider(W, 2 * width)  # the block misses triplets that are kept
        shown, wanted = max(rank, 1), self._wanted(rank)
        U = Q @ like(turn[:, :shown], Q)
        right = W @ like(_over(turn, s), W)
        block = right[:, :wanted]
        if int(block.shape[1]) < wanted:
            block = self._wider(block, wanted)
        found = LowRank(U, like(kept[:shown], U), right[:, :shown].T)
        return found, self._level(s, kept, steep), block, passes

    def _as_array(self, block: Array) -> bool:
        """Return True if an array the size of X is cheaper: few missing entries, many triplets.

        The array is then not larger than a few vectors of observations.
        """
        wide = int(block.shape[1]) >= NARROW * self.widest
        return wide and self.data.is_full()

    def _prox_of_array(self, target: Array, steep: float) -> tuple[LowRank, float, Array, int]:
        """Do the same for a target that is an array, by eigenvectors of its shorter side."""
        tall = target.shape[0] > target.shape[1]
        W = target if tall else target.T
        s, turn = _values(W)
        kept, rank = self._kept(s, steep)
        shown, wanted = max(rank, 1), self._wanted(rank)
        long = W @ _over(turn, s)[:, :wanted]
        U, right = (long, turn) if tall else (turn, long)
        found = LowRank(U[:, :shown], kept[:shown], right[:, :shown].T)
        return found, self._level(s, kept, steep), right[:, :wanted], 2

    def _kept(self, s: Any, steep: float) -> tuple[Any, int]:
        """Singular values of the proximal point, and its rank."""
        kept = self.form.prox(s, 1.0 / steep)
        if self.cap is not None:
            kept[self.cap :] = 0.0
        return kept, int((kept > 0.0).sum())

    def _wanted(self, rank: int) -> int:
        """Width of the next block."""
        return min(self.widest, rank + max(4, rank // 8))

    def _level(self, s: Any, kept: Any, steep: float) -> float:
        """The weight lam, or the multiplier of the ball."""
        if math.isinf(self.form.tau):
            return float(self.form.lam)
        return float(np.max(s - kept)) * steep if kept.any() else float(s[0]) * steep

    def _wider(self, V: Array, width: int) -> Array:
        """The block with random columns added up to this width."""
        missing = min(width, self.widest) - int(V.shape[1])
        if missing <= 0:
            return V
        rng = np.random.default_rng(int(V.shape[1]))
        more = gaussian(rng, (int(V.shape[0]), missing), V) * (1.0 / math.sqrt(V.shape[0]))
        size = math.sqrt(max(inner(V, V), 1e-300) / int(V.shape[1]))
        return namespace(V).concat([V, more * size], axis=1)

    def _distance(self, V: LowRank, state: Memory, b: float) -> float:
        """Squared distance of V from the point (1 + b) X - b X'."""
        point = state.V.plus(state.before, mine=1.0 + b, theirs=-b) if b else state.V
        found = V.sqnorm + point.sqnorm - 2.0 * V.inner(point)
        return max(0.0, found)

    def correct(self, state: Memory, k: int) -> tuple[Memory, ObservedDual]:
        """Try a proof with the corrected point, and continue from there."""
        tools = self.tools
        assert tools is not None
        aim = tools.accuracy(state.value)
        after, dual = self.corrected(state, aim)
        gap = max(0.0, state.value - dual.estimate)  # negative if a custom conjugate is wrong
        progress = k if gap < 0.99 * state.gap else state.progress
        rate = 1.0 / TENFOLD
        if math.isfinite(state.gap) and state.gap > gap > 0.0:
            rate = math.log10(state.gap / gap) / (k - state.tried)
        left = math.inf
        if aim > 0.0 and rate > 0.0:
            left = math.log10(max(gap / aim, 1.0)) / rate
        wait = min(max(left, LEAST), MOST)
        due = k - 1 + int(wait)
        if k <= FIRST:
            due = SECOND if k == 1 else FIRST
        plan: dict[str, Any] = {
            "due": due,
            "tried": k,
            "progress": progress,
            "gap": min(gap, state.gap),
            "left": left,
        }
        state = replace(state, **plan)
        if k > 1:
            tools.tick(_candidate(state, k, dual, gap))
            gain = after.last < state.last - WORTH * gap
            if k > EARLY and not gain:
                return state, dual  # momentum gains more
        return replace(after, **plan), dual

    def corrected(self, state: Memory, aim: float = 0.0) -> tuple[Memory, ObservedDual]:
        """Return the state moved to the corrected point, and the dual point there.

        It is corrected a second time, from the triplets that are known then, if the gap should
        become as small as `aim`: this costs half as much as another correction later.
        """
        data, level = self.data, state.level
        after, known, again = state, None, False
        while True:
            after, found, count = self.moved(after, known)
            x, V, effects = after.x, after.V, after.effects
            q = data.dual(x, effects)
            q = data.feasible(q, data.curvature(x, effects))
            start = beside(V.trimmed().Vt.T, found.above(KEPT * level).V[:, count:])
            least = max(level, KEPT * float(found.s[0]))
            del found, known  # some of the largest arrays
            known = self._shown(q, start, least, EIGHTH, self._most(state))
            dual = ObservedDual(data, q, self.form, known, effects)
            after = replace(after, extra=known.above(KEPT * float(known.s[0])).V)
            gap, least = state.value - dual.estimate, state.value - dual.best(level)[0]
            if again or not gap > aim > least + LEFT * (gap - least):
                return after, dual
            del dual
            again = True

    def moved(
        self, state: Memory, found: Triplets | None = None
    ) -> tuple[Memory, Triplets, int]:
        """Return the state at the corrected point, the triplets of S, and the number used.

        The triplets may be `found` already.
        """
        data, level = self.data, state.level
        effects = data.fitted(state.x, state.effects)
        found = found or self._leading(state, data.dual(state.x, effects), level)
        if self.tools is not None:
            self.tools.spectral.counted(len(found.s), 3)
        count = int((found.s > level * (1 + 1e-9)).sum()) if level > 0.0 else len(found.s)
        count = min(count, math.isqrt(data.size // UNKNOWNS) + 1)
        x, V = state.x, state.V
        if count and state.extra is None:  # large directions first: the others depend on them
            excess = found.s[:count] - level
            count = int((excess > GROUP * excess[0]).sum())
        if count:
            u, v, s = found.U[:, :count], found.V[:, :count], found.s[:count]
            M, moved = self._sizes(u, v, s - level, data.curvature(x, effects))
            length = self._length(state, moved)
            x, M = x + length * moved, length * M
            V = _sum(V, u, M, v)
            effects = data.fitted(x, effects)
        width = min(self.widest, max(V.rank, 1) + 4)
        block = self._wider(V.Vt.T[:, :width], width)
        last = data.value(x, effects) + self.problem.spectral.value(V)
        after = replace(
            state,
            V=V,
            x=x,
            before=V,
            x_before=x,
            effects=effects,
            block=block,
            momentum=1.0,
            last=last,
            extra=found.V[:, count:] if count < len(found.s) else None,
            rank=V.rank,
        )
        return after, found, count

    def _length(self, state: Memory, moved: Array) -> float:
        """Length of a correction: one, or less if the loss would grow too much."""
        data, length = self.data, 1.0
        if is_squared(data.loss):  # whose curvature is the same everywhere
            return length
        limit = GROWTH * max(data.value(state.x, state.effects), 1e-300)
        for _ in range(SHORTER):
            with np.errstate(over="ignore"):
                if data.value(state.x + length * moved, state.effects) <= limit:
                    break
            length *= 0.5
        return length

    def _leading(self, state: Memory, q: Array, level: float) -> Triplets:
        """Triplets of S that include all with values above the level."""
        if state.extra is None:  # at the start nothing is known about S
            start = whitened(state.block)
            return self._shown(q, start, max(level, 1e-300), 2, self._most(state), GROUP)
        start = beside(state.V.trimmed().Vt.T, state.extra)
        return self._shown(q, start, level, EIGHTH, self._most(state))

    def _most(self, state: Memory) -> int:
        """Largest width of a block; less at the start, where S changes considerably."""
        widest = self.widest if self.most is None else min(self.widest, self.most)
        return widest if state.tried > 1 else min(widest, WIDEST + state.rank)

    def _shown(
        self, q: Array, V: Array, level: float, share: int, widest: int, group: float = 0.0
    ) -> Triplets:
        """Triplets of S from a block and random columns, until values fall below the level.

        `share` is the width of the block relative to the number of columns that are added,
        `group` the share of the excess over the level below which values do not matter.
        """
        if self._as_array(V):
            return self._all_shown(self.data.full(q), KEPT * level, widest)
        least = KEPT * level
        while True:
            width = int(V.shape[1])
            more = min(max(SPARE, width // share), widest - width)
            if more > 0:
                rng = np.random.default_rng([width, more])
                W = gaussian(rng, (self.data.shape[1], more), V)
                V = beside(V, filtered(self.data, q, W - V @ (V.T @ W), least))
            found = triplets(self.data, q, V)
            stuck = int(V.shape[1]) == width  # S has no other directions
            least = KEPT * (level + group * max(0.0, float(found.s[0]) - level))
            if len(found.s) >= widest or found.s[-1] < least or stuck:
                return found
            V, share = found.V, 1  # twice as wide: narrow products cost little less

    @staticmethod
    def _all_shown(S: Array, least: float, most: int) -> Triplets:
        """Triplets of an array with values down to the first below `least`."""
        tall = S.shape[0] > S.shape[1]
        W = S if tall else S.T
        s, turn = _values(W)
        count = min(most, int((s >= least).sum()) + 1)
        V = turn[:, :count] if tall else whitened(W @ _over(turn, s)[:, :count])
        found = ritz(S @ V, V, exact=True)
        return Triplets(found.U, found.s, found.V)

    def _sizes(self, u: Array, v: Array, excess: Any, h: Array) -> tuple[Array, Array]:
        """M with u' (h . (u M v')) v near diag(excess), and u M v' at the observations."""
        data = self.data
        r = np.diag(excess)
        M, p, square = np.zeros_like(r), r, float((r * r).sum())
        moved, solved = 0.0 * h, SOLVED * square
        steepest = float(namespace(h).max(h))  # the map of M is bent by no more than this
        for _ in range(CONJUGATE):
            at = data.sampled(u @ like(p, u), v)
            product = host(u.T @ data.times(h * at, v))
            bend = float((p * product).sum())
            # with few observations, parts of M are not determined: steps there are unbounded
            if not bend > FREE * steepest * float((p * p).sum()):
                break
            length = square / bend
            M, moved, r = M + length * p, moved + length * at, r - length * product
            before, square = square, float((r * r).sum())
            if square <= solved:
                break
            p = r + (square / before) * p
        return like(M, u), moved


def _terms(problem: Problem) -> tuple[Observed, ValueForm]:
    data, form = problem.observed, problem.of_spectral.form
    assert data is not None
    assert form is not None
    return data, form


def _candidate(
    state: Memory, k: int, shown: ObservedDual | None = None, gap: float = math.nan
) -> Candidate:
    V, value = state.V, state.last
    return Candidate(V, V, 0.0, state.epoch, k, gap=gap, dual=shown, value=value)


def _sum(X: LowRank, u: Array, M: Array, v: Array) -> LowRank:
    """X + u M v' as factors."""
    xp = namespace(u)
    left = whitened(xp.concat([X.U, u], axis=1))
    right = whitened(xp.concat([X.Vt.T, v], axis=1))
    core = ((left.T @ X.U) * X.s) @ (X.Vt @ right) + (left.T @ u) @ M @ (v.T @ right)
    U, s, Vt = svd(host(core))
    return LowRank(left @ like(U, left), like(s, left), like(Vt, left) @ right.T)
