"""Running SVRGCG on an instance and keeping what the theorems speak about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from theory._model import Instance, nuclear

import weakprox as wp
from weakprox.protocols import Tolerance, WeakProx

QUIET: dict[str, Any] = {
    "stop_when_certified": False,
    "progress": False,
    "evaluation_samples": 2,
    "look_every": 1 << 30,
}


@dataclass
class Recording:
    """A spectral term that remembers every target it was given and every answer."""

    term: Any
    log: list[tuple[np.ndarray, float, WeakProx]] = field(default_factory=list)

    @property
    def symmetric(self) -> bool:
        return self.term.symmetric

    def value(self, X: Any) -> float:
        return self.term.value(X)

    def violation(self, X: Any) -> float:
        return self.term.violation(X)

    def weak_prox(self, A: np.ndarray, **options: Any) -> WeakProx:
        target = A.copy()
        found = self.answer(A, **options)
        if not options.get("certify"):  # those calls serve C0 and the certificate
            self.log.append((target, options["weight"], found))
        return found

    def answer(self, A: np.ndarray, **options: Any) -> WeakProx:
        return self.term.weak_prox(A, **options)

    def conjugate(self, U: np.ndarray, rng: np.random.Generator) -> float:
        return self.term.conjugate(U, rng)

    def compress(self, X: np.ndarray, rank: int, rng: np.random.Generator) -> Any:
        return self.term.compress(X, rank, rng)

    def random_point(self, *arguments: Any) -> Any:
        return self.term.random_point(*arguments)

    def check(self, shape: tuple[int, int]) -> None:
        self.term.check(shape)


@dataclass
class Sloppy(Recording):
    """An oracle that uses up its delta: it strays towards a bad point until it must stop."""

    towards: np.ndarray | None = None

    def answer(self, A: np.ndarray, **options: Any) -> WeakProx:
        found = self.term.weak_prox(A, **options)
        delta = options.get("tolerance", Tolerance()).delta1
        V = found.V.dense()
        D = self.towards - V
        slope, curve = 2 * float(((V - A) * D).sum()), float((D**2).sum())
        c = (-slope + np.sqrt(slope**2 + 4 * curve * delta)) / (2 * curve)
        V = V + min(1.0, c) * D
        U, s, Vt = np.linalg.svd(V, full_matrices=False)
        return replace(found, V=wp.LowRank(U, s, Vt))


def sloppy_problem(instance: Instance) -> wp.Problem:
    """The same problem with an oracle that strays to the point opposite to the optimum."""
    best = instance.optimum[1]
    term = Sloppy(instance.problem.spectral, towards=-instance.size / nuclear(best) * best)
    return wp.Problem(instance.loss, instance.problem.penalty, term)


def recorded(
    instance: Instance, solver: wp.SVRGCG, *, eps: float, seed: int = 0
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, float, WeakProx]], Any]:
    """All iterates X_{1,1}, X_{1,2}, ... of a run from zero, its oracle calls, its result.

    The iterates are rebuilt from the answers: X+ = (1 - eta) X + eta V.
    """
    spy = Recording(instance.problem.spectral)
    problem = wp.Problem(instance.loss, instance.problem.penalty, spy)
    result = wp.minimize(problem, solver, eps=eps, seed=seed, **QUIET)
    p = result.parameters
    points = [np.zeros(instance.shape)]
    for _, weight, found in spy.log:
        eta = weight / (2 * p.beta)
        points.append((1 - eta) * points[-1] + eta * found.V.dense())
    assert len(spy.log) == result.counts.svds
    return points, spy.log, result


def epoch_ends(
    problem: wp.Problem, solver: wp.SVRGCG, *, eps: float, seed: int
) -> tuple[list[np.ndarray], Any]:
    """X_2, X_3, ..., X_S of one run, and its result."""
    ends: list[np.ndarray] = []

    def keep(look: Any) -> None:
        if look.step == 0:
            ends.append(look.X.copy())

    return ends, wp.minimize(problem, solver, eps=eps, seed=seed, callback=keep, **QUIET)


@dataclass(frozen=True)
class Averages:
    """f(X_s) - f* over seeds, s = 2..S, with its standard error, and one of the results."""

    mean: np.ndarray
    error: np.ndarray
    results: list[Any]

    @property
    def parameters(self) -> Any:
        return self.results[0].parameters


def average_gaps(
    instance: Instance,
    solver: wp.SVRGCG,
    *,
    eps: float,
    seeds: Iterable[int],
    problem: wp.Problem | None = None,
) -> Averages:
    """Gap of the true, nonsmooth f at every epoch end, averaged over seeds."""
    best = instance.optimum[0]
    gaps, results = [], []
    for seed in seeds:
        ends, result = epoch_ends(problem or instance.problem, solver, eps=eps, seed=seed)
        assert len(ends) == result.parameters.epochs
        assert all(instance.feasible(X) for X in ends)
        gaps.append([instance.value(X) - best for X in ends])
        results.append(result)
    table = np.array(gaps)
    error = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else 0.0
    return Averages(table.mean(axis=0), error + np.zeros(table.shape[1]), results)


def theorem_bound(
    p: Any, *, rate: float, gamma: float = 0.0, delta2: float = 0.0
) -> np.ndarray:
    """C0 rate^(s-1) + (8/7) a delta1 + (23/7) gamma mu + (16/7) delta2 at s = 2..S."""
    s = np.arange(2, p.S + 1)
    fixed = 8 / 7 * p.alpha * p.delta + 23 / 7 * gamma * p.mu + 16 / 7 * delta2
    return p.C0 * rate ** (s - 1.0) + fixed


def smoothed_gap(instance: Instance, mu: float) -> float:
    """The smallest C0 the theorems allow at X_1 = 0, rounding added."""
    zero = instance.smooth_value(np.zeros(instance.shape), mu)
    return (zero - instance.smooth_optimum(mu)[0]) * (1 + 1e-9)


def smoothing_for(instance: Instance, eps: float, delta2: float = 0.0) -> float:
    """mu = 7 eps / (92 gamma), with what delta2 takes off eps."""
    if not instance.gamma:
        return 0.0
    return 7 * (eps - 16 / 7 * delta2) / (92 * instance.gamma)
