"""The rank of the weak proximal oracle: checked, or estimated from the first steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weakprox.arguments import integer
from weakprox.linalg.arrays import Array
from weakprox.penalties import Smoothed
from weakprox.problem import Problem
from weakprox.protocols import Tolerance
from weakprox.theory._parameters import Parameters
from weakprox.theory._theorems import PILOT
from weakprox.theory.gradients import mean_gradient

if TYPE_CHECKING:
    from weakprox.solvers.tools import Tools


def checked_rank(rank: object) -> None:
    """Raise unless the rank is an integer >= 1 or "estimate"."""
    if not (isinstance(rank, str) and rank == "estimate"):
        integer("rank", rank, 1, instead="'estimate'")


def estimated_rank(problem: Problem, X: Array, p: Parameters, tools: Tools) -> int:
    """Rank of the proximal point after two steps, found by doubling.

    The second step starts from the first one's point, where the penalty's gradient is
    already near its final form. An estimate: the optimum may need more.
    """
    rng = tools.rng(0)
    R = Smoothed.of(problem.penalty, p.mu, problem.shape)
    size = None if p.finite_sum else max(PILOT, p.k_s(1))
    cap = min(problem.shape)
    rank = min(8, cap)
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
