"""Many triplets from a wide block: good enough for a proximal step, and never overstated."""

import numpy as np
import pytest
from registry import NUMPY, NUMPY32, TORCH

from weakprox.linalg import thick_svd as module
from weakprox.linalg._thin_svd import OVERSAMPLE
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.thick_svd import columns_for, thick_eigh, thick_svd

SIZE, CUT = (130, 120), 1.0
BACKENDS = [NUMPY, TORCH, NUMPY32]


@pytest.fixture(autouse=True)
def _small_matrices(monkeypatch):
    monkeypatch.setattr(module, "SMALLEST", 100)
    monkeypatch.setattr(module, "LARGEST", 0.6)


def crowded(seed=0, shape=SIZE, largest=300.0):
    """A few large values, then a dense spectrum from above the cut-off to zero."""
    rng = np.random.default_rng(seed)
    U, _, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    s = np.concatenate([[largest, 40.0], np.linspace(1.6, 0.0, min(shape) - 2)])
    return (U * s) @ Vt, Vt.T


def solved(A, start, powers=1, cut=CUT, most=10**6, seed=1):
    def active(s):
        return int((s > cut).sum())

    rng = np.random.default_rng(seed)
    return thick_svd(A, active, lambda s: cut, most, start, rng, powers)


def moved(A, size=0.05, seed=2):
    return A + size * np.random.default_rng(seed).standard_normal(A.shape) / np.sqrt(len(A))


def shrunk(U, s, Vt):
    return (U * np.maximum(s - CUT, 0.0)) @ Vt


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("shape", [SIZE, SIZE[::-1]], ids=str)
def test_the_proximal_point_of_a_nearby_matrix(backend, shape):
    A, V = crowded(shape=shape)
    found = solved(backend.array(moved(A)), backend.array(V[:, :70]), powers=2)
    top = found.triplets
    assert all(backend.owns(x) for x in (top.U, top.s, top.Vt, found.basis, found.residuals))
    true = np.linalg.svd(to_numpy(backend.array(moved(A))).astype(float), full_matrices=False)
    near = shrunk(*(to_numpy(x).astype(float) for x in (top.U, top.s, top.Vt)))
    assert np.linalg.norm(near - shrunk(*true)) <= 0.01 * np.linalg.norm(shrunk(*true)[:, 2:])
    assert top.rank == found.residuals.shape[0] == int((true[1] > CUT).sum())
    assert not found.exact


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_vectors_are_orthonormal_and_residuals_true(backend):
    A, V = crowded(largest=3e4)
    A = backend.array(moved(A))
    found = solved(A, backend.array(V[:, :60]))
    U, s, Vt = (to_numpy(x).astype(float) for x in vars(found.triplets).values())
    dense, eps = to_numpy(A).astype(float), eps_of(A)
    for gram in (U.T @ U, Vt @ Vt.T):
        assert np.abs(gram - np.eye(len(s))).max() <= 1e-9 + 8 * eps
    off = np.maximum(
        np.linalg.norm(dense @ Vt.T - U * s, axis=0),
        np.linalg.norm(dense.T @ U - Vt.T * s, axis=0),
    )
    assert (off <= to_numpy(found.residuals) * (1 + 1e-6) + 8 * eps * s[0]).all()
    above = np.linalg.svd(dense, compute_uv=False)[: len(s)]
    assert (s <= above * (1 + 8 * eps) + 1e-9 * s[0] * (eps < 1e-8) + 8 * eps * s[0]).all()


def test_more_power_steps_are_more_accurate():
    A, V = crowded()
    A, start = moved(A, 0.2), V[:, :60]
    true = np.linalg.svd(A, full_matrices=False)
    errors = []
    for powers in (1, 2, 4):
        top = solved(A, start, powers).triplets
        errors.append(np.linalg.norm(shrunk(top.U, top.s, top.Vt) - shrunk(*true)))
    assert errors[2] < 0.5 * errors[0]
    assert errors[1] < errors[0]


def test_the_basis_improves_the_next_decomposition():
    A, V = crowded()
    A = moved(A, 0.2)
    true = shrunk(*np.linalg.svd(A, full_matrices=False))
    first = solved(A, V[:, :60])
    again = solved(A, first.basis)
    errors = [np.linalg.norm(shrunk(*vars(x.triplets).values()) - true) for x in (first, again)]
    assert errors[1] < 0.5 * errors[0]


def test_a_narrow_start_is_widened():
    A, _ = crowded()
    start = np.random.default_rng(0).standard_normal((SIZE[1], 4))
    found = solved(A, start, powers=3)
    assert found.triplets.rank == int((np.linalg.svd(A, compute_uv=False) > CUT).sum())
    assert found.passes > 7


def test_refusals(monkeypatch):
    A, V = crowded()
    assert solved(A, None) is None
    assert solved(A, V[:, :100]) is None  # as wide as a full decomposition
    assert solved(A, V[:, :40], cut=1e-3) is None  # nearly all triplets count
    assert solved(0.0 * A, V[:, :40]) is None
    assert solved(1e200 * A, V[:, :40]) is None  # squares overflow
    monkeypatch.setattr(module, "SMALLEST", 121)
    assert solved(A, V[:, :40]) is None


def test_a_cap_on_the_rank():
    A, V = crowded()
    found = solved(A, V[:, :60], most=5)
    assert found.triplets.rank == 5
    assert found.next_value > CUT


def test_the_width_reaches_clearly_below_the_cut():
    s = np.linspace(2.0, 0.0, 201)
    assert columns_for(s, 1.0) == 126 + 18
    assert columns_for(s[:10], 1.0) == 10 + OVERSAMPLE
    assert columns_for(0.0 * s, 1.0) == 1 + OVERSAMPLE


def indefinite(seed=0, n=120):
    """A few large values at both ends, and a dense spectrum between -1.2 and 1.6."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    w = np.concatenate([[300.0, 40.0], np.linspace(1.6, -1.2, n - 4), [-2.0, -50.0]])
    return (V * w) @ V.T, V[:, np.argsort(-np.abs(w))]


def eigenpairs(A, start, powers=1, cut=CUT):
    def active(w):
        return int((w > cut).sum())

    return thick_eigh(A, active, lambda w: cut, start, np.random.default_rng(1), powers)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_largest_eigenpairs_of_a_nearby_indefinite_matrix(backend):
    A, V = indefinite()
    near = moved(A)
    near = 0.5 * (near + near.T)
    found = eigenpairs(backend.array(near), backend.array(V[:, :66]), powers=2)
    arrays = found.values, found.vectors, found.basis, found.residuals
    assert all(backend.owns(x) for x in arrays)
    near = to_numpy(backend.array(near)).astype(float)
    true, vectors = np.linalg.eigh(near)
    kept = true > CUT
    w, W = (to_numpy(x).astype(float) for x in arrays[:2])
    assert len(w) == kept.sum()
    assert np.all(np.diff(w) <= 0.0)
    assert np.all(w <= true[::-1][: len(w)] + 8 * eps_of(found.values) * 300.0)

    def shrunk(w, W):
        return (W * np.maximum(w - CUT, 0.0)) @ W.T

    expected = shrunk(true[kept], vectors[:, kept])
    assert np.linalg.norm(shrunk(w, W) - expected) <= 1e-3 * np.linalg.norm(expected)
    R = np.linalg.norm(near @ W - W * w, axis=0)
    rounding = 64 * eps_of(found.values) * 300.0
    assert np.all(to_numpy(found.residuals) + rounding >= R)
    assert found.next_value <= CUT
    assert not found.exact


@pytest.mark.parametrize(
    ("start", "cut"), [(None, CUT), (66, 0.0), (66, 1e-3)], ids=["no start", "none cut", "all"]
)
def test_full_decompositions_are_left_to_others(start, cut):
    A, V = indefinite()
    assert eigenpairs(A, start and V[:, :start], cut=cut) is None
