"""Points of a path without a penalty: the singular values of the data, shrunk.

All radii share the decompositions of one matrix. A thin one starts from that of the radius
before. If it is too wide or converges slowly, a full one serves all further radii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import thin_svd
from weakprox.linalg.gram_svd import gram_svd
from weakprox.linalg.lowrank import LowRank
from weakprox.problem import Problem
from weakprox.selection._lean import INEXACT, TINY, Solved

Matrix = np.ndarray[Any, np.dtype[np.float64]]

WIDTH = 8  # triplets of the first decomposition
HIDDEN = 3  # triplets below those that are kept, as a sign that none of these is missing
WIDEST = 0.15  # share of all triplets from which a full decomposition is faster
SWEEPS = 12  # of a thin decomposition after which a full one is faster
LOST = 1e-6  # values, relative to the largest, that squares do not show accurately
NEGLIGIBLE = 1e-14  # values of an answer, relative to the largest, that count as zero


def applies(problem: Problem) -> bool:
    """Return True if the answer has the singular vectors of the data.

    `_lean.applies` must hold.
    """
    step, form = problem.entrywise(), problem.values_form
    if step is None or form is None or form.symmetric:
        return False
    plain = not (step.weighted or step.shifted or step.grouped or step.curvature)
    return plain and not (step.above or step.below)


@dataclass
class Spectrum:
    """The singular triplets of a matrix C, as far as the points so far needed them."""

    C: Matrix
    width: int = WIDTH
    basis: Matrix | None = None
    whole: LowRank | None = None

    @cached_property
    def square(self) -> float:
        """Squared norm of C."""
        return float(np.vdot(self.C, self.C))

    def point(self, problem: Problem, tol: float, seed: int) -> Solved:
        """Solve the problem with the data C; the gap is estimated as in `_lean`."""
        step, form = problem.entrywise(), problem.values_form
        assert step is not None
        assert form is not None
        beta, svds = step.beta, 0

        def kept(s: Matrix) -> Matrix:
            """The values of the answer that are not negligible."""
            p = form.prox(s, 1.0 / beta)
            return p[: max(1, int(np.count_nonzero(p > NEGLIGIBLE * p[0])))]

        def value(s: Matrix, p: Matrix) -> float:
            """The objective."""
            squares = self.square + float(p @ (p - 2.0 * s[: len(p)]))
            return 0.5 * beta * max(0.0, squares) + form.lam * float(p.sum())

        def narrow(s: Matrix) -> bool:
            """Return True if triplets that are kept may be missing."""
            return len(kept(s)) > len(s) - HIDDEN

        def accurate(s: Matrix, residuals: Matrix, after: float) -> bool:
            """Return True if inexact triplets hardly change the objective."""
            p = kept(s)
            r, here = len(p), value(s, p)
            apart = np.maximum(s[:r] - after, s[:r] - p + TINY)
            lost = beta * float(p @ (residuals[:r] ** 2 / apart))
            return lost <= INEXACT * tol * abs(here)

        def enough(s: Matrix, residuals: Matrix, after: float) -> bool:
            """Return True to end a decomposition; a random start needs a second look."""
            if narrow(s):
                return True
            seen.append(value(s, kept(s)))
            change = abs(seen[-1] - seen[-2]) if len(seen) > 1 else math.inf
            settled = self.basis is not None or change <= INEXACT * tol * abs(seen[-1])
            return settled and accurate(s, residuals, after)

        answer = self.whole
        while answer is None and self.width <= WIDEST * min(self.C.shape):
            seen: list[float] = []  # objectives after the sweeps of this decomposition
            how: Any = {"method": "block", "strict": False, "max_sweeps": SWEEPS}
            rng = np.random.default_rng(seed)
            how |= {"start": self.basis, "rng": rng, "accept": enough}
            found = thin_svd(self.C, self.width, **how)
            self.basis, svds = found.basis, svds + 1
            s = np.asarray(found.triplets.s)
            if narrow(s):
                self.width *= 2
            elif accurate(s, np.asarray(found.residuals), found.next_value):
                answer = found.triplets
            else:
                break
        if answer is None:
            answer, svds = self._full(), svds + 1
        s = np.asarray(answer.s)
        p = kept(s)
        r, f = len(p), value(s, p)
        U, Vt = np.ascontiguousarray(answer.U[:, :r]), np.ascontiguousarray(answer.Vt[:r])
        return Solved(LowRank(U, p, Vt), f, INEXACT * tol * abs(f), svds)

    def _full(self) -> LowRank:
        """All triplets that matter, from now on."""
        found = gram_svd(self.C, lambda s: int((s > LOST * s[0]).sum()), min(self.C.shape))
        self.whole = LowRank(*decompositions.svd(self.C)) if found is None else found.triplets
        return self.whole
