"""Matrices kept as factors agree with their dense forms."""

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers

from weakprox.linalg import LowRank
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import blend_into

by_backend = pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)


def make(backend, m=7, d=5, r=3, seed=0):
    U, s, Vt = np.linalg.svd(numbers(m, d, seed=seed), full_matrices=False)
    return LowRank(*(backend.array(x) for x in (U[:, :r], s[:r], Vt[:r])))


@by_backend
def test_properties(backend):
    X = make(backend)
    dense = to_numpy(X.dense())
    assert X.shape == (7, 5)
    assert X.rank == 3 == np.linalg.matrix_rank(dense, tol=1e-4)
    assert X.nuclear_norm == pytest.approx(np.linalg.norm(dense, "nuc"), rel=1e-5)
    assert X.sqnorm == pytest.approx((dense**2).sum(), rel=1e-5)
    assert backend.owns(X.dense())


@by_backend
def test_inner(backend):
    X, Y = make(backend), make(backend, r=2, seed=1)
    A = backend.array(numbers(7, 5, seed=2))
    assert X.inner(A) == pytest.approx(float((X.dense() * A).sum()), rel=1e-4)
    assert X.inner(Y) == pytest.approx(float((X.dense() * Y.dense()).sum()), rel=1e-4)


@by_backend
def test_plus(backend):
    X, Y = make(backend), make(backend, r=4, seed=1)
    Z = X.plus(Y, mine=0.3, theirs=-1.5)
    assert to_numpy(Z.dense()) == pytest.approx(
        to_numpy(0.3 * X.dense() - 1.5 * Y.dense()), abs=1e-5
    )
    U, s, Vt = (to_numpy(x) for x in (Z.U, Z.s, Z.Vt))
    assert pytest.approx(np.eye(U.shape[1]), abs=1e-5) == U.T @ U
    assert Vt @ Vt.T == pytest.approx(np.eye(Vt.shape[0]), abs=1e-5)
    assert (np.diff(s) <= 0).all()
    assert (s >= 0).all()


@by_backend
def test_plus_of_opposites_is_zero(backend):
    X = make(backend)
    assert float(abs(X.plus(X, theirs=-1.0).dense()).max()) <= 1e-6 * X.nuclear_norm


@by_backend
def test_trimmed(backend):
    X = make(backend)
    cut = LowRank(X.U, X.s * backend.array([1.0, 1e-3, 0.0]), X.Vt)
    assert cut.rank == 2
    assert cut.trimmed().s.shape[0] == 2
    assert cut.trimmed(1e-2 * float(cut.s[0])).s.shape[0] == 1
    assert cut.trimmed(1e9).s.shape[0] == 1  # one triplet is always kept
    assert float(abs(cut.trimmed().dense() - cut.dense()).max()) <= 1e-6


@by_backend
def test_zero(backend):
    Z = LowRank.zero((4, 3), backend.array(np.ones((4, 3))))
    assert Z.shape == (4, 3)
    assert Z.rank == 0
    assert Z.nuclear_norm == 0.0
    assert float(abs(Z.dense()).max()) == 0.0
    assert backend.owns(Z.U)
    assert Z.plus(make(backend, 4, 3, 2)).trimmed(1e-5).rank == 2


@by_backend
@pytest.mark.parametrize("step", [0.0, 0.25, 1.0])
def test_blend_into(backend, step):
    X, V = backend.array(numbers(300, 200, seed=3)), make(backend, 300, 200, 4, seed=4)
    wanted = (1 - step) * X + step * V.dense()
    before = X
    assert blend_into(X, V, step) is None
    assert before is X
    assert float(abs(X - wanted).max()) <= 1e-5


def test_blend_into_arrays_that_are_not_contiguous():
    X, V = np.asfortranarray(numbers(30, 20, seed=3)), make(DOUBLE[0], 30, 20, 2)
    wanted = 0.5 * X + 0.5 * V.dense()
    blend_into(X, V, 0.5)
    assert pytest.approx(wanted) == X


def test_nuclear_norm_counts_the_lengths_of_vectors():
    U, V = np.array([[3.0, 0.0], [4.0, 0.5]]), np.array([[2.0, 0.0], [0.0, 0.25]])
    X = LowRank(U, np.array([1.0, 6.0]), V)
    assert X.nuclear_norm == pytest.approx(5 * 2 + 6 * 0.5 * 0.25)
    assert X.nuclear_norm >= np.linalg.norm(X.dense(), "nuc")


def test_zero_has_unit_vectors():
    Z = LowRank.zero((4, 3), np.ones(1))
    assert np.linalg.norm(Z.U) == np.linalg.norm(Z.Vt) == 1.0
