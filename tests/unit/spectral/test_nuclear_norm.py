"""NuclearNorm: soft thresholding of singular values, its bounds and conjugate."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers

from weakprox.linalg import LowRank
from weakprox.linalg.arrays import to_numpy
from weakprox.spectral import NuclearNorm

A = numbers(12, 9, seed=170)
S = np.linalg.svd(A, compute_uv=False)


def soft(s, c):
    return np.maximum(s - c, 0.0)


@pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)
@pytest.mark.parametrize(("lam", "weight"), [(0.5, 1.0), (3.0, 0.7), (100.0, 1.0)])
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_weak_prox_soft_thresholds(backend, lam, weight, rank):
    found = NuclearNorm(lam).weak_prox(backend.array(A), weight=weight, rank=rank)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    wanted = (U[:, :rank] * soft(s[:rank], lam / weight)) @ Vt[:rank]
    tol = 1e-4 if backend in SINGLE else 1e-9
    assert to_numpy(found.V.dense()) == pytest.approx(wanted, abs=tol)


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_delta_and_lower_bound(rank, certify):
    lam, weight = 1.2, 0.8
    c = lam / weight

    def objective(p):
        return 0.5 * weight * ((p - S) ** 2).sum() + lam * p.sum()

    best = objective(soft(S, c))
    mine = objective(np.concatenate([soft(S[:rank], c), np.zeros(9 - rank)]))
    found = NuclearNorm(lam).weak_prox(A, weight=weight, rank=rank, certify=certify)
    assert found.lower <= best + 1e-9
    missing = 2 / weight * (mine - best)
    assert missing - 1e-9 <= found.delta
    share = max(0.0, 1 - c / S[rank]) if rank < 9 else 0.0  # (s - c)/s falls with s
    assert found.delta_estimate == pytest.approx(share**2 * (S[rank:] ** 2).sum(), abs=1e-9)
    assert missing <= found.delta_estimate + 1e-9
    if rank == 9:
        assert found.delta <= 1e-9
        assert found.lower == pytest.approx(best)


def test_certified_bounds_of_large_matrices():
    B = numbers(700, 4) @ numbers(4, 640, seed=1) + 0.3 * numbers(700, 640, seed=2)
    s = np.linalg.svd(B, compute_uv=False)
    lam, weight, rank = 20.0, 1.0, 6
    best = 0.5 * ((soft(s, lam) - s) ** 2).sum() + lam * soft(s, lam).sum()
    found = NuclearNorm(lam).weak_prox(
        B, weight=weight, rank=rank, certify=True, rng=np.random.default_rng(2)
    )
    plain = NuclearNorm(lam).weak_prox(B, weight=weight, rank=rank)
    assert found.rests_on == "high-probability"
    assert found.tail >= s[rank]
    assert plain.lower <= found.lower <= best
    assert found.lower >= 0.9 * best
    assert found.delta >= 0.0


def test_conjugate_is_an_indicator():
    rng = np.random.default_rng(0)
    norm = np.linalg.norm(A, 2)
    assert NuclearNorm(1.01 * norm).conjugate(A, rng) == 0.0
    assert NuclearNorm(0.99 * norm).conjugate(A, rng) == np.inf


def test_finite_everywhere():
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    X = LowRank(U, s, Vt)
    assert NuclearNorm(0.5).value(X) == pytest.approx(0.5 * s.sum())
    assert NuclearNorm(0.5).violation(X) == 0.0
