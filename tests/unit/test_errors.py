"""The exception tree."""

import pickle

import numpy as np
import pytest

import weakprox as wp
from weakprox.arguments import number
from weakprox.errors import DecompositionError


def test_tree():
    for kind in (wp.ShapeError, wp.ConvexityError, wp.SamplerError):
        assert issubclass(kind, wp.InputError)
    assert issubclass(wp.InputError, wp.WeakproxError)
    assert issubclass(wp.InputError, ValueError)  # what callers of NumPy code expect
    assert issubclass(DecompositionError, wp.WeakproxError)


@pytest.mark.parametrize("kind", [wp.InputError, wp.ShapeError, wp.SamplerError])
def test_three_parts_and_one_sentence(kind):
    error = kind("rank", 0, "an integer >= 1")
    assert str(error) == "rank: got 0; wanted an integer >= 1."
    assert (error.argument, error.given, error.wanted) == ("rank", 0, "an integer >= 1")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)


@pytest.mark.parametrize("good", [1, 2.5, np.float32(3.0), np.int64(4), -1])
def test_numbers(good):
    assert number("x", good, "a number") == float(good)


@pytest.mark.parametrize(
    "bad", [None, "3", b"3", True, 1j, [1], np.ones(2), np.nan, np.inf, {}]
)
def test_what_is_no_number(bad):
    with pytest.raises(wp.InputError, match=r"x: got .*; wanted a number"):
        number("x", bad, "a number")
