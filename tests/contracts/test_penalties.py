"""Every penalty: the smoothing sandwich, its constants, and the max form behind them."""

import itertools

import numpy as np
import pytest
from registry import PENALTIES, SHAPE, SINGLE, cases, numbers

from weakprox.checks import check_smoothing


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
def test_smoothing(build, backend):
    check_smoothing(build(backend), backend.array(numbers(*SHAPE)))


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES, SINGLE))
def test_smoothing_in_single_precision(build, backend):
    check_smoothing(build(backend), backend.array(numbers(*SHAPE)))


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
def test_value_is_the_maximum_over_dual_points(build, backend):
    """<K'y, X> - phi(y) + curvature/2 |X|^2 <= R(X), attained by a long dual step."""
    penalty = build(backend)
    X = backend.array(numbers(*SHAPE, seed=40))
    rng = np.random.default_rng(41)
    quadratic = 0.5 * penalty.curvature * float((X * X).sum())

    def reached(y):
        return float((penalty.pull(y) * X).sum()) - penalty.dual_value(y) + quadratic

    value = penalty.value(X)
    for _ in range(20):
        Z = backend.array(10.0 ** rng.uniform(-2, 2) * rng.standard_normal(SHAPE))
        assert reached(penalty.ascend(None, Z, 1.0)) <= value + 1e-9
        assert reached(penalty.feasible(penalty.ascend(None, Z, 1.0))) <= value + 1e-9
    attained = penalty.ascend(None, X, 1e9)
    assert reached(attained) == pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
def test_feasible_leaves_dual_points_alone(build, backend):
    penalty = build(backend)
    X = backend.array(numbers(*SHAPE, seed=42))
    y = penalty.ascend(None, X, 0.7)
    moved = penalty.feasible(y)
    assert float(abs(penalty.pull(moved) - penalty.pull(y)).max()) <= 1e-12


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
@pytest.mark.parametrize("geometry", ["paper", "euclidean"])
def test_dual_step_is_as_lipschitz_as_asked(build, backend, geometry):
    """`pull` after a step of size t from the centre moves at most t |X - Z|."""
    penalty = build(backend)
    rng = np.random.default_rng(43)
    for t in (0.1, 3.0):
        for _ in range(10):
            X = backend.array(rng.standard_normal(SHAPE))
            Z = X + backend.array(0.3 * rng.standard_normal(SHAPE))
            a = penalty.pull(penalty.ascend(None, X, t, geometry=geometry))
            b = penalty.pull(penalty.ascend(None, Z, t, geometry=geometry))
            moved = float(((a - b) ** 2).sum()) ** 0.5
            assert moved <= t * float(((X - Z) ** 2).sum()) ** 0.5 * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
def test_arrays_stay_in_their_namespace(build, backend):
    penalty = build(backend)
    X = backend.array(numbers(*SHAPE))
    assert backend.owns(penalty.pull(penalty.ascend(None, X, 1.0)))
    assert type(penalty.value(X)) is float
    assert type(penalty.distance(penalty.ascend(None, X, 1.0))) is float


@pytest.mark.parametrize(("build", "backend"), cases(PENALTIES))
def test_dual_ascent_reaches_the_value(build, backend):
    """Repeated steps from the last y climb to R(X): what dual methods will rely on."""
    penalty = build(backend)
    X = backend.array(numbers(*SHAPE, seed=44))
    quadratic = 0.5 * penalty.curvature * float((X * X).sum())
    y, heights = None, []
    for _ in range(60):
        y = penalty.ascend(y, X, 50.0)
        heights.append(float((penalty.pull(y) * X).sum()) - penalty.dual_value(y) + quadratic)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(heights))
    assert heights[-1] == pytest.approx(penalty.value(X), rel=1e-3, abs=1e-6)
