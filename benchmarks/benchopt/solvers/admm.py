"""Over-relaxed ADMM, as one could write it oneself."""

from benchmark_utils.peers import PENALTIES, Full, Partial, splittings
from benchmark_utils.solvers import Shown


class Solver(Shown):
    """Full SVDs, or partial ones that start from the last one's vectors."""

    name = "ADMM"
    requirements = ("numpy", "scipy")
    parameters = {"svd": ["full", "partial"], "rho": list(PENALTIES)}  # noqa: RUF012
    test_config = {"svd": "partial", "rho": 30.0}  # noqa: RUF012

    def begin(self, see):
        """Iterate for ever."""
        tau, rough = self.one.tau, self.svd == "partial"
        project = Partial(tau, passes=1) if rough else Full(tau)
        splittings.admm(self.one, project, see, self.rho, rough=rough)
