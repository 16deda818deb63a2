"""Two kinds of solvers: methods that show every point, and calls that end at a tolerance."""

import contextlib

import numpy as np
from benchopt import BaseSolver

from benchmark_utils.peers import Enough
from benchmark_utils.stopping import GapReached


class Shown(BaseSolver):
    """A method that calls `see(X)` at each iteration, until that raises."""

    sampling_strategy = "callback"
    stopping_criterion = GapReached(strategy="callback")

    def set_objective(self, one):
        """Keep the instance."""
        self.one, self.X = one, np.zeros(one.shape)

    def run(self, callback):
        """Iterate while benchopt wants more; its clock stops while it judges."""

        def see(X, dual=None):
            self.X = X
            if not callback():
                raise Enough

        with contextlib.suppress(Enough):
            self.begin(see)

    def get_result(self):
        """The last point shown."""
        return {"X": self.X}


class Called(BaseSolver):
    """A call that is given a tolerance and returns an answer."""

    sampling_strategy = "tolerance"
    stopping_criterion = GapReached(strategy="tolerance")

    def set_objective(self, one):
        """Keep the instance."""
        self.one, self.X = one, np.zeros(one.shape)

    def get_next(self, tolerance):
        """A digit more each time."""
        return min(0.1, tolerance / 10.0)

    def run(self, tolerance):
        """One call; the first, without a tolerance, is not one of interest."""
        self.X = self.answer(min(1.0, tolerance))

    def get_result(self):
        """The answer."""
        return {"X": self.X}
