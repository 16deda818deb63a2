"""Lower bounds for losses of all cells of a matrix, from the dual point of one X.

Fenchel's inequality gives min f >= D(t q) - h*(t q) for every t, q = -w l'(m, X) and

    D(q) = - sum over cells of  w_ij l*(m_ij, -q_ij / w_ij).

For a Huber loss this is <q, M> - sum q^2/(2 w), which is finite since |q_ij| <= k w_ij. The
conjugate of h needs an upper bound on the largest singular value of q. If the shorter side of
the matrix is not long, it comes from the Gram matrix of q, summed block by block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weakprox.certificates.evidence import OnCells
from weakprox.linalg.arrays import DOUBLE, to_numpy
from weakprox.linalg.bounds import spectral_norm_bound
from weakprox.linalg.decompositions import eigh_error, eigvalsh
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import all_threads
from weakprox.losses.cells import Cells, Sums
from weakprox.passes import ValueForm
from weakprox.protocols import Bound, OwnBound

GRAM = 2000  # length of the shorter side up to which a Gram matrix is cheaper than products
# shares by which q is reduced if rounding took it out of the domain
SHORTER = (0.0, 1e-12, 1e-9)


@dataclass(frozen=True, eq=False)
class CellsDual(OwnBound):
    """The dual point of the cells at X."""

    cells: Cells
    form: ValueForm
    at: LowRank

    def proof(self, rng: np.random.Generator) -> Bound:
        """Return the bound, proved by the best multiple of q."""
        norm, sums, rests_on = self._norm(rng)
        most = length_of(self.form, sums, norm)
        best = (-math.inf, 0.0)
        for less in SHORTER:
            t = most * (1.0 - less)
            found, rounding = self._dual_value(sums, t)
            best = (found - self.form.conjugate(t * norm)[0] - rounding, t)
            if math.isfinite(best[0]):
                break
        lower, t = best
        return Bound(lower, rests_on, OnCells(t, t * norm), self.at)

    def _dual_value(self, sums: Sums, t: float) -> tuple[float, float]:
        """D(t q) and a bound on its rounding error, from the sums if they suffice."""
        if not self.cells.residual:
            return self.cells.dual_value(self.at, t)
        # q m = q (m - x) + q x; the former has one sign, and |q x| is bounded by
        # the Cauchy-Schwarz inequality
        steep = self.cells.smoothness
        across = math.sqrt(steep * sums.square * self.at.sqnorm)
        size = sums.value + 2.0 * sums.square + across
        return sums.dual(t), 64 * DOUBLE * size

    def _norm(self, rng: np.random.Generator) -> tuple[float, Sums, str]:
        """Upper bound on the largest singular value of q, and the sums at X."""
        cells, at = self.cells, self.at
        if min(cells.shape) > GRAM:
            norm, sums = spectral_norm_bound(cells.dual(at), rng, sharp=True), cells.sums(at)
            return norm, sums, "high-probability"
        if cells.shape[0] < cells.shape[1]:
            cells, at = cells.transposed(), LowRank(at.Vt.T, at.s, at.U.T)
        G, size, sums = cells.squares(at)
        with all_threads(int(G.shape[0])):
            largest = float(to_numpy(eigvalsh(0.5 * (G + G.T)))[-1])
        # sums of m products in any order, and the eigenvalue routine
        error = DOUBLE * (cells.shape[0] * size + eigh_error(int(G.shape[0])) * abs(largest))
        # entries of X differ by rounding between this pass and the next
        moved = 4 * DOUBLE * (at.rank + 1) * (math.sqrt(size) + math.sqrt(at.sqnorm))
        return math.sqrt(max(0.0, largest) + error) + moved, sums, "exact"


def length_of(form: ValueForm, sums: Sums, norm: float) -> float:
    """Return the multiple of q in [0, 1] whose bound is best, given the norm of q."""
    if math.isfinite(form.tau):
        return sums.best(form.tau * norm)
    return form.conjugate(norm)[1]


def estimate(form: ValueForm, sums: Sums, norm: float) -> float:
    """Estimate of the bound, given an estimate of the norm of q."""
    t = length_of(form, sums, norm)
    return sums.dual(t) - form.conjugate(t * norm)[0]
