"""SVRGCG: stochastic variance-reduced generalised conditional gradient.

Garber & Kaplan, "Fast Stochastic Algorithms for Low-rank and Nonsmooth Matrix Problems",
AISTATS 2019: Algorithm 1 (G sampled) and Algorithm 2 (G a finite sum) on the smoothed
problem of its Section 4. `SVRGCG.step` is one epoch and reads like the algorithm box.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from weakprox.arguments import integer, number, one_of, optional_numbers
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.pending import formed
from weakprox.passes import blend_into
from weakprox.penalties.base import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Candidate, Tolerance
from weakprox.solvers.base import Method, Tools, first_point
from weakprox.theory._theorems import PILOT, ConstantSet, Parameters, parameters
from weakprox.theory.gradients import Snapshot, mean_gradient

FIRST_RANK = 8  # rank at which the search for the rank begins

Schedule = float | int | Callable[..., float] | None


def scheduled(value: Schedule, default: float, *where: int) -> float:
    """Return a setting that is a number, a callable of (epoch[, step]), or the default."""
    if value is None:
        return default
    return float(value(*where)) if callable(value) else float(value)


@dataclass(frozen=True)
class Memory:
    """All state that the next epoch reads; a copy of it is a checkpoint.

    Epoch s takes its random numbers from the stream (seed, s): the epoch number is the
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


@dataclass(frozen=True)
class Settings(Method):
    """Settings and bounds that `SVRGCG` and `AdaptiveSVRGCG` share."""

    narrow: ClassVar[bool] = True
    units: ClassVar[tuple[str, ...]] = ("mu", "C0", "sigma", "delta", "delta2")

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

    matrices: ClassVar[tuple[str, ...]] = ("X", "V")

    @property
    def _estimates_rank(self) -> bool:
        """Return True if the method chooses the rank."""
        return isinstance(self.rank, str) and self.rank == "estimate"

    def check(self, problem: Problem) -> None:
        if not self._estimates_rank:
            integer("rank", self.rank, 1, instead="'estimate'")
        one_of("answer", self.answer, ("low_rank", "iterate"))
        optional_numbers(
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
        """Parameters, rank and the first point X_1, zero unless given."""
        X = first_point(problem, X)
        names = ("constants", "mu", "C0", "sigma", "delta", "delta2")
        given = {name: getattr(self, name) for name in names}
        given["eta"] = self.eta if isinstance(self.eta, (int, float)) else None
        given |= {"start": X, "seed": tools.seed, "loss": tools.loss}
        found = parameters(problem, tools.eps, **given)
        if self.epochs is not None:
            found = replace(found, S=int(self.epochs) + 1)
        estimates = self._estimates_rank
        rank = self._first_rank(problem, X, found, tools) if estimates else int(self.rank)
        h = problem.spectral.value(tools.compressed(X))
        return Memory(X, None, h, 0, min(rank, *problem.shape), None, 0.0, found)

    def _first_rank(self, problem: Problem, X: Array, p: Parameters, tools: Tools) -> int:
        """Return the rank to begin with if the user gives none."""
        return FIRST_RANK

    def _step_size(self, default: float, epoch: int, step: int) -> float:
        """Return eta at this step, which must be in (0, 1]."""
        eta = scheduled(self.eta, default, epoch, step)
        if not 0 < eta <= 1:
            raise InputError("eta", f"{eta} at epoch {epoch}, step {step}", "a step in (0, 1]")
        return eta

    def promised(self, memory: Memory) -> float:
        """Return the theorem's bound on E f(X_S) - f*, infinite if no theorem applies."""
        changed = (self.eta, self.k_s, self.k_t, self.inner, self.epochs)
        if any(setting is not None for setting in changed):
            return float("inf")
        return memory.parameters.bound(memory.parameters.S)

    def predicted_svds(self, memory: Memory) -> int:
        return memory.parameters.predicted_svds

    def oracle_excess(self, memory: Memory) -> float:
        """Return what the oracle's measured inexactness adds to the promise.

        The theorem requires psi(V) <= psi(X*) + delta, which holds with delta = 0 if the
        rank covers X*. X* is unknown, so delta is measured over all feasible points.
        Half of the theorem's delta is reserved for the SVD's own inexactness; the other
        half is what omitted triplets may cost.
        """
        p = memory.parameters
        return 8.0 / 7.0 * p.alpha * max(0.0, memory.delta - 0.5 * p.delta)

    def candidate(self, memory: Memory) -> Candidate:
        """Return the points to evaluate at the end of an epoch."""
        return Candidate(memory.X, memory.V, memory.h_bound, memory.epoch, 0)


ARMS = ("oracle", "variance_reduction")  # settings of `weakprox.experiments.ablation.Arm`
# Classes that implement settings of earlier versions. They are defined in terms of this module
# and entered from outside: by the module that defines one, or by `weakprox` if it is loaded
# later.
IMPLEMENTED: dict[str, Callable[[], Any]] = {}


@dataclass(frozen=True)
class SVRGCG(Settings):
    """The paper's algorithm; parameters that are not given follow from its theorems.

    Parameters
    ----------
    rank : int or "estimate"
        Rank of the weak proximal oracle: that of the optimum, or more; at most the smaller
        dimension of X. "estimate" takes the rank of the first proximal points.
    constants : {"repaired", "paper"}
        Constant set, see `weakprox.theory.parameters`. The former value "practical" is
        deprecated: use `AdaptiveSVRGCG`.
    mu, C0, sigma, delta : float, optional
        Smoothing, initial gap, gradient noise, oracle accuracy.
    delta2 : float
        Allowed increase of the value due to the rank (Definition 2 of the paper).
    eta : float or callable, optional
        Step size; a callable gets (epoch, step), both from 1.
    k_s, inner : number or callable, optional
        Snapshot samples and inner steps; a callable gets (epoch).
    k_t : number or callable, optional
        Inner samples; a callable gets (epoch, step).
    epochs : int, optional
        Epochs to run instead of the theorem's S - 1.
    answer : {"low_rank", "iterate"}
        What to return: the best point of the requested rank, or the theorem's iterate
        X_S, whose rank may be higher.

    The former arguments `oracle` and `variance_reduction` are deprecated: use
    `weakprox.experiments.ablation.Arm`.
    """

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        """Return an object of the class that now implements settings of earlier versions."""
        names = [field.name for field in fields(cls)]
        given = dict(zip(names, args, strict=False)) | settings
        former = [name for name in given if name in ARMS]
        constants = given.get("constants")
        practical = isinstance(constants, str) and constants == "practical"
        if cls is not SVRGCG or not (former or practical):
            return object.__new__(cls)
        old, new = "constants='practical'", "weakprox.solvers.AdaptiveSVRGCG"
        if former:
            old, new = "oracle and variance_reduction", "weakprox.experiments.ablation.Arm"
        text = f"SVRGCG: {old} will be removed; use {new}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        if former:
            return object.__new__(IMPLEMENTED["arm"]())  # a subclass, which Python initialises
        del given["constants"]
        return IMPLEMENTED["practical"]()(**given)

    def check(self, problem: Problem) -> None:
        one_of("constants", self.constants, ("repaired", "paper"))
        super().check(problem)

    def finished(self, memory: Memory) -> bool:
        """Return True if S - 1 epochs are done."""
        return memory.epoch >= memory.parameters.epochs

    def dual(self, problem: Problem, memory: Memory) -> Smoothed:
        """Return the smoothed penalty; its maximiser at X is the dual point of a proof."""
        return problem.smoothed(memory.parameters.mu)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """One epoch: snapshot gradient, then T - 1 weak proximal steps."""
        p, s = memory.parameters, memory.epoch + 1
        rng, R = tools.rng(s), self.dual(problem, memory)
        rank, tolerance = memory.rank, Tolerance(0.5 * p.delta, p.delta2)
        k_s = None if p.finite_sum else int(scheduled(self.k_s, p.k_s(s), s))
        steps = int(scheduled(self.inner, p.inner, s))

        snapshot = self._snapshot(tools.loss, memory.X, rng, k_s)
        X, V, h, basis = memory.X * 1.0, memory.V, memory.h_bound, memory.basis
        delta, A = memory.delta, tools.arena.like(X)  # which serves all targets of the epoch
        for t in range(1, steps + 1):
            eta = self._step_size(p.eta, s, t)
            k_t = int(scheduled(self.k_t, p.k_t, s, t))
            weight = 2 * p.beta * eta
            target = snapshot.target(tools.loss, X, R, weight, rng, k_t, first=t == 1, out=A)
            prox = tools.spectral.weak_prox(
                target, weight=weight, rank=rank, tolerance=tolerance, start=basis, rng=rng
            )
            A = formed(target)
            delta += p.contraction * (prox.delta_estimate - delta)
            if t == steps and s == p.epochs:  # measured once without a warm start
                cold = problem.spectral.weak_prox(
                    A, weight=weight, rank=rank, tolerance=tolerance, certify=True, rng=rng
                )
                delta = max(delta, cold.delta_estimate)
            V, basis = prox.V, prox.basis
            blend_into(X, V, eta, scratch=A)
            h = (1 - eta) * h + eta * problem.spectral.value(V)
            tools.tick(Candidate(X, V, h, s, t, prox.delta_estimate, scratch=A))
        return replace(memory, X=X, V=V, h_bound=h, epoch=s, basis=basis, delta=delta)

    def _snapshot(
        self, loss: Any, X: Array, rng: np.random.Generator, k_s: int | None
    ) -> Snapshot:
        """Return the epoch's source of gradients, from k_s samples or from all terms."""
        return Snapshot.take(loss, X, rng, k_s)

    def _first_rank(self, problem: Problem, X: Array, p: Parameters, tools: Tools) -> int:
        """Return the rank of the proximal point after two steps, found by doubling.

        The second step starts from the point of the first, where the penalty's gradient is
        close to its final form. This is an estimate: the optimum may need a higher rank.
        """
        rng = tools.rng(0)
        R = problem.smoothed(p.mu)
        size = None if p.finite_sum else max(PILOT, p.k_s(1))
        cap = min(problem.shape)
        rank = min(FIRST_RANK, cap)
        for _ in range(2):
            grad = mean_gradient(tools.loss, X, rng, size) + R.grad(X)
            A = X - grad / p.alpha
            while True:
                prox = tools.spectral.weak_prox(
                    A, weight=p.alpha, rank=rank, tolerance=Tolerance(p.delta), rng=rng
                )
                settled = prox.V.rank < rank or prox.delta_estimate <= p.delta
                if settled or rank >= cap:
                    break
                rank = min(2 * rank, cap)
            X = prox.V.dense()
        return max(1, min(prox.V.rank, cap))


# what help and hints show
SVRGCG.__new__.__signature__ = inspect.signature(SVRGCG.__init__)  # type: ignore[attr-defined]
