"""No hidden copies between host and device: what crosses in an iteration is counted."""

import numpy as np
import pytest
import torch
from backends._traffic import (
    READS_PER_ITERATION,
    READS_WHEN_GRADED,
    SUMS,
    WRITES_PER_ITERATION,
    WRITES_WHEN_GRADED,
    counted,
)

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.solvers import LeanSplitting
from weakprox.solvers.davis_yin import FIRST_WIDTH
from weakprox.spectral import NuclearBall

D = 300
LARGEST = 3 * FIRST_WIDTH**2  # entries that may cross at once
PROOF_READS = 20  # of the start, and of the proof at the end


def instance(dtype=torch.float32):
    """The paper's: of rank 3, sparse, under noise."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((D, 3)) < D**-0.5, rng.integers(1, 11, (D, 3)), 0)
    M = torch.asarray(Y @ Y.T + rng.standard_normal((D, D)), dtype=dtype)
    return wp.Problem(Denoising(M), L1(2.0), NuclearBall(0.9 * float(np.sum(Y * Y))))


def run(problem, **options):
    with counted() as traffic:
        result = wp.minimize(problem, LeanSplitting(), progress=False, **options)
    return result, traffic


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_iteration_reads_a_few_numbers(dtype):
    steps = run(instance(dtype), eps=1e-30, max_svds=14)[1].per_iteration
    assert len(steps) >= 10
    warm = steps[:3]  # then the spectrum of the target is graded, in this small instance
    assert max(reads for reads, _ in warm) <= READS_PER_ITERATION
    assert max(writes for _, writes in warm) <= WRITES_PER_ITERATION
    assert max(reads for reads, _ in steps) <= READS_WHEN_GRADED
    assert max(writes for _, writes in steps) <= WRITES_WHEN_GRADED


def test_nothing_of_the_size_of_the_data_crosses():
    result, traffic = run(instance(), tol=1e-5)
    assert result.status is wp.Status.CERTIFIED
    assert traffic.calls["look"] >= 1
    assert max(traffic.reads + traffic.writes) <= LARGEST
    assert LARGEST < D * D / 100
    assert len(traffic.reads) <= READS_WHEN_GRADED * traffic.advances + PROOF_READS


def test_passes_over_the_data_are_those_of_the_documentation():
    """Five in an iteration: three in the pass that moves on, and two products."""
    traffic = run(instance(), tol=1e-4)[1]
    start, *later = traffic.before
    assert start == {"first": 1, "times": 2, "transpose_times": 2}
    for a, b in zip([start, *later], later, strict=False):
        assert b - a == {"times": 1, "transpose_times": 1}
    proof = traffic.calls - traffic.before[-1]
    assert proof["look"] == 2  # the sums of the proof, and the value of the answer
    assert proof["times"] + proof["transpose_times"] <= 2 + 1 + 7


def test_the_answer_stays_where_the_data_are():
    with counted() as traffic:
        result = wp.minimize(instance(), LeanSplitting(), tol=1e-4, progress=False)
        before = len(traffic.reads)
        assert isinstance(result.X, torch.Tensor)
        assert len(traffic.reads) == before


def test_the_count_sees_every_way_out():
    x = torch.ones(7, 5)
    ways = [
        (lambda: float(x.sum()), [1]),
        (lambda: bool((x > 0).all()), [1]),
        (lambda: x[0].tolist(), [5]),
        (lambda: x.cpu().numpy(), [35]),
        (lambda: np.asarray(x), [35]),
        (lambda: x.sum().item(), [1]),
        (lambda: x + x, []),
    ]
    for way, expected in ways:
        with counted() as traffic:
            way()
        assert traffic.reads == expected
    with counted() as traffic:
        torch.asarray(np.ones((4, 3)))
    assert traffic.writes == [12]
    assert SUMS < LARGEST
