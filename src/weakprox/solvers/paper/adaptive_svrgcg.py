"""AdaptiveSVRGCG: the paper's method with measured instead of worst-case parameters.

The proximal target and the oracle are those of `SVRGCG`. The steps come from a line search
on the smoothed problem, the proximal weight follows the step, the smoothing starts coarse
and is halved from epoch to epoch, an epoch ends when its accuracy is reached, the measured
variance determines the numbers of samples, and the rank follows the oracle's own delta. The
theorems' values are limits. No theorem covers the other choices: the gap proves the accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from weakprox.linalg.arrays import Array, add_scaled, inner, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.pending import Pending, formed
from weakprox.passes import blend_into
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Tolerance
from weakprox.solvers.base import Tools
from weakprox.solvers.paper import svrgcg
from weakprox.solvers.paper.svrgcg import Schedule, Settings, scheduled
from weakprox.theory._theorems import ConstantSet, Parameters
from weakprox.theory.gradients import Pool, Snapshot

SHARE = 7.0 / 16.0  # allowed error of the oracle, as a share of an epoch's accuracy
SHORT, LONG = 0.5, 0.95  # steps beyond which the proximal weight is doubled or halved
# consecutive steps with less decrease than a sufficient rank would give, before giving up
HOPELESS = 8
AGAIN = 0.8  # the iterate is truncated to the rank again when its gap has fallen to this share
ROUNDING = 1e-12  # relative rounding of values of G
UNCHANGED = 1e9  # a proximal weight, relative to beta, that leaves feasible points unchanged
IDLE = 5  # consecutive steps that do not need the rank, before it is lowered
TRIALS = 12  # largest number of derivatives in a line search
FLAT = 0.01  # relative size of the derivative, or of the bracket, that ends it
FEWEST = 8  # fewest inner samples: one for each group that shows their variance
POOLED = 4.0  # times variance/(alpha accuracy): pooled samples, for an eighth of the accuracy
FRESH = 16.0  # the same for a snapshot of fresh samples
INNER = {True: 8.0, False: 16.0}  # the same for inner samples, of a finite sum or a sampler


@dataclass(frozen=True)
class Course:
    """State between epochs, beyond the paper's memory."""

    level: int  # how often the accuracy has been halved
    weight: float  # proximal weight, from alpha upwards
    variance: float  # of one sampled gradient
    pool: Pool | None = None  # all samples so far, if their centre determines the loss
    value: float = math.inf  # best value of a low-rank point
    bound: float = -math.inf  # best estimate of a lower bound
    cut_at: float = math.inf  # gap of the iterate when it was last truncated to the rank

    @property
    def gap(self) -> float:
        """Estimated distance of the best low-rank point from the optimum."""
        return self.value - self.bound


@dataclass(frozen=True)
class Memory(svrgcg.Memory):
    """The paper's memory, and the course of the run."""

    course: Course


@dataclass(frozen=True)
class AdaptiveSVRGCG(Settings):
    """SVRGCG with line search, decreasing smoothing and measured variances.

    It needs far fewer decompositions than `SVRGCG`, but has no guarantee beyond the
    certificate.

    Parameters
    ----------
    rank : int or "estimate"
        Largest rank of the weak proximal oracle. "estimate" adjusts it during the run.
    mu : float, optional
        Final smoothing.
    eta : float or callable, optional
        Step size instead of the line search; a callable gets (epoch, step), both from 1.
    epochs : int, optional
        Epochs to run.
    C0, sigma, delta, delta2, k_s, k_t, inner, answer
        As in `SVRGCG`.
    """

    constants: ConstantSet = field(default="practical", init=False, repr=False)

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Parameters, the first point and the first accuracy."""
        begun = super().start(problem, X, tools)
        p = begun.parameters
        course = Course(level=1, weight=p.alpha, variance=p.sigma**2)
        return Memory(**vars(begun), course=course)

    def finished(self, memory: Memory) -> bool:
        """Return True if the last accuracy, or the last requested epoch, has been reached."""
        done = memory.epoch if self.epochs is not None else memory.course.level - 1
        return done >= memory.parameters.epochs

    def dual(self, problem: Problem, memory: Memory) -> Smoothed:
        """Return the penalty as the next epoch smooths it."""
        mu = smoothing(memory.parameters, memory.course.level)
        return problem.smoothed(mu)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: snapshot, then weak proximal steps until its accuracy is reached."""
        p, s = memory.parameters, memory.epoch + 1
        epoch = Epoch(self, problem, memory, tools)
        most = math.ceil(p.inner * epoch.beta / p.beta)
        for t in range(1, int(scheduled(self.inner, most, s)) + 1):
            epoch.step(t)
            if self.inner is None and epoch.done:
                break
        return epoch.memory()


svrgcg.IMPLEMENTED["practical"] = lambda: AdaptiveSVRGCG


def accuracy(p: Parameters, level: int) -> float:
    """Return an epoch's accuracy in the smoothed problem: half of the one before."""
    return p.C0 * 2.0**-level


def smoothing(p: Parameters, level: int) -> float:
    """Return mu with a bias of twice the accuracy, but never below the theory's."""
    return p.mu * max(1.0, 2.0 * accuracy(p, level) / p.bias) if p.bias > 0.0 else p.mu


class Epoch:
    """The steps of one epoch; `memory` returns everything that outlives it."""

    def __init__(
        self, solver: AdaptiveSVRGCG, problem: Problem, memory: Memory, tools: Tools
    ) -> None:
        self.solver, self.problem, self.tools = solver, problem, tools
        self.before, self.p, self.number = memory, memory.parameters, memory.epoch + 1
        self.rng = tools.rng(self.number)
        k_s, k_t = _whole(solver.k_s, self.number), _whole(solver.k_t, self.number, 1)
        self.snapshot, self.course = self._opened(memory.X, memory.course, k_s)
        # half of the terms, sampled, cost as much as full gradients
        least = 2 * self.p.k_t if k_t is None else k_t
        all_terms = self.p.finite_sum and least >= self.p.n_terms
        self.quiet = tools.loss.samples_cancel or all_terms
        self.target = accuracy(self.p, self.course.level)
        self.R = solver.dual(problem, memory)
        self.beta = self.p.beta_G + self.R.smoothness
        self.X, self.V, self.h = memory.X * 1.0, memory.V, memory.h_bound
        self.basis, self.delta = memory.basis, memory.delta
        most = min(problem.shape) if solver._estimates_rank else memory.rank
        self.rank = Rank(memory.rank, most)
        self.judged = self.quiet and self.p.finite_sum  # values of f are available
        self.G = self._loss(self.X) if self.judged else math.nan
        self.weight = min(self.course.weight, self.beta) if self.quiet else self.p.alpha
        self.gap, self.near = math.inf, math.inf  # of the smoothed problem; what it hides
        self.first_gap = math.inf  # at the snapshot
        self.hopeless, self.inner_samples = 0, FEWEST
        self.A: Array | None = None  # one array serves all targets of the epoch

    def _opened(self, X: Array, course: Course, k_s: int | None) -> tuple[Snapshot, Course]:
        """Return a snapshot at X, and the course with what its samples show.

        If the samples' centre determines the loss, later epochs reuse it. The exact minimiser
        over k of them is within sigma^2/(2 alpha k) in the mean, so that POOLED leaves an
        eighth of the accuracy. Otherwise the snapshot is the paper's, with measured variance.
        """
        loss, p, rng = self.tools.loss, self.p, self.rng
        if p.finite_sum:
            return Snapshot.take(loss, X, rng, None), course
        needed = course.variance / (p.alpha * accuracy(p, course.level))
        most = p.k_s(course.level)
        if loss.samples_cancel and loss.has_centre:
            kept = 0 if course.pool is None else course.pool.size
            fresh = max(1, min(math.ceil(POOLED * needed), most) - kept) if k_s is None else k_s
            snapshot = Snapshot.pooled(loss, X, rng, fresh, course.pool)
            return snapshot, replace(course, pool=snapshot.pool)
        if k_s is None and not loss.samples_cancel:
            size = max(FEWEST, min(math.ceil(FRESH * needed), most))
            snapshot, variance = Snapshot.measured(loss, X, rng, size)
            return snapshot, replace(course, variance=variance)
        return Snapshot.take(loss, X, rng, most if k_s is None else k_s), course

    @property
    def done(self) -> bool:
        """Return True if the accuracy is reached, or cannot be reached with this rank."""
        return self.gap <= self.target or self.hopeless >= HOPELESS

    def step(self, t: int) -> None:
        """One weak proximal step with a line search."""
        p, factor = self.p, 1.0 if self.quiet else 2.0
        given = self.solver.eta is not None
        eta = self.solver._step_size(p.alpha / (factor * self.beta), self.number, t)
        self.weight = factor * self.beta * eta if given else self.weight
        weight, target = self.weight, self._target(t)
        allowed = max(p.alpha * p.delta, SHARE * self.target)
        prox = self.tools.spectral.weak_prox(
            target,
            weight=weight,
            rank=self.rank.now,
            tolerance=Tolerance(0.5 * allowed / weight, p.delta2),
            start=self.basis,
            rng=self.rng,
        )
        V, h = prox.V, self.problem.spectral.value(prox.V)
        self.A, self.basis = formed(target), prox.basis
        A = self.A
        self.delta += p.contraction * (prox.delta_estimate - self.delta)
        D = V.dense()
        D -= self.X
        A -= self.X  # now minus the gradient over the weight
        # a custom h may be infinite at the oracle's point: it is then left out
        rise = h - self.h if math.isfinite(h) and math.isfinite(self.h) else 0.0
        line = Line(self.R, self.X, D, rise - weight * inner(A, D), factor)
        # the subgradient of h that comes with V bounds the smoothed problem from below
        self.gap = -line.slope - weight * line.square * (1.0 - 0.5 * weight / p.alpha)
        lost = 0.5 * weight * prox.delta_estimate

        offered, there = V, math.nan
        if self.judged or (t == 1 and p.finite_sum):  # a snapshot's gradient has no noise
            self.G = self.G if self.judged else self._loss(self.X)
            there = self._loss(self.X + D)
            offered = self._assessed(V, there + h, lost)
        own = line.slope - line.pull - rise  # G's share of the slope
        eta, fell = self._searched(line, own, there, eta, given)
        fell += self.R.value(self.X) - eta * rise
        blend_into(self.X, V, eta, scratch=A)
        fell -= self.R.value(self.X)
        self.V, self.h = V, (1 - eta) * self.h + eta * h
        self._followed(V.rank, eta, fell, lost, allowed)
        about = {"delta_estimate": prox.delta_estimate, "scratch": A, "dual": self.R}
        seen = Candidate(self.X, offered, self.h, self.number, t, gap=self.course.gap, **about)
        self.tools.tick(seen)

    def _target(self, t: int) -> Array | Pending:
        """Return the proximal target X - gradient/weight of step t."""
        X, loss, k_t = self.X, self.tools.loss, _whole(self.solver.k_t, self.number, t)
        first = self.gap == math.inf
        if first or self.quiet or k_t is not None:
            size = loss.n_terms if self.quiet else k_t or 0
            return self.snapshot.target(
                loss, X, self.R, self.weight, self.rng, size, first=first, out=self.A
            )
        if self.first_gap == math.inf:
            self.first_gap = self.gap
        A = self._reduced_gradient()
        self.R.target(X, A, self.weight)
        return A

    def _reduced_gradient(self) -> Array:
        """Return the gradient, with a variance that is small relative to the remaining gap.

        Noisy gradients overestimate the gap in the mean, so half of it is trusted.
        """
        p, loss = self.p, self.tools.loss
        room = p.alpha * max(0.5 * (self.first_gap + self.gap), self.target)
        size = min(self.inner_samples, p.k_t)
        found = self.snapshot.difference(loss, self.X, self.rng, size)
        while True:
            wanted = min(math.ceil(INNER[p.finite_sum] * found.variance / room), p.k_t)
            if wanted <= found.size:
                break
            size = wanted - found.size
            found = found.joined(self.snapshot.difference(loss, self.X, self.rng, size))
        self.inner_samples = max(FEWEST, wanted)
        assert self.snapshot.gradient is not None
        add_scaled(found.mean, 1.0, self.snapshot.gradient)
        return found.mean

    def _loss(self, X: Array) -> float:
        return self.problem.loss.value(X, self.problem.loss.everything())

    def _searched(
        self, line: Line, slope: float, there: float, eta: float, given: bool
    ) -> tuple[float, float]:
        """Return the step along the line and the decrease of G, or a lower bound on it.

        The model of G is a quadratic through its value at V if that is known, else one with
        the curvature of its smoothness. The latter is also used if the value at the step
        contradicts the former.
        """
        least, curvature = eta, self.problem.loss.smoothness
        bends = [curvature]
        if self.judged and not self.tools.loss.has_centre and line.square > 0.0:
            seen = 2.0 * max(0.0, there - self.G - slope) / line.square
            bends.insert(0, min(seen, curvature))
        for curvature in bends:
            eta = least if given else line.minimum(curvature, least)
            falls = -eta * (slope + 0.5 * curvature * line.square * eta)
            if not self.judged:
                return eta, falls
            G = self._loss(self.X + eta * line.D)
            if falls - ROUNDING * (abs(self.G) + abs(G)) <= self.G - G:
                break
        self.G, falls = G, self.G - G
        return eta, falls

    def _assessed(self, V: LowRank, value: float, lost: float) -> LowRank:
        """Return the better of V and, if it is worth a decomposition, X truncated to the rank.

        The best value of such points and the best bound from the dual point at X are kept.
        """
        R, y = self.R.penalty, self.R.dual(self.X)
        top = R.value(self.X)
        linear = inner(R.pull(y), self.X) - R.dual_value(y)
        self.near = max(0.0, top - 0.5 * R.curvature * sqnorm(self.X) - linear)
        f = self.G + top + self.h
        c = self.course
        bound = max(c.bound, f - self.near - self.gap - lost)
        value = value + R.value(V.dense())
        eps, own = self.tools.eps, f - bound
        if own <= eps < min(value, c.value) - bound and own <= AGAIN * c.cut_at:
            cut = self.tools.spectral.weak_prox(
                self.X, weight=UNCHANGED * self.beta, rank=self.rank.now, rng=self.rng
            ).V
            c = replace(c, cut_at=own)
            its = self.problem.value(cut)
            if its < value:
                V, value = cut, its
        self.course = replace(c, bound=bound, value=min(value, c.value))
        return V

    def _followed(
        self, used: int, eta: float, fell: float, lost: float, allowed: float
    ) -> None:
        """Adjust the proximal weight, the rank and the count of hopeless steps.

        Exact proximal points, and the paper's of weight alpha if the rank covers the
        optimum, decrease f by at least alpha/beta of its error. After a step that does
        not, the weight is reduced. At the smallest weight such a step means that the rank
        is too small, or that the accuracy is already reached.
        """
        p, theory = self.p, self.p.alpha / self.beta
        if self.quiet:
            hopeless = self.weight <= p.alpha and fell < theory * self.target
            self.hopeless = self.hopeless + 1 if hopeless else 0
            if eta >= LONG or fell < theory * self.gap:
                self.weight = max(p.alpha, 0.5 * self.weight)
            elif eta < SHORT:
                self.weight = min(self.beta, 2.0 * self.weight)
        if self.solver._estimates_rank:
            self.rank.follow(used, 2.0 * lost, allowed)

    def memory(self) -> Memory:
        """Return everything the next epoch reads."""
        level = self.course.level + 1
        reached = self.gap + self.near
        if self.p.finite_sum and 0.0 < reached < math.inf:  # skip levels already reached
            level = max(level, math.floor(math.log2(self.p.C0 / reached)))
        return replace(
            self.before,
            X=self.X,
            V=self.V,
            h_bound=self.h,
            epoch=self.number,
            rank=self.rank.now,
            basis=self.basis,
            delta=self.delta,
            course=replace(self.course, level=level, weight=self.weight),
        )


def _whole(setting: Schedule, *where: int) -> int | None:
    """Return the number of samples that the user requested, None if the method chooses."""
    return None if setting is None else int(scheduled(setting, 0.0, *where))


@dataclass
class Rank:
    """The oracle's rank: raised if its delta is too large, lowered if it is not used."""

    now: int
    most: int
    least: int = 1
    idle: int = 0

    def follow(self, used: int, lost: float, allowed: float) -> None:
        """Adjust after a step with this many triplets and this error due to omitted ones."""
        self.idle = self.idle + 1 if used + 2 < self.now else 0
        if lost > allowed and self.now < self.most:
            self.now = self.least = min(2 * self.now, self.now + 10, self.most)
        elif self.idle >= IDLE and used + 2 >= self.least:  # never below a raised rank
            self.now, self.idle = used + 2, 0


@dataclass
class Line:
    """The segment from X to X + D, and the smoothed objective along it."""

    R: Smoothed
    X: Array
    D: Array
    slope: float  # of the whole objective at X, h included by convexity
    factor: float  # 2 if the gradient is noisy (Young's inequality), else 1
    square: float = field(init=False)
    pull: float = field(init=False)  # the penalty's share of the slope

    def __post_init__(self) -> None:
        """Compute the products that every trial needs."""
        self.square = sqnorm(self.D)
        self.pull = self.R.slope(self.X, self.D)

    def derivative(self, eta: float, curvature: float) -> float:
        """Return the derivative at X + eta D, for a G of this curvature."""
        bend = self.R.slope(self.X, self.D, eta) - self.pull
        return self.slope + self.factor * (curvature * self.square * eta + bend)

    def minimum(self, curvature: float, least: float) -> float:
        """Return a zero of the derivative, by regula falsi from the theory's step.

        The derivative is not positive at the result nor before it, so the objective is
        never above its value at the theory's step.
        """
        low, high = min(least, 1.0), 1.0
        below, above = self.derivative(low, curvature), self.derivative(high, curvature)
        if below >= 0.0 or above <= 0.0:
            return low if below >= 0.0 else high
        for _ in range(TRIALS):
            eta = low - below * (high - low) / (above - below)
            at = self.derivative(eta, curvature)
            if at > 0.0:
                high, above, below = eta, at, 0.5 * below  # Illinois rule: the end that stays
            else:
                low, below, above = eta, at, 0.5 * above
            flat = -FLAT * abs(self.slope) <= at <= 0.0
            if flat or high - low <= FLAT * high:
                break
        return low
