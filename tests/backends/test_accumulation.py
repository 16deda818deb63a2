"""float32 data are solved in float32, but no certificate rests on a sum in float32.

The instance: one entry of the residual is 4096, whose square is 2^24, and the others are
one. A running sum in float32 stays at 2^24 for ever, since adding one to it rounds back.
"""

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.linalg.arrays import eps_of, inner, rough_inner, sqnorm, to_numpy, total
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.passes import Step, reference
from weakprox.penalties import L1, ElasticNet
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall

D, BIG, LAM = 300, 4096.0, 0.5
KINDS = {"numpy": np.asarray, "torch": torch.asarray}
by_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


def data(dtype=np.float32):
    M = np.ones((D, D), dtype)
    M[0, 0] = 2 * BIG
    return M


def problem(M, penalty=None):
    return wp.Problem(Denoising(M), penalty or L1(LAM), NuclearBall(BIG))


def running_sum(x):
    """The sum in the array's own precision, one entry after the other."""
    return float(np.add.accumulate(x.ravel())[-1])


@by_kind
@pytest.mark.parametrize("penalty", [L1(LAM), ElasticNet(LAM, 1e-4)], ids=["l1", "net"])
@pytest.mark.parametrize("solver", [DavisYin(), LeanSplitting(), None], ids=repr)
def test_a_sum_in_float32_would_have_proved_a_falsehood(make, penalty, solver):
    exact = wp.minimize(problem(data(np.float64), penalty), tol=1e-9, progress=False)
    found = wp.minimize(problem(make(data()), penalty), solver, tol=1e-3, progress=False)
    assert exact.status is found.status is wp.Status.CERTIFIED
    X = to_numpy(found.X)
    assert X.dtype == np.float32

    # what one would have claimed: a value that no point has
    naive = 0.5 * running_sum((X - data()) ** 2) + penalty.value(X)
    assert naive < exact.certificate.lower_bound - 100 * exact.gap
    assert naive < 0.998 * exact.value

    # what is claimed
    true = problem(data(np.float64), penalty).smooth_value(X.astype(float))
    assert found.value == pytest.approx(true, rel=1e-6)
    assert found.certificate.lower_bound <= exact.value
    outside = 2e-6 * exact.value  # feasible as far as float32 can say
    assert exact.certificate.lower_bound <= found.value + outside
    assert found.value - exact.value <= found.gap


@by_kind
def test_sums_that_proofs_rest_on_are_in_float64(make):
    M = data()
    M[0, 0] = BIG
    expected = BIG**2 + D * D - 1
    assert running_sum(M * M) == BIG**2  # so the case is one
    x = make(M)
    assert sqnorm(x) == inner(x, x) == expected
    assert total(x * x) == expected
    assert rough_inner(x, x) == pytest.approx(expected, rel=32 * eps_of(x))  # an estimate
    assert L1(1.0).value(x) == BIG + D * D - 1
    nothing = LowRank(x[:, :1] * 0, x[0, :1] * 0, x[:1] * 0)
    sums = reference.look(x, x, nothing, Step(1.0, 1.0, 0.0, LAM, LAM))
    assert sums.distance == expected
