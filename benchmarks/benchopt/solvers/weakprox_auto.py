"""weakprox as a user calls it: the solver is chosen, the answer comes with a proof."""

import numpy as np
from benchmark_utils.solvers import Called

import weakprox as wp


class Solver(Called):
    """`wp.minimize(problem, tol=...)`, the problem's construction on the clock."""

    name = "weakprox"
    requirements = ("pip::weakprox",)

    def answer(self, tolerance):
        """X, dense."""
        return np.asarray(wp.minimize(self.one.problem(), tol=tolerance, progress=False).X)
