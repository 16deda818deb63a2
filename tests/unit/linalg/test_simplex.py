"""Projections on the simplex and on its capped version, case by case."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE

from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.simplex import project_capped, project_simplex, threshold

by_backend = pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)


@by_backend
@pytest.mark.parametrize(
    ("s", "tau", "wanted"),
    [
        ([3.0, 1.0], 10.0, [3.0, 1.0]),  # inside: unchanged
        ([3.0, 1.0], 2.0, [2.0, 0.0]),
        ([3.0, 2.0, 1.0], 3.0, [2.0, 1.0, 0.0]),
        ([2.0, 2.0, 2.0], 3.0, [1.0, 1.0, 1.0]),  # ties share
        ([1.0, -5.0], 0.5, [0.5, 0.0]),
        ([-1.0, -5.0], 0.5, [0.0, 0.0]),
        ([1.0, -5.0], 3.0, [1.0, 0.0]),
        ([0.0], 1.0, [0.0]),
        ([1.0, 5.0, 3.0], 4.0, [0.0, 3.0, 1.0]),  # order does not matter
    ],
)
def test_capped(backend, s, tau, wanted):
    p = project_capped(backend.array(s), tau)
    assert backend.owns(p)
    assert to_numpy(p) == pytest.approx(wanted, abs=1e-6)


@by_backend
@pytest.mark.parametrize(
    ("s", "total", "wanted"),
    [
        ([0.2, 0.8], 1.0, [0.2, 0.8]),
        ([0.0, 0.0], 1.0, [0.5, 0.5]),  # below: raised
        ([-3.0, -1.0], 1.0, [0.0, 1.0]),
        ([5.0, 1.0], 2.0, [2.0, 0.0]),
        ([7.0], 3.0, [3.0]),
    ],
)
def test_simplex(backend, s, total, wanted):
    assert to_numpy(project_simplex(backend.array(s), total)) == pytest.approx(wanted, abs=1e-6)


def test_threshold():
    assert threshold(np.array([3.0, 2.0, 1.0]), 3.0) == pytest.approx(1.0)
    assert threshold(np.array([3.0, 2.0, 1.0]), 6.0) == 0.0
    assert threshold(np.array([-3.0]), 1.0) == 0.0
    assert threshold(np.zeros(0), 1.0) == 0.0
    assert project_capped(np.zeros(0), 1.0).shape == (0,)


@pytest.mark.parametrize("size", [1e12, 1e16, 1e20, 1e150, 1e300])
def test_huge_entries(size):
    """The radius is lost against the entries unless they are shifted first."""
    assert project_capped(np.array([size, 0.0]), 1.0) == pytest.approx([1.0, 0.0])
    assert project_simplex(np.array([size, size, 0.0])) == pytest.approx([0.5, 0.5, 0.0])
    assert project_capped(np.array([size, size]), 1e-3 * size) == pytest.approx(
        [5e-4 * size, 5e-4 * size]
    )


@pytest.mark.parametrize("size", [1e-12, 1e-150, 1e-300])
def test_tiny_entries(size):
    assert project_capped(np.array([size, 2 * size]), 1.0).tolist() == [size, 2 * size]
    assert project_capped(np.array([size, 3 * size]), 2 * size) == pytest.approx(
        [0.0, 2 * size]
    )
    assert project_simplex(np.array([size, -size]), 1.0) == pytest.approx([0.5, 0.5])


def test_sum_never_exceeds_the_radius():
    """Feasibility holds in floating point, not only up to rounding."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        tau = 10.0 ** rng.uniform(-6, 6)
        s = tau * 10.0 ** rng.uniform(-2, 4) * rng.exponential(size=rng.integers(1, 40))
        assert project_capped(s, tau).sum() <= tau * (1 + 4e-16)
