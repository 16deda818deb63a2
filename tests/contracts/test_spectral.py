"""Every spectral term: the weak-prox inequality, its bounds, and the conjugate."""

import numpy as np
import pytest
from registry import EXACT, SINGLE, SPECTRAL, cases, numbers

from weakprox.checks import check_conjugate, check_weak_prox
from weakprox.protocols import Tolerance
from weakprox.spectral import singular


@pytest.fixture
def iterated(monkeypatch):
    """No full decomposition through a Gram matrix, however small the matrix."""
    monkeypatch.setattr(singular, "gram_is_cheaper", lambda *_: False)


def target(size, seed):
    """A square matrix with a few large singular values, symmetric for the PSD sets."""
    n = size
    noise = numbers(n, n, seed=seed) / np.sqrt(n)
    low = numbers(n, 3, seed=seed + 1)
    A = low @ low.T / np.sqrt(n) + 0.5 * (noise + noise.T)
    return A - 0.5 * np.outer(noise[0], noise[0])


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL))
@pytest.mark.parametrize("rank", [1, 3, 9])
@pytest.mark.parametrize("certify", [False, True])
def test_weak_prox_of_small_matrices(build, backend, rank, certify):
    A = backend.array(target(9, 50))
    check_weak_prox(build(backend), A, rank=rank, certify=certify, weight=1.7)


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL, SINGLE))
@pytest.mark.parametrize("rank", [1, 3, 9])
def test_weak_prox_in_single_precision(build, backend, rank):
    A = backend.array(target(9, 50))
    check_weak_prox(build(backend), A, rank=rank, certify=True)
    check_conjugate(build(backend), A)


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL))
@pytest.mark.parametrize("delta1", [0.0, 0.05])
@pytest.mark.usefixtures("iterated")
def test_weak_prox_by_iteration(build, backend, delta1):
    """Large enough that the block methods run, not LAPACK; with and without slack."""
    term, A = build(backend), backend.array(target(160, 52))
    assert term.weak_prox(A, weight=1.0, rank=4).passes > 0
    check_weak_prox(term, A, rank=4, delta1=delta1, trials=6, certify=True)
    check_weak_prox(term, A, rank=4, delta1=delta1, trials=6)


SINGULAR = {k: v for k, v in SPECTRAL.items() if "psd" not in k}


@pytest.mark.parametrize(("build", "backend"), cases(SINGULAR))
@pytest.mark.parametrize("delta1", [0.0, 0.05])
def test_weak_prox_by_gram_matrix(build, backend, delta1):
    """The same matrices by a full decomposition: no pass, and the point of the iteration."""
    term, A = build(backend), backend.array(target(160, 52))
    found = term.weak_prox(A, weight=1.0, rank=4)
    assert found.passes == 0
    assert found.rests_on == "exact"
    check_weak_prox(term, A, rank=4, delta1=delta1, trials=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(singular, "gram_is_cheaper", lambda *_: False)
        slow = term.weak_prox(A, weight=1.0, rank=4, tolerance=Tolerance(0.0))
    assert slow.passes > 0
    assert float(abs(found.V.dense() - slow.V.dense()).max()) <= 1e-6
    assert found.delta_estimate == pytest.approx(slow.delta_estimate, rel=1e-6, abs=1e-9)
    assert found.delta <= slow.delta + 1e-9  # all values are known


@pytest.mark.parametrize(("build", "backend"), cases(SINGULAR))
@pytest.mark.parametrize("shape", [(12, 7), (7, 12), (1, 6), (6, 1), (150, 135)])
def test_weak_prox_of_rectangles(build, backend, shape):
    A = backend.array(numbers(*shape, seed=53))
    rank = min(3, *shape)
    check_weak_prox(build(backend), A, rank=rank, trials=6, certify=True)


@pytest.mark.parametrize(("build", "backend"), cases({**SPECTRAL, **EXACT}))
def test_weak_prox_of_zero(build, backend):
    term = build(backend)
    found = term.weak_prox(backend.array(np.zeros((6, 6))), weight=1.0, rank=2)
    assert found.V.rank == 0
    assert float(abs(found.V.dense()).max()) == 0.0
    assert found.lower <= 0.0 <= found.delta


@pytest.mark.parametrize(("build", "backend"), cases(EXACT))
def test_weak_prox_of_the_users_own(build, backend):
    check_weak_prox(build(backend), backend.array(target(6, 54)), rank=6, weight=0.6)


@pytest.mark.parametrize(("build", "backend"), cases({**SPECTRAL, **EXACT}))
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_conjugate(build, backend, scale):
    check_conjugate(build(backend), backend.array(scale * target(8, 55)))


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL))
@pytest.mark.usefixtures("iterated")
def test_looser_tolerance_costs_no_more(build, backend):
    term, A = build(backend), backend.array(target(160, 56))
    passes = [
        term.weak_prox(A, weight=1.0, rank=4, tolerance=Tolerance(delta1)).passes
        for delta1 in (0.0, 1e-3, 1.0)
    ]
    assert passes == sorted(passes, reverse=True)
    if not np.isclose(passes[0], 2):  # heavy thresholds need no accuracy at all
        assert passes[-1] < passes[0]


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL))
@pytest.mark.usefixtures("iterated")
def test_start_is_reused_and_arrays_stay_in_their_namespace(build, backend):
    term, A = build(backend), backend.array(target(160, 57))
    first = term.weak_prox(A, weight=1.0, rank=4)
    again = term.weak_prox(A, weight=1.0, rank=4, start=first.basis)
    assert again.passes <= first.passes
    for x in (first.V.U, first.V.s, first.V.Vt, first.basis):
        assert backend.owns(x)


@pytest.mark.parametrize(("build", "backend"), cases(SPECTRAL))
def test_random_points_are_feasible_and_of_the_rank(build, backend):
    term = build(backend)
    rng = np.random.default_rng(58)
    for rank in (1, 3, 6):
        X = term.random_point(rng, (6, 6), rank, backend.array(np.zeros((1, 1))))
        assert X.rank == rank
        assert term.violation(X) <= 1e-9
        assert np.isfinite(term.value(X))
