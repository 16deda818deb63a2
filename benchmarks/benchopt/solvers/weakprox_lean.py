"""weakprox's splitting in two arrays, the default for large matrices."""

import numpy as np
from benchmark_utils.solvers import Called

import weakprox as wp


class Solver(Called):
    """`LeanSplitting`; another method takes over if proximal points are not low-rank."""

    name = "weakprox LeanSplitting"
    requirements = ("pip::weakprox",)

    def answer(self, tolerance):
        """X, dense."""
        solver = wp.solvers.LeanSplitting()
        result = wp.minimize(self.one.problem(), solver, tol=tolerance, progress=False)
        return np.asarray(result.X)
