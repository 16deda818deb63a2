"""The paper's method, with practical constants."""

import numpy as np
from benchmark_utils.solvers import Called

import weakprox as wp


class Solver(Called):
    """`SVRGCG`; it plans for an absolute accuracy, here in units of f(0)."""

    name = "weakprox SVRGCG"
    requirements = ("pip::weakprox",)
    parameters = {"seconds": [20.0]}  # noqa: RUF012

    def answer(self, tolerance):
        """X, dense."""
        eps = tolerance * 0.5 * float(np.vdot(self.one.M, self.one.M))
        solver = wp.solvers.AdaptiveSVRGCG(rank="estimate")
        result = wp.minimize(
            self.one.problem(), solver, eps=eps, max_seconds=self.seconds, progress=False
        )
        return np.asarray(result.X)
