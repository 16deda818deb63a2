r"""Principal component pursuit, the form of robust PCA without noise.

:math:`\min \|L\|_* + \rho \|S\|_1` over :math:`L + S = M` is the limit of the problem with a
Huber loss,

.. math:: \min_L \; \sum_{ij} H_{\mu\rho}(m_{ij} - l_{ij}) + \mu \|L\|_*,

for small :math:`\mu`, divided by :math:`\mu`. Its dual point q has singular values up to
:math:`\mu` and entries up to :math:`\mu\rho`, so :math:`\langle q, M\rangle / \mu` is a lower
bound for the limit, too (Candes, Li, Ma & Wright, "Robust principal component analysis?",
2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weakprox.certificates.cells import CellsDual
from weakprox.linalg.arrays import DOUBLE, inner, namespace, row_blocks, total, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.cells import Cells
from weakprox.problem import Problem
from weakprox.result import Certificate, Result

FIRST = 0.1  # the first weight, relative to the norm of the data
SHRINK = 0.2  # factor for the weight from one problem to the next
ROUNDS = 12
SHARE = 0.5  # share of the tolerance for each of the problems

Solve = Callable[[float, float, LowRank | None], tuple[Problem, Result]]


def pursued(
    solve: Solve, norm: float, tol: float, ratio: float, rng: np.random.Generator
) -> tuple[Result, float, Certificate]:
    """Solve problems of smaller and smaller weight until the limit is proved to `tol`.

    `solve(weight, tol, start)` solves one of them. Returns the last result, its weight, and
    the certificate of the limit.
    """
    weight, start = FIRST * norm, None
    for _ in range(ROUNDS):
        problem, result = solve(weight, SHARE * tol, start)
        found = limit_certificate(problem, result.low_rank, weight, ratio, rng)
        if found.gap <= tol * abs(found.value) or not result.status.reached:
            break
        weight, start = SHRINK * weight, result.low_rank
    return result, weight, found


def limit_certificate(
    problem: Problem, L: LowRank, weight: float, ratio: float, rng: np.random.Generator
) -> Certificate:
    """The certificate of L as an answer to principal component pursuit."""
    cells, form = problem.cells, problem.of_spectral.form
    assert cells is not None
    assert form is not None
    at = LowRank(wide(L.U), wide(L.s), wide(L.Vt))
    found = CellsDual(cells, form, at).proof(rng)
    t, norm = found.dual.length, found.dual.norm
    absolute, along, size = _sums(cells, at)
    value = at.nuclear_norm + ratio * absolute
    # q is feasible up to rounding, which scaling corrects
    scale = t / weight / max(1.0, norm / weight)
    lower = scale * along - 64 * DOUBLE * scale * size
    allowed = 64 * DOUBLE * value
    return Certificate(value, min(lower, value), found.rests_on, rounding=allowed)


def _sums(cells: Cells, L: LowRank) -> tuple[float, float, float]:
    """Sums of |m - l|, of q m and of |q m| over the cells, q being the dual point at L."""
    left, right = L.U * L.s, L.Vt
    k = cells.threshold
    assert k is not None
    found = []
    for rows in row_blocks(cells.M):
        y, seen = cells.read(rows)
        r = y - left[rows] @ right
        r = r if seen is None else r * seen
        xp = namespace(r)
        q = xp.clip(r, -k, k)
        found.append((total(xp.abs(r)), inner(q, y), inner(xp.abs(q), xp.abs(y))))
    absolute, along, size = (math.fsum(column) for column in zip(*found, strict=True))
    return absolute, along, size
