"""Largest eigenpairs of symmetric matrices, against LAPACK."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers
from scipy.sparse.linalg import aslinearoperator

from weakprox.errors import DecompositionError
from weakprox.linalg import _thin_svd, thin_eigh
from weakprox.linalg.arrays import to_numpy


def with_values(w, seed=0):
    V = np.linalg.qr(numbers(len(w), len(w), seed=seed))[0]
    A = (V * np.asarray(w, dtype=float)) @ V.T
    return (A + A.T) / 2


def verify(A, found, rank, tol):
    true = np.linalg.eigvalsh(np.asarray(A, dtype=float))[::-1]
    scale = max(abs(true).max(), 1e-300)
    w, V = to_numpy(found.values).astype(float), to_numpy(found.vectors).astype(float)
    assert w == pytest.approx(true[:rank], abs=tol * scale)
    assert pytest.approx(np.eye(rank), abs=max(10 * tol, 1e-9)) == V.T @ V
    residuals = np.linalg.norm(A @ V - V * w, axis=0)
    stated = to_numpy(found.residuals).astype(float)
    assert stated == pytest.approx(residuals, abs=max(tol * 1e-2, 1e-12) * scale)
    assert residuals.max() <= 5 * tol * scale
    if rank < len(true):
        assert found.next_value <= true[rank] + max(tol, 1e-12) * scale


SPECTRA = {
    "falling": 10.0 * 0.85 ** np.arange(160),
    "large negative end": np.concatenate([[5.0, 4.0, 3.0], np.linspace(1, -1000.0, 157)]),
    "all negative": -1.0 - np.arange(160.0),
    "ties": np.array([2.0] * 12 + [1.0] * 40 + [-2.0] * 108),
    "one positive": np.concatenate([[1.0], np.zeros(159)]),
    "zero": np.zeros(160),
    "identity": np.ones(160),
    "symmetric ends": np.concatenate([[7.0, 6.0], np.zeros(156), [-6.0, -7.0]]),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("full", [True, False])
def test_spectra(name, full):
    A = with_values(SPECTRA[name])
    verify(A, thin_eigh(A, 3, full=full), 3, 1e-8)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("full", [True, False, None])
def test_small_sizes(n, full):
    A = with_values(np.linspace(3, -4, n))
    verify(A, thin_eigh(A, 1, full=full), 1, 1e-8)
    verify(A, thin_eigh(A, n + 3, full=full), n, 1e-8)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)
def test_namespaces_and_precisions(backend, full):
    tol = 1e-4 if backend in SINGLE else 1e-8
    A = backend.array(with_values(SPECTRA["falling"]))
    found = thin_eigh(A, 4, full=full, tol=tol / 10)
    verify(to_numpy(A), found, 4, tol)
    for x in (found.values, found.vectors, found.residuals, found.basis):
        assert backend.owns(x)


def test_operators():
    A = with_values(SPECTRA["falling"])
    verify(A, thin_eigh(aslinearoperator(A), 4), 4, 1e-8)


def test_warm_start_takes_fewer_passes():
    A = with_values(SPECTRA["large negative end"])
    cold = thin_eigh(A, 3, full=False)
    E = 1e-7 * numbers(160, 160, seed=3)
    near = A + E + E.T
    warm = thin_eigh(near, 3, start=cold.basis, tol=1e-6, full=False)
    again = thin_eigh(near, 3, tol=1e-6, full=False)
    assert warm.passes < again.passes
    verify(near, warm, 3, 1e-6)


def test_residuals_cost_no_product():
    found = thin_eigh(with_values(SPECTRA["falling"]), 3, full=False)
    assert found.passes == found.sweeps


def test_too_few_sweeps_raise_or_return_what_there_is():
    A = with_values(np.linspace(1, -1, 300))
    with pytest.raises(DecompositionError, match="more sweeps"):
        thin_eigh(A, 3, full=False, max_sweeps=2)
    found = thin_eigh(A, 3, full=False, max_sweeps=2, strict=False)
    assert found.residuals.max() > 1e-8
    assert (found.values <= np.linspace(1, -1, 300)[:3] + 1e-12).all()


def test_small_matrices_on_which_the_block_stalls():
    """Graded values of both signs in 21 rows: restarts do not get there, a full one does."""
    rng = np.random.default_rng(225)
    k = int(rng.integers(3, 25))
    values = 10.0 ** rng.uniform(-rng.uniform(0, 9), 0, k)
    Q = np.linalg.qr(rng.standard_normal((k, k)))[0]
    A = (Q * values * rng.choice([-1, 1], k)) @ Q.T
    verify((A + A.T) / 2, thin_eigh((A + A.T) / 2, 4, full=False, tol=1e-9), 4, 1e-8)


def test_residuals_of_large_matrices_are_bounded_instead_of_computed(monkeypatch):
    monkeypatch.setattr(_thin_svd, "MEASURED", 0)
    for name in ("falling", "symmetric ends", "ties"):
        A = with_values(SPECTRA[name])
        found = thin_eigh(A, 5, full=True)
        residuals = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0)
        assert np.all(found.residuals >= residuals)
        assert found.residuals.max() <= 100 * np.finfo(float).eps * np.abs(A).sum(axis=0).max()
