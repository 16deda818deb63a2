"""The convex problem behind `SparseLowRankCovariance`: common variance, and each one's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom, Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.protocols import Loss
from weakprox.result import Result, Status
from weakprox.selection.noise import Values
from weakprox.spectral import TracePSD

SHARE = 0.1  # what an entry of the diagonal counts, beside 1 for the others
LEAST_OWN = (0.005, 0.05)  # of a variance is a variable's own: 1/n between these


class FreeDiagonal(Custom):
    r"""Squared distance to S when a non-negative diagonal may be added at a price.

    .. math:: G(L) = \min_{d \ge 0}\ \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2
              + \tfrac{\rho}{2}\|d\|^2, \qquad \rho = \frac{w}{1 - w}.

    The minimum is at :math:`d_i = (1 - w)(s_{ii} - l_{ii})_+`, so that entries of the
    diagonal count w where they are below those of S, and 1 like all others where they are
    above. Smoothness is 1 and strong convexity w, which is `SHARE`.
    """

    def __init__(self, S: Values) -> None:
        self._S, self._at = S, np.diag_indices(S.shape[0])
        super().__init__(
            (S.shape[0], S.shape[0]),
            value=self._distance,
            grad=self._slope,
            smoothness=1.0,
            term_smoothness=1.0,
            strong_convexity=SHARE,
        )

    def __repr__(self) -> str:
        return f"FreeDiagonal({self.shape[0]} x {self.shape[1]})"

    def _weighted(self, L: Values) -> tuple[Values, Values]:
        """The residual, and the weights of its diagonal."""
        residual = L - self._S
        return residual, np.where(residual[self._at] > 0.0, 1.0, SHARE)

    def _slope(self, L: Values) -> Values:
        residual, weights = self._weighted(L)
        residual[self._at] *= weights
        return residual

    def _distance(self, L: Values) -> float:
        residual, weights = self._weighted(L)
        residual[self._at] *= np.sqrt(weights)
        return 0.5 * float(np.vdot(residual, residual))


def common_problem(S: Values, lam: float, tau: float, *, diagonal: bool) -> Problem:
    """Minimise G(L) + lam |L|_1 over positive semidefinite L of trace at most tau."""
    loss: Loss = FreeDiagonal(S) if diagonal else Denoising(S)
    return Problem(loss, L1(lam), TracePSD(tau))


def cut(result: Result, problem: Problem, rank: int | None) -> Result:
    """The result with its `rank` largest eigenvalues only, judged anew.

    The lower bound is one on the optimum of the problem, whatever point is compared with
    it. Cutting afterwards costs no iterations, and hardly any value where the eigenvalues
    left out are small.
    """
    found = result.low_rank
    if rank is None or found.rank <= rank:
        return result
    leading = np.argsort(-np.asarray(found.s))[:rank]
    kept = LowRank(found.U[:, leading], found.s[leading], found.Vt[leading])
    value = problem.value(kept)
    proof = replace(result.certificate, value=value)
    status = result.status if proof.gap <= result.eps else Status.RANK_LIMITED
    return replace(result, low_rank=kept, value=value, certificate=proof, status=status)


def with_own_variance(L: Values, variances: Values, count: int) -> tuple[Values, Values]:
    """L with a diagonal added that brings it to the given variances, and that diagonal.

    It is at least 1/count of the variance: `count` samples do not show less, and what is
    shown to be nearly nothing would make the inverse huge. So the sum is positive definite.
    """
    least = min(max(LEAST_OWN[0], 1.0 / count), LEAST_OWN[1])
    own: Values = np.maximum(variances - np.diag(L), least * variances)
    whole = np.array(L)
    whole[np.diag_indices_from(whole)] += own
    return whole, own


def scatter(Z: Values) -> Values:
    """Mean of z z' over the rows of Z."""
    found: Values = Z.T @ Z / len(Z)
    return found


def squared(A: Values) -> LowRank:
    """A'A as factors."""
    if not len(A):
        return LowRank.zero((A.shape[1], A.shape[1]), A)
    _, s, Vt = decompositions.svd(A)
    return LowRank(Vt.T, s**2, Vt)
