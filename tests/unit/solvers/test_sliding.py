"""Sliding methods and CndG, their Frank-Wolfe projection, where their path is known."""

import numpy as np
import pytest

from weakprox.metering import Budget, Meter, MeteredSpectral
from weakprox.solvers.paper.conditional import Ground, Memory
from weakprox.solvers.paper.sliding import _horizon_free, prox_by_vertices, slide
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


GROUND = Ground(
    eps=0.1, mu=0.0, bias=0.0, alpha=1.0, beta_G=2.0, beta=2.0, beta_term=2.0, sigma=3.0,
    diameter=5.0, n_terms=0,
)  # fmt: skip


def test_a_later_stretch_continues_from_both_sequences():
    """One step of length 1/4 on [-1, 1], whose projection is known."""
    tools = Only(1.0)
    tools.rng, tools.tick = lambda *stream: np.random.default_rng(stream), lambda seen: None
    y, x, at = np.array([[0.8]]), np.array([[0.4]]), []

    def gradient(z, k, size, rng):
        at.append((float(z[0, 0]), k, size))
        return np.array([[0.5]])

    found = slide(
        Memory(y, 2, GROUND, done=6), x, range(7, 8), lambda k: (0.25, 1.0, 1e-9, 11.0),
        gradient, tools, None,
    )  # fmt: skip
    assert at == [(pytest.approx(0.7), 7, 11.0)]
    assert found.other[0, 0] == pytest.approx(-0.1)
    assert found.X[0, 0] == pytest.approx(0.75 * 0.8 - 0.25 * 0.1)
    assert (found.epoch, found.done) == (3, 7)
    assert (y[0, 0], x[0, 0]) == (0.8, 0.4)


def test_steps_of_the_convex_version():
    """gamma_k = 3/(k+2), weight 4L/(k+2), accuracy LD^2/(k(k+1)), of the theorem."""
    rule, steps = _horizon_free(GROUND, 20)
    assert steps.start == 21
    assert rule(1) == pytest.approx((1.0, 8 / 3, 25.0, 9 * 27 / 100))
    assert rule(8) == pytest.approx((0.3, 0.8, 50 / 72, 9 * 1000 / 100))
