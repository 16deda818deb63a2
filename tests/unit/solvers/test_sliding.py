"""CndG, the Frank-Wolfe projection inside sliding methods, where its path is known."""

import numpy as np
import pytest

from weakprox.metering import Budget, Meter, MeteredSpectral
from weakprox.solvers.paper.sliding import prox_by_vertices
from weakprox.spectral import NuclearBall


class Only:
    """The one tool that CndG uses."""

    def __init__(self, tau):
        self.meter = Meter(Budget())
        self.spectral = MeteredSpectral(NuclearBall(tau), self.meter)


@pytest.mark.parametrize(("slope", "weight"), [(0.5, 1.0), (-0.3, 2.0), (1.2, 3.0)])
def test_on_an_interval_one_exact_step_lands_on_the_minimiser(slope, weight):
    """1 x 1 matrices: the ball is [-1, 1], and the line search is exact."""
    tools, centre = Only(1.0), np.array([[0.6]])
    G = np.array([[slope]])
    u, _ = prox_by_vertices(
        G, centre, weight, 1e-9, None, tools, None, np.random.default_rng(0)
    )
    assert u[0, 0] == pytest.approx(0.6 - slope / weight, abs=1e-12)
    assert tools.meter.counts.svds == 2  # one vertex to move to, one to see that it is done
    assert centre[0, 0] == 0.6  # the caller's point is left alone


def test_a_step_never_leaves_the_set():
    tools = Only(1.0)
    u, _ = prox_by_vertices(
        np.array([[-9.0]]), np.array([[0.2]]), 1.0, 1e-9, None, tools, None, None
    )
    assert u[0, 0] == pytest.approx(1.0)


def test_the_cap_ends_it():
    tools, rng = Only(3.0), np.random.default_rng(1)
    G, centre = rng.standard_normal((6, 5)), np.zeros((6, 5))
    prox_by_vertices(G, centre, 1.0, 1e-12, 4, tools, None, rng)
    assert tools.meter.counts.svds == 4
