"""The paper's Table 2 for given constants: leading terms of the work of five methods."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weakprox.arguments import number
from weakprox.theory._theorems import Parameters


@dataclass(frozen=True)
class Complexity:
    """Leading terms for one method; constants and lower-order terms are left out.

    Attributes
    ----------
    method : str
        "SFW", "SCGS" and "Algorithm 1" (G sampled), "STORC" and "Algorithm 2" (finite sum).
    exact_gradients, stochastic_gradients : float
        Passes over all terms, and gradients of single terms.
    svd_rank : int
        Rank of each decomposition.
    svds : float
        Number of decompositions.
    """

    method: str
    exact_gradients: float
    stochastic_gradients: float
    svd_rank: int
    svds: float

    def __str__(self) -> str:
        return (
            f"{self.method:<12} {self.exact_gradients:>10.3g} "
            f"{self.stochastic_gradients:>10.3g} {self.svd_rank:>5} {self.svds:>10.3g}"
        )


def complexity(p: Parameters, *, tau: float, rank: int) -> tuple[Complexity, ...]:
    """Evaluate the rows of the paper's Table 2.

    Parameters
    ----------
    p : Parameters
        Constants of a problem, from `weakprox.theory.parameters`.
    tau : float
        Radius of the nuclear-norm ball, or bound on the trace.
    rank : int
        Rank of the optimum, which Algorithms 1 and 2 ask of their SVDs.
    """
    tau = number("tau", tau, "a number > 0")
    rounds = max(1.0, math.log(p.C0 / p.eps))  # the table's ln(1/eps), free of units
    condition = p.beta / p.alpha
    linear = p.beta * tau**2 / p.eps  # SVDs of methods that solve linear subproblems
    optimal = p.sigma**2 / (p.alpha * p.eps)
    reduced = p.beta_term**2 * p.beta / p.alpha**3 * rounds
    return (
        Complexity("SFW", 0, p.sigma**2 * p.beta * tau**4 / p.eps**3, 1, linear),
        Complexity("SCGS", 0, optimal, 1, linear),
        Complexity("Algorithm 1", 0, optimal, rank, condition * rounds),
        Complexity("STORC", rounds, condition**2 * rounds, 1, linear),
        Complexity("Algorithm 2", rounds, reduced, rank, condition * rounds),
    )
