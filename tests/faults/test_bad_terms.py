"""Bad weights, pieces and callables for penalties and spectral terms."""

import numpy as np
import pytest
from refusals import refused
from registry import numbers

from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, Sum
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

M, A, B = numbers(7, 5), numbers(9, 7, 5), numbers(9)
NAN, INF = np.nan, np.inf


WEIGHTS = [-1.0, NAN, INF, -INF, "a", "1", None, 1j, np.ones(2), [1.0], True]


@pytest.mark.parametrize("bad", WEIGHTS, ids=repr)
def test_penalty_weights(bad):
    refused(lambda: L1(bad), "lam")
    refused(lambda: ElasticNet(bad, 1.0), "lam1")
    refused(lambda: ElasticNet(1.0, bad), "lam2")
    refused(lambda: GroupL2(bad), "lam")
    refused(lambda: L1(1.0) * bad, "factor")
    refused(lambda: MaxAffine(A) * bad, "factor")
    refused(lambda: (L1(1.0) + L1(2.0)) * bad, "factor")


@pytest.mark.parametrize("bad", [*WEIGHTS, 0.0, 0], ids=repr)
def test_spectral_weights(bad):
    refused(lambda: NuclearBall(bad), "tau", "> 0")
    refused(lambda: TracePSD(bad), "tau", "> 0")
    refused(lambda: NuclearNorm(bad), "lam", "> 0")


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ((M,), "A"),
        ((None,), "A"),
        ((A + 0j,), "A"),
        ((np.full((2, 7, 5), "a"),), "A"),
        ((A * NAN,), "A"),
        ((np.zeros((0, 7, 5)),), "A"),
        ((A, B[:3]), "b"),
        ((A, B * NAN), "b"),
        ((A, B + 0j), "b"),
        ((A, np.full(9, "a")), "b"),
        ((A, "text"), "b"),
    ],
)
def test_max_affine(arguments, argument):
    refused(lambda: MaxAffine(*arguments), argument)


def test_groups_and_sums():
    refused(lambda: GroupL2(1.0, "diagonals"), "groups", "rows")
    for other in (3, None, L1, "text"):
        refused(lambda other=other: L1(1.0) + other, "penalty", "penalties only")
        refused(lambda other=other: Sum((other,)), "penalty")
    refused(lambda: Sum(()), "penalty", "empty")


def test_exact():
    for name in ("prox", "value_of", "conjugate_of"):
        good = {"prox": lambda X, w: X, "value_of": lambda X: 0.0}
        refused(lambda name=name, good=good: Exact(**{**good, name: 3}), name, "callable")
