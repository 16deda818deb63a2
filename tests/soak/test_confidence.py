"""Part of the coverage table: the laws that broke statements before, with fixed seeds."""

import numpy as np
import pytest
from soak.confidence import SETTINGS, allowed, tally
from soak.laws import LAWS

CELLS = [
    ("shift of 10 in 1 %", "coarse", 24),
    ("shift of 2 in 5 %", "coarse", 24),
    ("shift of 1 in 10 %", "coarse", 24),
    ("shift of 10 in 1 %, one entry", "L1, ball", 12),
    ("lognormal, one direction", "coarse", 24),
    ("shift of 10 in 1 %, with noise", "SVRGCG", 12),
    ("shift of 2 in 5 %", "sensing", 6),
]


@pytest.mark.parametrize(("law", "name", "runs"), CELLS)
def test_statements_hold_as_often_as_they_say(law, name, runs):
    setting = next(setting for setting in SETTINGS if setting.name == name)
    found = tally(law, setting, range(runs))
    assert found.runs == runs
    assert found.false <= allowed(runs)
    assert found.stated == runs
    assert found.confident >= 0.6 * runs  # and they are made


@pytest.mark.parametrize("law", LAWS)
def test_laws_have_mean_zero(law):
    N = LAWS[law](np.random.default_rng(0), 20_000, (3, 2))
    assert N.shape == (20_000, 3, 2)
    error = N.std(0) / np.sqrt(len(N))
    assert np.all(np.abs(N.mean(0)) <= 5 * error)
