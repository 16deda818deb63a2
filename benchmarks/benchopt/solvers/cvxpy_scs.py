"""CVXPY with SCS, as a user writes it."""

import cvxpy  # noqa: F401 (so that benchopt sees whether it is installed)
from benchmark_utils.peers import packages
from benchmark_utils.solvers import Called

LARGEST = 100


class Solver(Called):
    """An interior cone of size (m + d) stands for the nuclear norm, hence the limit."""

    name = "CVXPY-SCS"
    requirements = ("pip::cvxpy", "pip::scs")
    parameters = {"seconds": [60.0]}  # noqa: RUF012

    def skip(self, one):
        """Large instances take minutes per digit."""
        if max(one.shape) > LARGEST:
            return True, f"only up to size {LARGEST}: SCS takes minutes beyond"
        return False, None

    def answer(self, tolerance):
        """SCS's X; zero if it has none."""
        found = [0.0 * self.one.M]
        packages.cvxpy_scs(self.one, found.append, tolerance, self.seconds, compress=False)
        return found[-1]
