"""The solver that `minimize` takes when none is named."""

from __future__ import annotations

import math

from weakprox.linalg.arrays import itemsize, on_cpu
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.solvers.davis_yin import ARRAYS, DavisYin
from weakprox.solvers.svrgcg import SVRGCG
from weakprox.storage.limits import room


def chosen(problem: Problem, rank: int | None = None) -> Solver:
    """Splitting where it applies and fits, the paper's method for everything else.

    `DavisYin` needs full gradients, a penalty with a proximal map, and memory for some
    arrays more; where it has them, it needs far fewer decompositions than `SVRGCG`.
    """
    reference = problem.loss.reference
    bytes_needed = ARRAYS * math.prod(problem.shape) * itemsize(reference)
    fits = not on_cpu(reference) or bytes_needed <= room()
    if problem.loss.is_finite_sum and problem.penalty.separable and fits:
        return DavisYin(rank=rank)
    return SVRGCG(rank="estimate" if rank is None else rank)
