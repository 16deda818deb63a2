"""Part of the soak: random problems of all sizes, no statement about any of them false."""

import numpy as np
import pytest
from soak import sampled
from soak.certificates import SAMPLED, check, check_range
from soak.instances import instance
from soak.kit import WIDE
from soak.run import line_of, parsed

CHUNK = 6
EXTREME = [  # seeds chosen for what is rare: see test_the_extremes_are_there
    *(165, 167, 208, 249, 266, 314, 353, 395, 422, 447, 507, 512, 532, 550, 560, 622),
]


@pytest.mark.parametrize("first", range(0, 36, CHUNK))
def test_no_certificate_is_wrong(first):
    found = [text for seed in range(first, first + CHUNK) for text in check(seed, 60)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", EXTREME)
def test_no_certificate_is_wrong_at_the_extremes(seed):
    """Each of these once led to a false bound, a wrong value, a warning or an error."""
    assert check(seed, 60) == []


def test_the_extremes_are_there():
    names = " ".join(instance(seed).name for seed in EXTREME)
    for word in ("e-2", "e+2", "e+6", "float32", "float64", "torch", "1x1", "psd", "exact"):
        assert word in names, word


def test_the_instances_cover_every_kind():
    names = [instance(seed).name for seed in range(250)]
    kinds = [
        *("matrix ", "samples ", "dense ", "rank-one ", "sparse ", "sum ", "mean ", "holes "),
        *("custom ", "terms ", "ball", "psd", "norm", "exact", "float32", "max1", "max12"),
        *("k*", "+", "zero-weight", "none", "l1", "net", "rows", "columns", "ridge", "signed"),
        *(" 1x1 ", "torch", "e+9", "e-9"),
    ]
    for kind in kinds:
        assert any(kind in name for name in names), kind
    assert any(instance(seed).problem.shape[0] == 1 for seed in range(60))
    assert any(instance(seed).problem.shape[1] == 1 for seed in range(60))


def test_an_instance_is_its_seed():
    one, two = instance(7), instance(7)
    assert one.name == two.name
    X = np.ones(one.problem.shape)
    assert one.value(X) == two.value(X)


def test_the_values_here_are_those_of_the_library():
    rng = np.random.default_rng(0)
    ordinary = [seed for seed in range(120) if "lam 1e+00 tau 1e+00" in instance(seed).name]
    checked = 0
    for seed in ordinary:
        case = instance(seed)
        shape = case.problem.shape
        point = case.problem.spectral.random_point(rng, shape, 1, case.problem.loss.reference)
        X = np.asarray(point.dense())
        value, scale = case.value(X)
        if not 1e-12 < scale < 1e12:
            continue  # in float32, beyond what is computed in the user's own units
        ours, checked = case.problem.value(point), checked + 1
        assert abs(value - ours) <= 64 * case.eps * (scale + case.cancelled(X)), case.name
        assert case.excess(X.astype(WIDE)) <= 1e-6
    assert checked >= 20


def test_sampled_problems():
    seeds = [seed for seed in range(6 * SAMPLED) if seed % SAMPLED == SAMPLED - 1]
    count, found, made, missed = check_range(seeds)
    assert (count, found) == (6, [])
    assert 0 <= missed <= made <= 6


def test_misses_are_counted_against_the_confidence():
    assert not sampled.too_many(1000, 50)
    assert not sampled.too_many(1000, 70)
    assert sampled.too_many(1000, 90)


def test_counts_are_read_from_the_last_line():
    found = parsed("noise\nRESULT fuzz executions=1 crashes=2 failures=2\nRESULT fuzz "
                   "executions=5 crashes=0 failures=0\n")  # fmt: skip
    assert found == {"executions": "5", "crashes": "0", "failures": "0"}
    assert line_of("fuzz", found) == "fuzz executions / crashes: 5 / 0"
    assert parsed("nothing") is None
    assert "without a result" in line_of("kills", {})
