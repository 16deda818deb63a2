"""Simplex projections: feasible, optimal by the KKT conditions, idempotent, any scale."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weakprox.linalg.simplex import project_capped, project_simplex, threshold

EPS = np.finfo(float).eps
lengths = st.integers(1, 12)
vectors = lengths.flatmap(
    lambda n: arrays(float, n, elements=st.floats(-100, 100, allow_subnormal=False))
)
radii = st.floats(1e-3, 300)
scales = st.integers(-250, 250).map(lambda k: 10.0**k)


def slack(s, tau):
    return 64 * EPS * len(s) * (np.abs(s).max() + tau)


def check_kkt(s, p, theta, tol):
    """p = (s - theta)_+ is what optimality means for both sets."""
    assert (p >= 0).all()
    assert np.abs(p - np.maximum(s - theta, 0)).max() <= tol


@given(vectors, radii)
def test_capped(s, tau):
    p, theta, tol = project_capped(s, tau), threshold(s, tau), slack(s, tau)
    check_kkt(s, p, theta, tol)
    assert p.sum() <= tau * (1 + 4 * EPS)
    assert theta >= 0
    assert theta <= tol or abs(p.sum() - tau) <= tol  # complementary slackness


@given(vectors, radii)
def test_simplex(s, total):
    p, tol = project_simplex(s, total), slack(s, total)
    assert abs(p.sum() - total) <= tol
    active = p > 0
    assert active.any()
    theta = float((s - p)[active].mean())
    check_kkt(s, p, theta, 4 * tol)


@given(vectors, radii)
def test_idempotent(s, tau):
    p, q = project_capped(s, tau), project_simplex(s, tau)
    assert np.abs(project_capped(p, tau) - p).max() <= slack(s, tau)
    assert np.abs(project_simplex(q, tau) - q).max() <= slack(s, tau)


@given(vectors, vectors, radii)
def test_nearest_and_nonexpansive(s, other, tau):
    n = min(len(s), len(other))
    s, other = s[:n], other[:n]
    p, q = project_capped(s, tau), project_capped(other, tau)
    tol = slack(s, tau) + slack(other, tau)
    assert np.linalg.norm(p - q) <= np.linalg.norm(s - other) + tol
    # every feasible point lies behind the hyperplane through p: (s - p, q - p) <= 0
    assert (s - p) @ (q - p) <= tol * (np.abs(s).sum() + np.abs(other).sum() + tau)


@given(vectors, radii, scales)
def test_scale_does_not_matter(s, tau, scale):
    p, q = project_capped(s, tau), project_capped(scale * s, scale * tau)
    assert np.abs(q - scale * p).max() <= 4 * scale * slack(s, tau)


@given(vectors, radii, st.randoms(use_true_random=False))
def test_order_does_not_matter(s, tau, random):
    order = list(range(len(s)))
    random.shuffle(order)
    assert np.abs(project_capped(s[order], tau) - project_capped(s, tau)[order]).max() <= slack(
        s, tau
    )


@given(vectors, st.integers(0, 300))
def test_huge_shifts_keep_the_radius(s, exponent):
    """Adding a constant to all entries moves nothing: sums must not drown the radius."""
    shift = 10.0**exponent
    moved = s + shift
    p = project_simplex(moved, 1.0)
    assert abs(p.sum() - 1.0) <= 1e-12
    exact = project_simplex(moved - moved.max(), 1.0)
    assert np.abs(p - exact).max() <= 1e-12


@given(vectors)
def test_inside_points_stay(s):
    s = np.abs(s)
    assert np.array_equal(project_capped(s, s.sum() * (1 + 1e-12) + 1e-300), s)
