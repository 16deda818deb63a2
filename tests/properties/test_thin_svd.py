"""Thin decompositions against LAPACK on all sorts of matrices."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weakprox.linalg import thin_eigh, thin_svd


@st.composite
def matrices(draw):
    """Shapes from slivers to squares, spectra with ties, gaps, zeros and wild scales."""
    m, d = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = min(m, d)
    kind = draw(st.sampled_from(["flat", "falling", "ties", "deficient", "gap"]))
    s = {
        "flat": rng.uniform(0.5, 1.0, k),
        "falling": 0.5 ** np.arange(k),
        "ties": rng.choice([1.0, 0.3], k),
        "deficient": np.where(np.arange(k) < max(1, k // 3), 1.0, 0.0),
        "gap": np.where(np.arange(k) < 2, 1.0, 1e-6),
    }[kind]
    scale = 10.0 ** draw(st.integers(-100, 100))
    U = np.linalg.qr(rng.standard_normal((m, k)))[0]
    V = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return scale * (U * s) @ V.T


ranks = st.integers(1, 8)


@settings(max_examples=60)
@given(matrices(), ranks, st.sampled_from(["auto", "block"]))
def test_thin_svd(A, rank, method):
    found = thin_svd(A, rank, method=method, tol=1e-9)
    true = np.linalg.svd(A, compute_uv=False)
    rank = min(rank, *A.shape)
    U, s, Vt = found.triplets.U, found.triplets.s, found.triplets.Vt
    scale = true[0]
    assert s.shape == (rank,)
    assert np.abs(s - true[:rank]).max() <= 1e-7 * scale
    assert np.abs(U.T @ U - np.eye(rank)).max() <= 1e-9
    assert np.abs(Vt @ Vt.T - np.eye(rank)).max() <= 1e-9
    left, right = A @ Vt.T - U * s, A.T @ U - Vt.T * s
    residuals = np.maximum(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))
    assert residuals.max() <= 1e-8 * scale
    assert np.abs(found.residuals - residuals).max() <= 1e-12 * scale
    if rank < len(true):
        assert found.next_value <= true[rank] + 1e-7 * scale


@settings(max_examples=60)
@given(matrices(), ranks, st.booleans())
def test_thin_eigh(A, rank, full):
    n = min(A.shape)
    S = A[:n, :n] + A[:n, :n].T
    found = thin_eigh(S, rank, full=full, tol=1e-9)
    true = np.linalg.eigvalsh(S)[::-1]
    rank, scale = min(rank, n), np.abs(true).max()
    w, V = found.values, found.vectors
    assert np.abs(w - true[:rank]).max() <= 1e-7 * scale
    assert np.abs(V.T @ V - np.eye(rank)).max() <= 1e-9
    assert np.linalg.norm(S @ V - V * w, axis=0).max() <= 1e-7 * scale


@settings(max_examples=30)
@given(matrices(), ranks)
def test_warm_start_never_hurts(A, rank):
    cold = thin_svd(A, rank, method="block", tol=1e-9)
    warm = thin_svd(A, rank, method="block", tol=1e-9, start=cold.basis)
    assert warm.passes <= max(cold.passes, 4)
    assert np.abs(warm.triplets.s - cold.triplets.s).max() <= 1e-7 * max(
        cold.triplets.s[0], 1e-300
    )
