"""Matrices and problems for the tests with dask, and what is the same answer."""

import numpy as np

import weakprox as wp
from weakprox.solvers import LeanSplitting

ROWS, COLUMNS, LAM = 500, 120, 0.8


def matrix(rows=ROWS, columns=COLUMNS, rank=3, seed=0):
    """A sparse low-rank matrix under noise, and most of its nuclear norm."""
    rng = np.random.default_rng(seed)
    U = 3 * rng.standard_normal((rows, rank)) * (rng.random((rows, rank)) < 0.1)
    V = 3 * rng.standard_normal((rank, columns)) * (rng.random((rank, columns)) < 0.1)
    X = U @ V
    tau = 0.8 * float(np.linalg.svd(X, compute_uv=False).sum())
    return X + 0.3 * rng.standard_normal(X.shape), tau


def problem(M, tau, penalty=None):
    """The noisy matrix, an l1 norm and a nuclear ball."""
    penalty = wp.penalties.L1(LAM) if penalty is None else penalty
    return wp.Problem(wp.losses.Denoising(M), penalty, wp.spectral.NuclearBall(tau))


def assert_same(one, other, within=1e-10):
    """The same answer in as many steps, relative to its size."""
    assert one.status is other.status
    assert one.counts.svds == other.counts.svds
    assert abs(one.value - other.value) <= within * abs(other.value)
    X, Y = one.X, other.X
    assert np.linalg.norm(X - Y) <= within * np.linalg.norm(Y)


class Staying(LeanSplitting):
    """The method without another one to hand over to, as it is where data are on workers."""

    @staticmethod
    def affordable(problem):
        """Nothing else is."""
        return False
