"""Settings that may be "auto", and bounds that may be absent."""

import math

import numpy as np
import pytest

from weakprox import InputError
from weakprox.arguments import bound, flag, nonnegative, or_auto


def test_auto_or_a_checked_value():
    assert or_auto("lam", "auto", nonnegative) is None
    assert or_auto("lam", 2, nonnegative) == 2.0
    with pytest.raises(InputError, match=r"lam: got -1; wanted .* >= 0, or 'auto'"):
        or_auto("lam", -1, nonnegative)
    with pytest.raises(InputError, match="'automatic'"):
        or_auto("lam", "automatic", nonnegative)


@pytest.mark.parametrize("none", [None, math.inf, np.float64("inf")])
def test_no_bound(none):
    assert bound("tau", none) == math.inf


def test_bounds_are_positive():
    assert bound("tau", 3) == 3.0
    for bad in (0.0, -1.0, math.nan, -math.inf, "inf"):
        with pytest.raises(InputError, match="tau"):
            bound("tau", bad)


@pytest.mark.parametrize("value", [np.float64(-1.5), np.float32(-1.5)])
def test_numbers_of_numpy_are_shown_as_numbers(value):
    with pytest.raises(InputError, match=r"^lam: got -1\.5; wanted"):
        nonnegative("lam", value)


def test_flags():
    for value in (True, np.True_):
        assert flag("cv", value) is True
        assert or_auto("cv", value, flag) is True
    assert flag("cv", np.False_) is False
    for bad in (1, 0, "no", None, np.ones(1, bool), np.int64(1)):
        with pytest.raises(InputError, match="True or False"):
            flag("cv", bad)
