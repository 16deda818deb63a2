"""copt's three-operator splitting, with its trace ball."""

import copt  # noqa: F401 (so that benchopt sees whether it is installed)
from benchmark_utils.peers import PENALTIES, packages
from benchmark_utils.solvers import Shown


class Solver(Shown):
    """A fixed step 1/rho, from soft-thresholded data; its own step is far slower."""

    name = "copt"
    requirements = ("pip::copt",)
    parameters = {"rho": list(PENALTIES)}  # noqa: RUF012
    test_config = {"rho": 100.0}  # noqa: RUF012

    def begin(self, see):
        """Iterate for ever."""
        packages.copt_splitting(self.one, see, 1.0 / self.rho, [0])
