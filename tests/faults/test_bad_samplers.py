"""Samplers that raise or return the wrong thing, at the first call or in mid-run."""

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Custom, Denoising, Sensing
from weakprox.penalties import ElasticNet
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)


def broken(rng, k):
    raise RuntimeError("the disk is on fire")


DRAWS = {
    "raises": (broken, "the disk is on fire"),
    "one matrix": (lambda rng, k: M, "shape"),
    "too few": (lambda rng, k: np.zeros((k + 1, *SHAPE)), "shape"),
    "transposed": (lambda rng, k: np.zeros((k, *SHAPE[::-1])), "shape"),
    "nothing": (lambda rng, k: None, "NoneType"),
    "a list": (lambda rng, k: [M] * k, "list"),
    "nan": (lambda rng, k: np.full((k, *SHAPE), np.nan), "NaN"),
    "infinite": (lambda rng, k: np.full((k, *SHAPE), np.inf), "infinite"),
    "complex": (lambda rng, k: np.zeros((k, *SHAPE), dtype=complex), "complex"),
    "text": (lambda rng, k: np.full((k, *SHAPE), "a"), "dtype"),
    "no arguments": (lambda: M, "argument"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_denoising(name):
    sampler, word = DRAWS[name]
    with pytest.raises(wp.SamplerError, match=word) as caught:
        Denoising(sampler=sampler, shape=SHAPE)
    assert caught.value.argument == "sampler"


@pytest.mark.parametrize("name", [n for n in DRAWS if n != "one matrix"])
def test_sensing(name):
    sampler, word = DRAWS[name]

    def measuring(rng, k):
        return sampler(rng, k), np.zeros(k)

    with pytest.raises(wp.SamplerError, match=word if name != "no arguments" else "sampler"):
        Sensing(sampler=measuring, shape=SHAPE)


@pytest.mark.parametrize(
    "answer",
    [
        np.zeros((1, *SHAPE)),
        (np.zeros((1, *SHAPE)),),
        [np.zeros((1, *SHAPE)), np.zeros(1)],
        None,
    ],
    ids=["no b", "one", "list", "none"],
)
def test_sensing_wants_a_pair(answer):
    with pytest.raises(wp.SamplerError, match="pair"):
        Sensing(sampler=lambda rng, k: answer, shape=SHAPE)


@pytest.mark.parametrize("b", [np.zeros((1, 1)), np.array([np.nan]), None, np.zeros(2)])
def test_sensing_measurements(b):
    with pytest.raises(wp.SamplerError, match="sampler's b"):
        Sensing(sampler=lambda rng, k: (np.zeros((k, *SHAPE)), b), shape=SHAPE)


def test_the_cause_is_kept():
    with pytest.raises(wp.SamplerError) as caught:
        Denoising(sampler=broken, shape=SHAPE)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("when", [2, 4, 6])
@pytest.mark.parametrize("how", ["raise", "nan", "shape"])
def test_failures_in_mid_run(when, how):
    """A sampler that works at first: the run ends with the same typed error."""
    calls = 0

    def sampler(rng, k):
        nonlocal calls
        calls += 1
        if calls == when:
            if how == "raise":
                raise OSError("network down")
            return np.full((k, *SHAPE), np.nan) if how == "nan" else M
        return M + 0.1 * rng.standard_normal((k, *SHAPE))

    problem = wp.Problem(Denoising(sampler=sampler, shape=SHAPE), None, NuclearBall(2.0))
    with pytest.raises(wp.SamplerError, match=r"network|NaN|shape"):
        wp.minimize(problem, wp.SVRGCG(2), eps=0.05)


def test_custom_samplers():
    with pytest.raises(wp.SamplerError, match="on fire"):
        Custom(
            SHAPE, value=lambda X, b: 0.0, grad=lambda X, b: X, sampler=broken,
            strong_convexity=1.0,
        )  # fmt: skip


def test_errors_in_the_users_own_gradient_are_the_users():
    with pytest.raises(ZeroDivisionError):
        Custom(SHAPE, value=lambda X: 0.0, grad=lambda X: 1 / 0)


def test_sampler_of_the_wrong_kind_in_mid_run():
    """float64 at first, integers later: still numbers, so still welcome."""
    calls = 0

    def sampler(rng, k):
        nonlocal calls
        calls += 1
        drawn = rng.integers(0, 3, (k, *SHAPE))
        return drawn.astype(float) if calls == 1 else drawn

    problem = wp.Problem(
        Denoising(sampler=sampler, shape=SHAPE), ElasticNet(0.0, 0.1), NuclearBall(2.0)
    )
    result = wp.minimize(problem, wp.SVRGCG(2), eps=5.0)
    assert result.X.dtype == np.float64
