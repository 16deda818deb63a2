"""Where bounds on what a truncated SVD leaves out are too loose, a full one settles it."""

import math

import numpy as np
import pytest

import weakprox as wp
from weakprox.experiments.instances import instance
from weakprox.run import evaluate


@pytest.fixture
def hard(monkeypatch):
    """A problem whose optimum has a high rank, as if it were too large for exact proofs."""
    for module in ("weakprox.spectral.singular", "weakprox.certificates.split"):
        monkeypatch.setattr(f"{module}.EXACT_BELOW", 0)
    monkeypatch.setattr("weakprox.spectral.singular.gram_is_cheaper", lambda *_: False)
    monkeypatch.setattr(evaluate, "split_bound", lambda *_, **__: (-math.inf, "exact"))
    M, tau, _ = instance(300, 1, 0)
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
    )
    return problem, 1e-4 * float(np.sum(M * M))


def test_a_failed_proof_is_followed_by_a_thorough_one(hard, monkeypatch):
    problem, eps = hard
    ranks = []
    bound = evaluate.lower_bound

    def watched(*args, rank, **options):
        ranks.append(rank)
        return bound(*args, rank=rank, **options)

    monkeypatch.setattr(evaluate, "lower_bound", watched)
    result = wp.minimize(problem, wp.solvers.DavisYin(), eps=eps, max_svds=60)
    assert result.status is wp.Status.CERTIFIED
    assert result.gap <= eps
    assert ranks[0] < 300  # the cheap one first
    assert 300 in ranks


def test_without_it_the_run_continues_for_longer(hard, monkeypatch):
    problem, eps = hard
    thorough = wp.minimize(problem, wp.solvers.DavisYin(), eps=eps, max_svds=60)
    monkeypatch.setattr(evaluate, "THOROUGH", 0)
    cheap = wp.minimize(problem, wp.solvers.DavisYin(), eps=eps, max_svds=60)
    assert cheap.counts.svds > thorough.counts.svds
    assert (cheap.gap <= eps) == (cheap.status is wp.Status.CERTIFIED)
