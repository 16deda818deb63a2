"""Dykstra's proximal splitting: nothing to tune."""

from benchmark_utils.peers import Full, Partial, splittings
from benchmark_utils.solvers import Shown


class Solver(Shown):
    """Ascent of the dual with step one; or accelerated, with partial SVDs."""

    name = "Dykstra"
    requirements = ("numpy", "scipy")
    parameters = {"accelerated": [False, True]}  # noqa: RUF012

    def begin(self, see):
        """Iterate for ever."""
        if self.accelerated:
            project = Partial(self.one.tau, passes=4)
            splittings.accelerated_dual(self.one, project, see, rough=True)
        else:
            splittings.dykstra(self.one, Full(self.one.tau), see)
