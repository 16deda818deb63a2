"""1/2 |X - M|^2 + lam |X|_1 over |X|_* <= tau, judged by the benchmark alone.

Value, feasibility and the bounds on the optimum come from `benchmarks/peers`, which uses no
numerical code of weakprox: a point outside the ball is scaled into it before its value
counts, and no number that a solver reports is taken.
"""

from benchmark_utils.peers import E1, judge_of, reference
from benchopt import BaseObjective


class Objective(BaseObjective):
    """Denoising with an l1 norm in a nuclear ball."""

    name = "Low-rank and sparse denoising"
    url = "https://github.com/weakprox/weakprox"
    min_benchopt_version = "1.7"
    requirements = ("numpy", "scipy")

    # How closely, relatively, the benchmark tries to enclose the optimum, and for how long.
    parameters = {"reference_gap": [1e-7], "reference_seconds": [60.0]}  # noqa: RUF012
    test_config = {"reference_gap": 1e-4, "reference_seconds": 5.0}  # noqa: RUF012

    def set_data(self, M, tau, lam):
        """Take the data, and bound the optimum from both sides (kept between runs)."""
        self.one = E1("", M, tau, lam)
        self.judge = judge_of(self.one)
        self.known = reference(self.one, self.judge, self.reference_gap, self.reference_seconds)

    def get_objective(self):
        """What solvers are given: the instance, and nothing about its optimum."""
        return {"one": self.one}

    def evaluate_result(self, X):
        """All from X: value at the feasible point, excess over the ball, distances."""
        value = self.judge.feasible_value(X)
        scale = abs(self.known.lower)
        return {
            "value": value,
            "infeasibility": max(0.0, self.judge.excess(X)),
            "gap": (value - self.known.lower) / scale,  # to the benchmark's own dual bound
            "suboptimality": max(0.0, value - self.known.value) / scale,
        }

    def get_one_result(self):
        """A point for `benchopt test`."""
        return {"X": 0.0 * self.one.M}
