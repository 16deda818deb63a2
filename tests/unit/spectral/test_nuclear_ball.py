"""NuclearBall: projection against the full-SVD formula, bounds, delta, large matrices."""

import numpy as np
import pytest
from registry import DOUBLE, ROUNDED, SINGLE, numbers

from weakprox.linalg import LowRank
from weakprox.linalg.arrays import to_numpy
from weakprox.protocols import Tolerance
from weakprox.spectral import NuclearBall, singular

A = numbers(12, 9, seed=150)
by_backend = pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)


def projected(s, tau):
    """Projection on {p >= 0, sum p <= tau} by bisection on the threshold."""
    if np.maximum(s, 0).sum() <= tau:
        return np.maximum(s, 0), 0.0
    low, high = 0.0, s.max()
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(s - middle, 0).sum() > tau:
            low = middle
        else:
            high = middle
    return np.maximum(s - high, 0), high


@by_backend
@pytest.mark.parametrize("tau", [0.5, 5.0, 1e3])
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_weak_prox_projects_the_leading_values(backend, tau, rank):
    tol = 1e-4 if backend in SINGLE else 1e-9
    found = NuclearBall(tau).weak_prox(backend.array(A), weight=2.0, rank=rank)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    p, _ = projected(s[:rank], tau)
    assert to_numpy(found.V.dense()) == pytest.approx(
        (U[:, :rank] * p) @ Vt[:rank], abs=tol * 10
    )
    assert found.V.rank <= rank
    assert NuclearBall(tau).violation(found.V) <= (ROUNDED if backend in SINGLE else 0.0)
    assert NuclearBall(tau).value(found.V) == 0.0


@pytest.mark.parametrize("tau", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("rank", [1, 3, 6, 9])
@pytest.mark.parametrize("certify", [False, True])
def test_delta_is_valid_and_no_worse_than_the_formula(tau, rank, certify):
    """psi(V) - min psi <= delta <= 2 tau (s_{r+1} - theta)_+, beyond.md 2a."""
    s = np.linalg.svd(A, compute_uv=False)
    p, theta = projected(s[:rank], tau)
    best, _ = projected(s, tau)
    kept = np.concatenate([p, np.zeros(9 - rank)])
    true = ((kept - s) ** 2).sum() - ((best - s) ** 2).sum()
    found = NuclearBall(tau).weak_prox(A, weight=2.0, rank=rank, certify=certify)
    beyond = s[rank] if rank < 9 else 0.0
    formula = 2 * tau * max(0.0, beyond - theta)
    assert true - 1e-9 <= found.delta
    assert found.delta <= formula + 1e-9
    assert found.delta_estimate == pytest.approx(formula, abs=1e-9)
    assert found.tail >= beyond
    minimum = ((best - s) ** 2).sum()
    assert found.lower <= minimum * (1 + 1e-12) + 1e-12
    assert found.lower >= minimum - found.delta - 1e-9
    assert found.rests_on == "exact"


def test_full_rank_is_exact():
    found = NuclearBall(3.0).weak_prox(A, weight=1.0, rank=9)
    assert found.delta <= 1e-10


@pytest.mark.parametrize("rank", [3, 12])
def test_certified_bounds_of_large_matrices(rank):
    """Above 600 rows and columns no full decomposition is spent: randomised bounds."""
    low = numbers(700, 5) @ numbers(5, 640, seed=1)
    B = low + 0.3 * numbers(700, 640, seed=2)
    term = NuclearBall(900.0)
    s = np.linalg.svd(B, compute_uv=False)
    p, _theta = projected(s[:rank], 900.0)
    best, _ = projected(s, 900.0)
    found = term.weak_prox(B, weight=1.0, rank=rank, certify=True, rng=np.random.default_rng(0))
    minimum = 0.5 * ((best - s) ** 2).sum()
    assert found.passes > 0
    if rank == 12:  # otherwise the Frobenius norm of the rest may be the better bound
        assert found.rests_on == "high-probability"
    assert found.tail >= s[rank]
    assert found.lower <= minimum
    kept = np.concatenate([p, np.zeros(640 - rank)])
    true = ((kept - s) ** 2).sum() - ((best - s) ** 2).sum()
    assert true - 1e-6 <= found.delta
    plain = term.weak_prox(B, weight=1.0, rank=rank)
    assert plain.rests_on == "exact"  # the Frobenius bound: true, but loose
    assert found.delta <= plain.delta
    if rank == 12:  # the gap of the spectrum is covered: the certificate shows it
        assert found.tail < 0.5 * plain.tail
        assert found.delta <= 1e-3 * s[0] ** 2


def test_delta_is_at_most_the_frank_wolfe_gap():
    """It is far below what the rest's energy allows if a small ball hides the rest."""
    B = numbers(700, 5) @ numbers(5, 640, seed=1) + 0.3 * numbers(700, 640, seed=2)
    tau, s = 9.0, np.linalg.svd(B, compute_uv=False)[:3]
    found = NuclearBall(tau).weak_prox(B, weight=1.0, rank=3)
    p, theta = projected(s, tau)
    gap = 2 * (tau * max(found.tail, theta) - (s - p) @ p)
    assert 0.0 < found.delta <= gap * (1 + 1e-9)


@pytest.mark.parametrize("delta1", [1e-6, 1e-2, 1.0])
def test_tolerance_is_kept_by_the_iteration(delta1, monkeypatch):
    monkeypatch.setattr(singular, "gram_is_cheaper", lambda *_: False)
    B = numbers(200, 180) * 0.97 ** np.arange(180)
    rank, tau = 5, 30.0
    s = np.linalg.svd(B, compute_uv=False)
    p, _ = projected(s[:rank], tau)
    wanted = ((np.concatenate([p, np.zeros(175)]) - s) ** 2).sum()
    found = NuclearBall(tau).weak_prox(B, weight=1.0, rank=rank, tolerance=Tolerance(delta1))
    reached = ((found.V.dense() - B) ** 2).sum()
    assert reached <= wanted + delta1
    assert found.passes > 0


def test_conjugate_is_tau_times_the_norm():
    bound = NuclearBall(3.0).conjugate(A, np.random.default_rng(0))
    assert bound == pytest.approx(3.0 * np.linalg.norm(A, 2))
    assert bound >= 3.0 * np.linalg.norm(A, 2)


def test_value_and_violation():
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    X = LowRank(U, s, Vt)
    nuclear = s.sum()
    assert NuclearBall(nuclear * 2).value(X) == 0.0
    assert NuclearBall(nuclear / 2).value(X) == np.inf
    assert NuclearBall(nuclear / 2).violation(X) == pytest.approx(1.0)
    assert NuclearBall(nuclear * (1 - 1e-12)).value(X) == 0.0  # rounding is forgiven
    assert NuclearBall(nuclear * (1 - 1e-7)).value(X) == np.inf


def test_compress_cuts_the_rank():
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    cut = NuclearBall(1.0).compress(A, 3, np.random.default_rng(0))
    assert cut.dense() == pytest.approx((U[:, :3] * s[:3]) @ Vt[:3])


@pytest.mark.parametrize("backend", SINGLE, ids=lambda b: b.name)
def test_single_precision_answers_are_feasible(backend):
    """Casting the projected values must not push their sum beyond tau."""
    for seed in range(60):
        B = backend.array(numbers(20, 15, seed=seed))
        term = NuclearBall(1.7 + 0.1 * seed)
        found = term.weak_prox(B, weight=1.0, rank=6)
        assert to_numpy(found.V.s).sum(dtype=float) <= term.tau
        assert term.violation(found.V) <= ROUNDED
        assert term.value(found.V) == 0.0
