"""pyproximal's ADMM, with its nuclear ball."""

import pyproximal  # noqa: F401 (so that benchopt sees whether it is installed)
from benchmark_utils.peers import PENALTIES, packages
from benchmark_utils.solvers import Shown


class Solver(Shown):
    """Quadratic and l1 norm in one proximal map, as a user would write it."""

    name = "pyproximal"
    requirements = ("pip::pyproximal",)
    parameters = {"rho": list(PENALTIES)}  # noqa: RUF012
    test_config = {"rho": 100.0}  # noqa: RUF012

    def begin(self, see):
        """Iterate for ever."""
        packages.pyproximal_admm(self.one, see, 1.0 / self.rho, [0])
