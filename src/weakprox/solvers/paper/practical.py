"""An epoch of SVRGCG with what theory leaves on the table.

The paper's target and oracle, but: steps by line search on the smoothed problem, a
proximal weight that follows the step, smoothing that is coarse at first and halved from
epoch to epoch, epochs that end when their accuracy is reached, samples as the measured
variance asks for them, and a rank that follows the oracle's own delta. The theorems'
values are limits, and no theorem covers the rest: what is reached, the gap proves.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, inner, sqnorm
from weakprox.linalg.kernels import blend_into
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Tolerance
from weakprox.solvers.paper._practical import (
    Course,
    Line,
    Rank,
    Source,
    accuracy,
    opened,
    smoothing,
)
from weakprox.solvers.tools import Tools
from weakprox.theory._parameters import Parameters
from weakprox.theory._theorems import Schedule, scheduled

if TYPE_CHECKING:
    from weakprox.solvers.paper.svrgcg import SVRGCG, Memory

FIRST_RANK = 8
SHARE = 7.0 / 16.0  # of an epoch's accuracy, what the oracle may cost
SHORT, LONG = 0.5, 0.95  # steps beyond which the proximal weight is doubled or halved
HOPELESS = 8  # steps in a row below what a sufficient rank would bring, before giving up
AGAIN = 0.8  # the iterate is cut to the rank anew when its gap has fallen to this share
ROUNDING = 1e-12  # of values of G
AS_IT_IS = 1e9  # a proximal weight, relative to beta, that leaves feasible points alone


def first_course(p: Parameters) -> Course:
    """Before the first epoch."""
    return Course(level=1, weight=p.alpha, variance=p.sigma**2)


def finished(solver: SVRGCG, memory: Memory) -> bool:
    """Whether the last accuracy, or the last epoch that the user asked for, is done."""
    assert memory.course is not None
    done = memory.epoch if solver.epochs is not None else memory.course.level - 1
    return done >= memory.parameters.epochs


def smoothed(problem: Problem, memory: Memory) -> Smoothed:
    """The penalty as the next epoch smooths it."""
    assert memory.course is not None
    mu = smoothing(memory.parameters, memory.course.level)
    return Smoothed.of(problem.penalty, mu, problem.shape)


def epoch(solver: SVRGCG, problem: Problem, memory: Memory, tools: Tools) -> Memory:
    """Snapshot, then weak proximal steps until the epoch's accuracy is reached."""
    assert memory.course is not None
    p, s, rng = memory.parameters, memory.epoch + 1, tools.rng(memory.epoch + 1)
    k_s, k_t = _whole(solver.k_s, s), _whole(solver.k_t, s, 1)
    source, course = opened(tools.loss, p, memory.X, memory.course, rng, k_s=k_s, k_t=k_t)
    walk = Walk(solver, problem, tools, source, memory, course)
    most = math.ceil(p.inner * walk.beta / p.beta)
    for t in range(1, int(scheduled(solver.inner, most, s)) + 1):
        walk.step(t)
        if solver.inner is None and walk.done:
            break
    return walk.memory()


class Walk:
    """The steps of one epoch; everything that outlives it goes into the memory."""

    def __init__(
        self,
        solver: SVRGCG,
        problem: Problem,
        tools: Tools,
        source: Source,
        memory: Memory,
        course: Course,
    ) -> None:
        self.solver, self.problem, self.tools, self.source = solver, problem, tools, source
        self.before, self.course, self.p = memory, course, memory.parameters
        self.epoch, self.rng = memory.epoch + 1, source.rng
        self.target = accuracy(self.p, course.level)
        self.R = smoothed(problem, memory)
        self.beta = self.p.beta_G + self.R.smoothness
        self.X, self.V, self.h = memory.X * 1.0, memory.V, memory.h_bound
        self.basis, self.delta = memory.basis, memory.delta
        estimated = solver.rank == "estimate"
        self.rank = Rank(memory.rank, min(problem.shape) if estimated else memory.rank)
        self.judged = source.quiet and self.p.finite_sum  # values of f are at hand
        self.G = self._loss(self.X) if self.judged else math.nan
        self.weight = min(course.weight, self.beta) if source.quiet else self.p.alpha
        self.gap, self.near = math.inf, math.inf  # of the smoothed problem; what it hides
        self.hopeless = 0
        self.A: Array | None = None  # one array serves all targets of the epoch

    @property
    def done(self) -> bool:
        """Whether the accuracy is reached, or out of reach for this rank."""
        return self.gap <= self.target or self.hopeless >= HOPELESS

    def step(self, t: int) -> None:
        """One weak proximal step with a line search."""
        p, factor = self.p, 1.0 if self.source.quiet else 2.0
        given = self.solver.eta is not None
        eta = scheduled(self.solver.eta, p.alpha / (factor * self.beta), self.epoch, t)
        if not 0 < eta <= 1:
            raise InputError("eta", f"{eta} at epoch {self.epoch}, step {t}", "in (0, 1]")
        self.weight = factor * self.beta * eta if given else self.weight
        weight, k_t = self.weight, _whole(self.solver.k_t, self.epoch, t)
        A = self.source.proximal_target(self.X, self.R, weight, self.gap, k_t, self.A)
        allowed = max(p.alpha * p.delta, SHARE * self.target)
        prox = self.tools.spectral.weak_prox(
            A,
            weight=weight,
            rank=self.rank.now,
            tolerance=Tolerance(0.5 * allowed / weight, p.delta2),
            start=self.basis,
            rng=self.rng,
        )
        self.A, self.basis, V, h = A, prox.basis, prox.V, self.problem.spectral.value(prox.V)
        self.delta += p.contraction * (prox.delta_estimate - self.delta)
        D = V.dense()
        D -= self.X
        A -= self.X  # now minus the gradient over the weight
        # a user's own h may call the oracle's point infeasible: then h plays no part
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
        seen = Candidate(self.X, offered, self.h, self.epoch, t, gap=self.course.gap, **about)
        self.tools.tick(seen)

    def _loss(self, X: Array) -> float:
        return self.problem.loss.value(X, self.problem.loss.everything())

    def _searched(
        self, line: Line, slope: float, there: float, eta: float, given: bool
    ) -> tuple[float, float]:
        """The step along the line, and how much G falls by it (at least, if not judged).

        G bends as its smoothness allows; where its value at V is at hand, as a quadratic
        with that value would, unless the value at the step found shows that it is none.
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
        """The better of V and, where it is worth a decomposition, X cut to the rank.

        Keeps the best value of such points and the best bound from the dual point at X.
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
                self.X, weight=AS_IT_IS * self.beta, rank=self.rank.now, rng=self.rng
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
        """Proximal weight, rank and hope after a step.

        Exact proximal points, and the paper's of weight alpha if the rank covers the
        optimum, make f fall by alpha/beta of its error at least. A step that does not is
        followed by a smaller weight, and at the smallest it says that the rank does not
        suffice, or that the accuracy is reached without our knowing.
        """
        p, theory = self.p, self.p.alpha / self.beta
        if self.source.quiet:
            if self.weight <= p.alpha and fell < theory * self.target:
                self.hopeless += 1
            else:
                self.hopeless = 0
            if eta >= LONG or fell < theory * self.gap:
                self.weight = max(p.alpha, 0.5 * self.weight)
            elif eta < SHORT:
                self.weight = min(self.beta, 2.0 * self.weight)
        if self.solver.rank == "estimate":
            self.rank.follow(used, 2.0 * lost, allowed)

    def memory(self) -> Memory:
        """Everything the next epoch reads."""
        level = self.course.level + 1
        reached = self.gap + self.near
        if self.p.finite_sum and 0.0 < reached < math.inf:  # skip what is reached already
            level = max(level, math.floor(math.log2(self.p.C0 / reached)))
        course = replace(self.course, level=level, weight=self.weight)
        return replace(
            self.before,
            X=self.X,
            V=self.V,
            h_bound=self.h,
            epoch=self.epoch,
            rank=self.rank.now,
            basis=self.basis,
            delta=self.delta,
            course=course,
        )


def _whole(setting: Schedule, *where: int) -> int | None:
    """A number of samples that the user asked for, None if theirs to choose is ours."""
    return None if setting is None else int(scheduled(setting, 0.0, *where))
