"""Matrices of which only the singular values are computed, and runs that end at one."""

import pickle

import numpy as np
import pytest
from registry import DOUBLE, numbers

import weakprox as wp
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank, dense
from weakprox.linalg.whole import Whole, whole_within


def spectrum(kind, size):
    """Singular values that are hard for squares."""
    return {
        "even": np.linspace(3.0, 1.0, size),
        "repeated": np.repeat([5.0, 1e-3], [size // 2, size - size // 2]),
        "graded": 10.0 ** np.linspace(4.0, -12.0, size),
        "deficient": np.r_[np.linspace(9.0, 1.0, size // 3), np.zeros(size - size // 3)],
    }[kind]


@pytest.mark.parametrize("kind", ["even", "repeated", "graded", "deficient"])
@pytest.mark.parametrize("shape", [(40, 40), (70, 30), (30, 70)])
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_a_matrix_within_a_ball(kind, shape, backend):
    """Its bound on the nuclear norm holds and is nearly the norm; factors give it back."""
    least = min(shape)
    U, V = (np.linalg.qr(numbers(n, least, seed=n))[0] for n in shape)
    s = spectrum(kind, least)
    A = (U * s) @ V.T
    size = float(s.sum())
    given = backend.array(A)
    X = whole_within(given, (1 + 1e-3) * size)
    assert X.size <= (1 + 1e-3) * size
    assert size * (1 - 1e-14) <= X.size == X.nuclear_norm
    assert X.size <= size + least * 1e-6 * s[0]
    assert whole_within(given, (1 - 1e-3) * size) is None
    assert "U" not in vars(X)
    assert X.shape == shape
    assert X.most == least
    assert X.sqnorm == pytest.approx(float(s @ s))
    assert np.array_equal(np.asarray(X.dense()), A)
    assert np.array_equal(np.asarray(dense(X, backend.array(0.0 * A))), A)
    assert "U" not in vars(X)
    found = np.asarray((X.U * X.s) @ X.Vt)
    assert np.abs(found - A).max() <= 1e-12 * s[0]
    assert float(np.asarray(X.s).sum()) <= X.size * (1 + 1e-14)
    if kind == "deficient":
        assert X.rank == least // 3


def test_scaled_and_stored_copies_stay_whole():
    A = numbers(12, 9)
    X = whole_within(A, 1e3)
    twice, again = X.scaled(2.0), pickle.loads(pickle.dumps(X))
    assert isinstance(twice, Whole)
    assert np.array_equal(twice.X, 2.0 * A)
    assert twice.size >= 2.0 * X.size
    assert isinstance(again, Whole)
    assert np.array_equal(again.X, A)
    assert not hasattr(X, "another")
    assert isinstance(X.leading(3), LowRank)
    assert X.leading(3).rank == 3


def inactive(size=240, rank=40, share=1.03):
    """A problem whose ball contains the minimiser of the other terms, and that point."""
    rng = np.random.default_rng(5)
    Y = np.where(rng.random((size, rank)) < 0.1, rng.integers(1, 11, (size, rank)), 0.0)
    M = Y @ Y.T + rng.standard_normal((size, size))
    best = M - np.clip(M, -2.0, 2.0)
    tau = share * float(np.linalg.svd(best, compute_uv=False).sum())
    terms = wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
    return wp.Problem(*terms), best


@pytest.fixture
def vectors(monkeypatch):
    """Sizes of the eigenproblems that are solved with vectors."""
    sizes, own = [], decompositions.eigh

    def eigh(A, *args, **options):
        sizes.append(int(A.shape[0]))
        return own(A, *args, **options)

    monkeypatch.setattr(decompositions, "eigh", eigh)
    monkeypatch.setattr("weakprox.linalg.gram_svd.decompositions.eigh", eigh)
    return sizes


def test_an_inactive_ball_needs_no_singular_vectors(vectors):
    """The answer is that without the ball; its factors are computed when they are read."""
    problem, best = inactive()
    least = problem.smooth_value(best)
    result = wp.minimize(problem)
    assert result.solver == "DavisYin"
    assert result.status is wp.Status.CERTIFIED
    assert max(vectors, default=0) < 240
    assert result.violation == 0.0
    assert np.abs(result.X - best).max() <= 1e-12 * np.abs(best).max()
    assert result.value == pytest.approx(least, rel=1e-13)
    assert result.certificate.lower_bound <= least * (1 + 1e-13)
    assert max(vectors, default=0) < 240
    X = result.low_rank
    assert result.rank == np.linalg.matrix_rank(best)
    assert max(vectors) == 240
    assert np.abs((X.U * X.s) @ X.Vt - result.X).max() <= 1e-10 * np.abs(best).max()


def test_a_ball_that_is_slightly_too_small_is_not_inactive():
    """Values alone do not suffice then, and the answer lies on its boundary."""
    problem, best = inactive(share=0.999)
    result = wp.minimize(problem)
    assert result.status is wp.Status.CERTIFIED
    assert result.violation <= 1e-12
    assert result.value >= problem.smooth_value(best)
    assert result.low_rank.nuclear_norm <= problem.spectral.tau * (1 + 1e-12)


def test_the_answer_within_a_ball_survives_files(tmp_path):
    """Checkpoints, results and proofs hold it as other answers."""
    problem, _ = inactive()
    path = tmp_path / "run.safetensors"
    first = wp.minimize(problem, checkpoint=path)
    again = wp.minimize(problem, checkpoint=path, resume=True)
    assert np.array_equal(first.X, again.X)
    assert first.gap == again.gap
    first.proof.save(tmp_path / "proof.npz")
    assert wp.verify(tmp_path / "proof.npz", problem)
