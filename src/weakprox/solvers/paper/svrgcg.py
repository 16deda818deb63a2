"""SVRGCG: stochastic variance-reduced generalised conditional gradient.

Garber & Kaplan, "Fast Stochastic Algorithms for Low-rank and Nonsmooth Matrix Problems",
AISTATS 2019: Algorithm 1 (G sampled) and Algorithm 2 (G a finite sum) on the smoothed
problem of its Section 4. `step` is one epoch and reads like the algorithm box.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from weakprox.arguments import flag, number
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, zeros
from weakprox.linalg.kernels import blend_into
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Tolerance
from weakprox.solvers.base import Method
from weakprox.solvers.paper import practical
from weakprox.solvers.paper._practical import Course
from weakprox.solvers.paper.rank import checked_rank, estimated_rank
from weakprox.solvers.tools import Tools
from weakprox.theory._parameters import Parameters
from weakprox.theory._theorems import (
    ConstantSet,
    Schedule,
    check_overrides,
    parameters,
    scheduled,
)
from weakprox.theory.gradients import Snapshot


@dataclass(frozen=True)
class Memory:
    """Everything the next epoch reads, so that a copy of it is a checkpoint.

    Random numbers of epoch s come from the stream (seed, s): the epoch number is the
    random state.
    """

    X: Array
    V: LowRank | None
    h_bound: float
    epoch: int
    rank: int
    basis: Array | None
    delta: float  # the oracle's inexactness, averaged as it enters the bound
    parameters: Parameters
    course: Course | None = None  # of a practical run


@dataclass(frozen=True)
class SVRGCG(Method):
    """Settings of the paper's algorithm; what is left out is worked out by theory.

    Parameters
    ----------
    rank : int or "estimate"
        Rank of the weak proximal oracle: that of the optimum, or more. "estimate" lets
        the first proximal steps choose it, and practical runs go on changing it.
    constants : {"repaired", "paper", "practical"}
        Constant set, see `weakprox.theory.parameters`. "practical" keeps the method and
        lets a line search, a falling mu and measured variances and gaps choose what the
        theorems fix: far fewer decompositions, and no promise beyond the certificate.
    mu, C0, sigma, delta : float, optional
        Smoothing, initial gap, gradient noise, oracle accuracy.
    delta2 : float
        What the rank may cost in value (Definition 2 of the paper).
    eta : float or callable, optional
        Step; a callable gets (epoch, step), both from 1.
    k_s, inner : number or callable, optional
        Snapshot samples (those of every step without variance reduction) and inner
        steps; a callable gets (epoch).
    k_t : number or callable, optional
        Inner samples; a callable gets (epoch, step).
    epochs : int, optional
        Epochs to run instead of the theorem's S - 1.
    answer : {"low_rank", "iterate"}
        What to return: the best point of the rank asked for, or the theorem's iterate
        X_S, whose rank may be higher.
    oracle : {"weak", "exact"}
        "exact" replaces the paper's step by an exact proximal gradient step (a full
        decomposition each): what the weak oracle is compared with. The theorem holds for
        it too, since its model is the minimum over all points, the paper's one of them.
        `rank` then plays no part.
    variance_reduction : bool
        False draws fresh samples for every step instead, as many as the same bound needs
        (`Parameters.k_fresh`, or `k_s` if given; all terms of a finite sum). For
        comparison.
    """

    rank: int | Literal["estimate"] = "estimate"
    constants: ConstantSet = "repaired"
    mu: float | None = None
    C0: float | None = None
    sigma: float | None = None
    delta: float | None = None
    delta2: float = 0.0
    eta: Schedule = None
    k_s: Schedule = None
    k_t: Schedule = None
    inner: Schedule = None
    epochs: int | None = None
    answer: Literal["low_rank", "iterate"] = "low_rank"
    oracle: Literal["weak", "exact"] = "weak"
    variance_reduction: bool = True

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work, before any work."""
        checked_rank(self.rank)
        if self.answer not in ("low_rank", "iterate"):
            raise InputError("answer", repr(self.answer), "'low_rank' or 'iterate'")
        if self.oracle not in ("weak", "exact"):
            raise InputError("oracle", repr(self.oracle), "'weak' or 'exact'")
        flag("variance_reduction", self.variance_reduction)
        if self.constants == "practical":
            if self.oracle != "weak":
                raise InputError("oracle", repr(self.oracle), "'weak' with practical constants")
            if not self.variance_reduction:
                wanted = "True with practical constants"
                raise InputError("variance_reduction", False, wanted)
        check_overrides(
            mu=self.mu, C0=self.C0, sigma=self.sigma, delta=self.delta, delta2=self.delta2
        )
        for name in ("eta", "k_s", "k_t", "inner", "epochs"):
            given = getattr(self, name)
            if given is None or (callable(given) and name != "epochs"):
                continue
            wanted = "a step in (0, 1]" if name == "eta" else "a number >= 1"
            found = number(name, given, wanted)
            unused = name == "k_t" and problem.loss.samples_cancel
            whole = name != "epochs" or found % 1 == 0
            if not (0 < found <= 1 if name == "eta" else (found >= 1 and whole) or unused):
                raise InputError(name, repr(given), wanted)
        problem.constants()

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Memory:
        """Parameters and the first point X_1 (zero unless given)."""
        if X is None:
            X = zeros(problem.shape, problem.loss.reference)
        found = parameters(
            problem,
            tools.eps,
            constants=self.constants,
            mu=self.mu,
            C0=self.C0,
            sigma=self.sigma,
            delta=self.delta,
            delta2=self.delta2,
            eta=self.eta if isinstance(self.eta, (int, float)) else None,
            start=X,
            seed=tools.seed,
            loss=tools.loss,
        )
        rank, wise = self.rank, self.constants == "practical"
        if rank == "estimate":
            first_rank = min(practical.FIRST_RANK, *problem.shape)
            rank = first_rank if wise else estimated_rank(problem, X, found, tools)
        first = tools.compressed(X)
        h = problem.spectral.value(first)
        if self.epochs is not None:
            found = replace(found, S=int(self.epochs) + 1)
        course = practical.first_course(found) if wise else None
        most = min(int(rank), *problem.shape)
        return Memory(X, None, h, 0, most, None, 0.0, found, course)

    def finished(self, memory: Memory) -> bool:
        """Whether S - 1 epochs are done."""
        if memory.course is not None:
            return practical.finished(self, memory)
        return memory.epoch >= memory.parameters.epochs

    def promised(self, memory: Memory) -> float:
        """The theorem's bound on E f(X_S) - f*; infinite for settings it does not cover."""
        changed = (self.eta, self.k_s, self.k_t, self.inner, self.epochs)
        if any(setting is not None for setting in changed):
            return float("inf")
        return memory.parameters.bound(memory.parameters.S)

    def oracle_excess(self, memory: Memory) -> float:
        """What the oracle's measured inexactness adds to the promise.

        The theorem asks for psi(V) <= psi(X*) + delta, which holds with delta = 0 if the
        rank covers X*. That cannot be seen; what can is a delta for every feasible point.
        Half of the theorem's delta goes to the SVD's own inexactness, so the other half
        is what leaving out triplets may cost.
        """
        p = memory.parameters
        return 8.0 / 7.0 * p.alpha * max(0.0, memory.delta - 0.5 * p.delta)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: snapshot gradient, then T - 1 weak proximal steps."""
        if self.constants == "practical":
            return practical.epoch(self, problem, memory, tools)
        p, s = memory.parameters, memory.epoch + 1
        rng = tools.rng(s)
        R = self.dual(problem, memory)
        tolerance = Tolerance(0.5 * p.delta, p.delta2)
        steps = int(scheduled(self.inner, p.inner, s))
        needed = p.k_s(s) if self.variance_reduction else p.k_fresh(s)
        k_s = None if p.finite_sum else int(scheduled(self.k_s, needed, s))

        snapshot = Snapshot.take(tools.loss, memory.X, rng, k_s)
        X, V, h, basis = memory.X * 1.0, memory.V, memory.h_bound, memory.basis
        delta, A = memory.delta, None  # one array serves all targets of the epoch
        exact = self.oracle == "exact"
        rank = min(problem.shape) if exact else memory.rank
        for t in range(1, steps + 1):
            eta = scheduled(self.eta, p.eta, s, t)
            if not 0 < eta <= 1:
                raise InputError("eta", f"{eta} at epoch {s}, step {t}", "a step in (0, 1]")
            k_t = int(scheduled(self.k_t, p.k_t, s, t))
            weight = 2 * p.beta if exact else 2 * p.beta * eta
            if t > 1 and not self.variance_reduction:
                snapshot = Snapshot.take(tools.loss, X, rng, k_s)
            first = t == 1 or not self.variance_reduction
            A = snapshot.target(tools.loss, X, R, weight, rng, k_t, first=first, out=A)
            prox = tools.spectral.weak_prox(
                A, weight=weight, rank=rank, tolerance=tolerance, start=basis, rng=rng
            )
            delta += p.contraction * (prox.delta_estimate - delta)
            if t == steps and s == p.epochs:  # once without the memory of earlier steps
                audit = problem.spectral.weak_prox(
                    A, weight=weight, rank=rank, tolerance=tolerance, certify=True, rng=rng
                )
                delta = max(delta, audit.delta_estimate)
            V, basis = prox.V, prox.basis
            move = 1.0 if exact else eta
            blend_into(X, V, move, scratch=A)
            h = (1 - move) * h + move * problem.spectral.value(V)
            tools.tick(Candidate(X, V, h, s, t, prox.delta_estimate, scratch=A))
        return replace(memory, X=X, V=V, h_bound=h, epoch=s, basis=basis, delta=delta)

    def dual(self, problem: Problem, memory: Memory) -> Smoothed:
        """The smoothed penalty: its maximiser at X is the dual point to certify with."""
        if memory.course is not None:
            return practical.smoothed(problem, memory)
        return Smoothed.of(problem.penalty, memory.parameters.mu, problem.shape)

    def candidate(self, memory: Memory) -> Candidate:
        """What the loop may judge at an epoch's end."""
        return Candidate(memory.X, memory.V, memory.h_bound, memory.epoch, 0)
