"""Part of the soak: 150 random problems, no statement about any of them false."""

import numpy as np
import pytest
from soak.certificates import check, instance

CHUNK = 5


@pytest.mark.parametrize("first", range(0, 150, CHUNK))
def test_no_certificate_is_wrong(first):
    found = [text for seed in range(first, first + CHUNK) for text in check(seed)]
    assert not found, "\n".join(found)


def test_the_instances_cover_every_kind():
    names = [instance(seed).name for seed in range(150)]
    kinds = [
        *("matrix ", "samples ", "dense ", "rank-one ", "sparse ", "sum ", "mean ", "holes "),
        *("custom ", "terms ", "ball", "psd", "norm", "exact", "float32", "max1", "max12"),
        *("k*", "+", "zero-weight", "none", "l1", "net", "rows", "columns", "ridge"),
    ]
    for kind in kinds:
        assert any(kind in name for name in names), kind


def test_an_instance_is_its_seed():
    one, two = instance(7), instance(7)
    assert one.name == two.name
    X = np.ones(one.problem.shape)
    assert one.value(X) == two.value(X)


def test_the_values_here_are_those_of_the_library():
    rng = np.random.default_rng(0)
    for seed in range(60):
        case = instance(seed)
        point = case.problem.spectral.random_point(
            rng, case.problem.shape, 1, case.problem.loss.reference
        )
        X = np.asarray(point.dense())
        value, scale = case.value(X)
        ours = case.problem.value(point)
        assert abs(value - ours) <= 64 * case.eps * (scale + case.cancelled(X)), case.name
        assert case.excess(X.astype(float)) <= 1e-6
