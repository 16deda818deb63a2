"""A run ends when the benchmark's own gap is small enough, or at --max-runs or --timeout."""

import math

from benchopt.stopping_criterion import StoppingCriterion


class GapReached(StoppingCriterion):
    """Stop once the gap to the benchmark's lower bound is at most `goal`."""

    def __init__(self, goal=1e-6, strategy=None, key_to_monitor="gap", minimize=True):
        self.goal = goal
        super().__init__(
            goal=goal, strategy=strategy, key_to_monitor=key_to_monitor, minimize=minimize
        )

    def check_convergence(self, objective_list):
        """Whether the last point is near enough, and how far the way there is."""
        gap = objective_list[-1][self.key_to_monitor_]
        if gap <= self.goal:
            return True, 1.0
        return False, min(1.0, max(0.0, math.log(max(gap, 1e-300)) / math.log(self.goal)))
